package tui

import tea "charm.land/bubbletea/v2"

// click focuses the pane under the mouse; a click on the one that has the focus
// opens it. A click on the range in a title takes the next range.
func (m *Model) click(e tea.Mouse) tea.Cmd {
	if !m.mouse || m.dialog() != nil || e.Button != tea.MouseLeft || m.top() != nil {
		return nil
	}
	p, ok := m.layout.At(e.X, e.Y)
	if !ok || p > PaneEvents {
		return nil
	}
	r := m.layout.Rect[p]
	if p == PaneGen && e.Y == r.Y && e.X > r.X+r.W-12 {
		m.span = (m.span + 1) % len(ranges)
		return nil
	}
	if m.focusShown && m.focus == p {
		return m.zoom()
	}
	m.focusOn(p)
	return nil
}

func (m *Model) wheel(e tea.Mouse) tea.Cmd {
	if !m.mouse || m.dialog() != nil {
		return nil
	}
	d := moveDown
	if e.Button == tea.MouseWheelUp {
		d = moveUp
	}
	if m.top() == nil {
		if p, ok := m.layout.At(e.X, e.Y); ok && p <= PaneEvents {
			m.focusOn(p)
		}
	}
	var cmds []tea.Cmd
	for range 3 {
		cmds = append(cmds, m.move(d))
	}
	return tea.Batch(cmds...)
}
