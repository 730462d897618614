package remote

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// askAs runs this test program as ssh would to ask text.
func askAs(t *testing.T, socket, hint, text string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], text)
	cmd.Env = append(os.Environ(), askpassEnv+"="+socket, "SSH_ASKPASS_PROMPT="+hint)
	var out bytes.Buffer
	cmd.Stdout = &out
	err := cmd.Run()
	return out.String(), err
}

func TestAskpass(t *testing.T) {
	folder := privateFolderIn(t, shortDir(t))
	p := &answers{list: []string{"sesame", "yes", "SHA256:nope", "yes"}}
	a := &asker{prompter: p, target: Target{Host: "gpu7"}}
	stops := make(chan error, 1)
	s, err := serveAskpass(folder.join("a"), answerFor(a, func(err error) { stops <- err }))
	if err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		hint, text, want string
		fails            bool
		stop             error
	}{
		{"", "Enter passphrase for key '/k': ", "sesame\n", false, nil},
		{"", "Are you sure you want to continue connecting (yes/no/[fingerprint])? ", "yes\n", false, nil},
		{"", "Are you sure you want to continue connecting (yes/no/[fingerprint])? ", "no\n", false, ErrCanceled},
		{"confirm", "Allow shared connection to gpu7?", "\n", false, nil},
		{"", "Enter passphrase for key '/k': ", "", true, nil}, // declined: ssh goes on
		{"", "root@gpu7's password: ", "", true, ErrCanceled},
	}
	for _, step := range steps {
		got, err := askAs(t, folder.join("a"), step.hint, step.text)
		var stopped error
		select {
		case stopped = <-stops:
		default:
		}
		if got != step.want || (err != nil) != step.fails || !errors.Is(stopped, step.stop) {
			t.Errorf("%s: %q, %v, stopped by %v", step.text, got, err, stopped)
		}
	}
	s.close()
	for i, q := range p.asked {
		if again := i == 4; q.Again != again {
			t.Errorf("question %d (%s) comes again: %v", i, q.Text, q.Again)
		}
	}
	if p.asked[0].Host != "gpu7" || p.asked[0].Key != "/k" || !a.prompted {
		t.Errorf("asked %+v", p.asked[0])
	}
}

// TestAskpassTouch ends the question when ssh ends its helper.
func TestAskpassTouch(t *testing.T) {
	folder := privateFolderIn(t, shortDir(t))
	shown, gone := make(chan Prompt), make(chan struct{})
	a := &asker{prompter: PrompterFunc(func(ctx context.Context, p Prompt) (string, error) {
		shown <- p
		<-ctx.Done()
		close(gone)
		return "", ctx.Err()
	})}
	s, err := serveAskpass(folder.join("a"), answerFor(a, func(err error) { t.Errorf("the login was stopped: %v", err) }))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "Confirm user presence for key ED25519-SK SHA256:abc")
	cmd.Env = append(os.Environ(), askpassEnv+"="+folder.join("a"), "SSH_ASKPASS_PROMPT=none")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if p := <-shown; p.Kind != PromptTouch {
		t.Errorf("asked %+v", p)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Error("the question outlived its helper")
	}
	s.close()
	if !a.prompted {
		t.Error("a touch does not count as a prompt that comes again")
	}
}

func TestAskpassWithoutParent(t *testing.T) {
	if out, err := askAs(t, filepath.Join(t.TempDir(), "nobody"), "", "password: "); err == nil || out != "" {
		t.Errorf("got %q, %v", out, err)
	}
}

// shortDir is short enough for a socket, unlike t.TempDir of a long test name.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rv") //nolint:usetesting // a socket address must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func privateFolderIn(t *testing.T, base string) *privateFolder {
	t.Helper()
	f, err := makePrivateFolder(base)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.remove() })
	return f
}

func TestPrivateFolder(t *testing.T) {
	base := shortDir(t)
	alive := privateFolderIn(t, base)
	if info, err := os.Stat(alive.path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	dead := privateFolderIn(t, base)
	writeFile(t, dead.join("m"), "a socket of the dead")
	dead.lock.Close() // as a killed owner would
	for _, dir := range []string{"runvigil-foreign", "someone-else"} {
		if err := os.Mkdir(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	fresh, old := filepath.Join(base, privatePrefix+"fresh"), filepath.Join(base, privatePrefix+"old")
	for _, dir := range []string{fresh, old} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(old, long, long); err != nil {
		t.Fatal(err)
	}
	sweepPrivateFolders(base)
	var left []string
	entries, err := os.ReadDir(base)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if len(left) != 4 || !strings.Contains(strings.Join(left, " "), filepath.Base(alive.path)) || strings.Contains(strings.Join(left, " "), "old") {
		t.Errorf("left %v", left)
	}
	if _, err := makePrivateFolder(filepath.Join(base, strings.Repeat("long", 25))); err == nil {
		t.Error("no error for a base that does not exist")
	}
	deep := filepath.Join(base, strings.Repeat("long", 25))
	if err := os.Mkdir(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := makePrivateFolder(deep); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("a long base: %v", err)
	}
	if entries, err := os.ReadDir(deep); err != nil || len(entries) != 0 {
		t.Errorf("left in the long base: %v, %v", entries, err)
	}
}

func TestPrivateFolderFallsBack(t *testing.T) {
	base := shortDir(t)
	t.Setenv("XDG_RUNTIME_DIR", filepath.Join(base, "absent"))
	t.Setenv("TMPDIR", base)
	f, err := newPrivateFolder()
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Dir(f.path) != base {
		t.Errorf("folder %s", f.path)
	}
	if err := unix.Access(f.path, unix.W_OK); err != nil {
		t.Error(err)
	}
	if err := f.remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(f.path); !os.IsNotExist(err) {
		t.Errorf("still there: %v", err)
	}
}
