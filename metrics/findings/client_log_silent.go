package findings

import (
	"fmt"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

var clientLogSilent = Detector{
	ID:      "client-log-silent",
	Means:   "The client's log says nothing although its rows land. Nothing may be wrong but the log.",
	Needs:   "the client's process (descriptors, environment) and its datasets",
	When:    "Empty after 20 rows landed (one that was emptied after its client's start had lines: a rotation), or silent for 5 times its own longest gap and at least 5 minutes, while rows land.",
	Do:      "Start the client with python -u or PYTHONUNBUFFERED=1; judge it by its rows.",
	Channel: "files",
	Causes:  []metrics.Cause{metrics.CauseClientBuffered},
	Clear:   30 * time.Second,
	Check: func(in *Input, out *Output) {
		told := map[string]bool{} // of two clients with one log one speaks for it
		for i := range in.Snap.Clients {
			c := &in.Snap.Clients[i]
			if !alive(c) || c.Log.Path == "" || !c.Log.Deleted.IsZero() || !c.Log.Bytes.Known || told[c.Log.Path] {
				continue
			}
			landed, grew := landedBy(in, c)
			if in.now().Sub(grew) > 5*time.Minute {
				continue
			}
			if landed.n < in.Threshold("silent_rows") {
				// On a first visit rows are counted only from now on; requests that
				// finished since the client's start, with rows that land now, tell the same.
				if landed = finishedSince(in, c); landed.n < in.Threshold("silent_rows") {
					continue
				}
			}
			empty := c.Log.Bytes.V == 0 || c.LogOnlyHeader
			quiet := in.now().Sub(c.Log.Mtime)
			// One that was emptied under its writer (a rotation that copies and cuts)
			// had lines: it is judged as one that is silent.
			emptied := c.Log.Bytes.V == 0 && c.Log.Mtime.Sub(c.Started) > time.Minute
			if (!empty || emptied) && (c.LogSilentSince.IsZero() || quiet < max(in.seconds("client_log_quiet_min_s"), time.Duration(in.Threshold("client_log_gap_factor")*float64(c.Log.Gap)))) {
				continue
			}
			told[c.Log.Path] = true
			out.Raise(silentCondition(in, c, empty, landed))
		}
	},
}

// proof is a number of answers that reached the client, and what was counted.
type proof struct {
	n      float64
	what   string
	source string
}

// finishedSince is how many requests finished since a client's start: all of a
// server that began with it or after it.
func finishedSince(in *Input, c *metrics.Client) proof {
	for i := range in.Snap.Servers {
		if v := &in.Snap.Servers[i]; up(v) && v.Finished.Known && c.Started.Before(v.Started.Add(10*time.Minute)) {
			return proof{v.Finished.V, "requests finished and rows land", v.Finished.Source}
		}
	}
	return proof{}
}

// landedBy is how many rows landed since a client's start in its datasets, and when the newest did.
func landedBy(in *Input, c *metrics.Client) (landed proof, grew time.Time) {
	landed = proof{what: "rows landed meanwhile", source: "row count"}
	for _, p := range c.Datasets {
		if d := in.Snap.Dataset(p); d != nil {
			if d.Landed.Known {
				landed.n += d.Landed.V
			}
			if d.Grew.After(grew) {
				grew = d.Grew
			}
		}
	}
	return landed, grew
}

func silentCondition(in *Input, c *metrics.Client, empty bool, landed proof) Condition {
	since := c.LogSilentSince
	if since.IsZero() {
		since = c.Started
	}
	out := Condition{Subject: c.ID, Severity: metrics.SeverityWarning, Since: since, Log: metrics.LogPlace{Path: c.Log.Path}}
	what := "silent"
	if empty {
		what = "empty"
		out.Evidence = append(out.Evidence, figureEvidence(emptyText(c), c.Log.Bytes))
	} else {
		out.Evidence = append(out.Evidence, metrics.Evidence{Text: base(c.Log.Path) + " last grew at " + in.clock(c.Log.Mtime), Source: "stat", At: c.Log.Mtime})
	}
	out.Title = fmt.Sprintf("client log %s since %s", what, in.clock(since))
	out.Evidence = append(out.Evidence, metrics.Evidence{Text: metrics.Count(landed.n) + " " + landed.what, Source: landed.source, At: in.now()})
	switch {
	case c.LogOwned && c.Python && c.Unbuffered != nil && !*c.Unbuffered:
		out.Severity = metrics.SeverityInfo
		out.Cause = metrics.CauseClientBuffered
		out.Title = fmt.Sprintf("rows are safe; client log buffered since %s", in.clock(since))
		out.Why = "Python holds its output back when it goes to a file: neither -u nor PYTHONUNBUFFERED is set"
		out.Advice = "nothing to do now; next time start the client with python -u, or PYTHONUNBUFFERED=1"
		out.Evidence = append(out.Evidence, metrics.Evidence{Text: "descriptor 1 of " + who(c) + " is that file; it runs without -u and without PYTHONUNBUFFERED", Source: "/proc", At: in.now()})
	case !c.LogOwned:
		out.Why = "no process has this log as descriptor 1 or 2: the client writes elsewhere"
		out.Advice = "look at /proc/" + fmt.Sprint(c.PID) + "/fd/1 for where it writes; judge it by its rows"
		if p := in.process(c.PID); p != nil && p.FD1 != "" {
			out.Why = "its output goes to " + metrics.Cut(p.FD1, 120) + ": the client writes elsewhere"
			out.Evidence = append(out.Evidence, metrics.Evidence{Text: "descriptor 1 of " + who(c) + " is " + metrics.Cut(p.FD1, 120), Source: "/proc (fd/1)", At: in.now()})
		}
	default:
		out.Why = "not known"
		out.Advice = "judge the client by its rows, which land"
	}
	return out
}

// emptyText says how empty a log is.
func emptyText(c *metrics.Client) string {
	if c.LogOnlyHeader {
		return base(c.Log.Path) + " has nothing but nohup's first line"
	}
	return base(c.Log.Path) + " has 0 bytes"
}
