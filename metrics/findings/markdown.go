package findings

import (
	"fmt"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// Story is one of the things that the operator of the first run had to notice
// alone, and what notices it now.
type Story struct {
	What      string
	Findings  []string // ids
	Elsewhere string   // what shows it where no finding does
	Scenarios []string // of the simulated node
	Tests     []string // functions that show it
}

// Stories maps the nine things of the run this program was born from.
func Stories() []Story {
	return []Story{
		{"The client's log was empty while rows landed", []string{"client-log-silent", "nothing-saved", "rows-stalled"}, "", []string{"story", "ramp"}, []string{"TestScenarios", "TestDetectors"}},
		{"The peak was not the truth", []string{"settled"}, "the verdict and the figures name the phase", []string{"story"}, []string{"TestSettledTellsTheRamp", "TestStory"}},
		{"Little headroom after capture was the warning", []string{"headroom-low", "server-oom"}, "", []string{"oom"}, []string{"TestDetectors", "TestScenarios"}},
		{"The KV pool near saturation with a queue", []string{"kv-saturated", "too-conservative", "queue-growing"}, "the limit in the requests panel", []string{"story"}, []string{"TestDetectors"}},
		{"A client of an earlier run lived, and zombies held GPU memory", []string{"client-twice", "gpu-memory-held"}, "", []string{"client-twice", "gpu-held"}, []string{"TestDetectors", "TestLivingScenarios"}},
		{"A start of many minutes in an unknown phase", []string{"start-slow", "start-stuck"}, "the phase and its usual time", []string{"loading"}, []string{"TestDetectors"}},
		{"Was the hierarchical cache used at all", []string{"hicache-unused"}, "an entry of what cannot be told, without metrics", []string{"healthy", "story"}, []string{"TestDetectors", "TestHiCacheCannotBeTold"}},
		{"The owner's rule about the KV type", []string{"guard-broken"}, "the guards of the restart form", nil, []string{"TestDetectors", "TestGuardJudge"}},
		{"Which start was best", []string{"settled", "throughput-fell"}, "the table of starts (t), `runvigil report`", []string{"story"}, []string{"TestStory"}},
	}
}

// Markdown renders docs/findings.md from the registry.
func Markdown() string {
	var b strings.Builder
	b.WriteString(`# Findings

What runvigil can say is wrong (or worth knowing), why, and what to do. The verdict of a node is its worst finding.
Each names its figures with their source and time, and its advice with the flag, the value and the direction.
Where something cannot be told, it is an entry of "cannot tell" that names what would tell it, never an alarm.

A finding is raised once its condition has held for a time, or the node's own evidence (a file's mtime, a process's start, a time in a log) proves that it has.
It ends when the condition has been gone for a time. One that was acknowledged (a) or snoozed (A) does not count for the verdict; it comes back when it gets worse.
One that is back within 10 minutes goes on as the one it was; it rings and is told again only once it has lasted 2 minutes. A server that a supervisor starts again and again is one.
While the node is not heard (the link is down, this machine slept) nothing is judged: what was raised stays as it was, and nothing new is raised but for the link itself.
So it is with what is judged by logs and rows (files) while these cannot be read: then data-old tells that.

Generated from metrics/findings by ` + "`go test ./metrics/findings -run TestMarkdown -update`" + `.

| id | what it means |
| --- | --- |
`)
	list := Registry()
	for _, d := range list {
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", d.ID, d.ID, firstSentence(d.Means))
	}
	for _, d := range list {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n- **Needs**: %s\n- **Raised when**: %s", d.ID, d.Means, d.Needs, d.When)
		if d.For > 0 {
			fmt.Fprintf(&b, " It must have held for %s.", metrics.Age(d.For))
		}
		if d.Channel != "" {
			fmt.Fprintf(&b, " Judged by %s only.", d.Channel)
		}
		b.WriteString("\n")
		if len(d.Causes) > 0 {
			fmt.Fprintf(&b, "- **Causes** ([what they are](causes.md)): %s\n", codes(d.Causes))
		}
		switch {
		case d.Show > 0:
			fmt.Fprintf(&b, "- **Shown**: for %s\n", metrics.Age(d.Show))
		case d.Clear > 0:
			fmt.Fprintf(&b, "- **Ends**: when it has been gone for %s\n", metrics.Age(d.Clear.Round(time.Second)))
		}
		fmt.Fprintf(&b, "- **What to do**: %s\n", d.Do)
	}
	b.WriteString(`
## Thresholds

Overridden by name in the configuration, for one node: ` + "`[node.NAME.thresholds]`" + `. A name that does not exist is an error.

| name | default | unit | what it is |
| --- | --- | --- | --- |
`)
	for _, l := range limits {
		fmt.Fprintf(&b, "| `%s` | %g | %s | %s |\n", l.Name, l.Value, l.Unit, l.Means)
	}
	b.WriteString(`
## The run this began with

Nine things that its operator had to notice alone, and what notices them now.

| what | findings | also | ` + "`demo:` scenario" + ` | tests |
| --- | --- | --- | --- | --- |
`)
	for i, s := range Stories() {
		fmt.Fprintf(&b, "| %d. %s | %s | %s | %s | %s |\n", i+1, s.What, codes(s.Findings), s.Elsewhere, codes(s.Scenarios), codes(s.Tests))
	}
	return b.String()
}

func firstSentence(s string) string {
	if i := strings.Index(s, ". "); i >= 0 {
		return s[:i+1]
	}
	return s
}

func codes[S ~string](list []S) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = "`" + string(s) + "`"
	}
	return strings.Join(out, ", ")
}
