package tui

import (
	"strings"
	"testing"

	"github.com/runvigil/runvigil/metrics"
)

// Memory that is counted below a limit is marked as such in every size, and only that.
func TestMemoryBelowALimit(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {100, 30}, {120, 40}, {160, 50}} {
		for limit, want := range map[string]string{"": "", "the container": "container", "the Slurm job": "Slurm job", "control group a": "cgroup"} {
			s := sceneSettled()
			s.Sys.MemLimit, s.Sys.MemTotal = limit, metrics.Known(400<<30, s.At, 0, "control group")
			drive(t, size[0], size[1], s, func(d *driver) {
				d.See("118 of 400 GiB free")
				marked := strings.Contains(d.Screen(), "within "+want+"'s limit") || strings.Contains(d.Screen(), "GiB free in "+want)
				if marked != (limit != "") {
					t.Errorf("%v, %q:\n%s", size, limit, d.Screen())
				}
			})
		}
	}
}
