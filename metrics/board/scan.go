package board

import (
	"cmp"
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
		ID: procID(p.PID, p.Start), Engine: engine, PID: p.PID, Start: p.Start, Started: b.startTime(p.Start),
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
	s.scheduler = false
	for _, pid := range pids {
		q := b.procs[pid]
		if engineTitle(q.Argv) != "" && alive(q.State) {
			s.scheduler = true
		}
	}
	path, note := b.logOf(p)
	s.s.Log.Note = note
	if path != "" {
		s.log = path
		b.log(path).server = true
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
	return strings.HasPrefix(fd, "/") && !strings.HasPrefix(fd, "/dev/") && !strings.HasPrefix(fd, "/proc/") && !strings.HasSuffix(fd, " (deleted)")
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

// clientState is one client as it is followed.
type clientState struct {
	c         metrics.Client
	log       string
	firstSeen time.Time
	conns     int
	writes    []string
	argvFiles []string
	endedAt   time.Time
}

func (c *clientState) alive() bool { return c.c.State == "running" || c.c.State == "stopped" }

func (c *clientState) gone(at time.Time) {
	if c.c.State == "gone" || c.c.State == "remote" {
		return
	}
	c.c.State, c.c.Since, c.endedAt = "gone", at, at
	c.c.Conns, c.c.Ports = 0, nil
}

// notClients are programs that connect to a port or open a file without being
// the ones that send the work.
var notClients = []string{
	"curl", "wget", "ssh", "sshd", "tail", "less", "vim", "vi", "nvim", "nano", "cat", "grep", "wc", "tmux", "screen",
	"prometheus", "nginx", "haproxy", "envoy", "rsync", "scp", "sftp-server", "bash", "sh", "dash", "zsh", "fish", "tee",
	"socat", "nc", "jq", "head", "watch", "top", "htop", "systemd", "dockerd", "containerd", "nvidia-smi", "inotifywait",
}

func (b *Board) scanClients(at time.Time) {
	ports := map[int]bool{}
	served := map[int]bool{}
	for _, s := range b.servers {
		if s.s.Port != 0 {
			ports[s.s.Port] = true
		}
		for _, pid := range s.s.Tree {
			served[pid] = s.alive()
		}
	}
	if b.cfg.Endpoint != nil && b.cfg.Endpoint.Port != 0 {
		ports[b.cfg.Endpoint.Port] = true
	}
	children := b.children()
	roots := map[int]bool{}
	for _, pid := range slices.Sorted(maps.Keys(b.procs)) {
		p := b.procs[pid]
		if served[pid] || engineOf(p.Argv) != "" || engineTitle(p.Argv) != "" || slices.Contains(notClients, path.Base(p.Comm)) || slices.Contains(notClients, argv0(p)) {
			continue
		}
		if !b.isClient(p, ports) {
			continue
		}
		roots[b.clientRoot(p)] = true
	}
	found := map[string]bool{}
	for _, pid := range slices.Sorted(maps.Keys(roots)) {
		p := b.procs[pid]
		id := procID(p.PID, p.Start)
		found[id] = true
		c := b.clientByID(id)
		if c == nil {
			c = b.newClient(at, p)
		}
		c.scan(b, at, p, tree(pid, children), ports)
	}
	for _, c := range b.clients {
		if c.c.PID == 0 || found[c.c.ID] {
			continue
		}
		b.endClient(c, at)
	}
	b.scanRemote(at, ports)
}

func argv0(p metrics.Proc) string {
	if len(p.Argv) == 0 {
		return ""
	}
	return path.Base(p.Argv[0])
}

// isClient tells whether a process sends requests to one of the ports or writes rows.
func (b *Board) isClient(p metrics.Proc, ports map[int]bool) bool {
	if p.State == "Z" {
		return b.clientByID(procID(p.PID, p.Start)) != nil
	}
	for _, c := range p.Conns {
		if ports[c.Port] && c.Count > 0 {
			return true
		}
	}
	for _, o := range p.Files {
		if o.Write && isData(o.Path) {
			return true
		}
	}
	if b.clientByID(procID(p.PID, p.Start)) != nil {
		return true
	}
	if len(p.Argv) < 2 {
		return false
	}
	for _, a := range p.Argv[1:] {
		for port := range ports {
			if namesPort(a, port) {
				return true
			}
		}
	}
	// A script that a known client ran, or one whose output lies beside its rows.
	script := scriptOf(p.Argv)
	for _, c := range b.clients {
		if script != "" && script == scriptOf(c.c.Argv) {
			return true
		}
	}
	return isPython(argv0(p)) && script != "" && slices.ContainsFunc(p.Argv[1:], namesServer)
}

// namesServer tells whether an argument says where a server on this machine is:
// by it a client is found while no server is there.
func namesServer(a string) bool {
	for _, s := range []string{"http://127.0.0.1", "http://localhost", "http://0.0.0.0", "localhost:", "127.0.0.1:"} {
		if strings.Contains(a, s) {
			return true
		}
	}
	name, _, _ := strings.Cut(strings.TrimLeft(a, "-"), "=")
	return strings.HasPrefix(a, "--") && isName(name, []string{"base-url", "server-url", "api-base", "endpoint", "concurrency", "max-concurrency"})
}

// namesPort finds ":8000" as a whole port in an argument such as a URL.
func namesPort(arg string, port int) bool {
	want := fmt.Sprintf(":%d", port)
	i := strings.Index(arg, want)
	if i < 0 {
		return false
	}
	rest := arg[i+len(want):]
	return rest == "" || rest[0] < '0' || rest[0] > '9'
}

// scriptOf is the script of an interpreter's command line, "" for none.
func scriptOf(argv []string) string {
	for i, a := range argv {
		if i > 0 && !strings.HasPrefix(a, "-") && (strings.HasSuffix(a, ".py") || strings.HasSuffix(a, ".js")) {
			return path.Base(a)
		}
		if a == "-m" && i+1 < len(argv) {
			return argv[i+1]
		}
	}
	return ""
}

// clientRoot climbs from a worker, forked or spawned, to the process that was
// started by hand.
func (b *Board) clientRoot(p metrics.Proc) int {
	for range 64 {
		parent, ok := b.procs[p.PPID]
		forked := slices.Equal(parent.Argv, p.Argv) && len(p.Argv) > 0
		spawned := isPython(argv0(parent)) && slices.ContainsFunc(p.Argv, func(a string) bool { return strings.Contains(a, "multiprocessing.spawn") })
		if !ok || engineOf(parent.Argv) != "" || !forked && !spawned {
			break
		}
		p = parent
	}
	return p.PID
}

func (b *Board) newClient(at time.Time, p metrics.Proc) *clientState {
	c := &clientState{c: metrics.Client{
		ID: procID(p.PID, p.Start), PID: p.PID, Start: p.Start, Started: b.startTime(p.Start), State: "running", Since: at,
	}, firstSeen: at}
	if c.c.Started.IsZero() {
		c.c.Started = at
	}
	c.c.Since = c.c.Started
	b.clients = append(b.clients, c)
	b.event(metrics.Event{At: c.c.Started, Kind: "client", Text: fmt.Sprintf("client %d started", p.PID), Ref: c.c.ID})
	return c
}

// scan renews what a discovery tells about a client and its workers.
func (c *clientState) scan(b *Board, at time.Time, p metrics.Proc, pids []int, ports map[int]bool) {
	state := clientWord(p.State)
	if state != c.c.State {
		c.c.State, c.c.Since = state, at
	}
	if p.State == "Z" {
		return // a zombie has lost its argv, descriptors and sockets
	}
	c.c.User, c.c.Argv, c.c.Cwd = metrics.Clean(p.User, 60), p.Argv, p.Cwd
	c.c.Python = isPython(argv0(p)) || strings.HasPrefix(path.Base(p.Exe), "python")
	if c.c.Python {
		c.c.Unbuffered = unbuffered(p.Argv, p.Env, p.EnvRead)
	}
	c.c.Conns, c.c.Ports, c.writes = 0, nil, nil
	for _, pid := range pids {
		q := b.procs[pid]
		for _, n := range q.Conns {
			if ports[n.Port] {
				c.c.Conns += n.Count
				if !slices.Contains(c.c.Ports, n.Port) {
					c.c.Ports = append(c.c.Ports, n.Port)
				}
			}
		}
		for _, o := range q.Files {
			if o.Write && isData(o.Path) && !slices.Contains(c.writes, o.Path) {
				c.writes = append(c.writes, o.Path)
			}
		}
	}
	slices.Sort(c.c.Ports)
	slices.Sort(c.writes)
	c.argvFiles = c.argvFiles[:0:0]
	for _, a := range p.Argv[min(1, len(p.Argv)):] {
		if _, v, ok := strings.Cut(a, "="); ok {
			a = v
		}
		if isData(a) {
			if !path.IsAbs(a) {
				a = path.Join(p.Cwd, a)
			}
			c.argvFiles = append(c.argvFiles, a)
		}
	}
	file, note := b.logOf(p)
	c.c.LogOwned = file != ""
	c.c.Log.Note = note
	if file != "" && !b.log(file).server {
		c.log = file
		b.log(file).client = true
	} else if file == "" && c.log == "" && len(b.cfg.ClientLogs) == 1 {
		c.log = b.cfg.ClientLogs[0]
	}
}

func clientWord(state string) string {
	switch state {
	case "Z", "X":
		return "zombie"
	case "T", "t":
		return "stopped"
	case "":
		return "gone"
	}
	return "running"
}

// endClient notes that a client's process is not there any more.
func (b *Board) endClient(c *clientState, at time.Time) {
	if !c.alive() && c.c.State != "zombie" {
		return
	}
	c.gone(at)
	b.event(metrics.Event{At: at, Kind: "client", Text: fmt.Sprintf("client %d ended", c.c.PID), Ref: c.c.ID})
}

// scanRemote keeps one client for each peer on another host.
func (b *Board) scanRemote(at time.Time, ports map[int]bool) {
	seen := map[string]bool{}
	for _, r := range b.remote {
		if !ports[r.Port] || r.Count <= 0 {
			continue
		}
		addr := metrics.Clean(r.Addr, 60)
		id := "host:" + addr
		c := b.clientByID(id)
		if c == nil {
			c = &clientState{c: metrics.Client{ID: id, Host: addr, State: "remote", Since: at, Started: at}, firstSeen: at}
			b.clients = append(b.clients, c)
			b.event(metrics.Event{At: at, Kind: "client", Text: "client on " + addr + " connected", Ref: id})
		}
		if !seen[id] {
			c.c.Conns, c.c.Ports = 0, nil
		}
		if c.c.State != "remote" {
			c.c.State, c.c.Since = "remote", at
		}
		seen[id] = true
		c.c.Conns += r.Count
		c.c.Ports = append(c.c.Ports, r.Port)
	}
	for _, c := range b.clients {
		if c.c.Host != "" && !seen[c.c.ID] && c.c.State == "remote" {
			c.c.State, c.c.Since, c.c.Conns, c.c.Ports = "gone", at, 0, nil
		}
	}
}

// applyAlive takes the states of single processes, which come more often than scans.
func (b *Board) applyAlive(f metrics.Frame, list []metrics.Alive) {
	for _, a := range list {
		id := procID(a.PID, a.Start)
		if s := b.serverByID(id); s != nil && s.alive() && !alive(a.State) {
			s.gone(f.At, "")
			b.serverGone(s, f.At)
		}
		if c := b.clientByID(id); c != nil {
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

func (b *Board) clientByID(id string) *clientState {
	for _, c := range b.clients {
		if c.c.ID == id {
			return c
		}
	}
	return nil
}

// dropReplaced forgets a server that is gone once another has its log or port,
// and keeps at most a few of the others; what they achieved stays in the starts.
func (b *Board) dropReplaced() {
	keep := b.servers[:0:0]
	for _, s := range b.servers {
		replaced := false
		for _, o := range b.servers {
			if o != s && o.alive() && !s.alive() && (s.log != "" && o.log == s.log || s.s.Port != 0 && o.s.Port == s.s.Port) {
				replaced = true
			}
		}
		if !replaced {
			keep = append(keep, s)
		}
	}
	b.servers = keep
	for i := 0; len(b.clients) > 32 && i < len(b.clients); {
		if b.clients[i].c.State == "gone" {
			b.clients = slices.Delete(slices.Clone(b.clients), i, i+1)
		} else {
			i++
		}
	}
}

func compareClients(a, b *clientState) int {
	rank := func(c *clientState) int {
		switch c.c.State {
		case "running":
			return 0
		case "remote":
			return 1
		case "stopped", "zombie":
			return 2
		}
		return 3
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), b.c.Started.Compare(a.c.Started), cmp.Compare(a.c.ID, b.c.ID))
}
