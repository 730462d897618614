package simnode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestStory(t *testing.T) {
	n, client := startNode(t, "story")

	t.Run("nvidia-smi", func(t *testing.T) {
		out := run(t, client, "nvidia-smi --query-gpu=index,memory.used --format=csv,noheader,nounits")
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if len(lines) != 8 {
			t.Fatalf("%d lines, want 8:\n%s", len(lines), out)
		}
		for i, line := range lines {
			index, used, _ := strings.Cut(line, ", ")
			if mib, err := strconv.Atoi(used); index != strconv.Itoa(i) || err != nil || mib < 80_000 {
				t.Errorf("line %d: %q", i, line)
			}
		}
		// The compute processes are the real pids of the titled children.
		for line := range strings.Lines(run(t, client, "nvidia-smi --query-compute-apps=pid,process_name --format=csv,noheader")) {
			pid, _, _ := strings.Cut(line, ",")
			number, _ := strconv.Atoi(pid)
			if title := titles(n.RootPID)[number]; !strings.HasPrefix(title, "sglang::scheduler_TP") {
				t.Errorf("compute process %s is %q", pid, title)
			}
		}
	})

	t.Run("nvidia-smi streams", func(t *testing.T) {
		out := run(t, client, "nvidia-smi --query-gpu=index --format=csv,noheader -lms 50 | head -n 20")
		if rows := strings.Count(out, "\n"); rows != 20 {
			t.Errorf("%d rows of a stream, want 20", rows)
		}
	})

	t.Run("processes", func(t *testing.T) {
		count := make(map[string]int)
		for pid, title := range titles(n.RootPID) {
			switch {
			case strings.HasPrefix(title, "python3 -m sglang.launch_server "):
				count["server"]++
				if !strings.Contains(title, fmt.Sprintf("--port %d", n.ServerPort)) {
					t.Errorf("no --port %d in %q", n.ServerPort, title)
				}
			case strings.HasPrefix(title, "sglang::"):
				count[title]++
				comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
				if got := strings.TrimSpace(string(comm)); got != title[:15] {
					t.Errorf("name of %s is %q", title, got)
				}
				environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
				if len(bytes.Trim(environ, "\x00")) != 0 {
					t.Errorf("environment of %s is not wiped", title)
				}
			case strings.Contains(title, "run_inference.py"):
				count["client"]++
			}
		}
		want := []string{"server", "client", "sglang::detokenizer"}
		for rank := range 8 {
			want = append(want, fmt.Sprintf("sglang::scheduler_TP%d", rank))
		}
		for _, name := range want {
			if count[name] != 1 {
				t.Errorf("%d of %s, want 1", count[name], name)
			}
		}
	})

	t.Run("endpoints", func(t *testing.T) {
		status, body, err := get(client, n.ServerPort, "/v1/loads")
		var loads struct {
			Loads []struct {
				Running int `json:"num_running_reqs"`
				Waiting int `json:"num_waiting_reqs"`
			} `json:"loads"`
		}
		if err != nil || status != 200 || json.Unmarshal(body, &loads) != nil || len(loads.Loads) != 1 {
			t.Fatalf("%d %v: %s", status, err, body)
		}
		if l := loads.Loads[0]; l.Running < 25 || l.Running+l.Waiting != 150 {
			t.Errorf("running %d, waiting %d", l.Running, l.Waiting)
		}
		if status, _, err := get(client, n.ServerPort, "/metrics"); err != nil || status != 404 {
			t.Errorf("/metrics without --enable-metrics: %d %v", status, err)
		}
		if status, _, err := get(client, n.ServerPort, "/health"); err != nil || status != 200 {
			t.Errorf("/health: %d %v", status, err)
		}
	})

	t.Run("the client's connections", func(t *testing.T) {
		pid := find(n.RootPID, "run_inference.py")
		waitFor(t, "150 sockets of the client", 5*time.Second, func() bool {
			return socketsTo(pid, n.ServerPort) == 150
		})
	})

	t.Run("only its own ports", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if conn, err := client.Dial("tcp", l.Addr().String()); err == nil {
			conn.Close()
			t.Error("a listener outside the node was reached")
		}
	})

	t.Run("files grow", func(t *testing.T) {
		if got := size(n.ClientLog); got != 0 {
			t.Errorf("the client's log holds %d bytes, want 0", got)
		}
		rows, log := growing(t, n), size(n.ServerLog)
		before := size(rows)
		waitFor(t, "a decode line", 10*time.Second, func() bool {
			text, _ := os.ReadFile(n.ServerLog)
			return bytes.Contains(text[log:], []byte(" TP0] Decode batch, #running-req: "))
		})
		waitFor(t, "a row", 30*time.Second, func() bool { return size(rows) > before })
		text, _ := os.ReadFile(rows)
		if !bytes.HasSuffix(text, []byte("\n")) {
			t.Error("the rows do not end in a newline")
		}
		for i, line := range bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n")) {
			if !json.Valid(line) {
				t.Fatalf("row %d is no JSON: %.200s", i, line)
			}
		}
	})
}

// socketsTo counts the descriptors of a process that are connections to a port.
func socketsTo(pid, port int) int {
	table, _ := os.ReadFile("/proc/net/tcp")
	inodes := make(map[string]bool)
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) > 9 && strings.HasSuffix(fields[2], fmt.Sprintf(":%04X", port)) && fields[3] == "01" {
			inodes["socket:["+fields[9]+"]"] = true
		}
	}
	count := 0
	descriptors, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, d := range descriptors {
		if target, err := os.Readlink(d); err == nil && inodes[target] {
			count++
		}
	}
	return count
}
