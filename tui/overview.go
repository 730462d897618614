package tui

import (
	"fmt"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// drawOverview draws every pane that has a rectangle.
func (m *Model) drawOverview(c *canvas) {
	l := m.layout
	if l.Mode == ModeSide {
		m.drawSide(c)
		return
	}
	m.drawHeader(c.area(l.Rect[PaneHeader]))
	m.drawVerdict(c.area(l.Rect[PaneVerdict]), true)
	if m.snap == nil {
		m.drawFirst(c)
		m.drawFooter(c.area(l.Rect[PaneFooter]))
		return
	}
	if firstVisit(m.snap) {
		m.drawFirst(c)
	} else {
		m.drawRows(c)
		m.drawGen(c)
		m.drawReq(c)
	}
	m.drawGPUs(c)
	m.drawHost(c)
	m.greyOld(c)
	m.drawFindings(c)
	m.drawEvents(c)
	m.drawFooter(c.area(l.Rect[PaneFooter]))
}

// greyOld takes the colour from the panes that show the node while the link to
// it is down: they stay, but nobody may take them for the present.
func (m *Model) greyOld(c *canvas) {
	if m.snap == nil || m.snap.Link.Status != metrics.LinkDown {
		return
	}
	for _, p := range []Pane{PaneRows, PaneGen, PaneReq, PaneGPU, PaneHost, PaneETA, PaneLanded, PaneClient} {
		grey(c.area(m.layout.Rect[p]))
	}
}

// grey takes the colour from all but frames and warnings.
func grey(a area) {
	for y := range a.r.H {
		for x := range a.r.W {
			st := &a.c.cells[(a.r.Y+y)*a.c.w+a.r.X+x].st
			switch st.fg {
			case roleFaint, roleWarn, roleCrit:
			default:
				st.fg, st.attr = roleStale, 0
			}
		}
	}
}

// firstVisit tells that nothing was found yet that a pane could show.
func firstVisit(s *metrics.Snapshot) bool {
	return len(s.Servers) == 0 && len(s.Datasets) == 0 && len(s.Clients) == 0
}

// drawFirst takes the place of the upper panes while there is nothing to show
// in them: what is being done, what was found, and what to try.
func (m *Model) drawFirst(c *canvas) {
	l := m.layout
	top, bottom := l.Rect[PaneRows], l.Rect[PaneReq]
	r := Rect{0, top.Y, l.W, bottom.Y + bottom.H - top.Y}
	if m.snap == nil {
		r.H = l.Rect[PaneFooter].Y - r.Y
	}
	title := "first look"
	if m.snap != nil && m.snap.Node != "" {
		title = "first look at " + m.snap.Node
	}
	a := border(c.area(r), l.Mode == ModeFull, stFaint, line{sp(title, stStrong)}, nil)
	y := max((a.h()-6)/2, 0)
	rows := firstLines(m.snap, m.opt.Node)
	for i, row := range rows {
		if i < len(rows)-1 || !strings.HasPrefix(row, "→") {
			a.cut(2, y+i, a.w()-4, row, stText)
			continue
		}
		for j, part := range wrap(row, a.w()-4, 3) {
			a.put(2, y+i+1+j, part, stAccent)
		}
	}
}

// firstLines are the words of the first visit and of the empty state.
func firstLines(s *metrics.Snapshot, node string) []string {
	if s == nil {
		if node == "" {
			node = "the node"
		}
		return []string{"connecting to " + node + " …"}
	}
	rows := append([]string(nil), s.Doing[:min(len(s.Doing), 3)]...)
	if l := s.Link; l.Status == metrics.LinkDown && l.LastData.IsZero() {
		if l.Reason != "" {
			rows = append(rows, "no answer: "+l.Reason)
		}
		what := "it is tried again by itself"
		if l.Waiting {
			what = "r tries again"
		}
		return append(rows, "→ check that `ssh "+s.Node+"` works from here; "+what)
	}
	if s.Verdict.Word == "NONE" {
		if len(rows) == 0 {
			rows = append(rows, "no inference server and no client found on "+s.Node)
		}
		rows = append(rows, "→ start one, or watch by hand: a log with `:logs /PATH`; rows or a server with `datasets` or `endpoint` in the config file")
	}
	if len(rows) == 0 {
		rows = append(rows, "looking around on "+s.Node+" …")
	}
	return rows
}

var engineNames = map[string]string{"sglang": "SGLang", "vllm": "vLLM"}

func engineName(e string) string {
	if n, ok := engineNames[e]; ok {
		return n
	}
	return e
}

// drawHeader tells what is watched, and how old and how true the data is.
func (m *Model) drawHeader(a area) {
	s := m.snap
	if s == nil {
		a.line(1, 0, a.w()-2, line{sp(m.opt.Node, stStrong)})
		return
	}
	p := m.pen()
	right := m.clockLine(p, a.w() >= 90)
	x := a.right(0, append(right, sp(" ", stText)))
	room := x - 3
	segs := []seg{{0, line{sp(s.Node, stStrong)}}}
	if srv := s.Server(); srv != nil {
		name := strings.TrimSpace(engineName(srv.Engine) + " " + srv.Version)
		segs = append(segs, seg{1, line{sp(name, stText)}}, seg{2, line{sp(modelName(srv.Model), stText)}})
		if srv.TP > 1 {
			segs = append(segs, seg{5, line{sp(fmt.Sprintf("TP%d", srv.TP), stText)}})
		}
		if srv.DP > 1 {
			segs = append(segs, seg{5, line{sp(fmt.Sprintf("DP%d", srv.DP), stText)}})
		}
		if up := upWord(p, srv); up != "" {
			segs = append(segs, seg{3, line{sp(up, stDim)}})
		}
		if srv.StartNo > 0 {
			label := fmt.Sprintf("start #%d", srv.StartNo)
			if st := startOf(s, srv); st != nil && st.Label != "" {
				label += " (" + st.Label + ")"
			}
			segs = append(segs, seg{4, line{sp(label, stDim)}})
		}
		if len(s.Servers) > 1 {
			i, n := place(s)
			segs = append(segs[:1:1], append([]seg{{1, line{sp(fmt.Sprintf("server %d of %d", i, n), stStrong), sp(" n", stAccent.bold())}}}, segs[1:]...)...)
		}
	}
	a.fit(1, 0, room, 2, segs...)
}

func startOf(s *metrics.Snapshot, srv *metrics.Server) *metrics.Start {
	for i := range s.Starts {
		if s.Starts[i].No == srv.StartNo {
			return &s.Starts[i]
		}
	}
	return nil
}

// modelName is the last part of a path or of an owner/name.
func modelName(model string) string {
	return model[strings.LastIndexByte(strings.TrimRight(model, "/"), '/')+1:]
}

func upWord(p pen, srv *metrics.Server) string {
	switch {
	case !srv.Ended.IsZero():
		return "ended " + p.ago(srv.Ended) + " ago"
	case !srv.Started.IsZero():
		return "up " + metrics.Age(p.now().Sub(srv.Started))
	}
	return ""
}

// clockLine is the age of the data and the node's own time, or what keeps the
// screen from being live.
func (m *Model) clockLine(p pen, wide bool) line {
	s := m.snap
	var l line
	add := func(text string, st style) {
		if len(l) > 0 {
			l = append(l, sp("  ", stText))
		}
		l = append(l, sp(text, st))
	}
	badge := func(text string, r role) { add(" "+text+" ", style{fg: roleOnBadge, bg: r}.bold()) }
	switch {
	case !m.at.IsZero():
		badge("HISTORY "+p.seconds(s.At), roleInfo)
		if s.Link.Status == metrics.LinkDown {
			badge("LINK DOWN", roleCrit)
		}
		if wide && m.live != nil {
			add(metrics.Age(m.live.At.Sub(s.At))+" ago, 0 is now", stDim)
			if !m.recalled() {
				add("from graphs and logs: not watched then", stWarn)
			}
		}
		return l
	case m.paused:
		badge("PAUSED", roleWarn)
	case s.Replay:
		badge("REPLAY", roleInfo)
	}
	switch s.Link.Status {
	case metrics.LinkDown:
		badge("LINK DOWN "+p.age(s.Link.Since), roleCrit)
		if canReconnect(m) {
			add("r reconnects", stAccent.bold())
		}
	case metrics.LinkSuspect:
		badge("LINK SILENT", roleWarn)
	case metrics.LinkConnecting:
		badge("CONNECTING", roleInfo)
	}
	if !s.Link.LastData.IsZero() {
		d := s.At.Sub(s.Link.LastData)
		st := stDim
		if d > 5*time.Second {
			st = stWarn
		}
		if wide {
			add(atLeast("data "+metrics.Age(d)+" old", 13), st)
		} else {
			add(atLeast(metrics.Age(d)+" old", 8), st)
		}
	}
	if wide {
		add("node "+p.day(s.At)+" "+p.seconds(s.At)+" "+s.Zone, stDim)
	} else {
		add(strings.TrimSpace(p.seconds(s.At)+" "+s.Zone), stDim)
	}
	return l
}

// atLeast pads a text at its left, so that it grows only where it must.
func atLeast(s string, w int) string { return padLeft(s, max(w, textWidth(s))) }

// drawVerdict is the one sentence, in words and figures, with the way to what
// is wrong. The row below holds the rest of it, or what to do.
func (m *Model) drawVerdict(a area, counts bool) {
	s := m.snap
	if s == nil {
		a.put(1, 0, " ○ WAIT ", style{fg: roleOnBadge, bg: roleInfo}.bold())
		a.cut(10, 0, a.w()-10, "connecting to "+m.opt.Node, stStrong)
		return
	}
	sign, r := verdictLook(s.Verdict)
	word := " " + sign + " " + s.Verdict.Word + " "
	x := a.put(1, 0, word, style{fg: roleOnBadge, bg: r}.bold()) + 1
	w := a.w() - x
	if counts {
		right := findingCounts(s)
		if rw := right.width(); rw > 0 && a.w() >= 70 && textWidth(s.Verdict.Text) <= w-rw-3 {
			a.right(0, append(right, sp(" ", stText)))
			w -= rw + 3
		}
	}
	st := stStrong
	if r == roleCrit {
		st = stCrit.bold()
	}
	text := s.Verdict.Text
	if head, note, ok := strings.Cut(text, ": "); ok && strings.Contains(head, " (") && strings.HasSuffix(note, ")") && len(wrap(text, w, a.h()+1)) > a.h() {
		text = head + ")" // the figures behind the ramp are also in the finding
	}
	rows := wrap(text, w, a.h())
	for i, row := range rows {
		a.put(x, i, row, st)
	}
	if len(rows) < a.h() && a.h() > 1 && m.at.IsZero() {
		if f := topFinding(s); f != nil && f.Severity >= metrics.SeverityWarning && f.Advice != "" {
			a.cut(x, len(rows), a.w()-x-1, "→ "+f.Advice, stAccent)
		}
	}
}

func topFinding(s *metrics.Snapshot) *metrics.Finding {
	for i := range s.Findings {
		if f := &s.Findings[i]; !f.Acked && !f.Snoozed.After(s.At) {
			return f
		}
	}
	return nil
}

func findingCounts(s *metrics.Snapshot) line {
	var n [metrics.SeverityCritical + 1]int
	for _, f := range s.Findings {
		n[f.Severity]++
	}
	var l line
	for _, sev := range []metrics.Severity{metrics.SeverityCritical, metrics.SeverityWarning, metrics.SeverityInfo} {
		if n[sev] > 0 {
			l = append(l, sp(fmt.Sprintf("%d %s  ", n[sev], sev), severityStyle(sev)))
		}
	}
	if len(l) > 0 {
		l = append(line{sp("f ", stAccent.bold())}, l...)
		l[len(l)-1].s = strings.TrimRight(l[len(l)-1].s, " ")
	}
	return l
}

// drawFooter shows what happened last, else the keys that work here.
func (m *Model) drawFooter(a area) {
	if m.toast != "" {
		a.cut(1, 0, a.w()-2, m.toast, stStrong)
		return
	}
	segs := make([]seg, 0, 16)
	if m.follow.active() && m.topName() != viewRestart {
		segs = append(segs, seg{0, line{sp("R", stAccent.bold()), sp(" "+truncate(m.follow.stage(), 40), stWarn)}})
	}
	for i, b := range m.hints() {
		segs = append(segs, seg{i + 1, line{sp(b.show, stAccent.bold()), sp(" "+b.short, stDim)}})
	}
	if len(segs) > 0 && a.w() < 30 {
		segs = segs[:1]
	}
	a.fit(1, 0, a.w()-2, 2, segs...)
}
