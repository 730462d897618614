package remote

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/runvigil/runvigil/remote/remotetest"
)

func TestSettingsParse(t *testing.T) {
	t.Setenv("HOME", "/home/op")
	t.Setenv("SSH_AUTH_SOCK", "/run/agent")
	t.Setenv("OTHER_AGENT", "/run/other")
	base := `host gpu7
user root
hostname 10.0.0.7
port 2222
identityfile ~/.ssh/id_%r_%h_%p_%n
identityfile /keys/100%%
certificatefile ~/c
identitiesonly yes
userknownhostsfile /home/op/.ssh/known_hosts /home/op/.ssh/known_hosts2
globalknownhostsfile /etc/ssh/ssh_known_hosts
hostkeyalias gpus
stricthostkeychecking accept-new
hashknownhosts yes
proxyjump none
`
	s := settings{original: "gpu7", host: "gpu7", port: 22, strict: "ask"}
	s.parse([]byte(base))
	s.expand()
	if s.host != "10.0.0.7" || s.port != 2222 || s.user != "root" || !s.onlyIdentity || s.hostKeyAlias != "gpus" || s.strict != "accept-new" ||
		!s.hashHosts || s.proxyJump != "" || s.proxyCommand != "" || s.agent != "/run/agent" {
		t.Errorf("got %+v", s)
	}
	if want := []string{"/home/op/.ssh/id_root_10.0.0.7_2222_gpu7", "/keys/100%"}; !slices.Equal(s.identityFiles, want) {
		t.Errorf("identity files %v, want %v", s.identityFiles, want)
	}
	if want := []string{"/home/op/.ssh/known_hosts", "/home/op/.ssh/known_hosts2"}; !slices.Equal(s.knownHosts, want) {
		t.Errorf("known hosts %v, want %v", s.knownHosts, want)
	}
	for line, want := range map[string]string{"none": "", "SSH_AUTH_SOCK": "/run/agent", "$OTHER_AGENT": "/run/other", "${OTHER_AGENT}": "/run/other", "~/a": "/home/op/a"} {
		s := settings{}
		s.parse([]byte("identityagent " + line + "\n"))
		s.expand()
		if s.agent != want {
			t.Errorf("identityagent %s: %q, want %q", line, s.agent, want)
		}
	}
	for value, want := range map[string]string{"true": "yes", "false": "no", "off": "no", "ask": "ask", "accept-new": "accept-new"} {
		if got := strictness(value); got != want {
			t.Errorf("stricthostkeychecking %s is %s, want %s", value, got, want)
		}
	}
}

func TestSettingsPlain(t *testing.T) {
	dir := home(t)
	s, err := resolve(t.Context(), Target{Host: "gpu7"}, Options{Plain: true})
	if err != nil {
		t.Fatal(err)
	}
	if s.port != 22 || s.user == "" || !slices.Contains(s.identityFiles, filepath.Join(dir, ".ssh", "id_ed25519")) ||
		!slices.Contains(s.knownHosts, filepath.Join(dir, ".ssh", "known_hosts")) {
		t.Errorf("got %+v", s)
	}
	key := ed25519Key(t)
	s, err = resolve(t.Context(), Target{User: "op", Host: "gpu7"}, Options{Signer: key, HostKey: key.PublicKey()})
	if err != nil || len(s.identityFiles)+len(s.knownHosts)+len(s.globalHosts) != 0 || s.agent != "" {
		t.Errorf("a fixed key reads files: %+v, %v", s, err)
	}
}

// fakeSSH is an ssh client that only knows -G and -V.
func fakeSSH(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ssh")
	remotetest.Program(t, path, "#!/bin/sh\n"+script)
	return path
}

func TestNativeThroughJumpHosts(t *testing.T) {
	home(t)
	path, key, _ := keyFile(t, t.TempDir(), "id", "")
	target, first, second := serveSSH(t, acceptKeys(key)), serveSSH(t, acceptKeys(key)), serveSSH(t, acceptKeys(key))
	known := writeFile(t, filepath.Join(t.TempDir(), "known_hosts"),
		target.knownLine(target.hostKey)+first.knownLine(first.hostKey)+second.knownLine(second.hostKey))
	common := "identityfile " + path + "\\nuserknownhostsfile " + known + "\\nidentityagent none\\nuser op\\nhostname 127.0.0.1\\n"
	ssh := fakeSSH(t, `for last; do :; done
case $last in
gpu7) printf '`+common+`port `+strconv.Itoa(target.port)+`\nproxyjump a,b\n' ;;
a) printf '`+common+`port `+strconv.Itoa(first.port)+`\n' ;;
b) printf '`+common+`port `+strconv.Itoa(second.port)+`\nproxyjump loop\n' ;;
loop) printf '`+common+`proxyjump loop\n' ;;
*) echo "hostname contains invalid characters" >&2; exit 255 ;;
esac
`)
	o := Options{Dialer: DialerNative, SSH: ssh}
	c, err := Dial(t.Context(), Target{Host: "gpu7"}, o)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Run(t.Context(), "echo there", nil)
	if err != nil || string(res.Stdout) != "there\n" || c.Info().Port != target.port {
		t.Errorf("got %+v, %v, %+v", res, err, c.Info())
	}
	first.hangUp()
	if err := c.Wait(); err == nil {
		t.Error("the jump host died unseen")
	}
	if _, err := Dial(t.Context(), Target{Host: "loop"}, o); err == nil || !strings.Contains(err.Error(), "loops") {
		t.Errorf("a loop of jumps: %v", err)
	}
	if _, err := Dial(t.Context(), Target{Host: "bad"}, o); err == nil || !strings.Contains(err.Error(), "invalid characters") {
		t.Errorf("ssh -G failed: %v", err)
	}
	first.noForward.Store(true)
	if _, err := Dial(t.Context(), Target{Host: "gpu7"}, o); err == nil || !strings.Contains(err.Error(), "forbids TCP forwarding") {
		t.Errorf("a jump host without forwarding: %v", err)
	}
}

func TestNativeProxyCommand(t *testing.T) {
	home(t)
	path, key, _ := keyFile(t, t.TempDir(), "id", "")
	s := serveSSH(t, acceptKeys(key))
	known := writeFile(t, filepath.Join(t.TempDir(), "known_hosts"), s.knownLine(s.hostKey))
	relay := fakeSSH(t, `exec `+os.Args[0]+` -test.run='^$'`) // TestMain relays when it is told to
	t.Setenv(relayEnv, s.addr)
	ssh := fakeSSH(t, `printf 'identityfile `+path+`\nuserknownhostsfile `+known+`\nidentityagent none\nuser op\nhostname 127.0.0.1\nport `+strconv.Itoa(s.port)+`\nproxycommand `+relay+`\n'`)
	c, err := Dial(t.Context(), Target{Host: "gpu7"}, Options{Dialer: DialerNative, SSH: ssh})
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Run(t.Context(), "echo there", nil)
	if err != nil || string(res.Stdout) != "there\n" {
		t.Errorf("got %+v, %v", res, err)
	}
	_ = c.Close()
}

func TestNativeProxyCommandFails(t *testing.T) {
	home(t)
	ssh := fakeSSH(t, `printf 'user op\nhostname gpu7\nport 22\nproxycommand echo "tunnel: no such host" >&2\n'`)
	_, err := Dial(t.Context(), Target{Host: "gpu7"}, Options{Dialer: DialerNative, SSH: ssh})
	var un *UnreachableError
	if !errors.As(err, &un) || !strings.Contains(err.Error(), "the ProxyCommand ended: tunnel: no such host") {
		t.Errorf("got %v", err)
	}
}

// TestDialChooses uses the native dialer where no usable ssh client is.
func TestDialChooses(t *testing.T) {
	dir := home(t)
	path, key, _ := keyFile(t, filepath.Join(dir, ".ssh"), "id_ed25519", "")
	s := serveSSH(t, acceptKeys(key))
	known := writeFile(t, filepath.Join(dir, ".ssh", "known_hosts"), s.knownLine(s.hostKey))
	old := fakeSSH(t, `case $1 in
-V) echo OpenSSH_6.6 >&2 ;;
-G) printf 'identityfile `+path+`\nuserknownhostsfile `+known+`\nidentityagent none\n' ;;
esac
`)
	for name, o := range map[string]Options{"none": {SSH: "/nowhere/ssh"}, "too old": {SSH: old}} {
		c, err := Dial(t.Context(), Target{User: "op", Host: s.host, Port: s.port}, o)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.Info().Dialer != DialerNative {
			t.Errorf("%s: dialer %s", name, c.Info().Dialer)
		}
		_ = c.Close()
	}
	if _, err := Dial(t.Context(), Target{Host: "gpu7"}, Options{Dialer: DialerOpenSSH, SSH: old}); err == nil || !strings.Contains(err.Error(), "--dial native") {
		t.Errorf("asked for openssh with an old client: %v", err)
	}
}

func TestClientVersion(t *testing.T) {
	tests := []struct {
		says string
		want sshVersion
		ok   bool
	}{
		{"OpenSSH_9.2p1 Debian-2+deb12u10, OpenSSL 3.0.19 27 Jan 2026", 902, true},
		{"OpenSSH_10.0p2, LibreSSL 3.3.6", 1000, true},
		{"OpenSSH_7.4p1", 704, true},
		{"OpenSSH_7.3p1", 703, false},
		{"Sun_SSH_1.1", 0, false},
	}
	for _, tt := range tests {
		got, err := clientVersion(t.Context(), fakeSSH(t, "echo '"+tt.says+"' >&2"))
		if got != tt.want || (err == nil) != tt.ok {
			t.Errorf("%s: %d, %v", tt.says, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), "--dial native") {
			t.Errorf("%s: no way out in %v", tt.says, err)
		}
	}
}
