package tui

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/metrics"
)

// findDialog is the search of the form: the list below follows every letter.
type findDialog struct {
	v  *formView
	in input
}

func (d *findDialog) draw(m *Model, screen area) {
	d.v.refresh(m)
	// The search lies where the form's own search line is.
	y := min(3, max(screen.h()-1, 0))
	x := 4
	if screen.w() < 60 || screen.h() < 20 {
		x = 3
	}
	a := screen.sub(x, y, min(44, screen.w()-x-1), 1)
	a.clear(stText)
	w := max(a.w()-14, 1)
	d.in.draw(a, 0, 0, w)
	a.cut(w+2, 0, 12, fmt.Sprintf("%d found", countRows(d.v.rows)), stDim)
}

func (d *findDialog) keys() []dialogKey {
	ends := func(help, key string) dialogKey {
		return dialogKey{[]string{key}, help, func(m *Model, _ tea.KeyPressMsg) tea.Cmd {
			if key == "esc" {
				d.v.query = ""
			}
			m.close(d)
			d.v.refresh(m)
			d.v.skip(1)
			return nil
		}}
	}
	return []dialogKey{
		ends("leave the search", "esc"), ends("keep what was found", "enter"),
		{[]string{"down", "ctrl+n"}, "the next flag", func(m *Model, _ tea.KeyPressMsg) tea.Cmd { return d.v.move(m, moveDown) }},
		{[]string{"up", "ctrl+p"}, "the flag before", func(m *Model, _ tea.KeyPressMsg) tea.Cmd { return d.v.move(m, moveUp) }},
	}
}

func (d *findDialog) typed(m *Model, k tea.KeyPressMsg) tea.Cmd {
	if d.in.key(k) {
		d.search(m)
	}
	return nil
}

func (d *findDialog) search(m *Model) {
	d.v.query = d.in.text()
	d.v.first(m)
	d.v.skip(1)
}

func (d *findDialog) paste(m *Model, text string) tea.Cmd {
	d.in.insert(text)
	d.search(m)
	return nil
}

func (d *findDialog) cursor() (x, y int, ok bool) { return d.in.cursor() }

// valueDialog asks for the value of one flag or variable, and says at once what
// is wrong with it and what it would give.
type valueDialog struct {
	v  *formView
	r  formRow
	in input

	stem    string // what was typed, to which tab finds the choices
	offered string // what tab put there, or what stood there at first

	tried string // the text that judged is of
	judge assessment
	bad   string
	done  bool // judged at least once
}

func newValueDialog(v *formView, r formRow) *valueDialog {
	d := &valueDialog{v: v, r: r}
	switch {
	case r.neu != nil:
		d.in.set(*r.neu)
	case r.now != nil:
		d.in.set(*r.now)
	case !r.env && r.flag.Kind != "choice" && r.flag.Default != metrics.Dash:
		d.in.set(r.flag.Default)
	}
	if strings.Contains(d.in.text(), metrics.Masked) {
		d.in.set("")
	}
	d.in.secret, d.offered = isSecret(r), d.in.text()
	return d
}

// choices are those that what was typed may become, in their order: that begin
// with it, else that hold it; all where nothing was typed.
func (d *valueDialog) choices() []string {
	if text := d.in.text(); text != d.offered {
		d.stem, d.offered = strings.ToLower(strings.TrimSpace(text)), text
	}
	var begin, hold []string
	for _, c := range d.r.flag.Choices {
		switch low := strings.ToLower(c); {
		case strings.HasPrefix(low, d.stem):
			begin = append(begin, c)
		case strings.Contains(low, d.stem):
			hold = append(hold, c)
		}
	}
	if len(begin) > 0 {
		return begin
	}
	return hold
}

// choose puts the next of the choices there, or the one before.
func (d *valueDialog) choose(by int) {
	choices := d.choices()
	n := len(choices)
	if n == 0 {
		return
	}
	i := slices.Index(choices, d.in.text())
	if i < 0 && by < 0 {
		i = 0 // the last one comes before the first
	}
	d.offered = choices[(i+by+n)%n]
	d.in.set(d.offered)
}

// isSecret tells whether the name says that the value is one.
func isSecret(r formRow) bool {
	const any = "value"
	if r.env {
		return strings.Contains(metrics.MaskEnv([]string{r.name + "=" + any})[0], metrics.Masked)
	}
	return strings.Contains(metrics.MaskValue(r.name, any), metrics.Masked)
}

func (d *valueDialog) edit() launch.Edit {
	if d.r.env {
		return launch.Edit{Kind: launch.SetEnv, Name: d.r.name, Value: d.in.text()}
	}
	return launch.Edit{Kind: launch.SetFlag, Name: d.r.name, Value: strings.TrimSpace(d.in.text())}
}

// try judges what is typed, once for each text.
func (d *valueDialog) try(m *Model) {
	if d.done && d.tried == d.in.text() {
		return
	}
	d.tried, d.done, d.bad = d.in.text(), true, ""
	trial := edited(d.v.draft.Base(), d.v.draft.Edits())
	if err := trial.Do(d.edit()); err != nil {
		d.bad = err.Error()
	}
	if d.bad == "" && !d.r.env && d.r.known {
		if err := d.r.flag.Check(d.edit().Value); err != nil {
			d.bad = err.Error()
		}
	}
	d.judge = assess(m.live, m.aim(), trial)
}

func (d *valueDialog) draw(m *Model, screen area) {
	d.try(m)
	name := d.r.name
	if !d.r.env {
		name = "--" + name
	}
	const width = 88
	w := min(width, screen.w()) - 4
	a := popup(screen, width, 15, name+"  "+d.r.kind(), stAccent)
	y := 0
	for _, row := range wrap(clean(d.r.flag.Help), w, 2) {
		a.put(0, y, row, stDim)
		y++
	}
	was := line{sp("now ", stDim), sp(metrics.Dash, stText), sp("   default ", stDim), sp(d.r.defaultText(), stText)}
	if d.r.now != nil {
		was[1].s = clean(*d.r.now)
	}
	a.line(0, y, w, was)
	d.in.draw(a, 0, y+1, a.w())
	y += 2
	if choices := d.choices(); len(choices) > 0 {
		for _, row := range wrap("tab: "+strings.Join(choices, ", "), w, 2) {
			a.put(0, y, row, stDim)
			y++
		}
	}
	var rows []line
	switch {
	case d.bad != "":
		rows = para(sp("✖", stCrit.bold()), 2, w, clean(d.bad), stCrit)
	default:
		rows = append(rows, guardLines(d.judge.broken, w)...)
		for _, p := range d.judge.problems {
			if p.Flag == d.r.name && p.Level >= metrics.SeverityWarning {
				rows = append(rows, para(sp(severitySign[p.Level], severityStyle(p.Level)), 2, w, clean(p.Text), stText)...)
			}
		}
		rows = append(rows, forecastLines(&d.judge.forecast, m.aim(), w)...)
	}
	drawLines(a.sub(0, y, a.w(), max(a.h()-y-1, 0)), rows, 0)
	a.line(0, a.h()-1, a.w(), line{sp("enter", stAccent.bold()), sp(" take it   ", stDim), sp("esc", stAccent.bold()), sp(" leave it as it was", stDim)})
}

func (d *valueDialog) keys() []dialogKey {
	choose := func(by int) func(*Model, tea.KeyPressMsg) tea.Cmd {
		return func(*Model, tea.KeyPressMsg) tea.Cmd {
			d.choose(by)
			return nil
		}
	}
	return []dialogKey{
		closeKey(d, "leave it as it was", "esc"),
		{[]string{"enter"}, "take it", func(m *Model, _ tea.KeyPressMsg) tea.Cmd {
			d.try(m)
			if d.bad != "" {
				return nil
			}
			m.close(d)
			return d.v.do(m, d.edit())
		}},
		{[]string{"tab"}, "the next choice that fits what was typed", choose(1)},
		{[]string{"shift+tab"}, "the choice before", choose(-1)},
	}
}

func (d *valueDialog) typed(_ *Model, k tea.KeyPressMsg) tea.Cmd { d.in.key(k); return nil }

func (d *valueDialog) paste(_ *Model, text string) tea.Cmd { d.in.insert(text); return nil }

func (d *valueDialog) cursor() (x, y int, ok bool) { return d.in.cursor() }
