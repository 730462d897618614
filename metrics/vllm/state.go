package vllm

import (
	"slices"
	"time"
)

// State folds events into what a monitor asks of a log: the level over all data
// parallel engines, the starts with their phases, and the causes of crashes. The
// zero State is ready. It holds bounded memory and never looks at a clock.
type State struct {
	starts   []*Start
	engines  map[int]*engine // by number; -1 where lines name none
	newest   Stamp
	spec     Spec
	specAt   Stamp
	prefix   Prefix
	counts   []Count
	dump     Dump
	waits    int // lines in a row that wait for shared memory, since work was last seen
	waitS    float64
	waitAt   Stamp
	same     int // companion lines in a row with all drafts accepted at one rate
	job      Progress
	jobAt    Stamp
	http     map[int]int64
	preempts int64
	posts    int64 // POST requests that ended with 200

	forward, backward int
	lastOuter         time.Time
}

type engine struct {
	last Batch
	at   Stamp
	idle int // lines in a row with requests and no token
}

// Applied says how an event counts.
type Applied struct {
	// RateUsable: the throughput of this line is over its whole interval; of vLLM it always is.
	RateUsable bool
	// NewStart: a start of the server begins here.
	NewStart bool
}

const (
	maxEngines = 1024
	// An engine whose newest line is this much older than the newest of all is idle (s): lines come every 10 s.
	engineStale = 60.0
)

// Apply folds one event in.
func (s *State) Apply(ev *Event) Applied {
	s.order(ev)
	switch ev.Kind {
	case KindBatch:
		s.applyBatch(ev)
		return Applied{RateUsable: true}
	case KindSpec:
		s.applySpec(ev)
	case KindPrefix:
		s.prefix = *ev.Prefix
	case KindCounts:
		s.counts = append(s.counts[:0], ev.Counts...)
	case KindPreempt:
		s.preempts++
		if ev.Preempt.V > float64(s.preempts) {
			s.preempts = int64(ev.Preempt.V)
		}
	case KindStartup:
		return s.applyStartup(ev)
	case KindProgress:
		s.applyProgress(ev)
	case KindSeparator:
		s.newStart(ev).ID = ev.Separator
		return Applied{NewStart: true}
	case KindAccess:
		if s.http == nil {
			s.http = map[int]int64{}
		}
		s.http[ev.Access.Status]++
		if ev.Access.Method == "POST" && ev.Access.Status == 200 {
			s.posts++
		}
	case KindWait:
		s.waits++
		s.waitS += ev.Wait.Seconds.V
		s.waitAt = ev.At
	case KindFault:
		s.applyFault(ev)
	case KindStop:
		st := s.current(ev)
		st.Stopping = true
		st.Asked = st.Asked || ev.Stop.Asked
		st.Stopped = st.Stopped || ev.Stop.Done
	case KindDump:
		for _, f := range []struct{ to, from *Num }{{&s.dump.Running, &ev.Dump.Running}, {&s.dump.Waiting, &ev.Dump.Waiting},
			{&s.dump.KVUsage, &ev.Dump.KVUsage}, {&s.dump.Scheduled, &ev.Dump.Scheduled}} {
			if f.from.Known {
				*f.to = *f.from
			}
		}
	}
	return Applied{}
}

func (s *State) order(ev *Event) {
	if !ev.Outer.IsZero() {
		if !s.lastOuter.IsZero() {
			if ev.Outer.Before(s.lastOuter) {
				s.backward++
			} else if ev.Outer.After(s.lastOuter) {
				s.forward++
			}
		}
		s.lastOuter = ev.Outer
	}
	if ev.At.Known {
		if d, ok := ev.At.Sub(s.newest); ok && ev.Outer.IsZero() {
			if d < 0 {
				s.backward++
			} else if d > 0 {
				s.forward++
			}
		}
		s.newest = ev.At
	}
}

// NewestFirst tells whether the log runs against time.
func (s *State) NewestFirst() bool { return s.backward > s.forward }

func (s *State) applyBatch(ev *Event) {
	st := s.current(ev)
	b := ev.Batch
	if !st.Began || !st.Ready {
		st.serving(ev)
	}
	if s.engines == nil {
		s.engines = map[int]*engine{}
	}
	e := s.engines[b.Engine]
	if e == nil {
		if len(s.engines) >= maxEngines {
			return
		}
		e = &engine{}
		s.engines[b.Engine] = e
	}
	if d, ok := ev.At.Sub(e.at); ok && d < 0 && s.NewestFirst() {
		return // an older line of a log that runs against time
	}
	if b.Engines > 0 || b.Engine < 0 && len(s.engines) > 1 {
		// A line about all engines replaces those about each.
		s.engines = map[int]*engine{b.Engine: e}
	}
	e.last, e.at = *b, ev.At
	if b.Still() {
		e.idle++
	} else {
		e.idle = 0
		s.waits, s.waitS = 0, 0
	}
	if b.GenTPS.V > 0 || b.InputTPS.V > 0 {
		st.LastWork = ev.At
	}
	if b.GenTPS.Known && b.GenTPS.V > st.PeakGen.V {
		st.PeakGen, st.PeakAt, st.PeakRunning = b.GenTPS, ev.At, b.Running
	}
}

// applySpec notes a request that repeats itself: every draft is accepted, at a
// rate that does not change.
func (s *State) applySpec(ev *Event) {
	if ev.Spec.AcceptRate.Known && ev.Spec.AcceptRate.V >= 1 && ev.Spec.Accepted.V > 0 {
		if s.same > 0 && ev.Spec.Accepted == s.spec.Accepted {
			s.same++
		} else {
			s.same = 1
		}
	} else {
		s.same = 0
	}
	s.spec, s.specAt = *ev.Spec, ev.At
}

// Level is the present load: sums over data parallel engines, the fullest of
// their pools.
type Level struct {
	At      Stamp // of the newest line of figures
	Engines int   // how many lines are summed

	Running, Queued Num // requests
	Swapped         Num
	Tokens          Num // live, from usage and capacity
	Usage           Num // 0 to 1, of the fullest engine
	GenTPS          Num // tok/s
	GenUsable       bool
	GenAt           Stamp
	InputTPS        Num
	PrefixHit       Num // 0 to 1
	MMHit           Num
	AcceptLen       Num
	AcceptRate      Num // 0 to 1
	// Still counts lines in a row that show requests and no token.
	Still int
}

// Level sums the newest line of each engine that still prints.
func (s *State) Level() Level {
	var l Level
	for _, e := range s.engines {
		if d, ok := e.at.Sub(l.At); !l.At.Known || ok && d > 0 {
			l.At = e.at
		}
	}
	var used Num
	for _, e := range s.engines {
		if d, ok := l.At.Sub(e.at); ok && d > engineStale {
			continue
		}
		l.Engines++
		add(&l.Running, e.last.Running)
		add(&l.Queued, e.last.Waiting)
		add(&l.Swapped, e.last.Swapped)
		add(&l.GenTPS, e.last.GenTPS)
		add(&l.InputTPS, e.last.InputTPS)
		u := e.last.Usage()
		add(&used, u)
		if u.Known && (!l.Usage.Known || u.V > l.Usage.V) {
			l.Usage = u
		}
		if e.last.PrefixHit.Known {
			l.PrefixHit = e.last.PrefixHit
		}
		if e.last.MMHit.Known {
			l.MMHit = e.last.MMHit
		}
		if e.idle > l.Still {
			l.Still = e.idle
		}
	}
	l.GenAt, l.GenUsable = l.At, l.GenTPS.Known
	if !l.PrefixHit.Known {
		l.PrefixHit = s.prefix.GPU
		if s.prefix.CPU.V > 0 && s.prefix.GPU.V == 0 {
			l.PrefixHit = s.prefix.CPU
		}
	}
	if s.spec.AcceptLen.Known {
		l.AcceptLen = s.spec.AcceptLen
	}
	l.AcceptRate = s.spec.AcceptRate
	if st := s.Now(); st != nil && used.Known && l.Engines > 0 && st.Capacity.Known {
		l.Tokens = num(st.Capacity.V * used.V / float64(l.Engines))
	}
	return l
}

func add(sum *Num, v Num) {
	if v.Known {
		*sum = num(sum.V + v.V)
	}
}

// Last is the newest line of an engine (-1 where lines name none).
func (s *State) Last(engine int) (b Batch, at Stamp, ok bool) {
	e := s.engines[engine]
	if e == nil {
		return Batch{}, Stamp{}, false
	}
	return e.last, e.at, true
}

// Engines are the numbers of the engines seen in this start, in order.
func (s *State) Engines() []int {
	out := make([]int, 0, len(s.engines))
	for n := range s.engines {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// Spec is the newest companion line about speculative decoding.
func (s *State) Spec() (Spec, Stamp) { return s.spec, s.specAt }

// Prefix holds the newest hit rates of V0.
func (s *State) Prefix() Prefix { return s.prefix }

// Preemptions is how many V0 told; later versions do not log them.
func (s *State) Preemptions() int64 { return s.preempts }

// Counts are the engines' loads as the coordinator last passed them on.
func (s *State) Counts() []Count { return s.counts }

// Dump is what a crash printed about the engine's state.
func (s *State) Dump() Dump { return s.dump }

// Waiting tells how many lines in a row, and for how many seconds, workers have
// waited for the engine since tokens last moved, and when the newest came.
func (s *State) Waiting() (lines int, seconds float64, at Stamp) { return s.waits, s.waitS, s.waitAt }

// Repeating tells that every draft was accepted at one rate for three lines: the
// mark of a request that repeats itself.
func (s *State) Repeating() bool { return s.same >= 3 }

// Job is the newest bar of an offline client in the same log, not of the start-up.
func (s *State) Job() (Progress, Stamp) { return s.job, s.jobAt }

// Newest is the stamp of the newest event.
func (s *State) Newest() Stamp { return s.newest }

// HTTPCount is how many requests ended with an HTTP status.
func (s *State) HTTPCount(status int) int64 { return s.http[status] }

// Served is how many POST requests ended with 200.
func (s *State) Served() int64 { return s.posts }
