//go:build system

package simnode

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// TestOpenSSH logs in with the ssh of this machine.
func TestOpenSSH(t *testing.T) {
	n, _ := startNode(t, "story")
	host, port, err := net.SplitHostPort(n.Addr)
	if err != nil {
		t.Fatal(err)
	}
	key, known := filepath.Join(t.TempDir(), "key"), filepath.Join(t.TempDir(), "known")
	if err := os.WriteFile(key, n.ClientKeyPEM, 0o600); err != nil {
		t.Fatal(err)
	}
	line := fmt.Sprintf("[%s]:%s %s", host, port, ssh.MarshalAuthorizedKey(n.HostKey))
	if err := os.WriteFile(known, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	login := []string{"-F", "none", "-o", "BatchMode=yes", "-o", "UserKnownHostsFile=" + known, "-i", key, "-p", port}
	for _, c := range []struct {
		name, want string
		args       []string
	}{
		{"exec", "8\n", []string{n.User + "@" + host, "nvidia-smi -L | wc -l"}},
		{"terminal", "a terminal\r\n", []string{"-tt", n.User + "@" + host, "test -t 0 && echo a terminal"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := exec.Command("ssh", append(login[:len(login):len(login)], c.args...)...).Output()
			if err != nil || !strings.HasSuffix(string(out), c.want) {
				t.Errorf("%q, %v", out, err)
			}
		})
	}
}
