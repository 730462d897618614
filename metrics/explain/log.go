package explain

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/sglang"
	"github.com/runvigil/runvigil/metrics/vllm"
)

// serverLog reads an engine's log. Where the kind leaves the engine open, the
// parser that understands more of it has the word, and no engine is named.
func (r *Report) serverLog(data []byte, rest io.Reader, kind Kind) error {
	if kind == KindServerLog {
		m := count(sample(data))
		kind = m.engine()
		if kind == KindServerLog {
			if m.sglang > 0 || m.vllm > 0 {
				return r.sglangLog(data, rest, true)
			}
			return r.foreignLog(data, rest)
		}
	}
	if kind == KindVLLM {
		return r.vllmLog(data, rest, true)
	}
	return r.sglangLog(data, rest, true)
}

// foreignLog has faults of a server's libraries and no line of an engine.
func (r *Report) foreignLog(data []byte, rest io.Reader) error {
	var s sglang.Parser
	var v vllm.Parser
	faults := [2]int{}
	bars := false
	sg := func(e *sglang.Event) {
		if e.Kind == sglang.KindFault && e.Fault.Weight <= sglang.Vague {
			faults[0]++
		}
	}
	vl := func(e *vllm.Event) {
		if e.Kind == vllm.KindFault && e.Fault.Weight <= vllm.Vague {
			faults[1]++
		}
		bars = bars || e.Kind == vllm.KindProgress
	}
	piece := sample(data)
	s.Feed(piece, sg)
	s.Flush(sg)
	v.Feed(piece, vl)
	v.Flush(vl)
	if faults[1] > faults[0] || faults[1] == faults[0] && bars {
		return r.vllmLog(data, rest, false)
	}
	return r.sglangLog(data, rest, false)
}

func (r *Report) sglangLog(data []byte, rest io.Reader, named bool) error {
	lines := int64(0)
	if rest == nil {
		if turned, was := sglang.OldestFirst(data); was {
			data, lines = turned, countLines(data)
			r.note("the file is newest first")
		}
	}
	var p sglang.Parser
	var s sglang.State
	batches, prefills := 0, 0
	var retract sglang.Retraction
	at := func(e *sglang.Event) {
		if a := s.Apply(e); e.Kind == sglang.KindRetraction && !a.Repeated {
			retract = *e.Retract
		}
		if e.Kind == sglang.KindBatch {
			batches++
			if !e.Batch.Decode {
				prefills++
			}
		}
	}
	err := stream(data, rest, func(b []byte) { p.Feed(b, at) })
	p.Flush(at)
	if named {
		r.Engine = str("sglang")
		r.Version = str(s.Version())
	}
	l := s.Level()
	r.Running, r.Queued = known(l.Running.V, l.Running.Known), known(l.Queued.V, l.Queued.Known)
	r.GenTPS, r.InputTPS = known(l.GenTPS.V, l.GenTPS.Known), known(l.InputTPS.V, l.InputTPS.Known)
	r.KVUsage, r.KVTokens = known(l.Usage.V, l.Usage.Known), known(l.Tokens.V, l.Tokens.Known)
	r.AcceptLen = known(l.AcceptLen.V, l.AcceptLen.Known)
	line := func(n int64) int64 {
		if lines > 0 && n > 0 {
			n = lines + 1 - n
		}
		return r.lineNo(n)
	}
	now := s.Now()
	for _, st := range s.Starts() {
		r.Starts = append(r.Starts, sglangStart(&s, st, st == now, line))
	}
	if now == nil {
		return err
	}
	last := &r.Starts[len(r.Starts)-1]
	for q, n := range s.Requests() {
		name := fmt.Sprintf("http_%d", q.Status)
		last.Figures[name] += float64(n)
	}
	fig := figures(last.Figures)
	fig.put("ranks", float64(l.Ranks), l.Ranks > 0)
	fig.put("accept_len_low", l.AcceptLow.V, l.AcceptLow.Known)
	fig.put("accept_len_high", l.AcceptHigh.V, l.AcceptHigh.Known)
	fig.put("batch_lines", float64(batches), true)
	fig.put("prefill_lines", float64(prefills), true)
	fig.put("retracted_requests", retract.Requests.V, retract.Requests.Known)
	fig.put("new_token_ratio", retract.RatioTo.V, retract.RatioTo.Known)
	for _, dp := range s.DPRanks() {
		rankFigures(&s, dp, fig)
	}
	dump, health := s.WatchdogDump(), s.FailedHealth()
	fig.put("watchdog_batch_size", dump.BatchSize.V, dump.BatchSize.Known)
	fig.put("watchdog_kv_available", dump.Available.V, dump.Available.Known)
	fig.put("watchdog_kv_evictable", dump.Evictable.V, dump.Evictable.Known)
	fig.put("health_silent_s", health.Silent.V, health.Silent.Known)
	if d, ok := p.LastRecord().Sub(now.PhaseAt); ok && !now.Ready && now.Began {
		fig.put("phase_s", d, d >= 0)
	}
	r.CapacityTokens = known(now.Capacity.V, now.Capacity.Known && now.Capacity.V > 0)
	r.MaxRunningRequests = known(now.MaxRunning.V, now.MaxRunning.Known)
	r.ContextLen = known(now.ContextLen.V, now.ContextLen.Known)
	r.HeadroomGiB = known(now.HeadroomGiB.V, now.HeadroomGiB.Known)
	r.Phase = str(now.Phase)
	if now.Total > 0 {
		r.Progress = Progress{whole(int64(now.Done)), whole(int64(now.Total))}
	}
	for _, f := range now.Causes(s.NewestFirst() && lines == 0) {
		detail := f.Detail
		if pid := strconv.Itoa(f.PID); f.PID > 0 && !strings.Contains(detail, pid) {
			detail += " (pid " + pid + ")"
		}
		r.cause(f.Class, detail, f.Rank.String(), line(f.Line), f.Primary)
		if f.Primary {
			r.advise(f.Advice())
		}
	}
	r.sglangState(&s, now)
	return err
}

// rankFigures tells the newest lines of one data parallel rank, whose names
// begin with the rank where there are several. Of the pools' usage the fullest
// rank's stands without it.
func rankFigures(s *sglang.State, dp int, fig figures) {
	b, _, _ := s.Last(dp)
	prefix := ""
	if len(s.DPRanks()) > 1 {
		prefix = fmt.Sprintf("dp%d_", dp)
		usage, _ := b.Binding()
		fig.put(prefix+"running", b.Running.V, b.Running.Known)
		fig.put(prefix+"queued", b.Queued.V, b.Queued.Known)
		fig.put(prefix+"kv_usage", usage.V, usage.Known)
	}
	for _, f := range []struct {
		name string
		v    sglang.Num
	}{{"full_usage", b.FullUsage}, {"swa_usage", b.SWAUsage}, {"mamba_usage", b.MambaUsage}} {
		if old, there := fig[f.name]; !there || f.v.V > old {
			fig.put(f.name, f.v.V, f.v.Known)
		}
	}
	for _, f := range []struct {
		name string
		v    sglang.Num
	}{
		{"accept_rate", b.AcceptRate}, {"cache_hit", b.CacheHit}, {"inflight", b.Inflight}, {"bootstrap", b.Bootstrap},
		{"transfer", b.Transfer}, {"prealloc", b.Prealloc}, {"cached_tokens", b.Cached}, {"pending_tokens", b.Pending},
	} {
		fig.put(prefix+f.name, f.v.V, f.v.Known)
	}
}

// beforeTheEnd takes the level of a server that ended from its decode lines: a
// prefill line after them counts what ran before its own batch.
func (r *Report) beforeTheEnd(s *sglang.State) {
	var running, queued, usage figureSum
	for _, dp := range s.DPRanks() {
		d, _, ok := s.LastDecode(dp)
		if !ok {
			return
		}
		u, _ := d.Binding()
		running.add(d.Running)
		queued.add(d.Queued)
		usage.most(u)
	}
	for _, f := range []struct {
		to   **float64
		from figureSum
	}{{&r.Running, running}, {&r.Queued, queued}, {&r.KVUsage, usage}} {
		if f.from.known {
			*f.to = known(f.from.v, true)
		}
	}
}

type figureSum struct {
	v     float64
	known bool
}

func (f *figureSum) add(n sglang.Num) {
	if n.Known {
		f.v, f.known = f.v+n.V, true
	}
}

func (f *figureSum) most(n sglang.Num) {
	if n.Known && (!f.known || n.V > f.v) {
		f.v, f.known = n.V, true
	}
}

const (
	// fullPool is the usage from which a pool counts as full.
	fullPool = 0.9
	// crawl is the rate in tok/s of one request below which it hardly moves.
	crawl = 5
)

// sglangState tells what the server was doing when the log ended, and the
// states that no line calls a fault.
func (r *Report) sglangState(s *sglang.State, now *sglang.Start) {
	l := s.Level()
	dead := s.DeadRanks()
	fatal := slices.ContainsFunc(now.Faults, func(f sglang.FaultAt) bool { return f.Weight <= sglang.Consequence })
	// A rate of 0 over working time; the first line after a pause may round to it.
	still := l.Decode && l.GenUsable && l.GenTPS.V == 0 && l.Running.V > 0
	state := metrics.ServerUnknown
	switch {
	case now.Stopped:
		state = stateStopped
	case fatal && len(dead) == 0 && !now.Stopping:
		state = metrics.ServerDown
	case now.Stopping:
		state = metrics.ServerDraining
	case s.FailedHealth().Silent.Known, still:
		state = metrics.ServerHung
	case now.Began && !now.Ready:
		state = metrics.ServerStarting
	case l.Running.Known && l.Running.V+l.Queued.V == 0:
		state = metrics.ServerIdle
	case l.Ranks > 0 || now.Ready:
		state = metrics.ServerServing
	}
	r.State = str(string(state))
	if state == metrics.ServerDown {
		r.beforeTheEnd(s)
	}
	if len(dead) > 0 {
		r.find("rank-dead", metrics.SeverityCritical, metrics.CauseSchedulerException, "a scheduler died while others go on printing: "+dead[0].String(),
			"/health may still answer 200; requests of that rank are lost", "restart the server", fmt.Sprintf("%d ranks still print", l.Ranks))
	}
	if h := s.FailedHealth(); h.Silent.Known {
		r.sign("server-hung", metrics.SeverityCritical, metrics.CauseServerHung,
			fmt.Sprintf("scheduler or detokenizer silent for %.0f s", h.Silent.V),
			"the health check waited for an answer that did not come", 0, "checked at "+h.Checked.String(), "last heartbeat at "+h.Heartbeat.String())
	}
	if still && !fatal {
		r.sign("server-hung", metrics.SeverityCritical, metrics.CauseServerHung, fmt.Sprintf("hung: %.0f running at 0 tok/s", l.Running.V),
			"decode lines come and no token does", 0)
	}
	if s.Compiling() && !fatal {
		r.Phase = str("jit-compiling")
		r.sign("jit-compiling", metrics.SeverityInfo, metrics.CauseJITCompiling, "kernels are being compiled, the server is not stuck",
			"the log announces a compilation and no decode line has come since", 0)
	}
	if !fatal && l.Usage.V >= fullPool && l.Running.V > 0 && l.GenTPS.Known && l.GenTPS.V < l.Running.V*crawl {
		r.sign("kv-thrashing", metrics.SeverityWarning, metrics.CauseKVThrashing,
			fmt.Sprintf("decode collapsed to %.4g tok/s for %.0f running requests at KV usage %.2f", l.GenTPS.V, l.Running.V, l.Usage.V),
			"the pool is nearly full: requests crawl or are retracted", 0)
	}
	if now.Retractions > 0 {
		r.find("retractions", metrics.SeverityWarning, metrics.CauseKVThrashing, plural(now.Retractions, "retraction")+": the KV pool was full",
			"running requests were taken back and computed again; this is no crash", "send fewer requests at once, or enlarge the KV pool")
	}
}

func sglangStart(s *sglang.State, st *sglang.Start, newest bool, line func(int64) int64) Start {
	out := Start{
		Line: line(st.Line), Phase: str(st.Phase), Phases: []Phase{}, Model: str(st.Model), Flags: map[string]string{}, Figures: map[string]float64{},
		Capacity: known(st.Capacity.V, st.Capacity.Known && st.Capacity.V > 0), MaxRunning: known(st.MaxRunning.V, st.MaxRunning.Known),
		ContextLen: known(st.ContextLen.V, st.ContextLen.Known), Headroom: known(st.HeadroomGiB.V, st.HeadroomGiB.Known),
		PeakTPS: known(st.PeakGen.V, st.PeakGen.Known && st.PeakGen.V > 0),
	}
	if st.Began {
		out.At = str(stampText(st.At.Known, st.At.String()))
	}
	if st.Ready {
		out.ReadyAt = str(stampText(st.ReadyAt.Known, st.ReadyAt.String()))
		if d, ok := st.ReadyAt.Sub(st.At); ok && st.Began {
			out.ReadyS = known(d, d >= 0)
		}
	}
	for k, v := range st.Flags {
		if len(out.Flags) < 512 {
			out.Flags[clean(k)] = clean(v)
		}
	}
	for _, t := range st.Took {
		out.Phases = append(out.Phases, Phase{t.Name, known(t.Seconds.V, t.Seconds.Known)})
	}
	fig := figures(out.Figures)
	for _, f := range []struct {
		name string
		v    sglang.Num
	}{
		{"chunked_prefill_size", st.ChunkedPrefill}, {"max_prefill_tokens", st.MaxPrefill}, {"profiled_tokens", st.ProfiledTokens},
		{"k_gib", st.KGB}, {"v_gib", st.VGB}, {"kv_gib", st.KVGB}, {"weights_gib", st.WeightsGB}, {"weights_s", st.WeightsS},
		{"avail_low_gib", st.AvailLow}, {"avail_high_gib", st.AvailHigh}, {"avail_gib", st.AvailGB}, {"capture_s", st.CaptureS},
		{"host_cache_gb", st.HostGB}, {"peak_running", st.PeakRunning},
	} {
		fig.put(f.name, f.v.V, f.v.Known)
	}
	fig.put("retractions", float64(st.Retractions), true)
	cause := ""
	for _, f := range st.Causes(false) {
		if f.Primary {
			cause = string(f.Class)
		}
	}
	out.Cause = str(cause)
	fatal := slices.ContainsFunc(st.Faults, func(f sglang.FaultAt) bool { return f.Weight <= sglang.Consequence })
	out.Outcome = outcome(st.Stopped || st.Stopping, fatal && (!newest || len(s.DeadRanks()) == 0), st.Ready || !st.Began, newest, st.Began || st.LastWork.Known)
	return out
}

// outcome is how a start ended as far as its log tells.
func outcome(stopped, fatal, ready, newest, any bool) string {
	switch {
	case fatal && !stopped && ready:
		return "crashed"
	case fatal && !stopped:
		return "failed"
	case stopped:
		return "stopped"
	case newest && ready && any:
		return "serving"
	case newest && any:
		return "starting"
	}
	return "unknown"
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func stampText(known bool, text string) string {
	if !known {
		return ""
	}
	return text
}
