package board

import (
	"fmt"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// configure takes the user's configuration. An endpoint in it is a server that
// no process shows: another engine, or one inside a container.
func (b *Board) configure(_ metrics.Frame, c metrics.Config) {
	if !b.told {
		b.given, b.told = c.Targets, true
	}
	b.cfg = c
	b.engine.Configure(c)
	keep := b.servers[:0:0]
	for _, s := range b.servers {
		if s.config == nil {
			keep = append(keep, s)
		}
	}
	b.servers = keep
	e := c.Endpoint
	if e == nil || e.Port == 0 {
		return
	}
	engine := metrics.Clean(e.Engine, 40)
	if engine == "" {
		engine = "server"
	}
	b.servers = append(b.servers, &serverState{
		s:      metrics.Server{ID: fmt.Sprintf("endpoint:%d", e.Port), Engine: engine, Port: e.Port, Addr: e.Addr},
		config: e, firstSeen: b.now,
	})
}

// endpointPath is where its metrics are.
func (s *serverState) endpointPath() string {
	if s.config != nil && s.config.Path != "" {
		return s.config.Path
	}
	return sourceMetrics
}

// doubled tells whether a discovered process serves the configured endpoint's
// port: then the process knows more.
func (b *Board) doubled(s *serverState) bool {
	if s.config == nil {
		return false
	}
	for _, o := range b.servers {
		if o.config == nil && o.alive() && o.s.Port == s.s.Port {
			return true
		}
	}
	return false
}

// judgeEndpoint tells a configured endpoint's state by its answers alone.
func (b *Board) judgeEndpoint(s *serverState) (metrics.ServerState, time.Time) {
	ep := s.http[s.endpointPath()]
	switch {
	case ep == nil:
		return metrics.ServerUnknown, s.firstSeen
	case ep.status == 0 && ep.tries > 2:
		return metrics.ServerDown, ep.since
	case ep.ok.IsZero():
		return metrics.ServerUnknown, s.firstSeen
	}
	now := b.present()
	running := s.prom.fig(s.prom.view.Running)
	switch {
	case running.Known && running.V == 0 && now.Sub(s.prom.moved) > slowGap:
		return metrics.ServerIdle, latest(s.prom.moved, s.firstSeen)
	case running.Known && running.V > 0 && now.Sub(latest(s.prom.moved, s.firstSeen)) > 2*silence:
		return metrics.ServerHung, latest(s.prom.moved, s.firstSeen)
	}
	return metrics.ServerServing, s.firstSeen
}
