package main

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote"
	"github.com/runvigil/runvigil/remote/probe"
)

// A live source is a real node: one link that is kept up, and a probe for each
// connection it makes.
type live struct {
	node  *node
	clock clock
	link  *remote.Link

	mu    sync.Mutex
	probe *probe.Probe // of the connection that is up, else nil
	wants []metrics.Want
	data  []string // files whose rows are wanted

	lookAgain chan struct{} // the owner's rules are to be read again
}

func newLive(n *node, c clock, prompter remote.Prompter) *live {
	l := &live{node: n, clock: c, lookAgain: make(chan struct{}, 1)}
	n.dial.Prompter = prompter
	return l
}

// SetWants hands the wants to the probe, now and after each reconnect.
func (l *live) SetWants(wants []metrics.Want) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wants = wants
	var data []string
	for _, w := range wants {
		if w.Kind == metrics.WantRows {
			data = append(data, w.Path)
		}
	}
	if !slices.Equal(data, l.data) {
		l.data = data
		l.lookForGuards()
	}
	if l.probe != nil {
		l.probe.SetWants(wants)
	}
}

// Probe is the probe of the connection that is up, nil without one.
func (l *live) Probe() *probe.Probe {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.probe
}

// Conn is the connection that is up, nil without one.
func (l *live) Conn() *remote.Conn {
	if l.link == nil {
		return nil
	}
	return l.link.Status().Conn
}

// Retry connects again at once.
func (l *live) Retry() { l.link.Retry() }

// Run keeps the link and ticks until ctx ends.
func (l *live) Run(ctx context.Context, out func(metrics.Frame)) error {
	probes := make(chan struct{}, 1) // one connection, and so one probe, at a time
	l.link = remote.NewLink(remote.LinkOptions{
		Dial: func(ctx context.Context) (*remote.Conn, error) { return remote.Dial(ctx, l.node.target, l.node.dial) },
		OnUp: func(ctx context.Context, conn *remote.Conn) {
			probes <- struct{}{}
			defer func() { <-probes }()
			l.serve(ctx, conn, out)
		},
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.link.Run(ctx)
	}()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-done:
			probes <- struct{}{} // wait for the last one
			return ctx.Err()
		case s := <-l.link.Events():
			out(l.linkFrame(s))
		case <-tick.C:
			if l.Probe() != nil {
				continue // the probe ticks while it lives
			}
			out(metrics.Frame{Kind: metrics.KindTick, At: l.clock.now()})
		}
	}
}

// serve runs one probe for one connection. A probe that ends while the
// connection lives gives the connection up, so that both begin anew.
func (l *live) serve(ctx context.Context, conn *remote.Conn, out func(metrics.Frame)) {
	p := probe.New(probe.Over(conn), probe.Options{
		Node: l.node.name, Dialer: conn.Info().Dialer, RootPID: l.node.root, Interval: l.node.config.Interval,
		Now: l.clock.now, Salt: []byte(l.node.name),
	})
	l.mu.Lock()
	l.probe = p
	p.SetWants(l.wants)
	l.mu.Unlock()
	done := make(chan struct{})
	watched, stop := context.WithCancel(ctx)
	go func() {
		defer close(done)
		l.watchGuards(watched, conn, out)
	}()
	defer func() {
		stop()
		<-done
	}()
	err := p.Run(ctx, func(f metrics.Frame) {
		logFrame(f)
		out(f)
	})
	l.mu.Lock()
	if l.probe == p {
		l.probe = nil
	}
	l.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		slog.Warn("probe ended", "error", err)
		l.link.Drop(err.Error())
	}
}

func (l *live) linkFrame(s remote.Status) metrics.Frame {
	slog.Info("link", "state", s.State, "reason", s.Reason, "attempt", s.Attempt)
	fact := metrics.LinkFact{
		Status: metrics.LinkStatus(s.State), Reason: metrics.Clean(s.Reason, 500), SleptS: s.Slept.Seconds(), Waiting: s.NeedsPerson,
	}
	return metrics.JSONFrame(metrics.KindLink, "", l.clock.now(), fact)
}
