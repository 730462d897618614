package findings

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

var gpuUneven = Detector{
	ID:    "gpu-uneven",
	Means: "One GPU of the server behaves unlike the others: it grew in memory, or it idles while they work.",
	Needs: "nvidia-smi since the server was ready",
	When:  "Against its own baseline since ready one GPU's memory grew 2 GiB more than the others'; or for 5 minutes it is 40 points less busy than the others, and was not in the half hour before.",
	Do:    "Look for another process on that GPU, for its clocks and for the rank that runs on it.",
	For:   2 * time.Minute,
	Clear: 2 * time.Minute,
	Check: func(in *Input, out *Output) {
		ready := time.Time{}
		for _, v := range in.working() {
			ready = latest(ready, v.Phase.Ready)
		}
		age := in.now().Sub(ready)
		if ready.IsZero() || age < 20*time.Minute || len(in.Snap.GPUs) < 3 {
			return
		}
		memory := in.against(metrics.SeriesGPUMem, min(age-2*time.Minute, 12*time.Hour))
		unevenOnes(in, out, memory, in.Threshold("uneven_mib"), func(i int, grew, others float64) (string, string) {
			return fmt.Sprintf("GPU %d grew by %s since ready, the others by %s", i, mib(grew), mib(others)), "memory grew on one GPU only"
		})
		if age > 45*time.Minute {
			busy := in.against(metrics.SeriesGPUUtil, 40*time.Minute)
			for i := range busy {
				busy[i] = -busy[i]
			}
			unevenOnes(in, out, busy, in.Threshold("uneven_util"), func(i int, fell, others float64) (string, string) {
				return fmt.Sprintf("GPU %d is %.0f points less busy than before, the others %.0f", i, fell, others), "one GPU idles while the others work"
			})
		}
	},
}

// against is how much each GPU's quantity grew: the last 5 minutes against 5
// minutes that ended long before. GPUs without both are left out.
func (in *Input) against(what string, back time.Duration) map[int]float64 {
	out := map[int]float64{}
	for i := range in.Snap.GPUs {
		n := in.Snap.GPUs[i].Index
		was, ok1 := in.mean(what, strconv.Itoa(n), back, max(back-10*time.Minute, 6*time.Minute))
		is, ok2 := in.mean(what, strconv.Itoa(n), 5*time.Minute, 0)
		if ok1 && ok2 {
			out[n] = is - was
		}
	}
	return out
}

func unevenOnes(in *Input, out *Output, grew map[int]float64, limit float64, say func(i int, grew, others float64) (title, why string)) {
	if len(grew) < 3 {
		return
	}
	var all []float64
	for _, v := range grew {
		all = append(all, v)
	}
	slices.Sort(all)
	middle := all[len(all)/2]
	for i := range in.Snap.GPUs {
		n := in.Snap.GPUs[i].Index
		v, ok := grew[n]
		if !ok || v-middle < limit {
			continue
		}
		title, why := say(n, v, middle)
		out.Raise(Condition{
			Subject: "gpu " + strconv.Itoa(n), Severity: metrics.SeverityWarning, Title: title, Why: why,
			Evidence: []metrics.Evidence{{Text: title, Source: "nvidia-smi", At: in.now()}},
			Advice:   fmt.Sprintf("look at what runs on it (nvidia-smi -i %d), at its clocks and at the log of its rank", n),
			Graph:    metrics.SeriesKey{What: metrics.SeriesGPUMem, Of: strconv.Itoa(n)},
		})
		return
	}
}

var gpuThrottled = Detector{
	ID:     "gpu-throttled",
	Means:  "A GPU is slowed down by heat or by its power supply. With tensor parallelism the slowest one sets the pace of all.",
	Needs:  "nvidia-smi's reasons for its clocks",
	When:   "A thermal or hardware slowdown for 60 s. A set power limit is normal under load and is not counted.",
	Do:     "Check cooling, fans and power; lower the power limit of all to keep them even.",
	Causes: []metrics.Cause{metrics.CauseGPUThrottled},
	For:    60 * time.Second,
	Clear:  60 * time.Second,
	Check: func(in *Input, out *Output) {
		for i := range in.Snap.GPUs {
			g := &in.Snap.GPUs[i]
			reasons := hardThrottle(g)
			if len(reasons) == 0 {
				continue
			}
			c := Condition{
				Subject: "gpu " + strconv.Itoa(g.Index), Severity: metrics.SeverityWarning, Cause: metrics.CauseGPUThrottled,
				Title: fmt.Sprintf("GPU %d is slowed down: %s", g.Index, strings.Join(reasons, ", ")),
				Why:   causeInfo(metrics.CauseGPUThrottled).Meaning,
				Evidence: []metrics.Evidence{
					{Text: fmt.Sprintf("%s °C, %s of %s W, %s MHz", metrics.FigureText(g.Temp, metrics.Count), metrics.FigureText(g.Power, metrics.Count), metrics.FigureText(g.PowerLimit, metrics.Count), metrics.FigureText(g.ClockSM, metrics.Count)), Source: "nvidia-smi", At: g.Temp.At},
				},
				Advice: "check cooling and power; until then lower the limit of all (nvidia-smi -pl WATTS)",
				Graph:  metrics.SeriesKey{What: metrics.SeriesGPUTemp, Of: strconv.Itoa(g.Index)},
			}
			out.Raise(c)
		}
	},
}

var gpuToolStuck = Detector{
	ID:     "gpu-tool-stuck",
	Means:  "nvidia-smi hangs or fails: GPU figures are missing, and often the driver or a GPU's firmware is in trouble.",
	Needs:  "nvidia-smi, which is asked by one process only",
	When:   "It hangs (state D) or fails for 30 s. That there is no nvidia-smi at all, or that it says it cannot be used, is named with its cause.",
	Do:     "Look for GSP or Xid lines in dmesg; do not start more of them; restart the machine when the job allows.",
	Causes: []metrics.Cause{metrics.CauseDriverMismatch, metrics.CauseDriverNotLoaded, metrics.CauseGPUFirmwareTimeout},
	For:    30 * time.Second,
	Clear:  10 * time.Second,
	Check: func(in *Input, out *Output) {
		t := in.Snap.GPUTool
		switch {
		case t.State != "stuck" && t.State != "failed":
			return
		case t.Cause == metrics.CauseGPULost || t.Cause == metrics.CauseGPUXid:
			return // gpu-lost tells it
		}
		c := Condition{
			Subject: "nvidia-smi", Severity: metrics.SeverityWarning, Since: t.Since, Cause: t.Cause,
			Title:    "nvidia-smi " + map[string]string{"stuck": "hangs", "failed": "fails"}[t.State] + " since " + in.clock(t.Since),
			Evidence: []metrics.Evidence{{Text: t.Text, Source: "nvidia-smi", At: t.Since}},
			Why:      "the driver does not answer",
			Advice:   "look for Xid and GSP lines in dmesg; do not start nvidia-smi by hand; restart the machine when the job allows",
		}
		if t.Text == "" {
			c.Evidence[0].Text = "no answer"
		}
		if t.Cause != "" {
			info := causeInfo(t.Cause)
			c.Why, c.Advice = info.Meaning, info.Advice
			c.Title += ": " + causeWords(metrics.CauseFact{Class: t.Cause})
		}
		for _, k := range in.Snap.Kernel {
			if k.Class == metrics.CauseGPUFirmwareTimeout {
				c.Cause, c.Why = k.Class, causeInfo(k.Class).Meaning
				c.Advice = causeInfo(k.Class).Advice
				c.Evidence = append(c.Evidence, metrics.Evidence{Text: k.Line, Source: "kernel log", At: k.At})
				break
			}
		}
		out.Raise(c)
	},
}
