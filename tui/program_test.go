package tui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
)

// lnm maps line feeds as a terminal's line discipline does.
type lnm struct{ w io.Writer }

func (l lnm) Write(p []byte) (int, error) {
	_, err := l.w.Write(bytes.ReplaceAll(p, []byte("\n"), []byte("\r\n")))
	return len(p), err
}

// TestProgram runs the whole program in virtual time on an emulated terminal:
// data every second, keys between, resizes; after each step the terminal shows
// exactly what the model meant to show.
func TestProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const w, h = 120, 40
		em := vt.NewSafeEmulator(w, h)
		go func() { _, _ = io.Copy(io.Discard, em) }()
		box := NewMailbox()
		act := &fakeActions{row: Row{JSON: []byte(`{"id":"a","output":"wide 漢字 text"}`)}}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		m := newModel(ctx, Options{Node: "gpu7", Source: box, Actions: act, Theme: SchemeDark})
		p := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(nil), tea.WithOutput(lnm{em}), tea.WithWindowSize(w, h),
			tea.WithEnvironment([]string{"TERM=xterm-256color"}), tea.WithColorProfile(colorprofile.TrueColor), tea.WithoutSignalHandler())
		ended := make(chan error, 1)
		go func() { _, err := p.Run(); ended <- err }()
		frames := 0
		check := func(step string) {
			t.Helper()
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			want := strings.Split(ansi.Strip(m.View().Content), "\n")
			for y, row := range want {
				var got strings.Builder
				for x := range em.Width() {
					if c := em.CellAt(x, y); c != nil {
						got.WriteString(c.Content)
					}
				}
				if strings.TrimRight(got.String(), " ") != strings.TrimRight(row, " ") {
					t.Fatalf("%s: row %d of the terminal\n%q\nof the view\n%q", step, y, got.String(), row)
				}
			}
			frames++
		}
		check("before data")
		now := storyNow
		for i := range 30 {
			now = now.Add(time.Second)
			box.Put(scene(now))
			time.Sleep(900 * time.Millisecond)
			check("tick " + now.String())
			if i%10 == 9 {
				p.Send(keyNamed("]"))
				check("range")
			}
		}
		keys := []string{"l", "k", "k", "w", "ctrl+u", "G", "esc", "f", "j", "enter", "esc", "o", "enter"}
		keys = append(keys, "esc", "esc", "t", "j", "esc", "v", "esc", "p", "esc", "4", "enter", "j", "esc", ",", ",", ".", "0", "?", "j", "esc", ":", "r", "esc", "M", "M", "space", "space", "ctrl+l")
		for _, k := range keys {
			p.Send(keyNamed(k))
			check("key " + k)
		}
		for _, size := range [][2]int{{80, 24}, {40, 12}, {20, 6}, {200, 60}, {120, 40}} {
			em.Resize(size[0], size[1])
			p.Send(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
			check("resize")
			p.Send(keyNamed("ctrl+l"))
			check("redraw")
		}
		for _, name := range []string{"crash", "down", "empty", "outlier", "settled"} {
			box.Put(scenes[name]())
			time.Sleep(time.Second)
			check(name)
		}
		if frames < 80 {
			t.Fatalf("only %d frames were compared", frames)
		}
		p.Send(keyNamed("q"))
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if em.IsAltScreen() {
			t.Error("the alternate screen was not left")
		}
		_ = em.InputPipe().(io.Closer).Close()
	})
}

// A burst of snapshots is drawn at most four times a second; a key at once.
func TestDrawingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		box := NewMailbox()
		m := newModel(ctx, Options{Source: box, Theme: SchemeDark})
		taken := 0
		go func() {
			cmd := m.takeSnapshot(0)
			for {
				msg := cmd()
				if msg == nil {
					return
				}
				taken++
				_, cmd = m.Update(msg)
			}
		}()
		s := sceneSettled()
		for range 1000 {
			box.Put(s)
			time.Sleep(10 * time.Millisecond)
		}
		synctest.Wait()
		if taken > 41 || taken < 35 {
			t.Errorf("%d snapshots were drawn in 10 s", taken)
		}
		if box.Replaced() == 0 {
			t.Error("no snapshot was replaced in the mailbox")
		}
		cancel()
	})
}

// A first visit shows what it finds as soon as it comes.
func TestFirstFramesComeSooner(t *testing.T) {
	s := *sceneSettled()
	if pace(&s) != drawEvery {
		t.Errorf("a settled screen is drawn every %s", pace(&s))
	}
	s.GPUTool.State = ""
	if pace(&s) != firstEvery {
		t.Errorf("a first visit is drawn every %s", pace(&s))
	}
}

func TestAwaitGivesUpOnAStuckTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leaving := make(chan struct{})
		close(leaving)
		start := time.Now()
		if err := await(context.Background(), make(chan error), leaving); !errors.Is(err, ErrTerminal) {
			t.Errorf("await = %v", err)
		}
		if d := time.Since(start); d != leaveLimit {
			t.Errorf("it took %s", d)
		}
		done := make(chan error, 1)
		done <- nil
		if err := await(context.Background(), done, leaving); err != nil {
			t.Errorf("await of a program that ended = %v", err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := await(ctx, make(chan error), make(chan struct{})); !errors.Is(err, ErrTerminal) {
			t.Errorf("await with a cancelled context = %v", err)
		}
	})
}

func TestMailbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewMailbox()
		a, z := sceneRamp(), sceneSettled()
		b.Put(a)
		b.Put(z)
		if got, ok := b.Take(context.Background()); !ok || got != z {
			t.Error("Take does not give the newest snapshot")
		}
		if b.Replaced() != 1 {
			t.Errorf("Replaced = %d", b.Replaced())
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, ok := b.Take(ctx); ok {
			t.Error("Take gave a snapshot twice")
		}
	})
}

func BenchmarkView(b *testing.B) {
	for _, size := range [][2]int{{120, 40}, {80, 24}, {240, 70}} {
		b.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(b *testing.B) {
			m := newModel(context.Background(), Options{Theme: SchemeDark})
			m.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
			m.Update(snapshotMsg{sceneSettled()})
			b.ReportAllocs()
			for b.Loop() {
				m.dirty = true
				m.View()
			}
		})
	}
}

func BenchmarkViewUnchanged(b *testing.B) {
	m := newModel(context.Background(), Options{Theme: SchemeDark})
	m.Update(tea.WindowSizeMsg{Width: 120, Height: 40})
	m.Update(snapshotMsg{sceneSettled()})
	for b.Loop() {
		m.View()
	}
}
