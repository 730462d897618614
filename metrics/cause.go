package metrics

// Cause is the class of a fault: one word of a closed list, the same in
// findings, in explain and in docs/causes.md. The empty Cause means that no
// class could be told.
type Cause string

// Side says whose fault a cause is, which is also where the cure lies.
type Side string

// The sides a cause can lie on.
const (
	SideServer Side = "server"
	SideClient Side = "client"
	SideGPU    Side = "gpu"
	SideHost   Side = "host"
)

// The causes, in the order of docs/causes.md: server at start-up, server while
// serving, host, GPU, states that look like faults, client and rows.
const (
	CauseStartupNoKVMemory  Cause = "startup-no-kv-memory"
	CauseStartupGPUOccupied Cause = "startup-gpu-occupied"
	CauseStartupKVTooSmall  Cause = "startup-kv-too-small"
	CauseStartupHostCache   Cause = "startup-host-cache"
	CauseStartupFailed      Cause = "startup-failed"
	CauseCaptureOOM         Cause = "capture-oom"
	CauseModelUnusable      Cause = "model-unusable"
	CauseMissingModule      Cause = "missing-module"
	CausePortInUse          Cause = "port-in-use"
	CauseBadFlag            Cause = "bad-flag"
	CauseWarmupFailed       Cause = "warmup-failed"
	CauseCUDAOOM            Cause = "cuda-oom"
	CauseKVPoolExhausted    Cause = "kv-pool-exhausted"
	CauseKVThrashing        Cause = "kv-thrashing"
	CauseSlotsExhausted     Cause = "request-slots-exhausted"
	CauseKVLeakCheck        Cause = "kv-leak-check"
	CauseIllegalAccess      Cause = "illegal-memory-access"
	CauseDeviceAssert       Cause = "device-assert"
	CauseNCCLTimeout        Cause = "nccl-timeout"
	CauseNCCLError          Cause = "nccl-error"
	CausePeerRankLost       Cause = "peer-rank-lost"
	CauseKVTransfer         Cause = "kv-transfer-failed"
	CauseSchedulerException Cause = "scheduler-exception"
	CauseSchedulerWatchdog  Cause = "scheduler-watchdog"
	CauseServerHung         Cause = "server-hung"
	CauseNativeCrash        Cause = "native-crash"
	CauseWorkerDied         Cause = "worker-died"
	CauseEngineDead         Cause = "engine-dead"
	CauseStopped            Cause = "stopped"
	CauseProbeKilled        Cause = "probe-killed"
	CauseHostOOMKilled      Cause = "host-oom-killed"
	CauseHostNoMemory       Cause = "host-no-memory"
	CauseKilledUnknown      Cause = "killed-unknown"
	CauseShmFull            Cause = "shm-full"
	CauseDiskFull           Cause = "disk-full"
	CauseTooManyFiles       Cause = "too-many-files"
	CauseGPULost            Cause = "gpu-lost"
	CauseGPUXid             Cause = "gpu-xid"
	CauseGPUECC             Cause = "gpu-ecc"
	CauseGPUFirmwareTimeout Cause = "gpu-firmware-timeout"
	CauseGPUMemoryHeld      Cause = "gpu-memory-held"
	CauseGPUThrottled       Cause = "gpu-throttled"
	CauseDriverMismatch     Cause = "driver-mismatch"
	CauseDriverNotLoaded    Cause = "driver-not-loaded"
	CauseJITCompiling       Cause = "jit-compiling"
	CauseLoadSlow           Cause = "load-slow"
	CauseRepetition         Cause = "repetition-loop"
	CauseLogStopped         Cause = "log-stopped"
	CauseClientBuffered     Cause = "client-buffered"
	CauseClientTimeouts     Cause = "client-timeouts"
	CauseClientException    Cause = "client-exception"
	CauseRequestTooLong     Cause = "request-too-long"
	CauseRequestsLost       Cause = "requests-lost"
	CauseRowsTorn           Cause = "rows-torn"
	CauseRowsDuplicate      Cause = "rows-duplicate"
	CauseRowsNUL            Cause = "rows-nul"
)

// NodeRestarted is the detail of a cause that tells no more than that: another
// boot was found, and with the one before all its processes ended.
const NodeRestarted = "the node was restarted"

// FromOutside tells an end in which the server's own settings had no part: they
// are no reason against starting it so again.
func (c Cause) FromOutside() bool {
	switch c {
	case CauseKilledUnknown, CauseStopped, CauseProbeKilled, CauseGPULost, CauseGPUXid, CauseLogStopped:
		return true
	}
	return false
}

// CauseInfo describes one cause: what it means, the direction advice takes
// unless a finding knows better figures, and where the fault lies.
type CauseInfo struct {
	Cause   Cause
	Side    Side
	Meaning string
	Advice  string
}

var causes = []CauseInfo{
	{CauseStartupNoKVMemory, SideServer, "The weights took the whole memory budget at start-up, so nothing was left for the KV cache.", "Raise the memory fraction (--mem-fraction-static, --gpu-memory-utilization), or use more GPUs or smaller weights."},
	{CauseStartupGPUOccupied, SideServer, "At start-up a GPU already held memory of another process.", "Find and end the process that holds it, often an orphan of the start before; do not lower the memory fraction."},
	{CauseStartupKVTooSmall, SideServer, "The KV cache has room, but not for one request of the configured length, or a state cache of a hybrid model is too small.", "Lower the context length, or raise the memory fraction."},
	{CauseStartupHostCache, SideServer, "The host tier of the KV cache is smaller than the device pool, which this version refuses.", "Raise --hicache-size or --hicache-ratio above the device pool (hicache-size counts 1e9 bytes, the log's GB are GiB)."},
	{CauseStartupFailed, SideServer, "The server ended before it was ready, with an error of no other class.", "Read the first traceback of the start; the lines after it are consequences."},
	{CauseCaptureOOM, SideServer, "GPU memory ran out while CUDA graphs were captured.", "Lower the memory fraction, or the largest captured batch size."},
	{CauseModelUnusable, SideServer, "The model could not be loaded: path, format, architecture or parallel size do not fit.", "Check the model path and whether this version supports the architecture with this parallel size."},
	{CauseMissingModule, SideServer, "A module or a symbol of the server's environment could not be imported.", "Check the environment and start from the right one: a package is missing or its version does not fit."},
	{CausePortInUse, SideServer, "The address the server wanted to listen on was taken.", "End the process that holds the port, or choose another port."},
	{CauseBadFlag, SideServer, "The command line has a flag or a value this version does not accept.", "Correct the flag named in the error."},
	{CauseWarmupFailed, SideServer, "The server's own first request failed or timed out.", "Read the error of the warm-up; the server ends itself after it."},
	{CauseCUDAOOM, SideServer, "GPU memory ran out outside the KV pool: activations, logits or a capture.", "Lower the memory fraction; in prefill also the chunked prefill size, in decode also the number of running requests."},
	{CauseKVPoolExhausted, SideServer, "The KV pool had no slot for a batch that was already admitted; GPU memory itself was not full.", "Lower the number of running requests, or raise --schedule-conservativeness."},
	{CauseKVThrashing, SideServer, "The KV pool is nearly full and requests are retracted or crawl.", "Send fewer requests at once, lower the number of running requests, or enlarge the pool."},
	{CauseSlotsExhausted, SideServer, "The table of request slots ran out.", "Lower --max-running-requests."},
	{CauseKVLeakCheck, SideServer, "The engine's own accounting of its KV pool did not add up when it was idle and it stopped itself.", "A fault of this version: update, or turn the strict idle check off; memory was not full."},
	{CauseIllegalAccess, SideServer, "A CUDA kernel touched memory it must not; the stack that is shown is late and not the culprit.", "Look for an Xid in the kernel log; start with CUDA_LAUNCH_BLOCKING=1 to find the kernel; try another attention backend."},
	{CauseDeviceAssert, SideServer, "An assertion inside a CUDA kernel failed, often an index out of range.", "Start with CUDA_LAUNCH_BLOCKING=1 to find the kernel; check token ids and the vocabulary size."},
	{CauseNCCLTimeout, SideServer, "A collective operation between GPUs did not finish in time; the rank that is missing from the log is the suspect.", "Look at the rank that did not report, at Xids and at the links; a longer timeout only hides it."},
	{CauseNCCLError, SideServer, "NCCL reported an error.", "Start with NCCL_DEBUG=INFO; check /dev/shm, peer access and the driver."},
	{CausePeerRankLost, SideServer, "A rank noticed that another one had gone.", "A consequence: look for the first error on another rank or node."},
	{CauseKVTransfer, SideServer, "Moving KV between a prefill and a decode server failed or was aborted.", "Check the peer server and the link; an abort by the client is no fault of the server."},
	{CauseSchedulerException, SideServer, "The scheduler raised an exception of no other class.", "Read the end of the first traceback; the server has to be started again."},
	{CauseSchedulerWatchdog, SideServer, "A batch made no progress for the watchdog's time and the server ended itself.", "Look for the rank that hung and for Xids; prompts of the batch may be in the log."},
	{CauseServerHung, SideServer, "The server answers but makes no tokens.", "Collect stacks (py-spy dump), then restart the server."},
	{CauseNativeCrash, SideServer, "A process died in native code: segmentation fault, abort or terminate.", "Look above the stack for the first error, and for an Xid in the kernel log."},
	{CauseWorkerDied, SideServer, "A worker process of the server died while it was needed.", "Look for its last lines and its exit code; -9 points to the kernel's OOM killer."},
	{CauseEngineDead, SideServer, "The front end lost its engine.", "A consequence: the cause is the first error above it."},
	{CauseStopped, SideHost, "Somebody asked the server to stop and it did.", "Nothing to repair; start it again when it is wanted."},
	{CauseProbeKilled, SideHost, "A health or start-up probe of the platform killed the server.", "Give the probe more time than the start takes (initialDelaySeconds, failureThreshold)."},
	{CauseHostOOMKilled, SideHost, "The kernel killed the process because the host or its memory limit was out of memory.", "Free host memory or raise the limit; lower --hicache-size and other pinned memory."},
	{CauseHostNoMemory, SideHost, "The host could not give the memory that was asked for.", "Lower --hicache-size or other host memory, or free memory."},
	{CauseKilledUnknown, SideHost, "The process was killed and nothing says by whom.", "Exit status 137 alone is no proof of the OOM killer: read the kernel log."},
	{CauseShmFull, SideHost, "/dev/shm is too small or full.", "Enlarge it (--shm-size, an emptyDir of medium Memory) or remove leftovers in /dev/shm."},
	{CauseDiskFull, SideHost, "A disk is full.", "Free space on the file system that is named; rows may be torn."},
	{CauseTooManyFiles, SideClient, "The process reached its limit of open files.", "Raise ulimit -n, or use fewer connections; the server is fine."},
	{CauseGPULost, SideGPU, "A GPU fell off the bus.", "Reset or restart the machine; the other GPUs may still be queried one by one."},
	{CauseGPUXid, SideGPU, "The driver reported an error of a GPU (Xid).", "Look up the number of the first Xid; those after it are consequences."},
	{CauseGPUECC, SideGPU, "A GPU reported memory errors that could not be corrected.", "Drain the node and reset the GPU; replace it when it comes back."},
	{CauseGPUFirmwareTimeout, SideGPU, "The GPU's firmware (GSP) did not answer.", "Ask the GPU less often and restart the machine; the process that is named is the victim."},
	{CauseGPUMemoryHeld, SideGPU, "GPU memory is held by a process that is not part of the server.", "Find and end the holder; one that cannot be seen lives outside this container."},
	{CauseGPUThrottled, SideGPU, "A GPU runs slower than it could: power or temperature.", "Check power limit and cooling."},
	{CauseDriverMismatch, SideHost, "The driver in the kernel and its library have different versions.", "Reload the modules or restart the machine; jobs that run may go on."},
	{CauseDriverNotLoaded, SideHost, "The GPU driver is not there.", "Load the driver (a kernel update may have lost it), or give the container its GPUs."},
	{CauseJITCompiling, SideServer, "Kernels are being compiled; the server is silent but not stuck.", "Wait, up to 20 minutes the first time; compile ahead to avoid it."},
	{CauseLoadSlow, SideServer, "Loading the weights takes much longer than it should.", "Check the disk or network file system that holds the model."},
	{CauseRepetition, SideServer, "A request repeats itself: every drafted token is accepted at a constant rate.", "Abort the request; set a token limit or a repetition penalty."},
	{CauseLogStopped, SideHost, "The log ends although the server works: whoever wrote the file is gone.", "Ask the server itself before calling it dead; restore the log's writer."},
	{CauseClientBuffered, SideClient, "The client's output is held back by its own buffer; rows are written all the same.", "Start it with python -u or PYTHONUNBUFFERED=1; judge it by its rows."},
	{CauseClientTimeouts, SideClient, "The client gives up on requests before the server answers.", "Raise the client's timeout, or send fewer requests at once."},
	{CauseClientException, SideClient, "The client ended with an exception of no other class.", "Read the end of its traceback."},
	{CauseRequestTooLong, SideClient, "A request was longer than the server accepts.", "Shorten the prompt or the output limit, or raise the context length."},
	{CauseRequestsLost, SideClient, "Requests finished on the server but no row landed.", "Check the client's retries and timeouts."},
	{CauseRowsTorn, SideClient, "The last row of a dataset is cut.", "Normal for an instant while a writer lives; after its death remove the torn row before resuming."},
	{CauseRowsDuplicate, SideClient, "Rows of a dataset repeat an id.", "Remove duplicates; look for a second client or a resume without a check."},
	{CauseRowsNUL, SideClient, "A dataset holds NUL bytes, left by a crash of its host or file system.", "Remove the damaged rows and generate them again."},
}

// Causes returns the closed list of causes in the order of the documentation.
// The slice is a copy.
func Causes() []CauseInfo {
	return append([]CauseInfo(nil), causes...)
}

// Info returns what is known about the cause; ok is false for one that is not
// in the list.
func (c Cause) Info() (info CauseInfo, ok bool) {
	for _, info := range causes {
		if info.Cause == c {
			return info, true
		}
	}
	return CauseInfo{}, false
}
