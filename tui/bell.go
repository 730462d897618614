package tui

import (
	tea "charm.land/bubbletea/v2"

	"github.com/runvigil/runvigil/metrics"
)

// bell rings once for each critical finding that is newly raised, whether or not
// somebody looks: tmux marks the window. A replay is silent, and so is a finding
// that was set aside, or one that comes and goes.
func (m *Model) bell() tea.Cmd {
	if m.live.Replay {
		return nil
	}
	ring := false
	now := make(map[string]bool)
	for i := range m.live.Findings {
		f := &m.live.Findings[i]
		if f.Severity < metrics.SeverityCritical {
			continue
		}
		if m.live.At.Before(f.NoNews) {
			continue
		}
		key := f.ID + "\x00" + f.Subject
		now[key] = true
		ring = ring || !m.rung[key] && !f.Acked && f.Snoozed.IsZero()
	}
	m.rung = now
	if !ring {
		return nil
	}
	return tea.Raw("\a")
}
