package board

import (
	"fmt"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/sglang"
	"github.com/runvigil/runvigil/metrics/vllm"
)

// vllmLog reads a vLLM log into the same sections: its own fold tells starts and
// phases, its lines of figures become readings.
type vllmLog struct {
	parser vllm.Parser
	state  vllm.State
	start  *vllm.Start
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
		if t, ok = w.vllmStamp(w.vllm.parser.Last()); !ok {
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
		w.vllm.start = st
	}
	s.reach(t)
	if st != nil {
		w.vllmStart(s, st, t)
	}
	switch e.Kind {
	case vllm.KindBatch:
		w.vllmBatch(s, e.Batch, t)
	case vllm.KindSpec:
		if e.Spec.AcceptLen.Known {
			s.accept = metrics.Known(e.Spec.AcceptLen.V, t, vllmEvery, sourceLog)
			w.accept.Add(t, e.Spec.AcceptLen.V)
		}
	case vllm.KindAccess:
		w.access(s, e.Access.Method, e.Access.Path, e.Access.Status, t)
	case vllm.KindFault:
		rank := e.Fault.Worker
		if rank == "" && e.Proc != "APIServer" {
			rank = e.Proc
		}
		w.fault(s, metrics.CauseFact{Class: e.Fault.Class, Detail: e.Fault.Detail, Phase: e.Fault.Phase, Rank: rank, At: t, LineNo: e.Line}, sglang.Weight(e.Fault.Weight))
	case vllm.KindStop:
		if s.stop.IsZero() && e.Stop.Asked {
			s.stop = t
		}
	}
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
		s.lastBatch = t
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
	if st.Ready && s.ready.IsZero() && st.Began {
		s.ready = t
		w.board.event(metrics.Event{At: t, Kind: "ready", Text: fmt.Sprintf("server ready after %s", metrics.Age(t.Sub(s.at))), Ref: w.path})
	}
}
