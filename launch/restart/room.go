package restart

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/metrics"
)

// ownedMiB is what a card's driver and tools take by themselves, in MiB: less
// than that is nobody's.
const ownedMiB = 1024

// room says where others hold memory that the new server wants. A start with
// too little room is refused: the engine would load for minutes and then end. A
// restart is only warned, since the old server may have shared its cards before.
func (p *Plan) room(in Input) {
	need := float64(needPercent(p.New)) / 100
	var all []held
	for i := range in.Snap.GPUs {
		g := &in.Snap.GPUs[i]
		if !usesGPU(p.New, i) || !g.MemTotal.Known || g.MemTotal.V <= 0 {
			continue
		}
		h := holders(in, g)
		if h.mib < ownedMiB {
			continue
		}
		h.tight = p.Op == Start && h.mib/g.MemTotal.V+need > 0.99
		h.gpus = []int{g.Index}
		if n := len(all); n > 0 && all[n-1].alike(h) {
			all[n-1].join(h)
			continue
		}
		all = append(all, h)
	}
	for _, h := range all {
		if h.tight {
			p.Refusals = append(p.Refusals, Refusal{RefusedGPU, fmt.Sprintf("%s, and the launch takes %.0f %%", h, need*100), h.way()})
		} else {
			p.Warnings = append(p.Warnings, h.String()+": the new server has that much less")
		}
	}
}

// held is memory on GPUs that is no part of what is stopped.
type held struct {
	gpus  []int
	mib   float64 // on one GPU, the most
	total float64 // MiB of a GPU
	procs []metrics.GPUProc
	tight bool // the launch does not fit beside it
}

// alike tells that two GPUs are held by the same kind of processes.
func (h held) alike(o held) bool {
	names := func(ps []metrics.GPUProc) (out []string) {
		for _, p := range ps {
			out = append(out, p.Name)
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	return h.tight == o.tight && h.total == o.total && slices.Equal(names(h.procs), names(o.procs))
}

func (h *held) join(o held) {
	h.gpus, h.mib = append(h.gpus, o.gpus...), max(h.mib, o.mib)
	for _, p := range o.procs {
		if !slices.ContainsFunc(h.procs, func(q metrics.GPUProc) bool { return q.PID == p.PID }) {
			h.procs = append(h.procs, p)
		}
	}
}

func (h held) String() string {
	gpus := fmt.Sprintf("GPU %d", h.gpus[0])
	if n := len(h.gpus); n > 1 {
		gpus = fmt.Sprintf("GPUs %d to %d, each", h.gpus[0], h.gpus[n-1])
	}
	who := "nothing that is visible here"
	if len(h.procs) > 0 {
		var names []string
		for _, p := range h.procs {
			names = append(names, fmt.Sprintf("%d (%s)", p.PID, metrics.Clean(p.Name, 60)))
		}
		who = "process " + strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s: %s of %s held by %s", gpus, metrics.GiB(h.mib*(1<<20)), metrics.GiB(h.total*(1<<20)), who)
}

func (h held) way() string {
	if len(h.procs) == 0 {
		return "free it on the host: the holder is outside this container or of another user"
	}
	pids := make([]string, len(h.procs))
	for i, p := range h.procs {
		pids[i] = strconv.Itoa(p.PID)
	}
	return "end what is left of an earlier server (kill " + strings.Join(pids, " ") + "), or use other GPUs"
}

// holders are the processes on a GPU that are no part of the server that is
// stopped. Memory that no visible process holds counts where no server runs;
// a list of processes that is older than their end counts for nothing.
func holders(in Input, g *metrics.GPU) held {
	h := held{total: g.MemTotal.V}
	for _, p := range g.Procs {
		if p.Owner == "server" && in.Options.Op != Start || !p.MiB.Known || p.MiB.V < ownedMiB/4 {
			continue
		}
		h.mib += p.MiB.V
		h.procs = append(h.procs, p)
	}
	if len(h.procs) == 0 && in.Options.Op == Start && g.MemUsed.Known {
		h.mib = g.MemUsed.V
	}
	if g.MemUsed.Known {
		h.mib = min(h.mib, g.MemUsed.V)
	}
	return h
}

// usesGPU tells whether a launch may use the i-th GPU: those of
// CUDA_VISIBLE_DEVICES by number, else as many as its ranks.
func usesGPU(l launch.Launch, i int) bool {
	for _, v := range l.Env {
		if v.Name != "CUDA_VISIBLE_DEVICES" {
			continue
		}
		for _, d := range strings.Split(v.Value, ",") {
			n, err := strconv.Atoi(strings.TrimSpace(d))
			if err != nil || n == i {
				return true // names of devices are not resolved: any may be meant
			}
		}
		return v.Value == ""
	}
	return i < ranks(l)
}

// ranks is on how many GPUs a launch runs.
func ranks(l launch.Launch) int {
	eff := l.Effective()
	n := 1
	for _, names := range [][]string{{"tp-size", "tensor-parallel-size", "tp"}, {"pp-size", "pipeline-parallel-size", "pp"}, {"dp-size", "data-parallel-size", "dp"}} {
		for _, name := range names {
			if v, err := strconv.Atoi(eff[name]); err == nil && v > 0 {
				n *= v
				break
			}
		}
	}
	return n
}
