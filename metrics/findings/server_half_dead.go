package findings

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

var serverHalfDead = Detector{
	ID:     "server-half-dead",
	Means:  "A part of the server is gone while the rest goes on: its HTTP front answers without a scheduler behind it, or one data parallel rank no longer speaks.",
	Needs:  "the server's process tree and its log",
	When:   "The process lives and no scheduler is in its tree any more; or its log told the end of a scheduler and the process outlived it by 20 s without a token (or one data parallel rank of several ended); or a data parallel rank prints nothing for 2 minutes while others do, new requests come and it had some.",
	Do:     "Restart the server: nobody else will notice; /health proves nothing.",
	Causes: partEnds,
	For:    20 * time.Second,
	Clear:  10 * time.Second,
	Check: func(in *Input, out *Output) {
		for _, v := range in.working() {
			if v.Scheduler != nil && !*v.Scheduler && v.State != metrics.ServerDraining {
				c := halfDead(v, fmt.Sprintf("%s has no scheduler any more, only its front lives", name(v)), "its scheduler process is gone and the front was not told")
				c.Cause = metrics.CauseWorkerDied
				if p := primary(v); p != nil && slices.Contains(partEnds, p.Class) {
					c.Cause, c.Log = p.Class, logPlace(v.Log.Path, p)
					c.Evidence = append(c.Evidence, metrics.Evidence{Text: p.Line, Source: logSource("log", p.LineNo), At: p.At})
				}
				if v.Health.Known {
					c.Evidence = append(c.Evidence, figureEvidence(fmt.Sprintf("/health answers %.0f, which proves nothing", v.Health.V), v.Health))
				}
				c.Evidence = append(c.Evidence, metrics.Evidence{Text: fmt.Sprintf("process %d lives, no scheduler among its %d processes", v.PID, len(v.Tree)), Source: "processes", At: in.now()})
				out.Raise(c)
				continue
			}
			if !silentRank(in, v, out) {
				deadPart(in, v, out)
			}
		}
	},
}

func halfDead(v *metrics.Server, title, why string) Condition {
	return Condition{
		Subject: v.ID, Severity: metrics.SeverityCritical, Title: title, Why: why, Log: metrics.LogPlace{Path: v.Log.Path},
		Advice: "restart the server (R); read the first traceback of the part that died",
		Graph:  metrics.SeriesKey{What: metrics.SeriesGenTPS, Of: v.ID},
	}
}

// few requests may all finish between two decode lines.
const few = 4

// silentRank finds a rank that stopped in the middle of its work.
func silentRank(in *Input, v *metrics.Server, out *Output) bool {
	var newest time.Time
	for _, r := range v.Ranks {
		newest = latest(newest, r.Last)
	}
	limit := in.seconds("rank_silent_s")
	for _, r := range v.Ranks {
		if newest.Sub(r.Last) < limit || !r.Running.Known || r.Running.V < few || in.now().Sub(newest) > limit {
			continue
		}
		if !v.NewRequest.IsZero() && v.NewRequest.Before(r.Last.Add(limit/2)) {
			continue // no work comes any more: its last requests may be done
		}
		c := halfDead(v, fmt.Sprintf("rank DP%d is silent since %s with %s running, the others go on", r.DP, in.clock(r.Last), metrics.Count(r.Running.V)),
			"its scheduler no longer makes steps, and the requests that were sent to it are lost")
		c.Since, c.Cause = r.Last, metrics.CauseSchedulerException
		if p := primary(v); p != nil && slices.Contains(partEnds, p.Class) {
			c.Cause, c.Log = p.Class, logPlace(v.Log.Path, p)
			c.Evidence = append(c.Evidence, metrics.Evidence{Text: p.Line, Source: logSource("log", p.LineNo), At: p.At})
		}
		c.Evidence = append(c.Evidence, figureEvidence(fmt.Sprintf("last line of DP%d at %s: %s running", r.DP, in.clock(r.Last), metrics.Count(r.Running.V)), r.Running))
		out.Raise(c)
		return true
	}
	return false
}

// partEnds are the causes that end a scheduler, whatever its front does after.
var partEnds = []metrics.Cause{
	metrics.CauseSchedulerException, metrics.CauseSchedulerWatchdog, metrics.CauseCUDAOOM, metrics.CauseKVPoolExhausted, metrics.CauseIllegalAccess,
	metrics.CauseDeviceAssert, metrics.CauseNCCLTimeout, metrics.CauseNCCLError, metrics.CauseNativeCrash, metrics.CauseWorkerDied, metrics.CauseEngineDead,
}

// deadPart finds a server whose log tells of an end that its process outlived.
// Tokens that still flow disprove it, but for a data parallel rank of several.
func deadPart(in *Input, v *metrics.Server, out *Output) {
	p := primary(v)
	if p == nil || !slices.Contains(partEnds, p.Class) || in.now().Sub(p.At) < 20*time.Second {
		return
	}
	dp := strings.Contains(p.Rank, "DP")
	if !dp && latest(v.LastToken, v.LastBatch).Sub(p.At) > 5*time.Second {
		return
	}
	c := halfDead(v, fmt.Sprintf("a part of the server is dead since %s: %s", in.clock(p.At), causeWords(*p)), causeInfo(p.Class).Meaning)
	c.Cause, c.Log, c.Since = p.Class, logPlace(v.Log.Path, p), p.At
	c.Evidence = append(c.Evidence, metrics.Evidence{Text: p.Line, Source: logSource("log", p.LineNo), At: p.At},
		metrics.Evidence{Text: fmt.Sprintf("process %d still lives", v.PID), Source: "processes", At: in.now()})
	if v.LastBatch.After(p.At) {
		c.Evidence = append(c.Evidence, metrics.Evidence{Text: "other ranks go on: last batch at " + in.clock(v.LastBatch), Source: "log", At: v.LastBatch})
	}
	out.Raise(c)
}
