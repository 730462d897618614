package sglang

import (
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// FaultAt is a fault with its place in the log.
type FaultAt struct {
	Fault
	Line    int64
	At      Stamp
	Outer   time.Time
	Rank    Rank
	Primary bool // the cause; the others are its consequences
}

const maxFaults = 64

func (s *State) applyFault(ev *Event) {
	st := s.current(ev)
	f := FaultAt{Fault: *ev.Fault, Line: ev.Line, At: ev.At, Outer: ev.Outer, Rank: ev.Rank}
	if !f.At.Known {
		f.At = s.newest
	}
	if f.Phase == "" {
		f.Phase = s.phaseAt(st, ev.Rank)
	}
	if f.Class == metrics.CauseCUDAOOM && f.Phase == PhaseCapture {
		f.Class = metrics.CauseCaptureOOM
	}
	serving := st.Ready || st.midRun || len(s.groups) > 0
	switch {
	case f.Class == metrics.CauseSchedulerException && f.Phase == PhaseStartup:
		f.Class = metrics.CauseStartupFailed
	case f.Class == metrics.CauseStartupFailed && f.Weight == Vague && serving:
		return // a request's or a client's exception; the server goes on
	}
	if st.Stopping && f.Weight < Consequence {
		f.Weight = Consequence // what breaks while the server is taken down
	}
	if len(st.Faults) >= maxFaults {
		return
	}
	st.Faults = append(st.Faults, f)
}

// phaseAt is what the server was doing when a fault came that does not say it itself.
func (s *State) phaseAt(st *Start, rank Rank) string {
	switch st.Phase {
	case PhaseGraphs, PhasePiecewise:
		return PhaseCapture
	}
	if g := s.group(rank.DP); g != nil {
		return g.phase()
	}
	if len(s.groups) > 0 {
		return s.groups[0].phase()
	}
	if st.Began && !st.Ready {
		return PhaseStartup
	}
	return ""
}

func (g *group) phase() string {
	switch {
	case !g.last.Decode:
		return PhasePrefill
	case g.last.Running.Known && g.last.Running.V == 0:
		return PhaseIdle
	}
	return PhaseDecode
}

// Causes are the faults of a start with the primary one marked: the first that
// is fatal, else the first that is vague, else the first consequence. Remarks
// are never primary unless nothing else was said. newestFirst is for a log that
// runs against time.
func (st *Start) Causes(newestFirst bool) []FaultAt {
	out := make([]FaultAt, len(st.Faults))
	copy(out, st.Faults)
	best := -1
	for i, f := range out {
		if best < 0 || f.Weight < out[best].Weight || newestFirst && f.Weight == out[best].Weight {
			best = i
		}
	}
	if best < 0 {
		return out
	}
	// The exception that a failed capture wraps is its first half.
	if out[best].Class == metrics.CauseCUDAOOM {
		for i, f := range out {
			if f.Class == metrics.CauseCaptureOOM && f.Rank == out[best].Rank && f.Line-out[best].Line < 200 {
				best = i
				break
			}
		}
	}
	p := &out[best]
	p.Primary = true
	if !p.Rank.Known() {
		// Its own head may stand beside it, without words of its own.
		for _, f := range out {
			if f.Bare && f.Rank.Known() {
				p.Rank = f.Rank
				break
			}
		}
	}
	if p.Bare {
		for _, f := range out {
			if f.Weight == Fatal {
				p.Detail = f.Detail
				break
			}
		}
	}
	return out
}

// Advice is the direction of the cure for a fault: opposite for memory that ran
// out at start-up, where the pool has to grow, and while serving, where it has
// to shrink.
func (f FaultAt) Advice() string {
	if f.Class == metrics.CauseCUDAOOM {
		switch f.Phase {
		case PhasePrefill:
			return "Lower --chunked-prefill-size (4096, then 2048), or --mem-fraction-static by 0.02; the KV pool was not the limit."
		case PhaseDecode:
			return "Lower --max-running-requests, or --mem-fraction-static by 0.02; the KV pool was not the limit."
		}
	}
	info, _ := f.Class.Info()
	return info.Advice
}
