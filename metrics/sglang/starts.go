package sglang

import "strconv"

// Names of the phases of a start, in order.
const (
	PhaseStarting  = "starting"
	PhaseInit      = "init distributed"
	PhaseWeights   = "loading weights"
	PhaseKV        = "allocating KV"
	PhaseGraphs    = "capturing graphs"
	PhasePiecewise = "capturing piecewise graphs"
	PhaseHostCache = "allocating host cache"
	PhaseWarmup    = "warming up"
	PhaseReady     = "ready"
)

var phaseOrder = map[string]int{
	PhaseStarting: 0, PhaseInit: 1, PhaseWeights: 2, PhaseKV: 3, PhaseGraphs: 4, PhasePiecewise: 5,
	PhaseHostCache: 6, PhaseWarmup: 7, PhaseReady: 8,
}

// Start is one start of the server as the log tells it.
type Start struct {
	ID    string // of a restart of ours, "" otherwise
	Line  int64
	At    Stamp
	Began bool              // a start-up line was seen; else the log begins in mid-run
	Flags map[string]string // effective server arguments, masked; nil unknown

	Phase       string
	PhaseAt     Stamp
	Done, Total int // progress within the phase; Total 0 unknown
	ProgressAt  Stamp
	Took        []Took
	Ready       bool
	ReadyAt     Stamp

	Capacity, MaxRunning, ContextLen Num
	ChunkedPrefill, MaxPrefill       Num
	HeadroomGiB                      Num // available_gpu_mem of the summary line
	ProfiledTokens                   Num
	PoolTokens                       Num
	KGB, VGB, KVGB                   Num // GiB a rank
	KVDtype                          string
	WeightsGB, WeightsS              Num // GiB a rank, s
	AvailLow, AvailHigh              Num // GiB free before the weights, over ranks
	AvailGB                          Num // newest free memory that was told
	CaptureS                         Num
	HostGB                           Num // pinned host cache over all ranks, 1e9 bytes
	HostRanks                        int
	HiCache                          Num
	Model                            string
	PID, Port                        int

	LastWork             Stamp // newest batch line that was no probe
	PeakGen, PeakRunning Num
	PeakAt               Stamp
	Retractions          int
	Faults               []FaultAt
	Stopping, Stopped    bool
	StopSignal           string
	Remaining            Num

	ranks  map[Rank]string
	midRun bool // batches came before any start-up line
}

// Took is one finished phase.
type Took struct {
	Name    string
	Seconds Num
}

const (
	maxStarts = 256
	maxRanks  = 4096
)

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
	st := &Start{Line: ev.Line, At: ev.At, PhaseAt: ev.At}
	if len(s.starts) > 0 { // before the first, nothing belongs to another start
		s.groups, s.jit, s.dump, s.health, s.retr = nil, false, Dump{}, Health{}, retractions{}
	}
	s.starts = append(s.starts, st)
	return st
}

// beginsStart tells whether a start-up line belongs to a new start.
func (s *State) beginsStart(ev *Event) bool {
	now := s.Now()
	if now == nil {
		return true
	}
	switch ev.Startup.Step {
	case StepArgs:
		// Behind the separator or the first noise of the same start it is no new one.
		return now.Flags != nil || now.midRun || now.Began && phaseOrder[now.Phase] > 0 || s.crashed(now)
	case StepDistBegin, StepDistEnd, StepWeightsBegin:
		return now.midRun || now.Ready || s.crashed(now) && now.Began
	}
	return false
}

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
	s.version(u.since, u.until)
	st := s.Now()
	if !st.At.Known {
		st.At = ev.At
	}
	if u.Step != StepJIT {
		st.Began = true
	}
	st.take(ev, u)
	if u.Step == StepJIT {
		s.jit = true
	}
	if phase := phaseOf(u); phase != "" {
		st.moved(ev, phase)
	}
	if u.Total > 0 && u.Step != StepJIT {
		st.Done, st.Total, st.ProgressAt = u.Done, u.Total, ev.At
	}
	if u.Step == StepReady {
		st.Ready, st.ReadyAt = true, ev.At
	}
	return a
}

// take keeps the figures of a start-up line.
func (st *Start) take(ev *Event, u *Startup) {
	keep := func(dst *Num, v Num) {
		if v.Known {
			*dst = v
		}
	}
	keep(&st.AvailGB, u.AvailGB)
	switch u.Step {
	case StepArgs:
		st.Flags = u.Flags
		st.Model = u.Flags["served_model_name"]
		if st.Model == "" || st.Model == "None" {
			st.Model = u.Flags["model_path"]
		}
		if port, err := strconv.Atoi(u.Flags["port"]); err == nil {
			st.Port = port
		}
	case StepWeightsBegin:
		if v := u.AvailGB; v.Known {
			if !st.AvailLow.Known || v.V < st.AvailLow.V {
				st.AvailLow = v
			}
			if !st.AvailHigh.Known || v.V > st.AvailHigh.V {
				st.AvailHigh = v
			}
		}
	case StepWeightsEnd:
		keep(&st.WeightsGB, u.UsedGB)
		keep(&st.WeightsS, u.Elapsed)
	case StepProfiled:
		keep(&st.ProfiledTokens, u.Tokens)
	case StepKVDtype:
		st.KVDtype = u.Dtype
	case StepKVAllocated:
		if u.Label == "mamba" {
			break
		}
		keep(&st.PoolTokens, u.Tokens)
		keep(&st.KGB, u.KGB)
		keep(&st.VGB, u.VGB)
		keep(&st.KVGB, u.KVGB)
		keep(&st.Capacity, u.Tokens)
		if u.Dtype != "" {
			st.KVDtype = u.Dtype
		}
	case StepCaptureEnd:
		keep(&st.CaptureS, u.Elapsed)
	case StepSummary:
		keep(&st.Capacity, u.Tokens)
		keep(&st.ChunkedPrefill, u.ChunkedPrefill)
		keep(&st.MaxPrefill, u.MaxPrefill)
		keep(&st.MaxRunning, u.MaxRunning)
		keep(&st.ContextLen, u.ContextLen)
		if u.Label != "cpu" {
			keep(&st.HeadroomGiB, u.AvailGB)
		}
	case StepHostCache:
		add(&st.HostGB, u.HostGB)
		st.HostRanks++
		st.HiCache = num(1)
	case StepTreeCache:
		keep(&st.HiCache, u.HiCache)
	case StepProcess:
		st.PID = u.PID
	case StepListening:
		st.Port = u.Port
	}
}

// phaseOf is the phase that a start-up line puts its rank in.
func phaseOf(u *Startup) string {
	switch u.Step {
	case StepArgs:
		return PhaseStarting
	case StepDistBegin, StepDistEnd:
		return PhaseInit
	case StepWeightsBegin, StepWeightsProgress:
		return PhaseWeights
	case StepWeightsEnd, StepKVDtype, StepKVAllocated, StepPoolEnd:
		return PhaseKV
	case StepCaptureBegin, StepCaptureProgress:
		if u.Label == "piecewise" {
			return PhasePiecewise
		}
		return PhaseGraphs
	case StepHostCache:
		return PhaseHostCache
	case StepListening, StepWarmup:
		return PhaseWarmup
	case StepReady:
		return PhaseReady
	}
	return ""
}

// moved puts a rank into a phase. The start is in the earliest phase that any
// of its ranks is in: ranks print in any order and pipeline stages differ.
func (st *Start) moved(ev *Event, phase string) {
	if st.Ready && phase != PhaseReady {
		return
	}
	if st.ranks == nil {
		st.ranks = map[Rank]string{}
	}
	switch {
	case phase == PhaseWarmup || phase == PhaseReady:
		clear(st.ranks) // the whole server has come this far
	case ev.Rank == NoRank && len(st.ranks) > 0 && ev.Startup.Total > 0:
		return // a bar without a rank tells progress, not a phase
	case len(st.ranks) >= maxRanks:
		return
	case ev.Rank != NoRank:
		delete(st.ranks, NoRank)
	}
	st.ranks[ev.Rank] = phase
	for _, p := range st.ranks {
		if phaseOrder[p] < phaseOrder[phase] {
			phase = p
		}
	}
	st.enter(ev, phase)
}

func (st *Start) enter(ev *Event, phase string) {
	if phase == st.Phase {
		return
	}
	if st.Phase != "" && len(st.Took) < 64 {
		took := Took{Name: st.Phase}
		if d, ok := ev.At.Sub(st.PhaseAt); ok && d >= 0 {
			took.Seconds = num(d)
		}
		st.Took = append(st.Took, took)
	}
	st.Phase, st.PhaseAt, st.Done, st.Total = phase, ev.At, 0, 0
}

// serving notes that requests are worked on. A log that begins in mid-run is
// ready, and so is a start whose last lines are missing; the batches of a
// warm-up are not.
func (st *Start) serving(ev *Event, b *Batch) {
	if !st.Began {
		st.midRun = true
	}
	if st.Began && !st.Ready && b.Decode && st.Phase != PhaseWarmup {
		st.Ready, st.ReadyAt = true, ev.At
		clear(st.ranks)
		st.enter(ev, PhaseReady)
	}
}
