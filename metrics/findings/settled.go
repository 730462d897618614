package findings

import (
	"fmt"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

var settled = Detector{
	ID:    "settled",
	Means: "Throughput has reached its lasting level. The peak before it came while requests were young and short.",
	Needs: "the server's log, or /v1/loads with /metrics",
	When:  "The medians of tokens a request and of running requests in both halves of 5 minutes differ by less than 20 %. Shown for 30 minutes.",
	Do:    "Judge this start by the settled level, not by its peak.",
	Show:  30 * time.Minute,
	Check: func(in *Input, out *Output) {
		for i := range in.Snap.Servers {
			v := &in.Snap.Servers[i]
			if !v.Gen.Settled.Known || !up(v) {
				continue
			}
			c := Condition{
				Subject: v.ID, Severity: metrics.SeverityInfo, Since: v.Gen.Since,
				Title: fmt.Sprintf("settled at %s tok/s since %s", metrics.Rate(v.Gen.Settled.V), in.clock(v.Gen.Since)),
				Graph: metrics.SeriesKey{What: metrics.SeriesGenTPS, Of: v.ID},
			}
			spread := ""
			if v.Gen.Spread.Known {
				spread = " ± " + metrics.Rate(v.Gen.Spread.V)
			}
			c.Evidence = append(c.Evidence, figureEvidence(metrics.Rate(v.Gen.Settled.V)+spread+" tok/s, median since then", v.Gen.Settled))
			if v.Gen.Peak.Known && v.Gen.Peak.V > 1.15*v.Gen.Settled.V {
				c.Title += fmt.Sprintf("; %s was the ramp", metrics.Count(v.Gen.Peak.V))
				c.Evidence = append(c.Evidence, metrics.Evidence{
					Text:   fmt.Sprintf("peak %s tok/s with %s running at %s", metrics.Count(v.Gen.Peak.V), metrics.FigureText(v.Gen.PeakRunning, metrics.Count), in.clock(v.Gen.PeakAt)),
					Source: v.Gen.Peak.Source, At: v.Gen.PeakAt,
				})
				if v.Gen.PeakPerRequest.Known && v.Gen.SettledPerRequest.Known {
					c.Why = fmt.Sprintf("requests grew from %s to %s tokens each, so %s run where %s did",
						metrics.Count(v.Gen.PeakPerRequest.V), metrics.Count(v.Gen.SettledPerRequest.V),
						metrics.FigureText(v.Gen.SettledRunning, metrics.Count), metrics.FigureText(v.Gen.PeakRunning, metrics.Count))
				}
			}
			c.Advice = settledAdvice(v)
			out.Raise(c)
		}
	},
}

// settledAdvice says what keeps the level where it is, and which way would lift it.
func settledAdvice(v *metrics.Server) string {
	if v.State != metrics.ServerServing && v.State != metrics.ServerDraining {
		return "nothing to do for it: that was its level while it worked"
	}
	if !v.Queued.Known || v.Queued.V == 0 || !v.KVUsage.Known || v.KVUsage.V < 0.9 {
		return "nothing to do; judge this start by this level"
	}
	more := "--mem-fraction-static"
	if v.Engine == "vllm" {
		more = "--gpu-memory-utilization"
	}
	return "nothing to do now; the KV pool is full: e, or restart --dry-run, forecasts a higher " + more
}
