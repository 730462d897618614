//go:build system

package remote

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/runvigil/runvigil/remote/remotetest"
)

// TestSystemKeeper runs the keeper under every shell that is /bin/sh
// somewhere, with a child that ends by itself, on request, or not at all.
func TestSystemKeeper(t *testing.T) {
	const (
		polite   = `: >"$READY"; exec sleep 1000`
		stubborn = `trap '' TERM HUP INT; : >"$READY"; while :; do sleep 1; done`
	)
	for _, shell := range [][]string{{"dash"}, {"bash", "--posix"}, {"busybox", "ash"}, {"zsh", "--emulate", "sh"}} {
		for _, tt := range []struct {
			name, child string
			end         func(cmd *exec.Cmd, hold *os.File)
			status      int // -1: killed with its whole group
		}{
			{"child ends", "exit 7", func(*exec.Cmd, *os.File) {}, 7},
			{"parent gone", polite, func(_ *exec.Cmd, hold *os.File) { hold.Close() }, 128 + 15},
			{"asked to end", polite, func(cmd *exec.Cmd, _ *os.File) { _ = cmd.Process.Signal(syscall.SIGTERM) }, 128 + 15},
			{"parent gone, stubborn child", stubborn, func(_ *exec.Cmd, hold *os.File) { hold.Close() }, -1},
		} {
			t.Run(strings.Join(shell, " ")+"/"+tt.name, func(t *testing.T) {
				t.Parallel()
				dir := filepath.Join(shortDir(t), "folder")
				if err := os.Mkdir(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				writeFile(t, filepath.Join(dir, "m"), "")
				in, hold, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				defer hold.Close()
				cmd := exec.Command(shell[0], append(shell[1:len(shell):len(shell)], "-c", keeperScript, "runvigil-ssh", dir, "sh", "-c", tt.child)...)
				ready := dir + ".ready"
				cmd.Env = append(os.Environ(), "READY="+ready)
				cmd.Stdin = in
				cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				in.Close()
				for end := time.Now().Add(30 * time.Second); tt.child != "exit 7"; time.Sleep(5 * time.Millisecond) {
					if _, err := os.Stat(ready); err == nil {
						break
					}
					if time.Now().After(end) {
						t.Fatal("the child does not come up")
					}
				}
				tt.end(cmd, hold)
				err = cmd.Wait()
				var exit *exec.ExitError
				if !errors.As(err, &exit) || exit.ExitCode() != tt.status && exit.ExitCode() != 127 {
					t.Errorf("ended with %v, want status %d", err, tt.status)
				}
				if _, err := os.Stat(dir); !os.IsNotExist(err) {
					t.Errorf("the folder is still there: %v", err)
				}
				gone(t, dir, 5*time.Second)
				var left []remotetest.Process
				for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
					if left = inGroup(cmd.Process.Pid); len(left) == 0 {
						return
					}
				}
				t.Errorf("still running: %+v", left)
			})
		}
	}
}

// inGroup are the members of a process group, zombies aside.
func inGroup(group int) []remotetest.Process {
	var found []remotetest.Process
	for _, p := range remotetest.Processes() {
		if p.Group == group && p.State != "Z" {
			found = append(found, p)
		}
	}
	return found
}
