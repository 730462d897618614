package findings

import (
	"time"

	"github.com/runvigil/runvigil/metrics"
)

func serverCases() []caseOf {
	const warning, critical, info = metrics.SeverityWarning, metrics.SeverityCritical, metrics.SeverityInfo
	no := false
	starting := func(s *metrics.Snapshot, phase string, took time.Duration) *metrics.Server {
		s.Clients, s.Datasets, s.Job = nil, nil, metrics.Job{}
		v := &s.Servers[0]
		*v = metrics.Server{ID: "1:1", Engine: "sglang", PID: 1, State: metrics.ServerStarting, Started: noon.Add(-took), Log: metrics.LogRef{Path: "/data/logs/sglang.log"}}
		v.Phase = metrics.Phase{Name: phase, Since: noon.Add(-took), LastSign: noon}
		return v
	}
	down := func(s *metrics.Snapshot, c metrics.CauseFact) *metrics.Server {
		v := &s.Servers[0]
		c.Primary = true
		v.State, v.Ended, v.Causes = metrics.ServerDown, noon.Add(-time.Minute), []metrics.CauseFact{c}
		return v
	}
	steady := func(s *metrics.Snapshot) {
		series(s, metrics.SeriesGenTPS, "1:1", flat(606))
		series(s, metrics.SeriesRunning, "1:1", flat(35))
		series(s, metrics.SeriesQueued, "1:1", flat(115))
		series(s, metrics.SeriesPerReq, "1:1", flat(4400))
		series(s, metrics.SeriesKVUsage, "1:1", flat(0.97))
	}
	slower := func(s *metrics.Snapshot) {
		steady(s)
		series(s, metrics.SeriesGenTPS, "1:1", func(age time.Duration) float64 {
			if age < 10*time.Minute {
				return 350
			}
			return 606
		})
	}
	twoOf := func(s *metrics.Snapshot) *metrics.Server {
		a := &s.Servers[0]
		a.PID, a.Port, a.TP = 1, 8000, 8
		b := *a
		b.ID, b.PID, b.Started = "2:2", 2, noon.Add(-5*time.Minute)
		s.Servers = append(s.Servers, b)
		return &s.Servers[1]
	}
	guarded := func(s *metrics.Snapshot, g metrics.Guard) {
		g.Why = "degrades the model noticeably"
		s.Guards = []metrics.Guard{g}
	}
	kv := metrics.Guard{Flag: "kv-cache-dtype", Deny: []string{"fp8*"}}
	return []caseOf{
		{"one is expected and none is there", func(s *metrics.Snapshot) {
			*s = metrics.Snapshot{Node: "gpu7", At: noon, Link: s.Link, Config: metrics.Config{Expected: true}, Procs: []metrics.Proc{{PID: 1}}}
		}, "server-down", critical, "", []string{"no server runs on gpu7", "or set expected = false"}, nil},
		{"host cache too small", func(s *metrics.Snapshot) {
			v := down(s, metrics.CauseFact{Class: metrics.CauseStartupHostCache})
			v.Capacity, v.BytesPerTok = fig(159277), fig(70272)
		}, "server-oom", critical, metrics.CauseStartupHostCache, []string{"raise --hicache-size above 12"}, nil},
		{"the kernel killed it", func(s *metrics.Snapshot) {
			v := down(s, metrics.CauseFact{Class: metrics.CauseHostOOMKilled, Line: "Out of memory: Killed process 1"})
			v.HiCache, v.TP = metrics.HiCache{On: true, SizeGB: 48}, 8
		}, "server-oom", critical, metrics.CauseHostOOMKilled, []string{"lower --hicache-size from 48", "Killed process 1"}, nil},
		{"KV pool exhausted", func(s *metrics.Snapshot) {
			down(s, metrics.CauseFact{Class: metrics.CauseKVPoolExhausted, Phase: "prefill"})
		},
			"server-oom", critical, metrics.CauseKVPoolExhausted, []string{"--max-running-requests", "--schedule-conservativeness"}, nil},
		{"out of memory in vLLM's decode", func(s *metrics.Snapshot) {
			down(s, metrics.CauseFact{Class: metrics.CauseCUDAOOM, Phase: "decode"}).Engine = "vllm"
			s.Servers[0].Argv = []string{"vllm", "serve", "--gpu-memory-utilization", "0.95"}
		}, "server-oom", critical, metrics.CauseCUDAOOM, []string{"--max-num-seqs", "--gpu-memory-utilization below 0.95"}, nil},
		{"capture failed", func(s *metrics.Snapshot) { down(s, metrics.CauseFact{Class: metrics.CauseCaptureOOM}) },
			"server-oom", critical, metrics.CauseCaptureOOM, []string{"lower --mem-fraction-static below 0.88"}, nil},

		{"somebody restarted it with other flags", func(s *metrics.Snapshot) {
			v := &s.Servers[0]
			v.Started, v.PID = noon.Add(-10*time.Minute), 30
			v.Argv = []string{"python", "--mem-fraction-static", "0.90", "--kv-cache-dtype", "fp8_e4m3"}
			v.Replaced = &metrics.ReplacedServer{ID: "9:9", Argv: []string{"python", "--mem-fraction-static=0.88", "--enable-metrics"}, Ended: noon.Add(-11 * time.Minute)}
			s.Procs = []metrics.Proc{{PID: 30, PPID: 20}, {PID: 20, PPID: 1, Argv: []string{"sshd: anna@pts/3"}}}
		}, "server-replaced", warning, "", []string{"--mem-fraction-static 0.88 → 0.90", "+--kv-cache-dtype fp8_e4m3", "without --enable-metrics", "anna@pts/3", "ask who did it"}, nil},
		{"it was restarted from here", func(s *metrics.Snapshot) {
			s.Servers[0].Started = noon.Add(-10 * time.Minute)
			s.Servers[0].Replaced = &metrics.ReplacedServer{ID: "9:9", Ended: noon.Add(-11 * time.Minute), Ours: true}
		}, "", 0, "", nil, nil},

		{"a slow load", func(s *metrics.Snapshot) {
			p := &starting(s, "loading weights", 30*time.Minute).Phase
			p.Expected, p.DiskBPS = 10*time.Minute, fig(21e6)
		}, "start-slow", warning, metrics.CauseLoadSlow, []string{"30 m", "usually ready after 10 m", "reads 21.0 MB/s from disk", "network file system that holds the model"}, nil},
		{"a start as usual", func(s *metrics.Snapshot) {
			starting(s, "loading weights", 11*time.Minute).Phase.Expected = 10 * time.Minute
		}, "", 0, "", nil, nil},
		{"stuck", func(s *metrics.Snapshot) {
			starting(s, "joining ranks", 30*time.Minute).Phase.LastSign = noon.Add(-12 * time.Minute)
		}, "start-stuck", critical, "", []string{`"joining ranks"`, "12 m", "py-spy", "other reads are its user's and root's to see", "no compiler runs", "no log line yet"}, nil},
		{"stuck, and its reads can be seen", func(s *metrics.Snapshot) {
			p := &starting(s, "joining ranks", 30*time.Minute).Phase
			p.LastSign, p.LogAt, p.DiskBPS = noon.Add(-12*time.Minute), noon.Add(-14*time.Minute), fig(100)
			series(s, metrics.SeriesGPUMem, "0", flat(2000))
		}, "start-stuck", critical, "", []string{"nothing is read from disk", "newest log line at 12:02", "GPU memory does not grow"}, nil},
		{"its weights still come from disk", func(s *metrics.Snapshot) {
			v := starting(s, "joining ranks", 25*time.Minute)
			v.Phase.LogAt, v.Phase.DiskAt, v.Phase.LastSign = noon.Add(-12*time.Minute), noon, noon
		}, "", 0, "", nil, nil},
		{"a phase that is silent by nature", func(s *metrics.Snapshot) {
			starting(s, "pinning host cache", 25*time.Minute).Phase.LastSign = noon.Add(-12 * time.Minute)
		}, "", 0, "", nil, nil},
		{"a compiler runs", func(s *metrics.Snapshot) {
			starting(s, "joining ranks", 25*time.Minute).Phase.LastSign = noon.Add(-12 * time.Minute)
			s.Procs = []metrics.Proc{{PID: 5, Comm: "cicc"}}
		}, "", 0, "", nil, nil},
		{"memory still grows", func(s *metrics.Snapshot) {
			starting(s, "joining ranks", 25*time.Minute).Phase.LastSign = noon.Add(-12 * time.Minute)
			series(s, metrics.SeriesGPUMem, "0", func(age time.Duration) float64 { return 50_000 - age.Seconds()*10 })
		}, "", 0, "", nil, nil},

		{"one of two hangs, and the other's rows land", func(s *metrics.Snapshot) {
			other := s.Servers[0]
			other.ID, other.Port, other.Argv = "2:2", 9000, []string{"--mem-fraction-static", "0.4"}
			s.Servers[0].Argv = other.Argv
			s.Servers[0].LastBatch, s.Servers[0].LastToken = noon.Add(-3*time.Minute), noon.Add(-3*time.Minute)
			s.Servers = append(s.Servers, other)
		}, "server-hung", critical, metrics.CauseServerHung, []string{"35 running, no token for 3 m", "py-spy"}, nil},
		{"a long prefill that goes on", func(s *metrics.Snapshot) {
			v := &s.Servers[0]
			v.LastToken, v.LastBatch, v.NewRequest = noon.Add(-150*time.Second), noon.Add(-100*time.Second), noon.Add(-100*time.Second)
		}, "", 0, "", nil, nil},
		{"the front outlived its scheduler", func(s *metrics.Snapshot) { s.Servers[0].Scheduler = &no },
			"server-half-dead", critical, metrics.CauseWorkerDied, []string{"no scheduler", "/health answers 200"}, nil},
		{"a rank fell silent", func(s *metrics.Snapshot) {
			s.Servers[0].Ranks = []metrics.RankState{{DP: 0, Last: noon, Running: fig(30)}, {DP: 1, Last: noon.Add(-4 * time.Minute), Running: fig(50)}}
		}, "server-half-dead", critical, metrics.CauseSchedulerException, []string{"DP1", "50 running"}, nil},
		{"a rank without work", func(s *metrics.Snapshot) {
			s.Servers[0].Ranks = []metrics.RankState{{DP: 0, Last: noon, Running: fig(30)}, {DP: 1, Last: noon.Add(-4 * time.Minute), Running: fig(0)}}
		}, "", 0, "", nil, nil},
		{"the last requests of a rank were done between two lines", func(s *metrics.Snapshot) {
			s.Servers[0].Ranks = []metrics.RankState{{DP: 0, Last: noon, Running: fig(30)}, {DP: 1, Last: noon.Add(-4 * time.Minute), Running: fig(3)}}
		}, "", 0, "", nil, nil},
		{"a part drains over two ranks", func(s *metrics.Snapshot) {
			s.Servers[0].Ranks = []metrics.RankState{{DP: 0, Last: noon, Running: fig(2)}, {DP: 1, Last: noon.Add(-4 * time.Minute), Running: fig(9)}}
			s.Servers[0].NewRequest = noon.Add(-10 * time.Minute)
		}, "", 0, "", nil, nil},

		{"a request repeats itself", func(s *metrics.Snapshot) {
			s.Servers[0].Repeating, s.Servers[0].Running = noon.Add(-time.Minute), fig(1)
		}, "repetition", warning, metrics.CauseRepetition, []string{"since 12:15", "repetition penalty"}, nil},
		{"all drafts of many requests are accepted", func(s *metrics.Snapshot) { s.Servers[0].Repeating = noon.Add(-time.Minute) }, "", 0, "", nil, nil},
		{"its log told an end that it outlived", func(s *metrics.Snapshot) {
			v := &s.Servers[0]
			v.LastToken, v.LastBatch = noon.Add(-50*time.Second), noon.Add(-50*time.Second)
			v.Causes = []metrics.CauseFact{{Class: metrics.CauseNCCLTimeout, Line: "Watchdog caught collective operation timeout", LineNo: 12, At: noon.Add(-48 * time.Second), Primary: true}}
		}, "server-half-dead", critical, metrics.CauseNCCLTimeout, []string{"line 12", "still lives"}, nil},
		{"tokens flow after a traceback", func(s *metrics.Snapshot) {
			s.Servers[0].Causes = []metrics.CauseFact{{Class: metrics.CauseSchedulerException, Line: "Traceback", At: noon.Add(-time.Hour), Primary: true}}
		}, "", 0, "", nil, nil},
		{"its own health check gets no answer", func(s *metrics.Snapshot) {
			v := &s.Servers[0]
			v.LastToken, v.LastBatch = noon.Add(-10*time.Minute), noon.Add(-10*time.Minute)
			v.Causes = []metrics.CauseFact{{Class: metrics.CauseServerHung, Line: "Health check failed", At: noon.Add(-8 * time.Minute)}}
		}, "server-hung", critical, metrics.CauseServerHung, []string{"health check gets no answer"}, nil},
		{"thrashing", func(s *metrics.Snapshot) {
			v := &s.Servers[0]
			v.Retracted, v.KVUsage, v.RetractedSince, v.RequestsFit = fig(4), fig(0.99), noon.Add(-20*time.Minute), fig(35.9)
		}, "kv-saturated", warning, metrics.CauseKVThrashing, []string{"4.0 retractions a minute", "--schedule-conservativeness from 1 to 1.3", "about 35 in flight"}, nil},
		{"vLLM preempts", func(s *metrics.Snapshot) {
			v := &s.Servers[0]
			v.Engine, v.Retracted, v.KVUsage, v.RetractedSince = "vllm", fig(4), fig(0.99), noon.Add(-20*time.Minute)
		}, "kv-saturated", warning, metrics.CauseKVThrashing, []string{"lower --max-num-seqs"}, nil},
		{"a burst of retractions", func(s *metrics.Snapshot) {
			v := &s.Servers[0]
			v.Retracted, v.KVUsage, v.RetractedSince = fig(40), fig(0.99), noon.Add(-4*time.Minute)
		}, "", 0, "", nil, nil},
		{"one a minute is fine", func(s *metrics.Snapshot) {
			s.Servers[0].Retracted, s.Servers[0].KVUsage, s.Servers[0].RetractedSince = fig(1), fig(0.99), noon.Add(-time.Hour)
		}, "", 0, "", nil, nil},
		{"room and a queue", func(s *metrics.Snapshot) {
			steady(s)
			series(s, metrics.SeriesKVUsage, "1:1", flat(0.7))
		}, "too-conservative", info, "", []string{"115 requests wait", "0.70", "towards 0.3"}, nil},
		{"the limit of running requests binds", func(s *metrics.Snapshot) {
			steady(s)
			series(s, metrics.SeriesKVUsage, "1:1", flat(0.7))
			s.Servers[0].MaxRunning = fig(35)
		}, "", 0, "", nil, nil},
		{"a full pool and a queue", steady, "", 0, "", nil, nil},
		{"the queue grows", func(s *metrics.Snapshot) {
			steady(s)
			series(s, metrics.SeriesQueued, "1:1", func(age time.Duration) float64 { return 400 - 20*age.Minutes() })
			s.Servers[0].Queued = fig(400)
			s.Servers[0].RequestsFit = fig(36)
		}, "queue-growing", warning, "", []string{"36 fit", "concurrency"}, nil},
		{"one burst", func(s *metrics.Snapshot) {
			steady(s)
			series(s, metrics.SeriesQueued, "1:1", func(age time.Duration) float64 {
				if age < 3*time.Minute {
					return 315
				}
				return 115
			})
		}, "", 0, "", nil, nil},

		{"slower at the same load", slower, "throughput-fell", warning, "", []string{"to 350 tok/s", "over the half hour before", "35 running", "look at clocks and temperature"}, nil},
		{"another part has longer prompts", func(s *metrics.Snapshot) {
			slower(s)
			series(s, metrics.SeriesInputTPS, "1:1", func(age time.Duration) float64 {
				if age < 10*time.Minute {
					return 2500
				}
				return 250
			})
		}, "", 0, "", nil, nil},
		{"slower beside another process", func(s *metrics.Snapshot) {
			slower(s)
			s.GPUs[0].Procs = []metrics.GPUProc{{PID: 99, Name: "train", Owner: "other", MiB: fig(500)}}
		}, "throughput-fell", warning, "", []string{"another process (99 train) is on GPU 0"}, nil},
		{"slower at a clock that somebody set", func(s *metrics.Snapshot) {
			slower(s)
			g := &s.GPUs[0]
			g.ClockSM, g.ClockMax, g.Util, g.Throttle = fig(900), fig(2430), fig(98), []string{"SW Power Cap"}
		}, "throughput-fell", warning, "", []string{"GPU 0 works at 900 of 2,430 MHz (SW Power Cap)", "nvidia-smi -rgc"}, nil},
		{"slower without graphs", func(s *metrics.Snapshot) {
			slower(s)
			s.Servers[0].Graph, s.Servers[0].State = &no, metrics.ServerServing
		}, "throughput-fell", warning, "", []string{"did not run in a captured graph"}, []string{"graph-off"}},
		{"slower since fewer drafts are accepted", func(s *metrics.Snapshot) {
			slower(s)
			series(s, metrics.SeriesAcceptLen, "1:1", func(age time.Duration) float64 {
				if age < 10*time.Minute {
					return 1.6
				}
				return 3.1
			})
		}, "throughput-fell", warning, "", []string{"accepted less: 1.60 tokens a step"}, nil},
		{"slower on an overloaded host", func(s *metrics.Snapshot) {
			slower(s)
			s.Sys.Load1, s.Sys.CPUs = fig(400), 128
		}, "throughput-fell", warning, "", []string{"the host is overloaded: load 400 on 128 processors"}, nil},
		{"slower since a GPU is hot", func(s *metrics.Snapshot) {
			slower(s)
			s.GPUs[0].Throttle, s.GPUs[0].Temp = []string{"HW Thermal Slowdown"}, fig(95)
		}, "throughput-fell", warning, metrics.CauseGPUThrottled, []string{"GPU 0 is slowed down", "Check power limit and cooling"}, []string{"gpu-throttled"}},
		{"slower with longer requests", func(s *metrics.Snapshot) {
			slower(s)
			series(s, metrics.SeriesPerReq, "1:1", func(age time.Duration) float64 {
				if age < 10*time.Minute {
					return 9000
				}
				return 4400
			})
		}, "", 0, "", nil, nil},

		{"the host tier is never read", func(s *metrics.Snapshot) {
			v := &s.Servers[0]
			v.HiCache = metrics.HiCache{On: true, HostGB: fig(384), LoadBack: fig(0), Watched: noon.Add(-time.Hour)}
			v.Evicted = fig(0)
		}, "hicache-unused", info, "", []string{"nothing loaded back for 1 h", "nothing was evicted", "384 GB", "start without --enable-hierarchical-cache"}, nil},
		{"evicted and never asked for", func(s *metrics.Snapshot) {
			v := &s.Servers[0]
			v.HiCache = metrics.HiCache{On: true, LoadBack: fig(0), Watched: noon.Add(-time.Hour), Evicting: noon}
			v.Evicted = fig(9e6)
		}, "hicache-unused", info, "", []string{"nobody asks for them again"}, nil},
		{"the host tier was read lately", func(s *metrics.Snapshot) {
			s.Servers[0].HiCache = metrics.HiCache{On: true, LoadBack: fig(900), Watched: noon.Add(-time.Hour), Loaded: noon.Add(-5 * time.Minute)}
		}, "", 0, "", nil, nil},
		{"no graph", func(s *metrics.Snapshot) { s.Servers[0].Graph = &no }, "graph-off", info, "", []string{"--cuda-graph-max-bs to 64"}, nil},
		{"graphs are switched off", func(s *metrics.Snapshot) {
			s.Servers[0].Graph = &no
			s.Servers[0].Argv = append(s.Servers[0].Argv, "--disable-cuda-graph")
		}, "graph-off", info, "", []string{"start without --disable-cuda-graph"}, nil},

		{"a guard is broken by the command line", func(s *metrics.Snapshot) {
			guarded(s, kv)
			s.Servers[0].Argv = append(s.Servers[0].Argv, "--kv-cache-dtype", "fp8_e4m3")
		}, "guard-broken", critical, "", []string{"fp8* is denied", "degrades the model noticeably"}, nil},
		{"a guard is broken by the checkpoint", func(s *metrics.Snapshot) {
			guarded(s, kv)
			s.Servers[0].KVDtype = "float8_e4m3fn"
		}, "guard-broken", critical, "", []string{"fp8_e4m3, that is float8_e4m3fn"}, nil},
		{"a guard holds", func(s *metrics.Snapshot) {
			guarded(s, metrics.Guard{Flag: "kv-cache-dtype", Allow: []string{"auto", "bf16"}, Deny: []string{"fp8*"}})
			s.Servers[0].KVDtype = "bfloat16"
		}, "", 0, "", nil, nil},
		{"a range is left", func(s *metrics.Snapshot) {
			guarded(s, metrics.Guard{Flag: "mem-fraction-static", Allow: []string{"0.80..0.86"}})
		}, "guard-broken", critical, "", []string{"mem-fraction-static is 0.88", "restart with"}, nil},

		{"another process has the port", func(s *metrics.Snapshot) {
			s.Servers[0].PID, s.Servers[0].Port, s.Servers[0].Tree = 1, 8000, []int{1}
			s.Procs = []metrics.Proc{{PID: 77, Comm: "python3", Argv: []string{"python3", "mock.py"}, Listen: []metrics.ListenAddr{{Port: 8000}}}}
		}, "wrong-server", critical, "", []string{"process 77", "mock.py"}, nil},
		{"its own child listens", func(s *metrics.Snapshot) {
			s.Servers[0].PID, s.Servers[0].Port, s.Servers[0].Tree = 1, 8000, []int{1, 77}
			s.Procs = []metrics.Proc{{PID: 77, Listen: []metrics.ListenAddr{{Port: 8000}}}}
		}, "", 0, "", nil, nil},
		{"the log's writer is gone", func(s *metrics.Snapshot) { s.Servers[0].Log.Mtime = noon.Add(-20 * time.Minute) },
			"log-stale", warning, metrics.CauseLogStopped, []string{"stands still since 11:56", "tokens still come", "go by /metrics and the rows"}, nil},
		{"the server's log was deleted, and no endpoint tells", func(s *metrics.Snapshot) {
			v := &s.Servers[0]
			v.PID, v.Running.Source = 200, "log"
			v.Log.Deleted, v.Log.Held, v.Log.Mtime = noon.Add(-9*time.Minute), "/proc/200/fd/2", noon.Add(-9*time.Minute)
			v.LastToken, v.LastBatch = noon.Add(-9*time.Minute), noon.Add(-9*time.Minute)
		}, "log-stale", warning, metrics.CauseLogStopped, []string{"log of the server (sglang.log) was deleted at 12:07", "cp /proc/200/fd/2"}, nil},
		{"only rows prove that it works", func(s *metrics.Snapshot) {
			v := &s.Servers[0]
			v.Running.Source, v.Log.Mtime = "log", noon.Add(-20*time.Minute)
			v.LastToken, v.LastBatch = noon.Add(-20*time.Minute), noon.Add(-20*time.Minute)
		}, "log-stale", warning, metrics.CauseLogStopped, []string{"the newest row landed at 12:16"}, nil},
		{"a log that its flags keep silent", func(s *metrics.Snapshot) {
			s.Servers[0].Log.Mtime = noon.Add(-20 * time.Minute)
			s.Servers[0].Argv = append(s.Servers[0].Argv, "--log-level", "warning")
		}, "", 0, "", nil, nil},
		{"vLLM without statistics and access lines", func(s *metrics.Snapshot) {
			v := &s.Servers[0]
			v.Engine, v.Log.Mtime = "vllm", noon.Add(-20*time.Minute)
			v.Argv = []string{"vllm", "serve", "m", "--disable-log-stats", "--disable-uvicorn-access-log"}
		}, "", 0, "", nil, nil},
		{"a container's port is held for it", func(s *metrics.Snapshot) {
			s.Servers[0].PID, s.Servers[0].Port, s.Servers[0].Tree = 1, 8000, []int{1}
			s.Procs = []metrics.Proc{{PID: 77, Comm: "docker-proxy", Argv: []string{"/usr/bin/docker-proxy"}, Listen: []metrics.ListenAddr{{Port: 8000}}}}
		}, "", 0, "", nil, nil},
		{"two on other GPUs by their first", func(s *metrics.Snapshot) {
			b := twoOf(s)
			b.Port = 9000
			s.Servers[0].TP, b.TP = 4, 4
			b.Argv = append([]string(nil), append(b.Argv, "--base-gpu-id", "4")...)
		}, "", 0, "", nil, nil},
		{"two on one port", func(s *metrics.Snapshot) { twoOf(s) }, "two-servers", critical, "", []string{"port 8000: 1 and 2", "stop one of them (pids 1 and 2)"}, nil},
		{"two on the same GPUs", func(s *metrics.Snapshot) { twoOf(s).Port = 9000 }, "two-servers", critical, "", []string{"GPU 0", "0.88"}, nil},
		{"two on other GPUs", func(s *metrics.Snapshot) {
			twoOf(s).Port = 9000
			s.Procs = []metrics.Proc{{PID: 1, Env: map[string]string{"CUDA_VISIBLE_DEVICES": "0,1,2,3"}}, {PID: 2, Env: map[string]string{"CUDA_VISIBLE_DEVICES": "4,5,6,7"}}}
		}, "", 0, "", nil, nil},
	}
}
