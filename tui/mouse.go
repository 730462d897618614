package tui

import (
	"strings"

	tea "charm.land/bubbletea/v2"
)

// click focuses the pane under the mouse, or in a view selects the entry; a
// click on the one that has it already opens it. A click on the range of a graph
// takes the next range.
func (m *Model) click(e tea.Mouse) tea.Cmd {
	if !m.mouse || m.dialog() != nil || e.Button != tea.MouseLeft {
		return nil
	}
	if m.onRange(e.X, e.Y) {
		m.span = (m.span + 1) % len(ranges)
		return nil
	}
	if v := m.top(); v != nil {
		l, ok := v.(interface {
			at(x, y int) (same, ok bool)
		})
		if !ok {
			return nil
		}
		same, hit := l.at(e.X, e.Y)
		if b := m.bindingFor("enter"); hit && same && b != nil {
			return b.do(m, "")
		}
		return nil
	}
	p, ok := m.layout.At(e.X, e.Y)
	if !ok || p > PaneEvents {
		return nil
	}
	if m.focusShown && m.focus == p {
		return m.zoom()
	}
	m.focusOn(p)
	return nil
}

// onRange tells whether the range of a graph is written there, as [1h].
func (m *Model) onRange(x, y int) bool {
	tag := "[" + ranges[m.span].name + "]"
	n := len(tag)
	return m.drawn != nil && strings.Contains(m.drawn.text(Rect{x - n + 1, y, 2*n - 1, 1}), tag)
}

func (m *Model) wheel(e tea.Mouse) tea.Cmd {
	if !m.mouse {
		return nil
	}
	d, key := moveDown, tea.KeyDown
	if e.Button == tea.MouseWheelUp {
		d, key = moveUp, tea.KeyUp
	}
	switch top := m.dialog().(type) {
	case nil:
	case *helpDialog, *rowDialog:
		for range 3 {
			m.dialogKeyPress(top, tea.KeyPressMsg{Code: key})
		}
		return nil
	default:
		return nil
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
