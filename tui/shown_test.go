package tui

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// graphRows are the rows of a pane's graph: its plot and its time axis.
func graphRows(d *driver, p Pane) (plot []string, axis string) {
	for _, row := range strings.Split(d.Pane(p), "\n") {
		switch {
		case strings.Contains(row, "╰") && strings.Contains(row, "┴"):
			return plot, row
		case strings.Contains(row[min(len(row), 4):], "│"):
			plot = append(plot, row)
		}
	}
	return plot, ""
}

// sceneCurve is the settled scene with a rate of one's own over three days, a
// value of each minute before now; NaN says nothing.
func sceneCurve(f func(ago time.Duration) float64) *metrics.Snapshot {
	s := sceneSettled()
	var c metrics.Series
	for ago := 72 * time.Hour; ago >= 0; ago -= 10 * time.Second {
		if v := f(ago); !math.IsNaN(v) {
			c.Add(s.At.Add(-ago), v)
		}
	}
	s.Series[metrics.SeriesKey{What: metrics.SeriesGenTPS, Of: s.Servers[0].ID}] = &c
	return s
}

// Every range is drawn over the whole width, on the screen.
func TestEveryRangeIsDrawn(t *testing.T) {
	drive(t, 120, 40, sceneCurve(func(time.Duration) float64 { return 600 }), func(d *driver) {
		d.Press("[", "[", "[", "[")
		for _, r := range ranges {
			d.See("[" + r.name + "]")
			plot, axis := graphRows(d, PaneGen)
			if n := strings.Count(strings.Join(plot, ""), "─"); n < 50 {
				t.Errorf("%s: %d cells of the line are drawn:\n%s", r.name, n, d.Pane(PaneGen))
			}
			if strings.Count(axis, "┴") < 2 {
				t.Errorf("%s: the axis tells no times: %s", r.name, axis)
			}
			d.Press("]")
		}
	})
}

// What nobody heard is a gap, in the graph and not at zero.
func TestGapOnTheScreen(t *testing.T) {
	gap := func(ago time.Duration) float64 {
		if ago > 20*time.Minute && ago < 40*time.Minute {
			return math.NaN()
		}
		return 600
	}
	drive(t, 120, 40, sceneCurve(gap), func(d *driver) {
		plot, _ := graphRows(d, PaneGen)
		for _, row := range plot {
			if n := strings.Count(row, "─"); n > 5 && !strings.Contains(strings.TrimSpace(row), strings.Repeat(" ", 15)) {
				t.Errorf("no gap in\n%s", d.Pane(PaneGen))
			}
		}
		if zero := plot[len(plot)-1]; strings.Contains(zero, "─") {
			t.Errorf("a gap is drawn as zero:\n%s", d.Pane(PaneGen))
		}
	})
}

// A spike does not flatten the rest, and is marked; the noise of a quiet hour
// stays at the bottom.
func TestScalesOnTheScreen(t *testing.T) {
	height := func(d *driver) int { // of the line's lowest point above the axis
		plot, _ := graphRows(d, PaneGen)
		for i := len(plot) - 1; i >= 0; i-- {
			if strings.Count(plot[i], "─") > 20 {
				return len(plot) - 1 - i
			}
		}
		return -1
	}
	spike := func(ago time.Duration) float64 {
		if ago == 30*time.Minute {
			return 90_000
		}
		return 600
	}
	drive(t, 120, 40, sceneCurve(spike), func(d *driver) {
		if h := height(d); h < 3 {
			t.Errorf("a spike flattens the rest to row %d:\n%s", h, d.Pane(PaneGen))
		}
		if !strings.Contains(d.Pane(PaneGen), "▲") {
			t.Errorf("the spike is not marked:\n%s", d.Pane(PaneGen))
		}
	})
	quiet := sceneCurve(func(ago time.Duration) float64 { return float64(ago/time.Second%3) / 2 })
	drive(t, 120, 40, quiet, func(d *driver) {
		if h := height(d); h != 0 {
			t.Errorf("noise is zoomed to row %d:\n%s", h, d.Pane(PaneGen))
		}
	})
}

// What happened stands on the time axis in the column of its time.
func TestMarksOnTheTimeAxis(t *testing.T) {
	s := sceneCurve(func(time.Duration) float64 { return 600 })
	s.Events = []metrics.Event{
		{At: s.At.Add(-45 * time.Minute), Kind: "start", Text: "start #5"},
		{At: s.At.Add(-30 * time.Minute), Kind: "crash", Text: "crashed"},
		{At: s.At.Add(-15 * time.Minute), Kind: "note", Text: "mine"},
		{At: s.At.Add(-5 * time.Hour), Kind: "start", Text: "out of range"},
	}
	drive(t, 120, 40, s, func(d *driver) {
		_, axis := graphRows(d, PaneGen)
		cells := []rune(axis)
		at := func(sign rune) int {
			for i, c := range cells {
				if c == sign {
					return i
				}
			}
			return -1
		}
		start, crash, note := at('◆'), at('✖'), at('■')
		if start < 0 || crash-start != note-crash && crash-start-(note-crash) != 1 && crash-start-(note-crash) != -1 || crash <= start {
			t.Errorf("marks in columns %d, %d, %d of %s", start, crash, note, axis)
		}
		if strings.Count(axis, "◆") != 1 {
			t.Errorf("a mark out of the range: %s", axis)
		}
	})
}

// The GPU that differs stands out in words, sign and colour; equal ones do not.
func TestOutlierStandsOut(t *testing.T) {
	warned := func(d *driver) (n int) {
		d.m.View()
		a := d.m.drawn.area(d.m.layout.Rect[PaneGPU])
		for y := range a.r.H {
			for x := range a.r.W {
				if st := a.c.cells[(a.r.Y+y)*a.c.w+a.r.X+x].st; st.fg == roleWarn || st.fg == roleCrit {
					n++
				}
			}
		}
		return n
	}
	drive(t, 120, 40, sceneSettled(), func(d *driver) {
		if n := warned(d); n != 0 || strings.Contains(d.Pane(PaneGPU), "▲") {
			t.Errorf("eight equal GPUs shout in %d cells:\n%s", n, d.Pane(PaneGPU))
		}
	})
	drive(t, 120, 40, sceneOutlier(), func(d *driver) {
		if p := d.Pane(PaneGPU); warned(d) == 0 || !strings.Contains(p, "3▲") || !strings.Contains(p, "6✖ LOST") {
			t.Errorf("the outlier does not stand out:\n%s", p)
		}
		d.Press("4", "enter").See("▲ differs from the others", "✖ LOST")
	})
	drive(t, 40, 12, sceneOutlier(), func(d *driver) { d.See("GPU 6 lost").Press("4", "enter", "G").See("✖ LOST") })
}

// Times are relative while young and absolute when old, on the node's wall and
// in its zone, whatever the clock and the zone of this machine.
func TestTimesAreTheNodes(t *testing.T) {
	s := sceneSettled()
	s.Zone, s.ZoneSec, s.NodeClock = "IST", 5*3600+1800, 90*time.Second
	p := pen{s: s}
	if got := p.ago(s.At.Add(-10 * time.Minute)); got != "10 m" {
		t.Errorf("young: %q", got)
	}
	old := s.At.Add(-3 * time.Hour)
	if got, want := p.ago(old), old.Add(90*time.Second).UTC().Add(5*time.Hour+30*time.Minute).Format("15:04"); got != want {
		t.Errorf("old: %q, want %q", got, want)
	}
	drive(t, 120, 40, s, func(d *driver) {
		d.See(s.At.Add(90*time.Second).UTC().Add(5*time.Hour+30*time.Minute).Format("15:04:05") + " IST")
	})
}

// A link that is down never blanks the screen: all stays, grey, with its age.
func TestDownLinkKeepsTheScreen(t *testing.T) {
	for _, size := range [][2]int{{120, 40}, {80, 24}, {40, 12}} {
		drive(t, size[0], size[1], sceneDown(), func(d *driver) {
			d.See("11,5", "DOWN", "35")
			for _, p := range []Pane{PaneRows, PaneReq} {
				a := d.m.drawn.area(d.m.layout.Rect[p])
				for y := range a.r.H {
					for x := range a.r.W {
						switch c := a.c.cells[(a.r.Y+y)*a.c.w+a.r.X+x]; {
						case c.s == " " || c.w == 0:
						case c.st.fg != roleStale && c.st.fg != roleFaint && c.st.fg != roleWarn && c.st.fg != roleCrit:
							t.Fatalf("%v: %q of pane %d is drawn as if it were now", size, c.s, p)
						}
					}
				}
			}
		})
	}
}
