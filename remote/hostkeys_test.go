package remote

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"
)

// TestHostKeys holds the native dialer to what OpenSSH does with the same
// known_hosts and a server that has ed25519, rsa and ecdsa keys.
func TestHostKeys(t *testing.T) {
	home(t)
	user := ed25519Key(t)
	ed, ec, rs, other := ed25519Key(t), ecdsaKey(t), rsaKey(t), ed25519Key(t)
	s := serveSSH(t, acceptKeys(user.PublicKey()), rs, ec, ed)
	line := func(pattern string, key ssh.Signer) string {
		return pattern + " " + string(ssh.MarshalAuthorizedKey(key.PublicKey()))
	}
	addr := fmt.Sprintf("[127.0.0.1]:%d", s.port)
	const (
		ok      = "ok"
		unknown = "unknown"
		changed = "changed"
		revoked = "revoked"
	)
	tests := []struct {
		name    string
		content string
		want    string
		line    int // of the known key that an error names
	}{
		{"only ed25519", line(addr, ed), ok, 0},
		{"only ed25519, hashed", line(xknownhosts.HashHostname(addr), ed), ok, 0},
		{"only rsa", line(addr, rs), ok, 0},
		{"only ecdsa", line(addr, ec), ok, 0},
		{"wildcard", line("*", ed), ok, 0},
		{"wildcard of addresses", line("127.*", ec), ok, 0},
		{"negation", line("!1.2.3.4,*", ed), ok, 0},
		{"negation of this host", line("!127.0.0.1,*", ed), unknown, 0},
		{"authority and plain key", line("@cert-authority *", other) + line(addr, ed), ok, 0},
		{"only an authority", line("@cert-authority *", other), unknown, 0},
		{"revoked ed25519 and ecdsa", line("@revoked *", ed) + line(addr, ec), ok, 0},
		{"revoked", line("@revoked *", ed) + line(addr, ed), revoked, 1},
		{"changed", "# comment\n\n" + line(addr, other), changed, 3},
		{"changed, though the bare name fits", line(addr, other) + line("127.0.0.1", ed), changed, 1},
		{"changed, though a wildcard fits (OpenSSH accepts this)", line(addr, other) + line("*", ed), changed, 1},
		{"known with a type that the server has not", line(addr, signerOf(t, p384(t), nil)) + line(addr, ed), ok, 0},
		{"junk lines before", "junk\n" + addr + " ssh-ed25519\n" + addr + " ssh-dss AAAAB3NzaC1kc3M=\n" + addr + " ssh-new AAAA\n" + line(addr, ed), ok, 0},
		{"only junk", "junk\n", unknown, 0},
		{"another port", line("[127.0.0.1]:9", ed), unknown, 0},
		{"the bare name with the same key", line("127.0.0.1", ed), ok, 0},
		{"the bare name with another key", line("127.0.0.1", other), unknown, 0},
		{"empty", "", unknown, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := writeFile(t, filepath.Join(t.TempDir(), "known_hosts"), tt.content)
			_, err := plainDial(t, s, Options{Signer: user, KnownHosts: []string{file, "/nowhere/known_hosts2"}})
			var host *HostKeyError
			got := ok
			switch {
			case errors.As(err, &host) && host.Changed:
				got = changed
			case errors.As(err, &host) && host.Revoked:
				got = revoked
			case errors.As(err, &host):
				got = unknown
			case err != nil:
				got = err.Error()
			}
			if got != tt.want {
				t.Fatalf("got %s (%v), want %s", got, err, tt.want)
			}
			if tt.line > 0 && (len(host.Known) == 0 || host.Known[0].File != file || host.Known[0].Line != tt.line ||
				!strings.Contains(err.Error(), fmt.Sprintf("%s:%d", file, tt.line))) {
				t.Errorf("known keys %+v in %v", host.Known, err)
			}
			if tt.want == unknown && host.Type != ssh.KeyAlgoED25519 {
				t.Errorf("an unknown host was asked for its %s key", host.Type)
			}
		})
	}
}

func TestHostKeyOnlyOtherTypeKnown(t *testing.T) {
	home(t)
	user, ed, rs := ed25519Key(t), ed25519Key(t), rsaKey(t)
	s := serveSSH(t, acceptKeys(user.PublicKey()), rs)
	file := writeFile(t, filepath.Join(t.TempDir(), "known_hosts"), s.knownLine(ed.PublicKey()))
	_, err := plainDial(t, s, Options{Signer: user, KnownHosts: []string{file}, Prompter: &answers{list: []string{"yes"}}})
	var host *HostKeyError
	if !errors.As(err, &host) || !host.Changed || host.Type != ssh.KeyAlgoRSA {
		t.Errorf("got %v", err)
	}
}

func TestHostKeyFixed(t *testing.T) {
	home(t)
	user := ed25519Key(t)
	s := serveSSH(t, acceptKeys(user.PublicKey()))
	_, err := plainDial(t, s, Options{Signer: user, HostKey: ed25519Key(t).PublicKey()})
	var host *HostKeyError
	if !errors.As(err, &host) || !host.Changed {
		t.Errorf("got %v", err)
	}
}

func TestHostKeyCertificate(t *testing.T) {
	home(t)
	user, host, authority := ed25519Key(t), ed25519Key(t), ed25519Key(t)
	cert := &ssh.Certificate{Key: host.PublicKey(), CertType: ssh.HostCert, ValidPrincipals: []string{"127.0.0.1"}, ValidBefore: ssh.CertTimeInfinity}
	if err := cert.SignCert(neverEnding{}, authority); err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewCertSigner(cert, host)
	if err != nil {
		t.Fatal(err)
	}
	s := serveSSH(t, acceptKeys(user.PublicKey()), signer)
	file := writeFile(t, filepath.Join(t.TempDir(), "known_hosts"), "@cert-authority "+s.knownLine(authority.PublicKey()))
	if _, err := plainDial(t, s, Options{Signer: user, KnownHosts: []string{file}}); err != nil {
		t.Errorf("a certificate of the known authority: %v", err)
	}
	file = writeFile(t, file, "@cert-authority "+s.knownLine(ed25519Key(t).PublicKey()))
	if _, err := plainDial(t, s, Options{Signer: user, KnownHosts: []string{file}}); err == nil {
		t.Error("a certificate of another authority was accepted")
	}
}

func TestHostKeyIsRemembered(t *testing.T) {
	home(t)
	user := ed25519Key(t)
	s := serveSSH(t, acceptKeys(user.PublicKey()), rsaKey(t), ed25519Key(t))
	file := filepath.Join(t.TempDir(), "new", "known_hosts")
	o := Options{Signer: user, KnownHosts: []string{file}}

	var needed *PromptNeededError
	_, err := plainDial(t, s, o)
	if !errors.As(err, &needed) || needed.Prompt.Kind != PromptHostKey || needed.Prompt.Fingerprint == "" ||
		!strings.Contains(err.Error(), fmt.Sprintf("ssh -p %d op@127.0.0.1", s.port)) {
		t.Fatalf("nobody there: %v", err)
	}
	p := &answers{list: []string{"SHA256:something-else"}}
	o.Prompter = p
	if _, err := plainDial(t, s, o); !errors.Is(err, ErrCanceled) {
		t.Errorf("wrong fingerprint: %v", err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a refused key was remembered")
	}
	p.list = []string{needed.Prompt.Fingerprint}
	c, err := plainDial(t, s, o)
	if err != nil {
		t.Fatal(err)
	}
	if c.Info().Prompted {
		t.Error("a host key counts as a prompt that comes again")
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("known_hosts: %v, %v", info.Mode(), err)
	}
	if got := readFile(t, file); !strings.HasPrefix(got, fmt.Sprintf("[127.0.0.1]:%d ssh-ed25519 ", s.port)) || strings.Count(got, "\n") != 1 {
		t.Errorf("known_hosts: %q", got)
	}
	o.Prompter = nil
	if _, err := plainDial(t, s, o); err != nil {
		t.Errorf("known now: %v", err)
	}
}

func TestHostKeyAppendsWholeLines(t *testing.T) {
	home(t)
	user := ed25519Key(t)
	s := serveSSH(t, acceptKeys(user.PublicKey()))
	file := writeFile(t, filepath.Join(t.TempDir(), "known_hosts"), "# no newline at the end")
	o := Options{Signer: user, KnownHosts: []string{file}, Prompter: &answers{list: []string{"yes"}}}
	if _, err := plainDial(t, s, o); err != nil {
		t.Fatal(err)
	}
	if got := readFile(t, file); !strings.HasPrefix(got, "# no newline at the end\n[127.0.0.1]:") {
		t.Errorf("known_hosts: %q", got)
	}
}

func TestHostKeyStrictness(t *testing.T) {
	home(t)
	user := ed25519Key(t)
	s := serveSSH(t, acceptKeys(user.PublicKey()))
	for strict, accept := range map[string]bool{"yes": false, "accept-new": true, "no": true} {
		file := filepath.Join(t.TempDir(), "known_hosts")
		st := settings{original: "gpu7", host: s.host, port: s.port, user: "op", strict: strict, knownHosts: []string{file}, hashHosts: true, hostKeyAlias: "gpu7"}
		c, err := dialResolved(t.Context(), Target{Host: "gpu7"}, Options{Signer: user, Prompter: &answers{list: []string{"yes"}}}, st, nil)
		if (err == nil) != accept {
			t.Errorf("StrictHostKeyChecking %s: %v", strict, err)
		}
		if err != nil {
			continue
		}
		_ = c.Close()
		if got := readFile(t, file); !strings.HasPrefix(got, "|1|") {
			t.Errorf("HashKnownHosts wrote %q", got)
		}
		st.strict = "yes"
		if c, err = dialResolved(t.Context(), Target{Host: "gpu7"}, Options{Signer: user}, st, nil); err != nil {
			t.Errorf("known under its alias now: %v", err)
			continue
		}
		_ = c.Close()
	}
}
