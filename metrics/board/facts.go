package board

import (
	"slices"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// fillFacts gives a server what findings need beside the figures of the screen.
func (b *Board) fillFacts(out *metrics.Server, s *serverState, sec *section) {
	v := &s.prom.view
	out.Generated = s.prom.fig(v.DecodeTokens).Or(s.prom.fig(v.GenTokens))
	out.Evicted = s.prom.fig(v.Evicted)
	out.HiCache.Watched, out.HiCache.Loaded, out.HiCache.Evicting = s.prom.watched, s.prom.loaded, s.prom.evicting
	out.Replaced = b.replacedBy(s)
	out.Aborting = s.prom.aborting
	now := b.present()
	if v.Retracted.OK && (sec == nil || sec.retracted == 0) {
		out.Retracted = metrics.Known(s.prom.retractRate(now), s.prom.at, 0, sourceMetrics)
		out.RetractedSince = row(s.prom.retracts, now)
	}
	for _, ep := range s.http {
		if ep.status > 0 {
			out.Answers = latest(out.Answers, ep.at)
		}
	}
	if s.alive() && s.sawScheduler {
		lives := s.scheduler
		out.Scheduler = &lives
	}
	if sec == nil {
		return
	}
	out.Flags = sec.flags
	if sec.stuckFor >= stuckWaits && s.alive() {
		f := sec.stuck
		out.Stuck = &f
	}
	out.NewRequest, out.Repeating = sec.level.started, sec.repeats
	if len(sec.retracts) > 0 {
		out.RetractedSince = row(sec.retracts, now)
	}
	if len(sec.lanes) > 1 {
		for _, dp := range sortedKeys(sec.lanes) {
			l := sec.lanes[dp]
			r := metrics.RankState{DP: int(dp), Last: l.at}
			if l.known {
				r.Running = metrics.Known(l.running, l.at, 0, sourceLog)
			}
			out.Ranks = append(out.Ranks, r)
		}
	}
}

// stuckWaits is how many seconds an engine waits for its workers before that is
// more than a long step.
const stuckWaits = 180

// moves notes when the counters of the host tier last rose.
func (p *promState) moves(at time.Time, loaded, evicted, wasLoaded, wasEvicted float64, known bool) {
	if !known {
		p.watched = time.Time{}
		return
	}
	if p.watched.IsZero() {
		p.watched = at
	}
	if loaded > wasLoaded {
		p.loaded = at
	}
	if evicted > wasEvicted {
		p.evicting = at
	}
}

// replace notes that a server took the place of one that is gone.
func (b *Board) replace(old, by *serverState) {
	if by.replaced != nil && by.replaced.Ended.After(old.endedAt) {
		return
	}
	by.replaced = &metrics.ReplacedServer{ID: old.s.ID, Argv: old.s.Argv, Ended: old.endedAt}
}

// replacedBy is what a server replaced, with what is known by now of who did it.
func (b *Board) replacedBy(s *serverState) *metrics.ReplacedServer {
	if s.replaced == nil {
		return nil
	}
	r := *s.replaced
	r.Ours, r.Through, r.By = b.ours(s.s.PID)
	return &r
}

// inARow is how far apart events may lie that belong to one row.
const inARow = 2 * time.Minute

// row is when a row of events that goes on began, zero where none goes on.
func row(at []time.Time, now time.Time) time.Time {
	var begun time.Time
	for _, t := range slices.Backward(at) {
		if begun.IsZero() && now.Sub(t) > inARow || !begun.IsZero() && begun.Sub(t) > inARow {
			break
		}
		begun = t
	}
	return begun
}

// retract notes that the counter of retractions rose between two scrapes.
func (p *promState) retract(at time.Time, n float64, known bool) {
	if !known || n <= 0 {
		return
	}
	p.retracts, p.retracted = append(p.retracts, at), append(p.retracted, n)
	if over := len(p.retracts) - 1000; over > 0 {
		p.retracts, p.retracted = slices.Clone(p.retracts[over:]), slices.Clone(p.retracted[over:])
	}
}

// retractRate is retractions a minute over the ten minutes before now.
func (p *promState) retractRate(now time.Time) float64 {
	var n float64
	for i, t := range slices.Backward(p.retracts) {
		if now.Sub(t) > rateSpan {
			break
		}
		n += p.retracted[i]
	}
	return n / rateSpan.Minutes()
}
