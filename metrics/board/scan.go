package board

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

const (
	scanEvery  = 30 * time.Second
	aliveEvery = 5 * time.Second
)

// applyScan takes one discovery: which servers and clients are there, what they
// listen on, write to and hold open.
func (b *Board) applyScan(f metrics.Frame, s metrics.Scan) {
	b.scanned = f.At
	b.procs = make(map[int]metrics.Proc, len(s.Procs))
	for _, p := range s.Procs {
		b.procs[p.PID] = p
	}
	b.listProcs()
	b.remote = s.Remote
	b.hidden = b.hidden[:0:0]
	for _, h := range s.Hidden {
		b.hidden = append(b.hidden, metrics.Clean(h, 200))
	}
	b.scanServers(f.At)
	b.scanClients(f.At)
}

// children maps a pid to its children, in order.
func (b *Board) children() map[int][]int {
	out := map[int][]int{}
	for _, pid := range slices.Sorted(maps.Keys(b.procs)) {
		p := b.procs[pid]
		out[p.PPID] = append(out[p.PPID], pid)
	}
	return out
}

// tree lists a process and its descendants, the root first.
func tree(root int, children map[int][]int) []int {
	out := []int{root}
	for i := 0; i < len(out); i++ {
		for _, c := range children[out[i]] {
			if !slices.Contains(out, c) {
				out = append(out, c)
			}
		}
	}
	return out
}

func alive(state string) bool { return state != "" && state != "Z" && state != "X" }

func (b *Board) scanServers(at time.Time) {
	children := b.children()
	found := map[string]bool{}
	for _, pid := range slices.Sorted(maps.Keys(b.procs)) {
		p := b.procs[pid]
		engine := engineOf(p.Argv)
		if engine == "" || !alive(p.State) || b.underEngine(p) {
			continue
		}
		id := procID(p.PID, p.Start)
		found[id] = true
		srv := b.serverByID(id)
		if srv == nil {
			srv = b.newServer(at, p, engine)
		}
		srv.scan(b, p, tree(pid, children))
	}
	for _, srv := range b.servers {
		if srv.s.PID != 0 && !found[srv.s.ID] && srv.alive() {
			srv.gone(at, "")
			b.serverGone(srv, at)
		}
	}
	b.dropReplaced()
}

// underEngine tells whether an ancestor of p starts the same server: forked
// workers carry the argument vector of their parent.
func (b *Board) underEngine(p metrics.Proc) bool {
	for range 64 {
		parent, ok := b.procs[p.PPID]
		if !ok || parent.PID == p.PID {
			return false
		}
		if engineOf(parent.Argv) != "" {
			return true
		}
		p = parent
	}
	return false
}

func procID(pid int, start int64) string { return fmt.Sprintf("%d:%d", pid, start) }

func (b *Board) newServer(at time.Time, p metrics.Proc, engine string) *serverState {
	srv := &serverState{s: metrics.Server{
		ID: procID(p.PID, p.Start), Engine: engine, PID: p.PID, Start: p.Start, Started: b.startTime(p),
		State: metrics.ServerUnknown, Since: at,
	}, firstSeen: at}
	if srv.s.Started.IsZero() {
		srv.s.Started = at
	}
	b.servers = append(b.servers, srv)
	return srv
}

func engineName(engine string) string {
	switch engine {
	case "sglang":
		return "SGLang"
	case "vllm":
		return "vLLM"
	}
	return engine
}

// scan renews what a discovery tells about a living server.
func (s *serverState) scan(b *Board, p metrics.Proc, pids []int) {
	s.s.User = metrics.Clean(p.User, 60)
	s.s.Argv, s.s.Cwd, s.s.Tree = p.Argv, p.Cwd, pids
	s.s.Model = modelOf(s.s.Engine, p.Argv)
	s.s.TP = max(flagInt(p.Argv, "tp", "tp-size", "tensor-parallel-size"), 1)
	s.s.DP = max(flagInt(p.Argv, "dp", "dp-size", "data-parallel-size"), 1)
	s.s.PP = max(flagInt(p.Argv, "pp", "pp-size", "pipeline-parallel-size"), 1)
	s.listen(b, p, pids)
	s.workers = 0
	for _, pid := range pids {
		q := b.procs[pid]
		if engineWorker(q) && alive(q.State) {
			s.scheduler, s.sawScheduler = true, true
		}
	}
	path, note := b.logOf(p)
	s.s.Log.Note = note
	if path != "" {
		s.log = path
		l := b.log(path)
		l.server = true
		if l.work.engine == "" {
			l.work.engine = s.s.Engine
		}
	}
}

// listen finds the port: its argument, else the socket of the tree, else the
// engine's default.
func (s *serverState) listen(b *Board, root metrics.Proc, pids []int) {
	port := flagInt(root.Argv, "port")
	host, _ := flagValue(root.Argv, "host")
	s.listening = false
	for _, pid := range pids {
		for _, l := range b.procs[pid].Listen {
			if port == 0 {
				port = l.Port
			}
			if l.Port == port {
				s.listening = true
				host = l.Addr
			}
		}
	}
	if port == 0 {
		port = 30000
		if s.s.Engine == "vllm" {
			port = 8000
		}
	}
	s.s.Port, s.s.Addr = port, host
}

// dial is the address that reaches the server from its own node.
func dial(addr string) string {
	switch addr {
	case "", "0.0.0.0", "::", "*", "localhost", "[::]":
		return "127.0.0.1"
	}
	return addr
}

// logOf finds where a process writes: a file, the file of the tee behind its
// pipe, else a note that says what is missing.
func (b *Board) logOf(p metrics.Proc) (file, note string) {
	for _, fd := range []string{p.FD2, p.FD1} {
		if isFile(fd) {
			return fd, ""
		}
		if name, deleted := strings.CutSuffix(fd, deletedMark); deleted && isFile(name) {
			note = "its log was deleted: " + metrics.Clean(name, 200)
		}
		if fd != "" && strings.HasPrefix(fd, "/dev/pts/") {
			note = "its output goes to terminal " + metrics.Clean(fd, 40)
		}
		if strings.HasPrefix(fd, "pipe:") {
			if t := b.teeOf(p); t != "" {
				return t, ""
			}
			note = "its output goes into a pipe"
		}
		if strings.HasPrefix(fd, "socket:") {
			note = "its output goes to a socket, perhaps the journal"
		}
		if fd == "/dev/null" && note == "" {
			note = "its output is thrown away (/dev/null)"
		}
	}
	if note == "" && p.FD1 == "" && p.FD2 == "" {
		note = "its descriptors cannot be read"
	}
	return "", note
}

func isFile(fd string) bool {
	return strings.HasPrefix(fd, "/") && !strings.HasPrefix(fd, "/dev/") && !strings.HasPrefix(fd, "/proc/") && !strings.HasSuffix(fd, deletedMark)
}

// teeOf finds the file of a tee that was started in the same pipeline.
func (b *Board) teeOf(p metrics.Proc) string {
	for _, pid := range slices.Sorted(maps.Keys(b.procs)) {
		q := b.procs[pid]
		if q.Comm != "tee" || len(q.Argv) < 2 || q.PPID != p.PPID && q.PGID != p.PGID {
			continue
		}
		for _, a := range q.Argv[1:] {
			if strings.HasPrefix(a, "-") {
				continue
			}
			if !path.IsAbs(a) {
				a = path.Join(q.Cwd, a)
			}
			return a
		}
	}
	return ""
}

// applyAlive takes the states of single processes, which come more often than scans.
func (b *Board) applyAlive(f metrics.Frame, list []metrics.Alive) {
	for _, s := range b.servers {
		if s.alive() && s.s.PID != 0 {
			var tree []metrics.Alive
			for _, a := range list {
				if slices.Contains(s.s.Tree, a.PID) {
					tree = append(tree, a)
				}
			}
			s.reads.look(f.At, tree)
		}
	}
	for _, a := range list {
		id := procID(a.PID, a.Start)
		if s := b.serverByID(id); s != nil && s.alive() && !alive(a.State) {
			s.gone(f.At, "")
			b.serverGone(s, f.At)
		}
		if c := b.clientByID(id); c != nil {
			c.works(f.At, a.CPU, b.session.HZ)
			switch state := clientWord(a.State); {
			case state == "gone":
				b.endClient(c, f.At)
			case state != c.c.State:
				c.c.State, c.c.Since = state, f.At
			}
		}
	}
}

func (b *Board) serverByID(id string) *serverState {
	for _, s := range b.servers {
		if s.s.ID == id {
			return s
		}
	}
	return nil
}

// dropReplaced forgets a server that is gone once another has its log or port,
// and keeps at most a few of the others; what they achieved stays in the starts.
func (b *Board) dropReplaced() {
	gone := map[*serverState]bool{}
	take := func(takes func(s, o *serverState) bool) {
		for _, s := range b.servers {
			for _, o := range b.servers {
				if !s.alive() && o.alive() && !gone[s] && takes(s, o) {
					gone[s] = true
					b.replace(s, o)
				}
			}
		}
	}
	take(func(s, o *serverState) bool {
		return s.log != "" && o.log == s.log || s.s.Port != 0 && o.s.Port == s.s.Port
	})
	// One that began after another's end has its place too, wherever it listens.
	take(func(s, o *serverState) bool {
		return o.replaced == nil && s.s.PID != 0 && o.s.PID != 0 && o.s.Started.After(s.endedAt.Add(-scanEvery))
	})
	b.servers = slices.DeleteFunc(slices.Clone(b.servers), func(s *serverState) bool { return gone[s] })
	for i := 0; len(b.clients) > 32 && i < len(b.clients); {
		if b.clients[i].c.State == "gone" {
			b.clients = slices.Delete(slices.Clone(b.clients), i, i+1)
		} else {
			i++
		}
	}
}
