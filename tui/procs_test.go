package tui

import (
	"strings"
	"testing"

	"github.com/runvigil/runvigil/metrics"
)

// The processes view: the server's tree, indented; the client; who holds GPU
// memory, strangers marked; and of the selected one where it came from.
func TestProcesses(t *testing.T) {
	s := sceneSettled()
	s.Servers[0].Tree = []int{206001, 206101, 206102, 206900}
	long := strings.Repeat("--flag value ", 40) + "--api-key=sk-abcdefghijklmnopqrstuvwx --last yes"
	s.Procs = []metrics.Proc{
		{PID: 900, PPID: 1, Comm: "sshd", Argv: []string{"sshd:", "alice@pts/3"}},
		{PID: 901, PPID: 900, Comm: "bash", Env: map[string]string{"SSH_CONNECTION": "10.1.2.3 50000 10.0.0.7 22"}},
		{PID: 206001, PPID: 901, Comm: "python3", State: "S", User: "alice", Cwd: "/data/run", Argv: append([]string{"python3", "-m", "sglang.launch_server"}, strings.Fields(long)...), RSS: 3 << 30},
		{PID: 206101, PPID: 206001, Comm: "sglang::sched", State: "R"},
		{PID: 206900, PPID: 206101, Comm: "grandchild", State: "S"},
		{PID: 206570, PPID: 1, Comm: "python3", State: "S", Cwd: "/data/client"},
		{PID: 77, PPID: 1, Comm: "jupyter", User: "bob", State: "S"},
	}
	s.GPUs[3].Procs = append(s.GPUs[3].Procs, metrics.GPUProc{PID: 77, Name: "jupyter", MiB: metrics.Fixed(2048, s.At, "nvidia-smi")})
	drive(t, 120, 40, s, func(d *driver) {
		d.Press("p").See("sglang.launch_server", "    grandchild", "run_inference.py", "90.9 GiB  GPU 0", "GPU 0", "login alice@pts/3 from 10.1.2.3", "in /data/run", "--last yes", "by pid 901").NotSee("sk-abcdef")
		rows := procRows(d.m.snap)
		for i, r := range rows {
			if r.warn != (r.pid == 77) || r.pid == 77 && r.gpu.V != 2048 {
				t.Errorf("who is a stranger on a GPU: %+v", r)
			}
			if r.pid == 77 {
				d.m.views[viewProcs].(*procsView).sel = i
			}
		}
		d.Press("ctrl+l").See("2.00 GiB on GPU 3", "no login is seen")
		d.Press("g", "j", "j", "j", "j", "j").See("in /data/client")
	})
	for _, size := range [][2]int{{80, 24}, {40, 12}, {20, 6}} {
		drive(t, size[0], size[1], s, func(d *driver) { d.Press("p", "j", "G", "g").See("206001") })
	}
	drive(t, 80, 24, &metrics.Snapshot{At: s.At, Node: "gpu7"}, func(d *driver) { d.Press("p").See("no server and no client runs here") })
}
