//go:build system && linux

package restart

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote/remotetest"
)

// psWatch looks at every command line of the machine until the test ends, and
// notes those that show a secret and are no stand-in's own.
type psWatch struct {
	secrets []string
	stop    chan struct{}
	done    sync.WaitGroup
	looks   int
	shown   map[string]bool
}

func watchPS(secrets ...string) *psWatch {
	w := &psWatch{secrets: secrets, stop: make(chan struct{}), shown: map[string]bool{}}
	self, _ := os.Executable()
	w.done.Go(func() {
		for {
			select {
			case <-w.stop:
				return
			default:
			}
			w.looks++
			time.Sleep(2 * time.Millisecond)
			files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
			for _, f := range files {
				cmdline, _ := os.ReadFile(f)
				for _, s := range secrets {
					if !strings.Contains(string(cmdline), s) {
						continue
					}
					if exe, err := os.Readlink(filepath.Join(filepath.Dir(f), "exe")); err == nil && exe != self {
						w.shown[strings.ReplaceAll(string(cmdline), "\x00", " ")] = true
					}
				}
			}
		}
	})
	return w
}

func (w *psWatch) end(t *testing.T) {
	t.Helper()
	close(w.stop)
	w.done.Wait()
	if w.looks < 5 { // on a loaded machine one takes long
		t.Errorf("only %d looks at the processes", w.looks)
	}
	for line := range w.shown {
		t.Errorf("ps shows a secret: %s", line)
	}
}

// TestSecrets plants secrets in the command line and the environment of a
// server, types two more, and looks for them wherever they must not be: what we
// hold and print, the journal, the log, ps, and files that others can read.
func TestSecrets(t *testing.T) {
	const key, token, typedKey, typedVar = "sk-PLANTED0123456789abcd", "hf_PLANTED0123456789abcdefgh", "sk-TYPED0123456789abcdef", "TYPEDvalue0123456789"
	s := remotetest.OpenSSH(t, remotetest.Options{})
	for _, sh := range []string{"/bin/dash", "/bin/bash", "/bin/busybox sh"} {
		for _, typed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s typed %v", strings.Fields(sh)[0], typed), func(t *testing.T) {
				w, _ := sshWorld(t, s)
				w.sh = sh
				port := remotetest.FreePort(t)
				old := w.server(port, []string{"HF_TOKEN=" + token, "STANDIN_KEY=" + token}, "--api-key", key, "--children", "1")
				ps := watchPS(key, token, typedKey, typedVar)
				edits := []launch.Edit{set("mem-fraction-static", "0.5")}
				wantKey := key
				if typed {
					edits = append(edits, set("api-key", typedKey), launch.Edit{Kind: launch.SetEnv, Name: "WANDB_API_KEY", Value: typedVar})
					wantKey = typedKey
				}
				p := w.plan(old.Process.Pid, quick, edits...)
				if _, _, err := Check(t.Context(), w.run, p); err != nil {
					t.Fatal(err)
				}
				var printed []string
				if err := Begin(t.Context(), w.run, p); err != nil {
					t.Fatal(err)
				}
				j, err := Follow(t.Context(), w.run, p.ID, func(l metrics.JournalLine) { printed = append(printed, l.String()) })
				if err != nil || j.State != metrics.JournalRunning {
					t.Fatalf("%v %+v", err, j)
				}
				saved, err := Look(t.Context(), w.run, j.PID) // as the next screen does
				if err != nil || strings.Contains(fmt.Sprintf("%+v", saved), token) {
					t.Errorf("%v %+v", err, saved)
				}
				if _, err := Ready(t.Context(), w.run, p, j, func(s string) { printed = append(printed, s) }); err != nil {
					t.Errorf("no token from a server with a key: %v", err)
				}
				ps.end(t)
				argv, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", j.PID))
				environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", j.PID))
				if !strings.Contains(string(argv), "\x00"+wantKey+"\x00") || !strings.Contains(string(environ), "HF_TOKEN="+token+"\x00") {
					t.Errorf("the new server did not get its secrets: %q %q", argv, environ)
				}
				if typed && !strings.Contains(string(environ), "WANDB_API_KEY="+typedVar+"\x00") {
					t.Errorf("the new server did not get the typed variable: %q", environ)
				}
				plan, err := json.Marshal(p)
				if err != nil {
					t.Fatal(err)
				}
				log, _ := os.ReadFile(w.log())
				journal, _ := os.ReadFile(filepath.Join(w.base(), p.ID, "journal"))
				for where, text := range map[string]string{
					"plan": string(plan), "printed": strings.Join(printed, "\n"), "log": string(log), "journal": string(journal), "sshd's log": s.Log(),
					"what came over the link": w.run.(*sshRunner).heard.String(),
				} {
					for _, secret := range []string{key, token, typedKey, typedVar} {
						if strings.Contains(text, secret) {
							t.Errorf("%s holds %s:\n%s", where, secret, text)
						}
					}
				}
				for _, f := range w.files() {
					info, err := os.Lstat(f)
					if err == nil && info.Mode()&0o077 != 0 {
						t.Errorf("others can read %s: %v", f, info.Mode())
					}
				}
			})
		}
	}
}

// TestClientFirst stops the client, drains, has the engine give up its requests
// with its key, stops the server, and brings both back.
func TestClientFirst(t *testing.T) {
	s := remotetest.OpenSSH(t, remotetest.Options{})
	w, _ := sshWorld(t, s)
	const key = "sk-ABORT0123456789abcdef"
	port := remotetest.FreePort(t)
	old := w.server(port, nil, "--api-key", key)
	client := w.server(remotetest.FreePort(t), []string{"CLIENT=its own"}, "--silent")
	cid := Identity{PID: client.Process.Pid, Start: startOf(t, client.Process.Pid)}
	seen, err := Look(t.Context(), w.run, old.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	snap := &metrics.Snapshot{Clients: []metrics.Client{{
		PID: cid.PID, Start: cid.Start, Argv: client.Args, Ports: []int{port}, Cwd: w.home, Log: metrics.LogRef{Path: w.log()},
	}}}
	p := New(Input{
		ID: NewID(time.Now()), Snap: snap, Server: &metrics.Server{PID: old.Process.Pid, Start: seen.Launch.Start, Port: port}, Seen: seen,
		Draft: launch.NewDraft(seen.Launch), Options: Options{Op: Restart, Client: ClientRestart, Drain: time.Second, Abort: true, TermWait: time.Second},
	})
	p.Refusals = nil // of the machine that the tests run on
	ps := watchPS(key)
	j := w.carry(p)
	ps.end(t)
	if j.State != metrics.JournalRunning || !inOrder(steps(j), "client-stop client-gone drain drained abort term stopped started listening client end") {
		t.Fatalf("%q %+v", steps(j), j)
	}
	var clientPID int
	for _, l := range j.Lines {
		switch l.Step {
		case metrics.JournalAbort:
			if l.Get("rc") != "0" {
				t.Errorf("the engine was not asked: %v", l)
			}
		case metrics.JournalClient:
			clientPID, _, _ = l.Process("pid")
		}
	}
	if log, _ := os.ReadFile(w.log()); !strings.Contains(string(log), "asked to abort") {
		t.Errorf("the server was not asked to abort: %s", log)
	}
	environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", clientPID))
	if alive(cid.PID) || !alive(clientPID) || !strings.Contains(string(environ), "CLIENT=its own\x00") {
		t.Errorf("old client lives: %v, new one: %v with %q", alive(cid.PID), alive(clientPID), environ)
	}
}

func startOf(t *testing.T, pid int) int64 {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	rest := strings.Fields(string(raw[strings.LastIndex(string(raw), ")")+1:]))
	var start int64
	if _, err := fmt.Sscan(rest[19], &start); err != nil {
		t.Fatal(err)
	}
	return start
}
