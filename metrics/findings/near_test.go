package findings

import (
	"slices"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// nearMiss is a case that raises a finding, but for the one thing that keeps it quiet.
type nearMiss struct {
	of   string // the detector
	as   string // the name of the case that raises it
	but  string
	calm func(s *metrics.Snapshot)
	held time.Duration // how long it has been so, 0: as long as the case
}

func nearMisses() []nearMiss {
	yes := true
	server := func(change func(v *metrics.Server)) func(*metrics.Snapshot) {
		return func(s *metrics.Snapshot) { change(&s.Servers[0]) }
	}
	rows := func(change func(d *metrics.Dataset)) func(*metrics.Snapshot) {
		return func(s *metrics.Snapshot) { change(&s.Datasets[0]) }
	}
	goesOn := func(s *metrics.Snapshot) {
		next := healthy().Servers[0]
		next.ID, next.Started = "2:2", noon.Add(-10*time.Second)
		s.Servers = append(s.Servers, next)
	}
	return []nearMiss{
		{"client-log-silent", "buffered log", "19 rows landed", func(s *metrics.Snapshot) {
			s.Datasets[0].Landed, s.Servers[0].Finished = fig(19), fig(19)
		}, 0},
		{"client-log-silent", "buffered log", "it was emptied a minute ago: a rotation", func(s *metrics.Snapshot) {
			s.Clients[0].Log.Mtime, s.Clients[0].LogSilentSince = noon.Add(-time.Minute), noon.Add(-time.Minute)
		}, 0},
		{"client-log-silent", "silent for longer than ever", "nothing lands either", rows(func(d *metrics.Dataset) { d.Grew = noon.Add(-6 * time.Minute) }), 0},
		{"client-log-silent", "silent for longer than ever", "for less than 5 minutes", func(s *metrics.Snapshot) {
			c := &s.Clients[0]
			c.Log.Gap, c.Log.Mtime, c.LogSilentSince = time.Second, noon.Add(-4*time.Minute), noon.Add(-4*time.Minute)
		}, 0},
		{"rows-stalled", "rows stalled", "as few as a writer holds back", func(s *metrics.Snapshot) { s.Job.Finished = fig(165) }, 0},
		{"rows-stalled", "nothing counts a streaming client's requests, and rows stopped", "for 14 minutes", rows(func(d *metrics.Dataset) { d.Grew = noon.Add(-14 * time.Minute) }), 0},
		{"rows-stalled", "a client retries without an end", "for 25 minutes", func(s *metrics.Snapshot) {
			s.Servers[0].Since, s.Datasets[0].Grew = noon.Add(-25*time.Minute), noon.Add(-25*time.Minute)
		}, 0},
		{"rows-stalled", "a client retries without an end", "it computes", func(s *metrics.Snapshot) { s.Clients[0].Cores = fig(0.9) }, 0},
		{"rows-stalled", "a writer whose habit is not known, for long", "it saved 25 rows at once", rows(func(d *metrics.Dataset) { d.Step = 25 }), 0},
		{"work-lost", "rows get lost in retries", "70 rows came at once", rows(func(d *metrics.Dataset) { d.Step = 70 }), 0},
		{"rows-stalled", "rows stalled", "it grows every 40 s", rows(func(d *metrics.Dataset) { d.Gap = 40 * time.Second }), 0},
		{"rows-stalled", "rows stalled", "in the first generation", server(func(v *metrics.Server) { v.Gen.Ramp, v.Gen.Settled = true, metrics.Figure{} }), 0},
		{"rows-stalled", "a client that is stuck", "its log says something", func(s *metrics.Snapshot) { s.Clients[0].Log.Mtime = noon }, 0},
		{"rows-stalled", "a client in trouble: disk-full", "rows land", rows(func(d *metrics.Dataset) { d.Grew = noon }), 0},
		{"nothing-saved", "nothing saved", "a file is open for writing", func(s *metrics.Snapshot) {
			s.Datasets = []metrics.Dataset{{Path: "/data/b2.jsonl", Writers: []int{206570}}}
		}, 0},
		{"nothing-saved", "nothing saved", "its client saves in batches", func(s *metrics.Snapshot) {
			s.Datasets = []metrics.Dataset{{Path: "/data/b2.jsonl", Grew: noon.Add(-25 * time.Minute), Landed: fig(500)}}
			s.Clients[0].Datasets = []string{"/data/b2.jsonl"}
		}, 0},
		{"nothing-saved", "nothing saved", "a client of another host sends too", func(s *metrics.Snapshot) {
			s.Clients = append([]metrics.Client{{ID: "host:10.0.0.9", Host: "10.0.0.9", State: "remote"}}, s.Clients...)
		}, 0},
		{"nothing-saved", "nothing saved", "what it has open is another user's to see", func(s *metrics.Snapshot) {
			s.Procs = []metrics.Proc{{PID: 206570, User: "anna"}}
		}, 0},
		{"nothing-saved", "nothing saved", "the client began 10 minutes ago", func(s *metrics.Snapshot) { s.Clients[0].Started = noon.Add(-10 * time.Minute) }, 0},
		{"work-lost", "rows get lost in retries", "less than 5 % are missing", func(s *metrics.Snapshot) { s.Job.Finished, s.Job.Landed = fig(1000), fig(955) }, 0},
		{"work-lost", "rows get lost in retries", "the writer saves in large batches", func(s *metrics.Snapshot) { s.Job.PerMin, s.Datasets[0].Gap = fig(10), 6*time.Minute }, 0},
		{"work-lost", "most requests are aborted", "it was an hour ago", server(func(v *metrics.Server) { v.Aborting = noon.Add(-time.Hour) }), 0},
		{"work-lost", "a timeout that is shorter than a request's life", "it is longer", func(s *metrics.Snapshot) { s.Clients[0].Argv[len(s.Clients[0].Argv)-1] = "1200" }, 0},
		{"work-lost", "a timeout that is shorter than a request's life", "the level is not settled", server(func(v *metrics.Server) { v.Gen.Settled = metrics.Figure{} }), 0},
		{"client-gone", "client gone", "another one goes on", func(s *metrics.Snapshot) {
			s.Clients = append(s.Clients, metrics.Client{ID: "7:7", PID: 7, State: "running"})
		}, 0},
		{"client-gone", "client gone", "the job is done", func(s *metrics.Snapshot) { s.Job.Done = true }, 0},
		{"client-gone", "client gone", "its only file has all its rows", func(s *metrics.Snapshot) {
			s.Job.Target, s.Datasets[0].Target = metrics.Target{}, metrics.Target{Rows: 1531, Inferred: true}
		}, 0},
		{"client-gone", "client gone", "its log says that it is done, and no target was set", func(s *metrics.Snapshot) {
			s.Clients[0].Finished, s.Job.Target, s.Datasets[0].Target = "All done", metrics.Target{}, metrics.Target{}
		}, 0},
		{"client-gone", "client gone before we came", "a row landed a minute ago", rows(func(d *metrics.Dataset) { d.Grew = noon.Add(-time.Minute) }), 0},
		{"client-twice", "a client of an earlier run", "the earlier one ended", func(s *metrics.Snapshot) { s.Clients[1].State = "gone" }, 0},
		{"client-twice", "a client of an earlier run", "the younger began 15 s ago", func(s *metrics.Snapshot) { s.Clients[0].Started = noon.Add(-15 * time.Second) }, 10 * time.Second},
		{"client-twice", "the same command twice on other files", "they are the ranks of one launch", func(s *metrics.Snapshot) {
			for i, c := range s.Clients {
				s.Procs = append(s.Procs, metrics.Proc{PID: c.PID, PPID: 77, Env: map[string]string{"RANK": []string{"0", "1"}[i]}})
			}
		}, 0},
		{"client-twice", "the same command twice on other files", "in another folder", func(s *metrics.Snapshot) { s.Clients[0].Cwd, s.Clients[1].Cwd = "/data/b", "/data/c" }, 0},
		{"job-done", "done", "one row is missing", func(s *metrics.Snapshot) { s.Job.Done = false }, 0},
		{"job-done", "it ended by itself with its work done", "another client works", func(s *metrics.Snapshot) {
			s.Clients = append(s.Clients, metrics.Client{ID: "7:7", PID: 7, State: "running"})
		}, 0},
		{"rows-torn", "a torn row that nobody completes", "somebody has it open", rows(func(d *metrics.Dataset) { d.Writers = []int{7} }), 0},
		{"rows-torn", "a torn row that nobody completes", "for half a minute", rows(func(d *metrics.Dataset) { d.Grew = noon.Add(-30 * time.Second) }), 0},
		{"rows-shrank", "a file lost rows", "more than an hour ago", rows(func(d *metrics.Dataset) { d.Reset.At = noon.Add(-61 * time.Minute) }), 0},
		{"rows-duplicate", "rows repeat", "two of them", rows(func(d *metrics.Dataset) { d.Repeats = fig(2) }), 0},
		{"rows-poor", "empty rows", "as ever in this file", rows(func(d *metrics.Dataset) { d.UsualPoor = fig(0.09) }), 0},
		{"rows-poor", "empty rows", "seven rows were judged", rows(func(d *metrics.Dataset) { d.Judged = judged(7, 5, 0) }), 0},
		{"rows-truncated", "answers are cut", "it was nearly so before", rows(func(d *metrics.Dataset) { d.UsualCut = fig(0.26) }), 0},
		{"rows-truncated", "answers are cut", "what was before is not known", rows(func(d *metrics.Dataset) { d.UsualCut = metrics.Figure{} }), 0},
		{"disk-filling", "the disk is full", "20 MiB are left", func(s *metrics.Snapshot) { s.Sys.Disks[0].Avail = fig(20 << 20) }, 0},
		{"disk-filling", "no inodes", "100 are left", func(s *metrics.Snapshot) { s.Sys.Disks[0].InodesFree = fig(100) }, 0},
		{"disk-filling", "full before the job ends", "the job ends an hour before", func(s *metrics.Snapshot) { s.Job.ETA.At = noon.Add(29 * time.Hour) }, 0},
		{"underfed", "too few requests", "26 run, nearly what fits", func(s *metrics.Snapshot) { series(s, metrics.SeriesRunning, "1:1", flat(26)) }, 0},
		{"underfed", "too few requests", "no new one comes: a part drains", server(func(v *metrics.Server) { v.NewRequest = noon.Add(-8 * time.Minute) }), 0},
		{"underfed", "too few requests", "one waited", func(s *metrics.Snapshot) {
			series(s, metrics.SeriesQueued, "1:1", func(age time.Duration) float64 { return flat(1)(age) })
		}, 0},

		{"server-down", "server killed", "another took its place", goesOn, 0},
		{"server-down", "one is expected and none is there", "none is expected", func(s *metrics.Snapshot) { s.Config.Expected = false }, 0},
		{"server-oom", "server out of memory in prefill", "another took its place", goesOn, 0},
		{"server-oom", "server out of memory in prefill", "it ended with 137 and no word of memory", server(func(v *metrics.Server) {
			rc := 137
			v.Causes, v.ExitCode = nil, &rc
		}), 0},
		{"server-replaced", "somebody restarted it with other flags", "it was us", server(func(v *metrics.Server) { v.Replaced.Ours = true }), 0},
		{"server-replaced", "somebody restarted it with other flags", "half an hour ago", server(func(v *metrics.Server) {
			v.Started, v.Replaced.Ended = noon.Add(-31*time.Minute), noon.Add(-32*time.Minute)
		}), 0},
		{"start-slow", "a slow load", "its starts take as long", server(func(v *metrics.Server) { v.Phase.Expected = 20 * time.Minute }), 0},
		{"start-slow", "a slow load", "it is ready", server(func(v *metrics.Server) { v.State = metrics.ServerServing }), 0},
		{"start-stuck", "stuck", "a compiler runs", func(s *metrics.Snapshot) { s.Procs = []metrics.Proc{{PID: 5, Comm: "ptxas"}} }, 0},
		{"start-stuck", "stuck", "its log grew", server(func(v *metrics.Server) { v.Log.Mtime = noon.Add(-9 * time.Minute) }), 0},
		{"start-stuck", "stuck", "in a phase that is silent by nature", server(func(v *metrics.Server) { v.Phase.Name = "compiling kernels" }), 0},
		{"start-stuck", "stuck, and its reads can be seen", "GPU memory grows", func(s *metrics.Snapshot) {
			series(s, metrics.SeriesGPUMem, "0", func(age time.Duration) float64 { return 50_000 - 2*age.Seconds() })
		}, 0},
		{"server-hung", "hung", "for 44 s", server(func(v *metrics.Server) {
			v.LastToken, v.LastBatch = noon.Add(-44*time.Second), noon.Add(-44*time.Second)
		}), 0},
		{"server-hung", "hung", "its newest line is a prefill", server(func(v *metrics.Server) {
			v.LastBatch, v.NewRequest = noon.Add(-170*time.Second), noon.Add(-170*time.Second)
		}), 0},
		{"server-hung", "hung", "a first shape is compiled", func(s *metrics.Snapshot) { s.Procs = []metrics.Proc{{PID: 5, Comm: "nvcc"}} }, 0},
		{"server-hung", "hung", "answers land", rows(func(d *metrics.Dataset) { d.Grew = noon }), 0},
		{"server-hung", "hung", "its log was deleted and no endpoint tells", server(func(v *metrics.Server) {
			v.Log.Deleted, v.Log.Path, v.Gen.Now.Source = noon.Add(-3*time.Minute), "/data/logs/sglang.log", "log"
		}), 0},
		{"server-hung", "hung", "nothing runs", server(func(v *metrics.Server) { v.Running = fig(0) }), 0},
		{"server-hung", "its own health check gets no answer", "a batch came after it", server(func(v *metrics.Server) { v.LastBatch = noon.Add(-30 * time.Second) }), 0},
		{"server-half-dead", "the front outlived its scheduler", "it drains", server(func(v *metrics.Server) { v.State = metrics.ServerDraining }), 0},
		{"server-half-dead", "a rank fell silent", "its last few were done", server(func(v *metrics.Server) { v.Ranks[1].Running = fig(3) }), 0},
		{"server-half-dead", "a rank fell silent", "all are silent", server(func(v *metrics.Server) { v.Ranks[0].Last = noon.Add(-4 * time.Minute) }), 0},
		{"server-half-dead", "its log told an end that it outlived", "tokens flow after it", server(func(v *metrics.Server) { v.LastToken = noon }), 0},
		{"repetition", "a request repeats itself", "a dozen run", server(func(v *metrics.Server) { v.Running = fig(12) }), 0},
		{"headroom-low", "little headroom", "5 GiB are left", server(func(v *metrics.Server) { v.Headroom = fig(5) }), 0},
		{"headroom-low", "little headroom", "on a card of 48 GiB", func(s *metrics.Snapshot) { s.GPUs[0].MemTotal = fig(48 * 1024) }, 0},
		{"headroom-low", "little headroom", "only live memory is as low", func(s *metrics.Snapshot) {
			s.Servers[0].Headroom, s.GPUs[0].MemUsed, s.GPUs[0].MemLowest = fig(5.47), fig(97_500), fig(300)
		}, 0},
		{"kv-saturated", "thrashing", "for 14 minutes", server(func(v *metrics.Server) { v.RetractedSince = noon.Add(-14 * time.Minute) }), 0},
		{"kv-saturated", "thrashing", "one a minute", server(func(v *metrics.Server) { v.Retracted = fig(1) }), 0},
		{"kv-saturated", "thrashing", "with room in the pool", server(func(v *metrics.Server) { v.KVUsage = fig(0.85) }), 0},
		{"too-conservative", "room and a queue", "there are retractions", server(func(v *metrics.Server) { v.Retracted = fig(0.2) }), 0},
		{"too-conservative", "room and a queue", "--max-running-requests binds", server(func(v *metrics.Server) { v.Argv = append(v.Argv, "--max-running-requests", "36") }), 0},
		{"too-conservative", "room and a queue", "the pool was full once", func(s *metrics.Snapshot) {
			series(s, metrics.SeriesKVUsage, "1:1", func(age time.Duration) float64 {
				if age < 4*time.Minute && age > 3*time.Minute {
					return 0.95
				}
				return 0.7
			})
		}, 0},
		{"too-conservative", "room and a queue", "it is as low as it should be", server(func(v *metrics.Server) { v.Argv = append(v.Argv, "--schedule-conservativeness", "0.3") }), 0},
		{"queue-growing", "the queue grows", "by 12", func(s *metrics.Snapshot) {
			series(s, metrics.SeriesQueued, "1:1", func(age time.Duration) float64 { return 12 - 1.2*age.Minutes() })
			series(s, metrics.SeriesRunning, "1:1", flat(15))
		}, 0},
		{"queue-growing", "the queue grows", "what runs shrinks as much: a constant number in flight", func(s *metrics.Snapshot) {
			series(s, metrics.SeriesRunning, "1:1", func(age time.Duration) float64 { return 20 * age.Minutes() })
		}, 0},
		{"settled", "settled", "in the ramp", server(func(v *metrics.Server) { v.Gen.Ramp, v.Gen.Settled = true, metrics.Figure{} }), 0},
		{"throughput-fell", "slower at the same load", "fewer run", func(s *metrics.Snapshot) {
			series(s, metrics.SeriesRunning, "1:1", func(age time.Duration) float64 {
				if age < 10*time.Minute {
					return 20
				}
				return 35
			})
		}, 0},
		{"throughput-fell", "slower at the same load", "by a quarter", func(s *metrics.Snapshot) {
			series(s, metrics.SeriesGenTPS, "1:1", func(age time.Duration) float64 {
				if age < 10*time.Minute {
					return 455
				}
				return 606
			})
		}, 0},
		{"hicache-unused", "the host tier is never read", "watched for 10 minutes", server(func(v *metrics.Server) { v.HiCache.Watched = noon.Add(-10 * time.Minute) }), 0},
		{"hicache-unused", "the host tier is never read", "nothing runs", server(func(v *metrics.Server) { v.State = metrics.ServerIdle }), 0},
		{"hicache-unused", "the host tier is never read", "without /metrics", server(func(v *metrics.Server) { v.HiCache.LoadBack = metrics.Figure{} }), 0},
		{"graph-off", "no graph", "graphs run", server(func(v *metrics.Server) { v.Graph = &yes }), 0},
		{"graph-off", "no graph", "for a minute", func(*metrics.Snapshot) {}, 90 * time.Second},
		{"guard-broken", "a guard is broken by the command line", "its value is another", server(func(v *metrics.Server) { v.Argv[len(v.Argv)-1] = "bf16" }), 0},
		{"guard-broken", "a guard is broken by the command line", "the engine took another value", server(func(v *metrics.Server) {
			v.Flags, v.KVDtype = map[string]string{"kv_cache_dtype": "bf16"}, "bfloat16"
		}), 0},
		{"guard-broken", "a range is left", "by its end", server(func(v *metrics.Server) {
			v.Argv = slices.Clone(v.Argv)
			v.Argv[len(v.Argv)-1] = "0.86"
		}), 0},
		{"wrong-server", "another process has the port", "the server listens too", func(s *metrics.Snapshot) {
			s.Procs = append(s.Procs, metrics.Proc{PID: 1, Listen: []metrics.ListenAddr{{Port: 8000}}})
		}, 0},
		{"wrong-server", "another process has the port", "it forwards for a container", func(s *metrics.Snapshot) { s.Procs[0].Comm = "docker-proxy" }, 0},
		{"log-stale", "the log's writer is gone", "for 4 minutes", server(func(v *metrics.Server) { v.Log.Mtime = noon.Add(-4 * time.Minute) }), 0},
		{"log-stale", "the client's log was deleted", "its client ended", func(s *metrics.Snapshot) { s.Clients[0].State = "gone" }, 0},
		{"log-stale", "the client's log was deleted", "it was only rotated", func(s *metrics.Snapshot) { s.Clients[0].Log.Deleted = time.Time{} }, 0},
		{"log-stale", "only rows prove that it works", "none landed for 2 minutes", func(s *metrics.Snapshot) { s.Datasets[0].Grew = noon.Add(-2 * time.Minute) }, 10 * time.Second},
		{"rows-unreadable", "a directory took the file's name", "nothing has it", rows(func(d *metrics.Dataset) { d.Err = "no such file" }), 0},
		{"rows-unreadable", "a file may not be read any more", "it is nobody's and was never counted", func(s *metrics.Snapshot) {
			s.Datasets[0].Rows, s.Datasets[0].Writers, s.Clients[0].Datasets = metrics.Figure{}, nil, nil
		}, 0},
		{"log-stale", "the log's writer is gone", "no token comes either", server(func(v *metrics.Server) {
			v.LastToken, v.Running = noon.Add(-20*time.Minute), fig(0)
		}), 0},
		{"two-servers", "two on one port", "each on its own port and GPUs", func(s *metrics.Snapshot) {
			s.Servers[1].Port, s.Servers[0].TP, s.Servers[1].TP = 9000, 4, 4
			s.Servers[1].Argv = append(slices.Clone(s.Servers[1].Argv), "--base-gpu-id", "4")
		}, 0},
		{"two-servers", "two on the same GPUs", "both fit", func(s *metrics.Snapshot) {
			for i := range s.Servers {
				s.Servers[i].Argv = []string{"--mem-fraction-static", "0.45"}
			}
		}, 0},

		{"gpu-memory-held", "an orphan", "with 1,000 MiB", func(s *metrics.Snapshot) { s.GPUs[0].Procs[0].MiB = fig(1000) }, 0},
		{"gpu-memory-held", "an orphan", "it belongs to the server", func(s *metrics.Snapshot) { s.Servers[0].Tree = []int{1, 4242} }, 0},
		{"gpu-memory-held", "memory of nobody", "its server ended 50 s ago", func(s *metrics.Snapshot) {
			s.Servers = []metrics.Server{{ID: "1:1", State: metrics.ServerDown, Ended: noon.Add(-50 * time.Second)}}
		}, 0},
		{"gpu-uneven", "one GPU grew", "by 2,000 MiB", func(s *metrics.Snapshot) {
			series(s, metrics.SeriesGPUMem, "3", func(age time.Duration) float64 {
				if age < 20*time.Minute {
					return 2095
				}
				return 95
			})
		}, 0},
		{"gpu-uneven", "one GPU grew", "all grew", func(s *metrics.Snapshot) {
			for _, of := range []string{"0", "1", "2", "4", "5", "6", "7"} {
				s.Series[metrics.SeriesKey{What: metrics.SeriesGPUMem, Of: of}] = s.Series[metrics.SeriesKey{What: metrics.SeriesGPUMem, Of: "3"}]
			}
		}, 0},
		{"gpu-uneven", "one GPU idles", "it was so before", func(s *metrics.Snapshot) { series(s, metrics.SeriesGPUUtil, "3", flat(5)) }, 0},
		{"gpu-throttled", "too hot", "it is only the power limit", func(s *metrics.Snapshot) { s.GPUs[0].Throttle = []string{"SW Power Cap"} }, 0},
		{"gpu-throttled", "too hot", "for 45 s", func(*metrics.Snapshot) {}, 45 * time.Second},
		{"gpu-lost", "ECC errors", "they were corrected", func(s *metrics.Snapshot) { s.GPUs[0].ECC = fig(0) }, 0},
		{"gpu-lost", "an Xid while it works", "more than an hour ago", func(s *metrics.Snapshot) { s.Kernel[0].At = noon.Add(-68 * time.Minute) }, 0},
		{"gpu-tool-stuck", "nvidia-smi fails: driver-mismatch", "for 20 s", func(s *metrics.Snapshot) { s.GPUTool.Since = noon.Add(-20 * time.Second) }, 20 * time.Second},
		{"gpu-tool-stuck", "nvidia-smi fails: driver-mismatch", "there is none", func(s *metrics.Snapshot) { s.GPUTool.State = "absent" }, 0},
		{"host-memory-low", "host memory is short", "31 GiB of 1,008 are left", func(s *metrics.Snapshot) { s.Sys.MemAvail = fig(31 << 30) }, 0},
		{"host-memory-low", "the container's limit is near", "13 GiB of 400 are left", func(s *metrics.Snapshot) { s.Sys.MemAvail = fig(13 << 30) }, 0},
		{"host-memory-low", "the kernel ended another: host-oom-killed", "more than an hour ago", func(s *metrics.Snapshot) { s.Kernel[0].At = noon.Add(-68 * time.Minute) }, 0},
		{"shm-full", "shm is full", "4 of 64 MiB are left", func(s *metrics.Snapshot) { s.Sys.Shm.Avail = fig(4 << 20) }, 0},
		{"swap-used", "swapping", "with 101 GiB of memory left", func(s *metrics.Snapshot) { s.Sys.NodeAvail = fig(101 << 30) }, 0},
		{"swap-used", "swapping", "3 GiB of swap", func(s *metrics.Snapshot) { s.Sys.SwapUsed = fig(3 << 30) }, 0},
		{"link-down", "link down", "it is only in doubt for 4 s", func(s *metrics.Snapshot) {
			s.Link.Status, s.Link.Since = metrics.LinkSuspect, noon.Add(-4*time.Second)
		}, 0},
		{"data-old", "a disk that hangs", "for 50 s", func(s *metrics.Snapshot) { s.Channels[0].Since = noon.Add(-50 * time.Second) }, 0},
		{"data-old", "a disk that hangs", "the node does not have that channel", func(s *metrics.Snapshot) { s.Channels[0].State = "absent" }, 0},
		{"clock-skew", "clocks differ", "by 119 s", func(s *metrics.Snapshot) { s.NodeClock = 119 * time.Second }, 0},
	}
}

// TestNearMisses asserts of every detector that what nearly raises it does not.
func TestNearMisses(t *testing.T) {
	cases := map[string]caseOf{}
	for _, c := range allCases() {
		cases[c.name] = c
	}
	missed := map[string]bool{}
	for _, n := range nearMisses() {
		t.Run(n.as+", but "+n.but, func(t *testing.T) {
			c, ok := cases[n.as]
			if !ok || c.id != n.of {
				t.Fatalf("no case %q raises %s", n.as, n.of)
			}
			missed[n.of] = true
			s := healthy()
			c.spoil(s)
			n.calm(s)
			held := backs[0]
			if n.held > 0 {
				held = n.held
			}
			if f, ok := judgeFor(t, New(s.Config), s, held)[n.of]; ok {
				t.Errorf("%s is raised: %s", n.of, f.Title)
			}
		})
	}
	for _, d := range Registry() {
		if !missed[d.ID] {
			t.Errorf("nothing nearly raises %s", d.ID)
		}
	}
}
