package tui

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/runvigil/runvigil/metrics"
)

// leastGPU is the room that one GPU needs: index, sign, memory, utilisation.
const leastGPU = 16

// drawGPUs draws one row a GPU, in as many columns as the pane has room for.
// Equal bars do not shout: colour is for the one that differs.
func (m *Model) drawGPUs(c *canvas) {
	s, p := m.snap, m.pen()
	if m.layout.Mode == ModeSmall && m.layout.Rect[PaneGPU].H < 3 {
		a := c.area(m.layout.Rect[PaneGPU])
		label := seg{0, line{sp("GPUs ", stStrong)}}
		if m.marked(PaneGPU, 0) {
			label.l[0].st = stAccent.bold()
		}
		a.fit(1, 0, a.w()-2, 2, append([]seg{label}, gpuSegs(p, s, m.opt.ASCII)...)...)
		return
	}
	title, rights := gpuTitle(p, s, m.layout.Rect[PaneGPU].W)
	a := m.frame(c, PaneGPU, m.layout.Mode, title, rights...)
	if a.r.Empty() {
		return
	}
	if text, st := gpuTrouble(s); text != "" {
		for i, row := range wrap(text, a.w(), a.h()) {
			a.put(0, i, row, st)
		}
		if len(s.GPUs) == 0 {
			return
		}
		a = a.sub(0, 1, a.w(), a.h()-1)
	}
	n := len(s.GPUs)
	if n == 0 {
		a.cut(0, 0, a.w(), "GPUs are being looked for", stDim)
		return
	}
	gap := 3
	cols := max((n+a.h()-1)/max(a.h(), 1), 1)
	if n > 1 && a.w() >= 76 {
		cols = max(cols, 2)
	}
	if cols > 2 {
		gap = 2
	}
	most := max((a.w()+gap)/(leastGPU+gap), 1)
	cols = min(cols, most)
	perCol := (n + cols - 1) / cols
	cw := (a.w() - (cols-1)*gap) / cols
	odd := outliers(s.GPUs)
	for i := range s.GPUs {
		x, y := i/perCol*(cw+gap), i%perCol
		if y >= a.h() {
			continue
		}
		m.drawGPU(a.sub(x, y, cw, 1), p, &s.GPUs[i], odd[i], m.marked(PaneGPU, i))
	}
	if perCol > a.h() {
		a.right(a.h()-1, line{sp(fmt.Sprintf(" + %d more: 4 enter", n-a.h()*cols), stWarn)})
	}
}

// gpuTitle says whether memory is safe: what was free after the engine took its
// share, and the least that was free since.
func gpuTitle(p pen, s *metrics.Snapshot, w int) (title line, rights []line) {
	n := len(s.GPUs)
	if n == 0 {
		return nil, nil
	}
	g := &s.GPUs[0]
	title = line{sp(fmt.Sprintf("  %d × %s", n, shortGPU(g.Name)), stDim)}
	if g.MemTotal.Known {
		title = append(title, sp("  "+gibOfMiB(g.MemTotal.V), stDim))
	}
	figs := make([]metrics.Figure, 0, 2*n)
	power, known := 0.0, true
	for _, g := range s.GPUs {
		figs = append(figs, g.MemUsed, g.Util)
		power += g.Power.V
		known = known && g.Power.Known
	}
	if old := p.old(figs...); old != "" {
		return title, []line{ageNote(old)}
	}
	words := []line{safeMemory(p, s, " after capture", "lowest since "), safeMemory(p, s, " after capture", "lowest "), safeMemory(p, s, "", "lowest ")}
	if title.width()+words[1].width()+22 > w {
		title = title[:1] // what is left says more than what there is
	}
	if title.width()+words[2].width()+18 > w {
		title = line{sp(fmt.Sprintf("  %d", n), stDim)}
	}
	if known {
		for _, l := range words {
			rights = append(rights, append(l[:len(l):len(l)], sp("  ", stText), sp(watts(power), stText)))
		}
	}
	return title, append(rights, words[2])
}

// safeMemory tells what the engine left free when it had taken its share, and
// the least that was free since, in GiB.
func safeMemory(p pen, s *metrics.Snapshot, after, since string) line {
	var l line
	low := scaled(lowest(s.GPUs), 1.0/1024)
	if srv := s.Server(); srv != nil && srv.Headroom.Known {
		sign, word, st := memorySafe(s, srv)
		l = append(l, sign, sp(word+" free ", stDim), p.fig(srv.Headroom, two, 0, st))
		if !low.Known {
			return append(l, sp(" GiB"+after, stDim))
		}
		l = append(l, sp(after+", ", stDim))
	}
	if !low.Known {
		return nil
	}
	return append(l, sp(since, stDim), p.fig(low, two, 0, stText), sp(" GiB", stDim))
}

func scaled(f metrics.Figure, by float64) metrics.Figure {
	f.V *= by
	return f
}

// memorySafe judges what the engine left free as the finding does: nobody
// judges what is free right now, which is only shown.
func memorySafe(s *metrics.Snapshot, srv *metrics.Server) (sign span, word string, figure style) {
	sev := metrics.SeverityNone
	for _, f := range s.Findings {
		if f.ID == "headroom-low" && f.Subject == srv.ID {
			sev = f.Severity
		}
	}
	switch {
	case srv.State == metrics.ServerDown:
		return sp("○", stDim), "", stStrong
	case sev == metrics.SeverityCritical:
		return sp("✖", stCrit.bold()), " too little:", stCrit.bold()
	case sev == metrics.SeverityWarning:
		return sp("▲", stWarn.bold()), " tight:", stWarn.bold()
	case sev == metrics.SeverityInfo:
		return sp("●", stOK), " held so far:", stStrong
	}
	return sp("●", stOK), " safe:", stStrong
}

// lowest is the smallest free memory of any GPU since the server was ready, MiB.
func lowest(gpus []metrics.GPU) metrics.Figure {
	var low metrics.Figure
	for _, g := range gpus {
		if g.MemLowest.Known && (!low.Known || g.MemLowest.V < low.V) {
			low = g.MemLowest
		}
	}
	return low
}

// shortGPU leaves out what every name has.
func shortGPU(name string) string {
	for _, cut := range []string{"NVIDIA ", "GeForce ", "Tesla "} {
		name = strings.TrimPrefix(name, cut)
	}
	if i := strings.Index(name, " Blackwell"); i > 0 {
		name = name[:i]
	}
	return name
}

// gpuTrouble is what the tool itself has to say.
func gpuTrouble(s *metrics.Snapshot) (string, style) {
	switch s.GPUTool.State {
	case "absent":
		return "no nvidia-smi on this node: GPU figures cannot be known", stDim
	case "failed":
		return "nvidia-smi failed: " + s.GPUTool.Text, stCrit
	case "stuck":
		return "nvidia-smi hangs since " + metrics.Age(s.At.Sub(s.GPUTool.Since)) + ": the figures below are old", stWarn
	}
	return "", stText
}

// odd says which figures of a GPU differ from its fellows.
type odd struct{ mem, util, temp, power bool }

func (o odd) any() bool { return o.mem || o.util || o.temp || o.power }

// outliers compares each GPU with the median of all: by a tenth of its memory,
// 30 points of utilisation, 12 degrees, or 40 % of power.
func outliers(gpus []metrics.GPU) []odd {
	out := make([]odd, len(gpus))
	if len(gpus) < 3 {
		return out
	}
	med := func(pick func(metrics.GPU) metrics.Figure) (float64, bool) {
		var v []float64
		for _, g := range gpus {
			if f := pick(g); f.Known {
				v = append(v, f.V)
			}
		}
		if len(v) < 3 {
			return 0, false
		}
		slices.Sort(v)
		return v[len(v)/2], true
	}
	mem, okMem := med(func(g metrics.GPU) metrics.Figure { return g.MemUsed })
	util, okUtil := med(func(g metrics.GPU) metrics.Figure { return g.Util })
	temp, okTemp := med(func(g metrics.GPU) metrics.Figure { return g.Temp })
	power, okPower := med(func(g metrics.GPU) metrics.Figure { return g.Power })
	for i, g := range gpus {
		out[i] = odd{
			mem:   okMem && g.MemUsed.Known && math.Abs(g.MemUsed.V-mem) > max(0.1*g.MemTotal.V, 1024),
			util:  okUtil && g.Util.Known && math.Abs(g.Util.V-util) > 30,
			temp:  okTemp && g.Temp.Known && g.Temp.V-temp > 12,
			power: okPower && g.Power.Known && math.Abs(g.Power.V-power) > 0.4*power,
		}
	}
	return out
}

func (m *Model) drawGPU(a area, p pen, g *metrics.GPU, o odd, marked bool) {
	on := func(st style) style {
		if marked {
			st.bg = roleSelect
		}
		return st
	}
	if marked {
		a.clear(style{bg: roleSelect})
	}
	pick := func(bad bool) style {
		if bad {
			return on(stWarn.bold())
		}
		return on(stText)
	}
	sign, signSt := " ", on(stText)
	if o.any() || len(g.Throttle) > 0 || g.ECC.Known && g.ECC.V > 0 {
		sign, signSt = "▲", on(stWarn.bold())
	}
	if g.Lost != "" {
		sign, signSt = "✖", on(stCrit.bold())
	}
	if marked && !m.colours() {
		sign = ">"
	}
	x := a.put(0, 0, padLeft(fmt.Sprint(g.Index), 2), on(stDim))
	x = a.put(x, 0, sign, signSt) + 1
	w := a.w()
	if g.Lost != "" {
		a.cut(x, 0, w-x, "LOST: "+g.Lost, on(stCrit.bold()))
		return
	}
	put := func(f metrics.Figure, format func(float64) string, n int, bad bool) {
		sp := p.fig(f, format, n, pick(bad))
		st := on(sp.st)
		x = a.put(x, 0, sp.s, st)
	}
	// The bar takes what the figures leave: memory 9, utilisation 6, temperature 7, power 7.
	memory, memW := gibOfMiB, 10
	if w < leastGPU+4 {
		memory, memW = func(v float64) string { return one(v / 1024) }, 6
	}
	fixed := x + memW + 6
	showTemp, showPower := w >= fixed+6+7, w >= fixed+6+7+7
	if showTemp {
		fixed += 7
	}
	if showPower {
		fixed += 7
	}
	barW := min(max(w-fixed, 0), 24)
	if barW > 0 {
		share := math.NaN()
		if g.MemUsed.Known && g.MemTotal.Known && g.MemTotal.V > 0 {
			share = g.MemUsed.V / g.MemTotal.V
		}
		full, rest := bar(share, barW, m.opt.ASCII)
		st := p.style(g.MemUsed, stData)
		if o.mem {
			st = stWarn
		}
		x = a.put(x, 0, full, on(st))
		x = a.put(x, 0, rest, on(stFaint))
	}
	put(g.MemUsed, memory, memW, o.mem)
	put(g.Util, func(v float64) string { return whole(v) + " %" }, 6, o.util)
	if showTemp {
		put(g.Temp, func(v float64) string { return whole(v) + " °C" }, 7, o.temp)
	}
	if showPower {
		put(g.Power, func(v float64) string { return whole(v) + " W" }, 7, o.power)
	}
}

// gpuSegs are all GPUs in one line: the sum where it says something, and the one
// that differs.
func gpuSegs(p pen, s *metrics.Snapshot, ascii bool) []seg {
	if text, st := gpuTrouble(s); text != "" && len(s.GPUs) == 0 {
		return []seg{{0, line{sp(text, st)}}}
	}
	if len(s.GPUs) == 0 {
		return []seg{{0, line{sp("none seen", stDim)}}}
	}
	var mem, total, util, power float64
	var nMem, nUtil, nPower float64
	hottest, newest := metrics.Figure{}, metrics.Figure{}
	for _, g := range s.GPUs {
		if g.MemUsed.Known && g.MemTotal.Known {
			mem, total, nMem = mem+g.MemUsed.V, total+g.MemTotal.V, nMem+1
			newest = g.MemUsed
		}
		if g.Util.Known {
			util, nUtil = util+g.Util.V, nUtil+1
		}
		if g.Power.Known {
			power, nPower = power+g.Power.V, nPower+1
		}
		if g.Temp.Known && g.Temp.V > hottest.V {
			hottest = g.Temp
		}
	}
	st := p.style(newest, stText)
	count := sp(fmt.Sprintf("%d ×", len(s.GPUs)), stDim) // each has this much
	of := func(word string) string {
		if len(s.GPUs) == 1 {
			return ""
		}
		return word
	}
	var segs []seg
	if nMem > 0 && total > 0 {
		full, rest := bar(mem/total, 8, ascii)
		segs = append(segs, seg{0, line{count, sp(" "+gibOfMiB(mem/nMem), st)}}, seg{6, line{sp(full, p.style(newest, stData)), sp(rest, stFaint)}})
	} else {
		segs = append(segs, seg{0, line{count, sp(" "+metrics.Dash+" GiB", stDim)}})
	}
	if nUtil > 0 {
		segs = append(segs, seg{1, line{sp("busy ", stDim), sp(whole(util/nUtil)+" %", st)}})
	}
	if hottest.Known {
		segs = append(segs, seg{4, line{sp(of("max "), stDim), sp(whole(hottest.V)+" °C", st)}})
	}
	if nPower == float64(len(s.GPUs)) {
		segs = append(segs, seg{3, line{sp(of("all "), stDim), sp(watts(power), st)}})
	}
	for i, o := range outliers(s.GPUs) {
		if g := &s.GPUs[i]; g.Lost != "" {
			segs = append(segs, seg{0, line{sp(fmt.Sprintf("✖ GPU %d lost", g.Index), stCrit.bold())}})
		} else if o.any() {
			segs = append(segs, seg{1, line{sp(fmt.Sprintf("▲ GPU %d differs", g.Index), stWarn.bold())}})
		}
	}
	if srv := s.Server(); srv != nil && srv.Headroom.Known {
		sign, word, st := memorySafe(s, srv)
		if srv.State == metrics.ServerDown {
			word = " had" // all is free now
		}
		segs = append(segs, seg{1, line{sign, sp(word+" ", stDim), p.fig(srv.Headroom, gib, 0, st), sp(" free", stDim)}})
	}
	return segs
}
