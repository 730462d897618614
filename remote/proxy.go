package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

const maxJumps = 8

// dialJumps connects the hops of ProxyJump, each through the one before, and
// returns the last; nil without hops.
func dialJumps(ctx context.Context, s settings, o Options) (*Conn, error) {
	hops, err := s.jumps()
	if err != nil || len(hops) == 0 {
		return nil, err
	}
	if o.depth++; o.depth > maxJumps {
		return nil, fmt.Errorf("ProxyJump of the ssh configuration: more than %d jumps, so it loops", maxJumps)
	}
	o.Identity = "" // ssh offers -i to the target only
	var via *Conn
	for _, hop := range hops {
		hs, err := resolve(ctx, hop, o)
		if err == nil {
			if via != nil {
				hs.proxyJump, hs.proxyCommand = "", ""
			}
			var next *Conn
			if next, err = dialResolved(ctx, hop, o, hs, via); err == nil {
				via = next
				continue
			}
		}
		if via != nil {
			_ = via.Close()
		}
		return nil, fmt.Errorf("jump host %s: %w", hop, err)
	}
	return via, nil
}

// openTransport makes the byte stream to the SSH server.
func openTransport(ctx context.Context, s settings, via *Conn, addr string) (net.Conn, error) {
	switch {
	case via != nil:
		return via.DialContext(ctx, "tcp", addr)
	case s.proxyCommand != "":
		home, _ := os.UserHomeDir()
		return startProxy(s.tokens(s.proxyCommand, home))
	default:
		d := net.Dialer{KeepAlive: defaultKeepAlive}
		return d.DialContext(ctx, "tcp", addr)
	}
}

// startProxy runs a ProxyCommand. Its ends of the pipes close when this
// program is gone, which is how such commands end.
func startProxy(command string) (net.Conn, error) {
	p, cmd, err := startLocal("exec " + command)
	if err != nil {
		return nil, fmt.Errorf("start the ProxyCommand: %w", err)
	}
	p.watch(func() (int, error) { return localStatus(cmd, cmd.Wait()) })
	c := &proxyConn{p: p, words: &sshLog{}, spoke: make(chan struct{})}
	go func() {
		c.words.read(p.Stderr)
		close(c.spoke)
	}()
	return c, nil
}

// proxyConn is the stream of a ProxyCommand. It knows no deadlines.
type proxyConn struct {
	p     *Process
	words *sshLog
	spoke chan struct{} // closed when words is complete
}

// Read ends with the command's last words, the only explanation there is.
func (c *proxyConn) Read(b []byte) (int, error) {
	n, err := c.p.Stdout.Read(b)
	if errors.Is(err, io.EOF) {
		err = c.ended(err)
	}
	return n, err
}

// Write fails with the last words too where the command ended before the
// handshake's first byte.
func (c *proxyConn) Write(b []byte) (int, error) {
	n, err := c.p.Stdin.Write(b)
	if err != nil {
		err = c.ended(err)
	}
	return n, err
}

func (c *proxyConn) ended(err error) error {
	select {
	case <-c.spoke:
	case <-time.After(killGrace):
	}
	if s := c.words.lastWords(); s != "" {
		return fmt.Errorf("the ProxyCommand ended: %s", s)
	}
	return err
}

func (c *proxyConn) Close() error         { return c.p.Close() }
func (c *proxyConn) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4zero} }
func (c *proxyConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4zero} }

func (c *proxyConn) SetDeadline(time.Time) error      { return syscall.ENOTSUP }
func (c *proxyConn) SetReadDeadline(time.Time) error  { return syscall.ENOTSUP }
func (c *proxyConn) SetWriteDeadline(time.Time) error { return syscall.ENOTSUP }
