package tui

import (
	"fmt"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// drawHost draws what else the run stands on: memory, disks, load.
func (m *Model) drawHost(c *canvas) {
	s, p := m.snap, m.pen()
	if m.layout.Mode != ModeFull {
		a := c.area(m.layout.Rect[PaneHost])
		a.fit(1, 0, a.w()-2, 2, append([]seg{{0, line{sp("host ", stStrong)}}}, hostSegs(p, s)...)...)
		return
	}
	a := m.frame(c, PaneHost, m.layout.Mode, nil, ageNote(p.old(s.Sys.MemAvail, s.Sys.Load1)))
	y := 0
	row := func(l line) {
		if y < a.h() {
			a.line(0, y, a.w(), l)
		}
		y++
	}
	const label = 7
	name := func(t string) span { return sp(padRight(t, label), stDim) }
	row(append(line{name("RAM")}, memLine(p, &s.Sys)...))
	if s.Sys.MemLimit != "" {
		row(line{sp("  within "+limitOwner(&s.Sys)+"'s limit", stDim)})
	}
	for _, d := range s.Sys.Disks {
		row(append(line{sp(padRight(diskName(d.Mount), label-1)+" ", stDim)}, diskLine(p, &d)...))
	}
	load := line{name("load"), p.fig(s.Sys.Load1, one, 0, stText)}
	if s.Sys.CPUs > 0 {
		load = append(load, sp(fmt.Sprintf(" on %d CPUs", s.Sys.CPUs), stDim))
	}
	if s.Sys.CPUUtil.Known && a.w() >= 30 {
		load = append(load, sp(", busy ", stDim), p.fig(s.Sys.CPUUtil, metrics.Percent, 0, stText))
	}
	row(load)
	if s.Sys.SwapUsed.Known && s.Sys.SwapUsed.V > 0 {
		row(line{name("swap"), p.fig(s.Sys.SwapUsed, metrics.GiB, 0, stText), sp(" used", stDim)})
	}
	if s.Sys.Shm.Total.Known {
		row(append(line{name("shm")}, diskLine(p, &s.Sys.Shm)...))
	}
}

// bareGiB is a size in GiB without its unit.
func bareGiB(v float64) string { return metrics.Count(v / (1 << 30)) }

func memLine(p pen, h *metrics.Host) line {
	st := stText
	if h.MemAvail.Known && h.MemTotal.Known && h.MemAvail.V < 0.05*h.MemTotal.V {
		st = stWarn.bold()
	}
	if !h.MemAvail.Known && !h.MemTotal.Known {
		return line{sp(metrics.Dash, stDim)}
	}
	return line{p.fig(h.MemAvail, bareGiB, 0, st), sp(" of ", stDim), p.fig(h.MemTotal, bareGiB, 0, stDim), sp(" GiB free", stDim)}
}

// limitOwner is in a word or two whose limit memory is counted below.
func limitOwner(h *metrics.Host) string {
	if owner, ok := strings.CutPrefix(h.MemLimit, "the "); ok {
		return owner
	}
	return "cgroup"
}

// limitMark tells in running text that memory is counted below a limit, and whose.
func limitMark(h *metrics.Host) string {
	if h.MemLimit == "" {
		return ""
	}
	return " in " + limitOwner(h)
}

func diskLine(p pen, d *metrics.Disk) line {
	st := stText
	if d.Avail.Known && d.Total.Known && d.Avail.V < 0.05*d.Total.V || d.FullIn > 0 && d.FullIn < 24*time.Hour {
		st = stWarn.bold()
	}
	l := line{p.fig(d.Avail, metrics.GiB, 0, st)}
	if d.FullIn > 0 {
		return append(l, sp(", full in "+spanWord(d.FullIn), stDim))
	}
	return append(l, sp(" free", stDim))
}

// spanWord is a long span in one unit.
func spanWord(d time.Duration) string {
	if d >= 48*time.Hour {
		return fmt.Sprintf("%d d", int(d.Hours()/24))
	}
	return metrics.Age(d)
}

// hostShort is the host in one line of a side pane.
func hostShort(p pen, s *metrics.Snapshot) []seg {
	segs := []seg{{0, line{sp("RAM ", stDim), p.fig(s.Sys.MemAvail, metrics.GiB, 0, stText), sp(" free"+limitMark(&s.Sys), stDim)}}}
	for i, d := range s.Sys.Disks {
		l := line{sp(diskName(d.Mount)+" ", stDim)}
		for _, s := range diskLine(p, &d) {
			l = append(l, sp(strings.ReplaceAll(s.s, "full in ", ""), s.st))
		}
		segs = append(segs, seg{1 + i, l})
	}
	return segs
}

// diskName names a file system in running text, where a lone / would read as "of".
func diskName(mount string) string {
	if mount == "/" {
		return "disk"
	}
	return mount
}

func hostSegs(p pen, s *metrics.Snapshot) []seg {
	segs := []seg{{0, append(append(line{sp("RAM ", stDim)}, memLine(p, &s.Sys)...), sp(limitMark(&s.Sys), stDim))}}
	for i, d := range s.Sys.Disks {
		segs = append(segs, seg{1 + i, append(line{sp(diskName(d.Mount)+" ", stDim)}, diskLine(p, &d)...)})
	}
	if s.Sys.Load1.Known {
		segs = append(segs, seg{8, line{sp("load ", stDim), p.fig(s.Sys.Load1, one, 0, stText)}})
	}
	return segs
}

// drawFindings lists what is wrong, gravest first, each with what to do.
func (m *Model) drawFindings(c *canvas) {
	s, p := m.snap, m.pen()
	a := m.frame(c, PaneFind, m.layout.Mode, nil)
	if a.r.Empty() {
		return
	}
	if len(s.Findings) == 0 {
		text := "nothing is found wrong"
		if s.Verdict.Word == "WAIT" {
			text = "still finding out"
		}
		a.cut(0, 0, a.w(), text, stDim)
		m.drawCannotTell(a, p, 1)
		return
	}
	y := 0
	first := 0
	if m.focus == PaneFind && m.sel[PaneFind] >= a.h() {
		first = m.sel[PaneFind] - a.h() + 1
	}
	// Every title first, then advice, the gravest first, each to its end where
	// all have a row, then what cannot be told.
	spare := a.h() - len(s.Findings)
	advised := 0
	for _, f := range s.Findings {
		if f.Advice != "" && !f.Acked {
			advised++
		}
	}
	more := max(spare-advised, 0)
	for i := first; i < len(s.Findings) && y < a.h(); i++ {
		f := &s.Findings[i]
		m.drawFindingLine(a.sub(0, y, a.w(), 1), p, f, m.marked(PaneFind, i))
		y++
		if spare > 0 && f.Advice != "" && !f.Acked {
			rows := wrap("→ "+f.Advice, a.w()-2, min(1+more, spare))
			for _, row := range rows {
				a.put(2, y, row, stDim)
				y++
			}
			spare -= len(rows)
			more -= len(rows) - 1
		}
	}
	if y < a.h() {
		m.drawCannotTell(a, p, y)
	}
}

func (m *Model) drawFindingLine(a area, p pen, f *metrics.Finding, marked bool) {
	on := func(st style) style {
		if marked {
			st.bg = roleSelect
		}
		return st
	}
	if marked {
		a.clear(style{bg: roleSelect})
	}
	st, text := on(severityStyle(f.Severity)), on(stText)
	note := p.ago(f.Since)
	if f.Acked {
		st, text = on(stDim), on(stDim)
		note = "acked  " + note
	} else if f.Snoozed.After(p.now()) {
		st, text = on(stDim), on(stDim)
		note = "snoozed till " + p.clock(f.Snoozed)
	}
	sign := severitySign[f.Severity]
	if marked && !m.colours() {
		sign = ">"
	}
	a.put(0, 0, sign, st)
	room := a.w() - 2
	if nw := textWidth(note); room-nw > 38 {
		a.put(a.w()-nw, 0, note, on(stDim))
		room -= nw + 2
	}
	if f.Severity >= metrics.SeverityWarning && !f.Acked {
		text = text.bold()
	}
	a.cut(2, 0, room, f.Title, text)
}

// arrow leads to what would help, if anything is known.
func arrow(advice string) string {
	if advice == "" {
		return ""
	}
	return " → " + advice
}

// drawCannotTell lists what cannot be known, with what would tell it: probe
// channels that do not work, and figures without a source. Each has a row before any has a second.
func (m *Model) drawCannotTell(a area, p pen, y int) {
	type entry struct {
		sign style
		text string
	}
	var es []entry
	for _, ch := range p.s.Channels {
		if !ch.Broken() {
			continue
		}
		es = append(es, entry{stWarn, "probe " + ch.Name + " " + ch.State + " for " + p.age(ch.Since) + ": " + ch.Reason + arrow(ch.Advice)})
	}
	for _, ct := range p.s.CannotTell {
		es = append(es, entry{stDim, ct.What + ": " + ct.Why + arrow(ct.Tell)})
	}
	spare := a.h() - y - len(es)
	for _, e := range es {
		if y >= a.h() {
			return
		}
		rows := wrap(e.text, a.w()-2, 1+max(spare, 0))
		spare -= len(rows) - 1
		a.put(0, y, "?", e.sign)
		for _, row := range rows {
			a.put(2, y, row, stDim)
			y++
		}
	}
}

// drawEvents lists what happened, newest first.
func (m *Model) drawEvents(c *canvas) {
	a := m.frame(c, PaneEvents, m.layout.Mode, nil)
	if a.r.Empty() {
		return
	}
	p := m.pen()
	n := len(m.snap.Events)
	if n == 0 {
		a.cut(0, 0, a.w(), "nothing has happened yet", stDim)
	}
	first := 0
	if m.focus == PaneEvents && m.sel[PaneEvents] >= a.h() {
		first = m.sel[PaneEvents] - a.h() + 1
	}
	for i := first; i < n && i-first < a.h(); i++ {
		m.drawEvent(a.sub(0, i-first, a.w(), 1), p, &m.snap.Events[n-1-i], m.marked(PaneEvents, i))
	}
}

func (m *Model) drawEvent(a area, p pen, e *metrics.Event, marked bool) {
	on := func(st style) style {
		if marked {
			st.bg = roleSelect
		}
		return st
	}
	if marked {
		a.clear(style{bg: roleSelect})
	}
	when := p.clock(e.At)
	x := a.put(0, 0, padRight(when, max(5, textWidth(when))), on(stDim)) + 1
	mark := markOf(m.snap, e)
	if marked && !m.colours() {
		mark.sign = ">"
	}
	x = a.put(x, 0, mark.sign, on(mark.st)) + 1
	a.cut(x, 0, a.w()-x, eventText(e), on(stText))
}
