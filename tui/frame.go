package tui

// superscripts number the panes that a digit focuses.
var superscripts = [...]string{"¹", "²", "³", "⁴", "⁵", "⁶"}

var paneTitles = map[Pane]string{
	PaneRows: "rows", PaneGen: "generation tok/s", PaneReq: "requests", PaneGPU: "GPUs",
	PaneFind: "findings", PaneEvents: "events", PaneHost: "host",
}

// frame draws a pane's border and gives the area inside. The title and the first
// of rights that has room stand in the upper border.
func (m *Model) frame(c *canvas, p Pane, mode Mode, title line, rights ...line) area {
	r := m.layout.Rect[p]
	a := c.area(r)
	if r.Empty() {
		return a
	}
	st, head := stFaint, stStrong
	focused := m.focus == p && len(m.stack) == 0 && m.focusShown
	if focused {
		st, head = stAccent, stAccent.bold()
	}
	name := line{}
	if int(p) < len(superscripts) && mode == ModeFull {
		name = append(name, sp(superscripts[p], stAccent))
	}
	name = append(name, sp(paneTitles[p], head))
	name = append(name, title...)
	return border(a, mode == ModeFull, st, name, rights...)
}

// border draws a frame, or only a rule above where boxed is false.
func border(a area, boxed bool, st style, title line, rights ...line) area {
	w, h := a.w(), a.h()
	if boxed && h >= 2 {
		a.fill(1, 0, w-2, "─", st)
		a.fill(1, h-1, w-2, "─", st)
		for y := 1; y < h-1; y++ {
			a.put(0, y, "│", st)
			a.put(w-1, y, "│", st)
		}
		a.put(0, 0, "╭", st)
		a.put(w-1, 0, "╮", st)
		a.put(0, h-1, "╰", st)
		a.put(w-1, h-1, "╯", st)
	} else {
		a.fill(0, 0, w, "─", st)
	}
	const at = 2
	x := at
	if len(title) > 0 {
		a.put(at-1, 0, " ", st)
		x = a.line(at, 0, w-2*at, title)
		a.put(x, 0, " ", st)
	}
	for _, right := range rights {
		rw := right.width()
		if rw == 0 || x+rw+4 > w-at {
			continue
		}
		rx := w - at - rw
		a.put(rx-1, 0, " ", st)
		a.line(rx, 0, rw, right)
		a.put(rx+rw, 0, " ", st)
		break
	}
	if !boxed {
		return a.sub(1, 1, w-2, h-1)
	}
	return a.sub(2, 1, w-4, h-2)
}
