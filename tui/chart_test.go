package tui

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

func ramp(n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = float64(i)
	}
	return v
}

func TestPlotHoldsItsSize(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for name, v := range map[string][]float64{
		"rising": ramp(40), "flat": {5, 5, 5, 5}, "one": {3}, "gap": {1, nan, nan, 4, 5}, "infinite": {1, inf, -inf, 2},
		"huge": {1e300, 1, 2}, "negative": {-5, 3, -1}, "lone": {nan, 7, nan}, "ends": {nan, 1, 2, nan},
	} {
		for _, h := range []int{2, 3, 9, 30} {
			for _, ascii := range []bool{false, true} {
				c := plot(v, 100, h, axis, ascii)
				if c.empty || len(c.rows) != h {
					t.Fatalf("%s: %d rows of %d, empty %v", name, len(c.rows), h, c.empty)
				}
				for _, row := range c.rows {
					if w := textWidth(row); w != labelWidth+1+len(v) {
						t.Errorf("%s: row %q has %d cells, want %d", name, row, w, labelWidth+1+len(v))
					}
				}
			}
		}
	}
	for name, v := range map[string][]float64{"none": nil, "unknown": {nan, nan}, "only infinite": {inf}} {
		if c := plot(v, 100, 5, axis, false); !c.empty {
			t.Errorf("%s is drawn: %q", name, c.rows)
		}
	}
	if c := plot(ramp(5), math.NaN(), 5, axis, false); !c.empty {
		t.Error("a plot without a bound is drawn")
	}
}

// A gap stays a gap: the columns in it are blank.
func TestPlotGap(t *testing.T) {
	v := ramp(10)
	v[4], v[5] = math.NaN(), math.NaN()
	for _, row := range plot(v, 10, 11, axis, false).rows {
		cells := []rune(row)
		if s := strings.TrimSpace(string(cells[labelWidth+1+5])); s != "" {
			t.Errorf("the gap holds %q in %q", s, row)
		}
	}
}

func TestGapFill(t *testing.T) {
	n := math.NaN()
	v := []float64{n, 1, n, n, 2, n, n, n, 3, n}
	gapFill(v, 2)
	want := []float64{n, 1, 1, 1, 2, n, n, n, 3, n}
	for i := range want {
		if v[i] != want[i] && !(math.IsNaN(v[i]) && math.IsNaN(want[i])) {
			t.Fatalf("gapFill = %v", v)
		}
	}
}

func TestScaleIsCalm(t *testing.T) {
	var s scale
	flat := func(v float64) []float64 {
		out := make([]float64, 50)
		for i := range out {
			out[i] = v
		}
		return out
	}
	steps := []struct {
		v     []float64
		floor float64
		want  float64
		why   string
	}{
		{flat(606), 100, 800, "the first values"},
		{flat(640), 100, 800, "a little more"},
		{flat(580), 100, 800, "a little less"},
		{flat(1317), 100, 1400, "it grows at once"},
		{flat(900), 100, 1400, "it holds on while more than half is used"},
		{flat(606), 100, 1400, "and still"},
		{flat(500), 100, 500, "it shrinks when less than half is used"},
		{flat(2), 130, 140, "noise of a quiet hour is not zoomed"},
	}
	for _, c := range steps {
		if got := s.fit(c.v, c.floor); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: upper %v, want %v", c.why, got, c.want)
		}
	}
	spiky := flat(600)
	spiky[20] = 90000
	var fresh scale
	if got := fresh.fit(spiky, 100); got > 1000 {
		t.Errorf("one spike flattens the rest: upper %v", got)
	}
}

func TestNiceCeil(t *testing.T) {
	for v, want := range map[float64]float64{0: 1, -3: 1, math.Inf(1): 1, 1: 1, 1.01: 1.2, 606: 800, 1317: 1400, 99: 100, 0.97: 1, 150: 160} {
		if got := niceCeil(v); math.Abs(got-want) > 1e-9 {
			t.Errorf("niceCeil(%v) = %v, want %v", v, got, want)
		}
	}
}

func TestSparkAndBar(t *testing.T) {
	if got := spark([]float64{0, 50, 100, math.NaN(), 1000}, 100, false); got != "▁▄▇ ▇" {
		t.Errorf("spark = %q", got)
	}
	if got := spark([]float64{0, 50, 100}, 100, true); got != "_=#" {
		t.Errorf("ascii spark = %q", got)
	}
	if got := spark([]float64{0, 0}, 0, false); got != "▁▁" {
		t.Errorf("spark of zeros = %q", got)
	}
	for _, share := range []float64{-1, 0, 0.1, 0.5, 0.97, 1, 7, math.NaN()} {
		for w := range 30 {
			for _, ascii := range []bool{true, false} {
				full, rest := bar(share, w, ascii)
				if textWidth(full)+textWidth(rest) != w {
					t.Errorf("bar(%v, %d) = %q %q", share, w, full, rest)
				}
			}
		}
	}
}

// A column means the same seconds whenever it is asked for, and moves by one
// bucket at a time.
func TestColumnsAreAligned(t *testing.T) {
	s := sceneSettled()
	series := s.Series[metrics.SeriesKey{What: metrics.SeriesGenTPS, Of: storyServer}]
	first := columns(series, s.At, s.At, time.Hour, 57)
	step := first[1].start.Sub(first[0].start)
	for i := range 300 {
		end := s.At.Add(time.Duration(i) * time.Second)
		cols := columns(series, end, end, time.Hour, 57)
		d := cols[0].start.Sub(first[0].start)
		if d%step != 0 {
			t.Fatalf("after %d s the columns moved by %s, not by whole columns of %s", i, d, step)
		}
		k := int(d / step)
		for j := range len(cols) - k - 1 {
			if a, b := cols[j].max, first[j+k].max; a != b && !(math.IsNaN(a) && math.IsNaN(b)) {
				t.Fatalf("after %d s column %d changed from %v to %v", i, j, b, a)
			}
		}
	}
}

// The past is drawn from the resolution that still holds it.
func TestColumnsOfThePast(t *testing.T) {
	var s metrics.Series
	now := storyNow
	for d := 8 * time.Hour; d >= 0; d -= 10 * time.Second {
		s.Add(now.Add(-d), d.Hours())
	}
	end := now.Add(-5 * time.Hour)
	cols := columns(&s, now, end, 10*time.Minute, 40)
	known := 0
	for _, c := range cols {
		if math.IsNaN(c.max) {
			continue
		}
		known++
		if age := now.Sub(c.start).Hours(); math.Abs(c.max-age) > 0.1 {
			t.Errorf("the column of %s holds %v, want about %v", c.start, c.max, age)
		}
	}
	if known < 8 {
		t.Errorf("%d columns are known of ten minutes five hours ago", known)
	}
	if f := at(&s, now, end); !f.Known || math.Abs(f.V-5) > 0.1 {
		t.Errorf("at = %+v", f)
	}
	if f := at(&s, now, now.Add(-20*time.Hour)); f.Known {
		t.Errorf("before all history: %+v", f)
	}
	if f := at(nil, now, now); f.Known {
		t.Error("no series is known")
	}
}

// Ticks stand at round times of the node's day, whatever its clock is off by.
func TestTicksAreRound(t *testing.T) {
	for _, off := range []time.Duration{0, -300 * time.Millisecond, 400 * time.Millisecond, -90 * time.Minute} {
		for i, r := range ranges {
			s := sceneSettled()
			s.NodeClock = off
			drive(t, 120, 40, s, func(d *driver) {
				d.m.span = i
				d.m.dirty = true
				rows := strings.Split(d.Pane(PaneGen), "\n")
				labels := strings.Fields(strings.Trim(rows[len(rows)-2], "│ "))
				if len(labels) < 2 {
					t.Fatalf("%s: labels %q in\n%s", r.name, labels, d.Pane(PaneGen))
				}
				for _, l := range labels {
					if len(l) == 5 && l[2] == ':' && r.span >= time.Hour && l[4] != '0' && l[4] != '5' {
						t.Errorf("clock off by %s, %s: tick at %s", off, r.name, l)
					}
				}
			})
		}
	}
}

// The line is the mean; a peak inside a column is a dot above it, and what is
// higher than the scale a mark at its edge.
func TestHighs(t *testing.T) {
	cv := newCanvas(labelWidth+1+4, 5, false)
	a := cv.area(Rect{0, 0, cv.w, cv.h})
	drawHighs(a, []float64{10, 10, 90, math.NaN()}, []float64{12, 80, 500, math.NaN()}, 100, 5)
	want := []string{"  ▲", " ·", "", "", ""}
	for y, row := range strings.Split(cv.text(Rect{labelWidth + 1, 0, 4, 5}), "\n") {
		if row != want[y] {
			t.Errorf("row %d: %q, want %q", y, row, want[y])
		}
	}
}

// Over a day the ramp's peak must not look like the rate of now.
func TestLongRangeShowsTheMean(t *testing.T) {
	s := sceneSettled()
	cols := columns(s.Series[metrics.SeriesKey{What: metrics.SeriesGenTPS, Of: storyServer}], s.At, s.At, 24*time.Hour, 57)
	last := cols[len(cols)-1]
	if math.IsNaN(last.mean) || last.mean > 1000 || last.max < 600 {
		t.Errorf("the last column is %+v", last)
	}
	past := columns(s.Series[metrics.SeriesKey{What: metrics.SeriesGenTPS, Of: storyServer}], s.At, storyRun.Add(-30*time.Second), time.Hour, 57)
	for _, c := range past {
		if !math.IsNaN(c.max) {
			t.Errorf("before the first token a column holds %v", c.max)
		}
	}
}
