package findings

import (
	"fmt"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

var clientLogSilent = Detector{
	ID:    "client-log-silent",
	Means: "The client's log says nothing although its rows land. Nothing may be wrong but the log.",
	Needs: "the client's process (descriptors, environment) and its datasets",
	When:  "Empty after 20 rows landed, or silent for 5 times its own usual gap and at least 5 minutes, while rows land.",
	Do:    "Start the client with python -u or PYTHONUNBUFFERED=1; judge it by its rows.",
	Clear: 30 * time.Second,
	Check: func(in *Input, out *Output) {
		for i := range in.Snap.Clients {
			c := &in.Snap.Clients[i]
			if !alive(c) || c.Log.Path == "" || !c.Log.Bytes.Known {
				continue
			}
			landed, grew := landedBy(in, c)
			if landed < in.Threshold("silent_rows") || in.now().Sub(grew) > 5*time.Minute {
				continue
			}
			empty := c.Log.Bytes.V == 0
			quiet := in.now().Sub(c.Log.Mtime)
			if !empty && (c.LogSilentSince.IsZero() || quiet < in.seconds("client_log_quiet_min_s")) {
				continue
			}
			out.Raise(silentCondition(in, c, empty, landed))
		}
	},
}

// landedBy is how many rows landed since a client's start in its datasets, and when the newest did.
func landedBy(in *Input, c *metrics.Client) (landed float64, grew time.Time) {
	for _, p := range c.Datasets {
		if d := in.Snap.Dataset(p); d != nil {
			if d.Landed.Known {
				landed += d.Landed.V
			}
			if d.Grew.After(grew) {
				grew = d.Grew
			}
		}
	}
	return landed, grew
}

func silentCondition(in *Input, c *metrics.Client, empty bool, landed float64) Condition {
	since := c.LogSilentSince
	if since.IsZero() {
		since = c.Started
	}
	out := Condition{Subject: c.ID, Severity: metrics.SeverityWarning, Since: since}
	what := "silent"
	if empty {
		what = "empty"
		out.Evidence = append(out.Evidence, figureEvidence(base(c.Log.Path)+" has 0 bytes", c.Log.Bytes))
	} else {
		out.Evidence = append(out.Evidence, metrics.Evidence{Text: base(c.Log.Path) + " last grew at " + in.clock(c.Log.Mtime), Source: "stat", At: c.Log.Mtime})
	}
	out.Title = fmt.Sprintf("client log %s since %s", what, in.clock(since))
	out.Evidence = append(out.Evidence, metrics.Evidence{Text: fmt.Sprintf("%s rows landed meanwhile", metrics.Count(landed)), Source: "row count", At: in.now()})
	switch {
	case c.LogOwned && c.Python && c.Unbuffered != nil && !*c.Unbuffered:
		out.Severity = metrics.SeverityInfo
		out.Cause = metrics.CauseClientBuffered
		out.Title = fmt.Sprintf("client log buffered since %s: rows are safe", in.clock(since))
		out.Why = "Python holds its output back when it goes to a file: neither -u nor PYTHONUNBUFFERED is set"
		out.Advice = "start the client with python -u, or PYTHONUNBUFFERED=1"
		out.Evidence = append(out.Evidence, metrics.Evidence{Text: "descriptor 1 of " + who(c) + " is that file; it runs without -u and without PYTHONUNBUFFERED", Source: "/proc", At: in.now()})
	case !c.LogOwned:
		out.Why = "no process has this log as descriptor 1 or 2: the client writes elsewhere"
		out.Advice = "look at /proc/" + fmt.Sprint(c.PID) + "/fd/1 for where it writes; judge it by its rows"
	default:
		out.Why = "not known"
		out.Advice = "judge the client by its rows, which land"
	}
	return out
}
