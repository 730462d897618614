package sglang

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runvigil/runvigil/metrics"
)

func decode(at, rank string, running int, gen string) string {
	return "[2026-02-24 " + at + rank + "] Decode batch, #running-req: " + show(num(float64(running))) + ", #token: 1000, token usage: 0.10, cuda graph: True, gen throughput (token/s): " + gen + ", #queue-req: 0\n"
}

// rates lists which decode lines' rates may be used.
func rates(log string) string {
	var p Parser
	var s State
	var out strings.Builder
	p.Feed([]byte(log), func(ev *Event) {
		a := s.Apply(ev)
		if ev.Kind == KindBatch && ev.Batch.Decode {
			switch {
			case a.Copy:
				out.WriteByte('c')
			case a.RateUsable:
				out.WriteByte('+')
			default:
				out.WriteByte('-')
			}
		}
	})
	return out.String()
}

func TestRatesAfterGaps(t *testing.T) {
	steady := decode("12:00:00", " TP0", 3, "300.00") + decode("12:00:02", " TP0", 3, "300.00") + decode("12:00:04", " TP0", 3, "300.00")
	idlePrefill := "[2026-02-24 12:10:00 TP0] Prefill batch, #new-seq: 1, #new-token: 300, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 0, \n"
	for name, c := range map[string]struct{ log, want string }{
		"the first line of a log covers an unknown time": {steady, "-++"},
		"an idle gap dilutes":                            {steady + idlePrefill + decode("12:10:03", " TP0", 1, "1.06") + decode("12:10:05", " TP0", 1, "84.20"), "-++-+"},
		"a short pause that a new request ends dilutes":  {steady + strings.Replace(idlePrefill, "12:10:00", "12:00:08", 1) + decode("12:00:09", " TP0", 1, "40.00"), "-++-"},
		"slow steps are no gap":                          {decode("12:00:00", "", 6, "24.80") + decode("12:00:11", "", 6, "22.11") + decode("12:00:21", "", 6, "22.00") + decode("12:00:30", "", 6, "22.00"), "--++"},
		"copies of other ranks do not count":             {decode("12:00:00", " PP0 TP0", 3, "1.00") + decode("12:00:00", " PP1 TP0", 3, "1.00") + decode("12:00:02", " PP0 TP0", 3, "1.00") + decode("12:00:02", " PP1 TP0", 3, "1.00"), "-c+c"},
		"each scheduler has gaps of its own":             {decode("12:00:00", " DP0 TP0", 3, "1.00") + decode("12:00:01", " DP1 TP1", 3, "1.00") + decode("12:00:02", " DP0 TP0", 3, "1.00"), "--+"},
		"a new start begins anew":                        {steady + "[2026-02-24 12:00:05] server_args=ServerArgs(port=1)\n" + decode("12:00:06", " TP0", 3, "1.00"), "-++-"},
	} {
		if got := rates(c.log); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestLevelSumsOverDataParallelRanksOnly(t *testing.T) {
	log := decode("12:00:00", " DP0 TP0", 5, "10.00") + decode("12:00:01", " DP1 TP1", 7, "20.00") +
		decode("12:00:01", " DP0 PP1 TP0", 5, "10.00") + decode("12:00:02", " DP0 TP0", 6, "11.00")
	l := read([]byte(log)).Level()
	if l.Ranks != 2 || l.Running != num(13) || l.GenTPS != num(31) || l.Tokens != num(2000) {
		t.Errorf("level = %+v", l)
	}
	// A scheduler that has printed nothing for a while has nothing to do.
	l = read([]byte(log + decode("12:05:00", " DP1 TP1", 2, "5.00"))).Level()
	if l.Ranks != 1 || l.Running != num(2) || l.GenTPS != num(5) {
		t.Errorf("level with an idle rank = %+v", l)
	}
}

// story059 is the start of a 0.5.9 server with two ranks.
const story059 = `[2026-02-24 11:55:02] server_args=ServerArgs(model_path='/data/Kimi-K2.5', port=8000, tp_size=2, hicache_size=48)
[2026-02-24 11:55:12 TP0] Init torch distributed begin.
[2026-02-24 11:55:12 TP1] Init torch distributed begin.
[2026-02-24 11:55:15 TP1] Init torch distributed ends. elapsed=2.98 s, mem usage=0.81 GB
[2026-02-24 11:55:15 TP0] Init torch distributed ends. elapsed=3.01 s, mem usage=0.81 GB
[2026-02-24 11:55:16 TP0] Load weight begin. avail mem=94.04 GB
[2026-02-24 11:55:16 TP1] Load weight begin. avail mem=94.02 GB
Loading safetensors checkpoint shards:  50% Completed | 32/64 [00:09<00:09,  3.41it/s]
[2026-02-24 11:56:16 TP0] Load weight end. elapsed=60.00 s, type=KimiK25, dtype=torch.bfloat16, avail mem=21.71 GB, mem usage=72.33 GB.
[2026-02-24 11:56:20 TP1] Load weight end. elapsed=64.00 s, type=KimiK25, dtype=torch.bfloat16, avail mem=21.69 GB, mem usage=72.33 GB.
[2026-02-24 11:56:20 TP0] Using KV cache dtype: torch.bfloat16
[2026-02-24 11:56:21 TP0] KV Cache is allocated. #tokens: 159277, KV size: 10.42 GB
[2026-02-24 11:56:21 TP1] KV Cache is allocated. #tokens: 159277, KV size: 10.42 GB
[2026-02-24 11:56:21 TP0] Memory pool end. avail mem=10.90 GB
[2026-02-24 11:56:21 TP1] Memory pool end. avail mem=10.88 GB
[2026-02-24 11:56:21 TP0] Capture cuda graph begin. This can take up to several minutes. avail mem=10.80 GB
[2026-02-24 11:56:21 TP1] Capture cuda graph begin. This can take up to several minutes. avail mem=10.80 GB
` + "Capturing batches (bs=8 avail_mem=5.81 GB):  98%|######### | 51/52 [00:20<00:00]\r" + `
[2026-02-24 11:56:50 TP0] Capture cuda graph end. Time elapsed: 28.70 s. mem usage=5.33 GB. avail mem=5.47 GB.
[2026-02-24 11:56:50 TP1] Capture cuda graph end. Time elapsed: 28.71 s. mem usage=5.33 GB. avail mem=5.47 GB.
[2026-02-24 11:56:51 TP0] max_total_num_tokens=159277, chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests=2048, context_len=262144, available_gpu_mem=5.47 GB
[2026-02-24 11:56:52 TP0] Allocating 48.00 GB host memory for hierarchical KV cache.
[2026-02-24 11:56:52 TP1] Allocating 48.00 GB host memory for hierarchical KV cache.
[2026-02-24 11:57:30] INFO:     Started server process [4711]
[2026-02-24 11:57:30] INFO:     Uvicorn running on http://0.0.0.0:8000 (Press CTRL+C to quit)
[2026-02-24 11:57:31 TP0] Prefill batch, #new-seq: 1, #new-token: 6, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 0, input throughput (token/s): 0.00, cuda graph: False
[2026-02-24 11:57:33] The server is fired up and ready to roll!
`

func TestStartUp(t *testing.T) {
	// After each line, the phase the start is in.
	var p Parser
	var s State
	phases := ""
	take := func(ev *Event) { s.Apply(ev) }
	for line := range strings.Lines(story059) {
		p.Feed([]byte(line), take)
		if ph := s.Now().Phase; !strings.HasSuffix(phases, ph+"|") {
			phases += ph + "|"
		}
	}
	want := strings.Join([]string{PhaseStarting, PhaseInit, PhaseWeights, PhaseKV, PhaseGraphs, PhaseHostCache, PhaseWarmup, PhaseReady}, "|") + "|"
	if phases != want {
		t.Errorf("phases %s\nwant   %s", phases, want)
	}
	st := s.Now()
	for name, c := range map[string]struct{ got, want Num }{
		"capacity": {st.Capacity, num(159277)}, "headroom": {st.HeadroomGiB, num(5.47)}, "max running": {st.MaxRunning, num(2048)},
		"context": {st.ContextLen, num(262144)}, "KV size": {st.KVGB, num(10.42)}, "host cache": {st.HostGB, num(96)},
		"weights": {st.WeightsGB, num(72.33)}, "before weights": {st.AvailLow, num(94.02)}, "hicache": {st.HiCache, num(1)},
	} {
		if c.got != c.want {
			t.Errorf("%s = %v, want %v", name, c.got, c.want)
		}
	}
	if !st.Ready || st.ReadyAt.String() != "2026-02-24 11:57:33" || st.Port != 8000 || st.PID != 4711 || st.KVDtype != "torch.bfloat16" {
		t.Errorf("start = %+v", st)
	}
	took := map[string]float64{}
	for _, ph := range st.Took {
		took[ph.Name] = ph.Seconds.V
	}
	if took[PhaseWeights] != 64 || took[PhaseHostCache] != 38 || took[PhaseGraphs] != 31 {
		t.Errorf("phases took %v", took)
	}
	if v := s.Version(); v != "0.5.9" {
		t.Errorf("version %q", v)
	}
}

func TestStartsInOneLog(t *testing.T) {
	work := decode("12:00:00", " TP0", 3, "300.00")
	for name, c := range map[string]struct {
		log    string
		starts int
	}{
		"one":                            {story059 + work, 1},
		"two by server_args":             {story059 + work + story059, 2},
		"two after a crash at start-up":  {"[2026-02-24 11:55:02] server_args=ServerArgs(port=1)\n[2026-02-24 11:55:09 TP0] Scheduler hit an exception: Traceback (most recent call last):\nRuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n" + story059, 2},
		"a separator before its args":    {metrics.StartSeparator + "a ====\n" + story059 + metrics.StartSeparator + "b ====\n" + story059, 2},
		"args lost, first line of start": {work + "[2026-02-24 13:00:00 TP0] Init torch distributed begin.\n[2026-02-24 13:00:01 TP0] Load weight begin. avail mem=94.04 GB\n", 2},
		"access lines, then a start":     {"[2026-02-24 11:00:00] INFO:     1.1.1.1:1 - \"GET /health HTTP/1.1\" 200 OK\n" + story059, 2},
		"a draft model is no start":      {strings.Replace(story059, "[2026-02-24 11:56:51 TP0] max_total", "[2026-02-24 11:56:50 TP0] Load weight begin. avail mem=5.00 GB\n[2026-02-24 11:56:51 TP0] max_total", 1), 1},
	} {
		if got := len(read([]byte(c.log)).Starts()); got != c.starts {
			t.Errorf("%s: %d starts, want %d", name, got, c.starts)
		}
	}
	s := read([]byte(metrics.StartSeparator + "a ====\n" + story059))
	if st := s.Now(); st.ID != "a" || st.Flags["tp_size"] != "2" {
		t.Errorf("the separator and the arguments are one start: %q %v", st.ID, st.Flags)
	}
}

func traceback1(at, rank, last string) string {
	return "[2026-02-24 " + at + rank + "] Scheduler hit an exception: Traceback (most recent call last):\n  File \"/x/sglang/srt/managers/scheduler.py\", line 1, in event_loop\n    x()\n" + last + "\n\n"
}

func TestCrashFunnel(t *testing.T) {
	oom := "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.53 GiB. GPU 0 has a total capacity of 94.97 GiB"
	prefill := "[2026-02-24 12:00:00 TP0] Prefill batch, #new-seq: 9, #new-token: 8192, #cached-token: 0, token usage: 0.40, #running-req: 60, #queue-req: 90, \n"
	quit := "[2026-02-24 12:00:02] SIGQUIT received. signum=None, frame=None. It usually means one child failed.\n"
	killed := "/data/run.sh: line 9: 4711 Killed                  python -m sglang.launch_server --api-key secret\n"
	for name, c := range map[string]struct {
		log, class, rank, phase, advice string
	}{
		"first traceback among ranks": {
			prefill + traceback1("12:00:01", " TP3", oom) + traceback1("12:00:01", " TP1", "torch.distributed.DistBackendError: NCCL error: remote process exited") + quit + killed,
			"cuda-oom", "TP3", "prefill", "--chunked-prefill-size",
		},
		"serving, decode": {decode("12:00:00", " TP0", 9, "1.00") + traceback1("12:00:01", " TP0", oom), "cuda-oom", "TP0", "decode", "--max-running-requests"},
		"start-up needs the opposite": {
			"[2026-02-24 11:55:16 TP0] Load weight begin. avail mem=94.04 GB\n" + traceback1("11:56:00", " TP0", "ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.7. Raise --mem-fraction-static above 0.81"),
			"startup-no-kv-memory", "TP0", "start-up", "Raise",
		},
		"out of memory in capture": {
			"[2026-02-24 11:56:21 TP0] Capture cuda graph begin. This can take up to several minutes. avail mem=0.80 GB\n" + traceback1("11:56:30", " TP0", oom),
			"capture-oom", "TP0", "capture", "Lower the memory fraction",
		},
		"a shell's Killed alone": {decode("12:00:00", " TP0", 9, "1.00") + killed, "killed-unknown", "", "decode", "no proof of the OOM killer"},
		"stopped, not crashed": {
			decode("12:00:00", " TP0", 9, "1.00") + "[2026-02-24 12:00:01] SIGTERM received. signum=15 frame=None. Draining requests and shutting down...\n" + traceback1("12:00:09", " TP0", "RuntimeError: CUDA error: an illegal memory access was encountered") + killed,
			"stopped", "", "decode", "Nothing to repair",
		},
		"an exception of a request is no crash": {
			story059 + "[2026-02-24 12:00:00] ERROR:    Exception in ASGI application\nTraceback (most recent call last):\n  File \"/x/fastapi/a.py\", line 1, in f\nValueError: bad input\n",
			"", "", "", "",
		},
		"NCCL noise before the traceback of its own rank": {
			"[rank1]:[E224 12:00:00.1 ProcessGroupNCCL.cpp:607] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600066 milliseconds before timing out.\nterminate called after throwing an instance of 'c10::DistBackendError'\nFatal Python error: Aborted\n",
			"nccl-timeout", "rank 1", "", "",
		},
	} {
		p := read([]byte(c.log)).primary()
		if string(p.Class) != c.class || p.Rank.String() != c.rank || p.Phase != c.phase {
			t.Errorf("%s: %s on %q in %q, want %s on %q in %q", name, p.Class, p.Rank, p.Phase, c.class, c.rank, c.phase)
		}
		if !strings.Contains(p.Advice(), c.advice) {
			t.Errorf("%s: advice %q lacks %q", name, p.Advice(), c.advice)
		}
		if strings.Contains(p.Detail, "secret") {
			t.Errorf("%s: detail shows a secret: %s", name, p.Detail)
		}
	}
}

func TestBareFault(t *testing.T) {
	s := read([]byte(strings.Replace(traceback1("12:00:01", " DP1 TP2", ""), "\n\n\n", "\n", 1) + decode("12:00:03", " DP0 TP0", 9, "1.00")))
	if p := s.primary(); !p.Bare || p.Class != metrics.CauseSchedulerException || p.Rank.String() != "DP1 TP2" || p.Line != 1 {
		t.Errorf("primary = %+v", p)
	}
}

func TestDeadRanks(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(casesDir, "018-sglang-one-dp-dies-others-answer.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if got := read(data).DeadRanks(); len(got) != 1 || got[0].String() != "DP1 TP2" {
		t.Errorf("dead ranks %v", got)
	}
	all := traceback1("12:00:01", " DP0 TP0", "RuntimeError: x") + traceback1("12:00:01", " DP1 TP1", "RuntimeError: x")
	if got := read([]byte(all)).DeadRanks(); got != nil {
		t.Errorf("where all failed, %v are called dead among the living", got)
	}
}

func TestNewestFirst(t *testing.T) {
	log := "2026-02-24T12:00:03Z c\n2026-02-24T12:00:02Z b\n2026-02-24T12:00:01Z a\n"
	out, reversed := OldestFirst([]byte(log))
	if want := "2026-02-24T12:00:01Z a\n2026-02-24T12:00:02Z b\n2026-02-24T12:00:03Z c\n"; !reversed || string(out) != want {
		t.Errorf("%q, %v", out, reversed)
	}
	if out, reversed := OldestFirst([]byte(story059)); reversed || string(out) != story059 {
		t.Error("a log in order was turned around")
	}
}

func TestZone(t *testing.T) {
	s := read([]byte("2026-02-24T10:59:51.1Z " + story + "\n"))
	if z := s.Zone(); z != num(3600) {
		t.Errorf("zone = %v, want one hour east", z)
	}
}
