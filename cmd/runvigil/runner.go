package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote"
)

// callTimeout bounds one program on the node: what is read there, or the upload
// of a restart. The engine's own parser may take 20 s of it.
const callTimeout = 60 * time.Second

// redialWait is the pause between two tries to reach the node again.
const redialWait = time.Second

// A runner reaches the node for acting, over one connection that it renews.
type runner struct {
	dial func(ctx context.Context) (*remote.Conn, error)

	mu   sync.Mutex
	conn *remote.Conn
}

func newRunner(n *node) *runner {
	return &runner{dial: func(ctx context.Context) (*remote.Conn, error) { return remote.Dial(ctx, n.target, n.dial) }}
}

// Run feeds a program to a POSIX sh on the node.
func (r *runner) Run(ctx context.Context, program []byte) ([]byte, error) {
	conn, err := r.up(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	res, err := conn.Run(ctx, "exec /bin/sh -s", bytes.NewReader(program))
	if err == nil && res.Exit != 0 {
		err = fmt.Errorf("the node's shell ended with status %d: %s", res.Exit, metrics.Mask(metrics.Clean(strings.TrimSpace(string(res.Stderr)), 300)))
	}
	return res.Stdout, err
}

// Dial connects to a port of the node's loopback.
func (r *runner) Dial(ctx context.Context, port int) (net.Conn, error) {
	conn, err := r.up(ctx)
	if err != nil {
		return nil, err
	}
	return conn.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}

// Wait blocks until the node can be asked again.
func (r *runner) Wait(ctx context.Context) error {
	for {
		conn, err := r.up(ctx)
		if err == nil {
			if err = conn.Ping(ctx); err == nil {
				return nil
			}
			conn.Abandon(err)
		}
		select {
		case <-time.After(redialWait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// up is the living connection.
func (r *runner) up(ctx context.Context) (*remote.Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn != nil && r.conn.Err() == nil {
		return r.conn, nil
	}
	conn, err := r.dial(ctx)
	if err != nil {
		return nil, err
	}
	r.conn = conn
	return conn, nil
}

func (r *runner) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn != nil {
		_ = r.conn.Close()
	}
}
