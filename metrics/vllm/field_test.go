package vllm

import (
	"strings"
	"testing"

	"github.com/runvigil/runvigil/metrics"
)

// Crashes as servers of several versions print them, with all that stands around
// the cause. Wording is the software's, values are ours.
func TestWholeCrashes(t *testing.T) {
	pre := func(prefix string, lines ...string) string {
		var b strings.Builder
		for _, l := range lines {
			b.WriteString(prefix + l + "\n")
		}
		return b.String()
	}
	oom := []string{"EngineCore failed to start.", "Traceback (most recent call last):", `  File "/x/vllm/v1/engine/core.py", line 700, in run_engine_core`,
		"    engine_core = EngineCoreProc(*args, **kwargs)", `  File "/x/vllm/v1/worker/gpu_worker.py", line 200, in load_model`, "    self.model_runner.load_model()", "                  ^^^^^^^^^^^^",
		"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 448.00 MiB. GPU 0 has a total capacity of 23.53 GiB of which 120.31 MiB is free."}
	for name, c := range map[string]struct {
		log   string
		class metrics.Cause // "": nothing ended the server
		phase string
	}{
		"v1 start, printed twice": {
			"INFO 09-03 11:40:00 [gpu_model_runner.py:1700] Starting to load model x...\n" +
				pre("(EngineCore_0 pid=5) ERROR 09-03 11:40:31 [core.py:718] ", oom...) + pre("(EngineCore_0 pid=5) ", append([]string{"Process EngineCore_0:"}, oom[1:]...)...) +
				pre("(APIServer pid=1) ", "Traceback (most recent call last):", `  File "/x/bin/vllm", line 8, in <module>`, "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"),
			metrics.CauseCUDAOOM, PhaseStartup},
		"v0 engine process": {
			"INFO 11-12 10:00:00 model_runner.py:1056] Starting to load model x...\nINFO 11-12 10:00:09 model_runner.py:1067] Loading model weights took 14.9888 GB\n" +
				"Process SpawnProcess-1:\nTraceback (most recent call last):\n  File \"/x/vllm/engine/multiprocessing/engine.py\", line 390, in run_mp_engine\n    engine = MQLLMEngine.from_engine_args()\n" +
				"ValueError: The model's max seq len (131072) is larger than the maximum number of tokens that can be stored in KV cache (26160). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.\n" +
				"Traceback (most recent call last):\n  File \"/x/vllm/entrypoints/openai/api_server.py\", line 10, in run_server\nRuntimeError: Engine process failed to start. See stack trace for the root cause.\n",
			metrics.CauseStartupKVTooSmall, PhaseStartup},
		"v0 background task": {
			"INFO 07-04 10:00:00 metrics.py:295] Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 2.0 tokens/s, Running: 3 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: 2.0%, CPU KV cache usage: 0.0%.\n" +
				pre("ERROR 07-04 10:00:05 async_llm_engine.py:52] ", "Engine background task failed", "Traceback (most recent call last):", `  File "/x/vllm/worker/worker.py", line 5, in execute_model`, "RuntimeError: CUDA error: device-side assert triggered"),
			metrics.CauseDeviceAssert, PhaseServing},
		"one bad request": {
			startLog + pre("(APIServer pid=1) ERROR 07-29 07:00:00 [serving_chat.py:200] ", "Error in preprocessing prompt inputs", "Traceback (most recent call last):", `  File "/x/vllm/entrypoints/openai/serving_chat.py", line 5, in create_chat_completion`, "ValueError: bad template"),
			"", ""},
		"handler exception": {
			startLog + "(APIServer pid=1) ERROR:    Exception in ASGI application\n" + pre("(APIServer pid=1) ", "Traceback (most recent call last):", `  File "/x/vllm/v1/engine/async_llm.py", line 5, in generate`, "KeyError: 'x'"),
			"", ""},
		"too long": {
			startLog + "(APIServer pid=1) ERROR 07-29 07:00:00 [serving_engine.py:50] ValueError: This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.\n",
			"", ""},
		"rank prefix":    {"[rank0]: Traceback (most recent call last):\n[rank0]:   File \"/x/y.py\", line 1, in <module>\n[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n", metrics.CauseCUDAOOM, ""},
		"no device":      {"Traceback (most recent call last):\n  File \"/x/vllm/config.py\", line 1, in __post_init__\nRuntimeError: Failed to infer device type, please set the environment variable `VLLM_LOGGING_LEVEL=DEBUG` to turn on verbose logging\n", metrics.CauseDriverNotLoaded, ""},
		"killed":         {startLog + "/entrypoint.sh: line 5:    12 Killed                  vllm serve x\n", metrics.CauseKilledUnknown, PhaseServing},
		"segfault":       {startLog + "Fatal Python error: Segmentation fault\n\nThread 0x1 (most recent call first):\n", metrics.CauseNativeCrash, PhaseServing},
		"shm":            {startLog[:strings.Index(startLog, "Loading safetensors")] + "(Worker_TP0 pid=9) ERROR 07-29 06:10:30 [multiproc_executor.py:5] torch.distributed.DistBackendError: NCCL error in: x.cpp:77, unhandled system error. Error while creating shared memory segment /dev/shm/nccl-x (size 7340384)\n", metrics.CauseShmFull, PhaseStartup},
		"missing module": {"Traceback (most recent call last):\n  File \"/x/bin/vllm\", line 5, in <module>\nImportError: /x/vllm/_C.abi3.so: undefined symbol: _ZN3c10\n", metrics.CauseMissingModule, ""},
		"interrupted":    {startLog + "(APIServer pid=1) Traceback (most recent call last):\n(APIServer pid=1)   File \"/x/y.py\", line 1, in <module>\n(APIServer pid=1) KeyboardInterrupt: terminated\n(APIServer pid=1) INFO:     Finished server process [1]\n", "", ""},
		"breakdown":      {startLog, "", ""},
	} {
		s := fold([]byte(c.log))
		var primary FaultAt
		for _, f := range s.Now().Causes(s.NewestFirst()) {
			if f.Primary {
				primary = f
			}
		}
		if primary.Class != c.class || c.phase != "" && primary.Phase != c.phase {
			t.Errorf("%s: %q in %q, want %q in %q\n%+v", name, primary.Class, primary.Phase, c.class, c.phase, s.Now().Faults)
		}
	}
	if f := fold([]byte(pre("", oom...))).Now().Faults; len(f) == 0 || f[0].FreeGB.V < 0.117 || f[0].FreeGB.V > 0.118 || f[0].TotalGB.V != 23.53 || f[0].NeedGB.V != 0.4375 {
		t.Errorf("figures of an OOM: %+v", f)
	}
}
