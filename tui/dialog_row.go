package tui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/runvigil/runvigil/metrics"
)

// foldAt is the length from which a field of a row is folded.
const foldAt = 300

// rowDialog shows one row of a dataset, a field a line; long fields are folded
// until they are opened.
type rowDialog struct {
	r    Row
	tree []rowField
	open bool // all folds
	top  int
}

type rowField struct {
	depth int
	name  string
	text  string
}

func newRowDialog(r Row) *rowDialog {
	d := &rowDialog{r: r}
	dec := json.NewDecoder(bytes.NewReader(r.JSON))
	dec.UseNumber()
	if err := d.value(dec, 0, ""); err != nil {
		d.tree = []rowField{{0, "", string(r.JSON)}}
	}
	return d
}

// value walks JSON in its own order of fields.
func (d *rowDialog) value(dec *json.Decoder, depth int, name string) error {
	t, err := dec.Token()
	if err != nil {
		return err
	}
	delim, ok := t.(json.Delim)
	if !ok {
		text := fmt.Sprint(t)
		if t == nil {
			text = "null"
		}
		d.tree = append(d.tree, rowField{depth, name, text})
		return nil
	}
	if depth > 0 {
		d.tree = append(d.tree, rowField{depth, name, ""})
	}
	for i := 0; dec.More(); i++ {
		key := fmt.Sprintf("%d", i)
		if delim == '{' {
			k, err := dec.Token()
			if err != nil {
				return err
			}
			key = fmt.Sprint(k)
		}
		if err := d.value(dec, depth+1, key); err != nil {
			return err
		}
	}
	_, err = dec.Token()
	return err
}

func clean(s string) string { return metrics.Mask(metrics.Clean(s, 0)) }

func (d *rowDialog) lines(w int) []line {
	var out []line
	for _, f := range d.tree {
		indent := strings.Repeat("  ", max(f.depth-1, 0))
		head := line{sp(indent, stText)}
		if f.name != "" {
			head = append(head, sp(clean(f.name), stAccent), sp(": ", stDim))
		}
		text, folded := f.text, ""
		if !d.open && len(text) > foldAt {
			text = metrics.Cut(text, foldAt)
			folded = fmt.Sprintf(" (%s characters, enter unfolds)", commas(int64(len([]rune(f.text)))))
		}
		for i, part := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
			// A field is masked with its name: that is how a secret is told.
			part = strings.TrimPrefix(clean(f.name+": "+part), clean(f.name)+": ")
			if f.name == "" {
				part = clean(part)
			}
			room := w - head.width()
			rows := wrap(part, max(room, 10), 400)
			if len(rows) == 0 {
				rows = []string{""}
			}
			for j, row := range rows {
				if i == 0 && j == 0 {
					out = append(out, append(head[:len(head):len(head)], sp(row, stText)))
				} else {
					out = append(out, line{sp(strings.Repeat(" ", head.width()), stText), sp(row, stText)})
				}
			}
		}
		if folded != "" {
			out = append(out, line{sp(strings.Repeat(" ", head.width())+folded, stDim)})
		}
	}
	return out
}

func (d *rowDialog) draw(_ *Model, screen area) {
	title := "newest row of " + clean(base(d.r.Path)) + "  " + metrics.Bytes(float64(d.r.Bytes))
	if d.r.Bytes > int64(len(d.r.JSON)) {
		title += " (its start)"
	}
	a := popup(screen, max(screen.w()-6, 20), max(screen.h()-6, 6), title, stAccent)
	lines := d.lines(a.w())
	d.top = max(min(d.top, len(lines)-a.h()+1), 0)
	for i := d.top; i < len(lines) && i-d.top < a.h()-1; i++ {
		a.line(0, i-d.top, a.w(), lines[i])
	}
	a.line(0, a.h()-1, a.w(), line{sp("j k", stAccent.bold()), sp(" scroll   ", stDim), sp("enter", stAccent.bold()), sp(" fold   ", stDim), sp("esc", stAccent.bold()), sp(" close", stDim)})
}

func (d *rowDialog) key(m *Model, k tea.KeyPressMsg) tea.Cmd {
	switch k.String() {
	case "esc", "q":
		m.close(d)
	case "enter":
		d.open = !d.open
	case "j", "down":
		d.top++
	case "k", "up":
		d.top--
	case "ctrl+d", "pgdown":
		d.top += 10
	case "ctrl+u", "pgup":
		d.top -= 10
	case "g", "home":
		d.top = 0
	case "G", "end":
		d.top = 1 << 20
	}
	return nil
}

func (d *rowDialog) paste(*Model, string) tea.Cmd { return nil }

func (d *rowDialog) cursor() (x, y int, ok bool) { return 0, 0, false }
