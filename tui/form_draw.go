package tui

import (
	"fmt"
	"slices"
	"strings"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/launch/forecast"
	"github.com/runvigil/runvigil/metrics"
)

// draw shows the flags on the left and, beside or below them, what the changes
// would give.
func (v *formView) draw(m *Model, a area) {
	if v.draft == nil || m.live == nil {
		text := "no launch is known yet"
		if m.live != nil && m.unsure() != "" {
			text = m.unsure()
		}
		a.cut(0, 0, a.w(), text, stDim)
		return
	}
	v.refresh(m)
	if a.w() >= 100 {
		left := a.w() * 58 / 100
		v.drawFlags(m, a.sub(0, 0, left, a.h()))
		for y := range a.h() {
			a.put(left, y, "│", stFaint)
		}
		drawLines(a.sub(left+2, 0, a.w()-left-2, a.h()), v.side(m, a.w()-left-2), 0)
		return
	}
	side := compact(v.side(m, a.w()))
	h := min(len(side), max(a.h()/2-1, 3))
	if a.h() < 12 {
		h = min(len(side), max(a.h()-8, 0)) // the flags come first
	}
	v.drawFlags(m, a.sub(0, 0, a.w(), a.h()-h-1))
	a.fill(0, a.h()-h-1, a.w(), "─", stFaint)
	drawLines(a.sub(0, a.h()-h, a.w(), h), side, 0)
}

// compact leaves out what only makes room: blank lines and headings.
func compact(rows []line) []line {
	return slices.DeleteFunc(rows, func(l line) bool { return len(l) == 0 || len(l) == 1 && l[0].st == stStrong })
}

// drawLines writes lines from the one at top on.
func drawLines(a area, rows []line, top int) {
	for i := 0; i < a.h() && top+i < len(rows); i++ {
		a.line(0, i, a.w(), rows[top+i])
	}
	if top+a.h() < len(rows) && a.h() > 0 {
		a.put(a.w()-1, a.h()-1, "▼", stAccent)
	}
}

// para is a text in rows of w cells behind an indent; the first row has the head.
func para(head span, indent, w int, text string, st style) []line {
	var out []line
	for i, row := range wrap(text, max(w-indent, 8), 8) {
		l := line{sp(strings.Repeat(" ", indent), stText), sp(row, st)}
		if i == 0 {
			l[0] = span{padRight(head.s, indent), head.st}
		}
		out = append(out, l)
	}
	return out
}

func heading(text string) line { return line{sp(text, stStrong)} }

func (v *formView) drawFlags(m *Model, a area) {
	search := line{sp("/ ", stAccent.bold()), sp("finds a flag", stDim)}
	if v.query != "" {
		search = line{sp("/ ", stAccent.bold()), sp(v.query, stStrong), sp(fmt.Sprintf("   %d found", countRows(v.rows)), stDim), sp("   esc shows all", stDim)}
	}
	a.line(0, 0, a.w(), search)
	valueW, values := 11, 3
	switch {
	case a.w() >= 90:
		valueW = 16
	case a.w() < 50:
		valueW, values = 8, 2 // the default is the first that can be missed
	}
	nameW := max(a.w()-3-values*(valueW+1), 12)
	put := func(y int, cells [4]span, bg role) {
		x := 2
		for i, w := range []int{nameW, valueW, valueW, valueW}[:values+1] {
			st := cells[i].st
			if bg != roleText {
				st = st.on(bg)
			}
			a.cut(x, y, w, cells[i].s, st)
			x += w + 1
		}
	}
	put(1, [4]span{sp("flag", stDim), sp("now", stDim), sp("new", stDim), sp("default", stDim)}, roleText)
	detail := v.detail(m, a.w())
	switch {
	case a.h() < 8:
		detail = nil
	case a.h() < 16 && len(detail) > 3:
		detail = detail[:3]
	}
	h := max(a.h()-2-len(detail), 1)
	v.top = max(min(v.top, v.sel-1), v.sel-h+1, 0)
	v.top = max(min(v.top, len(v.rows)-h), 0)
	for i := v.top; i < len(v.rows) && i-v.top < h; i++ {
		r, y := v.rows[i], 2+i-v.top
		if r.head != "" {
			a.cut(0, y, a.w(), r.head, stAccent)
			continue
		}
		bg := roleText
		if i == v.sel {
			bg = roleSelect
			a.sub(0, y, a.w(), 1).clear(style{bg: bg})
			if !m.colours() {
				a.put(0, y, ">", stStrong)
			}
		}
		show := func(x *string, st style) span {
			if x == nil {
				return sp("", st)
			}
			return sp(switchText(r, clean(*x)), st)
		}
		name, neu := sp(r.name, stText), sp("", stText)
		if r.changed() {
			name.st, neu = stStrong, show(r.neu, stWarn.bold())
			if r.neu == nil {
				neu = sp("removed", stWarn.bold())
			}
			a.put(0, y, "*", stWarn.bold().on(bg))
		}
		put(y, [4]span{name, show(r.now, stText), neu, sp(switchText(r, r.defaultText()), stDim)}, bg)
	}
	drawLines(a.sub(0, a.h()-len(detail), a.w(), len(detail)), detail, 0)
}

func switchText(r formRow, value string) string {
	if r.known && r.flag.Presence {
		switch value {
		case "true":
			return "on"
		case "false":
			return "off"
		}
	}
	return value
}

func countRows(rows []formRow) int {
	n := 0
	for _, r := range rows {
		if r.head == "" {
			n++
		}
	}
	return n
}

// detail tells of the selected flag: what it does and what is wrong with it.
func (v *formView) detail(m *Model, w int) []line {
	r, ok := v.row(m)
	if !ok {
		return nil
	}
	head := line{sp(r.name, stStrong), sp("  "+r.kind(), stDim)}
	if r.neu != nil {
		head = append(head, sp("  ", stText), sp(clean(*r.neu), stText))
	}
	out := []line{{sp(strings.Repeat("─", w), stFaint)}, head}
	help := r.flag.Help
	switch {
	case r.env:
		help = "environment variable"
	case !r.known:
		help = "not a flag that is known of this engine and version: passed on as it is"
	}
	if len(r.flag.Choices) > 0 {
		help += "  (" + strings.Join(r.flag.Choices, ", ") + ")"
	}
	rows := wrap(clean(help), w-1, 2)
	for len(rows) < 2 {
		rows = append(rows, "")
	}
	for _, row := range rows {
		out = append(out, line{sp(row, stDim)})
	}
	return out
}

// side is what the changes give: guards and problems first, then the forecast.
func (v *formView) side(m *Model, w int) []line {
	j := &v.judged
	var out []line
	switch {
	case v.lookErr != "":
		out = append(out, para(sp("▲", stWarn), 2, w, "not read back: "+v.lookErr, stWarn)...)
	case v.seen == nil:
		out = append(out, line{sp("○ ", stInfo), sp("the launch is being read back …", stDim)})
	}
	out = append(out, guardLines(j.broken, w)...)
	for _, p := range j.problems {
		if p.Level >= metrics.SeverityWarning {
			out = append(out, para(sp(severitySign[p.Level], severityStyle(p.Level)), 2, w, p.Text, stText)...)
		}
	}
	out = append(out, diffLines(j.diff, w)...)
	if len(j.diff) == 0 {
		out = append(out, line{sp("no change yet: this is what runs", stDim)})
	}
	out = append(out, nil, heading("forecast"))
	out = append(out, forecastLines(&j.forecast, m.aim(), w)...)
	if pays := breakEvenLines(&j.forecast, w); len(pays) > 0 && len(j.diff) > 0 {
		out = append(append(out, nil, heading("does it pay?")), pays...)
	}
	return append(out, clientLines(m.live, w)...)
}

// clientLines is the client's own launch beside the server's.
func clientLines(s *metrics.Snapshot, w int) []line {
	var out []line
	for _, c := range s.Clients {
		if c.PID == 0 || len(c.Argv) == 0 || c.State == "gone" || c.State == "zombie" {
			continue
		}
		if out == nil {
			out = append(out, nil, heading("client"))
		}
		out = append(out, para(sp(fmt.Sprint(c.PID), stDim), 8, w, clean(strings.Join(metrics.MaskArgv(c.Argv), " ")), stText)...)
	}
	return out
}

func guardLines(broken []launch.Broken, w int) []line {
	var out []line
	for _, b := range broken {
		out = append(out, para(sp("✖", stCrit.bold()), 2, w, "guard on --"+b.Flag+": "+b.Reason, stCrit)...)
		way := "it stops the restart"
		if b.Guard.Overridable {
			way = "it may be overridden with a reason"
		}
		out = append(out, line{sp("  "+way, stDim)})
	}
	return out
}

func diffLines(diff []launch.Change, w int) []line {
	var out []line
	for _, c := range diff {
		// Its values are masked already; masked again, "unset" would be one.
		out = append(out, para(sp("*", stWarn.bold()), 2, w, metrics.Clean(c.String(), 400), stStrong)...)
	}
	return out
}

// figureLine is one forecast figure with what it is now.
func figureLine(name, unit string, e forecast.Estimate, now metrics.Figure, format func(float64) string, w int) []line {
	if !e.Known {
		return para(sp(name, stDim), 10, w, metrics.Dash+" "+e.Doubt, stDim)
	}
	text := format(e.V)
	if low, high := format(e.Low), format(e.High); low != high {
		text = low + " to " + high
	}
	l := line{sp(padRight(name, 10), stDim), sp(text, stStrong), sp(" "+unit, stDim)}
	if now.Known {
		l = append(l, sp("   now "+format(now.V), stDim))
	}
	return []line{l}
}

// basisLines tell what a forecast rests on and what is doubtful about it.
func basisLines(f *forecast.Forecast, w int) []line {
	var out []line
	for _, e := range []struct {
		name string
		of   forecast.Estimate
	}{{"capacity", f.Capacity}, {"headroom", f.Headroom}, {"fit", f.Fit}, {"tok/s", f.GenTPS}, {"host", f.HostNeed}} {
		name := e.name
		for _, b := range e.of.Basis {
			out = append(out, para(sp(name, stDim), 10, w, clean(b), stText)...)
			name = ""
		}
		if e.of.Known && e.of.Doubt != "" {
			out = append(out, para(sp(name, stDim), 10, w, "doubt: "+clean(e.of.Doubt), stWarn)...)
		}
	}
	return out
}

// forecastLines tells a forecast: known outcomes first, then each figure, then
// warnings.
func forecastLines(f *forecast.Forecast, srv *metrics.Server, w int) []line {
	var out []line
	warn := func(list []forecast.Warning) {
		for _, x := range list {
			st := stText
			if x.Level >= metrics.SeverityCritical {
				st = stCrit
			}
			out = append(out, para(sp(severitySign[x.Level], severityStyle(x.Level)), 2, w, clean(x.Text), st)...)
		}
	}
	warn(f.Outcomes)
	var now metrics.Server
	if srv != nil {
		now = *srv
	}
	put := func(name, unit string, e forecast.Estimate, fig metrics.Figure, format func(float64) string) {
		out = append(out, figureLine(name, unit, e, fig, format, w)...)
	}
	put("capacity", "tokens", f.Capacity, now.Capacity, metrics.Count)
	put("headroom", "GiB", f.Headroom, now.Headroom, two)
	put("fit", "grown requests", f.Fit, now.RequestsFit, metrics.Count)
	put("tok/s", "settled", f.GenTPS, now.Gen.Settled, metrics.Count)
	if n := f.HostNeed; n.Known && n.V > 0 {
		text := metrics.GiB(n.V)
		if f.HostFree.Known {
			text += " of " + metrics.GiB(f.HostFree.V) + " that is free for it"
		}
		out = append(out, para(sp("host", stDim), 10, w, text, stText)...)
	}
	warn(f.Warnings)
	return out
}
