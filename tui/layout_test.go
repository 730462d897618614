package tui

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
)

func TestLayoutEverySize(t *testing.T) {
	for w := 1; w <= 240; w++ {
		for h := 1; h <= 70; h++ {
			l := LayoutFor(w, h)
			used := make([]Pane, w*h)
			for p := range paneCount {
				r := l.Rect[p]
				if r.Empty() {
					continue
				}
				if r.X < 0 || r.Y < 0 || r.X+r.W > w || r.Y+r.H > h {
					t.Fatalf("%dx%d: pane %d reaches out of the screen: %+v", w, h, p, r)
				}
				for y := r.Y; y < r.Y+r.H; y++ {
					for x := r.X; x < r.X+r.W; x++ {
						if o := used[y*w+x]; o != 0 {
							t.Fatalf("%dx%d: panes %d and %d overlap at %d,%d", w, h, o-1, p, x, y)
						}
						used[y*w+x] = p + 1
					}
				}
			}
			if l.Rect[PaneVerdict].Empty() {
				t.Fatalf("%dx%d: the verdict is lost", w, h)
			}
			if w >= 20 && h >= 6 && l.Rect[PaneRows].Empty() {
				t.Fatalf("%dx%d: the rows are lost", w, h)
			}
			if w >= 40 && h >= 12 {
				for _, p := range []Pane{PaneGen, PaneReq, PaneGPU, PaneHost, PaneFind, PaneFooter} {
					if l.Rect[p].Empty() {
						t.Fatalf("%dx%d: pane %d is lost", w, h, p)
					}
				}
			}
		}
	}
}

// A bigger screen never loses a pane that a smaller one has in the same mode.
func TestLayoutGrows(t *testing.T) {
	for w := 20; w <= 240; w++ {
		for h := 6; h < 70; h++ {
			a, b := LayoutFor(w, h), LayoutFor(w, h+1)
			if a.Mode != b.Mode {
				continue
			}
			for p := range paneCount {
				if !a.Rect[p].Empty() && b.Rect[p].Empty() {
					t.Fatalf("pane %d is there at %dx%d and gone at %dx%d", p, w, h, w, h+1)
				}
			}
		}
	}
}

func TestLayoutAt(t *testing.T) {
	l := LayoutFor(120, 40)
	for _, p := range []Pane{PaneRows, PaneGen, PaneReq, PaneGPU, PaneFind, PaneEvents} {
		r := l.Rect[p]
		if got, ok := l.At(r.X+1, r.Y); !ok || got != p {
			t.Errorf("At in pane %d = %d, %v", p, got, ok)
		}
	}
	if _, ok := l.At(500, 500); ok {
		t.Error("a cell outside the screen is in a pane")
	}
}

// Every scene fits every size: as many rows as the screen, each as wide, and the
// verdict's word in the first two rows, on the overview and in every view.
func TestEverySizeFits(t *testing.T) {
	for name, make := range scenes {
		s := make()
		for _, w := range []int{1, 2, 7, 20, 33, 40, 59, 60, 72, 80, 99, 100, 120, 171, 240} {
			for _, h := range []int{1, 2, 3, 6, 9, 12, 19, 20, 24, 29, 30, 40, 70} {
				drive(t, w, h, s, func(d *driver) {
					for _, view := range append([]string{""}, viewNames()...) {
						d.m.stack = nil
						if view != "" {
							d.m.open(view)
						}
						d.m.dirty = true
						rows := strings.Split(d.m.View().Content, "\n")
						if len(rows) != h {
							t.Fatalf("%s %s %dx%d: %d rows", name, view, w, h, len(rows))
						}
						for i, row := range rows {
							if got := ansi.StringWidth(row); got != w {
								t.Fatalf("%s %s %dx%d: row %d has %d cells: %q", name, view, w, h, i, got, ansi.Strip(row))
							}
						}
						if w >= 20 && h >= 6 && !strings.Contains(strings.Join(rows[:2], "\n"), s.Verdict.Word) {
							t.Fatalf("%s %s %dx%d: no verdict in\n%s", name, view, w, h, ansi.Strip(d.m.View().Content))
						}
					}
				})
			}
		}
	}
}

func viewNames() []string {
	return []string{viewLogs, viewRows, viewProcs, viewEvents, viewFindings, viewStarts, viewGen, viewReq, viewGPUs}
}
