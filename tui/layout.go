package tui

// Mode is how the overview is drawn.
type Mode int

// The modes, by room: lines only (a side pane), panes under rules, panes in frames.
const (
	ModeSide Mode = iota
	ModeSmall
	ModeFull
)

// Pane names a part of the overview.
type Pane int

// The panes. Those up to PaneEvents can have the focus.
const (
	PaneRows Pane = iota
	PaneGen
	PaneReq
	PaneGPU
	PaneFind
	PaneEvents
	PaneHost
	PaneHeader
	PaneVerdict
	PaneFooter
	// Single lines of the side mode.
	PaneETA
	PaneLanded
	PaneClient
	paneCount
)

// Layout is the overview's geometry for one size of the terminal. A pane that
// has no room has an empty rectangle.
type Layout struct {
	W, H int
	Mode Mode
	Rect [paneCount]Rect
}

// sideLines are the one-line parts of the side mode in drawing order, with the
// order in which they are given room.
var sideLines = []struct {
	pane Pane
	rank int
}{
	{PaneRows, 1}, {PaneETA, 5}, {PaneLanded, 6}, {PaneGen, 3}, {PaneReq, 4},
	{PaneGPU, 7}, {PaneClient, 9}, {PaneHost, 10}, {PaneFind, 8},
}

// LayoutFor is the only place where the overview's geometry is decided: a pure
// function of the size, for drawing and for the mouse.
func LayoutFor(w, h int) Layout {
	l := Layout{W: max(w, 0), H: max(h, 0)}
	switch {
	case w >= 100 && h >= 30:
		l.Mode = ModeFull
		l.full()
	case w >= 60 && h >= 20:
		l.Mode = ModeSmall
		l.small()
	default:
		l.side()
	}
	return l
}

func (l *Layout) side() {
	w, h := l.W, l.H
	if w == 0 || h == 0 {
		return
	}
	room := h
	verdict := min(2, room)
	if w < 40 && h >= 10 {
		verdict = 3
	}
	room -= verdict
	status := 0
	if room >= 3 {
		status = 1
		room--
	}
	given := map[Pane]bool{}
	for rank := 1; rank <= 10 && room > 0; rank++ {
		for _, s := range sideLines {
			if s.rank == rank {
				given[s.pane] = true
				room--
			}
		}
	}
	graph := 0
	if room >= 4 {
		graph = min(room, 8)
		room -= graph
	}
	find, events := 0, 0
	if room > 0 {
		find = min(room, 6)
		events = max(room-find, 0)
		if events < 2 {
			find, events = find+events, 0
		}
	}
	y := 0
	row := func(p Pane, n int) {
		l.Rect[p] = Rect{0, y, w, n}
		y += n
	}
	row(PaneVerdict, verdict)
	for _, s := range sideLines {
		if !given[s.pane] {
			continue
		}
		n := 1
		if s.pane == PaneGen {
			n += graph
		}
		if s.pane == PaneFind {
			n += find
		}
		row(s.pane, n)
	}
	if events > 0 {
		row(PaneEvents, events)
	}
	if status > 0 {
		l.Rect[PaneFooter] = Rect{0, h - 1, w, 1}
	}
}

func (l *Layout) small() {
	w, h := l.W, l.H
	rows, gen, req, gpu, host, find := 4, 6, 1, 1, 1, 3
	extra := h - (1 + 2 + rows + gen + req + gpu + host + find + 1)
	if extra >= 9 { // one line for all GPUs, or a rule and rows of their own
		gpu += 4
		extra -= 4
	}
	for i := 0; extra > 0; i++ {
		switch i % 5 {
		case 0:
			if rows < 12 {
				rows++
			} else {
				find++
			}
		case 1, 3:
			gen++
		case 2, 4:
			find++
		}
		extra--
	}
	y := 0
	row := func(p Pane, n int) {
		l.Rect[p] = Rect{0, y, w, n}
		y += n
	}
	row(PaneHeader, 1)
	row(PaneVerdict, 2)
	row(PaneRows, rows)
	row(PaneGen, gen)
	row(PaneReq, req)
	row(PaneGPU, gpu)
	row(PaneHost, host)
	if w >= 90 && find >= 3 {
		half := w * 55 / 100
		l.Rect[PaneFind] = Rect{0, y, half, find}
		l.Rect[PaneEvents] = Rect{half + 1, y, w - half - 1, find}
		y += find
	} else {
		row(PaneFind, find)
	}
	row(PaneFooter, 1)
}

func (l *Layout) full() {
	w, h := l.W, l.H
	rows, gen, gpu, find := 6, 8, 6, 5
	extra := h - (1 + 2 + rows + gen + gpu + find + 1)
	for i := 0; extra > 0; i++ {
		switch i % 6 {
		case 0, 2, 4:
			gen++
		case 1, 5:
			find++
		case 3:
			switch {
			case rows < 11:
				rows++
			case gpu < 10:
				gpu++
			default:
				find++
			}
		}
		extra--
	}
	y := 3
	l.Rect[PaneHeader] = Rect{0, 0, w, 1}
	l.Rect[PaneVerdict] = Rect{0, 1, w, 2}
	l.Rect[PaneRows] = Rect{0, y, w, rows}
	y += rows
	left := w * 57 / 100
	l.Rect[PaneGen] = Rect{0, y, left, gen}
	l.Rect[PaneReq] = Rect{left, y, w - left, gen}
	y += gen
	host := max(32, w*26/100)
	l.Rect[PaneGPU] = Rect{0, y, w - host, gpu}
	l.Rect[PaneHost] = Rect{w - host, y, host, gpu}
	y += gpu
	l.Rect[PaneFind] = Rect{0, y, left, find}
	l.Rect[PaneEvents] = Rect{left, y, w - left, find}
	y += find
	l.Rect[PaneFooter] = Rect{0, y, w, 1}
}

// At gives the pane under a cell; ok is false for none.
func (l Layout) At(x, y int) (p Pane, ok bool) {
	for p := range paneCount {
		if l.Rect[p].Contains(x, y) {
			return p, true
		}
	}
	return 0, false
}
