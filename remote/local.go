package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"sync"
	"syscall"

	"github.com/creack/pty"
)

// Local is this machine behind the same type: commands run with /bin/sh in
// sessions of their own, connections are made directly.
func Local() *Conn {
	info := Info{Dialer: DialerLocal, Host: "local"}
	if u, err := user.Current(); err == nil {
		info.User = u.Username
	}
	return newConn(&localTransport{running: map[*Process]bool{}}, info)
}

type localTransport struct {
	mu      sync.Mutex
	closed  bool
	running map[*Process]bool
}

func (t *localTransport) close() error {
	t.mu.Lock()
	t.closed = true
	var running []*Process
	for p := range t.running {
		running = append(running, p)
	}
	t.mu.Unlock()
	for _, p := range running {
		_ = p.Close()
		<-p.done
	}
	return nil
}

func (t *localTransport) ping(context.Context) error { return nil }

func (t *localTransport) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("%w: %w", ErrConnectRefused, err)
	}
	return conn, err
}

func (t *localTransport) start(ctx context.Context, command string, tty *terminal) (*Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, ErrClosed
	}
	var p *Process
	var cmd *exec.Cmd
	var err error
	if tty != nil {
		p, cmd, err = startLocalTTY(command, tty)
	} else {
		p, cmd, err = startLocal(command)
	}
	if err != nil {
		return nil, err
	}
	t.running[p] = true
	p.watch(func() (int, error) {
		err := cmd.Wait()
		t.mu.Lock()
		delete(t.running, p)
		t.mu.Unlock()
		return localStatus(cmd, err)
	})
	return p, nil
}

// startLocal gives the command three pipes. They are made here rather than by
// os/exec because Wait must not close what a reader still reads.
func startLocal(command string) (*Process, *exec.Cmd, error) {
	cmd := exec.Command("/bin/sh", "-c", command)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var files [6]*os.File
	for i := 0; i < 6; i += 2 {
		r, w, err := os.Pipe()
		if err != nil {
			closeFiles(files[:])
			return nil, nil, err
		}
		files[i], files[i+1] = r, w
	}
	inR, inW, outR, outW, errR, errW := files[0], files[1], files[2], files[3], files[4], files[5]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inR, outW, errW
	if err := cmd.Start(); err != nil {
		closeFiles(files[:])
		return nil, nil, err
	}
	closeFiles([]*os.File{inR, outW, errW})
	p := &Process{Stdin: inW, Stdout: outR, Stderr: errR}
	p.kill = func() error {
		err := p.killGroup(cmd.Process.Pid)
		closeFiles([]*os.File{inW, outR, errR})
		return err
	}
	return p, cmd, nil
}

func startLocalTTY(command string, tty *terminal) (*Process, *exec.Cmd, error) {
	shell := os.Getenv("SHELL")
	if shell == "" {
		shell = "/bin/sh"
	}
	cmd := exec.Command(shell)
	if command != "" {
		cmd = exec.Command("/bin/sh", "-c", command)
	}
	cmd.Env = append(os.Environ(), "TERM="+tty.term)
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: uint16(tty.height), Cols: uint16(tty.width)})
	if err != nil {
		return nil, nil, err
	}
	p := &Process{Stdin: ttyInput{f}, Stdout: ttyOutput{f}, Stderr: nothing{}}
	p.resize = func(width, height int) error {
		return pty.Setsize(f, &pty.Winsize{Rows: uint16(height), Cols: uint16(width)})
	}
	p.kill = func() error {
		err := p.killGroup(cmd.Process.Pid)
		f.Close()
		return err
	}
	return p, cmd, nil
}

// ttyInput leaves the terminal open on Close: its output is still to be read.
type ttyInput struct{ f *os.File }

func (t ttyInput) Write(b []byte) (int, error) { return t.f.Write(b) }
func (t ttyInput) Close() error                { return nil }

// ttyOutput reads end of file where Linux reports EIO: the last process on the
// terminal has gone.
type ttyOutput struct{ f *os.File }

func (t ttyOutput) Read(b []byte) (int, error) {
	n, err := t.f.Read(b)
	if errors.Is(err, syscall.EIO) {
		err = io.EOF
	}
	return n, err
}

// killGroup kills the process group of the session leader pid. Once the leader
// was waited for, the number may be another's: then nothing is killed.
func (p *Process) killGroup(pid int) error {
	select {
	case <-p.done:
		return nil
	default:
	}
	if err := syscall.Kill(-pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill process group %d: %w", pid, err)
	}
	return nil
}

func localStatus(cmd *exec.Cmd, err error) (int, error) {
	if cmd.ProcessState == nil {
		return -1, err
	}
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return cmd.ProcessState.ExitCode(), nil
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}
