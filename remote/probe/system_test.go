//go:build system

package probe

import (
	"bufio"
	"context"

	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote"
	"github.com/runvigil/runvigil/remote/remotetest"
)

var nodeShells = map[string][]string{
	"dash":    {"dash", "-s"},
	"bash":    {"bash", "-s"},
	"busybox": {"busybox", "ash", "-s"},
}

// onShells runs a test under each shell that a node may have as /bin/sh.
// Under busybox, busybox's own tools come first in the PATH.
func onShells(t *testing.T, test func(*testing.T, *localNode)) {
	for name, shell := range nodeShells {
		t.Run(name, func(t *testing.T) {
			n := newLocalNode(t, shell...)
			if name == "busybox" {
				dir := t.TempDir()
				if out, err := exec.Command("busybox", "--install", "-s", dir).CombinedOutput(); err != nil {
					t.Fatalf("busybox --install: %v %s", err, out)
				}
				n.path(dir)
			}
			test(t, n)
		})
	}
}

func TestSystemShells(t *testing.T) {
	onShells(t, func(t *testing.T, n *localNode) {
		t.Run("frames", func(t *testing.T) { firstFrames(t, n) })
		t.Run("memory limits", func(t *testing.T) { memoryLimits(t, n) })
		t.Run("backfill", func(t *testing.T) { backfillLog(t, n) })
		t.Run("screen", func(t *testing.T) { screenReads(t, n) })
		t.Run("find a log", func(t *testing.T) { findsLogs(t, n) })
		t.Run("GPU fields", func(t *testing.T) { gpuFieldsOnTheNode(t, n) })
		t.Run("records", func(t *testing.T) { countRecords(t, n) })
		t.Run("discovery", func(t *testing.T) { discoverProcesses(t, n) })
		t.Run("jobs", func(t *testing.T) { backgroundJobs(t, n) })
		t.Run("rows", func(t *testing.T) { walkRows(t, n, 3000, 3, 4) })
	})
}

// A hundred thousand random appends, truncations and replacements.
func TestSystemRowsLong(t *testing.T) {
	walkRows(t, newLocalNode(t), 100_000, 4, 20)
}

func TestSystemLoginShells(t *testing.T) {
	for _, login := range []string{"bash", "dash", "fish", "zsh", "csh"} {
		t.Run(login, func(t *testing.T) {
			firstFrames(t, newLocalNode(t, login, "-c", command))
		})
	}
}

// dial connects to a test server with one of the dialers.
func dial(t *testing.T, s *remotetest.Server, dialer string) Conn {
	t.Helper()
	o := remote.Options{Dialer: dialer}
	target := remote.Target{User: s.User, Host: s.Host, Port: s.Port}
	if dialer == remote.DialerOpenSSH {
		o.SSHConfig = s.SSHConfig
		target = remote.Target{Host: s.Alias}
	} else {
		o.Plain, o.Identity, o.KnownHosts = true, s.KeyFile, []string{s.KnownHosts}
	}
	c, err := remote.Dial(t.Context(), target, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return Over(c)
}

func TestSystemServers(t *testing.T) {
	servers := map[string]func(*testing.T) *remotetest.Server{
		"openssh":  func(t *testing.T) *remotetest.Server { return remotetest.OpenSSH(t, remotetest.Options{}) },
		"dropbear": func(t *testing.T) *remotetest.Server { return remotetest.Dropbear(t, remotetest.Options{}) },
	}
	for server, start := range servers {
		for _, dialer := range []string{remote.DialerOpenSSH, remote.DialerNative} {
			t.Run(server+"/"+dialer, func(t *testing.T) {
				firstFrames(t, dial(t, start(t), dialer))
			})
		}
	}
}

func TestSystemFewSessions(t *testing.T) {
	for most := 1; most <= 3; most++ {
		for _, dialer := range []string{remote.DialerOpenSSH, remote.DialerNative} {
			t.Run(fmt.Sprint(most, dialer), func(t *testing.T) {
				s := remotetest.OpenSSH(t, remotetest.Options{Config: fmt.Sprintf("MaxSessions %d", most)})
				firstFrames(t, dial(t, s, dialer))
			})
		}
	}
}

func TestSystemNoForwarding(t *testing.T) {
	s := remotetest.OpenSSH(t, remotetest.Options{Config: "AllowTcpForwarding no"})
	for _, dialer := range []string{remote.DialerOpenSSH, remote.DialerNative} {
		t.Run(dialer, func(t *testing.T) {
			w := watch(t, dial(t, s, dialer), Options{},
				metrics.Want{Kind: metrics.WantHTTP, Addr: "127.0.0.1", Port: 1, Path: "/health", Every: time.Second})
			w.until("an answer by way of a program", func(f metrics.Frame) bool {
				if f.Kind != metrics.KindHTTP {
					return false
				}
				h, _, err := metrics.DecodeChunk[metrics.HTTPHeader](f.Data)
				return err == nil && h.Via != "" && h.Via != "forward" && strings.Contains(h.Err, "refused")
			})
		})
	}
}

// Without curl the others take over, and no key becomes an argument.
func TestSystemNodePrograms(t *testing.T) {
	for _, prog := range []string{"curl", "python3", "wget"} {
		via, code := nodeRequest(func(name string) string {
			if name == prog {
				return name
			}
			return ""
		}, "http://127.0.0.1:1/health", "", time.Second)
		if via != prog {
			t.Errorf("with only %s: %q", prog, via)
		}
		p := New(newLocalNode(t), Options{})
		t.Cleanup(p.closeChannels)
		out, _, err := p.job(t.Context(), "h", code, 10*time.Second)
		if status, _ := nodeAnswer(out); err != nil || status != 0 {
			t.Errorf("%s: status %d, %v: %q", prog, status, err, out)
		}
	}
}

// holdEnv makes this test binary probe a server until it is killed.
const holdEnv = "RUNVIGIL_PROBE_HOLD"

func TestSystemHold(t *testing.T) {
	config := os.Getenv(holdEnv)
	if config == "" {
		return // it is a part of the test below
	}
	c, err := remote.Dial(t.Context(), remote.Target{Host: os.Getenv(holdEnv + "_HOST")}, remote.Options{Dialer: remote.DialerOpenSSH, SSHConfig: config})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[metrics.Kind]bool{}
	err = New(Over(c), Options{}).Run(t.Context(), func(f metrics.Frame) {
		seen[f.Kind] = true
		if seen[metrics.KindScan] && seen[metrics.KindGPU] && f.Kind == metrics.KindTick {
			fmt.Println("up")
		}
	})
	t.Fatal(err)
}

// After kill -9 of the program nothing of the probe runs on the node.
func TestSystemNothingStaysAfterKill(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/nvidia-smi", smiScript("while :; do "+twoRows+"; sleep 1; done"))
	mark := fmt.Sprintf("RUNVIGIL_MARK=%d-%d", os.Getpid(), time.Now().UnixNano())
	s := remotetest.OpenSSH(t, remotetest.Options{Config: "SetEnv " + mark + " PATH=" + dir + ":/usr/bin:/bin"})
	cmd := exec.Command(os.Args[0], "-test.run", "^TestSystemHold$", "-test.count=1")
	cmd.Env = append(os.Environ(), holdEnv+"="+s.SSHConfig, holdEnv+"_HOST="+s.Alias, "XDG_RUNTIME_DIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "up" {
	}
	if got := len(marked(mark)); got < 5 {
		t.Fatalf("only %d processes on the node before the kill", got)
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	end := time.Now().Add(5 * time.Second)
	for len(marked(mark)) > 0 {
		if time.Now().After(end) {
			ps, _ := exec.Command("ps", "-o", "pid,ppid,stat,args", "-p", strings.Join(marked(mark), ",")).Output()
			t.Fatalf("5 s after kill -9 there is:\n%s", ps)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// The stream ends by itself when nobody renews its lease; the test makes the
// minute a second.
func TestSystemLeaseEnds(t *testing.T) {
	onShells(t, func(t *testing.T, n *localNode) {
		dir := t.TempDir()
		smi := write(t, dir+"/nvidia-smi", smiScript("while :; do "+twoRows+"; sleep 0.1; done"))
		program := gpuProgram(smi, coreStream, 100, false)
		sh, err := startShell(context.Background(), n, func(nonce string) string {
			return strings.Replace(program(nonce), "sleep 60", "sleep 1", 1)
		}, true)
		if err != nil {
			t.Fatal(err)
		}
		defer sh.close()
		rows := 0
		begun := time.Now()
		for range sh.lines {
			rows++
			if time.Since(begun) > 20*time.Second {
				t.Fatal("the stream goes on without a lease")
			}
		}
		if rows < 2 {
			t.Errorf("only %d rows in a second", rows)
		}
		for end := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			line, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", sh.pid))
			if st, ok := parseStat(string(line)); err != nil || ok && st.state == "Z" {
				break
			}
			if time.Now().After(end) {
				t.Fatal("nvidia-smi is still there")
			}
		}
	})
}

func TestSystemPane(t *testing.T) {
	socket := fmt.Sprintf("runvigil-test-%d", os.Getpid())
	tmux := func(args ...string) string {
		out, err := exec.Command("tmux", append([]string{"-L", socket}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("tmux %v: %v %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	tmux("new-session", "-d", "-x", "100", "-y", "20", "echo one; echo token=abcdefghijklmn; exec cat")
	t.Cleanup(func() { _ = exec.Command("tmux", "-L", socket, "kill-server").Run() })
	tty := tmux("list-panes", "-a", "-F", "#{pane_tty}")
	w := watch(t, newLocalNode(t), Options{}, metrics.Want{Kind: metrics.WantPane, Path: tty, Every: 50 * time.Millisecond})
	w.until("the pane", logged(func(h metrics.LogHeader, raw string) bool {
		return h.Pane && strings.Contains(raw, "one\ntoken=***\n")
	}))
	tmux("send-keys", "three", "Enter")
	w.until("what is new in it", logged(func(h metrics.LogHeader, raw string) bool {
		return h.Pane && strings.Contains(raw, "three") && !strings.Contains(raw, "one")
	}))
}
