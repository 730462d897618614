package findings

import (
	"fmt"
	"math"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

var underfed = Detector{
	ID:    "underfed",
	Means: "The client sends fewer requests than the server could run at once. A part of the GPUs is idle by choice.",
	Needs: "the server's log or /metrics, and a settled level",
	When:  "Settled, nothing queued for 5 minutes and less than 70 % of what fits runs, while new requests still come. Quiet while a part drains (no new request for a minute).",
	Do:    "Raise the client's concurrency to about what fits.",
	For:   60 * time.Second,
	Clear: 60 * time.Second,
	Check: func(in *Input, out *Output) {
		for _, v := range in.working() {
			span := in.seconds("underfed_s")
			queued, qok := in.most(metrics.SeriesQueued, v.ID, span)
			running, rok := in.most(metrics.SeriesRunning, v.ID, span)
			if !v.Gen.Settled.Known || !v.RequestsFit.Known || !qok || !rok || queued > 0 || running < 1 {
				continue
			}
			if v.NewRequest.IsZero() || in.now().Sub(v.NewRequest) > time.Minute || running >= in.Threshold("underfed_share")*v.RequestsFit.V {
				continue
			}
			fit := math.Floor(v.RequestsFit.V)
			c := Condition{
				Subject: v.ID, Severity: metrics.SeverityInfo, Graph: metrics.SeriesKey{What: metrics.SeriesRunning, Of: v.ID},
				Title: fmt.Sprintf("%s requests run where about %s fit, and none waits", metrics.Count(running), metrics.Count(fit)),
				Why:   "the client keeps too few requests in flight",
				Evidence: []metrics.Evidence{
					figureEvidence(fmt.Sprintf("at most %s running and 0 queued for %s", metrics.Count(running), metrics.Age(span)), v.Running),
					figureEvidence(metrics.Count(fit)+" requests of the present length fit", v.RequestsFit),
				},
				Advice: fmt.Sprintf("raise the client's concurrency from %s to about %s", metrics.Count(running), metrics.Count(fit)),
			}
			if text, busy := in.overloaded(); busy {
				c.Why += ", or it gets too little of the processors"
				c.Evidence = append(c.Evidence, text)
			}
			if t := v.Step.TPS(fit); t > 0 && v.Gen.Settled.V > 0 && t > v.Gen.Settled.V {
				c.Evidence = append(c.Evidence, metrics.Evidence{Text: fmt.Sprintf("that would make about %s tok/s instead of %s", metrics.Count(t), metrics.Count(v.Gen.Settled.V)), Source: "step time fit", At: in.now()})
			}
			out.Raise(c)
		}
	},
}
