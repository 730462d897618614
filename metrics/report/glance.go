package report

import (
	"fmt"
	"strings"

	"github.com/runvigil/runvigil/metrics"
)

// Exit codes of `runvigil check`.
const (
	ExitHealthy  = 0
	ExitWarning  = 1
	ExitCritical = 2
	ExitUnknown  = 3 // unreachable, or no trace of a server or client now or earlier
	ExitUsage    = 64
)

// Level is the verdict in one word. What cannot be told never changes it, and a
// node that cannot be reached is unreachable whatever was known before.
func Level(s *metrics.Snapshot) string {
	switch {
	case s.Link.Status != metrics.LinkUp && !s.Replay:
		return Unreachable
	case len(s.Servers) == 0 && len(s.Clients) == 0:
		return Nothing
	}
	worst := metrics.SeverityNone
	for _, f := range s.Findings {
		if f.Cleared.IsZero() {
			worst = max(worst, f.Severity)
		}
	}
	switch worst {
	case metrics.SeverityCritical:
		return Critical
	case metrics.SeverityWarning:
		return Warning
	}
	return Healthy
}

// ExitCode is the exit status that goes with Level.
func ExitCode(s *metrics.Snapshot) int {
	switch Level(s) {
	case Healthy:
		return ExitHealthy
	case Warning:
		return ExitWarning
	case Critical:
		return ExitCritical
	}
	return ExitUnknown
}

// Line is the node in one line for a status bar: the verdict comes first, since
// the bar may cut it after 20 characters.
func Line(s *metrics.Snapshot) string {
	parts := []string{s.Verdict.Word}
	if Level(s) == Unreachable && s.Link.Reason != "" {
		// The whole reason: the bar cuts what it has no room for, and its end may
		// be what to do.
		return s.Verdict.Word + " " + strings.Join(strings.Fields(s.Link.Reason), " ") + "\n"
	}
	if s.Job.PerMin.Known {
		parts = append(parts, metrics.Rate(s.Job.PerMin.V)+"/min")
	}
	if v := s.Server(); v != nil && v.Gen.Now.Known && !v.Gen.Now.Stale(s.At) {
		tps := metrics.Rate(v.Gen.Now.V) + " tok/s"
		if v.Gen.Ramp {
			tps += " (ramp)"
		}
		parts = append(parts, tps)
	}
	if v := s.Server(); v != nil && v.Running.Known && v.Queued.Known && !v.Running.Stale(s.At) {
		parts = append(parts, metrics.Count(v.Running.V)+"+"+metrics.Count(v.Queued.V))
	}
	if s.Job.ETA.Known {
		parts = append(parts, "ETA "+s.Clock(s.Job.ETA.At))
	}
	if len(s.Findings) > 0 {
		if f := s.Findings[0]; f.Severity > metrics.SeverityInfo {
			parts = append(parts, f.ID)
		}
	}
	return strings.Join(parts, " ") + "\n"
}

// Glance is the node in a few lines for a person.
func Glance(s *metrics.Snapshot) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s\n", s.Verdict.Word, s.Verdict.Text)
	for i := range s.Servers {
		glanceServer(&b, s, &s.Servers[i])
	}
	glanceRows(&b, s)
	glanceGPUs(&b, s)
	for _, f := range s.Findings {
		fmt.Fprintf(&b, "%-8s %s  (%s, since %s)\n", f.Severity, f.Title, f.ID, s.Clock(f.Since))
		if f.Advice != "" {
			fmt.Fprintf(&b, "         → %s\n", f.Advice)
		}
	}
	for _, t := range s.CannotTell {
		fmt.Fprintf(&b, "unknown  %s\n", CannotTellText(t))
	}
	return b.String()
}

func glanceServer(b *strings.Builder, s *metrics.Snapshot, v *metrics.Server) {
	v = atWork(v)
	fmt.Fprintf(b, "server   %s %s %s  %s", or(v.Engine, "server"), v.Version, v.Model, v.State)
	if v.Phase.Name != "" && v.State == metrics.ServerStarting {
		fmt.Fprintf(b, " (%s)", v.Phase.Name)
	}
	if !v.Started.IsZero() && v.Ended.IsZero() {
		fmt.Fprintf(b, ", up %s", metrics.Age(s.At.Sub(v.Started)))
	}
	if v.Gen.Now.Known && v.State != metrics.ServerDown && v.State != metrics.ServerHung {
		fmt.Fprintf(b, ", %s tok/s", metrics.Rate(v.Gen.Now.V))
		switch {
		case v.Gen.Settled.Known:
			fmt.Fprintf(b, " (settled %s ± %s since %s)", metrics.Rate(v.Gen.Settled.V), metrics.FigureText(v.Gen.Spread, metrics.Rate),
				s.Clock(v.Gen.Since))
		case v.Gen.Ramp:
			b.WriteString(" (ramp: requests are still young)")
		}
	}
	if v.Running.Known || v.Queued.Known {
		fmt.Fprintf(b, ", %s running + %s %s", metrics.FigureText(v.Running, metrics.Count), metrics.FigureText(v.Queued, metrics.Count), waitingWord(v.Engine))
	}
	if v.KVUsage.Known {
		fmt.Fprintf(b, ", KV %s", metrics.Percent(v.KVUsage.V))
	}
	if v.Headroom.Known {
		fmt.Fprintf(b, ", %.2f GiB free after capture", v.Headroom.V)
	}
	b.WriteByte('\n')
}

func glanceRows(b *strings.Builder, s *metrics.Snapshot) {
	if !s.Job.Rows.Known {
		return
	}
	fmt.Fprintf(b, "rows     %s", metrics.Count(s.Job.Rows.V))
	if s.Job.Target.Rows > 0 {
		fmt.Fprintf(b, " of %s", metrics.Count(float64(s.Job.Target.Rows)))
		if s.Job.Target.Inferred {
			b.WriteString(" (inferred)")
		}
	}
	if s.Job.PerMin.Known {
		fmt.Fprintf(b, ", %s/min", metrics.Rate(s.Job.PerMin.V))
	}
	if s.Job.ETA.Known {
		fmt.Fprintf(b, ", ETA %s ± %s", s.Clock(s.Job.ETA.At), metrics.Age(s.Job.ETA.Spread))
	}
	if s.Job.Finished.Known && s.Job.Landed.Known {
		fmt.Fprintf(b, ", %s requests finished, %s rows landed", metrics.Count(s.Job.Finished.V), metrics.Count(s.Job.Landed.V))
	}
	b.WriteByte('\n')
}

func glanceGPUs(b *strings.Builder, s *metrics.Snapshot) {
	if len(s.GPUs) == 0 {
		return
	}
	lowUsed, highUsed, lost := metrics.Figure{}, metrics.Figure{}, 0
	for i := range s.GPUs {
		g := &s.GPUs[i]
		if g.Lost != "" {
			lost++
		}
		if !g.MemUsed.Known {
			continue
		}
		if !lowUsed.Known || g.MemUsed.V < lowUsed.V {
			lowUsed = g.MemUsed
		}
		if !highUsed.Known || g.MemUsed.V > highUsed.V {
			highUsed = g.MemUsed
		}
	}
	mib := func(v float64) string { return metrics.GiB(v * (1 << 20)) }
	fmt.Fprintf(b, "GPUs     %d × %s, used %s", len(s.GPUs), or(s.GPUs[0].Name, "GPU"), metrics.FigureText(lowUsed, mib))
	if lowUsed.Known && mib(lowUsed.V) != mib(highUsed.V) {
		fmt.Fprintf(b, " to %s", mib(highUsed.V))
	}
	fmt.Fprintf(b, " of %s", metrics.FigureText(s.GPUs[0].MemTotal, mib))
	if lost > 0 {
		fmt.Fprintf(b, ", %d lost", lost)
	}
	b.WriteByte('\n')
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// waitingWord is what an engine calls requests that wait.
func waitingWord(engine string) string {
	if engine == "vllm" {
		return "waiting"
	}
	return "queued"
}
