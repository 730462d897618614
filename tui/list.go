package tui

import tea "charm.land/bubbletea/v2"

// A list is a selection among entries and the part of them in sight.
type list struct {
	sel, top int
	drawn    Rect // the rows of the entries on the screen
	n        int
}

// at selects the entry at a cell of the screen; same tells that it was selected
// before.
func (l *list) at(x, y int) (same, ok bool) {
	i := l.top + y - l.drawn.Y
	if !l.drawn.Contains(x, y) || i >= l.n {
		return false, false
	}
	same = i == l.sel
	l.sel = i
	return same, true
}

// window keeps the selection in sight of n entries on h rows and gives the
// first that is shown.
func (l *list) window(n, h int) int {
	l.sel = max(min(l.sel, n-1), 0)
	if l.sel < l.top {
		l.top = l.sel
	}
	if l.sel >= l.top+h {
		l.top = l.sel - h + 1
	}
	l.top, l.n = max(min(l.top, n-h), 0), n
	return l.top
}

func (l *list) move(n, page int, d motion) { l.sel = step(l.sel, n, page, d) }

// A col is one column of a table: fixed, so that digits do not move it. The last
// columns are left out where there is no room.
type col struct {
	name  string
	w     int // of the cells; 0: what is left
	right bool
}

// picked are the chosen ones of columns or cells.
func picked[T any](all []T, which []int) []T {
	out := make([]T, 0, len(which))
	for _, i := range which {
		out = append(out, all[i])
	}
	return out
}

// table draws a head and rows; cells beyond the width are cut.
func (m *Model) table(a area, cols []col, n int, l *list, row func(i int) []span) {
	if a.h() < 2 {
		return
	}
	fixed, flex := 0, -1
	for i, c := range cols {
		fixed += c.w + 2
		if c.w == 0 {
			flex = i
		}
	}
	width := func(i int) int {
		if i == flex {
			return max(a.w()-fixed-1, 8)
		}
		return cols[i].w
	}
	put := func(y int, cells []span, selected bool) {
		x := 1
		for i, c := range cols {
			w := width(i)
			if i >= len(cells) || x+min(w, 4) > a.w() || c.right && x+w > a.w() {
				break // half a figure would be another figure
			}
			text := padRight(cells[i].s, w)
			if c.right {
				text = padLeft(cells[i].s, w)
			}
			st := cells[i].st
			if selected {
				st.bg = roleSelect
			}
			a.cut(x, y, a.w()-x, text, st)
			x += w + 2
		}
	}
	head := make([]span, len(cols))
	for i, c := range cols {
		head[i] = sp(c.name, stDim)
	}
	put(0, head, false)
	h := a.h() - 1
	top := l.window(n, h)
	l.drawn = Rect{a.r.X, a.r.Y + 1, a.w(), h}
	for i := top; i < n && i-top < h; i++ {
		if i == l.sel {
			a.sub(0, 1+i-top, a.w(), 1).clear(style{bg: roleSelect})
			if !m.colours() {
				a.put(0, 1+i-top, ">", stStrong)
			}
		}
		put(1+i-top, row(i), i == l.sel)
	}
	if top > 0 {
		a.put(a.w()-1, 1, "▲", stAccent)
	}
	if top+h < n {
		a.put(a.w()-1, h, "▼", stAccent)
	}
}

// listKeys are the keys of views that hold a selection.
func listKeys() []binding {
	return []binding{
		{name: "newest-row", keys: []string{"enter"}, views: []string{viewRows}, group: "Look", short: "newest row", help: "show the newest row; opens the shards of a dataset",
			do: func(m *Model, _ string) tea.Cmd { return m.views[viewRows].(*rowsView).enter(m) }},
		{name: "detail", keys: []string{"enter"}, views: []string{viewFindings}, group: "Look", short: "detail", help: "give the whole view to the selected finding",
			do: func(m *Model, _ string) tea.Cmd {
				v := m.views[viewFindings].(*findingsView)
				v.whole = !v.whole
				return nil
			}},
		{name: "proof", keys: []string{"o"}, views: []string{viewFindings}, group: "Look", short: "log line", help: "jump to the log line that proves the finding",
			do: func(m *Model, _ string) tea.Cmd { return m.proof() }},
		{name: "event-log", keys: []string{"enter"}, views: []string{viewEvents}, group: "Look", short: "as it was", help: "show everything as it was at the selected event",
			do: func(m *Model, _ string) tea.Cmd { return m.views[viewEvents].(*eventsView).enter(m) }},
	}
}
