package findings

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

var serverDown = Detector{
	ID:     "server-down",
	Means:  "The server ended and no other one took its place.",
	Needs:  "its process or its log; the kernel log tells the OOM killer",
	When:   "The process is gone, or its log ends in a crash with no process behind it; or none was found where the configuration expects one. Exit status 137 alone is never called an out-of-memory kill.",
	Do:     "Read the primary cause, then start it again.",
	Causes: endings,
	Clear:  5 * time.Second,
	Check: func(in *Input, out *Output) {
		v := goneServer(in)
		if v == nil && in.Snap.Config.Expected && len(in.Snap.Servers) == 0 && len(in.Snap.Procs) > 0 {
			out.Raise(Condition{
				Subject: "server", Severity: metrics.SeverityCritical, Title: "no server runs on " + in.Snap.Node + ", though one is expected",
				Why:      "no process and no log of an inference server was found",
				Evidence: []metrics.Evidence{{Text: "no server among the node's processes", Source: "processes", At: in.now()}},
				Advice:   "start it (B for the last good start), or set expected = false",
			})
			return
		}
		if v == nil || isMemory(primary(v)) {
			return
		}
		p := primary(v)
		if began, yes := in.restarting(); yes && !v.Ended.Before(began.Add(-10*time.Second)) && (p == nil || p.Class == metrics.CauseStopped) {
			out.Raise(Condition{
				Subject: v.ID, Severity: metrics.SeverityInfo, Cause: metrics.CauseStopped, Since: began,
				Title:    "the server is being restarted since " + in.clock(began),
				Why:      "a restart of this program ended it",
				Evidence: []metrics.Evidence{{Text: "the restart's journal has not ended yet", Source: "journal", At: began}},
				Advice:   "wait for its journal to end; it goes on whatever the link does",
			})
			return
		}
		out.Raise(downCondition(in, v))
	},
}

var serverOOM = Detector{
	ID:     "server-oom",
	Means:  "The server ended because memory ran out: on a GPU, in the KV pool or on the host.",
	Needs:  "its log; the kernel log tells the OOM killer",
	When:   "As server-down, when the primary cause is about memory.",
	Do:     "By phase: weights leave no room: raise the memory fraction; capture failed: lower it; prefill: chunked-prefill-size or fraction down; decode: max-running-requests down.",
	Causes: memoryEnds,
	Clear:  5 * time.Second,
	Check: func(in *Input, out *Output) {
		v := goneServer(in)
		if v == nil || !isMemory(primary(v)) {
			return
		}
		c := downCondition(in, v)
		c.Advice = memoryAdvice(v, *primary(v))
		out.Raise(c)
	},
}

// restartQuiet is how long a restart's journal may say nothing and still count as
// under way.
const restartQuiet = 3 * time.Minute

// restarting tells whether a restart of ours is under way, and since when.
func (in *Input) restarting() (began time.Time, yes bool) {
	var last metrics.Event
	for _, e := range in.Snap.Events {
		if e.Kind != "restart" {
			continue
		}
		if e.Ref != last.Ref {
			began = e.At
		}
		last = e
	}
	return began, last.Kind != "" && !strings.Contains(last.Text, " end state=") && in.now().Sub(last.At) < restartQuiet
}

// goneServer is the newest server that is down and was not replaced. Beside one
// that runs it counts for a while only, and only if both ran at once: a log that
// an earlier server left says nothing then.
func goneServer(in *Input) *metrics.Server {
	var newest *metrics.Server
	others := in.working()
	for i := range in.Snap.Servers {
		v := &in.Snap.Servers[i]
		if v.State != metrics.ServerDown || newest != nil && !v.Ended.After(newest.Ended) {
			continue
		}
		if len(others) > 0 && (v.PID == 0 || in.now().Sub(v.Ended) > in.seconds("down_beside_s") ||
			slices.ContainsFunc(others, func(o *metrics.Server) bool { return o.Started.After(v.Ended) })) {
			continue
		}
		newest = v
	}
	return newest
}

func primary(v *metrics.Server) *metrics.CauseFact {
	for i := range v.Causes {
		if v.Causes[i].Primary {
			return &v.Causes[i]
		}
	}
	return nil
}

// memoryEnds are the ends of a server for want of memory.
var memoryEnds = []metrics.Cause{
	metrics.CauseStartupNoKVMemory, metrics.CauseStartupKVTooSmall, metrics.CauseStartupHostCache, metrics.CauseCaptureOOM,
	metrics.CauseCUDAOOM, metrics.CauseKVPoolExhausted, metrics.CauseHostOOMKilled, metrics.CauseHostNoMemory,
}

// endings are the other ends that a server's log, its process or its node tells.
var endings = []metrics.Cause{
	metrics.CauseKilledUnknown, metrics.CauseStopped,
	metrics.CauseStartupFailed, metrics.CauseStartupGPUOccupied, metrics.CauseModelUnusable, metrics.CauseMissingModule, metrics.CausePortInUse, metrics.CauseBadFlag, metrics.CauseWarmupFailed, metrics.CauseLoadSlow,
	metrics.CauseSlotsExhausted, metrics.CauseKVLeakCheck, metrics.CauseIllegalAccess, metrics.CauseDeviceAssert, metrics.CauseNCCLTimeout, metrics.CauseNCCLError, metrics.CausePeerRankLost,
	metrics.CauseSchedulerException, metrics.CauseSchedulerWatchdog, metrics.CauseServerHung, metrics.CauseNativeCrash, metrics.CauseWorkerDied, metrics.CauseEngineDead,
	metrics.CauseShmFull, metrics.CauseDiskFull, metrics.CauseTooManyFiles,
	metrics.CauseGPULost, metrics.CauseGPUECC, metrics.CauseDriverMismatch, metrics.CauseDriverNotLoaded,
}

func isMemory(c *metrics.CauseFact) bool {
	return c != nil && slices.Contains(memoryEnds, c.Class)
}

// thingOf names a server across its starts: what a supervisor starts again and
// again is one server that crashes again and again.
func thingOf(v *metrics.Server) string {
	if v.Log.Path != "" {
		return "log " + v.Log.Path
	}
	return fmt.Sprintf("port %d", v.Port)
}

func downCondition(in *Input, v *metrics.Server) Condition {
	c := Condition{Subject: v.ID, Thing: thingOf(v), Severity: metrics.SeverityCritical, Since: v.Ended, Log: metrics.LogPlace{Path: v.Log.Path}}
	when := "is down"
	if !v.Ended.IsZero() {
		when = "is down since " + in.clock(v.Ended)
	}
	name := v.Engine
	if name == "" {
		name = "server"
	}
	if len(in.working()) > 0 && v.Port != 0 {
		name += fmt.Sprintf(" on port %d", v.Port)
	}
	c.Title = name + " " + when
	p := primary(v)
	switch {
	case p != nil:
		c.Cause = p.Class
		info := causeInfo(p.Class)
		c.Why, c.Advice = info.Meaning, info.Advice
		c.Title += ": " + causeWords(*p)
		c.Log = logPlace(v.Log.Path, p)
		if p.Line != "" {
			source := logSource("log", p.LineNo)
			if p.Detail == metrics.NodeRestarted {
				source, c.Why, c.Advice = "session", p.Detail, "start it again; look why the node restarted (last -x, the host's own log)"
			}
			c.Evidence = append(c.Evidence, metrics.Evidence{Text: p.Line, Source: source, At: p.At})
		}
	case v.ExitCode != nil && *v.ExitCode != 137:
		c.Title += fmt.Sprintf(", exit status %d", *v.ExitCode)
	default:
		c.Cause = metrics.CauseKilledUnknown
		c.Why = "the log ends in the middle of the run and nothing says why: it was killed from outside"
		c.Title += ": killed, nothing says by whom"
		c.Advice = "look for the OOM killer in dmesg and for who was logged in (last), then start it again"
	}
	if p != nil && p.Class == metrics.CauseStopped && !in.clientWaits() {
		c.Severity = metrics.SeverityWarning
		if in.Snap.Job.Done {
			c.Severity = metrics.SeverityInfo
		}
	}
	if v.PID > 0 {
		c.Evidence = append(c.Evidence, metrics.Evidence{Text: fmt.Sprintf("process %d is gone", v.PID), Source: "processes", At: v.Ended})
	} else if p == nil {
		c.Evidence = append(c.Evidence, metrics.Evidence{Text: "no process of it is left", Source: "processes", At: v.Ended})
	}
	if v.ExitCode != nil {
		c.Evidence = append(c.Evidence, metrics.Evidence{Text: fmt.Sprintf("exit status %d", *v.ExitCode), Source: "process", At: v.Ended})
	}
	if !v.LastBatch.IsZero() {
		c.Evidence = append(c.Evidence, metrics.Evidence{
			Text:   fmt.Sprintf("last batch at %s with %s running", in.clock(v.LastBatch), metrics.FigureText(v.Running, metrics.Count)),
			Source: "log", At: v.LastBatch,
		})
	}
	for i := range in.Snap.Clients {
		if cl := &in.Snap.Clients[i]; alive(cl) {
			c.Evidence = append(c.Evidence, metrics.Evidence{Text: who(cl) + " still runs and gets no answers", Source: "processes", At: in.now()})
		}
	}
	return c
}

// clientWaits tells whether somebody still wants answers.
func (in *Input) clientWaits() bool {
	return slices.ContainsFunc(in.Snap.Clients, func(c metrics.Client) bool { return alive(&c) })
}

func causeInfo(class metrics.Cause) metrics.CauseInfo {
	for _, i := range metrics.Causes() {
		if i.Cause == class {
			return i
		}
	}
	return metrics.CauseInfo{}
}

// wordsOf are the causes in words where their name says too little.
var wordsOf = map[metrics.Cause]string{
	metrics.CauseCUDAOOM:            "out of GPU memory",
	metrics.CauseCaptureOOM:         "out of GPU memory while capturing graphs",
	metrics.CauseStartupNoKVMemory:  "no memory left for the KV cache at start-up",
	metrics.CauseStartupGPUOccupied: "a GPU's memory was taken when it started",
	metrics.CauseStartupKVTooSmall:  "the KV cache has no room for one request",
	metrics.CauseStartupHostCache:   "the host cache is smaller than the device pool",
	metrics.CauseStartupFailed:      "the start failed",
	metrics.CauseModelUnusable:      "the model could not be loaded",
	metrics.CauseMissingModule:      "a module is missing",
	metrics.CausePortInUse:          "its port was taken",
	metrics.CauseBadFlag:            "a flag was not accepted",
	metrics.CauseWarmupFailed:       "its warm-up failed",
	metrics.CauseLoadSlow:           "loading took too long",
	metrics.CauseKVPoolExhausted:    "KV pool exhausted",
	metrics.CauseSlotsExhausted:     "request slots exhausted",
	metrics.CauseKVLeakCheck:        "its own check of the KV pool failed",
	metrics.CauseIllegalAccess:      "illegal memory access on a GPU",
	metrics.CauseDeviceAssert:       "an assertion in a CUDA kernel failed",
	metrics.CauseNCCLTimeout:        "a collective between GPUs timed out",
	metrics.CauseNCCLError:          "NCCL failed",
	metrics.CausePeerRankLost:       "another rank was lost",
	metrics.CauseKVTransfer:         "moving KV between servers failed",
	metrics.CauseSchedulerException: "the scheduler raised an exception",
	metrics.CauseServerHung:         "it answered and made no tokens",
	metrics.CauseSchedulerWatchdog:  "a batch hung until the watchdog ended it",
	metrics.CauseNativeCrash:        "it crashed in native code",
	metrics.CauseWorkerDied:         "a worker died",
	metrics.CauseEngineDead:         "the engine died behind its front",
	metrics.CauseProbeKilled:        "a probe of the platform killed it",
	metrics.CauseHostOOMKilled:      "killed by the kernel's OOM killer",
	metrics.CauseHostNoMemory:       "the host had no memory left",
	metrics.CauseStopped:            "it was asked to stop",
	metrics.CauseShmFull:            "/dev/shm is full or too small",
	metrics.CauseDiskFull:           "a disk is full",
	metrics.CauseTooManyFiles:       "too many open files",
	metrics.CauseClientTimeouts:     "it gives up on requests too early",
	metrics.CauseClientException:    "it ended with an exception",
	metrics.CauseRequestTooLong:     "a request was too long",
	metrics.CauseKilledUnknown:      "killed, nothing says by whom",
	metrics.CauseDriverMismatch:     "driver and library differ",
	metrics.CauseDriverNotLoaded:    "the driver is not loaded",
	metrics.CauseGPUFirmwareTimeout: "a GPU's firmware does not answer",
}

// causeWords is a cause as part of a title: its class in words, its phase and rank.
func causeWords(f metrics.CauseFact) string {
	words := wordsOf[f.Class]
	if f.Detail == metrics.NodeRestarted {
		words = f.Detail
	}
	if words == "" {
		words = strings.ReplaceAll(string(f.Class), "-", " ")
	}
	if f.Phase != "" && f.Class == metrics.CauseCUDAOOM {
		words += " in " + f.Phase
	}
	if f.Rank != "" {
		words += " (" + f.Rank + ")"
	}
	return words
}

// logSource names a line of a log as a source.
func logSource(log string, n int64) string {
	if n <= 0 {
		return log
	}
	return log + " line " + metrics.Count(float64(n))
}

// logPlace is where a cause stands in its log.
func logPlace(log string, f *metrics.CauseFact) metrics.LogPlace {
	return metrics.LogPlace{Path: log, Line: f.LineNo, Off: f.Off, At: f.At, Text: f.Line}
}

// memoryAdvice gives the flag, the value and the direction.
func memoryAdvice(v *metrics.Server, p metrics.CauseFact) string {
	fraction, set := "--mem-fraction-static", setting(v, "--mem-fraction-static")
	running := "--max-running-requests"
	chunk := "--chunked-prefill-size"
	if v.Engine == "vllm" {
		fraction, set = "--gpu-memory-utilization", setting(v, "--gpu-memory-utilization")
		running, chunk = "--max-num-seqs", "--max-num-batched-tokens"
	}
	below := fraction
	if set != "" {
		below += " below " + set
	}
	headroom := ""
	if v.Headroom.Known {
		headroom = fmt.Sprintf(" (%.2f GiB was free after capture)", v.Headroom.V)
	}
	switch {
	case p.Class == metrics.CauseStartupNoKVMemory:
		if set != "" {
			return "raise " + fraction + " above " + set + ": the weights leave no room for the KV cache"
		}
		return "raise " + fraction + ": the weights leave no room for the KV cache"
	case p.Class == metrics.CauseCaptureOOM:
		return "lower " + below + ", or the largest captured batch size"
	case p.Class == metrics.CauseStartupHostCache, p.Class == metrics.CauseHostNoMemory, p.Class == metrics.CauseHostOOMKilled:
		if p.Class == metrics.CauseHostOOMKilled && ofContainer(&p) {
			return "raise the memory limit of the server's container, or " + hostAdvice(v, p.Class) + "; the node itself had memory"
		}
		return hostAdvice(v, p.Class)
	case p.Class == metrics.CauseKVPoolExhausted:
		if v.Engine == "vllm" {
			return "lower " + running + ", or raise " + fraction
		}
		return "lower " + running + ", or raise --schedule-conservativeness to 1.3; GPU memory itself was not full"
	case p.Class == metrics.CauseStartupKVTooSmall:
		if v.Engine == "vllm" {
			return "lower --max-model-len, or raise " + fraction
		}
		return "lower --context-length, or raise " + fraction
	case p.Class == metrics.CauseCUDAOOM && p.Phase == "start-up":
		return "lower " + below + headroom + "; look first whether another process holds GPU memory"
	case p.Class == metrics.CauseCUDAOOM && p.Phase == "decode":
		return "lower " + running + ", or " + below + headroom
	case p.Class == metrics.CauseCUDAOOM:
		return "lower " + below + headroom + ", or " + chunk + " to 4096"
	}
	return causeInfo(p.Class).Advice
}

// hostAdvice is about memory of the host: the hierarchical cache pins most of it.
func hostAdvice(v *metrics.Server, class metrics.Cause) string {
	size := v.HiCache.SizeGB
	switch {
	case class == metrics.CauseStartupHostCache && v.Capacity.Known && v.BytesPerTok.Known:
		need := v.Capacity.V * v.BytesPerTok.V / 1e9
		return fmt.Sprintf("raise --hicache-size above %.0f (1e9 bytes a rank: the device pool is that large)", math.Ceil(need))
	case class == metrics.CauseStartupHostCache:
		return causeInfo(class).Advice
	case v.HiCache.On && size > 1:
		return fmt.Sprintf("lower --hicache-size from %g (it is 1e9 bytes for each of %d ranks), or free host memory", size, max(v.TP, 1))
	}
	return causeInfo(class).Advice
}
