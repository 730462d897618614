//go:build system

package remote

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/remote/remotetest"
)

// servers are the SSH servers that every dialer is tried with.
var servers = map[string]func(testing.TB, remotetest.Options) *remotetest.Server{
	"sshd":     remotetest.OpenSSH,
	"dropbear": remotetest.Dropbear,
}

func eachDialer(t *testing.T, o remotetest.Options, test func(t *testing.T, s *remotetest.Server, dialer string)) {
	for name, start := range servers {
		for _, dialer := range []string{DialerOpenSSH, DialerNative} {
			t.Run(name+"/"+dialer, func(t *testing.T) { test(t, start(t, o), dialer) })
		}
	}
}

func dialServer(t *testing.T, s *remotetest.Server, o Options) (*Conn, error) {
	t.Helper()
	o.SSHConfig = s.SSHConfig
	target, err := ParseTarget(s.Alias)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Dial(t.Context(), target, o)
	if err == nil {
		t.Cleanup(func() { _ = c.Close() })
	}
	return c, err
}

func mustDial(t *testing.T, s *remotetest.Server, o Options) *Conn {
	t.Helper()
	c, err := dialServer(t, s, o)
	if err != nil {
		t.Fatalf("dial: %v\nserver:\n%s", err, s.Log())
	}
	return c
}

func TestSystemConn(t *testing.T) {
	eachDialer(t, remotetest.Options{}, func(t *testing.T, s *remotetest.Server, dialer string) {
		c := mustDial(t, s, Options{Dialer: dialer})
		i := c.Info()
		if i.Dialer != dialer || i.User != s.User || i.Host != s.Host || i.Port != s.Port || i.Prompted ||
			!strings.HasPrefix(i.ServerVersion, "SSH-2.0-") || !strings.Contains(i.Auth, s.KeyFile) {
			t.Errorf("info %+v", i)
		}
		testConn(t, c)
		if strings.Contains(s.Log(), pingChannel) {
			t.Errorf("signs of life fill the server's log:\n%s", s.Log())
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := c.Wait(); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		if _, err := c.Start(t.Context(), "true"); !errors.Is(err, ErrLinkDown) {
			t.Errorf("Start after Close: %v", err)
		}
	})
}

func TestSystemProhibitedForwarding(t *testing.T) {
	for _, dialer := range []string{DialerOpenSSH, DialerNative} {
		for name, s := range map[string]*remotetest.Server{
			"sshd":     remotetest.OpenSSH(t, remotetest.Options{Config: "AllowTcpForwarding no"}),
			"dropbear": remotetest.Dropbear(t, remotetest.Options{Args: []string{"-j"}}),
		} {
			t.Run(name+"/"+dialer, func(t *testing.T) {
				c := mustDial(t, s, Options{Dialer: dialer})
				if _, err := c.DialContext(t.Context(), "tcp", "127.0.0.1:9"); !errors.Is(err, ErrForwardingProhibited) {
					t.Errorf("got %v", err)
				}
			})
		}
	}
}

func TestSystemSessionLimit(t *testing.T) {
	s := remotetest.OpenSSH(t, remotetest.Options{Config: "MaxSessions 1"})
	for _, dialer := range []string{DialerOpenSSH, DialerNative} {
		t.Run(dialer, func(t *testing.T) {
			c := mustDial(t, s, Options{Dialer: dialer})
			p, err := c.Start(t.Context(), "cat")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Start(t.Context(), "cat"); !errors.Is(err, ErrSessionLimit) {
				t.Errorf("second session: %v", err)
			}
			if err := c.Ping(t.Context()); err != nil {
				t.Errorf("ping without a free session: %v", err)
			}
			p.Stdin.Close()
			if code, err := p.Wait(); code != 0 || err != nil {
				t.Errorf("cat ended with %d, %v", code, err)
			}
		})
	}
}

func TestSystemPassphrase(t *testing.T) {
	const pass = "correct horse"
	s := remotetest.OpenSSH(t, remotetest.Options{Passphrase: pass})
	for _, dialer := range []string{DialerOpenSSH, DialerNative} {
		t.Run(dialer, func(t *testing.T) {
			var asked []Prompt
			c := mustDial(t, s, Options{Dialer: dialer, Prompter: PrompterFunc(func(_ context.Context, p Prompt) (string, error) {
				asked = append(asked, p)
				return pass, nil
			})})
			if len(asked) != 1 || asked[0].Kind != PromptPassphrase || asked[0].Key != s.KeyFile || asked[0].Echo {
				t.Errorf("asked %+v", asked)
			}
			if !c.Info().Prompted {
				t.Error("Prompted is false")
			}
			_, err := dialServer(t, s, Options{Dialer: dialer})
			var needed *PromptNeededError
			if !errors.As(err, &needed) || needed.Prompt.Kind != PromptPassphrase || !strings.Contains(err.Error(), "ssh-add "+s.KeyFile) {
				t.Errorf("without a person: %v", err)
			}
		})
	}
}

func TestSystemHostKey(t *testing.T) {
	for _, dialer := range []string{DialerOpenSSH, DialerNative} {
		t.Run(dialer, func(t *testing.T) {
			s := remotetest.OpenSSH(t, remotetest.Options{UnknownHost: true})
			_, err := dialServer(t, s, Options{Dialer: dialer})
			var needed *PromptNeededError
			if !errors.As(err, &needed) || needed.Prompt.Kind != PromptHostKey || !strings.HasPrefix(needed.Prompt.Fingerprint, "SHA256:") {
				t.Fatalf("without a person: %v", err)
			}
			_, err = dialServer(t, s, Options{Dialer: dialer, Prompter: PrompterFunc(func(context.Context, Prompt) (string, error) { return "no", nil })})
			if !errors.Is(err, ErrCanceled) {
				t.Errorf("answered no: %v", err)
			}
			var asked []Prompt
			yes := PrompterFunc(func(_ context.Context, p Prompt) (string, error) {
				asked = append(asked, p)
				return p.Fingerprint, nil
			})
			c := mustDial(t, s, Options{Dialer: dialer, Prompter: yes})
			if len(asked) != 1 || asked[0].Kind != PromptHostKey || asked[0].Fingerprint != needed.Prompt.Fingerprint {
				t.Errorf("asked %+v", asked)
			}
			if c.Info().Prompted {
				t.Error("a host key counts as a prompt that comes again")
			}
			mustDial(t, s, Options{Dialer: dialer}) // known now

			other := remotetest.OpenSSH(t, remotetest.Options{})
			known, err := os.ReadFile(other.KnownHosts)
			if err != nil {
				t.Fatal(err)
			}
			_, key, _ := strings.Cut(string(known), " ")
			line := "[" + s.Host + "]:" + strings.TrimPrefix(s.Addr, s.Host+":") + " " + key
			if err := os.WriteFile(s.KnownHosts, []byte("# a comment\n"+line), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err = dialServer(t, s, Options{Dialer: dialer, Prompter: yes})
			var changed *HostKeyError
			if !errors.As(err, &changed) || !changed.Changed || len(changed.Known) != 1 ||
				changed.Known[0].File != s.KnownHosts || changed.Known[0].Line != 2 || changed.Fingerprint != needed.Prompt.Fingerprint {
				t.Errorf("changed key: %v", err)
			}
		})
	}
}

func TestSystemAuthError(t *testing.T) {
	eachDialer(t, remotetest.Options{}, func(t *testing.T, s *remotetest.Server, dialer string) {
		stranger := remotetest.OpenSSH(t, remotetest.Options{})
		if err := os.Rename(stranger.KeyFile, s.KeyFile); err != nil {
			t.Fatal(err)
		}
		_, err := dialServer(t, s, Options{Dialer: dialer})
		var auth *AuthError
		if !errors.As(err, &auth) {
			t.Fatalf("got %v", err)
		}
		if auth.User != s.User || len(auth.Tried) != 1 || auth.Tried[0].Name != s.KeyFile || auth.Tried[0].Fingerprint == "" ||
			len(auth.Offered) != 1 || auth.Offered[0] != "publickey" || len(auth.Advice) == 0 {
			t.Errorf("got %+v", auth)
		}
		t.Log(err)
	})
}

func TestSystemUnreachable(t *testing.T) {
	for _, dialer := range []string{DialerOpenSSH, DialerNative} {
		t.Run(dialer, func(t *testing.T) {
			s := remotetest.OpenSSH(t, remotetest.Options{})
			s.Stop()
			_, err := dialServer(t, s, Options{Dialer: dialer})
			var un *UnreachableError
			if !errors.As(err, &un) || un.Op != "connect" || un.Hint == "" {
				t.Errorf("nothing listens: %v", err)
			}
			_, err = Dial(t.Context(), Target{Host: "no-such-host.invalid"}, Options{Dialer: dialer, SSHConfig: s.SSHConfig})
			if !errors.As(err, &un) || un.Op != "resolve" {
				t.Errorf("no such host: %v", err)
			}
		})
	}
}

func TestSystemSilentPeer(t *testing.T) {
	for _, dialer := range []string{DialerOpenSSH, DialerNative} {
		t.Run(dialer, func(t *testing.T) {
			addr := silentPeer(t)
			target, err := ParseTarget(addr)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			_, err = Dial(t.Context(), target, Options{Dialer: dialer, SSHConfig: "none", Timeout: time.Second})
			var un *UnreachableError
			if !errors.As(err, &un) || un.Op != "handshake" || time.Since(began) > 4*time.Second {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
		})
	}
}

func TestSystemServerDies(t *testing.T) {
	eachDialer(t, remotetest.Options{}, func(t *testing.T, s *remotetest.Server, dialer string) {
		c := mustDial(t, s, Options{Dialer: dialer})
		p, err := c.Start(t.Context(), "cat")
		if err != nil {
			t.Fatal(err)
		}
		s.Kill(t)
		select {
		case <-c.Done():
		case <-time.After(5 * time.Second):
			t.Fatal("the end of the server was not seen")
		}
		t.Log(c.Err())
		if errors.Is(c.Err(), ErrClosed) {
			t.Errorf("reason %v", c.Err())
		}
		if _, err := io.ReadAll(p.Stdout); err != nil {
			t.Errorf("output of a lost process: %v", err)
		}
		if code, err := p.Wait(); code != -1 || err == nil {
			t.Errorf("lost process ended with %d, %v", code, err)
		}
	})
}

func TestSystemNoLeftovers(t *testing.T) {
	base := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", base)
	s := remotetest.OpenSSH(t, remotetest.Options{})
	c := mustDial(t, s, Options{Dialer: DialerOpenSSH})
	if n := len(globs(t, filepath.Join(base, privatePrefix+"*"))); n != 1 {
		t.Errorf("%d private folders", n)
	}
	_ = c.Close()
	if left := globs(t, filepath.Join(base, "*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if left := remotetest.Running(base); len(left) != 0 {
		t.Errorf("still running: %v", left)
	}
}

func globs(t *testing.T, pattern string) []string {
	t.Helper()
	m, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
