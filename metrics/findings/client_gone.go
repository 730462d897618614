package findings

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

var clientGone = Detector{
	ID:     "client-gone",
	Means:  "The client ended before its job was done. The server waits for work that nobody sends.",
	Needs:  "the client's process, or its datasets and a target",
	When:   "Its process ended or is a zombie with rows below the target; or the server has had no work for 2 minutes, rows are below the target and no client is connected.",
	Do:     "Read what its log last said, then start it again.",
	Causes: slices.Concat([]metrics.Cause{metrics.CauseKilledUnknown, metrics.CauseHostOOMKilled, metrics.CauseStopped}, clientFaults),
	For:    45 * time.Second, // a resumed client is found by the next discovery
	Clear:  5 * time.Second,
	Check: func(in *Input, out *Output) {
		for i := range in.Snap.Clients {
			if alive(&in.Snap.Clients[i]) {
				return // a resumed client, or another one, goes on
			}
		}
		if in.Snap.Job.Done {
			return
		}
		for i := range in.Snap.Clients {
			if c := &in.Snap.Clients[i]; c.Host != "" {
				continue // it only has no connection now
			} else if (c.State == "gone" || c.State == "zombie") && !ended(in, c) {
				out.Raise(goneCondition(in, c))
				return
			} else if c.State == "gone" && ended(in, c) {
				return // job-done tells it
			}
		}
		if v := in.Snap.Server(); v != nil && v.State == metrics.ServerIdle && below(in) && in.now().Sub(latest(v.Since, lastRow(in))) >= in.seconds("client_gone_idle_s") {
			c := goneCondition(in, &metrics.Client{ID: "client", State: "gone", Since: v.Since})
			if i := slices.IndexFunc(in.Snap.Clients, func(c metrics.Client) bool { return c.Host != "" }); i >= 0 {
				host := in.Snap.Clients[i].Host
				c.Severity, c.Cause = metrics.SeverityWarning, ""
				c.Title = strings.Replace(c.Title, "client is gone", "no client is connected, the one on "+host+" has not been", 1)
				c.Why, c.Advice = "it runs on another host: whether it ended cannot be told from here", "look at it on "+host
			}
			out.Raise(c)
		}
	},
}

var jobDone = Detector{
	ID:    "job-done",
	Means: "Every wanted row has landed. The GPUs are free.",
	Needs: "a target",
	When:  "Rows have reached the target; or the client ended by itself and its log says that the work is done or each of its files has all its rows, with no row missing from a target that was set.",
	Do:    "Stop the server, or give it the next job.",
	Check: func(in *Input, out *Output) {
		j := in.Snap.Job
		if !j.Done && j.Rows.Known && !in.clientWaits() {
			for i := range in.Snap.Clients {
				if c := &in.Snap.Clients[i]; c.State == "gone" && ended(in, c) {
					done := Condition{
						Subject: "job", Severity: metrics.SeverityInfo, Since: c.Since, Log: metrics.LogPlace{Path: c.Log.Path},
						Title:    fmt.Sprintf("done: the client ended by itself at %s rows%s", metrics.Count(j.Rows.V), idleGPUs(in)),
						Evidence: []metrics.Evidence{figureEvidence(metrics.Count(j.Rows.V)+" rows", j.Rows)},
						Advice:   "stop the server, or give it the next job",
					}
					if c.Finished != "" {
						done.Evidence = append(done.Evidence, metrics.Evidence{Text: "its log last said: " + c.Finished, Source: base(c.Log.Path), At: c.Since})
					} else {
						done.Evidence = append(done.Evidence, metrics.Evidence{Text: "each of its files has all its rows", Source: "row count", At: j.Rows.At})
					}
					out.Raise(done)
					return
				}
			}
		}
		if !j.Done || !j.Rows.Known {
			return
		}
		c := Condition{
			Subject: "job", Severity: metrics.SeverityInfo, Since: lastRow(in),
			Title:    fmt.Sprintf("done: %s rows", metrics.Count(j.Rows.V)),
			Evidence: []metrics.Evidence{figureEvidence(fmt.Sprintf("%s of %s rows", metrics.Count(j.Rows.V), metrics.Count(float64(j.Target.Rows))), j.Rows)},
			Advice:   "stop the server, or give it the next job",
		}
		c.Title += idleGPUs(in)
		out.Raise(c)
	},
}

// idleGPUs says how many GPUs wait for the next job.
func idleGPUs(in *Input) string {
	if n := len(in.Snap.GPUs); n > 0 {
		return fmt.Sprintf(", %d GPUs idle", n)
	}
	return ""
}

// ended tells a client that ended by itself with its work done: its log says so, or
// each of its datasets has all its rows, and no target that was set is missed by
// more than a few rows.
func ended(in *Input, c *metrics.Client) bool {
	if c.Finished == "" && !atTargets(in, c) {
		return false
	}
	for i := range in.Snap.Datasets {
		d := &in.Snap.Datasets[i]
		if t := d.Target; slices.Contains(c.Datasets, d.Path) && t.Rows > 0 && !t.Inferred && d.Rows.Known && d.Rows.V < 0.98*float64(t.Rows) {
			return false
		}
	}
	t := in.Snap.Job.Target
	return t.Rows == 0 || t.Inferred || !in.Snap.Job.Rows.Known || in.Snap.Job.Rows.V >= 0.98*float64(t.Rows)
}

// atTargets tells a client whose datasets have every row that they shall have.
func atTargets(in *Input, c *metrics.Client) bool {
	for _, p := range c.Datasets {
		if d := in.Snap.Dataset(p); d == nil || d.Target.Rows <= 0 || !d.Rows.Known || d.Rows.V < float64(d.Target.Rows) {
			return false
		}
	}
	return len(c.Datasets) > 0
}

// below tells whether rows are known to be missing.
func below(in *Input) bool {
	j := in.Snap.Job
	if j.Rows.Known && j.Target.Rows > 0 {
		return j.Rows.V < float64(j.Target.Rows)
	}
	for i := range in.Snap.Datasets {
		d := &in.Snap.Datasets[i]
		if d.Rows.Known && d.Target.Rows > 0 && d.Rows.V < float64(d.Target.Rows) {
			return true
		}
	}
	return false
}

func lastRow(in *Input) time.Time {
	var at time.Time
	for i := range in.Snap.Datasets {
		if g := in.Snap.Datasets[i].Grew; g.After(at) {
			at = g
		}
	}
	return at
}

func goneCondition(in *Input, c *metrics.Client) Condition {
	since := c.Since
	if row := lastRow(in); since.IsZero() || !row.IsZero() && c.PID == 0 && row.Before(since) {
		since = row
	}
	out := Condition{Subject: c.ID, Severity: metrics.SeverityCritical, Since: since, Log: metrics.LogPlace{Path: c.Log.Path}}
	out.Title = who(c) + " is gone"
	if c.State == "zombie" {
		out.Title = who(c) + " is a zombie"
	}
	if !since.IsZero() {
		out.Title += " for " + metrics.Age(in.now().Sub(since))
	}
	if j := in.Snap.Job; j.Rows.Known && j.Target.Rows > 0 {
		out.Title += fmt.Sprintf(", rows at %s of %s", metrics.Count(j.Rows.V), metrics.Count(float64(j.Target.Rows)))
		out.Evidence = append(out.Evidence, figureEvidence(fmt.Sprintf("%s of %s rows", metrics.Count(j.Rows.V), metrics.Count(float64(j.Target.Rows))), j.Rows))
	}
	if row := lastRow(in); !row.IsZero() {
		out.Evidence = append(out.Evidence, metrics.Evidence{Text: "last row at " + in.clock(row), Source: "row count", At: row})
	}
	if v := in.Snap.Server(); v != nil && v.Running.Known {
		out.Evidence = append(out.Evidence, figureEvidence(fmt.Sprintf("server has %s running, %s queued", metrics.Count(v.Running.V), metrics.FigureText(v.Queued, metrics.Count)), v.Running))
	}
	told := ""
	out.Why = "its process ended"
	out.Cause = metrics.CauseKilledUnknown
	for _, f := range c.Causes {
		if f.Primary {
			out.Cause, out.Why = f.Class, causeInfo(f.Class).Meaning
			told = ": " + causeWords(metrics.CauseFact{Class: f.Class, Detail: f.Detail})
			source := logSource("client log", f.LineNo)
			switch {
			case f.Class == metrics.CauseHostOOMKilled:
				source = "kernel log"
			case f.Detail == metrics.NodeRestarted:
				source, out.Why = "session", f.Detail
			default:
				out.Log = logPlace(c.Log.Path, &f)
			}
			out.Evidence = append(out.Evidence, metrics.Evidence{Text: f.Line, Source: source, At: f.At})
		}
	}
	out.Title += told
	if c.LastLine != "" {
		out.Evidence = append(out.Evidence, metrics.Evidence{Text: "its log last said: " + c.LastLine, Source: base(c.Log.Path)})
	}
	out.Advice = "read the end of its log, then start it again; the server waits for work"
	if in.Snap.Config.ClientResumable && in.Snap.Config.ClientCommand != "" {
		out.Advice = "start it again (C does, or by hand): " + in.Snap.Config.ClientCommand
	}
	if out.Cause == metrics.CauseHostOOMKilled {
		out.Advice = "free host memory first, or the kernel ends it again; " + out.Advice
	}
	return out
}
