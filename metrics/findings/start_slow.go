package findings

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

var startSlow = Detector{
	ID:    "start-slow",
	Means: "A start takes clearly longer than earlier ones, and still moves.",
	Needs: "the server's log; earlier starts for comparison",
	When:  "1.5 times the usual time until ready (30 minutes where no earlier start is known) with signs of progress in the last 10 minutes.",
	Do:    "Look at the phase: weights come from a slow disk, graphs are captured for many sizes, kernels are compiled once.",
	For:   10 * time.Second,
	Clear: 5 * time.Second,
	Check: func(in *Input, out *Output) {
		for _, v := range in.working() {
			if v.State != metrics.ServerStarting || v.Started.IsZero() {
				continue
			}
			took := in.now().Sub(v.Started)
			limit := in.seconds("start_slow_min_s")
			usual := "no earlier start is known"
			if v.Phase.Expected > 0 {
				limit = time.Duration(in.Threshold("start_slow_factor")*float64(v.Phase.Expected)) + time.Minute
				usual = "usually ready after " + metrics.Age(v.Phase.Expected)
			}
			if took < limit || in.now().Sub(lastSign(in, v)) >= stuckAfter(in, v) {
				continue
			}
			c := startCondition(in, v, metrics.SeverityWarning, fmt.Sprintf("start takes %s so far: %s", metrics.Age(took), phaseText(v)))
			c.Since = v.Started.Add(limit)
			c.Evidence = append(c.Evidence, metrics.Evidence{Text: usual, Source: "earlier starts", At: in.now()})
			if strings.HasPrefix(v.Phase.Name, "loading") {
				c.Cause = metrics.CauseLoadSlow
				c.Why, c.Advice = causeInfo(c.Cause).Meaning, causeInfo(c.Cause).Advice
			}
			out.Raise(c)
		}
	},
}

var startStuck = Detector{
	ID:    "start-stuck",
	Means: "A start makes no progress any more.",
	Needs: "the server's log, GPU memory and the process list",
	When:  "For 10 minutes no new log line, no growth of GPU memory, no page read from disk through a memory map and no compiler running; 25 minutes in phases that are silent by nature (loading from a network disk, compiling, pinning host memory).",
	Do:    "Look at stacks (py-spy dump), then stop it; NCCL and disks are the usual reasons.",
	For:   10 * time.Second,
	Clear: 5 * time.Second,
	Check: func(in *Input, out *Output) {
		for _, v := range in.working() {
			if v.State != metrics.ServerStarting || v.Started.IsZero() || !in.linkUp() {
				continue
			}
			sign := lastSign(in, v)
			if primary(v) != nil || slices.ContainsFunc(v.Causes, func(f metrics.CauseFact) bool { return f.Class == metrics.CauseServerHung }) {
				continue // its log says more
			}
			if still := in.now().Sub(sign); still >= stuckAfter(in, v) {
				c := startCondition(in, v, metrics.SeverityCritical, fmt.Sprintf("start is stuck in %q: no sign of progress for %s", v.Phase.Name, metrics.Age(still)))
				c.Since = sign
				c.Evidence = append(c.Evidence, metrics.Evidence{Text: "no log line, no growth of GPU memory, nothing read from disk, no compiler", Source: "log, nvidia-smi, processes", At: sign})
				c.Advice = fmt.Sprintf("collect stacks (py-spy dump --pid %d and of its schedulers), look for NCCL and the disk of the model, then stop it", v.PID)
				out.Raise(c)
			}
		}
	},
}

func startCondition(in *Input, v *metrics.Server, sev metrics.Severity, title string) Condition {
	return Condition{
		Subject: v.ID, Severity: sev, Title: title, LogPath: v.Log.Path,
		Why: "the start is in phase " + strconv.Quote(v.Phase.Name),
		Evidence: []metrics.Evidence{
			{Text: "began at " + in.clock(v.Started), Source: "process", At: v.Started},
			{Text: "phase since " + in.clock(v.Phase.Since), Source: "log", At: v.Phase.Since},
		},
		Advice: "wait while it moves; compare the phases with those of earlier starts (t)",
	}
}

func phaseText(v *metrics.Server) string {
	if v.Phase.Total > 0 {
		return fmt.Sprintf("%s %d of %d", v.Phase.Name, v.Phase.Done, v.Phase.Total)
	}
	return v.Phase.Name
}

// stuckAfter is how long the phase may be without a sign.
func stuckAfter(in *Input, v *metrics.Server) time.Duration {
	for _, silent := range []string{"loading", "compil", "pinning", "captur", "warming"} {
		if strings.Contains(v.Phase.Name, silent) {
			return in.seconds("start_silent_phase_s")
		}
	}
	return in.seconds("start_stuck_s")
}

// compilers are programs that build kernels.
var compilers = []string{"nvcc", "cicc", "ptxas", "ninja", "cc1plus", "cudafe++", "fatbinary"}

// lastSign is the newest sign of progress of a start: a log line, growing GPU
// memory, or a compiler that runs for it.
func lastSign(in *Input, v *metrics.Server) time.Time {
	sign := latest(latest(v.Phase.LastSign, v.Started), v.Log.Mtime)
	for i := range in.Snap.Procs {
		p := &in.Snap.Procs[i]
		if slices.Contains(compilers, p.Comm) {
			return in.now()
		}
	}
	for i := range in.Snap.GPUs {
		s := in.Snap.Series[metrics.SeriesKey{What: metrics.SeriesGPUMem, Of: strconv.Itoa(in.Snap.GPUs[i].Index)}]
		const step = 30 * time.Second
		cols := s.Columns(in.now(), 30*time.Minute, 60)
		for j := len(cols) - 1; j > 0; j-- {
			if cols[j].N > 0 && cols[j-1].N > 0 && cols[j].Max > cols[j-1].Max+16 {
				sign = latest(sign, in.now().Add(-time.Duration(len(cols)-1-j)*step))
				break
			}
		}
	}
	return sign
}
