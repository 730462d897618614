package findings

import (
	"fmt"
	"strconv"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

var gpuLost = Detector{
	ID:    "gpu-lost",
	Means: "A GPU no longer answers, reports errors that cannot be corrected, or wants a reset.",
	Needs: "nvidia-smi; the kernel log tells the Xid",
	When:  "nvidia-smi says lost, ERR! or reset required for a device, or fails because of one.",
	Do:    "Stop the server on that GPU, then reset or restart the machine.",
	For:   2 * time.Second,
	Clear: 30 * time.Second,
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
				Title:    fmt.Sprintf("GPU %d is lost: %s", g.Index, g.Lost),
				Why:      "the driver cannot reach the device",
				Advice:   "stop the server, then reset the GPU (nvidia-smi -r -i " + strconv.Itoa(g.Index) + ") or restart the machine; look for the first Xid in dmesg",
				Evidence: []metrics.Evidence{{Text: g.Lost, Source: "nvidia-smi", At: in.now()}},
			}
			if g.Bus != "" {
				c.Title += " (" + g.Bus + ")"
			}
			out.Raise(c)
		}
		if t := in.Snap.GPUTool; !raised && (t.Cause == metrics.CauseGPULost || t.Cause == metrics.CauseGPUXid) {
			out.Raise(Condition{
				Subject: "gpus", Severity: metrics.SeverityCritical, Cause: t.Cause, Since: t.Since,
				Title:    "a GPU is lost: " + t.Text,
				Advice:   "restart the machine; the other GPUs may still be asked one by one (nvidia-smi -i N)",
				Evidence: []metrics.Evidence{{Text: t.Text, Source: "nvidia-smi", At: t.Since}},
			})
		}
	},
}
