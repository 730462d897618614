package board

import (
	"fmt"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// The backfill of a client's log may come before the first discovery tells whose
// log it is; what it says counts all the same.
func TestClientLogBeforeItsClient(t *testing.T) {
	const text = "run.py: 150 requests in flight\n[B2] prompt 7: TimeoutError after 600 s, asking again\n[B2] prompt 9: TimeoutError after 600 s, asking again\n"
	r := newRig(t)
	r.log("/data/run/logs/client.log", text, metrics.LogHeader{Backfill: 2, Lines: 3})
	p := clientProc(20)
	p.Conns = []metrics.Conn{{Port: 8000, Count: 10}}
	p.FD1 = "/data/run/logs/client.log"
	r.json(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{sglangProc(10, "--port", "8000"), p}})
	c := r.tick(2e9).Clients[0]
	if len(c.Causes) != 1 || c.Causes[0].Class != metrics.CauseClientTimeouts || c.Causes[0].LineNo != 2 || c.Causes[0].Off != 31 || c.TimeoutS.V != 600 {
		t.Errorf("causes %+v, timeout %v", c.Causes, c.TimeoutS)
	}
}

// Who looks for the first time after a server was killed sees it down at once
// where its orphans still hold the log, and counts no start of its own for it.
func TestOrphansLogIsNoServer(t *testing.T) {
	begin := func(owner int) *rig {
		r := newRig(t)
		r.json(metrics.KindStarts, "", []metrics.Start{{ID: "boot:10:" + "9930000", At: r.at.Add(-2 * time.Minute), Outcome: "running"}})
		text := "[" + r.stamp(-2*time.Minute) + "] server_args=ServerArgs(model_path='/models/Kimi-K2.5', port=8000)\n" +
			"[" + r.stamp(-time.Minute) + "] The server is fired up and ready to roll!\n" +
			decodeLine(r.stamp(-3*time.Second), " TP0", 16, 14400, 0.02, 500, 0)
		r.log(serverLog, text, metrics.LogHeader{Backfill: 1, Lines: 3})
		worker := metrics.Proc{PID: 11, PPID: owner, Start: ticksAgo(110), State: "S", Comm: "sglang::schedul", Argv: []string{"sglang::scheduler_TP0"}, FD1: serverLog, FD2: serverLog}
		procs := []metrics.Proc{worker}
		if owner != 1 {
			p := sglangProc(owner, "--port", "8000")
			p.FD1, p.FD2, p.Start = serverLog, serverLog, ticksAgo(120)
			procs = append(procs, p)
		}
		r.json(metrics.KindScan, "", metrics.Scan{Procs: procs})
		return r
	}
	snap := begin(1).tick(2 * time.Second)
	if srv := snap.Server(); srv == nil || srv.State != metrics.ServerDown {
		t.Errorf("killed: %s", show(snap))
	}
	if len(snap.Starts) != 1 || snap.Starts[0].ID != "boot:10:9930000" {
		t.Errorf("starts %+v", snap.Starts)
	}
	snap = begin(10).tick(2 * time.Second)
	if srv := snap.Server(); srv == nil || srv.State == metrics.ServerDown {
		t.Errorf("alive: %s", show(snap))
	}
}

// A server whose log stands still may have nothing to do: it is asked before it
// is called hung.
func TestIdleIsAskedBeforeHung(t *testing.T) {
	begin := func() *rig {
		r := served(t)
		r.log(serverLog, "["+r.stamp(-10*time.Minute)+"] The server is fired up and ready to roll!\n"+
			decodeLine(r.stamp(-7*time.Minute), " TP0", 35, 154000, 0.97, 604, 115)+decodeLine(r.stamp(-6*time.Minute), " TP0", 35, 154000, 0.97, 604, 115), metrics.LogHeader{Backfill: 2, Lines: 3})
		return r
	}
	hung := func(s *metrics.Snapshot) bool {
		for _, f := range append(append([]metrics.Finding{}, s.Findings...), s.History...) {
			if f.ID == "server-hung" {
				return true
			}
		}
		return false
	}
	loads := func(r *rig, running int) {
		body := fmt.Sprintf(`{"loads":[{"num_running_reqs":%d,"num_waiting_reqs":0,"num_used_tokens":0,"max_total_num_tokens":159277}]}`, running)
		r.b.Apply(metrics.Frame{Kind: metrics.KindHTTP, At: r.at, Data: metrics.EncodeChunk(metrics.HTTPHeader{Port: 8000, Path: "/v1/loads", Status: 200}, []byte(body))})
	}
	r := begin()
	if snap := r.tick(3 * time.Second); snap.Server().State != metrics.ServerUnknown || hung(snap) {
		t.Errorf("before it was asked: %s", show(snap))
	}
	for range 20 {
		loads(r, 0)
		r.tick(time.Second)
	}
	if snap := r.tick(time.Second); snap.Server().State != metrics.ServerIdle || hung(snap) {
		t.Errorf("it has nothing to do: %s", show(snap))
	}
	r = begin()
	if snap := r.tick(20 * time.Second); !hung(snap) {
		t.Errorf("nothing answers: %s", show(snap))
	}
}
