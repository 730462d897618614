package model

import (
	"fmt"
	"strings"
	"time"
)

// beginVLLM lays out a start of vLLM.
func (s *server) beginVLLM(bad error, taken bool) {
	u := &startup{s: s}
	f := s.flags
	if bad != nil || f.Help {
		u.wait(9 * time.Second)
		u.do(func() { s.vllmUsage(bad) })
		return
	}
	first := Scheduler(0)
	u.wait(16 * time.Second)
	u.do(func() {
		s.say(ServerMain, "INFO", "api_server.py:1977", "vLLM API server version %s", vllmVersion)
		s.say(ServerMain, "INFO", "utils.py:253", "non-default args: %s", s.vllmArguments())
	})
	u.wait(4 * time.Second)
	u.do(func() {
		s.add(Tracker, s.n.pid())
		s.say(ServerMain, "INFO", "model.py:631", "Resolved architecture: KimiK25ForConditionalGeneration")
		s.say(ServerMain, "INFO", "model.py:1745", "Using max model len %d", f.ContextLen)
		s.say(ServerMain, "INFO", "scheduler.py:216", "Chunked prefill is enabled with max_num_batched_tokens=%d.", f.ChunkedSize)
	})
	u.wait(7 * time.Second)
	u.do(func() { s.add(EngineCore, s.n.pid()) })
	u.do(func() {
		s.say(EngineCore, "INFO", "core.py:93", "Initializing a V1 LLM engine (v%s) with config: model='%s', speculative_config=None, tokenizer='%s', dtype=torch.bfloat16, max_seq_len=%d, tensor_parallel_size=%d, pipeline_parallel_size=1, data_parallel_size=1, kv_cache_dtype=%s, enable_prefix_caching=True, chunked_prefill_enabled=True",
			vllmVersion, f.ModelPath, f.ModelPath, f.ContextLen, f.TP, f.KVDtype)
		if f.TP > 1 {
			for rank := range f.TP {
				s.add(Scheduler(rank), s.n.pid())
			}
		} else {
			s.add(first, s.pids[EngineCore])
		}
	})
	u.wait(10 * time.Second)
	u.do(func() { s.phase = PhaseDistributed })
	u.ranks(func(rank int) {
		s.say(Scheduler(rank), "INFO", "parallel_state.py:1208", "world_size=%d rank=%d local_rank=%d distributed_init_method=tcp://127.0.0.1:43815 backend=nccl", f.TP, rank, rank)
	})
	u.wait(5 * time.Second)
	u.do(func() { s.say(first, "INFO", "pynccl.py:111", "vLLM is using nccl==2.27.5") })
	if taken {
		u.wait(2 * time.Second)
		u.do(func() {
			s.failVLLM(0, fmt.Sprintf("ValueError: Free memory on device (%.2f/%.2f GiB) on startup is less than desired GPU memory utilization (%s, %.2f GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
				gb(max(0, s.left())), gb(cardBytes), pyFloat(f.MemFraction), gb(cardBytes)*f.MemFraction))
		})
		return
	}
	u.vllmLoad(first)
	if !u.vllmMemory(first) {
		return
	}
	u.vllmGraphs(first)
	u.vllmServe()
}

// left is what an earlier server or an orphan has left free on a card.
func (s *server) left() int64 {
	var left int64 = freeAtStart
	for _, o := range s.n.extra {
		if o.server != nil && o.server.alive() {
			left = min(left, o.server.free()-contextBytes)
		}
		if o.orphan != nil {
			left = min(left, freeAtStart-o.orphan.bytes)
		}
	}
	return left
}

// vllmLoad reads the weights: each shard is a line of its own.
func (u *startup) vllmLoad(first Role) {
	const shards = 64
	s := u.s
	total := 342 * time.Second
	u.do(func() {
		s.phase = PhaseWeights
		s.say(first, "INFO", "gpu_model_runner.py:3259", "Starting to load model %s...", s.flags.ModelPath)
	})
	for i := 0; i <= shards; i++ {
		spent := total * time.Duration(i) / shards
		u.do(func() {
			s.weights = float64(i) / shards
			line := strings.TrimPrefix(bar("Loading safetensors checkpoint shards", " Completed |", i, shards, spent), "\r")
			s.raw(s.process(first) + line + "\n")
		})
		if i < shards {
			u.wait(total / shards)
		}
	}
	u.wait(2 * time.Second)
	u.do(func() {
		s.say(first, "INFO", "default_loader.py:314", "Loading weights took %.2f seconds", total.Seconds())
		weights := int64(float64(weightBytes) * 8 / float64(max(1, s.flags.TP)))
		s.say(first, "INFO", "gpu_model_runner.py:3338", "Model loading took %.4f GiB memory and %.6f seconds", gb(weights), total.Seconds()+2.411927)
	})
}

// vllmMemory compiles, profiles and sizes the KV cache; false where the flags
// leave no room, whose error it has laid out then.
func (u *startup) vllmMemory(first Role) bool {
	s, f := u.s, u.s.flags
	u.wait(3 * time.Second)
	u.do(func() {
		s.phase = PhasePool
		s.say(first, "INFO", "backends.py:631", "Using cache directory: /root/.cache/vllm/torch_compile_cache/5d0f2a1c9e/rank_0_0/backbone for vLLM's torch.compile")
		s.say(first, "INFO", "backends.py:647", "Dynamo bytecode transform time: %.2f s", 9.81)
	})
	u.wait(14 * time.Second)
	u.do(func() {
		s.say(first, "INFO", "backends.py:210", "Directly load the compiled graph(s) for dynamic shape from the cache, took %.3f s", 6.512)
		s.say(first, "INFO", "monitor.py:34", "torch.compile takes %.2f s in total", 16.32)
	})
	u.wait(6 * time.Second)
	u.ranks(func(rank int) {
		s.say(Scheduler(rank), "INFO", "gpu_worker.py:359", "Available KV cache memory: %.2f GiB", gb(f.poolBytes()))
	})
	switch {
	case f.poolTokens() <= 0:
		u.do(func() {
			s.failVLLM(-1, "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.")
		})
		return false
	case f.poolTokens() < f.ContextLen:
		u.do(func() {
			need := gb(int64(f.ContextLen) * f.kvToken())
			s.failVLLM(-1, fmt.Sprintf("ValueError: To serve at least one request with the models's max seq len (%d), (%.2f GiB KV cache is needed, which is larger than the available KV cache memory (%.2f GiB). Based on the available memory, the estimated maximum model length is %d. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.",
				f.ContextLen, need, gb(f.poolBytes()), f.poolTokens()))
		})
		return false
	}
	u.do(func() {
		s.pool = true
		s.say(EngineCore, "INFO", "kv_cache_utils.py:1229", "GPU KV cache size: %s tokens", thousands(f.poolTokens()))
		s.say(EngineCore, "INFO", "kv_cache_utils.py:1234", "Maximum concurrency for %s tokens per request: %.2fx", thousands(f.ContextLen), float64(f.poolTokens())/float64(f.ContextLen))
	})
	return true
}

// vllmGraphs captures, and warms up the sampler, which takes memory that the
// profile did not count.
func (u *startup) vllmGraphs(first Role) {
	s, f := u.s, u.s.flags
	u.do(func() { s.phase = PhaseCapture })
	for _, set := range []struct {
		name  string
		count int
		took  time.Duration
	}{{"mixed prefill-decode, PIECEWISE", 67, 14 * time.Second}, {"decode, FULL", 35, 9 * time.Second}} {
		for i := 0; i <= set.count; i += 1 + set.count/8 {
			u.do(func() {
				s.raw(bar(s.process(first)+"Capturing CUDA graphs ("+set.name+")", blocks(i, set.count), i, set.count, set.took*time.Duration(i)/time.Duration(set.count)))
			})
			u.wait(set.took / 8)
		}
		u.do(func() {
			s.raw(bar(s.process(first)+"Capturing CUDA graphs ("+set.name+")", blocks(1, 1), set.count, set.count, set.took) + "\n")
		})
	}
	u.do(func() {
		s.graphs = true
		s.say(first, "INFO", "gpu_model_runner.py:4244", "Graph capturing finished in %d secs, took %.2f GiB", 23, gb(graphBytes))
		if need := int64(f.MaxRunning) * samplerToken; need > s.free() {
			s.failVLLM(0, fmt.Sprintf("RuntimeError: CUDA out of memory occurred when warming up sampler with %d dummy requests. Please try lowering `max_num_seqs` or `gpu_memory_utilization` when initializing the engine.", f.MaxRunning),
				outOfMemoryText(0, need, s.free()))
			return
		}
		s.eng = newEngine(s.n, s)
		s.say(EngineCore, "INFO", "core.py:250", "init engine (profile, create kv cache, warmup model) took %.2f seconds", 84.52)
	})
}

// vllmServe opens the port, which is readiness.
func (u *startup) vllmServe() {
	s := u.s
	u.wait(3 * time.Second)
	u.do(func() {
		s.say(ServerMain, "INFO", "api_server.py:1725", "Supported tasks: ['generate']")
		s.say(ServerMain, "INFO", "api_server.py:2052", "Starting vLLM API server 0 on http://%s:%d", s.flags.Host, s.flags.Port)
		s.say(ServerMain, "INFO", "launcher.py:38", "Available routes are:")
		for _, r := range []string{"/health, Methods: GET", "/load, Methods: GET", "/version, Methods: GET", "/v1/models, Methods: GET", "/v1/completions, Methods: POST", "/metrics, Methods: GET"} {
			s.say(ServerMain, "INFO", "launcher.py:46", "Route: %s", r)
		}
		s.info("Started server process [%d]", s.pids[ServerMain])
		s.info("Waiting for application startup.")
		s.info("Application startup complete.")
		s.phase, s.ready = PhaseReady, s.n.at
		s.n.after(statsEvery, s.stats)
	})
}

// failVLLM is a start that ends in an exception of one worker (-1: of the
// engine), under its wrappers.
func (s *server) failVLLM(rank int, last string, before ...string) {
	const tree = "/usr/local/lib/python3.12/dist-packages/vllm/v1/"
	if rank >= 0 {
		s.say(Scheduler(rank), "ERROR", "multiproc_executor.py:627", "WorkerProc failed to start.")
		for _, b := range before {
			s.say(Scheduler(rank), "ERROR", "multiproc_executor.py:627", "%s", traceback(tree+"worker/gpu_model_runner.py", "_dummy_sampler_run", "sampler_output = self.sampler(", b)+"\n\nThe above exception was the direct cause of the following exception:\n")
		}
		s.say(Scheduler(rank), "ERROR", "multiproc_executor.py:627", "%s", traceback(tree+"worker/gpu_worker.py", "init_device", "self._init_device()", last))
		last = "Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace for root cause."
	}
	s.say(EngineCore, "ERROR", "core.py:842", "EngineCore failed to start.")
	s.say(EngineCore, "ERROR", "core.py:842", "%s", traceback(tree+"engine/core.py", "run_engine_core", "engine_core = EngineCoreProc(*args, **kwargs)", last))
	prefix := s.process(ServerMain)
	for line := range strings.Lines(traceback(tree+"engine/utils.py", "wait_for_engine_startup", "raise RuntimeError(",
		"RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}") + "\n") {
		s.raw(prefix + line)
	}
	s.die(1)
}

func (s *server) vllmUsage(bad error) {
	const usage = "usage: api_server.py [options]\n"
	if bad == nil {
		s.write(Stdout, usage)
		s.die(0)
		return
	}
	s.raw(usage + "api_server.py: error: " + bad.Error() + "\n")
	s.die(2)
}

// vllmArguments are the settings that differ from the defaults.
func (s *server) vllmArguments() string {
	f := s.flags
	list := []string{fmt.Sprintf("'port': %d", f.Port), fmt.Sprintf("'model': '%s'", f.ModelPath), "'trust_remote_code': True"}
	if f.Host != "0.0.0.0" {
		list = append(list, fmt.Sprintf("'host': '%s'", f.Host))
	}
	if f.APIKey != "" {
		list = append(list, fmt.Sprintf("'api_key': ['%s']", f.APIKey))
	}
	list = append(list, fmt.Sprintf("'max_model_len': %d", f.ContextLen), fmt.Sprintf("'tensor_parallel_size': %d", f.TP),
		"'gpu_memory_utilization': "+pyFloat(f.MemFraction))
	if f.KVDtype != "auto" {
		list = append(list, fmt.Sprintf("'kv_cache_dtype': '%s'", f.KVDtype))
	}
	if f.MaxRunning != defaultSeqs {
		list = append(list, fmt.Sprintf("'max_num_seqs': %d", f.MaxRunning))
	}
	if f.ChunkedSize != defaultBatched {
		list = append(list, fmt.Sprintf("'max_num_batched_tokens': %d", f.ChunkedSize))
	}
	return "{" + strings.Join(list, ", ") + "}"
}

// thousands prints 184,576.
func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
