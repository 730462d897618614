package vllm

import (
	"bytes"

	"github.com/runvigil/runvigil/metrics"
)

// rule maps wording to a class. All of the words must be there.
type rule struct {
	has    []string
	class  metrics.Cause
	weight Weight
}

// rules are tried in order: the wording that names a cause before the wording of
// the wrappers around it. Wordings are those of vLLM 0.2 to 0.28, PyTorch, NCCL
// and uvicorn.
var rules = []rule{
	{[]string{"is less than desired GPU memory utilization"}, metrics.CauseStartupGPUOccupied, Fatal},
	{[]string{"Error in memory profiling"}, metrics.CauseStartupGPUOccupied, Fatal},
	{[]string{"No available memory for the cache blocks"}, metrics.CauseStartupNoKVMemory, Fatal},
	{[]string{"To serve at least one request with the model"}, metrics.CauseStartupKVTooSmall, Fatal},
	{[]string{"max seq len (", "larger than the maximum number of tokens that can be stored"}, metrics.CauseStartupKVTooSmall, Fatal},
	{[]string{"larger than the available KV cache memory"}, metrics.CauseStartupKVTooSmall, Fatal},
	{[]string{"Cannot auto-fit max_model_len"}, metrics.CauseStartupKVTooSmall, Fatal},

	{[]string{"uncorrectable ECC error"}, metrics.CauseGPUECC, Fatal},
	{[]string{"GPU is lost"}, metrics.CauseGPULost, Fatal},
	{[]string{"fallen off the bus"}, metrics.CauseGPULost, Fatal},
	{[]string{"illegal memory access"}, metrics.CauseIllegalAccess, Fatal},
	{[]string{"Memory access fault by GPU"}, metrics.CauseIllegalAccess, Fatal},
	{[]string{"misaligned address"}, metrics.CauseIllegalAccess, Fatal},
	{[]string{"unspecified launch failure"}, metrics.CauseIllegalAccess, Fatal},
	{[]string{"device-side assert"}, metrics.CauseDeviceAssert, Fatal},
	{[]string{"CUDA out of memory"}, metrics.CauseCUDAOOM, Fatal},
	{[]string{"HIP out of memory"}, metrics.CauseCUDAOOM, Fatal},
	{[]string{"NPU out of memory"}, metrics.CauseCUDAOOM, Fatal},
	{[]string{"XPU out of memory"}, metrics.CauseCUDAOOM, Fatal},
	{[]string{"CUDA error: out of memory"}, metrics.CauseCUDAOOM, Fatal},
	{[]string{"OUT_OF_RESOURCES"}, metrics.CauseCUDAOOM, Fatal},
	{[]string{"OutOfMemoryError"}, metrics.CauseCUDAOOM, Fatal},

	{[]string{"Watchdog caught collective operation timeout"}, metrics.CauseNCCLTimeout, Fatal},
	{[]string{"Error while creating shared memory segment"}, metrics.CauseShmFull, Fatal},
	{[]string{"No space left on device", "/dev/shm"}, metrics.CauseShmFull, Fatal},
	{[]string{"No space left on device", "shm"}, metrics.CauseShmFull, Fatal},
	{[]string{"No space left on device"}, metrics.CauseDiskFull, Fatal},
	{[]string{"Too many open files"}, metrics.CauseTooManyFiles, Fatal},
	{[]string{"Connection closed by peer"}, metrics.CausePeerRankLost, Consequence},
	{[]string{"Connection reset by peer", "rocessGroup"}, metrics.CausePeerRankLost, Consequence},
	{[]string{"ncclRemoteError"}, metrics.CausePeerRankLost, Consequence},
	{[]string{"NCCL error"}, metrics.CauseNCCLError, Fatal},
	{[]string{"ncclInternalError"}, metrics.CauseNCCLError, Fatal},
	{[]string{"ncclSystemError"}, metrics.CauseNCCLError, Fatal},
	{[]string{"ncclUnhandledCudaError"}, metrics.CauseNCCLError, Fatal},
	{[]string{"DistBackendError"}, metrics.CauseNCCLError, Vague},
	{[]string{"Some NCCL operations have failed or timed out"}, metrics.CauseNCCLTimeout, Consequence},

	{[]string{"driver on your system is too old"}, metrics.CauseDriverMismatch, Fatal},
	{[]string{"unsupported toolchain"}, metrics.CauseDriverMismatch, Fatal},
	{[]string{"forward compatibility was attempted"}, metrics.CauseDriverMismatch, Fatal},
	{[]string{"system has unsupported display driver"}, metrics.CauseDriverMismatch, Fatal},
	{[]string{"no CUDA-capable device"}, metrics.CauseDriverNotLoaded, Fatal},
	{[]string{"Found no NVIDIA driver"}, metrics.CauseDriverNotLoaded, Fatal},
	{[]string{"No CUDA GPUs are available"}, metrics.CauseDriverNotLoaded, Fatal},
	{[]string{"Failed to infer device type"}, metrics.CauseDriverNotLoaded, Fatal},

	{[]string{"ddress already in use"}, metrics.CausePortInUse, Fatal},
	{[]string{"Cannot assign requested address"}, metrics.CausePortInUse, Fatal},
	{[]string{"error: unrecognized arguments"}, metrics.CauseBadFlag, Fatal},
	{[]string{"error: argument "}, metrics.CauseBadFlag, Fatal},
	{[]string{"error: the following arguments are required"}, metrics.CauseBadFlag, Fatal},
	{[]string{"larger than the number of available GPUs"}, metrics.CauseBadFlag, Fatal},
	{[]string{"must be divisible by tensor parallel size"}, metrics.CauseBadFlag, Fatal},
	{[]string{"greater than the derived max_model_len"}, metrics.CauseBadFlag, Fatal},
	{[]string{"max_num_batched_tokens (", "smaller than max_model_len"}, metrics.CauseBadFlag, Fatal},
	{[]string{"max_num_batched_tokens (", "greater than or equal to max_num_seqs"}, metrics.CauseBadFlag, Fatal},
	{[]string{"validation error"}, metrics.CauseBadFlag, Vague},

	{[]string{"are not supported for now"}, metrics.CauseModelUnusable, Fatal},
	{[]string{"failed to be inspected"}, metrics.CauseModelUnusable, Fatal},
	{[]string{"is not a valid model identifier"}, metrics.CauseModelUnusable, Fatal},
	{[]string{"does not appear to have a file named"}, metrics.CauseModelUnusable, Fatal},
	{[]string{"Invalid repository ID or local directory"}, metrics.CauseModelUnusable, Fatal},
	{[]string{"Cannot access gated repo"}, metrics.CauseModelUnusable, Fatal},
	{[]string{"GatedRepoError"}, metrics.CauseModelUnusable, Fatal},
	{[]string{"RepositoryNotFoundError"}, metrics.CauseModelUnusable, Fatal},
	{[]string{"Repository Not Found"}, metrics.CauseModelUnusable, Fatal},
	{[]string{"Error while deserializing header"}, metrics.CauseModelUnusable, Fatal},
	{[]string{"Cannot find any model weights"}, metrics.CauseModelUnusable, Fatal},
	{[]string{"No module named"}, metrics.CauseMissingModule, Fatal},
	{[]string{"undefined symbol"}, metrics.CauseMissingModule, Fatal},
	{[]string{"cannot import name"}, metrics.CauseMissingModule, Fatal},
	{[]string{"cannot open shared object file"}, metrics.CauseMissingModule, Fatal},

	{[]string{"can't allocate memory"}, metrics.CauseHostNoMemory, Fatal},
	{[]string{"Cannot allocate memory"}, metrics.CauseHostNoMemory, Fatal},
	{[]string{"std::bad_alloc"}, metrics.CauseHostNoMemory, Fatal},
	{[]string{"MemoryError"}, metrics.CauseHostNoMemory, Fatal},

	{[]string{"RPC call to ", "timed out"}, metrics.CauseServerHung, Fatal},
	{[]string{"Timed out waiting for engine core processes to start"}, metrics.CauseLoadSlow, Vague},
	{[]string{"Did not receive response from front-end process"}, metrics.CauseStartupFailed, Consequence},
	{[]string{"Segmentation fault"}, metrics.CauseNativeCrash, Fatal},
	{[]string{"Fatal Python error"}, metrics.CauseNativeCrash, Fatal},
	{[]string{"terminate called"}, metrics.CauseNativeCrash, Fatal},
	{[]string{"core dumped"}, metrics.CauseNativeCrash, Vague},

	{[]string{"Worker proc ", "died unexpectedly"}, metrics.CauseWorkerDied, Vague},
	{[]string{"ngine core proc", "died unexpectedly"}, metrics.CauseEngineDead, Consequence},
	{[]string{"engine core exited unexpectedly"}, metrics.CauseEngineDead, Consequence},
	{[]string{"died with exit code"}, metrics.CauseWorkerDied, Consequence},
	{[]string{"EngineCore encountered a fatal error"}, metrics.CauseSchedulerException, Vague},
	{[]string{"EngineCore hit an exception"}, metrics.CauseSchedulerException, Vague},
	{[]string{"WorkerProc hit an exception"}, metrics.CauseSchedulerException, Vague},
	{[]string{"Engine background task failed"}, metrics.CauseSchedulerException, Vague},
	{[]string{"Engine loop has died"}, metrics.CauseEngineDead, Consequence},
	{[]string{"EngineDeadError"}, metrics.CauseEngineDead, Consequence},
	{[]string{"AsyncEngineDeadError"}, metrics.CauseEngineDead, Consequence},
	{[]string{"output_handler failed"}, metrics.CauseEngineDead, Consequence},
	{[]string{"Engine core initialization failed"}, metrics.CauseStartupFailed, Consequence},
	{[]string{"EngineCore failed to start"}, metrics.CauseStartupFailed, Consequence},
	{[]string{"WorkerProc failed to start"}, metrics.CauseStartupFailed, Consequence},
	{[]string{"WorkerProc initialization failed"}, metrics.CauseStartupFailed, Consequence},
	{[]string{"Frontend process failed"}, metrics.CauseStartupFailed, Consequence},
	{[]string{"Engine process failed to start"}, metrics.CauseStartupFailed, Consequence},
	{[]string{"WorkerProc was terminated"}, metrics.CauseWorkerDied, Consequence},
	{[]string{"maximum context length is"}, metrics.CauseRequestTooLong, Remark},
	{[]string{"longer than the maximum model length"}, metrics.CauseRequestTooLong, Remark},
}

// classify finds the first rule that fits.
func classify(msg []byte) (rule, bool) {
	for _, r := range rules {
		fits := true
		for _, w := range r.has {
			if !bytes.Contains(msg, []byte(w)) {
				fits = false
				break
			}
		}
		if fits {
			return r, true
		}
	}
	return rule{}, false
}

// exceptionLine tells the last line of a traceback: "ValueError: text" or
// "torch.OutOfMemoryError: text"; n is the length of the name.
func exceptionLine(b []byte) (n int, ok bool) {
	for n < len(b) && n < 100 && (letter(b[n:]) || digit(b[n]) || b[n] == '_' || b[n] == '.') {
		n++
	}
	if n == 0 || n < len(b) && b[n] != ':' {
		return 0, false
	}
	name := b[:n]
	if i := bytes.LastIndexByte(name, '.'); i >= 0 {
		name = name[i+1:]
	}
	if len(name) == 0 || name[0] < 'A' || name[0] > 'Z' {
		return 0, false
	}
	for _, end := range [][]byte{[]byte("Error"), []byte("Exception"), []byte("Interrupt"), []byte("Timeout"), []byte("SystemExit"), []byte("Fault")} {
		if bytes.HasSuffix(name, end) {
			return n, true
		}
	}
	return 0, false
}

// figures reads the numbers that a class of fault tells.
func (f *Fault) figures(msg []byte) {
	switch f.Class {
	case metrics.CauseStartupGPUOccupied:
		if i := bytes.Index(msg, []byte("(")); i >= 0 {
			f.FreeGB = after(msg, "(")
			f.TotalGB = before(msg, " GiB) on startup")
		}
		f.Util = after(msg, "memory utilization (")
		f.NeedGB = before(msg, " GiB). Decrease")
	case metrics.CauseStartupKVTooSmall:
		f.MaxLen = after(msg, "maximum model length is ").or(after(msg, "stored in KV cache ("))
		f.NeedGB = before(msg, " GiB KV cache is needed")
		f.FreeGB = after(msg, "available KV cache memory (")
	case metrics.CauseNCCLTimeout:
		f.LimitMs, f.RanMs = after(msg, "Timeout(ms)="), after(msg, "ran for ")
		f.Seq = int64(after(msg, "SeqNum=").V)
		if i := bytes.Index(msg, []byte("OpType=")); i >= 0 {
			f.Op = word(msg[i+len("OpType="):])
		}
	case metrics.CausePortInUse:
		// ('0.0.0.0', 44402)
		if i := bytes.Index(msg, []byte("', ")); i >= 0 {
			n, _ := integer(msg[i+3:])
			f.Port = int(n)
		}
	case metrics.CauseWorkerDied, metrics.CauseEngineDead:
		f.Exit = after(msg, "exit code: ").or(after(msg, "exit code "))
		if i := bytes.Index(msg, []byte("proc ")); i >= 0 {
			f.Worker = word(msg[i+len("proc "):])
		}
		if f.Exit.Known && f.Exit.V == -15 {
			f.Weight = Consequence // its parent ended it
		}
	case metrics.CauseCUDAOOM:
		f.NeedGB = after(msg, "Tried to allocate ")
		if i := bytes.Index(msg, []byte("Tried to allocate ")); i >= 0 && bytes.Contains(msg[i:min(len(msg), i+40)], []byte("MiB")) {
			f.NeedGB.V /= 1024
		}
		f.TotalGB = after(msg, "total capacity of ").or(before(msg, " GiB total capacity"))
		f.FreeGB = before(msg, " GiB is free")
		if mib := before(msg, " MiB is free"); mib.Known {
			f.FreeGB = num(mib.V / 1024)
		}
	}
}
