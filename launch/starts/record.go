package starts

import (
	"math"
	"slices"
	"time"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/metrics"
)

// refresh is how often the level of a running start is written again.
const refresh = 10 * time.Minute

// Recorder turns successive snapshots into the events that are worth keeping.
// The zero Recorder knows of no start.
type Recorder struct {
	known map[string]written
}

type written struct {
	start metrics.Start
	at    time.Time
}

// NewRecorder begins with what the history already has.
func NewRecorder(history []metrics.Start) *Recorder {
	r := &Recorder{known: map[string]written{}}
	for _, s := range history {
		r.known[s.ID] = written{start: s}
	}
	return r
}

// Of are the starts of a snapshot, with what only the whole snapshot tells of
// those that run: rows a minute and the part that grew, lowest free memory, and
// guards that they break. One that the history calls running and whose process
// is gone ended in a way that is not known.
func Of(snap *metrics.Snapshot) []metrics.Start {
	out := slices.Clone(snap.Starts)
	for i := range out {
		s := &out[i]
		if s.GuardBroken == "" && len(s.Argv) > 0 {
			resolved := map[string]string{}
			if s.KVDtype != "" {
				resolved["kv-cache-dtype"] = launch.Dtype(s.KVDtype)
			}
			if b := launch.Judge(launch.FromStart(*s), snap.Guards, resolved); len(b) > 0 {
				s.GuardBroken = b[0].Flag + " " + b[0].Reason
			}
		}
		if s.Outcome != "running" {
			continue
		}
		server := serverOf(snap, s)
		if server == nil || server.State == metrics.ServerDown {
			// It ended while nobody looked. Before a discovery that is not known.
			if snap.BootID != "" && len(snap.Procs) > 0 {
				s.Outcome = "unknown"
			}
			continue
		}
		if low := lowestFree(snap); low != nil {
			s.LowestFree = low
		}
		if server.Gen.Settled.Known {
			if p := snap.Job.PerMin; p.Known {
				s.RowsPerMin = &p.V
			}
			for _, d := range snap.Datasets {
				if d.PerMin.Known && d.PerMin.V > 0 {
					s.Dataset = d.Name
					break
				}
			}
		}
	}
	return out
}

func serverOf(snap *metrics.Snapshot, s *metrics.Start) *metrics.Server {
	for i := range snap.Servers {
		v := &snap.Servers[i]
		if snap.BootID+":"+v.ID == s.ID || v.ID == s.ID || v.StartNo > 0 && v.StartNo == s.No {
			return v
		}
	}
	return nil
}

// lowestFree is the least free memory of any GPU since the server was ready, GiB.
func lowestFree(snap *metrics.Snapshot) *float64 {
	low := math.Inf(1)
	for _, g := range snap.GPUs {
		if g.MemLowest.Known {
			low = min(low, g.MemLowest.V/1024)
		}
	}
	if math.IsInf(low, 1) {
		return nil
	}
	return &low
}

// Events gives the events of a snapshot: each start that was not known, and each
// that changed in a way worth a line. Time is the snapshot's.
func (r *Recorder) Events(snap *metrics.Snapshot) []Event {
	if r.known == nil {
		r.known = map[string]written{}
	}
	var out []Event
	for _, s := range Of(snap) {
		if s.ID == "" {
			continue
		}
		old, seen := r.known[s.ID]
		what := "seen"
		if seen {
			what = change(old.start, s, snap.At.Sub(old.at))
		}
		if what == "" {
			continue
		}
		s.No = 0 // numbers follow from the order in which the history is read
		r.known[s.ID] = written{s, snap.At}
		if what == "level" { // the line that comes most often holds what can have changed
			s.Argv, s.Phases = nil, nil
		}
		out = append(out, Event{V: 1, Key: s.ID, At: snap.At, What: what, Start: s})
	}
	return out
}

// change names what is new about a start, "" where it is not worth a line.
func change(old, s metrics.Start, since time.Duration) string {
	news := update(old, s)
	moved := func(a, b *float64, by float64) bool {
		return b != nil && (a == nil || math.Abs(*a-*b) > by*math.Max(math.Abs(*a), 1e-9))
	}
	switch {
	case news.Outcome != old.Outcome || news.Cause != old.Cause:
		return "ended"
	case !slices.Equal(news.Argv, old.Argv) || news.Version != old.Version || news.GuardBroken != old.GuardBroken:
		return "launch"
	case moved(old.ReadyS, news.ReadyS, 0) && old.ReadyS == nil:
		return "ready"
	case moved(old.Capacity, news.Capacity, 0), moved(old.HeadroomGB, news.HeadroomGB, 0), len(news.Phases) != len(old.Phases):
		return "phase"
	case old.FirstToken.IsZero() && !news.FirstToken.IsZero():
		return "token"
	case old.Settled == nil && news.Settled != nil:
		return "settled"
	case news.Note != old.Note || news.Override != old.Override:
		return "note"
	case moved(old.LowestFree, news.LowestFree, 0.1) && since >= refresh/10, moved(old.Peak, news.Peak, 0.05) && since >= refresh/10:
		return "level"
	case since >= refresh && (moved(old.Settled, news.Settled, 0.02) || moved(old.RowsPerMin, news.RowsPerMin, 0.05) || moved(old.PerRequest, news.PerRequest, 0.05) ||
		moved(old.DurationS, news.DurationS, 0.05) || moved(old.Running, news.Running, 0.1) || news.Dataset != old.Dataset):
		return "level"
	}
	return ""
}
