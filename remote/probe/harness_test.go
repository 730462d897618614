package probe

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote"
	"github.com/runvigil/runvigil/remote/remotetest"
)

// localNode runs shells on this machine as an SSH server would: each in a
// session of its own, with three pipes, and the end of input as the only sign
// that the connection is gone.
type localNode struct {
	t     testing.TB
	shell []string // in place of /bin/sh -s
	env   []string
	most  int // sessions at a time, 0: any number
	noTCP bool
	// program changes the program of a files worker before it is sent.
	program func(string) string

	mu      sync.Mutex
	running map[*exec.Cmd]chan struct{}
	closers []func() error
}

func newLocalNode(t testing.TB, shell ...string) *localNode {
	if len(shell) == 0 {
		shell = []string{"sh", "-s"}
	}
	n := &localNode{t: t, shell: shell, env: os.Environ(), running: map[*exec.Cmd]chan struct{}{}}
	t.Cleanup(n.hangUp)
	return n
}

// path puts a directory in front of the node's PATH.
func (n *localNode) path(dir string) {
	n.env = append(n.env, "PATH="+dir+":"+os.Getenv("PATH"))
}

func (n *localNode) Start(_ context.Context, _ string) (*Stream, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.most > 0 && len(n.running) >= n.most {
		return nil, remote.ErrSessionLimit
	}
	cmd := exec.Command(n.shell[0], n.shell[1:]...)
	cmd.Env = n.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// A pipe of our own: Wait must not close it under the reader.
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	w.Close()
	ended := make(chan struct{})
	n.running[cmd] = ended
	go func() {
		_ = cmd.Wait()
		n.mu.Lock()
		delete(n.running, cmd)
		n.mu.Unlock()
		close(ended)
	}()
	closeAll := sync.OnceValue(func() error { stdin.Close(); return r.Close() })
	n.closers = append(n.closers, closeAll)
	return &Stream{Stdin: stdin, Stdout: r, Close: closeAll}, nil
}

func (n *localNode) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	if n.noTCP {
		return nil, remote.ErrForwardingProhibited
	}
	var d net.Dialer
	return d.DialContext(ctx, network, addr)
}

// hangUp ends every session and waits for its first process.
func (n *localNode) hangUp() {
	n.mu.Lock()
	var waits []chan struct{}
	for _, ended := range n.running {
		waits = append(waits, ended)
	}
	closers := n.closers
	n.mu.Unlock()
	for _, c := range closers {
		_ = c()
	}
	for _, w := range waits {
		<-w
	}
}

// watcher collects the frames of a running probe.
type watcher struct {
	t      testing.TB
	p      *Probe
	cancel context.CancelFunc
	done   chan error

	mu     sync.Mutex
	frames []metrics.Frame
	moved  chan struct{}
}

// watch runs a probe until the test ends.
func watch(t testing.TB, conn Conn, o Options, wants ...metrics.Want) *watcher {
	t.Helper()
	if o.Interval == 0 {
		o.Interval = 20 * time.Millisecond
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &watcher{t: t, p: New(conn, o), cancel: cancel, done: make(chan error, 1), moved: make(chan struct{})}
	w.p.SetWants(wants)
	go func() {
		w.done <- w.p.Run(ctx, func(f metrics.Frame) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.frames = append(w.frames, f)
			close(w.moved)
			w.moved = make(chan struct{})
		})
	}()
	t.Cleanup(w.stop)
	return w
}

func (w *watcher) stop() {
	w.cancel()
	select {
	case err := <-w.done:
		w.done <- err
	case <-time.After(20 * time.Second):
		w.t.Error("the probe did not end")
	}
}

// until waits for the first frame, from those already here on, that ok accepts.
func (w *watcher) until(what string, ok func(metrics.Frame) bool) metrics.Frame {
	w.t.Helper()
	return w.after(0, what, ok)
}

func (w *watcher) after(from int, what string, ok func(metrics.Frame) bool) metrics.Frame {
	w.t.Helper()
	limit := time.After(30 * time.Second)
	for at := from; ; {
		w.mu.Lock()
		frames, moved := w.frames, w.moved
		w.mu.Unlock()
		for ; at < len(frames); at++ {
			if ok(frames[at]) {
				return frames[at]
			}
		}
		select {
		case <-moved:
		case err := <-w.done:
			w.done <- nil
			w.t.Fatalf("waiting for %s: the probe ended: %v", what, err)
		case <-limit:
			w.t.Fatalf("waiting for %s: it did not come; %d frames came: %s", what, len(frames), w.summary())
		}
	}
}

func (w *watcher) all() []metrics.Frame {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]metrics.Frame(nil), w.frames...)
}

func (w *watcher) summary() string {
	seen := map[string]int{}
	var b strings.Builder
	for _, f := range w.all() {
		seen[string(f.Kind)+" "+f.Name]++
		if f.Kind == metrics.KindProbe || f.Kind == metrics.KindGPUError {
			b.WriteString(f.Name + " " + string(f.Data) + "\n")
		}
	}
	for k, n := range seen {
		b.WriteString(k + "=" + strings.Repeat("|", min(n, 9)) + " ")
	}
	return b.String()
}

func kind(k metrics.Kind) func(metrics.Frame) bool {
	return func(f metrics.Frame) bool { return f.Kind == k }
}

// decoded accepts frames of a kind whose payload satisfies ok.
func decoded[T any](k metrics.Kind, ok func(T) bool) func(metrics.Frame) bool {
	return func(f metrics.Frame) bool {
		if f.Kind != k {
			return false
		}
		v, err := metrics.Decode[T](f)
		return err == nil && ok(v)
	}
}

// logged accepts log chunks that satisfy ok.
func logged(ok func(metrics.LogHeader, string) bool) func(metrics.Frame) bool {
	return func(f metrics.Frame) bool {
		if f.Kind != metrics.KindLog {
			return false
		}
		h, raw, err := metrics.DecodeChunk[metrics.LogHeader](f.Data)
		return err == nil && ok(h, string(raw))
	}
}

func write(t testing.TB, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	remotetest.Program(t, path, text)
	return path
}

func add(t testing.TB, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
