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

// clientState is one client as it is followed.
type clientState struct {
	c         metrics.Client
	log       string
	firstSeen time.Time
	writes    []string
	argvFiles []string
	inputs    []string // of these, those whose flag is named for reading
	tables    []string // texts and tables that it was told to read
	endedAt   time.Time
	kernel    *metrics.CauseFact // how the kernel, or the node's end, ended it
	cpu       []cpuPoint         // the last coresSpan
}

// cpuPoint is a reading of a process's CPU time in clock ticks.
type cpuPoint struct {
	at    time.Time
	ticks int64
}

// coresSpan is the time over which a client's use of CPU is measured.
const coresSpan = 2 * time.Minute

// works notes the CPU time of the client's process.
func (c *clientState) works(at time.Time, ticks int64, hz int) {
	for len(c.cpu) > 1 && at.Sub(c.cpu[1].at) >= coresSpan {
		c.cpu = c.cpu[1:]
	}
	c.cpu = append(c.cpu, cpuPoint{at, ticks})
	if first := c.cpu[0]; at.Sub(first.at) >= coresSpan/2 && ticks >= first.ticks {
		c.c.Cores = metrics.Known(float64(ticks-first.ticks)/float64(max(hz, 1))/at.Sub(first.at).Seconds(), at, aliveEvery, "/proc/PID/stat")
	}
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
	"runvigil", // its own history grows too
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
		ID: procID(p.PID, p.Start), PID: p.PID, Start: p.Start, Started: b.startTime(p), State: "running", Since: at,
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
	c.argvFiles, c.inputs, c.tables = nil, nil, nil
	flag := ""
	for _, a := range p.Argv[min(1, len(p.Argv)):] {
		name, v, ok := strings.Cut(a, "=")
		if ok {
			a, flag = v, name
		}
		switch {
		case isTable(a) && namesTable(flag):
			if !path.IsAbs(a) {
				a = path.Join(p.Cwd, a)
			}
			c.tables = append(c.tables, a)
		case isData(a):
			if !path.IsAbs(a) {
				a = path.Join(p.Cwd, a)
			}
			c.argvFiles = append(c.argvFiles, a)
			if namesInput(flag) {
				c.inputs = append(c.inputs, a)
			}
		}
		if flag = ""; strings.HasPrefix(a, "-") {
			flag = a
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

// namesInput tells the flags by which a client is told what to read.
func namesInput(flag string) bool {
	flag = strings.ToLower(strings.TrimLeft(flag, "-"))
	switch flag {
	case "i", "in", "src", "data":
		return true
	}
	for _, out := range []string{"out", "save", "result", "dest"} {
		if strings.Contains(flag, out) {
			return false
		}
	}
	for _, w := range []string{"input", "prompt", "question", "dataset", "source", "problem", "instruction"} {
		if strings.Contains(flag, w) {
			return true
		}
	}
	return false
}

// namesTable tells the flags by which a client is told of many requests, in a
// text or a table: a prompt alone may be one text of many lines.
func namesTable(flag string) bool {
	if !namesInput(flag) {
		return false
	}
	flag = strings.ToLower(strings.TrimLeft(flag, "-"))
	for _, w := range []string{"system", "template", "prefix", "prompt-file", "prompt_file"} {
		if strings.Contains(flag, w) {
			return false
		}
	}
	return flag != "prompt"
}

// isTable tells the names of files whose records can be counted, though rows
// are never written to them.
func isTable(p string) bool {
	switch path.Ext(p) {
	case ".txt", ".csv", ".tsv":
		return true
	}
	return false
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
	for i := len(b.kernel) - 1; i >= 0 && c.kernel == nil; i-- {
		if k := &b.kernel[i]; k.killed([]int{c.c.PID}) && !k.fact.At.Before(c.c.Started) {
			f := k.fact
			c.kernel = &f
		}
	}
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

func (b *Board) clientByID(id string) *clientState {
	for _, c := range b.clients {
		if c.c.ID == id {
			return c
		}
	}
	return nil
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
