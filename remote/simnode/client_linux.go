package simnode

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// redialEvery is how long the client waits before it dials again what was
// refused or cut.
const redialEvery = 500 * time.Millisecond

// clientProcess keeps the model's number of connections to the server and
// appends the rows that the model says have landed.
type clientProcess struct {
	mu    sync.Mutex
	port  int
	want  int
	conns []net.Conn
	wake  chan struct{}
}

func runClient(dir string, argv []string) int {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT)
	quitSilently()
	l, err := join(dir, "client", argv)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go func() {
		for sig := range signals {
			l.send(message{Kind: kindSignal, Number: int(sig.(syscall.Signal))})
		}
	}()
	c := &clientProcess{wake: make(chan struct{}, 1)}
	go c.keep()
	for {
		m, err := l.receive()
		if err != nil {
			return 1
		}
		switch m.Kind {
		case kindWrite:
			_, _ = descriptor(m.Number).WriteString(m.Text)
		case kindRow:
			if err := appendLine(m.Dir, m.Text); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		case kindConns:
			c.set(m.Port, m.Number)
		case kindEnd:
			endAs(m.Code)
		}
	}
}

// appendLine opens, appends and closes, as the client does for each row.
func appendLine(path, line string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(line); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

func (c *clientProcess) set(port, want int) {
	c.mu.Lock()
	c.port, c.want = port, want
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// keep opens and closes connections until there are as many as wanted.
func (c *clientProcess) keep() {
	for {
		if c.adjust() {
			<-c.wake
			continue
		}
		select {
		case <-c.wake:
		case <-time.After(redialEvery):
		}
	}
}

// adjust says whether the number of connections is as wanted.
func (c *clientProcess) adjust() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.conns) > c.want {
		c.conns[len(c.conns)-1].Close()
		c.conns = c.conns[:len(c.conns)-1]
	}
	for c.port != 0 && len(c.conns) < c.want {
		conn, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(c.port))
		if err != nil {
			return false
		}
		c.conns = append(c.conns, conn)
		go c.hold(conn)
	}
	return true
}

// hold sends a request and waits until the connection ends.
func (c *clientProcess) hold(conn net.Conn) {
	_, _ = io.WriteString(conn, "POST /generate HTTP/1.1\r\nHost: 127.0.0.1\r\n"+heldHeader+": 1\r\nContent-Length: 2\r\n\r\n{}")
	_, _ = io.Copy(io.Discard, conn)
	conn.Close()
	c.mu.Lock()
	for i, known := range c.conns {
		if known == conn {
			c.conns = append(c.conns[:i], c.conns[i+1:]...)
			break
		}
	}
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}
