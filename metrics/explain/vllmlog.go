package explain

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/vllm"
)

// vllmRun is one pass over a log.
type vllmRun struct {
	p                 vllm.Parser
	s                 vllm.State
	batches           int
	forward, backward int
	last              vllm.Stamp
	outer             time.Time
}

func (v *vllmRun) apply(e *vllm.Event) {
	v.s.Apply(e)
	if e.Kind == vllm.KindBatch {
		v.batches++
	}
	switch {
	case !e.Outer.IsZero():
		if !v.outer.IsZero() && e.Outer.Before(v.outer) {
			v.backward++
		} else if e.Outer.After(v.outer) {
			v.forward++
		}
		v.outer = e.Outer
	case e.At.Known:
		if d, ok := e.At.Sub(v.last); ok && d < 0 {
			v.backward++
		} else if d > 0 {
			v.forward++
		}
	}
	if e.At.Known {
		v.last = e.At
	}
}

func (v *vllmRun) against() bool { return v.backward >= 2 && v.backward > 2*v.forward }

func (r *Report) vllmLog(data []byte, rest io.Reader, named bool) error {
	v := &vllmRun{}
	err := stream(data, rest, func(b []byte) { v.p.Feed(b, v.apply) })
	v.p.Flush(v.apply)
	lines := int64(0)
	if rest == nil && v.against() {
		// A record of several lines is read only in its own order.
		turned := &vllmRun{}
		_ = stream(reversed(data), nil, func(b []byte) { turned.p.Feed(b, turned.apply) })
		turned.p.Flush(turned.apply)
		if !turned.against() {
			v, lines = turned, countLines(data)
			r.note("the file is newest first")
		}
	}
	s := &v.s
	line := func(n int64) int64 {
		if lines > 0 && n > 0 {
			n = lines + 1 - n
		}
		return r.lineNo(n)
	}
	if named {
		r.Engine = str("vllm")
	}
	r.vllmLevel(s)
	now := s.Now()
	for _, st := range s.Starts() {
		r.Starts = append(r.Starts, vllmStart(st, st == now, line))
	}
	job, _ := s.Job()
	if now == nil { // only companions of figures, bars or waiting workers
		now = &vllm.Start{}
		r.Starts = append(r.Starts, vllmStart(now, false, line))
	}
	r.Version = str(now.Version)
	r.Phase = str(now.Phase)
	r.CapacityTokens = known(now.Capacity.V, now.Capacity.Known && now.Capacity.V > 0)
	r.ContextLen = known(now.MaxLen.V, now.MaxLen.Known)
	if n, ferr := strconv.ParseFloat(now.Flags["max_num_seqs"], 64); ferr == nil {
		r.MaxRunningRequests = known(n, true)
	}
	fig := figures(r.Starts[len(r.Starts)-1].Figures)
	fig.put("batch_lines", float64(v.batches), true)
	switch {
	case now.Total > 0 && !now.Ready:
		r.Progress = Progress{whole(int64(now.Done)), whole(int64(now.Total))}
	case job.Total > 0:
		r.Progress = Progress{whole(int64(job.Done)), whole(int64(job.Total))}
	}
	if job.Total > 0 {
		fig.put("job_elapsed_s", job.Elapsed.V, job.Elapsed.Known)
		fig.put("job_left_s", job.Left.V, job.Left.Known)
		fig.put("job_rate", job.Rate.V, job.Rate.Known)
	}
	r.vllmFigures(s, fig)
	for _, f := range now.Causes(s.NewestFirst() && lines == 0) {
		rank := f.Rank.String()
		if rank == "" {
			rank = f.Worker
		}
		if rank == "" && f.Proc != "APIServer" {
			rank = f.Proc
		}
		r.cause(f.Class, f.Detail, rank, line(f.Line), f.Primary)
		faultFigures(f, fig)
		if f.Primary {
			r.advise(f.Advice())
		}
	}
	r.vllmState(s, now, job)
	return err
}

func (r *Report) vllmLevel(s *vllm.State) {
	l, d := s.Level(), s.Dump()
	or := func(a, b vllm.Num) *float64 {
		if !a.Known {
			a = b
		}
		return known(a.V, a.Known)
	}
	r.Running, r.Queued, r.KVUsage = or(l.Running, d.Running), or(l.Queued, d.Waiting), or(l.Usage, d.KVUsage)
	r.GenTPS, r.InputTPS = known(l.GenTPS.V, l.GenTPS.Known), known(l.InputTPS.V, l.InputTPS.Known)
	r.KVTokens = known(l.Tokens.V, l.Tokens.Known)
	r.AcceptLen = known(l.AcceptLen.V, l.AcceptLen.Known)
}

func (r *Report) vllmFigures(s *vllm.State, fig figures) {
	l, d := s.Level(), s.Dump()
	spec, _ := s.Spec()
	prefix := s.Prefix()
	for _, f := range []struct {
		name string
		v    vllm.Num
	}{
		{"swapped", l.Swapped}, {"prefix_hit", l.PrefixHit}, {"mm_hit", l.MMHit}, {"accept_rate", l.AcceptRate},
		{"prefix_hit_gpu", prefix.GPU}, {"prefix_hit_cpu", prefix.CPU}, {"spec_efficiency", spec.Efficiency}, {"spec_accepted", spec.Accepted},
		{"spec_drafted", spec.Drafted}, {"spec_emitted", spec.Emitted}, {"scheduled_tokens", d.Scheduled},
	} {
		fig.put(f.name, f.v.V, f.v.Known)
	}
	engines := s.Engines()
	fig.put("engines", float64(len(engines)), len(engines) > 0 && engines[0] >= 0)
	for _, n := range engines {
		b, _, _ := s.Last(n)
		fig.put("gpu_kv_usage", b.KVUsage.V, b.KVUsage.Known)
		fig.put("cpu_kv_usage", b.CPUUsage.V, b.CPUUsage.Known)
		fig.put("preemptions", b.Preemptions.V, b.Preemptions.Known)
		fig.put("deferred", b.Deferred.V, b.Deferred.Known)
		fig.put("external_hit", b.ExternalHit.V, b.ExternalHit.Known)
		if n >= 0 {
			fig.put(fmt.Sprintf("engine%03d_running", n), b.Running.V, b.Running.Known)
		}
	}
	for i, c := range s.Counts() {
		fig.put(fmt.Sprintf("counts%d_waiting", i), float64(c.Waiting), true)
		fig.put(fmt.Sprintf("counts%d_running", i), float64(c.Running), true)
	}
	fig.put("preemptions", float64(s.Preemptions()), s.Preemptions() > 0)
	for _, status := range []int{200, 400, 401, 404, 422, 500, 503} {
		if n := s.HTTPCount(status); n > 0 {
			fig.put(fmt.Sprintf("http_%d", status), float64(n), true)
		}
	}
	waits, seconds, _ := s.Waiting()
	fig.put("shm_waits", float64(waits), waits > 0)
	fig.put("shm_wait_s", seconds, waits > 0)
}

func faultFigures(f vllm.FaultAt, fig figures) {
	for _, n := range []struct {
		name string
		v    vllm.Num
	}{
		{"fault_free_gib", f.FreeGB}, {"fault_total_gib", f.TotalGB}, {"fault_need_gib", f.NeedGB}, {"fault_utilization", f.Util},
		{"fault_max_len", f.MaxLen}, {"fault_limit_ms", f.LimitMs}, {"fault_ran_ms", f.RanMs}, {"fault_exit", f.Exit},
	} {
		if _, there := fig[n.name]; !there {
			fig.put(n.name, n.v.V, n.v.Known)
		}
	}
	fig.put("fault_port", float64(f.Port), f.Port > 0)
	fig.put("fault_holder_pid", float64(f.HolderPID), f.HolderPID > 0)
}

const (
	// stillLines is how many lines in a row with requests and no token are a hang.
	stillLines = 2
	// hungWaits is how many minutes of waiting workers are one.
	hungWaits = 3
)

func (r *Report) vllmState(s *vllm.State, now *vllm.Start, job vllm.Progress) {
	l := s.Level()
	fatal := slices.ContainsFunc(now.Faults, func(f vllm.FaultAt) bool { return f.Weight <= vllm.Consequence })
	waits, seconds, _ := s.Waiting()
	compiling := now.Began && !now.Ready && now.Phase == vllm.PhaseCompile
	hung := !fatal && (l.Still >= stillLines || waits >= hungWaits && !compiling || waits >= 2 && l.Running.V > 0)
	state := metrics.ServerUnknown
	switch {
	case fatal && !now.Asked:
		state = metrics.ServerDown
	case now.Stopped:
		state = stateStopped
	case now.Stopping:
		state = metrics.ServerDraining
	case hung:
		state = metrics.ServerHung
	case now.Began && !now.Ready:
		state = metrics.ServerStarting
	case l.Engines > 0 && l.Running.V+l.Queued.V == 0 && l.GenTPS.V == 0:
		state = metrics.ServerIdle
	case l.Engines > 0 || now.Ready:
		state = metrics.ServerServing
	}
	r.State = str(string(state))
	if hung {
		title := fmt.Sprintf("hung: %.0f running, no token in %d lines of figures", l.Running.V, l.Still)
		if l.Still < stillLines {
			title = fmt.Sprintf("hung: workers have waited for the engine for %.0f s", seconds)
			if job.Total > 0 {
				title += fmt.Sprintf(", %d of %d prompts", job.Done, job.Total)
			}
		}
		r.sign("server-hung", metrics.SeverityCritical, metrics.CauseServerHung, title, "requests are in the engine and no token moves; /health answers 200 all the same", 0)
	}
	if s.Repeating() && !fatal {
		r.sign("repetition", metrics.SeverityWarning, metrics.CauseRepetition, "a request seems to repeat itself: every draft is accepted, at a constant rate",
			"three lines in a row tell the same number of accepted tokens and 100 % acceptance", 0)
	}
	if !fatal && l.Usage.V >= fullPool && l.Queued.V > 0 {
		r.find("kv-full", metrics.SeverityInfo, metrics.CauseKVThrashing,
			fmt.Sprintf("the KV cache is full (%.1f %%) and %.0f requests wait", 100*l.Usage.V, l.Queued.V),
			"the KV cache limits how many requests run", "raise --gpu-memory-utilization, or send fewer requests at once")
	}
	if now.Ready && !fatal && l.Engines == 0 && now.Began && !now.Stopping {
		r.find("no-figures", metrics.SeverityInfo, metrics.CauseLogStopped, "the server printed its address, and the log has no line of figures after it",
			"the log's writer may have died, or nothing was asked yet, or several API servers print no figures", "ask /health and /metrics before calling it dead")
	}
}

func vllmStart(st *vllm.Start, newest bool, line func(int64) int64) Start {
	out := Start{
		Line: line(st.Line), Phase: str(st.Phase), Phases: []Phase{}, Version: str(st.Version), Model: str(st.Model),
		Flags: map[string]string{}, Figures: map[string]float64{},
		Capacity: known(st.Capacity.V, st.Capacity.Known && st.Capacity.V > 0), ContextLen: known(st.MaxLen.V, st.MaxLen.Known),
		PeakTPS: known(st.PeakGen.V, st.PeakGen.Known && st.PeakGen.V > 0),
	}
	if st.Began {
		out.At = str(stampText(st.At.Known, st.At.String()))
	}
	if st.Ready && st.Began {
		out.ReadyAt = str(stampText(st.ReadyAt.Known, st.ReadyAt.String()))
		if d, ok := st.ReadyAt.Sub(st.At); ok {
			out.ReadyS = known(d, d >= 0)
		}
	}
	for k, v := range st.Flags {
		if len(out.Flags) < 512 {
			out.Flags[clean(k)] = clean(v)
		}
	}
	if n, err := strconv.ParseFloat(st.Flags["max_num_seqs"], 64); err == nil {
		out.MaxRunning = known(n, true)
	}
	for _, t := range st.Took {
		out.Phases = append(out.Phases, Phase{t.Name, known(t.Seconds.V, t.Seconds.Known)})
	}
	fig := figures(out.Figures)
	for _, f := range []struct {
		name string
		v    vllm.Num
	}{
		{"gpu_blocks", st.Blocks}, {"max_concurrency", st.Concurrency}, {"max_num_batched_tokens", st.Batched}, {"weights_s", st.WeightsS},
		{"model_load_s", st.LoadS}, {"weights_gib", st.WeightGB}, {"kv_gib", st.KVGB}, {"graphs_gib", st.GraphGB}, {"activation_gib", st.PeakGB},
		{"free_gib", st.FreeGB}, {"total_gib", st.TotalGB}, {"utilization", st.Util}, {"capture_s", st.CaptureS}, {"init_s", st.InitS},
		{"peak_running", st.PeakRunning},
	} {
		fig.put(f.name, f.v.V, f.v.Known)
	}
	fatal := false
	for _, f := range st.Causes(false) {
		if f.Primary {
			out.Cause = str(string(f.Class))
		}
		fatal = fatal || f.Weight <= vllm.Consequence
	}
	out.Outcome = outcome((st.Stopping || st.Stopped) && (st.Asked || !fatal), fatal && !st.Asked, st.Ready || !st.Began, newest, st.Began || st.LastWork.Known || st.Ready)
	return out
}
