package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

// clientVersionString is what a server sees of the native dialer.
const clientVersionString = "SSH-2.0-runvigil"

func dialNative(ctx context.Context, t Target, o Options) (*Conn, error) {
	s, err := resolve(ctx, t, o)
	if err != nil {
		return nil, err
	}
	return dialResolved(ctx, t, o, s, nil)
}

// dialResolved connects to a host with known settings, through via where the
// hop before it is connected already.
func dialResolved(ctx context.Context, t Target, o Options, s settings, via *Conn) (*Conn, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	clock := newLoginClock(o.timeout(), func() { cancel(errLoginTimeout) })
	defer clock.stop()
	a := &asker{prompter: o.Prompter, target: t, pause: clock.pause}

	if via == nil {
		var err error
		resume := clock.pause() // each hop has its own time
		via, err = dialJumps(ctx, s, o)
		resume()
		if err != nil {
			return nil, err
		}
	}
	closeVia := func() {
		if via != nil {
			_ = via.Close()
		}
	}
	addr := net.JoinHostPort(s.host, strconv.Itoa(s.port))
	nc, err := openTransport(ctx, s, via, addr)
	if err != nil {
		closeVia()
		return nil, unreachable(ctx, "connect", addr, err, o)
	}
	conn, info, err := handshake(ctx, nc, s, o, a, addr)
	if err != nil {
		nc.Close()
		closeVia()
		return nil, err
	}
	info.Prompted = a.prompted || (via != nil && via.info.Prompted)
	info.HandshakeTime = clock.spent()
	tr := &sshTransport{client: conn, hangUp: func() error { nc.Close(); closeVia(); return nil }}
	c := newConn(tr, info)
	go func() {
		err := conn.Wait()
		if err == nil || errors.Is(err, io.EOF) {
			err = fmt.Errorf("the node closed the connection: %w", io.EOF)
		}
		c.end(err)
	}()
	go c.keepAlive(o.keepAlive())
	return c, nil
}

// keepAlive asks for a sign of life each interval. It ends the connection when
// none came for missedKeepAlives intervals: the library never would.
func (c *Conn) keepAlive(interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	limit := missedKeepAlives * interval
	for {
		select {
		case <-c.done:
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		err := c.tr.ping(ctx)
		timedOut := ctx.Err() != nil
		cancel()
		if err != nil && timedOut {
			c.end(fmt.Errorf("no answer from the node for %v", limit))
			return
		}
	}
}

// handshake does key exchange and login on nc, which is closed when ctx ends:
// a channel of another connection knows no deadline.
func handshake(ctx context.Context, nc net.Conn, s settings, o Options, a *asker, addr string) (*ssh.Client, Info, error) {
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	defer stop()
	cfg := &ssh.ClientConfig{User: s.user, ClientVersion: clientVersionString}
	var keys *hostKeys
	if o.HostKey != nil {
		cfg.HostKeyCallback = ssh.FixedHostKey(o.HostKey)
	} else {
		var err error
		if keys, err = newHostKeys(ctx, s, a); err != nil {
			return nil, Info{}, err
		}
		cfg.HostKeyCallback = keys.check
		cfg.HostKeyAlgorithms = keys.algorithms()
	}
	ring := &keyring{ctx: ctx, asker: a}
	defer ring.close()
	creds, err := ring.collect(s, o)
	if err != nil {
		return nil, Info{}, err
	}
	l := &login{ctx: ctx, asker: a, user: s.user, host: s.host, pending: creds}
	cfg.AuthCallback = l.next

	conn, chans, reqs, err := ssh.NewClientConn(nc, addr, cfg)
	if err == nil && !stop() {
		_ = conn.Close()
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, Info{}, handshakeError(ctx, err, addr, o, a, keys, l, ring.notes)
	}
	info := Info{
		Dialer:        DialerNative,
		User:          s.user,
		Host:          s.host,
		Port:          s.port,
		ServerVersion: string(conn.ServerVersion()),
		Auth:          l.how(),
	}
	return ssh.NewClient(conn, chans, reqs), info, nil
}

func handshakeError(ctx context.Context, err error, addr string, o Options, a *asker, keys *hostKeys, l *login, notes []Attempt) error {
	if ctx.Err() != nil {
		err := unreachable(ctx, "handshake", addr, context.Cause(ctx), o)
		var un *UnreachableError
		if errors.As(err, &un) && l.started {
			un.Hint = hintSlow
		}
		return err
	}
	if keys != nil && keys.failed != nil {
		if a.unanswered != nil {
			return a.needed(keys.failed)
		}
		return keys.failed
	}
	if errors.Is(err, ErrCanceled) {
		return fmt.Errorf("login to %s: %w", a.target, ErrCanceled)
	}
	var algorithms *ssh.AlgorithmNegotiationError
	switch {
	case l.started:
		return a.needed(newAuthError(l.user, l.host, append(l.tried, notes...), l.offered, err))
	case errors.As(err, &algorithms):
		return fmt.Errorf("agree on algorithms with %s: %w; try --dial openssh", addr, err)
	case o.HostKey != nil && !errors.Is(err, io.EOF):
		return &HostKeyError{Host: addr, Changed: true, Err: err,
			Known: []KnownKey{{Type: o.HostKey.Type(), Fingerprint: ssh.FingerprintSHA256(o.HostKey)}}}
	default:
		return unreachable(ctx, "handshake", addr, err, o)
	}
}

// unreachable gives a failure before the login its shape and a hint.
func unreachable(ctx context.Context, op, addr string, err error, o Options) error {
	if ctx.Err() != nil {
		cause := context.Cause(ctx)
		if !errors.Is(cause, errLoginTimeout) {
			return fmt.Errorf("connect to %s: %w", addr, cause)
		}
		err = fmt.Errorf("no answer within %v", o.timeout())
	}
	e := &UnreachableError{Op: op, Addr: addr, Err: err}
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		e.Op, e.Hint = "resolve", hintResolve
	case op == "handshake":
		e.Hint = hintHandshake
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, ErrConnectRefused):
		e.Hint = hintConnect("refused")
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		e.Hint = hintConnect("unreachable")
	case ctx.Err() != nil, errors.Is(err, syscall.ETIMEDOUT):
		e.Hint = hintConnect("timed out")
	}
	return e
}
