package board

import (
	"fmt"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/prom"
	"github.com/runvigil/runvigil/metrics/sglang"
	"github.com/runvigil/runvigil/metrics/vllm"
)

// vllmLog reads a vLLM log into the same sections: its own fold tells starts and
// phases, its lines of figures become readings.
type vllmLog struct {
	parser vllm.Parser
	state  vllm.State
	start  *vllm.Start
	taken  int // faults of the start that the section has
	emit   func(*vllm.Event)
}

// same turns a number of one parser into one of the other.
func same(n vllm.Num) sglang.Num { return sglang.Num{V: n.V, Known: n.Known} }

func (w *work) vllmStamp(s vllm.Stamp) (time.Time, bool) {
	t, ok := s.Time(w.read.Add(w.board.offset), time.FixedZone("", w.log.zone))
	if !ok {
		return time.Time{}, false
	}
	return w.board.local(t.UTC()), true
}

func (w *work) vllmEvent(e *vllm.Event) {
	t, ok := w.vllmStamp(e.At)
	if !ok {
		// uvicorn's lines have no time: while they are followed it is that at which
		// they come, in history that of the line before.
		if t, ok = w.vllmStamp(w.vllm.parser.Last()); !ok || w.log.head.Backfill == 0 {
			t = w.read
		}
	}
	if t.After(w.read.Add(time.Minute)) {
		t = w.read
	}
	if w.engine == "" {
		// Lines of the HTTP server are every engine's: the other parser takes them.
		if e.Kind != vllm.KindBatch && (e.Kind != vllm.KindStartup || e.Startup.Step >= vllm.StepListening) {
			return
		}
		w.engine = "vllm"
		w.sections = nil
	}
	w.vllm.state.Apply(e)
	st := w.vllm.state.Now()
	s := w.section()
	if st != nil && st != w.vllm.start || s == nil {
		s = w.begin(t, "")
		s.headless = st == nil || !st.Began && e.Kind != vllm.KindSeparator
		s.broken = s.headless
		w.vllm.start, w.vllm.taken = st, 0
	}
	s.reach(t)
	if st != nil {
		w.vllmStart(s, st, t)
		w.vllmFaults(s, st, t)
	}
	switch e.Kind {
	case vllm.KindBatch:
		w.vllmBatch(s, e.Batch, t)
	case vllm.KindSpec:
		switch {
		case !w.vllm.state.Repeating():
			s.repeats = time.Time{}
		case s.repeats.IsZero():
			s.repeats = t
		}
		if e.Spec.AcceptLen.Known {
			s.accept = metrics.Known(e.Spec.AcceptLen.V, t, vllmEvery, sourceLog)
			w.accept.Add(t, e.Spec.AcceptLen.V)
		}
	case vllm.KindWait:
		if !strings.HasPrefix(e.Proc, "Worker") { // an idle worker waits too, for work
			w.engineWaits(s, e, t)
		}
	case vllm.KindAccess:
		w.access(s, e.Access.Method, e.Access.Path, e.Access.Status, t)
	case vllm.KindStartup:
		s.noStats = s.noStats || e.Startup.Step == vllm.StepNoStats
	case vllm.KindStop:
		if s.stop.IsZero() && e.Stop.Asked {
			s.stop = t
		}
	}
}

// vllmFaults takes what the log's own fold calls the faults of the start: it
// knows the phase, drops repeats of other processes, and adds those that figures
// alone tell.
func (w *work) vllmFaults(s *section, st *vllm.Start, t time.Time) {
	for ; w.vllm.taken < len(st.Faults); w.vllm.taken++ {
		f := st.Faults[w.vllm.taken]
		rank := f.Worker
		if rank == "" && f.Proc != "APIServer" {
			rank = f.Proc
		}
		at, ok := w.vllmStamp(f.At)
		if !ok || at.After(t) {
			at = t
		}
		w.fault(s, metrics.CauseFact{Class: f.Class, Detail: f.Detail, Phase: f.Phase, Rank: rank, At: at, LineNo: f.Line}, sglang.Weight(f.Weight))
	}
}

// engineWaits notes that the engine got no answer from its workers for another while.
func (w *work) engineWaits(s *section, e *vllm.Event, t time.Time) {
	waited := max(e.Wait.Seconds.V, 0)
	if s.stuckFor == 0 {
		s.stuck = metrics.CauseFact{Class: metrics.CauseServerHung, At: t.Add(-time.Duration(waited * float64(time.Second))), Rank: e.Proc}
		if w.numbered {
			s.stuck.LineNo = e.Line
		}
	}
	s.stuckFor += waited
	s.stuck.Detail = fmt.Sprintf("the engine has waited for its workers for %.0f s", s.stuckFor)
	s.stuck.Line = s.stuck.Detail
}

const vllmEvery = 10 * time.Second

func (w *work) vllmBatch(s *section, bt *vllm.Batch, t time.Time) {
	r := reading{running: same(bt.Running), queued: same(bt.Waiting), usage: same(bt.Usage()), tps: same(bt.GenTPS)}
	if s.capacity.Known && r.usage.Known && bt.Engines <= 1 {
		r.tokens = sglang.Num{V: r.usage.V * s.capacity.V, Known: true} // the line tells only the share
	}
	if bt.InputTPS.Known {
		s.input = metrics.Known(bt.InputTPS.V, t, vllmEvery, sourceLog)
		w.in.Add(t, bt.InputTPS.V)
		if bt.InputTPS.V > 0 {
			s.level.started = t
		}
	}
	if bt.Running.V == 0 && bt.GenTPS.V == 0 {
		s.running = metrics.Known(0, t, vllmEvery, sourceLog)
		s.queued = metrics.Known(bt.Waiting.V, t, vllmEvery, sourceLog)
		s.gen = metrics.Known(0, t, vllmEvery, sourceLog)
		w.gen.Add(t, 0)
		w.running.Add(t, 0)
		return
	}
	if !bt.Still() {
		s.lastBatch, s.stuckFor = t, 0
	}
	w.take(s, int16(max(bt.Engine, 0)), r, t)
	if bt.Still() {
		s.lastDecode = s.lastBatch // requests run and no token moves: no sign of life
	}
}

// vllmStart copies what the log tells about the start itself.
func (w *work) vllmStart(s *section, st *vllm.Start, t time.Time) {
	s.id, s.version = st.ID, st.Version
	if st.Flags != nil {
		s.flags = st.Flags
		s.kvDtype = st.Flags["kv_cache_dtype"]
	}
	s.modelName = shortModel(st.Model)
	if st.Port > 0 {
		s.port = st.Port
	}
	s.capacity, s.context = same(st.Capacity), same(st.MaxLen)
	s.kvGB, s.freeGB = same(st.KVGB), same(st.FreeGB)
	if s.ready.IsZero() && st.Phase != "" {
		s.phases.enter(st.Phase, t)
		s.phases.done, s.phases.total = st.Done, st.Total
	}
	if !st.Ready && !s.ready.IsZero() && st.Began && s.lastBatch.IsZero() {
		s.ready = time.Time{} // the address turned out to be taken after the start was called complete
	}
	if st.Ready && s.ready.IsZero() && st.Began {
		s.ready = t
		s.phases.enter("ready", t)
		w.board.event(metrics.Event{At: t, Kind: "ready", Text: fmt.Sprintf("server ready after %s", metrics.Age(t.Sub(s.at))), Ref: w.path})
	}
}

// promFirst tells whether /metrics speaks before the log: with several API
// servers, the default under data parallelism, vLLM prints no line of figures.
func (s *serverState) promFirst(sec *section) bool {
	return s.s.Engine == "vllm" && s.prom.known && (s.s.DP > 1 || sec != nil && sec.noStats)
}

// fillVLLM completes a vLLM server: what its log and /metrics tell together.
func (b *Board) fillVLLM(out *metrics.Server, s *serverState, sec *section) {
	if s.s.Engine != "vllm" {
		return
	}
	v := &s.prom.view
	if s.promFirst(sec) {
		out.Running = newer(b.now, s.prom.fig(v.Running), out.Running)
		out.Queued = newer(b.now, s.prom.fig(v.Queued), out.Queued)
		out.KVUsage = newer(b.now, s.prom.fig(v.KVUsage), out.KVUsage)
		out.KVTokens = newer(b.now, s.prom.fig(v.UsedTokens), out.KVTokens)
	}
	if !out.MaxRunning.Known {
		n := flagInt(out.Argv, "max-num-seqs")
		var f float64
		var ok bool
		if n == 0 && sec != nil {
			if f, ok = sec.flagNum("max_num_seqs"); ok {
				n = int(f)
			}
		}
		if n > 0 {
			out.MaxRunning = metrics.Fixed(float64(n), out.Started, "arguments")
		}
	}
	if !out.KVTokens.Known && out.KVUsage.Known && out.Capacity.Known {
		out.KVTokens = metrics.Known(out.KVUsage.V*out.Capacity.V, out.KVUsage.At, out.KVUsage.Every, out.KVUsage.Source)
	}
	if r := out.Running; !out.PerRequest.Known && out.KVTokens.Known && r.Known && r.V > 0 {
		out.PerRequest = metrics.Known(out.KVTokens.V/r.V, out.KVTokens.At, out.KVTokens.Every, out.KVTokens.Source)
	}
}

// takeModels reads vLLM's list of models, which tells model and context length.
func (s *serverState) takeModels(at time.Time, body []byte) error {
	i, err := prom.ParseInfo(body)
	if err != nil {
		return err
	}
	if i.Served != "" {
		s.info.model = shortModel(i.Served)
	}
	if i.ContextLen.OK {
		s.info.context = metrics.Fixed(i.ContextLen.V, at, sourceModels)
	}
	return nil
}

const sourceModels = "/v1/models"

// heartbeat judges a server by its counters alone: requests run, it is asked and
// answers, and no step was made for longer than a step can take.
func (s *serverState) heartbeat(now time.Time, ready time.Time) (since time.Time, hung bool) {
	p := &s.prom
	if !p.known || p.view.Running.V <= 0 || now.Sub(p.at) > loadsFresh {
		return time.Time{}, false
	}
	since = latest(p.moved, p.since, ready)
	return since, now.Sub(since) > silence
}
