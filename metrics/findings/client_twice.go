package findings

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

var clientTwice = Detector{
	ID:     "client-twice",
	Means:  "Two clients of the same command run, or write the same file. Rows come twice, or one of them is a leftover that takes half of the server.",
	Needs:  "the node's processes; open files tell the shared dataset",
	When:   "Two roots with the same command line in the same folder that live longer than 20 s, or two of one script that have the same dataset open. Forked or spawned workers count as one with their parent, and so do the ranks that one launcher (torchrun, mpirun, srun) started and numbered.",
	Do:     "End the older one, once it is clear that it is the leftover.",
	Causes: []metrics.Cause{metrics.CauseRowsDuplicate},
	For:    20 * time.Second,
	Clear:  10 * time.Second,
	Check: func(in *Input, out *Output) {
		var live []*metrics.Client
		for i := range in.Snap.Clients {
			if c := &in.Snap.Clients[i]; c.State == "running" || c.State == "stopped" {
				live = append(live, c)
			}
		}
		for i, a := range live {
			for _, b := range live[i+1:] {
				if c, ok := twice(in, a, b); ok {
					out.Raise(c)
					return
				}
			}
		}
	},
}

func twice(in *Input, a, b *metrics.Client) (Condition, bool) {
	if b.Started.Before(a.Started) {
		a, b = b, a // a is the older one
	}
	var shared string
	for i := range in.Snap.Datasets {
		if d := &in.Snap.Datasets[i]; slices.Contains(d.Writers, a.PID) && slices.Contains(d.Writers, b.PID) {
			shared = d.Path
		}
	}
	// Files may be opened for each row only: what both grew counts as well.
	for _, p := range a.Datasets {
		if d := in.Snap.Dataset(p); shared == "" && d != nil && slices.Contains(b.Datasets, p) && d.Grew.After(b.Started) && d.Done.IsZero() {
			shared = p
		}
	}
	// The same words in another folder are another job.
	same := len(a.Argv) > 0 && slices.Equal(a.Argv, b.Argv) && (a.Cwd == b.Cwd || a.Cwd == "" || b.Cwd == "")
	if shared == "" && !same {
		return Condition{}, false
	}
	if ranksOfOne(in.process(a.PID), in.process(b.PID)) {
		return Condition{}, false
	}
	if !same && scriptName(a) != scriptName(b) {
		return Condition{}, false // two stages of one job may share a file
	}
	c := Condition{
		Subject: a.ID, Severity: metrics.SeverityCritical, Since: b.Started, Cause: metrics.CauseRowsDuplicate,
		Title: fmt.Sprintf("two clients run: %s since %s and %s since %s", who(a), in.clock(a.Started), who(b), in.clock(b.Started)),
		Why:   "a client of an earlier run is still alive beside the new one",
	}
	if shared != "" {
		c.Title += ", both append to " + base(shared)
		c.Evidence = append(c.Evidence, metrics.Evidence{Text: fmt.Sprintf("%s is written by %d and by %d", shared, a.PID, b.PID), Source: "/proc and row count", At: in.now()})
	} else {
		c.Severity = metrics.SeverityWarning
	}
	for _, x := range []*metrics.Client{a, b} {
		text := fmt.Sprintf("%d: %s", x.PID, metrics.Cut(strings.Join(x.Argv, " "), 120))
		if o := in.Snap.Origin(x.PID); o != "" {
			text += " (" + o + ")"
		}
		c.Evidence = append(c.Evidence, metrics.Evidence{Text: text, Source: "processes", At: in.now()})
	}
	c.Advice = fmt.Sprintf("end the older one if it is the leftover: kill %d; then look for repeated ids in its rows", a.PID)
	return c, true
}

// rankNames are the variables by which launchers number the processes of one job.
var rankNames = []string{"RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"}

// ranksOfOne tells two processes that one launcher started and numbered.
func ranksOfOne(a, b *metrics.Proc) bool {
	if a == nil || b == nil || a.PPID != b.PPID {
		return false
	}
	return slices.ContainsFunc(rankNames, func(n string) bool { return a.Env[n] != "" && b.Env[n] != "" && a.Env[n] != b.Env[n] })
}

// scriptName is what a client runs, without its arguments.
func scriptName(c *metrics.Client) string {
	for i, a := range c.Argv {
		if i > 0 && !strings.HasPrefix(a, "-") {
			return base(a)
		}
	}
	return ""
}
