package vllm

import (
	"strconv"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// Names of the phases of a start, in order.
const (
	PhaseStarting = "starting"
	PhaseInit     = "init distributed"
	PhaseWeights  = "loading weights"
	PhaseCompile  = "compiling"
	PhaseProfile  = "profiling memory"
	PhaseKV       = "allocating KV"
	PhaseGraphs   = "capturing graphs"
	PhaseListen   = "starting HTTP"
	PhaseReady    = "ready"
)

var phaseOrder = map[string]int{
	PhaseStarting: 0, PhaseInit: 1, PhaseWeights: 2, PhaseCompile: 3, PhaseProfile: 4, PhaseKV: 5, PhaseGraphs: 6, PhaseListen: 7, PhaseReady: 8,
}

var stepPhases = map[Step]string{
	StepVersion: PhaseStarting, StepArgs: PhaseStarting, StepModelLen: PhaseStarting, StepChunked: PhaseStarting, StepEngineInit: PhaseStarting,
	StepDist: PhaseInit, StepWeightsBegin: PhaseWeights, StepDownloaded: PhaseWeights, StepWeightsEnd: PhaseWeights,
	StepModelLoaded: PhaseCompile, StepCompile: PhaseCompile, StepCompileEnd: PhaseProfile, StepProfile: PhaseProfile,
	StepGraphEstimate: PhaseProfile, StepKVMemory: PhaseKV, StepBlocks: PhaseKV, StepKVSize: PhaseKV, StepConcurrency: PhaseKV,
	StepCaptureBegin: PhaseGraphs, StepCaptureEnd: PhaseGraphs, StepEngineReady: PhaseListen, StepListening: PhaseListen, StepReady: PhaseReady,
}

// Start is one start of the server as the log tells it. Of figures that each
// worker prints, the largest is kept.
type Start struct {
	ID      string // of a restart of ours, "" otherwise
	Line    int64
	At      Stamp
	Began   bool // a start-up line was seen; else the log begins in mid-run
	Version string
	Model   string
	Flags   map[string]string // arguments that differ from the defaults, masked; nil unknown

	Phase       string
	PhaseAt     Stamp
	Done, Total int // progress within the phase; Total 0 unknown
	ProgressAt  Stamp
	Took        []Took
	Ready       bool // it answers, or has printed the address at which it is about to
	ReadyAt     Stamp

	Capacity    Num // tokens of the KV pool, over all engines that said so
	Blocks      Num // V0
	MaxLen      Num // context length
	Concurrency Num // requests of full length that fit
	Batched     Num // max_num_batched_tokens
	WeightsS    Num // s to read the files
	LoadS       Num // s to load the model
	WeightGB    Num // GiB a worker
	KVGB        Num // GiB a worker; negative where the weights left no room
	GraphGB     Num
	PeakGB      Num
	FreeGB      Num // free at start, GiB
	TotalGB     Num
	Util        Num // gpu_memory_utilization
	KVBytes     Num
	CaptureS    Num
	InitS       Num
	PID, Port   int
	NoStats     bool // no line of figures will come by itself

	LastWork                 Stamp
	PeakGen, PeakRunning     Num
	PeakAt                   Stamp
	Faults                   []FaultAt
	Stopping, Asked, Stopped bool
	portInUse                bool
	engineTokens             map[int]float64
}

// Took is one finished phase.
type Took struct {
	Name    string
	Seconds Num
}

const maxStarts = 256

// Starts are the starts in the log, oldest first.
func (s *State) Starts() []*Start { return s.starts }

// Now is the newest start, nil before the first event.
func (s *State) Now() *Start {
	if len(s.starts) == 0 {
		return nil
	}
	return s.starts[len(s.starts)-1]
}

func (s *State) current(ev *Event) *Start {
	if len(s.starts) == 0 {
		s.newStart(ev)
	}
	return s.Now()
}

func (s *State) newStart(ev *Event) *Start {
	if len(s.starts) >= maxStarts {
		s.starts = append(s.starts[:0], s.starts[1:]...)
	}
	first := len(s.starts) == 0
	st := &Start{Line: ev.Line, At: ev.At, PhaseAt: ev.At}
	s.starts = append(s.starts, st)
	if !first { // what came before the first line of a start belongs to it
		s.engines, s.counts, s.dump, s.same = nil, nil, Dump{}, 0
		s.spec, s.prefix, s.waits, s.waitS = Spec{}, Prefix{}, 0, 0
	}
	return st
}

// beginsStart tells whether a start-up line belongs to a new start: the first
// lines of one, after a start that was beyond them.
func (s *State) beginsStart(ev *Event) bool {
	now := s.Now()
	if now == nil {
		return true
	}
	past := now.Ready || now.Stopped || !now.Began && !now.LastWork.zero() || phaseOrder[now.Phase] > 0 || s.crashed(now)
	switch ev.Startup.Step {
	case StepVersion:
		return past || now.Version != "" && ev.Startup.Version != "" && now.Flags != nil
	case StepArgs:
		return now.Flags != nil || past
	case StepEngineInit:
		return now.Ready || now.Stopped || s.crashed(now) && phaseOrder[now.Phase] > 0
	}
	return false
}

func (s Stamp) zero() bool { return !s.Known }

// crashed tells whether a fault ended the start.
func (s *State) crashed(st *Start) bool {
	for _, f := range st.Faults {
		if f.Weight != Remark {
			return true
		}
	}
	return false
}

func (s *State) applyStartup(ev *Event) Applied {
	u := ev.Startup
	a := Applied{NewStart: s.beginsStart(ev)}
	if a.NewStart {
		s.newStart(ev)
	}
	st := s.Now()
	if !st.At.Known {
		st.At = ev.At
	}
	st.Began = true
	st.take(ev, u)
	if phase := stepPhases[u.Step]; phase != "" {
		st.moved(ev.At.or(s.newest), phase)
	}
	switch u.Step {
	case StepReady, StepListening:
		if !st.portInUse && !st.Ready {
			st.Ready, st.ReadyAt = true, ev.At.or(s.newest)
		}
	case StepBlocks, StepKVMemory:
		if u.Blocks.Known && u.Blocks.V == 0 || u.KVGB.Known && u.KVGB.V <= 0 {
			s.noRoom(ev)
		}
	}
	return a
}

func (s Stamp) or(t Stamp) Stamp {
	if s.Known {
		return s
	}
	return t
}

// noRoom raises what the engine is about to say: the weights left nothing.
func (s *State) noRoom(ev *Event) {
	st := s.Now()
	for _, f := range st.Faults {
		if f.Class == metrics.CauseStartupNoKVMemory {
			return
		}
	}
	detail := "the memory budget leaves no KV block"
	if k := ev.Startup.KVGB; k.Known {
		detail = "the memory budget leaves " + strconv.FormatFloat(k.V, 'f', -1, 64) + " GiB for the KV cache"
	}
	s.fault(st, ev, Fault{Class: metrics.CauseStartupNoKVMemory, Weight: Fatal, Phase: PhaseStartup, Detail: detail})
}

// take keeps the figures of a start-up line.
func (st *Start) take(ev *Event, u *Startup) {
	keep := func(dst *Num, v Num) {
		if v.Known {
			*dst = v
		}
	}
	most := func(dst *Num, v Num) {
		if v.Known && (!dst.Known || v.V > dst.V) {
			*dst = v
		}
	}
	if u.Version != "" {
		st.Version = u.Version
	}
	if u.Model != "" {
		st.Model = u.Model
	}
	if u.Flags != nil {
		st.Flags = u.Flags
		if port, err := strconv.Atoi(u.Flags["port"]); err == nil {
			st.Port = port
		}
	}
	if u.Port > 0 {
		st.Port = u.Port
	}
	if u.PID > 0 {
		st.PID = u.PID
	}
	keep(&st.MaxLen, u.MaxLen)
	keep(&st.Batched, u.Batched)
	most(&st.WeightGB, u.WeightGB)
	most(&st.PeakGB, u.PeakGB)
	most(&st.GraphGB, u.GraphGB)
	keep(&st.FreeGB, u.FreeGB)
	keep(&st.TotalGB, u.TotalGB)
	keep(&st.Util, u.Util)
	keep(&st.KVBytes, u.KVBytes)
	keep(&st.Blocks, u.Blocks)
	if u.KVGB.Known && (!st.KVGB.Known || u.KVGB.V < st.KVGB.V) {
		st.KVGB = u.KVGB // the tightest worker decides
	}
	switch u.Step {
	case StepWeightsEnd:
		most(&st.WeightsS, u.Elapsed)
	case StepModelLoaded:
		most(&st.LoadS, u.Elapsed)
	case StepCaptureEnd:
		most(&st.CaptureS, u.Elapsed)
	case StepEngineReady:
		most(&st.InitS, u.Elapsed)
	case StepKVSize:
		st.capacity(int(ev.Rank.DP), u.Tokens)
		keep(&st.Concurrency, u.Concurrency)
	case StepConcurrency:
		keep(&st.Concurrency, u.Concurrency)
		if !st.Capacity.Known && u.MaxLen.Known && u.Concurrency.Known {
			st.capacity(int(ev.Rank.DP), num(u.MaxLen.V*u.Concurrency.V)) // V0 prints blocks, not tokens
		}
	case StepNoStats:
		st.NoStats = true
	}
}

// capacity sums the pools of data parallel engines; an engine says its own once.
func (st *Start) capacity(engine int, tokens Num) {
	if !tokens.Known {
		return
	}
	if st.engineTokens == nil {
		st.engineTokens = map[int]float64{}
	}
	if len(st.engineTokens) < maxEngines {
		st.engineTokens[engine] = tokens.V
	}
	total := 0.0
	for _, t := range st.engineTokens {
		total += t
	}
	st.Capacity = num(total)
}

// moved notes a phase; phases of workers that lag behind do not lead back.
func (st *Start) moved(at Stamp, phase string) {
	if st.Phase != "" && phaseOrder[phase] <= phaseOrder[st.Phase] {
		return
	}
	if st.Phase != "" && len(st.Took) < 32 {
		t := Took{Name: st.Phase}
		if d, ok := at.Sub(st.PhaseAt); ok && d >= 0 {
			t.Seconds = num(d)
		}
		st.Took = append(st.Took, t)
	}
	st.Phase, st.PhaseAt = phase, at
	st.Done, st.Total = 0, 0
}

// serving notes figures: whatever the log has shown of the start, it is over.
func (st *Start) serving(ev *Event) {
	st.Ready = true
	if !st.ReadyAt.Known {
		st.ReadyAt = ev.At
	}
	st.moved(ev.At, PhaseReady)
}

// applyProgress sorts bars: of the start-up, or of an offline client.
func (s *State) applyProgress(ev *Event) {
	pr := ev.Progress
	phase := ""
	switch {
	case strings.Contains(pr.Label, "shards") || strings.HasPrefix(pr.Label, "Loading") || strings.Contains(pr.Label, "safetensors") ||
		strings.HasPrefix(pr.Label, "Fetching ") || strings.HasPrefix(pr.Label, "Downloading"):
		phase = PhaseWeights
	case strings.Contains(pr.Label, "warmup") || strings.Contains(pr.Label, "DeepGEMM") || strings.HasPrefix(pr.Label, "Compiling"):
		phase = PhaseCompile
	case strings.HasPrefix(pr.Label, "Capturing") || strings.Contains(pr.Label, "cudagraph"):
		phase = PhaseGraphs
	}
	if phase == "" {
		s.job, s.jobAt = *pr, ev.At.or(s.newest)
		return
	}
	st := s.current(ev)
	at := ev.At.or(s.newest)
	st.Began = true
	st.moved(at, phase)
	if st.Phase == phase {
		st.Done, st.Total, st.ProgressAt = pr.Done, pr.Total, at
	}
}

// FaultAt is a fault with its place in the log.
type FaultAt struct {
	Fault
	Line    int64
	At      Stamp
	Outer   time.Time
	Proc    string
	Rank    Rank
	Primary bool // the cause; the others are its consequences
}

const maxFaults = 64

func (s *State) applyFault(ev *Event) {
	s.fault(s.current(ev), ev, *ev.Fault)
}

func (s *State) fault(st *Start, ev *Event, f Fault) {
	at := FaultAt{Fault: f, Line: ev.Line, At: ev.At.or(s.newest), Outer: ev.Outer, Proc: ev.Proc, Rank: ev.Rank}
	if at.Phase == "" {
		at.Phase = st.phaseOfFault()
	}
	switch {
	case at.Class == metrics.CauseCUDAOOM && at.Phase == PhaseCapture:
		at.Class = metrics.CauseCaptureOOM
	case at.Class == metrics.CauseSchedulerException && (at.Phase == PhaseStartup || at.Phase == PhaseCapture):
		at.Class = metrics.CauseStartupFailed
	case at.Class == metrics.CauseSchedulerException && st.Ready && strings.HasPrefix(strings.ToLower(at.Proc), "apiserver"):
		at.Weight = Remark // the front end goes on with the next request
	case at.Class == metrics.CausePortInUse:
		// uvicorn calls its start complete before it binds.
		st.portInUse, st.Ready = true, false
		at.Phase = PhaseStartup
	case at.Class == metrics.CauseEngineDead && st.Asked:
		at.Weight = Remark // a race of the shutdown
	}
	for i := range st.Faults {
		old := &st.Faults[i]
		if old.Class == at.Class && old.Detail == at.Detail {
			return // the same words again, by another process or raw
		}
	}
	if len(st.Faults) < maxFaults {
		st.Faults = append(st.Faults, at)
	}
}

func (st *Start) phaseOfFault() string {
	switch {
	case st.Phase == PhaseGraphs && !st.Ready:
		return PhaseCapture
	case st.Ready:
		return PhaseServing
	case st.Began:
		return PhaseStartup
	}
	return ""
}

// Causes are the faults of a start with the primary one marked: the first that
// is fatal, else the first that is vague, else the first consequence. newestFirst
// is for a log that runs against time.
func (st *Start) Causes(newestFirst bool) []FaultAt {
	out := append([]FaultAt(nil), st.Faults...)
	best := -1
	for i, f := range out {
		if best < 0 || f.Weight < out[best].Weight || newestFirst && f.Weight == out[best].Weight {
			best = i
		}
	}
	if best >= 0 && out[best].Weight != Remark {
		out[best].Primary = true
	}
	return out
}

// Advice is the direction of the cure for a fault.
func (f FaultAt) Advice() string {
	switch {
	case f.Class == metrics.CauseCUDAOOM && f.Phase == PhasePrefill:
		return "Lower --max-num-batched-tokens, or --gpu-memory-utilization by 0.02; the KV pool was not the limit."
	case f.Class == metrics.CauseCUDAOOM && (f.Phase == PhaseDecode || f.Phase == PhaseServing):
		return "Lower --gpu-memory-utilization by 0.02, or --max-num-seqs and --max-num-batched-tokens; the KV pool was not the limit."
	case f.Class == metrics.CauseStartupGPUOccupied:
		return "Find the process that holds the memory, often VLLM:: workers of the start before, and end it; do not lower --gpu-memory-utilization."
	case f.Class == metrics.CauseStartupKVTooSmall && f.MaxLen.Known:
		return "Set --max-model-len to " + strconv.FormatFloat(f.MaxLen.V, 'f', 0, 64) + " or less, or raise --gpu-memory-utilization."
	}
	info, _ := f.Class.Info()
	return info.Advice
}
