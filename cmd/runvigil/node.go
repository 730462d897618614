package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote"
	"github.com/runvigil/runvigil/remote/simnode"
	"github.com/runvigil/runvigil/remote/simnode/model"
)

// A node is a NODE argument made ready: where to connect, how, and what is
// known about it beforehand.
type node struct {
	name   string // as the user wrote it
	target remote.Target
	dial   remote.Options
	config metrics.Config
	state  state
	root   int // pid below which processes count, 0: all
	starts []metrics.Start
	close  func()
}

// openNode resolves a NODE argument. A simulated node is started here.
func (o *options) openNode(ctx context.Context, name string) (*node, error) {
	if scenario, ok := demoScenario(name); ok {
		return o.openDemo(ctx, name, scenario)
	}
	known := o.file.Nodes[name]
	n := &node{
		name: name, state: stateOf(name), config: o.file.ForNode(name), close: func() {},
		starts: stateOf(name).history(),
		dial:   remote.Options{Dialer: first(o.dial, known.Dial), Identity: first(o.identity, known.Identity)},
	}
	n.config.Interval = o.interval
	if name == remote.DialerLocal || n.dial.Dialer == remote.DialerLocal {
		n.dial.Dialer = remote.DialerLocal
		return n, nil
	}
	target, err := remote.ParseTarget(first(known.Host, name))
	if err != nil {
		return nil, usageError{err}
	}
	n.target = target
	return n, nil
}

func (o *options) openDemo(ctx context.Context, name, scenario string) (*node, error) {
	sim, err := simnode.Start(ctx, simnode.Options{Scenario: scenario})
	if err != nil {
		if scenario != "" && !errors.Is(err, simnode.ErrUnsupported) && !knownScenario(scenario) {
			return nil, usagef("%w", err)
		}
		return nil, err
	}
	target, err := remote.ParseTarget(sim.User + "@" + sim.Addr)
	if err != nil {
		return nil, errors.Join(err, sim.Close())
	}
	n := &node{
		name: name, target: target, config: over(sim.Config, o.file.ForNode(name)), starts: sim.History, root: sim.RootPID, state: state{sim.State},
		dial:  remote.Options{Dialer: remote.DialerNative, HostKey: sim.HostKey, Signer: sim.Signer, Plain: true},
		close: func() { _ = sim.Close() },
	}
	n.config.Node = name
	n.config.Interval = o.interval
	return n, nil
}

// over lays what the user wrote over what the simulated node brings with it.
func over(base, own metrics.Config) metrics.Config {
	for _, l := range []struct{ to, from *[]string }{
		{&base.Datasets, &own.Datasets}, {&base.ClientLogs, &own.ClientLogs}, {&base.ServerLogs, &own.ServerLogs}, {&base.Logs, &own.Logs},
	} {
		if len(*l.from) > 0 {
			*l.to = *l.from
		}
	}
	if len(own.Targets) > 0 {
		base.Targets = own.Targets
	}
	for _, g := range base.Guards { // a rule falls only for another one on the same flag
		if !slices.ContainsFunc(own.Guards, func(o metrics.Guard) bool { return o.Flag == g.Flag }) {
			own.Guards = append(own.Guards, g)
		}
	}
	base.Guards = own.Guards
	if own.ClientCommand != "" {
		base.ClientCommand, base.ClientResumable = own.ClientCommand, own.ClientResumable
	}
	base.ServerCommand, base.GuardsFile = first(own.ServerCommand, base.ServerCommand), first(own.GuardsFile, base.GuardsFile)
	if own.Endpoint != nil {
		base.Endpoint = own.Endpoint
	}
	base.Thresholds, base.Expected = own.Thresholds, base.Expected || own.Expected
	return base
}

func knownScenario(name string) bool {
	for _, s := range model.Scenarios() {
		if s.Name == name {
			return true
		}
	}
	return false
}

// demoScenario tells a NODE that is simulated, and its scenario ("" for the default).
func demoScenario(name string) (string, bool) {
	if name == "demo" {
		return "", true
	}
	return strings.CutPrefix(name, "demo:")
}

// first is the first that is not empty.
func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// frames are what is known before the node answers.
func (n *node) frames(at time.Time) []metrics.Frame {
	out := []metrics.Frame{metrics.JSONFrame(metrics.KindConfig, n.name, at, n.config)}
	if len(n.config.Guards) > 0 {
		out = append(out, metrics.JSONFrame(metrics.KindGuards, "config", at, n.config.Guards))
	}
	if len(n.starts) > 0 {
		out = append(out, metrics.JSONFrame(metrics.KindStarts, "", at, n.starts))
	}
	if saved, ok := n.state.saved(); ok {
		out = append(out, metrics.JSONFrame(metrics.KindSaved, "", at, saved))
	}
	return out
}

// unreachable is a node that could not be asked.
func unreachable(n *node, err error) error { return fmt.Errorf("%s: %w", n.name, err) }
