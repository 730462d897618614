//go:build system

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/report"
	"github.com/runvigil/runvigil/remote/remotetest"
)

// binary builds the program once a run.
func binary(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "runvigil")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

// result is one command that was run to its end.
type result struct {
	out, err string
	code     int
}

// command runs the program with a state and a configuration folder of its own.
func command(t *testing.T, bin string, env []string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Env = append(os.Environ(), append([]string{"XDG_STATE_HOME=" + t.TempDir(), "XDG_CONFIG_HOME=" + t.TempDir()}, env...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s %q: %v", bin, args, err)
	}
	return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// eventually polls until ok, for things that other processes do.
func eventually(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s", what, limit)
		}
	}
}

func TestSystemCheckEveryScenario(t *testing.T) {
	bin := binary(t)
	for _, sc := range scenarios {
		t.Run(sc.name+" "+sc.finding, func(t *testing.T) {
			began := time.Now()
			r := command(t, bin, nil, "check", "demo:"+sc.name, "--json")
			if sc.exit == 0 && time.Since(began) > lookLimit { // one that hangs takes as long
				t.Error("the look ran into its limit: something was never answered")
			}
			if r.code != sc.exit {
				t.Errorf("exit code %d, want %d\n%s%s", r.code, sc.exit, r.out, r.err)
			}
			var c report.Check
			if err := json.Unmarshal([]byte(r.out), &c); err != nil {
				t.Fatalf("%v\n%s", err, r.out)
			}
			for _, f := range c.Findings {
				if f.ID == sc.finding {
					if sc.cause != "" && (f.Cause == nil || *f.Cause != string(sc.cause)) {
						t.Errorf("%s has another cause than %s: %s", f.ID, sc.cause, f.Title)
					}
					return
				}
			}
			if sc.finding != "" {
				t.Errorf("%s is not raised\n%s", sc.finding, r.out)
			}
		})
	}
	eventually(t, 5*time.Second, "nothing of the demo runs", func() bool { return len(remotetest.Running(bin)) == 0 })
}

func TestSystemCheckThreeForms(t *testing.T) {
	bin := binary(t)
	text := command(t, bin, nil, "check", "demo")
	line := command(t, bin, nil, "check", "demo", "--line")
	if !strings.HasPrefix(text.out, "OK  rows land") || strings.Count(text.out, "\n") < 4 {
		t.Errorf("glance:\n%s", text.out)
	}
	if !strings.HasPrefix(line.out, "OK ") || strings.Count(line.out, "\n") != 1 {
		t.Errorf("line: %q", line.out)
	}
}

func TestSystemExitCodes(t *testing.T) {
	bin := binary(t)
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"check", "nobody@127.0.0.1:1", "--fresh"}, 3, "DOWN"},
		{[]string{"check", "no-such-host.invalid"}, 3, "no-such-host.invalid"},
		{[]string{"check"}, 64, "takes one NODE"},
		{[]string{"check", "demo:nonsense"}, 64, "nonsense"},
		{[]string{"check", "-oProxyCommand=x"}, 64, ""},
		{[]string{"check", "demo", "--json", "--line"}, 64, "exclude each other"},
		{[]string{"--dial", "telnet", "check", "demo"}, 64, "openssh, native or local"},
		{[]string{"frobnicate", "x"}, 64, ""},
		{[]string{}, 64, "runvigil demo"},
		{[]string{"demo"}, 3, "runvigil check demo"},
		{[]string{"gpu7"}, 3, "runvigil check gpu7"},
		{[]string{"replay", "go.mod"}, 3, ""},
		{[]string{"record", "demo"}, 64, "-o FILE"},
		{[]string{"--config", "/no/such/file", "check", "demo"}, 64, "/no/such/file"},
		{[]string{"version"}, 0, "runvigil"},
		{[]string{"completion", "bash"}, 0, "runvigil"},
		{[]string{"--help"}, 0, "runvigil demo"},
	} {
		r := command(t, bin, nil, c.args...)
		if r.code != c.code || !strings.Contains(r.out+r.err, c.says) {
			t.Errorf("%q: code %d, want %d and %q:\n%s%s", c.args, r.code, c.code, c.says, r.out, r.err)
		}
	}
}

// node is a real SSH server with a small generation run below a folder.
type realNode struct {
	*remotetest.Server
	dir string
	env []string // for the program: an ssh that reads the server's configuration
}

func newRealNode(t *testing.T) realNode {
	t.Helper()
	return newRealNodeWith(t, remotetest.Options{})
}

func newRealNodeWith(t testing.TB, o remotetest.Options) realNode {
	t.Helper()
	s := remotetest.OpenSSH(t, o)
	ssh, err := exec.LookPath("ssh")
	if err != nil {
		t.Fatal(err)
	}
	wrap := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\nexec %s -F %s \"$@\"\n", ssh, s.SSHConfig)
	remotetest.Program(t, filepath.Join(wrap, "ssh"), script)
	return realNode{s, t.TempDir(), []string{"PATH=" + wrap + ":" + os.Getenv("PATH")}}
}

// clientScript is a Python client that holds its output back, as Python does
// when it goes to a file, and opens, appends and closes for each row.
const clientScript = `
import json, os, socket, sys, time
rows = sys.argv[1]
port = int(sys.argv[2])
keep = socket.create_connection(("127.0.0.1", port))
i = 0
while True:
    with open(rows, "a") as f:
        f.write(json.dumps({"id": i, "text": "x" * (i % 300)}) + "\n")
    print("row", i)
    i += 1
    time.sleep(0.05)
`

// serverScript listens as an inference server does, under its name.
const serverScript = `
import http.server, sys
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = b"{}"
        self.send_response(404 if self.path == "/metrics" else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), H).serve_forever()
`

func freePort(t *testing.T) string {
	t.Helper()
	return fmt.Sprint(remotetest.FreePort(t))
}

// spawn starts a process in the node's folder with its output in a file, and
// ends it with the test.
func (n realNode) spawn(t *testing.T, log string, argv ...string) *exec.Cmd {
	t.Helper()
	out, err := os.Create(filepath.Join(n.dir, log))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = n.dir, out, out
	cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "PYTHONUNBUFFERED=") })
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// run starts a stand-in server and the buffered client.
func (n realNode) run(t *testing.T) (rows string, client *exec.Cmd) {
	t.Helper()
	pkg := filepath.Join(n.dir, "sglang")
	if err := os.MkdirAll(pkg, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(n.dir, "raw_responses"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		filepath.Join(pkg, "__init__.py"): "", filepath.Join(pkg, "launch_server.py"): serverScript,
		filepath.Join(n.dir, "run_inference.py"): clientScript,
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	port := freePort(t)
	n.spawn(t, "server.log", "python3", "-m", "sglang.launch_server", "--model-path", "/models/m", "--port", port)
	eventually(t, 60*time.Second, "the server listens", func() bool { return remotetest.Listening(port) })
	rows = filepath.Join(n.dir, "raw_responses", "B1.jsonl")
	return rows, n.spawn(t, "client.log", "python3", "run_inference.py", rows, port)
}

func countRows(t *testing.T, path string) float64 {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return float64(bytes.Count(data, []byte{'\n'}))
}

// A real Python client with block-buffered output over real OpenSSH, by both
// dialers: its rows are counted exactly, and its silent log is found and explained.
func TestSystemSilentClientOverOpenSSH(t *testing.T) {
	bin := binary(t)
	for _, dialer := range []string{"openssh", "native"} {
		t.Run(dialer, func(t *testing.T) {
			n := newRealNode(t)
			rows, client := n.run(t)
			eventually(t, 60*time.Second, "100 rows", func() bool {
				data, err := os.ReadFile(rows)
				return err == nil && bytes.Count(data, []byte{'\n'}) > 100
			})
			state := "XDG_STATE_HOME=" + t.TempDir()
			args := []string{"check", n.Alias, "--json", "--fresh", "--dial", dialer}
			command(t, bin, append(n.env, state), args...)
			before := countRows(t, rows)
			eventually(t, 60*time.Second, "30 more rows", func() bool { return countRows(t, rows) > before+30 })
			if err := client.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			r := command(t, bin, append(n.env, state), args...)
			want := countRows(t, rows)
			if err := client.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			var c report.Check
			if err := json.Unmarshal([]byte(r.out), &c); err != nil {
				t.Fatalf("%v\n%s%s", err, r.out, r.err)
			}
			// Other tests' servers may run on this machine: only ours is judged.
			if got := rowsOf(c, rows); got != want {
				t.Errorf("rows %v, want %v\n%s", got, want, r.out)
			}
			found := false
			for _, f := range c.Findings {
				if f.ID == "client-log-silent" && strings.HasPrefix(f.Subject, fmt.Sprint(client.Process.Pid)) {
					found = true
					if f.Cause == nil || *f.Cause != string(metrics.CauseClientBuffered) {
						t.Errorf("the silent log is not explained: %+v", f)
					}
				}
			}
			if !found {
				t.Errorf("the silent log was not found\n%s", r.out)
			}
		})
	}
}

func rowsOf(c report.Check, path string) float64 {
	for _, d := range c.Datasets {
		if d.Path == path && d.Rows != nil {
			return *d.Rows
		}
	}
	return -1
}

// After kill -9 of the program nothing of ours runs 5 s later, here or there.
func TestSystemKillLeavesNothing(t *testing.T) {
	bin := binary(t)
	n := newRealNode(t)
	n.run(t)
	for _, dialer := range []string{"openssh", "native"} {
		t.Run(dialer, func(t *testing.T) {
			before := map[int]bool{}
			for _, p := range remotetest.Processes() {
				before[p.PID] = true
			}
			cmd := exec.Command(bin, "record", n.Alias, "--dial", dialer, "-o", filepath.Join(t.TempDir(), "r.rv"))
			cmd.Env = append(os.Environ(), append(n.env, "XDG_STATE_HOME="+t.TempDir())...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			eventually(t, 60*time.Second, "the probe runs", func() bool { return len(remotetest.Running("/bin/sh -s")) >= 3 })
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			var left []string
			ours := func() bool {
				left = nil
				for _, p := range remotetest.Processes() {
					if line := strings.Join(p.Args, " "); !before[p.PID] && p.State != "Z" &&
						(strings.Contains(line, "/bin/sh -s") || strings.Contains(line, "nvidia-smi") || strings.Contains(line, "ssh -") || strings.Contains(line, bin)) {
						left = append(left, line)
					}
				}
				return len(left) == 0
			}
			eventually(t, 5*time.Second, "nothing of ours runs", func() bool { return ours() })
		})
	}
}

// Record the demo and replay it: the last snapshots are equal.
func TestSystemRecordThenReplay(t *testing.T) {
	bin := binary(t)
	file := filepath.Join(t.TempDir(), "demo.rv")
	if r := command(t, bin, nil, "record", "demo", "-o", file, "--for", "6s"); r.code != 0 {
		t.Fatalf("record: %d %s%s", r.code, r.out, r.err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := replayAll(t, data)
	if v := s.Server(); v == nil || !v.Running.Known || len(s.GPUs) != 8 || !s.Job.Rows.Known {
		t.Errorf("the replay lacks figures: %s", s.Verdict.Text)
	}
	if d := diffSnapshots(s, replayAll(t, data)); d != "" {
		t.Errorf("two replays differ:\n%s", d)
	}
	if r := command(t, bin, nil, "record", "demo", "-o", file); r.code != 3 || !strings.Contains(r.err, "never overwritten") {
		t.Errorf("an existing file: %d %s", r.code, r.err)
	}
}
