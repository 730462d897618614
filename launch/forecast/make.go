package forecast

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/metrics"
)

// Make tells what a launch will give. facts are of the present start; earlier
// are all starts known of the node, oldest first.
func Make(l launch.Launch, facts Facts, earlier []metrics.Start) Forecast {
	m := &maker{launch: l, facts: facts, to: settingsOf(l)}
	var auto string
	if m.samples, auto = samplesOf(facts, earlier); m.to.dtype == "auto" && auto != "" {
		m.to.dtype = auto
	}
	// The engine chooses the same fraction again where what it rests on is the same.
	if p, ok := m.find(func(s sample) bool { return s.now }); ok && p.chunk == m.to.chunk && p.head == m.to.head && p.pool == m.to.pool && p.tp == m.to.tp {
		m.to.chosen(facts)
	}
	if m.to.model != "" {
		m.samples = slices.DeleteFunc(m.samples, func(s sample) bool { return s.engine != m.to.engine || s.model != "" && s.model != m.to.model })
	}
	f := Forecast{Outcomes: m.outcomes()}
	f.Capacity = m.capacity()
	f.Headroom = m.headroom()
	f.HostNeed, f.HostFree = m.host(f.Capacity)
	var running float64
	f.Fit, running = m.fit(f.Capacity)
	f.GenTPS = m.speed(f.Fit, running)
	f.Warnings = m.warnings(f)
	f.BreakEven = m.breakEven(f.GenTPS)
	if f.BreakEven.Known && f.Critical() {
		// What a crashed start would have gained is no reason to try it again.
		f.BreakEven.Worth = false
		f.BreakEven.Why = "only if it holds, which is in doubt: " + f.BreakEven.Why
	}
	return f
}

// Critical tells whether anything says that the launch will not run.
func (f Forecast) Critical() bool {
	bad := func(w Warning) bool { return w.Level == metrics.SeverityCritical }
	return slices.ContainsFunc(f.Outcomes, bad) || slices.ContainsFunc(f.Warnings, bad)
}

// maker holds what one forecast is made from.
type maker struct {
	launch  launch.Launch
	facts   Facts
	to      settings
	samples []sample
}

// find gives the first sample, the present one before the newest, that will do.
func (m *maker) find(ok func(sample) bool) (sample, bool) {
	i := slices.IndexFunc(m.samples, ok)
	if i < 0 {
		return sample{}, false
	}
	return m.samples[i], true
}

func exact(v float64, basis string) Estimate {
	return Estimate{Known: true, V: v, Low: v, High: v, Basis: []string{basis}}
}

// Levels of headroom in GiB: below critical the story's server ran out of memory
// in its first large prefill; from 5 on the engine's own advice calls it good.
const (
	headroomCritical = 1.5
	headroomGood     = 5.0
	hostReserve      = 10 * gib // what the engine's own check leaves to others
)

func (m *maker) warnings(f Forecast) []Warning {
	out := make([]Warning, 0, 4)
	add := func(level metrics.Severity, format string, a ...any) {
		out = append(out, Warning{level, fmt.Sprintf(format, a...)})
	}
	if h := f.Headroom; h.Known && m.to.engine != "vllm" {
		switch {
		case h.V <= 0:
			add(metrics.SeverityCritical, "nothing stays free on a GPU (%.2f GiB): graph capture or the first prefill will run out of memory", h.V)
		case h.V < headroomCritical:
			add(metrics.SeverityCritical, "%s GiB stay free on a GPU: below %.1f a large prefill runs out of memory", span(h), headroomCritical)
		case h.Low < headroomGood:
			add(metrics.SeverityWarning, "%s GiB stay free on a GPU: from %.0f on is safe with large prefills", span(h), headroomGood)
		}
	}
	if n, free := f.HostNeed, f.HostFree; n.Known && free.Known && n.V > 0 {
		if room := free.V - hostReserve; n.V > room {
			add(metrics.SeverityCritical, "the host cache needs %s of host memory and %s is free for it: the engine will refuse, or the host run out", metrics.GiB(n.V), metrics.GiB(max(room, 0)))
		}
	}
	if c := f.Capacity; c.Known && c.V <= 0 {
		add(metrics.SeverityCritical, noRoom)
	} else if c.Known {
		context := m.to.context
		if !known(context) {
			context = figure(m.facts.ContextLen)
		}
		if known(context) && c.V < context {
			add(metrics.SeverityWarning, "the pool of %s tokens is smaller than one request of the full context (%s)", metrics.Count(c.V), metrics.Count(context))
		}
		m.smallHostCache(c, add)
	}
	if m.to.dtype != "" && len(m.samples) > 0 && m.to.dtype != m.samples[0].dtype && itemSize(m.to.dtype) == 1 {
		add(metrics.SeverityWarning, "an 8-bit KV cache can change what the model writes: compare rows before trusting them")
	}
	slices.SortStableFunc(out, func(a, b Warning) int { return int(b.Level) - int(a.Level) })
	return out
}

// smallHostCache warns where the host would hold no more than the GPU does.
func (m *maker) smallHostCache(c Estimate, add func(metrics.Severity, string, ...any)) {
	set := m.launch.Effective()
	size := launch.Number(set["hicache-size"])
	if set["enable-hierarchical-cache"] != "true" || !(size > 0) {
		return
	}
	for _, s := range m.samples {
		r, _ := scale(s.dtype, m.to.dtype)
		if b := m.bytes(s) / r; known(b) && s.tp == m.to.tp && size*1e9/b <= c.V {
			add(metrics.SeverityWarning, "the host cache holds %s tokens, no more than the GPU's %s: versions up to 0.5.14 refuse that", metrics.Count(size*1e9/b), metrics.Count(c.V))
			return
		}
	}
}

// span is a range of GiB as text.
func span(e Estimate) string {
	if fmt.Sprintf("%.2f", e.Low) == fmt.Sprintf("%.2f", e.High) {
		return fmt.Sprintf("%.2f", e.V)
	}
	return fmt.Sprintf("%.2f to %.2f", e.Low, e.High)
}

// outcomes are what earlier starts with these memory flags did, and crashes of
// tamer ones.
func (m *maker) outcomes() []Warning {
	var out []Warning
	held := map[string]bool{}
	for _, s := range m.samples {
		if s.now || s.start.Outcome == "running" {
			continue // how it will end is not known
		}
		bad := (s.start.Outcome == "crashed" || s.start.Outcome == "failed") && !s.start.Cause.FromOutside()
		switch {
		case sameMemory(s.settings, m.to) && bad:
			out = append(out, Warning{metrics.SeverityCritical, m.tried(s)})
		case sameMemory(s.settings, m.to) && s.start.Outcome != "":
			text := m.tried(s)
			if !held[text] {
				held[text] = true
				out = append(out, Warning{metrics.SeverityInfo, text})
			}
		case bad && outOfMemory(s.start.Cause) && samePool(s.settings, m.to) && known(s.fraction) && s.fraction < m.to.fraction:
			out = append(out, Warning{metrics.SeverityCritical, m.tried(s) + "; this is above it"})
		}
	}
	slices.SortStableFunc(out, func(a, b Warning) int { return int(b.Level) - int(a.Level) })
	return out
}

func outOfMemory(c metrics.Cause) bool {
	switch c {
	case metrics.CauseCUDAOOM, metrics.CauseCaptureOOM, metrics.CauseStartupNoKVMemory:
		return true
	}
	return false
}

// tried tells one start's outcome: "0.93 was tried on 24 Feb: out of memory in
// prefill, 40 s after the first request, 0.82 GiB headroom".
func (m *maker) tried(s sample) string {
	what := share(s.fraction)
	if math.IsNaN(s.fraction) {
		what = "these flags"
	}
	if itemSize(s.dtype) == 1 {
		what += " " + s.dtype
	}
	text := what + " was tried"
	if !s.start.At.IsZero() {
		text += " on " + day(s.start.At, m.facts.ZoneSec)
	}
	text += ": " + outcomeText(s.start)
	if after := s.start.After(); after != "" {
		text += ", " + after
	}
	if known(s.headroom) {
		text += fmt.Sprintf(", %.2f GiB headroom", s.headroom)
	}
	if known(s.settled) {
		text += fmt.Sprintf(", %s tok/s settled", metrics.Count(s.settled))
	}
	return metrics.Clean(text, 300)
}

func outcomeText(s metrics.Start) string {
	switch {
	case s.CauseTxt != "" && len(s.CauseTxt) <= 80 && !strings.Contains(s.CauseTxt, "Error: "):
		return s.CauseTxt // in an operator's words; an exception's would fill the line
	case s.Cause == metrics.CauseCUDAOOM && s.CausePhase != "":
		return "out of memory in " + s.CausePhase
	case s.Cause == metrics.CauseCUDAOOM:
		return "out of GPU memory"
	case s.Cause != "":
		return s.Outcome + ", " + string(s.Cause)
	case s.Outcome == "stopped":
		return "it ran until it was stopped"
	case s.Outcome == "unknown":
		return "how it ended is not known"
	}
	return s.Outcome
}
