package forecast

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// lengthDoubt is how far the mean length of grown requests may be off at least.
const lengthDoubt = 0.05

// length is the range of tokens a grown request, and what it rests on.
func (s sample) length() (low, high float64, basis string) {
	low, high = s.perReq*(1-lengthDoubt), s.perReq*(1+lengthDoubt)
	if s.over == 0 {
		return low, high, fmt.Sprintf("%s: %s tokens a grown request", s.name, metrics.Count(s.perReq))
	}
	return min(low, s.low), max(high, s.high), fmt.Sprintf("%s: %s tokens a grown request, mean of the last %s (%s to %s)",
		s.name, metrics.Count(s.perReq), metrics.Age(s.over), metrics.Count(s.low), metrics.Count(s.high))
}

// fit tells how many grown requests fit at once, and how many run at once on
// average. Young requests fit in any number and say nothing.
func (m *maker) fit(capacity Estimate) (e Estimate, running float64) {
	if !capacity.Known {
		return Estimate{Doubt: "the size of the KV pool is not known"}, nan
	}
	s, ok := m.find(func(s sample) bool { return known(s.perReq) && s.perReq > 0 })
	if !ok {
		return Estimate{Doubt: "too early to tell: requests have not grown to their full length yet, and no earlier start says how long they get"}, nan
	}
	low, high, basis := s.length()
	e = Estimate{
		Known: true, V: math.Floor(capacity.V / s.perReq), Low: math.Floor(capacity.Low / high), High: math.Floor(capacity.High / low),
		Basis: []string{basis},
	}
	if !s.now {
		e.Doubt = "the present requests may be longer or shorter than those of that start"
		if s.start.Dataset != "" {
			e.Doubt += " (" + s.start.Dataset + ")"
		}
	}
	running = e.V
	if used := m.facts.PoolUsed; s.now && used.Known {
		running = capacity.V / s.perReq * used.V
		e.Basis = append(e.Basis, fmt.Sprintf("they fill %.0f %% of the pool while others wait", 100*used.V))
	}
	most := m.to.maxRun
	if !known(most) && len(m.samples) > 0 && m.samples[0].now && !known(m.samples[0].maxRun) {
		most = figure(m.facts.MaxRunning)
	}
	if known(most) && most < e.High {
		e.V, e.Low, e.High = min(e.V, most), min(e.Low, most), most
		e.Basis = append(e.Basis, fmt.Sprintf("the engine runs %g at most", most))
	}
	return e, min(running, e.High)
}

// speedDoubt is the least relative range of a forecast of tok/s within the
// measured numbers of running requests.
const speedDoubt = 0.05

// At is tok/s at a number of running requests by a step-time fit, with a range
// that grows outside of what was measured; unknown without a fit.
func At(fit metrics.StepFit, running float64) Estimate {
	v := fit.TPS(running)
	if v <= 0 {
		return Estimate{Doubt: "the step time is not known yet: decode lines with different numbers of running requests would tell it"}
	}
	rel := max(speedDoubt, 2*fit.Resid)
	e := Estimate{Known: true, V: v, Basis: []string{fmt.Sprintf("a decode step takes %.1f ms + %.3f ms for each running request (%d points)", fit.A*1e3, fit.B*1e3, fit.N)}}
	if fit.Most > 0 && (running > fit.Most || running < fit.Least) {
		rel *= 2
		e.Doubt = fmt.Sprintf("only %g to %g running requests were measured", fit.Least, fit.Most)
	}
	e.Low, e.High = v*(1-rel), v*(1+rel)
	return e
}

// speed tells settled tok/s: the step time at as many requests as run at once, but
// no more than the clients keep in flight.
func (m *maker) speed(fit Estimate, running float64) Estimate {
	inFlight := figure(m.facts.Running) + figure(m.facts.Queued)
	if !fit.Known {
		return Estimate{Doubt: fit.Doubt}
	}
	step, from := m.facts.Step, ""
	if len(m.samples) > 0 && m.samples[0].now && (m.samples[0].tp != m.to.tp || m.samples[0].pp != m.to.pp) {
		step = metrics.StepFit{} // another split has another step time
	}
	if step.N == 0 {
		step, from = m.earlierSteps()
	}
	if step.N == 0 && m.facts.Step.N > 0 {
		return Estimate{Doubt: fmt.Sprintf("the step time at tp %g was never measured", m.to.tp)}
	}
	n, low, high := running, fit.Low, fit.High
	if known(inFlight) && inFlight > 0 {
		n, low, high = min(n, inFlight), min(low, inFlight), min(high, inFlight)
	}
	e := At(step, n)
	if !e.Known {
		return e
	}
	if from != "" {
		e.Basis = append(e.Basis, from)
	}
	e.Basis = append(e.Basis, requests(n)+" requests run at once")
	if known(inFlight) && running >= inFlight && inFlight > 0 {
		e.Basis = append(e.Basis, "the clients keep "+requests(inFlight)+" in flight, more would not come")
	}
	if a := At(step, max(low, 1)); a.Known {
		e.Low = min(e.Low, a.Low)
	}
	if b := At(step, high); b.Known {
		e.High = max(e.High, b.High)
	}
	if s, ok := m.find(func(s sample) bool { return s.now }); ok && s.dtype != m.to.dtype {
		e.Doubt = "another KV type has another step time"
	}
	return e
}

// requests is a number of requests, which as a mean may be broken.
func requests(n float64) string {
	if n == math.Trunc(n) {
		return metrics.Count(n)
	}
	return strconv.FormatFloat(n, 'f', 1, 64)
}

// earlierSteps fits the step time to the settled levels of earlier starts.
func (m *maker) earlierSteps() (metrics.StepFit, string) {
	var pts []metrics.StepPoint
	for _, s := range m.samples {
		if known(s.settled) && known(s.running) && s.tp == m.to.tp && s.pp == m.to.pp {
			pts = append(pts, metrics.StepPoint{Running: s.running, TPS: s.settled})
		}
	}
	fit := metrics.FitSteps(pts)
	if fit.N == 0 || fit.A <= 0 || fit.B < 0 {
		return metrics.StepFit{}, ""
	}
	return fit, "from the settled levels of " + strconv.Itoa(fit.N) + " starts"
}

// breakEven weighs the gain against rows that are lost.
func (m *maker) breakEven(tps Estimate) BreakEven {
	b := BreakEven{RowsLeft: -1}
	if m.facts.RowsLeft.Known {
		b.RowsLeft = m.facts.RowsLeft.V
	}
	now, perRow, rate := figure(m.facts.Settled), figure(m.facts.PerRow), figure(m.facts.RowsPerMin)
	switch {
	case !known(now):
		b.Why = "the present level is not settled yet, so the gain cannot be told"
		return b
	case !tps.Known:
		b.Why = "tok/s of the new launch cannot be told: " + tps.Doubt
		return b
	case !known(perRow) && known(rate) && rate > 0:
		perRow = now * 60 / rate
	case !known(perRow) && m.facts.Grown && known(figure(m.facts.PerRequest)):
		perRow = m.facts.PerRequest.V
	}
	load := figure(m.facts.LoadS)
	if !known(perRow) || perRow <= 0 || !known(load) {
		b.Why = "how long a start takes, or how many tokens a row has, is not known"
		return b
	}
	perHour := now * 3600 / perRow
	b.Known, b.PerRow = true, perRow
	b.GainPerHour = (tps.V - now) * 3600 / perRow
	b.LostLoading = perHour * load / 3600
	if r := figure(m.facts.Running); known(r) {
		b.LostHalf = r / 2 // on average a running request is half done
	}
	lost := b.LostLoading + b.LostHalf
	if b.GainPerHour <= 0 {
		b.Why = fmt.Sprintf("it is not faster: %s rows are lost and nothing is gained", metrics.Count(lost))
		return b
	}
	b.After = time.Duration(load*float64(time.Second)) + time.Duration(lost/b.GainPerHour*float64(time.Hour))
	b.Worth = true
	b.Why = fmt.Sprintf("%s rows are lost (%s while it loads, %s half done), then %s rows an hour more (at %s tokens a row): even after %s",
		metrics.Count(lost), metrics.Count(b.LostLoading), metrics.Count(b.LostHalf), metrics.Count(b.GainPerHour), metrics.Count(perRow), metrics.Age(b.After))
	if b.RowsLeft >= 0 {
		old := b.RowsLeft / perHour
		next := load/3600 + (b.RowsLeft+b.LostHalf)/(perHour+b.GainPerHour)
		b.Worth = next < old
		verdict := "sooner"
		if !b.Worth {
			verdict = "later"
		}
		b.Why += fmt.Sprintf("; the %s rows left end %s %s", metrics.Count(b.RowsLeft), metrics.Age(time.Duration(math.Abs(old-next)*float64(time.Hour))), verdict)
	}
	return b
}
