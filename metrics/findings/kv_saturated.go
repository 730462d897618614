package findings

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

var kvSaturated = Detector{
	ID:     "kv-saturated",
	Means:  "The KV pool is full and running requests are thrown back into the queue again and again: their work is done twice.",
	Needs:  "the server's log or /metrics",
	When:   "More than 1 retraction (vLLM: preemption) a minute over 10 minutes at a KV usage of 0.9 or more, without a pause of 2 minutes for 15 minutes: while young requests grow some are always retracted. A full pool alone is good.",
	Do:     "SGLang: raise --schedule-conservativeness to about 1.3. vLLM: lower --max-num-seqs. Or send fewer requests at once.",
	Causes: []metrics.Cause{metrics.CauseKVThrashing},
	For:    15 * time.Minute,
	Clear:  3 * time.Minute,
	Check: func(in *Input, out *Output) {
		for _, v := range in.working() {
			if !v.Retracted.Known || v.Retracted.V <= in.Threshold("retracted_per_min") || !v.KVUsage.Known || v.KVUsage.V < in.Threshold("retract_usage") || v.RetractedSince.IsZero() {
				continue
			}
			f := tuningOf(v)
			c := Condition{
				Subject: v.ID, Severity: metrics.SeverityWarning, Cause: metrics.CauseKVThrashing, Log: metrics.LogPlace{Path: v.Log.Path}, Since: v.RetractedSince,
				Title: fmt.Sprintf("%s retractions a minute at KV usage %.2f", metrics.Rate(v.Retracted.V), v.KVUsage.V),
				Why:   "more requests were admitted than the pool holds when they have grown",
				Evidence: []metrics.Evidence{
					figureEvidence(metrics.Rate(v.Retracted.V)+" retractions a minute over 10 minutes", v.Retracted),
					figureEvidence(fmt.Sprintf("KV usage %.2f", v.KVUsage.V), v.KVUsage),
				},
				Graph: metrics.SeriesKey{What: metrics.SeriesKVUsage, Of: v.ID},
			}
			if f.conservativeness != "" {
				was := 1.0
				if x, err := strconv.ParseFloat(setting(v, f.conservativeness), 64); err == nil {
					was = x
				}
				c.Advice = fmt.Sprintf("raise %s from %g to %.2g", f.conservativeness, was, math.Max(1.3, was*1.3))
			} else {
				c.Advice = "lower " + f.running
			}
			if v.RequestsFit.Known {
				c.Advice += fmt.Sprintf(", or let the client keep about %s in flight", metrics.Count(math.Floor(v.RequestsFit.V)))
			}
			out.Raise(c)
		}
	},
}

var tooConservative = Detector{
	ID:    "too-conservative",
	Means: "Requests wait although the KV pool has room: the scheduler reserves too much for what running ones might still write.",
	Needs: "the server's log or /metrics, and a settled level",
	When:  "Settled, a queue for 5 minutes and KV usage below 0.9 all that time, no retraction, and --max-running-requests not reached.",
	Do:    "SGLang: lower --schedule-conservativeness towards 0.3. vLLM: raise --max-num-seqs.",
	For:   2 * time.Minute,
	Clear: 2 * time.Minute,
	Check: func(in *Input, out *Output) {
		for _, v := range in.working() {
			usage, uok := in.most(metrics.SeriesKVUsage, v.ID, 5*time.Minute)
			queued, qok := in.mean(metrics.SeriesQueued, v.ID, 5*time.Minute, 0)
			if !v.Gen.Settled.Known || !uok || !qok || queued < 2 || usage >= in.Threshold("conservative_usage") || v.Retracted.Known && v.Retracted.V > 0 {
				continue
			}
			if !v.Running.Known || v.MaxRunning.Known && v.Running.V >= 0.95*v.MaxRunning.V {
				continue // the limit of running requests binds, not the reserve
			}
			if limit, err := strconv.ParseFloat(setting(v, tuningOf(v).running), 64); err == nil && v.Running.V >= 0.95*limit {
				continue
			}
			f := tuningOf(v)
			c := Condition{
				Subject: v.ID, Severity: metrics.SeverityInfo, Graph: metrics.SeriesKey{What: metrics.SeriesKVUsage, Of: v.ID},
				Title: fmt.Sprintf("%s requests wait while the KV pool is never above %.2f", metrics.Count(queued), usage),
				Why:   "the scheduler keeps room for the longest answers that could come",
				Evidence: []metrics.Evidence{
					figureEvidence(fmt.Sprintf("KV usage at most %.2f over 5 minutes", usage), v.KVUsage),
					figureEvidence(metrics.Count(queued)+" queued on average", v.Queued),
				},
			}
			if f.conservativeness != "" {
				was := 1.0
				if x, err := strconv.ParseFloat(setting(v, f.conservativeness), 64); err == nil {
					was = x
				}
				if was <= 0.3 {
					continue // it is as low as it should be
				}
				c.Advice = fmt.Sprintf("lower %s from %g towards 0.3, in steps, while there are no retractions", f.conservativeness, was)
			} else {
				c.Advice = "raise " + f.running
			}
			out.Raise(c)
		}
	},
}

var queueGrowing = Detector{
	ID:    "queue-growing",
	Means: "More requests arrive than finish. The queue and the waiting time grow without end.",
	Needs: "10 minutes of the server's log or /metrics",
	When:  "Requests in flight grew by 30 % and at least 20 over the last 10 minutes, in each fifth of them. One burst is no growth, and a client with a constant number in flight is not growth, however long its queue.",
	Do:    "Send less at once, or make more fit.",
	For:   60 * time.Second,
	Clear: 2 * time.Minute,
	Check: func(in *Input, out *Output) {
		for _, v := range in.working() {
			old, now, ok := grows(in, v.ID)
			if !ok || !v.Queued.Known || v.Queued.V < 1 || now-old < in.Threshold("queue_growth_min") || now < old*(1+in.Threshold("queue_growth")) {
				continue
			}
			f := tuningOf(v)
			cond := Condition{
				Subject: v.ID, Severity: metrics.SeverityWarning, Graph: metrics.SeriesKey{What: metrics.SeriesQueued, Of: v.ID},
				Title: fmt.Sprintf("requests in flight grew from %s to %s in 10 minutes", metrics.Count(old), metrics.Count(now)),
				Why:   "more requests arrive than finish",
				Evidence: []metrics.Evidence{
					figureEvidence(fmt.Sprintf("%s in flight ten minutes ago, %s now, growing all the time", metrics.Count(old), metrics.Count(now)), v.InFlight),
				},
				Advice: "limit the client's concurrency, or make more fit: raise " + f.fraction + " as far as headroom allows",
			}
			if v.RequestsFit.Known {
				cond.Title += fmt.Sprintf("; %s fit", metrics.Count(math.Floor(v.RequestsFit.V)))
				cond.Evidence = append(cond.Evidence, figureEvidence(metrics.Count(math.Floor(v.RequestsFit.V))+" requests of the present length fit", v.RequestsFit))
			}
			out.Raise(cond)
		}
	},
}

// grows gives requests in flight 10 minutes ago and now, and tells whether they
// grew all the time in between: one burst is no growth.
func grows(in *Input, of string) (old, now float64, ok bool) {
	const parts = 5
	var v [parts]float64
	for i := range v {
		from := time.Duration(2*(parts-i)) * time.Minute
		r, ok1 := in.mean(metrics.SeriesRunning, of, from, from-2*time.Minute)
		q, ok2 := in.mean(metrics.SeriesQueued, of, from, from-2*time.Minute)
		if !ok1 || !ok2 {
			return 0, 0, false
		}
		v[i] = r + q
	}
	total := v[parts-1] - v[0]
	for i := 1; i < parts; i++ {
		if step := v[i] - v[i-1]; step <= 0.02*v[0] || step > 0.6*total {
			return v[0], v[parts-1], false
		}
	}
	return v[0], v[parts-1], true
}
