package probe

import (
	"context"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

const (
	scanEvery   = 20 * time.Second
	scanFirst   = 10 * time.Second // while no server is known
	scanLeast   = 4 * time.Second  // between two scans, whatever asks
	scanLimit   = 20 * time.Second
	detailFresh = 10 * time.Minute // argv and links of a process are read again after this
	youngProc   = 3 * time.Minute  // a younger process may still give itself a title
	fewProcs    = 300              // so many descriptors tables are read each time
	fullEvery   = 4                // scans; with more processes only every so many read all
	procsMost   = 300
	detailBatch = 30
	argMost     = 4096 // bytes of one argument
	argAbove    = 200  // of an ancestor's, which only has to be recognised
)

// wordsOfInterest chooses command lines to look at, as grep -E reads it.
const wordsOfInterest = `sglang|vllm|VLLM|lmdeploy|trtllm|tritonserver|llama-server|ollama|text-generation|\.jsonl|https?://|\.py`

var (
	engineWords = regexp.MustCompile(`(?:^|[\s/])(?:sglang::|sgl_diffusion::|VLLM::)|sglang[./]|\bsglang serve\b|\bvllm serve\b|vllm[./]entrypoints|\bVLLM\b|text-generation-launcher|lmdeploy|trtllm-serve|tritonserver|llama-server|\bollama\b`)
	urlWord     = regexp.MustCompile(`https?://[^\s"'/]+(?::\d+\b|/(?:v1|generate)\b)`)
	passive     = map[string]bool{"tail": true, "less": true, "more": true, "grep": true, "vi": true, "vim": true, "nano": true, "cat": true, "ssh": true, "scp": true, "rsync": true, "tmux": true, "screen": true, "watch": true, "tee": true, "runvigil": true}
)

// identity tells a process from a later one with its number.
type identity struct {
	pid   int
	start int64
}

// detail is what discovery keeps of a process between scans.
type detail struct {
	argv    []string
	env     map[string]string
	envRead bool
	cgroup  string
	links   *links
	readAt  time.Time
}

// discovery finds the processes that matter. It belongs to one goroutine.
type discovery struct {
	p       *Probe
	details map[identity]*detail
	fds     map[identity]*openFD
	users   map[int]string
	scans   int
	engines int // found by the last scan
	hz      int
	root    bool // we are root on the node
}

func (p *Probe) discover(ctx context.Context) error {
	p.stateMu.Lock()
	hz, root := p.session.HZ, p.session.UID == 0
	p.stateMu.Unlock()
	d := &discovery{p: p, details: map[identity]*detail{}, fds: map[identity]*openFD{}, hz: hz, root: root}
	kick := p.kicked()
	for ctx.Err() == nil {
		d.scan(ctx)
		if !sleep(ctx, scanLeast) {
			break
		}
		wait := scanEvery
		if d.engines == 0 {
			wait = scanFirst
		}
		timer := time.NewTimer(wait - scanLeast)
		select {
		case <-timer.C:
		case <-kick:
		case <-p.rescan:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return nil
}

// look is one scan in progress.
type look struct {
	*discovery
	uptime   float64
	table    procTable
	socks    sockets
	picked   map[int]bool
	above    map[int]bool // picked only as an ancestor
	ports    map[int]bool // on which engines listen
	engines  map[int]bool
	hidden   []string
	complete bool // descriptors of all processes were read
}

func (d *discovery) scan(ctx context.Context) {
	l := &look{discovery: d, picked: map[int]bool{}, above: map[int]bool{}, ports: map[int]bool{}, engines: map[int]bool{}}
	pattern := strings.Join(append([]string{wordsOfInterest}, d.p.opts.Patterns...), "|")
	a, err := d.p.scan.callFor(ctx, "sa "+quote(pattern), scanLimit)
	if err != nil {
		return
	}
	ps := a.parts()
	if len(ps) < 4 {
		return
	}
	first, _, _ := strings.Cut(string(ps[0]), " ")
	l.uptime, _ = strconv.ParseFloat(first, 64)
	l.table = d.relevant(parseTable(string(ps[1])))
	l.socks = parseSockets(string(ps[3]))
	hits := l.hits(string(ps[2]))
	if !l.readDetails(ctx, hits) || !l.readFDs(ctx, hits) {
		return
	}
	l.pickEngines(hits)
	if l.strangers() && !l.complete && !l.readAllFDs(ctx) {
		return
	}
	l.pickOthers(hits)
	if !l.readDetails(ctx, l.pickedPIDs()) {
		return
	}
	l.finish(ctx)
}

// relevant is the part of the table that counts: what is below the root, if
// one is set, without the probe's own shells and what they run.
func (d *discovery) relevant(t procTable) procTable {
	if root := d.p.opts.RootPID; root != 0 {
		t = t.below(root)
	}
	d.p.stateMu.Lock()
	ours, sessions := maps.Clone(d.p.ours), maps.Clone(d.p.sessions)
	d.p.stateMu.Unlock()
	for pid, st := range t.rows {
		if ours[pid] || st.sid != 0 && sessions[st.sid] {
			delete(t.rows, pid)
			t.children[st.ppid] = slices.DeleteFunc(t.children[st.ppid], func(c int) bool { return c == pid })
		}
	}
	return t
}

func (l *look) id(pid int) identity { return identity{pid, l.table.rows[pid].start} }

// hits are the processes whose command line matched, newest first.
func (l *look) hits(text string) []int {
	var out []int
	for line := range strings.Lines(text) {
		id, _, _ := strings.Cut(line, "/")
		pid := int(number(id))
		if _, ok := l.table.rows[pid]; ok {
			out = append(out, pid)
		}
	}
	for _, w := range l.p.wanted(metrics.WantPID) {
		if _, ok := l.table.rows[w.PID]; ok && !slices.Contains(out, w.PID) {
			out = append(out, w.PID)
		}
	}
	slices.SortFunc(out, func(a, b int) int { return int(l.table.rows[b].start - l.table.rows[a].start) })
	return out[:min(len(out), procsMost)]
}

// readDetails reads command line, links, control group and environment of the
// processes of which they are not known.
func (l *look) readDetails(ctx context.Context, pids []int) bool {
	var ask []int
	for _, pid := range pids {
		st, ok := l.table.rows[pid]
		if !ok || st.state == "D" {
			continue
		}
		if d := l.details[l.id(pid)]; d != nil {
			age := l.uptime - float64(st.start)/float64(max(l.hz, 1))
			fresh := detailFresh
			if age < youngProc.Seconds() {
				fresh = scanLeast
			}
			if time.Since(d.readAt) < fresh {
				continue
			}
		}
		ask = append(ask, pid)
	}
	for len(ask) > 0 {
		batch := ask[:min(len(ask), detailBatch)]
		ask = ask[len(batch):]
		if !l.readBatch(ctx, batch) {
			return false
		}
	}
	return true
}

func (l *look) readBatch(ctx context.Context, pids []int) bool {
	list := join(pids)
	a, err := l.p.scan.callFor(ctx, "dl "+list+";s;dc "+list, scanLimit)
	if err != nil {
		return false
	}
	ps := a.parts()
	found := parseLinks(string(ps[0]))
	for i, pid := range pids {
		if len(ps) < 1+3*i+3 {
			return false
		}
		d := &detail{readAt: time.Now(), links: found[pid]}
		if d.links == nil {
			d.links = &links{uid: -1}
		}
		d.argv = splitArgv(ps[1+3*i])
		d.cgroup = cgroupOf(string(ps[2+3*i]))
		d.env, d.envRead = chosenEnv(string(ps[3+3*i]))
		l.details[l.id(pid)] = d
	}
	return true
}

func join(pids []int) string {
	var b strings.Builder
	for i, pid := range pids {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strconv.Itoa(pid))
	}
	return b.String()
}

// splitArgv reads /proc/PID/cmdline: a title that was set leaves NULs behind.
func splitArgv(raw []byte) []string {
	text := strings.TrimRight(string(raw), "\x00")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\x00")
}

// cgroupOf is the last part of the most telling control group path.
func cgroupOf(text string) string {
	best := ""
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) == 3 && len(f[2]) > len(best) {
			best = f[2]
		}
	}
	if best == "" || best == "/" {
		return ""
	}
	return metrics.Clean(path.Base(best), 200)
}

// chosenEnv gives the chosen variables, masked, and whether the environment
// could be read: PATH is asked for only to tell that.
func chosenEnv(text string) (map[string]string, bool) {
	env := map[string]string{}
	read := false
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		name, _, ok := strings.Cut(line, "=")
		if !ok {
			continue
		}
		read = true
		if name == "PATH" {
			continue
		}
		_, value, _ := strings.Cut(metrics.MaskEnv([]string{line})[0], "=")
		env[name] = metrics.Clean(value, 500)
	}
	if len(env) == 0 {
		env = nil
	}
	return env, read
}

// readFDs reads the open files: of all processes where that is cheap or due,
// else of the new ones and of those that mattered.
func (l *look) readFDs(ctx context.Context, hits []int) bool {
	l.scans++
	if len(l.table.rows) <= fewProcs || l.scans%fullEvery == 1 {
		return l.readAllFDs(ctx)
	}
	var ask []int
	for pid := range l.table.rows {
		id := l.id(pid)
		fd, known := l.fds[id]
		if !known || slices.Contains(hits, pid) || fd != nil && (len(fd.gpus) > 0 || len(fd.writes) > 0) {
			ask = append(ask, pid)
		}
	}
	return l.askFDs(ctx, ask)
}

func (l *look) readAllFDs(ctx context.Context) bool {
	l.complete = true
	if l.p.opts.RootPID != 0 {
		return l.askFDs(ctx, slices.Sorted(maps.Keys(l.table.rows)))
	}
	return l.askFDs(ctx, nil)
}

// askFDs reads the open files of some processes, nil for all.
func (l *look) askFDs(ctx context.Context, pids []int) bool {
	list := "all"
	if pids != nil {
		if len(pids) == 0 {
			return true
		}
		list = join(pids)
	}
	a, err := l.p.scan.callFor(ctx, "fd "+list, scanLimit)
	if err != nil {
		return false
	}
	found := parseFDs(string(a.data))
	denied := 0
	ask := pids
	if ask == nil {
		ask = slices.Collect(maps.Keys(l.table.rows))
	}
	for _, pid := range ask {
		fd := found[pid]
		if fd == nil && l.table.rows[pid].state != "Z" {
			denied++
		}
		l.fds[l.id(pid)] = fd
	}
	// Some have ended meanwhile, so a few say nothing, and root may read all
	// but in a container without the capability.
	most := len(ask) / 20
	if l.root {
		most = len(ask) / 2
	}
	if l.complete && denied > most+2 {
		l.hidden = []string{fmt.Sprintf("open files of %d of %d processes: permission denied; log in as root to see their files and ports", denied, len(ask))}
	}
	return true
}

// pickEngines marks the processes of engines, and the ports they listen on.
func (l *look) pickEngines(hits []int) {
	for _, pid := range hits {
		d := l.details[l.id(pid)]
		if d == nil || !isEngine(d.argv) {
			continue
		}
		l.engines[pid] = true
		for _, c := range l.table.descendants(pid) {
			l.engines[c] = true
		}
	}
	for pid := range l.engines {
		l.picked[pid] = true
		if fd := l.fds[l.id(pid)]; fd != nil {
			for _, inode := range fd.sockets {
				if s := l.socks.byInode[inode]; s.listen {
					l.ports[s.lport] = true
				}
			}
		}
	}
	l.discovery.engines = len(l.engines)
}

func isEngine(argv []string) bool {
	if len(argv) == 0 || passive[path.Base(argv[0])] {
		return false
	}
	return engineWords.MatchString(strings.Join(argv, " "))
}

// strangers tells whether somebody on this host is connected to an engine of
// whom nothing is known yet.
func (l *look) strangers() bool {
	owned := map[string]bool{}
	for _, fd := range l.fds {
		if fd != nil {
			for _, inode := range fd.sockets {
				owned[inode] = true
			}
		}
	}
	for inode, s := range l.socks.byInode {
		if l.toEngine(s) && !owned[inode] {
			return true
		}
	}
	return false
}

// toEngine tells a connection from this host to a port of an engine here.
func (l *look) toEngine(s socket) bool {
	return !s.listen && l.ports[s.pport] && l.socks.isHere(s.peer)
}

// pickOthers marks clients, writers of data, holders of GPUs, the wanted
// processes, what reads an engine's output, and the ancestors of all.
func (l *look) pickOthers(hits []int) {
	for _, w := range l.p.wanted(metrics.WantPID) {
		l.pick(w.PID)
	}
	for pid := range l.table.rows {
		if fd := l.fds[l.id(pid)]; fd != nil && (len(fd.gpus) > 0 || len(fd.writes) > 0 || len(l.conns(fd)) > 0) {
			l.pick(pid)
		}
	}
	for _, pid := range hits {
		if d := l.details[l.id(pid)]; d != nil && l.looksLikeClient(d) {
			l.pick(pid)
		}
	}
	pipes := map[string]bool{}
	for pid := range l.picked {
		if d := l.details[l.id(pid)]; d != nil {
			for _, link := range []string{d.links.fd1, d.links.fd2} {
				if inode, ok := strings.CutPrefix(link, "pipe:["); ok {
					pipes[strings.TrimSuffix(inode, "]")] = true
				}
			}
		}
	}
	for pid := range l.table.rows {
		if fd := l.fds[l.id(pid)]; fd != nil && fd.pipe != "" && pipes[fd.pipe] {
			l.pick(pid)
		}
	}
	for _, pid := range l.pickedPIDs() {
		for _, a := range l.table.ancestors(pid) {
			if !l.picked[a] {
				l.above[a] = true
				l.pick(a)
			}
		}
	}
}

func (l *look) pick(pid int) {
	if _, ok := l.table.rows[pid]; ok && len(l.picked) < procsMost {
		l.picked[pid] = true
	}
}

func (l *look) pickedPIDs() []int { return slices.Sorted(maps.Keys(l.picked)) }

// looksLikeClient tells a process that may send requests or write rows by its
// command line: it names rows or an address, or is a script whose output goes
// to a file.
func (l *look) looksLikeClient(d *detail) bool {
	if len(d.argv) == 0 || passive[path.Base(d.argv[0])] {
		return false
	}
	line := strings.Join(d.argv, " ")
	if strings.Contains(line, ".jsonl") || urlWord.MatchString(line) {
		return true
	}
	for port := range l.ports {
		if strings.Contains(line, ":"+strconv.Itoa(port)) || slices.Contains(d.argv, strconv.Itoa(port)) {
			return true
		}
	}
	script := slices.ContainsFunc(d.argv, func(a string) bool { return strings.HasSuffix(a, ".py") })
	return script && strings.HasPrefix(d.links.fd1, "/") && !strings.HasPrefix(d.links.fd1, "/dev/")
}

// conns counts a process's connections to engines on this host, by port.
func (l *look) conns(fd *openFD) []metrics.Conn {
	var out []metrics.Conn
	for _, inode := range fd.sockets {
		s, ok := l.socks.byInode[inode]
		if !ok || !l.toEngine(s) {
			continue
		}
		i := slices.IndexFunc(out, func(c metrics.Conn) bool { return c.Port == s.pport })
		if i < 0 {
			out = append(out, metrics.Conn{Port: s.pport})
			i = len(out) - 1
		}
		out[i].Count++
	}
	slices.SortFunc(out, func(a, b metrics.Conn) int { return a.Port - b.Port })
	return out
}

// forget drops what is kept of processes that have ended.
func (l *look) forget() {
	for id := range l.details {
		if l.table.rows[id.pid].start != id.start {
			delete(l.details, id)
		}
	}
	for id := range l.fds {
		if l.table.rows[id.pid].start != id.start {
			delete(l.fds, id)
		}
	}
}
