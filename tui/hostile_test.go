package tui

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/runvigil/runvigil/metrics"
)

// evil is text that nobody cleaned, to show that even then nothing gets out of
// its pane.
const evil = "\x1b]52;c;QUJD\a\x1b[2J\r\n\b漢字\u202e\u009b31m👨\u200d👩\u200d👧 \x00" + "very long name "

func hostileScene() *metrics.Snapshot {
	s := sceneOutlier()
	long := strings.Repeat(evil, 20)
	s.Node, s.Zone, s.Verdict.Text = long, long, long
	s.Doing = []string{long, long, long, long}
	srv := &s.Servers[0]
	srv.Engine, srv.Version, srv.Model, srv.Argv, srv.KVDtype = long, long, long, []string{long, long}, long
	srv.Log.Path = long
	srv.Causes = []metrics.CauseFact{{Class: metrics.Cause(long), Detail: long, Line: long}}
	srv.Phase.Name = long
	s.Clients[0].Argv, s.Clients[0].Host, s.Clients[0].User, s.Clients[0].State = []string{long}, long, long, long
	s.Datasets[0].Name, s.Datasets[0].Err = long, long
	s.Datasets[1].Name = long
	s.Findings[0].Title, s.Findings[0].Why, s.Findings[0].Advice, s.Findings[0].ID = long, long, long, long
	s.Findings[0].Evidence = []metrics.Evidence{{Text: long, Source: long}}
	for i := range s.Events {
		s.Events[i].Text, s.Events[i].Kind = long, long
	}
	s.CannotTell = []metrics.CannotTell{{What: long, Why: long, Tell: long}}
	s.GPUs[0].Name, s.GPUs[1].Lost, s.GPUTool.Text = long, long, long
	s.GPUs[2].Raw = map[string]string{long: long}
	s.GPUs[0].Procs = []metrics.GPUProc{{PID: 1 << 30, Name: long, Owner: long}}
	s.Sys.Disks[0].Mount = long
	s.Starts[4].Label, s.Starts[4].Note, s.Starts[4].Argv = long, long, []string{long}
	s.Logs[long] = &metrics.LogTail{Path: long, First: 1, Lines: []metrics.LogLine{{Text: long}, {Text: long, Level: 2}}}
	s.Job.Rows, s.Job.Target.Rows = metrics.Fixed(1e15, s.At, ""), math.MaxInt64
	srv.Gen.Now, srv.Running, srv.KVUsage = metrics.Fixed(math.Inf(1), s.At, ""), metrics.Fixed(math.NaN(), s.At, ""), metrics.Fixed(-7, s.At, "")
	return s
}

func TestHostileSnapshot(t *testing.T) {
	s := hostileScene()
	for _, size := range [][2]int{{120, 40}, {80, 24}, {40, 12}, {20, 6}, {3, 2}} {
		w, h := size[0], size[1]
		drive(t, w, h, s, func(d *driver) {
			for _, view := range append([]string{""}, viewNames()...) {
				d.m.stack = nil
				if view != "" {
					d.m.views[viewLogs].(*logView).path = s.Servers[0].Log.Path
					d.m.open(view)
				}
				d.m.dirty = true
				v := d.m.View()
				plain := ansi.Strip(v.Content)
				for i, row := range strings.Split(v.Content, "\n") {
					if got := ansi.StringWidth(row); got != w {
						t.Fatalf("%s %dx%d: row %d has %d cells", view, w, h, i, got)
					}
				}
				for _, bad := range []string{"\x1b", "\r", "\b", "\a", "\u009b", "\u202e", "\x00"} {
					if strings.Contains(plain, bad) {
						t.Fatalf("%s %dx%d: %q is on the screen", view, w, h, bad)
					}
				}
				if strings.Contains(v.Content, "]52") && strings.Contains(v.Content, "\x1b]") {
					t.Fatalf("%s: a clipboard sequence is on the screen", view)
				}
				if strings.ContainsAny(v.WindowTitle, "\x1b\a\r\n\x00") {
					t.Fatalf("the window title is %q", v.WindowTitle)
				}
			}
		})
	}
}

func TestManyGPUs(t *testing.T) {
	for _, n := range []int{0, 1, 2, 16, 24, 72} {
		s := sceneSettled()
		base := s.GPUs[0]
		s.GPUs = nil
		for i := range n {
			g := base
			g.Index = i
			s.GPUs = append(s.GPUs, g)
		}
		for _, size := range [][2]int{{120, 40}, {80, 24}, {40, 12}, {240, 70}} {
			drive(t, size[0], size[1], s, func(d *driver) {
				switch {
				case n == 0 && size[0] == 120:
					d.See("GPUs are being looked for")
				case n == 16 && size[0] == 120:
					for i := range n {
						if !strings.Contains(d.Pane(PaneGPU), fmt.Sprintf("%2d ", i)) {
							t.Errorf("GPU %d of 16 is not shown:\n%s", i, d.Pane(PaneGPU))
						}
					}
				case n == 72 && size[0] == 120:
					if !strings.Contains(d.Pane(PaneGPU), "4 enter") {
						t.Errorf("72 GPUs: nothing says that there are more:\n%s", d.Pane(PaneGPU))
					}
				case n > 0 && size[0] == 80:
					d.See(fmt.Sprintf("%d × ", n))
				}
			})
		}
	}
}

// Unknown is a dash, old is grey with its age, and neither is zero.
func TestUnknownAndOld(t *testing.T) {
	s := sceneSettled()
	for i := range s.GPUs {
		s.GPUs[i].MemUsed, s.GPUs[i].Power = metrics.Figure{}, metrics.Figure{}
	}
	s.Servers[0].Queued = metrics.Figure{}
	s.Servers[0].Running.At = s.At.Add(-5 * time.Minute)
	s.Job.Target.Inferred = true
	drive(t, 120, 40, s, func(d *driver) {
		if p := d.Pane(PaneGPU); strings.Contains(p, "0.00 GiB") || !strings.Contains(p, "–  98 %") {
			t.Errorf("unknown memory:\n%s", p)
		}
		if p := d.Pane(PaneReq); !strings.Contains(p, "queued        –") || !strings.Contains(p, "5 m old") {
			t.Errorf("requests:\n%s", p)
		}
		if p := d.Pane(PaneRows); !strings.Contains(p, "88,000≈") {
			t.Errorf("an inferred target is not marked:\n%s", p)
		}
	})
	s.Datasets[0].Target = metrics.Target{Rows: 10_000, Inferred: true, Source: "the client's progress bar"}
	drive(t, 80, 24, s, func(d *driver) {
		d.See("88,000≈").Press("o").See("10,000≈", "10,000 rows from the client's progress bar (inferred)")
	})
	for _, size := range [][2]int{{40, 12}, {20, 6}} {
		drive(t, size[0], size[1], s, func(d *driver) { d.See("88,000≈") })
	}
}

// A pane keeps its place and its size when values come and go, and its columns
// stay when a figure gains digits.
func TestNothingJumps(t *testing.T) {
	a, b := sceneSettled(), sceneSettled()
	b.Servers[0].Running.V, b.Servers[0].Queued.V, b.Servers[0].Gen.Now.V = 5, 1045, 1317
	b.Datasets[0].Rows.V, b.Datasets[0].PerMin.V, b.Job.PerMin.V = 9, 1234, 1234
	b.GPUs[0].Util.V, b.GPUs[0].Power.V, b.GPUs[0].Temp.V = 100, 88, 101
	for _, size := range [][2]int{{120, 40}, {80, 24}} {
		column := func(s *metrics.Snapshot, row func(string) bool, word string) int {
			at := -1
			drive(t, size[0], size[1], s, func(d *driver) {
				for _, r := range strings.Split(d.Screen(), "\n") {
					if row(r) {
						at = len([]rune(r[:strings.Index(r, word)]))
						return
					}
				}
				t.Fatalf("no row with %q in\n%s", word, d.Screen())
			})
			return at
		}
		for _, word := range []string{"/min", " / 10,000", " ago", "ETA"} {
			in := func(r string) bool { return strings.Contains(r, "B2_") && strings.Contains(r, word) }
			if x, y := column(a, in, word), column(b, in, word); x != y {
				t.Errorf("%v: %q moved from %d to %d", size, word, x, y)
			}
		}
	}
}
