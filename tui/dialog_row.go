package tui

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/runvigil/runvigil/metrics"
)

// foldAt is the length from which a field of a row is folded; mostFields and
// mostDepth bound what is shown of a row that was made to be endless.
const (
	foldAt     = 300
	mostFields = 2000
	mostDepth  = 40
)

// rowDialog shows one row of a dataset, a field a line; long fields are folded
// until they are opened.
type rowDialog struct {
	r    Row
	tree []rowField
	note string // what is wrong with the row
	open bool   // all folds
	top  int

	drawn []line // for width and open
	width int
	wide  bool
}

type rowField struct {
	depth int
	name  string
	text  string
	node  bool // it holds others
}

var errDeep = errors.New("nested too deep to be shown field by field")

func newRowDialog(r Row) *rowDialog {
	d := &rowDialog{r: r}
	dec := json.NewDecoder(bytes.NewReader(r.JSON))
	dec.UseNumber()
	err := d.value(dec, 0, "")
	if err == nil {
		if _, more := dec.Token(); more != io.EOF {
			err = errors.New("there is more behind its end")
		}
	}
	switch {
	case d.cut() && len(d.tree) > 0:
		d.note = "only its first " + metrics.Bytes(float64(len(r.JSON))) + " are shown"
	case err != nil:
		d.note = "this is not JSON: " + err.Error()
		if errors.Is(err, errDeep) {
			d.note = "it is " + err.Error()
		}
		d.tree = []rowField{{text: string(r.JSON)}}
	}
	if len(d.tree) > mostFields {
		d.note = strings.TrimPrefix(d.note+fmt.Sprintf("; %s fields more are left out", commas(int64(len(d.tree)-mostFields))), "; ")
		d.tree = d.tree[:mostFields]
	}
	return d
}

// cut tells that only the start of the row is here.
func (d *rowDialog) cut() bool { return d.r.Bytes > int64(len(d.r.JSON)) }

// value walks JSON in its own order of fields. What was read before an error
// stays.
func (d *rowDialog) value(dec *json.Decoder, depth int, name string) error {
	if depth > mostDepth {
		return errDeep
	}
	t, err := dec.Token()
	if err != nil {
		if d.cut() { // in the middle of this value
			rest := strings.TrimLeft(string(d.r.JSON[dec.InputOffset():]), ":, \"")
			d.tree = append(d.tree, rowField{depth: depth, name: name, text: rest})
		}
		return err
	}
	delim, ok := t.(json.Delim)
	if !ok {
		text := fmt.Sprint(t)
		if t == nil {
			text = "null"
		}
		d.tree = append(d.tree, rowField{depth: depth, name: name, text: text})
		return nil
	}
	if depth > 0 {
		d.tree = append(d.tree, rowField{depth: depth, name: name, node: true})
	}
	at := len(d.tree)
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
	if _, err = dec.Token(); err != nil {
		return err
	}
	d.inline(at, delim)
	return nil
}

// inline puts a list of plain values, such as token ids, into one field.
func (d *rowDialog) inline(at int, delim json.Delim) {
	list := d.tree[at:]
	if delim != '[' || at == 0 || slices.ContainsFunc(list, func(f rowField) bool { return f.node || len(f.text) > 40 }) {
		return
	}
	texts := make([]string, len(list))
	for i, f := range list {
		texts[i] = f.text
	}
	d.tree = d.tree[:at]
	d.tree[at-1].text, d.tree[at-1].node = "["+strings.Join(texts, ", ")+"]", false
}

func clean(s string) string { return metrics.Mask(metrics.Clean(s, 0)) }

func (d *rowDialog) lines(w int) []line {
	if d.drawn != nil && d.width == w && d.wide == d.open {
		return d.drawn
	}
	var out []line
	if d.note != "" {
		out = append(out, line{sp("▲ "+clean(d.note), stWarn)})
	}
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
	d.drawn, d.width, d.wide = out, w, d.open
	return out
}

func (d *rowDialog) draw(_ *Model, screen area) {
	title := "newest row of " + clean(base(d.r.Path)) + "  " + metrics.Bytes(float64(d.r.Bytes))
	if d.cut() {
		title += " (its start)"
	}
	if d.r.Torn {
		title += "  a further row is not ended"
	}
	w, h := screen.w(), screen.h()
	if w >= 60 && h >= 20 {
		w, h = w-6, h-6
	}
	a := popup(screen, w, h, title, stAccent)
	lines := d.lines(a.w())
	d.top = max(min(d.top, len(lines)-a.h()+1), 0)
	for i := d.top; i < len(lines) && i-d.top < a.h()-1; i++ {
		a.line(0, i-d.top, a.w(), lines[i])
	}
	a.line(0, a.h()-1, a.w(), line{sp("j k", stAccent.bold()), sp(" scroll   ", stDim), sp("enter", stAccent.bold()), sp(" fold   ", stDim), sp("esc", stAccent.bold()), sp(" close", stDim)})
}

func (d *rowDialog) keys() []dialogKey {
	return append(scrollKeys(&d.top),
		dialogKey{[]string{"enter"}, "fold or unfold long fields", func(*Model, tea.KeyPressMsg) tea.Cmd { d.open = !d.open; return nil }},
		closeKey(d, "close", "esc", "q"))
}

func (d *rowDialog) typed(*Model, tea.KeyPressMsg) tea.Cmd { return nil }

func (d *rowDialog) paste(*Model, string) tea.Cmd { return nil }

func (d *rowDialog) cursor() (x, y int, ok bool) { return 0, 0, false }
