package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/charmbracelet/x/term"
	"github.com/muesli/cancelreader"

	"github.com/runvigil/runvigil/remote"
)

// A remoteShell runs a login shell on the node on this terminal, over the
// connection that the screen uses too.
type remoteShell struct {
	ctx  context.Context
	conn *remote.Conn

	in  io.Reader
	out io.Writer
}

func (s *remoteShell) SetStdin(r io.Reader)  { s.in = r }
func (s *remoteShell) SetStdout(w io.Writer) { s.out = w }
func (s *remoteShell) SetStderr(io.Writer)   {}

// Run hands the terminal to the shell until it ends.
func (s *remoteShell) Run() error {
	tty, ok := s.out.(*os.File)
	if !ok {
		tty = os.Stdout
	}
	width, height, err := term.GetSize(tty.Fd())
	if err != nil {
		width, height = 80, 24
	}
	name := os.Getenv("TERM")
	if name == "" {
		name = "xterm"
	}
	p, err := s.conn.StartPTY(s.ctx, name, width, height, "")
	if err != nil {
		return err
	}
	defer p.Close()
	in, ok := s.in.(*os.File)
	if !ok {
		in = os.Stdin
	}
	old, err := term.MakeRaw(in.Fd())
	if err != nil {
		return err
	}
	restore := func() error { return term.Restore(in.Fd(), old) }
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	keys, err := cancelreader.NewReader(in)
	if err != nil {
		return errors.Join(err, restore())
	}
	// The next key after the shell's end belongs to the screen again.
	defer keys.Cancel()
	go func() { _, _ = io.Copy(p.Stdin, keys) }()
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(s.out, p.Stdout)
	}()
	for {
		select {
		case <-resized:
			if w, h, err := term.GetSize(tty.Fd()); err == nil {
				_ = p.Resize(w, h)
			}
		case <-p.Done():
			<-read
			return restore()
		case <-s.ctx.Done():
			return errors.Join(s.ctx.Err(), restore())
		}
	}
}
