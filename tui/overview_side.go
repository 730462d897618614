package tui

import (
	"fmt"
	"strings"

	"github.com/runvigil/runvigil/metrics"
)

// drawSide draws the overview of a narrow or low pane: single lines, the most
// important first.
func (m *Model) drawSide(c *canvas) {
	l, s := m.layout, m.snap
	m.drawVerdict(c.area(l.Rect[PaneVerdict]), false)
	if s == nil {
		m.drawSideStatus(c.area(l.Rect[PaneFooter]))
		return
	}
	p := m.pen()
	area := func(pane Pane) area {
		a := c.area(l.Rect[pane])
		return a.sub(1, 0, a.w()-2, a.h())
	}
	if firstVisit(s) {
		a := area(PaneRows)
		b := c.area(Rect{1, a.r.Y, max(l.W-2, 0), max(l.H-1-a.r.Y, 0)})
		y := 0
		for _, text := range firstLines(s, m.opt.Node) {
			for _, row := range wrap(text, b.w(), 4) {
				b.put(0, y, row, stText)
				y++
			}
		}
		m.drawSideStatus(c.area(l.Rect[PaneFooter]))
		return
	}
	m.sideRows(area(PaneRows), p)
	if a := area(PaneETA); !a.r.Empty() && s.Job.Target.Rows > 0 {
		a.fit(0, 0, a.w(), 0, seg{0, line{sp(padRight("ETA", 6), stDim), sp(p.eta(s.Job.ETA), etaStyle(s.Job.ETA))}}, seg{1, p.inTime(s.Job.ETA)})
	}
	if a := area(PaneLanded); !a.r.Empty() {
		l := landedLine(p, &s.Job, true)
		if l.width() > a.w() {
			l = landedLine(p, &s.Job, false)
		}
		a.line(0, 0, a.w(), l)
	}
	m.sideGen(area(PaneGen), p)
	if a, srv := area(PaneReq), s.Server(); srv != nil && !a.r.Empty() {
		a.fit(0, 0, a.w(), 2,
			seg{0, line{sp("run ", stDim), p.fig(srv.Running, whole, 3, stStrong)}},
			seg{1, line{sp("queue ", stDim), p.fig(srv.Queued, whole, 3, stStrong)}},
			seg{2, sideKV(p, srv, min(max(a.w()-28, 4), 12), m.opt.ASCII)})
	}
	if a := area(PaneGPU); !a.r.Empty() {
		sideGPUs(a, p, s, m.opt.ASCII)
	}
	if a := area(PaneClient); !a.r.Empty() && len(s.Clients) > 0 {
		a.line(0, 0, a.w(), m.clientLine(p, &s.Clients[0]))
	}
	if a := area(PaneHost); !a.r.Empty() {
		a.fit(0, 0, a.w(), 2, hostShort(p, s)...)
	}
	m.greyOld(c)
	if a := area(PaneFind); !a.r.Empty() {
		if f := topFinding(s); a.h() == 1 && f != nil && f.Advice != "" {
			// The verdict above has the finding itself; here is what to do.
			a.put(0, 0, severitySign[f.Severity], severityStyle(f.Severity))
			var more line
			advice := f.Advice
			if first, _, cut := strings.Cut(advice, "; "); cut && textWidth(advice) > a.w()-2 {
				advice, more = first, line{sp("f", stAccent.bold()), sp(" more", stDim)}
			}
			a.fit(2, 0, a.w()-2, 2, seg{0, line{sp(truncate(advice, a.w()-2), stText)}}, seg{1, more})
		} else {
			for i := 0; i < a.h() && i < len(s.Findings); i++ {
				m.drawFindingLine(a.sub(0, i, a.w(), 1), p, &s.Findings[i], false)
			}
		}
	}
	if a := area(PaneEvents); !a.r.Empty() {
		for i := 0; i < a.h() && i < len(s.Events); i++ {
			m.drawEvent(a.sub(0, i, a.w(), 1), p, &s.Events[len(s.Events)-1-i], false)
		}
	}
	m.drawSideStatus(c.area(l.Rect[PaneFooter]))
}

// sideGPUs is all GPUs in one narrow line: whether they work, and whether
// memory is safe.
func sideGPUs(a area, p pen, s *metrics.Snapshot, ascii bool) {
	segs := gpuSegs(p, s, ascii)
	for i := range segs {
		if segs[i].prio == 0 && i == 0 && len(s.GPUs) > 0 {
			segs[i].prio = 2 // how much is used says less than what is left
		}
	}
	a.fit(0, 0, a.w(), 2, append([]seg{{0, line{sp("GPU", stDim)}}}, segs...)...)
}

// sideKV tells KV usage, in words where it is what limits.
func sideKV(p pen, srv *metrics.Server, w int, ascii bool) line {
	if text, _ := limitWord(p, srv); text == limitKV {
		if srv.KVUsage.V >= 0.95 && srv.RequestsFit.Known {
			return line{sp("KV full: ", stStrong), p.fig(srv.RequestsFit, whole, 0, stStrong), sp(" fit", stStrong)}
		}
		return line{sp("limit: KV ", stStrong), p.fig(srv.KVUsage, two, 4, kvStyle(srv))}
	}
	return kvLine(p, srv, w, ascii)
}

func (m *Model) sideRows(a area, p pen) {
	j := &m.snap.Job
	if a.r.Empty() {
		return
	}
	count := line{sp(padRight("rows", 6), stDim), p.fig(j.Rows, metrics.Count, 0, stStrong)}
	if a.w() < 30 {
		count = line{p.fig(j.Rows, metrics.Count, 0, stStrong)}
	}
	if j.Target.Rows > 0 {
		count = append(count, sp("/"+commas(j.Target.Rows), stDim))
		if j.Target.Inferred {
			count = append(count, sp("≈", stDim))
		}
	}
	segs := []seg{{0, count}}
	if j.Target.Rows > 0 && j.Rows.Known {
		segs = append(segs, seg{3, line{sp(metrics.Percent(j.Rows.V/float64(j.Target.Rows)), stText)}})
	}
	segs = append(segs, seg{1, line{p.fig(j.PerMin, metrics.Rate, 0, stStrong), sp("/min", stDim)}})
	a.fit(0, 0, a.w(), 2, segs...)
}

func (m *Model) sideGen(a area, p pen) {
	srv := m.snap.Server()
	if a.r.Empty() {
		return
	}
	if srv == nil {
		a.cut(0, 0, a.w(), "no server found", stDim)
		return
	}
	segs := genSegs(p, srv)
	if srv.State != metrics.ServerDown {
		segs[0].l = line{sp(padRight("tok/s", 6), stDim), p.fig(srv.Gen.Now, briefRate, 5, stStrong)}
		if srv.Gen.Ramp && len(segs) > 1 {
			segs[1].l = line{sp("ramp", stWarn.bold()), sp(": not what stays", stText)}
		}
		room := a.w() - segs[0].l.width() - 2
		if len(segs) > 1 {
			room -= segs[1].l.width() + 2
		}
		if n := min(room, 16); n >= 4 && a.h() < 4 {
			cols := columns(m.series(metrics.SeriesGenTPS, srv.ID), m.newest(), m.snap.At, ranges[m.span].span, n)
			v := means(cols)
			gapFill(v, 3)
			up := m.scale("side"+srv.ID+ranges[m.span].name).fit(v, genFloor(srv))
			segs = append(segs[:1:1], append([]seg{{1, line{sp(spark(v, up, m.opt.ASCII), stData)}}}, segs[1:]...)...)
		}
	}
	for i := range segs {
		if segs[i].prio == 0 && i > 0 {
			segs[i].prio = 1
		}
	}
	a.fit(0, 0, a.w(), 2, segs...)
	if a.h() >= 5 {
		m.drawGraph(a.sub(0, 1, a.w(), a.h()-1), metrics.SeriesGenTPS, srv.ID, graphOf{floor: genFloor(srv), every: srv.Gen.Now.Every, st: stData})
	}
}

// drawSideStatus is the last row of a side pane: whose data, how old, and help.
func (m *Model) drawSideStatus(a area) {
	if a.r.Empty() {
		return
	}
	if m.toast != "" {
		a.cut(1, 0, a.w()-2, m.toast, stStrong)
		return
	}
	help := line{sp("?", stAccent.bold()), sp(" help", stDim)}
	if m.snap == nil {
		a.fit(1, 0, a.w()-2, 2, seg{0, help})
		return
	}
	node := line{sp(m.snap.Node, stStrong)}
	if len(m.snap.Servers) > 1 {
		i, n := place(m.snap)
		node = append(node, sp(fmt.Sprintf(" %d/%d", i, n), stStrong))
	}
	a.fit(1, 0, a.w()-2, 2, seg{1, node}, seg{0, m.clockLine(m.pen(), false)}, seg{2, help})
}
