package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"golang.org/x/crypto/ssh"
)

// sshTransport speaks channels over an *ssh.Client, whoever authenticated it.
type sshTransport struct {
	client *ssh.Client
	hangUp func() error // ends what carries the client
}

func (t *sshTransport) close() error {
	_ = t.client.Close()
	if t.hangUp != nil {
		return t.hangUp()
	}
	return nil
}

// start opens a session. Every step waits for the server without a deadline,
// and on a silent link for ever, so ctx is watched from outside.
func (t *sshTransport) start(ctx context.Context, command string, tty *terminal) (*Process, error) {
	type opened struct {
		p   *Process
		err error
	}
	ch := make(chan opened, 1)
	go func() {
		p, err := t.open(command, tty)
		ch <- opened{p, err}
	}()
	select {
	case o := <-ch:
		return o.p, o.err
	case <-ctx.Done():
		go func() {
			if o := <-ch; o.p != nil {
				_ = o.p.Close()
			}
		}()
		return nil, context.Cause(ctx)
	}
}

func (t *sshTransport) open(command string, tty *terminal) (*Process, error) {
	s, err := t.client.NewSession()
	if err != nil {
		return nil, sessionError(err)
	}
	p, err := startSession(s, command, tty)
	if err != nil {
		s.Close()
		return nil, err
	}
	return p, nil
}

func startSession(s *ssh.Session, command string, tty *terminal) (*Process, error) {
	stdin, err := s.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := s.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr, err := s.StderrPipe()
	if err != nil {
		return nil, err
	}
	// Closing the session alone gives the process end of file, and unlike
	// closing the input it may happen while somebody writes.
	p := &Process{Stdin: stdin, Stdout: stdout, Stderr: stderr, kill: s.Close}
	if tty != nil {
		if err := s.RequestPty(tty.term, tty.height, tty.width, ssh.TerminalModes{}); err != nil {
			return nil, fmt.Errorf("the node gives no terminal: %w", err)
		}
		p.Stderr = nothing{}
		p.resize = func(width, height int) error { return s.WindowChange(height, width) }
	}
	if command == "" {
		err = s.Shell()
	} else {
		err = s.Start(command)
	}
	if err != nil {
		return nil, fmt.Errorf("the node did not accept the command: %w", err)
	}
	p.watch(func() (int, error) { return exitStatus(s.Wait()) })
	return p, nil
}

func exitStatus(err error) (int, error) {
	var exit *ssh.ExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &exit):
		return exit.ExitStatus(), nil
	default:
		return -1, fmt.Errorf("the process ended without a status: %w", err)
	}
}

func sessionError(err error) error {
	var open *ssh.OpenChannelError
	if errors.As(err, &open) {
		if open.Reason == ssh.Prohibited {
			return fmt.Errorf("the SSH server forbids sessions: %w", err)
		}
		return fmt.Errorf("%w: %s", ErrSessionLimit, open.Message)
	}
	return err
}

func (t *sshTransport) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := t.client.DialContext(ctx, network, addr)
	if err != nil {
		return nil, forwardError(err)
	}
	return conn, nil
}

// forwardError maps the refusal of a direct-tcpip channel. Servers differ in
// the text, not in the reason.
func forwardError(err error) error {
	var open *ssh.OpenChannelError
	if !errors.As(err, &open) {
		return err
	}
	switch open.Reason {
	case ssh.Prohibited, ssh.UnknownChannelType:
		return fmt.Errorf("%w: %s", ErrForwardingProhibited, open.Message)
	default:
		return fmt.Errorf("%w: %s", ErrConnectRefused, strings.TrimSpace(open.Message))
	}
}

// pingChannel is a channel type that no server knows. Its refusal is the sign
// of life: unlike a global request it also passes an ssh client's control
// socket, and unlike a session it costs no slot.
const pingChannel = "ping@runvigil"

func (t *sshTransport) ping(ctx context.Context) error {
	ch := make(chan error, 1)
	go func() {
		c, reqs, err := t.client.OpenChannel(pingChannel, nil)
		if err == nil {
			go ssh.DiscardRequests(reqs)
			c.Close()
		}
		ch <- err
	}()
	select {
	case err := <-ch:
		var open *ssh.OpenChannelError
		if errors.As(err, &open) {
			return nil
		}
		return err
	case <-ctx.Done():
		return fmt.Errorf("no answer: %w", context.Cause(ctx))
	}
}
