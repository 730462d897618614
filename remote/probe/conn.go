package probe

import (
	"context"
	"io"
	"net"

	"github.com/runvigil/runvigil/remote"
)

// Conn is what the probe needs of a connection. Start runs a command with the
// user's login shell on the node; its error wraps remote.ErrSessionLimit where
// the node grants no more. DialContext connects from the node; its error wraps
// remote.ErrForwardingProhibited where that is forbidden.
type Conn interface {
	Start(ctx context.Context, command string) (*Stream, error)
	DialContext(ctx context.Context, network, addr string) (net.Conn, error)
}

// Stream is a command that runs on the node.
type Stream struct {
	Stdin  io.WriteCloser
	Stdout io.Reader
	Stderr io.Reader // may be nil
	// Close gives the command up: it sees the end of its input.
	Close func() error
}

// Over makes a connection of package remote usable for a probe.
func Over(c *remote.Conn) Conn { return overRemote{c} }

type overRemote struct{ c *remote.Conn }

func (o overRemote) Start(ctx context.Context, command string) (*Stream, error) {
	p, err := o.c.Start(ctx, command)
	if err != nil {
		return nil, err
	}
	return &Stream{Stdin: p.Stdin, Stdout: p.Stdout, Stderr: p.Stderr, Close: p.Close}, nil
}

func (o overRemote) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	return o.c.DialContext(ctx, network, addr)
}
