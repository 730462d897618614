package board

import (
	"testing"

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
