package board

import (
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
