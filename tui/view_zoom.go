package tui

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/runvigil/runvigil/metrics"
)

// genView is how fast, over time, with what explains it below.
type genView struct{}

func (v *genView) title(*Model) string { return "generation tok/s" }

func (v *genView) move(*Model, motion) tea.Cmd { return nil }

func (v *genView) draw(m *Model, a area) {
	if m.snap == nil || m.snap.Server() == nil {
		a.note("no server found: `:logs /PATH` watches the log of one")
		return
	}
	srv, p := m.snap.Server(), m.pen()
	if srv.State == metrics.ServerStarting && !srv.Gen.Now.Known && m.at.IsZero() {
		m.drawStarting(a, p, srv)
		return
	}
	segs := genSegs(p, srv)
	if len(m.snap.Servers) > 1 {
		i, n := place(m.snap)
		segs = append([]seg{{0, line{sp(fmt.Sprintf("server %d of %d (pid %d)", i, n, srv.PID), stAccent)}}}, segs...)
	}
	a.fit(0, 0, a.w(), 3, segs...)
	y := 1
	if srv.Step.N > 0 && a.h() > 10 {
		a.cut(0, 1, a.w(), fmt.Sprintf("a decode step takes %.1f ms + %.3f ms × running (%d batch lines, ± %s)", srv.Step.A*1000, srv.Step.B*1000, srv.Step.N, metrics.Percent(srv.Step.Resid)), stDim)
		y = 2
	}
	every := srv.Gen.Now.Every
	graphs := []struct {
		name, what string
		g          graphOf
	}{
		{"tok/s", metrics.SeriesGenTPS, graphOf{floor: genFloor(srv), every: every, st: stData}},
		{"running requests", metrics.SeriesRunning, graphOf{floor: 10, every: every, st: stData}},
		{wordsOf(srv.Engine).queued + " requests", metrics.SeriesQueued, graphOf{floor: 10, every: every, st: stData2}},
		{"tokens a request", metrics.SeriesPerReq, graphOf{floor: 500, every: every, st: stData}},
		{"KV usage", metrics.SeriesKVUsage, graphOf{upper: 1, every: every, st: stData2, label: wordsOf(srv.Engine).kv}},
	}
	m.stackGraphs(a.sub(0, y, a.w(), a.h()-y), srv.ID, len(graphs), func(i int) (string, string, graphOf) { return graphs[i].name, graphs[i].what, graphs[i].g })
}

// stackGraphs draws as many graphs above each other as have room: the first one
// is twice as high.
func (m *Model) stackGraphs(a area, of string, n int, graph func(i int) (name, what string, g graphOf)) {
	const least = 7
	n = max(min(n, a.h()/least), 1)
	unit := max(a.h()/(n+1), min(least, a.h()/n))
	y := 0
	for i := range n {
		h := unit
		if i == 0 {
			h = a.h() - unit*(n-1)
		}
		name, what, g := graph(i)
		a.line(0, y, a.w(), line{sp(name, stStrong), sp("  ["+ranges[m.span].name+"]", stDim)})
		m.drawGraph(a.sub(0, y+1, a.w(), h-1), what, of, g)
		y += h
	}
}

// reqView is what is in flight and what limits it.
type reqView struct{}

func (v *reqView) title(*Model) string { return "requests" }

func (v *reqView) move(*Model, motion) tea.Cmd { return nil }

func (v *reqView) draw(m *Model, a area) {
	if m.snap == nil || m.snap.Server() == nil {
		a.note("no server found: `:logs /PATH` watches the log of one")
		return
	}
	srv, p := m.snap.Server(), m.pen()
	y := 0
	for _, l := range m.reqLines(p, srv, a.w()) {
		a.line(0, y, a.w(), l)
		y++
	}
	a.line(0, y, a.w(), line{sp(padRight("limits", 10), stDim), sp("max running ", stDim), p.fig(srv.MaxRunning, metrics.Count, 0, stText), sp(", context ", stDim), p.fig(srv.ContextLen, metrics.Count, 0, stText),
		sp(", KV "+srv.KVDtype+" ", stDim), p.fig(srv.BytesPerTok, metrics.Count, 0, stText), sp(" B/token/GPU", stDim)})
	y += 2
	every := srv.Running.Every
	m.stackGraphs(a.sub(0, y, a.w(), a.h()-y), srv.ID, 3, func(i int) (string, string, graphOf) {
		switch i {
		case 0:
			return "running", metrics.SeriesRunning, graphOf{floor: 10, every: every, st: stData}
		case 1:
			return wordsOf(srv.Engine).queued, metrics.SeriesQueued, graphOf{floor: 10, every: every, st: stData2}
		}
		return "KV usage", metrics.SeriesKVUsage, graphOf{upper: 1, every: every, st: stData, label: wordsOf(srv.Engine).kv}
	})
}

// gpusView is one row a GPU with everything known, and the selected one over time.
type gpusView struct{ list }

func (v *gpusView) title(*Model) string { return "GPUs" }

func (v *gpusView) opened(m *Model) tea.Cmd {
	v.sel = m.sel[PaneGPU]
	return nil
}

func (v *gpusView) move(m *Model, d motion) tea.Cmd {
	if m.snap != nil {
		v.list.move(len(m.snap.GPUs), 8, d)
	}
	return nil
}

func (v *gpusView) draw(m *Model, a area) {
	if m.snap == nil {
		return
	}
	p := m.pen()
	if text, st := gpuTrouble(m.snap); text != "" {
		for _, row := range wrap(text, a.w(), 3) {
			a.put(0, 0, row, st)
			a = a.sub(0, 1, a.w(), a.h()-1)
		}
	}
	gs := m.snap.GPUs
	if len(gs) == 0 {
		a.note("no GPU seen")
		return
	}
	wide := a.w() >= 100
	cols := []col{{"", 3, true}, {"memory", 10, true}, {"lowest free", 11, true}, {"util", 5, true}, {"temp", 6, true}, {"power", 7, true}, {"limit", 7, true}, {"SM MHz", 6, true}, {"ECC", 4, true}, {"notes", 0, false}}
	if !wide {
		cols = []col{cols[0], cols[1], cols[3], cols[4], cols[5], cols[9]}
	}
	odds := outliers(gs)
	h := min(len(gs)+1, max(a.h()*3/5, 4))
	if a.h() < 12 {
		h = min(len(gs)+1, a.h()) // one of them tells less than all
	}
	m.table(a.sub(0, 0, a.w(), h), cols, len(gs), &v.list, func(i int) []span {
		g, o := &gs[i], odds[i]
		mark := func(bad bool) style {
			if bad {
				return stWarn.bold()
			}
			return stText
		}
		notes := gpuNotes(g, o)
		st := stDim
		if notes != "" {
			st = stWarn
		}
		if g.Lost != "" {
			notes, st = "✖ LOST: "+g.Lost, stCrit.bold()
		}
		memory := p.fig(g.MemUsed, gibOfMiB, 0, mark(o.mem))
		if g.Lost != "" {
			memory = sp("✖ LOST", stCrit.bold())
		}
		cells := []span{sp(strconv.Itoa(g.Index), stDim), memory, p.fig(g.MemLowest, gibOfMiB, 0, stText), p.fig(g.Util, func(v float64) string { return whole(v) + " %" }, 0, mark(o.util)),
			p.fig(g.Temp, func(v float64) string { return whole(v) + " °C" }, 0, mark(o.temp)), p.fig(g.Power, watts, 0, mark(o.power)), p.fig(g.PowerLimit, watts, 0, stDim), p.fig(g.ClockSM, whole, 0, stText), p.fig(g.ECC, whole, 0, stText), sp(notes, st)}
		if !wide {
			return []span{cells[0], cells[1], cells[3], cells[4], cells[5], cells[9]}
		}
		return cells
	})
	g := &gs[v.sel]
	b := a.sub(0, h+1, a.w(), a.h()-h-1)
	y := 0
	b.line(1, y, b.w()-2, line{sp(fmt.Sprintf("GPU %d  ", g.Index), stStrong), sp(g.Name+"  "+g.Bus, stDim)})
	y++
	var silent []string
	for k, v := range g.Raw {
		if notTold(v) {
			silent = append(silent, k)
		}
	}
	if len(silent) > 0 {
		slices.Sort(silent)
		b.cut(1, y, b.w()-2, "not told by this driver: "+strings.Join(silent, ", "), stDim)
		y++
	}
	for _, pr := range g.Procs {
		if y > max(b.h()/3, 2) {
			break
		}
		st := stText
		if pr.Owner != "server" && pr.Owner != "client" {
			st = stWarn
		}
		b.line(1, y, b.w()-2, line{sp(fmt.Sprintf("%8d ", pr.PID), stDim), p.fig(pr.MiB, gibOfMiB, 10, stText), sp("  "+pr.Name, st), sp("  "+pr.Owner, stDim)})
		y++
	}
	of := strconv.Itoa(g.Index)
	m.stackGraphs(b.sub(0, y+1, b.w(), b.h()-y-1), of, 2, func(i int) (string, string, graphOf) {
		if i == 0 {
			return "utilisation %", metrics.SeriesGPUUtil, graphOf{upper: 100, every: 5 * time.Second, st: stData}
		}
		return "memory GiB", metrics.SeriesGPUMem, graphOf{
			upper: 1024 * niceCeil(max(g.MemTotal.V/1024, 1)), every: 5 * time.Second, st: stData2,
			label: func(v float64) string { return axis(v / 1024) },
		}
	})
}

// gpuNotes are the words for what stands out.
func gpuNotes(g *metrics.GPU, o odd) string {
	var out []string
	if o.any() {
		out = append(out, "▲ differs from the others")
	}
	for _, t := range g.Throttle {
		out = append(out, "throttled: "+t)
	}
	if g.MIG {
		out = append(out, "MIG")
	}
	if g.Unified {
		out = append(out, "memory is the host's")
	}
	keys := make([]string, 0, len(g.Raw))
	for k := range g.Raw {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		if !notTold(g.Raw[k]) {
			out = append(out, k+" "+g.Raw[k])
		}
	}
	return strings.Join(out, ", ")
}

// notTold tells a cell that says that there is no such figure, which is no
// trouble.
func notTold(cell string) bool {
	c := strings.Trim(cell, "[] ")
	return c == "N/A" || c == "Not Supported" || c == ""
}
