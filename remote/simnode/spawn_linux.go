package simnode

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// spawner starts and reaps processes. Every start happens on one locked
// thread, because the signal that a child gets at its parent's death is bound
// to the thread that forked it. One loop reaps: the node's own children and
// the orphans that come to a subreaper alike.
type spawner struct {
	requests chan spawnRequest
	children chan os.Signal

	mu      sync.Mutex
	stopped bool
	waiting map[int]*process
}

// process is a child of this one; status is valid once ended is closed.
type process struct {
	pid    int
	ended  chan struct{}
	status syscall.WaitStatus
}

type spawnRequest struct {
	path  string
	argv  []string
	attr  *syscall.ProcAttr
	reply chan spawnReply
}

type spawnReply struct {
	child *process
	err   error
}

// newSpawner makes this process a subreaper and starts both loops.
func newSpawner() (*spawner, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become the parent of orphans (PR_SET_CHILD_SUBREAPER): %w", err)
	}
	s := &spawner{
		requests: make(chan spawnRequest),
		children: make(chan os.Signal, 1),
		waiting:  make(map[int]*process),
	}
	signal.Notify(s.children, syscall.SIGCHLD)
	go s.fork()
	go s.reap()
	return s, nil
}

// start runs path with argv. The process leads its own session, is killed
// with this one.
func (s *spawner) start(path string, argv []string, attr *syscall.ProcAttr) (*process, error) {
	if attr.Sys == nil {
		attr.Sys = &syscall.SysProcAttr{}
	}
	attr.Sys.Setsid = true
	attr.Sys.Pdeathsig = syscall.SIGKILL
	reply := make(chan spawnReply, 1)
	s.requests <- spawnRequest{path: path, argv: argv, attr: attr, reply: reply}
	r := <-reply
	return r.child, r.err
}

func (s *spawner) fork() {
	runtime.LockOSThread()
	for r := range s.requests {
		s.mu.Lock()
		if s.stopped {
			s.mu.Unlock()
			r.reply <- spawnReply{err: errors.New("the simulated node is ending")}
			continue
		}
		pid, err := syscall.ForkExec(r.path, r.argv, r.attr)
		if err != nil {
			s.mu.Unlock()
			r.reply <- spawnReply{err: &os.PathError{Op: "start", Path: r.path, Err: err}}
			continue
		}
		child := &process{pid: pid, ended: make(chan struct{})}
		s.waiting[pid] = child
		s.mu.Unlock()
		r.reply <- spawnReply{child: child}
	}
}

// stop lets nothing start any more.
func (s *spawner) stop() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
}

func (s *spawner) reap() {
	for range s.children {
		s.reapAll()
	}
}

// reapAll collects every ended child. The lock that forking holds too keeps
// it from meeting one that is not in the table yet.
func (s *spawner) reapAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if child, ours := s.waiting[pid]; ours {
			child.status = status
			close(child.ended)
			delete(s.waiting, pid)
		}
	}
}
