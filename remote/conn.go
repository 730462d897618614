package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Info says what a connection is. Fields that the dialer cannot know are
// empty; nothing in it is secret.
type Info struct {
	Dialer        string // "openssh", "native" or "local"
	User          string
	Host          string // after resolution through the ssh configuration
	Port          int    // 0 for local
	ServerVersion string // as the server announced it, e.g. "SSH-2.0-OpenSSH_9.6"
	Auth          string // how the login succeeded, e.g. "publickey /home/me/.ssh/id_ed25519"
	// Prompted is true when a person had to answer something that a
	// reconnect would ask again: a passphrase, password or code, or a touch.
	// A confirmed host key is stored and does not count.
	Prompted bool
	// HandshakeTime is the time from the first byte to the end of the login,
	// without the time that prompts were open.
	HandshakeTime time.Duration
}

// String is "user@host:port" as far as it is known.
func (i Info) String() string {
	if i.Dialer == DialerLocal {
		return "local"
	}
	return Target{User: i.User, Host: i.Host, Port: i.Port}.String()
}

// transport is what a dialer supplies. start and dial honour ctx only until
// they return.
type transport interface {
	start(ctx context.Context, command string, tty *terminal) (*Process, error)
	dial(ctx context.Context, network, addr string) (net.Conn, error)
	ping(ctx context.Context) error
	close() error
}

// terminal is the size and kind of a requested pseudo-terminal, in cells.
type terminal struct {
	term          string
	width, height int
}

// Conn is one connection to one node. Its methods may be called from several
// goroutines.
type Conn struct {
	tr   transport
	info Info

	once sync.Once
	done chan struct{}
	err  error
}

func newConn(tr transport, info Info) *Conn {
	return &Conn{tr: tr, info: info, done: make(chan struct{})}
}

// Info describes the connection.
func (c *Conn) Info() Info { return c.info }

// Done is closed when the connection is dead or closed.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err says why the connection ended: [ErrClosed] after Close, else the cause.
// It is nil while the connection is up.
func (c *Conn) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// Wait blocks until the connection has ended and returns Err.
func (c *Conn) Wait() error {
	<-c.done
	return c.err
}

// end records why the connection is over. The first reason stands.
func (c *Conn) end(reason error) {
	c.once.Do(func() {
		c.err = reason
		close(c.done)
		// A transport may block in close on a link that is gone; nobody who
		// waits for Done may wait for that.
		go func() { _ = c.tr.close() }()
	})
}

// Close ends the connection and everything that was started over it. Processes
// on the node see end of file on their input; see [Process.Close].
func (c *Conn) Close() error {
	first := false
	c.once.Do(func() {
		first = true
		c.err = ErrClosed
		close(c.done)
	})
	if !first {
		return nil
	}
	return c.tr.close()
}

// Abandon ends the connection with a reason that Err will report, without
// waiting for the other side.
func (c *Conn) Abandon(reason error) { c.end(reason) }

// Ping asks the other side for a sign of life and returns nil when it came. It
// costs one round trip and no session.
func (c *Conn) Ping(ctx context.Context) error {
	return c.explain("ping", c.tr.ping(ctx))
}

// explain names the operation and, when the connection is gone, why.
func (c *Conn) explain(op string, err error) error {
	if err == nil {
		return nil
	}
	if cause := c.Err(); cause != nil {
		return fmt.Errorf("%s on %s: %w: %w", op, c.info, ErrLinkDown, cause)
	}
	return fmt.Errorf("%s on %s: %w", op, c.info, err)
}

// Start runs command on the node with the login shell of the user (local:
// /bin/sh) and returns when it was accepted. ctx bounds only the start; the
// process lives until it ends, its Close or the end of the connection.
func (c *Conn) Start(ctx context.Context, command string) (*Process, error) {
	p, err := c.tr.start(ctx, command, nil)
	if err != nil {
		return nil, c.explain("start a command", err)
	}
	return p, nil
}

// StartPTY runs command, or the login shell when command is empty, in a
// pseudo-terminal of width by height cells. Output and errors of the process
// both come from Stdout; Stderr is empty.
func (c *Conn) StartPTY(ctx context.Context, term string, width, height int, command string) (*Process, error) {
	if term == "" {
		term = "xterm-256color"
	}
	p, err := c.tr.start(ctx, command, &terminal{term: term, width: width, height: height})
	if err != nil {
		return nil, c.explain("open a terminal", err)
	}
	return p, nil
}

// DialContext connects from the node to addr ("host:port" on tcp, a path on
// unix). The error is [ErrForwardingProhibited] where the node forbids
// forwarding and [ErrConnectRefused] where nothing listens. Deadlines cannot
// be set on the returned connection of an SSH dialer.
func (c *Conn) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := c.tr.dial(ctx, network, addr)
	if err != nil {
		return nil, c.explain("connect to "+addr, err)
	}
	return conn, nil
}

// Result is what a finished command left. Exit is the exit status, 128+n for a
// command that signal n ended, and -1 when the node did not tell.
type Result struct {
	Stdout, Stderr []byte
	Exit           int
}

// maxOutput bounds each stream that Run keeps, in bytes.
const maxOutput = 16 << 20

// Run runs command to its end with stdin (may be nil) as input. A status other
// than 0 is not an error. When ctx ends first the process is closed. Output
// beyond 16 MiB a stream is an error.
//
// The command must not leave children that hold its output: Run waits for end
// of file on both streams.
func (c *Conn) Run(ctx context.Context, command string, stdin io.Reader) (Result, error) {
	p, err := c.Start(ctx, command)
	if err != nil {
		return Result{Exit: -1}, err
	}
	defer func() { _ = p.Close() }()

	go func() {
		if stdin != nil {
			io.Copy(p.Stdin, stdin)
		}
		p.Stdin.Close()
	}()
	type finished struct {
		res Result
		err error
	}
	ch := make(chan finished, 1)
	go func() {
		res, err := p.collect()
		ch <- finished{res, err}
	}()
	select {
	case f := <-ch:
		return f.res, c.explain("run a command", f.err)
	case <-ctx.Done():
		// Over SSH the streams end only when the node says so, and on a
		// silent link never: nobody waits for that.
		return Result{Exit: -1}, c.explain("run a command", context.Cause(ctx))
	}
}

// collect reads both streams to their end and waits.
func (p *Process) collect() (Result, error) {
	res := Result{Exit: -1}
	var streams sync.WaitGroup
	var outErr, errErr error
	streams.Go(func() { res.Stdout, outErr = readCapped(p.Stdout) })
	streams.Go(func() { res.Stderr, errErr = readCapped(p.Stderr) })
	streams.Wait()
	if err := errors.Join(outErr, errErr); err != nil {
		return res, err
	}
	var err error
	res.Exit, err = p.Wait()
	return res, err
}

func readCapped(r io.Reader) ([]byte, error) {
	var b bytes.Buffer
	n, err := io.Copy(&b, io.LimitReader(r, maxOutput+1))
	if n > maxOutput {
		io.Copy(io.Discard, r) // so that the command can end
		return nil, fmt.Errorf("output is larger than %d MiB", maxOutput>>20)
	}
	return b.Bytes(), err
}
