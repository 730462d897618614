package simnode

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestServerKilled(t *testing.T) {
	n, client := startNode(t, "story")
	server := find(n.RootPID, "sglang.launch_server")
	run(t, client, fmt.Sprintf("kill -9 %d", server))
	waitFor(t, "the server's children end with it", 5*time.Second, func() bool {
		return !alive(server) && find(n.RootPID, "sglang::") == 0
	})
	waitFor(t, "GPU memory is free", 5*time.Second, func() bool {
		out := run(t, client, "nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits")
		for line := range strings.Lines(out) {
			if mib, err := strconv.Atoi(strings.TrimSpace(line)); err != nil || mib > 4000 {
				return false
			}
		}
		return true
	})
	if _, _, err := get(client, n.ServerPort, "/v1/loads"); err == nil {
		t.Error("the port still answers")
	}
	if find(n.RootPID, "run_inference.py") == 0 {
		t.Error("the client went with the server")
	}
}

func TestClientKilled(t *testing.T) {
	n, client := startNode(t, "story")
	run(t, client, fmt.Sprintf("kill -9 %d", find(n.RootPID, "run_inference.py")))
	waitFor(t, "nothing runs on the server", 10*time.Second, func() bool {
		_, body, err := get(client, n.ServerPort, "/v1/loads")
		return err == nil && bytes.Contains(body, []byte(`"num_running_reqs":0`))
	})
	if find(n.RootPID, "sglang::scheduler_TP0") == 0 {
		t.Error("the server went with the client")
	}
}

func TestClientStarted(t *testing.T) {
	n, client := startNode(t, "client-dead")
	run(t, client, "sh "+n.Data+"/start_client.sh")
	waitFor(t, "the client keeps the server busy", 20*time.Second, func() bool {
		_, body, err := get(client, n.ServerPort, "/v1/loads")
		return err == nil && !bytes.Contains(body, []byte(`"num_running_reqs":0`))
	})
}

func TestNothingOutlivesKill(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	holder := exec.Command(self)
	holder.Env = append(os.Environ(), holdEnv+"=story")
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	var root int
	var dir string
	if _, err := fmt.Fscan(out, &root, &dir); err != nil {
		t.Fatal(err)
	}
	pids := append(descendants(root), root)
	if len(pids) < 12 {
		t.Fatalf("only %d processes", len(pids))
	}
	if err := holder.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = holder.Wait()
	waitFor(t, "every process and file of the node is gone", 5*time.Second, func() bool {
		for _, pid := range pids {
			if alive(pid) {
				return false
			}
		}
		_, err := os.Stat(dir)
		return os.IsNotExist(err)
	})
}

func TestCloseTouchesOnlyItsOwn(t *testing.T) {
	decoy := exec.Cmd{Path: "/bin/sleep", Args: []string{"sglang::scheduler_TP0", "60"}}
	if err := decoy.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = decoy.Process.Kill()
		_ = decoy.Wait()
	}()
	n, _ := startNode(t, "idle")
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if !alive(decoy.Process.Pid) {
		t.Error("a process outside the node was ended")
	}
	if err := n.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

func TestNothingOutlivesTheSupervisor(t *testing.T) {
	n, _ := startNode(t, "idle")
	pids := descendants(n.RootPID)
	if err := syscall.Kill(n.RootPID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "every process and file of the node is gone", 5*time.Second, func() bool {
		for _, pid := range pids {
			if alive(pid) {
				return false
			}
		}
		_, err := os.Stat(n.Dir)
		return os.IsNotExist(err)
	})
}

func TestUnknownScenario(t *testing.T) {
	t.Parallel()
	_, err := Start(t.Context(), Options{Scenario: "no such"})
	if err == nil || !strings.Contains(err.Error(), `"no such"`) {
		t.Errorf("error: %v", err)
	}
}
