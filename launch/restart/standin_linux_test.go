package restart

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/metrics"
)

// childEnv makes the test binary a child of a stand-in: it waits to be killed.
const childEnv = "STANDIN_CHILD"

// TestMain plays the processes of the tests: this binary is every server of them.
func TestMain(m *testing.M) {
	if held := os.Getenv(childEnv); held != "" {
		hold(held)
	}
	if len(os.Args) > 2 && os.Args[1] == "-m" {
		os.Exit(standIn(os.Args[3:]))
	}
	os.Exit(m.Run())
}

// hold is a child: it lives for a time, deaf to TERM where told so.
func hold(how string) {
	if how == "deaf" {
		signal.Ignore(syscall.SIGTERM)
	}
	d := time.Hour
	if s, err := time.ParseDuration(how); err == nil {
		signal.Ignore(syscall.SIGTERM)
		d = s
	}
	time.Sleep(d)
	os.Exit(0)
}

// standIn is a server. It opens its port, answers /generate, and misbehaves as
// its flags say.
func standIn(args []string) int {
	f := flag.NewFlagSet("server", flag.ContinueOnError)
	port := f.Int("port", 0, "")
	deaf := f.Bool("deaf", false, "ignore SIGTERM")
	children := f.Int("children", 0, "")
	sessions := f.Bool("sessions", false, "children lead sessions")
	dies := f.Bool("dies", false, "end while starting, leaving the children")
	holds := f.Duration("holds", 0, "the port stays taken that long after the end")
	silent := f.Bool("silent", false, "")
	memlock := f.Uint64("memlock", 0, "soft limit that it needs")
	loads := f.Duration("loads", 0, "before the port is opened")
	f.String("api-key", "", "")
	f.String("mem-fraction-static", "", "")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	if *memlock > 0 {
		var have unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &have); err != nil || have.Cur < *memlock {
			fmt.Println("memlock is too small:", have.Cur)
			return 4
		}
	}
	for i := range *children {
		how := "deaf"
		if i%2 == 1 {
			how = "plain"
		}
		child := &exec.Cmd{
			Path: "/proc/self/exe", Args: []string{fmt.Sprintf("sglang::scheduler_TP%d", i)}, Env: []string{childEnv + "=" + how, "RUNVIGIL_START=" + os.Getenv("RUNVIGIL_START")},
			SysProcAttr: &syscall.SysProcAttr{Setsid: *sessions},
		}
		if err := child.Start(); err != nil {
			return 1
		}
	}
	if *dies {
		time.Sleep(300 * time.Millisecond)
		fmt.Println("RuntimeError: it was not to be")
		return 3
	}
	if !pause(*loads, signals) {
		return 143
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(*port))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	if !*silent {
		fmt.Println("listening; key", os.Getenv("STANDIN_KEY") != "")
	}
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if key := f.Lookup("api-key").Value.String(); key != "" && r.Header.Get("Authorization") != "Bearer "+key {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			if r.URL.Path == "/abort_request" {
				fmt.Println("asked to abort")
				return
			}
			if r.URL.Path == "/env" {
				_ = json.NewEncoder(w).Encode(os.Environ())
				return
			}
			fmt.Fprint(w, `{"text":"a","meta_info":{"completion_tokens":1}}`)
		}))
	}()
	for range signals {
		if *deaf {
			continue
		}
		if *holds > 0 {
			file, err := l.(*net.TCPListener).File()
			if err != nil {
				return 1
			}
			// A shell in between, so that nobody knows whose child it is.
			cmd := exec.Command("/bin/sh", "-c", `setsid /proc/$PPID/exe <&3 3<&3 & sleep 0.1`)
			cmd.Env = []string{childEnv + "=" + holds.String(), "PATH=" + os.Getenv("PATH")}
			cmd.ExtraFiles = []*os.File{file}
			if err := cmd.Run(); err != nil {
				return 1
			}
		}
		return 0
	}
	return 0
}

// pause waits; false where SIGTERM came first.
func pause(d time.Duration, signals chan os.Signal) bool {
	select {
	case <-time.After(d):
		return true
	case <-signals:
		return false
	}
}

// world is a node of one test: a home of its own, and the stand-ins.
type world struct {
	t    *testing.T
	home string
	run  Runner
	sh   string
	reap sync.WaitGroup // of the stand-ins
	// before is shell text that runs before a stand-in in the same process.
	before string
	// wrap is the command of a stand-in's parent, which gets the stand-in's as its
	// arguments.
	wrap []string
	dir  string // of the stand-ins, below the home
	uid  int    // whose the stand-ins are
	bin  string // "" is this test binary
}

func newWorld(t *testing.T) *world {
	t.Helper()
	home := t.TempDir()
	w := &world{t: t, home: home, run: localRunner{home: home}}
	t.Cleanup(func() {
		for _, p := range w.mine() {
			_ = syscall.Kill(p, syscall.SIGKILL)
		}
		w.reap.Wait()
	})
	return w
}

// mine are the living processes that run this test binary or its scripts for
// this world, by their directory or their arguments.
func (w *world) mine() []int {
	var out []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		cwd, _ := os.Readlink("/proc/" + e.Name() + "/cwd")
		cmdline, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if strings.HasPrefix(cwd, w.home) || bytes.Contains(cmdline, []byte(w.home)) {
			out = append(out, pid)
		}
	}
	return out
}

// server starts a stand-in as an operator would and waits for its port.
func (w *world) server(port int, env []string, args ...string) *exec.Cmd {
	w.t.Helper()
	log, err := os.OpenFile(w.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		w.t.Fatal(err)
	}
	defer log.Close()
	bin := os.Args[0]
	if w.bin != "" {
		bin = w.bin
	}
	if err := log.Chown(w.uid, w.uid); err != nil && w.uid != 0 {
		w.t.Fatal(err)
	}
	argv := append([]string{bin, "-m", "sglang.launch_server", "--port", strconv.Itoa(port)}, args...)
	if w.before != "" {
		argv = append([]string{"/bin/sh", "-c", w.before + `; exec "$@"`, "sh"}, argv...)
	}
	argv = append(slices.Clone(w.wrap), argv...)
	c := exec.Command(argv[0], argv[1:]...)
	c.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.home}, env...)
	c.Dir, c.Stdout, c.Stderr = filepath.Join(w.home, w.dir), log, log
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		w.t.Fatal(err)
	}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if w.uid != 0 {
		c.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(w.uid), Gid: uint32(w.uid)}
	}
	if err := c.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.reap.Go(func() { _ = c.Wait() }) // a zombie is no failure, but a parent usually reaps
	w.until("the stand-in listens", func() bool { return listening(port) })
	return c
}

// serverOf starts the old server of a behaviour.
func (w *world) serverOf(b behaviour, port int) *exec.Cmd {
	w.t.Helper()
	if b.limited {
		w.before = "ulimit -S -l 4096"
		defer func() { w.before = "" }()
	}
	return w.server(port, nil, b.args...)
}

// kill ends a stand-in and waits until it is gone.
func (w *world) kill(pid int) {
	w.t.Helper()
	_ = syscall.Kill(pid, syscall.SIGKILL)
	w.until("the stand-in is gone", func() bool { return !alive(pid) })
}

func (w *world) log() string { return filepath.Join(w.home, "server log.txt") }

func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if ok() {
			return
		}
	}
	w.t.Fatalf("%s: not within 30 s", what)
}

func listening(port int) bool {
	c, err := net.DialTimeout("tcp", "127.0.0.1:"+strconv.Itoa(port), time.Second)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// alive tells whether a process runs: a zombie of this test does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	rest := string(stat[bytes.LastIndexByte(stat, ')')+1:])
	return !strings.HasPrefix(rest, " Z") && !strings.HasPrefix(rest, " X")
}

// tree are the children of a process and theirs.
func tree(pid int) []int {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	var all []int
	for _, file := range files {
		out, _ := os.ReadFile(file)
		for f := range strings.FieldsSeq(string(out)) {
			child, _ := strconv.Atoi(f)
			all = append(append(all, child), tree(child)...)
		}
	}
	return all
}

// plan looks at a process and plans what is to become of it.
func (w *world) plan(pid int, o Options, edits ...launch.Edit) Plan {
	w.t.Helper()
	seen, err := Look(w.t.Context(), w.run, pid)
	if err != nil {
		w.t.Fatal(err)
	}
	d := launch.NewDraft(seen.Launch)
	for _, e := range edits {
		if err := d.Do(e); err != nil {
			w.t.Fatal(err)
		}
	}
	p := New(Input{ID: NewID(time.Now()), Node: "test", Snap: &metrics.Snapshot{}, Seen: seen, Draft: d, Options: o})
	p.sh = w.sh
	// The tests themselves may run in a container or unit: that is no matter here.
	p.Refusals = slices.DeleteFunc(p.Refusals, func(r Refusal) bool {
		return slices.Contains([]RefusalCode{RefusedSupervised, RefusedContainer, RefusedSlurm, RefusedSession}, r.Code)
	})
	if p.Refused() {
		w.t.Fatalf("refused: %+v", p.Refusals)
	}
	return p
}

// carry begins a plan and follows it to its end.
func (w *world) carry(p Plan) metrics.Journal {
	w.t.Helper()
	if err := Begin(w.t.Context(), w.run, p); err != nil {
		w.t.Fatal(err)
	}
	return w.follow(p)
}

func (w *world) follow(p Plan) metrics.Journal {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	j, err := Follow(ctx, w.run, p.ID, func(l metrics.JournalLine) { w.t.Log(l) })
	if err != nil {
		w.t.Fatalf("%v; the folder has %v", err, w.files())
	}
	return j
}

// base is the folder for the files of restarts, this node's own in a home that many
// may share.
func (w *world) base() string {
	w.t.Helper()
	host, err := os.Hostname()
	if err != nil {
		w.t.Fatal(err)
	}
	return filepath.Join(w.home, ".cache/runvigil", host, "restart")
}

func (w *world) files() []string {
	found, _ := filepath.Glob(filepath.Join(w.base(), "*/*"))
	return found
}

// localRunner is a node on this machine.
type localRunner struct {
	home string
	path string // in front of PATH
}

func (r localRunner) Run(ctx context.Context, program []byte) ([]byte, error) {
	c := exec.CommandContext(ctx, "/bin/sh", "-s")
	c.Env = []string{"HOME=" + r.home, "PATH=" + r.path + ":" + os.Getenv("PATH"), "SSH_CLIENT=1"}
	c.Dir = "/"
	c.Stdin = bytes.NewReader(program)
	return c.Output()
}

func (localRunner) Dial(ctx context.Context, port int) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", "127.0.0.1:"+strconv.Itoa(port))
}

func (localRunner) Wait(context.Context) error { return nil }
