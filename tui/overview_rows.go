package tui

import (
	"fmt"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// drawRows draws the job, its datasets, and whether what the server finishes
// also lands.
func (m *Model) drawRows(c *canvas) {
	s, p := m.snap, m.pen()
	figs := []metrics.Figure{s.Job.Rows}
	for _, d := range s.Datasets {
		figs = append(figs, d.Rows)
	}
	a := m.frame(c, PaneRows, m.layout.Mode, nil, ageNote(p.old(figs...)))
	if a.r.Empty() {
		return
	}
	y := 0
	if a.h() >= 3 || len(s.Datasets) == 0 {
		m.drawJob(a, y)
		y++
	}
	last := a.h() - 1
	if len(s.Datasets) == 0 {
		a.cut(0, y, a.w(), "no dataset found yet: rows are found by open files, by argv and by what grows beside the logs", stDim)
	}
	room := last - y
	first := 0
	if m.focus == PaneRows && m.sel[PaneRows] >= room {
		first = m.sel[PaneRows] - room + 1
	}
	for i := first; i < len(s.Datasets) && i-first < room; i++ {
		if i-first == room-1 && i < len(s.Datasets)-1 && m.focus != PaneRows {
			a.cut(0, y+i-first, a.w(), fmt.Sprintf("+ %d more datasets: o", len(s.Datasets)-i), stDim)
			break
		}
		m.drawDataset(a.sub(0, y+i-first, a.w(), 1), p, &s.Datasets[i], m.marked(PaneRows, i))
	}
	rows := max(min(len(s.Datasets), room), 1)
	if n := toCome(s); n > 0 && rows < room {
		c := rowColsFor(a.w())
		a.cut(0, y+rows, c.name, "not begun", stDim)
		a.cut(c.name+1+c.rows, y+rows, c.target, " / "+commas(n), stDim)
		if x := c.name + c.rows + c.target + 4; s.Job.ETA.Known && c.target > 0 && x+len(atThisPace) < a.w() {
			a.put(x, y+rows, atThisPace, stDim)
		}
		rows++
	}
	if last > 0 {
		// One blank row at most: what belongs together stands together.
		a.fit(0, min(last, y+rows+1), a.w(), 3, m.landedSegs(p)...)
	}
}

// toCome is how many rows of the job's target no dataset stands for yet.
func toCome(s *metrics.Snapshot) int64 {
	n := s.Job.Target.Rows
	for _, d := range s.Datasets {
		if d.Target.Rows == 0 {
			return 0
		}
		n -= d.Target.Rows
	}
	return n
}

func ageNote(old string) line {
	if old == "" {
		return nil
	}
	return line{sp(old, stWarn)}
}

// rowCols are the columns of the rows pane for a width: the same for the job and
// for every dataset.
// atThisPace says what the job's ETA assumes of parts that nobody has seen.
const atThisPace = "the ETA takes them at this pace"

type rowCols struct {
	name, rows, target, rate, spark, last, eta, median int // widths, 0: left out
}

func rowColsFor(w int) rowCols {
	if w < 94 {
		c := rowCols{name: 14, rows: 7, target: 10, rate: 11, last: 10}
		room := func() int { return w - c.name - c.rows - c.target - c.rate - c.last - 2 }
		if room() < 20 {
			c.last = 0
		}
		if room() < 20 {
			c.target = 0
		}
		c.eta = room()
		return c
	}
	c := rowCols{name: min(max(w*16/100, 19), 34), rows: 9, target: 11, rate: 11, spark: 9, last: 10, eta: 21}
	c.median = max(w-c.name-c.rows-c.target-c.rate-c.spark-c.last-c.eta-2, 0)
	return c
}

func (m *Model) drawJob(a area, y int) {
	s, p := m.snap, m.pen()
	j, c := &s.Job, rowColsFor(a.w())
	a.put(0, y, "job", stStrong)
	x := c.name + 1
	x = a.line(x, y, c.rows, line{p.fig(j.Rows, metrics.Count, c.rows, stStrong)})
	if j.Target.Rows <= 0 {
		a.line(x, y, c.target, line{sp(" / ?", stDim), sp("  T", stAccent)})
		x += c.target + 1
		a.line(x, y, a.w()-x, m.rateOf(p, j.PerMin, c.rate))
		return
	}
	of := " / " + commas(j.Target.Rows)
	if j.Target.Inferred {
		of += "≈"
	}
	a.cut(x, y, c.target, of, stDim)
	x += c.target + 1
	x = a.line(x, y, a.w()-x, m.rateOf(p, j.PerMin, c.rate))
	wide := c.spark + c.last
	if j.Rows.Known && wide > 5 {
		share := j.Rows.V / float64(j.Target.Rows)
		at := a.put(x, y, padLeft(metrics.Percent(share), 5), stStrong) + 1
		full, rest := bar(share, wide-8, m.opt.ASCII)
		if c.spark > 0 {
			a.line(at, y, wide, line{sp(full, p.style(j.Rows, stData)), sp(rest, stFaint)})
		}
	}
	x += wide
	if j.Done {
		a.put(x, y, "done", stOK.bold())
		return
	}
	l := line{sp("ETA ", stDim), sp(strings.TrimPrefix(p.eta(j.ETA), metrics.Dash+" "), etaStyle(j.ETA))}
	if in := p.inTime(j.ETA); c.median > 0 {
		l = append(l, in...)
	}
	if c.median > 14 && j.PerMinOver > 0 && l.width() <= c.eta+c.median-15 {
		a.right(y, line{sp("rate over "+metrics.Age(j.PerMinOver), stDim)})
	}
	a.line(x, y, a.w()-x, l)
}

func etaStyle(e metrics.ETA) style {
	if e.Known {
		return stStrong
	}
	return stDim
}

func (m *Model) rateOf(p pen, f metrics.Figure, w int) line {
	return line{p.fig(f, metrics.Rate, w-5, stStrong), sp("/min ", stDim)}
}

// drawDataset is one row of the table: fixed columns, so that nothing moves when
// a figure gains a digit.
func (m *Model) drawDataset(a area, p pen, d *metrics.Dataset, marked bool) {
	if marked {
		a.clear(style{bg: roleSelect})
	}
	on := func(st style) style {
		if marked {
			st.bg = roleSelect
		}
		return st
	}
	w, c := a.w(), rowColsFor(a.w())
	name := d.Name
	if n := len(d.Shards); n > 1 {
		name += fmt.Sprintf(" ×%d", n)
	}
	if marked && !m.colours() {
		a.put(0, 0, ">", stStrong)
		a.cut(1, 0, c.name-1, name, on(stText))
	} else {
		a.cut(0, 0, c.name, name, on(stText))
	}
	x := c.name + 1
	if d.Err != "" {
		a.cut(x, 0, w-x, d.Err, on(stWarn))
		return
	}
	if d.Counting.Known && d.Counting.Done < d.Counting.Total {
		share := float64(d.Counting.Done) / float64(d.Counting.Total)
		full, rest := bar(share, 12, m.opt.ASCII)
		a.line(x, 0, w-x, line{sp("counting ", on(stDim)), sp(full, on(stData)), sp(rest, on(stFaint)),
			sp(fmt.Sprintf(" %s of %s", metrics.Bytes(float64(d.Counting.Done)), metrics.Bytes(float64(d.Counting.Total))), on(stDim))})
		return
	}
	rows := p.fig(d.Rows, metrics.Count, c.rows, stText)
	target := ""
	if d.Target.Rows > 0 {
		target = " / " + commas(d.Target.Rows)
		if d.Target.Inferred {
			target += "≈"
		}
	}
	a.line(x, 0, w-x, line{sp(rows.s, on(rows.st)), sp(padRight(target, c.target), on(stDim))})
	x += c.rows + c.target + 1
	if !d.Done.IsZero() {
		a.put(x+c.rate-5, 0, "done "+p.clock(d.Done), on(stOK))
		m.datasetTail(a, p, d, x+c.rate+c.spark+c.last+c.eta, on)
		return
	}
	rate := p.fig(d.PerMin, metrics.Rate, c.rate-5, stText)
	x = a.line(x, 0, w-x, line{sp(rate.s, on(rate.st)), sp("/min ", on(stDim))})
	if c.spark > 0 {
		cols := columns(m.series(metrics.SeriesRowRate, d.Path), m.newest(), m.snap.At, 10*time.Minute, 8)
		vals := means(cols)
		a.put(x, 0, spark(vals, 1.2*m.peakOf("spark "+d.Path, vals), m.opt.ASCII), on(stData))
		x += c.spark
	}
	st := stDim
	if d.Gap > 0 && !d.Grew.IsZero() && p.now().Sub(d.Grew) > 4*max(d.Gap, 15*time.Second) {
		st = stWarn
	}
	a.cut(x, 0, c.last-1, p.recent(d.Grew)+" ago", on(st))
	x += c.last
	if d.Target.Rows > 0 || d.ETA.Held != "" {
		a.line(x, 0, min(max(c.eta-1, 0), w-x), line{sp("ETA ", on(stDim)), sp(p.etaOnly(d.ETA), on(stText))})
	}
	m.datasetTail(a, p, d, x+c.eta, on)
}

// datasetTail holds what goes first when there is little room: the median
// length of a row and the share that was cut.
func (m *Model) datasetTail(a area, p pen, d *metrics.Dataset, x int, on func(style) style) {
	w := a.w()
	if d.Median.Known && w-x >= 15 {
		unit := "chars"
		if d.MedianInTokens {
			unit = "tok"
		}
		f := p.fig(d.Median, metrics.Short, 5, stText)
		x = a.line(x, 0, w-x, line{sp(f.s, on(f.st)), sp(" "+unit, on(stDim))})
	}
	if d.Cut.Known && w-x >= 14 {
		f := p.fig(d.Cut, metrics.Percent, 5, stText)
		x = a.line(x, 0, w-x, line{sp("  cut off", on(stDim)), sp(f.s, on(f.st))})
	}
	if d.Torn && w-x >= 6 {
		a.put(x+1, 0, "torn", on(stWarn))
	}
}

// landedSegs say whether what the server finished reached a file, and how the
// clients are.
func (m *Model) landedSegs(p pen) []seg {
	var segs []seg
	if l := landedLine(p, &m.snap.Job, m.layout.W >= 115); len(l) > 0 {
		segs = append(segs, seg{0, l})
	}
	for i, c := range m.snap.Clients {
		segs = append(segs, seg{1 + i, m.clientLine(p, &c)})
	}
	if len(m.snap.Clients) == 0 {
		text := "no client found"
		if !m.at.IsZero() {
			text = "no client is known of then"
		}
		segs = append(segs, seg{0, line{sp(text, stDim)}})
	}
	return segs
}

// landedLine compares requests finished on the server with rows in files.
func landedLine(p pen, j *metrics.Job, since bool) line {
	if !j.Landed.Known && !j.Finished.Known {
		return nil
	}
	var l line
	if since && !j.Since.IsZero() {
		l = append(l, sp("since "+p.clock(j.Since)+" ", stDim))
	}
	eq, st := " = ", stOK
	switch {
	case !j.Finished.Known || !j.Landed.Known:
		eq, st = ", ", stDim
	case j.Apart():
		eq, st = " ≠ ", stWarn.bold()
	case j.Finished.V != j.Landed.V:
		eq, st = " ≈ ", stOK
	}
	return append(l, sp("finished ", stDim), p.fig(j.Finished, metrics.Count, 0, stText), sp(eq, st),
		sp("landed ", stDim), p.fig(j.Landed, metrics.Count, 0, stText))
}

// clientLine says whether a client lives and whether its log tells the truth.
func (m *Model) clientLine(p pen, c *metrics.Client) line {
	who := "client"
	switch {
	case m.layout.Mode == ModeSide && c.Host == "":
	case c.PID > 0:
		who = fmt.Sprintf("client %d", c.PID)
	case c.Host != "":
		who = "client on " + c.Host
	}
	l := line{sp(who+" ", stText)}
	switch c.State {
	case "running":
		l = append(l, sp("up "+p.age(c.Started), stText))
	case "remote":
		l = append(l, sp(plural(c.Conns, "connection"), stText))
	case "gone":
		l = append(l, sp("GONE "+p.age(c.Since), stCrit.bold()))
	case "zombie", "stopped":
		l = append(l, sp(strings.ToUpper(c.State)+" "+p.age(c.Since), stWarn.bold()))
	default:
		l = append(l, sp(c.State, stDim))
	}
	if c.State != "gone" && !c.LogSilentSince.IsZero() {
		word := "silent"
		if c.Log.Bytes.Known && c.Log.Bytes.V == 0 {
			word = "EMPTY"
		}
		st := stWarn
		if c.Unbuffered != nil && !*c.Unbuffered {
			st, word = stText, strings.ToLower(word)
		}
		if m.layout.W < 115 {
			l = append(l, sp(", log ", stText), sp(word, st))
			if st == stText {
				l = append(l, sp(" (buffered)", stDim))
			}
			return l
		}
		l = append(l, sp(", its log ", stText), sp(word+" "+p.age(c.LogSilentSince), st))
		if c.Unbuffered != nil && !*c.Unbuffered {
			note := " (buffered)"
			for _, path := range c.Datasets {
				if d := m.snap.Dataset(path); d != nil && d.Grew.After(c.LogSilentSince) {
					note = " (buffered: rows are safe)"
				}
			}
			l = append(l, sp(note, stDim))
		}
	}
	return l
}
