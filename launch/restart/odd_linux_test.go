package restart

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote/remotetest"
)

// TestOddLaunches restarts servers as operators do start them, and looks for what
// the new one got.
func TestOddLaunches(t *testing.T) {
	big := []string{"STANDIN_KEY=x"}
	for i := range 40 {
		big = append(big, fmt.Sprintf("BIG_%d=%s", i, strings.Repeat("a'b \"c ", 700)))
	}
	odd := "it's \"two\nlines\" and $HOME `id` \\ é–\t*"
	for _, c := range []struct {
		name string
		env  []string
		args []string
		wrap []string          // the stand-in's command becomes its arguments
		file map[string]string // below the home, executable
		dir  string            // below the home
		log  launch.How
	}{
		{name: "quotes, a newline and UTF-8 in an argument", args: []string{"--mem-fraction-static", odd}, log: launch.LogFile},
		{name: "an environment of 200 kB", env: big, log: launch.LogFile},
		{name: "a start script with exec", wrap: []string{"/bin/sh", "start.sh"}, file: map[string]string{"start.sh": "export FROM_SCRIPT='a  b'\nexec \"$@\"\n"}, log: launch.LogFile},
		{name: "a relative program in a directory of its own", wrap: []string{"/bin/sh", "-c", `ln -sf "$1" server; shift; exec ./server "$@"`, "sh"}, dir: "deep er/dir", log: launch.LogFile},
		{name: "an environment by name, as conda's", wrap: []string{"/bin/sh", "-c", `mkdir -p "$HOME/env/bin"; ln -sf "$1" "$HOME/env/bin/python-of-env"; shift; PATH=$HOME/env/bin:$PATH; CONDA_PREFIX=$HOME/env; export PATH CONDA_PREFIX; exec python-of-env "$@"`, "sh"}, log: launch.LogFile},
		{name: "nohup and tee", wrap: []string{"/bin/sh", "-c", `nohup "$@" 2>&1 | tee -a "tee log.txt"`, "sh"}, log: launch.LogTee},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, port := newWorld(t), remotetest.FreePort(t)
			for name, text := range c.file {
				w.write(name, text)
			}
			w.wrap, w.dir = c.wrap, c.dir
			first := w.server(port, c.env, c.args...)
			old := w.owner(port)
			env := w.environ(port)
			p := w.plan(old, quick)
			if p.Old.LogHow != c.log {
				t.Errorf("its output goes by %q, want %q", p.Old.LogHow, c.log)
			}
			before, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", old))
			cwd, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", old))
			if refusals, notes, err := Check(t.Context(), w.run, p); err != nil || len(refusals)+len(notes) > 0 {
				t.Errorf("the check: %+v %q %v", refusals, notes, err)
			}
			j := w.carry(p)
			if j.State != metrics.JournalRunning {
				t.Fatalf("state %q why %q after %q", j.State, j.Why, steps(j))
			}
			if after, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", j.PID)); string(after) != string(before) {
				t.Errorf("argv %q, was %q", after, before)
			}
			if now, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", j.PID)); now != cwd {
				t.Errorf("it runs in %q, ran in %q", now, cwd)
			}
			kept := func(list []string) []string {
				out := slices.DeleteFunc(slices.Clone(list), func(v string) bool {
					name, _, _ := strings.Cut(v, "=")
					return name == "RUNVIGIL_START" || launch.SessionVar(name)
				})
				slices.Sort(out)
				return out
			}
			if got, want := kept(w.environ(port)), kept(env); !slices.Equal(got, want) {
				t.Errorf("environment\n%.300q\nwant\n%.300q", got, want)
			}
			if log, err := os.ReadFile(p.Log); err != nil || strings.Count(string(log), "listening") != 2 {
				t.Errorf("log %s: %q %v", p.Log, log, err)
			}
			if _, err := Ready(t.Context(), w.run, p, j, func(string) {}); err != nil {
				t.Error(err)
			}
			if alive(old) || first.Process.Pid != old && len(tree(first.Process.Pid)) > 0 {
				t.Error("something of the old server lives")
			}
		})
	}
}

// owner is the process that listens on a port, among this world's.
func (w *world) owner(port int) int {
	w.t.Helper()
	for _, pid := range w.mine() {
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if words := strings.Split(string(cmdline), "\x00"); len(words) > 4 && words[1] == "-m" && slices.Contains(words, fmt.Sprint(port)) {
			return pid
		}
	}
	w.t.Fatal("no stand-in has the port")
	return 0
}

// TestNoHome: a login whose home cannot be written keeps its files below /tmp, and
// says so.
func TestNoHome(t *testing.T) {
	t.Parallel()
	w, port := newWorld(t), remotetest.FreePort(t)
	old := w.server(port, nil)
	w.run = localRunner{home: "/proc/self"}
	base := fmt.Sprintf("/tmp/runvigil-%d/restart", os.Getuid())
	seen, err := Look(t.Context(), w.run, old.Process.Pid)
	if err != nil || seen.Base != base {
		t.Fatalf("%q %v", seen.Base, err)
	}
	p := w.plan(old.Process.Pid, quick)
	j := w.carry(p)
	if j.State != metrics.JournalRunning {
		t.Fatalf("%q %s", steps(j), j.Why)
	}
	if info, err := os.Stat(filepath.Join(base, p.ID)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", info, err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Join(base, p.ID)) })
}

// TestLogThatIsAPipe: a log that would hold whoever opens it stops the restart
// before the server is stopped.
func TestLogThatIsAPipe(t *testing.T) {
	t.Parallel()
	w, port := newWorld(t), remotetest.FreePort(t)
	old := w.server(port, nil)
	p := w.plan(old.Process.Pid, quick)
	p.Log = filepath.Join(w.home, "fifo")
	if err := syscall.Mkfifo(p.Log, 0o600); err != nil {
		t.Fatal(err)
	}
	refusals, _, err := Check(t.Context(), w.run, p)
	if err != nil || len(refusals) != 1 || refusals[0].Code != "log" {
		t.Errorf("%+v %v", refusals, err)
	}
	if j := w.carry(p); j.State != metrics.JournalUntouched || j.Why != "log" || !alive(old.Process.Pid) {
		t.Errorf("state %q why %q", j.State, j.Why)
	}
}
