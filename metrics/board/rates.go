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
	rebuilt bool
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
		if !set.rebuilt {
			set.rebuilt = true
			b.rebuild(set, d, onlyGrowing(s.Datasets, d, b.present()))
		}
		set.add(now, d.Rows.V, trails)
	}
	if whole && s.Job.Rows.Known {
		if !b.job.rebuilt {
			b.job.rebuilt = true
			for i := range s.Datasets {
				if d := &s.Datasets[i]; onlyGrowing(s.Datasets, d, b.present()) {
					job := *d
					job.Rows = s.Job.Rows
					b.rebuild(&b.job, &job, true)
				}
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

// rebuild gives a dataset a past that nobody watched: its newest mtime, an
// earlier visit's count, and for the only one that grows the requests that the
// log shows as finished since the client began, each of which became a row.
func (b *Board) rebuild(set *setState, d *metrics.Dataset, only bool) {
	if !d.Grew.IsZero() && d.Grew.Before(b.now) {
		set.rows.Add(d.Grew, d.Rows.V)
	}
	if !only {
		return
	}
	from := b.clientStart()
	for _, p := range sortedLogs(b.logs) {
		sec := b.logs[p].work.section()
		if sec == nil || sec.last.Before(from) || from.IsZero() {
			continue
		}
		if _, ok := sec.finishedSince(from); !ok {
			continue
		}
		total := d.Rows.V
		end := b.now.Truncate(pastStep)
		i := len(sec.finishes)
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
		return
	}
}
