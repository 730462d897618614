package board

import (
	"math"
	"slices"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

const (
	// window is the span of log time over which the definition of "settled" looks.
	window = 5 * time.Minute
	// hop is how often a window is judged, in log time.
	hop = 30 * time.Second
	// flat is the relative difference of two medians below which they are equal.
	flat = 0.20
	// idleGap is the log time without work after which requests are young again.
	idleGap = 2 * time.Minute
	// levelKeep bounds the values from which level and spread are reckoned.
	levelKeep = 2048
	stepKeep  = 15
	// seedUntil is the number of values from which a new level speaks for itself.
	seedUntil = 20
	// halfPoints are needed in each half for a judgement.
	halfPoints = 4
	// meanSpan is over how much of the settled level its means go.
	meanSpan = time.Hour
)

// point is one decode line that counts, summed over DP ranks. NaN is unknown.
type point struct {
	t       time.Time // on the local clock
	running float64
	queued  float64
	perReq  float64
	tps     float64
}

// sums are of the points of one hop whose tokens a request are known.
type sums struct {
	from                    time.Time
	n                       float64
	running, queued, tokens float64
}

// means are of the settled level. Requests of one generation grow together, so
// that tokens a request are a sawtooth, of which one line shows any height.
type means struct {
	over    time.Duration // what they go over
	running float64
	queued  float64 // NaN unknown
	tokens  float64 // live in the pool
	perReq  float64 // tokens over running, each request at each moment alike
	// low and high hold eight of ten hops' tokens a request.
	low, high float64
}

// level follows throughput through peak, ramp and settled level. All its times
// are log times, so history that is read at once gives the same answer as a log
// that was watched line by line.
type level struct {
	pts    []point
	judged time.Time

	settled   bool
	since     time.Time
	failSince time.Time
	vals      []float64 // tok/s since then, thinned evenly when too many
	seed      []float64 // tok/s of the half window before, while there are too few
	stride    int
	skip      int
	valued    int // for which values median and spread were reckoned
	median    float64
	spread    float64
	sums      []sums // of the settled level, meanSpan at most

	peak point

	// started is the newest prefill of a new request, zero where the log shows none.
	started time.Time

	steps  map[int][]float64
	fit    metrics.StepFit
	fitted bool
}

// add takes the next point. Times never go back within one start.
func (l *level) add(p point) {
	if n := len(l.pts); n > 0 {
		last := l.pts[n-1].t
		if p.t.Before(last) {
			return
		}
		if p.t.Sub(last) > idleGap {
			l.restart()
		}
	}
	l.pts = append(l.pts, p)
	if p.tps > l.peak.tps {
		l.peak = p
	}
	l.addStep(p)
	if l.settled {
		l.keep(p.tps)
		l.sum(p)
	}
	if l.judged.IsZero() {
		l.judged = p.t
	}
	if p.t.Sub(l.judged) >= hop {
		l.judged = p.t
		l.judge(p.t)
		l.trim(p.t)
	}
}

// restart begins a new generation of requests; the peak of the start stays.
func (l *level) restart() {
	l.pts = l.pts[:0]
	l.judged = time.Time{}
	l.settled, l.since, l.failSince = false, time.Time{}, time.Time{}
	l.vals, l.sums = nil, nil
}

func (l *level) trim(t time.Time) {
	n := 0 // one point before the window stays: it shows that the window is covered
	for n+1 < len(l.pts) && t.Sub(l.pts[n+1].t) >= window {
		n++
	}
	if n > 0 {
		l.pts = append(l.pts[:0], l.pts[n:]...)
	}
}

// judge decides on the window that ends at t.
func (l *level) judge(t time.Time) {
	ok, full := l.flatWindow(t)
	switch {
	case !full:
		// Too little is known to say that the level ended, or that it began.
	case ok && !l.settled:
		l.settled, l.since, l.failSince = true, t, time.Time{}
		l.vals, l.stride, l.skip, l.valued = nil, 1, 0, 0
		l.seed, l.sums = l.seed[:0], nil
		for _, p := range l.pts {
			if p.t.After(t.Add(-window / 2)) {
				l.seed = append(l.seed, p.tps)
				l.sum(p)
			}
		}
	case ok:
		l.failSince = time.Time{}
	case l.settled && l.failSince.IsZero():
		l.failSince = t
	case l.settled && t.Sub(l.failSince) >= window/2:
		// The two failing windows differ in at least one whole half, so that one
		// burst, which every overlapping window sees, does not end the level.
		l.settled, l.since, l.failSince = false, time.Time{}, time.Time{}
		l.vals, l.sums = nil, nil
	}
}

// sum adds a point to the means.
func (l *level) sum(p point) {
	if math.IsNaN(p.perReq) || p.running <= 0 {
		return
	}
	if n := len(l.sums); n == 0 || p.t.Sub(l.sums[n-1].from) >= hop {
		for n > 0 && p.t.Sub(l.sums[0].from) > meanSpan {
			l.sums, n = append(l.sums[:0], l.sums[1:]...), n-1
		}
		l.sums = append(l.sums, sums{from: p.t})
	}
	s := &l.sums[len(l.sums)-1]
	s.n, s.running, s.queued, s.tokens = s.n+1, s.running+p.running, s.queued+p.queued, s.tokens+p.perReq*p.running
}

// means of the settled level; ok is false where it is not settled.
func (l *level) means() (m means, ok bool) {
	if !l.settled || len(l.sums) == 0 {
		return means{}, false
	}
	var all sums
	per := make([]float64, len(l.sums))
	for i, s := range l.sums {
		all.n, all.running, all.queued, all.tokens = all.n+s.n, all.running+s.running, all.queued+s.queued, all.tokens+s.tokens
		per[i] = s.tokens / s.running
	}
	slices.Sort(per)
	return means{
		over: l.pts[len(l.pts)-1].t.Sub(l.sums[0].from), running: all.running / all.n, queued: all.queued / all.n, tokens: all.tokens / all.n,
		perReq: all.tokens / all.running, low: quantile(per, 0.1), high: quantile(per, 0.9),
	}, true
}

// value gives the settled level in tok/s and half of its interquartile range.
func (l *level) value() (med, spread float64) {
	if n := len(l.vals) + l.stride<<16; n != l.valued {
		l.valued = n
		vals := l.vals
		if len(vals) < seedUntil {
			vals = slices.Concat(l.seed, vals)
		}
		l.median, l.spread = medianSpread(vals)
	}
	return l.median, l.spread
}

// flatWindow compares the halves of the window that ends at t; full is false
// where the points do not cover it.
func (l *level) flatWindow(t time.Time) (ok, full bool) {
	begin, mid := t.Add(-window), t.Add(-window/2)
	var run, per [2][]float64
	var first time.Time
	for _, p := range l.pts {
		if p.t.Before(begin) {
			first = p.t
			continue
		}
		if first.IsZero() {
			first = p.t
		}
		h := 0
		if p.t.After(mid) {
			h = 1
		}
		run[h] = append(run[h], p.running)
		if !math.IsNaN(p.perReq) {
			per[h] = append(per[h], p.perReq)
		}
	}
	for h := range run {
		if len(run[h]) < halfPoints || len(per[h]) < halfPoints {
			return false, false
		}
	}
	if first.After(begin) {
		return false, false
	}
	if !l.started.IsZero() && l.started.Before(mid) {
		return false, true // requests only finish: a job that drains is not settled
	}
	r0, r1 := median(run[0]), median(run[1])
	p0, p1 := median(per[0]), median(per[1])
	return near(r0, r1) && near(p0, p1), true
}

func near(a, b float64) bool {
	return math.Abs(a-b) < flat*max(math.Abs(a), math.Abs(b))
}

func (l *level) keep(v float64) {
	if l.skip > 0 {
		l.skip--
		return
	}
	l.skip = l.stride - 1
	l.vals = append(l.vals, v)
	if len(l.vals) >= levelKeep {
		half := l.vals[:0]
		for i := 0; i < len(l.vals); i += 2 {
			half = append(half, l.vals[i])
		}
		l.vals = half
		l.stride *= 2
	}
}

func (l *level) addStep(p point) {
	if p.running < 1 || p.tps <= 0 {
		return
	}
	if l.steps == nil {
		l.steps = map[int][]float64{}
	}
	k := int(p.running)
	v := append(l.steps[k], p.tps)
	if len(v) > stepKeep {
		v = append(v[:0], v[1:]...)
	}
	l.steps[k] = v
	l.fitted = false
}

// stepFit fits the step time to the median tok/s at each number of running
// requests: the median leaves out lines that a prefill slowed down.
func (l *level) stepFit() metrics.StepFit {
	if l.fitted {
		return l.fit
	}
	l.fitted = true
	keys := make([]int, 0, len(l.steps))
	for k := range l.steps {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	pts := make([]metrics.StepPoint, 0, len(keys))
	for _, k := range keys {
		pts = append(pts, metrics.StepPoint{Running: float64(k), TPS: median(l.steps[k])})
	}
	l.fit = metrics.FitSteps(pts)
	return l.fit
}

// median gives the middle value, the mean of the two middle ones for an even
// number, NaN for none. v is not changed.
func median(v []float64) float64 { return quantile(sorted(v), 0.5) }

func sorted(v []float64) []float64 {
	s := slices.Clone(v)
	slices.Sort(s)
	return s
}

// quantile interpolates linearly in a sorted slice.
func quantile(s []float64, q float64) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	x := q * float64(len(s)-1)
	i := int(x)
	if i+1 >= len(s) {
		return s[len(s)-1]
	}
	return s[i] + (x-float64(i))*(s[i+1]-s[i])
}

// medianSpread gives the median and half of the interquartile range.
func medianSpread(v []float64) (med, spread float64) {
	s := sorted(v)
	return quantile(s, 0.5), (quantile(s, 0.75) - quantile(s, 0.25)) / 2
}
