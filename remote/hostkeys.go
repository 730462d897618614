package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"
)

// hostKeys checks the key of one host against the known_hosts files, as
// OpenSSH does: entries for the port first; where there are none, those for
// the bare name (and so for wildcards) can accept a key but never refuse one.
type hostKeys struct {
	ctx    context.Context
	db     *knownhosts.HostKeyDB
	addr   string // host:port, the name under which keys are looked up
	bare   string // host:22, the same as addr for port 22
	name   string // as known_hosts writes addr
	strict string
	hash   bool
	store  string // file that new keys are appended to
	asker  *asker
	failed *HostKeyError // the refusal, which the library may wrap beyond recognition
}

func newHostKeys(ctx context.Context, s settings, a *asker) (*hostKeys, error) {
	h := &hostKeys{ctx: ctx, strict: s.strict, hash: s.hashHosts, asker: a}
	if len(s.knownHosts) > 0 {
		h.store = s.knownHosts[0]
	}
	h.addr = net.JoinHostPort(s.host, strconv.Itoa(s.port))
	h.bare = net.JoinHostPort(s.host, "22")
	if s.hostKeyAlias != "" {
		h.addr = net.JoinHostPort(s.hostKeyAlias, "22") // ssh writes an alias without a port
		h.bare = h.addr
	}
	h.name = knownhosts.Normalize(h.addr)
	db, err := knownhosts.NewDB(readable(slices.Concat(s.knownHosts, s.globalHosts))...)
	if err != nil {
		return nil, fmt.Errorf("read known_hosts: %w", err)
	}
	h.db = db
	return h, nil
}

// readable drops files that are missing, closed to us or have no valid line:
// ssh ignores all three.
func readable(files []string) []string {
	var ok []string
	for _, f := range files {
		if _, err := xknownhosts.New(f); err == nil {
			ok = append(ok, f)
		}
	}
	return ok
}

// preferred are the host key algorithms in the order in which a key is wanted
// from a host that is not known: what OpenSSH would record.
var preferred = []string{
	ssh.KeyAlgoED25519,
	ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
	ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256,
}

// algorithms asks for keys of the known types first. The others follow, so
// that a server without them is seen as a changed key and not as a failed
// negotiation.
func (h *hostKeys) algorithms() []string {
	algos := h.db.HostKeyAlgorithms(h.addr)
	if len(algos) == 0 && h.bare != h.addr {
		algos = h.db.HostKeyAlgorithms(h.bare)
	}
	for _, a := range preferred {
		if !slices.Contains(algos, a) {
			algos = append(algos, a)
		}
	}
	return algos
}

func (h *hostKeys) check(_ string, _ net.Addr, key ssh.PublicKey) error {
	// The address of a proxied connection means nothing, and keys are looked
	// up by name only.
	remote := &net.TCPAddr{IP: net.IPv4zero, Port: 22}
	callback := h.db.HostKeyCallback()
	err := callback(h.addr, remote, key)
	if err == nil {
		return nil
	}
	refusal := &HostKeyError{Host: h.name, Type: key.Type(), Fingerprint: ssh.FingerprintSHA256(key)}
	var revoked *xknownhosts.RevokedError
	if errors.As(err, &revoked) {
		refusal.Revoked = true
		refusal.Known = []KnownKey{knownKey(revoked.Revoked.Filename, revoked.Revoked.Line, revoked.Revoked.Key)}
		return h.refuse(refusal)
	}
	if known := h.plainKeys(err); len(known) > 0 {
		refusal.Changed, refusal.Known = true, known
		return h.refuse(refusal)
	}
	var keyErr *xknownhosts.KeyError
	if !errors.As(err, &keyErr) {
		refusal.Err = err // a certificate that is expired, for another host, or of an unknown authority
		return h.refuse(refusal)
	}
	if h.bare != h.addr && callback(h.bare, remote, key) == nil {
		return nil
	}
	return h.unknown(refusal, key)
}

// plainKeys are the keys that err says were expected, without authorities: a
// host that is known only through one is not known by this key.
func (h *hostKeys) plainKeys(err error) []KnownKey {
	var keyErr *xknownhosts.KeyError
	if !errors.As(err, &keyErr) {
		return nil
	}
	authority := map[string]bool{}
	for _, k := range h.db.HostKeys(h.addr) {
		if k.Cert {
			authority[string(k.Marshal())] = true
		}
	}
	var known []KnownKey
	for _, w := range keyErr.Want {
		if !authority[string(w.Key.Marshal())] {
			known = append(known, knownKey(w.Filename, w.Line, w.Key))
		}
	}
	return known
}

func knownKey(file string, line int, key ssh.PublicKey) KnownKey {
	return KnownKey{File: file, Line: line, Type: key.Type(), Fingerprint: ssh.FingerprintSHA256(key)}
}

func (h *hostKeys) refuse(e *HostKeyError) error {
	h.failed = e
	return e
}

func (h *hostKeys) unknown(refusal *HostKeyError, key ssh.PublicKey) error {
	switch h.strict {
	case "yes":
		refusal.Err = errors.New("StrictHostKeyChecking is yes, so only known hosts are accepted")
		return h.refuse(refusal)
	case "no", "accept-new":
		return h.remember(key)
	}
	answer, err := h.asker.ask(h.ctx, Prompt{
		Kind:        PromptHostKey,
		Text:        fmt.Sprintf("The host %s is not known. Its %s key has the fingerprint %s. Connect, and remember it?", h.name, key.Type(), refusal.Fingerprint),
		Host:        h.name,
		KeyType:     key.Type(),
		Fingerprint: refusal.Fingerprint,
		Echo:        true,
	})
	if err == nil && !accepts(answer, refusal.Fingerprint) {
		err = ErrCanceled
	}
	if err != nil {
		refusal.Err = err
		return h.refuse(refusal)
	}
	return h.remember(key)
}

// remember appends the key, readable by the user only if the file is new.
func (h *hostKeys) remember(key ssh.PublicKey) error {
	if h.store == "" || h.store == "none" || h.store == os.DevNull {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(h.store), 0o700); err != nil {
		return fmt.Errorf("remember the host key: %w", err)
	}
	f, err := os.OpenFile(h.store, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("remember the host key: %w", err)
	}
	name := h.name
	if h.hash {
		name = xknownhosts.HashHostname(name)
	}
	line := name + " " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))) + "\n"
	if !endsLine(f) {
		line = "\n" + line
	}
	_, err = f.WriteString(line)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("remember the host key in %s: %w", h.store, err)
	}
	return nil
}

// endsLine tells whether f is empty or ends with a newline.
func endsLine(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return true
	}
	var last [1]byte
	_, err = f.ReadAt(last[:], info.Size()-1)
	return err != nil || last[0] == '\n'
}
