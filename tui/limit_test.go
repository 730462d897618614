package tui

import (
	"strings"
	"testing"

	"github.com/runvigil/runvigil/metrics"
)

// Memory that is counted below a limit is marked as such, and only that.
func TestMemoryBelowALimit(t *testing.T) {
	for limit, want := range map[string]string{"": "free", "the container": "free in container", "control group a": "free in its cgroup"} {
		h := metrics.Host{MemAvail: metrics.Figure{V: 20 << 30, Known: true}, MemTotal: metrics.Figure{V: 400 << 30, Known: true}, MemLimit: limit}
		var text strings.Builder
		for _, s := range memLine(pen{s: &metrics.Snapshot{}}, &h) {
			text.WriteString(s.s)
		}
		if got := text.String(); got != "20 of 400 GiB "+want {
			t.Errorf("%q: %q", limit, got)
		}
	}
}
