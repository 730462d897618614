package restart

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote/remotetest"
)

// shells are those of this machine that the script must run under; the system
// tests demand all of them.
func shells(t *testing.T) []string {
	t.Helper()
	out := []string{"/bin/sh"}
	for _, name := range []string{"bash", "busybox"} {
		if path, err := exec.LookPath(name); err == nil {
			if name == "busybox" {
				path += " sh"
			}
			out = append(out, path)
		}
	}
	return out
}

var quick = Options{Op: Restart, TermWait: time.Second}

func set(flag, value string) launch.Edit {
	return launch.Edit{Kind: launch.SetFlag, Name: flag, Value: value}
}

// behaviour is a way of a server to end and to start.
type behaviour struct {
	name    string
	args    []string // of the old server
	limited bool     // it was started with a soft limit of locked memory of 4 MiB
	edits   []launch.Edit
	state   string
	steps   string // steps that the journal must have, in order
}

var behaviours = []behaviour{
	{name: "exits on TERM", state: metrics.JournalRunning, steps: "begin identify term stopped port-free start started listening end"},
	{name: "ignores TERM", args: []string{"--deaf"}, edits: []launch.Edit{{Kind: launch.UnsetFlag, Name: "deaf"}}, state: metrics.JournalRunning, steps: "term kill stopped start started listening end"},
	{name: "leaves children", args: []string{"--children", "3"}, state: metrics.JournalRunning, steps: "term kill stopped start started listening end"},
	{name: "children in sessions of their own", args: []string{"--children", "3", "--sessions"}, state: metrics.JournalRunning, steps: "term kill stopped started listening end"},
	{name: "dies while starting", args: []string{"--children", "2", "--sessions"}, edits: []launch.Edit{set("dies", "true")}, state: metrics.JournalFailed, steps: "stopped started+exited kill end"},
	{name: "holds the port longer", args: []string{"--holds", "2s"}, state: metrics.JournalRunning, steps: "stopped port-wait port-free started listening end"},
	{name: "writes nothing", args: []string{"--silent"}, state: metrics.JournalRunning, steps: "stopped started listening end"},
}

func steps(j metrics.Journal) string {
	var out []string
	for _, l := range j.Lines {
		out = append(out, string(l.Step))
	}
	return strings.Join(out, " ")
}

// inOrder tells whether the wanted steps come in that order; those joined by +
// come from two processes, in either order.
func inOrder(have, want string) bool {
	rest := strings.Fields(have)
	for _, step := range strings.Fields(want) {
		last := -1
		for part := range strings.SplitSeq(step, "+") {
			i := slices.Index(rest, part)
			if i < 0 {
				return false
			}
			last = max(last, i)
		}
		rest = rest[last+1:]
	}
	return true
}

// TestBehaviours restarts each kind of server under each shell, beside a
// bystander that looks the same.
func TestBehaviours(t *testing.T) {
	for i, b := range behaviours {
		for k, sh := range shells(t) {
			if (i+k)%len(shells(t)) != 0 {
				continue // each kind under one shell; the system tests have more
			}
			t.Run(b.name+" "+sh, func(t *testing.T) {
				t.Parallel()
				w, port := newWorld(t), remotetest.FreePort(t)
				w.sh = sh
				old := w.server(port, nil, b.args...)
				bystander := w.server(remotetest.FreePort(t), nil, "--children", "1")
				others := append(tree(bystander.Process.Pid), bystander.Process.Pid)
				ours := append(tree(old.Process.Pid), old.Process.Pid)
				p := w.plan(old.Process.Pid, quick, b.edits...)
				j := w.carry(p)
				if j.State != b.state || !inOrder(steps(j), b.steps) {
					t.Fatalf("state %q (%s) after %q, want %q after %q", j.State, j.Why, steps(j), b.state, b.steps)
				}
				for _, pid := range ours {
					if alive(pid) {
						t.Errorf("process %d of the old server lives", pid)
					}
				}
				for _, pid := range others {
					if !alive(pid) {
						t.Errorf("process %d of the bystander was ended", pid)
					}
				}
				w.onlyServer(j, others)
			})
		}
	}
}

// onlyServer: beside the bystanders at most the journal's server and its tree
// live.
func (w *world) onlyServer(j metrics.Journal, others []int) {
	w.t.Helper()
	allowed := slices.Clone(others)
	if j.State == metrics.JournalRunning {
		if !alive(j.PID) {
			w.t.Error("the journal says that the server runs, and it does not")
		}
		allowed = append(append(allowed, j.PID), tree(j.PID)...)
	}
	for _, pid := range w.mine() {
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		text := strings.ReplaceAll(string(cmdline), "\x00", " ")
		if !slices.Contains(allowed, pid) && alive(pid) && !strings.Contains(text, "restart.sh wrap") {
			w.t.Errorf("process %d is left: %s", pid, text)
		}
	}
}

// TestReproduces looks at the new server: environment with odd values, argument
// with quotes, directory, limits, umask, nice.
func TestReproduces(t *testing.T) {
	for _, sh := range shells(t) {
		t.Run(sh, func(t *testing.T) {
			t.Parallel()
			w, port := newWorld(t), remotetest.FreePort(t)
			w.sh = sh
			env := []string{"STANDIN_KEY=se cr'et\n\"x\" $HOME `id` \\n é", "EMPTY=", "D=mine", "P=1", "LOG=x", "rv_d=y", "IFS=q", "SSH_TTY=/dev/pts/9", "HF_TOKEN=hf_0123456789abcdefghijkl"}
			old := w.server(port, env, "--mem-fraction-static", "it's 0.5 $x")
			oldEnv := w.environ(port)
			p := w.plan(old.Process.Pid, quick, launch.Edit{Kind: launch.SetEnv, Name: "ADDED", Value: "it's new"}, launch.Edit{Kind: launch.UnsetEnv, Name: "EMPTY"})
			j := w.carry(p)
			if j.State != metrics.JournalRunning {
				t.Fatalf("%+v", j)
			}
			want := []string{"ADDED=it's new"}
			for _, v := range oldEnv {
				name, _, _ := strings.Cut(v, "=")
				if name != "EMPTY" && name != "RUNVIGIL_START" && !launch.SessionVar(name) {
					want = append(want, v)
				}
			}
			var got []string
			for _, v := range w.environ(port) {
				name, _, _ := strings.Cut(v, "=")
				if !launch.SessionVar(name) && name != "RUNVIGIL_START" {
					got = append(got, v)
				}
			}
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("environment\n%q\nwant\n%q", got, want)
			}
			argv, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", j.PID))
			if w := strings.Join(old.Args, "\x00") + "\x00"; string(argv) != w {
				t.Errorf("argv %q, want %q", argv, w)
			}
			if cwd, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", j.PID)); cwd != w.home {
				t.Errorf("it runs in %s", cwd)
			}
			if sid, _ := getsid(j.PID); sid != j.PID {
				t.Errorf("its session is %d, not its own", sid)
			}
			log, err := os.ReadFile(w.log())
			if err != nil || !strings.Contains(string(log[j.Offset:]), "\n"+metrics.StartSeparator+p.ID+" ====\nlistening; key true") {
				t.Errorf("log from %d: %q %v", j.Offset, log, err)
			}
			if strings.Count(string(log), "listening") != 2 {
				t.Errorf("the old part of the log is gone: %q", log)
			}
		})
	}
}

func getsid(pid int) (int, error) {
	sid, _, errno := syscall.Syscall(syscall.SYS_GETSID, uintptr(pid), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(sid), nil
}

func (w *world) environ(port int) []string {
	w.t.Helper()
	resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/env", port))
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	var env []string
	if err := json.NewDecoder(resp.Body).Decode(&env); err != nil {
		w.t.Fatal(err)
	}
	return env
}

// TestUnknownPort: a server whose port nothing tells still gets its environment
// before the script takes the files away that hold it.
func TestUnknownPort(t *testing.T) {
	t.Parallel()
	w, port := newWorld(t), remotetest.FreePort(t)
	old := w.server(port, []string{"STANDIN_KEY=x"})
	p := w.plan(old.Process.Pid, quick)
	p.Port, p.oldPort = 0, 0
	j := w.carry(p)
	if j.State != metrics.JournalRunning || j.Listening {
		t.Fatalf("%+v", j)
	}
	w.until("the new server listens", func() bool { return listening(port) })
	if env := w.environ(port); !slices.Contains(env, "STANDIN_KEY=x") {
		t.Errorf("environment %q", env)
	}
}
