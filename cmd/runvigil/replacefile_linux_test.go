package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/runvigil/runvigil/cmd/runvigil/config"
	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/board"
)

// alone runs a test in a process of its own, whose files it may limit: false in
// the process that has started it. The testing package writes files too.
func alone(t *testing.T) bool {
	t.Helper()
	const mark = "RUNVIGIL_TEST_ALONE"
	if os.Getenv(mark) == t.Name() {
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), mark+"="+t.Name())
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// fullDisk has every file of this process end at so many bytes, as a disk that
// is full, until there is room again or the test ends.
func fullDisk(t *testing.T, at uint64) (room func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: at, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	room = func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
			t.Error(err)
		}
		signal.Reset(syscall.SIGXFSZ)
	}
	t.Cleanup(room)
	return room
}

func TestSaveOnAFullDisk(t *testing.T) {
	if !alone(t) {
		return
	}
	dir := t.TempDir()
	a := &actions{state: state{dir}}
	ctx := context.Background()
	if _, err := a.Save(ctx, "", "the copy before"); err != nil {
		t.Fatal(err)
	}
	fullDisk(t, 4096)
	long := strings.Repeat("line\n", 2000)
	named := filepath.Join(dir, "named.txt")
	for name, file := range map[string]string{"": filepath.Join(dir, "copied", "copied.txt"), "new.txt": filepath.Join(dir, "copied", "new.txt"), named: named} {
		_, err := a.Save(ctx, name, long)
		if err == nil || !strings.Contains(err.Error(), "write "+file+": file too large; ") || !strings.Contains(err.Error(), ":save it elsewhere") || strings.Contains(err.Error(), ".runvigil-") {
			t.Errorf("%q: %v", name, err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(dir, "copied", "copied.txt")); err != nil || string(got) != "the copy before" {
		t.Errorf("the copy of before is %q, %v", got, err)
	}
	if err := (state{dir}).save(metrics.Saved{}); err != nil {
		t.Errorf("what fits is not kept: %v", err)
	}
	left := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			left++
		}
		return err
	})
	if err != nil || left != 2 {
		t.Errorf("%d files are left where the copy and the counts were: %v", left, err)
	}
}

func TestSaveKeepsWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	a := &actions{state: state{dir}}
	save := func(name, text string) (string, error) { return a.Save(context.Background(), name, text) }
	for _, name := range []string{"today.txt", filepath.Join(dir, "there.txt")} {
		path, err := save(name, "first")
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v", path, info.Mode(), err)
		}
		if _, err := save(name, "second"); err == nil || !strings.Contains(err.Error(), path+" exists already and was left as it is") {
			t.Errorf("%s was written twice: %v", path, err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != "first" {
			t.Errorf("%s holds %q, %v", path, got, err)
		}
	}
	for text, want := range map[string]string{
		filepath.Join(dir, "none", "x.txt"): "the folder of " + filepath.Join(dir, "none", "x.txt") + " cannot be used: no such file or directory; make it",
		dir + "/":                           dir + " is a folder; name a file in it",
		"/dev/null":                         "/dev/null exists already",
	} {
		if _, err := save(text, "x"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	path, err := save("", "one")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := save("", "two"); err != nil || again != path {
		t.Errorf("the next copy is in %s, %v", again, err)
	}
	if got, _ := os.ReadFile(path); string(got) != "two" {
		t.Errorf("the copy holds %q", got)
	}
}

func TestReplaceFileKeepsLinkAndMode(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "f"), filepath.Join(dir, "l")
	if err := errors.Join(os.WriteFile(file, []byte("a"), 0o640), os.Symlink("f", link)); err != nil {
		t.Fatal(err)
	}
	if err := replaceFile(link, []byte("b")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(link)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info.Mode(), err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the file's mode is %v, %v", info.Mode(), err)
	}
	if got, _ := os.ReadFile(file); string(got) != "b" {
		t.Errorf("the file holds %q", got)
	}
}

// A full disk stops a watcher's recording and is told; nothing torn is left, what
// was recorded stays, and the recording goes on once there is room.
func TestRotateOnAFullDisk(t *testing.T) {
	if !alone(t) {
		return
	}
	cfg := config.Rotation{Dir: t.TempDir(), FileSize: 1e9, Total: 1e12, FileAge: time.Hour, MaxAge: 30 * time.Hour}
	r := newRotating(cfg, "x")
	var said []string
	r.tell = func(text string) { said = append(said, text) }
	minute := func(m int) {
		t.Helper()
		at := t0.Add(time.Duration(m) * time.Minute)
		for _, f := range []metrics.Frame{{Kind: metrics.KindSys, At: at, Data: make([]byte, 64)}, {Kind: metrics.KindTick, At: at}} {
			if err := r.Write(f); err != nil {
				t.Fatal(err)
			}
		}
	}
	for m := range 5 {
		minute(m)
	}
	room := fullDisk(t, 0)
	for m := 5; m < 30; m++ {
		minute(m)
	}
	if len(said) != 1 || !strings.HasPrefix(said[0], "the recording stopped: ") || !strings.Contains(said[0], "make room in "+cfg.Dir) {
		t.Errorf("said %q", said)
	}
	if list := recordings(t, cfg.Dir); len(list) != 1 || len(framesOf(t, list[0])) < 10 {
		t.Errorf("left: %q", list)
	}
	room()
	for m := 30; m < 60; m++ {
		minute(m)
	}
	r.close()
	list := recordings(t, cfg.Dir)
	if len(list) != 2 || len(said) != 2 || !strings.HasPrefix(said[1], "the recording goes on in "+list[1]) {
		t.Errorf("%q; said %q", list, said)
	}
	b := board.New()
	if last, err := foldRecordings(context.Background(), cfg, "x", t0, b); err != nil || !last.Equal(t0.Add(59*time.Minute)) {
		t.Errorf("what was recorded ends at %s, %v", last, err)
	}
}
