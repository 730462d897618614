package board

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/findings"
)

// Snapshot gives everything that is known at the newest frame's time. It is
// cheap, and the same pointer until the next Apply; what it points to never
// changes afterwards.
func (b *Board) Snapshot() *metrics.Snapshot {
	if b.snap == nil {
		b.snap = b.build()
		b.finish(b.snap)
	}
	return b.snap
}

// evaluate judges the present. It is called with every tick and never else, so
// that what is found depends on the frames and not on how often somebody looks.
func (b *Board) evaluate() {
	s := b.build()
	b.active, b.history, b.cannot = b.engine.Eval(findings.Input{Snap: s})
	b.finish(s)
	b.snap = s
	b.keepRates(s)
}

// finish gives a snapshot the newest findings and the verdict.
func (b *Board) finish(s *metrics.Snapshot) {
	s.Findings, s.History = b.active, b.history
	s.CannotTell = append(b.cannotTell(), b.cannot...)
	s.Verdict = metrics.Judge(s)
}

func (b *Board) build() *metrics.Snapshot {
	s := &metrics.Snapshot{
		Node: b.session.Node, Host: metrics.Clean(b.session.Host, 80), User: metrics.Clean(b.session.User, 60),
		At: b.now, NodeClock: b.offset, Zone: metrics.Clean(b.session.Zone, 12), ZoneSec: b.session.ZoneSec, BootID: b.session.BootID,
		Link: b.link, Channels: b.channelList(), GPUs: b.gpuList(), GPUTool: b.gpus.tool,
		Sys: b.sys.snapshot(b.session.CPUs), Config: b.cfg, Notes: b.notes[:len(b.notes):len(b.notes)],
		Guards: b.guardList(), Kernel: b.kernelList(),
	}
	s.Link.Deaf = !b.present().Equal(b.now)
	if s.Node == "" {
		s.Node = b.cfg.Node
	}
	servers := append(b.servers[:len(b.servers):len(b.servers)], b.logServers()...)
	s.Starts = b.startList(servers)
	for _, srv := range servers {
		if b.doubled(srv) {
			continue
		}
		s.Servers = append(s.Servers, b.snapshotServer(srv, s.Starts))
	}
	slices.SortStableFunc(s.Servers, compareServers)
	b.matchClients()
	s.Datasets = b.datasets()
	s.Clients = b.snapshotClients(s.Datasets)
	s.Job = b.snapshotJob(s)
	b.enrichStart(s)
	s.Events = withStarts(b.events, s.Starts)
	s.Logs = map[string]*metrics.LogTail{}
	for p, l := range b.logs {
		if l.seen {
			s.Logs[p] = l.snapshot(b)
		}
	}
	s.Series = b.seriesMap(servers)
	s.Saved = b.saving()
	s.Doing = b.doing(s)
	s.Procs = b.procList
	return s
}

func (b *Board) guardList() []metrics.Guard {
	var out []metrics.Guard
	for _, g := range b.cfg.Guards {
		g.From = "config"
		out = append(out, g)
	}
	for _, name := range slices.Sorted(maps.Keys(b.guards)) {
		for _, g := range b.guards[name] {
			if g.From == "" {
				g.From = name
			}
			if !slices.ContainsFunc(out, func(o metrics.Guard) bool { return o.Flag == g.Flag && o.Why == g.Why }) {
				out = append(out, g)
			}
		}
	}
	return out
}

// enrichStart gives the running start what only the whole node tells: the least
// free memory that was seen in GiB, rows a minute, and the part that grows.
func (b *Board) enrichStart(s *metrics.Snapshot) {
	low := metrics.Figure{}
	for _, g := range s.GPUs {
		if g.MemLowest.Known && (!low.Known || g.MemLowest.V < low.V) {
			low = g.MemLowest
		}
	}
	for i := range s.Starts {
		st := &s.Starts[i]
		if st.Outcome != "running" {
			continue
		}
		if low.Known {
			v := low.V / 1024
			st.LowestFree = &v
		}
		if s.Job.PerMin.Known && st.Settled != nil {
			v := s.Job.PerMin.V
			st.RowsPerMin = &v
		}
		if len(s.Datasets) > 0 && growing(&s.Datasets[0], b.present()) {
			st.Dataset = s.Datasets[0].Name
		}
	}
}

// matchClients gives configured client logs to clients without one.
func (b *Board) matchClients() {
	for _, p := range b.cfg.ClientLogs {
		if l := b.logs[p]; l != nil {
			l.client = true
		}
	}
}

func (b *Board) snapshotClients(data []metrics.Dataset) []metrics.Client {
	list := slices.Clone(b.clients)
	slices.SortStableFunc(list, compareClients)
	out := make([]metrics.Client, 0, len(list))
	for _, c := range list {
		o := c.c
		o.Ports = slices.Clone(o.Ports)
		o.Datasets = nil
		for i := range data {
			if c.c.Host == "" && b.writes(c, &data[i]) {
				o.Datasets = append(o.Datasets, data[i].Path)
			}
		}
		slices.Sort(o.Datasets)
		c.c.Datasets = o.Datasets
		if l := b.logs[c.log]; c.log != "" && l != nil {
			o.Log = l.ref(b, c.c.Log.Note)
			o.LogSilentSince = latest(o.Log.Mtime, c.c.Started)
			if o.Log.Mtime.IsZero() {
				o.LogSilentSince = time.Time{}
			}
			o.LastLine = lastLine(l)
			fromLog(b, &o, l)
			c.c.Progress = o.Progress
		}
		if c.kernel != nil {
			for i := range o.Causes {
				o.Causes[i].Primary = false
			}
			f := *c.kernel
			f.Primary = true
			o.Causes = append(o.Causes, f)
		}
		out = append(out, o)
	}
	return out
}

func lastLine(l *logState) string {
	for i := len(l.lines) - 1; i >= 0 && i >= len(l.lines)-20; i-- {
		if t := strings.TrimSpace(l.lines[i].Text); t != "" {
			return metrics.Cut(t, 200)
		}
	}
	return ""
}

// fromLog takes what the client's own log tells.
func fromLog(b *Board, c *metrics.Client, l *logState) {
	said := &l.said
	c.LogOnlyHeader = said.OnlyHeader()
	c.Finished = said.Finished()
	c.Unreachable = said.Unreachable()
	at := latest(b.localUnix(l.head.Mtime), c.Started)
	if v := said.TimeoutS(); v > 0 {
		c.TimeoutS = metrics.Fixed(v, at, "client log")
	}
	if bar, ok := said.Progress(); ok && bar.Total > 0 {
		c.Progress = metrics.Progress{Done: bar.Done, Total: bar.Total, Known: true, Source: "progress bar in " + path.Base(l.path)}
	}
	for _, f := range said.Faults() {
		fact := metrics.CauseFact{Class: f.Class, Detail: f.Detail, Line: f.Detail, Off: l.told[f.Detail], At: at, Primary: f.Primary}
		if l.base >= 0 {
			fact.LineNo = l.base + f.Line
		}
		c.Causes = append(c.Causes, fact)
	}
}

// snapshotJob adds up all datasets.
func (b *Board) snapshotJob(s *metrics.Snapshot) metrics.Job {
	j := metrics.Job{Since: b.clientStart()}
	if len(s.Datasets) == 0 {
		j.ETA.Held = "no dataset is known"
		return j
	}
	var rows, landed, perMin float64
	rowsKnown, landedKnown, targets := true, true, true
	rateKnown, rateMissing := false, false
	var at time.Time
	var target int64
	inferred := false
	over := rateSpan
	now := b.present()
	var trails []*trail
	for i := range s.Datasets {
		d := &s.Datasets[i]
		rowsKnown = rowsKnown && d.Rows.Known
		rows += d.Rows.V
		at = latest(at, d.Rows.At)
		if d.Landed.Known {
			landed += d.Landed.V
			j.Since = latest(j.Since, d.LandedSince)
		} else {
			landedKnown = false
		}
		if d.PerMin.Known {
			rateKnown = true
			perMin += d.PerMin.V
			if d.PerMin.V > 0 {
				over = min(over, d.PerMinOver)
				j.PerMin.Source = d.PerMin.Source
			}
		} else if growing(d, now) {
			rateMissing = true
		}
		targets = targets && d.Target.Rows > 0
		target += d.Target.Rows
		inferred = inferred || d.Target.Inferred
		trails = append(trails, b.trailsOf(d)...)
	}
	if rowsKnown {
		j.Rows = metrics.Known(rows, at, rowsEvery, "row count")
	}
	if rateKnown && !rateMissing {
		src := j.PerMin.Source
		if src == "" {
			src = "row count"
		}
		j.PerMin, j.PerMinOver = metrics.Known(perMin, at, rowsEvery, src), over
	}
	if targets {
		j.Target = metrics.Target{Rows: target, Inferred: inferred, Source: "sum of the datasets' targets"}
	}
	for _, t := range b.cfg.Targets {
		if t.Path == "" && t.Rows > 0 {
			j.Target = metrics.Target{Rows: t.Rows, Source: "configuration"}
		}
	}
	j.Done = j.Target.Rows > 0 && j.Rows.Known && j.Rows.V >= float64(j.Target.Rows)
	j.ETA = b.eta(j.Rows, j.Target, j.PerMin, trails)
	if landedKnown && !j.Since.IsZero() && (now.Sub(j.Since) >= leastWatched || b.clientBegan(j.Since)) {
		j.Landed = metrics.Known(landed, at, rowsEvery, "row count")
	}
	b.finished(&j, s)
	return j
}

// leastWatched is how long rows must have been counted before their number says
// something beside requests that finish in bursts.
const leastWatched = 30 * time.Second

// clientBegan tells whether a client started at that moment: then nothing is
// missing from a count since.
func (b *Board) clientBegan(at time.Time) bool {
	for _, c := range b.clients {
		if c.c.Started.Equal(at) {
			return true
		}
	}
	return false
}

// finished counts requests since the job's Since. A streaming client's answers
// are logged when they begin, so only a counter tells there.
func (b *Board) finished(j *metrics.Job, s *metrics.Snapshot) {
	if j.Since.IsZero() {
		return
	}
	for _, c := range b.clients {
		if flagSet(c.c.Argv, "stream", "streaming") {
			return
		}
	}
	var n float64
	known := false
	for _, srv := range b.servers {
		sec := b.sectionOf(srv)
		if sec == nil {
			continue
		}
		k, ok := sec.finishedSince(j.Since)
		if !ok {
			if srv.alive() {
				return
			}
			continue
		}
		n, known = n+float64(k), true
	}
	if known {
		j.Finished = metrics.Known(n, b.present(), 0, sourceLog)
	}
}

func (b *Board) seriesMap(servers []*serverState) map[metrics.SeriesKey]*metrics.Series {
	out := map[metrics.SeriesKey]*metrics.Series{}
	b.gpuSeries(out)
	put := func(what, of string, s *metrics.Series) {
		if !s.Last().IsZero() {
			out[metrics.SeriesKey{What: what, Of: of}] = s.Snapshot()
		}
	}
	for _, s := range servers {
		l := b.logs[s.log]
		if l == nil || s.log == "" || l.work.gen.Last().IsZero() {
			put(metrics.SeriesGenTPS, s.s.ID, &s.prom.genS)
			put(metrics.SeriesRunning, s.s.ID, &s.runningSeries)
			if l == nil || s.log == "" {
				continue
			}
		}
		w := l.work
		put(metrics.SeriesGenTPS, s.s.ID, &w.gen)
		put(metrics.SeriesInputTPS, s.s.ID, &w.in)
		put(metrics.SeriesRunning, s.s.ID, &w.running)
		put(metrics.SeriesQueued, s.s.ID, &w.queued)
		put(metrics.SeriesKVUsage, s.s.ID, &w.usage)
		put(metrics.SeriesPerReq, s.s.ID, &w.perReq)
		put(metrics.SeriesAcceptLen, s.s.ID, &w.accept)
	}
	for p, set := range b.sets {
		put(metrics.SeriesRows, p, &set.rows)
		put(metrics.SeriesRowRate, p, &set.rate)
	}
	put(metrics.SeriesRows, "", &b.job.rows)
	put(metrics.SeriesRowRate, "", &b.job.rate)
	put(metrics.SeriesLoad, "", &b.sys.load)
	put(metrics.SeriesMemAvail, "", &b.sys.mem)
	return out
}

// saving is what the next visit should know.
func (b *Board) saving() metrics.Saved {
	out := metrics.Saved{Node: b.session.Node, BootID: b.session.BootID}
	for _, p := range slices.Sorted(maps.Keys(b.rows)) {
		r := b.rows[p]
		if !r.seen || r.fact.ID == "" {
			continue
		}
		out.Files = append(out.Files, metrics.SavedFile{Path: p, ID: r.fact.ID, Head: r.fact.Head, Offset: r.fact.Offset, Rows: r.fact.Rows, At: r.at})
	}
	for _, t := range b.cfg.Targets {
		if !slices.Contains(b.given, t) {
			out.Targets = append(out.Targets, t)
		}
	}
	return out
}

// doing tells a first visit what goes on, in at most three lines.
func (b *Board) doing(s *metrics.Snapshot) []string {
	if !b.known {
		return []string{metrics.DoingConnect + s.Node}
	}
	if b.scanned.IsZero() {
		return []string{metrics.DoingLook}
	}
	var out []string
	switch n := len(s.Servers); {
	case n == 0:
		out = append(out, fmt.Sprintf("no server found among %d processes on %s", len(b.procs), s.Node))
	default:
		v := &s.Servers[0]
		line := fmt.Sprintf("found %s", engineName(v.Engine))
		if v.Port != 0 {
			line += fmt.Sprintf(" on port %d", v.Port)
		}
		if v.Log.Path != "" {
			line += ", log " + v.Log.Path
		} else if v.Log.Note != "" {
			line += "; " + v.Log.Note
		}
		out = append(out, line)
	}
	if len(s.Clients) > 0 || len(s.Datasets) > 0 {
		out = append(out, "found "+counted(len(s.Clients), "client")+" and "+counted(len(s.Datasets), "dataset"))
	}
	for i := range s.Datasets {
		if c := s.Datasets[i].Counting; c.Known && c.Total > 0 {
			out = append(out, fmt.Sprintf("counting %s: %s", s.Datasets[i].Name, metrics.Percent(float64(c.Done)/float64(c.Total))))
			break
		}
	}
	return out[:min(len(out), 3)]
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
