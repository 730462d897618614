package findings

import (
	"fmt"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

var serverHalfDead = Detector{
	ID:    "server-half-dead",
	Means: "A part of the server is gone while the rest goes on: its HTTP front answers without a scheduler behind it, or one data parallel rank no longer speaks.",
	Needs: "the server's process tree and its log",
	When:  "The process lives and no scheduler is in its tree any more; or a data parallel rank prints nothing for 2 minutes while others do and it had requests.",
	Do:    "Restart the server: nobody else will notice; /health proves nothing.",
	For:   20 * time.Second,
	Clear: 10 * time.Second,
	Check: func(in *Input, out *Output) {
		if !in.linkUp() {
			return
		}
		for _, v := range in.working() {
			if v.Scheduler != nil && !*v.Scheduler && v.State != metrics.ServerDraining {
				c := halfDead(v, fmt.Sprintf("%s has no scheduler any more, only its front lives", name(v)), "its scheduler process is gone and the front was not told")
				c.Cause = metrics.CauseWorkerDied
				if p := primary(v); p != nil {
					c.Cause, c.LogLine = p.Class, p.LineNo
					c.Evidence = append(c.Evidence, metrics.Evidence{Text: p.Line, Source: "log line " + lineNo(p.LineNo), At: p.At})
				}
				if v.Health.Known {
					c.Evidence = append(c.Evidence, figureEvidence(fmt.Sprintf("/health answers %.0f, which proves nothing", v.Health.V), v.Health))
				}
				c.Evidence = append(c.Evidence, metrics.Evidence{Text: fmt.Sprintf("process %d lives, no scheduler among its %d processes", v.PID, len(v.Tree)), Source: "processes", At: in.now()})
				out.Raise(c)
				continue
			}
			silentRank(in, v, out)
		}
	},
}

func halfDead(v *metrics.Server, title, why string) Condition {
	return Condition{
		Subject: v.ID, Severity: metrics.SeverityCritical, Title: title, Why: why, LogPath: v.Log.Path,
		Advice: "restart the server (R); read the first traceback of the part that died",
		Graph:  metrics.SeriesKey{What: metrics.SeriesGenTPS, Of: v.ID},
	}
}

// silentRank finds a rank that stopped in the middle of its work.
func silentRank(in *Input, v *metrics.Server, out *Output) {
	var newest time.Time
	for _, r := range v.Ranks {
		newest = latest(newest, r.Last)
	}
	limit := in.seconds("rank_silent_s")
	for _, r := range v.Ranks {
		if newest.Sub(r.Last) < limit || !r.Running.Known || r.Running.V < 1 || in.now().Sub(newest) > limit {
			continue
		}
		c := halfDead(v, fmt.Sprintf("rank DP%d is silent since %s with %s running, the others go on", r.DP, in.clock(r.Last), metrics.Count(r.Running.V)),
			"its scheduler no longer makes steps, and the requests that were sent to it are lost")
		c.Since, c.Cause = r.Last, metrics.CauseSchedulerException
		if p := primary(v); p != nil {
			c.Cause, c.LogLine = p.Class, p.LineNo
			c.Evidence = append(c.Evidence, metrics.Evidence{Text: p.Line, Source: "log line " + lineNo(p.LineNo), At: p.At})
		}
		c.Evidence = append(c.Evidence, figureEvidence(fmt.Sprintf("last line of DP%d at %s: %s running", r.DP, in.clock(r.Last), metrics.Count(r.Running.V)), r.Running))
		out.Raise(c)
		return
	}
}
