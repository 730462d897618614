package model

import (
	"fmt"
	"strings"
	"time"
)

// startup plays a start: each step waits a real duration, scaled, and then
// happens, unless the server has ended meanwhile.
type startup struct {
	s  *server
	at time.Duration
}

func (u *startup) wait(real time.Duration) {
	u.at += time.Duration(float64(real) * u.s.scale)
}

func (u *startup) do(f func()) {
	s := u.s
	s.n.after(u.at, func() {
		if s.alive() {
			f()
		}
	})
}

// ranks lets every rank do the same, a moment apart.
func (u *startup) ranks(f func(rank int)) {
	for i := range u.s.flags.TP {
		rank := i * 5 % 8 % u.s.flags.TP
		if u.s.flags.TP != 8 {
			rank = i
		}
		u.wait(60 * time.Millisecond)
		u.do(func() { f(rank) })
	}
}

func gb(bytes int64) float64 { return float64(bytes) / gib }

// begin lays out the whole start from import to readiness.
func (s *server) begin(bad error, taken bool) {
	if s.flags.VLLM {
		s.beginVLLM(bad, taken)
		return
	}
	u := &startup{s: s}
	if bad != nil || s.flags.Help {
		u.wait(9 * time.Second)
		u.do(func() { s.usage(bad) })
		return
	}
	f := s.flags
	u.wait(14 * time.Second)
	u.do(func() { s.log(mainRank, "%s", s.arguments()) })
	u.wait(2 * time.Second)
	u.do(func() { s.add(Tracker, s.n.pid()) })
	for rank := range f.TP {
		u.do(func() { s.add(Scheduler(rank), s.n.pid()) })
	}
	u.do(func() { s.add(Detokenizer, s.n.pid()) })
	u.wait(11 * time.Second)
	u.do(func() { s.phase = PhaseDistributed })
	u.ranks(func(rank int) { s.log(rank, "Init torch distributed begin.") })
	u.wait(3 * time.Second)
	u.ranks(func(rank int) { s.log(rank, "sglang is using nccl==2.27.5") })
	u.wait(4 * time.Second)
	if taken {
		u.do(func() { s.unbalanced() })
		return
	}
	u.ranks(func(rank int) {
		s.log(rank, "Init torch distributed ends. elapsed=%.2f s, mem usage=%.2f GB", 7.4+float64(rank)*0.03, gb(contextBytes)-0.38)
	})
	u.wait(time.Second)
	u.do(func() { s.phase = PhaseWeights })
	u.ranks(func(rank int) { s.log(rank, "Load weight begin. avail mem=%.2f GB", gb(freeAtStart)) })
	u.load()
	u.do(func() {
		if f.poolTokens() <= 0 {
			s.fail(0, fmt.Sprintf("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: %v", pyFloat(f.MemFraction)))
			return
		}
		s.phase = PhasePool
	})
	u.wait(2 * time.Second)
	u.do(func() { s.log(0, "Using KV cache dtype: %s", f.kvTorch()) })
	u.do(func() { s.pool = true })
	u.ranks(func(rank int) {
		s.log(rank, "KV Cache is allocated. #tokens: %d, KV size: %.2f GB", f.poolTokens(), gb(f.poolBytes()))
	})
	u.ranks(func(rank int) { s.log(rank, "Memory pool end. avail mem=%.2f GB", gb(s.free())) })
	u.capture()
	u.do(func() {
		s.eng = newEngine(s.n, s)
		s.log(0, "max_total_num_tokens=%d, chunked_prefill_size=%d, max_prefill_tokens=%d, max_running_requests=%d, context_len=%d, available_gpu_mem=%.2f GB",
			f.poolTokens(), f.ChunkedSize, f.MaxPrefill, f.maxRunning(), f.ContextLen, gb(s.free()))
	})
	if f.HiCache {
		u.host()
	}
	u.serve()
}

// load reads the weights, shard by shard.
func (u *startup) load() {
	const shards = 64
	s := u.s
	total := 342 * time.Second
	for i := 0; i <= shards; i++ {
		spent := total * time.Duration(i) / shards
		u.do(func() {
			s.weights = float64(i) / shards
			s.raw(bar("Loading safetensors checkpoint shards", " Completed |", i, shards, spent))
			if i == shards {
				s.raw("\n")
			}
		})
		if i < shards {
			u.wait(total / shards)
		}
	}
	u.ranks(func(rank int) {
		s.log(rank, "Load weight end. elapsed=%.2f s, type=KimiK25ForConditionalGeneration, dtype=torch.bfloat16, avail mem=%.2f GB, mem usage=%.2f GB.",
			total.Seconds()+float64(rank)*0.11, gb(s.free()), gb(freeAtStart-s.free()))
	})
}

// capture records the decode graphs, largest batch first.
func (u *startup) capture() {
	s := u.s
	var sizes []int
	for b := 512; b > 256; b -= 16 {
		sizes = append(sizes, b)
	}
	for b := 256; b >= 8; b -= 8 {
		sizes = append(sizes, b)
	}
	sizes = append(sizes, 4, 2, 1)
	u.wait(time.Second)
	u.do(func() { s.phase = PhaseCapture })
	u.ranks(func(rank int) {
		s.log(rank, "Capture cuda graph begin. This can take up to several minutes. avail mem=%.2f GB", gb(s.free()))
	})
	u.do(func() {
		var list []string
		for i := len(sizes) - 1; i >= 0; i-- {
			list = append(list, fmt.Sprint(sizes[i]))
		}
		s.log(0, "Capture cuda graph bs [%s]", strings.Join(list, ", "))
	})
	if s.flags.headroom() < 0 {
		u.wait(8 * time.Second)
		u.do(func() {
			s.fail(0, "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 768.00 MiB.\nPossible solutions:\n1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\n2. set --cuda-graph-max-bs to a smaller value (e.g., 16)\n3. disable torch compile by not using --enable-torch-compile\n4. disable CUDA graph by --disable-cuda-graph. (Not recommended. Huge performance loss)")
		})
		return
	}
	total := 58 * time.Second
	for i, size := range sizes {
		u.do(func() {
			avail := gb(s.free()) - gb(s.flags.workspace())*float64(i)/float64(len(sizes))
			label := fmt.Sprintf("Capturing batches (bs=%d avail_mem=%.2f GB)", size, avail)
			s.raw(bar(label, blocks(i, len(sizes)), i, len(sizes), total*time.Duration(i)/time.Duration(len(sizes))))
		})
		u.wait(total / time.Duration(len(sizes)))
	}
	u.do(func() {
		s.graphs = true
		label := fmt.Sprintf("Capturing batches (bs=1 avail_mem=%.2f GB)", gb(s.free()))
		s.raw(bar(label, blocks(1, 1), len(sizes), len(sizes), total) + "\n")
	})
	u.ranks(func(rank int) {
		s.log(rank, "Capture cuda graph end. Time elapsed: %.2f s. mem usage=%.2f GB. avail mem=%.2f GB.",
			total.Seconds()+0.4+float64(rank)*0.02, gb(s.flags.workspace()), gb(s.free()))
	})
}

// host allocates the hierarchical cache's pool, page-locked, on each rank.
func (u *startup) host() {
	s := u.s
	u.do(func() { s.phase = PhaseHostPool })
	u.wait(500 * time.Millisecond)
	if s.flags.DisableRadix {
		u.do(func() {
			s.fail(0, "ValueError: The arguments enable-hierarchical-cache and disable-radix-cache are mutually exclusive and cannot be used at the same time. Please use only one of them.")
		})
		return
	}
	if have := s.n.Host().MemAvailable; s.flags.hostBytes() > have-10*gib {
		u.do(func() {
			s.fail(0, fmt.Sprintf("ValueError: Not enough host memory available. Requesting %.2f GB but only have %.2f GB free. Please reduce the size of the hierarchical cache.",
				float64(s.flags.hostBytes())/1e9, float64(have)/1e9))
		})
		return
	}
	if s.flags.hostTokens() <= s.flags.poolTokens() {
		u.do(func() {
			s.fail(0, "AssertionError: The host memory should be larger than the device memory with the current protocol")
		})
		return
	}
	u.ranks(func(rank int) {
		s.log(rank, "Allocating %.2f GB host memory for hierarchical KV cache.", float64(s.flags.hostBytes())/1e9)
	})
	u.wait(13 * time.Second)
	u.do(func() {
		if s.flags.hostBytes()*int64(s.flags.TP) > s.n.Host().MemAvailable {
			s.hostKill(5 % s.flags.TP)
			return
		}
		s.pinned = true
	})
	u.wait(13 * time.Second)
}

// hostKill is the kernel ending one rank because the host's memory is used up:
// each rank had checked only itself against it.
func (s *server) hostKill(rank int) {
	pid := s.pids[Scheduler(rank)]
	s.n.kernel(0, "sglang::schedul invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0")
	s.n.kernel(time.Millisecond, fmt.Sprintf("Out of memory: Killed process %d (sglang::schedul) total-vm:%dkB, anon-rss:%dkB, file-rss:1204kB, shmem-rss:0kB, UID:0 pgtables:412804kB oom_score_adj:0",
		pid, (s.flags.hostBytes()+90*gib)/1024, s.flags.hostBytes()/2/1024))
	s.child(Scheduler(rank), SIGKILL)
}

// serve opens the port, warms up and is ready.
func (u *startup) serve() {
	s := u.s
	u.wait(2 * time.Second)
	u.do(func() {
		s.phase = PhaseWarmup
		s.info("Started server process [%d]", s.pids[ServerMain])
		s.info("Waiting for application startup.")
		s.info("Application startup complete.")
		s.info("Uvicorn running on http://%s:%d (Press CTRL+C to quit)", s.flags.Host, s.flags.Port)
	})
	port := s.n.connection()
	u.wait(time.Second)
	fired := func() {
		s.log(mainRank, "The server is fired up and ready to roll!")
		s.phase = PhaseReady
		s.ready = s.n.at
	}
	u.do(func() {
		if s.flags.SkipWarmup {
			fired()
			return
		}
		s.access(port, "GET /model_info", 200)
		s.eng.add(&request{
			rid: requestID(&s.n.ids), prompt: 7, target: 8, limit: 8, port: port,
			answer: func(string) {
				s.access(port, "POST /generate", 200)
				fired()
			},
		})
	})
}

// usage is what the argument parser prints before it leaves.
func (s *server) usage(bad error) {
	if bad == nil {
		s.write(Stdout, "usage: launch_server.py [-h] --model-path MODEL_PATH [...]\n")
		s.die(0)
		return
	}
	s.raw("usage: launch_server.py [-h] --model-path MODEL_PATH [...]\nlaunch_server.py: error: " + bad.Error() + "\n")
	s.die(2)
}

// fail is a start that ends in an exception of one rank.
func (s *server) fail(rank int, last string) {
	s.warn(rank, "Scheduler hit an exception: Traceback (most recent call last):\n"+
		"  File \"/usr/local/lib/python3.12/dist-packages/sglang/srt/managers/scheduler.py\", line 2994, in run_scheduler_process\n"+
		"    scheduler = Scheduler(\n%s\n", last)
	s.warn(mainRank, "Received sigquit from a child process. It usually means the child failed.")
	s.die(137)
}

// unbalanced is the start beside another server that holds the cards.
func (s *server) unbalanced() {
	left := s.left()
	s.fail(0, fmt.Sprintf("RuntimeError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. pre_model_load_memory=%.4f, local_gpu_memory=%.4f, local_gpu_memory * 0.9=%.4f",
		gb(max(0, left)), gb(freeAtStart), gb(freeAtStart)*0.9))
}

func pyFloat(f float64) string {
	s := fmt.Sprint(f)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

func pyBool(b bool) string {
	if b {
		return "True"
	}
	return "False"
}

// arguments is the record that gives the effective settings.
func (s *server) arguments() string {
	f := s.flags
	quote := func(v string) string {
		if v == "" {
			return "None"
		}
		return "'" + v + "'"
	}
	number := func(v int) string {
		if v == 0 {
			return "None"
		}
		return fmt.Sprint(v)
	}
	fields := []string{
		"model_path=" + quote(f.ModelPath), "tokenizer_path=" + quote(f.ModelPath), "tokenizer_mode='auto'",
		"skip_tokenizer_init=False", "load_format='auto'", "trust_remote_code=True",
		fmt.Sprintf("context_length=%d", f.ContextLen), "host=" + quote(f.Host), fmt.Sprintf("port=%d", f.Port),
		"skip_server_warmup=" + pyBool(f.SkipWarmup), "dtype='auto'", "quantization=None",
		"kv_cache_dtype=" + quote(f.KVDtype), "mem_fraction_static=" + pyFloat(f.MemFraction),
		"max_running_requests=" + number(f.MaxRunning), "max_queued_requests=None", "max_total_tokens=None",
		fmt.Sprintf("chunked_prefill_size=%d", f.ChunkedSize), fmt.Sprintf("max_prefill_tokens=%d", f.MaxPrefill),
		"schedule_policy='fcfs'", "schedule_conservativeness=" + pyFloat(f.Conservative), "page_size=1",
		"device='cuda'", fmt.Sprintf("tp_size=%d", f.TP), "pp_size=1", "stream_interval=1", "random_seed=731594283",
		fmt.Sprintf("watchdog_timeout=%d", f.Watchdog), "log_level=" + quote(f.LogLevel), "log_requests=False",
		"enable_metrics=" + pyBool(f.Metrics), fmt.Sprintf("decode_log_interval=%d", f.LogInterval),
		"api_key=" + quote(f.APIKey), "served_model_name=" + quote(f.ServedName), "dp_size=1", "nnodes=1", "node_rank=0",
		"attention_backend='flashinfer'", "sampling_backend='flashinfer'", "ep_size=1",
		"enable_hierarchical_cache=" + pyBool(f.HiCache), "hicache_ratio=" + pyFloat(f.HiCacheRatio),
		fmt.Sprintf("hicache_size=%d", f.HiCacheSize), "hicache_write_policy='write_through'",
		"disable_radix_cache=" + pyBool(f.DisableRadix), "cuda_graph_max_bs=512", "disable_cuda_graph=False",
		"disaggregation_mode='null'",
	}
	return "server_args=ServerArgs(" + strings.Join(fields, ", ") + ")"
}
