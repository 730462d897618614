package remote

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"unicode"
)

// Target names a node as the user wrote it. User and Port are empty and 0 when
// not given: then the ssh configuration decides.
type Target struct {
	User string
	Host string
	Port int
}

// ParseTarget reads "[user@]host[:port]". An IPv6 address stands in brackets
// when a port follows, and may stand bare otherwise. The user part may itself
// contain "@" (domain accounts): the last one counts.
func ParseTarget(s string) (Target, error) {
	fail := func(why string) (Target, error) {
		return Target{}, fmt.Errorf("node %q: %s; want [user@]host[:port], with an IPv6 address as [addr]:port", s, why)
	}
	var t Target
	if strings.HasPrefix(s, "-") {
		return fail("a name must not begin with '-'")
	}
	if strings.Contains(s, "://") {
		return fail("leave out what stands before '://'")
	}
	for _, r := range s {
		if unicode.IsControl(r) || unicode.IsSpace(r) {
			return fail("a name must not contain spaces or control characters")
		}
	}
	rest := s
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		t.User, rest = rest[:i], rest[i+1:]
		if t.User == "" {
			return fail("the user before '@' is empty")
		}
	}
	port := ""
	switch {
	case strings.HasPrefix(rest, "["):
		end := strings.IndexByte(rest, ']')
		if end < 0 {
			return fail("'[' without ']'")
		}
		t.Host, rest = rest[1:end], rest[end+1:]
		if net.ParseIP(strings.SplitN(t.Host, "%", 2)[0]) == nil {
			return fail("no IP address in the brackets")
		}
		if rest != "" {
			if rest[0] != ':' {
				return fail("unexpected text after ']'")
			}
			if port = rest[1:]; port == "" {
				return fail("the port after ':' is empty")
			}
		}
	case strings.Count(rest, ":") > 1:
		if net.ParseIP(strings.SplitN(rest, "%", 2)[0]) == nil {
			return fail("more than one ':' and no IPv6 address")
		}
		t.Host = rest
	default:
		var found bool
		if t.Host, port, found = strings.Cut(rest, ":"); found && port == "" {
			return fail("the port after ':' is empty")
		}
	}
	if err := errors.Join(checkUser(t.User), checkHost(t.Host)); err != nil {
		return fail(err.Error())
	}
	if port != "" {
		n, err := strconv.Atoi(port)
		if err != nil || n < 1 || n > 65535 {
			return fail(fmt.Sprintf("%q is not a port from 1 to 65535", port))
		}
		t.Port = n
	}
	return t, nil
}

// checkHost refuses what ssh, a shell or known_hosts could take for something
// else.
func checkHost(host string) error {
	switch {
	case host == "":
		return errors.New("the host is empty")
	case strings.HasPrefix(host, "-"):
		return errors.New("a host must not begin with '-'")
	case strings.ContainsAny(host, shellMeta+`\*?!,/`):
		return errors.New("the host contains a character that host names do not have")
	}
	return nil
}

// checkUser refuses what ssh or a ProxyCommand's shell could take for something
// else; empty is no user.
func checkUser(user string) error {
	switch {
	case strings.HasPrefix(user, "-"):
		return errors.New("a user must not begin with '-'")
	case strings.ContainsAny(user, shellMeta):
		return errors.New("the user contains a character that user names do not have")
	}
	return nil
}

const shellMeta = "'`\"$;&<>|(){}\n"

// String is the form that ParseTarget reads.
func (t Target) String() string {
	s := t.Host
	if t.Port != 0 {
		s = net.JoinHostPort(t.Host, strconv.Itoa(t.Port))
	}
	if t.User != "" {
		s = t.User + "@" + s
	}
	return s
}

// check repeats ParseTarget's rules for a Target that was built by hand.
func (t Target) check() error {
	if err := errors.Join(checkUser(t.User), checkHost(t.Host)); err != nil {
		return fmt.Errorf("node %q: %w", t, err)
	}
	return nil
}

// quoteName makes a host name safe to show in a command line to copy.
func quoteName(host string) string {
	if strings.ContainsAny(host, "[]") {
		return "'" + host + "'"
	}
	return host
}
