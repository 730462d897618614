package probe

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// command is free of quoting, so that every login shell runs it alike.
const command = "exec /bin/sh -s"

const (
	readyLimit = 10 * time.Second
	noiseKeep  = 4096
)

var (
	errLate = errors.New("no answer in time")
	errGone = errors.New("the shell has ended")
)

// shell is one long-lived shell on the node that runs a program of ours.
type shell struct {
	nonce     string
	st        *Stream
	pid, ppid int    // of the worker, of what started the shell
	sid       int    // of the shell, which leads its session
	noise     string // what the login shell printed before the program ran
	lines     chan []byte
	requests  chan []byte

	mu      sync.Mutex
	nextID  int
	waiting int
	answer  chan answer
	heard   time.Time
	err     error
	dead    chan struct{}
	quit    chan struct{}
	closed  sync.Once
}

type answer struct {
	nonce string
	data  []byte
	rc    int
}

// parts splits an answer at its separators.
func (a answer) parts() [][]byte { return parts(a.nonce, a.data) }

func newNonce() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// startShell opens a shell, sends it the program and waits until it is ready.
// Where raw is set, output that follows READY goes to lines, cut at newlines.
func startShell(ctx context.Context, conn Conn, program func(nonce string) string, raw bool) (*shell, error) {
	openCtx, cancel := context.WithTimeoutCause(ctx, readyLimit, errLate)
	defer cancel()
	st, err := conn.Start(openCtx, command)
	if err != nil {
		return nil, err
	}
	return runShell(ctx, st, program, raw)
}

// runShell is startShell on a session that is already open.
func runShell(ctx context.Context, st *Stream, program func(nonce string) string, raw bool) (*shell, error) {
	openCtx, cancel := context.WithTimeoutCause(ctx, readyLimit, errLate)
	defer cancel()
	var err error
	s := &shell{nonce: newNonce(), st: st, dead: make(chan struct{}), quit: make(chan struct{}), requests: make(chan []byte, 4)}
	if raw {
		s.lines = make(chan []byte, 256)
	}
	ready := make(chan struct{})
	stderr := &lastBytes{}
	if st.Stderr != nil {
		go io.Copy(stderr, st.Stderr)
	}
	go s.write()
	go s.read(ready)
	s.requests <- []byte(program(s.nonce))
	select {
	case <-ready:
		return s, nil
	case <-s.dead:
		err = errGone
	case <-openCtx.Done():
		err = context.Cause(openCtx)
	}
	s.close()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	select {
	case <-s.dead: // then all that it printed is known
	case <-time.After(time.Second):
	}
	s.mu.Lock()
	said := strings.TrimSpace(s.noise + " " + stderr.String())
	s.mu.Unlock()
	if said == "" {
		return nil, fmt.Errorf("start a shell on the node: %w; try: ssh NODE /bin/sh -c true", err)
	}
	return nil, fmt.Errorf("start a shell on the node: %w; it printed: %s", err, metrics.Clean(metrics.Mask(said), 300))
}

func (s *shell) close() {
	s.closed.Do(func() {
		close(s.quit)
		_ = s.st.Close()
	})
}

// write feeds the shell, so that a full window blocks nobody else. It alone closes
// the input: an SSH channel's end of file and its writes may not overlap.
func (s *shell) write() {
	defer s.st.Stdin.Close()
	for {
		select {
		case p := <-s.requests:
			if _, err := s.st.Stdin.Write(p); err != nil {
				return
			}
		case <-s.quit:
			return
		}
	}
}

func (s *shell) read(ready chan struct{}) {
	defer close(s.dead)
	sp := newSplitter(s.nonce)
	buf := make([]byte, 64<<10)
	started, isReady := false, false
	for {
		n, err := s.st.Stdout.Read(buf)
		pieces, bad := sp.write(buf[:n])
		for _, p := range pieces {
			switch {
			case p.words[0] == "START" && !isReady:
				started = true
				s.setNoise(p.data)
			case p.words[0] == "READY" && !isReady:
				isReady = true
				if started { // what stands before READY is output already
					s.sendLines(p.data)
				} else {
					s.setNoise(p.data)
				}
				s.begin(p)
				close(ready)
			case isReady && s.lines != nil:
				s.sendLines(p.data)
				s.deliver(p)
			case isReady:
				s.deliver(p)
			}
		}
		if isReady && s.lines != nil {
			if i := bytes.LastIndexByte(sp.buf, '\n'); i > 0 {
				// The newline itself may begin a marker and stays.
				s.sendLines(sp.buf[:i])
				sp.buf = append(sp.buf[:0], sp.buf[i:]...)
				sp.scanned = 0
			}
		}
		if n > 0 {
			s.mu.Lock()
			s.heard = time.Now()
			s.mu.Unlock()
		}
		if !isReady && len(sp.buf) > 1<<16 {
			sp.buf = append(sp.buf[:0], sp.buf[len(sp.buf)-noiseKeep:]...)
			sp.scanned = 0
		}
		if err == nil {
			err = bad
		}
		if err != nil {
			s.mu.Lock()
			s.err = err
			if !isReady {
				s.noise = string(tail(sp.rest(), noiseKeep))
			}
			s.mu.Unlock()
			if s.lines != nil {
				if isReady {
					s.sendLines(sp.rest())
				}
				close(s.lines)
			}
			return
		}
	}
}

func (s *shell) setNoise(data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noise = string(tail(bytes.TrimSpace(data), noiseKeep))
}

func (s *shell) begin(p piece) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(p.words) > 2 {
		s.pid, _ = strconv.Atoi(p.words[1])
		s.ppid, _ = strconv.Atoi(p.words[2])
		s.sid, _ = strconv.Atoi(p.words[len(p.words)-1])
		if len(p.words) == 3 {
			s.sid = s.pid
		}
	}
}

func (s *shell) sendLines(p []byte) {
	for line := range bytes.Lines(p) {
		if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 {
			continue
		}
		select {
		case s.lines <- bytes.Clone(line):
		default: // nobody reads that fast: the newest rows matter, the next come in a second
		}
	}
}

// deliver hands an answer to the one who waits for it; a late one is dropped.
func (s *shell) deliver(p piece) {
	if len(p.words) < 3 || p.words[0] != "E" {
		return
	}
	id, _ := strconv.Atoi(p.words[1])
	rc, _ := strconv.Atoi(p.words[2])
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answer != nil && (id == s.waiting || s.lines != nil) {
		s.answer <- answer{s.nonce, p.data, rc}
		s.answer = nil
	}
}

// call sends one request, a line of shell code, and waits for its answer.
// Calls of one shell must not overlap.
func (s *shell) call(ctx context.Context, code string, limit time.Duration) (answer, error) {
	ch := make(chan answer, 1)
	s.mu.Lock()
	s.nextID++
	s.waiting, s.answer = s.nextID, ch
	id := s.nextID
	s.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case s.requests <- []byte(strconv.Itoa(id) + " " + code + "\n"):
	default:
		return answer{}, errLate // it has not even taken the requests before
	}
	select {
	case a := <-ch:
		return a, nil
	case <-s.dead:
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.err != nil && !errors.Is(s.err, io.EOF) {
			return answer{}, fmt.Errorf("%w: %w", errGone, s.err)
		}
		return answer{}, errGone
	case <-timer.C:
		return answer{}, errLate
	case <-ctx.Done():
		return answer{}, context.Cause(ctx)
	}
}

func (s *shell) lastHeard() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heard
}

func tail(b []byte, n int) []byte { return b[max(0, len(b)-n):] }

// lastBytes keeps the end of what is written to it.
type lastBytes struct {
	mu sync.Mutex
	b  []byte
}

func (l *lastBytes) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b = tail(append(l.b, p...), noiseKeep)
	return len(p), nil
}

func (l *lastBytes) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.b)
}
