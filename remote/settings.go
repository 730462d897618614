package remote

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
)

// settings are what the native dialer needs to know of a host, from "ssh -G"
// where there is an ssh client and from the defaults of OpenSSH elsewhere.
type settings struct {
	original      string // the name as given
	host          string
	port          int
	user          string
	identityFiles []string
	certFiles     []string
	onlyIdentity  bool
	agent         string // path of the agent's socket, empty for none
	knownHosts    []string
	globalHosts   []string
	hostKeyAlias  string
	strict        string // "ask", "yes", "accept-new" or "no"
	hashHosts     bool
	proxyJump     string
	proxyCommand  string
}

// resolve finds the settings for t.
func resolve(ctx context.Context, t Target, o Options) (settings, error) {
	s := settings{original: t.Host, host: t.Host, port: t.Port, user: t.User, strict: "ask"}
	if s.port == 0 {
		s.port = 22
	}
	plain := o.Plain || (o.HostKey != nil && o.Signer != nil)
	var err error
	switch path := o.sshPath(); {
	case plain || path == "":
		err = s.defaults(o)
	default:
		err = s.fromSSH(ctx, path, t, o)
	}
	if err != nil {
		return settings{}, err
	}
	if len(o.KnownHosts) > 0 {
		s.knownHosts, s.globalHosts = o.KnownHosts, nil
	}
	return s, nil
}

// defaults are those of OpenSSH without a configuration. A fixed key and host
// key need no file of the user's.
func (s *settings) defaults(o Options) error {
	if s.user == "" {
		u, err := user.Current()
		if err != nil {
			return fmt.Errorf("no user given for %s: %w", s.host, err)
		}
		s.user = u.Username
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return nil // a service account: agent and explicit files still work
	}
	if o.Signer == nil {
		s.agent = os.Getenv("SSH_AUTH_SOCK")
		for _, name := range []string{"id_rsa", "id_ecdsa", "id_ed25519"} {
			s.identityFiles = append(s.identityFiles, filepath.Join(home, ".ssh", name))
		}
	}
	if o.HostKey == nil {
		s.knownHosts = []string{filepath.Join(home, ".ssh", "known_hosts"), filepath.Join(home, ".ssh", "known_hosts2")}
		s.globalHosts = []string{"/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"}
	}
	return nil
}

func (s *settings) fromSSH(ctx context.Context, path string, t Target, o Options) error {
	args := []string{"-G"}
	if o.SSHConfig != "" {
		args = append(args, "-F", o.SSHConfig)
	}
	if t.Port != 0 {
		args = append(args, "-p", strconv.Itoa(t.Port))
	}
	if t.User != "" {
		args = append(args, "-l", t.User)
	}
	cmd := exec.CommandContext(ctx, path, append(args, "--", t.Host)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		why := strings.TrimSpace(stderr.String())
		if why == "" {
			why = err.Error()
		}
		return fmt.Errorf("read the ssh configuration for %s (ssh -G): %s", t, why)
	}
	s.parse(out)
	s.expand()
	return nil
}

// parse reads the "key value" lines of ssh -G.
func (s *settings) parse(out []byte) {
	agent := "SSH_AUTH_SOCK"
	sc := bufio.NewScanner(bytes.NewReader(out))
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		key, value, _ := strings.Cut(sc.Text(), " ")
		switch key {
		case "hostname":
			s.host = value
		case "port":
			if n, err := strconv.Atoi(value); err == nil {
				s.port = n
			}
		case "user":
			s.user = value
		case "identityfile":
			s.identityFiles = append(s.identityFiles, value)
		case "certificatefile":
			s.certFiles = append(s.certFiles, value)
		case "identitiesonly":
			s.onlyIdentity = value == "yes"
		case "identityagent":
			agent = value
		case "userknownhostsfile":
			s.knownHosts = strings.Fields(value)
		case "globalknownhostsfile":
			s.globalHosts = strings.Fields(value)
		case "hostkeyalias":
			s.hostKeyAlias = value
		case "stricthostkeychecking":
			s.strict = strictness(value)
		case "hashknownhosts":
			s.hashHosts = value == "yes"
		case "proxyjump":
			s.proxyJump = value
		case "proxycommand":
			s.proxyCommand = value
		}
	}
	if s.proxyJump == "none" {
		s.proxyJump = ""
	}
	if s.proxyCommand == "none" {
		s.proxyCommand = ""
	}
	s.agent = agentSocket(agent)
}

func strictness(value string) string {
	switch value {
	case "true", "yes":
		return "yes"
	case "false", "no", "off":
		return "no"
	default:
		return value
	}
}

func agentSocket(value string) string {
	switch {
	case value == "none":
		return ""
	case value == "SSH_AUTH_SOCK":
		return os.Getenv("SSH_AUTH_SOCK")
	case strings.HasPrefix(value, "$"):
		return os.Getenv(strings.Trim(value[1:], "{}"))
	default:
		return value
	}
}

// expand replaces "~" and the percent tokens that ssh -G prints as they were
// written.
func (s *settings) expand() {
	home, _ := os.UserHomeDir()
	for _, list := range [][]string{s.identityFiles, s.certFiles, s.knownHosts, s.globalHosts} {
		for i, v := range list {
			list[i] = s.tokens(v, home)
		}
	}
	s.agent = s.tokens(s.agent, home)
}

func (s *settings) tokens(v, home string) string {
	if v == "~" || strings.HasPrefix(v, "~/") {
		v = home + v[1:]
	}
	local, _ := os.Hostname()
	short, _, _ := strings.Cut(local, ".")
	me, uid := "", strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		me = u.Username
	}
	alias := s.hostKeyAlias
	if alias == "" {
		alias = s.original
	}
	return strings.NewReplacer("%%", "%", "%d", home, "%h", s.host, "%r", s.user, "%p", strconv.Itoa(s.port),
		"%n", s.original, "%u", me, "%i", uid, "%l", local, "%L", short, "%k", alias).Replace(v)
}

// jumps are the hops of ProxyJump, nearest first.
func (s *settings) jumps() ([]Target, error) {
	if s.proxyJump == "" {
		return nil, nil
	}
	var hops []Target
	for _, hop := range strings.Split(s.proxyJump, ",") {
		t, err := ParseTarget(strings.TrimPrefix(strings.TrimSpace(hop), "ssh://"))
		if err != nil {
			return nil, errors.Join(errors.New("ProxyJump of the ssh configuration"), err)
		}
		hops = append(hops, t)
	}
	return hops, nil
}
