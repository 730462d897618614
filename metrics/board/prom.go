package board

import (
	"math"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/prom"
)

const (
	metricsEvery  = 5 * time.Second
	sourceMetrics = "/metrics"
)

// promState is the newest scrape of /metrics and what the one before tells with it.
type promState struct {
	view  prom.View
	at    time.Time
	known bool
	gen   metrics.Figure
	moved time.Time // newest scrape in which work moved
	since time.Time // first scrape
	// level follows the throughput where no log tells it.
	level level
	genS  metrics.Series
	// Since when the host tier's counters are watched, and when they last rose.
	watched, loaded, evicting time.Time
	aborting                  time.Time   // when the counter of aborted requests last rose
	retracts                  []time.Time // one for each scrape in which the counter rose
	retracted                 []float64   // by how much
}

func (p *promState) fig(n prom.Num) metrics.Figure {
	if !p.known || !n.OK {
		return metrics.Figure{}
	}
	return metrics.Known(n.V, p.at, metricsEvery, sourceMetrics)
}

func (s *serverState) takeMetrics(at time.Time, body []byte) {
	v, ok := prom.Read(body)
	if s.config != nil && len(s.config.Metrics) > 0 {
		v, _ = prom.Custom(body, s.config.Engine, s.config.Metrics)
	} else if !ok {
		return
	}
	p := &s.prom
	if p.known {
		r := v.Between(&p.view, at.Sub(p.at))
		if r.Gen.OK {
			p.gen = metrics.Known(r.Gen.V, at, metricsEvery, sourceMetrics)
			p.genS.Add(at, r.Gen.V)
		}
		if r.Moved {
			p.moved = at
		}
		p.follow(at, r.Gen, &v)
		if v.Aborted.OK && p.view.Aborted.OK && v.Aborted.V > p.view.Aborted.V {
			p.aborting = at
		}
		p.retract(at, v.Retracted.V-p.view.Retracted.V, v.Retracted.OK && p.view.Retracted.OK)
		p.moves(at, v.LoadedBack.V, v.Evicted.V, p.view.LoadedBack.V, p.view.Evicted.V, v.LoadedBack.OK)
	}
	if !p.known {
		p.since = at
	}
	p.view, p.at, p.known = v, at, true
	if v.Running.OK {
		s.runningSeries.Add(at, v.Running.V)
	}
}

// follow adds a scrape to the level.
func (p *promState) follow(at time.Time, gen prom.Num, v *prom.View) {
	if !gen.OK || gen.V <= 0 || !v.Running.OK || v.Running.V <= 0 {
		return
	}
	pt := point{t: at, running: v.Running.V, queued: math.NaN(), perReq: math.NaN(), tps: gen.V}
	if v.Queued.OK {
		pt.queued = v.Queued.V
	}
	if v.UsedTokens.OK {
		pt.perReq = v.UsedTokens.V / v.Running.V
	}
	if v.Queued.V > 0 || v.Requests.V > p.view.Requests.V {
		p.level.started = at // requests begin
	}
	p.level.add(pt)
}
