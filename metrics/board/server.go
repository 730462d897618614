package board

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/sglang"
)

const (
	// silence is the time without a batch after which a busy server is looked at as hung.
	silence = 60 * time.Second
	// few requests may all finish between two decode lines.
	few = 4
	// loadsFresh is how long an answer of /v1/loads speaks for the present.
	loadsFresh = 30 * time.Second
	sectionLag = 30 * time.Second
	// sectionAgain is how long after its start a server may tell its arguments once
	// more.
	sectionAgain = 2 * time.Minute
	// startMost is how long a start takes at most whose log cannot be read.
	startMost = time.Hour
	// catchUp is the time that logs get to be read up to date after a broken link.
	catchUp = 15 * time.Second
)

// serverState is one server as it is followed.
type serverState struct {
	s         metrics.Server          // what the discovery told
	config    *metrics.ConfigEndpoint // of a server that only the configuration names
	log       string
	firstSeen time.Time
	listening bool
	scheduler bool // a worker of the engine lives
	workers   int
	// sawScheduler: one was seen in the tree, so that its absence tells something.
	sawScheduler bool
	replaced     *metrics.ReplacedServer
	endedAt      time.Time
	endNote      string
	exitCode     *int
	kernel       []metrics.CauseFact
	http         map[string]*endpoint
	loads        loads
	info         info
	version      string
	prom         promState

	runningSeries metrics.Series // from /v1/loads, where no log tells

	reads diskReading
}

func (s *serverState) alive() bool { return s.endedAt.IsZero() && (s.s.PID != 0 || s.config != nil) }

func (s *serverState) gone(at time.Time, note string) {
	if s.endedAt.IsZero() {
		s.endedAt, s.endNote = at, note
	}
	s.listening, s.scheduler = false, false
}

// serverGone looks for what the kernel says about a server's end and files it.
func (b *Board) serverGone(s *serverState, at time.Time) {
	text := fmt.Sprintf("server %d ended", s.s.PID)
	for i := len(b.kernel) - 1; i >= 0; i-- {
		if b.kernel[i].killed(s.s.Tree) {
			s.kernel = append(s.kernel, b.kernel[i].fact)
			break
		}
	}
	b.event(metrics.Event{At: at, Kind: "crash", Text: text, Ref: s.s.ID})
}

// sectionOf is the start in the log that belongs to the server, nil for none.
func (b *Board) sectionOf(s *serverState) *section {
	l := b.logs[s.log]
	if s.log == "" || l == nil {
		return nil
	}
	sec := l.work.sectionFrom(s.s.Started)
	if sec == nil {
		return nil
	}
	// A section that ended before the process began belongs to an earlier one.
	if s.s.PID != 0 && !s.s.Started.IsZero() && sec.last.Before(s.s.Started.Add(-sectionLag)) {
		return nil
	}
	return sec
}

// sectionFrom is the start in the log of a process that began at a time: the
// newest, unless that began when the process had long had one of its own. Between
// the end of a server and its discovery the next one may write already.
func (w *work) sectionFrom(began time.Time) *section {
	if began.IsZero() {
		return w.section()
	}
	var own *section
	for _, sec := range w.sections {
		switch {
		case sec.headless || sec.at.Before(began.Add(-sectionLag)):
		case own == nil || sec.at.Sub(own.at) < sectionAgain:
			own = sec
		default:
			return own
		}
	}
	return w.section()
}

// readySince is when the newest living server became ready, zero for none.
func (b *Board) readySince() time.Time {
	var out time.Time
	for _, s := range b.servers {
		if sec := b.sectionOf(s); s.alive() && sec != nil && sec.ready.After(out) {
			out = sec.ready
		}
	}
	return out
}

// present is the moment up to which the node was heard: while the link is down,
// and until the logs could catch up after it came back, their silence proves
// nothing.
func (b *Board) present() time.Time {
	switch {
	case !b.relinked.IsZero() && b.now.Sub(b.relinked) < catchUp:
		return b.lastHeard
	case b.link.Status == "" || b.link.LastData.IsZero(),
		b.link.Status == metrics.LinkUp && b.now.Sub(b.link.LastData) <= b.deafAfter():
		return b.now
	}
	return b.link.LastData
}

// deafAfter is how long a link that counts as up may bring nothing: longer, and
// this machine slept, or the link is dead and nobody has noticed yet.
func (b *Board) deafAfter() time.Duration { return max(catchUp, 3*b.cfg.Interval) }

// CaughtUp says that what was missed while the node was not heard has been read.
func (b *Board) CaughtUp() { b.relinked = time.Time{} }

// hear notes that a frame came from the node.
func (b *Board) hear(at time.Time) {
	if last := b.link.LastData; b.link.Status == metrics.LinkUp && !last.IsZero() && at.Sub(last) > b.deafAfter() {
		b.relinked, b.lastHeard = at, last
	}
	if at.After(b.link.LastData) {
		b.link.LastData = at
	}
}

// firstAnswer is how long a server whose log stands still may take to be asked
// what it does, before the log alone is believed.
const firstAnswer = 10 * time.Second

// judge tells what a server does, and since when.
func (b *Board) judge(s *serverState, sec *section) (metrics.ServerState, time.Time) {
	now := b.present()
	if !s.endedAt.IsZero() {
		return metrics.ServerDown, s.endedAt
	}
	if s.config != nil {
		return b.judgeEndpoint(s)
	}
	if s.s.PID == 0 && b.scanned.IsZero() {
		if sec != nil && now.Sub(sec.last) < silence {
			return metrics.ServerServing, sec.at
		}
		return metrics.ServerUnknown, s.firstSeen
	}
	if sec != nil && !sec.stop.IsZero() {
		return metrics.ServerDraining, sec.stop
	}
	ready := time.Time{}
	switch {
	case sec != nil && !sec.ready.IsZero():
		ready = sec.ready
	case sec != nil && !sec.lastDecode.IsZero():
		ready = sec.firstToken
	case sec != nil && sec.broken && sec.running.Known && sec.running.V > 0:
		ready = sec.at // its start was not read, and it has work
	default:
		for _, p := range []string{"/v1/loads", "/server_info", "/metrics", "/health"} {
			// A key that is refused, or a path that is not there, is an answer too.
			if ep := s.http[p]; ep != nil && (!ep.ok.IsZero() || ep.status >= 400 && ep.status < 500) {
				ready = s.s.Started
			}
		}
	}
	if ready.IsZero() {
		// Without a word of it, one that is old enough may long have started.
		if sec == nil && (s.listening && s.scheduler || s.log == "" && now.Sub(s.s.Started) > startMost) {
			return metrics.ServerUnknown, s.firstSeen
		}
		return metrics.ServerStarting, s.s.Started
	}
	var lastBatch, lastDecode time.Time
	if sec != nil {
		lastBatch, lastDecode = sec.lastBatch, sec.lastDecode
	}
	lastSign := latest(lastBatch, s.prom.moved)
	l := &s.loads
	if l.known && now.Sub(l.at) <= loadsFresh {
		if l.running+l.queued == 0 {
			if now.Sub(lastSign) < slowGap {
				return metrics.ServerServing, ready
			}
			return metrics.ServerIdle, latest(ready, lastSign)
		}
		if l.running > 0 && now.Sub(latest(lastSign, ready)) > silence && now.Sub(l.busySince) > silence/2 && sec != nil && !b.blind(s) {
			return metrics.ServerHung, latest(lastSign, ready)
		}
		return metrics.ServerServing, ready
	}
	if since, hung := s.heartbeat(now, latest(lastBatch, ready)); hung && !l.known && !b.blind(s) {
		return metrics.ServerHung, since
	}
	switch {
	case s.promFirst(sec) && s.prom.view.Running.V > 0:
		return metrics.ServerServing, ready
	case b.blind(s) && now.Sub(lastSign) > silence:
		return metrics.ServerServing, ready // what its lines would say cannot be read
	case lastSign.IsZero() && sec != nil && sec.running.Known && sec.running.V >= few && now.Sub(ready) > silence:
		return metrics.ServerHung, ready // its lines count requests and no token ever moved
	case sec != nil && now.Sub(latest(sec.answered, lastSign)) <= silence:
		return metrics.ServerServing, ready // answers are work too, where no line of figures comes
	case lastSign.IsZero():
		return metrics.ServerIdle, latest(ready, answered(sec))
	case now.Sub(lastSign) <= silence:
		return metrics.ServerServing, ready
	case sec == nil || lastDecode.IsZero() && !(sec.queued.Known && sec.queued.V > 0):
		return metrics.ServerIdle, lastSign
	case len(s.http) == 0 && s.s.Port > 0 && now.Sub(s.firstSeen) < firstAnswer:
		return metrics.ServerUnknown, lastSign // it may be idle: its endpoints tell in a moment
	case sec.queued.Known && sec.queued.V > 0,
		sec.running.Known && sec.running.V >= few && float64(sec.sinceBatch) < sec.running.V:
		return metrics.ServerHung, lastSign
	}
	return metrics.ServerIdle, lastSign
}

// blind tells a server whose tokens cannot be seen: its log's file is not there, or
// no file can be read now, and /metrics never counted any.
func (b *Board) blind(s *serverState) bool {
	l := b.logs[s.log]
	return (b.channels["files"].Behind(b.present()) || l != nil && !l.deleted.IsZero()) && s.prom.moved.IsZero()
}

// answered is when the newest request was answered, as the log tells it.
func answered(sec *section) time.Time {
	if sec == nil {
		return time.Time{}
	}
	return sec.answered
}

func latest(ts ...time.Time) time.Time {
	var out time.Time
	for _, t := range ts {
		if t.After(out) {
			out = t
		}
	}
	return out
}

// newer gives the first figure that is not stale, else the newest known one:
// the fixed ranking of sources.
func newer(now time.Time, figs ...metrics.Figure) metrics.Figure {
	var best metrics.Figure
	for _, f := range figs {
		if !f.Known {
			continue
		}
		if !f.Stale(now) {
			return f
		}
		if !best.Known || f.At.After(best.At) {
			best = f
		}
	}
	return best
}

func fixedNum(n sglang.Num, at time.Time) metrics.Figure {
	if !n.Known || math.IsNaN(n.V) {
		return metrics.Figure{}
	}
	return metrics.Fixed(n.V, at, sourceLog)
}

// snapshotServer puts together all that is known of one server.
func (b *Board) snapshotServer(s *serverState, starts []metrics.Start) metrics.Server {
	out := s.s
	sec := b.sectionOf(s)
	out.Tree = slices.Clone(out.Tree)
	out.State, out.Since = b.judge(s, sec)
	out.Version = s.version
	out.Workers = s.workers
	out.ExitCode = s.exitCode
	if l := b.logs[s.log]; l != nil {
		out.Log = l.ref(b, s.s.Log.Note)
	} else if s.log != "" {
		out.Log.Path = s.log
	}
	if out.Model == "" {
		out.Model = s.info.model
	}
	loads := func(v float64) metrics.Figure {
		if !s.loads.known {
			return metrics.Figure{}
		}
		return metrics.Known(v, s.loads.at, loadsEvery, sourceLoads)
	}
	now := b.now
	l, p := &s.loads, &s.prom.view
	if sec != nil {
		b.fillFromLog(&out, s, sec)
	} else {
		out.Phase = b.phase(s, nil)
	}
	if sec != nil {
		out.Phase = b.phase(s, sec)
		out.Running = newer(now, sec.running, s.prom.fig(p.Running), loads(l.running))
		out.Queued = newer(now, sec.queued, s.prom.fig(p.Queued), loads(l.queued))
		out.KVUsage = newer(now, sec.usage, s.prom.fig(p.KVUsage), loads(l.usage))
		out.KVTokens = newer(now, sec.tokens, s.prom.fig(p.UsedTokens), loads(l.tokens))
	} else {
		out.Running = newer(now, s.prom.fig(p.Running), loads(l.running))
		out.Queued = newer(now, s.prom.fig(p.Queued), loads(l.queued))
		out.KVUsage = newer(now, s.prom.fig(p.KVUsage), loads(l.usage))
		out.KVTokens = newer(now, s.prom.fig(p.UsedTokens), loads(l.tokens))
	}
	out.Capacity = out.Capacity.Or(s.info.capacity).Or(loads(l.capacity)).Or(s.prom.fig(p.Capacity))
	out.MaxRunning = out.MaxRunning.Or(s.info.maxRunning)
	out.ContextLen = out.ContextLen.Or(s.info.context).Or(s.prom.fig(p.ContextLen))
	out.AcceptLen = out.AcceptLen.Or(s.prom.fig(p.AcceptLen))
	out.CacheHit = s.prom.fig(p.CacheHit)
	out.Aborted = s.prom.fig(p.Aborted)
	if out.KVDtype == "" {
		out.KVDtype = s.info.kvDtype
	}
	out.HiCache.LoadBack = s.prom.fig(p.LoadedBack)
	b.fillVLLM(&out, s, sec)
	b.fillRates(&out, s, sec)
	if out.Running.Known && out.Queued.Known {
		older := out.Running
		if out.Queued.At.Before(older.At) {
			older = out.Queued
		}
		out.InFlight = metrics.Known(out.Running.V+out.Queued.V, older.At, max(out.Running.Every, out.Queued.Every), out.Running.Source)
	}
	if ep := s.http["/health"]; ep != nil && ep.status > 0 {
		out.Health = metrics.Known(float64(ep.status), ep.at, 0, "/health")
	}
	if out.State == metrics.ServerDown {
		b.fillEnd(&out, s, sec)
		for _, f := range []*metrics.Figure{&out.Running, &out.Queued, &out.InFlight, &out.KVUsage, &out.KVTokens, &out.PerRequest, &out.InputTPS, &out.Gen.Now} {
			f.Every = 1 // what it did last is old at once: nothing runs in a dead server
		}
	} else {
		out.Causes = b.liveCauses(sec)
	}
	b.fillFacts(&out, s, sec)
	for i := range starts {
		if starts[i].ID == b.startID(s, sec) {
			out.StartNo = starts[i].No
		}
	}
	return out
}

// fillRates gives tok/s by its ranking: decode lines of the log, counters of
// /metrics, the engine's gauge in /v1/loads, which is only kept with metrics on.
func (b *Board) fillRates(out *metrics.Server, s *serverState, sec *section) {
	var fromLog, gauge metrics.Figure
	if sec != nil {
		fromLog = sec.gen
		out.LastBatch = sec.lastBatch
		out.LastToken = latest(sec.lastDecode, sec.answered)
	}
	out.LastToken = latest(out.LastToken, s.prom.moved)
	if s.loads.known && s.s.MetricsOn != nil && *s.s.MetricsOn {
		gauge = metrics.Known(s.loads.gen, s.loads.at, loadsEvery, sourceLoads)
	}
	if s.promFirst(sec) {
		fromLog, gauge = metrics.Figure{}, fromLog
	}
	out.Gen.Now = newer(b.now, fromLog, s.prom.gen, gauge)
	out.InputTPS = newer(b.now, out.InputTPS, s.prom.fig(s.prom.view.InputGauge))
	if out.State == metrics.ServerIdle && s.loads.known && s.loads.at.After(out.Gen.Now.At) {
		out.Gen.Now = metrics.Known(0, s.loads.at, loadsEvery, sourceLoads)
	}
	// Requests finished since the start: the counter, else the answers in the log.
	switch v := s.prom.view.Requests; {
	case v.OK:
		out.Finished, out.FinishedWith = s.prom.fig(v), "/metrics"
	case sec != nil && !sec.broken && sec.accessLog && (sec.posts > 0 || !sec.ready.IsZero()):
		out.Finished, out.FinishedWith = metrics.Known(float64(sec.posts), b.logs[s.log].at, 0, sourceLog), "POST 200 lines of the log"
	}
}

func (b *Board) fillFromLog(out *metrics.Server, s *serverState, sec *section) {
	at := latest(sec.at, sec.ready)
	if sec.version != "" {
		out.Version = sec.version
	}
	if out.Model == "" {
		out.Model = sec.modelName
	}
	if v := sec.flags["model_path"]; v != "" {
		out.Model = shortModel(v)
	}
	if v := sec.flags["served_model_name"]; v != "" && v != "None" && v != sec.flags["model_path"] {
		out.Model = v
	}
	for name, to := range map[string]*int{"tp_size": &out.TP, "dp_size": &out.DP, "pp_size": &out.PP} {
		if v, ok := sec.flagNum(name); ok && v >= 1 {
			*to = int(v)
		}
	}
	out.Capacity = fixedNum(sec.capacity, at)
	out.Headroom = fixedNum(sec.headroom, at)
	if sec.chunk() > 0 {
		out.FullPrefills = metrics.Fixed(float64(sec.full), latest(at, sec.last), sourceLog)
	}
	out.MaxRunning = fixedNum(sec.maxRunning, at)
	out.ContextLen = fixedNum(sec.context, at)
	out.KVDtype = sec.kvDtype
	out.FreeAtStart, out.KVPool = fixedNum(sec.freeGB, at), fixedNum(sec.kvGB, at)
	if sec.kvGB.Known && sec.capacity.Known && sec.capacity.V > 0 {
		out.BytesPerTok = metrics.Fixed(math.Round(sec.kvGB.V*(1<<30)/sec.capacity.V), at, sourceLog)
	}
	h := &out.HiCache
	h.On = sec.flags["enable_hierarchical_cache"] == "True" || flagSet(out.Argv, "enable-hierarchical-cache") || sec.hicache.Known && sec.hicache.V != 0
	if v, ok := sec.flagNum("hicache_size"); ok {
		h.SizeGB = v
	} else {
		h.SizeGB = float64(flagInt(out.Argv, "hicache-size"))
	}
	if sec.hostGB.Known {
		h.HostGB = metrics.Fixed(sec.hostGB.V*float64(max(out.TP, 1)), at, sourceLog)
	}
	out.Graph, out.AcceptLen, out.InputTPS = sec.graph, sec.accept, sec.input
	out.PerRequest = sec.perReq
	if out.State != metrics.ServerDown || sec.retracted > 0 {
		out.Retracted = metrics.Known(sec.retractRate(b.present()), latest(sec.last, b.present()), 0, sourceLog)
	}
	lv, source := &sec.level, sourceLog
	if lv.peak.tps == 0 && s.prom.level.peak.tps > 0 {
		lv, source = &s.prom.level, sourceMetrics
	}
	out.Step = lv.stepFit()
	g := &out.Gen
	working := out.State != metrics.ServerIdle && out.State != metrics.ServerDown
	g.Ramp = working && !lv.settled && len(lv.pts) > 0
	if lv.peak.tps > 0 {
		p := lv.peak
		g.Peak, g.PeakAt = metrics.Fixed(p.tps, p.t, source), p.t
		g.PeakRunning = metrics.Fixed(p.running, p.t, source)
		if !math.IsNaN(p.perReq) {
			g.PeakPerRequest = metrics.Fixed(p.perReq, p.t, source)
		}
	}
	if lv.settled {
		g.Since = lv.since
		med, spread := lv.value()
		g.Settled = metrics.Fixed(med, lv.judged, source)
		g.Spread = metrics.Fixed(spread, lv.judged, source)
	}
	m, grown := lv.means()
	if grown {
		settledMeans(g, m, lv.judged, source)
		if n, ok := sec.finishedSince(lv.judged.Add(-m.over)); ok && n >= finishesEnough {
			g.PerFinished = metrics.Fixed(g.Settled.V*m.over.Seconds()/float64(n), lv.judged, sourceFinishes)
		}
	}
	switch {
	case grown && out.Capacity.Known:
		fit := out.Capacity.V / m.perReq
		if out.MaxRunning.Known {
			fit = min(fit, out.MaxRunning.V)
		}
		out.RequestsFit = metrics.Fixed(math.Floor(fit+0.05), lv.judged, sourceLog) // whole requests; 35.99 of the pool is 36
	case g.Ramp:
		out.FitTooEarly = true
	}
}

// finishesEnough is from how many finished requests their mean length is told.
const finishesEnough = 40

func settledMeans(g *metrics.GenRate, m means, at time.Time, source string) {
	g.SettledRunning = metrics.Fixed(m.running, at, source)
	if !math.IsNaN(m.queued) {
		g.SettledQueued = metrics.Fixed(m.queued, at, source)
	}
	g.SettledTokens = metrics.Fixed(m.tokens, at, source)
	g.SettledPerRequest = metrics.Fixed(m.perReq, at, source)
	g.PerRequestLow, g.PerRequestHigh, g.SettledOver = m.low, m.high, m.over
}

// phase tells where a start is, and how long starts took before.
func (b *Board) phase(s *serverState, sec *section) metrics.Phase {
	p := metrics.Phase{Name: "importing", Since: s.s.Started, LastSign: latest(s.s.Started, s.reads.at), DiskAt: s.reads.at, DiskBPS: s.reads.rate()}
	if sec != nil {
		p.Took = slices.Clone(sec.phases.took)
		if d := sec.at.Sub(s.s.Started); s.s.PID != 0 && d > 0 && sec.phases.name != "" {
			p.Took = append([]metrics.PhaseTook{{Name: "importing", Took: d}}, p.Took...)
		}
		if sec.phases.name != "" {
			p.Name, p.Since, p.Done, p.Total = sec.phases.name, sec.phases.since, sec.phases.done, sec.phases.total
		}
		p.LogAt = latest(sec.phases.sign, sec.last)
		p.LastSign = latest(p.LogAt, s.reads.at)
		p.Ready = sec.ready
		if p.Ready.IsZero() && !sec.firstToken.IsZero() {
			p.Name, p.Since, p.Ready = "ready", sec.firstToken, sec.firstToken
		}
	}
	var took []float64
	for _, st := range b.imported {
		if st.ReadyS != nil {
			took = append(took, *st.ReadyS)
		}
	}
	if l := b.logs[s.log]; l != nil {
		for _, o := range l.work.sections {
			if o != sec && !o.ready.IsZero() && !o.headless {
				took = append(took, o.ready.Sub(o.at).Seconds())
			}
		}
	}
	if len(took) > 0 {
		p.Expected = time.Duration(median(took) * float64(time.Second))
	}
	return p
}

// liveCauses are remarks of a living server that explain its silence.
func (b *Board) liveCauses(sec *section) []metrics.CauseFact {
	if sec == nil {
		return nil
	}
	out := sec.causes()
	if !sec.jit.IsZero() && sec.jit.After(sec.lastBatch) && b.present().Sub(sec.jit) < 20*time.Minute {
		out = append(out, metrics.CauseFact{Class: metrics.CauseJITCompiling, Detail: "kernels are being compiled", At: sec.jit})
	}
	return out
}

// fillEnd tells when and why a server ended.
func (b *Board) fillEnd(out *metrics.Server, s *serverState, sec *section) {
	out.Ended = s.endedAt
	if s.config != nil {
		out.Ended = out.Since
	}
	if sec != nil {
		out.Causes = sec.causes()
		// The log's end is nearer to the truth than the scan that missed the process.
		if sec.last.Before(out.Ended) && (sec.ended() || out.Ended.Sub(sec.last) < 2*scanEvery) {
			out.Ended = sec.last
		}
		if !sec.stop.IsZero() && !sec.ended() {
			detail := "asked to stop"
			if sec.stopText != "" {
				detail = sec.stopText + " received"
			}
			out.Causes = append([]metrics.CauseFact{{Class: metrics.CauseStopped, Detail: detail, Line: detail, At: sec.stop, Primary: true}}, out.Causes...)
		}
	}
	facts := s.kernel
	if s.s.PID == 0 {
		for _, k := range b.kernel {
			if d := k.fact.At.Sub(out.Ended); d > -10*time.Minute && d < 10*time.Minute && k.killed(nil) {
				facts = append(facts, k.fact)
				break
			}
		}
	}
	primary := slices.ContainsFunc(out.Causes, func(c metrics.CauseFact) bool { return c.Primary })
	for _, k := range facts {
		k.Primary = !primary
		primary = true
		out.Causes = append(out.Causes, k)
	}
	if s.endNote != "" && !primary {
		out.Causes = append(out.Causes, metrics.CauseFact{Class: metrics.CauseKilledUnknown, Detail: s.endNote, Line: s.endNote, At: s.endedAt, Primary: true})
	}
}

func compareServers(a, b metrics.Server) int {
	rank := func(s *metrics.Server) int {
		switch s.State {
		case metrics.ServerServing, metrics.ServerHung, metrics.ServerDraining:
			return 0
		case metrics.ServerIdle:
			return 1
		case metrics.ServerStarting, metrics.ServerUnknown:
			return 2
		}
		return 3
	}
	return cmp.Or(cmp.Compare(rank(&a), rank(&b)), b.Started.Compare(a.Started), cmp.Compare(a.ID, b.ID))
}
