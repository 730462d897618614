package findings

import (
	"fmt"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

var nothingSaved = Detector{
	ID:      "nothing-saved",
	Means:   "Tokens flow, and no file of rows of any client grows or is open. The work may be thrown away.",
	Needs:   "the client's open files (same user or root) and the server's finished requests",
	When:    "Tokens flow, 20 requests finished and for 15 minutes no dataset grew and none is open for writing. Quiet in the first generation, and where a living client has saved rows before (rows-stalled). With a client on another host, or where open files cannot be read, it is an entry of what cannot be told.",
	Do:      "Look where the client writes (its arguments, /proc/PID/fd); stop it if the answer is nowhere.",
	Channel: "files",
	Causes:  []metrics.Cause{metrics.CauseRequestsLost},
	For:     30 * time.Second,
	Clear:   20 * time.Second,
	Check: func(in *Input, out *Output) {
		v := in.generating()
		if v == nil {
			return
		}
		if !v.Finished.Known {
			if len(in.Snap.Datasets) == 0 {
				out.CannotTell("whether rows are saved", "no file of rows was found, and nothing counts finished requests", "--enable-metrics on the server, or datasets in the configuration")
			}
			return
		}
		if v.Finished.V < in.Threshold("unsaved_finished") {
			return
		}
		wait := in.seconds("unsaved_s")
		since := v.Started
		for i := range in.Snap.Datasets {
			d := &in.Snap.Datasets[i]
			if len(d.Writers) > 0 || in.now().Sub(d.Grew) < wait {
				return
			}
			if d.Landed.Known && d.Landed.V > 0 && clientOf(in, d) != nil {
				return // its client saves, in batches perhaps: rows-stalled tells when that ends
			}
			since = latest(since, d.Grew)
		}
		local := false
		for i := range in.Snap.Clients {
			switch c := &in.Snap.Clients[i]; {
			case c.State == "remote":
				out.CannotTell("whether rows are saved", who(c)+" sends requests and its files are out of sight", "runvigil on that host, or a dataset of the configuration that lies on this node")
				return
			case alive(c):
				if p := in.process(c.PID); p != nil && !p.EnvRead && p.FD1 == "" && p.FD2 == "" && len(p.Files) == 0 {
					out.CannotTell("whether rows are saved", "what "+who(c)+" has open is its user's and root's to see", "connect as "+orUser(p.User)+" or root, or name its file in the configuration (datasets)")
					return
				}
				local = true
				since = latest(since, c.Started)
			}
		}
		if in.now().Sub(since) < wait {
			return
		}
		c := Condition{
			Subject: "rows", Severity: metrics.SeverityCritical, Cause: metrics.CauseRequestsLost, Since: since,
			Title: fmt.Sprintf("nothing is saved: %s tok/s, %s requests finished, and no dataset grew for %s", metrics.Rate(v.Gen.Now.V), metrics.Count(v.Finished.V), metrics.Age(in.now().Sub(since))),
			Why:   "no client has a file of rows open and none grew",
			Evidence: []metrics.Evidence{
				figureEvidence(metrics.Rate(v.Gen.Now.V)+" tok/s", v.Gen.Now),
				figureEvidence(metrics.Count(v.Finished.V)+" requests finished", v.Finished),
			},
			Advice: "find the one who sends them (ss -tnp | grep :" + fmt.Sprint(v.Port) + ") and where it writes",
			Graph:  metrics.SeriesKey{What: metrics.SeriesGenTPS, Of: v.ID},
		}
		if local {
			for i := range in.Snap.Clients {
				if cl := &in.Snap.Clients[i]; alive(cl) {
					c.Advice = fmt.Sprintf("look at what it has open (ls -l /proc/%d/fd); name its file in the configuration (datasets) if it is no .jsonl", cl.PID)
					c.Evidence = append(c.Evidence, metrics.Evidence{Text: who(cl) + " runs and has no file of rows open", Source: "/proc", At: in.now()})
					break
				}
			}
		}
		out.Raise(c)
	},
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
