//go:build system

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/runvigil/runvigil/remote/remotetest"
)

// terminal is a tmux session of the test's own.
type terminal struct {
	t    *testing.T
	name string
}

func newTerminal(t *testing.T, width, height int, env []string) terminal {
	t.Helper()
	term := terminal{t, fmt.Sprintf("rvtest-%d-%s", os.Getpid(), strings.ReplaceAll(t.Name(), "/", "-"))}
	args := []string{"new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height)}
	for _, e := range append(env, "XDG_STATE_HOME="+t.TempDir(), "XDG_CONFIG_HOME="+t.TempDir()) {
		args = append(args, "-e", e)
	}
	term.tmux(append(args, "/bin/sh")...)
	t.Cleanup(func() { _ = exec.Command("tmux", "-L", term.name, "kill-server").Run() })
	term.keys("PS1='shell''> '; clear", "Enter")
	term.wait("shell>")
	return term
}

func (s terminal) tmux(args ...string) string {
	s.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-L", s.name, "-f", "/dev/null"}, args...)...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("tmux %q: %v\n%s", args, err, out)
	}
	return string(out)
}

func (s terminal) text() string { return s.tmux("capture-pane", "-p") }

func (s terminal) keys(keys ...string) { s.tmux(append([]string{"send-keys"}, keys...)...) }

// waitLimit is when what a test waits for counts as not coming. It is no figure of
// the program's: a busy machine takes long for everything.
const waitLimit = 90 * time.Second

func (s terminal) wait(text string) {
	s.t.Helper()
	s.within(waitLimit, text)
}

// within waits for a text that must be on the screen by a limit of its own.
func (s terminal) within(limit time.Duration, text string) {
	s.t.Helper()
	for end := time.Now().Add(limit); !strings.Contains(s.text(), text); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("%q is not on the screen within %s:\n%s", text, limit, s.text())
		}
	}
}

// shortDir is a temporary folder with a short path: the demo's sockets live in it.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "t") //nolint:usetesting // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// The demo on a real terminal: a living screen within 10 s, a resize, views, and
// a shell that is left as it was.
func TestSystemDemoInTmux(t *testing.T) {
	bin := binary(t)
	term := newTerminal(t, 120, 40, nil)
	tmp := shortDir(t)
	term.keys("TMPDIR="+tmp+" "+bin+" demo", "Enter")
	term.within(10*time.Second, "rows land")
	term.wait("settled")
	for _, size := range [][2]string{{"80", "24"}, {"40", "12"}, {"120", "40"}} {
		term.tmux("resize-window", "-x", size[0], "-y", size[1])
		term.wait("rows land")
	}
	term.keys("l")
	term.wait("server log")
	term.wait("Decode batch")
	term.keys("q")
	term.wait("requests")
	term.keys("q")
	term.wait("shell>")
	term.keys("echo still $((40 + 2)); stty -a | grep -o '[-]*icanon'", "Enter")
	term.wait("still 42")
	term.wait("icanon")
	if strings.Contains(term.text(), "-icanon") {
		t.Errorf("the terminal stays raw:\n%s", term.text())
	}
	eventually(t, 5*time.Second, "nothing of the demo runs", func() bool { return len(remotetest.Running(bin)) == 0 })
	left, err := os.ReadDir(tmp)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 0 {
		t.Errorf("the demo left %v", left)
	}
}

// A shell on the node over the same connection, and back.
func TestSystemShellKey(t *testing.T) {
	bin := binary(t)
	term := newTerminal(t, 100, 30, nil)
	term.keys(bin+" demo", "Enter")
	term.wait("rows land")
	term.keys("s")
	term.wait("root@demo")
	term.keys("echo on the node $((20 + 3))", "Enter")
	term.wait("on the node 23")
	term.keys("exit", "Enter")
	term.wait("rows land")
	term.keys("q")
	term.wait("shell>")
}

// A program that takes the whole screen runs in that shell, follows the
// terminal's size, and the screen is whole after it.
func TestSystemShellRunsScreenPrograms(t *testing.T) {
	bin := binary(t)
	term := newTerminal(t, 100, 30, nil)
	term.keys(bin+" demo", "Enter")
	term.wait("rows land")
	term.keys("s")
	term.wait("root@demo")
	term.keys("seq 1 500 | less", "Enter")
	term.wait("\n29")
	term.keys("G")
	term.wait("500")
	term.tmux("resize-window", "-x", "70", "-y", "20")
	term.wait("\n490\n:") // painted again, a line less than the screen
	term.keys("g")
	term.wait("\n19\n")
	if text := term.text(); strings.Contains(text, "\n20\n") {
		t.Errorf("less does not know the new size:\n%s", text)
	}
	term.keys("q")
	term.keys("stty size; echo from-$((20 + 3))", "Enter")
	term.wait("from-23")
	if !strings.Contains(term.text(), "20 70") {
		t.Errorf("the shell does not know the new size:\n%s", term.text())
	}
	term.keys("cd $(mktemp -d); busybox vi note", "Enter")
	term.wait("- note")
	term.keys("i")
	term.keys("-l", "left by vi")
	term.keys("Escape")
	term.wait("- note [Modified]")
	term.keys("-l", ":wq")
	term.keys("Enter")
	term.wait("/tmp/tmp.") // the prompt: what is typed before it would be echoed there
	term.keys("cat note; rm note; rmdir $PWD; echo after-$((40 + 2))", "Enter")
	term.wait("after-42")
	if !strings.Contains(term.text(), "\nleft by vi\nafter-42") {
		t.Errorf("vi did not take the keys or the screen:\n%s", term.text())
	}
	term.keys("C-c", "")
	term.keys("exit", "Enter")
	term.wait("rows land")
	term.wait("back from the shell")
	if rows := strings.Split(strings.TrimRight(term.text(), "\n"), "\n"); len(rows) != 20 || strings.Contains(term.text(), "from-23") {
		t.Errorf("the screen after the shell has %d rows:\n%s", len(rows), term.text())
	}
	term.keys("q")
	term.wait("shell>")
}

// A live screen leaves its glance: check answers from it, and says so.
func TestSystemCheckBesideLiveScreen(t *testing.T) {
	bin := binary(t)
	n := newRealNode(t)
	n.run(t)
	state := t.TempDir()
	term := newTerminal(t, 100, 30, nil)
	term.keys(strings.Join(n.env, " ")+" XDG_STATE_HOME="+state+" "+bin+" "+n.Alias, "Enter")
	term.wait("row")
	env := append(n.env, "XDG_STATE_HOME="+state)
	for end := time.Now().Add(waitLimit); ; time.Sleep(100 * time.Millisecond) {
		r := command(t, bin, env, "check", n.Alias)
		if strings.Contains(r.out, "seen by the live screen") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("check does not answer from the live screen:\n%s%s\n%s", r.out, r.err, term.text())
		}
	}
	if r := command(t, bin, env, "check", n.Alias, "--fresh"); strings.Contains(r.out, "seen by the live screen") {
		t.Error("--fresh did not ask the node")
	}
	// The link hangs: the screen stays, and q leaves at once.
	n.Freeze(t)
	defer n.Signal(syscall.SIGCONT)
	term.keys("q")
	term.wait("shell>")
}
