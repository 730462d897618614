package findings

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

var workLost = Detector{
	ID:      "work-lost",
	Means:   "The server does work whose result reaches no file: requests that were finished and not landed, aborted or retried; or that will be, since the client gives up before a request is done.",
	Needs:   "finished requests and landed rows; or a timeout that the client's arguments, environment or log name, and the settled rate",
	When:    "5 % of the finished requests and at least 20 did not land while rows do (info unless the client's log or timeout explains it: another sender may have asked for them); or 10 % were aborted; or a request lives longer (in flight / rows a minute) than the timeout that was read. The forecast needs a settled level and no older request that landed; a library's default is never assumed.",
	Do:      "Raise the client's timeout above the life of a request, or lower its concurrency.",
	Channel: "files",
	Causes:  append([]metrics.Cause{metrics.CauseRequestsLost}, clientFaults...),
	For:     60 * time.Second,
	Clear:   2 * time.Minute,
	Check: func(in *Input, out *Output) {
		lostByCount(in, out)
		lostByAbort(in, out)
		lostByForecast(in, out)
	},
}

// clientFaults are what a client's own log can tell to be wrong.
var clientFaults = []metrics.Cause{
	metrics.CauseTooManyFiles, metrics.CauseDiskFull, metrics.CauseShmFull, metrics.CauseClientTimeouts, metrics.CauseRequestTooLong,
	metrics.CauseCUDAOOM, metrics.CauseHostNoMemory, metrics.CauseClientException,
}

// clientCause is what a living client's own log says is wrong.
func clientCause(c *metrics.Client) *metrics.CauseFact {
	for i := range c.Causes {
		if c.Causes[i].Primary {
			return &c.Causes[i]
		}
	}
	return nil
}

// lostByCount compares finished requests with landed rows.
func lostByCount(in *Input, out *Output) {
	j := &in.Snap.Job
	if !j.Finished.Known || !j.Landed.Known || j.Finished.V < 1 {
		return
	}
	lost := j.Finished.V - j.Landed.V
	held := in.heldBack()
	if lost < in.Threshold("lost_min")+held || lost < in.Threshold("lost_share")*j.Finished.V {
		return
	}
	if v := in.generating(); v != nil && v.Gen.Ramp {
		return
	}
	for i := range in.Snap.Datasets {
		d := &in.Snap.Datasets[i]
		if d.Gap > 0 && lost < held+2*j.PerMin.V*d.Gap.Minutes() {
			return // as many may wait for the next batch of a writer
		}
	}
	if in.now().Sub(lastRow(in)) > 30*time.Second && !growsSlowly(in) {
		return // nothing lands at all: that is said by others
	}
	c := Condition{
		Subject: "job", Severity: metrics.SeverityWarning, Cause: metrics.CauseRequestsLost, Since: j.Since,
		Title: fmt.Sprintf("%s of %s finished requests reached no file (%s)", metrics.Count(lost), metrics.Count(j.Finished.V), metrics.Percent(lost/j.Finished.V)),
		Why:   "the server finishes them and the client does not save them",
		Evidence: []metrics.Evidence{
			figureEvidence(metrics.Count(j.Finished.V)+" requests finished since "+in.clock(j.Since), j.Finished),
			figureEvidence(metrics.Count(j.Landed.V)+" rows landed since then", j.Landed),
		},
		Advice: "look for retries and timeouts in the client's log",
		Graph:  metrics.SeriesKey{What: metrics.SeriesRows},
	}
	if !blameClient(in, &c) {
		c.Severity = metrics.SeverityInfo
		c.Why = "nothing says that the client lost them: another one may have asked for them"
	}
	out.Raise(c)
}

// growsSlowly tells whether some dataset has its last growth within its usual gap.
func growsSlowly(in *Input) bool {
	for i := range in.Snap.Datasets {
		if d := &in.Snap.Datasets[i]; d.Gap > 0 && in.now().Sub(d.Grew) <= d.Gap {
			return true
		}
	}
	return false
}

// blameClient adds what the client's log or command line says; ok is false where
// neither explains a loss.
func blameClient(in *Input, c *Condition) (ok bool) {
	for i := range in.Snap.Clients {
		cl := &in.Snap.Clients[i]
		if !alive(cl) {
			continue
		}
		limit, from := timeoutOf(in, cl)
		if f := clientCause(cl); f != nil && f.Class != metrics.CauseStopped {
			ok = true
			c.Cause, c.Why = f.Class, causeInfo(f.Class).Meaning
			c.Evidence = append(c.Evidence, metrics.Evidence{Text: f.Line, Source: "client log", At: f.At})
			c.Log = logPlace(cl.Log.Path, f)
		} else if d, known := life(in); limit > 0 && (!known || d.Seconds() > limit) {
			ok = true
			c.Cause, c.Why = metrics.CauseClientTimeouts, causeInfo(metrics.CauseClientTimeouts).Meaning
		}
		if limit > 0 {
			c.Evidence = append(c.Evidence, metrics.Evidence{Text: fmt.Sprintf("%s waits %.0f s for a request", who(cl), limit), Source: from, At: in.now()})
			c.Advice = timeoutAdvice(in, limit)
		}
		return ok
	}
	return false
}

// life is how long a request lives, by the settled rate: in flight / rows a minute.
func life(in *Input) (d time.Duration, ok bool) {
	v := in.generating()
	j := &in.Snap.Job
	if v == nil || !v.Gen.Settled.Known || !v.InFlight.Known || !j.PerMin.Known || j.PerMin.V <= 0 || j.PerMinOver < 5*time.Minute {
		return 0, false
	}
	return time.Duration(v.InFlight.V / j.PerMin.V * float64(time.Minute)), true
}

func timeoutAdvice(in *Input, limit float64) string {
	if d, ok := life(in); ok && d.Seconds() > limit {
		return fmt.Sprintf("raise the client's timeout from %.0f s to %.0f s or more (a request lives %s), or lower its concurrency to %.0f",
			limit, math.Ceil(1.5*d.Seconds()/60)*60, metrics.Age(d), math.Floor(in.Snap.Job.PerMin.V*limit/60*0.8))
	}
	return fmt.Sprintf("raise the client's timeout above %.0f s, or lower its concurrency", limit)
}

// lostByAbort looks at the engine's own counter.
func lostByAbort(in *Input, out *Output) {
	for _, v := range in.working() {
		all := v.Finished.V
		if !v.Aborted.Known || !v.Finished.Known || v.Aborted.V < in.Threshold("lost_min") || all <= 0 || v.Aborted.V < in.Threshold("aborted_share")*all {
			continue
		}
		told := clientTimesOut(in)
		if told.IsZero() && livesTooLong(in) {
			told = in.now() // the limit that was read is shorter than a request's life
		}
		if in.now().Sub(latest(v.Aborting, told)) > abortedLately {
			continue // it was so once
		}
		since := time.Time{}
		if !told.IsZero() {
			since = v.Phase.Ready // the counter began there, and the client's log says the same
		}
		c := Condition{
			Subject: v.ID, Severity: metrics.SeverityWarning, Cause: metrics.CauseClientTimeouts, Since: since,
			Title:    fmt.Sprintf("%s of %s requests were aborted (%s)", metrics.Count(v.Aborted.V), metrics.Count(all), metrics.Percent(v.Aborted.V/all)),
			Why:      "whoever sent them gave up before they were done",
			Evidence: []metrics.Evidence{figureEvidence(metrics.Count(v.Aborted.V)+" aborted", v.Aborted), figureEvidence(metrics.Count(all)+" requests in all", v.Finished)},
			Advice:   "raise the client's timeout, or send fewer requests at once",
		}
		blameClient(in, &c)
		out.Raise(c)
	}
}

// abortedLately is how long an abort counts as going on.
const abortedLately = 10 * time.Minute

// clientTimesOut is when a living client's log that tells of timeouts last grew.
func clientTimesOut(in *Input) time.Time {
	var at time.Time
	for i := range in.Snap.Clients {
		c := &in.Snap.Clients[i]
		if f := clientCause(c); alive(c) && f != nil && f.Class == metrics.CauseClientTimeouts {
			at = latest(at, c.Log.Mtime)
		}
	}
	return at
}

// livesTooLong tells whether a request lives longer than a living client's limit.
func livesTooLong(in *Input) bool {
	d, ok := life(in)
	for i := range in.Snap.Clients {
		c := &in.Snap.Clients[i]
		if limit, _ := timeoutOf(in, c); ok && alive(c) && limit > 0 && d.Seconds() > limit {
			return true
		}
	}
	return false
}

// lostByForecast tells before it happens that the client will give up.
func lostByForecast(in *Input, out *Output) {
	v := in.generating()
	d, ok := life(in)
	if !ok || v.Gen.Ramp {
		return
	}
	for i := range in.Snap.Clients {
		c := &in.Snap.Clients[i]
		limit, from := timeoutOf(in, c)
		if !alive(c) || limit <= 0 || d.Seconds() <= limit {
			continue
		}
		// Requests as old as the limit have landed already: the limit is no request's.
		if j := in.Snap.Job; j.Landed.Known && in.now().Sub(latest(j.Since, c.Started)) > 2*d && j.Finished.Known && j.Finished.V-j.Landed.V < in.Threshold("lost_min") {
			continue
		}
		out.Raise(Condition{
			Subject: "forecast", Severity: metrics.SeverityWarning, Cause: metrics.CauseClientTimeouts, Since: v.Gen.Since,
			Title: fmt.Sprintf("a request lives about %s, and the client gives up after %s", metrics.Age(d), metrics.Age(time.Duration(limit*float64(time.Second)))),
			Why:   causeInfo(metrics.CauseClientTimeouts).Meaning,
			Evidence: []metrics.Evidence{
				figureEvidence(fmt.Sprintf("%s in flight / %s rows a minute", metrics.Count(v.InFlight.V), metrics.Rate(in.Snap.Job.PerMin.V)), in.Snap.Job.PerMin),
				{Text: fmt.Sprintf("a limit of %.0f s", limit), Source: from, At: in.now()},
			},
			Advice: timeoutAdvice(in, limit),
		})
		return
	}
}

// timeoutFlags name a limit in seconds for one request.
var timeoutFlags = []string{"timeout", "request-timeout", "http-timeout", "read-timeout", "timeout-s", "timeout-sec", "timeout-seconds", "request-timeout-s"}

// timeoutOf is how long a client waits for a request, in seconds, and where that
// was read; 0 where nothing tells: a library's default is never assumed.
func timeoutOf(in *Input, c *metrics.Client) (seconds float64, from string) {
	if c.TimeoutS.Known && c.TimeoutS.V > 0 {
		return c.TimeoutS.V, "client log"
	}
	read := func(name, value string) bool {
		name = strings.ReplaceAll(strings.ToLower(strings.TrimLeft(name, "-")), "_", "-")
		for _, f := range timeoutFlags {
			if name != f {
				continue
			}
			v, err := strconv.ParseFloat(strings.TrimSuffix(value, "s"), 64)
			if err == nil && v > 0 {
				seconds = v
				return true
			}
		}
		return false
	}
	for i, a := range c.Argv {
		if n, v, ok := strings.Cut(a, "="); ok && strings.HasPrefix(a, "--") && read(n, v) {
			return seconds, "its arguments"
		}
		if strings.HasPrefix(a, "--") && i+1 < len(c.Argv) && read(a, c.Argv[i+1]) {
			return seconds, "its arguments"
		}
	}
	if p := in.process(c.PID); p != nil {
		for _, k := range []string{"REQUEST_TIMEOUT", "HTTP_TIMEOUT", "TIMEOUT", "OPENAI_TIMEOUT"} {
			if v, ok := p.Env[k]; ok && read(strings.TrimPrefix(k, "OPENAI_"), v) {
				return seconds, "its environment"
			}
		}
	}
	return 0, ""
}
