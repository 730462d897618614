package restart

import (
	"testing"
	"time"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/metrics"
)

func TestRestart(t *testing.T) {
	w, port := newWorld(t), freePort(t)
	old := w.server(port, nil)
	p := w.plan(old.Process.Pid, Options{Op: Restart, TermWait: 2 * time.Second}, launch.Edit{Kind: launch.SetFlag, Name: "mem-fraction-static", Value: "0.88"})
	j := w.carry(p)
	if j.State != metrics.JournalRunning || !j.Listening || j.Port != port {
		t.Fatalf("%+v", j)
	}
	tok, err := Ready(t.Context(), w.run, p, j, func(s string) { t.Log(s) })
	if err != nil {
		t.Fatal(err)
	}
	t.Log(tok)
	if alive(old.Process.Pid) || !alive(j.PID) {
		t.Error("old alive or new dead")
	}
}
