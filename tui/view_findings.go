package tui

import (
	"fmt"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/runvigil/runvigil/metrics"
)

// findingsView lists findings and shows the selected one with its evidence.
type findingsView struct {
	list
	whole         bool // the detail has the whole view
	scroll, below int  // lines of the detail: above what is in sight, and beyond it
}

func (v *findingsView) title(m *Model) string { return "findings" }

func (v *findingsView) all(s *metrics.Snapshot) []metrics.Finding {
	out := append([]metrics.Finding(nil), s.Findings...)
	for i := len(s.History) - 1; i >= 0; i-- {
		if !s.History[i].Cleared.IsZero() {
			out = append(out, s.History[i])
		}
	}
	return out
}

func (v *findingsView) opened(m *Model) tea.Cmd {
	v.sel, v.whole, v.scroll = m.sel[PaneFind], false, 0
	return nil
}

// move goes to another finding; in a detail that has more lines than the screen
// it scrolls first.
func (v *findingsView) move(m *Model, d motion) tea.Cmd {
	if m.snap == nil {
		return nil
	}
	if by := map[motion]int{moveUp: -1, moveDown: 1, movePageUp: -5, movePageDown: 5}[d]; v.whole && by != 0 {
		if to := max(min(v.scroll+by, v.below), 0); to != v.scroll {
			v.scroll = to
			return nil
		}
	}
	was := v.sel
	v.list.move(len(v.all(m.snap)), 5, d)
	if v.sel != was {
		v.scroll = 0
	}
	return nil
}

func (v *findingsView) selected(m *Model) *metrics.Finding {
	if m.snap == nil {
		return nil
	}
	all := v.all(m.snap)
	if v.sel >= len(all) {
		return nil
	}
	return &all[v.sel]
}

func (v *findingsView) draw(m *Model, a area) {
	if m.snap == nil {
		return
	}
	p := m.pen()
	all := v.all(m.snap)
	if len(all) == 0 {
		a.note("nothing is found wrong")
		m.drawCannotTell(a, p, 2)
		return
	}
	y := 0
	if !v.whole {
		h := min(len(all), max(a.h()/3, 2))
		top := v.window(len(all), h)
		v.drawn = Rect{a.r.X, a.r.Y, a.w(), h}
		for i := top; i < len(all) && i-top < h; i++ {
			f := &all[i]
			row := a.sub(0, i-top, a.w(), 1)
			m.drawFindingLine(row, p, f, i == v.sel)
			if !f.Cleared.IsZero() {
				row.right(0, line{sp(" cleared "+p.ago(f.Cleared), stDim)})
			}
		}
		y = h + 1
	}
	v.window(len(all), max(a.h(), 1))
	v.detail(m, a.sub(0, y, a.w(), a.h()-y), p, &all[min(v.sel, len(all)-1)])
}

// detail draws one finding from v.scroll on; what to do stands before the proof,
// where little room is.
func (v *findingsView) detail(m *Model, a area, p pen, f *metrics.Finding) {
	all := v.lines(p, f, a.w())
	v.below = max(len(all)-a.h(), 0)
	v.scroll = min(v.scroll, v.below)
	if !v.whole {
		v.scroll = 0
	}
	y := 0
	for _, l := range all[v.scroll:] {
		a.line(1, y, a.w()-2, l)
		y++
	}
	if v.below > v.scroll {
		a.put(a.w()-2, a.h()-1, "▼", stAccent)
	}
	if f.Graph.What != "" && a.h()-y >= 6 {
		mark := graphMark{f.Since, severitySign[f.Severity], severityStyle(f.Severity).bold()}
		a.put(1, y+1, orText(seriesWords[f.Graph.What], f.Graph.What)+" ["+ranges[m.rangeOf(mark)].name+"]", stDim)
		m.drawGraph(a.sub(1, y+2, a.w()-2, min(a.h()-y-2, 14)), f.Graph.What, f.Graph.Of, graphOf{floor: 1, every: 5 * time.Second, st: stData, mark: mark})
	}
}

// lines is a finding with its evidence, w cells wide.
func (v *findingsView) lines(p pen, f *metrics.Finding, w int) []line {
	var out []line
	put := func(label, text string, st style) {
		for _, row := range wrap(text, w-14, 40) {
			out = append(out, line{sp(padRight(label, 11), stDim), sp(row, st)})
			label = ""
		}
	}
	sign := sp(severitySign[f.Severity]+" ", severityStyle(f.Severity))
	for _, row := range wrap(f.Title, w-5, 3) {
		out = append(out, line{sign, sp(row, stStrong)})
		sign = sp("  ", stText)
	}
	out = append(out, nil)
	since := p.clock(f.Since) + ", " + p.age(f.Since) + " ago"
	if f.Cause != "" {
		since += "   cause " + string(f.Cause)
	}
	put("since", since, stText)
	put("why", f.Why, stText)
	put("advice", f.Advice, stAccent.bold())
	for i, e := range f.Evidence {
		text := e.Text
		if e.Source != "" {
			text += "   (" + e.Source + ", " + p.clock(e.At) + ")"
		}
		put([]string{"evidence", ""}[min(i, 1)], text, stText)
	}
	switch l := f.Log; {
	case l.Path == "":
	case l.Line > 0:
		put("proof", fmt.Sprintf("%s line %s: o", base(l.Path), commas(l.Line)), stDim)
	default:
		put("log", fmt.Sprintf("%s at %s: o", base(l.Path), p.clock(provenBy(f).At)), stDim)
	}
	if f.Acked {
		put("state", "acknowledged", stDim)
	}
	if f.Snoozed.After(p.now()) {
		put("state", "snoozed until "+p.clock(f.Snoozed), stDim)
	}
	for i, c := range f.Changed {
		put([]string{"life", ""}[min(i, 1)], p.clock(c.At)+" "+c.What+" "+c.Text, stDim)
	}
	return out
}

// provenBy is where a finding stands in its log: without a time of its own, when
// it began.
func provenBy(f *metrics.Finding) metrics.LogPlace {
	l := f.Log
	if l.At.IsZero() {
		l.At = f.Since
	}
	return l
}

// proof opens the log at the line that proves the selected finding.
func (m *Model) proof() tea.Cmd {
	f := m.views[viewFindings].(*findingsView).selected(m)
	if f == nil {
		return nil
	}
	if f.Log.Path == "" {
		return m.say("this finding rests on no log line")
	}
	v := m.views[viewLogs].(*logView)
	v.path = f.Log.Path
	cmd := m.open(viewLogs)
	return tea.Batch(cmd, v.goToPlace(m, provenBy(f)))
}
