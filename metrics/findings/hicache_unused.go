package findings

import (
	"fmt"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

var hicacheUnused = Detector{
	ID:    "hicache-unused",
	Means: "The hierarchical cache is on, holds host memory, and nothing was ever loaded back from it: the same throughput would come without it.",
	Needs: "/metrics of the server (--enable-metrics): load-back and eviction counters",
	When:  "While work runs, no token was loaded back for 15 minutes of watching: without evictions there is nothing to load back; with evictions nobody asked for the evicted prefixes again. Without metrics it cannot be told, and the flag that would tell is named.",
	Do:    "Start without --enable-hierarchical-cache and give its memory back, unless later parts share prefixes.",
	For:   10 * time.Second,
	Clear: 10 * time.Second,
	Check: func(in *Input, out *Output) {
		for _, v := range in.working() {
			h := &v.HiCache
			if !h.On || v.State == metrics.ServerStarting {
				continue
			}
			if !h.LoadBack.Known {
				tell := "--enable-metrics on the server, or a response's cached_tokens_details"
				out.CannotTell("whether the hierarchical cache is used", "the log does not say it and /metrics is off", tell)
				continue
			}
			wait := in.seconds("hicache_idle_s")
			from := latest(h.Watched, h.Loaded)
			if v.State != metrics.ServerServing || from.IsZero() || in.now().Sub(from) < wait || in.now().Sub(v.LastToken) > time.Minute {
				continue
			}
			c := Condition{
				Subject: v.ID, Severity: metrics.SeverityInfo, Since: from,
				Title: fmt.Sprintf("hierarchical cache unused: nothing loaded back for %s", metrics.Age(in.now().Sub(from))),
				Evidence: []metrics.Evidence{
					figureEvidence(metrics.Count(h.LoadBack.V)+" tokens loaded back since the start", h.LoadBack),
				},
				Advice: "start without --enable-hierarchical-cache, unless parts to come share long prefixes",
			}
			if h.HostGB.Known {
				c.Evidence = append(c.Evidence, figureEvidence(fmt.Sprintf("%.0f GB of host memory are pinned for it", h.HostGB.V), h.HostGB))
			}
			switch {
			case !v.Evicted.Known:
				c.Why = "whether anything was evicted is not told"
			case h.Evicting.IsZero():
				c.Why = "nothing was evicted from the GPUs, so there is nothing to load back"
				c.Evidence = append(c.Evidence, figureEvidence(metrics.Count(v.Evicted.V)+" tokens evicted since the start, none while watched", v.Evicted))
			default:
				c.Why = "prefixes are evicted, and nobody asks for them again"
				c.Evidence = append(c.Evidence, figureEvidence(metrics.Count(v.Evicted.V)+" tokens evicted since the start", v.Evicted))
			}
			out.Raise(c)
		}
	},
}
