package board

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/nvidia"
)

const (
	gpuEvery  = 2 * time.Second
	appsEvery = 10 * time.Second
	smi       = "nvidia-smi"
)

type gpuState struct {
	cards    map[int]*card
	apps     []nvidia.App
	since    map[int]time.Time // when each of their pids was first listed
	appsAt   time.Time
	appsSeen bool
	tool     metrics.GPUTool
}

type card struct {
	gpu       metrics.GPU
	reserved  metrics.Figure // MiB that the driver keeps, part of neither used nor free
	free      metrics.Figure
	lostSince time.Time
	mem       metrics.Series
	util      metrics.Series
	temp      metrics.Series
	power     metrics.Series
}

func newGPUState() gpuState { return gpuState{cards: map[int]*card{}} }

// applyGPU takes rows of the stream or of the static query.
func (b *Board) applyGPU(f metrics.Frame) {
	s := nvidia.ParseQuery(f.Data)
	g := &b.gpus
	for i := range s.Rows {
		r := &s.Rows[i]
		if r.Index < 0 {
			continue
		}
		c := g.cards[r.Index]
		if c == nil {
			c = &card{gpu: metrics.GPU{Index: r.Index}}
			g.cards[r.Index] = c
		}
		c.static(r, f.At)
		if f.Kind == metrics.KindGPU {
			c.sample(r, f.At)
			b.lowest(c, f.At)
		}
		if r.Driver != "" {
			g.tool.Driver = r.Driver
		}
	}
	for _, fail := range s.Failures {
		if len(s.Rows) == 0 || len(fail.Bus) > 0 { // else it is a row's own words
			g.fail(fail, f.At)
		}
	}
	if len(s.Rows) > 0 && g.tool.State != "ok" {
		g.tool.State, g.tool.Since, g.tool.Text, g.tool.Cause = "ok", f.At, "", ""
	}
}

// fail marks the cards that a failure names; one without a name is the tool's.
func (g *gpuState) fail(fail nvidia.Failure, at time.Time) {
	named := false
	for _, c := range g.cards {
		for _, bus := range fail.Bus {
			if sameBus(c.gpu.Bus, bus) {
				c.lose(fail.Text, at)
				named = true
			}
		}
	}
	if !named {
		g.tool.Text, g.tool.Cause = fail.Text, fail.Cause
	}
}

// sameBus compares bus ids with four or eight digits of domain.
func sameBus(a, b string) bool {
	short := func(s string) string {
		s = strings.ToUpper(s)
		if i := strings.IndexByte(s, ':'); i >= 0 {
			s = s[i+1:]
		}
		return s
	}
	return a != "" && b != "" && short(a) == short(b)
}

func (c *card) lose(text string, at time.Time) {
	if c.gpu.Lost == "" {
		c.lostSince = at
	}
	c.gpu.Lost = metrics.Clean(text, 200)
}

func (c *card) static(r *nvidia.Row, at time.Time) {
	g := &c.gpu
	for _, p := range []struct {
		to   *string
		from string
	}{{&g.Name, r.Name}, {&g.UUID, r.UUID}, {&g.Bus, r.BusID}} {
		if p.from != "" {
			*p.to = p.from
		}
	}
	set := func(to *metrics.Figure, n nvidia.Num) {
		if n.OK {
			*to = metrics.Fixed(n.V, at, smi)
		}
	}
	set(&g.MemTotal, r.MemTotal)
	set(&g.PowerLimit, r.PowerLimit)
	set(&g.ClockMax, r.ClockMaxSM)
	set(&c.reserved, r.MemReserved)
	if r.MIG != "" {
		g.MIG = strings.EqualFold(r.MIG, "Enabled")
	}
}

func (c *card) sample(r *nvidia.Row, at time.Time) {
	g := &c.gpu
	raw := map[string]string{}
	fig := func(name string, n nvidia.Num) metrics.Figure {
		if n.OK {
			return metrics.Known(n.V, at, gpuEvery, smi)
		}
		if n.Why != nvidia.NotAsked {
			raw[name] = n.Raw
		}
		return metrics.Figure{}
	}
	g.MemUsed = fig("memory.used", r.MemUsed)
	c.free = fig("memory.free", r.MemFree)
	g.Util = fig("utilization.gpu", r.Util)
	g.Temp = fig("temperature.gpu", r.Temp)
	g.MemTemp = fig("temperature.memory", r.TempMem)
	g.Power = fig("power.draw", r.Power).Or(fig("power.draw.instant", r.PowerNow))
	g.ClockSM = fig("clocks.sm", r.ClockSM)
	g.ClockMem = fig("clocks.mem", r.ClockMem)
	g.ECC = fig("ecc.errors.uncorrected.volatile.total", r.ECC)
	g.Throttle = r.Throttled()
	g.Unified = r.Unified()
	g.Raw = nil
	if len(raw) > 0 {
		g.Raw = raw
	}
	if !c.free.Known && g.MemTotal.Known && g.MemUsed.Known {
		free := g.MemTotal.V - g.MemUsed.V
		if c.reserved.Known {
			free -= c.reserved.V
		}
		c.free = metrics.Known(free, at, gpuEvery, smi)
	}
	switch r.Health() {
	case nvidia.Fine:
		g.Lost = ""
	case nvidia.Gone:
		c.lose("GPU is lost", at)
	case nvidia.Reset:
		c.lose("GPU requires reset", at)
	case nvidia.Suspect:
		c.lose("its figures cannot be read (ERR!)", at)
	}
	for _, p := range []struct {
		s *metrics.Series
		f metrics.Figure
	}{{&c.mem, g.MemUsed}, {&c.util, g.Util}, {&c.temp, g.Temp}, {&c.power, g.Power}} {
		if p.f.Known {
			p.s.Add(at, p.f.V)
		}
	}
}

// lowest keeps the least free memory since a server on this card was ready.
func (b *Board) lowest(c *card, at time.Time) {
	if !c.free.Known {
		return
	}
	ready := b.readySince()
	if ready.IsZero() || at.Before(ready) {
		c.gpu.MemLowest = metrics.Figure{}
		return
	}
	if !c.gpu.MemLowest.Known || c.gpu.MemLowest.At.Before(ready) || c.free.V < c.gpu.MemLowest.V {
		c.gpu.MemLowest = metrics.Fixed(c.free.V, at, smi)
	}
}

func (g *gpuState) applyApps(f metrics.Frame) {
	g.apps, g.appsAt, g.appsSeen = nvidia.ParseApps(f.Data), f.At, true
	was := g.since
	g.since = map[int]time.Time{}
	for _, a := range g.apps {
		g.since[a.PID] = f.At
		if at, known := was[a.PID]; known {
			g.since[a.PID] = at
		}
	}
}

func (g *gpuState) applyError(f metrics.Frame, e metrics.GPUErrorFact) {
	state := "failed"
	switch {
	case e.Absent:
		state = "absent"
	case e.Stuck:
		state = "stuck"
	}
	if g.tool.State != state {
		g.tool.Since = f.At
	}
	g.tool.State, g.tool.Text, g.tool.Cause = state, metrics.Clean(e.Text, 400), ""
	if fail, ok := nvidia.Classify([]byte(e.Text)); ok {
		g.tool.Text, g.tool.Cause = fail.Text, fail.Cause
		if len(fail.Bus) > 0 {
			g.fail(fail, f.At)
		}
	}
}

// gpuList gives the cards by index with their processes.
func (b *Board) gpuList() []metrics.GPU {
	g := &b.gpus
	owner := b.owners()
	out := make([]metrics.GPU, 0, len(g.cards))
	for _, i := range slices.Sorted(maps.Keys(g.cards)) {
		c := g.cards[i]
		gpu := c.gpu
		gpu.Throttle = slices.Clone(gpu.Throttle)
		gpu.Procs = b.gpuProcs(&gpu, owner)
		out = append(out, gpu)
	}
	return out
}

func (b *Board) gpuProcs(gpu *metrics.GPU, owner map[int]string) []metrics.GPUProc {
	var out []metrics.GPUProc
	for _, a := range b.gpus.apps {
		if a.UUID != gpu.UUID && (a.UUID != "" || a.GPU != gpu.Index) {
			continue
		}
		p := metrics.GPUProc{PID: a.PID, Name: a.Name}
		if a.Used.OK {
			p.MiB = metrics.Known(a.Used.V, b.gpus.appsAt, appsEvery, smi)
		}
		p.Owner = b.gpuOwner(a, owner)
		out = append(out, p)
	}
	slices.SortFunc(out, func(x, y metrics.GPUProc) int { return cmp.Compare(x.PID, y.PID) })
	return out
}

// gpuOwner tells whose a GPU process is. The driver ignores pid namespaces, so a
// pid that no scan shows may live outside this container.
func (b *Board) gpuOwner(a nvidia.App, owner map[int]string) string {
	if o := owner[a.PID]; o != "" {
		return o
	}
	p, seen := b.procs[a.PID]
	switch {
	case a.Ghost || a.PID == 0:
		return "invisible"
	case seen && p.State == "Z":
		return "gone"
	case seen:
		return "other"
	case b.scanned.IsZero():
		return ""
	case b.scanned.Before(b.gpus.since[a.PID]), b.scanned.Before(b.gpus.appsAt.Add(-2 * time.Minute)):
		return "" // no discovery since then could have seen it
	}
	return "invisible"
}

// owners maps the pids of servers and clients to their role.
func (b *Board) owners() map[int]string {
	out := map[int]string{}
	for _, c := range b.clients {
		if c.c.PID != 0 && c.alive() {
			out[c.c.PID] = "client"
		}
	}
	for _, s := range b.servers {
		if s.alive() {
			for _, pid := range s.s.Tree {
				out[pid] = "server"
			}
		}
	}
	return out
}

func (b *Board) gpuSeries(out map[metrics.SeriesKey]*metrics.Series) {
	for i, c := range b.gpus.cards {
		of := strconv.Itoa(i)
		out[metrics.SeriesKey{What: metrics.SeriesGPUMem, Of: of}] = c.mem.Snapshot()
		out[metrics.SeriesKey{What: metrics.SeriesGPUUtil, Of: of}] = c.util.Snapshot()
		out[metrics.SeriesKey{What: metrics.SeriesGPUTemp, Of: of}] = c.temp.Snapshot()
		out[metrics.SeriesKey{What: metrics.SeriesGPUPower, Of: of}] = c.power.Snapshot()
	}
}
