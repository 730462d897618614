//go:build system && linux

package restart

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote/remotetest"
)

// ann and ben are users of the node; the numbers need no entry in passwd.
const ann, ben = 61001, 61002

// shellRunner is a node on this machine through a shell of its own kind: in other
// namespaces, of another user, in a control group.
type shellRunner struct {
	argv []string
	home string
	path string // in front of PATH
	uid  int
}

func (r shellRunner) Run(ctx context.Context, program []byte) ([]byte, error) {
	argv := append(slices.Clone(r.argv), "/bin/sh", "-s")
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Env = []string{"HOME=" + r.home, "PATH=" + r.path + ":" + os.Getenv("PATH")}
	c.Dir, c.Stdin = "/", bytes.NewReader(program)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(r.uid), Gid: uint32(r.uid)}}
	return c.Output()
}

func (shellRunner) Dial(ctx context.Context, port int) (net.Conn, error) {
	return localRunner{}.Dial(ctx, port)
}

func (shellRunner) Wait(context.Context) error { return nil }

// userWorld is a world whose server and login are a user's. The stand-in is
// copied to where that user may run it.
func userWorld(t *testing.T, uid int) *world {
	t.Helper()
	needRoot(t)
	dir, err := os.MkdirTemp("", "rv-user-") //nolint:usetesting // other users must reach it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w := newWorld(t)
	w.home, w.bin, w.uid = filepath.Join(dir, "home"), filepath.Join(dir, "standin"), uid
	binary, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	remotetest.Program(t, w.bin, string(binary))
	for _, err := range []error{os.Chmod(dir, 0o755), os.Chmod(w.bin, 0o755), os.Mkdir(w.home, 0o700), os.Chown(w.home, uid, uid)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	w.run = shellRunner{home: w.home, uid: uid}
	return w
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("this test plays several users and namespaces: run it as root")
	}
}

// loginOf is another user's login to a world.
func (w *world) loginOf(uid int) shellRunner {
	w.t.Helper()
	home := filepath.Join(filepath.Dir(w.home), "home"+strconv.Itoa(uid))
	if err := os.MkdirAll(home, 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Chown(home, uid, uid); err != nil {
		w.t.Fatal(err)
	}
	return shellRunner{home: home, uid: uid}
}

// planBy is a restart as one login plans it, with all that stands against it.
func planBy(t *testing.T, r Runner, pid int, o Options) Plan {
	t.Helper()
	seen, err := Look(t.Context(), r, pid)
	if err != nil {
		t.Fatal(err)
	}
	return New(Input{ID: NewID(time.Now()), Node: "test", Snap: &metrics.Snapshot{}, Seen: seen, Draft: launch.NewDraft(seen.Launch), Options: o})
}

func refusedBy(p Plan, code RefusalCode) (Refusal, bool) {
	i := slices.IndexFunc(p.Refusals, func(r Refusal) bool { return r.Code == code })
	if i < 0 {
		return Refusal{}, false
	}
	return p.Refusals[i], true
}

// untouched begins a plan as if nobody had minded its refusals: the script on the
// node must refuse by itself.
func untouched(t *testing.T, r Runner, p Plan, why string) {
	t.Helper()
	p.Refusals = nil
	refusals, _, err := Check(t.Context(), r, p)
	if err != nil || !slices.ContainsFunc(refusals, func(x Refusal) bool { return string(x.Code) == why }) {
		t.Errorf("the check said %+v, %v, want %s", refusals, err, why)
	}
	if err := Begin(t.Context(), r, p); err != nil {
		t.Fatal(err)
	}
	j, err := Follow(t.Context(), r, p.ID, func(metrics.JournalLine) {})
	if err != nil || j.State != metrics.JournalUntouched || j.Why != why || j.Touched {
		t.Errorf("state %q why %q touched %v %v, want untouched by %s", j.State, j.Why, j.Touched, err, why)
	}
}

// TestRefusesPidOne: the server is the first process of a real PID namespace, as
// in a container, and the login is inside.
func TestRefusesPidOne(t *testing.T) {
	needRoot(t)
	w, port := newWorld(t), remotetest.FreePort(t)
	w.wrap = []string{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc"}
	outer := w.server(port, nil)
	inner := tree(outer.Process.Pid)
	if len(inner) == 0 {
		t.Fatal("unshare has no child")
	}
	r := shellRunner{argv: []string{"nsenter", "-t", strconv.Itoa(inner[0]), "-p", "-m"}, home: w.home}
	p := planBy(t, r, 1, quick)
	if got, ok := refusedBy(p, RefusedInit); !ok || !strings.Contains(got.Reason, "the container ends") || got.Way == "" {
		t.Errorf("refusals %+v", p.Refusals)
	}
	untouched(t, r, p, "pid-1")
	if !alive(inner[0]) {
		t.Error("the first process of the namespace was ended")
	}
}

// TestRefusesOthersProcesses: a server of another user, of root's while we are a
// user, and one that this login may not signal.
func TestRefusesOthersProcesses(t *testing.T) {
	needRoot(t)
	for _, c := range []struct {
		name   string
		server int // uid
		login  func(w *world) shellRunner
		code   RefusalCode
	}{
		{"another user's", ann, func(w *world) shellRunner { return w.loginOf(ben) }, RefusedOther},
		{"root's", 0, func(w *world) shellRunner { return w.loginOf(ben) }, RefusedOther},
		{"root without the right to signal", ann, func(w *world) shellRunner {
			r := w.loginOf(0)
			r.argv = []string{"setpriv", "--bounding-set=-kill"}
			return r
		}, RefusedPermission},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, port := userWorld(t, c.server), remotetest.FreePort(t)
			old := w.server(port, nil)
			r := c.login(w)
			p := planBy(t, r, old.Process.Pid, quick)
			if got, ok := refusedBy(p, c.code); !ok || got.Way == "" {
				t.Errorf("refusals %+v, want %s", p.Refusals, c.code)
			}
			if c.server == 0 && strings.Contains(fmt.Sprintf("%+v", p.Old), "its command: ") {
				t.Errorf("its command can be read by everybody: %+v", p.Old.Unread)
			}
			p.Port, p.oldPort, p.Log = port, port, "" // what that login could not read
			untouched(t, r, p, "permission")
			if !alive(old.Process.Pid) {
				t.Error("it was ended")
			}
		})
	}
}

// controlGroup puts a process into a real control group of that path, until the
// test ends.
func controlGroup(t *testing.T, path string, pid int) {
	t.Helper()
	root := "/sys/fs/cgroup"
	if _, err := os.Stat(root + "/systemd"); err == nil {
		root += "/systemd"
	}
	dir := filepath.Join(root, path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatalf("control groups must be writable here: %v", err)
	}
	t.Cleanup(func() {
		for ; dir != root; dir = filepath.Dir(dir) {
			for range 50 { // its last process may still be going
				if os.Remove(dir) == nil {
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
		}
	})
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestRefusesByControlGroup: systemd, Slurm and containers cannot run here, but the
// kernel's control groups can be named as they name them: /proc tells of the server
// what it would tell there.
func TestRefusesByControlGroup(t *testing.T) {
	needRoot(t)
	for path, want := range map[string]struct {
		code RefusalCode
		says string
	}{
		"system.slice/rvtest-sglang.service":                                     {RefusedSupervised, "rvtest-sglang.service"},
		"user.slice/user-0.slice/user@0.service/app.slice/rvtest-vllm.service":   {RefusedSupervised, "rvtest-vllm.service"},
		"system.slice/slurmstepd.scope/job_4711/step_0/user/task_0":              {RefusedSlurm, "job 4711"},
		"system.slice/docker-" + strings.Repeat("ab12", 16) + ".scope":           {RefusedContainer, "docker-ab12"},
		"kubepods.slice/kubepods-pod1.slice/cri-containerd-" + "77aa" + ".scope": {RefusedContainer, "cri-containerd-77aa"},
	} {
		t.Run(filepath.Base(path), func(t *testing.T) {
			w, port := newWorld(t), remotetest.FreePort(t)
			old := w.server(port, nil)
			controlGroup(t, path, old.Process.Pid)
			p := planBy(t, w.run, old.Process.Pid, quick)
			got, ok := refusedBy(p, want.code)
			if !ok || !strings.Contains(got.Reason+got.Way, want.says) || got.Way == "" {
				t.Errorf("refusals %+v, want %s with %q", p.Refusals, want.code, want.says)
			}
			w.kill(old.Process.Pid)
		})
	}
}

// TestRefusesSessionManager: the login lives in a scope that logind ends at logout,
// as its configuration says.
func TestRefusesSessionManager(t *testing.T) {
	for kills, want := range map[string]bool{"b true": true, "b false": false} {
		t.Run(kills, func(t *testing.T) {
			w, port := userWorld(t, ann), remotetest.FreePort(t)
			old := w.server(port, nil)
			w.write("bin/busctl", "#!/bin/sh\necho '"+kills+"'\n")
			for _, name := range []string{"bin", "bin/busctl"} {
				if err := os.Chown(filepath.Join(w.home, name), ann, ann); err != nil {
					t.Fatal(err)
				}
			}
			shell := exec.Command("/bin/sleep", "60") // keeps the scope while the logins come and go
			if err := shell.Start(); err != nil {
				t.Fatal(err)
			}
			controlGroup(t, "user.slice/user-61001.slice/session-9.scope", shell.Process.Pid)
			procs, err := scopeOf(shell.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			r := shellRunner{home: w.home, path: filepath.Join(w.home, "bin"), argv: []string{
				"/bin/sh", "-c", `echo $$ >"$1"; shift; exec setpriv --reuid=61001 --regid=61001 --clear-groups "$@"`, "sh", procs,
			}}
			p := planBy(t, r, old.Process.Pid, quick)
			if _, ok := refusedBy(p, RefusedSession); ok != want {
				t.Errorf("refusals %+v", p.Refusals)
			}
			_ = shell.Process.Kill()
			_ = shell.Wait()
		})
	}
}

// scopeOf is the file that takes processes into the control group of a process.
func scopeOf(pid int) (string, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return "", err
	}
	for entry := range strings.Lines(string(raw)) {
		if _, path, ok := strings.Cut(entry, ":name=systemd:"); ok {
			return "/sys/fs/cgroup/systemd" + strings.TrimSpace(path) + "/cgroup.procs", nil
		}
	}
	_, path, _ := strings.Cut(string(raw), "0::")
	return "/sys/fs/cgroup" + strings.TrimSpace(path) + "/cgroup.procs", nil
}

// TestSupervisorThatNothingGivesAway: a loop starts the server again, at once or a
// little later, while it loads for long. It ends with one server, the supervisor's,
// and the journal says so.
func TestSupervisorThatNothingGivesAway(t *testing.T) {
	for _, c := range []struct {
		name, pause, loads string
		op                 Op
	}{
		{"at once", "0", "0s", Restart},
		{"at once, and it loads for long", "0", "12s", Restart},
		{"later, while the new one loads", "2", "12s", Restart},
		{"after a stop", "1", "0s", Stop},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, port := newWorld(t), remotetest.FreePort(t)
			w.write("loop.sh", "while :; do \"$@\"; sleep "+c.pause+"; done\n")
			w.wrap = []string{"/bin/sh", filepath.Join(w.home, "loop.sh")}
			loop := w.server(port, nil, "--loads", c.loads)
			old := tree(loop.Process.Pid)[0]
			p := w.plan(old, Options{Op: c.op, TermWait: time.Second})
			if c.op == Restart && !slices.ContainsFunc(p.Warnings, func(s string) bool { return strings.Contains(s, "loop.sh") }) {
				t.Errorf("nothing warns of its parent: %q", p.Warnings)
			}
			j := w.carry(p)
			if j.State != metrics.JournalFailed || j.Why != "respawned" {
				t.Errorf("state %q why %q after %q", j.State, j.Why, steps(j))
			}
			if alive(old) {
				t.Error("the old server lives")
			}
			servers := 0
			for _, pid := range w.mine() {
				cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				if alive(pid) && bytes.HasPrefix(cmdline, []byte(os.Args[0]+"\x00-m\x00")) {
					servers++
				}
			}
			if servers > 1 {
				t.Errorf("%d servers run", servers)
			}
		})
	}
}

// TestRefusesSupervisor: a parent that is a known supervisor by name.
func TestRefusesSupervisor(t *testing.T) {
	w, port := newWorld(t), remotetest.FreePort(t)
	w.write("runsv", "#!/bin/sh\nwhile :; do \"$@\"; sleep 1; done\n")
	w.wrap = []string{filepath.Join(w.home, "runsv")}
	loop := w.server(port, nil)
	p := planBy(t, w.run, tree(loop.Process.Pid)[0], quick)
	if got, ok := refusedBy(p, RefusedSupervised); !ok || !strings.Contains(got.Reason, "runsv") {
		t.Errorf("refusals %+v", p.Refusals)
	}
}

// TestTwoUsersAtOnce: root and the server's user begin together; one restarts, the
// other says whose restart is under way, and one server runs.
func TestTwoUsersAtOnce(t *testing.T) {
	for round := range 4 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			w, port := userWorld(t, ann), remotetest.FreePort(t)
			old := w.server(port, nil, "--deaf", "--children", "1")
			logins := []Runner{w.run, w.loginOf(0)}
			plans := make([]Plan, 2)
			for i, r := range logins {
				plans[i] = planBy(t, r, old.Process.Pid, Options{Op: Restart, TermWait: 2 * time.Second})
				plans[i].Refusals = nil
			}
			journals := make([]metrics.Journal, 2)
			var both sync.WaitGroup
			for i, r := range logins {
				both.Go(func() {
					if err := Begin(t.Context(), r, plans[i]); err != nil {
						t.Error(err)
						return
					}
					var err error
					if journals[i], err = Follow(t.Context(), r, plans[i].ID, func(metrics.JournalLine) {}); err != nil {
						t.Errorf("%d: %v", i, err)
					}
				})
			}
			both.Wait()
			states := journals[0].State + " " + journals[1].State
			if states != "running untouched" && states != "untouched running" {
				t.Fatalf("states %q: %q and %q", states, steps(journals[0]), steps(journals[1]))
			}
			for i, j := range journals {
				if j.State != metrics.JournalUntouched {
					continue
				}
				l := j.Lines[0]
				if whose := []string{"61001", "root"}[1-i]; l.Step != metrics.JournalBusy || l.Get("id") != plans[1-i].ID || l.Get("by") != whose {
					t.Errorf("the other one does not say whose it is: %v", l)
				}
				w.onlyServer(journals[1-i], nil)
			}
			if left, _ := filepath.Glob(fmt.Sprintf("/dev/shm/runvigil-%d.lock*", port)); len(left) > 0 {
				t.Errorf("%v are left", left)
			}
		})
	}
}

// TestForeignLocks: who must not matter does not: a link that another user put
// where the lock would be, a dead owner's, and one of an earlier boot.
func TestForeignLocks(t *testing.T) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	other := strings.TrimSpace(string(boot)) + "+1"
	now := strings.TrimSpace(string(boot)) + "+" + namespace(t)
	me := fmt.Sprintf("%d:%d", os.Getpid(), startOf(t, os.Getpid()))
	for _, c := range []struct {
		name, target string
		number       int
		owner        int
		busy         bool
	}{
		{"another user's, whose owner lives", me + ":" + now + ":1-a:1:ben", 1, ben, false},
		{"root's, of a process that lives", me + ":" + now + ":1-a:1:root", 1, 0, true},
		{"root's, that was given up", me + ":" + now + ":1-a:1:root:free", 1, 0, false},
		{"root's, dead", "4190000:7:" + now + ":1-a:1:root", 7, 0, false},
		{"root's, of an earlier boot", me + ":00000000:1-a:1:root", 3, 0, false},
		{"root's, of another PID namespace", me + ":" + other + ":1-a:1:root", 2, 0, false},
		{"hostile", "../../tmp/x:$(reboot)\n1 end state=running:*", 1, ben, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, port := userWorld(t, ann), remotetest.FreePort(t)
			old := w.server(port, nil)
			lock := fmt.Sprintf("/dev/shm/runvigil-%d.lock.%d", port, c.number)
			if err := os.Symlink(c.target, lock); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.Remove(lock) })
			if err := os.Lchown(lock, c.owner, c.owner); err != nil {
				t.Fatal(err)
			}
			p := w.plan(old.Process.Pid, quick)
			refusals, _, err := Check(t.Context(), w.run, p)
			if err != nil || c.busy != (len(refusals) == 1 && refusals[0].Code == RefusedBusy) {
				t.Errorf("the check said %+v %v", refusals, err)
			}
			j := w.carry(p)
			if want := map[bool]string{true: metrics.JournalUntouched, false: metrics.JournalRunning}[c.busy]; j.State != want {
				t.Errorf("state %q why %q, want %s", j.State, j.Why, want)
			}
			left, _ := filepath.Glob(fmt.Sprintf("/dev/shm/runvigil-%d.lock*", port))
			if len(left) != 1 || left[0] != lock { // it is not this user's to remove
				t.Errorf("locks %v", left)
			}
		})
	}
}

// TestTakenOverByAnotherUser: while ann's new server loads, root restarts it. Her
// script does not start her last good launch beside root's server.
func TestTakenOverByAnotherUser(t *testing.T) {
	w, port := userWorld(t, ann), remotetest.FreePort(t)
	old := w.server(port, nil)
	o := quick
	o.WayBack = true
	hers := w.plan(old.Process.Pid, o, set("loads", "60s"))
	if err := Begin(t.Context(), w.run, hers); err != nil {
		t.Fatal(err)
	}
	started := make(chan metrics.JournalLine, 1)
	ended := make(chan metrics.Journal, 1)
	go func() {
		j, err := Follow(t.Context(), w.run, hers.ID, func(l metrics.JournalLine) {
			if l.Step == metrics.JournalStarted {
				started <- l
			}
		})
		if err != nil {
			t.Error(err)
		}
		ended <- j
	}()
	pid, _, _ := (<-started).Process("pid")
	root := w.loginOf(0)
	p := planBy(t, root, pid, quick)
	p.Refusals = nil
	d := launch.NewDraft(p.Old)
	if err := d.Unset("loads"); err != nil {
		t.Fatal(err)
	}
	p.words, _ = d.Words()
	if err := Begin(t.Context(), root, p); err != nil {
		t.Fatal(err)
	}
	roots, err := Follow(t.Context(), root, p.ID, func(metrics.JournalLine) {})
	if err != nil || roots.State != metrics.JournalRunning {
		t.Fatalf("%v: %q %s %s", err, steps(roots), roots.State, roots.Why)
	}
	if j := <-ended; j.Why != "superseded" || j.Back {
		t.Errorf("her script: state %q why %q after %q", j.State, j.Why, steps(j))
	}
	w.onlyServer(roots, nil)
}

// TestFindAnothersRestart: root sees the restart of the server's user and may follow
// it; a user is told whose the restart of root's is.
func TestFindAnothersRestart(t *testing.T) {
	w, port := userWorld(t, ann), remotetest.FreePort(t)
	old := w.server(port, nil, "--deaf")
	root := w.loginOf(0)
	p := planBy(t, w.run, old.Process.Pid, Options{Op: Restart, TermWait: 2 * time.Second})
	if err := Begin(t.Context(), w.run, p); err != nil {
		t.Fatal(err)
	}
	var u *UnderWay
	w.until("root finds it", func() bool { u = w.find(root); return u != nil })
	if u.ID != p.ID || u.Mine || u.Hidden || u.By != strconv.Itoa(ann) || strings.Join(u.Plan.Command, " ") != strings.Join(p.Command, " ") {
		t.Errorf("%+v", u)
	}
	j, err := Follow(t.Context(), root, u.Folder, func(metrics.JournalLine) {})
	if err != nil || j.State != metrics.JournalRunning || j.ID != p.ID {
		t.Fatalf("%v %q", err, steps(j))
	}
	w.until("ann's is over", func() bool { return w.find(root) == nil })

	p = planBy(t, root, j.PID, Options{Op: Stop, TermWait: 2 * time.Second})
	if err := Begin(t.Context(), root, p); err != nil {
		t.Fatal(err)
	}
	w.until("ann is told of root's", func() bool { u = w.find(w.run); return u != nil })
	if u.ID != p.ID || u.Mine || !u.Hidden || u.By != "root" || u.Since.IsZero() {
		t.Errorf("%+v", u)
	}
	if j, err := Follow(t.Context(), root, p.ID, func(metrics.JournalLine) {}); err != nil || j.State != metrics.JournalDown {
		t.Fatalf("%v %q", err, steps(j))
	}
}
