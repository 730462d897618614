package metrics

import (
	"math"
	"slices"
	"time"
)

// A Series keeps one quantity over days in bounded memory: four resolutions,
// each a window of buckets that are aligned to absolute time, so that a graph
// column means the same seconds on every redraw. Points may come in any order
// within a window (backfill comes after live points).
//
// Snapshots share buckets with the series that still grows; a bucket group is
// copied when it is written after a snapshot was taken.
type Series struct {
	tiers [len(tierSteps)][]*chunk
	epoch uint64
	last  time.Time
}

const chunkLen = 64

// Steps in seconds and windows in buckets: 15 min, 2 h, 12 h and 75 h.
var (
	tierSteps = [...]int64{1, 10, 60, 300}
	tierKeep  = [...]int64{900, 720, 720, 900}
)

type chunk struct {
	epoch uint64
	base  int64 // slot number of b[0], a multiple of chunkLen
	b     [chunkLen]Bucket
}

// Bucket sums the points of one slot of time. N is 0 where nothing is known.
type Bucket struct {
	Min, Max, Sum float64
	N             int
}

// Mean is the bucket's average, NaN for an empty one.
func (b Bucket) Mean() float64 {
	if b.N == 0 {
		return math.NaN()
	}
	return b.Sum / float64(b.N)
}

func (b *Bucket) add(v float64) {
	if b.N == 0 {
		b.Min, b.Max = v, v
	}
	b.Min, b.Max = min(b.Min, v), max(b.Max, v)
	b.Sum += v
	b.N++
}

func (b *Bucket) merge(o Bucket) {
	if o.N == 0 {
		return
	}
	if b.N == 0 {
		*b = o
		return
	}
	b.Min, b.Max = min(b.Min, o.Min), max(b.Max, o.Max)
	b.Sum += o.Sum
	b.N += o.N
}

// Add puts a point into every resolution whose window still holds t. A point
// that is not finite, or lies before 1970, is dropped.
func (s *Series) Add(t time.Time, v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) || t.Unix() < 0 {
		return
	}
	if t.After(s.last) {
		s.last = t
	}
	for i, step := range tierSteps {
		newest := s.last.Unix() / step
		slot := t.Unix() / step
		if slot <= newest-tierKeep[i] {
			continue
		}
		s.chunk(i, slot).b[slot%chunkLen].add(v)
		s.drop(i, newest)
	}
}

func (s *Series) chunk(tier int, slot int64) *chunk {
	base := slot - slot%chunkLen
	cs := s.tiers[tier]
	i, found := slices.BinarySearchFunc(cs, base, func(c *chunk, b int64) int { return int(c.base - b) })
	if !found {
		c := &chunk{epoch: s.epoch, base: base}
		s.tiers[tier] = slices.Insert(slices.Clip(cs), i, c)
		return c
	}
	if cs[i].epoch != s.epoch {
		c := *cs[i]
		c.epoch = s.epoch
		cs[i] = &c
	}
	return cs[i]
}

func (s *Series) drop(tier int, newest int64) {
	cs := s.tiers[tier]
	n := 0
	for n < len(cs) && cs[n].base+chunkLen <= newest-tierKeep[tier] {
		n++
	}
	s.tiers[tier] = cs[n:]
}

// Snapshot gives a copy that later points do not change. It is cheap.
func (s *Series) Snapshot() *Series {
	s.epoch++
	out := *s
	for i := range out.tiers {
		out.tiers[i] = slices.Clone(s.tiers[i])
	}
	return &out
}

// Last is the time of the newest point, zero without one.
func (s *Series) Last() time.Time {
	if s == nil {
		return time.Time{}
	}
	return s.last
}

// Step is the width of the buckets that Columns gives for a range: the finest
// resolution that covers it with at most n columns, as a multiple of a step.
func Step(span time.Duration, n int) time.Duration {
	n = max(n, 1)
	for i, step := range tierSteps {
		if span <= time.Duration(step*tierKeep[i])*time.Second || i == len(tierSteps)-1 {
			per := int64(math.Ceil(span.Seconds() / float64(step) / float64(n)))
			return time.Duration(max(per, 1)*step) * time.Second
		}
	}
	return 0
}

// Columns gives n buckets that end with the slot of time that holds end. They
// are aligned to absolute time: the same bucket whatever the moment of asking.
func (s *Series) Columns(end time.Time, span time.Duration, n int) []Bucket {
	out := make([]Bucket, max(n, 0))
	if s == nil || n <= 0 {
		return out
	}
	width := Step(span, n)
	tier := len(tierSteps) - 1
	for i, step := range tierSteps {
		if span <= time.Duration(step*tierKeep[i])*time.Second {
			tier = i
			break
		}
	}
	step := tierSteps[tier]
	per := int64(width/time.Second) / step
	first := end.Unix()/(per*step) - int64(n) + 1
	for _, c := range s.tiers[tier] {
		for j := range c.b {
			if c.b[j].N == 0 {
				continue
			}
			col := (c.base+int64(j))/per - first
			if col >= 0 && col < int64(n) {
				out[col].merge(c.b[j])
			}
		}
	}
	return out
}

// Equal compares two series bucket by bucket.
func (s *Series) Equal(o *Series) bool {
	if s == nil || o == nil {
		return s == o
	}
	if !s.last.Equal(o.last) {
		return false
	}
	for i := range s.tiers {
		if !slices.EqualFunc(s.tiers[i], o.tiers[i], func(a, b *chunk) bool { return a.base == b.base && a.b == b.b }) {
			return false
		}
	}
	return true
}
