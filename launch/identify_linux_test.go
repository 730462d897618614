package launch

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The script against a real process and a real sh.
func TestIdentifyScriptOnThisMachine(t *testing.T) {
	log, err := os.Create(filepath.Join(t.TempDir(), "my server.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "my flags.yaml"), []byte("tp-size: 8\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", "read wait; :", "sh", "--config", "my flags.yaml")
	stdin, err := cmd.StdinPipe() // ends with this test, and with it the process
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HF_TOKEN=hf_planted0123456789abc", "ODD=\n" + "n0 x"}
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, dir
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	sh := exec.Command("sh", "-s")
	sh.Stdin = strings.NewReader(IdentifyScript(cmd.Process.Pid, nonce))
	raw, err := sh.Output()
	if err != nil {
		t.Fatalf("sh: %v", err)
	}
	got, err := ParseIdentify(raw, nonce, cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	if got.Dir != dir || got.Log != log.Name() || got.LogHow != LogFile || got.PPID != os.Getpid() || got.UID != os.Getuid() {
		t.Errorf("dir %q log %q %s ppid %d uid %d", got.Dir, got.Log, got.LogHow, got.PPID, got.UID)
	}
	if v, _ := got.Getenv("HF_TOKEN"); v != "***" {
		t.Errorf("the planted secret reads %q", v)
	}
	if v, _ := got.Getenv("ODD"); v != "\nn0 x" {
		t.Errorf("a variable with a newline reads %q", v)
	}
	if got.FileFlags["tp-size"] != "8" {
		t.Errorf("the flags file gave %v", got.FileFlags)
	}
	if !slices.Equal(got.Argv, cmd.Args) || len(got.Limits) < 10 || !got.Here.Known || got.Umask < 0 || got.CPUs == 0 {
		t.Errorf("argv %q, %d limits, umask %o, %d CPUs", got.Argv, len(got.Limits), got.Umask, got.CPUs)
	}
	sh = exec.Command("sh", "-s")
	sh.Stdin = strings.NewReader(IdentifyScript(1<<22+1, nonce))
	if raw, err = sh.Output(); err != nil {
		t.Fatal(err)
	}
	if _, err := ParseIdentify(raw, nonce, 1<<22+1); !errors.Is(err, ErrGone) {
		t.Errorf("a pid that cannot be: %v", err)
	}
}
