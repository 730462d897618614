package tui

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// The snapshots below are made by hand from the run that runvigil tells as its
// story; a scene is one moment of it.
const (
	storyLog    = "/data/eagle3/synth_100k/logs/sglang_inference.log"
	storyClient = "/data/eagle3/synth_100k/logs/inference_all.log"
	storyB1     = "/data/eagle3/synth_100k/raw/B1_glaive.jsonl"
	storyB2     = "/data/eagle3/synth_100k/raw/B2_opencodeinstruct.jsonl"
	storyServer = "206001:4410021"
)

var (
	storyZone  = time.FixedZone("CET", 3600)
	storyNow   = time.Date(2026, 2, 24, 12, 16, 7, 0, storyZone)
	storyStart = time.Date(2026, 2, 24, 11, 55, 2, 0, storyZone)
	storyRun   = time.Date(2026, 2, 24, 11, 57, 31, 0, storyZone) // the client's start
)

// wobble is a repeatable noise between -1 and 1.
func wobble(t time.Time, salt int64) float64 {
	x := uint64(t.Unix()*2654435761 + salt*40503)
	x ^= x >> 13
	x *= 0x9e3779b97f4a7c15
	x ^= x >> 29
	return float64(x%2001)/1000 - 1
}

// storyLoad gives running requests, queue, live tokens and tok/s of the closed
// loop of 150 at a moment.
func storyLoad(t time.Time) (running, queued, tokens, tps float64) {
	s := t.Sub(storyRun).Seconds()
	switch {
	case s < 4:
		return 0, 0, 0, 0
	case s < 40:
		running = 20 + s*2
	case s < 100:
		running = 100 + (s-40)*0.45
	case s < 140:
		running = 125 - (s-100)*0.1
	default:
		running = 34.5 + 86*math.Exp(-(s-140)/130)
	}
	running += wobble(t, 1) * math.Min(running*0.015, 1.2)
	running = math.Round(running)
	tps = running / (0.0439 + 0.000397*running)
	if s < 100 {
		tps *= 0.75 + s/400
	}
	tps *= 1 + 0.02*wobble(t, 2)
	per := 420 + 731*s/140
	if s > 140 {
		per = 1151 + 3275*(1-math.Exp(-(s-140)/200))
	}
	tokens = math.Min(running*per, 154900+wobble(t, 3)*1500)
	return running, 150 - running, tokens, tps
}

// scene builds the snapshot of the settled run at a moment.
func scene(now time.Time) *metrics.Snapshot {
	s := &metrics.Snapshot{
		Node: "gpu7", Host: "gpu7", User: "root", At: now, Zone: "CET", ZoneSec: 3600, BootID: "b00710",
		Link:     metrics.Link{Status: metrics.LinkUp, Since: now.Add(-time.Hour), RTT: 24 * time.Millisecond, LastData: now.Add(-time.Second)},
		GPUTool:  metrics.GPUTool{State: "ok", Driver: "580.65.06"},
		Series:   map[metrics.SeriesKey]*metrics.Series{},
		Logs:     map[string]*metrics.LogTail{},
		Channels: []metrics.Channel{{Name: "ctl", State: "ok"}, {Name: "gpu", State: "ok"}},
	}
	storySeries(s, now)
	running, queued, tokens, tps := storyLoad(now)
	at := now.Add(-2 * time.Second)
	fig := func(v float64) metrics.Figure { return metrics.Known(v, at, 4*time.Second, "log") }
	graph := true
	unbuffered := false
	srv := metrics.Server{
		ID: storyServer, Engine: "sglang", Version: "0.5.9", Model: "moonshotai/Kimi-K2.5", PID: 206001, Start: 4410021, Started: storyStart, User: "root", Port: 8000,
		State: metrics.ServerServing, Since: storyRun, TP: 8, StartNo: 5, Tree: []int{206001, 206100, 206101, 206102, 206103, 206104, 206105, 206106, 206107, 206108},
		Argv: []string{"python3", "-m", "sglang.launch_server", "--model-path", "moonshotai/Kimi-K2.5", "--tp", "8", "--mem-fraction-static", "0.88", "--enable-hierarchical-cache", "--hicache-size", "48", "--port", "8000"},
		Cwd:  "/data/eagle3", Log: metrics.LogRef{Path: storyLog, Bytes: metrics.Known(4_812_331, now, time.Second, "stat"), Lines: metrics.Known(31022, now, time.Second, "log"), Mtime: at},
		Running: fig(running), Queued: fig(queued), InFlight: fig(running + queued), KVUsage: fig(tokens / 159277), KVTokens: fig(math.Round(tokens)), PerRequest: fig(math.Round(tokens / running)),
		Capacity: metrics.Fixed(159277, storyStart, "log"), MaxRunning: metrics.Fixed(2048, storyStart, "log"), ContextLen: metrics.Fixed(262144, storyStart, "log"),
		Headroom: metrics.Fixed(5.47, storyStart, "log"), KVDtype: "bfloat16", BytesPerTok: metrics.Fixed(70272, storyStart, "log"),
		HiCache: metrics.HiCache{On: true, SizeGB: 48, HostGB: metrics.Fixed(384, storyStart, "log")}, Graph: &graph,
		Retracted: fig(0), InputTPS: fig(62), CacheHit: fig(0.031), Finished: fig(157), FinishedWith: "access lines", LastBatch: at, LastToken: at,
		Phase: metrics.Phase{Name: "ready", Ready: storyStart.Add(138 * time.Second), Took: []metrics.PhaseTook{{Name: "loading weights", Took: 81 * time.Second}, {Name: "capturing graphs", Took: 34 * time.Second}}},
		Step:  metrics.StepFit{A: 0.0439, B: 0.000397, N: 240, Resid: 0.02},
	}
	srv.Gen = metrics.GenRate{Now: fig(math.Round(tps)), Peak: metrics.Fixed(1317.32, storyRun.Add(140*time.Second), "log"), PeakAt: storyRun.Add(140 * time.Second),
		PeakRunning: metrics.Fixed(121, storyRun, "log"), PeakPerRequest: metrics.Fixed(1151, storyRun, "log")}
	srv.Gen.Now = fig(606)
	srv.Running, srv.Queued, srv.KVTokens, srv.KVUsage, srv.PerRequest = fig(35), fig(115), fig(154912), fig(0.97), fig(4426)
	srv.RequestsFit = fig(36)
	srv.Gen.Settled, srv.Gen.Spread, srv.Gen.Since = fig(604), fig(21), now.Add(-9*time.Minute)
	s.Servers = []metrics.Server{srv}
	for i := range 8 {
		g := metrics.GPU{Index: i, Name: "NVIDIA RTX PRO 6000 Blackwell Server Edition", UUID: fmt.Sprintf("GPU-%08d", i), Bus: fmt.Sprintf("0000:%02x:00.0", i*16+1)}
		f := func(v float64) metrics.Figure { return metrics.Known(v, now, time.Second, "nvidia-smi") }
		g.MemUsed, g.MemTotal = f(93390+float64(i%3)*2), metrics.Fixed(97887, now, "nvidia-smi")
		g.MemLowest = metrics.Fixed(4505, now, "nvidia-smi")
		g.Util, g.Temp, g.Power, g.PowerLimit = f(98+float64(i%2)), f(63+float64(i%3)), f(409+float64(i*7%11)), metrics.Fixed(600, now, "nvidia-smi")
		g.ClockSM, g.ClockMem, g.ECC = f(2287), f(12481), f(0)
		g.Procs = []metrics.GPUProc{{PID: 206101 + i, Name: "sglang::scheduler", MiB: f(93100), Owner: "server"}}
		s.GPUs = append(s.GPUs, g)
	}
	s.Clients = []metrics.Client{{
		ID: "206570:4425110", PID: 206570, Start: 4425110, Started: storyRun, User: "root", Argv: []string{"python3", "run_inference.py", "--concurrency", "150"}, Cwd: "/data/eagle3/synth_100k",
		State: "running", Since: storyRun, Python: true, Unbuffered: &unbuffered, LogOwned: true,
		Log:            metrics.LogRef{Path: storyClient, Bytes: metrics.Known(0, now, time.Second, "stat"), Lines: metrics.Known(0, now, time.Second, "stat"), Mtime: storyRun},
		LogSilentSince: storyRun, Datasets: []string{storyB2}, Ports: []int{8000}, Conns: 150,
	}}
	rows := func(v float64) metrics.Figure { return metrics.Known(v, now, 2*time.Second, "stat") }
	eta := func(t time.Time, d time.Duration) metrics.ETA { return metrics.ETA{Known: true, At: t, Spread: d} }
	s.Datasets = []metrics.Dataset{
		{Path: storyB2, Name: "B2_opencodeinstruct", Rows: rows(1531), Bytes: rows(26_311_002), PerMin: rows(9.1), PerMinOver: 10 * time.Minute, Grew: now.Add(-4 * time.Second), Gap: 7 * time.Second,
			Target: metrics.Target{Rows: 10000, Source: "config"}, ETA: eta(now.Add(930*time.Minute), 40*time.Minute), Writers: []int{206570}, Landed: rows(157), LandedSince: storyRun,
			Median: rows(4012), MedianInTokens: true, Cut: rows(0.06)},
		{Path: storyB1, Name: "B1_glaive", Rows: rows(10000), Bytes: rows(61_201_881), Grew: now.Add(-56 * time.Minute), Target: metrics.Target{Rows: 10000, Source: "config"},
			Done: time.Date(2026, 2, 24, 11, 20, 12, 0, storyZone), Median: rows(1104), MedianInTokens: true, Cut: rows(0.004)},
	}
	s.Job = metrics.Job{Rows: rows(11531), Target: metrics.Target{Rows: 88000, Source: "config"}, PerMin: rows(9.1), PerMinOver: 10 * time.Minute,
		ETA: eta(time.Date(2026, 3, 2, 8, 20, 0, 0, storyZone), 9*time.Hour), Finished: rows(157), Landed: rows(157), Since: storyRun}
	const giB = 1 << 30
	f5 := func(v float64) metrics.Figure { return metrics.Known(v, now, 5*time.Second, "/proc") }
	s.Sys = metrics.Host{Load1: f5(12.4), CPUs: 128, CPUUtil: f5(0.09), MemAvail: f5(118 * giB), MemTotal: f5(1008 * giB), UptimeS: f5(4.1e6), SwapUsed: f5(0), SwapTotal: f5(0),
		Disks: []metrics.Disk{{Mount: "/data", Total: f5(14 * 1024 * giB), Avail: f5(1.9 * 1024 * giB), FullIn: 41 * 24 * time.Hour}},
		Shm:   metrics.Disk{Mount: "/dev/shm", Total: f5(504 * giB), Avail: f5(489 * giB)}}
	s.Findings = []metrics.Finding{
		{ID: "client-log-silent", Severity: metrics.SeverityInfo, Subject: "206570:4425110", Since: storyRun.Add(2 * time.Minute), Title: "the client's log is empty: its output is buffered, its rows land", Cause: metrics.CauseClientBuffered,
			Why:      "Python holds back what it prints when its output goes to a file; rows reach their own file row by row.",
			Evidence: []metrics.Evidence{{Text: "inference_all.log has 0 bytes since 11:57", Source: "stat", At: now}, {Text: "rows 1,374 → 1,531", Source: "stat of B2_opencodeinstruct.jsonl", At: now}},
			Advice:   "nothing to do now; next time start the client with python -u, or PYTHONUNBUFFERED=1", Log: metrics.LogPlace{Path: storyClient}},
		{ID: "settled", Severity: metrics.SeverityInfo, Subject: storyServer, Since: now.Add(-9 * time.Minute), Title: "606 tok/s is what this start gives; 1,317 was the ramp",
			Why:      "Requests were young at the peak (1,151 tokens each) and 121 fitted; grown to 4,426 tokens only 36 fit.",
			Evidence: []metrics.Evidence{{Text: "1317.32 tok/s with 121 running at 11:59", Source: "log", At: storyRun.Add(140 * time.Second)}, {Text: "604 ± 21 tok/s with 35 running since 12:07", Source: "log", At: now}},
			Advice:   "nothing to do now; the KV pool is full: e, or restart --dry-run, forecasts a higher --mem-fraction-static", Log: metrics.LogPlace{Path: storyLog, Line: 30990}, Graph: metrics.SeriesKey{What: metrics.SeriesGenTPS, Of: storyServer}},
	}
	s.CannotTell = []metrics.CannotTell{{What: "hierarchical cache", Why: "nothing in the log says whether it is used", Tell: "start with --enable-metrics"}}
	s.Events = []metrics.Event{
		{At: time.Date(2026, 2, 24, 11, 20, 12, 0, storyZone), Kind: "rows", Text: "B1_glaive reached 10,000 rows"},
		{At: time.Date(2026, 2, 24, 11, 31, 40, 0, storyZone), Kind: "crash", Text: "start #2 (0.93 hicache) crashed: cuda-oom in prefill"},
		{At: storyStart, Kind: "start", Text: "start #5 (0.88 bf16 hicache)"},
		{At: storyStart.Add(138 * time.Second), Kind: "ready", Text: "server ready after 2 m 18 s"},
		{At: storyRun, Kind: "client", Text: "client 206570 started; first token 4 s later"},
		{At: storyRun.Add(2 * time.Minute), Kind: "finding", Text: "client-log-silent: its log is empty", Ref: "client-log-silent"},
		{At: now.Add(-9 * time.Minute), Kind: "settled", Text: "settled at 604 tok/s", Ref: "settled"},
	}
	s.Starts = storyStarts()
	s.Guards = []metrics.Guard{{Flag: "kv-cache-dtype", Deny: []string{"fp8*"}, Why: "fp8 KV degrades the model noticeably"}}
	s.Verdict = metrics.Verdict{Level: metrics.SeverityInfo, Word: "OK", Text: "rows land; 606 tok/s is settled (1317 was the ramp: 1,151 tokens a request, now 4,426)"}
	s.Logs[storyLog] = storyTail(now)
	s.Logs[storyClient] = &metrics.LogTail{Path: storyClient, First: 1}
	return s
}

func storySeries(s *metrics.Snapshot, now time.Time) {
	add := func(what, of string, t time.Time, v float64) {
		key := metrics.SeriesKey{What: what, Of: of}
		if s.Series[key] == nil {
			s.Series[key] = &metrics.Series{}
		}
		s.Series[key].Add(t, v)
	}
	for t := storyRun.Add(4 * time.Second); t.Before(now); t = t.Add(4 * time.Second) {
		running, queued, tokens, tps := storyLoad(t)
		add(metrics.SeriesGenTPS, storyServer, t, tps)
		add(metrics.SeriesRunning, storyServer, t, running)
		add(metrics.SeriesQueued, storyServer, t, queued)
		add(metrics.SeriesKVUsage, storyServer, t, tokens/159277)
		add(metrics.SeriesPerReq, storyServer, t, tokens/running)
	}
	add(metrics.SeriesGenTPS, storyServer, storyRun.Add(140*time.Second), 1317.32)
	for t := now.Add(-40 * time.Minute); t.Before(now); t = t.Add(5 * time.Second) {
		rows := 1374.0
		if d := t.Sub(storyRun).Minutes(); d > 1 {
			rows += math.Floor((d - 1) * 157 / (now.Sub(storyRun).Minutes() - 1))
			add(metrics.SeriesRowRate, storyB2, t, 9.1+2*wobble(t, 5))
			add(metrics.SeriesRowRate, "", t, 9.1+2*wobble(t, 5))
		}
		add(metrics.SeriesRows, storyB2, t, rows)
		add(metrics.SeriesLoad, "", t, 12+wobble(t, 6))
		add(metrics.SeriesMemAvail, "", t, 118*(1<<30))
		for i := range 8 {
			of := strconv.Itoa(i)
			busy := 3.0
			if t.After(storyRun) {
				busy = 98
			}
			add(metrics.SeriesGPUMem, of, t, 93390)
			add(metrics.SeriesGPUUtil, of, t, busy)
			add(metrics.SeriesGPUTemp, of, t, 40+busy/4)
			add(metrics.SeriesGPUPower, of, t, 90+busy*3.3)
		}
	}
}

func num(v float64) *float64 { return &v }

func storyStarts() []metrics.Start {
	at := func(h, m int) time.Time { return time.Date(2026, 2, 24, h, m, 0, 0, storyZone) }
	argv := func(frac string, more ...string) []string {
		return append([]string{"python3", "-m", "sglang.launch_server", "--tp", "8", "--mem-fraction-static", frac}, more...)
	}
	return []metrics.Start{
		{ID: "baseline", No: 1, Node: "gpu7", Engine: "sglang", At: at(9, 2), Label: "0.85 bf16", Imported: true, Capacity: num(116171), Peak: num(850), Settled: num(640), Running: num(42), Queued: num(108), Outcome: "stopped", Argv: argv("0.85")},
		{ID: "try1", No: 2, Node: "gpu7", Engine: "sglang", At: at(11, 28), Label: "0.93 bf16 hicache", Imported: true, Capacity: num(231120), HeadroomGB: num(0.82), Outcome: "crashed", Cause: metrics.CauseCUDAOOM, CauseTxt: "out of memory in prefill", AfterRequestS: 40, Argv: argv("0.93", "--hicache-size", "48")},
		{ID: "try2", No: 3, Node: "gpu7", Engine: "sglang", At: at(11, 34), Label: "0.88 bf16 hicache", Imported: true, Capacity: num(159277), HeadroomGB: num(5.47), Peak: num(1309), Settled: num(606), Running: num(35), Queued: num(115), Outcome: "stopped", Argv: argv("0.88", "--hicache-size", "48")},
		{ID: "try3", No: 4, Node: "gpu7", Engine: "sglang", At: at(11, 46), Label: "0.90 fp8 hicache", Imported: true, Capacity: num(376000), Peak: num(1450), Settled: num(1380), Running: num(140), Queued: num(0), Outcome: "stopped", GuardBroken: "kv-cache-dtype fp8_e4m3", Argv: argv("0.90", "--kv-cache-dtype", "fp8_e4m3", "--hicache-size", "48")},
		{ID: "b00710:206001:4410021", No: 5, Node: "gpu7", Engine: "sglang", At: storyStart, Label: "0.88 bf16 hicache", Capacity: num(159277), HeadroomGB: num(5.47), Peak: num(1317), Settled: num(604), Spread: num(21), Running: num(35), Queued: num(115), KVUsage: num(0.97), PerRequest: num(4426), RowsPerMin: num(9.1), LowestFree: num(4.4), ReadyS: num(138), Outcome: "running", Argv: argv("0.88", "--hicache-size", "48")},
	}
}

func storyTail(now time.Time) *metrics.LogTail {
	tail := &metrics.LogTail{Path: storyLog, First: 30723, Offset: 4_812_331, Size: 4_812_331}
	off := tail.Offset - 300*160
	for i := range 300 {
		t := now.Add(time.Duration(i-300) * 4 * time.Second)
		running, queued, tokens, tps := storyLoad(t)
		l := metrics.LogLine{At: t, Off: off}
		l.Text = fmt.Sprintf("[%s TP0] Decode batch, #running-req: %.0f, #token: %.0f, token usage: %.2f, cuda graph: True, gen throughput (token/s): %.2f, #queue-req: %.0f",
			t.In(storyZone).Format("2006-01-02 15:04:05"), running, tokens, tokens/159277, tps, queued)
		switch {
		case i%7 == 3:
			l.Text = fmt.Sprintf(`[%s] INFO:     127.0.0.1:46812 - "POST /generate HTTP/1.1" 200 OK`, t.In(storyZone).Format("2006-01-02 15:04:05"))
		case i == 120:
			l.Text, l.Level = fmt.Sprintf("[%s TP0] WARNING: token usage is high, new requests wait", t.In(storyZone).Format("2006-01-02 15:04:05")), 1
		case i == 60:
			l.Text, l.Level = fmt.Sprintf("[%s TP3] ERROR: request 8f31 aborted by the client", t.In(storyZone).Format("2006-01-02 15:04:05")), 2
		}
		tail.Lines = append(tail.Lines, l)
		off += 160
	}
	return tail
}

// sceneSettled is ten minutes after the run settled.
func sceneSettled() *metrics.Snapshot { return scene(storyNow) }

// sceneRamp is two minutes after the client's start.
func sceneRamp() *metrics.Snapshot {
	now := storyRun.Add(142 * time.Second)
	s := scene(now)
	fig := func(v float64) metrics.Figure { return metrics.Known(v, now, 4*time.Second, "log") }
	srv := &s.Servers[0]
	srv.Gen = metrics.GenRate{Now: fig(1317.32), Peak: fig(1317.32), PeakAt: now.Add(-2 * time.Second), Ramp: true}
	srv.Running, srv.Queued, srv.KVTokens, srv.KVUsage, srv.PerRequest = fig(121), fig(29), fig(139222), fig(0.87), fig(1151)
	srv.RequestsFit, srv.FitTooEarly = metrics.Figure{}, true
	held := metrics.ETA{Held: "after the first generation of requests"}
	s.Job.Rows, s.Job.PerMin, s.Job.Finished, s.Job.Landed, s.Job.ETA = fig(11399), fig(12.5), fig(25), fig(25), held
	s.Job.PerMinOver = 2 * time.Minute
	s.Datasets[0].Rows, s.Datasets[0].PerMin, s.Datasets[0].ETA = fig(1399), fig(12.5), held
	s.Datasets[0].Median, s.Datasets[0].Cut = fig(310), fig(0)
	s.Findings = s.Findings[:1]
	s.Findings[0].Since = now.Add(-20 * time.Second)
	s.Events = s.Events[:5]
	s.Verdict = metrics.Verdict{Level: metrics.SeverityInfo, Word: "OK", Text: "rows land; 1317 tok/s is the ramp: requests are young (1,151 tokens each) and will slow down as they grow"}
	return s
}

// sceneCrash is try 1, just crashed.
func sceneCrash() *metrics.Snapshot {
	now := storyNow
	s := scene(now)
	code := 1
	end := now.Add(-40 * time.Second)
	srv := &s.Servers[0]
	*srv = metrics.Server{ID: srv.ID, Engine: "sglang", Version: "0.5.9", Model: srv.Model, PID: srv.PID, Started: now.Add(-4 * time.Minute), State: metrics.ServerDown, Since: end, Ended: end, ExitCode: &code, TP: 8, StartNo: 2, Log: srv.Log, Argv: srv.Argv,
		Capacity: metrics.Fixed(231120, now, "log"), Headroom: metrics.Fixed(0.82, now, "log"), Gen: metrics.GenRate{Peak: metrics.Fixed(412, end, "log"), PeakAt: end},
		HiCache: srv.HiCache,
		Causes: []metrics.CauseFact{{Class: metrics.CauseCUDAOOM, Detail: "CUDA out of memory in prefill: tried to allocate 1.12 GiB, 0.82 GiB free", Rank: "TP3", Line: "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.12 GiB.",
			LineNo: 30990, At: end, Phase: "prefill", Primary: true}}}
	freeGPUs(s)
	s.Job.PerMin, s.Job.ETA = metrics.Known(0, now, time.Second, "stat"), metrics.ETA{Held: "nothing grows"}
	s.Job.Finished, s.Job.Landed = metrics.Known(0, now, time.Second, "log"), metrics.Known(0, now, time.Second, "stat")
	s.Datasets[0].PerMin, s.Datasets[0].ETA, s.Datasets[0].Grew = s.Job.PerMin, metrics.ETA{Held: "nothing grows"}, now.Add(-22*time.Minute)
	s.Findings = []metrics.Finding{{ID: "server-oom", Severity: metrics.SeverityCritical, Subject: srv.ID, Since: end, Title: "the server ran out of GPU memory in its first large prefill, 11 s after ready", Cause: metrics.CauseCUDAOOM,
		Why: "Graph capture left 0.82 GiB free; a prefill of 8,192 tokens needs more.", Advice: "start with --mem-fraction-static 0.88 (5.47 GiB stayed free then)", Log: metrics.LogPlace{Path: storyLog, Line: 30990},
		Evidence: []metrics.Evidence{{Text: "available_gpu_mem=0.82 GB after capture", Source: "log", At: now.Add(-time.Minute)}, {Text: "torch.OutOfMemoryError on TP3", Source: "log line 30,990", At: end}}},
		s.Findings[0]}
	s.Events = append(s.Events, metrics.Event{At: end, Kind: "crash", Text: "server-oom: CUDA out of memory in prefill (TP3)", Ref: "server-oom"})
	s.Verdict = metrics.Verdict{Level: metrics.SeverityCritical, Word: "CRIT", Text: "the server crashed 40 s ago: CUDA out of memory in prefill with 0.82 GiB headroom; no rows land"}
	return s
}

// freeGPUs is what a server leaves that has ended.
func freeGPUs(s *metrics.Snapshot) {
	f := func(v float64) metrics.Figure { return metrics.Known(v, s.At, time.Second, "nvidia-smi") }
	for i := range s.GPUs {
		g := &s.GPUs[i]
		g.MemUsed, g.Util, g.Power, g.Temp, g.MemLowest = f(4), f(0), f(88), f(44), metrics.Fixed(240, s.At, "nvidia-smi")
		g.Procs = nil
	}
}

// sceneDown is the settled run three minutes after the link broke.
func sceneDown() *metrics.Snapshot {
	s := scene(storyNow)
	lost := s.At
	s.At = s.At.Add(3*time.Minute + 12*time.Second)
	s.Link = metrics.Link{Status: metrics.LinkDown, Since: lost.Add(4 * time.Second), Reason: "no answer for 10 s", LastData: lost}
	s.Findings = append([]metrics.Finding{{ID: "link-down", Severity: metrics.SeverityCritical, Subject: "node", Since: lost.Add(4 * time.Second), Title: "no connection to gpu7 for 3 m; the run goes on without us", Why: "no answer for 10 s", Advice: "nothing to do: it is tried again every 3 s"}}, s.Findings...)
	s.Verdict = metrics.Verdict{Level: metrics.SeverityCritical, Word: "DOWN", Text: "no connection to gpu7 for 3 m (no answer for 10 s); everything below is as it was at 12:16"}
	return s
}

// sceneOutlier has one GPU that idles while the others work, and one that is lost.
func sceneOutlier() *metrics.Snapshot {
	s := scene(storyNow)
	f := func(v float64) metrics.Figure { return metrics.Known(v, s.At, time.Second, "nvidia-smi") }
	s.GPUs[3].Util, s.GPUs[3].Power, s.GPUs[3].Temp = f(4), f(121), f(47)
	s.GPUs[6] = metrics.GPU{Index: 6, Name: s.GPUs[6].Name, Lost: "Unable to determine the device handle for GPU 0000:61:00.0"}
	s.Findings = append([]metrics.Finding{{ID: "gpu-lost", Severity: metrics.SeverityCritical, Subject: "gpu 6", Since: s.At.Add(-time.Minute), Title: "GPU 6 fell off the bus", Cause: metrics.CauseGPULost, Advice: "restart the machine"}}, s.Findings...)
	s.Verdict = metrics.Verdict{Level: metrics.SeverityCritical, Word: "CRIT", Text: "GPU 6 fell off the bus 1 m ago"}
	return s
}

// sceneEmpty is a node without any trace of a run; sceneWait is the first look.
func sceneEmpty() *metrics.Snapshot {
	s := scene(storyNow)
	s.Servers, s.Clients, s.Datasets, s.Job, s.Findings, s.Events, s.Starts, s.CannotTell, s.Series, s.Logs = nil, nil, nil, metrics.Job{}, nil, nil, nil, nil, nil, nil
	for i := range s.GPUs {
		s.GPUs[i].MemUsed, s.GPUs[i].Util, s.GPUs[i].Procs = metrics.Known(4, s.At, time.Second, "nvidia-smi"), metrics.Known(0, s.At, time.Second, "nvidia-smi"), nil
	}
	s.Verdict = metrics.Verdict{Word: "NONE", Text: "no trace of a server or client on gpu7"}
	return s
}

func sceneWait() *metrics.Snapshot {
	s := sceneEmpty()
	s.GPUs = nil
	s.GPUTool.State = ""
	s.Doing = []string{"connected to gpu7 as root, over ssh", "found SGLang 0.5.9 on port 8000, pid 206001", "reading the last start in sglang_inference.log …"}
	s.Verdict = metrics.Verdict{Word: "WAIT", Text: "looking around on gpu7"}
	return s
}

var scenes = map[string]func() *metrics.Snapshot{
	"settled": sceneSettled, "ramp": sceneRamp, "crash": sceneCrash, "down": sceneDown, "outlier": sceneOutlier, "empty": sceneEmpty, "wait": sceneWait,
}
