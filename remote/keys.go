package remote

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// credential is one key that can be offered. signer is nil for a file whose
// public part is not known: it must be decrypted before it can be offered.
type credential struct {
	Attempt
	signer ssh.Signer
	load   func() (ssh.Signer, error)
}

// keyring collects the keys for one login in the order in which they are
// offered: each one costs a try, of which servers grant about six.
type keyring struct {
	ctx   context.Context
	asker *asker
	agent []credential
	files []credential
	notes []Attempt // keys that cannot be offered, and why
	certs []*ssh.Certificate
	conn  io.Closer
}

func (k *keyring) close() {
	if k.conn != nil {
		k.conn.Close()
	}
}

// collect returns the credentials: the explicit identity, keys of the agent
// that the configuration names, other keys of the agent, files.
func (k *keyring) collect(s settings, o Options) ([]credential, error) {
	if o.Signer != nil {
		return []credential{{Attempt: describe("file", "given key", o.Signer.PublicKey()), signer: o.Signer}}, nil
	}
	k.readAgent(s.agent)
	files := s.identityFiles
	if o.Identity != "" {
		files = append([]string{o.Identity}, files...)
	}
	for _, f := range s.certFiles {
		k.readCert(f)
	}
	for _, f := range files {
		if err := k.readFile(f); err != nil && f == o.Identity {
			return nil, err
		}
	}
	return k.withCerts(k.order(s.onlyIdentity, o.Identity)), nil
}

func (k *keyring) order(only bool, explicit string) []credential {
	byKey := map[string]credential{}
	for _, c := range k.agent {
		byKey[c.Fingerprint] = c
	}
	var first, named, later, blind []credential
	used := map[string]bool{}
	for _, f := range k.files {
		held, inAgent := byKey[f.Fingerprint]
		switch {
		case f.Fingerprint != "" && used[f.Fingerprint]:
			continue
		case f.Fingerprint == "" && f.Name == explicit:
			first = append(first, f)
		case f.Fingerprint == "":
			blind = append(blind, f)
		case f.Name == explicit && inAgent:
			first = append(first, held)
		case f.Name == explicit:
			first = append(first, f)
		case inAgent:
			named = append(named, held)
		default:
			later = append(later, f)
		}
		used[f.Fingerprint] = true
	}
	out := append(first, named...)
	for _, c := range k.agent {
		if !only && !used[c.Fingerprint] {
			out = append(out, c)
		}
	}
	out = append(out, later...)
	return append(out, blind...)
}

// withCerts puts a certificate before the key that it is for.
func (k *keyring) withCerts(list []credential) []credential {
	var out []credential
	for _, c := range list {
		for _, cert := range k.certs {
			if c.signer == nil || !bytes.Equal(cert.Key.Marshal(), c.signer.PublicKey().Marshal()) {
				continue
			}
			signer, err := ssh.NewCertSigner(cert, c.signer)
			if err != nil {
				continue
			}
			a := describe(c.Source, c.Name, cert)
			a.Name = strings.TrimSpace(a.Name + " certificate " + cert.KeyId)
			out = append(out, credential{Attempt: a, signer: signer})
		}
		out = append(out, c)
	}
	return out
}

func describe(source, name string, key ssh.PublicKey) Attempt {
	return Attempt{Source: source, Name: name, Type: key.Type(), Fingerprint: ssh.FingerprintSHA256(key)}
}

const agentTimeout = 5 * time.Second

// readAgent lists the keys of the agent. An agent that does not answer costs
// its keys, not the login.
func (k *keyring) readAgent(socket string) {
	if socket == "" {
		return
	}
	fail := func(err error) {
		k.notes = append(k.notes, Attempt{Source: "agent", Name: socket, Result: fmt.Sprintf("not usable: %v", err)})
	}
	d := net.Dialer{Timeout: agentTimeout}
	conn, err := d.DialContext(k.ctx, "unix", socket)
	if err != nil {
		fail(err)
		return
	}
	client := agent.NewClient(conn)
	_ = conn.SetDeadline(time.Now().Add(agentTimeout))
	keys, err := client.List()
	var signers []ssh.Signer
	if err == nil {
		signers, err = client.Signers()
	}
	_ = conn.SetDeadline(time.Time{})
	if err != nil {
		conn.Close()
		fail(err)
		return
	}
	k.conn = conn
	comment := map[string]string{}
	for _, key := range keys {
		comment[string(key.Blob)] = key.Comment
	}
	for _, s := range signers {
		pub := s.PublicKey()
		if strings.HasPrefix(pub.Type(), "sk-") {
			s = &touchSigner{Signer: s, ctx: k.ctx, asker: k.asker, name: comment[string(pub.Marshal())]}
		}
		k.agent = append(k.agent, credential{Attempt: describe("agent", comment[string(pub.Marshal())], parsed(pub)), signer: s})
	}
	if len(signers) == 0 {
		k.notes = append(k.notes, Attempt{Source: "agent", Result: "holds no keys"})
	}
}

// parsed turns the agent's own key type into the library's.
func parsed(pub ssh.PublicKey) ssh.PublicKey {
	if p, err := ssh.ParsePublicKey(pub.Marshal()); err == nil {
		return p
	}
	return pub
}

func (k *keyring) readCert(file string) {
	b, err := os.ReadFile(file)
	if err != nil {
		return
	}
	pub, _, _, _, err := ssh.ParseAuthorizedKey(b)
	if err != nil {
		return
	}
	if cert, ok := pub.(*ssh.Certificate); ok {
		k.certs = append(k.certs, cert)
	}
}

// readFile adds the key in file. A missing file is an error that only matters
// for an explicit one; what else is wrong becomes a note.
func (k *keyring) readFile(file string) error {
	note := func(format string, args ...any) error {
		why := fmt.Sprintf(format, args...)
		k.notes = append(k.notes, Attempt{Source: "file", Name: file, Result: "not used: " + why})
		return fmt.Errorf("identity file %s: %s", file, why)
	}
	pub := publicPart(file)
	b, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		if pub != nil {
			k.addPublic(file, pub)
			return nil
		}
		return fmt.Errorf("identity file: %w", err)
	}
	if err != nil {
		return note("%v", err)
	}
	if pub, _, _, _, err := ssh.ParseAuthorizedKey(b); err == nil {
		k.addPublic(file, pub)
		return nil
	}
	if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o077 != 0 {
		return note("others may read it; chmod 600 %s", file)
	}
	k.readCert(file + "-cert.pub")
	signer, err := ssh.ParsePrivateKey(b)
	var locked *ssh.PassphraseMissingError
	switch {
	case err == nil:
		k.files = append(k.files, credential{Attempt: describe("file", file, signer.PublicKey()), signer: signer})
	case errors.As(err, &locked):
		if locked.PublicKey != nil {
			pub = locked.PublicKey
		}
		k.addLocked(file, b, pub)
	default:
		return note("%v", err)
	}
	return nil
}

// addPublic adds a public key that names one of the agent's.
func (k *keyring) addPublic(file string, pub ssh.PublicKey) {
	k.files = append(k.files, credential{Attempt: describe("file", file, pub), load: func() (ssh.Signer, error) {
		return nil, errors.New("only the public part is here, and the agent does not hold the key")
	}})
}

func publicPart(file string) ssh.PublicKey {
	b, err := os.ReadFile(file + ".pub")
	if err != nil {
		return nil
	}
	pub, _, _, _, err := ssh.ParseAuthorizedKey(b)
	if err != nil {
		return nil
	}
	return pub
}

// addLocked adds an encrypted key. Where its public part is known the key is
// offered first and its passphrase asked only if the server accepts it.
func (k *keyring) addLocked(file string, pem []byte, pub ssh.PublicKey) {
	load := func() (ssh.Signer, error) { return k.unlock(file, pem) }
	c := credential{Attempt: Attempt{Source: "file", Name: file}, load: load}
	if pub != nil {
		c.Attempt = describe("file", file, pub)
		c.signer = &lazySigner{pub: pub, load: load}
	}
	k.files = append(k.files, c)
}

const passphraseTries = 3

func (k *keyring) unlock(file string, pem []byte) (ssh.Signer, error) {
	text := fmt.Sprintf("Enter the passphrase of %s", file)
	for range passphraseTries {
		pass, err := k.asker.ask(k.ctx, Prompt{Kind: PromptPassphrase, Text: text, Key: file})
		if err != nil {
			return nil, err
		}
		signer, err := ssh.ParsePrivateKeyWithPassphrase(pem, []byte(pass))
		if err == nil {
			return signer, nil
		}
		if !errors.Is(err, x509.IncorrectPasswordError) {
			return nil, err
		}
	}
	return nil, errors.New("wrong passphrase")
}

// lazySigner loads its key when the server has accepted it.
type lazySigner struct {
	pub    ssh.PublicKey
	load   func() (ssh.Signer, error)
	loaded ssh.Signer
}

func (l *lazySigner) PublicKey() ssh.PublicKey { return l.pub }

func (l *lazySigner) Algorithms() []string {
	if l.pub.Type() == ssh.KeyAlgoRSA {
		return []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSA}
	}
	return []string{l.pub.Type()}
}

func (l *lazySigner) Sign(rand io.Reader, data []byte) (*ssh.Signature, error) {
	return l.SignWithAlgorithm(rand, data, "")
}

func (l *lazySigner) SignWithAlgorithm(rand io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	if l.loaded == nil {
		s, err := l.load()
		if err != nil {
			return nil, err
		}
		l.loaded = s
	}
	if s, ok := l.loaded.(ssh.AlgorithmSigner); ok {
		return s.SignWithAlgorithm(rand, data, algorithm)
	}
	return l.loaded.Sign(rand, data)
}

// touchSigner tells a person to touch the security key when it takes long.
type touchSigner struct {
	ssh.Signer
	ctx   context.Context
	asker *asker
	name  string
}

const touchAfter = time.Second

func (t *touchSigner) Sign(rand io.Reader, data []byte) (*ssh.Signature, error) {
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	shown := time.AfterFunc(touchAfter, func() {
		_, _ = t.asker.ask(ctx, Prompt{Kind: PromptTouch, Text: "Touch your security key " + t.name, Key: t.name})
	})
	defer shown.Stop()
	return t.Signer.Sign(rand, data)
}
