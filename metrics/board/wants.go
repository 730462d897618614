package board

import (
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

const (
	dirEvery    = 15 * time.Second
	kernelEvery = 30 * time.Second
	// startAnchors begin a start's section in a server's log.
	startAnchors = metrics.StartSeparator + "\nserver_args=\nvLLM API server version\nnon-default args"
	maxDirs      = 24
	maxLogs      = 12
)

// Wants tells what the probe should read next. It depends on the frames alone.
func (b *Board) Wants() []metrics.Want {
	var out []metrics.Want
	want := func(w metrics.Want) {
		if !slices.ContainsFunc(out, func(o metrics.Want) bool {
			return o.Kind == w.Kind && o.Path == w.Path && o.Port == w.Port && o.PID == w.PID
		}) {
			out = append(out, w)
		}
	}
	want(metrics.Want{Kind: metrics.WantKernel, Every: kernelEvery})
	b.wantLogs(want)
	data := b.datasetPaths()
	b.wantRows(want, data)
	for _, d := range b.wantDirs(data) {
		want(metrics.Want{Kind: metrics.WantDir, Path: d, Every: dirEvery})
	}
	for _, s := range b.servers {
		if s.alive() {
			b.wantHTTP(want, s)
		}
	}
	b.wantPIDs(want)
	want(metrics.Want{Kind: metrics.WantDisk, Path: "/dev/shm", Every: diskEvery})
	return out
}

func (b *Board) wantLogs(want func(metrics.Want)) {
	follow := func(p string, server bool) {
		w := metrics.Want{Kind: metrics.WantLog, Path: p, Every: time.Second, Tail: clientTail}
		if server {
			w.Anchors, w.Tail = startAnchors, tailBytes
		}
		want(w)
		want(metrics.Want{Kind: metrics.WantStat, Path: p, Every: 2 * time.Second})
		want(metrics.Want{Kind: metrics.WantDisk, Path: p, Every: diskEvery})
	}
	for _, s := range b.servers {
		if s.log != "" {
			follow(s.log, true)
		} else if tty := terminalOf(b.procs[s.s.PID]); tty != "" && s.alive() {
			want(metrics.Want{Kind: metrics.WantPane, Path: tty, Every: 2 * time.Second})
		}
	}
	for _, p := range b.cfg.ServerLogs {
		follow(p, true)
	}
	for _, c := range b.clients {
		if c.log != "" && !b.log(c.log).server {
			follow(c.log, false)
		}
	}
	for _, p := range b.cfg.ClientLogs {
		follow(p, false)
	}
	for _, p := range b.cfg.Logs {
		follow(p, false)
	}
	// Without a server's process its log may lie among the logs beside the client's.
	if !slices.ContainsFunc(b.servers, func(s *serverState) bool { return s.alive() && s.log != "" }) {
		for _, p := range b.orphanLogs() {
			follow(p, true)
		}
	}
	for _, p := range sortedLogs(b.logs) {
		if l := b.logs[p]; l.seen && l.work.engine != "" {
			follow(p, true)
		}
	}
}

func terminalOf(p metrics.Proc) string {
	for _, fd := range []string{p.FD2, p.FD1} {
		if strings.HasPrefix(fd, "/dev/pts/") {
			return fd
		}
	}
	return ""
}

// orphanLogs are log files in the watched directories that no client owns,
// newest first, those that are named like a server's before others.
func (b *Board) orphanLogs() []string {
	var list []metrics.FileStat
	for _, d := range slices.Sorted(maps.Keys(b.dirs)) {
		for _, st := range b.dirs[d] {
			l := b.logs[st.Path]
			if st.Dir || !isLog(st.Path) || l != nil && l.client {
				continue
			}
			list = append(list, st)
		}
	}
	named := func(st metrics.FileStat) int {
		for _, w := range []string{"sglang", "vllm", "server"} {
			if strings.Contains(strings.ToLower(path.Base(st.Path)), w) {
				return 0
			}
		}
		return 1
	}
	slices.SortStableFunc(list, func(x, y metrics.FileStat) int {
		if d := named(x) - named(y); d != 0 {
			return d
		}
		return int(y.Mtime - x.Mtime)
	})
	var out []string
	for _, st := range list {
		if !slices.Contains(out, st.Path) && len(out) < 3 {
			out = append(out, st.Path)
		}
	}
	return out
}

func isLog(p string) bool {
	switch path.Ext(p) {
	case ".log", ".out", ".err":
		return true
	}
	return path.Base(p) == "nohup.out"
}

func (b *Board) wantRows(want func(metrics.Want), data []string) {
	for _, p := range data {
		w := metrics.Want{Kind: metrics.WantRows, Path: p, Every: rowsEvery}
		if sf, ok := b.saved[p]; ok {
			w.ID, w.Head, w.Offset, w.Rows = sf.ID, sf.Head, sf.Offset, sf.Rows
		}
		want(w)
		want(metrics.Want{Kind: metrics.WantStat, Path: p, Every: time.Second})
	}
	for _, d := range foldersOf(data) {
		want(metrics.Want{Kind: metrics.WantDisk, Path: d, Every: diskEvery})
	}
	// An input file is counted once: its rows are the wish.
	for _, c := range b.clients {
		for _, p := range c.argvFiles {
			if c.alive() && !slices.Contains(data, p) {
				want(metrics.Want{Kind: metrics.WantRows, Path: p})
			}
		}
		for _, p := range c.tables {
			if c.alive() {
				want(metrics.Want{Kind: metrics.WantRows, Path: p, Records: true})
			}
		}
	}
	for _, g := range b.cfg.Datasets {
		if !strings.ContainsAny(g, "*?[") {
			want(metrics.Want{Kind: metrics.WantStat, Path: g, Every: 2 * time.Second})
		}
	}
}

func foldersOf(paths []string) []string {
	var out []string
	for _, p := range paths {
		if d := path.Dir(p); !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out
}

// wantDirs are the directories in and beside which rows may grow: those of
// clients, of logs, of arguments that are paths, and of the datasets.
func (b *Board) wantDirs(data []string) []string {
	var out []string
	add := func(d string) {
		d = path.Clean(d)
		if d == "/" || d == "." || !path.IsAbs(d) || strings.HasPrefix(d, "/proc") || strings.HasPrefix(d, "/dev") || strings.HasPrefix(d, "/sys") ||
			slices.Contains([]string{"/root", "/home", "/tmp", "/usr", "/etc", "/var", "/var/log", "/opt", "/mnt", "/data"}, d) {
			return
		}
		if !slices.Contains(out, d) && len(out) < maxDirs {
			out = append(out, d)
		}
	}
	beside := func(file string) {
		add(path.Dir(file))
		add(path.Dir(path.Dir(file)))
	}
	for _, c := range b.clients {
		if c.c.Host != "" {
			continue
		}
		if c.log != "" {
			beside(c.log)
		}
		add(c.c.Cwd)
		for i, a := range c.c.Argv {
			if i == 0 {
				continue
			}
			if name, v, ok := strings.Cut(a, "="); ok && strings.HasPrefix(name, "-") {
				a = v
			}
			switch {
			case strings.HasPrefix(a, "-") || strings.Contains(a, "://") || !strings.Contains(a, "/"):
			case path.Ext(a) != "":
				add(path.Dir(b.abs(a, c.c.Cwd)))
			default:
				add(b.abs(a, c.c.Cwd))
			}
		}
	}
	for _, s := range b.servers {
		if s.log != "" {
			beside(s.log)
		}
	}
	for _, p := range slices.Concat(b.cfg.ClientLogs, b.cfg.ServerLogs) {
		beside(p)
	}
	for _, p := range b.cfg.Datasets {
		if dir := path.Dir(p); !strings.ContainsAny(dir, "*?[") {
			add(dir)
		}
	}
	for _, d := range foldersOf(data) {
		add(d)
	}
	return out
}

func (b *Board) abs(p, cwd string) string {
	if path.IsAbs(p) {
		return p
	}
	return path.Join(cwd, p)
}

// wantHTTP asks a living server as little as possible: what its version has, and
// /health, which makes work and log lines, only while the log says nothing.
func (b *Board) wantHTTP(want func(metrics.Want), s *serverState) {
	if s.s.Port == 0 {
		return
	}
	ask := func(p string, every time.Duration) {
		w := metrics.Want{Kind: metrics.WantHTTP, Path: p, Addr: dial(s.s.Addr), Port: s.s.Port, Every: every}
		if _, ok := flagValue(s.s.Argv, "api-key"); ok {
			w.KeyPID = s.s.PID
		}
		want(w)
	}
	if s.config != nil {
		if !b.doubled(s) {
			ask(s.endpointPath(), metricsEvery)
		}
		return
	}
	sec := b.sectionOf(s)
	if sec != nil && sec.ready.IsZero() && !sec.broken && !s.listening && sec.lastDecode.IsZero() {
		return // the port opens only at the end of a start
	}
	if s.s.Engine == "vllm" && s.version == "" && (sec == nil || sec.version == "") {
		ask("/version", time.Minute)
	}
	if ep := s.http[sourceModels]; s.s.Engine == "vllm" && !s.info.context.Known && (sec == nil || !sec.context.Known) && (ep == nil || ep.tries < 3 || ep.status == 0) {
		ask(sourceModels, time.Minute)
	}
	if s.s.Engine == "sglang" {
		if ep := s.http["/server_info"]; ep == nil || ep.ok.IsZero() && ep.tries < 3 || ep.ok.IsZero() && ep.status == 0 {
			ask("/server_info", time.Minute)
		}
		if ep := s.http["/v1/loads"]; (ep == nil || ep.status != 404) && versionAtLeast(s.version, 0, 5, 8) {
			ask("/v1/loads", loadsEvery)
		}
	}
	if ep := s.http["/metrics"]; (ep == nil || ep.status == 200 || ep.status == 0 || ep.status >= 500) && !metricsOff(s, sec) {
		ask("/metrics", metricsEvery)
	}
	silent := sec == nil || b.present().Sub(latest(sec.lastBatch, sec.ready, sec.at)) > silence
	if busy := s.loads.known && s.loads.running > 0; silent && (busy || !s.loads.known) {
		ask("/health", healthEvery)
	}
}

// metricsOff tells whether the launch itself says that there are no metrics.
func metricsOff(s *serverState, sec *section) bool {
	return s.s.Engine == "sglang" && sec != nil && sec.flags["enable_metrics"] == "False"
}

// soughtFor is how long a process that a restart started is looked for.
const soughtFor = time.Minute

func (b *Board) wantPIDs(want func(metrics.Want)) {
	// What a restart has just started is no process yet that a scan has found; a
	// want that is new makes the probe look at once.
	for _, l := range slices.SortedFunc(maps.Keys(b.launched), func(x, y launched) int { return x.pid - y.pid }) {
		if p, found := b.procs[l.pid]; (!found || p.Start != l.start) && l.boot == b.session.BootID && b.present().Sub(b.launched[l]) < soughtFor {
			want(metrics.Want{Kind: metrics.WantPID, PID: l.pid, Every: aliveEvery})
		}
	}
	for _, s := range b.servers {
		if !s.alive() {
			continue
		}
		state, _ := b.judge(s, b.sectionOf(s))
		for _, pid := range s.s.Tree[:min(len(s.s.Tree), 40)] {
			// What it reads from disk tells whether a start moves; later nobody asks.
			want(metrics.Want{Kind: metrics.WantPID, PID: pid, Every: aliveEvery, Reads: state == metrics.ServerStarting})
		}
	}
	// Whose memory limit counts: that of the servers, and where none runs that of
	// this login, in which the next one will start.
	limits := 0
	for _, s := range b.servers {
		if s.alive() && s.s.PID != 0 && limits < 4 {
			want(metrics.Want{Kind: metrics.WantMemory, PID: s.s.PID, Every: groupsEvery})
			limits++
		}
	}
	if limits == 0 {
		want(metrics.Want{Kind: metrics.WantMemory, Every: groupsEvery})
	}
	for _, c := range b.clients {
		if c.c.PID != 0 && (c.alive() || c.c.State == "zombie") {
			want(metrics.Want{Kind: metrics.WantPID, PID: c.c.PID, Every: aliveEvery})
		}
	}
}
