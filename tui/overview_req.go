package tui

import (
	"fmt"
	"math"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// drawReq draws what is in flight and what limits it: one line where the pane
// has only one.
func (m *Model) drawReq(c *canvas) {
	s, p := m.snap, m.pen()
	srv := s.Server()
	if m.layout.Mode == ModeSmall {
		a := c.area(m.layout.Rect[PaneReq])
		if srv == nil || a.r.Empty() {
			return
		}
		label := line{sp("requests ", stStrong)}
		if m.marked(PaneReq, 0) {
			label = line{sp("requests ", stAccent.bold())}
		}
		segs := append([]seg{{0, label}}, reqSegs(p, srv, m.opt.ASCII)...)
		a.fit(1, 0, a.w()-2, 2, segs...)
		return
	}
	a := m.frame(c, PaneReq, m.layout.Mode, nil, m.rangeNote(p, srvFigures(srv)...))
	if a.r.Empty() {
		return
	}
	if srv == nil {
		a.cut(0, 0, a.w(), "nothing to count without a server", stDim)
		return
	}
	lines := m.reqLines(p, srv, a.w())
	for y, l := range lines {
		a.line(0, y, a.w(), l)
	}
	if srv.State == metrics.ServerDown {
		defer grey(a) // the last that was known of a server that is gone
	}
	if free := a.h() - len(lines) - 1; free >= 8 {
		m.stackGraphs(a.sub(0, len(lines)+1, a.w(), free), srv.ID, 2, func(i int) (string, string, graphOf) {
			if i == 0 {
				return "running", metrics.SeriesRunning, graphOf{floor: 10, every: srv.Running.Every, st: stData}
			}
			return wordsOf(srv.Engine).queued, metrics.SeriesQueued, graphOf{floor: 10, every: srv.Queued.Every, st: stData2}
		})
	}
}

// srvFigures are the figures whose age is told beside the requests.
func srvFigures(srv *metrics.Server) []metrics.Figure {
	if srv == nil {
		return nil
	}
	return []metrics.Figure{srv.Running, srv.Queued, srv.KVUsage}
}

func reqSegs(p pen, srv *metrics.Server, ascii bool) []seg {
	segs := []seg{
		{0, line{p.fig(srv.Running, whole, 0, stStrong), sp(" running", stDim)}},
		{1, line{p.fig(srv.Queued, whole, 0, stStrong), sp(" "+wordsOf(srv.Engine).queued, stDim)}},
		{1, kvLine(p, srv, 8, ascii)},
	}
	if l := fitLine(p, srv); len(l) > 0 {
		segs = append(segs, seg{3, l})
	}
	if text, st := limitWord(p, srv); text != "" {
		segs = append(segs, seg{2, line{sp(text, st)}})
	}
	return segs
}

func kvLine(p pen, srv *metrics.Server, w int, ascii bool) line {
	l := line{sp("KV ", stDim), p.fig(srv.KVUsage, wordsOf(srv.Engine).kv, wordsOf(srv.Engine).kvCells, kvStyle(srv)), sp(" ", stText)}
	if srv.KVUsage.Known {
		full, rest := bar(srv.KVUsage.V, w, ascii)
		l = append(l, sp(full, p.style(srv.KVUsage, kvBarStyle(srv))), sp(rest, stFaint))
	}
	return l
}

// A full pool alone is how a healthy saturated server looks; with retractions
// it is thrashing.
func kvStyle(srv *metrics.Server) style {
	if srv.Retracted.Known && srv.Retracted.V > 0 && srv.KVUsage.V > 0.9 {
		return stWarn.bold()
	}
	return stStrong
}

func kvBarStyle(srv *metrics.Server) style {
	if kvStyle(srv) == stStrong {
		return stData
	}
	return stWarn
}

func fitLine(p pen, srv *metrics.Server) line {
	if !srv.PerRequest.Known {
		return nil
	}
	l := line{p.fig(srv.PerRequest, metrics.Count, 0, stStrong), sp(" tokens per request", stDim)}
	switch {
	case srv.FitTooEarly:
		l = append(l, sp(": too early to say how many fit", stDim))
	case srv.RequestsFit.Known:
		l = append(l, sp(": ", stDim), p.fig(srv.RequestsFit, whole, 0, stStrong), sp(" fit", stDim))
	}
	return l
}

// limitKV is the limit of a saturated server.
const limitKV = "limit: KV pool"

// limitWord says what keeps the server from going faster.
func limitWord(p pen, srv *metrics.Server) (string, style) {
	if !srv.Running.Known || !srv.Queued.Known || srv.Running.Stale(p.now()) || srv.State == metrics.ServerDown {
		return "", stDim
	}
	run, queue := srv.Running.V, srv.Queued.V
	switch {
	case run == 0 && queue == 0:
		return "no requests", stDim
	case queue > 0 && srv.MaxRunning.Known && run >= srv.MaxRunning.V:
		return "limit: " + wordsOf(srv.Engine).limit + " " + whole(srv.MaxRunning.V), stStrong
	case queue > 0 && (srv.KVUsage.Known && srv.KVUsage.V >= 0.8 || srv.RequestsFit.Known && run+2 >= srv.RequestsFit.V):
		return limitKV, stStrong
	case queue == 0:
		return "limit: the client sends no more", stDim
	}
	return "", stDim
}

func (m *Model) reqLines(p pen, srv *metrics.Server, w int) []line {
	const label = 10
	name := func(s string) span { return sp(padRight(s, label), stDim) }
	sparkW := max(w-label-6-2, 0)
	series := func(what string) []float64 {
		cols := columns(m.series(what, srv.ID), m.newest(), m.snap.At, ranges[m.span].span, sparkW)
		v := means(cols)
		if len(cols) > 1 {
			gapFill(v, bridge(srv.Running.Every, cols[1].start.Sub(cols[0].start)))
		}
		return v
	}
	// Both on one scale: what is in flight is their sum.
	run, queue := series(metrics.SeriesRunning), series(metrics.SeriesQueued)
	top := m.peakOf("inflight"+srv.ID, append(append([]float64{srv.InFlight.V}, run...), queue...))
	first := line{name("in flight"), p.fig(srv.InFlight, brief, 5, stStrong)}
	if text, st := limitWord(p, srv); text != "" {
		first = append(first, sp("   ", stText), sp(text, st))
	}
	out := []line{
		first,
		{name("running"), p.fig(srv.Running, brief, 5, stStrong), sp("  ", stText), sp(spark(run, top, m.opt.ASCII), stData)},
		{name(wordsOf(srv.Engine).queued), p.fig(srv.Queued, brief, 5, stStrong), sp("  ", stText), sp(spark(queue, top, m.opt.ASCII), stDim)},
	}
	kv := line{name("KV usage"), p.fig(srv.KVUsage, wordsOf(srv.Engine).kv, 5, kvStyle(srv)), sp("  ", stText)}
	if srv.KVUsage.Known {
		barW := min(max(w-label-5-2-19, 3), 24)
		full, rest := bar(srv.KVUsage.V, barW, m.opt.ASCII)
		kv = append(kv, sp(full, p.style(srv.KVUsage, kvBarStyle(srv))), sp(rest, stFaint))
	}
	if srv.KVTokens.Known || srv.Capacity.Known {
		kv = append(kv, sp("  ", stText), p.fig(srv.KVTokens, metrics.Count, 0, stText), sp(" / ", stDim), p.fig(srv.Capacity, metrics.Count, 0, stDim))
	}
	out = append(out, kv)
	per := line{name("each"), p.fig(srv.PerRequest, brief, 5, stStrong), sp("  tokens", stDim)}
	switch {
	case srv.FitTooEarly:
		per = append(per, sp(": how many fit? too early", stDim))
	case srv.RequestsFit.Known:
		per = append(per, sp(": ", stDim), p.fig(srv.RequestsFit, whole, 0, stStrong), sp(" requests fit", stDim))
	}
	out = append(out, per)
	out = append(out, line{name(wordsOf(srv.Engine).retracted), p.fig(srv.Retracted, one, 5, stText), sp("  a minute", stDim)})
	if srv.HiCache.On {
		l := line{name("hicache")}
		if srv.HiCache.LoadBack.Known {
			l = append(l, p.fig(srv.HiCache.LoadBack, metrics.Short, 5, stText), sp("  tokens loaded back", stDim))
		} else {
			l = append(l, sp("    –  loaded back unknown", stDim))
		}
		if srv.HiCache.HostGB.Known {
			l = append(l, sp(fmt.Sprintf(", %.0f GB", srv.HiCache.HostGB.V), stDim))
		}
		out = append(out, l)
	}
	if srv.InputTPS.Known || srv.CacheHit.Known {
		out = append(out, line{name("input"), p.fig(srv.InputTPS, briefRate, 5, stText), sp("  tok/s, cache hit ", stDim), p.fig(srv.CacheHit, metrics.Percent, 0, stText)})
	}
	if srv.AcceptLen.Known {
		out = append(out, line{name("accepted"), p.fig(srv.AcceptLen, two, 5, stText), sp("  drafted tokens a step", stDim)})
	}
	return out
}

// peakOf is a stable upper bound for sparklines.
func (m *Model) peakOf(key string, values []float64) float64 {
	top := 0.0
	for _, v := range values {
		if !math.IsNaN(v) {
			top = max(top, v)
		}
	}
	return m.scale(key).fit([]float64{top}, 0)
}

// newest is the newest moment that any series can hold.
func (m *Model) newest() time.Time {
	if m.live != nil {
		return m.live.At
	}
	return m.snap.At
}
