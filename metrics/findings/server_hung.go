package findings

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

var serverHung = Detector{
	ID:     "server-hung",
	Means:  "Requests run but no token comes. A 200 of /health proves nothing: it may be answered by a process that no longer generates.",
	Needs:  "the server's log, or /metrics",
	When:   "Running above 0 and no token for 60 s while the link is up (3 minutes while the newest line is a prefill), and no compilation is under way; quiet while rows still land from the only server, and an entry of what cannot be told where nothing tells of tokens: its log was deleted or cannot be read and no endpoint counts them. Or the server's own health check got no answer from its scheduler and no batch came since. vLLM: lines of figures with running above 0 and 0 tok/s, or an engine that has waited for its workers for 3 minutes.",
	Do:     "Collect stacks with py-spy, look for an Xid, then restart the server.",
	Causes: []metrics.Cause{metrics.CauseServerHung, metrics.CauseGPULost},
	// No hysteresis: a token, or an answer that nothing runs, ends it at once.
	Check: func(in *Input, out *Output) {
		for i := range in.Snap.Servers {
			v := &in.Snap.Servers[i]
			if unanswered(in, v, out) || waitsForWorkers(in, v, out) {
				continue
			}
			if v.State != metrics.ServerServing && v.State != metrics.ServerHung && v.State != metrics.ServerDraining {
				continue
			}
			last := v.LastToken
			if v.LastBatch.After(last) {
				last = v.LastBatch
			}
			if last.IsZero() && v.State == metrics.ServerHung {
				last = v.Since
			}
			if !v.Running.Known || v.Running.V <= 0 || last.IsZero() {
				continue
			}
			silent := in.now().Sub(last)
			limit := in.seconds("hung_s")
			if v.NewRequest.Equal(v.LastBatch) && v.LastBatch.After(v.LastToken) {
				limit = in.seconds("hung_prefill_s") // a long prefill makes no token
			}
			if silent < limit || compiling(v) || in.compilers() {
				continue
			}
			if since, why, tell := in.unheard(v); !since.IsZero() && !since.After(last.Add(limit)) {
				out.CannotTell("whether the server makes tokens", why, tell)
				continue
			}
			if row := lastRow(in); len(in.working()) == 1 && in.now().Sub(row) < limit && row.Sub(last) > limit/2 {
				continue // answers that were made since have landed: only what tells of tokens is silent
			}
			c := Condition{
				Subject: v.ID, Severity: metrics.SeverityCritical, Cause: metrics.CauseServerHung, Since: last,
				Title:  fmt.Sprintf("hung: %s running, no token for %s", metrics.Count(v.Running.V), metrics.Age(silent)),
				Why:    "the scheduler makes no progress although requests are in it",
				Advice: "collect stacks (py-spy dump --pid of a scheduler), look for an Xid in dmesg, then restart the server",
				Log:    metrics.LogPlace{Path: v.Log.Path},
				Graph:  metrics.SeriesKey{What: metrics.SeriesGenTPS, Of: v.ID},
				Evidence: []metrics.Evidence{
					{Text: fmt.Sprintf("last batch line at %s: %s running, %s queued", in.clock(last), metrics.Count(v.Running.V), metrics.FigureText(v.Queued, metrics.Count)), Source: "log", At: last},
				},
			}
			in.addXid(&c)
			for j := range in.Snap.GPUs {
				if g := &in.Snap.GPUs[j]; g.Lost != "" {
					c.Cause = metrics.CauseGPULost
					c.Title += fmt.Sprintf("; GPU %d is lost", g.Index)
					c.Why = fmt.Sprintf("GPU %d no longer answers (%s), and the scheduler waits for it", g.Index, g.Lost)
					c.Advice = "stop the server, reset the GPU or restart the machine, then start the server again"
					break
				}
			}
			if v.Health.Known {
				c.Evidence = append(c.Evidence, figureEvidence(fmt.Sprintf("/health answers %.0f, which proves nothing", v.Health.V), v.Health))
			}
			out.Raise(c)
		}
	},
}

// unheard is since when nothing can tell of a server's tokens, and why; zero while
// its log or its counters can be read.
func (in *Input) unheard(v *metrics.Server) (since time.Time, why, tell string) {
	if v.Gen.Now.Source == "/metrics" {
		return in.brokenSince("http"), "its endpoints cannot be asked", "see data-old"
	}
	if since = in.brokenSince("files"); !since.IsZero() {
		return since, "its log cannot be read, and no endpoint counts them", "see data-old; or --enable-metrics on the server"
	}
	return v.Log.Deleted, "its log was deleted, and no endpoint counts them", "--enable-metrics on the server, or its log where it was"
}

// waitsForWorkers raises an engine that says itself that its workers do not
// answer, while nothing is compiled and no request was answered since.
func waitsForWorkers(in *Input, v *metrics.Server, out *Output) bool {
	f := v.Stuck
	if f == nil || !up(v) || latest(v.LastBatch, v.LastToken).After(f.At) || compiling(v) || in.compilers() || strings.Contains(v.Phase.Name, "compil") {
		return false
	}
	out.Raise(Condition{
		Subject: v.ID, Severity: metrics.SeverityCritical, Cause: metrics.CauseServerHung, Since: f.At, Log: logPlace(v.Log.Path, f),
		Title:    "hung: " + f.Detail + ", since " + in.clock(f.At),
		Why:      "its workers hang in a step, and /health may answer 200 all the same",
		Advice:   "collect stacks (py-spy dump --pid of a worker), look for an Xid in dmesg, then restart the server",
		Evidence: []metrics.Evidence{{Text: f.Detail, Source: logSource("log", f.LineNo), At: f.At}},
		Graph:    metrics.SeriesKey{What: metrics.SeriesGenTPS, Of: v.ID},
	})
	return true
}

// compiling tells whether silence is explained by kernels that are being built.
func compiling(v *metrics.Server) bool {
	for _, c := range v.Causes {
		if c.Class == metrics.CauseJITCompiling {
			return true
		}
	}
	return false
}

// compilers tells whether a compiler runs on the node.
func (in *Input) compilers() bool {
	return slices.ContainsFunc(in.Snap.Procs, func(p metrics.Proc) bool { return slices.Contains(compilers, p.Comm) })
}

// unanswered raises what the server's own health check says of its scheduler.
func unanswered(in *Input, v *metrics.Server, out *Output) bool {
	if !up(v) {
		return false
	}
	for i := range v.Causes {
		f := &v.Causes[i]
		if f.Class != metrics.CauseServerHung || f.At.Before(latest(v.LastBatch, v.LastToken)) || in.now().Sub(f.At) < in.seconds("hung_s") {
			continue
		}
		out.Raise(Condition{
			Subject: v.ID, Severity: metrics.SeverityCritical, Cause: metrics.CauseServerHung, Since: f.At, Log: logPlace(v.Log.Path, f),
			Title:    "hung: the server's own health check gets no answer since " + in.clock(f.At),
			Why:      "its front lives and the scheduler or detokenizer behind it does not answer",
			Advice:   "collect stacks (py-spy dump --pid of a scheduler), look for an Xid in dmesg, then restart the server",
			Evidence: []metrics.Evidence{{Text: f.Line, Source: logSource("log", f.LineNo), At: f.At}},
			Graph:    metrics.SeriesKey{What: metrics.SeriesGenTPS, Of: v.ID},
		})
		return true
	}
	return false
}
