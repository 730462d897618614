package findings

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

var throughputFell = Detector{
	ID:     "throughput-fell",
	Means:  "The server makes clearly fewer tokens than before with the same load. Something else became slow.",
	Needs:  "an hour of the server's log or /metrics",
	When:   "Over the last 5 minutes 30 % below the half hour before at the same number of running requests and of tokens a request (both within 15 %), after the level had settled. Quiet where prefill took so much more.",
	Do:     "Look at what changed then: clocks, temperature, graphs, accept length, another process on the GPUs.",
	Causes: []metrics.Cause{metrics.CauseGPUThrottled},
	For:    60 * time.Second,
	Clear:  3 * time.Minute,
	Check: func(in *Input, out *Output) {
		for _, v := range in.working() {
			if v.State != metrics.ServerServing {
				continue
			}
			now := func(what string) (float64, bool) { return in.mean(what, v.ID, 5*time.Minute, 0) }
			before := func(what string) (float64, bool) { return in.mean(what, v.ID, 40*time.Minute, 10*time.Minute) }
			t1, ok1 := now(metrics.SeriesGenTPS)
			t0, ok0 := before(metrics.SeriesGenTPS)
			r1, ok3 := now(metrics.SeriesRunning)
			r0, ok2 := before(metrics.SeriesRunning)
			if !ok0 || !ok1 || !ok2 || !ok3 || t1 >= (1-in.Threshold("fell_share"))*t0 || !alike(r0, r1) {
				continue
			}
			p1, ok5 := now(metrics.SeriesPerReq)
			p0, ok4 := before(metrics.SeriesPerReq)
			if ok4 && ok5 && !alike(p0, p1) {
				continue
			}
			// Longer prompts take their time from decoding: another load, no fall.
			i1, ok7 := now(metrics.SeriesInputTPS)
			i0, ok6 := before(metrics.SeriesInputTPS)
			if ok6 && ok7 && i1 > 1.5*i0 && i1-i0 > 0.5*(t0-t1) {
				continue
			}
			c := Condition{
				Subject: v.ID, Severity: metrics.SeverityWarning, Graph: metrics.SeriesKey{What: metrics.SeriesGenTPS, Of: v.ID}, Log: metrics.LogPlace{Path: v.Log.Path},
				Title: fmt.Sprintf("throughput fell from %s to %s tok/s at the same load (%s running)", metrics.Count(t0), metrics.Count(t1), metrics.Count(r1)),
				Why:   "nothing that was looked at explains it",
				Evidence: []metrics.Evidence{
					figureEvidence(fmt.Sprintf("%s tok/s over 5 minutes, %s over the half hour before", metrics.Count(t1), metrics.Count(t0)), v.Gen.Now),
					figureEvidence(fmt.Sprintf("%s running, %s before", metrics.Count(r1), metrics.Count(r0)), v.Running),
				},
				Advice: "look at clocks and temperature of the GPUs and at other processes on the node",
			}
			if ok4 && ok5 {
				c.Evidence = append(c.Evidence, figureEvidence(fmt.Sprintf("%s tokens a request, %s before", metrics.Count(p1), metrics.Count(p0)), v.PerRequest))
			}
			whatChanged(in, v, &c)
			out.Raise(c)
		}
	},
}

func alike(a, b float64) bool { return math.Abs(a-b) <= 0.15*math.Max(math.Abs(a), math.Abs(b)) }

// whatChanged names the likeliest reason for slower steps.
func whatChanged(in *Input, v *metrics.Server, c *Condition) {
	for i := range in.Snap.GPUs {
		g := &in.Snap.GPUs[i]
		if t := hardThrottle(g); len(t) > 0 {
			c.Cause, c.Why = metrics.CauseGPUThrottled, fmt.Sprintf("GPU %d is slowed down: %s", g.Index, t[0])
			c.Advice = causeInfo(c.Cause).Advice
			c.Evidence = append(c.Evidence, metrics.Evidence{Text: fmt.Sprintf("GPU %d at %s MHz, %s °C", g.Index, metrics.FigureText(g.ClockSM, metrics.Count), metrics.FigureText(g.Temp, metrics.Count)), Source: "nvidia-smi", At: g.ClockSM.At})
			return
		}
		if g.ClockSM.Known && g.ClockMax.Known && g.Util.Known && g.Util.V > 50 && g.ClockSM.V < slowClock*g.ClockMax.V {
			c.Why = fmt.Sprintf("GPU %d works at %s of %s MHz", g.Index, metrics.Count(g.ClockSM.V), metrics.Count(g.ClockMax.V))
			c.Advice = fmt.Sprintf("look who set its clocks or power limit (nvidia-smi -q -i %d -d CLOCK,POWER,PERFORMANCE); nvidia-smi -rgc gives the clocks back", g.Index)
			c.Evidence = append(c.Evidence, figureEvidence(c.Why+throttleWords(g), g.ClockSM))
			return
		}
		for _, p := range in.others(g, in.serverTrees()) {
			if p.Owner == "other" || p.Owner == "invisible" {
				c.Why = fmt.Sprintf("another process (%d %s) is on GPU %d", p.PID, p.Name, g.Index)
				c.Advice = "ask its owner, or move one of the two to other GPUs"
				c.Evidence = append(c.Evidence, metrics.Evidence{Text: c.Why, Source: "nvidia-smi", At: in.now()})
				return
			}
		}
	}
	if v.Graph != nil && !*v.Graph {
		c.Why = "the last batch did not run in a captured graph"
		c.Advice = "see graph-off"
		return
	}
	a0, ok0 := in.mean(metrics.SeriesAcceptLen, v.ID, 40*time.Minute, 10*time.Minute)
	a1, ok1 := in.mean(metrics.SeriesAcceptLen, v.ID, 5*time.Minute, 0)
	if ok0 && ok1 && a1 < 0.85*a0 {
		c.Why = fmt.Sprintf("the draft model is accepted less: %.2f tokens a step, %.2f before", a1, a0)
		c.Advice = "look at what the client sends now; the draft model fits it less"
		return
	}
	if text, busy := in.overloaded(); busy {
		c.Why = "the host is overloaded: " + text.Text
		c.Advice = "find what else runs (top); the schedulers need a processor each"
	}
}

// slowClock is the share of a GPU's highest clock below which a busy one is held
// back by more than its usual power limit.
const slowClock = 0.6

// throttleWords are the tool's own reasons for a clock, "" for none.
func throttleWords(g *metrics.GPU) string {
	if len(g.Throttle) == 0 {
		return ""
	}
	return " (" + strings.Join(g.Throttle, ", ") + ")"
}

// hardThrottle are the reasons that mean heat or a power fault, not a set limit.
func hardThrottle(g *metrics.GPU) []string {
	var out []string
	for _, t := range g.Throttle {
		if strings.Contains(t, "Slowdown") {
			out = append(out, t)
		}
	}
	return out
}
