package tui

import (
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/runvigil/runvigil/metrics"
)

func TestBell(t *testing.T) {
	crit := func(id string) metrics.Finding { return metrics.Finding{ID: id, Severity: metrics.SeverityCritical} }
	acked := crit("gpu-lost")
	acked.Acked = true
	back := crit("link-down")
	back.NoNews = time.Unix(1000, 0)
	m := newModel(t.Context(), Options{})
	for i, c := range []struct {
		name   string
		fs     []metrics.Finding
		replay bool
		rings  bool
	}{
		{"nothing", nil, false, false},
		{"a warning", []metrics.Finding{{ID: "x", Severity: metrics.SeverityWarning}}, false, false},
		{"a critical one", []metrics.Finding{crit("server-hung")}, false, true},
		{"the same again", []metrics.Finding{crit("server-hung")}, false, false},
		{"one more", []metrics.Finding{crit("server-hung"), crit("rows-stalled")}, false, true},
		{"one that was set aside", []metrics.Finding{acked}, false, false},
		{"the first came back", []metrics.Finding{crit("server-hung")}, false, true},
		{"one that comes and goes", []metrics.Finding{crit("server-hung"), back}, false, false},
		{"in a replay", []metrics.Finding{crit("server-oom")}, true, false},
	} {
		m.live = &metrics.Snapshot{At: time.Unix(int64(i), 0), Findings: c.fs, Replay: c.replay}
		cmd := m.bell()
		if (cmd != nil) != c.rings {
			t.Errorf("%s: rings %v, want %v", c.name, cmd != nil, c.rings)
		}
		if cmd != nil {
			if raw, ok := cmd().(tea.RawMsg); !ok || raw.Msg != "\a" {
				t.Errorf("%s: sends %v", c.name, cmd())
			}
		}
	}
}
