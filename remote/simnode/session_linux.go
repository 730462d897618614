package simnode

import (
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"
)

// shellPath is the login shell of the node's user.
const shellPath = "/bin/sh"

// terminalDrain is how long the last output of a program on a terminal may
// take before the terminal is hung up under what still holds it.
const terminalDrain = 200 * time.Millisecond

// session is one channel of type session: at most one program, in a session
// of its own, with three pipes or with a terminal.
type session struct {
	server  *sshServer
	channel ssh.Channel
	environ []string

	terminal, line *os.File
	child          *process
	output         sync.WaitGroup
}

func (s *sshServer) session(newChannel ssh.NewChannel, conn *ssh.ServerConn, release func()) {
	defer release()
	channel, requests, err := newChannel.Accept()
	if err != nil {
		return
	}
	se := &session{server: s, channel: channel, environ: slices.Clone(s.environ)}
	client, clientPort, _ := net.SplitHostPort(conn.RemoteAddr().String())
	_, port, _ := net.SplitHostPort(conn.LocalAddr().String())
	se.environ = append(se.environ,
		"SSH_CLIENT="+client+" "+clientPort+" "+port,
		"SSH_CONNECTION="+client+" "+clientPort+" 127.0.0.1 "+port)
	for request := range requests {
		ok := se.handle(request)
		if request.WantReply {
			_ = request.Reply(ok, nil)
		}
		if ok && (request.Type == "exec" || request.Type == "shell") {
			go se.finish()
		}
	}
	se.closeTerminal()
	if se.child != nil {
		// The slot is free once the program itself has ended.
		<-se.child.ended
	}
}

// handle carries out one request and says whether it succeeded.
func (se *session) handle(request *ssh.Request) bool {
	switch request.Type {
	case "env":
		var variable struct{ Name, Value string }
		if ssh.Unmarshal(request.Payload, &variable) != nil || !acceptedVariable(variable.Name) {
			return false
		}
		se.environ = append(se.environ, variable.Name+"="+variable.Value)
		return true
	case "pty-req":
		return se.openTerminal(request.Payload)
	case "window-change":
		var size struct{ Columns, Rows, Width, Height uint32 }
		if se.terminal == nil || ssh.Unmarshal(request.Payload, &size) != nil {
			return false
		}
		return pty.Setsize(se.terminal, &pty.Winsize{Cols: uint16(size.Columns), Rows: uint16(size.Rows)}) == nil
	case "shell":
		return se.start("-sh")
	case "exec":
		var command struct{ Line string }
		if ssh.Unmarshal(request.Payload, &command) != nil {
			return false
		}
		return se.start("sh", "-c", command.Line)
	case "signal":
		var sig struct{ Name string }
		if ssh.Unmarshal(request.Payload, &sig) != nil || se.child == nil {
			return false
		}
		number := unix.SignalNum("SIG" + sig.Name)
		return number != 0 && syscall.Kill(-se.child.pid, number) == nil
	default:
		return false
	}
}

// acceptedVariable is what a stock sshd_config lets through.
func acceptedVariable(name string) bool {
	return name == "LANG" || strings.HasPrefix(name, "LC_")
}

func (se *session) openTerminal(payload []byte) bool {
	var ask struct {
		Term                         string
		Columns, Rows, Width, Height uint32
		Modes                        string
	}
	if se.terminal != nil || ssh.Unmarshal(payload, &ask) != nil {
		return false
	}
	terminal, line, err := pty.Open()
	if err != nil {
		return false
	}
	se.terminal, se.line = terminal, line
	se.environ = append(se.environ, "TERM="+ask.Term, "SSH_TTY="+line.Name())
	_ = pty.Setsize(terminal, &pty.Winsize{Cols: uint16(ask.Columns), Rows: uint16(ask.Rows)})
	return true
}

// closeTerminal hangs up: the program gets SIGHUP, as from sshd.
func (se *session) closeTerminal() {
	if se.terminal != nil {
		se.terminal.Close()
	}
}

func (se *session) start(argv ...string) bool {
	if se.child != nil {
		return false
	}
	attr := &syscall.ProcAttr{Dir: se.server.home, Env: se.environ, Sys: &syscall.SysProcAttr{}}
	if se.terminal != nil {
		return se.startOnTerminal(argv, attr)
	}
	return se.startOnPipes(argv, attr)
}

func (se *session) startOnTerminal(argv []string, attr *syscall.ProcAttr) bool {
	defer se.line.Close()
	fd := se.line.Fd()
	attr.Files = []uintptr{fd, fd, fd}
	attr.Sys.Setctty = true
	child, err := se.server.spawn.start(shellPath, argv, attr)
	if err != nil {
		return false
	}
	se.child = child
	go func() { _, _ = io.Copy(se.terminal, se.channel) }()
	se.output.Go(func() { _, _ = io.Copy(se.channel, se.terminal) })
	return true
}

func (se *session) startOnPipes(argv []string, attr *syscall.ProcAttr) bool {
	// The program's ends stay out of the runtime's poller, which would make
	// them non-blocking for the program too.
	var ours [3]*os.File
	defer func() {
		for _, f := range attr.Files {
			_ = syscall.Close(int(f))
		}
	}()
	for i := range ours {
		var ends [2]int
		if err := syscall.Pipe2(ends[:], syscall.O_CLOEXEC); err != nil {
			return false
		}
		mine := 0
		if i == 0 {
			mine = 1
		}
		attr.Files = append(attr.Files, uintptr(ends[1-mine]))
		_ = syscall.SetNonblock(ends[mine], true)
		ours[i] = os.NewFile(uintptr(ends[mine]), "session pipe")
	}
	child, err := se.server.spawn.start(shellPath, argv, attr)
	if err != nil {
		for _, f := range ours {
			f.Close()
		}
		return false
	}
	se.child = child
	go func() {
		_, _ = io.Copy(ours[0], se.channel)
		ours[0].Close()
	}()
	se.output.Go(func() {
		_, _ = io.Copy(se.channel, ours[1])
		ours[1].Close()
	})
	se.output.Go(func() {
		_, _ = io.Copy(se.channel.Stderr(), ours[2])
		ours[2].Close()
	})
	return true
}

// finish reports the program's end. Without a terminal the channel stays open
// as long as anything holds the program's output, as with OpenSSH.
func (se *session) finish() {
	<-se.child.ended
	drained := make(chan struct{})
	go func() {
		se.output.Wait()
		close(drained)
	}()
	if se.terminal != nil {
		select {
		case <-drained:
		case <-time.After(terminalDrain):
			se.closeTerminal()
		}
	}
	status := se.child.status
	if status.Signaled() {
		_, _ = se.channel.SendRequest("exit-signal", false, ssh.Marshal(struct {
			Signal     string
			CoreDumped bool
			Message    string
			Language   string
		}{Signal: strings.TrimPrefix(unix.SignalName(status.Signal()), "SIG"), CoreDumped: status.CoreDump()}))
	} else {
		_, _ = se.channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{uint32(status.ExitStatus())}))
	}
	<-drained
	_ = se.channel.CloseWrite()
	se.channel.Close()
}
