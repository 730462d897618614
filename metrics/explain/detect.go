package explain

import (
	"slices"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/findings"
)

// conclude makes a finding of the primary cause where none speaks of it yet.
func (r *Report) conclude() {
	p := r.Primary()
	if p == nil {
		return
	}
	for _, f := range r.Findings {
		if f.Cause != nil && *f.Cause == p.Class {
			return
		}
	}
	class := metrics.Cause(p.Class)
	info, _ := class.Info()
	severity := metrics.SeverityCritical
	if info.Side == metrics.SideClient || class == metrics.CauseStopped || r.State != nil && *r.State == string(metrics.ServerServing) {
		severity = metrics.SeverityWarning
	}
	title := p.Class
	if p.Rank != nil {
		title += " (" + *p.Rank + ")"
	}
	if p.Detail != nil {
		title += ": " + metrics.Cut(*p.Detail, 200)
	}
	advice := info.Advice
	if len(r.Advice) > 0 {
		advice = r.Advice[0]
	}
	r.find(p.Class, severity, class, title, info.Meaning, advice)
}

// detect lets those detectors judge that need neither a clock nor a node: what
// ended the server, a lost GPU, little memory left.
func (r *Report) detect() {
	if r.Kind == nil || *r.Kind != string(KindServerLog) || r.State == nil {
		return
	}
	// The moment is nobody's: only the order of facts counts, and they have none.
	at := time.Unix(0, 0).UTC()
	v := metrics.Server{ID: "log", State: metrics.ServerState(*r.State), LastToken: at}
	if r.Engine != nil {
		v.Engine = *r.Engine
	}
	if v.State != metrics.ServerDown {
		return
	}
	figure := func(p *float64) metrics.Figure {
		if p == nil {
			return metrics.Figure{}
		}
		return metrics.Fixed(*p, at, "log")
	}
	v.Running, v.Queued, v.Headroom = figure(r.Running), figure(r.Queued), figure(r.HeadroomGiB)
	if n := len(r.Starts); n > 0 {
		for _, f := range []struct{ name, flag string }{
			{"mem_fraction_static", "--mem-fraction-static"}, {"gpu_memory_utilization", "--gpu-memory-utilization"},
		} {
			if set := r.Starts[n-1].Flags[f.name]; set != "" && set != "None" {
				v.Argv = append(v.Argv, f.flag, set)
			}
		}
	}
	for _, c := range r.Causes {
		fact := metrics.CauseFact{Class: metrics.Cause(c.Class), Primary: c.Primary}
		if c.Detail != nil {
			fact.Detail = *c.Detail
		}
		if c.Rank != nil {
			fact.Rank = *c.Rank
		}
		if c.Line != nil {
			fact.LineNo = *c.Line
		}
		v.Causes = append(v.Causes, fact)
	}
	snap := &metrics.Snapshot{At: at, Servers: []metrics.Server{v}}
	active, _, _ := findings.New(metrics.Config{}).Eval(findings.Input{Snap: snap})
	for _, f := range active {
		if !slices.Contains([]string{"server-down", "server-oom"}, f.ID) {
			continue
		}
		var evidence []string
		for _, e := range f.Evidence {
			evidence = append(evidence, e.Text)
		}
		r.find(f.ID, f.Severity, f.Cause, f.Title, f.Why, f.Advice, evidence...)
	}
}
