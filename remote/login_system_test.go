//go:build system

package remote

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/runvigil/runvigil/remote/remotetest"
	"golang.org/x/crypto/ssh"
)

// opensshDial dials the server in this process with the ssh client.
func opensshDial(t *testing.T, s *sshServer, o Options) (*Conn, error) {
	t.Helper()
	known := writeFile(t, filepath.Join(t.TempDir(), "known_hosts"), s.knownLine(s.hostKey))
	o.Dialer = DialerOpenSSH
	o.SSHConfig = writeFile(t, filepath.Join(t.TempDir(), "config"), fmt.Sprintf(
		"Host *\n UserKnownHostsFile %s\n IdentityFile /nowhere/id\n IdentityAgent none\n", known))
	c, err := Dial(t.Context(), Target{User: "op", Host: s.host, Port: s.port}, o)
	if err == nil {
		t.Cleanup(func() { _ = c.Close() })
	}
	return c, err
}

func TestSystemOpenSSHPassword(t *testing.T) {
	s := serveSSH(t, &ssh.ServerConfig{PasswordCallback: func(_ ssh.ConnMetadata, pw []byte) (*ssh.Permissions, error) {
		if string(pw) == "hunter 2" {
			return nil, nil
		}
		return nil, errors.New("wrong")
	}})
	p := &answers{list: []string{"wrong", "hunter 2"}}
	c, err := opensshDial(t, s, Options{Prompter: p})
	if err != nil {
		t.Fatal(err)
	}
	if i := c.Info(); len(p.asked) != 2 || p.asked[0].Kind != PromptPassword || p.asked[0].Host != "op@127.0.0.1" || !i.Prompted || i.Auth != "password" {
		t.Errorf("asked %+v, info %+v", p.asked, i)
	}
	if res, err := c.Run(t.Context(), "echo there", nil); err != nil || string(res.Stdout) != "there\n" {
		t.Errorf("got %+v, %v", res, err)
	}
	if _, err := opensshDial(t, s, Options{Prompter: &answers{}}); !errors.Is(err, ErrCanceled) {
		t.Errorf("declined: %v", err)
	}
	var auth *AuthError
	if _, err := opensshDial(t, s, Options{Prompter: &answers{list: []string{"a", "b", "c"}}}); !errors.As(err, &auth) {
		t.Errorf("three wrong ones: %v", err)
	}
	var needed *PromptNeededError
	if _, err := opensshDial(t, s, Options{}); !errors.As(err, &needed) || needed.Prompt.Kind != PromptPassword || !errors.As(err, &auth) {
		t.Errorf("nobody there: %v", err)
	}
}

func TestSystemOpenSSHCode(t *testing.T) {
	s := serveSSH(t, &ssh.ServerConfig{KeyboardInteractiveCallback: func(_ ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
		got, err := ask("", "", []string{"Verification code: "}, []bool{false})
		if err != nil || len(got) != 1 || got[0] != "123456" {
			return nil, errors.New("wrong")
		}
		return nil, nil
	}})
	p := &answers{list: []string{"123456"}}
	c, err := opensshDial(t, s, Options{Prompter: p})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.asked) != 1 || p.asked[0].Kind != PromptOTP || !c.Info().Prompted {
		t.Errorf("asked %+v", p.asked)
	}
}

// TestSystemPromptStopsClock lets a person think longer than the login may take.
func TestSystemPromptStopsClock(t *testing.T) {
	s := serveSSH(t, &ssh.ServerConfig{PasswordCallback: func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) { return nil, nil }})
	_, err := opensshDial(t, s, Options{Timeout: 3 * time.Second, Prompter: PrompterFunc(func(context.Context, Prompt) (string, error) {
		time.Sleep(3500 * time.Millisecond)
		return "x", nil
	})})
	if err != nil {
		t.Error(err)
	}
}

// jumpConfig makes a host of the ssh configuration reachable through bastion.
func jumpConfig(bastion *remotetest.Server) string {
	return fmt.Sprintf(`  ProxyJump bastion
Host bastion
  HostName 127.0.0.1
  Port %d
  User %s
  IdentityFile %s
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile %s
`, bastion.Port, bastion.User, bastion.KeyFile, bastion.KnownHosts)
}

func TestSystemJumpHost(t *testing.T) {
	for _, dialer := range []string{DialerOpenSSH, DialerNative} {
		t.Run(dialer, func(t *testing.T) {
			bastion := remotetest.OpenSSH(t, remotetest.Options{})
			s := remotetest.OpenSSH(t, remotetest.Options{ClientConfig: jumpConfig(bastion)})
			c := mustDial(t, s, Options{Dialer: dialer})
			if i := c.Info(); i.Port != s.Port || !strings.Contains(i.Auth, s.KeyFile) {
				t.Errorf("info %+v", i)
			}
			if res, err := c.Run(t.Context(), "echo there", nil); err != nil || string(res.Stdout) != "there\n" {
				t.Errorf("got %+v, %v", res, err)
			}
			bastion.Kill(t)
			select {
			case <-c.Done():
			case <-time.After(5 * time.Second):
				t.Error("the jump host died unseen")
			}
		})
	}
}

// TestSystemHungNode stops the server's processes: nothing may block.
func TestSystemHungNode(t *testing.T) {
	for _, dialer := range []string{DialerOpenSSH, DialerNative} {
		t.Run(dialer, func(t *testing.T) {
			s := remotetest.OpenSSH(t, remotetest.Options{})
			c := mustDial(t, s, Options{Dialer: dialer})
			p, err := c.Start(t.Context(), "cat")
			if err != nil {
				t.Fatal(err)
			}
			s.Freeze(t)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			began := time.Now()
			if err := c.Ping(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("ping: %v", err)
			}
			if _, err := c.Start(ctx, "true"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("start: %v", err)
			}
			if _, err := c.Run(ctx, "true", nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("run: %v", err)
			}
			if _, err := c.DialContext(ctx, "tcp", "127.0.0.1:9"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("dial: %v", err)
			}
			_ = p.Close()
			_ = c.Close()
			if code, err := p.Wait(); code != -1 || err == nil {
				t.Errorf("process ended with %d, %v", code, err)
			}
			if d := time.Since(began); d > 3*time.Second {
				t.Errorf("it took %v", d)
			}
			s.Signal(syscall.SIGCONT)
		})
	}
}

// TestSystemLink restarts the server under a link.
func TestSystemLink(t *testing.T) {
	for _, dialer := range []string{DialerOpenSSH, DialerNative} {
		t.Run(dialer, func(t *testing.T) {
			s := remotetest.OpenSSH(t, remotetest.Options{})
			ctx, cancel := context.WithCancel(t.Context())
			l := NewLink(LinkOptions{Dial: func(ctx context.Context) (*Conn, error) {
				return Dial(ctx, Target{Host: s.Alias}, Options{Dialer: dialer, SSHConfig: s.SSHConfig})
			}})
			done := make(chan struct{})
			go func() { l.Run(ctx); close(done) }()
			defer func() { cancel(); <-done }()
			reach(t, l, Up)
			s.Kill(t)
			down := reach(t, l, Down)
			if down.Reason == "" {
				t.Errorf("status %+v", down)
			}
			s.Start(t)
			reach(t, l, Up)
		})
	}
}

func reach(t *testing.T, l *Link, want State) Status {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		select {
		case s := <-l.Events():
			if s.State == want {
				return s
			}
		case <-timeout:
			t.Fatalf("not %s, but %+v", want, l.Status())
		}
	}
}
