package remote

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// words of "ssh -v" (OpenSSH 9.2) for logins that ended in different ways.
const (
	logGreeting = `OpenSSH_9.2p1 Debian-2+deb12u10, OpenSSL 3.0.19 27 Jan 2026
debug1: Connecting to 127.0.0.1 [127.0.0.1] port 2222.
debug1: Connection established.
debug1: Remote protocol version 2.0, remote software version OpenSSH_9.6
debug1: Authenticating to 127.0.0.1:2222 as 'root'
debug1: Server host key: ssh-ed25519 SHA256:OVqC/3/pFjiQnMkj6sGAefqBYYWChJ5HsY6iuwQL4Zk
`
	logKeys = `debug1: Authentications that can continue: publickey,password
debug1: Next authentication method: publickey
debug1: Offering public key: laptop key ED25519 SHA256:1111111111111111111111111111111111111111111 agent
debug1: Authentications that can continue: publickey,password
debug1: Trying private key: /root/.ssh/id_rsa
debug1: Offering public key: /root/.ssh/id_ed25519 ED25519 SHA256:2222222222222222222222222222222222222222222 explicit
`
	logChanged = `@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!
Offending ED25519 key in /root/.ssh/known_hosts:12
Host key for [127.0.0.1]:2222 has changed and you have requested strict checking.
Host key verification failed.
`
)

func logOf(text string) *sshLog {
	l := &sshLog{}
	l.read(strings.NewReader(text))
	return l
}

func TestSSHLogLogin(t *testing.T) {
	l := logOf(logGreeting + logKeys + `debug1: Server accepts key: /root/.ssh/id_ed25519 ED25519 SHA256:2222222222222222222222222222222222222222222 explicit
Authenticated to 127.0.0.1 ([127.0.0.1]:2222) using "publickey".
`)
	c := &sshChild{log: l}
	i := c.info(Target{Host: "alias"}, &asker{}, 0)
	want := Info{Dialer: DialerOpenSSH, User: "root", Host: "127.0.0.1", Port: 2222, ServerVersion: "SSH-2.0-OpenSSH_9.6", Auth: "publickey /root/.ssh/id_ed25519"}
	if i != want {
		t.Errorf("info %+v, want %+v", i, want)
	}
}

func TestSSHLogRefused(t *testing.T) {
	err := logOf(logGreeting + logKeys + "root@127.0.0.1: Permission denied (publickey,password).\n").failure(Target{Host: "alias"})
	var auth *AuthError
	if !errors.As(err, &auth) {
		t.Fatalf("got %v", err)
	}
	want := []Attempt{
		{"agent", "laptop key", "ED25519", "SHA256:1111111111111111111111111111111111111111111", "refused"},
		{"file", "/root/.ssh/id_rsa", "", "", "absent or not readable"},
		{"file", "/root/.ssh/id_ed25519", "ED25519", "SHA256:2222222222222222222222222222222222222222222", "refused"},
	}
	if !slices.Equal(auth.Tried, want) || !slices.Equal(auth.Offered, []string{"publickey", "password"}) || auth.User != "root" || auth.Host != "127.0.0.1" {
		t.Errorf("got %+v", auth)
	}
}

// TestSSHLogJump tells the login on a jump host from that on the node.
func TestSSHLogJump(t *testing.T) {
	l := logOf(strings.ReplaceAll(logGreeting, "127.0.0.1:2222", "bastion:22") + logKeys + logGreeting +
		"root@127.0.0.1: Permission denied (publickey).\n")
	var auth *AuthError
	if err := l.failure(Target{Host: "gpu7"}); !errors.As(err, &auth) || len(auth.Tried) != 0 || auth.Host != "127.0.0.1" {
		t.Errorf("got %v", err)
	}
}

func TestSSHLogFailures(t *testing.T) {
	tests := []struct {
		name, log string
		op        string // of an UnreachableError
		word      string
	}{
		{"no name", "ssh: Could not resolve hostname gpu7: Name or service not known\n", "resolve", "check the name"},
		{"refused", "ssh: connect to host gpu7 port 22: Connection refused\n", "connect", "nothing listens"},
		{"filtered", "ssh: connect to host gpu7 port 22: Connection timed out\n", "connect", "firewall"},
		{"no route", "ssh: connect to host gpu7 port 22: No route to host\n", "connect", "VPN"},
		{"dropped", "kex_exchange_identification: Connection closed by remote host\nConnection closed by 10.0.0.7 port 22\n", "handshake", "MaxStartups"},
		{"too many keys", logGreeting + logKeys + "Received disconnect from 127.0.0.1 port 2222:2: Too many authentication failures\nDisconnected from 127.0.0.1 port 2222\n", "", "IdentitiesOnly yes"},
		{"bad configuration", "/root/.ssh/config: line 3: Bad configuration option: nonsense\n/root/.ssh/config: terminating, 1 bad configuration options\n", "", "terminating, 1 bad"},
		{"silence", "", "", "without a word"},
		{"changed key", logGreeting + logChanged, "", "/root/.ssh/known_hosts:12"},
		{"unknown key", logGreeting + "Host key verification failed.\n", "", "unknown and was not accepted"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := logOf(tt.log).failure(Target{Host: "gpu7"})
			var un *UnreachableError
			if errors.As(err, &un) != (tt.op != "") || (un != nil && un.Op != tt.op) {
				t.Errorf("got %#v", err)
			}
			if !strings.Contains(err.Error(), tt.word) {
				t.Errorf("%q is missing in: %v", tt.word, err)
			}
		})
	}
	var host *HostKeyError
	if err := logOf(logGreeting + logChanged).failure(Target{Host: "gpu7"}); !errors.As(err, &host) || !host.Changed || host.Host != "[127.0.0.1]:2222" ||
		!strings.Contains(err.Error(), "ssh-keygen -R '[127.0.0.1]:2222'") ||
		!slices.Equal(host.Known, []KnownKey{{File: "/root/.ssh/known_hosts", Line: 12, Type: "ED25519"}}) ||
		host.Fingerprint != "SHA256:OVqC/3/pFjiQnMkj6sGAefqBYYWChJ5HsY6iuwQL4Zk" {
		t.Errorf("got %v", err)
	}
}

func TestSSHLogLastWords(t *testing.T) {
	l := logOf("debug1: channel 1: new\nTimeout, server 127.0.0.1 not responding.\nTransferred: sent 3000, received 2900 bytes, in 0.0 seconds\nBytes per second: sent 65917.8, received 62649.2\ndebug1: Exit status -1\n")
	if got, want := l.lastWords(), "Timeout, server 127.0.0.1 not responding."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	long := logOf(strings.Repeat("a banner of many lines\n", 3*maxSaid) + strings.Repeat("x", 2<<20) + "\n")
	if n := len(long.said); n != maxSaid {
		t.Errorf("%d lines kept", n)
	}
}

func TestSSHArgs(t *testing.T) {
	args := sshArgs(Target{User: "op", Host: "gpu7", Port: 2222}, Options{Identity: "/k", SSHConfig: "/c"}, 902, "/s/m")
	line := strings.Join(args, " ")
	for _, want := range []string{"-M -N", "-S /s/m", "-F /c", "-i /k", "-p 2222", "-l op", "ControlPersist=no", "ClearAllForwardings=yes", "ForkAfterAuthentication=no", "ConnectTimeout=15"} {
		if !strings.Contains(line, want) {
			t.Errorf("%q is missing in %s", want, line)
		}
	}
	if !strings.HasSuffix(line, " -- gpu7") {
		t.Errorf("the host does not stand alone at the end: %s", line)
	}
	if old := strings.Join(sshArgs(Target{Host: "h"}, Options{}, 804, "/s/m"), " "); strings.Contains(old, "ForkAfter") {
		t.Errorf("an option that 8.4 does not know: %s", old)
	}
}
