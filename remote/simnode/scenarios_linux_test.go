package simnode

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/remote/simnode/model"
)

// found says what the scenarios are found with; of any other a node must come
// up all the same.
var found = map[string]struct {
	server, client bool
	gpus           string // pattern in nvidia-smi's answer to a plain query
	kernel         string
}{
	"story":        {server: true, client: true},
	"ramp":         {server: true, client: true},
	"healthy":      {server: true, client: true},
	"idle":         {server: true},
	"loading":      {server: true},
	"oom":          {client: true},
	"hang":         {server: true, client: true},
	"client-dead":  {server: true},
	"no-server":    {client: true},
	"gpu-lost":     {server: true, client: true, gpus: "GPU is lost", kernel: "Xid"},
	"client-twice": {server: true, client: true},
	"work-lost":    {server: true, client: true},
	"gpu-held":     {client: true},
	"vllm":         {server: true, client: true},
	"vllm-hang":    {server: true, client: true},
	"vllm-oom":     {client: true},
}

func TestEveryScenario(t *testing.T) {
	for _, s := range model.Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			want, listed := found[s.Name]
			n, client := startNode(t, s.Name)
			program := "sglang.launch_server"
			if strings.HasPrefix(s.Name, "vllm") {
				program = "vllm.entrypoints.openai.api_server"
			}
			if got := find(n.RootPID, program); listed && (got != 0) != want.server || got != n.ServerPID {
				t.Errorf("server %d, reported %d", got, n.ServerPID)
			}
			if got := find(n.RootPID, "run_inference.py"); listed && (got != 0) != want.client || (got != 0) != (n.ClientPID != 0) {
				t.Errorf("client %d, reported %d", got, n.ClientPID)
			}
			out := run(t, client, "nvidia-smi --query-gpu=index,memory.used --format=csv,noheader; true")
			if !strings.Contains(out, want.gpus) {
				t.Errorf("nvidia-smi says %q", out)
			}
			if out := run(t, client, "dmesg"); !strings.Contains(out, want.kernel) {
				t.Errorf("dmesg says %q", out)
			}
			if size(n.ServerLog) == 0 {
				t.Error("the server's log is empty")
			}
			if n.Config.Node == "" || len(n.Config.Guards) != 1 || len(n.Config.Targets) < 2 {
				t.Errorf("configuration: %+v", n.Config)
			}
		})
	}
}

// TestOrphanIsKilled frees the card that an orphan of an earlier server holds.
func TestOrphanIsKilled(t *testing.T) {
	n, client := startNode(t, "gpu-held")
	orphan := find(n.RootPID, "sglang::scheduler_TP")
	if orphan == 0 {
		t.Fatal("no orphan")
	}
	const held = "nvidia-smi --query-compute-apps=pid --format=csv,noheader"
	if out := run(t, client, held); out != fmt.Sprintf("%d\n", orphan) {
		t.Errorf("compute processes %q, want the orphan %d", out, orphan)
	}
	run(t, client, fmt.Sprintf("kill -9 %d", orphan))
	waitFor(t, "no compute process is left", 5*time.Second, func() bool { return run(t, client, held) == "" })
}

func TestBothClientsAreConnected(t *testing.T) {
	n, _ := startNode(t, "client-twice")
	both := 0
	for pid, title := range titles(n.RootPID) {
		if strings.Contains(title, "run_inference.py") {
			both++
			waitFor(t, "150 connections of "+title, 5*time.Second, func() bool { return socketsTo(pid, n.ServerPort) == 150 })
		}
	}
	if both != 2 {
		t.Errorf("%d clients, want 2", both)
	}
}

// TestHost proves that the model's host is seen on the node and nowhere else.
func TestHost(t *testing.T) {
	n, client := startNode(t, "story")
	const total = "MemTotal:       1056964608 kB\n"
	inside := run(t, client, "cat /proc/meminfo; cat /proc/loadavg")
	if strings.HasPrefix(inside, total) != n.OwnHost {
		t.Errorf("own host %v, and the node shows\n%s", n.OwnHost, inside)
	}
	cpus := strings.TrimSpace(run(t, client, "grep -c '^cpu[0-9]' /proc/stat; grep -c ^btime /proc/stat"))
	if (cpus == "128\n1") != n.OwnHost {
		t.Errorf("own host %v, and the node shows %q processors", n.OwnHost, cpus)
	}
	if outside, err := os.ReadFile("/proc/meminfo"); err != nil || strings.HasPrefix(string(outside), total) {
		t.Errorf("this machine shows the model's memory: %v", err)
	}
}

func TestPreRolled(t *testing.T) {
	n, _ := startNode(t, "story")
	if len(n.History) != 4 || n.History[1].Cause != "cuda-oom" || *n.History[1].Capacity != 231_120 {
		t.Errorf("history: %+v", n.History)
	}
	if age := n.Started.Sub(n.ClientStarted); age < 18*time.Minute || age > 20*time.Minute {
		t.Errorf("the client is %v old, want 19 minutes", age)
	}
	if len(n.Config.Started) != 12 || !n.Config.Started[n.ClientPID].Equal(n.ClientStarted) {
		t.Errorf("began: %v", n.Config.Started)
	}
	rows := growing(t, n)
	text, _ := os.ReadFile(rows)
	if count := bytes.Count(text, []byte("\n")); count < 1510 || count > 1560 {
		t.Errorf("%d rows, want about 1531", count)
	}
	info, err := os.Stat(filepath.Join(filepath.Dir(rows), "B1_glaive.jsonl"))
	if err != nil || time.Since(info.ModTime()) < 19*time.Minute {
		t.Errorf("the finished part changed lately: %v %v", info.ModTime(), err)
	}
	if info, err := os.Stat(n.ClientLog); err != nil || !info.ModTime().Equal(n.ClientStarted) {
		t.Errorf("the empty log of the client changed at %v, not at its start: %v", info.ModTime(), err)
	}
	log := logSince(n, 0)
	for _, part := range []string{"max_total_num_tokens=159277,", "#running-req: 121, ", ": 1317.32, #queue-req: 29",
		fmt.Sprintf("Started server process [%d]", n.ServerPID),
		fmt.Sprintf("model_path='%s/data/models/Kimi-K2.5'", n.Dir), fmt.Sprintf("http://127.0.0.1:%d ", n.ServerPort)} {
		if !strings.Contains(log, part) {
			t.Errorf("no %q in the server's log", part)
		}
	}
}
