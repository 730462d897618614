package simnode

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

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

// TestLaunchBesideServer fails as the real one does and harms nobody.
func TestLaunchBesideServer(t *testing.T) {
	n, client := startNode(t, "story")
	argv := argvOf(t, n.ServerPID)
	for _, c := range []struct {
		name, sign string
		argv       []string
		status     int
	}{
		{"help", "usage: launch_server.py", append(argv[:3:3], "--help"), 0},
		{"a bad flag", "unrecognized arguments: --no-such-flag", append(argv[:len(argv):len(argv)], "--no-such-flag"), 2},
		{"the same again", "memory capacity is unbalanced", argv, 137},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := run(t, client, quoted(c.argv)+" 2>&1; echo status $?")
			if !strings.Contains(out, c.sign) || !strings.HasSuffix(out, fmt.Sprintf("status %d\n", c.status)) {
				t.Errorf("want %q and status %d:\n%.1500s", c.sign, c.status, out)
			}
			if status, body, err := get(client, n.ServerPort, "/v1/loads"); err != nil || status != 200 {
				t.Errorf("the server beside it: %d %v %s", status, err, body)
			}
			if !alive(n.ServerPID) || strings.Contains(logSince(n, 0), c.sign) {
				t.Error("the server beside it was touched")
			}
		})
	}
	if pid := find(n.RootPID, "run_inference.py"); socketsTo(pid, n.ServerPort) != 150 {
		t.Errorf("the client holds %d connections", socketsTo(pid, n.ServerPort))
	}
}
