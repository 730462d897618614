package sglang

import (
	"bytes"

	"github.com/runvigil/runvigil/metrics"
)

const maxDetail = 400

// Phases in which a fault can happen.
const (
	PhaseStartup = "start-up"
	PhaseCapture = "capture"
	PhasePrefill = "prefill"
	PhaseDecode  = "decode"
	PhaseIdle    = "idle"
)

// signature is the wording of one fault. lead stands at the start of the text
// (after a level name), needle anywhere behind it.
type signature struct {
	lead, needle string
	class        metrics.Cause
	weight       Weight
	phase        string
}

// recordSignatures are whole lines that tell a fault, with or without a prefix.
var recordSignatures = []signature{
	{"Prefill out of memory", "", metrics.CauseKVPoolExhausted, Fatal, PhasePrefill},
	{"Decode out of memory. Try", "", metrics.CauseKVPoolExhausted, Fatal, PhaseDecode},
	{"Out of memory. Try to lower", "", metrics.CauseKVPoolExhausted, Fatal, ""},
	{"Out of memory even after retracting", "", metrics.CauseKVPoolExhausted, Fatal, PhaseDecode},
	{"alloc_req_slots runs out of memory", "", metrics.CauseSlotsExhausted, Fatal, ""},
	{"Capture ", "graph failed", metrics.CauseCaptureOOM, Fatal, PhaseCapture},
	{"Scheduler watchdog timeout", "soft=True", metrics.CauseSchedulerWatchdog, Remark, ""},
	{"Scheduler watchdog timeout", "", metrics.CauseSchedulerWatchdog, Fatal, ""},
	{"Watchdog timeout (", "", metrics.CauseSchedulerWatchdog, Fatal, ""},
	{"Pyspy failed to dump", "", metrics.CauseSchedulerWatchdog, Consequence, ""},
	{"Pyspy dump for PID", "", metrics.CauseSchedulerWatchdog, Consequence, ""},
	{"Decode transfer failed", "", metrics.CauseKVTransfer, Remark, PhaseDecode},
	{"Decode handshake failed", "", metrics.CauseKVTransfer, Remark, PhaseDecode},
	{"Prefill transfer failed", "", metrics.CauseKVTransfer, Remark, PhasePrefill},
	{"Prefill bootstrap failed", "", metrics.CauseKVTransfer, Remark, PhasePrefill},
	{"Decode instance could be dead", "", metrics.CauseKVTransfer, Remark, PhasePrefill},
	{"Prefill instance could be dead", "", metrics.CauseKVTransfer, Remark, PhaseDecode},
	{"Losing connection with", "", metrics.CauseKVTransfer, Remark, ""},
	{"Lost connection with prefill", "", metrics.CauseKVTransfer, Remark, PhaseDecode},
	{"Failed to send kv chunk", "", metrics.CauseKVTransfer, Remark, PhasePrefill},
	{"Received sigquit", "", metrics.CauseWorkerDied, Consequence, PhaseStartup},
	{"SIGQUIT received", "", metrics.CauseWorkerDied, Consequence, ""},
	{"Subprocess ", "crashed with exit code", metrics.CauseWorkerDied, Vague, ""},
	{"Child process unexpectedly failed", "", metrics.CauseWorkerDied, Vague, ""},
	{"Rank ", "scheduler is dead", metrics.CauseWorkerDied, Vague, PhaseStartup},
	{"Rank ", "scheduler died", metrics.CauseWorkerDied, Vague, PhaseStartup},
	{"Exit code: ", "", metrics.CauseWorkerDied, Vague, PhaseStartup},
	{"Initialization failed. warmup error", "", metrics.CauseWarmupFailed, Vague, PhaseStartup},
	{"Initialization failed", "", metrics.CauseStartupFailed, Consequence, PhaseStartup},
	{"The memory capacity is unbalanced", "", metrics.CauseStartupGPUOccupied, Fatal, PhaseStartup},
	{"Port is already in use", "", metrics.CausePortInUse, Fatal, PhaseStartup},
	{"[Errno 98]", "", metrics.CausePortInUse, Fatal, PhaseStartup},
	{"[Errno 48]", "", metrics.CausePortInUse, Fatal, PhaseStartup},
	{"Requested token count", "exceeds", metrics.CauseRequestTooLong, Remark, ""},
	{"Input length", "exceeds", metrics.CauseRequestTooLong, Remark, ""},
	{"The input (", "is longer than", metrics.CauseRequestTooLong, Remark, ""},
	{"Fatal Python error: ", "", metrics.CauseNativeCrash, Vague, ""},
	{"Segmentation fault", "", metrics.CauseNativeCrash, Vague, ""},
	{"terminate called", "", metrics.CauseNativeCrash, Consequence, ""},
	{"Aborted", "", metrics.CauseNativeCrash, Vague, ""},
	{"double free or corruption", "", metrics.CauseNativeCrash, Vague, ""},
	{"free(): invalid", "", metrics.CauseNativeCrash, Vague, ""},
	{"!!!!!!! Segfault encountered", "", metrics.CauseNativeCrash, Vague, ""},
	{"Bus error", "", metrics.CauseShmFull, Vague, ""},
	{"Error while creating shared memory segment", "", metrics.CauseShmFull, Fatal, ""},
	{"Killed", "", metrics.CauseKilledUnknown, Consequence, ""},
}

// anywhereSignatures are wordings of libraries that no prefix leads, perhaps
// glued to a progress bar.
var anywhereSignatures = []signature{
	{"", "Watchdog caught collective operation timeout", metrics.CauseNCCLTimeout, Fatal, ""},
	{"", "detected by watchdog at work", metrics.CauseNCCLTimeout, Consequence, ""},
	{"", "ProcessGroupNCCL's watchdog got stuck", metrics.CauseNCCLTimeout, Fatal, ""},
	{"", "failed to extend /dev/shm", metrics.CauseShmFull, Fatal, ""},
	{"", "NCCL WARN", metrics.CauseNCCLError, Vague, ""},
	{"", "HSA_STATUS_ERROR_OUT_OF_RESOURCES", metrics.CauseCUDAOOM, Fatal, ""},
	{"", "HSA_STATUS_ERROR_MEMORY_APERTURE", metrics.CauseIllegalAccess, Fatal, ""},
	{"", "Memory access fault by GPU", metrics.CauseIllegalAccess, Fatal, ""},
	{"", "Error while creating shared memory segment", metrics.CauseShmFull, Fatal, ""},
	{"", "Caught signal 11", metrics.CauseNativeCrash, Vague, ""},
	{"", "(SIGKILL) received by PID", metrics.CauseKilledUnknown, Consequence, ""},
	{"", "error: unrecognized arguments", metrics.CauseBadFlag, Fatal, PhaseStartup},
	{"", "error: argument -", metrics.CauseBadFlag, Fatal, PhaseStartup},
	{"", "error: the following arguments are required", metrics.CauseBadFlag, Fatal, PhaseStartup},
	{"", "error while attempting to bind on address", metrics.CausePortInUse, Fatal, PhaseStartup},
}

// exceptionSignatures are searched in the text of a Python exception, in this
// order: the more specific wording first.
var exceptionSignatures = []signature{
	{"", "Capture cuda graph failed", metrics.CauseCaptureOOM, Fatal, PhaseCapture},
	{"", "CUDA graph failed", metrics.CauseCaptureOOM, Fatal, PhaseCapture},
	{"", "Prefill out of memory", metrics.CauseKVPoolExhausted, Fatal, PhasePrefill},
	{"", "Decode out of memory", metrics.CauseKVPoolExhausted, Fatal, PhaseDecode},
	{"", "Out of memory. Try to lower", metrics.CauseKVPoolExhausted, Fatal, ""},
	{"", "Out of memory even after retracting", metrics.CauseKVPoolExhausted, Fatal, PhaseDecode},
	{"", "alloc_req_slots runs out of memory", metrics.CauseSlotsExhausted, Fatal, ""},
	{"", "Not enough memory. Please", metrics.CauseStartupNoKVMemory, Fatal, PhaseStartup},
	{"", "leave no GPU memory for the KV cache", metrics.CauseStartupNoKVMemory, Fatal, PhaseStartup},
	{"", "state cache is too small", metrics.CauseStartupKVTooSmall, Fatal, PhaseStartup},
	{"", "Not enough GPU memory for hybrid", metrics.CauseStartupKVTooSmall, Fatal, PhaseStartup},
	{"", "memory capacity is unbalanced", metrics.CauseStartupGPUOccupied, Fatal, PhaseStartup},
	{"", "CUDA-capable device(s) is/are busy", metrics.CauseStartupGPUOccupied, Fatal, PhaseStartup},
	{"", "host memory should be larger than the device memory", metrics.CauseStartupHostCache, Fatal, PhaseStartup},
	{"", "Not enough host memory available", metrics.CauseHostNoMemory, Fatal, PhaseStartup},
	{"", "memory leak detected", metrics.CauseKVLeakCheck, Fatal, PhaseIdle},
	{"", "illegal memory access", metrics.CauseIllegalAccess, Fatal, ""},
	{"", "misaligned address", metrics.CauseIllegalAccess, Fatal, ""},
	{"", "unspecified launch failure", metrics.CauseIllegalAccess, Fatal, ""},
	{"", "device-side assert", metrics.CauseDeviceAssert, Fatal, ""},
	{"", "uncorrectable ECC", metrics.CauseGPUECC, Fatal, ""},
	{"", "GPU is lost", metrics.CauseGPULost, Fatal, ""},
	{"", "fallen off the bus", metrics.CauseGPULost, Fatal, ""},
	{"", "shared memory (shm)", metrics.CauseShmFull, Fatal, ""},
	{"", "creating shared memory segment", metrics.CauseShmFull, Fatal, ""},
	{"", "unable to allocate shared memory", metrics.CauseShmFull, Fatal, ""},
	{"", "No space left on device", metrics.CauseDiskFull, Fatal, ""},
	{"", "Too many open files", metrics.CauseTooManyFiles, Fatal, ""},
	{"", "node running low on memory", metrics.CauseHostOOMKilled, Fatal, ""},
	{"", "DefaultCPUAllocator", metrics.CauseHostNoMemory, Fatal, ""},
	{"", "out of memory", metrics.CauseCUDAOOM, Fatal, ""},
	{"", "OutOfMemoryError", metrics.CauseCUDAOOM, Fatal, ""},
	{"", "OUT_OF_RESOURCES", metrics.CauseCUDAOOM, Fatal, ""},
	{"", "CUBLAS_STATUS_ALLOC_FAILED", metrics.CauseCUDAOOM, Fatal, ""},
	{"", "collective operation timeout", metrics.CauseNCCLTimeout, Fatal, ""},
	{"", "DeepEP error: CPU recv timeout", metrics.CauseNCCLTimeout, Fatal, ""},
	{"", "NCCL error", metrics.CauseNCCLError, Fatal, ""},
	{"", "ncclSystemError", metrics.CauseNCCLError, Fatal, ""},
	{"", "ncclInternalError", metrics.CauseNCCLError, Fatal, ""},
	{"", "ncclUnhandledCudaError", metrics.CauseNCCLError, Fatal, ""},
	{"", "ncclRemoteError", metrics.CausePeerRankLost, Consequence, ""},
	{"", "Connection closed by peer", metrics.CausePeerRankLost, Consequence, ""},
	{"", "Connection reset by peer", metrics.CausePeerRankLost, Consequence, ""},
	{"", "Broken pipe", metrics.CausePeerRankLost, Consequence, ""},
	{"", "recvValue failed", metrics.CausePeerRankLost, Consequence, ""},
	{"", "DistStoreError", metrics.CausePeerRankLost, Vague, PhaseStartup},
	{"", "DistNetworkError", metrics.CausePeerRankLost, Vague, PhaseStartup},
	{"EOFError", "", metrics.CausePeerRankLost, Consequence, ""},
	{"", "ActorDiedError", metrics.CauseWorkerDied, Vague, ""},
	{"", "terminated with signal SIGKILL", metrics.CauseKilledUnknown, Vague, ""},
	{"", "scheduler died during initialization", metrics.CauseWorkerDied, Vague, PhaseStartup},
	{"", "Port is already in use", metrics.CausePortInUse, Fatal, PhaseStartup},
	{"", "ddress already in use", metrics.CausePortInUse, Fatal, PhaseStartup},
	{"", "KVTransferError", metrics.CauseKVTransfer, Remark, ""},
	{"MemoryError", "", metrics.CauseHostNoMemory, Fatal, ""},
	{"", "std::bad_alloc", metrics.CauseHostNoMemory, Fatal, ""},
	{"", "Cannot allocate memory", metrics.CauseHostNoMemory, Fatal, ""},
	{"", "No CUDA GPUs are available", metrics.CauseDriverNotLoaded, Fatal, PhaseStartup},
	{"", "Found no NVIDIA driver", metrics.CauseDriverNotLoaded, Fatal, PhaseStartup},
	{"", "Error 802", metrics.CauseDriverNotLoaded, Fatal, PhaseStartup},
	{"", "driver on your system is too old", metrics.CauseDriverMismatch, Fatal, PhaseStartup},
	{"", "driver version is insufficient", metrics.CauseDriverMismatch, Fatal, PhaseStartup},
	{"", "Driver/library version mismatch", metrics.CauseDriverMismatch, Fatal, PhaseStartup},
	{"ModuleNotFoundError", "", metrics.CauseMissingModule, Fatal, PhaseStartup},
	{"ImportError", "", metrics.CauseMissingModule, Fatal, PhaseStartup},
	{"", "is not a local folder and is not a valid model", metrics.CauseModelUnusable, Fatal, PhaseStartup},
	{"", "does not appear to have a file named", metrics.CauseModelUnusable, Fatal, PhaseStartup},
	{"", "Cannot find any model weights", metrics.CauseModelUnusable, Fatal, PhaseStartup},
	{"", "Unrecognized model in", metrics.CauseModelUnusable, Fatal, PhaseStartup},
	{"", "trust_remote_code", metrics.CauseModelUnusable, Fatal, PhaseStartup},
	{"", "are not supported for now", metrics.CauseModelUnusable, Fatal, PhaseStartup},
	{"", "must be divisible by", metrics.CauseModelUnusable, Fatal, PhaseStartup},
	{"", "SafetensorError", metrics.CauseModelUnusable, Fatal, PhaseStartup},
	{"", "exceeds the model's context length", metrics.CauseRequestTooLong, Remark, ""},
}

var traceWords = []byte("Traceback (most recent call last)")

func match(sigs []signature, text []byte) (signature, bool) {
	for _, s := range sigs {
		if (s.lead == "" || bytes.HasPrefix(text, []byte(s.lead))) && (s.needle == "" || bytes.Contains(text, []byte(s.needle))) {
			return s, true
		}
	}
	return signature{}, false
}

// leads maps a first byte to the record signatures that begin with it.
var leads = func() (t [256][]signature) {
	for _, s := range recordSignatures {
		t[s.lead[0]] = append(t[s.lead[0]], s)
	}
	return t
}()

func (p *Parser) giveFault(h head, f Fault) {
	p.fault = f
	p.begin(KindFault, h).Fault = &p.fault
	p.emit(&p.ev)
}

// trimLevel takes a level name in uvicorn's form off a message.
func trimLevel(b []byte) []byte {
	if b[0] != 'E' && b[0] != 'W' && b[0] != 'C' && b[0] != 'I' {
		return b
	}
	for _, level := range []string{"ERROR:", "WARNING:", "CRITICAL:", "INFO:"} {
		if bytes.HasPrefix(b, []byte(level)) {
			return bytes.TrimLeft(b[len(level):], " ")
		}
	}
	return b
}

// faultRecord takes a record that nothing else took.
func (p *Parser) faultRecord(msg []byte, h head) {
	msg = trimLevel(msg)
	if len(msg) == 0 {
		return
	}
	if at := bytes.Index(msg[:min(len(msg), 64)], []byte("hit an exception")); at > 0 {
		p.closeTrace()
		p.trace = traceback{open: true, named: true, head: h, line: p.line}
		if _, text, ok := bytes.Cut(msg[at:], []byte(": ")); ok && len(text) > 0 && !bytes.HasPrefix(text, []byte("Traceback")) {
			p.traceLine(text)
		}
		return
	}
	s, ok := match(leads[msg[0]], msg)
	ok = ok && msg[0] != 'K'
	if ok {
		p.signed(s, msg, h)
	}
	if at := bytes.Index(msg[:min(len(msg), 160)], traceWords); at >= 0 {
		p.closeTrace()
		p.trace = traceback{open: true, named: h.rank.Known(), head: h, line: p.line}
	}
	if ok {
		return
	}
	if exceptionLine(msg) {
		if s, ok := match(exceptionSignatures, msg); ok {
			p.signed(s, msg, h)
		}
	}
}

// refine corrects a class by the rest of the text: a capture can fail for
// another reason than memory, and the disk that is full can be shared memory.
func refine(class metrics.Cause, text []byte) metrics.Cause {
	switch class {
	case metrics.CauseCaptureOOM:
		_, why, _ := bytes.Cut(text, []byte("failed"))
		switch {
		case bytes.Contains(why, []byte("illegal memory access")):
			return metrics.CauseIllegalAccess
		case len(bytes.Trim(why, ": .")) > 0 && !bytes.Contains(why, []byte("memory")) && !bytes.Contains(why, []byte("Memory")):
			return metrics.CauseStartupFailed
		}
	case metrics.CauseDiskFull:
		if bytes.Contains(text, []byte("shm")) {
			return metrics.CauseShmFull
		}
	}
	return class
}

// signed gives the fault of a line that a signature told.
func (p *Parser) signed(s signature, text []byte, h head) {
	f := Fault{Class: refine(s.class, text), Weight: s.weight, Phase: s.phase, Detail: metrics.Mask(metrics.Clean(string(text), maxDetail))}
	if s.class == metrics.CauseWorkerDied {
		for _, key := range []string{"exit code: ", "Exit code: ", "exit code "} {
			if f.Exit = after(text, key); f.Exit.Known {
				break
			}
		}
		f.PID = int(after(text, "pid=").V)
	}
	if s.class == metrics.CauseNCCLTimeout {
		h.rank = ncclRank(text)
	}
	if p.trace.open && s.weight != Remark && !p.trace.said && (h.rank == NoRank || h.rank == p.trace.head.rank) && s.weight <= Vague {
		h = p.trace.head
		p.trace.said = true
	}
	p.giveFault(h, f)
}

// ncclRank reads the global rank of "[rank4]:" or "[Rank 4]".
func ncclRank(b []byte) Rank {
	r := NoRank
	for _, key := range []string{"[rank", "[Rank ", " Rank "} {
		if v := after(b, key); v.Known && v.V >= 0 && v.V < 1<<14 {
			r.Global = int16(v.V)
			break
		}
	}
	return r
}

var suspicious = [][]byte{
	[]byte("rror"), []byte("emory"), []byte("xcept"), []byte("illed"), []byte("NCCL"), []byte("Traceback"), []byte("frame #"),
	[]byte("terminate"), []byte("Segmentation"), []byte("SIGQUIT"), []byte("sigquit"), []byte("imeout"), []byte("OUT_OF"), []byte("egfault"), []byte("bort"), []byte("signal"), []byte("SIGKILL"), []byte("free"), []byte("Interrupt"), []byte("xit code"),
}

// faultText takes a line without a prefix that nothing else took.
func (p *Parser) faultText(b []byte) {
	if p.trace.open && p.traceLine(b) {
		return
	}
	if b[0] == ' ' || b[0] == '\t' {
		return
	}
	hit := false
	for _, w := range suspicious {
		if bytes.Contains(b, w) {
			hit = true
			break
		}
	}
	if !hit {
		p.native = false
		return
	}
	if bytes.HasPrefix(b, []byte("frame #")) {
		p.nativeFrame(b)
		return
	}
	p.native = false
	if bytes.HasPrefix(b, traceWords) {
		if p.trace.said && p.trace.chain {
			p.trace.open = true
			return
		}
		p.closeTrace()
		p.trace = traceback{open: true, head: head{rank: p.outerRank}, line: p.line}
		return
	}
	if bytes.HasPrefix(b, []byte("During handling of the above")) || bytes.HasPrefix(b, []byte("The above exception was")) {
		p.trace.chain = true
		return
	}
	if quotesText(b) {
		return
	}
	h := head{rank: p.outerRank}
	if exceptionLine(b) {
		if s, ok := match(exceptionSignatures, b); ok {
			p.signed(s, b, h)
			return
		}
	}
	text := trimLevel(b)
	if len(text) == 0 {
		return
	}
	if s, ok := match(leads[text[0]], text); ok {
		if s.class == metrics.CauseKilledUnknown && len(bytes.TrimSpace(text)) != len("Killed") {
			return
		}
		p.signed(s, text, h)
		return
	}
	if s, ok := match(anywhereSignatures, b); ok {
		p.signed(s, b, h)
		return
	}
	p.shellKilled(b)
}

// shellKilled takes what a shell says about a process that was killed:
// "./run.sh: line 22: 104410 Killed   command", "[1]+  Killed   command" and
// "zsh: killed   command".
func (p *Parser) shellKilled(b []byte) {
	at := bytes.Index(b[:min(len(b), 200)], []byte("illed"))
	if at < 2 || at+5 < len(b) && b[at+5] != ' ' || b[at-2] != ' ' {
		return
	}
	before := bytes.TrimRight(b[:at-1], " ")
	pid := numBefore(before, len(before))
	switch {
	case b[at-1] == 'K' && pid.Known && (bytes.Contains(before, []byte(": line ")) || b[0] == '['):
	case b[at-1] == 'K' && b[0] == '[' && len(before) < 8:
	case b[at-1] == 'k' && (string(before) == "zsh:" || b[0] == '['):
	default:
		return
	}
	p.giveFault(head{rank: NoRank}, Fault{
		Class: metrics.CauseKilledUnknown, Weight: Consequence, PID: int(pid.V),
		Detail: metrics.Mask(metrics.Clean(string(b), maxDetail)),
	})
}

// nativeFrame takes a frame of a C++ stack; the first of a block is the fault.
func (p *Parser) nativeFrame(b []byte) {
	if p.native {
		return
	}
	p.native = true
	h := head{rank: NoRank}
	if at := bytes.Index(b, []byte("sglang::scheduler_")); at >= 0 {
		h.rank = titleRank(b[at+len("sglang::scheduler_"):])
	}
	p.giveFault(h, Fault{Class: metrics.CauseNativeCrash, Weight: Vague, PID: p.rayPID, Detail: metrics.Clean(string(b), maxDetail)})
}

// titleRank reads the ranks of a process title, e.g. DP0_TP1.
func titleRank(b []byte) Rank {
	text := append([]byte("["), b...)
	for i, c := range text {
		if c == '_' {
			text[i] = ' '
		} else if !digit(c) && (c < 'A' || c > 'Z') && i > 0 {
			text = append(text[:i], ']')
			break
		}
	}
	h, _, ok := parseHead(append(text, ']'))
	if !ok {
		return NoRank
	}
	return h.rank
}
