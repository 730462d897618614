package tui

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// drawGen draws how fast it really goes: the figure with its phase, and the
// graph with starts and findings on its time axis.
func (m *Model) drawGen(c *canvas) {
	s, p := m.snap, m.pen()
	srv := s.Server()
	var figs []metrics.Figure
	if srv != nil {
		figs = append(figs, srv.Gen.Now)
	}
	a := m.frame(c, PaneGen, m.layout.Mode, nil, m.rangeNote(p, figs...))
	if a.r.Empty() {
		return
	}
	if srv == nil {
		a.cut(0, 0, a.w(), "no server found on "+s.Node+": it is looked for every 15 to 30 s", stDim)
		return
	}
	if srv.State == metrics.ServerStarting && !srv.Gen.Now.Known && m.at.IsZero() {
		m.drawStarting(a, p, srv)
		return
	}
	a.fit(0, 0, a.w(), 2, genSegs(p, srv)...)
	if a.h() >= 4 {
		m.drawGraph(a.sub(0, 1, a.w(), a.h()-1), metrics.SeriesGenTPS, srv.ID, graphOf{
			floor: genFloor(srv), every: srv.Gen.Now.Every, st: stData,
		})
	}
}

// rangeNote is the corner of a pane with graphs: how old its figures are, where
// they are old, and how much time the graphs show.
func (m *Model) rangeNote(p pen, figs ...metrics.Figure) line {
	l := ageNote(p.old(figs...))
	if len(l) > 0 {
		l = append(l, sp("  ", stText))
	}
	return append(l, sp("["+ranges[m.span].name+"]", stDim))
}

// genFloor keeps the noise of an idle server near zero.
func genFloor(srv *metrics.Server) float64 {
	if srv.Gen.Peak.Known {
		return max(srv.Gen.Peak.V/10, 10)
	}
	return 100
}

// genSegs tell the figure with its phase: a rate without it misleads.
func genSegs(p pen, srv *metrics.Server) []seg {
	g := &srv.Gen
	segs := []seg{{0, line{p.fig(g.Now, briefRate, 5, stStrong), sp(" tok/s", stDim)}}}
	switch {
	case srv.State == metrics.ServerDown:
		text := "DOWN"
		if !srv.Ended.IsZero() {
			text += " since " + p.clock(srv.Ended)
		}
		segs = []seg{{0, line{sp(text, stCrit.bold())}}}
		if cause := primary(srv.Causes); cause != nil {
			segs = append(segs, seg{0, line{sp(string(cause.Class), stCrit), sp(" "+cause.Detail, stText)}})
		} else if srv.ExitCode != nil {
			segs = append(segs, seg{1, line{sp(fmt.Sprintf("exit code %d", *srv.ExitCode), stText)}})
		}
		return segs
	case srv.State == metrics.ServerHung:
		segs = append(segs, seg{0, line{sp("HUNG", stCrit.bold()), sp(" no token for "+p.age(srv.LastToken), stText)}})
	case srv.State == metrics.ServerIdle:
		segs = append(segs, seg{0, line{sp("idle", stDim), sp(" for "+p.age(srv.Since), stDim)}})
	case g.Settled.Known:
		l := line{sp("settled ", stOK), p.fig(g.Settled, metrics.Rate, 0, stStrong)}
		if g.Spread.Known {
			l = append(l, sp(" ± "+whole(g.Spread.V), stText))
		}
		if !g.Since.IsZero() {
			l = append(l, sp(" for "+metrics.Age(p.now().Sub(g.Since)), stDim))
		}
		segs = append(segs, seg{0, l})
	case g.Ramp:
		segs = append(segs, seg{0, line{sp("ramp", stWarn.bold()), sp(" requests are young: not the rate that stays", stText)}})
	}
	if g.Now.Known && srv.Running.Known && srv.Running.V > 0 && !g.Now.Stale(p.now()) {
		segs = append(segs, seg{2, line{sp(one(g.Now.V/srv.Running.V), stText), sp(" per request", stDim)}})
	}
	if g.Peak.Known && !g.PeakAt.IsZero() {
		word := "peak "
		if g.Settled.Known {
			word = "ramp "
		}
		segs = append(segs, seg{3, line{sp(word, stDim), p.fig(g.Peak, metrics.Rate, 0, stText), sp(" "+p.clock(g.PeakAt), stDim)}})
	}
	return segs
}

func primary(causes []metrics.CauseFact) *metrics.CauseFact {
	for i := range causes {
		if causes[i].Primary {
			return &causes[i]
		}
	}
	if len(causes) > 0 {
		return &causes[0]
	}
	return nil
}

// drawStarting shows the phases of a start instead of a rate that cannot be yet.
func (m *Model) drawStarting(a area, p pen, srv *metrics.Server) {
	ph := &srv.Phase
	l := line{sp("starting ", stInfo.bold()), sp(ph.Name, stStrong)}
	if !ph.Since.IsZero() {
		l = append(l, sp(" for "+p.age(ph.Since), stDim))
	}
	a.line(0, 0, a.w(), l)
	y := 1
	if ph.Total > 0 {
		share := float64(ph.Done) / float64(ph.Total)
		full, rest := bar(share, min(30, a.w()/2), m.opt.ASCII)
		a.line(0, y, a.w(), line{sp(full, stData), sp(rest, stFaint), sp(fmt.Sprintf(" %d of %d", ph.Done, ph.Total), stText)})
		y++
	}
	if ph.Expected > 0 && !srv.Started.IsZero() {
		a.line(0, y, a.w(), line{sp("started "+p.age(srv.Started)+" ago; earlier starts took ", stDim), sp(metrics.Age(ph.Expected), stText)})
		y++
	}
	if !ph.LastSign.IsZero() {
		a.line(0, y, a.w(), line{sp("last sign of progress "+p.age(ph.LastSign)+" ago", stDim)})
		y++
	}
	for _, t := range ph.Took {
		a.line(0, y, a.w(), line{sp("✓ ", stOK), sp(padRight(t.Name, 28), stText), sp(padLeft(metrics.Age(t.Took), 8), stDim)})
		y++
	}
}

// graphOf says how a graph is drawn.
type graphOf struct {
	floor float64 // smallest upper bound that makes sense
	upper float64 // fixed upper bound, 0: by the values
	every time.Duration
	st    style
	label func(float64) string
	mark  graphMark
}

// graphMark is a moment that a graph marks; it shows a range that holds it.
type graphMark struct {
	at   time.Time // zero: none
	sign string
	st   style
}

// rangeOf is the index of the chosen range, or of the next that reaches back to
// the marked moment.
func (m *Model) rangeOf(g graphMark) int {
	r := m.span
	for !g.at.IsZero() && r < len(ranges)-1 && m.snap.At.Sub(g.at) > ranges[r].span*9/10 {
		r++
	}
	return r
}

// drawGraph draws one series over the chosen range with its time axis below.
func (m *Model) drawGraph(a area, what, of string, g graphOf) {
	plotW := a.w() - labelWidth - 1
	height := a.h() - 2
	if plotW < 8 || height < 2 {
		return
	}
	if g.label == nil {
		g.label = axis
	}
	chosen := ranges[m.rangeOf(g.mark)]
	span := chosen.span
	cols := columns(m.series(what, of), m.newest(), m.snap.At, span, plotW)
	values, highs := means(cols), maxima(cols)
	step := time.Duration(0)
	if len(cols) > 1 {
		step = cols[1].start.Sub(cols[0].start)
	}
	gapFill(values, bridge(g.every, step))
	upper := g.upper
	if upper == 0 {
		upper = m.scale(what+of+chosen.name).fit(highs, g.floor)
	}
	ch := plot(values, upper, height, g.label, m.opt.ASCII)
	if ch.empty {
		a.put(max((a.w()-22)/2, 0), height/2, "no data in this range", stDim)
	}
	for y, row := range ch.rows {
		if y >= height {
			break
		}
		at := strings.Index(row, "│")
		lab := row[:at]
		if y != 0 && y != height-1 && (height%2 == 0 || y != height/2) {
			lab = strings.Repeat(" ", labelWidth)
		}
		x := a.put(0, y, lab, stDim)
		x = a.put(x, y, "│", stFaint)
		a.put(x, y, row[at+len("│"):], g.st)
	}
	drawHighs(a, values, highs, upper, height)
	m.drawTimeAxis(a.sub(0, height, a.w(), 2), cols, step)
	drawMoment(a, cols, values, step, upper, height, g.mark)
}

// drawMoment marks a moment on the axis, above and below the line.
func drawMoment(a area, cols []column, values []float64, step time.Duration, upper float64, height int, g graphMark) {
	if g.at.IsZero() || len(cols) == 0 || step <= 0 {
		return
	}
	i := int(math.Floor(g.at.Sub(cols[0].start).Seconds() / step.Seconds()))
	if i < 0 || i >= len(cols) {
		return
	}
	top, bottom := height, -1 // rows of the line, here and beside
	for j := max(i-1, 0); j <= min(i+1, len(values)-1); j++ {
		if v := values[j]; !math.IsNaN(v) {
			y := height - 1 - int(math.Round(min(max(v, 0), upper)/upper*float64(height-1)))
			top, bottom = min(top, y), max(bottom, y)
		}
	}
	for y := range height {
		if y < top || y > bottom {
			a.put(labelWidth+1+i, y, "┊", stDim)
		}
	}
	a.put(labelWidth+1+i, height, g.sign, g.st)
}

// drawHighs marks with a dot how high a column reached, where that is clearly
// above its mean: the line stays what was achieved, and no peak is lost. What is
// higher than the scale is marked at its edge.
func drawHighs(a area, values, highs []float64, upper float64, height int) {
	row := func(v float64) int {
		return height - 1 - int(math.Round(min(max(v, 0), upper)/upper*float64(height-1)))
	}
	clear := min(1, height/5) // rows between the line and a dot
	for i, v := range highs {
		switch {
		case math.IsNaN(v):
		case v > upper:
			a.put(labelWidth+1+i, 0, "▲", stWarn)
		case row(v) < row(values[i])-clear:
			a.put(labelWidth+1+i, row(v), "·", stDim)
		}
	}
}

// axisSteps are the distances that time labels may have.
var axisSteps = []time.Duration{
	5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute,
	15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// drawTimeAxis draws the line with ticks at round times of the node's day, the
// marks of events on it, and the times below.
func (m *Model) drawTimeAxis(a area, cols []column, step time.Duration) {
	if len(cols) < 2 || step <= 0 {
		return
	}
	a.put(labelWidth, 0, "╰", stFaint)
	a.fill(labelWidth+1, 0, len(cols), "─", stFaint)
	every := axisSteps[len(axisSteps)-1]
	for _, s := range axisSteps {
		if int(s/step) >= 10 {
			every = s
			break
		}
	}
	// On the node's wall, to the nearest second: its clock is measured to parts of
	// one, and a tick of 11:59:59.7 is noon.
	wall := int64(m.snap.ZoneSec) + int64(m.snap.NodeClock.Round(time.Second)/time.Second)
	sec, width := int64(every/time.Second), int64(step/time.Second)
	free := labelWidth - 2
	for i, c := range cols {
		t := c.start.Unix() + wall
		tick := (t + width - 1) / sec * sec // the last round moment that begins in the column
		if tick < t {
			continue
		}
		x := labelWidth + 1 + i
		a.put(x, 0, "┴", stFaint)
		label := tickLabel(time.Unix(tick, 0).UTC(), every)
		if lx := x - textWidth(label)/2; lx > free && lx+textWidth(label) <= a.w() {
			a.put(lx, 1, label, stDim)
			free = lx + textWidth(label)
		}
	}
	m.drawMarks(a, cols, step)
}

// tickLabel is a round moment of the node's wall, as fine as the ticks are.
func tickLabel(t time.Time, every time.Duration) string {
	switch {
	case every < time.Minute:
		return t.Format("15:04:05")
	case every >= 6*time.Hour && t.Hour() == 0:
		return t.Format("Mon 2")
	}
	return t.Format("15:04")
}

var eventMarks = map[string]struct {
	sign string
	st   style
	rank int
}{
	"crash": {"✖", stCrit.bold(), 5}, "finding": {"▲", stWarn.bold(), 4}, "start": {"◆", stAccent.bold(), 3}, "restart": {"◆", stAccent.bold(), 3},
	"client": {"▸", stAccent, 2}, "settled": {"●", stOK, 2}, "note": {"■", stData2.bold(), 3},
}

// markOf is an event's mark; that of a finding tells its severity.
func markOf(s *metrics.Snapshot, e *metrics.Event) (mark struct {
	sign string
	st   style
	rank int
}) {
	mark, ok := eventMarks[e.Kind]
	if !ok {
		mark.sign, mark.st = "·", stDim
		return mark
	}
	if e.Kind != "finding" {
		return mark
	}
	for _, list := range [][]metrics.Finding{s.Findings, s.History} {
		for i := range list {
			if list[i].ID == e.Ref && e.Ref != "" {
				mark.sign, mark.st = severitySign[list[i].Severity], severityStyle(list[i].Severity)
				mark.rank = 1 + int(list[i].Severity)
				return mark
			}
		}
	}
	return mark
}

// drawMarks puts what happened onto the time axis; of two in one column the
// graver stays.
func (m *Model) drawMarks(a area, cols []column, step time.Duration) {
	rank := map[int]int{}
	for _, e := range m.snap.Events {
		mark := markOf(m.snap, &e)
		if mark.rank == 0 {
			continue
		}
		i := int(math.Floor(e.At.Sub(cols[0].start).Seconds() / step.Seconds()))
		if i < 0 || i >= len(cols) || rank[i] >= mark.rank {
			continue
		}
		rank[i] = mark.rank
		a.put(labelWidth+1+i, 0, mark.sign, mark.st)
	}
}
