package findings

import (
	"strconv"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

func machineCases() []caseOf {
	const warning, critical, info = metrics.SeverityWarning, metrics.SeverityCritical, metrics.SeverityInfo
	held := func(s *metrics.Snapshot, owner string, p metrics.Proc) {
		p.PID = 4242
		s.GPUs[0].Procs = []metrics.GPUProc{{PID: 4242, Name: "python3", MiB: fig(40_000), Owner: owner}}
		if p.Comm != "" {
			s.Procs = []metrics.Proc{p}
		}
	}
	waits := func(s *metrics.Snapshot) {
		s.Clients, s.Datasets, s.Job = nil, nil, metrics.Job{}
		s.Servers[0] = metrics.Server{ID: "1:1", Engine: "sglang", State: metrics.ServerStarting, Started: noon.Add(-time.Minute), Phase: metrics.Phase{Name: "loading weights", LastSign: noon}}
	}
	eight := func(s *metrics.Snapshot, odd func(age time.Duration) float64, what string) {
		s.GPUs = nil
		for i := range 8 {
			s.GPUs = append(s.GPUs, metrics.GPU{Index: i, MemTotal: fig(97887), MemUsed: fig(90000)})
			series(s, what, strconv.Itoa(i), flat(95))
		}
		series(s, what, "3", odd)
		s.Servers[0].Phase.Ready = noon.Add(-65 * time.Minute)
	}
	limited := func(s *metrics.Snapshot, gib float64) {
		s.Sys.NodeAvail, s.Sys.NodeTotal = fig(600<<30), fig(1008<<30)
		s.Sys.MemAvail, s.Sys.MemTotal, s.Sys.MemLimit = fig(gib*(1<<30)), fig(400<<30), "the container"
	}
	return []caseOf{
		{"an orphan", func(s *metrics.Snapshot) {
			held(s, "other", metrics.Proc{PPID: 1, Comm: "sglang::schedul", User: "root", Argv: []string{"sglang::scheduler_TP3"}})
		}, "gpu-memory-held", warning, metrics.CauseGPUMemoryHeld, []string{"an orphan of an earlier server", "39.1 GiB on GPU 0", "kill 4242"}, nil},
		{"an orphan with its age and login", func(s *metrics.Snapshot) {
			held(s, "other", metrics.Proc{PPID: 9, Start: 360_000, Comm: "sglang::schedul", User: "root", Argv: []string{"sglang::scheduler_TP3"}})
			s.Procs = append(s.Procs, metrics.Proc{PID: 9, PPID: 1, Argv: []string{"sshd: anna@pts/3"}})
			s.Sys.UptimeS = fig(3600 + 2*3600)
		}, "gpu-memory-held", warning, metrics.CauseGPUMemoryHeld, []string{"runs for 2 h", "login anna@pts/3"}, nil},
		{"an orphan while a start waits", func(s *metrics.Snapshot) {
			waits(s)
			held(s, "other", metrics.Proc{PPID: 1, Comm: "sglang::schedul", Argv: []string{"sglang::scheduler_TP3"}})
		}, "gpu-memory-held", critical, metrics.CauseGPUMemoryHeld, []string{"a start needs this memory"}, nil},
		{"another user while we start on other GPUs", func(s *metrics.Snapshot) {
			waits(s)
			held(s, "other", metrics.Proc{PPID: 1, Comm: "train", User: "bo"})
			s.Servers[0].PID = 9
			s.Procs = append(s.Procs, metrics.Proc{PID: 9, Env: map[string]string{"CUDA_VISIBLE_DEVICES": "4,5,6,7"}})
		}, "gpu-memory-held", info, metrics.CauseGPUMemoryHeld, []string{"of bo"}, nil},
		{"another user where we want to start", func(s *metrics.Snapshot) {
			waits(s)
			held(s, "other", metrics.Proc{PPID: 1, Comm: "train", User: "bo"})
			s.Servers[0].PID, s.Servers[0].TP = 9, 2
			s.Procs = append(s.Procs, metrics.Proc{PID: 9})
		}, "gpu-memory-held", critical, metrics.CauseGPUMemoryHeld, []string{"a start needs this memory"}, nil},
		{"a zombie", func(s *metrics.Snapshot) { held(s, "gone", metrics.Proc{PPID: 99, Comm: "python3", State: "Z"}) },
			"gpu-memory-held", warning, metrics.CauseGPUMemoryHeld, []string{"a zombie", "kill 99"}, nil},
		{"a holder outside the container", func(s *metrics.Snapshot) { held(s, "invisible", metrics.Proc{}) },
			"gpu-memory-held", info, metrics.CauseGPUMemoryHeld, []string{"on the host"}, nil},
		{"our own start in a container, by pids of the host", func(s *metrics.Snapshot) {
			waits(s)
			held(s, "invisible", metrics.Proc{})
			s.Servers[0].PID, s.Servers[0].Tree = 9, []int{9, 10}
			s.Procs = []metrics.Proc{{PID: 9}, {PID: 10, PPID: 9, GPUs: []int{0}}}
		}, "", 0, "", nil, nil},
		{"a second holder beside our own start in a container", func(s *metrics.Snapshot) {
			waits(s)
			held(s, "invisible", metrics.Proc{})
			s.Servers[0].PID, s.Servers[0].Tree = 9, []int{9, 10}
			s.Procs = []metrics.Proc{{PID: 9}, {PID: 10, PPID: 9, GPUs: []int{0}}}
			s.GPUs[0].Procs = append(s.GPUs[0].Procs, metrics.GPUProc{PID: 5151, MiB: fig(9000), Owner: "invisible"})
		}, "gpu-memory-held", critical, metrics.CauseGPUMemoryHeld, []string{"process 5151 of the host", "a start needs this memory"}, nil},
		{"another user", func(s *metrics.Snapshot) { held(s, "other", metrics.Proc{PPID: 1, Comm: "train", User: "bo"}) },
			"gpu-memory-held", info, metrics.CauseGPUMemoryHeld, []string{"of bo", "ask its owner"}, nil},
		{"memory of nobody", func(s *metrics.Snapshot) {
			s.Servers, s.Clients, s.Datasets, s.Job = nil, nil, nil, metrics.Job{}
		}, "gpu-memory-held", warning, metrics.CauseGPUMemoryHeld, []string{"no process is shown", "fuser -v /dev/nvidia0"}, nil},
		{"the server's own memory", func(s *metrics.Snapshot) { held(s, "server", metrics.Proc{Comm: "python3"}) }, "", 0, "", nil, nil},
		{"a few MiB of a desktop", func(s *metrics.Snapshot) {
			held(s, "other", metrics.Proc{Comm: "Xorg"})
			s.GPUs[0].Procs[0].MiB = fig(300)
		}, "", 0, "", nil, nil},

		{"one GPU grew", func(s *metrics.Snapshot) {
			eight(s, func(age time.Duration) float64 {
				if age < 20*time.Minute {
					return 95 + 6000
				}
				return 95
			}, metrics.SeriesGPUMem)
		}, "gpu-uneven", warning, "", []string{"GPU 3 grew by 5.86 GiB", "nvidia-smi -i 3"}, nil},
		{"one GPU idles", func(s *metrics.Snapshot) {
			eight(s, func(age time.Duration) float64 {
				if age < 20*time.Minute {
					return 5
				}
				return 95
			}, metrics.SeriesGPUUtil)
		}, "gpu-uneven", warning, "", []string{"GPU 3 is 90 points less busy"}, nil},
		{"one GPU was always different", func(s *metrics.Snapshot) { eight(s, flat(40), metrics.SeriesGPUUtil) }, "", 0, "", nil, nil},
		{"too hot", func(s *metrics.Snapshot) {
			s.GPUs[0].Throttle, s.GPUs[0].Temp = []string{"SW Thermal Slowdown"}, fig(92)
		},
			"gpu-throttled", warning, metrics.CauseGPUThrottled, []string{"92 °C", "nvidia-smi -pl"}, nil},
		{"at its power limit", func(s *metrics.Snapshot) { s.GPUs[0].Throttle = []string{"SW Power Cap"} }, "", 0, "", nil, nil},
		{"ECC errors", func(s *metrics.Snapshot) { s.GPUs[0].ECC = fig(2) }, "gpu-lost", critical, metrics.CauseGPUECC, []string{"2 memory errors"}, nil},
		{"an Xid while it works", func(s *metrics.Snapshot) {
			s.Kernel = []metrics.CauseFact{{Class: metrics.CauseGPUXid, Line: "NVRM: Xid (PCI:0000:61:00): 31", At: noon.Add(-5 * time.Minute), Primary: true}}
		}, "gpu-lost", warning, metrics.CauseGPUXid, []string{"Xid (PCI:0000:61:00): 31"}, nil},
		{"an Xid of last week", func(s *metrics.Snapshot) {
			s.Kernel = []metrics.CauseFact{{Class: metrics.CauseGPUXid, Line: "Xid 31", At: noon.Add(-170 * time.Hour), Primary: true}}
		}, "", 0, "", nil, nil},
		{"nvidia-smi hangs with the firmware", func(s *metrics.Snapshot) {
			s.GPUTool = metrics.GPUTool{State: "stuck", Since: noon.Add(-5 * time.Minute)}
			s.Kernel = []metrics.CauseFact{{Class: metrics.CauseGPUFirmwareTimeout, Line: "Xid 119", At: noon.Add(-2 * time.Hour), Primary: true}}
		}, "gpu-tool-stuck", warning, metrics.CauseGPUFirmwareTimeout, []string{"hangs since 12:11", "Xid 119"}, nil},
		{"driver and library differ", func(s *metrics.Snapshot) {
			s.GPUTool = metrics.GPUTool{State: "failed", Since: noon.Add(-5 * time.Minute), Cause: metrics.CauseDriverMismatch, Text: "Driver/library version mismatch"}
		}, "gpu-tool-stuck", warning, metrics.CauseDriverMismatch, []string{"mismatch", "Reload"}, nil},
		{"no nvidia-smi", func(s *metrics.Snapshot) { s.GPUTool = metrics.GPUTool{State: "absent", Since: noon.Add(-time.Hour)} }, "", 0, "", nil, nil},

		{"host memory is short", func(s *metrics.Snapshot) {
			s.Sys.MemAvail, s.Sys.MemTotal = fig(20<<30), fig(1008<<30)
			s.Servers[0].HiCache = metrics.HiCache{On: true, SizeGB: 48, HostGB: fig(384), LoadBack: fig(1), Loaded: noon}
		}, "host-memory-low", warning, metrics.CauseHostNoMemory, []string{"20.0 GiB of 1.0 TiB", "384 GB are pinned", "from 48 to 36"}, nil},
		{"the container's limit is near", func(s *metrics.Snapshot) {
			limited(s, 8)
			s.Servers[0].HiCache = metrics.HiCache{On: true, SizeGB: 48, HostGB: fig(384), LoadBack: fig(1), Loaded: noon}
		}, "host-memory-low", warning, metrics.CauseHostNoMemory, []string{"8.00 GiB are left below the container's limit of 400 GiB", "the node itself has 600 GiB of 1.0 TiB", "page cache counted as free", "from 48 to 36", "or raise the container's limit of 400 GiB"}, nil},
		{"the container's limit is reached", func(s *metrics.Snapshot) { limited(s, 1) }, "host-memory-low", critical, metrics.CauseHostNoMemory, []string{"ps aux --sort -rss | head), or raise the container's limit"}, nil},
		{"a full container and old swap of the host", func(s *metrics.Snapshot) {
			limited(s, 20)
			s.Sys.SwapUsed = fig(8 << 30)
		}, "", 0, "", nil, nil},
		{"host memory is gone", func(s *metrics.Snapshot) { s.Sys.MemAvail, s.Sys.MemTotal = fig(1<<30), fig(1008<<30) },
			"host-memory-low", critical, metrics.CauseHostNoMemory, nil, nil},
		{"much pinned and enough free", func(s *metrics.Snapshot) { s.Sys.MemAvail, s.Sys.MemTotal = fig(118<<30), fig(1008<<30) }, "", 0, "", nil, nil},
		{"shm is full", func(s *metrics.Snapshot) {
			s.Sys.Shm = metrics.Disk{Mount: "/dev/shm", Avail: fig(0), Total: fig(64 << 20)}
		},
			"shm-full", warning, metrics.CauseShmFull, []string{"--shm-size"}, nil},
		{"swapping", func(s *metrics.Snapshot) {
			s.Sys.SwapUsed, s.Sys.NodeAvail, s.Sys.NodeTotal = fig(8<<30), fig(50<<30), fig(1008<<30)
		}, "swap-used", warning, "", []string{"8.00 GiB of swap", "lower --hicache-size"}, nil},
		{"old swap and free memory", func(s *metrics.Snapshot) {
			s.Sys.SwapUsed, s.Sys.NodeAvail, s.Sys.NodeTotal = fig(8<<30), fig(500<<30), fig(1008<<30)
		}, "", 0, "", nil, nil},
		{"a disk that hangs", func(s *metrics.Snapshot) {
			s.Channels = []metrics.Channel{{Name: "files", State: "stuck", Since: noon.Add(-5 * time.Minute), Reason: "no answer for 5 m"}}
		}, "data-old", warning, "", []string{"rows and logs are 5 m old", "whether a disk hangs"}, nil},
		{"a channel that is not there", func(s *metrics.Snapshot) {
			s.Channels = []metrics.Channel{{Name: "kernel", State: "absent", Since: noon.Add(-5 * time.Minute)}}
		}, "", 0, "", nil, nil},
		{"clocks differ", func(s *metrics.Snapshot) { s.NodeClock, s.BootID = -5*time.Minute, "x" },
			"clock-skew", info, "", []string{"5 m behind", "look at timedatectl on both"}, nil},
		{"a second of skew", func(s *metrics.Snapshot) { s.NodeClock, s.BootID = time.Second, "x" }, "", 0, "", nil, nil},
	}
}
