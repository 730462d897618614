package tui

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/runvigil/runvigil/launch/starts"
	"github.com/runvigil/runvigil/metrics"
)

// startsView compares the starts that are known: sortable, the best one marked,
// two side by side.
type startsView struct {
	list
	by    int      // index into startOrders
	marks []string // ids of those that are put side by side, two at most
}

// startOrders are what the view sorts by; the newest and the largest come first.
var startOrders = []struct{ column, name string }{
	{"at", "when"}, {"settled", "settled tok/s"}, {"peak", "peak tok/s"}, {"running", "running"}, {"capacity", "capacity"}, {"headroom", "headroom"}, {"rows", "rows a minute"},
}

func (v *startsView) title(*Model) string {
	title := "starts  by " + startOrders[v.by].name + "  (* imported)"
	if len(v.marks) == 1 {
		title += "  1 marked, space marks another"
	}
	return title
}

// rows are the starts in the chosen order, as of the snapshot that is shown.
func (v *startsView) rows(m *Model) []starts.Row {
	if m.snap == nil {
		return nil
	}
	rows := starts.Table(m.snap.Starts, m.snap.Guards)
	starts.Sort(rows, startOrders[v.by].column, true)
	return rows
}

func (v *startsView) selected(m *Model) *metrics.Start {
	rows := v.rows(m)
	if v.sel >= len(rows) {
		return nil
	}
	return &rows[v.sel].Start
}

func (v *startsView) move(m *Model, d motion) tea.Cmd {
	if m.snap != nil {
		v.list.move(len(m.snap.Starts), 5, d)
	}
	return nil
}

func (v *startsView) sort(by int) tea.Cmd {
	v.by = (v.by + by + len(startOrders)) % len(startOrders)
	v.sel = 0
	return nil
}

// mark puts the selected start beside another; a third takes the place of the
// first.
func (v *startsView) mark(m *Model) tea.Cmd {
	st := v.selected(m)
	if st == nil {
		return nil
	}
	if i := slices.Index(v.marks, st.ID); i >= 0 {
		v.marks = slices.Delete(v.marks, i, i+1)
		return nil
	}
	v.marks = append(v.marks, st.ID)
	if len(v.marks) > 2 {
		v.marks = slices.Delete(v.marks, 0, 1)
	}
	return nil
}

// startsKeys are the keys of the view.
func startsKeys() []binding {
	in := []string{viewStarts}
	v := func(m *Model) *startsView { return m.views[viewStarts].(*startsView) }
	return []binding{
		{name: "mark-start", keys: []string{"space"}, views: in, group: "Look", short: "mark", help: "mark a start; two marked ones are put side by side", do: func(m *Model, _ string) tea.Cmd { return v(m).mark(m) }},
		{name: "sort-next", keys: []string{">"}, views: in, group: "Look", short: "sort", help: "sort by the next column", do: func(m *Model, _ string) tea.Cmd { return v(m).sort(1) }},
		{name: "sort-previous", keys: []string{"<"}, views: in, group: "Look", help: "sort by the column before", do: func(m *Model, _ string) tea.Cmd { return v(m).sort(-1) }},
	}
}

func opt(v *float64, format func(float64) string) string {
	if v == nil {
		return metrics.Dash
	}
	return format(*v)
}

// startOutcome is how a start went: sign, word, and what speaks against it.
func startOutcome(r *starts.Row) span {
	switch {
	case len(r.Broken) > 0 || r.GuardBroken != "":
		return sp("▲ breaks a guard", stWarn)
	case r.Outcome == "crashed" || r.Outcome == "failed":
		return sp("✖ "+r.Outcome+orEmpty(": ", crashCause(&r.Start)), stCrit)
	case r.Best:
		return sp("★ best"+map[bool]string{true: ", running"}[r.Outcome == "running"], stOK.bold())
	case r.Outcome == "running":
		return sp("● running", stOK)
	case r.NotComparable != "":
		return sp(r.Outcome+", incomparable", stDim)
	case r.Settled != nil && r.Why == "slower":
		return sp(r.Outcome+", slower", stText)
	}
	return sp(r.Outcome, stText)
}

func crashCause(s *metrics.Start) string {
	if s.Cause != "" {
		return string(s.Cause)
	}
	return s.CauseTxt
}

func (v *startsView) draw(m *Model, a area) {
	rows := v.rows(m)
	if len(rows) == 0 {
		a.note("no start is known yet: they are read from the server's log and kept from visit to visit")
		return
	}
	p := m.pen()
	cols := []col{{"", 1, false}, {"#", 3, true}, {"when", 9, false}, {"flags that differ", 20, false}, {"settled", 10, true}, {"peak", 6, true}, {"run", 4, true}, {"queue", 5, true}, {"capacity", 8, true}, {"free", 5, true}, {"how it went", 0, false}}
	pick := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	switch {
	case a.w() < 60:
		pick = []int{1, 4, 10}
	case a.w() < 100:
		cols[3].w, pick = 19, []int{0, 1, 3, 4, 8, 10}
	}
	cols = picked(cols, pick)
	h := min(len(rows)+1, max(a.h()/2, 3))
	pair, paired := v.pair(m.snap)
	if paired { // the comparison is seen as a whole before the table is
		h = min(h, max(a.h()-len(pairLines(pair, a.w()-2))-2, 5))
	}
	m.table(a.sub(0, 0, a.w(), h), cols, len(rows), &v.list, func(i int) []span {
		r := &rows[i]
		no, mark := "", sp("", stText)
		if r.No > 0 {
			no = fmt.Sprint(r.No)
		}
		if slices.Contains(v.marks, r.ID) {
			mark = sp("◆", stAccent.bold())
		}
		if r.Imported {
			no += "*"
		}
		settled := sp(opt(r.Settled, metrics.Count), stStrong)
		if r.Settled != nil && r.Spread != nil {
			settled.s += " ± " + whole(*r.Spread)
		}
		out := startOutcome(r)
		label := r.Label
		if label == "" {
			label = metrics.Dash
		}
		cells := []span{mark, sp(no, stDim), sp(p.clock(r.At), stText), sp(label, stText), settled, sp(opt(r.Peak, metrics.Count), stDim), sp(opt(r.Running, whole), stText), sp(opt(r.Queued, whole), stText),
			sp(opt(r.Capacity, metrics.Count), stText), sp(opt(r.HeadroomGB, two), stText), out}
		return picked(cells, pick)
	})
	b := a.sub(1, h+1, a.w()-2, a.h()-h-1)
	if paired {
		drawLines(b, pairLines(pair, b.w()), 0)
		return
	}
	var out []line
	if text := starts.BestLine(rows); text != "" {
		out = append(para(sp("★", stOK.bold()), 2, b.w(), clean(text), stText), nil)
	}
	drawLines(b, append(out, v.detail(m, &rows[min(v.sel, len(rows)-1)], b.w())...), 0)
}

// pair is the two marked starts, the earlier one first.
func (v *startsView) pair(s *metrics.Snapshot) (starts.Pair, bool) {
	var two []metrics.Start
	for _, st := range s.Starts {
		if slices.Contains(v.marks, st.ID) {
			two = append(two, st)
		}
	}
	if len(two) != 2 {
		return starts.Pair{}, false
	}
	return starts.Compare(two[0], two[1]), true
}

// pairLines put two starts side by side.
func pairLines(p starts.Pair, w int) []line {
	nameW := min(26, w*3/10)
	valueW := min(22, (w-nameW)*3/10)
	row := func(name, a, b, diff string, st style) line {
		return line{sp(padRight(truncate(name, nameW-1), nameW), stDim), sp(padRight(truncate(a, valueW-1), valueW), stText), sp(padRight(truncate(b, valueW-1), valueW), stText), sp(diff, st)}
	}
	out := []line{{sp(padRight("side by side", nameW), stStrong), sp(padRight(truncate(startName(&p.A), valueW-1), valueW), stStrong), sp(padRight(truncate(startName(&p.B), valueW-1), valueW), stStrong), sp("difference", stDim)}}
	if p.NotComparable != "" {
		out = append(out, para(sp("▲", stWarn.bold()), 2, w, "not comparable: "+clean(p.NotComparable), stWarn)...)
	}
	for _, c := range p.Flags {
		from, to := "unset", "unset"
		if c.From != nil {
			from = clean(*c.From)
		}
		if c.To != nil {
			to = clean(*c.To)
		}
		out = append(out, row("--"+clean(c.Flag), from, to, "", stText))
	}
	number := func(v *float64) string {
		switch {
		case v == nil:
			return metrics.Dash
		case *v == math.Trunc(*v) || *v <= -100 || *v >= 100:
			return metrics.Count(*v)
		case *v > -10 && *v < 10:
			return two(*v)
		}
		return one(*v)
	}
	for _, f := range p.Figures {
		diff, st := "", stText
		if f.Diff != nil {
			diff = number(f.Diff)
			if *f.Diff > 0 {
				diff = "+" + diff
			}
		}
		if f.Exceeds != nil {
			if *f.Exceeds {
				diff, st = diff+"  over spread", stStrong
			} else {
				diff, st = diff+"  within spread", stDim
			}
		}
		out = append(out, row(f.Name, number(f.A), number(f.B), diff, st))
	}
	return out
}

// detail is all that is known of one start.
func (v *startsView) detail(m *Model, r *starts.Row, w int) []line {
	var out []line
	put := func(label, text string, st style) {
		if text != "" {
			out = append(out, para(sp(label, stDim), 15, w, clean(text), st)...)
		}
	}
	put("engine", strings.TrimSpace(engineName(r.Engine)+" "+r.Version+" "+r.Model), stText)
	seconds := func(v float64) string { return took(time.Duration(v * float64(time.Second))) }
	if r.ReadyS != nil {
		text := seconds(*r.ReadyS)
		for i, p := range r.Phases {
			text += map[bool]string{true: ": ", false: ", "}[i == 0] + p.Name + " " + took(p.Took)
		}
		put("ready after", text, stText)
	}
	var ran []string
	if r.DurationS != nil {
		ran = append(ran, "for "+seconds(*r.DurationS))
	}
	if r.Dataset != "" {
		ran = append(ran, "on "+r.Dataset)
	}
	if r.LowestFree != nil {
		ran = append(ran, "lowest free "+two(*r.LowestFree)+" GiB")
	}
	put("ran", strings.Join(ran, ", "), stText)
	if r.Settled != nil {
		put("settled", metrics.Rate(*r.Settled)+" tok/s, spread "+opt(r.Spread, whole)+", "+opt(r.PerRequest, metrics.Count)+" tokens a request, KV "+opt(r.KVUsage, two)+", "+opt(r.RowsPerMin, metrics.Rate)+" rows/min", stText)
	}
	if r.Cause != "" || r.CauseTxt != "" {
		text := strings.TrimSpace(string(r.Cause) + " " + r.CauseTxt)
		if after := r.After(); after != "" {
			text += ", " + after
		}
		put("cause", text, stCrit)
	}
	for _, b := range r.Broken {
		put("guard", "breaks --"+b.Flag+": "+b.Reason, stWarn)
	}
	if r.GuardBroken != "" {
		put("guard", "broken: "+r.GuardBroken+orEmpty(", because ", r.Override), stWarn)
	}
	if r.Best {
		put("best", r.Why, stOK)
	} else {
		put("not best", r.Why, stText)
	}
	if r.Imported {
		put("seen by", "* not by us: from a log or from the operator", stDim)
	}
	put("note", r.Note, stText)
	var parts []string
	for _, c := range r.Diff {
		parts = append(parts, c.String())
	}
	put("since the last", strings.Join(parts, "   "), stText)
	parts = nil
	for _, name := range starts.DifferingFlags(m.snap.Starts) {
		if value := starts.FlagValue(r.Start, name); value != "" {
			parts = append(parts, name+" "+value)
		}
	}
	put("differs in", strings.Join(parts, "   "), stText)
	put("command", strings.Join(metrics.MaskArgv(r.Argv), " "), stDim)
	return out
}
