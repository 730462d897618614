package simnode

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// heldHeader marks a request of the node's client: its answer is a row, which
// comes another way, so the connection is only held.
const heldHeader = "X-Simnode-Held"

// serverProcess is the main process of the server. What it prints, when its
// port opens, which children it has and how it ends come from the model.
type serverProcess struct {
	dir  string
	link *link

	mu      sync.Mutex
	nextID  int
	replies map[int]chan message
	http    *http.Server
}

func runServer(dir string, argv []string) int {
	signals := make(chan os.Signal, 8)
	watched := []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT}
	if !signal.Ignored(syscall.SIGHUP) {
		watched = append(watched, syscall.SIGHUP)
	}
	signal.Notify(signals, watched...)
	l, err := join(dir, "server", argv)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s := &serverProcess{dir: dir, link: l, replies: make(map[int]chan message)}
	go func() {
		for sig := range signals {
			l.send(message{Kind: kindSignal, Number: int(sig.(syscall.Signal))})
		}
	}()
	// The children's parent-death signal hangs on the thread that forks them.
	runtime.LockOSThread()
	for {
		m, err := l.receive()
		if err != nil {
			return 1
		}
		s.obey(m)
	}
}

func (s *serverProcess) obey(m message) {
	switch m.Kind {
	case kindWrite:
		_, _ = descriptor(m.Number).WriteString(m.Text)
	case kindListen:
		s.listen(m.Port)
	case kindSpawn:
		s.spawn(m)
	case kindReply:
		s.mu.Lock()
		waiting := s.replies[m.ID]
		delete(s.replies, m.ID)
		s.mu.Unlock()
		if waiting != nil {
			waiting <- m
		}
	case kindEnd:
		endAs(m.Code)
	}
}

func (s *serverProcess) spawn(m message) {
	child := &exec.Cmd{
		Path:        places{dir: s.dir}.bin() + "/python3",
		Args:        m.Argv,
		Env:         append(withoutEnv(os.Environ(), roleEnv), roleEnv+"="+m.Role),
		Stdout:      os.Stdout,
		Stderr:      os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	}
	if err := child.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	go func() { _ = child.Wait() }()
}

func (s *serverProcess) listen(port int) {
	if s.http != nil {
		_ = s.http.Close()
		s.http = nil
	}
	if port == 0 {
		return
	}
	address := net.JoinHostPort("0.0.0.0", strconv.Itoa(port))
	listener, err := net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		fmt.Fprintf(os.Stderr, "[%s] ERROR:    [Errno 98] error while attempting to bind on address ('%s', %d): address already in use\n",
			time.Now().Format(time.DateTime), address, port)
		endAs(1)
	}
	s.http = &http.Server{Handler: http.HandlerFunc(s.serve), ErrorLog: nil}
	go func() { _ = s.http.Serve(listener) }()
}

// serve hands a request to the model and waits for its answer.
func (s *serverProcess) serve(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get(heldHeader) != "" {
		<-r.Context().Done()
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return
	}
	reply, err := s.ask(r.Context(), message{Kind: kindRequest, Method: r.Method,
		Target: r.URL.RequestURI(), Auth: r.Header.Get("Authorization"), Body: body})
	if err != nil || reply.Status == 0 {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Server", "uvicorn")
	if reply.Type != "" {
		w.Header().Set("Content-Type", reply.Type)
	}
	w.WriteHeader(reply.Status)
	_, _ = w.Write(reply.Body)
}

func (s *serverProcess) ask(ctx context.Context, m message) (message, error) {
	waiting := make(chan message, 1)
	s.mu.Lock()
	s.nextID++
	m.ID = s.nextID
	s.replies[m.ID] = waiting
	s.mu.Unlock()
	s.link.send(m)
	select {
	case reply := <-waiting:
		return reply, nil
	case <-ctx.Done():
		s.mu.Lock()
		delete(s.replies, m.ID)
		s.mu.Unlock()
		return message{}, ctx.Err()
	}
}
