package simnode

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

func TestTerminal(t *testing.T) {
	_, client := startNode(t, "idle")
	session, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if err := session.RequestPty("xterm", 30, 100, ssh.TerminalModes{}); err != nil {
		t.Fatal(err)
	}
	input, _ := session.StdinPipe()
	output, _ := session.StdoutPipe()
	if err := session.Shell(); err != nil {
		t.Fatal(err)
	}
	if err := session.WindowChange(40, 120); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(input, "stty size; exit 7")
	text, _ := io.ReadAll(output)
	if !strings.Contains(string(text), "40 120") {
		t.Errorf("the terminal's size is not 40 120:\n%s", text)
	}
	var status *ssh.ExitError
	if err := session.Wait(); !errors.As(err, &status) || status.ExitStatus() != 7 {
		t.Errorf("exit status: %v", err)
	}
}

func TestSessions(t *testing.T) {
	_, client := startNode(t, "idle")

	t.Run("one a program, each its own", func(t *testing.T) {
		fields := strings.Fields(run(t, client, "cut -d' ' -f1,5,6 /proc/$$/stat"))
		if fields[0] != fields[1] || fields[0] != fields[2] {
			t.Errorf("pid, group and session %v differ", fields)
		}
	})
	t.Run("signals", func(t *testing.T) {
		session, err := client.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		if err := session.Start("sleep 60"); err != nil {
			t.Fatal(err)
		}
		if err := session.Signal(ssh.SIGTERM); err != nil {
			t.Fatal(err)
		}
		var status *ssh.ExitError
		if err := session.Wait(); !errors.As(err, &status) || status.Signal() != "TERM" {
			t.Errorf("after TERM: %v", err)
		}
	})
	t.Run("no more than ten", func(t *testing.T) {
		var open []*ssh.Session
		for range maxSessions {
			session, err := client.NewSession()
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, session)
		}
		if _, err := client.NewSession(); err == nil {
			t.Error("the eleventh was accepted")
		}
		for _, session := range open {
			session.Close()
		}
		waitFor(t, "the slots are free again", 5*time.Second, func() bool {
			session, err := client.NewSession()
			if err != nil {
				return false
			}
			session.Close()
			return true
		})
	})
	t.Run("the user's environment stays out", func(t *testing.T) {
		out := run(t, client, "env; command -v nvidia-smi python3")
		if !strings.Contains(out, "/bin/nvidia-smi\n") || strings.Contains(out, "HOME="+os.Getenv("HOME")+"\n") {
			t.Errorf("environment:\n%s", out)
		}
	})
	t.Run("other keys are refused", func(t *testing.T) {
		stranger, _, err := newKey("stranger")
		if err != nil {
			t.Fatal(err)
		}
		conn, err := ssh.Dial("tcp", client.RemoteAddr().String(), &ssh.ClientConfig{User: nodeUser,
			Auth: []ssh.AuthMethod{ssh.PublicKeys(stranger)}, HostKeyCallback: ssh.InsecureIgnoreHostKey()})
		if err == nil {
			_ = conn.Close()
			t.Error("a stranger's key was accepted")
		}
	})
}
