package tui

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/runvigil/runvigil/metrics"
)

// newViews is the registry of views; one more view is one more entry, its keys
// and its opening key.
func newViews() map[string]view {
	return map[string]view{
		viewLogs: &logView{bufs: map[string]*logBuf{}}, viewRows: &rowsView{}, viewProcs: &procsView{}, viewEvents: &eventsView{},
		viewFindings: &findingsView{}, viewStarts: &startsView{}, viewForm: &formView{}, viewReview: &reviewView{}, viewRestart: &restartView{},
		viewGen: &genView{}, viewReq: &reqView{}, viewGPUs: &gpusView{},
	}
}

// viewKeys open the views.
func viewKeys() []binding {
	known := func(m *Model, path string) tea.Cmd {
		if path == "" {
			return m.say("no log yet: `:logs /PATH` watches one")
		}
		return m.openLog(path)
	}
	return []binding{
		{name: "logs", keys: []string{"l"}, group: "Look", short: "logs", arg: "PATH", args: (*Model).logChoices, help: "the server's log, or any file as :logs /PATH; tab goes to the next log",
			do: func(m *Model, arg string) tea.Cmd {
				if arg == "" {
					return known(m, m.serverLog())
				}
				return m.findLog(arg)
			}},
		{name: "client-log", keys: []string{"L"}, group: "Look", short: "client log", help: "the client's log",
			do: func(m *Model, _ string) tea.Cmd { return known(m, m.clientLog()) }},
		opens(viewFindings, "f", "Look", "findings", "what is wrong, with evidence and advice"),
		opens(viewRows, "o", "Look", "rows", "datasets: rates, gaps, sizes, the newest row"),
		opens(viewStarts, "t", "Look", "starts", "every start that is known, with what it achieved"),
		opens(viewEvents, "v", "Look", "events", "the timeline with notes"),
		opens(viewProcs, "p", "Look", "processes", "the server's tree, clients, and who holds which GPU memory"),
	}
}

// openLog shows a log whose path is known.
func (m *Model) openLog(path string) tea.Cmd {
	m.views[viewLogs].(*logView).path = path
	return m.open(viewLogs)
}

// findLog shows a log by a path or by the name of a watched one. A file that is
// not watched is looked for on the node first, so that a view opens only where
// lines can come.
func (m *Model) findLog(name string) tea.Cmd {
	var named []string
	for _, path := range m.logPaths() {
		if path == name {
			return m.openLog(path)
		}
		if base(path) == name {
			named = append(named, path)
		}
	}
	switch {
	case len(named) == 1:
		return m.openLog(named[0])
	case len(named) > 1:
		m.chooseLog(name, named)
		return nil
	case !isLive(m):
		held := "no log"
		if paths := m.logPaths(); len(paths) > 0 {
			held = strings.Join(paths, ", ")
		}
		return m.say("no " + name + " here, and the node cannot be asked; there is " + held)
	}
	act := m.opt.Actions
	return tea.Batch(m.say("looking for "+name+" on the node …"), m.call(func(ctx context.Context) tea.Msg {
		f, err := act.FindLog(ctx, name)
		return logFileMsg{f, err}
	}))
}

type logFileMsg struct {
	f   LogFile
	err error
}

// apply has the fold follow the log that was found, and shows it.
func (msg logFileMsg) apply(m *Model) tea.Cmd {
	path := msg.f.Path
	switch {
	case msg.err != nil:
		return m.say("logs: " + msg.err.Error())
	case path == "":
		m.chooseLog("", msg.f.Newest)
		return nil
	case m.live == nil || m.live.Logs[path] != nil || slices.Contains(m.live.Config.Logs, path):
		m.toast = ""
		return m.openLog(path)
	}
	done := "watching " + path + " from now on"
	if msg.f.Missing {
		done = path + " is not there yet; it is shown when it comes"
	}
	c := m.live.Config
	c.Logs = append(slices.Clone(c.Logs), path)
	return tea.Batch(m.openLog(path), m.put(metrics.JSONFrame(metrics.KindConfig, "", time.Time{}, c), done))
}

// chooseLog offers logs in the palette.
func (m *Model) chooseLog(name string, paths []string) {
	m.offered = paths
	d := &palette{picked: true}
	d.in.set("logs " + name)
	m.ask(d)
}

// logPaths are the watched logs.
func (m *Model) logPaths() []string {
	if m.snap == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(m.snap.Logs))
}

// logChoices are the logs of the folder that was asked for, the newest first, and
// the watched ones.
func (m *Model) logChoices() []string {
	out := slices.Clone(m.offered)
	for _, path := range m.logPaths() {
		if !slices.Contains(out, path) {
			out = append(out, path)
		}
	}
	return out
}

func (m *Model) serverLog() string {
	if m.snap == nil {
		return ""
	}
	for _, s := range m.snap.Servers {
		if s.Log.Path != "" {
			return s.Log.Path
		}
	}
	return ""
}

func (m *Model) clientLog() string {
	if m.snap == nil {
		return ""
	}
	for _, c := range m.snap.Clients {
		if c.Log.Path != "" {
			return c.Log.Path
		}
	}
	return ""
}

// rowsView is every dataset with what can be said of its rows.
type rowsView struct {
	list
	open map[string]bool
}

type rowsEntry struct {
	d     *metrics.Dataset
	shard *metrics.Shard
}

func (v *rowsView) entries(s *metrics.Snapshot) []rowsEntry {
	var out []rowsEntry
	for i := range s.Datasets {
		d := &s.Datasets[i]
		out = append(out, rowsEntry{d: d})
		if v.open[d.Path] {
			for j := range d.Shards {
				out = append(out, rowsEntry{d, &d.Shards[j]})
			}
		}
	}
	return out
}

func (v *rowsView) title(*Model) string { return "rows" }

func (v *rowsView) move(m *Model, d motion) tea.Cmd {
	if m.snap != nil {
		v.list.move(len(v.entries(m.snap)), 5, d)
	}
	return nil
}

func (v *rowsView) draw(m *Model, a area) {
	if m.snap == nil || len(m.snap.Datasets) == 0 {
		a.note("no dataset found: name one with `datasets` in the config file")
		return
	}
	p := m.pen()
	es := v.entries(m.snap)
	cols := []col{{"dataset", 0, false}, {"rows", 8, true}, {"target", 8, true}, {"per min", 7, true}, {"last", 6, true}, {"gap", 5, true}, {"size", 8, true}, {"row", 7, true}, {"ETA", 20, false}}
	pick := []int{0, 1, 2, 3, 4, 5, 6, 7, 8}
	switch {
	case a.w() < 50:
		pick = []int{0, 1, 3} // a name that can be told from others first
	case a.w() < 100:
		pick = []int{0, 1, 2, 3, 8} // when it is done says more than the rest
	}
	cols = picked(cols, pick)
	h := min(len(es)+1, max(a.h()*2/5, 3))
	m.table(a.sub(0, 0, a.w(), h), cols, len(es), &v.list, func(i int) []span {
		e := es[i]
		if e.shard != nil {
			none := sp("", stText)
			return picked([]span{sp("  "+base(e.shard.Path), stDim), p.fig(e.shard.Rows, metrics.Count, 0, stText), none, none, sp(p.recent(e.shard.Mtime), stDim), none, p.fig(e.shard.Bytes, metrics.Bytes, 0, stText), none, none}, pick)
		}
		d := e.d
		name := d.Name
		if len(d.Shards) > 1 {
			sign := " ▸"
			if v.open[d.Path] {
				sign = " ▾"
			}
			name += fmt.Sprintf(" ×%d%s", len(d.Shards), sign)
		}
		target, gap := "", metrics.Dash
		if d.Target.Rows > 0 {
			target = commas(d.Target.Rows)
			if d.Target.Inferred {
				target += "≈"
			}
		}
		if d.Gap > 0 {
			gap = metrics.Age(d.Gap)
		}
		size := metrics.Figure{}
		if d.Bytes.Known && d.Rows.Known && d.Rows.V > 0 {
			size = d.Bytes
			size.V = d.Bytes.V / d.Rows.V
		}
		eta := p.eta(d.ETA)
		if !d.Done.IsZero() {
			eta = "done " + p.clock(d.Done)
		}
		return picked([]span{sp(name, stText), p.fig(d.Rows, metrics.Count, 0, stStrong), sp(target, stDim), p.fig(d.PerMin, metrics.Rate, 0, stText), sp(p.recent(d.Grew), stDim), sp(gap, stDim),
			p.fig(d.Bytes, metrics.Bytes, 0, stText), p.fig(size, metrics.Bytes, 0, stText), sp(eta, stText)}, pick)
	})
	v.detail(m, a.sub(0, h+1, a.w(), a.h()-h-1), es[v.sel].d)
}

func (v *rowsView) detail(m *Model, a area, d *metrics.Dataset) {
	p := m.pen()
	y := 0
	put := func(label string, l ...span) {
		a.line(1, y, a.w()-2, append(line{sp(padRight(label, 12), stDim)}, l...))
		y++
	}
	put("path", sp(endOf(d.Path, a.w()-15), stText))
	if d.Target.Rows > 0 {
		put("target", sp(commas(d.Target.Rows)+" rows from "+targetSource(d.Target), stText), sp(inferredWord(d.Target.Inferred), stDim))
	}
	if d.Landed.Known {
		put("landed", p.fig(d.Landed, metrics.Count, 0, stText), sp(" rows since the client's start at "+p.clock(d.LandedSince), stDim))
	}
	if len(d.Writers) > 0 {
		put("written by", sp(strings.Trim(fmt.Sprint(d.Writers), "[]"), stText))
	}
	if d.Median.Known {
		unit := " characters"
		if d.MedianInTokens {
			unit = " tokens"
		}
		put("length", sp("median ", stDim), p.fig(d.Median, metrics.Count, 0, stText), sp(unit+", cut ", stDim), p.fig(d.Cut, metrics.Percent, 0, stText))
	}
	if j := d.Judged; j != nil {
		put("newest "+fmt.Sprint(j.Rows), sp(fmt.Sprintf("%d empty, %d invalid, %d errors, %d cut", j.Empty, j.Invalid, j.Errors, j.Truncated), stText))
	}
	if d.Torn {
		put("end", sp("the last row is not ended", stWarn))
	}
	if d.Err != "" {
		put("error", sp(d.Err, stWarn))
	}
	if a.h()-y >= 6 {
		a.line(1, y+1, a.w()-2, line{sp("rows a minute", stStrong), sp("  ["+ranges[m.span].name+"]", stDim)})
		m.drawGraph(a.sub(1, y+2, a.w()-2, a.h()-y-2), metrics.SeriesRowRate, d.Path, graphOf{floor: 1, every: 30 * time.Second, st: stData})
	}
}

func inferredWord(inferred bool) string {
	if inferred {
		return " (inferred)"
	}
	return ""
}

// endOf cuts a path to w cells: its end tells more than its beginning.
func endOf(path string, w int) string {
	if textWidth(path) <= w {
		return path
	}
	for path != "" && textWidth(path) > w-1 {
		_, _, n := grapheme(path)
		path = path[n:]
	}
	return "…" + path
}

func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// enter opens the shards of a dataset, or asks for the newest row.
func (v *rowsView) enter(m *Model) tea.Cmd {
	if m.snap == nil {
		return nil
	}
	es := v.entries(m.snap)
	if v.sel >= len(es) {
		return nil
	}
	e := es[v.sel]
	if e.shard == nil && len(e.d.Shards) > 1 {
		if v.open == nil {
			v.open = map[string]bool{}
		}
		v.open[e.d.Path] = !v.open[e.d.Path]
		return nil
	}
	path := e.d.Path
	if e.shard != nil {
		path = e.shard.Path
	} else if len(e.d.Shards) == 1 {
		path = e.d.Shards[0].Path
	}
	return m.newestRow(path)
}

// eventsView is the whole timeline, newest first.
type eventsView struct{ list }

func (v *eventsView) title(*Model) string { return "events" }

func (v *eventsView) move(m *Model, d motion) tea.Cmd {
	if m.snap != nil {
		v.list.move(len(m.snap.Events), 10, d)
	}
	return nil
}

func (v *eventsView) draw(m *Model, a area) {
	if m.snap == nil || len(m.snap.Events) == 0 {
		a.note("nothing has happened yet; m writes a note")
		return
	}
	p := m.pen()
	ev := m.snap.Events
	cols, pick := []col{{"when", 12, false}, {"ago", 9, true}, {"what", 9, false}, {"", 0, false}}, []int{0, 1, 2, 3}
	switch {
	case a.w() < 30:
		pick = []int{3}
	case a.w() < 60:
		cols[0].w, pick = 9, []int{0, 3}
	}
	cols = picked(cols, pick)
	m.table(a, cols, len(ev), &v.list, func(i int) []span {
		e := &ev[len(ev)-1-i]
		mark := markOf(m.snap, e)
		text := sp(eventText(e), stText)
		if len(pick) < 4 {
			text.s = mark.sign + " " + text.s
		}
		return picked([]span{sp(p.clock(e.At), stText), sp(p.age(e.At), stDim), sp(mark.sign+" "+e.Kind, mark.st), text}, pick)
	})
}

func (v *eventsView) enter(m *Model) tea.Cmd {
	if m.snap == nil || v.sel >= len(m.snap.Events) {
		return nil
	}
	e := m.snap.Events[len(m.snap.Events)-1-v.sel]
	m.stack = nil
	m.goTo(e.At.Add(ranges[m.span].span / 10))
	return m.say("as it was shortly after: " + eventText(&e) + "   (0 is now)")
}

// targetSource is where a target comes from, for running text.
func targetSource(t metrics.Target) string {
	if strings.HasPrefix(t.Source, "config") {
		return "the " + t.Source
	}
	return t.Source
}
