package remote

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// testConn holds every kind of connection to the same promises. c must reach
// this machine.
func testConn(t *testing.T, c *Conn) {
	t.Run("run", func(t *testing.T) {
		res, err := c.Run(t.Context(), "cat; echo problem >&2; exit 3", strings.NewReader("hello"))
		if err != nil || string(res.Stdout) != "hello" || strings.TrimSpace(string(res.Stderr)) != "problem" || res.Exit != 3 {
			t.Errorf("got %q, %q, %d, %v", res.Stdout, res.Stderr, res.Exit, err)
		}
	})
	t.Run("signal", func(t *testing.T) {
		res, err := c.Run(t.Context(), "kill -9 $$", nil)
		if err != nil || res.Exit != 128+9 {
			t.Errorf("got %d, %v", res.Exit, err)
		}
	})
	t.Run("much output", func(t *testing.T) {
		res, err := c.Run(t.Context(), "head -c 5000000 /dev/zero; head -c 3000000 /dev/zero >&2", nil)
		if err != nil || len(res.Stdout) != 5000000 || len(res.Stderr) != 3000000 {
			t.Errorf("got %d and %d bytes, %v", len(res.Stdout), len(res.Stderr), err)
		}
	})
	t.Run("run until ctx ends", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := c.Run(ctx, "cat; exec sleep 2", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("long-lived shell", func(t *testing.T) {
		p, err := c.Start(t.Context(), "exec /bin/sh -s")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = p.Close() }()
		go io.Copy(io.Discard, p.Stderr)
		out := bufio.NewReader(p.Stdout)
		for _, word := range []string{"one", "two"} {
			if _, err := io.WriteString(p.Stdin, "echo "+word+"\n"); err != nil {
				t.Fatal(err)
			}
			if line, err := out.ReadString('\n'); err != nil || line != word+"\n" {
				t.Fatalf("got %q, %v", line, err)
			}
		}
		p.Stdin.Close()
		if code, err := p.Wait(); code != 0 || err != nil {
			t.Errorf("ended with %d, %v", code, err)
		}
	})
	t.Run("dial through", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			if nc, err := l.Accept(); err == nil {
				io.Copy(nc, nc)
				nc.Close()
			}
		}()
		nc, err := c.DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		if _, err := io.WriteString(nc, "echo"); err != nil {
			t.Fatal(err)
		}
		var b [4]byte
		if _, err := io.ReadFull(nc, b[:]); err != nil || string(b[:]) != "echo" {
			t.Errorf("got %q, %v", b, err)
		}
		l.Close()
		if _, err := c.DialContext(t.Context(), "tcp", l.Addr().String()); !errors.Is(err, ErrConnectRefused) {
			t.Errorf("nothing listens: %v", err)
		}
	})
	t.Run("ping", func(t *testing.T) {
		if err := c.Ping(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("terminal", func(t *testing.T) {
		p, err := c.StartPTY(t.Context(), "xterm", 100, 30, `stty size; echo "$TERM"; read x; stty size; exit 4`)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = p.Close() }()
		out := bufio.NewReader(p.Stdout)
		for _, want := range []string{"30 100", "xterm"} {
			if line, err := out.ReadString('\n'); err != nil || strings.TrimSpace(line) != want {
				t.Fatalf("got %q, %v; want %q", line, err, want)
			}
		}
		if err := p.Resize(90, 20); err != nil {
			t.Fatal(err)
		}
		// The new size travels apart from the input; the answer to a ping came
		// after it was applied.
		if err := c.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(p.Stdin, "go\n"); err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(out)
		if err != nil || !bytes.Contains(rest, []byte("20 90")) {
			t.Errorf("after the resize: %q, %v", rest, err)
		}
		if code, err := p.Wait(); code != 4 || err != nil {
			t.Errorf("ended with %d, %v", code, err)
		}
	})
	t.Run("no terminal, no size", func(t *testing.T) {
		p, err := c.Start(t.Context(), "cat")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = p.Close() }()
		if err := p.Resize(10, 10); err == nil {
			t.Error("Resize without a terminal gave no error")
		}
	})
	t.Run("ctx is over", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Start(ctx, "true"); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

func TestLocal(t *testing.T) {
	c := Local()
	testConn(t, c)
	p, err := c.Start(t.Context(), "echo $$; exec sleep 1000")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(p.Stdout).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if code, err := p.Wait(); code != 128+9 || err != nil {
		t.Errorf("after Close: %d, %v", code, err)
	}
	if _, err := c.Start(t.Context(), "true"); !errors.Is(err, ErrLinkDown) || !errors.Is(err, ErrClosed) {
		t.Errorf("Start after Close: %v", err)
	}
}
