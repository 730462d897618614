package board

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

const serverLog = "/data/s.log"

// served is a rig with a server whose log is followed.
func served(t testing.TB, args ...string) *rig {
	r := newRig(t)
	p := sglangProc(10, append([]string{"--port", "8000"}, args...)...)
	p.FD1, p.FD2 = serverLog, serverLog
	p.Start = ticksAgo(700)
	r.json(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{
		p, {PID: 11, PPID: 10, Start: ticksAgo(699), State: "S", Argv: []string{"sglang::scheduler"}, Listen: []metrics.ListenAddr{{Addr: "127.0.0.1", Port: 8000}}},
	}})
	return r
}

func (r *rig) stamp(d time.Duration) string { return r.at.Add(d).Format(time.DateTime) }

func decodeLine(stamp, ranks string, running, tokens int, usage, tps float64, queued int) string {
	return fmt.Sprintf("[%s%s] Decode batch, #running-req: %d, #token: %d, token usage: %.2f, cuda graph: True, gen throughput (token/s): %.2f, #queue-req: %d\n", stamp, ranks, running, tokens, usage, tps, queued)
}

func TestDecodeLines(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines func(r *rig) string
		tps   float64 // -1: unknown
		run   float64
		queue float64
		usage float64
		peak  float64 // -1: unknown
	}{
		{"the line after a pause is no rate", func(r *rig) string {
			return decodeLine(r.stamp(-60*time.Second), "", 35, 150_000, 0.95, 600, 115) +
				decodeLine(r.stamp(-57*time.Second), "", 35, 150_000, 0.95, 606, 115) +
				decodeLine(r.stamp(-2*time.Second), "", 3, 1_000, 0.01, 1.06, 0)
		}, 606, 3, 0, 0.01, 606},
		{"the very first line is no rate", func(r *rig) string {
			return decodeLine(r.stamp(-2*time.Second), "", 35, 150_000, 0.95, 9999, 115)
		}, -1, 35, 115, 0.95, -1},
		{"copies of tensor ranks count once", func(r *rig) string {
			var s string
			for i := range 3 {
				for tp := range 4 {
					s += decodeLine(r.stamp(time.Duration(i*3-9)*time.Second), fmt.Sprintf(" TP%d", tp), 35, 150_000, 0.95, 606, 115)
				}
			}
			return s
		}, 606, 35, 115, 0.95, 606},
		{"data parallel ranks add up, the fullest pool binds", func(r *rig) string {
			var s string
			for i := range 4 {
				s += decodeLine(r.stamp(time.Duration(i*3-12)*time.Second), " DP0 TP0", 20, 10_000, 0.50, 300, 1)
				s += decodeLine(r.stamp(time.Duration(i*3-11)*time.Second), " DP1 TP4", 30, 20_000, 0.80, 400, 2)
			}
			return s
		}, 300, 20, 1, 0.50, 300},
		{"pipeline stages are the same requests", func(r *rig) string {
			var s string
			for i := range 3 {
				for pp := range 2 {
					s += decodeLine(r.stamp(time.Duration(i*3-9)*time.Second), fmt.Sprintf(" PP%d TP0", pp), 35, 150_000, 0.95, 606, 115)
				}
			}
			return s
		}, 606, 35, 115, 0.95, 606},
		{"a health probe is no work", func(r *rig) string {
			return "[" + r.stamp(-2*time.Second) + " TP0] Prefill batch, #new-seq: 1, #new-token: 1, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 0, input throughput (token/s): 3.58, cuda graph: False\n"
		}, -1, -1, -1, -1, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := served(t)
			r.log(serverLog, "["+r.stamp(-10*time.Minute)+"] The server is fired up and ready to roll!\n"+c.lines(r), metrics.LogHeader{Backfill: 2})
			v := r.tick(time.Second).Server()
			for _, f := range []struct {
				what string
				got  metrics.Figure
				want float64
			}{{"tok/s", v.Gen.Now, c.tps}, {"running", v.Running, c.run}, {"queued", v.Queued, c.queue}, {"usage", v.KVUsage, c.usage}, {"peak", v.Gen.Peak, c.peak}} {
				if f.got.Known != (f.want >= 0) || f.got.Known && f.got.V != f.want {
					t.Errorf("%s = %v, want %v", f.what, f.got, f.want)
				}
			}
		})
	}
}

// With data parallel attention each rank's first tensor rank speaks, whatever its number.
// Lines that count requests and tell of no token are no proof of work: a server
// whose main process was stopped printed them for minutes. One alone may be the
// first after hours of rest.
func TestLinesWithoutATokenAreNoWork(t *testing.T) {
	r := served(t)
	line := func(tps float64) {
		r.log(serverLog, decodeLine(r.stamp(0), " TP0", 16, 14400, 0.02, tps, 0), metrics.LogHeader{})
		r.tick(2 * time.Second)
	}
	r.log(serverLog, "["+r.stamp(0)+"] The server is fired up and ready to roll!\n", metrics.LogHeader{Backfill: 2})
	for range 30 {
		line(500)
	}
	line(0)
	if snap := r.tick(0); r.at.Sub(snap.Server().LastBatch) > 3*time.Second {
		t.Errorf("one line of 0 tok/s is no batch: %s", show(snap))
	}
	last := r.at.Add(-2 * time.Second)
	for range 40 {
		line(0)
	}
	snap := r.tick(0)
	if srv := snap.Server(); srv.LastBatch.After(last) || srv.Running.V != 16 || srv.Gen.Settled.Known && srv.Gen.Settled.V < 400 {
		t.Errorf("last batch %s, want %s: %s", srv.LastBatch, last, show(snap))
	}
	hung := false
	for _, f := range snap.Findings {
		hung = hung || f.ID == "server-hung"
	}
	if !hung {
		t.Errorf("nothing is called hung: %s", show(snap))
	}
}

func TestDataParallelRanks(t *testing.T) {
	r := served(t)
	var s string
	for i := range 4 {
		s += decodeLine(r.stamp(time.Duration(i*3-12)*time.Second), " DP0", 20, 10_000, 0.50, 300, 1)
		s += decodeLine(r.stamp(time.Duration(i*3-11)*time.Second), " DP1", 30, 20_000, 0.80, 400, 2)
	}
	r.log(serverLog, s, metrics.LogHeader{Backfill: 2})
	v := r.tick(time.Second).Server()
	within(t, "tok/s", v.Gen.Now, 700, 700)
	within(t, "running", v.Running, 50, 50)
	within(t, "queued", v.Queued, 3, 3)
	within(t, "usage", v.KVUsage, 0.8, 0.8)
	within(t, "tokens a request", v.PerRequest, 600, 600)
}

const startText = `[%[1]s] server_args=ServerArgs(model_path='/models/Kimi-K2.5', tp_size=8, mem_fraction_static=%[2]s, kv_cache_dtype='auto', enable_hierarchical_cache=False, enable_metrics=False)
[%[1]s TP0] Init torch distributed begin.
[%[1]s TP0] Load weight begin. avail mem=94.04 GB
[%[1]s TP0] Load weight end. elapsed=100.00 s, type=X, dtype=torch.bfloat16, avail mem=21.71 GB, mem usage=72.33 GB.
[%[1]s TP0] max_total_num_tokens=%[3]d, chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests=2048, context_len=262144, available_gpu_mem=%[4]s GB
[%[5]s] The server is fired up and ready to roll!
`

// Earlier starts in the log become starts, with what they reached and how they ended.
func TestStartsInTheLog(t *testing.T) {
	r := served(t)
	at := func(d time.Duration) string { return r.stamp(-d) }
	text := fmt.Sprintf(startText, at(3*time.Hour), "0.93", 231120, "0.82", at(174*time.Minute)) +
		decodeLine(at(172*time.Minute), " TP0", 30, 30_000, 0.13, 500, 0) +
		decodeLine(at(172*time.Minute-3*time.Second), " TP0", 60, 60_000, 0.26, 900, 0) +
		"[" + at(171*time.Minute) + " TP3] Scheduler hit an exception: Traceback (most recent call last):\n" +
		"  File \"/x/scheduler.py\", line 1, in event_loop\n    self.run_batch(batch)\n" +
		"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 3 has a total capacity of 95.59 GiB of which 805.31 MiB is free.\n\n" +
		"[" + at(171*time.Minute) + "] SIGQUIT received. signum=None, frame=None. It usually means one child failed.\n" +
		fmt.Sprintf(startText, at(11*time.Minute), "0.88", 159277, "5.47", at(5*time.Minute))
	r.json(metrics.KindStarts, "", []metrics.Start{
		{ID: "note-1", No: 1, At: r.at.Add(-20 * time.Hour), Label: "0.85 bf16", Outcome: "stopped", Note: "baseline"},
		{ID: "note-2", No: 2, At: r.at.Add(-3*time.Hour - 2*time.Minute), Label: "try 1", Outcome: "crashed", Note: "from the operator"},
	})
	r.log(serverLog, text, metrics.LogHeader{Backfill: 1})
	snap := r.tick(4 * time.Second)
	if len(snap.Starts) != 3 {
		t.Fatalf("%d starts: %s", len(snap.Starts), show(snap))
	}
	old, now := snap.Starts[1], snap.Starts[2]
	if old.No != 2 || old.Outcome != "crashed" || old.Cause != metrics.CauseCUDAOOM || old.AfterS < 60 || old.Label != "try 1" || old.Note == "" {
		t.Errorf("the crashed start: %+v", old)
	}
	// Ready came at -174 minutes, the first batch at -172, the crash at -171.
	if old.AfterS != 180 || old.AfterRequestS != 60 || old.After() != "1 m after the first request" {
		t.Errorf("it crashed %v s after it was ready, %v s after the first request: %q", old.AfterS, old.AfterRequestS, old.After())
	}
	if old.Capacity == nil || *old.Capacity != 231120 || old.HeadroomGB == nil || *old.HeadroomGB != 0.82 || old.Peak == nil || *old.Peak != 900 {
		t.Errorf("its figures: %+v", old)
	}
	if now.No != 3 || now.Outcome != "running" || now.ReadyS == nil || now.Label != "0.88 bf16" {
		t.Errorf("the running start: %+v", now)
	}
	v := snap.Server()
	if v.StartNo != 3 || v.Phase.Name != "ready" || v.Phase.Expected != 6*time.Minute || len(v.Causes) != 0 || v.Capacity.V != 159277 {
		t.Errorf("the server: start %d, phase %+v, causes %v", v.StartNo, v.Phase, v.Causes)
	}
	texts := []string{}
	for _, e := range snap.Events {
		texts = append(texts, e.Kind+" "+e.Text)
	}
	if !slices.ContainsFunc(texts, func(s string) bool { return strings.HasPrefix(s, "start start #3 (0.88 bf16)") }) ||
		!slices.ContainsFunc(texts, func(s string) bool { return strings.HasPrefix(s, "crash cuda-oom") }) {
		t.Errorf("events %v", texts)
	}
}

func TestPhases(t *testing.T) {
	r := served(t)
	lines := strings.SplitAfter(fmt.Sprintf(startText, r.stamp(-time.Minute), "0.88", 159277, "5.47", r.stamp(0)), "\n")
	want := []string{"spawning ranks", "joining ranks", "loading weights", "allocating KV pool", "pinning host cache", "ready"}
	for i, w := range want {
		r.log(serverLog, lines[i], metrics.LogHeader{})
		v := r.tick(3 * time.Second).Server()
		if v.Phase.Name != w {
			t.Errorf("after line %d: phase %q, want %q", i+1, v.Phase.Name, w)
		}
		if ready := w == "ready"; ready == (v.State == metrics.ServerStarting) {
			t.Errorf("after line %d: state %s", i+1, v.State)
		}
	}
}

// What came twice, after a reconnect, counts once; a hole in the log is no start.
func TestChunksOverlap(t *testing.T) {
	r := served(t)
	text := fmt.Sprintf(startText, r.stamp(-6*time.Minute), "0.88", 159277, "5.47", r.stamp(-5*time.Minute))
	began := strings.Count(text, "\n")
	for i := range 10 {
		text += decodeLine(r.stamp(time.Duration(i*3-60)*time.Second), " TP0", 35, 150_000, 0.95, 606, 115)
		text += "[" + r.stamp(time.Duration(i*3-60)*time.Second) + "] INFO:     127.0.0.1:1 - \"POST /generate HTTP/1.1\" 200 OK\n"
	}
	h := metrics.LogHeader{ID: "8:1", End: int64(len(text)), Size: int64(len(text)), Lines: int64(strings.Count(text, "\n")), Backfill: 1}
	f := metrics.Frame{Kind: metrics.KindLog, Name: serverLog, At: r.at, Data: metrics.EncodeChunk(h, []byte(text))}
	r.b.Apply(f)
	r.b.Apply(f)
	snap := r.tick(3 * time.Second)
	within(t, "finished", snap.Server().Finished, 10, 10)
	tail := snap.Logs[serverLog]
	if len(tail.Lines) != began+20 || tail.First != 1 {
		t.Errorf("%d lines from %d", len(tail.Lines), tail.First)
	}
	more := decodeLine(r.stamp(0), " TP0", 35, 150_000, 0.95, 606, 115)
	h = metrics.LogHeader{ID: "8:1", Offset: h.End + 5000, End: h.End + 5000 + int64(len(more)), Size: h.End + 5000 + int64(len(more)), Skipped: 5000, Lines: -1}
	r.b.Apply(metrics.Frame{Kind: metrics.KindLog, Name: serverLog, At: r.at, Data: metrics.EncodeChunk(h, []byte(more))})
	snap = r.tick(time.Second)
	if snap.Logs[serverLog].Skipped != 5000 || len(snap.Starts) != 1 {
		t.Errorf("skipped %d, starts %d", snap.Logs[serverLog].Skipped, len(snap.Starts))
	}
	if f := snap.Server().Finished; f.Known {
		t.Errorf("finished %v although bytes were never read", f)
	}
	sec := r.b.logs[serverLog].work.section()
	if _, ok := sec.finishedSince(r.at.Add(-time.Minute)); ok {
		t.Error("requests of the hole are counted")
	}
	if n, ok := sec.finishedSince(r.at); n != 0 || !ok {
		t.Errorf("since the hole: %d %v", n, ok)
	}
}

func TestLinesAreCleanAndBounded(t *testing.T) {
	r := served(t)
	r.log(serverLog, "\x1b[31mred\x1b[0m\x00 \u202e"+strings.Repeat("x", 10_000)+"\nbar  1%|\rbar 99%|\n", metrics.LogHeader{})
	lines := r.tick(time.Second).Logs[serverLog].Lines
	if len(lines) != 2 || strings.ContainsAny(lines[0].Text, "\x1b\x00") || strings.Contains(lines[0].Text, "\u202e") || len(lines[0].Text) > lineCap || lines[1].Text != "bar 99%|" {
		t.Errorf("lines %v", lines)
	}
	for range 9 {
		r.log(serverLog, strings.Repeat("line\n", 1000), metrics.LogHeader{})
	}
	if n := len(r.tick(time.Second).Logs[serverLog].Lines); n != tailKeep {
		t.Errorf("%d lines are kept", n)
	}
}

func TestRetractions(t *testing.T) {
	r := served(t)
	text := "[" + r.stamp(-20*time.Minute) + "] The server is fired up and ready to roll!\n"
	for i := range 20 {
		text += "[" + r.stamp(time.Duration(i-20)*time.Second*59) + " TP0] KV cache pool is full. Retract requests. #retracted_reqs: 2, #new_tokens_gained: 100, #new_token_ratio: 0.4 -> 0.9\n"
	}
	r.log(serverLog, text, metrics.LogHeader{Backfill: 2})
	within(t, "retractions a minute", r.tick(time.Second).Server().Retracted, 1.9, 2.1)
}

func TestVLLMLog(t *testing.T) {
	r := newRig(t)
	r.json(metrics.KindConfig, "", metrics.Config{ServerLogs: []string{"/data/v.log"}})
	p := metrics.Proc{PID: 10, PPID: 1, Start: ticksAgo(900), State: "S", Comm: "vllm", FD2: "/data/v.log", FD1: "/data/v.log",
		Argv: []string{"/usr/bin/python3", "/usr/bin/vllm", "serve", "Qwen/Qwen3-32B", "--port", "8000", "--tensor-parallel-size", "4"}}
	r.json(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{p}})
	at := func(d time.Duration) string { return r.at.Add(-d).Format("01-02 15:04:05") }
	text := "(APIServer pid=10) INFO " + at(14*time.Minute) + " [api_server.py:1896] vLLM API server version 0.10.1\n" +
		"(EngineCore_0 pid=20) INFO " + at(12*time.Minute) + " [kv_cache_utils.py:849] GPU KV cache size: 100,000 tokens\n" +
		"(APIServer pid=10) INFO:     Application startup complete.\n"
	for i := range 60 {
		text += fmt.Sprintf("(APIServer pid=10) INFO %s [loggers.py:123] Engine 000: Avg prompt throughput: 10.0 tokens/s, Avg generation throughput: 800.0 tokens/s, Running: 40 reqs, Waiting: 7 reqs, GPU KV cache usage: 80.0%%, Prefix cache hit rate: 0.0%%\n",
			at(10*time.Minute-time.Duration(i)*10*time.Second))
	}
	r.log("/data/v.log", text, metrics.LogHeader{Backfill: 1})
	snap := r.tick(time.Second)
	v := snap.Server()
	if v == nil || v.Engine != "vllm" || v.Version != "0.10.1" || v.TP != 4 || v.Model != "Qwen3-32B" || v.State != metrics.ServerServing {
		t.Fatalf("%s", show(snap))
	}
	within(t, "tok/s", v.Gen.Now, 800, 800)
	within(t, "running", v.Running, 40, 40)
	within(t, "queued", v.Queued, 7, 7)
	within(t, "usage", v.KVUsage, 0.8, 0.8)
	within(t, "settled", v.Gen.Settled, 800, 800)
	within(t, "tokens a request", v.PerRequest, 2000, 2000)
	within(t, "capacity", v.Capacity, 100_000, 100_000)
}

// A client's own log tells its progress, why it ended, and whether it ended well.
func TestClientLog(t *testing.T) {
	r := newRig(t)
	p := clientProc(20)
	p.FD1, p.Conns = "/data/c.log", []metrics.Conn{{Port: 8000, Count: 3}}
	r.json(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{sglangProc(10, "--port", "8000"), p}})
	r.log("/data/c.log", "nohup: ignoring input\n", metrics.LogHeader{Lines: 1})
	if c := r.tick(time.Second).Clients[0]; !c.LogOnlyHeader || !c.LogOwned || c.Log.Path != "/data/c.log" {
		t.Errorf("client %+v", c)
	}
	r.log("/data/c.log", "gen:   6%|##  | 32110/500150 [6:30:02<94:35:10,  1.37it/s]\n"+
		"Traceback (most recent call last):\n  File \"run.py\", line 3, in <module>\n    f = open(p)\nOSError: [Errno 28] No space left on device: '/data/x.jsonl'\n", metrics.LogHeader{Lines: 6})
	c := r.tick(time.Second).Clients[0]
	if c.Progress.Done != 32110 || c.Progress.Total != 500150 || c.LogOnlyHeader {
		t.Errorf("progress %+v", c.Progress)
	}
	if len(c.Causes) != 1 || c.Causes[0].Class != metrics.CauseDiskFull || !c.Causes[0].Primary || c.Causes[0].LineNo == 0 || c.Causes[0].At.IsZero() {
		t.Errorf("causes %+v", c.Causes)
	}
	if !strings.Contains(c.LastLine, "No space left") {
		t.Errorf("last line %q", c.LastLine)
	}
}
