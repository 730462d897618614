package tui

import "strings"

// span is a run of text in one style.
type span struct {
	s  string
	st style
}

// line is a row of spans.
type line []span

func sp(s string, st style) span { return span{s, st} }

func (l line) width() int {
	w := 0
	for _, s := range l {
		w += textWidth(s.s)
	}
	return w
}

// line writes the spans from (x, y), cut with "…" at w cells, and gives the
// column after them.
func (a area) line(x, y, w int, l line) int {
	end := x + w
	for i, s := range l {
		room := end - x
		if room <= 0 {
			break
		}
		if sw := textWidth(s.s); sw > room || sw == room && i < len(l)-1 && l[i+1:].width() > 0 {
			return a.put(x, y, truncate(s.s+"  ", room), s.st)
		}
		x = a.put(x, y, s.s, s.st)
	}
	return x
}

// right writes the spans so that they end at the area's right edge.
func (a area) right(y int, l line) int {
	x := a.w() - l.width()
	a.line(x, y, a.w()-max(x, 0), l)
	return x
}

// seg is a part of a row with its importance: 0 stays, higher ones go first.
type seg struct {
	prio int
	l    line
}

// fit writes the segments with gap cells between them; those of the highest
// prio are left out until the rest fits.
func (a area) fit(x, y, w, gap int, segs ...seg) int {
	shown := make([]seg, 0, len(segs))
	for _, s := range segs {
		if len(s.l) > 0 {
			shown = append(shown, s)
		}
	}
	for len(shown) > 1 {
		total, worst := -gap, 0
		for i, s := range shown {
			total += s.l.width() + gap
			if s.prio >= shown[worst].prio {
				worst = i
			}
		}
		if total <= w || shown[worst].prio == 0 {
			break
		}
		shown = append(shown[:worst], shown[worst+1:]...)
	}
	end := x + w
	for i, s := range shown {
		if i > 0 {
			x += gap
		}
		x = a.line(x, y, end-x, s.l)
	}
	return x
}

// note writes what an empty view has to say.
func (a area) note(text string) {
	for i, row := range wrap(text, a.w(), a.h()) {
		a.put(0, i, row, stDim)
	}
}

// wrap breaks a text into at most n rows of w cells at blanks; the last row is
// cut with "…" where more would follow, behind a clause if one ends late in it:
// half of a word to be copied is no use.
func wrap(s string, w, n int) []string {
	if w <= 0 || n <= 0 {
		return nil
	}
	var rows []string
	rest := strings.TrimSpace(s)
	for rest != "" {
		if textWidth(rest) <= w {
			return append(rows, rest)
		}
		if len(rows) == n-1 {
			row := truncate(rest, w)
			if end := max(strings.LastIndex(row, ", "), strings.LastIndex(row, "; ")); textWidth(row[:max(end, 0)]) > w/2 {
				row = row[:end+1] + " …"
			}
			return append(rows, row)
		}
		cut, width, blank := 0, 0, -1
		for cut < len(rest) {
			g, gw, gn := grapheme(rest[cut:])
			if g == " " {
				blank = cut
			}
			if width += gw; width > w {
				break
			}
			cut += gn
		}
		if blank > 0 {
			cut = blank
		}
		if cut == 0 {
			return append(rows, truncate(rest, w))
		}
		rows = append(rows, strings.TrimRight(rest[:cut], " "))
		rest = strings.TrimLeft(rest[cut:], " ")
	}
	return rows
}
