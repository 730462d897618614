package findings

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

var hostMemoryLow = Detector{
	ID:     "host-memory-low",
	Means:  "The host, or the container that holds the server, is short of memory: the kernel may kill the server or the client next.",
	Needs:  "/proc/meminfo, and the memory limits of the control groups above the server",
	When:   "Less than 3 % available (warning), less than 4 GiB (critical): of the node's memory, or below the limit of the server's container, Slurm job or other control group, whichever has less left. Page cache that can be dropped counts as free. Pinned host memory of the hierarchical cache counts as used and is named. Or the kernel's OOM killer ran within the last hour and no server's or client's end tells of it (info where only a container reached its own limit).",
	Do:     "Lower --hicache-size (1e9 bytes a rank), or end what else takes memory.",
	Causes: []metrics.Cause{metrics.CauseHostNoMemory, metrics.CauseHostOOMKilled},
	For:    30 * time.Second,
	Clear:  60 * time.Second,
	Check: func(in *Input, out *Output) {
		kernelOOM(in, out)
		m := in.Snap.Sys
		if !m.MemAvail.Known || !m.MemTotal.Known || m.MemTotal.V <= 0 {
			return
		}
		low := m.MemAvail.V < in.Threshold("memory_low_share")*m.MemTotal.V
		critical := m.MemAvail.V < min(in.Threshold("memory_low_gib")*(1<<30), 0.1*m.MemTotal.V)
		if !low && !critical {
			return
		}
		c := Condition{
			Subject: "node", Severity: metrics.SeverityWarning, Cause: metrics.CauseHostNoMemory, Graph: metrics.SeriesKey{What: metrics.SeriesMemAvail},
			Title:    fmt.Sprintf("%s of %s host memory are available", metrics.GiB(m.MemAvail.V), metrics.GiB(m.MemTotal.V)),
			Why:      "the kernel kills the largest process when nothing is left",
			Evidence: []metrics.Evidence{figureEvidence(metrics.GiB(m.MemAvail.V)+" available", m.MemAvail)},
			Advice:   "find what takes it (ps aux --sort -rss | head)",
		}
		if critical {
			c.Severity = metrics.SeverityCritical
		}
		if m.MemLimit != "" {
			limit := metrics.LimitText(m.MemLimit, m.MemTotal)
			c.Title = fmt.Sprintf("%s are left below %s", metrics.GiB(m.MemAvail.V), limit)
			c.Why = "the kernel kills a process inside when nothing is left below the limit, whatever the node has"
			c.Evidence[0].Text += ", page cache counted as free"
			c.Evidence = append(c.Evidence, figureEvidence("the node itself has "+metrics.FigureText(m.NodeAvail, metrics.GiB)+" of "+metrics.FigureText(m.NodeTotal, metrics.GiB), m.NodeAvail))
			c.Advice += ", or raise " + limit
		}
		for _, v := range in.working() {
			if v.HiCache.On && v.HiCache.HostGB.Known {
				c.Evidence = append(c.Evidence, figureEvidence(fmt.Sprintf("%.0f GB are pinned for the hierarchical cache (%g GB a rank)", v.HiCache.HostGB.V, v.HiCache.SizeGB), v.HiCache.HostGB))
				if v.HiCache.SizeGB > 1 {
					c.Advice = fmt.Sprintf("lower --hicache-size from %g to %.0f, which gives back %.0f GB", v.HiCache.SizeGB, math.Floor(v.HiCache.SizeGB*0.75), v.HiCache.HostGB.V*0.25)
					if m.MemLimit != "" {
						c.Advice += ", or raise " + metrics.LimitText(m.MemLimit, m.MemTotal)
					}
				}
			}
		}
		out.Raise(c)
	},
}

// kernelOOM tells of the kernel's OOM killer where it ended something that is no
// server and no client, or nobody whose name the log still has.
func kernelOOM(in *Input, out *Output) {
	told := func(k *metrics.CauseFact) bool {
		same := func(f metrics.CauseFact) bool { return f.Line == k.Line }
		return slices.ContainsFunc(in.Snap.Servers, func(v metrics.Server) bool { return slices.ContainsFunc(v.Causes, same) }) ||
			slices.ContainsFunc(in.Snap.Clients, func(c metrics.Client) bool { return slices.ContainsFunc(c.Causes, same) })
	}
	for i := len(in.Snap.Kernel) - 1; i >= 0; i-- {
		k := &in.Snap.Kernel[i]
		if k.Class != metrics.CauseHostOOMKilled || in.now().Sub(k.At) > in.seconds("xid_shown_s") {
			continue
		}
		if told(k) {
			return // its table and what followed belong to it
		}
		c := Condition{
			Subject: "oom", Severity: metrics.SeverityWarning, Cause: k.Class, Since: k.At,
			Title:    "the kernel's OOM killer ran at " + in.clock(k.At) + ": " + metrics.Cut(k.Line, 120),
			Why:      "the node ran out of memory, and the server or the client may be next",
			Evidence: []metrics.Evidence{{Text: k.Line, Source: "kernel log", At: k.At}},
			Advice:   "find what takes host memory (ps aux --sort -rss | head)",
		}
		victim := slices.IndexFunc(in.Snap.Kernel[:i+1], func(o metrics.CauseFact) bool { return o.Class == k.Class && o.Primary && k.At.Sub(o.At) < time.Minute })
		switch {
		case !k.Primary && victim >= 0:
			continue // the victim's line says more
		case !k.Primary:
			c.Title = "the kernel's OOM killer ran at " + in.clock(k.At) + "; whom it ended is not in what is left of its log"
		case ofContainer(k):
			c.Severity = metrics.SeverityInfo
			c.Why = "a container reached its own memory limit; the node itself had memory"
			c.Advice = "raise that container's memory limit, if it is yours"
		}
		out.Raise(c)
		return
	}
}

// ofContainer tells whether a container's own limit was reached, not the node's memory.
func ofContainer(f *metrics.CauseFact) bool {
	return strings.Contains(f.Line, "Memory cgroup") || strings.Contains(f.Line, "CONSTRAINT_MEMCG")
}

var shmFull = Detector{
	ID:     "shm-full",
	Means:  "/dev/shm is nearly full or very small: NCCL and multiprocessing fail with errors that name neither.",
	Needs:  "df of /dev/shm",
	When:   "Less than 5 % of it is left (and less than 1 GiB).",
	Do:     "Enlarge it (--shm-size, an emptyDir of medium Memory), or remove leftovers.",
	Causes: []metrics.Cause{metrics.CauseShmFull},
	For:    30 * time.Second,
	Clear:  30 * time.Second,
	Check: func(in *Input, out *Output) {
		d := in.Snap.Sys.Shm
		if !d.Avail.Known || !d.Total.Known || d.Total.V <= 0 || d.Avail.V >= in.Threshold("shm_full_share")*d.Total.V || d.Avail.V >= 1<<30 {
			return
		}
		out.Raise(Condition{
			Subject: "/dev/shm", Severity: metrics.SeverityWarning, Cause: metrics.CauseShmFull,
			Title:    fmt.Sprintf("/dev/shm has %s of %s left", metrics.GiB(d.Avail.V), metrics.GiB(d.Total.V)),
			Why:      causeInfo(metrics.CauseShmFull).Meaning,
			Evidence: []metrics.Evidence{figureEvidence(metrics.GiB(d.Avail.V)+" left", d.Avail)},
			Advice:   "remove leftovers (ls -lt /dev/shm), or enlarge it: --shm-size 32g, mount -o remount,size=32G /dev/shm",
		})
	},
}

var swapUsed = Detector{
	ID:    "swap-used",
	Means: "The host swaps while memory is short. Schedulers that are swapped out make every step slow.",
	Needs: "/proc/meminfo",
	When:  "4 GiB of swap or more in use and less than 10 % of memory available. Swap that was filled long ago with memory free is harmless.",
	Do:    "Free memory; lower --hicache-size.",
	For:   2 * time.Minute,
	Clear: 2 * time.Minute,
	Check: func(in *Input, out *Output) {
		m := in.Snap.Sys
		if !m.SwapUsed.Known || m.SwapUsed.V < in.Threshold("swap_used_gib")*(1<<30) || !m.NodeAvail.Known || !m.NodeTotal.Known || m.NodeAvail.V > 0.1*m.NodeTotal.V {
			return
		}
		out.Raise(Condition{
			Subject: "node", Severity: metrics.SeverityWarning,
			Title:    fmt.Sprintf("%s of swap are in use, %s of memory available", metrics.GiB(m.SwapUsed.V), metrics.GiB(m.NodeAvail.V)),
			Why:      "memory is short, and what was swapped out is slow",
			Evidence: []metrics.Evidence{figureEvidence(metrics.GiB(m.SwapUsed.V)+" of swap", m.SwapUsed), figureEvidence(metrics.GiB(m.NodeAvail.V)+" available", m.NodeAvail)},
			Advice:   "free memory, or lower --hicache-size; then swapoff -a && swapon -a",
		})
	},
}

var dataOld = Detector{
	ID:    "data-old",
	Means: "A part of what is shown is old: one channel of the probe is stuck or failed while the link is up.",
	Needs: "nothing",
	When:  "A channel for GPUs, files, processes, host or endpoints is stuck or failed for 60 s. One that the node does not have (absent) is only named among what cannot be told.",
	Do:    "The reason is named: a file system that hangs, nvidia-smi in state D, a session that was refused.",
	Clear: 10 * time.Second,
	Check: func(in *Input, out *Output) {
		for _, ch := range in.Snap.Channels {
			if !ch.Broken() || in.now().Sub(ch.Since) < in.seconds("data_old_s") || ch.Name == "gpu" && in.Snap.GPUTool.State != "ok" && in.Snap.GPUTool.State != "" {
				continue
			}
			c := Condition{
				Subject: ch.Name, Severity: metrics.SeverityWarning, Since: ch.Since,
				Title:    fmt.Sprintf("%s are %s old: the probe's channel is %s", channelWords(ch.Name), metrics.Age(in.now().Sub(ch.Since)), ch.State),
				Why:      ch.Reason,
				Evidence: []metrics.Evidence{{Text: ch.State + " since " + in.clock(ch.Since), Source: "probe", At: ch.Since}},
				Advice:   ch.Advice,
			}
			if c.Advice == "" {
				c.Advice = "look whether the node answers at all (ssh and ls), and whether a disk hangs (state D in ps)"
			}
			out.Raise(c)
		}
	},
}

func channelWords(n string) string {
	words := map[string]string{"gpu": "GPU figures", "files": "rows and logs", "scan": "processes", "http": "answers of the endpoints", "ctl": "host figures", "kernel": "kernel lines"}
	if w := words[n]; w != "" {
		return w
	}
	return n
}

var clockSkew = Detector{
	ID:    "clock-skew",
	Means: "The node's clock is wrong by minutes (or this machine's is). Times from its logs are shifted accordingly; certificates and tokens may fail.",
	Needs: "the node's time at login",
	When:  "It differs by 2 minutes or more from this machine's clock. The zone of log stamps is derived from a growing log and never counts as skew.",
	Do:    "Set the clock (chronyc makestep) when no job minds.",
	For:   10 * time.Second,
	Clear: 10 * time.Second,
	Check: func(in *Input, out *Output) {
		skew := in.Snap.NodeClock
		if skew.Abs() < in.seconds("clock_skew_s") || in.Snap.BootID == "" {
			return
		}
		way := "ahead of"
		if skew < 0 {
			way = "behind"
		}
		out.Raise(Condition{
			Subject: "node", Severity: metrics.SeverityInfo,
			Title:    fmt.Sprintf("the node's clock is %s %s this machine's", metrics.Age(skew.Abs()), way),
			Why:      "one of the two clocks is not kept by NTP",
			Evidence: []metrics.Evidence{{Text: "node time at login against the local clock", Source: "session", At: in.now()}},
			Advice:   "look at timedatectl on both; times shown here are corrected by the difference",
		})
	},
}

// kernelFact is the newest fact of one of the classes in the kernel log.
func (in *Input) kernelFact(classes ...metrics.Cause) *metrics.CauseFact {
	for i := len(in.Snap.Kernel) - 1; i >= 0; i-- {
		if slices.Contains(classes, in.Snap.Kernel[i].Class) {
			return &in.Snap.Kernel[i]
		}
	}
	return nil
}
