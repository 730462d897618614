package restart

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote/remotetest"
)

// find looks for a restart under way.
func (w *world) find(r Runner) *UnderWay {
	w.t.Helper()
	u, err := Find(w.t.Context(), r, true)
	if err != nil {
		w.t.Fatal(err)
	}
	return u
}

// TestFind: a restart is found while its script lives, with what following it
// needs, and not before and after.
func TestFind(t *testing.T) {
	t.Parallel()
	w, port := newWorld(t), remotetest.FreePort(t)
	if u := w.find(w.run); u != nil {
		t.Errorf("nothing was begun, and it found %+v", u)
	}
	if made, err := os.Stat(filepath.Join(w.home, ".cache")); err == nil {
		t.Errorf("looking made %v", made.Name())
	}
	old := w.server(port, []string{"VLLM_API_KEY=sk-find0123456789abcdef"}, "--deaf")
	p := w.plan(old.Process.Pid, Options{Op: Restart, TermWait: 2 * time.Second, Override: "because"}, set("mem-fraction-static", "0.5"), launch.Edit{Kind: launch.UnsetFlag, Name: "deaf"})
	if err := Begin(t.Context(), w.run, p); err != nil {
		t.Fatal(err)
	}
	var u *UnderWay
	w.until("it is under way", func() bool { u = w.find(w.run); return u != nil })
	if u.ID != p.ID || !u.Mine || u.Dead || u.Hidden || u.By == "" || time.Since(u.Since) > time.Minute || !strings.Contains(u.String(), "a restart by "+u.By+" is under way, begun ") {
		t.Errorf("%+v", u)
	}
	q := u.Plan
	if q.ID != p.ID || q.Op != Restart || q.Node != "test" || q.Identity != p.Identity || q.New.Engine != "sglang" || strings.Join(q.Command, " ") != strings.Join(p.Command, " ") ||
		len(q.Diff) != 2 || q.Diff[0].String() != p.Diff[0].String() || q.Options.Override != "because" || strings.Join(q.Old.Argv, " ") != strings.Join(p.Old.Argv, " ") {
		t.Errorf("plan %+v\nwas  %+v", q, p)
	}
	if !(watcher{p: q}).needsKey() {
		t.Error("that the server asks for a key is forgotten")
	}
	// Whoever comes later follows the whole journal to its end.
	j, err := Follow(t.Context(), w.run, u.Folder, func(metrics.JournalLine) {})
	if err != nil || j.State != metrics.JournalRunning || j.Lines[0].Step != metrics.JournalBegin {
		t.Fatalf("%v %q", err, steps(j))
	}
	if _, err := Ready(t.Context(), w.run, q, j, func(string) {}); err != nil {
		t.Error(err)
	}
	if u := w.find(w.run); u != nil {
		t.Errorf("it is over, and it found %+v", u)
	}
}

// TestFindTheDead: a script that was killed is told once it is looked for; its
// journal has no last word, and the next restart passes over its locks.
func TestFindTheDead(t *testing.T) {
	t.Parallel()
	w, port := newWorld(t), remotetest.FreePort(t)
	old := w.server(port, nil, "--deaf")
	p := w.plan(old.Process.Pid, Options{Op: Restart, TermWait: 20 * time.Second})
	if err := Begin(t.Context(), w.run, p); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(w.base(), p.ID)
	w.until("SIGTERM was sent", func() bool { j, _ := os.ReadFile(folder + "/journal"); return strings.Contains(string(j), " term ") })
	for _, pid := range w.mine() {
		cmdline, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		if strings.Contains(string(cmdline), "restart.sh\x00run") {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	w.until("the script is gone", func() bool { u := w.find(w.run); return u != nil && u.Dead })
	if u := w.find(w.run); u.ID != p.ID || !strings.Contains(u.String(), "ended without a last word") {
		t.Errorf("%+v", u)
	}
	j, err := Follow(t.Context(), w.run, p.ID, func(metrics.JournalLine) {})
	if err == nil || !strings.Contains(err.Error(), "without a last word") || j.Done {
		t.Errorf("%v %+v", err, j)
	}
	// Of another port a lock of the dead stays no longer.
	elsewhere := "/dev/shm/runvigil-" + strconv.Itoa(remotetest.FreePort(t)) + ".lock.1"
	if err := os.Symlink("4190000:7:"+p.Identity.BootID+"+"+namespace(t)+":1-a:1:root:free", elsewhere); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(elsewhere) })
	again := w.carry(w.plan(old.Process.Pid, quick, launch.Edit{Kind: launch.UnsetFlag, Name: "deaf"}))
	if again.State != metrics.JournalRunning {
		t.Errorf("state %q why %q", again.State, again.Why)
	}
	if _, err := os.Lstat(elsewhere); err == nil {
		t.Error("the lock of a dead owner stays")
	}
	if left, _ := filepath.Glob("/dev/shm/runvigil-" + strconv.Itoa(port) + ".lock*"); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// namespace is the number of this process's PID namespace.
func namespace(t *testing.T) string {
	t.Helper()
	link, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Trim(link, "pid:[]")
}

// TestSharedHome: restarts of other nodes that share the home are not seen, and not
// swept away, however dead their processes look from here.
func TestSharedHome(t *testing.T) {
	t.Parallel()
	w, port := newWorld(t), remotetest.FreePort(t)
	other := filepath.Join(w.home, ".cache/runvigil/other-node/restart/1795991215-7d5de2b6/journal")
	if err := os.MkdirAll(filepath.Dir(other), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(other, []byte("1795991215 begin id=1795991215-7d5de2b6 op=restart by=root boot=b pid=1:2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	old := w.server(port, nil)
	if j := w.carry(w.plan(old.Process.Pid, quick)); j.State != metrics.JournalRunning {
		t.Fatalf("%q %s", steps(j), j.Why)
	}
	if _, err := os.Stat(other); err != nil {
		t.Errorf("another node's restart was swept away: %v", err)
	}
}
