package tui

import (
	"math"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// ranges are the spans of time that graphs can show.
var ranges = []struct {
	name string
	span time.Duration
}{
	{"1m", time.Minute}, {"10m", 10 * time.Minute}, {"1h", time.Hour},
	{"6h", 6 * time.Hour}, {"24h", 24 * time.Hour}, {"72h", 72 * time.Hour},
}

// defaultRange shows a start, its ramp and what came of it.
const defaultRange = 2

// tiers are the steps and windows in which metrics.Series keeps its points.
var tiers = []struct{ step, window time.Duration }{
	{time.Second, 15 * time.Minute}, {10 * time.Second, 2 * time.Hour},
	{time.Minute, 12 * time.Hour}, {5 * time.Minute, 75 * time.Hour},
}

// column is one cell of a graph's width.
type column struct {
	start time.Time
	max   float64 // NaN where nothing is known
	mean  float64
}

// columns pools a series into n columns that end at end, aligned to absolute
// time. newest is the newest moment of the snapshot: how old end is decides
// which resolution still holds it.
func columns(s *metrics.Series, newest, end time.Time, span time.Duration, n int) []column {
	out := make([]column, max(n, 0))
	if len(out) == 0 {
		return out
	}
	age := max(newest.Sub(end), 0)
	step := metrics.Step(span, n)
	if age > 0 {
		end = end.Add(-step) // the column that holds end would tell of what came later
	}
	var buckets []metrics.Bucket
	width := step
	if native := tierFor(span); age+span <= native.window || age == 0 {
		buckets = s.Columns(end, span, n)
	} else {
		t := tierFor(age + span)
		width = max(t.step, step-step%t.step)
		per := int(width / t.step)
		k := int(span/t.step) + 1
		fine := s.Columns(end, t.window, int(t.window/t.step))
		fine = fine[max(len(fine)-k, 0):]
		last := end.Unix() / int64(t.step/time.Second)
		slots := int64(per)
		first := last/slots - int64(n) + 1
		buckets = make([]metrics.Bucket, n)
		for i, b := range fine {
			col := (last-int64(len(fine)-1-i))/slots - first
			if col >= 0 && col < int64(n) && b.N > 0 {
				merge(&buckets[col], b)
			}
		}
	}
	first := end.Unix()/int64(width/time.Second) - int64(n) + 1
	for i, b := range buckets {
		out[i] = column{start: time.Unix((first+int64(i))*int64(width/time.Second), 0), max: math.NaN(), mean: math.NaN()}
		if b.N > 0 {
			out[i].max, out[i].mean = b.Max, b.Mean()
		}
	}
	return out
}

func merge(b *metrics.Bucket, o metrics.Bucket) {
	if b.N == 0 {
		*b = o
		return
	}
	b.Min, b.Max, b.Sum, b.N = min(b.Min, o.Min), max(b.Max, o.Max), b.Sum+o.Sum, b.N+o.N
}

func tierFor(span time.Duration) struct{ step, window time.Duration } {
	for _, t := range tiers {
		if span <= t.window {
			return t
		}
	}
	return tiers[len(tiers)-1]
}

// at is the value of a series at a moment of the past, from the finest
// resolution that still holds it; unknown where nothing was heard for long.
func at(s *metrics.Series, newest, t time.Time) metrics.Figure {
	if s == nil {
		return metrics.Figure{}
	}
	tier := tierFor(newest.Sub(t) + time.Minute)
	look := max(3*tier.step, 30*time.Second)
	n := int(tier.window / tier.step)
	cols := s.Columns(t, tier.window, n)
	for i := range int(look / tier.step) {
		j := len(cols) - 1 - i
		if j < 0 {
			break
		}
		if cols[j].N > 0 {
			return metrics.Known(cols[j].Mean(), t, 0, "history")
		}
	}
	return metrics.Figure{}
}

func means(cols []column) []float64 {
	out := make([]float64, len(cols))
	for i, c := range cols {
		out[i] = c.mean
	}
	return out
}

func maxima(cols []column) []float64 {
	out := make([]float64, len(cols))
	for i, c := range cols {
		out[i] = c.max
	}
	return out
}

// bridge is how many empty columns lie between two words of a source that
// speaks every interval.
func bridge(every, step time.Duration) int {
	if every <= 0 {
		every = 10 * time.Second
	}
	if step <= 0 {
		return 0
	}
	return int((3*every + step - 1) / step)
}
