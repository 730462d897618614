package model

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// pipeBuffer is what Python holds back of a standard output that is a file.
const pipeBuffer = 8192

// client is one run of run_inference.py: it keeps a number of requests in
// flight and appends each answer to its part's file.
type client struct {
	n           *Node
	argv, env   []string
	dir         string
	pid         int
	started     time.Duration
	ended       time.Duration
	alive       bool
	concurrency int
	scale       float64       // of the time that reading the prompts takes
	timeout     time.Duration // of a request, 0 none (--timeout, in seconds)
	names       []string
	cursor      map[*part]int // prompt that is asked for next
	slots       []*slot
	rows        int
	retries     int
	unbuffered  bool
	held        []byte
}

// slot is one of the requests in flight, with its own connection.
type slot struct {
	port    int
	req     *request // nil between two requests
	part    *part
	index   int
	srv     *server // that the request was sent to
	waiting bool    // for a retry
	idle    bool    // nothing is left to ask
	tries   int
}

// StartClient starts a client and returns its pid.
func (n *Node) StartClient(l ClientLaunch) int {
	c := &client{n: n, argv: l.Argv, env: l.Env, dir: l.Dir, pid: l.PID, started: n.at, alive: true, concurrency: l.Concurrency, names: l.Parts, cursor: map[*part]int{}}
	if c.pid == 0 {
		c.pid = n.pid()
	}
	for i, a := range l.Argv {
		value := ""
		if i+1 < len(l.Argv) {
			value = l.Argv[i+1]
		}
		switch a {
		case "-u":
			c.unbuffered = true
		case "--concurrency":
			if v, err := strconv.Atoi(value); err == nil && c.concurrency == 0 {
				c.concurrency = v
			}
		case "--timeout":
			if v, err := strconv.Atoi(value); err == nil {
				c.timeout = time.Duration(v) * time.Second
			}
		case "--parts":
			if c.names == nil {
				c.names = strings.Split(value, ",")
			}
		}
	}
	for _, e := range l.Env {
		if v, found := strings.CutPrefix(e, "PYTHONUNBUFFERED="); found && v != "" {
			c.unbuffered = true
		}
	}
	if c.concurrency == 0 {
		c.concurrency = 150
	}
	if c.scale = l.Scale; c.scale == 0 {
		c.scale = 1
	}
	if n.cli != nil && n.cli.alive {
		n.extra = append(n.extra, &other{client: n.cli})
	}
	n.cli = c
	n.after(1500*time.Millisecond, c.load)
	return c.pid
}

// load reads the prompts and what is already there, then opens the requests.
func (c *client) load() {
	if !c.alive {
		return
	}
	c.print("run_inference.py: %d requests in flight", c.concurrency)
	for _, p := range c.n.parts {
		if c.names == nil || slices.Contains(c.names, p.name) {
			c.print("[%s] %d of %d rows on disk, %d to do", p.name, p.rows, p.target, max(0, p.target-p.rows))
			c.cursor[p] = p.past
		}
	}
	c.n.after(time.Duration(float64(c.n.scenario.clientLoad)*c.scale), func() {
		for range c.concurrency {
			s := &slot{port: c.n.connection()}
			c.slots = append(c.slots, s)
			c.ask(s)
		}
	})
}

func (n *Node) connection() int {
	n.nextConn += 2 + 2*int(mix(uint64(n.nextConn))%5)
	if n.nextConn > 60_990 {
		n.nextConn = 32_768
	}
	return n.nextConn
}

// next is the first prompt that has no row and that this client has not asked
// for. It knows only what was there when it began and what it asks itself, so
// two clients do the same work twice.
func (c *client) next() (*part, int, bool) {
	for _, p := range c.n.parts {
		i, mine := c.cursor[p]
		for mine && i < p.target {
			c.cursor[p] = i + 1
			if !p.landed[i] {
				return p, i, true
			}
			i++
		}
	}
	return nil, 0, false
}

// ask sends the slot's next request, or the same one again after a refusal.
func (c *client) ask(s *slot) {
	if !c.alive {
		return
	}
	if s.part == nil {
		p, i, ok := c.next()
		if !ok {
			s.idle = true
			c.finish()
			return
		}
		s.part, s.index = p, i
	}
	srv := c.n.listener()
	back := s.tries > 0
	if srv == nil || srv.eng == nil || back && (srv.phase != PhaseReady || c.n.at-srv.ready < calm) {
		c.retry(s, "Cannot connect to host 127.0.0.1:8000 ssl:default [Connect call failed ('127.0.0.1', 8000)]")
		return
	}
	c.n.requests++
	s.srv, s.waiting, s.tries = srv, false, 0
	s.req = &request{
		id: c.n.requests, rid: requestID(&c.n.ids), prompt: s.part.input(s.index), target: s.part.output(s.index),
		limit: outputLimit, port: s.port, answer: func(reason string) { c.answered(s, srv, reason) },
	}
	srv.eng.add(s.req)
	if c.timeout > 0 {
		req := s.req
		c.n.after(c.timeout, func() { c.giveUp(s, req) })
	}
	if back {
		c.resume()
	}
}

// giveUp drops a request that takes longer than the client's own timeout and
// asks for the same prompt again. The server sees the connection close; what it
// had generated is lost.
func (c *client) giveUp(s *slot, req *request) {
	if !c.alive || s.req != req {
		return
	}
	s.req = nil
	req.gone = true
	s.srv.aborted()
	c.retries++
	c.print("[%s] prompt %d: TimeoutError after %d s, asking again", s.part.name, s.index, int(c.timeout.Seconds()))
	s.port = c.n.connection()
	c.n.after(50*time.Millisecond, func() { c.ask(s) })
}

// resume lets every waiting request try again now.
func (c *client) resume() {
	for _, s := range c.slots {
		if !s.waiting {
			continue
		}
		s.waiting, s.tries = false, 0
		c.n.after(time.Duration(mix(uint64(s.port))%60)*time.Millisecond, func() { c.ask(s) })
	}
}

// A request that was refused waits for at most longestPause before its next
// try, and a server that comes back is left alone for calm: only then the first
// one gets through, and it brings all others with it, so that the server meets
// them at once.
const (
	longestPause = 4 * time.Second
	calm         = 5 * time.Second
)

func (c *client) retry(s *slot, why string) {
	c.retries++
	s.waiting = true
	s.tries++
	if s.tries == 1 || s.tries%15 == 0 {
		c.print("[%s] prompt %d: %s, retry %d", s.part.name, s.index, why, s.tries)
	}
	pause := min(longestPause, time.Second<<min(s.tries-1, 5))
	spread := time.Duration(mix(uint64(s.port)*31+uint64(s.tries))%1000) * pause / 2000
	c.n.after(pause/2+spread, func() {
		if s.waiting {
			c.ask(s)
		}
	})
}

// answered writes the row and goes on.
func (c *client) answered(s *slot, srv *server, reason string) {
	srv.access(s.port, srv.route(), 200)
	if !c.alive {
		return
	}
	r, p, i := s.req, s.part, s.index
	s.req = nil
	c.n.after(time.Duration(4+mix(uint64(r.id))%9)*time.Millisecond, func() {
		if !c.alive {
			return
		}
		s.part = nil
		c.land(p, i, r, reason) // also what /abort_request has cut short
		c.ask(s)
	})
}

func (c *client) land(p *part, i int, r *request, reason string) {
	p.rows++
	p.landed[i] = true
	p.changed = c.n.Now()
	c.rows++
	row := Row{
		At: c.n.Now(), Part: p.name, File: p.file(), ID: rowID(p.name, i), Prompt: i, Input: r.prompt, Tokens: r.out,
		Finish: reason, Latency: c.n.at - r.arrived, Seed: p.seed + uint64(i),
	}
	c.n.out.Rows = append(c.n.out.Rows, row)
	if p.rows%25 == 0 || p.rows == p.target {
		c.print("[%s] %d/%d %.1f rows/min", p.name, p.rows, p.target, float64(c.rows)/max(c.n.at-c.started, time.Second).Minutes())
	}
}

// broken is the loss of all connections to a server: every request that it had
// is asked again.
func (c *client) broken(srv *server) {
	for _, s := range c.slots {
		if s.req == nil || s.srv != srv {
			continue
		}
		s.req = nil
		c.n.after(time.Duration(mix(uint64(s.port))%900)*time.Millisecond, func() {
			if c.alive && s.req == nil && !s.waiting && s.part != nil {
				c.retry(s, "Server disconnected")
			}
		})
	}
}

// finish ends the client when its last slot has nothing left.
func (c *client) finish() {
	for _, s := range c.slots {
		if !s.idle {
			return
		}
	}
	if len(c.slots) < c.concurrency {
		return
	}
	c.print("all parts done: %d rows in %s", c.rows, clock(c.n.at-c.started))
	c.flush()
	c.end(0)
}

func (c *client) end(code int) {
	c.alive = false
	c.ended = c.n.at
	role := ClientMain
	if c.n.cli != c {
		role = OldClient
	}
	c.n.out.Exits = append(c.n.out.Exits, Exit{At: c.n.Now(), Role: role, PID: c.pid, Code: code})
	for _, s := range c.slots {
		if s.req != nil {
			s.req.gone = true
			s.srv.aborted()
		}
	}
}

func (c *client) signal(sig Signal) {
	switch sig {
	case SIGKILL, SIGTERM, SIGHUP, SIGQUIT:
		c.held = nil
		c.end(128 + int(sig))
	case SIGINT:
		c.print("Traceback (most recent call last):\n  File \"%s\", line 418, in <module>\n    asyncio.run(main())\nKeyboardInterrupt", path.Join(c.dir, "run_inference.py"))
		c.flush()
		c.end(130)
	}
}

// print is Python's print to a file: held back until 8 KiB are full.
func (c *client) print(format string, args ...any) {
	c.held = append(c.held, fmt.Sprintf(format+"\n", args...)...)
	if c.unbuffered {
		c.flush()
	}
	for len(c.held) > pipeBuffer {
		c.n.out.Client = append(c.n.out.Client, Chunk{At: c.n.Now(), Stream: Stdout, Text: string(c.held[:pipeBuffer])})
		c.held = append([]byte(nil), c.held[pipeBuffer:]...)
	}
}

func (c *client) flush() {
	if len(c.held) > 0 {
		c.n.out.Client = append(c.n.out.Client, Chunk{At: c.n.Now(), Stream: Stdout, Text: string(c.held)})
		c.held = nil
	}
}
