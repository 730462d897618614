package remote

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/ssh"
)

// sshServer is an SSH server in this process. Commands run with /bin/sh.
type sshServer struct {
	addr    string
	host    string
	port    int
	hostKey ssh.PublicKey

	sessions  int         // granted at once, 0 is no limit
	noForward atomic.Bool // direct-tcpip is prohibited
	deaf      bool        // unknown channels are never answered

	mu    sync.Mutex
	open  int
	conns []net.Conn
}

// serveSSH starts one with the given host keys (one ed25519 key if none are
// given) and ends it with the test.
func serveSSH(t *testing.T, cfg *ssh.ServerConfig, keys ...ssh.Signer) *sshServer {
	t.Helper()
	if len(keys) == 0 {
		keys = []ssh.Signer{ed25519Key(t)}
	}
	for _, k := range keys {
		cfg.AddHostKey(k)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &sshServer{addr: l.Addr().String(), host: "127.0.0.1", port: l.Addr().(*net.TCPAddr).Port, hostKey: keys[0].PublicKey()}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, nc)
			s.mu.Unlock()
			wg.Go(func() { s.serve(nc, cfg) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		s.hangUp()
		wg.Wait()
	})
	return s
}

// hangUp cuts every connection.
func (s *sshServer) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		c.Close()
	}
}

func (s *sshServer) serve(nc net.Conn, cfg *ssh.ServerConfig) {
	defer nc.Close()
	_, chans, reqs, err := ssh.NewServerConn(nc, cfg)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(reqs)
	for c := range chans {
		switch c.ChannelType() {
		case "session":
			go s.session(c)
		case "direct-tcpip":
			go s.forward(c)
		default:
			if !s.deaf {
				_ = c.Reject(ssh.UnknownChannelType, "unknown")
			}
		}
	}
}

func (s *sshServer) forward(c ssh.NewChannel) {
	if s.noForward.Load() {
		_ = c.Reject(ssh.Prohibited, "administratively prohibited: open failed")
		return
	}
	var to struct {
		Host     string
		Port     uint32
		FromHost string
		FromPort uint32
	}
	if err := ssh.Unmarshal(c.ExtraData(), &to); err != nil {
		_ = c.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	nc, err := net.Dial("tcp", net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port))))
	if err != nil {
		_ = c.Reject(ssh.ConnectionFailed, "connect failed: Connection refused")
		return
	}
	ch, reqs, err := c.Accept()
	if err != nil {
		nc.Close()
		return
	}
	go ssh.DiscardRequests(reqs)
	go func() { io.Copy(ch, nc); ch.Close() }()
	io.Copy(nc, ch)
	nc.Close()
}

func (s *sshServer) session(c ssh.NewChannel) {
	s.mu.Lock()
	full := s.sessions > 0 && s.open == s.sessions
	if !full {
		s.open++
	}
	s.mu.Unlock()
	if full {
		_ = c.Reject(ssh.ConnectionFailed, "open failed")
		return
	}
	defer func() {
		s.mu.Lock()
		s.open--
		s.mu.Unlock()
	}()
	ch, reqs, err := c.Accept()
	if err != nil {
		return
	}
	defer ch.Close()
	for req := range reqs {
		if req.Type != "exec" {
			_ = req.Reply(false, nil)
			continue
		}
		_ = req.Reply(true, nil)
		go ssh.DiscardRequests(reqs)
		n := binary.BigEndian.Uint32(req.Payload)
		s.exec(ch, string(req.Payload[4:4+n]))
		return
	}
}

func (s *sshServer) exec(ch ssh.Channel, command string) {
	cmd := exec.Command("/bin/sh", "-c", command)
	cmd.Stdout, cmd.Stderr = ch, ch.Stderr()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return
	}
	if err := cmd.Start(); err != nil {
		return
	}
	go func() { io.Copy(stdin, ch); stdin.Close() }()
	err = cmd.Wait()
	var exit *exec.ExitError
	status := 0
	if errors.As(err, &exit) {
		status = exit.ExitCode()
	}
	_, _ = ch.SendRequest("exit-status", false, binary.BigEndian.AppendUint32(nil, uint32(status)))
}

func ed25519Key(t *testing.T) ssh.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	return signerOf(t, key, err)
}

func ecdsaKey(t *testing.T) ssh.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	return signerOf(t, key, err)
}

func p384(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func rsaKey(t *testing.T) ssh.Signer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	return signerOf(t, key, err)
}

func signerOf(t *testing.T, key any, err error) ssh.Signer {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// keyFile writes a new ed25519 key to dir, encrypted if passphrase is given.
func keyFile(t *testing.T, dir, name, passphrase string) (string, ssh.PublicKey, ed25519.PrivateKey) {
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
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, filepath.Join(dir, name), string(pem.EncodeToMemory(block))), key, private
}

func writeFile(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// acceptKeys is a server configuration that takes the given keys.
func acceptKeys(keys ...ssh.PublicKey) *ssh.ServerConfig {
	return &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
		for _, want := range keys {
			if string(want.Marshal()) == string(k.Marshal()) {
				return nil, nil
			}
		}
		return nil, errors.New("unknown key")
	}}
}

// knownLine is a known_hosts line for s.
func (s *sshServer) knownLine(key ssh.PublicKey) string {
	return fmt.Sprintf("[127.0.0.1]:%d %s", s.port, ssh.MarshalAuthorizedKey(key))
}
