package remote

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// sshLog reads what "ssh -v" tells on its standard error: the only source for
// what was tried in a login. It keeps the last words for an explanation.
type sshLog struct {
	mu            sync.Mutex
	serverVersion string
	user          string
	host          string
	port          int
	auth          string
	accepted      string // the key that the server accepted
	tried         []Attempt
	offered       []string
	said          []string // lines that are not debug output
	hostKey       *HostKeyError
	connected     bool // a server took the connection
}

const maxSaid = 40

var (
	authAsRE     = regexp.MustCompile(`^debug1: Authenticating to (.+):(\d+) as '(.*)'`)
	versionRE    = regexp.MustCompile(`^debug1: Remote protocol version ([0-9.]+), remote software version (.*)`)
	offeringRE   = regexp.MustCompile(`^debug1: Offering public key: (.*?) ([A-Z0-9-]+) (SHA256:\S+)(.*)`)
	acceptsRE    = regexp.MustCompile(`^debug1: Server accepts key: (.*?) [A-Z0-9-]+ SHA256:`)
	tryingRE     = regexp.MustCompile(`^debug1: Trying private key: (.*)`)
	continueRE   = regexp.MustCompile(`^debug1: Authentications that can continue: (.*)`)
	nextRE       = regexp.MustCompile(`^debug1: Next authentication method: (.*)`)
	doneRE       = regexp.MustCompile(`^Authenticated to (.+) \(.*\) using "(.*)"`)
	presentedRE  = regexp.MustCompile(`^debug1: Server host key: (\S+) (SHA256:\S+)`)
	offendingRE  = regexp.MustCompile(`^Offending (?:(\S+) )?key in (.+):(\d+)`)
	changedRE    = regexp.MustCompile(`REMOTE HOST IDENTIFICATION HAS CHANGED|^Host key for .* has changed`)
	changedForRE = regexp.MustCompile(`^Host key for (\S+) has changed`)
	revokedRE    = regexp.MustCompile(`REVOKED HOST KEY DETECTED|marked as revoked`)
	deniedRE     = regexp.MustCompile(`^(?:(\S+)@(\S+): )?Permission denied \((.*)\)`)
	tooManyRE    = regexp.MustCompile(`Too many authentication failures`)
	resolveRE    = regexp.MustCompile(`Could not resolve hostname`)
	connectRE    = regexp.MustCompile(`^ssh: connect to host (\S+) port (\d+): (.*)`)
	handshakeRE  = regexp.MustCompile(`kex_exchange_identification|banner exchange|Connection (closed|reset) by|Connection timed out|UNKNOWN port 65535`)
	countersRE   = regexp.MustCompile(`^(Transferred: sent|Bytes per second: sent) `)
	verifyFailRE = regexp.MustCompile(`Host key verification failed`)
)

// read consumes r until its end.
func (l *sshLog) read(r io.Reader) {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 4096), 1<<20)
	for sc.Scan() {
		l.line(strings.TrimRight(sc.Text(), "\r"))
	}
	io.Copy(io.Discard, r) // a line over the limit must not block ssh
}

func (l *sshLog) line(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case match(authAsRE, s, func(m []string) {
		l.host, l.user = m[1], m[3]
		l.port, _ = strconv.Atoi(m[2])
		l.tried, l.offered = nil, nil // a jump host's login is over
	}):
	case strings.HasPrefix(s, "debug1: Connection established"):
		l.connected = true
	case match(versionRE, s, func(m []string) { l.serverVersion = "SSH-" + m[1] + "-" + m[2] }):
	case match(offeringRE, s, func(m []string) {
		source := "file"
		if strings.Contains(m[4], "agent") {
			source = "agent"
		}
		l.tried = append(l.tried, Attempt{Source: source, Name: m[1], Type: m[2], Fingerprint: m[3], Result: "refused"})
	}):
	case match(acceptsRE, s, func(m []string) {
		l.accepted = m[1]
		if n := len(l.tried); n > 0 {
			l.tried[n-1].Result = "accepted, but no signature was made"
		}
	}):
	case match(tryingRE, s, func(m []string) {
		l.tried = append(l.tried, Attempt{Source: "file", Name: m[1], Result: "absent or not readable"})
	}):
	case match(continueRE, s, func(m []string) { l.offered = strings.Split(m[1], ",") }):
	case match(nextRE, s, func(m []string) {
		if m[1] != "publickey" {
			l.tried = append(l.tried, Attempt{Source: m[1], Result: "refused"})
		}
	}):
	case match(presentedRE, s, func(m []string) {
		l.hostKeyError().Type, l.hostKeyError().Fingerprint = m[1], m[2]
	}):
	case match(doneRE, s, func(m []string) {
		l.auth = m[2]
		if m[2] == "publickey" && l.accepted != "" {
			l.auth += " " + l.accepted
		}
	}):
	case strings.HasPrefix(s, "debug"):
	default:
		l.other(s)
	}
}

func (l *sshLog) other(s string) {
	switch {
	case changedRE.MatchString(s):
		l.hostKeyError().Changed = true
	case revokedRE.MatchString(s):
		l.hostKeyError().Revoked = true
	}
	match(changedForRE, s, func(m []string) { l.hostKeyError().Host = m[1] })
	match(offendingRE, s, func(m []string) {
		n, _ := strconv.Atoi(m[3])
		e := l.hostKeyError()
		e.Known = append(e.Known, KnownKey{File: m[2], Line: n, Type: m[1]})
	})
	match(deniedRE, s, func(m []string) {
		l.offered = strings.Split(m[3], ",")
		if m[1] != "" {
			l.user, l.host = m[1], m[2]
		}
	})
	if s = strings.TrimSpace(s); s == "" || strings.HasPrefix(s, "@@@") || countersRE.MatchString(s) {
		return
	}
	if len(l.said) == maxSaid {
		l.said = l.said[1:]
	}
	l.said = append(l.said, s)
}

func (l *sshLog) hostKeyError() *HostKeyError {
	if l.hostKey == nil {
		l.hostKey = &HostKeyError{}
	}
	return l.hostKey
}

func match(re *regexp.Regexp, s string, then func([]string)) bool {
	m := re.FindStringSubmatch(s)
	if m == nil {
		return false
	}
	then(m)
	return true
}

// lastWords is what ssh said at the end, for errors without a better shape.
func (l *sshLog) lastWords() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.said) == 0 {
		return ""
	}
	return l.said[len(l.said)-1]
}

func (l *sshLog) find(re *regexp.Regexp) string {
	for _, s := range l.said {
		if re.MatchString(s) {
			return s
		}
	}
	return ""
}

// refusal is what is known of a login that was not granted.
func (l *sshLog) refusal(t Target, said error) *AuthError {
	l.mu.Lock()
	defer l.mu.Unlock()
	host, user := l.who(t)
	return newAuthError(user, host, l.tried, l.offered, said)
}

func (l *sshLog) who(t Target) (host, user string) {
	host, user = t.Host, t.User
	if l.host != "" {
		host = l.host
	}
	if l.user != "" {
		user = l.user
	}
	return host, user
}

// failure is the typed error of a login to t that ssh gave up.
func (l *sshLog) failure(t Target) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	host, user := l.who(t)
	said := errors.New("ssh ended without a word")
	if len(l.said) > 0 {
		said = errors.New(l.said[len(l.said)-1])
	}
	if k := l.hostKey; k != nil && (k.Changed || k.Revoked) {
		if k.Host == "" {
			k.Host = host
		}
		k.Err = said
		return k
	}
	if s := l.find(verifyFailRE); s != "" {
		k := l.hostKeyError()
		k.Host, k.Err = host, fmt.Errorf("%w; check its fingerprint and accept it once with: ssh %s", said, t.Host)
		return k
	}
	if s := l.find(tooManyRE); s != "" {
		return newAuthError(user, host, l.tried, l.offered, errors.New(s))
	}
	if l.find(deniedRE) != "" {
		return newAuthError(user, host, l.tried, l.offered, said)
	}
	addr := Target{Host: host, Port: t.Port}.String()
	if s := l.find(resolveRE); s != "" {
		return &UnreachableError{Op: "resolve", Addr: addr, Hint: hintResolve, Err: errors.New(s)}
	}
	if s := l.find(connectRE); s != "" {
		m := connectRE.FindStringSubmatch(s)
		return &UnreachableError{Op: "connect", Addr: m[1] + " port " + m[2], Hint: hintConnect(m[3]), Err: errors.New(m[3])}
	}
	if s := l.find(handshakeRE); s != "" {
		return &UnreachableError{Op: "handshake", Addr: addr, Hint: hintHandshake, Err: errors.New(s)}
	}
	return fmt.Errorf("ssh could not connect to %s: %w; try: ssh %s", addr, said, t.Host)
}

// late is the error of a login that took longer than limit.
func (l *sshLog) late(t Target, limit time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.connected {
		return &UnreachableError{Op: "connect", Addr: t.String(), Hint: hintConnect("timed out"), Err: fmt.Errorf("no connection within %v", limit)}
	}
	hint := hintHandshake
	if l.serverVersion != "" {
		hint = hintSlow
	}
	return &UnreachableError{Op: "handshake", Addr: t.String(), Hint: hint, Err: fmt.Errorf("no login within %v", limit)}
}

const (
	hintResolve   = "check the name, the ssh configuration and the network"
	hintSlow      = "the server answers, but too slowly: is the node or the way to it overloaded?"
	hintHandshake = "the server took the connection but did not finish the greeting: it may be overloaded (MaxStartups), refuse this address, or not be an SSH server"
)

func hintConnect(said string) string {
	s := strings.ToLower(said)
	switch {
	case strings.Contains(s, "refused"):
		return "nothing listens on that port: check the port, or whether sshd runs"
	case strings.Contains(s, "timed out"), strings.Contains(s, "timeout"):
		return "no answer: the node is down, or a firewall drops the packets"
	case strings.Contains(s, "route"), strings.Contains(s, "unreachable"):
		return "no way to it from here: is the VPN up?"
	default:
		return ""
	}
}
