package tui

import (
	"fmt"
	"testing"
	"time"

	"github.com/charmbracelet/x/exp/golden"

	"github.com/runvigil/runvigil/launch/restart"
	"github.com/runvigil/runvigil/metrics"
)

// TestGoldenActing holds every step of a restart still, from the form to a token
// or a crash.
func TestGoldenActing(t *testing.T) {
	edit := func(d *driver) *driver { return d.Press("e").setFlag("mem-fraction", "0.93").Press("esc") }
	begin := func(d *driver, s *metrics.Snapshot) {
		edit(d)
		d.Press("e", "w", "w").goOn("gpu7").Send(snapshotMsg{s})
	}
	steps := map[string]func(d *driver){
		"form":    func(d *driver) { edit(d).Press("esc", "e") },
		"search":  func(d *driver) { d.Press("e", "/").Type("hicache") },
		"value":   func(d *driver) { d.Press("e", "/").Type("kv-cache-dtype").Press("enter", "enter", "tab", "tab", "tab") },
		"guard":   func(d *driver) { d.Press("e").setFlag("kv-cache-dtype", "fp8_e4m3").Press("w") },
		"review":  func(d *driver) { edit(d).Press("e", "w") },
		"ask":     func(d *driver) { edit(d).Press("e", "w", "w") },
		"confirm": func(d *driver) { edit(d).Press("e", "w", "w", "k").Wait(time.Second).Type("gpu7").Wait(time.Second) },
		"loading": func(d *driver) {
			d.act.acted.hold = make(chan struct{})
			begin(d, sceneRestarted(func(*metrics.Server) {}))
		},
		"ready":  func(d *driver) { begin(d, sceneReady()) },
		"crash":  func(d *driver) { d.act.acted.readyErr = restart.ErrServerEnded; begin(d, sceneCrashedAfter()) },
		"client": func(d *driver) { d.Press("C") },
		"pair":   func(d *driver) { d.Press("t", "space", "j", "j", "j", "j", "space") },
	}
	for _, size := range [][2]int{{120, 40}, {80, 24}} {
		for name, do := range steps {
			t.Run(fmt.Sprintf("%s-%dx%d", name, size[0], size[1]), func(t *testing.T) {
				var screen string
				drive(t, size[0], size[1], sceneSettled(), func(d *driver) {
					d.act.acted.journal = restartJournal
					do(d)
					d.Wait(10 * time.Second) // toasts go
					screen = d.Screen()
				})
				golden.RequireEqual(t, []byte(screen+"\n"))
			})
		}
	}
}
