package findings

import (
	"fmt"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

var repetition = Detector{
	ID:     "repetition",
	Means:  "A request repeats itself without an end. It looks perfectly healthy: tokens flow at a constant rate and every draft is accepted.",
	Needs:  "vLLM's lines about speculative decoding",
	When:   "Three lines in a row tell the same number of accepted tokens and 100 % acceptance, with few requests running.",
	Do:     "Abort the request; set a limit of output tokens or a repetition penalty in the client.",
	Causes: []metrics.Cause{metrics.CauseRepetition},
	For:    5 * time.Second,
	Clear:  20 * time.Second,
	Check: func(in *Input, out *Output) {
		for _, v := range in.working() {
			if v.Repeating.IsZero() || !v.Running.Known || v.Running.V < 1 || v.Running.V > 3 {
				continue
			}
			out.Raise(Condition{
				Subject: v.ID, Severity: metrics.SeverityWarning, Cause: metrics.CauseRepetition, Since: v.Repeating, Log: metrics.LogPlace{Path: v.Log.Path},
				Title:    fmt.Sprintf("%s running seems to repeat itself since %s", metrics.Count(v.Running.V), in.clock(v.Repeating)),
				Why:      causeInfo(metrics.CauseRepetition).Meaning,
				Evidence: []metrics.Evidence{figureEvidence("100 % of the drafts accepted, the same number in each line", v.AcceptLen), figureEvidence(metrics.FigureText(v.Gen.Now, metrics.Rate)+" tok/s", v.Gen.Now)},
				Advice:   "abort the request, and give the client a limit of output tokens or a repetition penalty",
				Graph:    metrics.SeriesKey{What: metrics.SeriesGenTPS, Of: v.ID},
			})
		}
	},
}
