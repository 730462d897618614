package tui

import (
	"bytes"
	"flag"
	"fmt"
	"html"
	"image/color"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/vt"
)

// Cells of the picture, in pixels.
const (
	cellW, cellH = 8.4, 17.0
	fontSize     = 14
)

// svgOf draws an emulator's screen. Lines and blocks are drawn as shapes, since
// fonts leave gaps between them; words are stretched to their cells.
func svgOf(em *vt.SafeEmulator) []byte {
	var b bytes.Buffer
	w, h := float64(em.Width())*cellW+16, float64(em.Height())*cellH+16
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.1f %.1f" font-family="ui-monospace,SFMono-Regular,Menlo,'DejaVu Sans Mono',monospace" font-size="%d">`+"\n", w, h, w, h, fontSize)
	fmt.Fprintf(&b, `<rect width="%.1f" height="%.1f" rx="6" fill="#14171c"/>`+"\n", w, h)
	for y := range em.Height() {
		for x := 0; x < em.Width(); {
			first := em.CellAt(x, y)
			var text strings.Builder
			n := 0
			for x+n < em.Width() {
				c := em.CellAt(x+n, y)
				if c == nil || n > 0 && (!c.Style.Equal(&first.Style) || (shape(c.Content, 1) != "" || shape(first.Content, 1) != "") && (c.Content != first.Content || !strings.Contains("─━▁▂▃▄▅▆▇", c.Content))) {
					break
				}
				text.WriteString(c.Content)
				n += max(c.Width, 1)
			}
			svgRun(&b, x, y, n, text.String(), first.Style)
			x += max(n, 1)
		}
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func svgRun(b *bytes.Buffer, x, y, n int, text string, st uv.Style) {
	fg, bg := cssOf(st.Fg, "#d5dae1"), cssOf(st.Bg, "")
	px, py, pw := 8+float64(x)*cellW, 8+float64(y)*cellH, float64(n)*cellW
	if bg != "" {
		fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", px, py, pw, cellH, bg)
	}
	if d := shape(text[:firstLen(text)], n); d != "" {
		fmt.Fprintf(b, `<g transform="translate(%.1f %.1f)" %s</g>`+"\n", px, py, strings.ReplaceAll(d, "COLOUR", fg))
		return
	}
	trimmed := strings.TrimRight(text, " ")
	lead := len(trimmed) - len(strings.TrimLeft(trimmed, " "))
	if strings.TrimSpace(text) == "" {
		return
	}
	bold := ""
	if st.Attrs&uv.AttrBold != 0 {
		bold = ` font-weight="bold"`
	}
	words := trimmed[lead:]
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" fill="%s"%s textLength="%.1f" xml:space="preserve">%s</text>`+"\n",
		px+float64(lead)*cellW, py+13, fg, bold, float64(textWidth(words))*cellW, html.EscapeString(words))
}

func cssOf(c color.Color, none string) string {
	if c == nil {
		return none
	}
	r, g, b, _ := c.RGBA()
	return fmt.Sprintf("#%02x%02x%02x", r>>8, g>>8, b>>8)
}

func firstLen(s string) int {
	_, n := utf8.DecodeRuneInString(s)
	return n
}

// shape is the drawing of a line or block character over a run of cells.
func shape(s string, n int) string {
	const h, mx, my = cellH, cellW / 2, cellH / 2
	w := cellW * float64(n)
	path := func(d string, width float64) string {
		return fmt.Sprintf(`stroke="COLOUR" fill="none" stroke-width="%.1f"><path d="%s"/>`, width, d)
	}
	switch s {
	case "─":
		return path(fmt.Sprintf("M0 %.1fH%.1f", my, w), 1)
	case "━":
		return path(fmt.Sprintf("M0 %.1fH%.1f", my, w), 3)
	case "╸":
		return path(fmt.Sprintf("M0 %.1fH%.1f", my, mx), 3)
	case "╴":
		return path(fmt.Sprintf("M0 %.1fH%.1f", my, mx), 1)
	case "╶":
		return path(fmt.Sprintf("M%.1f %.1fH%.1f", mx, my, w), 1)
	case "│":
		return path(fmt.Sprintf("M%.1f 0V%.1f", mx, h), 1)
	case "┴":
		return path(fmt.Sprintf("M0 %.1fH%.1fM%.1f 0V%.1f", my, w, mx, my), 1)
	case "╭":
		return path(fmt.Sprintf("M%.1f %.1fQ%.1f %.1f %.1f %.1f", mx, h, mx, my, w, my), 1)
	case "╮":
		return path(fmt.Sprintf("M0 %.1fQ%.1f %.1f %.1f %.1f", my, mx, my, mx, h), 1)
	case "╰":
		return path(fmt.Sprintf("M%.1f 0Q%.1f %.1f %.1f %.1f", mx, mx, my, w, my), 1)
	case "╯":
		return path(fmt.Sprintf("M0 %.1fQ%.1f %.1f %.1f 0", my, mx, my, mx), 1)
	}
	for i, r := range sparkRunes {
		if s == r {
			top := h * (1 - float64(i+1)/8)
			return fmt.Sprintf(`fill="COLOUR"><rect y="%.1f" width="%.1f" height="%.1f"/>`, top, w, h-top)
		}
	}
	return ""
}

// The README's picture is what the screen shows of the story, never older.
func TestPicture(t *testing.T) {
	const path = "../docs/screen.svg"
	var got []byte
	drive(t, 120, 40, sceneSettled(), func(d *driver) { got = svgOf(onEmulator(t, 120, 40, d.m.View().Content)) })
	if f := flag.Lookup("update"); f != nil && f.Value.String() == "true" {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/screen.svg is stale: go test ./tui -run TestPicture -update")
	}
}
