package findings

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

var gpuLost = Detector{
	ID:     "gpu-lost",
	Means:  "A GPU no longer answers, reports errors that cannot be corrected, or wants a reset.",
	Needs:  "nvidia-smi; the kernel log tells the Xid",
	When:   "nvidia-smi says lost, ERR! or reset required for a device, or fails because of one; it counts uncorrected ECC errors; or the kernel log tells an Xid, a firmware timeout or a lost GPU in the last hour (an Xid alone is a warning while the server works).",
	Do:     "Stop the server on that GPU, then reset or restart the machine.",
	Causes: gpuFaults,
	For:    2 * time.Second,
	Clear:  30 * time.Second,
	Check: func(in *Input, out *Output) {
		raised := false
		for i := range in.Snap.GPUs {
			g := &in.Snap.GPUs[i]
			if g.Lost == "" {
				continue
			}
			raised = true
			c := Condition{
				Subject: "gpu " + strconv.Itoa(g.Index), Severity: metrics.SeverityCritical, Cause: metrics.CauseGPULost,
				Title:    fmt.Sprintf("GPU %d is lost", g.Index),
				Why:      "the driver cannot reach the device",
				Advice:   "stop the server, then reset the GPU (nvidia-smi -r -i " + strconv.Itoa(g.Index) + ") or restart the machine; look for the first Xid in dmesg",
				Evidence: []metrics.Evidence{{Text: g.Lost, Source: "nvidia-smi", At: in.now()}},
				Graph:    metrics.SeriesKey{What: metrics.SeriesGPUTemp, Of: strconv.Itoa(g.Index)},
			}
			if g.Lost != "GPU is lost" {
				c.Title += ": " + g.Lost
			}
			in.addXid(&c)
			if g.Bus != "" {
				c.Title += " (" + g.Bus + ")"
			}
			out.Raise(c)
		}
		for i := range in.Snap.GPUs {
			if g := &in.Snap.GPUs[i]; g.Lost == "" && g.ECC.Known && g.ECC.V > 0 {
				out.Raise(eccCondition(g))
			}
		}
		if t := in.Snap.GPUTool; !raised && (t.Cause == metrics.CauseGPULost || t.Cause == metrics.CauseGPUXid) {
			out.Raise(Condition{
				Subject: "gpus", Severity: metrics.SeverityCritical, Cause: t.Cause, Since: t.Since,
				Title:    "a GPU is lost: " + t.Text,
				Advice:   "restart the machine; the other GPUs may still be asked one by one (nvidia-smi -i N)",
				Evidence: []metrics.Evidence{{Text: t.Text, Source: "nvidia-smi", At: t.Since}},
			})
			raised = true
		}
		if !raised {
			kernelGPU(in, out)
		}
	},
}

func eccCondition(g *metrics.GPU) Condition {
	return Condition{
		Subject: "gpu " + strconv.Itoa(g.Index), Severity: metrics.SeverityCritical, Cause: metrics.CauseGPUECC,
		Title:    fmt.Sprintf("GPU %d counts %s memory errors that could not be corrected", g.Index, metrics.Count(g.ECC.V)),
		Why:      causeInfo(metrics.CauseGPUECC).Meaning,
		Evidence: []metrics.Evidence{figureEvidence(metrics.Count(g.ECC.V)+" uncorrected errors since the driver was loaded", g.ECC)},
		Advice:   "stop the server when it suits, reset the GPU (nvidia-smi -r -i " + strconv.Itoa(g.Index) + "); replace it when they come back",
		Graph:    metrics.SeriesKey{What: metrics.SeriesGPUTemp, Of: strconv.Itoa(g.Index)},
	}
}

// gpuFaults are the classes of the kernel log that are about GPUs.
var gpuFaults = []metrics.Cause{metrics.CauseGPULost, metrics.CauseGPUXid, metrics.CauseGPUECC, metrics.CauseGPUFirmwareTimeout, metrics.CauseDriverMismatch}

// addXid adds what the kernel log says about it.
func (in *Input) addXid(c *Condition) {
	if k := in.kernelFact(gpuFaults...); k != nil {
		c.Evidence = append(c.Evidence, metrics.Evidence{Text: k.Line, Source: "kernel log", At: k.At})
	}
}

// kernelGPU raises what only the kernel log tells, by the first fault of the
// last hour: those after it are mostly its consequences.
func kernelGPU(in *Input, out *Output) {
	for i := range in.Snap.Kernel {
		k := &in.Snap.Kernel[i]
		if !k.Primary || !slices.Contains(gpuFaults, k.Class) || in.now().Sub(k.At) > in.seconds("xid_shown_s") {
			continue
		}
		info := causeInfo(k.Class)
		c := Condition{
			Subject: "kernel", Severity: metrics.SeverityCritical, Cause: k.Class, Since: k.At,
			Title: "kernel log: " + metrics.Cut(k.Line, 120), Why: info.Meaning, Advice: info.Advice,
			Evidence: []metrics.Evidence{{Text: k.Line, Source: "kernel log", At: k.At}},
		}
		if k.Class == metrics.CauseGPUXid && in.generating() != nil {
			c.Severity = metrics.SeverityWarning
		}
		out.Raise(c)
		return
	}
}
