package board

import (
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// fillFacts gives a server what findings need beside the figures of the screen.
func (b *Board) fillFacts(out *metrics.Server, s *serverState, sec *section) {
	v := &s.prom.view
	out.Generated = s.prom.fig(v.DecodeTokens).Or(s.prom.fig(v.GenTokens))
	out.Evicted = s.prom.fig(v.Evicted)
	out.HiCache.Watched, out.HiCache.Loaded, out.HiCache.Evicting = s.prom.watched, s.prom.loaded, s.prom.evicting
	out.Replaced = s.replaced
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
	out.NewRequest = sec.level.started
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
	by.replaced = &metrics.ReplacedServer{ID: old.s.ID, Argv: old.s.Argv, Ended: old.endedAt, Ours: b.restarted(old.endedAt)}
}

// restarted tells whether a restart of ours was under way near a moment.
func (b *Board) restarted(at time.Time) bool {
	for _, e := range b.events {
		if d := e.At.Sub(at); e.Kind == "restart" && d > -15*time.Minute && d < 15*time.Minute {
			return true
		}
	}
	return false
}
