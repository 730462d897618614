package remote

import (
	"errors"
	"io"
	"sync"
)

// Process is a command that runs on the node.
type Process struct {
	Stdin  io.WriteCloser
	Stdout io.Reader
	// Stderr must be read too: a stream that nobody reads stalls after 2 MiB.
	Stderr io.Reader

	resize func(width, height int) error
	kill   func() error

	done chan struct{}
	code int
	err  error
	once sync.Once
}

// watch makes Wait return what wait returns. It is called once, by the dialer.
func (p *Process) watch(wait func() (int, error)) {
	p.done = make(chan struct{})
	go func() {
		p.code, p.err = wait()
		close(p.done)
	}()
}

// Wait blocks until the process has ended and returns its exit status, 128+n
// if signal n ended it. Status -1 comes with an error: the process was closed,
// or the connection ended, before the node told.
func (p *Process) Wait() (int, error) {
	<-p.done
	return p.code, p.err
}

// Done is closed when Wait would return.
func (p *Process) Done() <-chan struct{} { return p.done }

// Close gives the process up. Over SSH it sees end of file on its input, and a
// process in a terminal sees a hangup; the protocol has no way to be sure that
// it ends, so a program meant to run for long must end with its input. A local
// process and its process group are killed. Close does not wait.
func (p *Process) Close() error {
	var err error
	p.once.Do(func() {
		err = p.kill()
	})
	return err
}

// Resize tells a process in a terminal its new size in cells.
func (p *Process) Resize(width, height int) error {
	if p.resize == nil {
		return errors.New("resize: this process has no terminal")
	}
	return p.resize(width, height)
}

// nothing is the Stderr of a process in a terminal.
type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, io.EOF }
