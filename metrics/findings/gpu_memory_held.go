package findings

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

var gpuMemoryHeld = Detector{
	ID:     "gpu-memory-held",
	Means:  "GPU memory is held by something that is no part of the server: an orphan of an earlier one, a zombie, a process outside this container, or another user's.",
	Needs:  "nvidia-smi's list of processes and the node's process list (as root or the same user)",
	When:   "A process that belongs to no living server holds 1 GiB or more of a GPU; or memory is used that no process accounts for while no server runs. Others' processes are info unless a start failed for it or waits for it.",
	Do:     "End an orphan by its pid; free an invisible holder on the host; wait for another user, or use other GPUs.",
	Causes: []metrics.Cause{metrics.CauseGPUMemoryHeld},
	For:    20 * time.Second,
	Clear:  10 * time.Second,
	Check: func(in *Input, out *Output) {
		unaccounted(in, out)
		for _, h := range in.holders() {
			out.Raise(heldCondition(in, h))
		}
	},
}

// holder is one process with memory on GPUs, which no living server owns.
type holder struct {
	proc  metrics.GPUProc
	gpus  []int
	mib   float64
	kind  string // orphan, zombie, invisible, other
	known *metrics.Proc
}

func (in *Input) holders() []holder {
	trees := in.serverTrees()
	var out []holder
	for i := range in.Snap.GPUs {
		g := &in.Snap.GPUs[i]
		for _, p := range in.others(g, trees) {
			j := slices.IndexFunc(out, func(h holder) bool { return h.proc.PID == p.PID && p.PID != 0 })
			if j < 0 {
				h := holder{proc: p, kind: p.Owner, known: in.process(p.PID)}
				switch {
				case p.Owner == "gone" || h.known != nil && h.known.State == "Z":
					h.kind = "zombie"
				case h.known != nil && engineWorker(h.known):
					h.kind = "orphan"
				case p.Owner == "invisible" && engineName(p.Name) && len(trees) == 0 && in.process(p.PID) != nil:
					h.kind = "orphan"
				}
				out = append(out, h)
				j = len(out) - 1
			}
			out[j].gpus = append(out[j].gpus, g.Index)
			out[j].mib += p.MiB.V
		}
	}
	return slices.DeleteFunc(out, func(h holder) bool { return h.mib < in.Threshold("held_mib") })
}

// others are the processes on a GPU that belong to no living server or client.
// In a container nvidia-smi gives pids of the host, of which none is known here:
// then one holder on each GPU that a server's processes have open is its own.
func (in *Input) others(g *metrics.GPU, trees map[int]string) []metrics.GPUProc {
	var out []metrics.GPUProc
	for _, p := range g.Procs {
		if trees[p.PID] == "" && p.Owner != "server" && p.Owner != "client" && p.Owner != "" {
			out = append(out, p)
		}
	}
	if len(out) == 0 || !in.pidsOfAnother() || !in.servedGPU(g.Index, trees) {
		return out
	}
	own := 0
	for i := range out {
		if out[i].MiB.V > out[own].MiB.V {
			own = i
		}
	}
	return slices.Delete(out, own, own+1)
}

// pidsOfAnother tells whether no pid that nvidia-smi gives is one of this node's.
func (in *Input) pidsOfAnother() bool {
	for i := range in.Snap.GPUs {
		for _, p := range in.Snap.GPUs[i].Procs {
			if p.Owner != "invisible" {
				return false
			}
		}
	}
	return true
}

// servedGPU tells whether a process of a living server has a GPU open.
func (in *Input) servedGPU(index int, trees map[int]string) bool {
	return slices.ContainsFunc(in.Snap.Procs, func(p metrics.Proc) bool { return trees[p.PID] != "" && slices.Contains(p.GPUs, index) })
}

func engineName(s string) bool { return strings.Contains(s, "sglang") || strings.Contains(s, "VLLM") }

// wanted tells whether memory of some GPUs is needed: a server is starting on one
// of them, or failed for want of it.
func (in *Input) wanted(gpus []int) bool {
	for i := range in.Snap.Servers {
		v := &in.Snap.Servers[i]
		p := primary(v)
		failed := v.State == metrics.ServerDown && p != nil && (p.Class == metrics.CauseStartupGPUOccupied || isMemory(p))
		if v.State != metrics.ServerStarting && !failed {
			continue
		}
		if v.PID == 0 || in.process(v.PID) == nil {
			return true // which GPUs it wants is not known
		}
		for _, d := range in.devices(v) {
			if n, err := strconv.Atoi(strings.TrimSpace(d)); err != nil || slices.Contains(gpus, n) {
				return true
			}
		}
	}
	return false
}

func heldCondition(in *Input, h holder) Condition {
	c := Condition{
		Subject: fmt.Sprintf("pid %d", h.proc.PID), Severity: metrics.SeverityWarning, Cause: metrics.CauseGPUMemoryHeld,
		Evidence: []metrics.Evidence{figureEvidence(fmt.Sprintf("%d %s holds %s on GPU %s", h.proc.PID, h.proc.Name, mib(h.mib), gpuNumbers(h.gpus)), h.proc.MiB)},
		Graph:    metrics.SeriesKey{What: metrics.SeriesGPUMem, Of: fmt.Sprint(h.gpus[0])},
	}
	who := fmt.Sprintf("process %d", h.proc.PID)
	if h.known != nil {
		text := metrics.Cut(strings.Join(h.known.Argv, " "), 100)
		if a := in.age(h.proc.PID); a != "" {
			text += ", runs for " + a
		}
		if o := in.Snap.Origin(h.proc.PID); o != "" {
			text += ", from " + o
		}
		c.Evidence = append(c.Evidence, metrics.Evidence{Text: fmt.Sprintf("%s of %s, parent %d: %s", h.known.Comm, orUser(h.known.User), h.known.PPID, text), Source: "processes", At: in.now()})
	}
	if h.kind == "orphan" || h.kind == "other" {
		c.Since = in.began(h.proc.PID) // it has held it all the time; one that ended just now may still let go
	}
	needed := in.wanted(h.gpus)
	switch h.kind {
	case "orphan":
		c.Title = fmt.Sprintf("an orphan of an earlier server (%s) holds %s on GPU %s", who, mib(h.mib), gpuNumbers(h.gpus))
		c.Why = "its server is gone and it was left behind"
		c.Advice = fmt.Sprintf("kill %d; wait 10 s; kill -9 %d if it is still there", h.proc.PID, h.proc.PID)
	case "zombie":
		c.Title = fmt.Sprintf("a zombie (%s) holds %s on GPU %s", who, mib(h.mib), gpuNumbers(h.gpus))
		c.Why = "the process ended and its GPU context did not"
		c.Advice = fmt.Sprintf("end its parent; if the memory stays, reset the GPU from the host (nvidia-smi -r -i %d)", h.gpus[0])
		if h.known != nil && h.known.PPID > 1 {
			c.Advice = fmt.Sprintf("kill %d, its parent; if the memory stays, reset the GPU from the host (nvidia-smi -r -i %d)", h.known.PPID, h.gpus[0])
		}
	case "invisible":
		c.Title = fmt.Sprintf("a holder that cannot be seen from here (%s of the host) has %s on GPU %s", who, mib(h.mib), gpuNumbers(h.gpus))
		c.Why = "its pid is not among this container's processes"
		c.Advice = fmt.Sprintf("free it on the host: look there at pid %d (ps -fp %d)", h.proc.PID, h.proc.PID)
		if !needed {
			c.Severity = metrics.SeverityInfo
		}
	default:
		user := ""
		if h.known != nil {
			user = " of " + orUser(h.known.User)
		}
		c.Title = fmt.Sprintf("%s%s holds %s on GPU %s", who, user, mib(h.mib), gpuNumbers(h.gpus))
		c.Why = "it belongs to nobody's server here"
		c.Advice = "ask its owner, or use other GPUs (CUDA_VISIBLE_DEVICES)"
		if !needed {
			c.Severity = metrics.SeverityInfo
		}
	}
	if needed {
		c.Severity = metrics.SeverityCritical
		c.Why += "; a start needs this memory"
	}
	return c
}

func orUser(u string) string {
	if u == "" {
		return "an unknown user"
	}
	return u
}

func gpuNumbers(list []int) string {
	var out []string
	for _, n := range list {
		out = append(out, fmt.Sprint(n))
	}
	return strings.Join(out, ", ")
}

// unaccounted is memory in use while no process has any: a ghost, or one that
// the container does not show.
func unaccounted(in *Input, out *Output) {
	if len(in.working()) > 0 || in.now().Sub(lastEnd(in)) < time.Minute {
		return
	}
	for i := range in.Snap.GPUs {
		g := &in.Snap.GPUs[i]
		if !g.MemUsed.Known || g.Unified || g.MIG || len(g.Procs) > 0 || g.MemUsed.V < 2*in.Threshold("held_mib") {
			continue
		}
		c := Condition{
			Subject: fmt.Sprintf("gpu %d", g.Index), Severity: metrics.SeverityWarning, Cause: metrics.CauseGPUMemoryHeld,
			Title:    fmt.Sprintf("%s of GPU %d are in use and no process is shown", mib(g.MemUsed.V), g.Index),
			Why:      "the holder lives outside this container, or its context outlived it",
			Evidence: []metrics.Evidence{figureEvidence(mib(g.MemUsed.V)+" in use, no process listed", g.MemUsed)},
			Advice:   fmt.Sprintf("free it on the host: fuser -v /dev/nvidia%d there; if nobody has it, reset the GPU (nvidia-smi -r -i %d)", g.Index, g.Index),
			Graph:    metrics.SeriesKey{What: metrics.SeriesGPUMem, Of: fmt.Sprint(g.Index)},
		}
		out.Raise(c)
	}
}

// lastEnd is when the newest server ended.
func lastEnd(in *Input) time.Time {
	var at time.Time
	for i := range in.Snap.Servers {
		at = latest(at, in.Snap.Servers[i].Ended)
	}
	return at
}
