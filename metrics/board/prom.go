package board

import (
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
	genS  metrics.Series
	// Since when the host tier's counters are watched, and when they last rose.
	watched, loaded, evicting time.Time
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
		p.retract(at, v.Retracted.V-p.view.Retracted.V, v.Retracted.OK && p.view.Retracted.OK)
		p.moves(at, v.LoadedBack.V, v.Evicted.V, p.view.LoadedBack.V, p.view.Evicted.V, v.LoadedBack.OK)
	}
	p.view, p.at, p.known = v, at, true
	if v.Running.OK {
		s.runningSeries.Add(at, v.Running.V)
	}
}
