package board

import (
	"time"

	"github.com/runvigil/runvigil/metrics"
)

const (
	// pastStep is the width of the steps in which history is rebuilt from the log.
	pastStep  = time.Minute
	rateEvery = 10 * time.Second
	// shortRate is the span of a point in the series of rows a minute.
	shortRate = time.Minute
)

// setState is the past of one dataset, or of the job.
type setState struct {
	rows    metrics.Series // cumulative
	rate    metrics.Series // rows a minute
	at      time.Time      // newest point
	first   time.Time      // when it was first counted
	count   float64        // then
	rebuilt bool
}

// rebuildFor is how long the log that tells the past is waited for: its history
// may be read after the rows were counted.
const rebuildFor = 2 * time.Minute

// past gives a set the time before its first count, once the log tells it.
func (s *setState) past(b *Board, d *metrics.Dataset, only bool) {
	if s.rebuilt {
		return
	}
	if s.first.IsZero() {
		s.first, s.count = b.now, d.Rows.V
		if !d.Grew.IsZero() && d.Grew.Before(b.now) {
			s.rows.Add(d.Grew, d.Rows.V)
		}
	}
	s.rebuilt = only && b.rebuild(s) || b.now.Sub(s.first) > rebuildFor
}

// keepRates adds a point to the series of rows and of rows a minute of each
// dataset and of the job.
func (b *Board) keepRates(s *metrics.Snapshot) {
	if b.present() != b.now {
		return // nothing is heard: a gap, not a flat line
	}
	now := b.now
	var all []*trail
	whole := len(s.Datasets) > 0
	for i := range s.Datasets {
		d := &s.Datasets[i]
		trails := b.trailsOf(d)
		all = append(all, trails...)
		whole = whole && d.Rows.Known
		if !d.Rows.Known {
			continue
		}
		set := b.sets[d.Path]
		if set == nil {
			set = &setState{}
			b.sets[d.Path] = set
		}
		set.past(b, d, onlyGrowing(s.Datasets, d, b.present()))
		set.add(now, d.Rows.V, trails)
	}
	if whole && s.Job.Rows.Known {
		for i := range s.Datasets {
			if d := &s.Datasets[i]; !b.job.rebuilt && onlyGrowing(s.Datasets, d, b.present()) {
				job := *d
				job.Rows = s.Job.Rows
				b.job.past(b, &job, true)
			}
		}
		b.job.add(now, s.Job.Rows.V, all)
	}
}

func (s *setState) add(now time.Time, rows float64, trails []*trail) {
	if now.Sub(s.at) < rateEvery {
		return
	}
	s.at = now
	s.rows.Add(now, rows)
	if n, over, ok := growth(trails, now.Add(-shortRate), now); ok && over >= shortRate/2 {
		s.rate.Add(now, n/over.Minutes())
	}
}

// onlyGrowing tells whether d is the one dataset that got rows lately.
func onlyGrowing(list []metrics.Dataset, d *metrics.Dataset, now time.Time) bool {
	for i := range list {
		if g := growing(&list[i], now); g != (list[i].Path == d.Path) {
			return false
		}
	}
	return true
}

// rebuild gives the only dataset that grows a past that nobody watched: the
// requests that the log shows as finished since the client began, each of which
// became a row. It is false where no log tells it.
func (b *Board) rebuild(set *setState) bool {
	from := b.clientStart()
	for _, p := range sortedLogs(b.logs) {
		sec := b.logs[p].work.section()
		if sec == nil || sec.last.Before(from) || from.IsZero() {
			continue
		}
		if _, ok := sec.finishedSince(from); !ok {
			continue
		}
		total := set.count
		end := set.first.Truncate(pastStep)
		i := len(sec.finishes)
		for i > 0 && sec.finishes[i-1] > set.first.Unix() {
			i--
		}
		for i > 0 && sec.finishes[i-1] >= end.Unix() {
			i--
			total--
		}
		for t := end; t.After(from) && b.now.Sub(t) < longSpan; t = t.Add(-pastStep) {
			n := 0
			for i > 0 && sec.finishes[i-1] >= t.Add(-pastStep).Unix() {
				i--
				n++
			}
			set.rows.Add(t, total)
			set.rate.Add(t.Add(-pastStep/2), float64(n))
			total -= float64(n)
		}
		return true
	}
	return false
}
