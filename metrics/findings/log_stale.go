package findings

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

var logStale = Detector{
	ID:      "log-stale",
	Means:   "The server works and its log stands still, or a log that is watched was deleted: whoever wrote the file is gone, or it writes elsewhere. What the log would tell is missing from now on.",
	Needs:   "the log, and for one that stands still a second source (/metrics or /v1/loads, or rows that land)",
	When:    "No growth of the server's log for 5 minutes while tokens flow by the server's own counters, or rows land. Quiet where its flags leave it nothing to log. Or the file of a log that was read (the server's, a client's, one of the configuration) is not there while its process lives; one that is renamed and made anew is not deleted.",
	Do:      "Ask the server before calling it dead; restore the log's writer at the next start. A deleted file lives on as long as it is open: save it with cp from /proc/PID/fd/N.",
	Channel: "files",
	Causes:  []metrics.Cause{metrics.CauseLogStopped},
	For:     20 * time.Second,
	Clear:   10 * time.Second,
	Check: func(in *Input, out *Output) {
		logDeleted(in, out)
		for _, v := range in.working() {
			wait := in.seconds("log_stale_s")
			if silentByChoice(v) || !v.Log.Deleted.IsZero() {
				continue
			}
			if v.Log.Path == "" || v.Log.Mtime.IsZero() || in.now().Sub(v.Log.Mtime) < wait || v.State == metrics.ServerStarting {
				continue
			}
			if in.now().Sub(v.Started) < wait {
				continue
			}
			var proof metrics.Evidence
			switch row := lastRow(in); {
			case in.now().Sub(v.LastToken) < time.Minute && v.LastToken.Sub(v.Log.Mtime) > wait/2:
				proof = metrics.Evidence{Text: "tokens still come at " + in.clock(v.LastToken), Source: "/metrics", At: v.LastToken}
			case v.Running.Known && v.Running.V > 0 && v.Running.Source != "log" && !v.Running.Stale(in.now()) && in.now().Sub(row) < time.Minute:
				proof = figureEvidence(metrics.Count(v.Running.V)+" running, and rows land", v.Running)
			case len(in.working()) == 1 && v.Running.Known && v.Running.V > 0 && in.now().Sub(row) < time.Minute && row.Sub(v.Log.Mtime) > wait/2:
				proof = metrics.Evidence{Text: "the newest row landed at " + in.clock(row), Source: "row count", At: row}
			default:
				continue
			}
			out.Raise(Condition{
				Subject: v.ID, Severity: metrics.SeverityWarning, Cause: metrics.CauseLogStopped, Since: v.Log.Mtime, Log: metrics.LogPlace{Path: v.Log.Path},
				Title:    fmt.Sprintf("log of the server stands still since %s while it works", in.clock(v.Log.Mtime)),
				Why:      causeInfo(metrics.CauseLogStopped).Meaning,
				Evidence: []metrics.Evidence{{Text: base(v.Log.Path) + " last grew at " + in.clock(v.Log.Mtime), Source: "stat", At: v.Log.Mtime}, proof},
				Advice:   "go by /metrics and the rows; look whether the file was moved or deleted (ls -l /proc/" + fmt.Sprint(v.PID) + "/fd/1)",
			})
		}
	},
}

// logDeleted raises logs whose file is not there while somebody may write them.
func logDeleted(in *Input, out *Output) {
	told := map[string]bool{}
	raise := func(subject, whose, path, held string, pid int, since time.Time) {
		if since.IsZero() || told[path] {
			return
		}
		told[path] = true
		c := Condition{
			Subject: subject, Severity: metrics.SeverityWarning, Cause: metrics.CauseLogStopped, Since: since, Log: metrics.LogPlace{Path: path},
			Title:    whose + " (" + base(path) + ") was deleted at " + in.clock(since),
			Why:      "its lines go nowhere from where they can be read, and the file is gone for good when its writer ends",
			Evidence: []metrics.Evidence{{Text: path + " is not there since " + in.clock(since), Source: "stat", At: since}},
		}
		switch {
		case held != "":
			c.Why = "its process still writes into the deleted file, which is gone for good when it ends"
			c.Evidence = append(c.Evidence, metrics.Evidence{Text: held + " is that file, deleted", Source: "/proc", At: in.now()})
			c.Advice = "save what is in it while its process lives: cp " + held + " " + quoted(path+".saved") + "; later lines need that again until the next start"
		case pid > 0:
			c.Advice = fmt.Sprintf("look where it writes now (ls -l /proc/%d/fd); a file that is \"(deleted)\" can be saved with cp /proc/%d/fd/N", pid, pid)
		default:
			c.Severity = metrics.SeverityInfo
			c.Why = "nobody is known who writes it"
			c.Advice = "take it out of the configuration if it is not wanted any more"
		}
		out.Raise(c)
	}
	for i := range in.Snap.Servers {
		v := &in.Snap.Servers[i]
		if up(v) {
			raise(v.ID, "log of the server", v.Log.Path, v.Log.Held, v.PID, v.Log.Deleted)
		}
		told[v.Log.Path] = true // of one that ended its end is told
	}
	for i := range in.Snap.Clients {
		c := &in.Snap.Clients[i]
		if alive(c) {
			raise(c.ID, "log of "+who(c), c.Log.Path, c.Log.Held, c.PID, c.Log.Deleted)
		}
		told[c.Log.Path] = true
	}
	for _, p := range slices.Concat(in.Snap.Config.Logs, in.Snap.Config.ServerLogs, in.Snap.Config.ClientLogs) {
		if l := in.Snap.Logs[p]; l != nil {
			raise(p, "a log of the configuration", p, l.Held, 0, l.Deleted)
		}
	}
}

// silentByChoice tells a server whose flags leave it nothing to log while it works.
func silentByChoice(v *metrics.Server) bool {
	level := strings.ToLower(setting(v, "--log-level"))
	if v.Engine == "vllm" {
		http := strings.ToLower(setting(v, "--uvicorn-log-level"))
		access := flagSet(v.Argv, "--disable-uvicorn-access-log") || http != "" && http != "info" && http != "debug" && http != "trace"
		return flagSet(v.Argv, "--disable-log-stats") && access
	}
	return level != "" && level != "info" && level != "debug"
}
