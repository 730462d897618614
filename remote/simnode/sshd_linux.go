package simnode

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// maxSessions is OpenSSH's default for the sessions of one connection.
const maxSessions = 10

// handshakeLimit is how long a peer may take to log in.
const handshakeLimit = 30 * time.Second

// sshServer is the node's SSH server. A session's slot stays taken until its
// process has ended, as with OpenSSH; forwarded connections take none.
type sshServer struct {
	config  *ssh.ServerConfig
	spawn   *spawner
	environ []string
	home    string
	// reachable says whether a forwarded connection may go to this port: the
	// node's own listeners only.
	reachable func(port int) bool
}

func newSSHServer(hostKey ssh.Signer, client ssh.PublicKey, user string) *sshServer {
	accepted := client.Marshal()
	config := &ssh.ServerConfig{
		ServerVersion: "SSH-2.0-runvigil_simnode",
		PublicKeyCallback: func(meta ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if meta.User() == user && bytes.Equal(key.Marshal(), accepted) {
				return nil, nil
			}
			return nil, fmt.Errorf("the simulated node knows only %s with the key made at its start", user)
		},
	}
	config.AddHostKey(hostKey)
	return &sshServer{config: config}
}

// serve accepts connections until the listener closes.
func (s *sshServer) serve(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go s.handle(conn)
	}
}

func (s *sshServer) handle(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(handshakeLimit))
	server, channels, requests, err := ssh.NewServerConn(conn, s.config)
	if err != nil {
		return
	}
	_ = conn.SetDeadline(time.Time{})
	go ssh.DiscardRequests(requests)
	slots := make(chan struct{}, maxSessions)
	for ch := range channels {
		switch ch.ChannelType() {
		case "session":
			select {
			case slots <- struct{}{}:
				go s.session(ch, server, func() { <-slots })
			default:
				_ = ch.Reject(ssh.ConnectionFailed, "open failed")
			}
		case "direct-tcpip":
			go s.forward(ch)
		default:
			_ = ch.Reject(ssh.UnknownChannelType, "unknown channel type")
		}
	}
}

// forward connects a direct-tcpip channel to a listener of the node.
func (s *sshServer) forward(newChannel ssh.NewChannel) {
	var target struct {
		Host       string
		Port       uint32
		OriginHost string
		OriginPort uint32
	}
	if err := ssh.Unmarshal(newChannel.ExtraData(), &target); err != nil {
		_ = newChannel.Reject(ssh.ConnectionFailed, "malformed request")
		return
	}
	conn, err := s.dial(target.Host, int(target.Port))
	if err != nil {
		_ = newChannel.Reject(ssh.ConnectionFailed, "Connection refused")
		return
	}
	channel, requests, err := newChannel.Accept()
	if err != nil {
		conn.Close()
		return
	}
	go ssh.DiscardRequests(requests)
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(conn, channel)
		_ = conn.(*net.TCPConn).CloseWrite()
	})
	both.Go(func() {
		_, _ = io.Copy(channel, conn)
		_ = channel.CloseWrite()
	})
	both.Wait()
	channel.Close()
	conn.Close()
}

func (s *sshServer) dial(host string, port int) (net.Conn, error) {
	ip := net.ParseIP(host)
	if host != "localhost" && (ip == nil || !ip.IsLoopback()) || !s.reachable(port) {
		return nil, errors.New("not a listener of the node")
	}
	return net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
}
