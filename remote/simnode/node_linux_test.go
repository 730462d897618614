package simnode

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// holdEnv makes the test binary start a node and wait to be killed.
const holdEnv = "SIMNODE_TEST_HOLD"

func TestMain(m *testing.M) {
	if handled, code := Main(os.Args); handled {
		os.Exit(code)
	}
	if scenario := os.Getenv(holdEnv); scenario != "" {
		n, err := Start(context.Background(), Options{Scenario: scenario})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(n.RootPID, n.Dir)
		select {}
	}
	os.Exit(m.Run())
}

// waitFor polls until the condition holds.
func waitFor(t *testing.T, what string, limit time.Duration, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, limit)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func startNode(t *testing.T, scenario string) (*Node, *ssh.Client) {
	t.Helper()
	n, err := Start(t.Context(), Options{Scenario: scenario})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	client, err := ssh.Dial("tcp", n.Addr, &ssh.ClientConfig{
		User: n.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(n.Signer)},
		HostKeyCallback: ssh.FixedHostKey(n.HostKey), Timeout: 5 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return n, client
}

func run(t *testing.T, client *ssh.Client, command string) string {
	t.Helper()
	session, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	// What hangs must fail here and not with the whole test binary.
	limit := time.AfterFunc(20*time.Second, func() { _ = session.Close() })
	defer limit.Stop()
	out, err := session.CombinedOutput(command)
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

// titles reads the command lines below the node's root, NULs as spaces.
func titles(root int) map[int]string {
	found := make(map[int]string)
	for _, pid := range descendants(root) {
		cmdline, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		if err == nil && len(cmdline) > 0 {
			found[pid] = strings.TrimRight(strings.ReplaceAll(string(cmdline), "\x00", " "), " ")
		}
	}
	return found
}

func find(root int, part string) int {
	for pid, title := range titles(root) {
		if strings.Contains(title, part) {
			return pid
		}
	}
	return 0
}

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return -1
	}
	return info.Size()
}

// growing is the rows file that changed last.
func growing(t *testing.T, n *Node) string {
	t.Helper()
	newest, at := "", time.Time{}
	_ = filepath.WalkDir(n.Data, func(path string, _ os.DirEntry, _ error) error {
		if info, err := os.Stat(path); err == nil && strings.HasSuffix(path, ".jsonl") && info.ModTime().After(at) {
			newest, at = path, info.ModTime()
		}
		return nil
	})
	if newest == "" {
		t.Fatal("no rows file")
	}
	return newest
}

func get(client *ssh.Client, port int, path string) (int, []byte, error) {
	transport := &http.Transport{DisableKeepAlives: true,
		DialContext: func(_ context.Context, network, addr string) (net.Conn, error) { return client.Dial(network, addr) }}
	answer, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Get(fmt.Sprintf("http://127.0.0.1:%d%s", port, path))
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer.StatusCode, body, err
}

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

func TestTerminal(t *testing.T) {
	_, client := startNode(t, "idle")
	session, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if err := session.RequestPty("xterm", 30, 100, ssh.TerminalModes{}); err != nil {
		t.Fatal(err)
	}
	input, _ := session.StdinPipe()
	output, _ := session.StdoutPipe()
	if err := session.Shell(); err != nil {
		t.Fatal(err)
	}
	if err := session.WindowChange(40, 120); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(input, "stty size; exit 7")
	text, _ := io.ReadAll(output)
	if !strings.Contains(string(text), "40 120") {
		t.Errorf("the terminal's size is not 40 120:\n%s", text)
	}
	var status *ssh.ExitError
	if err := session.Wait(); !errors.As(err, &status) || status.ExitStatus() != 7 {
		t.Errorf("exit status: %v", err)
	}
}

func TestSessions(t *testing.T) {
	_, client := startNode(t, "idle")

	t.Run("one a program, each its own", func(t *testing.T) {
		fields := strings.Fields(run(t, client, "cut -d' ' -f1,5,6 /proc/$$/stat"))
		if fields[0] != fields[1] || fields[0] != fields[2] {
			t.Errorf("pid, group and session %v differ", fields)
		}
	})
	t.Run("signals", func(t *testing.T) {
		session, err := client.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		if err := session.Start("sleep 60"); err != nil {
			t.Fatal(err)
		}
		if err := session.Signal(ssh.SIGTERM); err != nil {
			t.Fatal(err)
		}
		var status *ssh.ExitError
		if err := session.Wait(); !errors.As(err, &status) || status.Signal() != "TERM" {
			t.Errorf("after TERM: %v", err)
		}
	})
	t.Run("no more than ten", func(t *testing.T) {
		var open []*ssh.Session
		for range maxSessions {
			session, err := client.NewSession()
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, session)
		}
		if _, err := client.NewSession(); err == nil {
			t.Error("the eleventh was accepted")
		}
		for _, session := range open {
			session.Close()
		}
	})
	t.Run("the user's environment stays out", func(t *testing.T) {
		out := run(t, client, "env; command -v nvidia-smi python3")
		if !strings.Contains(out, "/bin/nvidia-smi\n") || strings.Contains(out, "HOME="+os.Getenv("HOME")+"\n") {
			t.Errorf("environment:\n%s", out)
		}
	})
	t.Run("other keys are refused", func(t *testing.T) {
		stranger, _, err := newKey("stranger")
		if err != nil {
			t.Fatal(err)
		}
		conn, err := ssh.Dial("tcp", client.RemoteAddr().String(), &ssh.ClientConfig{User: nodeUser,
			Auth: []ssh.AuthMethod{ssh.PublicKeys(stranger)}, HostKeyCallback: ssh.InsecureIgnoreHostKey()})
		if err == nil {
			_ = conn.Close()
			t.Error("a stranger's key was accepted")
		}
	})
}

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

// relaunch starts argv as a restart script does: in a session of its own, with
// everything redirected.
func relaunch(t *testing.T, n *Node, client *ssh.Client, argv []string) {
	t.Helper()
	run(t, client, fmt.Sprintf("cd %s && setsid %s >> %s 2>&1 < /dev/null &", n.Data, quoted(argv), n.ServerLog))
}

func argvOf(t *testing.T, pid int) []string {
	t.Helper()
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(cmdline), "\x00"), "\x00")
}

// setFlag is argv with the value of a flag replaced.
func setFlag(argv []string, flag, value string) []string {
	edited := append([]string(nil), argv...)
	for i := range edited[:len(edited)-1] {
		if edited[i] == flag {
			edited[i+1] = value
		}
	}
	return edited
}

func logSince(n *Node, offset int64) string {
	text, err := os.ReadFile(n.ServerLog)
	if err != nil || int64(len(text)) < offset {
		return ""
	}
	return string(text[offset:])
}

func TestRestart(t *testing.T) {
	n, client := startNode(t, "story")
	server := find(n.RootPID, "sglang.launch_server")
	argv := argvOf(t, server)
	began, from := time.Now(), size(n.ServerLog)
	run(t, client, fmt.Sprintf("kill -TERM %d", server))
	waitFor(t, "the server says that it drains", 8*time.Second, func() bool {
		return strings.Contains(logSince(n, from), "SIGTERM received")
	})
	if !alive(server) {
		t.Error("the server ended at once, with requests in flight")
	}
	run(t, client, fmt.Sprintf("kill -KILL %d", server))
	waitFor(t, "the server's end", 5*time.Second, func() bool { return !alive(server) && find(n.RootPID, "sglang::") == 0 })
	from = size(n.ServerLog)
	relaunch(t, n, client, setFlag(argv, "--mem-fraction-static", "0.86"))
	waitFor(t, "the new server is ready", 40*time.Second-time.Since(began), func() bool {
		return strings.Contains(logSince(n, from), "The server is fired up and ready to roll!")
	})
	if text := logSince(n, from); !strings.Contains(text, "max_total_num_tokens=130539,") {
		t.Errorf("capacity at 0.86 is not 130539:\n%.3000s", text)
	}
	next := find(n.RootPID, "sglang.launch_server")
	if next == 0 || next == server {
		t.Fatalf("the new server's pid is %d, the old one's %d", next, server)
	}
	if got := argvOf(t, next); strings.Join(got, " ") != strings.Join(setFlag(argv, "--mem-fraction-static", "0.86"), " ") {
		t.Errorf("argv of the new server: %q", got)
	}
	waitFor(t, "the client is back", 10*time.Second, func() bool {
		_, body, err := get(client, n.ServerPort, "/v1/loads")
		return err == nil && !bytes.Contains(body, []byte(`"num_running_reqs":0`))
	})
}

func TestRestartOutOfMemory(t *testing.T) {
	n, client := startNode(t, "story")
	server := find(n.RootPID, "sglang.launch_server")
	argv := setFlag(argvOf(t, server), "--mem-fraction-static", "0.93")
	run(t, client, fmt.Sprintf("kill -KILL %d", server))
	waitFor(t, "the server's end", 5*time.Second, func() bool { return !alive(server) })
	from, rc := size(n.ServerLog), filepath.Join(n.Dir, "tmp", "rc")
	run(t, client, fmt.Sprintf("cd %s && setsid sh -c '%s >> %s 2>&1; echo $? > %s' > /dev/null 2>&1 < /dev/null &",
		n.Data, strings.Join(argv, " "), n.ServerLog, rc))
	waitFor(t, "the crash", 40*time.Second, func() bool { return size(rc) > 0 })
	if status, _ := os.ReadFile(rc); string(status) != "137\n" {
		t.Errorf("exit status %q, want 137", status)
	}
	text := logSince(n, from)
	for _, sign := range []string{"fired up and ready", "CUDA out of memory", "SIGQUIT received"} {
		if !strings.Contains(text, sign) {
			t.Errorf("no %q in the log:\n%.2000s", sign, text)
		}
	}
	if find(n.RootPID, "sglang::") != 0 {
		t.Error("children outlived the crash")
	}
}

func TestNothingOutlivesKill(t *testing.T) {
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
	_, err := Start(t.Context(), Options{Scenario: "no such"})
	if err == nil || !strings.Contains(err.Error(), `"no such"`) {
		t.Errorf("error: %v", err)
	}
}
