package board

import (
	"slices"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

const (
	// pastKeep bounds the judgements of a file, which come once a minute.
	pastKeep = 240
	// pastAge is how old a judgement must be to count as the file's past.
	pastAge = 10 * time.Minute
	// idsKeep bounds the row ids that are remembered of one file.
	idsKeep = 200_000
)

// rowsPast is what earlier judgements of a file's newest rows said.
type rowsPast struct {
	points  []pastPoint
	ids     map[uint64]struct{}
	last    []uint64 // ids of the newest judgement, in order
	repeats int      // rows whose id had been seen before
	at      time.Time
	// habit says that ids came again from the first judgement on: the file has
	// several rows an id by design, and nothing tells its samples apart.
	habit bool
}

const (
	habitRows  = 8
	habitShare = 0.2 // of the rows of the first judgement
)

type pastPoint struct {
	at                time.Time
	poor, cut, length float64 // NaN-free: -1 unknown
}

// judge takes a judgement of the newest rows.
func (p *rowsPast) judge(j *metrics.RowsJudged, at time.Time) {
	pt := pastPoint{at, -1, -1, -1}
	if j.Rows > 0 {
		pt.poor = float64(j.Empty+j.Errors) / float64(j.Rows)
	}
	if j.Finished > 0 {
		pt.cut = float64(j.Truncated) / float64(j.Finished)
	}
	if len(j.Lengths) > 0 {
		v := make([]float64, len(j.Lengths))
		for i, n := range j.Lengths {
			v[i] = float64(n)
		}
		pt.length = median(v)
	}
	p.points = append(p.points, pt)
	if over := len(p.points) - pastKeep; over > 0 {
		p.points = slices.Clone(p.points[over:])
	}
	p.seen(j.Hashes, at)
}

// seen counts ids that come again. Two judgements overlap where little was
// written between them, so the new rows are those behind the last one's end.
func (p *rowsPast) seen(ids []uint64, at time.Time) {
	fresh := ids
	for i := range p.last {
		rest := p.last[i:]
		if len(rest) <= len(ids) && slices.Equal(rest, ids[:len(rest)]) {
			fresh = ids[len(rest):]
			break
		}
	}
	first := p.ids == nil
	if first || len(p.ids) > idsKeep {
		p.ids = map[uint64]struct{}{}
	}
	repeats := 0
	for _, id := range fresh {
		if _, again := p.ids[id]; again {
			repeats++
		}
		p.ids[id] = struct{}{}
	}
	if first {
		p.habit = len(fresh) >= habitRows && float64(repeats) > habitShare*float64(len(fresh))
	}
	if repeats > 0 && !p.habit {
		p.repeats, p.at = p.repeats+repeats, at
	}
	p.last = slices.Clone(ids)
}

// usual gives the median of one quantity over the file's past: judgements
// before a moment, at least three.
func (p *rowsPast) usual(before time.Time, of func(pastPoint) float64) metrics.Figure {
	var v []float64
	var at time.Time
	for _, pt := range p.points {
		if x := of(pt); pt.at.Before(before) && x >= 0 {
			v, at = append(v, x), pt.at
		}
	}
	if len(v) < 3 {
		return metrics.Figure{}
	}
	return metrics.Fixed(median(v), at, "earlier rows")
}

// past fills what a dataset's rows were like before.
func (b *Board) past(d *metrics.Dataset, r *rowState) {
	old := b.present().Add(-pastAge)
	d.UsualPoor = r.past.usual(old, func(p pastPoint) float64 { return p.poor })
	start := old
	for _, s := range b.servers {
		if s.alive() && s.s.Started.Before(start) && s.s.Started.After(b.begun) {
			start = s.s.Started // before and after a start
		}
	}
	d.UsualCut = r.past.usual(start, func(p pastPoint) float64 { return p.cut })
	d.UsualLength = r.past.usual(start, func(p pastPoint) float64 { return p.length })
}
