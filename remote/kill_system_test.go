//go:build system

package remote

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/runvigil/runvigil/remote/remotetest"
)

// holdEnv makes this test program dial with the ssh configuration that it
// names, start a long-lived shell, say so, and wait to be killed.
const holdEnv = "RUNVIGIL_TEST_HOLD"

func TestSystemHold(t *testing.T) {
	config := os.Getenv(holdEnv)
	if config == "" {
		return // only a part of the tests below
	}
	o := Options{Dialer: DialerOpenSSH, SSHConfig: config}
	if os.Getenv(holdEnv+"_ASK") != "" {
		o.Prompter = PrompterFunc(func(ctx context.Context, p Prompt) (string, error) {
			fmt.Println("asked")
			<-ctx.Done()
			return "", ctx.Err()
		})
	}
	c, err := Dial(t.Context(), Target{Host: "testnode"}, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Start(t.Context(), "exec /bin/sh -s"); err != nil {
		t.Fatal(err)
	}
	fmt.Println("up")
	_ = c.Wait()
	fmt.Println("down")
}

// hold starts TestSystemHold in a process of its own and waits for word.
func hold(t *testing.T, s *remotetest.Server, base, word string, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestSystemHold$", "-test.count=1")
	cmd.Env = append(os.Environ(), holdEnv+"="+s.SSHConfig, "XDG_RUNTIME_DIR="+base)
	cmd.Env = append(cmd.Env, env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("the holder ended before %q", word)
		}
		if strings.TrimSpace(line) == word {
			return cmd
		}
	}
}

// gone waits until nothing runs whose command line names base.
func gone(t *testing.T, base string, within time.Duration) {
	t.Helper()
	for end := time.Now().Add(within); ; time.Sleep(20 * time.Millisecond) {
		left := remotetest.Running(base)
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %v still running: %+v", within, left)
		}
	}
}

func TestSystemKilled(t *testing.T) {
	for name, env := range map[string][]string{"up": nil, "asked": {holdEnv + "_ASK=1"}} {
		t.Run(name, func(t *testing.T) {
			o := remotetest.Options{}
			if name == "asked" {
				o.Passphrase = "sesame"
			}
			s := remotetest.OpenSSH(t, o)
			base := shortDir(t)
			cmd := hold(t, s, base, name, env...)
			if n := len(remotetest.Running(base)); n < 2 {
				t.Fatalf("%d processes of ssh and its keeper", n)
			}
			_ = cmd.Process.Signal(syscall.SIGKILL)
			_ = cmd.Wait()
			gone(t, base, 5*time.Second)
			if left := globs(t, filepath.Join(base, "*")); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
			for _, p := range remotetest.Processes() {
				if p.Parent == s.PID && p.State != "Z" {
					t.Errorf("the server still has a connection: %+v", p)
				}
			}
		})
	}
}

// TestSystemKilledBehindJumpHost has a second ssh, which ssh started.
func TestSystemKilledBehindJumpHost(t *testing.T) {
	bastion := remotetest.OpenSSH(t, remotetest.Options{})
	s := remotetest.OpenSSH(t, remotetest.Options{ClientConfig: jumpConfig(bastion)})
	cmd := hold(t, s, shortDir(t), "up")
	if n := len(remotetest.Running("-F " + s.SSHConfig)); n < 3 {
		t.Fatalf("%d processes: want ssh, its keeper, and the ssh to the jump host", n)
	}
	_ = cmd.Process.Signal(syscall.SIGKILL)
	_ = cmd.Wait()
	gone(t, "-F "+s.SSHConfig, 5*time.Second)
}

// TestSystemKeeperKilled kills the keeper: the connection must end, and ssh
// with it, and the folder must be swept.
func TestSystemKeeperKilled(t *testing.T) {
	s := remotetest.OpenSSH(t, remotetest.Options{})
	base := shortDir(t)
	t.Setenv("XDG_RUNTIME_DIR", base)
	c := mustDial(t, s, Options{Dialer: DialerOpenSSH})
	for _, p := range remotetest.Running("runvigil-ssh " + base) {
		if p.Parent == os.Getpid() {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
	}
	_ = c.Close()
	gone(t, base, 5*time.Second)
	if left := globs(t, filepath.Join(base, "*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestSystemMasterKilled(t *testing.T) {
	s := remotetest.OpenSSH(t, remotetest.Options{})
	base := shortDir(t)
	t.Setenv("XDG_RUNTIME_DIR", base)
	c := mustDial(t, s, Options{Dialer: DialerOpenSSH})
	for _, p := range remotetest.Running(base) {
		if strings.HasSuffix(p.Args[0], "ssh") {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
	}
	select {
	case <-c.Done():
	case <-time.After(5 * time.Second):
		t.Fatal("the end of ssh was not seen")
	}
	t.Log(c.Err())
	gone(t, base, 5*time.Second)
}
