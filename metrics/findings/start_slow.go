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
	ID:      "start-slow",
	Means:   "A start takes clearly longer than earlier ones, and still moves.",
	Needs:   "the server's log; earlier starts for comparison",
	When:    "1.5 times the usual time until ready (30 minutes where no earlier start is known) with signs of progress in the last 10 minutes.",
	Do:      "Look at the phase: weights come from a slow disk, graphs are captured for many sizes, kernels are compiled once.",
	Channel: "files",
	Causes:  []metrics.Cause{metrics.CauseLoadSlow},
	For:     10 * time.Second,
	Clear:   5 * time.Second,
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
			c.Evidence = append(c.Evidence, signs(in, v)...)
			if strings.HasPrefix(v.Phase.Name, "loading") {
				c.Cause = metrics.CauseLoadSlow
				c.Why, c.Advice = causeInfo(c.Cause).Meaning, causeInfo(c.Cause).Advice
			}
			out.Raise(c)
		}
	},
}

var startStuck = Detector{
	ID:      "start-stuck",
	Means:   "A start makes no progress any more.",
	Needs:   "the server's log, GPU memory, the process list, and /proc/PID/io (its user's and root's to read; without it only pages read through memory maps are seen)",
	When:    "For 10 minutes no new log line, no growth of GPU memory, nothing read from disk (1 MiB in 30 s, or a page through a memory map) and no compiler running; 25 minutes in phases that are silent by nature (loading from a network disk, compiling, pinning host memory).",
	Do:      "Look at stacks (py-spy dump), then stop it; NCCL and disks are the usual reasons.",
	Channel: "files",
	For:     10 * time.Second,
	Clear:   5 * time.Second,
	Check: func(in *Input, out *Output) {
		for _, v := range in.working() {
			if v.State != metrics.ServerStarting || v.Started.IsZero() {
				continue
			}
			sign := lastSign(in, v)
			if primary(v) != nil || slices.ContainsFunc(v.Causes, func(f metrics.CauseFact) bool { return f.Class == metrics.CauseServerHung }) {
				continue // its log says more
			}
			if still := in.now().Sub(sign); still >= stuckAfter(in, v) {
				c := startCondition(in, v, metrics.SeverityCritical, fmt.Sprintf("start is stuck in %q: no sign of progress for %s", v.Phase.Name, metrics.Age(still)))
				c.Since = sign
				c.Evidence = append(c.Evidence, signs(in, v)...)
				c.Advice = fmt.Sprintf("collect stacks (py-spy dump --pid %d and of its schedulers), look for NCCL and the disk of the model, then stop it", v.PID)
				out.Raise(c)
			}
		}
	},
}

func startCondition(in *Input, v *metrics.Server, sev metrics.Severity, title string) Condition {
	return Condition{
		Subject: v.ID, Severity: sev, Title: title, Log: metrics.LogPlace{Path: v.Log.Path},
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
// memory, reading from disk, or a compiler that runs for it.
func lastSign(in *Input, v *metrics.Server) time.Time {
	if in.compilers() {
		return in.now()
	}
	grew, _ := gpuGrew(in)
	return latest(latest(latest(v.Phase.LastSign, v.Started), v.Log.Mtime), grew)
}

// signs tells each sign of progress and when it was last seen, so that what
// cannot be seen is not taken for stillness.
func signs(in *Input, v *metrics.Server) []metrics.Evidence {
	say := func(source, format string, at time.Time) metrics.Evidence {
		return metrics.Evidence{Text: fmt.Sprintf(format, in.clock(at)), Source: source, At: at}
	}
	never := func(source, text string) metrics.Evidence {
		return metrics.Evidence{Text: text, Source: source, At: in.now()}
	}
	var out []metrics.Evidence
	if line := latest(v.Phase.LogAt, v.Log.Mtime); line.IsZero() {
		out = append(out, never("log", "no log line yet"))
	} else {
		out = append(out, say("log", "newest log line at %s", line))
	}
	switch grew, known := gpuGrew(in); {
	case !grew.IsZero():
		out = append(out, say("nvidia-smi", "GPU memory last grew at %s", grew))
	case known:
		out = append(out, never("nvidia-smi", "GPU memory does not grow"))
	default:
		out = append(out, never("nvidia-smi", "whether GPU memory grows is not known"))
	}
	switch p := &v.Phase; {
	case p.DiskBPS.Known && p.DiskBPS.V >= 1<<20:
		out = append(out, figureEvidence("reads "+metrics.Bytes(p.DiskBPS.V)+"/s from disk", p.DiskBPS))
	case !p.DiskAt.IsZero():
		out = append(out, say("processes", "last read from disk at %s", p.DiskAt))
	case p.DiskBPS.Known:
		out = append(out, never("/proc/PID/io", "nothing is read from disk"))
	default:
		out = append(out, never("processes", "no page is read through a memory map; other reads are its user's and root's to see"))
	}
	if in.compilers() {
		return append(out, never("processes", "a compiler runs"))
	}
	return append(out, never("processes", "no compiler runs"))
}

// gpuGrew is when some GPU's memory last grew within half an hour, zero for not;
// known is false where no figure tells.
func gpuGrew(in *Input) (at time.Time, known bool) {
	for i := range in.Snap.GPUs {
		s := in.Snap.Series[metrics.SeriesKey{What: metrics.SeriesGPUMem, Of: strconv.Itoa(in.Snap.GPUs[i].Index)}]
		const step = 30 * time.Second
		cols := s.Columns(in.now(), 30*time.Minute, 60)
		for j := len(cols) - 1; j > 0; j-- {
			if cols[j].N == 0 || cols[j-1].N == 0 {
				continue
			}
			known = true
			if cols[j].Max > cols[j-1].Max+16 {
				at = latest(at, in.now().Add(-time.Duration(len(cols)-1-j)*step))
				break
			}
		}
	}
	return at, known
}
