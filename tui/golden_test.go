package tui

import (
	"fmt"
	"io"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/exp/golden"
	"github.com/charmbracelet/x/vt"

	"github.com/runvigil/runvigil/metrics"
)

// onEmulator shows a frame on a terminal emulator and gives its screen.
func onEmulator(t *testing.T, w, h int, content string) *vt.SafeEmulator {
	t.Helper()
	em := vt.NewSafeEmulator(w, h)
	done := make(chan struct{})
	go func() { defer close(done); _, _ = io.Copy(io.Discard, em) }()
	_, _ = em.WriteString(strings.ReplaceAll(content, "\n", "\r\n"))
	_ = em.InputPipe().(io.Closer).Close()
	<-done
	return em
}

func sceneReplay() *metrics.Snapshot {
	s := sceneSettled()
	s.Replay = true
	return s
}

// TestGolden holds the overview still: five moments of the story at three sizes,
// dark, light, without colour and in ASCII.
func TestGolden(t *testing.T) {
	moments := map[string]func() *metrics.Snapshot{"settled": sceneSettled, "ramp": sceneRamp, "crash": sceneCrash, "down": sceneDown, "replay": sceneReplay}
	looks := map[string]func(*Options){
		"dark": func(*Options) {}, "light": func(o *Options) { o.Theme = SchemeLight },
		"nocolor": func(o *Options) { o.NoColor = true }, "ascii": func(o *Options) { o.ASCII, o.NoColor = true, true },
	}
	for _, size := range [][2]int{{120, 40}, {80, 24}, {40, 12}} {
		for moment, make := range moments {
			for look, change := range looks {
				t.Run(fmt.Sprintf("%s-%dx%d-%s", moment, size[0], size[1], look), func(t *testing.T) {
					var em *vt.SafeEmulator
					drive(t, size[0], size[1], make(), func(d *driver) {
						em = onEmulator(t, size[0], size[1], d.m.View().Content)
					}, change)
					golden.RequireEqual(t, []byte(em.Render()+"\n"))
				})
			}
		}
	}
}

// TestGoldenViews holds every view of the settled run still.
func TestGoldenViews(t *testing.T) {
	for _, size := range [][2]int{{120, 40}, {80, 24}} {
		for _, view := range append(viewNames(), "help", "command") {
			t.Run(fmt.Sprintf("%s-%dx%d", view, size[0], size[1]), func(t *testing.T) {
				var screen string
				drive(t, size[0], size[1], sceneSettled(), func(d *driver) {
					switch view {
					case "help":
						d.Press("?")
					case "command":
						d.Press(":")
					case viewLogs:
						d.Press("l")
					default:
						d.m.open(view)
						d.Send(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
					}
					screen = d.Screen()
				})
				golden.RequireEqual(t, []byte(screen+"\n"))
			})
		}
	}
}
