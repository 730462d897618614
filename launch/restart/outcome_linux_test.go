package restart

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote/remotetest"
)

// TestOnlyTheConfirmed: a process that took the number, or the command, of the
// confirmed one is left alone.
func TestOnlyTheConfirmed(t *testing.T) {
	t.Parallel()
	w, port := newWorld(t), remotetest.FreePort(t)
	old := w.server(port, nil)
	for _, c := range []struct {
		name   string
		change func(*Plan)
		why    string
	}{
		{"another start time", func(p *Plan) { p.Identity.Start++ }, "gone"},
		{"another command line", func(p *Plan) { p.ArgvSum = "1 2" }, "changed"},
		{"another boot", func(p *Plan) { p.Identity.BootID = "0" }, "rebooted"},
		{"no such process", func(p *Plan) { p.Identity.PID = 4190000 }, "gone"},
		{"a log that cannot be written", func(p *Plan) { p.Log = "/proc/nowhere/x.log" }, "log"},
		{"a port that another has", func(p *Plan) { p.oldPort = 1 }, "port-held"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := w.plan(old.Process.Pid, quick)
			c.change(&p)
			refusals, _, err := Check(t.Context(), w.run, p)
			if err != nil || len(refusals) == 0 || string(refusals[0].Code) != c.why || refusals[0].Reason == "" || refusals[0].Way == "" {
				t.Errorf("the check said %+v, %v, want %s", refusals, err, c.why)
			}
			j := w.carry(p)
			if j.State != metrics.JournalUntouched || j.Why != c.why || j.Touched {
				t.Errorf("state %q why %q touched %v, want untouched by %s", j.State, j.Why, j.Touched, c.why)
			}
			if !alive(old.Process.Pid) {
				t.Fatal("it was ended")
			}
			for _, f := range w.files() {
				if name := filepath.Base(f); strings.HasSuffix(name, ".sh") && name != "restart.sh" && name != "identify.sh" {
					t.Errorf("%s is left behind by a restart that was refused", f)
				}
			}
		})
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name string
		edit launch.Edit
		code string
	}{
		{"all is well", set("mem-fraction-static", "0.5"), ""},
		{"the engine's own parser refuses", set("nosuch", "1"), "parser"},
		{"a path that is not there", set("chat-template", "/no/such/file"), "path"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, port := newWorld(t), remotetest.FreePort(t)
			old := w.server(port, nil)
			refusals, notes, err := Check(t.Context(), w.run, w.plan(old.Process.Pid, quick, c.edit))
			if err != nil || len(notes) > 0 {
				t.Errorf("%v %v", notes, err)
			}
			var codes []string
			for _, r := range refusals {
				codes = append(codes, string(r.Code))
			}
			if got := strings.Join(codes, " "); c.code == "" && got != "" || !strings.Contains(got, c.code) {
				t.Errorf("refused by %q, want %q: %+v", got, c.code, refusals)
			}
			if !alive(old.Process.Pid) {
				t.Error("a check ended the server")
			}
			if left := w.files(); len(left) > 0 {
				t.Errorf("a check left %v", left)
			}
		})
	}
}

func TestWayBack(t *testing.T) {
	t.Parallel()
	w, port := newWorld(t), remotetest.FreePort(t)
	old := w.server(port, []string{"STANDIN_KEY=x"}, "--children", "1")
	o := quick
	o.WayBack = true
	p := w.plan(old.Process.Pid, o, set("dies", "true"))
	ctx := t.Context()
	if err := Begin(ctx, w.run, p); err != nil {
		t.Fatal(err)
	}
	var j metrics.Journal
	w.until("the old launch listens again", func() bool {
		j = metrics.Journal{}
		text, _ := os.ReadFile(filepath.Join(w.base(), p.ID, "journal"))
		for line := range strings.Lines(string(text)) {
			_, _ = j.Apply(line)
		}
		return j.Done
	})
	if j.State != metrics.JournalRunning || !j.Back || !inOrder(steps(j), "started+exited kill back start started listening end") {
		t.Fatalf("%q: %+v", steps(j), j)
	}
	argv, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", j.PID))
	if strings.Contains(string(argv), "--dies") {
		t.Errorf("it runs the failed launch: %q", argv)
	}
	if _, err := Ready(ctx, w.run, p, j, func(string) {}); err != nil {
		t.Error(err)
	}
	w.onlyServer(j, nil)
}

// TestStopAndStart brings a stopped server back with the values that never left
// the node.
func TestStopAndStart(t *testing.T) {
	t.Parallel()
	w, port := newWorld(t), remotetest.FreePort(t)
	const key, token = "sk-stop0123456789abcdef", "hf_stop0123456789abcdefgh"
	old := w.server(port, []string{"STANDIN_KEY=" + token, "HF_TOKEN=" + token}, "--api-key", key)
	j := w.carry(w.plan(old.Process.Pid, Options{Op: Stop, TermWait: time.Second}))
	if j.State != metrics.JournalDown || alive(old.Process.Pid) || listening(port) {
		t.Fatalf("%+v", j)
	}
	p := w.plan(0, Options{Op: Start}, set("mem-fraction-static", "0.7"))
	if strings.Contains(fmt.Sprintf("%+v", p), key) || strings.Contains(fmt.Sprintf("%+v", p), token) {
		t.Error("the plan holds a secret of the node's")
	}
	j = w.carry(p)
	if j.State != metrics.JournalRunning {
		t.Fatalf("%+v", j)
	}
	argv, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", j.PID))
	if !strings.Contains(string(argv), "--api-key\x00"+key+"\x00") || !strings.Contains(string(argv), "\x000.7\x00") {
		t.Errorf("argv %q", argv)
	}
	environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", j.PID))
	if !strings.Contains(string(environ), "HF_TOKEN="+token+"\x00") {
		t.Errorf("environment %q", environ)
	}
	if _, err := Ready(t.Context(), w.run, p, j, func(s string) { t.Log(s) }); err != nil {
		t.Errorf("a server with a key gave no token: %v", err)
	}
	if again := w.carry(p2(w, j.PID)); again.State != metrics.JournalDown {
		t.Errorf("%+v", again)
	}
}

func p2(w *world, pid int) Plan { return w.plan(pid, Options{Op: Stop, TermWait: time.Second}) }

func TestNothingSaved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := Look(t.Context(), w.run, 0); !errors.Is(err, ErrNothingSaved) {
		t.Errorf("%v", err)
	}
}

func TestEndOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.server(remotetest.FreePort(t), nil, "--children", "1")
	kids := tree(a.Process.Pid)
	seen, err := Look(t.Context(), w.run, kids[0])
	if err != nil {
		t.Fatal(err)
	}
	p := New(Input{ID: NewID(time.Now()), Snap: &metrics.Snapshot{}, Seen: seen, Options: Options{Op: EndOne, TermWait: time.Second},
		EndPID: Identity{seen.Launch.BootID, seen.Launch.PID, seen.Launch.Start}})
	if j := w.carry(p); j.State != metrics.JournalDown {
		t.Fatalf("%+v", j)
	}
	if alive(kids[0]) || !alive(a.Process.Pid) {
		t.Errorf("the child lives: %v, its parent: %v", alive(kids[0]), alive(a.Process.Pid))
	}
}

// TestGPUMemory waits for what a stand-in for nvidia-smi says.
func TestGPUMemory(t *testing.T) {
	for _, c := range []struct {
		name, after string
		apps        bool // the tool lists our pid
		free        bool
		wait        time.Duration
	}{
		{"freed at once", "100", true, true, time.Minute},
		{"others hold the rest", "41000", true, true, time.Minute},
		{"pids are hidden, nearly all is free", "500", false, true, time.Minute},
		{"pids are hidden, stable and enough", "9000", false, true, time.Minute},
		{"held by nobody that can be seen", "90000", false, false, 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, port := newWorld(t), remotetest.FreePort(t)
			w.run = localRunner{home: w.home, path: filepath.Join(w.home, "bin")}
			old := w.server(port, nil)
			apps := ""
			if c.apps {
				apps = fmt.Sprintf("%d, 55000, GPU-1", old.Process.Pid)
			}
			w.write("bin/nvidia-smi", fmt.Sprintf(`#!/bin/sh
m=95000
[ -d /proc/%d ] || m=%s
case "$*" in
*compute-apps*) [ -d /proc/%d ] && echo '%s' ;;
*memory.total*) echo "GPU-1, $m, 97887"; echo "GPU-2, 20, 97887" ;;
*) echo "GPU-1, $m"; echo "GPU-2, 20" ;;
esac
exit 0
`, old.Process.Pid, c.after, old.Process.Pid, apps))
			p := w.plan(old.Process.Pid, Options{Op: Stop, TermWait: time.Second})
			p.gpuWait = c.wait
			j := w.carry(p)
			if c.free != (j.State == metrics.JournalDown) || !c.free && (j.Why != "gpu-held" || j.State != metrics.JournalFailed) {
				t.Errorf("state %q why %q", j.State, j.Why)
			}
			if alive(old.Process.Pid) {
				t.Error("the server lives")
			}
		})
	}
}

func (w *world) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.home, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		w.t.Fatal(err)
	}
	remotetest.Program(w.t, path, text)
}

// TestFilesAreOurs: what stays on the node can be read by its login only, and
// the next restart takes away what the last one left.
func TestFilesAreOurs(t *testing.T) {
	t.Parallel()
	w, port := newWorld(t), remotetest.FreePort(t)
	old := w.server(port, nil)
	first := w.plan(old.Process.Pid, quick)
	j := w.carry(first)
	second := w.plan(j.PID, quick)
	if j = w.carry(second); j.State != metrics.JournalRunning {
		t.Fatalf("%+v", j)
	}
	base := w.base()
	err := filepath.WalkDir(base, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Type() == 0 && info.Mode()&0o077 != 0 || err == nil && d.IsDir() && info.Mode()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		if strings.Contains(path, first.ID) {
			t.Errorf("%s of the earlier restart is left", path)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// lateStatus answers looks at a server that is gone; its exit status is there
// from the look after.
type lateStatus struct {
	Runner
	looks, after int
}

func (l *lateStatus) Run(_ context.Context, program []byte) ([]byte, error) {
	l.looks++
	n := regexp.MustCompile(`(?m)^N='?([^'\n]+)'?$`).FindSubmatch(program)
	out := ""
	if l.looks > l.after {
		out = "\n" + string(n[1]) + " rc 137\n"
	}
	return []byte(out + "\n" + string(n[1]) + " end\n"), nil
}

// The shell that waits for a server writes its exit status after the process is
// gone: an end is told with its status also by who looks in between, and
// without one where none ever comes.
func TestStatusComesLate(t *testing.T) {
	for _, c := range []struct {
		after int
		want  string
	}{
		{0, "the new server ended: killed by signal 9"},
		{3, "the new server ended: killed by signal 9"},
		{1000, "the new server ended"},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, err := Ready(t.Context(), &lateStatus{after: c.after}, Plan{ID: "id"}, metrics.Journal{PID: 7, Start: 9, Port: 80}, func(string) {})
			if !errors.Is(err, ErrServerEnded) || err.Error() != c.want {
				t.Errorf("after %d looks: %v, want %q", c.after, err, c.want)
			}
		})
	}
}
