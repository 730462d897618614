package remote

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrClosed is the reason of a connection that was closed on purpose.
	ErrClosed = errors.New("closed")
	// ErrLinkDown marks an operation on a connection that has ended.
	ErrLinkDown = errors.New("the connection is down")
	// ErrForwardingProhibited means that the node's SSH server forbids TCP
	// forwarding (AllowTcpForwarding, PermitOpen): use a program on the node.
	ErrForwardingProhibited = errors.New("the SSH server forbids TCP forwarding (AllowTcpForwarding or PermitOpen)")
	// ErrConnectRefused means that the node could not connect: nothing listens
	// there, or the address cannot be reached from the node.
	ErrConnectRefused = errors.New("connection refused on the node")
	// ErrSessionLimit means that the SSH server grants no further session on
	// this connection (MaxSessions).
	ErrSessionLimit = errors.New("the SSH server grants no further session on this connection (MaxSessions)")
	// ErrCanceled means that a person declined a prompt.
	ErrCanceled = errors.New("canceled at a prompt")
)

// UnreachableError means that no SSH server answered, or that it stopped
// answering before the login. Op is "resolve", "connect" or "handshake".
type UnreachableError struct {
	Op   string
	Addr string
	Hint string // what to try
	Err  error
}

func (e *UnreachableError) Error() string {
	s := fmt.Sprintf("cannot reach %s (%s): %v", e.Addr, e.Op, e.Err)
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

func (e *UnreachableError) Unwrap() error { return e.Err }

// HostKeyError means that the host key was not accepted: it differs from the
// known one, is revoked, or belongs to an unknown host that nobody confirmed.
type HostKeyError struct {
	Host        string // as looked up in known_hosts
	Type        string // of the key that was presented, e.g. "ssh-ed25519"; may be empty
	Fingerprint string // SHA256:… of the key that was presented; may be empty
	// Changed is true when another key is known for the host.
	Changed bool
	// Revoked is true when the presented key is marked @revoked.
	Revoked bool
	Known   []KnownKey // where the known keys are, as far as told
	Err     error
}

// KnownKey is one line of a known_hosts file.
type KnownKey struct {
	File        string
	Line        int
	Type        string
	Fingerprint string
}

func (e *HostKeyError) Error() string {
	var b strings.Builder
	presented := strings.TrimSpace(e.Type + " " + e.Fingerprint)
	if presented == "" {
		presented = "a key"
	}
	switch {
	case e.Revoked:
		fmt.Fprintf(&b, "the host key of %s (%s) is marked as revoked", e.Host, presented)
	case e.Changed:
		fmt.Fprintf(&b, "the host key of %s has changed: it presented %s", e.Host, presented)
	default:
		fmt.Fprintf(&b, "the host key of %s (%s) is unknown and was not accepted", e.Host, presented)
	}
	for _, k := range e.Known {
		fmt.Fprintf(&b, "; known: %s", strings.TrimSpace(k.Type+" "+k.Fingerprint))
		if k.File != "" {
			fmt.Fprintf(&b, " at %s:%d", k.File, k.Line)
		}
	}
	switch {
	case e.Changed:
		fmt.Fprintf(&b, ". Either the node was installed anew or someone answers in its place. Ask its owner; if the new key is right, remove the old one with: ssh-keygen -R %s", quoteName(e.Host))
	case e.Revoked:
		b.WriteString(". Do not connect; ask the node's owner")
	case e.Err != nil:
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

func (e *HostKeyError) Unwrap() error { return e.Err }

// Attempt is one credential that was offered, or could not be.
type Attempt struct {
	Source      string // "agent", "file", "password", "keyboard-interactive"
	Name        string // path of a file, comment of an agent's key
	Type        string // e.g. "ssh-ed25519"
	Fingerprint string // SHA256:…
	Result      string // "refused", "not used: needs its passphrase", …
}

func (a Attempt) String() string {
	s := a.Source
	for _, part := range []string{a.Name, a.Type, a.Fingerprint} {
		if part != "" {
			s += " " + part
		}
	}
	if a.Result != "" {
		s += " (" + a.Result + ")"
	}
	return s
}

// AuthError means that the server refused the login.
type AuthError struct {
	User, Host string
	Tried      []Attempt
	Offered    []string // methods that the server offers, empty if not told
	Advice     []string // what to do next, most likely first
	Err        error    // the library's or the server's own words
}

func (e *AuthError) Error() string { return strings.Join(e.Lines(), "; ") }

// libraryRefusal is the native library's text for every refused login. It adds
// nothing to the lines before it.
const libraryRefusal = "unable to authenticate"

// Lines is the explanation for a dialog, one fact a line.
func (e *AuthError) Lines() []string {
	lines := []string{fmt.Sprintf("%s refused the login as %s", e.Host, e.User)}
	if len(e.Tried) == 0 {
		lines = append(lines, "tried: nothing, there was no key to offer")
	}
	for _, a := range e.Tried {
		lines = append(lines, "tried: "+a.String())
	}
	if len(e.Offered) > 0 {
		lines = append(lines, "the server offers: "+strings.Join(e.Offered, ", "))
	}
	for _, a := range e.Advice {
		lines = append(lines, "next: "+a)
	}
	if e.Err != nil && !strings.Contains(e.Err.Error(), libraryRefusal) {
		lines = append(lines, fmt.Sprintf("said: %v", e.Err))
	}
	return lines
}

func (e *AuthError) Unwrap() error { return e.Err }

// PromptNeededError means that the login asked something that only a person
// can answer, and nobody was there. Advice says how to accept or unlock.
type PromptNeededError struct {
	Prompt Prompt
	Advice string
	Err    error // what the login ended with, may be nil
}

func (e *PromptNeededError) Error() string {
	s := fmt.Sprintf("the login needs a person: %s", e.Prompt.Kind.what())
	if e.Prompt.Host != "" {
		s += " for " + e.Prompt.Host
	}
	if e.Prompt.Key != "" {
		s += " (" + e.Prompt.Key + ")"
	}
	if e.Prompt.Fingerprint != "" {
		s += " " + e.Prompt.Fingerprint
	}
	s += ". " + e.Advice
	var auth *AuthError
	if errors.As(e.Err, &auth) {
		s += " (" + auth.Error() + ")"
	}
	return s
}

func (e *PromptNeededError) Unwrap() error { return e.Err }

// needsPerson tells errors that trying again alone cannot mend.
func needsPerson(err error) bool {
	var prompt *PromptNeededError
	var host *HostKeyError
	return errors.As(err, &prompt) || errors.As(err, &host) || errors.Is(err, ErrCanceled)
}
