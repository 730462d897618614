package sglang

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// State folds events into what a monitor asks of a log: the level over all
// data-parallel ranks, the starts with their phases, and the causes of crashes.
// The zero State is ready. It holds bounded memory and never looks at a clock.
type State struct {
	starts []*Start
	groups []*group // ordered by DP rank, so that sums are the same on every run
	newest Stamp
	retr   retractions
	jit    bool // kernels are being compiled since the last decode line
	dump   Dump
	health Health
	http   map[Request]int64
	lo, hi int // versions that can have written the log, 0 open

	forward, backward int // neighbours in the order of time, and against it
	lastOuter         time.Time
	zone              Num
}

// group is one scheduler: a DP rank, whatever copies of its lines PP, CP and TP
// ranks print.
type group struct {
	rank      Rank // the copy that counts
	last      Batch
	lastAt    Stamp
	lastLine  int64
	decode    Batch
	decodeAt  Stamp
	decodes   int
	usable    bool // the newest decode line's rate
	gaps      [8]float64
	ngaps     int
	wasIdle   bool // a prefill since the last decode line began with nothing running
	prefill   Batch
	prefillAt Stamp
}

// Applied says how an event counts.
type Applied struct {
	// Copy: another rank's line tells the same batch; its figures must not be added.
	Copy bool
	// RateUsable: the throughput of this decode line covers working time only.
	RateUsable bool
	// NewStart: a start of the server begins here.
	NewStart bool
	// Repeated: a retraction that another rank has told already.
	Repeated bool
}

const (
	// A decode line that comes this much later than the ones before follows a gap (s).
	gapLeast     = 5.0
	gapLeastIdle = 2.0
	// A scheduler whose newest line is this much older than the newest of all prints no more: it is idle (s).
	groupStale = 60.0
	maxGroups  = 1024
)

// Apply folds one event in.
func (s *State) Apply(ev *Event) Applied {
	s.order(ev)
	var a Applied
	switch ev.Kind {
	case KindBatch:
		a = s.applyBatch(ev)
	case KindStartup:
		a = s.applyStartup(ev)
	case KindSeparator:
		s.newStart(ev).ID = ev.Separator
		a.NewStart = true
	case KindAccess:
		if s.http == nil {
			s.http = map[Request]int64{}
		}
		key := Request{ev.Access.Path, ev.Access.Status}
		if _, ok := s.http[key]; ok || len(s.http) < maxPaths {
			s.http[key]++
		}
		start := s.current(ev)
		start.midRun = start.midRun || !start.Began
	case KindRetraction:
		start := s.current(ev)
		a.Repeated = !s.retr.add(ev)
		if !a.Repeated {
			start.Retractions++
		}
		if ev.Retract.Old {
			s.version(0, 405)
		}
	case KindFault:
		s.applyFault(ev)
	case KindStop:
		start := s.current(ev)
		if !start.Stopping && !ev.Stop.Done {
			s.applyFault(&Event{
				Kind: KindFault, Line: ev.Line, At: ev.At, Outer: ev.Outer, Rank: ev.Rank,
				Fault: &Fault{Class: metrics.CauseStopped, Weight: Vague, Detail: strings.TrimSpace("asked to stop " + ev.Stop.Signal)},
			})
		}
		start.Stopping = true
		start.Stopped = start.Stopped || ev.Stop.Done
		if ev.Stop.Remaining.Known {
			start.Remaining = ev.Stop.Remaining
		}
		if ev.Stop.Signal != "" {
			start.StopSignal = ev.Stop.Signal
		}
	case KindHealth:
		s.health = *ev.Health
	case KindDump:
		if ev.Dump.BatchSize.Known {
			s.dump.BatchSize = ev.Dump.BatchSize
		}
		if ev.Dump.Available.Known {
			s.dump.Available = ev.Dump.Available
		}
		if ev.Dump.Evictable.Known {
			s.dump.Evictable = ev.Dump.Evictable
		}
	}
	return a
}

// order notes the direction of time, by which a log that was exported newest
// first is known.
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
		s.newest = ev.At
		if ev.At.Year && !ev.Outer.IsZero() {
			// The log's own clock against the collector's, in whole quarters of an hour.
			d := float64(ev.At.Sec - ev.Outer.Unix())
			s.zone = num(math.Round(d/900) * 900)
		}
	}
}

// Zone is the log's zone in seconds east of UTC, where a collector's stamps tell it.
func (s *State) Zone() Num { return s.zone }

// NewestFirst tells whether the log runs against time.
func (s *State) NewestFirst() bool { return s.backward > s.forward }

func copyOrder(r Rank) int { return int(r.PP+1)<<28 | int(r.CP+1)<<14 | int(r.TP+1) }

func (s *State) applyBatch(ev *Event) Applied {
	s.fingerprint(ev)
	start := s.current(ev)
	b := ev.Batch
	start.serving(ev, b)
	g := s.group(ev.Rank.DP)
	if g == nil {
		if len(s.groups) >= maxGroups {
			return Applied{Copy: true}
		}
		g = &group{rank: ev.Rank}
		at, _ := slices.BinarySearchFunc(s.groups, ev.Rank.DP, byDP)
		s.groups = slices.Insert(s.groups, at, g)
	}
	if ev.Rank != g.rank {
		if copyOrder(ev.Rank) > copyOrder(g.rank) {
			return Applied{Copy: true}
		}
		g.rank = ev.Rank
	}
	if g.lastLine == ev.Line && g.last.Decode == b.Decode && g.lastAt == ev.At {
		return g.replace(b)
	}
	g.lastLine = ev.Line
	if !b.Decode {
		if !b.Probe {
			g.wasIdle = g.wasIdle || b.Running.Known && b.Running.V == 0
			start.LastWork = ev.At
		}
		g.prefill, g.prefillAt = *b, ev.At
		g.last, g.lastAt = *b, ev.At
		return Applied{}
	}
	s.jit = false
	start.LastWork = ev.At
	usable := false
	if d, ok := ev.At.Sub(g.decodeAt); ok && d >= 0 {
		usable = !g.afterGap(d)
		if usable || g.ngaps == 0 {
			g.gaps[g.ngaps%len(g.gaps)] = d
			g.ngaps++
		}
	} else if g.decodes > 0 && !ev.At.Known {
		usable = true // without times nothing speaks against it
	}
	g.decode, g.decodeAt, g.usable, g.wasIdle = *b, ev.At, usable, false
	g.decodes++
	g.last, g.lastAt = *b, ev.At
	if usable && b.GenTPS.Known && b.GenTPS.V > start.PeakGen.V {
		start.PeakGen, start.PeakAt, start.PeakRunning = b.GenTPS, ev.At, b.Running
	}
	return Applied{RateUsable: usable}
}

func byDP(g *group, dp int16) int { return int(g.rank.DP) - int(dp) }

// group finds the scheduler of a DP rank, -1 for a log that names none.
func (s *State) group(dp int16) *group {
	if at, ok := slices.BinarySearchFunc(s.groups, dp, byDP); ok {
		return s.groups[at]
	}
	return nil
}

// replace takes a corrected record in the place of the newest one.
func (g *group) replace(b *Batch) Applied {
	g.last = *b
	if b.Decode {
		g.decode = *b
		return Applied{RateUsable: g.usable}
	}
	g.prefill = *b
	return Applied{}
}

// afterGap tells whether d seconds between two decode lines include idle time.
func (g *group) afterGap(d float64) bool {
	n := min(g.ngaps, len(g.gaps))
	if n == 0 {
		return d > gapLeast
	}
	gaps := slices.Clone(g.gaps[:n])
	slices.Sort(gaps)
	usual := gaps[n/2]
	if g.wasIdle && d > max(gapLeastIdle, 2*usual) {
		return true
	}
	return d > max(gapLeast, 4*usual)
}

// Level is the present load: sums over data-parallel ranks, the fullest of
// their pools, never sums over TP, PP or CP copies.
type Level struct {
	At     Stamp // of the newest batch line
	Ranks  int   // schedulers that count
	Decode bool  // the newest line is a decode line

	Running, Queued Num
	Tokens          Num // live
	Usage           Num // 0 to 1, of the fullest pool of the fullest rank
	Pool            string
	GenTPS          Num // tok/s of the newest decode lines
	GenUsable       bool
	GenAt           Stamp
	InputTPS        Num
	AcceptLen       Num // mean
	AcceptLow       Num
	AcceptHigh      Num
	Graph           Num
}

// Level sums the newest line of each scheduler that still prints.
func (s *State) Level() Level {
	var l Level
	for _, g := range s.groups {
		if d, ok := g.lastAt.Sub(l.At); !l.At.Known || ok && d > 0 {
			l.At = g.lastAt
			l.Decode = g.last.Decode
		}
	}
	l.GenUsable = true
	accepted := 0
	for _, g := range s.groups {
		if d, ok := l.At.Sub(g.lastAt); ok && d > groupStale {
			continue
		}
		l.Ranks++
		add(&l.Running, g.last.Running)
		add(&l.Queued, g.last.Queued)
		tokens := g.last.LiveTokens()
		if !tokens.Known {
			tokens = g.decode.LiveTokens()
		}
		add(&l.Tokens, tokens)
		if usage, pool := g.last.Binding(); usage.Known && (!l.Usage.Known || usage.V > l.Usage.V) {
			l.Usage, l.Pool = usage, pool
		}
		if g.decodes > 0 {
			add(&l.GenTPS, g.decode.GenTPS)
			l.GenUsable = l.GenUsable && g.usable
			l.Graph = g.decode.Graph
			if d, ok := g.decodeAt.Sub(l.GenAt); !l.GenAt.Known || ok && d > 0 {
				l.GenAt = g.decodeAt
			}
			if v := g.decode.AcceptLen; v.Known {
				accepted++
				l.AcceptLen = num(l.AcceptLen.V + v.V)
				if !l.AcceptLow.Known || v.V < l.AcceptLow.V {
					l.AcceptLow = v
				}
				if v.V > l.AcceptHigh.V {
					l.AcceptHigh = v
				}
			}
		}
		if d, ok := l.At.Sub(g.prefillAt); !ok || d <= groupStale {
			add(&l.InputTPS, g.prefill.InputTPS)
		}
	}
	if accepted > 0 {
		l.AcceptLen.V /= float64(accepted)
	}
	l.GenUsable = l.GenUsable && l.GenTPS.Known
	return l
}

func add(sum *Num, v Num) {
	if v.Known {
		*sum = num(sum.V + v.V)
	}
}

// Last is the newest batch line of a DP rank (-1 where the log names none).
func (s *State) Last(dp int) (b Batch, at Stamp, ok bool) {
	g := s.group(int16(dp))
	if g == nil {
		return Batch{}, Stamp{}, false
	}
	return g.last, g.lastAt, true
}

// LastDecode is the newest decode line of a DP rank.
func (s *State) LastDecode(dp int) (b Batch, at Stamp, ok bool) {
	g := s.group(int16(dp))
	if g == nil || g.decodes == 0 {
		return Batch{}, Stamp{}, false
	}
	return g.decode, g.decodeAt, true
}

// DPRanks are the DP ranks seen in this start, in order.
func (s *State) DPRanks() []int {
	out := make([]int, 0, len(s.groups))
	for _, g := range s.groups {
		out = append(out, int(g.rank.DP))
	}
	return out
}

// DeadRanks are the schedulers that failed in this start while another one went
// on printing: the server may still answer 200 with a part of its ranks gone.
func (s *State) DeadRanks() []Rank {
	var out []Rank
	if len(s.starts) == 0 {
		return nil
	}
	for _, f := range s.Now().Faults {
		own := s.group(f.Rank.DP)
		if f.Weight > Vague || f.Rank.DP < 0 || own != nil && own.lastLine > f.Line {
			continue
		}
		for _, g := range s.groups {
			if g != own && g.lastLine > f.Line && !slices.ContainsFunc(out, func(r Rank) bool { return r.DP == f.Rank.DP }) {
				out = append(out, f.Rank)
			}
		}
	}
	return out
}

// Newest is the stamp of the newest event.
func (s *State) Newest() Stamp { return s.newest }

// Compiling tells whether kernels are being compiled and no token has come since.
func (s *State) Compiling() bool { return s.jit }

// WatchdogDump is what the watchdog printed about the stuck batch.
func (s *State) WatchdogDump() Dump { return s.dump }

// FailedHealth is the newest failed health check.
func (s *State) FailedHealth() Health { return s.health }

// Request is an HTTP path and the status it was answered with.
type Request struct {
	Path   string
	Status int
}

const maxPaths = 512

// Requests counts the access lines by path and status; the map is the state's own.
func (s *State) Requests() map[Request]int64 { return s.http }

// retractions counts events that up to 8 ranks of a node print each.
type retractions struct {
	key   [3]float64
	at    Stamp
	ranks []Rank
}

func (r *retractions) add(ev *Event) (first bool) {
	key := [3]float64{ev.Retract.RatioFrom.V, ev.Retract.RatioTo.V, float64(ev.Rank.DP)}
	d, ok := ev.At.Sub(r.at)
	near := ok && d >= -2 && d <= 2 || !ev.At.Known && !r.at.Known && len(r.ranks) > 0
	if near && key == r.key && !slices.Contains(r.ranks, ev.Rank) && ev.Rank != NoRank && len(r.ranks) < 1024 {
		r.ranks = append(r.ranks, ev.Rank)
		return false
	}
	r.key, r.at, r.ranks = key, ev.At, append(r.ranks[:0], ev.Rank)
	return true
}
