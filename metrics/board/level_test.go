package board

import (
	"math"
	"testing"
	"time"
)

var t0 = time.Date(2026, 2, 24, 11, 0, 0, 0, time.UTC)

// feed adds a point every three seconds for a span; f gives running, tokens a
// request and tok/s by seconds since the beginning.
func feed(l *level, from, to time.Duration, f func(s float64) (running, perReq, tps float64)) {
	for d := from; d < to; d += 3 * time.Second {
		l.started = t0.Add(d)
		r, p, tps := f(d.Seconds())
		l.add(point{t: t0.Add(d), running: r, perReq: p, tps: tps})
	}
}

func steady(float64) (float64, float64, float64) { return 35, 4400, 606 }

func TestSettled(t *testing.T) {
	const m = time.Minute
	for _, c := range []struct {
		name    string
		run     func(l *level)
		settled bool
		since   time.Duration // when settled
	}{
		{"steady from the start needs a whole window", func(l *level) { feed(l, 0, 5*m-10*time.Second, steady) }, false, 0},
		{"steady for a window", func(l *level) { feed(l, 0, 6*m, steady) }, true, 5 * m},
		{"requests still grow", func(l *level) {
			feed(l, 0, 10*m, func(s float64) (float64, float64, float64) { return 35, 500 + 8*s, 606 })
		}, false, 0},
		{"running still falls", func(l *level) {
			feed(l, 0, 10*m, func(s float64) (float64, float64, float64) { return 150 * math.Exp(-s/300), 4000, 900 })
		}, false, 0},
		{"throughput alone decides nothing", func(l *level) {
			feed(l, 0, 6*m, func(s float64) (float64, float64, float64) { return 35, 4400, 300 + 2*s })
		}, true, 5 * m},
		{"19 % is flat", func(l *level) {
			feed(l, 0, 6*m, func(s float64) (float64, float64, float64) {
				if s < 150 {
					return 100, 4000, 900
				}
				return 82, 4000, 800
			})
		}, true, 5 * m},
		{"21 % is not", func(l *level) {
			feed(l, 0, 5*m+5*time.Second, func(s float64) (float64, float64, float64) {
				if s < 150 {
					return 100, 4000, 900
				}
				return 78, 4000, 800
			})
		}, false, 0},
		{"one burst does not end it", func(l *level) {
			feed(l, 0, 10*m, steady)
			feed(l, 10*m, 11*m, func(float64) (float64, float64, float64) { return 70, 2200, 900 })
			feed(l, 11*m, 20*m, steady)
		}, true, 5 * m},
		{"a new level ends it", func(l *level) {
			feed(l, 0, 10*m, steady)
			feed(l, 10*m, 20*m, func(s float64) (float64, float64, float64) { return 35 * math.Exp((s-600)/300), 4400, 606 })
		}, false, 0},
		{"too few points say nothing", func(l *level) {
			for i := range 8 {
				l.add(point{t: t0.Add(time.Duration(i) * 90 * time.Second), running: 35, perReq: 4400, tps: 606})
			}
		}, false, 0},
		{"after a pause requests are young again", func(l *level) {
			feed(l, 0, 10*m, steady)
			feed(l, 13*m, 14*m, steady)
		}, false, 0},
		{"a job that drains is not settled", func(l *level) {
			for d := time.Duration(0); d < 8*m; d += 3 * time.Second {
				if d == 0 {
					l.started = t0
				}
				l.add(point{t: t0.Add(d), running: 7, perReq: 12000, tps: 150})
			}
		}, false, 0},
		{"tokens a request unknown", func(l *level) {
			feed(l, 0, 8*m, func(float64) (float64, float64, float64) { return 35, math.NaN(), 606 })
		}, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l level
			c.run(&l)
			if l.settled != c.settled {
				t.Fatalf("settled %v, want %v", l.settled, c.settled)
			}
			if got := l.since.Sub(t0); c.settled && (got < c.since || got > c.since+time.Minute) {
				t.Errorf("since %s, want about %s", got, c.since)
			}
		})
	}
}

func TestLevelAndSpread(t *testing.T) {
	var l level
	feed(&l, 0, 6*time.Hour, func(s float64) (float64, float64, float64) {
		return 35, 4400, 600 + 20*math.Sin(s)
	})
	med, spread := l.value()
	if math.Abs(med-600) > 2 || spread < 10 || spread > 18 {
		t.Errorf("level %.1f ± %.1f, want 600 ± 14", med, spread)
	}
	if len(l.vals) > levelKeep || len(l.pts) > 200 {
		t.Errorf("memory grows: %d values, %d points", len(l.vals), len(l.pts))
	}
	if l.peak.tps < 619 || l.peak.tps > 620 {
		t.Errorf("peak %.1f", l.peak.tps)
	}
}

func TestPeakStaysAcrossPauses(t *testing.T) {
	var l level
	feed(&l, 0, time.Minute, func(float64) (float64, float64, float64) { return 121, 1151, 1317 })
	feed(&l, 10*time.Minute, 11*time.Minute, steady)
	if l.peak.tps != 1317 || l.peak.running != 121 {
		t.Errorf("peak %+v", l.peak)
	}
}

func TestStepFitOfTheStory(t *testing.T) {
	var l level
	feed(&l, 0, time.Minute, func(float64) (float64, float64, float64) { return 121, 1151, 1317 })
	feed(&l, time.Minute, 2*time.Minute, steady)
	f := l.stepFit()
	if math.Abs(f.A-0.0439) > 0.0005 || math.Abs(f.B-0.000397) > 0.00001 {
		t.Errorf("step time %.4f + %.6f × running, want 0.0439 + 0.000397", f.A, f.B)
	}
	if got := f.TPS(50); math.Abs(got-785) > 5 {
		t.Errorf("785 tok/s at 50 running, got %.0f", got)
	}
}

func TestQuantile(t *testing.T) {
	for _, c := range []struct {
		v    []float64
		want float64
	}{{[]float64{3}, 3}, {[]float64{4, 2}, 3}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 3, 2}, 2.5}} {
		if got := median(c.v); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.v, got, c.want)
		}
	}
	if !math.IsNaN(median(nil)) {
		t.Error("the median of nothing is known")
	}
	if med, spread := medianSpread([]float64{1, 2, 3, 4, 5}); med != 3 || spread != 1 {
		t.Errorf("median and spread %v %v, want 3 1", med, spread)
	}
}
