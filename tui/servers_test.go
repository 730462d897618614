package tui

import (
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/launch/restart"
	"github.com/runvigil/runvigil/metrics"
)

func sceneTwoServers() *metrics.Snapshot {
	s := sceneSettled()
	s.Servers[0].Port = 8000
	fig := func(v float64) metrics.Figure { return metrics.Known(v, s.At, time.Second, "log") }
	s.Servers = append(s.Servers, metrics.Server{
		ID: "300:77", Engine: "vllm", Version: "0.11.0", Model: "org/Qwen3", PID: 300, Start: 77, Started: s.At.Add(-time.Hour), Port: 8001,
		State: metrics.ServerServing, Gen: metrics.GenRate{Now: fig(222)}, Running: fig(7), Queued: fig(0), KVUsage: fig(0.25),
		Argv: []string{"vllm", "serve"}, Log: metrics.LogRef{Path: "/logs/vllm.log"}, Tree: []int{300},
	})
	s.Logs["/logs/vllm.log"] = &metrics.LogTail{Path: "/logs/vllm.log", First: 1, Lines: []metrics.LogLine{{Text: "the other log"}}}
	return s
}

// A node with two servers shows one at a time, whole: figures, log and what
// acting keys mean. It stays chosen while data comes, and after its restart.
func TestTwoServers(t *testing.T) {
	drive(t, 120, 40, sceneTwoServers(), func(d *driver) {
		d.See("server 1 of 2 n", "SGLang", "606 tok/s is settled").Press("?").See("show the next server").Press("esc")
		d.Press("n").See("server 2 of 2 n", "vLLM 0.11.0", "Qwen3", "222 tok/s").NotSee("606 tok/s is settled")
		if p := d.Pane(PaneReq); !strings.Contains(p, "waiting") || !strings.Contains(p, "25.0%") {
			t.Errorf("requests of the second server:\n%s", p)
		}
		d.Press("l").See("the other log").Press("esc", "2", "enter").See("server 2 of 2 (pid 300)").Press("n").See("server 1 of 2 (pid 206001)").Press("n", "esc")
		again := sceneTwoServers()
		again.Servers[1].ID, again.Servers[1].PID, again.Servers[1].Start = "400:99", 400, 99
		d.Send(snapshotMsg{again}).See("vLLM 0.11.0")
		if d.m.aim().PID != 400 {
			t.Errorf("acting keys mean %d", d.m.aim().PID)
		}
		d.Press(",").See("HISTORY").Press("0").See("vLLM 0.11.0")
		d.Press("n").See("server 1 of 2", "SGLang")
		d.Press(":").Type("server 80").Press("tab").See(":server 800").Type("1").Press("enter").See("vLLM 0.11.0")
		d.Press(":").Type("server 9").Press("enter").See("no server has the port or pid 9")
		again.Servers[1].State = metrics.ServerDown
		if d.Send(snapshotMsg{again}); d.m.aim() != nil {
			t.Errorf("with the chosen server down acting keys mean %d", d.m.aim().PID)
		}
		again.Servers = again.Servers[:1]
		d.Send(snapshotMsg{again}).See("SGLang").NotSee("server 1 of")
	})
	// X on a server's row means that server.
	drive(t, 120, 40, sceneTwoServers(), func(d *driver) {
		d.act.acted.journal = []string{"1771931767 begin id=1-a op=stop by=0 boot=b pid=300:77", "1771931768 stopped", "1771931768 end state=down"}
		d.Press("p")
		for i, r := range procRows(d.m.snap) {
			if r.pid == 300 {
				for range i {
					d.Press("j")
				}
			}
		}
		d.Press("X").See("review: stop")
		if of := d.m.views[viewReview].(*reviewView).of; of != (restart.Identity{BootID: "b00710", PID: 300, Start: 77}) {
			t.Errorf("the stop means %+v", of)
		}
	})
}
