package vllm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/runvigil/runvigil/metrics"
)

// record is one line of figures with what it must be read back as.
type record struct {
	line string
	want Batch
	mon  int
}

func tenths(r *rand.Rand, max float64) float64 { return math.Round(r.Float64()*max*10) / 10 }

// render prints a line as one of vLLM's versions does.
func render(r *rand.Rand) record {
	gen, in := tenths(r, 20000), tenths(r, 90000)
	run, wait, kv, hit := r.IntN(2000), r.IntN(5000), tenths(r, 100), tenths(r, 100)
	want := Batch{Engine: -1, GenTPS: num(gen), InputTPS: num(in), Running: num(float64(run)), Waiting: num(float64(wait)), KVUsage: percent(num(kv))}
	var b strings.Builder
	file := "[loggers.py:310]"
	switch version := r.IntN(6); version {
	case 0, 1: // V0, with and without a full stop
		file = []string{"metrics.py:161]", "[metrics.py:486]"}[r.IntN(2)]
		swapped, cpu := r.IntN(10), tenths(r, 100)
		fmt.Fprintf(&b, "Avg prompt throughput: %.1f tokens/s, Avg generation throughput: %.1f tokens/s, Running: %d reqs, Swapped: %d reqs, Pending: %d reqs, GPU KV cache usage: %.1f%%, CPU KV cache usage: %.1f%%", in, gen, run, swapped, wait, kv, cpu)
		if version == 1 {
			b.WriteString(".")
		}
		want.Swapped, want.CPUUsage = num(float64(swapped)), percent(num(cpu))
	case 2: // Rust front end
		file = "[log_stats.rs:273]"
		fmt.Fprintf(&b, "Avg prompt tput: %.1f toks/s, Avg generation tput: %.1f toks/s, Reqs Running: %d, Waiting: %d", in, gen, run, wait)
		want.Rust = true
		if r.IntN(2) == 0 {
			n := r.IntN(50)
			fmt.Fprintf(&b, ", Preemptions: %d", n)
			want.Preemptions = num(float64(n))
		}
		fmt.Fprintf(&b, ", GPU KV cache used: %.1f%%, Prefix cache hit rate: %.1f%%", kv, hit)
		want.PrefixHit = percent(num(hit))
	default:
		switch r.IntN(3) {
		case 0:
			want.Engine = r.IntN(300)
			fmt.Fprintf(&b, "Engine %03d: ", want.Engine)
		case 1:
			want.Engines = 1 + r.IntN(64)
			fmt.Fprintf(&b, "%d Engines Aggregated: ", want.Engines)
		}
		fmt.Fprintf(&b, "Avg prompt throughput: %.1f tokens/s, Avg generation throughput: %.1f tokens/s, Running: %d reqs, Waiting: %d reqs", in, gen, run, wait)
		option := func(format string, dst *Num, v float64, n Num) {
			if r.IntN(2) == 0 {
				fmt.Fprintf(&b, format, v)
				*dst = n
			}
		}
		d := float64(r.IntN(100))
		option(", Deferred: %.0f reqs", &want.Deferred, d, num(d))
		fmt.Fprintf(&b, ", GPU KV cache usage: %.1f%%, Prefix cache hit rate: %.1f%%", kv, hit)
		want.PrefixHit = percent(num(hit))
		option(", Corrupted: %.0f reqs", &want.Corrupted, d, num(d))
		ext, mm := tenths(r, 100), tenths(r, 100)
		option(", External prefix cache hit rate: %.1f%%", &want.ExternalHit, ext, percent(num(ext)))
		option(", MM cache hit rate: %.1f%%", &want.MMHit, mm, percent(num(mm)))
	}
	mon := 1 + r.IntN(12)
	line := fmt.Sprintf("INFO %02d-%02d %02d:%02d:%02d %s %s", mon, 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60), file, b.String())
	return record{wrap(r, line), want, mon}
}

// wrap puts around a line what collectors, terminals and launchers do.
func wrap(r *rand.Rand, line string) string {
	switch r.IntN(10) {
	case 0:
		line = "(APIServer pid=1) " + line
	case 1:
		line = "(ApiServer_3 pid=77123) " + line
	case 2:
		line = "\x1b[0;36m(APIServer pid=1)\x1b[0;0m " + strings.Replace(line, "INFO ", "\x1b[32mINFO\x1b[0m \x1b[90m", 1) + "\x1b[0m"
	case 3:
		line = "2025-10-15T00:41:08.771904410Z (APIServer pid=1) " + line
	case 4:
		line = "Sep 23 00:10:42 node-a vllm[361991]: " + line
	case 5:
		line = "vllm-1  | (APIServer pid=1) " + line
	case 6:
		line = "│ " + line + "      │"
	case 7:
		line = "Processed prompts:  10%|█    | 1/10 [00:01<00:09,  1.02it/s](APIServer pid=9) " + line
	case 8:
		line = "[tt-server-0aa] (APIServer pid=1) " + line + "\r"
	}
	return line
}

func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var p Parser
	for i := range 100_000 {
		rec := render(r)
		n := 0
		p.Feed([]byte(rec.line+"\n"), func(ev *Event) {
			if ev.Kind != KindBatch {
				return
			}
			n++
			if *ev.Batch != rec.want {
				t.Fatalf("line %d: %q\n got %+v\nwant %+v", i, rec.line, *ev.Batch, rec.want)
			}
			if ev.Line != int64(i+1) || ev.Level != 'I' || !strings.HasPrefix(ev.At.String(), fmt.Sprintf("%02d-", rec.mon)) {
				t.Fatalf("line %d: %q: %+v", i, rec.line, ev)
			}
		})
		if n != 1 {
			t.Fatalf("line %d: %d events of %q", i, n, rec.line)
		}
	}
}

// A record that a terminal or an exporter wrapped is read as one, wherever the cut is.
func TestFolded(t *testing.T) {
	line := "(APIServer pid=1) INFO 10-14 17:41:08 [loggers.py:123] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 571.2 tokens/s, Running: 27 reqs, Waiting: 62 reqs, GPU KV cache usage: 99.7%, Prefix cache hit rate: 46.2%"
	from := strings.Index(line, "Avg generation")
	to := strings.Index(line, "%,")
	for cut := from; cut <= to; cut++ {
		s := fold([]byte(line[:cut] + "\n" + line[cut:] + "\n"))
		l := s.Level()
		if l.GenTPS.V != 571.2 || l.Running.V != 27 || l.Queued.V != 62 || l.Usage.V != 0.997 {
			t.Errorf("cut at %q|%q: %+v", line[cut-8:cut], line[cut:cut+8], l)
		}
	}
}

func TestWrappers(t *testing.T) {
	stats := "Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 25.5 tokens/s, Running: 7 reqs, Waiting: 2 reqs, GPU KV cache usage: 50.0%, Prefix cache hit rate: 64.4%"
	for name, log := range map[string]string{
		"docker":         `{"log":"(APIServer pid=1) \u001b[32mINFO\u001b[0m 07-29 06:22:21 [loggers.py:310] Engine 000: ` + stats + `\n","stream":"stdout","time":"2026-07-29T06:22:21.5Z"}`,
		"two records":    `{"log":"x\n","time":"2026-07-29T06:22:20Z"}{"log":"INFO 07-29 06:22:21 [loggers.py:310] Engine 000: ` + stats + `\n","time":"2026-07-29T06:22:21.5Z"}`,
		"own logging":    "2026-07-29 06:22:21,123 - vllm.v1.metrics.loggers - INFO - Engine 000: " + stats,
		"basicConfig":    "INFO:vllm.engine.metrics:" + stats,
		"cut in front":   "gers.py:310] Engine 000: " + stats,
		"cut in figures": "put: 1.0 tokens/s, Avg generation throughput: 25.5 tokens/s, " + stats[strings.Index(stats, "Running"):],
		"cloud":          "INFO 2026-07-29T06:22:21.123Z (APIServer pid=1) INFO 07-29 06:22:21 [loggers.py:310] Engine 000: " + stats,
		"cri":            "2026-07-29T06:22:21.123456789Z stdout F (APIServer pid=1) INFO 07-29 06:22:21 [loggers.py:310] Engine 000: " + stats,
		"ray":            "(ServeReplica:app:LLM pid=77, ip=10.0.0.3) INFO 07-29 06:22:21 [loggers.py:310] " + stats,
		"newest first":   "INFO 07-29 06:22:21 [loggers.py:310] " + stats + "\nINFO 07-29 06:22:11 [loggers.py:310] " + strings.Replace(stats, "25.5", "99.9", 1),
	} {
		l := fold([]byte(log + "\n")).Level()
		if l.Engines != 1 || l.GenTPS.V != 25.5 || l.Running.V != 7 || l.Usage.V != 0.5 || l.PrefixHit.V != 0.644 {
			t.Errorf("%s: %+v", name, l)
		}
	}
	if l := fold([]byte(stats[strings.Index(stats, "Running"):] + "\n")).Level(); l.Running.V != 7 || l.Usage.V != 0.5 || l.GenTPS.Known {
		t.Errorf("cut before the first key: %+v", l)
	}
	s := fold([]byte("WARNING 07-04 14:04:49 scheduler.py:1057] Sequence group 0 is preempted by PreemptionMode.SWAP mode because there is not enough KV cache space. total_num_cumulative_preemption=51\n"))
	if s.Preemptions() != 51 {
		t.Errorf("preemptions %d", s.Preemptions())
	}
}

func TestPromptsAreNotTheLog(t *testing.T) {
	stats := "INFO 10-14 17:41:08 [loggers.py:123] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 9.9 tokens/s, Running: 9 reqs, Waiting: 9 reqs, GPU KV cache usage: 9.9%, Prefix cache hit rate: 9.9%"
	for _, log := range []string{
		"(APIServer pid=1) INFO 10-14 17:41:08 [logger.py:39] Received request cmpl-1: prompt: '" + stats + "', params: SamplingParams(n=1)\n",
		"INFO 10-14 17:41:08 [logger.py:39] Received request chatcmpl-2: prompt: 'why torch.OutOfMemoryError: CUDA out of memory. Tried', params: x\n",
		`{"prompt": "` + stats + `"}` + "\n",
		"(APIServer pid=1) INFO 10-14 17:41:08 [x.py:1] messages: " + stats + "\n",
		"and then the prompt: " + stats + "\n",
		"ValueError: Free memory? No: RuntimeError: text of a user\n",
	} {
		s := fold([]byte(log))
		if l := s.Level(); l.Engines != 0 {
			t.Errorf("%q set figures: %+v", log, l)
		}
		if st := s.Now(); st != nil && len(st.Faults) > 0 {
			t.Errorf("%q raised %+v", log, st.Faults)
		}
	}
}

const startLog = `(APIServer pid=1) INFO 07-29 06:10:00 [utils.py:233]        █     █     █▄   ▄█       version 0.19.0
(APIServer pid=1) INFO 07-29 06:10:00 [utils.py:233]  ▄▄ ▄█ █     █     █ ▀▄▀ █  model   moonshotai/Kimi-K2.5
(APIServer pid=1) INFO 07-29 06:10:00 [utils.py:261] non-default args: {'model_tag': 'moonshotai/Kimi-K2.5', 'api_key': ['sk-abcdefghijklmnopqrst'], 'port': 8001, 'tensor_parallel_size': 2, 'gpu_memory_utilization': 0.88, 'compilation_config': {'mode': 3, 'x': [1, 2]}}
(APIServer pid=1) INFO 07-29 06:10:05 [model.py:1500] Using max model len 40960
(EngineCore pid=88) INFO 07-29 06:10:10 [core.py:100] Initializing a V1 LLM engine (v0.19.0) with config: model='moonshotai/Kimi-K2.5', speculative_config=None, max_seq_len=40960, seed=0
(Worker_TP0 pid=90) INFO 07-29 06:10:12 [parallel_state.py:1300] world_size=2 rank=0 local_rank=0 distributed_init_method=tcp://127.0.0.1:1 backend=nccl
(Worker_TP0 pid=90) INFO 07-29 06:10:14 [gpu_model_runner.py:3000] Starting to load model moonshotai/Kimi-K2.5...
Loading safetensors checkpoint shards:  25% Completed | 1/4 [00:01<00:03,  1.02s/it]
Loading safetensors checkpoint shards: 100% Completed | 4/4 [00:04<00:00,  1.01s/it]
(Worker_TP0 pid=90) INFO 07-29 06:10:20 [default_loader.py:300] Loading weights took 4.51 seconds
(Worker_TP0 pid=90) INFO 07-29 06:10:21 [gpu_model_runner.py:3100] Model loading took 12.66 GiB memory and 6.402177 seconds
(Worker_TP1 pid=91) INFO 07-29 06:10:21 [gpu_model_runner.py:3100] Model loading took 12.70 GiB memory and 6.1 seconds
(Worker_TP0 pid=90) INFO 07-29 06:10:30 [backends.py:700] Dynamo bytecode transform time: 8.71 s
(Worker_TP0 pid=90) INFO 07-29 06:11:00 [monitor.py:34] torch.compile takes 38.20 s in total
(Worker_TP0 pid=90) INFO 07-29 06:11:05 [gpu_worker.py:300] Available KV cache memory: 60.51 GiB
(EngineCore pid=88) INFO 07-29 06:11:05 [kv_cache_utils.py:1200] GPU KV cache size: 643,232 tokens, Maximum concurrency for 40,960 tokens per request: 15.70x
(Worker_TP0 pid=90) Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  50%|█████     | 34/67 [00:02<00:02, 15.01it/s]
(Worker_TP0 pid=90) INFO 07-29 06:11:20 [gpu_model_runner.py:4000] Graph capturing finished in 15 secs, took 0.65 GiB
(Worker_TP0 pid=90) INFO 07-29 06:11:20 [gpu_worker.py:400] Free memory on device (94.10/95.60 GiB) on startup. Desired GPU memory utilization is (0.88, 84.13 GiB). Actual usage is 12.7 GiB for consumed memory (weights + non-torch), 3.2 GiB for peak activation, and 0.65 GiB for CUDAGraph memory. Replace gpu_memory_utilization config with ` + "`--kv-cache-memory=64970000000`" + `
(EngineCore pid=88) INFO 07-29 06:11:21 [core.py:200] init engine (profile, create kv cache, warmup model) took 60.03 s (compilation: 38.20 s)
(APIServer pid=1) INFO 07-29 06:11:25 [api_server.py:1400] Starting vLLM server on http://0.0.0.0:8001
(APIServer pid=1) INFO:     Started server process [1]
(APIServer pid=1) INFO:     Waiting for application startup.
(APIServer pid=1) INFO:     Application startup complete.
`

func TestStart(t *testing.T) {
	st := fold([]byte(startLog)).Now()
	if st.Version != "0.19.0" || st.Model != "moonshotai/Kimi-K2.5" || st.Port != 8001 || st.MaxLen.V != 40960 || st.Capacity.V != 643232 ||
		st.Concurrency.V != 15.7 || st.WeightGB.V != 12.7 || st.KVGB.V != 60.51 || st.GraphGB.V != 0.65 || st.FreeGB.V != 94.1 || st.TotalGB.V != 95.6 ||
		st.Util.V != 0.88 || st.PeakGB.V != 3.2 || st.KVBytes.V != 64970000000 || st.CaptureS.V != 15 || st.InitS.V != 60.03 || !st.Ready || st.Phase != PhaseReady || st.PID != 1 {
		t.Errorf("%+v", st)
	}
	if st.Flags["tensor_parallel_size"] != "2" || st.Flags["compilation_config"] == "" || strings.Contains(fmt.Sprint(st.Flags), "sk-abc") {
		t.Errorf("flags: %v", st.Flags)
	}
	if len(st.Faults) != 0 || len(st.Took) < 5 {
		t.Errorf("faults %+v took %+v", st.Faults, st.Took)
	}
	s := fold([]byte(startLog + startLog))
	if len(s.Starts()) != 2 {
		t.Errorf("%d starts of two", len(s.Starts()))
	}
	for cut := range strings.Count(startLog, "\n") {
		lines := strings.SplitAfterN(startLog, "\n", cut+2)
		if st := fold([]byte(strings.Join(lines[:cut+1], ""))).Now(); st != nil && len(st.Faults) > 0 {
			t.Errorf("after line %d: %+v", cut, st.Faults)
		}
	}
}

func TestDataParallelSum(t *testing.T) {
	var b strings.Builder
	for e := range 4 {
		fmt.Fprintf(&b, "(APIServer pid=1) INFO 07-29 06:22:21 [loggers.py:310] Engine %03d: Avg prompt throughput: 10.0 tokens/s, Avg generation throughput: 100.5 tokens/s, Running: %d reqs, Waiting: 1 reqs, GPU KV cache usage: %d.0%%, Prefix cache hit rate: 64.4%%\n", e, e, e*10)
		fmt.Fprintf(&b, "(EngineCore_DP%d pid=1) INFO 07-29 06:20:00 [kv_cache_utils.py:1200] GPU KV cache size: 1,000 tokens\n", e)
	}
	s := fold([]byte(b.String()))
	if l := s.Level(); l.Engines != 4 || l.Running.V != 6 || l.Queued.V != 4 || l.GenTPS.V != 402 || l.Usage.V != 0.3 || math.Round(l.Tokens.V) != 600 {
		t.Errorf("%+v", l)
	}
	if c := s.Now().Capacity; c.V != 4000 {
		t.Errorf("capacity %v of four engines", c.V)
	}
}

func TestCauses(t *testing.T) {
	for name, c := range map[string]struct {
		log   string
		class metrics.Cause
		phase string
	}{
		"kv too small": {startLog[:strings.Index(startLog, "(EngineCore pid=88) INFO 07-29 06:11:05")] + "(EngineCore pid=88) ERROR 07-29 06:11:05 [core.py:800] EngineCore failed to start.\n(EngineCore pid=88) ERROR 07-29 06:11:05 [core.py:800] Traceback (most recent call last):\n(EngineCore pid=88) ERROR 07-29 06:11:05 [core.py:800] ValueError: To serve at least one request with the models's max seq len (262144), (15.25 GiB KV cache is needed, which is larger than the available KV cache memory (6.70 GiB). Based on the available memory, the estimated maximum model length is 115168.\n(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n",
			metrics.CauseStartupKVTooSmall, PhaseStartup},
		"capture": {startLog[:strings.Index(startLog, "(Worker_TP0 pid=90) INFO 07-29 06:11:20")] + "(Worker_TP0 pid=90) ERROR 07-29 06:11:18 [multiproc_executor.py:600] WorkerProc hit an exception.\n(Worker_TP0 pid=90) ERROR 07-29 06:11:18 [multiproc_executor.py:600] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 MiB. GPU 0 has a total capacity of 94.97 GiB of which 38.94 MiB is free.\n",
			metrics.CauseCaptureOOM, PhaseCapture},
		"serving oom": {startLog + "(EngineCore pid=88) ERROR 07-29 07:11:18 [core.py:900] EngineCore encountered a fatal error.\n(EngineCore pid=88) ERROR 07-29 07:11:18 [core.py:900] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n(APIServer pid=1) ERROR 07-29 07:11:18 [async_llm.py:700] AsyncLLM output_handler failed.\n(APIServer pid=1) ERROR 07-29 07:11:18 [async_llm.py:700] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.\n",
			metrics.CauseCUDAOOM, PhaseServing},
		"rpc": {startLog + "(EngineCore pid=88) ERROR 07-29 07:11:18 [core.py:900] TimeoutError: RPC call to sample_tokens timed out.\n", metrics.CauseServerHung, PhaseServing},
		"worker killed": {startLog + "(EngineCore pid=88) ERROR 07-29 07:11:18 [multiproc_executor.py:284] Worker proc VllmWorker-0 died unexpectedly (exit code: -9), shutting down executor.\n(APIServer pid=1) ERROR 07-29 07:11:18 [async_llm.py:700] AsyncLLM output_handler failed.\n",
			metrics.CauseWorkerDied, PhaseServing},
		"flag":             {"usage: vllm serve [model_tag] [options]\nvllm serve: error: unrecognized arguments: --mem-fraction-static 0.88\n", metrics.CauseBadFlag, ""},
		"nccl":             {startLog + "[rank0]:[E1129 04:10:52.118 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9208, OpType=ALLREDUCE, NumelIn=1, Timeout(ms)=600000) ran for 600028 milliseconds before timing out.\n", metrics.CauseNCCLTimeout, PhaseServing},
		"model":            {"(APIServer pid=1) Traceback (most recent call last):\n(APIServer pid=1)   File \"/x/vllm/config/model.py\", line 5, in y\n(APIServer pid=1) pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n(APIServer pid=1)   Value error, Model architectures ['X'] are not supported for now.\n", metrics.CauseBadFlag, ""},
		"engine exception": {startLog + "(EngineCore pid=88) ERROR 07-29 07:11:18 [core.py:900] EngineCore encountered a fatal error.\n(EngineCore pid=88) ERROR 07-29 07:11:18 [core.py:900] Traceback (most recent call last):\n(EngineCore pid=88) ERROR 07-29 07:11:18 [core.py:900]   File \"/x/vllm/v1/engine/core.py\", line 5, in step\n(EngineCore pid=88) ERROR 07-29 07:11:18 [core.py:900] AssertionError: request not in batch\n", metrics.CauseSchedulerException, PhaseServing},
		"moved":            {startLog[:strings.Index(startLog, "(Worker_TP0 pid=90) INFO 07-29 06:11:05")] + "(EngineCore pid=88) ERROR 07-29 06:11:04 [core.py:900] AssertionError: Error in memory profiling. Initial free memory 60 GiB, current free memory 70 GiB.\n", metrics.CauseStartupGPUOccupied, PhaseStartup},
	} {
		s := fold([]byte(c.log))
		var primary FaultAt
		for _, f := range s.Now().Causes(false) {
			if f.Primary {
				primary = f
			}
		}
		if primary.Class != c.class || c.phase != "" && primary.Phase != c.phase {
			t.Errorf("%s: %s in %q, want %s in %q: %+v", name, primary.Class, primary.Phase, c.class, c.phase, s.Now().Faults)
		}
		if primary.Advice() == "" {
			t.Errorf("%s: no advice", name)
		}
	}
}

func TestShutdownIsNoFault(t *testing.T) {
	s := fold([]byte(startLog + "(APIServer pid=1) INFO 07-29 08:00:00 [launcher.py:100] [shutdown] API server: shutdown triggered\n(APIServer pid=1) ERROR 07-29 08:00:01 [async_llm.py:700] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.\n(APIServer pid=1) INFO:     Application shutdown complete.\n"))
	st := s.Now()
	for _, f := range st.Causes(false) {
		if f.Primary {
			t.Errorf("%+v", f)
		}
	}
	if !st.Asked || !st.Stopped {
		t.Errorf("%+v", st)
	}
}

func TestEveryRuleNamesAListedCause(t *testing.T) {
	for _, r := range rules {
		if _, ok := r.class.Info(); !ok {
			t.Errorf("%v: class %q is not in the list", r.has, r.class)
		}
	}
}

func FuzzFeed(f *testing.F) {
	for _, c := range readCases(f, "vllm") {
		f.Add(c.data, uint8(13))
	}
	f.Add([]byte(startLog), uint8(100))
	r := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		f.Add([]byte(render(r).line+"\n"), uint8(5))
	}
	f.Fuzz(func(t *testing.T, data []byte, n uint8) {
		var p Parser
		s := &State{}
		check := func(text string) {
			if len(text) > 512 || text != metrics.Clean(text, 0) {
				t.Fatalf("dirty %q", text)
			}
		}
		apply := func(ev *Event) {
			s.Apply(ev)
			check(ev.Proc)
			if ev.Fault != nil {
				check(ev.Fault.Detail)
				check(ev.Fault.Op)
				check(ev.Fault.Worker)
				check(ev.Fault.Holder)
			}
			if ev.Access != nil {
				check(ev.Access.Path)
				check(ev.Access.Client)
			}
			if ev.Startup != nil {
				check(ev.Startup.Version)
				check(ev.Startup.Model)
				check(ev.Startup.Addr)
				for k, v := range ev.Startup.Flags {
					check(k)
					check(v)
				}
			}
			if ev.Progress != nil {
				check(ev.Progress.Label)
			}
		}
		for step := int(n) + 1; len(data) > 0; {
			k := min(step, len(data))
			p.Feed(data[:k], apply)
			data = data[k:]
		}
		p.Flush(apply)
		s.Level()
		for _, st := range s.Starts() {
			for _, fa := range st.Causes(s.NewestFirst()) {
				fa.Advice()
			}
		}
		if len(p.held) > maxHeldBytes+metrics.MaxLine {
			t.Fatalf("kept %d bytes", len(p.held))
		}
	})
}

func bench(b *testing.B, line string) {
	data := []byte(strings.Repeat(line+"\n", 1000))
	b.SetBytes(int64(len(data)))
	var p Parser
	var s State
	for b.Loop() {
		p.Feed(data, func(ev *Event) { s.Apply(ev) })
	}
	b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds(), "lines/s")
}

func BenchmarkBatch(b *testing.B) {
	bench(b, "(APIServer pid=1) INFO 07-29 06:22:21 [loggers.py:310] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 25.0 tokens/s, Running: 0 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.0%, Prefix cache hit rate: 64.4%, MM cache hit rate: 66.7%")
}

func BenchmarkAccess(b *testing.B) {
	bench(b, `(APIServer pid=1) INFO:     10.0.0.7:42710 - "POST /v1/chat/completions HTTP/1.1" 200 OK`)
}

func BenchmarkPrompt(b *testing.B) {
	bench(b, "(APIServer pid=1) INFO 07-29 06:22:21 [logger.py:39] Received request cmpl-1: prompt: '"+strings.Repeat("some words of a user ", 60)+"', params: SamplingParams(n=1)")
}

func BenchmarkOther(b *testing.B) {
	bench(b, "(Worker_TP0 pid=697) some line of a library that says nothing of interest to anybody who reads it here, with numbers 1 2 3")
}
