//go:build system && linux

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/runvigil/runvigil/remote/remotetest"
)

// isolated runs the calling test once more in a PID namespace of its own, where no
// other server of this machine is seen and beside others like it, and gives true
// inside.
func isolated(t *testing.T) bool {
	t.Helper()
	const inside = "RUNVIGIL_TEST_ISOLATED"
	if os.Getenv(inside) != "" {
		return true
	}
	if os.Getuid() != 0 {
		t.Fatal("this test needs a PID namespace: run it as root")
	}
	t.Parallel()
	cmd := exec.Command("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// actServer is a server that can be restarted: it takes its flags as an engine
// does, loads for a while, and gives a token.
const actServer = `
import argparse, http.server, os, signal, sys, time
p = argparse.ArgumentParser()
for f in ("--model-path", "--mem-fraction-static", "--loads", "--drains", "--api-key"): p.add_argument(f)
p.add_argument("--port", type=int)
a = p.parse_args()
def end(*x):
    time.sleep(float(a.drains or 0))
    os._exit(0)
signal.signal(signal.SIGTERM, end)
print("X is", os.environ.get("X"), flush=True)
print("server_args=ServerArgs(model_path='%s', mem_fraction_static=%s)" % (a.model_path, a.mem_fraction_static), flush=True)
time.sleep(float(a.loads or 0))
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self, code, body):
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self): self.answer(404 if self.path == "/metrics" else 200, b"{}")
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(200, b'{"text":"a","meta_info":{"completion_tokens":1}}')
    def log_message(self, *x): pass
http.server.ThreadingHTTPServer.allow_reuse_address = True
http.server.ThreadingHTTPServer(("127.0.0.1", a.port), H).serve_forever()
`

// zstdText unpacks a recording, which begins with a line of its own.
func zstdText(raw []byte) (string, error) {
	_, raw, _ = bytes.Cut(raw, []byte("\n"))
	r, err := zstd.NewReader(bytes.NewReader(raw))
	if err != nil {
		return "", err
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	return string(text), err
}

// actNode is a node behind real OpenSSH with one server, seen by nothing else.
type actNode struct {
	realNode
	t     *testing.T
	bin   string
	port  string
	state string
}

func newActNode(t *testing.T) actNode {
	t.Helper()
	home := t.TempDir()
	n := actNode{newRealNodeWith(t, remotetest.Options{Config: "SetEnv HOME=" + home}), t, binary(t), freePort(t), t.TempDir()}
	n.dir = home
	for name, text := range map[string]string{"sglang/__init__.py": "", "sglang/launch_server.py": actServer} {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

func (n actNode) serve(args ...string) {
	n.t.Helper()
	argv := append([]string{"python3", "-m", "sglang.launch_server", "--model-path", "/", "--port", n.port}, args...)
	cmd := n.spawn(n.t, "server.log", argv...)
	go func() { _ = cmd.Wait() }()
	eventually(n.t, 60*time.Second, "the server listens", func() bool { return remotetest.Listening(n.port) })
}

// cmd is the program on this node.
func (n actNode) cmd(args ...string) *exec.Cmd {
	cmd := exec.Command(n.bin, args...)
	cmd.Env = append(os.Environ(), append(n.env, "XDG_STATE_HOME="+n.state, "XDG_CONFIG_HOME="+n.state)...)
	return cmd
}

// do runs the program to its end, which must be with that code and say that.
func (n actNode) do(code int, says string, args ...string) string {
	n.t.Helper()
	cmd := n.cmd(args...)
	out, _ := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != code || !strings.Contains(string(out), says) {
		n.t.Fatalf("%q: code %d, want %d and %q:\n%s", args, cmd.ProcessState.ExitCode(), code, says, out)
	}
	return string(out)
}

// servers are the command lines of those that live.
func (n actNode) servers() []string {
	var out []string
	for _, p := range remotetest.Processes() {
		line := strings.Join(p.Args, " ")
		if p.State != "Z" && strings.Contains(line, "python") && strings.Contains(line, "-m sglang.launch_server") && !strings.Contains(line, n.bin) {
			out = append(out, line)
		}
	}
	return out
}

func (n actNode) onlyServer(with string) {
	n.t.Helper()
	if s := n.servers(); len(s) != 1 || !strings.Contains(s[0], with) {
		n.t.Errorf("servers %q, want one with %q", s, with)
	}
}

// A server is stopped, brought back, started with the flags of an earlier start and
// from a command line.
func TestSystemStartForms(t *testing.T) {
	if !isolated(t) {
		return
	}
	n := newActNode(t)
	n.serve("--mem-fraction-static", "0.81")
	n.do(0, "it serves", "restart", n.Alias, "--set", "mem-fraction-static=0.82", "--yes")
	n.onlyServer("--mem-fraction-static 0.82")
	n.do(1, "a server runs already", "start", n.Alias, "--yes")
	n.do(0, "end state=down", "stop", n.Alias, "--yes")
	if s := n.servers(); len(s) != 0 || remotetest.Listening(n.port) {
		t.Fatalf("after a stop %q run", s)
	}
	n.do(0, "it serves", "start", n.Alias, "--yes")
	n.onlyServer("--mem-fraction-static 0.82")

	n.do(0, "end state=down", "stop", n.Alias, "--yes")
	table := n.do(0, "", "starts", n.Alias)
	row := regexp.MustCompile(`(?m)^\W*(\d+) .*0\.81`).FindStringSubmatch(table)
	if row == nil {
		t.Fatalf("the first start is not in\n%s", table)
	}
	if !strings.Contains(table, "0.82") || strings.Contains(table, "running") {
		t.Errorf("a start is missing, or one that was stopped counts as running:\n%s", table)
	}
	n.do(64, "no start", "start", n.Alias, "--start", "99", "--yes")
	n.do(0, "it serves", "start", n.Alias, "--start", row[1], "--yes")
	n.onlyServer("--mem-fraction-static 0.81")

	n.do(0, "end state=down", "stop", n.Alias, "--yes")
	command := fmt.Sprintf("cd %s && X='a b' nohup python3 -m sglang.launch_server --model-path / --port %s --mem-fraction-static=0.7 >> other.log 2>&1 &", n.dir, n.port)
	n.do(64, "", "start", n.Alias, "--command", "ls -l", "--yes")
	n.do(0, "it serves", "start", n.Alias, "--command", command, "--yes")
	n.onlyServer("--mem-fraction-static=0.7")
	if log, err := os.ReadFile(filepath.Join(n.dir, "other.log")); err != nil || !strings.Contains(string(log), "mem_fraction_static=0.7") || !strings.Contains(string(log), "X is a b\n") {
		t.Errorf("its log: %s %v", log, err)
	}
	// A start script is read, and edited in place once its server serves.
	n.do(0, "end state=down", "stop", n.Alias, "--yes")
	script := filepath.Join(n.dir, "start.sh")
	text := fmt.Sprintf("#!/bin/sh\n# ours: 0.81 was best\ncd \"$(dirname \"$0\")\"\nexport X=script\nnohup python3 -m sglang.launch_server --model-path /  --port %s \\\n   --mem-fraction-static 0.81 >> script.log 2>&1 &\n", n.port)
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	n.do(64, "cannot be edited", "start", n.Alias, "--script", script, "--env", "A=b", "--yes")
	plan := n.do(0, "+    --mem-fraction-static 0.79", "start", n.Alias, "--script", script, "--set", "mem-fraction-static=0.79", "--dry-run")
	if now, _ := os.ReadFile(script); string(now) != text {
		t.Errorf("a dry run edited the script: %s\n%s", now, plan)
	}
	n.do(0, "start.sh is edited", "start", n.Alias, "--script", script, "--set", "mem-fraction-static=0.79", "--yes")
	n.onlyServer("--mem-fraction-static 0.79")
	now, err := os.ReadFile(script)
	info, _ := os.Stat(script)
	if err != nil || string(now) != strings.Replace(text, "static 0.81", "static 0.79", 1) || info.Mode().Perm() != 0o755 {
		t.Errorf("the script: %v %v\n%s", err, info.Mode(), now)
	}
	if log, err := os.ReadFile(filepath.Join(n.dir, "script.log")); err != nil || !strings.Contains(string(log), "X is script\n") {
		t.Errorf("its log: %s %v", log, err)
	}

	// Nothing was ever started: only a command can.
	n.do(0, "end state=down", "stop", n.Alias, "--yes")
	if err := os.RemoveAll(filepath.Join(n.dir, ".cache")); err != nil {
		t.Fatal(err)
	}
	n.do(3, "give one with --command", "start", n.Alias, "--yes")
	n.do(0, "it serves", "start", n.Alias, "--command", command, "--yes")
	n.onlyServer("--mem-fraction-static=0.7")
}

// The program is killed at each step of a restart. The restart goes on; meanwhile
// another is refused and told how to follow, and whoever follows sees the whole
// journal and a token.
func TestSystemKilledAtEachStep(t *testing.T) {
	if !isolated(t) {
		return
	}
	n := newActNode(t)
	n.serve("--loads", "15", "--drains", "12") // whoever follows needs a while to come, on a busy machine
	for i, step := range []string{"begin id=", "term set=", "stopped", "started pid="} {
		fraction := fmt.Sprintf("0.%d", 60+i)
		cmd := n.cmd("restart", n.Alias, "--set", "mem-fraction-static="+fraction, "--yes")
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(pipe)
		seen := false
		for !seen && lines.Scan() {
			seen = strings.Contains(lines.Text(), " "+step)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if !seen {
			t.Fatalf("no step %q", step)
		}
		if i < 2 { // the server takes its time to end
			n.do(1, "follow it with `runvigil restart "+n.Alias+" --follow`", "restart", n.Alias, "--yes")
		}
		out := n.do(0, "it serves", "restart", n.Alias, "--follow")
		for _, want := range []string{"a restart by root is under way, begun ", "mem-fraction-static", " begin id=", " end state=running", "one token came back"} {
			if !strings.Contains(out, want) {
				t.Errorf("killed at %q, no %q in\n%s", step, want, out)
			}
		}
		n.onlyServer("--mem-fraction-static " + fraction)
	}
	n.do(1, "no restart is under way", "restart", n.Alias, "--follow")
	if left, _ := filepath.Glob("/dev/shm/runvigil-" + n.port + ".lock*"); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// A screen that is opened while a restart goes on, which a command line began that
// was killed, finds it and follows it to a token.
func TestSystemReopenedScreenFollows(t *testing.T) {
	if !isolated(t) {
		return
	}
	n := newActNode(t)
	n.serve("--loads", "4", "--drains", "15")
	cmd := n.cmd("restart", n.Alias, "--set", "mem-fraction-static=0.66", "--yes")
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(pipe)
	for seen := false; !seen && lines.Scan(); {
		seen = strings.Contains(lines.Text(), " term set=")
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()

	run := filepath.Join(t.TempDir(), "run") // a shell in tmux has a PATH of its own
	remotetest.Program(t, run, fmt.Sprintf("#!/bin/sh\nexport '%s'\nexec %s %s\n", n.env[0], n.bin, n.Alias))
	term := newTerminal(t, 120, 40, nil)
	term.keys(run, "Enter")
	term.wait("R restart: SIGTERM was sent")
	term.keys("R")
	term.wait("restart the server  by root since")
	term.wait("--mem-fraction-static unset → 0.66")
	// Every session of the login is killed: the view goes on where it was.
	cut := 0
	for _, p := range remotetest.Processes() {
		if strings.HasPrefix(strings.Join(p.Args, " "), "sshd: root") {
			cut++
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
	}
	if cut == 0 {
		t.Fatal("no session of sshd's was found")
	}
	term.wait("LINK")
	term.wait("the new server runs: process")
	term.wait("done: one real token came back")
	n.onlyServer("--mem-fraction-static 0.66")
	term.keys("q", "q")
	term.wait("shell>")
}

// Secrets of the server and typed ones go through a whole restart, recorded and
// watched, and are in nothing that this program wrote, here or there, but for what
// the node keeps for itself.
func TestSystemSecretsGoNowhere(t *testing.T) {
	if !isolated(t) {
		return
	}
	const key, token, typed = "sk-PLANTED0123456789abcd", "hf_PLANTED0123456789abcdefgh", "TYPEDvalue0123456789"
	n := newActNode(t)
	t.Setenv("HF_TOKEN", token)
	n.serve("--api-key", key)
	if err := os.Unsetenv("HF_TOKEN"); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(n.state, "watched.rv")
	record := n.cmd("record", n.Alias, "-o", file, "--for", "25s")
	var said bytes.Buffer
	record.Stdout, record.Stderr = &said, &said
	if err := record.Start(); err != nil {
		t.Fatal(err)
	}
	printed := n.do(0, "mem-fraction-static", "restart", n.Alias, "--set", "mem-fraction-static=0.7", "--env", "WANDB_API_KEY="+typed, "--dry-run", "--json")
	printed += n.do(0, "it serves", "restart", n.Alias, "--set", "mem-fraction-static=0.7", "--env", "WANDB_API_KEY="+typed, "--yes")
	printed += n.do(0, "0.70", "starts", n.Alias, "--json")
	if err := record.Wait(); err != nil {
		t.Errorf("record: %v %s", err, said.String())
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := zstdText(raw)
	if err != nil || len(recorded) < 10_000 {
		t.Fatalf("the recording: %d bytes, %v", len(recorded), err)
	}
	where := map[string]string{"what was printed": printed, "what record said": said.String(), "the recording": recorded, "sshd's log": n.Log()}
	for _, root := range []string{n.state, filepath.Join(n.dir, ".cache"), n.dir} {
		err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			// The node keeps them for a start, readable by this login only.
			if err != nil || d.IsDir() || path == file || strings.Contains(path, "/saved/") {
				return err
			}
			text, err := os.ReadFile(path)
			where[path] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(where) < 8 {
		t.Errorf("only %d places were looked at", len(where))
	}
	for place, text := range where {
		for _, secret := range []string{key, token, typed} {
			if strings.Contains(text, secret) {
				t.Errorf("%s holds %s", place, secret)
			}
		}
	}
	s := n.servers()
	if len(s) != 1 || !strings.Contains(s[0], key) {
		t.Errorf("the new server lost its key: %q", s)
	}
}
