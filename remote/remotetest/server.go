//go:build system

package remotetest

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// Options change the server that is started.
type Options struct {
	// Config is added in front of OpenSSH's server configuration, one
	// directive a line, so that it wins over the defaults.
	Config string
	// Args are added to dropbear's command line.
	Args []string
	// Passphrase, if set, encrypts the user's key.
	Passphrase string
	// UnknownHost leaves known_hosts empty.
	UnknownHost bool
	// ClientConfig is added to the ssh configuration of the host.
	ClientConfig string
}

// Server is a running SSH server and what a client needs to log in.
type Server struct {
	Addr        string // 127.0.0.1:port
	Host        string
	Port        int
	User        string // the user who runs the test
	Alias       string // a Host of SSHConfig that stands for all of the above
	KeyFile     string // private key that the server accepts
	KnownHosts  string // file with the server's host key
	SSHConfig   string // ssh configuration file for the openssh dialer
	HostKey     ssh.PublicKey
	Dir         string // temporary folder of all of these
	PID         int
	log         *lockedBuffer
	cmd         *exec.Cmd
	exited      chan struct{}
	startServer func() *exec.Cmd
}

// Log is what the server has written so far.
func (s *Server) Log() string { return s.log.String() }

// OpenSSH starts sshd in the foreground.
func OpenSSH(t testing.TB, o Options) *Server {
	t.Helper()
	sshd := find(t, "sshd", "/usr/sbin/sshd", "/usr/local/sbin/sshd")
	if os.Geteuid() == 0 { // the privilege separation folder of Debian's sshd
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
	}
	s := prepare(t, o)
	config := strings.Join([]string{
		o.Config,
		"ListenAddress 127.0.0.1",
		fmt.Sprintf("Port %d", s.Port),
		"HostKey " + filepath.Join(s.Dir, "host_key"),
		"AuthorizedKeysFile " + filepath.Join(s.Dir, "authorized_keys"),
		"PidFile none",
		"StrictModes no",
		"UsePAM no",
		"PasswordAuthentication no",
		"KbdInteractiveAuthentication no",
		"PermitRootLogin yes",
		"PrintMotd no",
		"LogLevel VERBOSE",
		"",
	}, "\n")
	s.write(t, "sshd_config", config)
	s.startServer = func() *exec.Cmd {
		return exec.Command(sshd, "-D", "-e", "-f", filepath.Join(s.Dir, "sshd_config"))
	}
	s.start(t)
	return s
}

// Dropbear starts dropbear in the foreground. Dropbear reads authorized keys
// only from the home of the user's account, so it runs in a mount namespace of
// its own in which that home is a temporary folder. That needs root, or user
// namespaces.
func Dropbear(t testing.TB, o Options) *Server {
	t.Helper()
	dropbear := find(t, "dropbear", "/usr/sbin/dropbear")
	convert := find(t, "dropbearconvert", "/usr/bin/dropbearconvert")
	s := prepare(t, o)
	home := filepath.Join(s.Dir, "home")
	if err := os.MkdirAll(filepath.Join(home, ".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	keys, err := os.ReadFile(filepath.Join(s.Dir, "authorized_keys"))
	if err != nil {
		t.Fatal(err)
	}
	s.write(t, "home/.ssh/authorized_keys", string(keys))
	hostKey := filepath.Join(s.Dir, "dropbear_host_key")
	if out, err := exec.Command(convert, "openssh", "dropbear", filepath.Join(s.Dir, "host_key"), hostKey).CombinedOutput(); err != nil {
		t.Fatalf("dropbearconvert: %v\n%s", err, out)
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-m"}
	if os.Geteuid() != 0 {
		args = append(args, "-U", "--map-current-user")
	}
	args = append(args, "sh", "-c", `mount --bind "$1" "$2" && shift 2 && exec "$@"`, "sh", home, me.HomeDir,
		dropbear, "-F", "-E", "-m", "-s", "-r", hostKey, "-p", s.Addr, "-P", filepath.Join(s.Dir, "pid"))
	args = append(args, o.Args...)
	s.startServer = func() *exec.Cmd { return exec.Command("unshare", args...) }
	s.start(t)
	return s
}

func find(t testing.TB, names ...string) string {
	t.Helper()
	for _, n := range names {
		if path, err := exec.LookPath(n); err == nil {
			return path
		}
	}
	t.Fatalf("none of %v is installed", names)
	return ""
}

// prepare makes the folder, the keys and the client's files.
func prepare(t testing.TB, o Options) *Server {
	t.Helper()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "rvtest") //nolint:usetesting // tests put sockets there, whose addresses must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &Server{Host: "127.0.0.1", User: me.Username, Alias: "testnode", Dir: dir, log: &lockedBuffer{}}
	s.Port = FreePort(t)
	s.Addr = fmt.Sprintf("127.0.0.1:%d", s.Port)
	s.HostKey = s.newKey(t, "host_key", "")
	s.KeyFile = filepath.Join(dir, "id_ed25519")
	public := s.newKey(t, "id_ed25519", o.Passphrase)
	s.write(t, "authorized_keys", string(ssh.MarshalAuthorizedKey(public)))
	s.KnownHosts = filepath.Join(dir, "known_hosts")
	known := ""
	if !o.UnknownHost {
		known = fmt.Sprintf("[127.0.0.1]:%d %s", s.Port, ssh.MarshalAuthorizedKey(s.HostKey))
	}
	s.write(t, "known_hosts", known)
	s.SSHConfig = filepath.Join(dir, "ssh_config")
	s.write(t, "ssh_config", fmt.Sprintf(`Host %s 127.0.0.1
  HostName 127.0.0.1
  Port %d
  User %s
  IdentityFile %s
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile %s
  GlobalKnownHostsFile none
%s
`, s.Alias, s.Port, s.User, s.KeyFile, s.KnownHosts, o.ClientConfig))
	return s
}

func (s *Server) write(t testing.TB, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.Dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) newKey(t testing.TB, name, passphrase string) ssh.PublicKey {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var block *pem.Block
	if passphrase == "" {
		block, err = ssh.MarshalPrivateKey(private, name)
	} else {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(private, name, []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	s.write(t, name, string(pem.EncodeToMemory(block)))
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (s *Server) start(t testing.TB) {
	t.Helper()
	s.cmd = s.startServer()
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.PID = s.cmd.Process.Pid
	s.exited = make(chan struct{})
	go func(cmd *exec.Cmd, exited chan struct{}) {
		_ = cmd.Wait()
		close(exited)
	}(s.cmd, s.exited)
	t.Cleanup(s.Stop)
	for range 500 {
		conn, err := net.Dial("tcp", s.Addr)
		if err == nil {
			conn.Close()
			return
		}
		select {
		case <-s.exited:
			t.Fatalf("%s ended at once:\n%s", s.cmd.Path, s.Log())
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Fatalf("%s does not listen on %s:\n%s", s.cmd.Path, s.Addr, s.Log())
}

// Stop ends the server that listens; connections that are open live on, as
// they do when sshd is restarted.
func (s *Server) Stop() {
	_ = s.cmd.Process.Kill()
	<-s.exited
}

// Start starts the server again on the same port after Stop.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	s.start(t)
}

// Kill ends the server and every connection to it, as a node that dies would.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	for _, pid := range descendants(s.PID) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	s.Stop()
}

// Freeze stops the server and its connections, as a node that hangs would: the
// kernel still takes bytes, nobody answers. The test's end thaws them.
func (s *Server) Freeze(t testing.TB) {
	t.Helper()
	s.Signal(syscall.SIGSTOP)
	t.Cleanup(func() { s.Signal(syscall.SIGCONT) })
}

// Signal sends sig to the server and everything that it started.
func (s *Server) Signal(sig syscall.Signal) {
	for _, pid := range append(descendants(s.PID), s.PID) {
		_ = syscall.Kill(pid, sig)
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
