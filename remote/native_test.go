package remote

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// home is an empty home with an agent that holds keys, so that no test sees
// the user's.
func home(t *testing.T, keys ...agent.AddedKey) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("SSH_AUTH_SOCK", "")
	if err := os.Mkdir(filepath.Join(dir, ".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	if len(keys) == 0 {
		return dir
	}
	ring := agent.NewKeyring()
	for _, k := range keys {
		if err := ring.Add(k); err != nil {
			t.Fatal(err)
		}
	}
	socketDir, err := os.MkdirTemp("", "rv") //nolint:usetesting // a socket address must be short
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(socketDir, "agent"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); os.RemoveAll(socketDir) })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _ = agent.ServeAgent(ring, c) }()
		}
	}()
	t.Setenv("SSH_AUTH_SOCK", l.Addr().String())
	return dir
}

// plainDial dials s with the native dialer, without an ssh client's help.
func plainDial(t *testing.T, s *sshServer, o Options) (*Conn, error) {
	t.Helper()
	o.Dialer, o.Plain = DialerNative, true
	if o.HostKey == nil && o.KnownHosts == nil {
		o.HostKey = s.hostKey
	}
	c, err := Dial(t.Context(), Target{User: "op", Host: s.host, Port: s.port}, o)
	if err == nil {
		t.Cleanup(func() { _ = c.Close() })
	}
	return c, err
}

// answers is a Prompter that gives one answer after the other and keeps what
// was asked.
type answers struct {
	list  []string
	asked []Prompt
}

func (a *answers) Ask(_ context.Context, p Prompt) (string, error) {
	a.asked = append(a.asked, p)
	if len(a.list) == 0 {
		return "", ErrCanceled
	}
	answer := a.list[0]
	a.list = a.list[1:]
	return answer, nil
}

func TestNativeConn(t *testing.T) {
	home(t)
	key := ed25519Key(t)
	s := serveSSH(t, acceptKeys(key.PublicKey()))
	c, err := plainDial(t, s, Options{Signer: key})
	if err != nil {
		t.Fatal(err)
	}
	i := c.Info()
	if i.Dialer != DialerNative || i.String() != "op@"+s.addr || i.ServerVersion == "" || i.Auth != "publickey given key" || i.Prompted {
		t.Errorf("info %+v", i)
	}
	res, err := c.Run(t.Context(), "cat; exit 5", strings.NewReader("in"))
	if err != nil || string(res.Stdout) != "in" || res.Exit != 5 {
		t.Errorf("got %+v, %v", res, err)
	}
	if err := c.Ping(t.Context()); err != nil {
		t.Errorf("ping: %v", err)
	}
	s.hangUp()
	if err := c.Wait(); err == nil || errors.Is(err, ErrClosed) {
		t.Errorf("after the server hung up: %v", err)
	}
	if _, err := c.Run(t.Context(), "true", nil); !errors.Is(err, ErrLinkDown) {
		t.Errorf("run on a dead connection: %v", err)
	}
}

func TestNativeLimits(t *testing.T) {
	home(t)
	key := ed25519Key(t)
	s := serveSSH(t, acceptKeys(key.PublicKey()))
	s.sessions = 1
	s.noForward.Store(true)
	c, err := plainDial(t, s, Options{Signer: key})
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Start(t.Context(), "cat")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	if _, err := c.Start(t.Context(), "cat"); !errors.Is(err, ErrSessionLimit) {
		t.Errorf("second session: %v", err)
	}
	if _, err := c.DialContext(t.Context(), "tcp", "127.0.0.1:9"); !errors.Is(err, ErrForwardingProhibited) {
		t.Errorf("forwarding: %v", err)
	}
	s.noForward.Store(false)
	if _, err := c.DialContext(t.Context(), "tcp", silentAddr(t)); !errors.Is(err, ErrConnectRefused) {
		t.Errorf("nothing listens: %v", err)
	}
}

// silentAddr is an address where nothing listens.
func silentAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	return l.Addr().String()
}

func TestNativeSilentPeer(t *testing.T) {
	home(t)
	target, err := ParseTarget("op@" + silentPeer(t))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_, err = Dial(t.Context(), target, Options{Dialer: DialerNative, Plain: true, Timeout: 50 * time.Millisecond})
	var un *UnreachableError
	if !errors.As(err, &un) || un.Op != "handshake" || un.Hint == "" || time.Since(began) > 5*time.Second {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := Dial(ctx, target, Options{Dialer: DialerNative, Plain: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

func TestNativeSilentLink(t *testing.T) {
	home(t)
	key := ed25519Key(t)
	s := serveSSH(t, acceptKeys(key.PublicKey()))
	s.deaf = true
	c, err := plainDial(t, s, Options{Signer: key, KeepAlive: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err == nil || !strings.Contains(err.Error(), "no answer from the node") {
		t.Errorf("got %v", err)
	}
}

func TestNativeAgentAndFiles(t *testing.T) {
	_, agentOnly, agentPriv := keyFile(t, t.TempDir(), "a", "")
	namedDir := t.TempDir()
	namedPath, named, namedPriv := keyFile(t, namedDir, "named", "")
	dir := home(t, agent.AddedKey{PrivateKey: agentPriv, Comment: "laptop"}, agent.AddedKey{PrivateKey: namedPriv, Comment: "work"})
	filePath, file, _ := keyFile(t, filepath.Join(dir, ".ssh"), "id_ed25519", "")

	var offered []string
	names := map[string]string{string(agentOnly.Marshal()): "agent", string(named.Marshal()): "named", string(file.Marshal()): "file"}
	cfg := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
		if n := names[string(k.Marshal())]; !slices.Contains(offered, n) {
			offered = append(offered, n)
		}
		return nil, errors.New("no")
	}}
	s := serveSSH(t, cfg)
	_, err := plainDial(t, s, Options{Identity: namedPath})
	if want := []string{"named", "agent", "file"}; !slices.Equal(offered, want) {
		t.Errorf("offered %v, want %v", offered, want)
	}
	var auth *AuthError
	if !errors.As(err, &auth) {
		t.Fatalf("got %v", err)
	}
	want := []Attempt{
		{"agent", "work", "ssh-ed25519", ssh.FingerprintSHA256(named), "refused"},
		{"agent", "laptop", "ssh-ed25519", ssh.FingerprintSHA256(agentOnly), "refused"},
		{"file", filePath, "ssh-ed25519", ssh.FingerprintSHA256(file), "refused"},
	}
	if !slices.Equal(auth.Tried, want) || !slices.Equal(auth.Offered, []string{"publickey"}) || auth.User != "op" {
		t.Errorf("got %+v", auth)
	}
	for _, word := range []string{"tried: agent laptop", "the server offers: publickey", "next: "} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q is missing in: %v", word, err)
		}
	}
}

func TestNativeTooManyKeys(t *testing.T) {
	var keys []agent.AddedKey
	for range 7 {
		_, _, k := keyFile(t, t.TempDir(), "k", "")
		keys = append(keys, agent.AddedKey{PrivateKey: k})
	}
	home(t, keys...)
	cfg := acceptKeys()
	cfg.MaxAuthTries = 3
	_, err := plainDial(t, serveSSH(t, cfg), Options{})
	var auth *AuthError
	if !errors.As(err, &auth) || len(auth.Tried) < 3 {
		t.Fatalf("got %v", err)
	}
	if !strings.Contains(err.Error(), "IdentitiesOnly yes") {
		t.Errorf("got %v", err)
	}
}

func TestNativeNoKeys(t *testing.T) {
	home(t)
	_, err := plainDial(t, serveSSH(t, acceptKeys()), Options{})
	var auth *AuthError
	if !errors.As(err, &auth) || len(auth.Tried) != 0 || !strings.Contains(err.Error(), "--identity KEY") {
		t.Errorf("got %v", err)
	}
	_, err = plainDial(t, serveSSH(t, acceptKeys()), Options{Identity: "/nowhere/id"})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing --identity: %v", err)
	}
}

func TestNativePassphrase(t *testing.T) {
	dir := home(t)
	path, locked, _ := keyFile(t, dir, "locked", "open sesame")
	other, _, _ := keyFile(t, dir, "other", "never asked")

	t.Run("asked only for the key that the server takes", func(t *testing.T) {
		p := &answers{list: []string{"wrong", "open sesame"}}
		writeFile(t, filepath.Join(dir, ".ssh", "id_rsa"), readFile(t, other))
		c, err := plainDial(t, serveSSH(t, acceptKeys(locked)), Options{Identity: path, Prompter: p})
		if err != nil {
			t.Fatal(err)
		}
		if len(p.asked) != 2 || p.asked[0].Kind != PromptPassphrase || p.asked[0].Key != path || p.asked[0].Again || !p.asked[1].Again || !c.Info().Prompted {
			t.Errorf("asked %+v, info %+v", p.asked, c.Info())
		}
	})
	t.Run("nobody there", func(t *testing.T) {
		_, err := plainDial(t, serveSSH(t, acceptKeys(locked)), Options{Identity: path})
		var needed *PromptNeededError
		var auth *AuthError
		if !errors.As(err, &needed) || needed.Prompt.Kind != PromptPassphrase || !strings.Contains(err.Error(), "ssh-add "+path) {
			t.Errorf("got %v", err)
		}
		if !errors.As(err, &auth) || !strings.Contains(auth.Tried[0].Result, "passphrase was not given") {
			t.Errorf("got %+v", auth)
		}
	})
	t.Run("declined, the next key is tried", func(t *testing.T) {
		nextPath, next, _ := keyFile(t, filepath.Join(dir, ".ssh"), "id_ed25519", "")
		p := &answers{}
		c, err := plainDial(t, serveSSH(t, acceptKeys(locked, next)), Options{Identity: path, Prompter: p})
		if err != nil {
			t.Fatal(err)
		}
		if c.Info().Auth != "publickey "+nextPath || c.Info().Prompted {
			t.Errorf("info %+v", c.Info())
		}
	})
	t.Run("in the agent already", func(t *testing.T) {
		path, locked, private := keyFile(t, t.TempDir(), "locked", "open sesame")
		home(t, agent.AddedKey{PrivateKey: private, Comment: "unlocked"})
		c, err := plainDial(t, serveSSH(t, acceptKeys(locked)), Options{Identity: path})
		if err != nil {
			t.Fatal(err)
		}
		if c.Info().Auth != "publickey unlocked" {
			t.Errorf("info %+v", c.Info())
		}
	})
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestNativePublicFile names a key of the agent by its public part, as is done
// for keys that never leave a device.
func TestNativePublicFile(t *testing.T) {
	_, other, otherPriv := keyFile(t, t.TempDir(), "other", "")
	_, key, private := keyFile(t, t.TempDir(), "device", "")
	dir := home(t, agent.AddedKey{PrivateKey: otherPriv, Comment: "other"}, agent.AddedKey{PrivateKey: private, Comment: "device"})
	path := writeFile(t, filepath.Join(dir, "device.pub"), string(ssh.MarshalAuthorizedKey(key)))
	c, err := plainDial(t, serveSSH(t, acceptKeys(key, other)), Options{Identity: path})
	if err != nil {
		t.Fatal(err)
	}
	if c.Info().Auth != "publickey device" {
		t.Errorf("info %+v", c.Info())
	}
	home(t)
	_, err = plainDial(t, serveSSH(t, acceptKeys(key)), Options{Identity: path})
	var auth *AuthError
	if !errors.As(err, &auth) || len(auth.Tried) == 0 || !strings.Contains(auth.Tried[0].Result, "the agent does not hold the key") {
		t.Errorf("not in the agent: %v", err)
	}
}

func TestNativeOpenKeyFileIsNotUsed(t *testing.T) {
	dir := home(t)
	path, key, _ := keyFile(t, filepath.Join(dir, ".ssh"), "id_ed25519", "")
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := plainDial(t, serveSSH(t, acceptKeys(key)), Options{})
	var auth *AuthError
	if !errors.As(err, &auth) || !strings.Contains(err.Error(), "chmod 600 "+path) {
		t.Errorf("got %v", err)
	}
}

func TestNativeCertificate(t *testing.T) {
	dir := home(t)
	path, key, _ := keyFile(t, dir, "id", "")
	authority := ed25519Key(t)
	cert := &ssh.Certificate{Key: key, CertType: ssh.UserCert, KeyId: "op-cert", ValidPrincipals: []string{"op"}, ValidBefore: ssh.CertTimeInfinity}
	if err := cert.SignCert(neverEnding{}, authority); err != nil {
		t.Fatal(err)
	}
	writeFile(t, path+"-cert.pub", string(ssh.MarshalAuthorizedKey(cert)))
	checker := &ssh.CertChecker{IsUserAuthority: func(k ssh.PublicKey) bool {
		return string(k.Marshal()) == string(authority.PublicKey().Marshal())
	}}
	c, err := plainDial(t, serveSSH(t, &ssh.ServerConfig{PublicKeyCallback: checker.Authenticate}), Options{Identity: path})
	if err != nil {
		t.Fatal(err)
	}
	if want := "publickey " + path + " certificate op-cert"; c.Info().Auth != want {
		t.Errorf("auth %q, want %q", c.Info().Auth, want)
	}
}

// neverEnding is a source of zeros, enough for a signature that nobody trusts.
type neverEnding struct{}

func (neverEnding) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func TestNativePassword(t *testing.T) {
	home(t)
	cfg := &ssh.ServerConfig{PasswordCallback: func(_ ssh.ConnMetadata, pw []byte) (*ssh.Permissions, error) {
		if string(pw) == "hunter2" {
			return nil, nil
		}
		return nil, errors.New("wrong")
	}}
	s := serveSSH(t, cfg)
	p := &answers{list: []string{"wrong", "hunter2"}}
	c, err := plainDial(t, s, Options{Prompter: p})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.asked) != 2 || p.asked[0].Kind != PromptPassword || p.asked[0].Echo || !c.Info().Prompted || c.Info().Auth != "password" {
		t.Errorf("asked %+v, info %+v", p.asked, c.Info())
	}
	p = &answers{list: []string{"a", "b", "c", "hunter2"}}
	if _, err = plainDial(t, s, Options{Prompter: p}); len(p.asked) != passwordTries {
		t.Errorf("asked %d times: %v", len(p.asked), err)
	}
	p = &answers{}
	if _, err = plainDial(t, s, Options{Prompter: p}); !errors.Is(err, ErrCanceled) || len(p.asked) != 1 {
		t.Errorf("declined: %v after %d questions", err, len(p.asked))
	}
	var needed *PromptNeededError
	absent := PrompterFunc(func(context.Context, Prompt) (string, error) { return "", ErrNoPrompts })
	if _, err = plainDial(t, s, Options{Prompter: absent}); !errors.As(err, &needed) {
		t.Errorf("a prompter without a person: %v", err)
	}
	if _, err = plainDial(t, s, Options{}); !errors.As(err, &needed) || needed.Prompt.Kind != PromptPassword || !strings.Contains(err.Error(), "the server offers: password") {
		t.Errorf("nobody there: %v", err)
	}
}

// TestNativeTwoFactors needs a key and then a code.
func TestNativeTwoFactors(t *testing.T) {
	dir := home(t)
	path, key, _ := keyFile(t, dir, "id", "")
	dialog := func(_ ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
		got, err := ask("Second factor", "Look at your phone.", []string{"Verification code: ", "Favourite colour: "}, []bool{false, true})
		if err != nil || len(got) != 2 || got[0] != "123456" || got[1] != "red" {
			return nil, errors.New("wrong")
		}
		return nil, nil
	}
	cfg := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
		if string(k.Marshal()) != string(key.Marshal()) {
			return nil, errors.New("unknown key")
		}
		return nil, &ssh.PartialSuccessError{Next: ssh.ServerAuthCallbacks{KeyboardInteractiveCallback: dialog}}
	}}
	p := &answers{list: []string{"000000", "red", "123456", "red"}}
	c, err := plainDial(t, serveSSH(t, cfg), Options{Identity: path, Prompter: p})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.asked) != 4 || p.asked[0].Kind != PromptOTP || p.asked[0].Echo || p.asked[1].Kind != PromptText || !p.asked[1].Echo ||
		!strings.Contains(p.asked[0].Text, "Look at your phone.") {
		t.Errorf("asked %+v", p.asked)
	}
	if c.Info().Auth != "keyboard-interactive" || !c.Info().Prompted {
		t.Errorf("info %+v", c.Info())
	}
}

// TestNativePromptStopsClock lets a person think longer than the login may take.
func TestNativePromptStopsClock(t *testing.T) {
	home(t)
	s := serveSSH(t, &ssh.ServerConfig{PasswordCallback: func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) { return nil, nil }})
	const limit = 200 * time.Millisecond
	_, err := plainDial(t, s, Options{Timeout: limit, Prompter: PrompterFunc(func(context.Context, Prompt) (string, error) {
		<-time.After(limit + limit/2)
		return "x", nil
	})})
	if err != nil {
		t.Error(err)
	}
}

func TestNativeUnreachable(t *testing.T) {
	home(t)
	target, err := ParseTarget("op@" + silentAddr(t))
	if err != nil {
		t.Fatal(err)
	}
	_, err = Dial(t.Context(), target, Options{Dialer: DialerNative, Plain: true})
	var un *UnreachableError
	if !errors.As(err, &un) || un.Op != "connect" || !strings.Contains(un.Hint, "nothing listens") {
		t.Errorf("got %v", err)
	}
}

func TestDialRefuses(t *testing.T) {
	for _, tt := range []struct {
		target Target
		dialer string
	}{
		{Target{Host: "-oProxyCommand=x"}, ""},
		{Target{Host: ""}, ""},
		{Target{Host: "h", User: "-x"}, ""},
		{Target{Host: "h"}, "telnet"},
	} {
		if c, err := Dial(t.Context(), tt.target, Options{Dialer: tt.dialer}); err == nil {
			_ = c.Close()
			t.Errorf("Dial(%+v, %q) gave no error", tt.target, tt.dialer)
		}
	}
}
