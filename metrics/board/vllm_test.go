package board

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

func vllmProc(pid int, more ...string) metrics.Proc {
	return metrics.Proc{
		PID: pid, PPID: 1, PGID: pid, SID: pid, Start: ticksAgo(600), State: "S", Comm: "vllm", Cwd: "/data/run", FD1: "/data/run/vllm.log", FD2: "/data/run/vllm.log",
		Argv:   append([]string{"/usr/bin/python3", "/opt/venv/bin/vllm", "serve", "/models/Qwen3-235B"}, more...),
		Listen: []metrics.ListenAddr{{Addr: "0.0.0.0", Port: 8000}},
	}
}

func vllmChild(pid, parent int, title string) metrics.Proc {
	return metrics.Proc{PID: pid, PPID: parent, PGID: parent, Start: ticksAgo(590), State: "R", Comm: title[:min(15, len(title))], Argv: []string{title}}
}

// scrape is /metrics of two data parallel engines.
func scrape(running, waiting float64, usage [2]float64, generated, steps, preempted float64) string {
	var b strings.Builder
	b.WriteString("# TYPE vllm:num_requests_running gauge\n")
	for e := range 2 {
		l := fmt.Sprintf(`engine="%d",model_name="Qwen3-235B"`, e)
		fmt.Fprintf(&b, "vllm:num_requests_running{%s} %v\nvllm:num_requests_waiting{%s} %v\nvllm:kv_cache_usage_perc{%s} %v\n", l, running/2, l, waiting/2, l, usage[e])
		fmt.Fprintf(&b, "vllm:generation_tokens_total{%s} %v\nvllm:iteration_tokens_total_count{%s} %v\nvllm:num_preemptions_total{%s} %v\n", l, generated/2, l, steps/2, l, preempted/2)
		fmt.Fprintf(&b, "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"10000\",%s} 1.0\n", l)
	}
	return b.String()
}

// Under data parallelism vLLM prints no line of figures: the figures, the level
// and the hang come from /metrics.
func TestVLLMDataParallel(t *testing.T) {
	r := newRig(t)
	r.json(metrics.KindScan, "", metrics.Scan{UptimeS: 100_000, Procs: []metrics.Proc{
		vllmProc(500, "-dp", "2", "--data-parallel-size", "2", "--max-num-seqs", "256"), vllmChild(501, 500, "VLLM::EngineCore_DP0"), vllmChild(502, 500, "VLLM::EngineCore_DP1"),
	}})
	r.log("/data/run/vllm.log", "(ApiServer_0 pid=503) INFO 02-24 11:55:00 [api_server.py:1977] vLLM API server version 0.14.0\n"+
		"INFO 02-24 11:55:01 [arg_utils.py:100] Defaulting api_server_count to data_parallel_size (2).\n"+
		"(ApiServer_0 pid=503) WARNING 02-24 11:55:10 [async_llm.py:120] AsyncLLM created with api_server_count more than 1; disabling stats logging to avoid incomplete stats.\n"+
		"(ApiServer_0 pid=503) INFO:     Application startup complete.\n", metrics.LogHeader{})
	r.http(8000, "/v1/models", 200, `{"object":"list","data":[{"id":"Qwen3-235B","object":"model","owned_by":"vllm","root":"/models/Qwen3-235B","parent":null,"max_model_len":40960}]}`)
	var s *metrics.Snapshot
	for i := range 200 {
		r.http(8000, "/metrics", 200, scrape(40, 6, [2]float64{0.8, 0.6}, float64(4000*i), float64(100*i), float64(i/100)))
		s = r.tick(5 * time.Second)
	}
	v := s.Server()
	if v == nil || v.State != metrics.ServerServing || v.Running.V != 40 || v.Queued.V != 6 || v.KVUsage.V != 0.8 || v.Running.Source != "/metrics" {
		t.Fatalf("server: %+v", v)
	}
	if v.Gen.Now.V != 800 || !v.Gen.Settled.Known || v.Gen.Settled.V != 800 || v.Gen.Settled.Source != "/metrics" {
		t.Errorf("rates: %+v", v.Gen)
	}
	if v.Capacity.V != 320_000 || v.ContextLen.V != 40_960 || v.MaxRunning.V != 256 || v.DP != 2 {
		t.Errorf("capacity %v context %v max %v DP %d", v.Capacity.V, v.ContextLen.V, v.MaxRunning.V, v.DP)
	}
	if want := 0.7 * 320_000 / 40; !v.PerRequest.Known || v.PerRequest.V < want-1 || v.PerRequest.V > want+1 {
		t.Errorf("tokens a request %v, want %v", v.PerRequest.V, want)
	}
	if !v.Retracted.Known {
		t.Error("preemptions are unknown")
	}
	// The counters stand: requests run, and no step was made.
	for range 14 {
		r.http(8000, "/metrics", 200, scrape(40, 6, [2]float64{0.8, 0.6}, 4000*199, 100*199, 1))
		r.http(8000, "/health", 200, "")
		s = r.tick(5 * time.Second)
	}
	if v := s.Server(); v.State != metrics.ServerHung {
		t.Errorf("state %s after 70 s without a step", v.State)
	}
	found := false
	for _, f := range s.Findings {
		found = found || f.ID == "server-hung"
	}
	if !found {
		t.Errorf("findings %+v", s.Findings)
	}
}

// A first look at a busy server is no hang: a minute has to be watched.
func TestVLLMFirstScrapeIsNoHang(t *testing.T) {
	r := newRig(t)
	r.json(metrics.KindScan, "", metrics.Scan{UptimeS: 100_000, Procs: []metrics.Proc{vllmProc(500), vllmChild(501, 500, "VLLM::EngineCore")}})
	for range 8 {
		r.http(8000, "/metrics", 200, scrape(2, 0, [2]float64{0.1, 0.1}, 10, 10, 0))
		if s := r.tick(5 * time.Second); s.Server().State == metrics.ServerHung {
			t.Fatal("hung after seconds")
		}
	}
}

// Workers that outlived their server hold the memory; nobody owns them.
func TestVLLMOrphans(t *testing.T) {
	r := newRig(t)
	r.json(metrics.KindScan, "", metrics.Scan{UptimeS: 100_000, Procs: []metrics.Proc{vllmChild(501, 1, "VLLM::EngineCore"), vllmChild(502, 1, "VLLM::Worker_TP0")}})
	var s *metrics.Snapshot
	for range 8 {
		r.b.Apply(metrics.Frame{Kind: metrics.KindGPU, At: r.at, Data: []byte("index,uuid,memory.total,memory.used,utilization.gpu\n0, GPU-a, 97887, 90000, 0\n")})
		r.b.Apply(metrics.Frame{Kind: metrics.KindGPUApps, At: r.at, Data: []byte("gpu_uuid,pid,process_name,used_memory\nGPU-a, 502, VLLM::Worker_TP0, 89000\n")})
		s = r.tick(5 * time.Second)
	}
	if len(s.Servers) != 0 || len(s.Clients) != 0 {
		t.Errorf("servers %+v clients %+v", s.Servers, s.Clients)
	}
	held := false
	for _, f := range s.Findings {
		held = held || f.ID == "gpu-memory-held" && strings.Contains(f.Title, "orphan")
	}
	if !held {
		t.Errorf("findings %+v", s.Findings)
	}
}

// The fold's classes reach the snapshot: a phase, and what figures alone tell.
func TestVLLMCauses(t *testing.T) {
	const head = "(APIServer pid=500) INFO 02-24 11:59:00 [api_server.py:1977] vLLM API server version 0.11.2\n"
	for _, c := range []struct {
		name, log string
		class     metrics.Cause
		ready     bool
	}{
		{"no room", head + "(EngineCore_DP0 pid=501) INFO 02-24 11:59:30 [gpu_worker.py:359] Available KV cache memory: -1.09 GiB\n", metrics.CauseStartupNoKVMemory, false},
		{"port", head + "(APIServer pid=500) INFO:     Started server process [500]\n(APIServer pid=500) INFO:     Waiting for application startup.\n" +
			"(APIServer pid=500) INFO:     Application startup complete.\n" +
			"(APIServer pid=500) ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use\n", metrics.CausePortInUse, false},
		{"capture", head + "(Worker_TP0 pid=502) INFO 02-24 11:59:40 [gpu_model_runner.py:4000] Starting to load model m...\n" +
			"(Worker_TP0 pid=502) Capturing CUDA graphs (decode, FULL):  10%|█         | 4/35 [00:01<00:08,  3.8it/s]\n" +
			"(Worker_TP0 pid=502) ERROR 02-24 11:59:50 [multiproc_executor.py:627] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 768.00 MiB.\n", metrics.CauseCaptureOOM, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.json(metrics.KindScan, "", metrics.Scan{UptimeS: 100_000, Procs: []metrics.Proc{vllmProc(500)}})
			r.tick(2 * time.Second)
			r.log("/data/run/vllm.log", c.log, metrics.LogHeader{})
			r.tick(2 * time.Second)
			r.json(metrics.KindScan, "", metrics.Scan{UptimeS: 100_003, Procs: []metrics.Proc{{PID: 9, PPID: 1, State: "S", Argv: []string{"bash"}}}})
			v := r.tick(3 * time.Second).Server()
			if v == nil || len(v.Causes) == 0 || v.Causes[0].Class != c.class || !v.Causes[0].Primary {
				t.Fatalf("server %+v", v)
			}
			if !v.Phase.Ready.IsZero() != c.ready {
				t.Errorf("ready at %v", v.Phase.Ready)
			}
		})
	}
}
