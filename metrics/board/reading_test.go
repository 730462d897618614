package board

import (
	"fmt"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// A server that starts and reads its weights through memory maps moves, though
// its log says nothing.
func TestReadingFromDiskIsASign(t *testing.T) {
	r := newRig(t)
	r.json(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{sglangProc(10, "--port", "8000")}})
	start := r.b.Snapshot().Server()
	if start == nil {
		t.Fatal("no server")
	}
	alive := func(faults int64) {
		r.json(metrics.KindAlive, "", []metrics.Alive{{PID: start.PID, Start: start.Start, State: "D", MajFaults: faults}})
	}
	alive(1000)
	quiet := r.tick(10 * time.Minute).Server().Phase.LastSign
	alive(1000)
	if got := r.tick(time.Second).Server().Phase.LastSign; !got.Equal(quiet) {
		t.Errorf("no page was read, and the last sign moved from %s to %s", quiet, got)
	}
	alive(5000)
	read := r.at
	if got := r.tick(time.Second).Server().Phase.LastSign; !got.Equal(read) {
		t.Errorf("the last sign is %s, want %s when pages were read", got, read)
	}
}

// Plain reads count too, where they may be known; a page now and then does not.
func TestPlainReadsAreASign(t *testing.T) {
	r := newRig(t)
	r.json(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{sglangProc(10, "--port", "8000")}})
	start := r.b.Snapshot().Server()
	for _, w := range r.b.Wants() {
		if w.Kind == metrics.WantPID && w.PID == start.PID && !w.Reads {
			t.Error("nobody asks what a start reads")
		}
	}
	alive := func(read int64) {
		r.json(metrics.KindAlive, "", []metrics.Alive{{PID: start.PID, Start: start.Start, State: "D", Read: &read}})
	}
	alive(5 << 30)
	first := r.tick(time.Second).Server().Phase
	if !first.DiskAt.IsZero() {
		t.Errorf("the first look says that it reads: %+v", first)
	}
	for i := range int64(60) {
		alive(5<<30 + i*4096)
		r.tick(time.Second)
	}
	if p := r.b.Snapshot().Server().Phase; !p.DiskAt.IsZero() || !p.DiskBPS.Known || p.DiskBPS.V > 5000 {
		t.Errorf("4 kB a second is taken for progress: %+v", p)
	}
	alive(5<<30 + 300<<20)
	read := r.at
	p := r.tick(time.Second).Server().Phase
	if !p.DiskAt.Equal(read) || !p.LastSign.Equal(read) || p.DiskBPS.V < 9<<20 {
		t.Errorf("300 MiB were read at %s: %+v", read, p)
	}
	for range 40 {
		alive(5<<30 + 300<<20)
		r.tick(time.Second)
	}
	if p := r.b.Snapshot().Server().Phase; !p.DiskAt.Equal(read) || p.DiskBPS.V != 0 {
		t.Errorf("nothing is read any more: %+v", p)
	}
}

// A server whose log cannot be read and that has run for long is no start that
// hangs; nor is one that refuses an answer.
func TestOldServerWithoutALogIsNoStart(t *testing.T) {
	old := sglangProc(10, "--port", "8000")
	old.Start = ticksAgo(7200)
	r := newRig(t)
	r.json(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{old}})
	if v := r.tick(time.Minute).Server(); v.State != metrics.ServerUnknown {
		t.Errorf("state %s", v.State)
	}
	r = newRig(t)
	r.json(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{sglangProc(10, "--port", "8000")}})
	r.http(8000, "/server_info", 401, "")
	if v := r.tick(time.Minute).Server(); v.State != metrics.ServerIdle {
		t.Errorf("state %s behind a key", v.State)
	}
}

// Prefills as large as the engine makes them are counted.
func TestFullPrefills(t *testing.T) {
	r := newRig(t)
	p := sglangProc(10, "--port", "8000")
	p.FD1, p.FD2 = serverLog, serverLog
	r.json(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{p}})
	prefill := func(tokens int) string {
		return fmt.Sprintf("[%s TP0] Prefill batch, #new-seq: 3, #new-token: %d, #cached-token: 0, token usage: 0.10, #running-req: 3, #queue-req: 0, cuda graph: False\n", r.stamp(0), tokens)
	}
	r.log(serverLog, "["+r.stamp(-time.Minute)+"] server_args=ServerArgs(model_path='m', chunked_prefill_size=8192, dp_size=1)\n"+
		prefill(8192)+prefill(420)+prefill(8192)+prefill(8100)+prefill(4000), metrics.LogHeader{})
	if v := r.tick(5 * time.Second).Server(); !v.FullPrefills.Known || v.FullPrefills.V != 3 {
		t.Errorf("full prefills %+v", v.FullPrefills)
	}
}

// A vLLM server that prints no figures and has no /metrics works while it answers.
func TestAnswersAreWork(t *testing.T) {
	r := newRig(t)
	p := metrics.Proc{PID: 10, PPID: 1, Start: ticksAgo(600), State: "S", Comm: "vllm", Argv: []string{"vllm", "serve", "m", "--disable-log-stats", "--port", "8000"}, FD1: serverLog, FD2: serverLog}
	r.json(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{p}})
	r.log(serverLog, "(APIServer pid=10) INFO 02-24 11:55:00 [api_server.py:1] vLLM API server version 0.11.0\n(APIServer pid=10) INFO:     Application startup complete.\n", metrics.LogHeader{})
	for range 5 {
		r.log(serverLog, "(APIServer pid=10) INFO:     127.0.0.1:41 - \"POST /v1/completions HTTP/1.1\" 200 OK\n", metrics.LogHeader{})
		r.tick(20 * time.Second)
	}
	if v := r.b.Snapshot().Server(); v.State != metrics.ServerServing {
		t.Errorf("it is %s while it answers", v.State)
	}
	if v := r.tick(5 * time.Minute).Server(); v.State != metrics.ServerIdle {
		t.Errorf("it is %s long after the last answer", v.State)
	}
}
