package tui

import (
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Rect is a part of the screen in cells.
type Rect struct{ X, Y, W, H int }

// Empty tells whether the rectangle holds no cell.
func (r Rect) Empty() bool { return r.W <= 0 || r.H <= 0 }

// Contains tells whether the cell lies in the rectangle.
func (r Rect) Contains(x, y int) bool {
	return x >= r.X && x < r.X+r.W && y >= r.Y && y < r.Y+r.H
}

// A canvas is the screen as cells. Everything is drawn through areas, which
// clip, so no pane can reach into another whatever text it is given.
type canvas struct {
	w, h  int
	cells []cell
	ascii bool
}

// cell holds one grapheme; w is 0 for the right half of a wide one.
type cell struct {
	s  string
	w  uint8
	st style
}

func newCanvas(w, h int, ascii bool) *canvas {
	c := &canvas{w: max(w, 0), h: max(h, 0), ascii: ascii}
	c.cells = make([]cell, c.w*c.h)
	for i := range c.cells {
		c.cells[i] = cell{s: " ", w: 1}
	}
	return c
}

func (c *canvas) area(r Rect) area {
	x0, y0 := max(r.X, 0), max(r.Y, 0)
	x1, y1 := min(r.X+r.W, c.w), min(r.Y+r.H, c.h)
	return area{c: c, r: Rect{x0, y0, max(x1-x0, 0), max(y1-y0, 0)}}
}

// set writes one grapheme and repairs a wide one that it cuts in half.
func (c *canvas) set(x, y int, g string, w int, st style) {
	i := y*c.w + x
	if c.cells[i].w == 0 && x > 0 {
		c.cells[i-1] = cell{s: " ", w: 1, st: c.cells[i-1].st}
	}
	if end := x + w; end < c.w && c.cells[i+w-1].w != 0 && c.cells[i+w].w == 0 {
		c.cells[i+w] = cell{s: " ", w: 1, st: c.cells[i+w].st}
	}
	c.cells[i] = cell{s: g, w: uint8(w), st: st}
	if w == 2 {
		c.cells[i+1] = cell{st: st}
	}
}

// render gives the rows joined by line feeds, each row exactly w cells wide,
// with the fewest changes of style; every row ends in the default style.
func (c *canvas) render(t *Theme) string {
	var b strings.Builder
	b.Grow(c.w * c.h * 2)
	for y := range c.h {
		if y > 0 {
			b.WriteByte('\n')
		}
		var cur style
		for _, cl := range c.cells[y*c.w : (y+1)*c.w] {
			if cl.w == 0 {
				continue
			}
			if cl.st != cur {
				b.WriteString(t.sgr(cl.st))
				cur = cl.st
			}
			b.WriteString(cl.s)
		}
		if cur != (style{}) {
			b.WriteString("\x1b[m")
		}
	}
	return b.String()
}

// text gives the rows without styles and without blanks at their ends.
func (c *canvas) text(r Rect) string {
	a := c.area(r)
	rows := make([]string, a.r.H)
	for y := range rows {
		var b strings.Builder
		for x := range a.r.W {
			if cl := c.cells[(a.r.Y+y)*c.w+a.r.X+x]; cl.w != 0 {
				b.WriteString(cl.s)
			}
		}
		rows[y] = strings.TrimRight(b.String(), " ")
	}
	return strings.Join(rows, "\n")
}

// An area is a clipped window on the canvas with its own origin.
type area struct {
	c *canvas
	r Rect
}

func (a area) w() int { return a.r.W }
func (a area) h() int { return a.r.H }

func (a area) sub(x, y, w, h int) area {
	x0, y0 := max(x, 0), max(y, 0)
	x1, y1 := min(x+w, a.r.W), min(y+h, a.r.H)
	return area{a.c, Rect{a.r.X + x0, a.r.Y + y0, max(x1-x0, 0), max(y1-y0, 0)}}
}

// put writes text from (x, y) to at most the area's right edge and gives the
// column after it.
func (a area) put(x, y int, s string, st style) int {
	if y < 0 || y >= a.r.H {
		return x + a.c.width(s)
	}
	for len(s) > 0 {
		g, w, n := grapheme(s)
		s = s[n:]
		if a.c.ascii {
			g, w = asciiOf(g, w)
		}
		if w == 0 {
			continue
		}
		if x >= 0 && x+w <= a.r.W {
			a.c.set(a.r.X+x, a.r.Y+y, g, w, st)
		}
		x += w
	}
	return x
}

// fill writes one single-width grapheme over a run of cells.
func (a area) fill(x, y, n int, g string, st style) int {
	if a.c.ascii {
		g, _ = asciiOf(g, 1)
	}
	for i := range n {
		if y >= 0 && y < a.r.H && x+i >= 0 && x+i < a.r.W {
			a.c.set(a.r.X+x+i, a.r.Y+y, g, 1, st)
		}
	}
	return x + n
}

// clear blanks the whole area.
func (a area) clear(st style) {
	for y := range a.r.H {
		a.fill(0, y, a.r.W, " ", st)
	}
}

// cut writes text into w cells, with "…" where it does not fit.
func (a area) cut(x, y, w int, s string, st style) int {
	return a.put(x, y, a.c.trunc(s, w), st)
}

// width is the number of cells a text takes on this canvas.
func (c *canvas) width(s string) int { return textWidth(s) }

func (c *canvas) trunc(s string, w int) string { return truncate(s, w) }

// grapheme gives the first grapheme of s, its width and its length in bytes.
// Terminals disagree about clusters of several runes: those whose width depends
// on the way of counting are shown by their first rune alone.
func grapheme(s string) (g string, w, n int) {
	if b := s[0]; b < 0x7f && (len(s) == 1 || s[1] < 0x80) {
		if b < ' ' {
			return "", 0, 1
		}
		return s[:1], 1, 1
	}
	if r, size := utf8.DecodeRuneInString(s); r == utf8.RuneError && size <= 1 {
		return "\ufffd", 1, 1
	}
	g, w = ansi.FirstGraphemeCluster(s, ansi.GraphemeWidth)
	if valid := validPrefix(g); valid < len(g) {
		g = g[:valid]
		w = ansi.StringWidth(g)
	}
	n = len(g)
	if n == 0 {
		return "", 0, 1
	}
	if wc := ansi.StringWidthWc(g); wc != w || w > 2 {
		for _, r := range g {
			g = string(r)
			break
		}
		if w = ansi.StringWidthWc(g); w > 2 || w != ansi.StringWidth(g) {
			g, w = "?", 1
		}
	}
	if w == 1 && (g[0] < ' ' || g[0] == 0x7f) || strings.ContainsRune(g, 0x1b) || controlC1(g) {
		return "", 0, n
	}
	return g, w, n
}

// validPrefix is the length of s up to its first byte that is not UTF-8.
func validPrefix(s string) int {
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n <= 1 {
			return i
		}
		i += n
	}
	return len(s)
}

// controlC1 guards against text that was not cleaned: some terminals take
// U+0080 to U+009F as controls.
func controlC1(g string) bool {
	return len(g) == 2 && g[0] == 0xc2 && g[1] < 0xa0
}

func textWidth(s string) int {
	w := 0
	for len(s) > 0 {
		_, gw, n := grapheme(s)
		w += gw
		s = s[n:]
	}
	return w
}

func truncate(s string, w int) string {
	if w <= 0 {
		return ""
	}
	total, keep := 0, 0
	for rest := s; len(rest) > 0; {
		_, gw, n := grapheme(rest)
		if total+gw <= w-1 {
			keep = len(s) - len(rest) + n
		}
		if total += gw; total > w {
			return s[:keep] + "…"
		}
		rest = rest[n:]
	}
	return s
}

// padLeft and padRight give exactly w cells; what is too long is cut.
func padLeft(s string, w int) string {
	s = truncate(s, w)
	return strings.Repeat(" ", max(w-textWidth(s), 0)) + s
}

func padRight(s string, w int) string {
	s = truncate(s, w)
	return s + strings.Repeat(" ", max(w-textWidth(s), 0))
}

var asciiRunes = map[string]string{
	"╭": "+", "╮": "+", "╰": "+", "╯": "+", "─": "-", "│": "|", "├": "+", "┤": "+", "┬": "+", "┴": "+", "┼": "+",
	"━": "=", "╸": "=", "┃": "|", "╌": "-", "┄": "-", "╵": "'", "╷": ",",
	"█": "#", "▉": "#", "▊": "#", "▋": "#", "▌": "=", "▍": "=", "▎": "-", "▏": "-", "░": ".", "▒": ":", "▓": "#",
	"▁": "_", "▂": ".", "▃": "-", "▄": "=", "▅": "+", "▆": "*", "▇": "#",
	"–": "-", "—": "-", "…": "~", "→": ">", "←": "<", "↑": "^", "↓": "v", "↕": "|", "±": "~", "×": "x", "°": "'", "·": ".", "≈": "~",
	"●": "*", "○": "o", "▲": "^", "△": "^", "▼": "v", "✖": "X", "◆": "*", "◇": "o", "■": "#", "★": "*", "▸": ">", "▾": "v", "▴": "^", "❯": ">",
	"¹": "1", "²": "2", "³": "3", "⁴": "4", "⁵": "5", "⁶": "6", "≠": "!", "✓": "+", "›": ">", "┊": ":",
	"“": "\"", "”": "\"", "‘": "'", "’": "'", "≥": ">", "≤": "<", "⚠": "!", "ℹ": "i",
}

// asciiOf replaces a grapheme by ASCII of the same width.
func asciiOf(g string, w int) (string, int) {
	if len(g) == 1 {
		return g, w
	}
	if s, ok := asciiRunes[g]; ok {
		return s, 1
	}
	if w == 2 {
		return "?", 1
	}
	return "?", w
}
