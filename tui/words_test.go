package tui

import (
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// Each engine is shown in its own words.
func TestEngineWords(t *testing.T) {
	at := time.Date(2026, 2, 24, 12, 0, 0, 0, time.UTC)
	fig := func(v float64) metrics.Figure { return metrics.Known(v, at, time.Second, "log") }
	for engine, want := range map[string][]string{
		"vllm":   {" waiting", "97.1%", "max-num-seqs 40"},
		"sglang": {" queued", "0.97", "max-running-requests 40"},
	} {
		srv := &metrics.Server{ID: "1:1", Engine: engine, State: metrics.ServerServing, Running: fig(40), Queued: fig(110), KVUsage: fig(0.971), MaxRunning: fig(40)}
		m := &Model{snap: &metrics.Snapshot{At: at, Servers: []metrics.Server{*srv}}}
		text := ""
		for _, s := range reqSegs(m.pen(), srv, false) {
			for _, sp := range s.l {
				text += sp.s
			}
		}
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: %q lacks %q", engine, text, w)
			}
		}
	}
	if got := share(1); got != "100%" {
		t.Errorf("a full pool is %s", got)
	}
}
