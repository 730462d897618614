package restart

import (
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/metrics"
)

// A server is not started into memory that an orphan of the one before holds,
// as was seen on an H200 whose server had been killed with SIGKILL.
func TestRoomOnTheGPUs(t *testing.T) {
	mib := func(v float64) metrics.Figure { return metrics.Known(v, time.Unix(0, 0), 0, "test") }
	gpu := func(i int, used float64, procs ...metrics.GPUProc) metrics.GPU {
		return metrics.GPU{Index: i, MemUsed: mib(used), MemTotal: mib(143_771), Procs: procs}
	}
	orphan := metrics.GPUProc{PID: 4972, Name: "sglang::scheduler", MiB: mib(100_548), Owner: "other"}
	small := metrics.GPUProc{PID: 77, Name: "python3", MiB: mib(8_000), Owner: "other"}
	ours := metrics.GPUProc{PID: 101, Name: "sglang::scheduler", MiB: mib(100_548), Owner: "server"}
	for name, tc := range map[string]struct {
		op            Op
		edits         map[string]string
		gpus          []metrics.GPU
		refused, warn string
	}{
		"an orphan":                  {op: Start, gpus: []metrics.GPU{gpu(0, 100_548, orphan)}, refused: "GPU 0: 98.2 GiB of 140 GiB held by process 4972 (sglang::scheduler), and the launch takes 88 %"},
		"nobody visible":             {op: Start, gpus: []metrics.GPU{gpu(0, 100_548)}, refused: "held by nothing that is visible here"},
		"free":                       {op: Start, gpus: []metrics.GPU{gpu(0, 600)}},
		"both fit":                   {op: Start, edits: map[string]string{"mem-fraction-static": "0.5"}, gpus: []metrics.GPU{gpu(0, 8_000, small)}, warn: "GPU 0: 7.81 GiB"},
		"another GPU":                {op: Start, gpus: []metrics.GPU{gpu(0, 600), gpu(1, 100_548, orphan)}},
		"two ranks":                  {op: Start, edits: map[string]string{"tp-size": "2"}, gpus: []metrics.GPU{gpu(0, 600), gpu(1, 100_548, orphan)}, refused: "GPU 1: "},
		"a restart frees its own":    {op: Restart, gpus: []metrics.GPU{gpu(0, 100_548, ours)}},
		"a restart beside an orphan": {op: Restart, gpus: []metrics.GPU{gpu(0, 109_000, ours, small)}, warn: "GPU 0: 7.81 GiB of 140 GiB held by process 77 (python3)"},
		"eight ranks": {op: Start, edits: map[string]string{"tp-size": "3"}, gpus: []metrics.GPU{
			gpu(0, 100_548, metrics.GPUProc{PID: 1, Name: "sglang::scheduler", MiB: mib(100_548)}), gpu(1, 100_548, metrics.GPUProc{PID: 2, Name: "sglang::scheduler", MiB: mib(100_548)}),
			gpu(2, 100_548, metrics.GPUProc{PID: 3, Name: "sglang::scheduler", MiB: mib(100_548)}),
		}, refused: "GPUs 0 to 2, each: 98.2 GiB of 140 GiB held by process 1 (sglang::scheduler), 2 (sglang::scheduler), 3 (sglang::scheduler), and the launch takes 88 % -> end what is left of an earlier server (kill 1 2 3)"},
		"processes that have just ended": {op: Start, gpus: []metrics.GPU{gpu(0, 0, orphan)}},
		"memory that cannot be known":    {op: Start, gpus: []metrics.GPU{{Index: 0}}},
		"the driver's own":               {op: Start, gpus: []metrics.GPU{gpu(0, 1_000)}},
		"a restart in a closed box":      {op: Restart, gpus: []metrics.GPU{gpu(0, 100_548)}},
		"a start with a small process":   {op: Start, gpus: []metrics.GPU{gpu(0, 300, metrics.GPUProc{PID: 5, Name: "Xorg", MiB: mib(200)})}},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(Options{Op: tc.op})
			in.Snap.GPUs = tc.gpus
			if tc.op == Start {
				in.Server = nil
			}
			for f, v := range tc.edits {
				if err := in.Draft.Set(f, v); err != nil {
					t.Fatal(err)
				}
			}
			p := New(in)
			var refused string
			for _, r := range p.Refusals {
				if r.Code == RefusedGPU {
					refused = r.Reason + " -> " + r.Way
				}
			}
			if tc.refused == "" && refused != "" || !strings.Contains(refused, tc.refused) {
				t.Errorf("refused %q, want %q", refused, tc.refused)
			}
			var warned string
			for _, w := range p.Warnings {
				if strings.Contains(w, "held by") {
					warned = w
				}
			}
			if tc.warn == "" && warned != "" || !strings.Contains(warned, tc.warn) {
				t.Errorf("warned %q, want %q", warned, tc.warn)
			}
		})
	}
}

func TestUsesGPU(t *testing.T) {
	with := func(devices string) launch.Launch {
		return launch.Launch{Engine: "sglang", Argv: []string{"python3", "-m", "sglang.launch_server", "--tp", "2"}, Env: []launch.Var{{Name: "CUDA_VISIBLE_DEVICES", Value: devices}}}
	}
	for devices, want := range map[string][4]bool{
		"2,3": {false, false, true, true}, "": {true, true, true, true}, "GPU-8a1f": {true, true, true, true}, "0": {true, false, false, false},
	} {
		for i, w := range want {
			if got := usesGPU(with(devices), i); got != w {
				t.Errorf("CUDA_VISIBLE_DEVICES=%s: GPU %d used: %v", devices, i, got)
			}
		}
	}
	l := with("0")
	l.Env = nil
	if !usesGPU(l, 1) || usesGPU(l, 2) {
		t.Error("two ranks do not use the first two GPUs")
	}
}
