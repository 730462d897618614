package explain

import (
	"strings"
	"testing"
)

// TestWordings holds the class of wordings that public reports have and the
// collected cases have not.
func TestWordings(t *testing.T) {
	tb := func(last string) string {
		return "[2025-08-12 09:11:02 TP0] Scheduler hit an exception: Traceback (most recent call last):\n  File \"/sgl-workspace/sglang/python/sglang/srt/managers/scheduler.py\", line 2572, in run_scheduler_process\n    scheduler.event_loop_overlap()\n  File \"/usr/local/lib/python3.10/dist-packages/torch/utils/_contextlib.py\", line 116, in decorate_context\n    return func(*args, **kwargs)\n" + last + "\n\n[2025-08-12 09:11:02] Received sigquit from a child process. It usually means the child failed.\nKilled\n"
	}
	vt := func(last string) string {
		return "(EngineCore_DP0 pid=271) ERROR 09-30 02:11:19 [core.py:710] EngineCore failed to start.\n(EngineCore_DP0 pid=271) ERROR 09-30 02:11:19 [core.py:710] Traceback (most recent call last):\n(EngineCore_DP0 pid=271) ERROR 09-30 02:11:19 [core.py:710]   File \"/usr/local/lib/python3.12/dist-packages/vllm/v1/engine/core.py\", line 701, in run_engine_core\n(EngineCore_DP0 pid=271) ERROR 09-30 02:11:19 [core.py:710]     engine_core = EngineCoreProc(*args, **kwargs)\n(EngineCore_DP0 pid=271) ERROR 09-30 02:11:19 [core.py:710] " + last + "\n(EngineCore_DP0 pid=271) Process EngineCore_DP0:\n(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"
	}
	for _, c := range []struct{ want, text string }{
		{"request-slots-exhausted", tb("RuntimeError: alloc_req_slots runs out of memory. Please set a smaller number for `--max-running-requests`. req_to_token_pool.available_size()=0, num_reqs=1")},
		{"kv-pool-exhausted", tb("RuntimeError: Prefill out of memory. Try to lower your batch size.\nTry to allocate 8192 tokens.\nAvailable tokens: 312")},
		{"kv-pool-exhausted", tb("RuntimeError: Decode out of memory. Try to lower your batch size.\nTry to allocate 35 tokens.\nAvailable tokens: 12\nevictable_size()=0")},
		{"kv-leak-check", tb("ValueError: token_to_kv_pool_allocator memory leak detected! self.max_total_num_tokens=1, available_size=2, evictable_size=3")},
		{"device-assert", tb("RuntimeError: CUDA error: device-side assert triggered\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.")},
		{"startup-gpu-occupied", tb("ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. pre_model_load_memory=20.1, local_gpu_memory=78.3, local_gpu_memory * 0.9=70.4")},
		{"capture-oom", tb("Exception: Capture CUDA graph failed: CUDA out of memory. Tried to allocate 256.00 MiB. GPU 0 has a total capacity of 79.11 GiB of which 93.88 MiB is free.\nPossible solutions:\n1. disable cuda graph by --disable-cuda-graph\n2. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\nOpen an issue on GitHub https://github.com/sgl-project/sglang/issues/new/choose")},
		{"cuda-oom", tb("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 3; 79.11 GiB total capacity; 71.00 GiB already allocated; 1.20 GiB free; 75.2 GiB reserved in total by PyTorch)")},
		{"nccl-error", tb("torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:317, unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5\nncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 'out of memory'")},
		{"missing-module", tb("ImportError: libnuma.so.1: cannot open shared object file: No such file or directory")},
		{"missing-module", "Traceback (most recent call last):\n  File \"/usr/lib/python3.10/runpy.py\", line 196, in _run_module_as_main\n    return _run_code(code, main_globals, None,\n  File \"/sgl-workspace/sglang/python/sglang/launch_server.py\", line 6, in <module>\n    from sglang.srt.entrypoints.http_server import launch_server\nModuleNotFoundError: No module named 'sgl_kernel'\n"},
		{"model-unusable", tb("OSError: /models/llama does not appear to have a file named config.json. Checkout 'https://huggingface.co//models/llama/tree/None' for available files.")},
		{"bad-flag", "usage: launch_server.py [-h] --model-path MODEL_PATH\nlaunch_server.py: error: unrecognized arguments: --enable-dp-attn\n"},
		{"port-in-use", "[2025-08-12 09:11:02] INFO:     Started server process [881]\n[2025-08-12 09:11:02] INFO:     Waiting for application startup.\n[2025-08-12 09:11:02] INFO:     Application startup complete.\n[2025-08-12 09:11:02] ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 30000): address already in use\n"},
		{"native-crash", "[2025-08-12 09:11:02 TP0] Decode batch. #running-req: 12, #token: 4512, token usage: 0.11, gen throughput (token/s): 512.20, #queue-req: 0\nFatal Python error: Segmentation fault\n\nThread 0x00007f6d2b7fe640 (most recent call first):\n  File \"/usr/lib/python3.10/threading.py\", line 324 in wait\n"},
		{"worker-died", "[2025-08-12 09:11:02 TP0] Decode batch. #running-req: 12, #token: 4512, token usage: 0.11, gen throughput (token/s): 512.20, #queue-req: 0\n[2025-08-12 09:11:40] Child process unexpectedly failed with an exit code 9. pid=4411\n"},
		{"host-no-memory", tb("ValueError: Not enough host memory available. Requesting 384.00 GB but only have 120.10 GB free. Please reduce the size of the hierarchical cache.")},
		{"disk-full", tb("OSError: [Errno 28] No space left on device: '/data/cache/x.bin'")},
		{"peer-rank-lost", tb("RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.3]:41522")},
		{"illegal-memory-access", "Memory access fault by GPU node-3 (Agent handle: 0x55d3c0) on address 0x7f2f4a000000. Reason: Unknown.\n[2025-08-12 09:11:02] Received sigquit from a child process. It usually means the child failed.\n"},
		{"startup-gpu-occupied", vt("ValueError: Free memory on device (11.2/79.1 GiB) on startup is less than desired GPU memory utilization (0.9, 71.2 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.")},
		{"startup-no-kv-memory", vt("ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.")},
		{"startup-kv-too-small", vt("ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is needed, which is larger than the available KV cache memory (9.31 GiB). Based on the available memory, the estimated maximum model length is 76272.")},
		{"bad-flag", "usage: vllm serve [model_tag] [options]\nvllm serve: error: unrecognized arguments: --tp 8\n"},
		{"bad-flag", vt("pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n  Value error, User-specified max_model_len (131072) is greater than the derived max_model_len (max_position_embeddings=32768)")},
		{"driver-mismatch", vt("RuntimeError: The NVIDIA driver on your system is too old (found version 12020). Please update your GPU driver")},
		{"driver-not-loaded", vt("RuntimeError: No CUDA GPUs are available")},
		{"model-unusable", vt("ValueError: Model architectures ['FooForCausalLM'] are not supported for now. Supported architectures: dict_keys([])")},
		{"cuda-oom", vt("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 448.00 MiB. GPU 0 has a total capacity of 23.64 GiB of which 121.44 MiB is free.")},
		{"nccl-error", vt("RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)")},
		{"worker-died", "(EngineCore_DP0 pid=99) ERROR 09-30 02:11:19 [multiproc_executor.py:149] Worker proc VllmWorker-1 died unexpectedly, shutting down executor.\n(APIServer pid=1) ERROR 09-30 02:11:19 [async_llm.py:480] AsyncLLM output_handler failed.\n"},
		{"server-hung", "(EngineCore_DP0 pid=99) ERROR 09-30 02:11:19 [core.py:710] EngineCore encountered a fatal error.\n(EngineCore_DP0 pid=99) ERROR 09-30 02:11:19 [core.py:710] TimeoutError: RPC call to execute_model timed out.\n"},
		{"gpu-lost", "[ 8123.441203] NVRM: GPU at PCI:0000:41:00: GPU-1f2e\n[ 8123.441210] NVRM: Xid (PCI:0000:41:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"},
		{"gpu-ecc", "Mar  3 04:11:20 node7 kernel: NVRM: Xid (PCI:0000:c1:00): 48, pid=2211, name=python3, An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at partition 5, subpartition 1.\n"},
		{"gpu-xid", "[Tue Mar  3 04:11:20 2026] NVRM: Xid (PCI:0000:c1:00): 13, pid=2211, name=python3, Graphics Exception: Class 0xcbc0, Subchannel 0x0, Mismatch\n"},
		{"gpu-xid", "[101.2] NVRM: Xid (PCI:0000:c1:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 4(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)\n"},
		{"host-oom-killed", "Mar  3 04:11:20 node7 kernel: python3 invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0\nMar  3 04:11:21 node7 kernel: Out of memory: Killed process 41233 (sglang::schedul) total-vm:991220kB, anon-rss:88123kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:1kB oom_score_adj:0\n"},
		{"client-timeouts", "Generating:  12%|█▏        | 120/1000 [10:01<1:13:22,  5.00s/it]\nRequest failed: openai.APITimeoutError: Request timed out.\nRequest failed: openai.APITimeoutError: Request timed out.\nRequest failed: openai.APITimeoutError: Request timed out.\n"},
		{"client-timeouts", "Traceback (most recent call last):\n  File \"/app/gen.py\", line 88, in main\n    await task\nhttpx.ReadTimeout\n"},
		{"client-exception", "Traceback (most recent call last):\n  File \"/app/gen.py\", line 88, in main\n    out = data['choices'][0]\nKeyError: 'choices'\n"},
		{"request-too-long", "ERROR:root:Error code: 400 - {'object': 'error', 'message': \"This model's maximum context length is 32768 tokens. However, you requested 40012 tokens\", 'type': 'BadRequestError'}\n"},
		{"host-oom-killed", "Name:         vllm-0\nNamespace:    llm\nContainers:\n  vllm:\n    State:          Waiting\n      Reason:       CrashLoopBackOff\n    Last State:     Terminated\n      Reason:       OOMKilled\n      Exit Code:    137\n    Ready:          False\n    Restart Count:  7\n"},
		{"probe-killed", "LAST SEEN   TYPE      REASON      OBJECT        MESSAGE\n2m          Warning   Unhealthy   pod/vllm-0    Startup probe failed: Get \"http://10.1.1.1:8000/health\": dial tcp 10.1.1.1:8000: connect: connection refused\n1m          Normal    Killing     pod/vllm-0    Container vllm failed startup probe, will be restarted\n"},
		{"rows-duplicate", "{\"id\": 1, \"response\": \"a\"}\n{\"id\": 2, \"response\": \"b\"}\n{\"id\": 1, \"response\": \"a\"}\n"},
		{"rows-nul", "{\"id\": 1, \"response\": \"a\"}\n\x00\x00\x00\x00\x00\x00{\"id\": 2, \"response\": \"b\"}\n"},
		{"driver-mismatch", "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.183\n"},
		{"gpu-lost", "Unable to determine the device handle for GPU 0000:41:00.0: GPU is lost.  Reboot the system to recover this GPU\n"},
		{"stopped", "[2025-08-12 09:11:02 TP0] Decode batch. #running-req: 12, #token: 4512, token usage: 0.11, gen throughput (token/s): 512.20, #queue-req: 0\n[2025-08-12 09:12:02] SIGTERM received. signum=None frame=None. Draining requests and shutting down...\n[2025-08-12 09:12:09] Gracefully exiting... No more requests in queue.\n"},
		{"jit-compiling", "[2025-08-12 09:11:02 TP0] Prefill batch. #new-seq: 1, #new-token: 10, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 0,\n[2025-08-12 09:11:03 TP0] Entering DeepGEMM JIT Pre-Compile session. It may take a long time (typically 10-20 mins) if you have not run `sglang.compile_deep_gemm`.\n"},
		{"too-many-files", "2025-01-01 00:00:00 ERROR aiohttp.client_exceptions.ClientConnectorError: Cannot connect to host 127.0.0.1:30000 ssl:default [Too many open files]\n"},
	} {
		r, err := Read(strings.NewReader(c.text), KindAuto)
		got := ""
		if p := r.Primary(); p != nil {
			got = p.Class
		}
		if got != c.want || err != nil {
			t.Errorf("%s instead of %s, error %v, in\n%s", got, c.want, err, c.text)
		}
	}
}
