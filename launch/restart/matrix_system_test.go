//go:build system && linux

package restart

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote"
	"github.com/runvigil/runvigil/remote/remotetest"
)

// full runs every stand-in with a cut at every step under every shell; without
// it each pair of them is met once.
var full = flag.Bool("full", false, "the whole matrix of stand-ins, steps and shells")

// link is a TCP hop in front of sshd that can be cut with a reset.
type link struct {
	addr, to string
	mu       sync.Mutex
	conns    []*net.TCPConn
}

func newLink(t *testing.T, to string) *link {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	k := &link{addr: l.Addr().String(), to: to}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			k.mu.Lock()
			k.conns = append(k.conns, in.(*net.TCPConn), out.(*net.TCPConn))
			k.mu.Unlock()
			go func() { _, _ = io.Copy(in, out); in.Close() }()
			go func() { _, _ = io.Copy(out, in); out.Close() }()
		}
	}()
	return k
}

// cut resets every connection.
func (k *link) cut() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.conns {
		_ = c.SetLinger(0)
		_ = c.Close()
	}
	k.conns = nil
}

// sshRunner is a node behind real OpenSSH, with a home of the test's own.
type sshRunner struct {
	home   string
	target remote.Target
	opt    remote.Options

	mu    sync.Mutex
	conn  *remote.Conn
	heard bytes.Buffer // all that came over the link
}

func (r *sshRunner) up(ctx context.Context) (*remote.Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn != nil && r.conn.Err() == nil {
		return r.conn, nil
	}
	conn, err := remote.Dial(ctx, r.target, r.opt)
	r.conn = conn
	return conn, err
}

func (r *sshRunner) Run(ctx context.Context, program []byte) ([]byte, error) {
	conn, err := r.up(ctx)
	if err != nil {
		return nil, err
	}
	res, err := conn.Run(ctx, "exec /bin/sh -s", io.MultiReader(strings.NewReader("HOME="+r.home+"; export HOME\n"), bytes.NewReader(program)))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard.Write(res.Stdout)
	r.heard.Write(res.Stderr)
	return res.Stdout, err
}

func (r *sshRunner) Dial(ctx context.Context, port int) (net.Conn, error) {
	conn, err := r.up(ctx)
	if err != nil {
		return nil, err
	}
	return conn.DialContext(ctx, "tcp", "127.0.0.1:"+strconv.Itoa(port))
}

func (r *sshRunner) Wait(ctx context.Context) error {
	for {
		if _, err := r.up(ctx); err == nil {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// sshWorld is a world behind OpenSSH, over a link that can be cut.
func sshWorld(t *testing.T, s *remotetest.Server) (*world, *link) {
	t.Helper()
	w := newWorld(t)
	k := newLink(t, s.Addr)
	target, err := remote.ParseTarget(s.User + "@" + k.addr)
	if err != nil {
		t.Fatal(err)
	}
	w.run = &sshRunner{home: w.home, target: target, opt: remote.Options{Dialer: remote.DialerNative, HostKey: s.HostKey, Identity: s.KeyFile, Plain: true}}
	t.Cleanup(k.cut) // sshd ends with its last session only
	return w, k
}

// kinds are the stand-ins of the matrix: those of the default tests, and two
// that need a machine of their own.
func kinds() []behaviour {
	all := slices.Clone(behaviours)
	for i, b := range all {
		if b.name == "holds the port longer" {
			all[i].args = []string{"--holds", "10s"}
		}
	}
	return append(all,
		behaviour{name: "retitles its children", args: []string{"--children", "2"}, state: metrics.JournalRunning, steps: "term kill stopped started listening end"},
		behaviour{name: "needs memlock", limited: true, args: []string{"--memlock", "4194304"}, state: metrics.JournalRunning, steps: "stopped started listening end"},
	)
}

var cuts = []metrics.JournalStep{
	metrics.JournalBegin, metrics.JournalIdentify, metrics.JournalTerm, metrics.JournalStopped, metrics.JournalPortFree,
	metrics.JournalStart, metrics.JournalStarted, metrics.JournalListening,
}

// TestMatrix restarts every stand-in while the link is reset as soon as a step
// is seen, and looks at what is left.
func TestMatrix(t *testing.T) {
	lowMemlock(t)
	s := remotetest.OpenSSH(t, remotetest.Options{Config: "MaxStartups 200:30:400\nMaxSessions 50"})
	shells := []string{"/bin/dash", "/bin/bash", "/bin/busybox sh"}
	for _, sh := range shells {
		if _, err := exec.LookPath(strings.Fields(sh)[0]); err != nil {
			t.Fatalf("%s is not installed", sh)
		}
	}
	for i, b := range kinds() {
		for k, step := range cuts {
			for n, sh := range shells {
				if !*full && (i+k)%len(shells) != n {
					continue
				}
				t.Run(fmt.Sprintf("%s, cut at %s, %s", b.name, step, strings.Fields(sh)[0]), func(t *testing.T) {
					t.Parallel()
					w, link := sshWorld(t, s)
					w.sh = sh
					restartOverCut(w, b, func(l metrics.JournalLine) {
						if l.Step == step {
							link.cut()
						}
					})
				})
			}
		}
	}
}

// lowMemlock gives this process, and so every login of a server that it starts,
// less locked memory than a stand-in needs.
func lowMemlock(t *testing.T) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 65536, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &old) })
}

func restartOverCut(w *world, b behaviour, each func(metrics.JournalLine)) {
	t, port := w.t, remotetest.FreePort(w.t)
	old := w.serverOf(b, port)
	bystander := w.server(remotetest.FreePort(t), nil, "--children", "1")
	others := append(tree(bystander.Process.Pid), bystander.Process.Pid)
	ours := append(tree(old.Process.Pid), old.Process.Pid)
	p := w.plan(old.Process.Pid, quick, b.edits...)
	if err := Begin(t.Context(), w.run, p); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	j, err := Follow(ctx, w.run, p.ID, each)
	if err != nil {
		t.Fatalf("%v after %q", err, steps(j))
	}
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
	if j.State == metrics.JournalRunning {
		if _, err := Ready(ctx, w.run, p, j, func(string) {}); err != nil {
			t.Errorf("no token: %v", err)
		}
	}
}

// TestCutWhileUploading resets the link while the script is on its way: it runs
// as a whole or not at all.
func TestCutWhileUploading(t *testing.T) {
	s := remotetest.OpenSSH(t, remotetest.Options{})
	for _, share := range []float64{0, 0.2, 0.5, 0.9, 0.999} {
		t.Run(fmt.Sprint(share), func(t *testing.T) {
			t.Parallel()
			w, _ := sshWorld(t, s)
			port := remotetest.FreePort(t)
			old := w.server(port, nil)
			p := w.plan(old.Process.Pid, quick)
			program, err := p.program("run")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.run.Run(t.Context(), program[:int(float64(len(program))*share)]); err != nil {
				t.Fatal(err)
			}
			if !alive(old.Process.Pid) || len(w.files()) > 0 {
				t.Errorf("half of the program did something: alive %v, files %v", alive(old.Process.Pid), w.files())
			}
		})
	}
}

// TestTwoAtOnce begins two restarts of the same server together.
func TestTwoAtOnce(t *testing.T) {
	s := remotetest.OpenSSH(t, remotetest.Options{})
	for round := range 4 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			w, _ := sshWorld(t, s)
			port := remotetest.FreePort(t)
			old := w.server(port, nil, "--deaf")
			plans := []Plan{
				w.plan(old.Process.Pid, Options{Op: Restart, TermWait: 2 * time.Second}, launch.Edit{Kind: launch.UnsetFlag, Name: "deaf"}),
				w.plan(old.Process.Pid, Options{Op: Restart, TermWait: 2 * time.Second}, launch.Edit{Kind: launch.UnsetFlag, Name: "deaf"}),
			}
			journals := make([]metrics.Journal, 2)
			var both sync.WaitGroup
			for i, p := range plans {
				both.Go(func() {
					if err := Begin(t.Context(), w.run, p); err != nil {
						t.Error(err)
						return
					}
					var err error
					if journals[i], err = Follow(t.Context(), w.run, p.ID, func(metrics.JournalLine) {}); err != nil {
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
				if l.Step != metrics.JournalBusy || l.Get("id") != plans[1-i].ID || l.Get("by") != s.User || l.Get("since") == "" {
					t.Errorf("the other one does not say whose it is: %v", l)
				}
				w.onlyServer(journals[1-i], nil)
			}
		})
	}
}
