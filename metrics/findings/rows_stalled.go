package findings

import (
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

var rowsStalled = Detector{
	ID:      "rows-stalled",
	Means:   "The server finishes requests but rows do not reach the file.",
	Needs:   "finished requests (/metrics or access lines) and a dataset",
	When:    "No growth for 5 times the usual gap between growths and at least a minute, while more requests finish than the writer may hold back (what finishes and is lost while rows do land is work-lost). Where nothing counts finished requests: twice as long and at least 15 minutes, while tokens flow at a settled level (warning). Also when a living client's log tells why it sends nothing (open files, a full disk) while the server is idle and no row lands; or when it has work left, and neither a request, a row nor a line of its log came for 15 minutes, or no request and no row for 30 while its log goes on (warning). Quiet in the first generation after a start, and for writers that write in batches; a warning only while their habit is not known (two growths that were watched).",
	Do:      "By cause: start the client again, free the disk, or look at the file that grows instead.",
	Channel: "files",
	Causes:  append([]metrics.Cause{metrics.CauseRequestsLost}, troubles...),
	For:     20 * time.Second,
	Clear:   20 * time.Second,
	Check: func(in *Input, out *Output) {
		if !clientInTrouble(in, out) {
			clientIdle(in, out)
		}
		v := in.generating()
		if v == nil || v.Gen.Ramp {
			return // in the ramp the first requests are still under way
		}
		for i := range in.Snap.Datasets {
			d := &in.Snap.Datasets[i]
			if !d.Done.IsZero() || d.Grew.IsZero() || !growing(in, d) {
				continue
			}
			limit := max(in.seconds("stalled_min_s"), time.Duration(in.Threshold("stalled_gap_factor")*float64(d.Gap)))
			if d.Gap == 0 {
				limit = in.seconds("stalled_unknown_s") // it may write in batches
			}
			still := in.now().Sub(d.Grew)
			j := in.Snap.Job
			behind := j.Finished.Known && j.Landed.Known && j.Finished.V-j.Landed.V > in.heldBack()
			counted := j.Finished.Known && j.Landed.Known
			if !counted && v.Gen.Settled.Known && d.Gap > 0 {
				// Nothing counts what finishes (of a streaming client no log line does). Tokens flow at a settled level, so that
				// requests do, and the file had a habit.
				limit, behind = max(2*limit, in.seconds("stalled_uncounted_s")), true
			}
			if still < limit || !behind {
				continue
			}
			c := Condition{
				Subject: d.Path, Severity: metrics.SeverityCritical, Since: d.Grew,
				Title: fmt.Sprintf("no row in %s for %s while requests finish (%s requests finished, %s rows landed)",
					base(d.Path), metrics.Age(still), metrics.Count(j.Finished.V), metrics.Count(j.Landed.V)),
				Graph: metrics.SeriesKey{What: metrics.SeriesRows, Of: d.Path},
				Evidence: []metrics.Evidence{
					{Text: "last row at " + in.clock(d.Grew) + usually(d.Gap), Source: "row count", At: d.Grew},
					figureEvidence(fmt.Sprintf("%s requests finished, %s rows landed", metrics.Count(j.Finished.V), metrics.Count(j.Landed.V)), j.Finished),
				},
			}
			if d.Gap == 0 {
				c.Severity = metrics.SeverityWarning // how often it writes is not known yet
			}
			if !counted {
				c.Severity = metrics.SeverityWarning
				c.Title = fmt.Sprintf("no row in %s for %s while %s tok/s flow", base(d.Path), metrics.Age(still), metrics.Rate(v.Gen.Now.V))
				c.Evidence[1] = figureEvidence(metrics.Rate(v.Gen.Now.V)+" tok/s; what finishes is counted by neither the log nor /metrics", v.Gen.Now)
			}
			explainStall(in, d, &c)
			out.Raise(c)
		}
	},
}

// heldBack is how many finished requests writers may hold back before they save:
// those of the next batch, and a few that are under way.
func (in *Input) heldBack() float64 {
	held := in.Threshold("stalled_behind")
	for i := range in.Snap.Datasets {
		held = max(held, 1.5*in.Snap.Datasets[i].Step)
	}
	return held
}

// troubles are causes in a client's log that keep a living client from saving
// anything, while the server has nothing to do.
var troubles = []metrics.Cause{metrics.CauseTooManyFiles, metrics.CauseDiskFull, metrics.CauseShmFull, metrics.CauseClientTimeouts, metrics.CauseRequestTooLong}

// clientInTrouble raises what a living client's log says, where no row lands and
// the server is idle: its work waits in the client.
func clientInTrouble(in *Input, out *Output) bool {
	v := in.Snap.Server()
	if v == nil || v.State != metrics.ServerIdle || in.Snap.Job.Done {
		return false
	}
	for i := range in.Snap.Clients {
		c := &in.Snap.Clients[i]
		f := clientCause(c)
		row := latest(lastRow(in), c.Started)
		if !alive(c) || f == nil || !slices.Contains(troubles, f.Class) || in.now().Sub(row) < in.seconds("stalled_min_s") {
			continue
		}
		info := causeInfo(f.Class)
		out.Raise(Condition{
			Subject: c.ID, Severity: metrics.SeverityCritical, Cause: f.Class, Since: row, Log: logPlace(c.Log.Path, f),
			Title: fmt.Sprintf("%s saves nothing for %s and the server is idle: %s", who(c), metrics.Age(in.now().Sub(row)), causeWords(metrics.CauseFact{Class: f.Class})),
			Why:   info.Meaning, Advice: info.Advice,
			Evidence: []metrics.Evidence{{Text: f.Line, Source: logSource("client log", f.LineNo), At: f.At}, {Text: "server idle since " + in.clock(v.Since), Source: "server", At: v.Since}},
		})
		return true
	}
	return false
}

// clientIdle raises a living client that has work left and does none: the server
// is idle, no row lands and its log stands still (or is held back) for long. A log
// that grows all the while gives it twice as long: it may prepare its work, or
// retry what fails without an end.
func clientIdle(in *Input, out *Output) {
	v := in.Snap.Server()
	if v == nil || v.State != metrics.ServerIdle || in.Snap.Job.Done {
		return
	}
	for i := range in.Snap.Clients {
		c := &in.Snap.Clients[i]
		bar := c.Progress.Known && c.Progress.Total > 0 && c.Progress.Done < c.Progress.Total
		if !alive(c) || c.PID == 0 || !bar && !below(in) || c.Cores.Known && c.Cores.V > 0.2 {
			continue // one that computes is busy with something else
		}
		since := latest(latest(v.Since, lastRow(in)), latest(c.Started, c.Log.Mtime))
		still := in.now().Sub(since)
		writes := still < in.seconds("client_idle_s")
		if writes {
			since = latest(latest(v.Since, lastRow(in)), c.Started)
			if still = in.now().Sub(since); still < 2*in.seconds("client_idle_s") {
				continue
			}
		}
		cond := Condition{
			Subject: c.ID, Severity: metrics.SeverityWarning, Since: since, Log: metrics.LogPlace{Path: c.Log.Path},
			Title:    fmt.Sprintf("%s lives and sends nothing for %s", who(c), metrics.Age(still)),
			Why:      "it has work left, the server waits, and neither a row nor a line of its log comes",
			Advice:   fmt.Sprintf("look at what it waits for (py-spy dump --pid %d); a client that does not come back has to be started again", c.PID),
			Evidence: []metrics.Evidence{{Text: "server idle since " + in.clock(v.Since), Source: "server", At: v.Since}},
		}
		if writes {
			cond.Why = "it has work left, the server waits and no row comes, while its log grows: it may retry what fails each time"
			cond.Advice = "read the end of its log for errors (wrong address or model, refused requests), then start it again"
			cond.Evidence = append(cond.Evidence, metrics.Evidence{Text: base(c.Log.Path) + " grew at " + in.clock(c.Log.Mtime), Source: "stat", At: c.Log.Mtime})
			if c.LastLine != "" {
				cond.Evidence = append(cond.Evidence, metrics.Evidence{Text: "its log last said: " + c.LastLine, Source: base(c.Log.Path), At: c.Log.Mtime})
			}
		}
		if c.State == "stopped" {
			cond.Why, cond.Advice = "it was stopped by a signal (state T)", fmt.Sprintf("kill -CONT %d", c.PID)
		}
		if bar {
			cond.Title += fmt.Sprintf(", %s of %s done", metrics.Count(float64(c.Progress.Done)), metrics.Count(float64(c.Progress.Total)))
			cond.Evidence = append(cond.Evidence, metrics.Evidence{Text: c.Progress.Source, Source: base(c.Log.Path), At: c.Log.Mtime})
		} else if in.Snap.Job.Rows.Known && in.Snap.Job.Target.Rows > 0 {
			cond.Title += fmt.Sprintf(", rows at %s of %s", metrics.Count(in.Snap.Job.Rows.V), metrics.Count(float64(in.Snap.Job.Target.Rows)))
			cond.Evidence = append(cond.Evidence, metrics.Evidence{Text: "last row at " + in.clock(lastRow(in)), Source: "row count", At: lastRow(in)})
		}
		out.Raise(cond)
		return
	}
}

// growing is a dataset that some client writes now: the newest one, or one of a
// client that lives.
func growing(in *Input, d *metrics.Dataset) bool {
	if len(d.Writers) > 0 {
		return true
	}
	for i := range in.Snap.Clients {
		for _, p := range in.Snap.Clients[i].Datasets {
			if p == d.Path {
				newest := in.Snap.Dataset(p)
				for _, q := range in.Snap.Clients[i].Datasets {
					if o := in.Snap.Dataset(q); o != nil && o.Grew.After(newest.Grew) {
						return false
					}
				}
				return true
			}
		}
	}
	return false
}

// usually says how often a file grows, where that is known.
func usually(gap time.Duration) string {
	if gap == 0 {
		return ""
	}
	return ", usually one every " + metrics.Age(gap)
}

// explainStall finds why: the disk, the client, or another file that grows.
func explainStall(in *Input, d *metrics.Dataset, c *Condition) {
	for i := range in.Snap.Sys.Disks {
		disk := &in.Snap.Sys.Disks[i]
		if why, full := in.diskFull(disk); full && (slices.Contains(disk.Paths, d.Path) || slices.Contains(disk.Paths, path.Dir(d.Path))) {
			c.Cause, c.Why = metrics.CauseDiskFull, "the file system "+disk.Mount+" "+why
			c.Advice = "free space on " + disk.Mount
			return
		}
	}
	if unreadable(d) {
		c.Cause, c.Why = metrics.CauseRequestsLost, d.ErrPath+": "+d.Err
		c.Advice = "see rows-unreadable; answers that finish meanwhile may be lost"
		return
	}
	for i := range in.Snap.Clients {
		cl := &in.Snap.Clients[i]
		if f := clientCause(cl); f != nil && (f.Class == metrics.CauseDiskFull || f.Class == metrics.CauseTooManyFiles) {
			c.Cause, c.Why, c.Advice = f.Class, causeInfo(f.Class).Meaning, causeInfo(f.Class).Advice
			c.Evidence = append(c.Evidence, metrics.Evidence{Text: f.Line, Source: "client log", At: f.At})
			c.Log = logPlace(cl.Log.Path, f)
			return
		}
		if cl.State == "stopped" {
			c.Cause = metrics.CauseRequestsLost
			c.Why = who(cl) + " is stopped (state T)"
			c.Advice = fmt.Sprintf("let it go on: kill -CONT %d", cl.PID)
			return
		}
		if other := otherFile(in, d, cl); other != nil && alive(cl) {
			c.Cause = metrics.CauseRequestsLost
			c.Why = who(cl) + " writes another file now: " + other.Path
			c.Advice = "look at " + other.Path + "; nothing is lost if it is the next part"
			c.Severity = metrics.SeverityInfo
			c.Evidence = append(c.Evidence, metrics.Evidence{Text: base(other.Path) + " grew at " + in.clock(other.Grew), Source: "row count", At: other.Grew})
			return
		}
		if alive(cl) && cl.State != "remote" {
			c.Cause = metrics.CauseRequestsLost
			c.Why = who(cl) + " lives but saves nothing"
			if text, busy := in.overloaded(); busy {
				c.Why += "; the host is overloaded and may starve it"
				c.Evidence = append(c.Evidence, text)
			}
			c.Evidence = append(c.Evidence, metrics.Evidence{Text: fmt.Sprintf("%s: state %s, %d connections to the server", who(cl), cl.State, cl.Conns), Source: "/proc", At: in.now()})
			c.Advice = fmt.Sprintf("look at its log and its stack (py-spy dump --pid %d); it may write to another file", cl.PID)
			return
		}
	}
	c.Cause = metrics.CauseRequestsLost
	c.Why = "no client that writes this file was found"
	c.Advice = "start the client again; answers that finish meanwhile are lost"
}

// otherFile is a dataset of the same client that grows while d does not.
func otherFile(in *Input, d *metrics.Dataset, c *metrics.Client) *metrics.Dataset {
	for _, p := range c.Datasets {
		if o := in.Snap.Dataset(p); o != nil && o.Path != d.Path && in.now().Sub(o.Grew) < time.Minute {
			return o
		}
	}
	return nil
}
