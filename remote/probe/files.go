package probe

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

const (
	batchBytes = 900 << 10 // answers to one request are kept below maxAnswer
	sliceLimit = 60 * time.Second
	sliceFirst = 8 << 20
	sliceMost  = 64 << 20
	sliceLeast = 1 << 20
)

// files is the worker of the files channel: stat, rows and logs. It belongs to
// one goroutine.
type files struct {
	p     *Probe
	stats map[string]metrics.FileStat
	rows  map[string]*rowCount
	logs  map[string]*logFollow

	index   map[string]int // of a path in the shell's variables
	known   map[int]bool   // variables that the shell of generation gen holds
	list    string         // the quoted list it holds for stat
	gen     int
	slice   int64 // bytes of the next slice of a long read
	rounds  int
	clock   func() time.Time
	missing map[string]bool // logs that were not there at first
}

func newFiles(p *Probe) *files {
	return &files{
		p: p, clock: time.Now, slice: sliceFirst,
		stats: map[string]metrics.FileStat{}, rows: map[string]*rowCount{}, logs: map[string]*logFollow{},
		index: map[string]int{}, known: map[int]bool{}, missing: map[string]bool{},
	}
}

// watchFiles reads files each interval. Long reads run in slices between the
// rounds and delay none.
func (p *Probe) watchFiles(ctx context.Context) error {
	f := newFiles(p)
	kick := p.kicked()
	for ctx.Err() == nil {
		next := f.clock().Add(p.opts.Interval)
		f.round(ctx)
		for ctx.Err() == nil && f.clock().Before(next) {
			took, worked := f.background(ctx)
			if !worked {
				break
			}
			sleep(ctx, took)
		}
		wait := time.NewTimer(max(0, next.Sub(f.clock())))
		select {
		case <-wait.C:
		case <-kick:
		case <-ctx.Done():
		}
		wait.Stop()
	}
	return nil
}

// op is one piece of a request; its answer has a fixed number of parts.
type op struct {
	code  string
	parts int
	bytes int64 // at most so many in the answer
	take  func(parts [][]byte)
}

// run sends pieces in as few requests as fit. A piece whose request failed is
// not taken.
func (f *files) run(ctx context.Context, ops []op, limit time.Duration) bool {
	for len(ops) > 0 {
		n, sum := 0, int64(0)
		for n < len(ops) && (n == 0 || sum+ops[n].bytes <= batchBytes) {
			sum += ops[n].bytes
			n++
		}
		batch := ops[:n]
		ops = ops[n:]
		a, err := f.p.files.callWith(ctx, limit, func(gen int) string {
			var b strings.Builder
			f.prepare(&b, gen, batch)
			for i, o := range batch {
				if i > 0 {
					b.WriteString(";s;")
				}
				b.WriteString(o.code)
			}
			return b.String()
		})
		if err != nil {
			return false
		}
		ps := a.parts()
		for _, o := range batch {
			if len(ps) < o.parts {
				return false
			}
			o.take(ps[:o.parts])
			ps = ps[o.parts:]
		}
	}
	return true
}

// prepare sets the variables that the pieces use and the shell does not hold.
func (f *files) prepare(b *strings.Builder, gen int, ops []op) {
	if gen != f.gen {
		f.gen, f.list = gen, ""
		clear(f.known)
	}
	for path, i := range f.index {
		if f.known[i] {
			continue
		}
		name := variable(i)
		for _, o := range ops {
			if strings.Contains(o.code, name) {
				b.WriteString(name[2:len(name)-1] + "=" + quote(path) + ";")
				f.known[i] = true
				break
			}
		}
	}
}

func variable(i int) string { return `"$p` + strconv.Itoa(i) + `"` }

// ref is how shell code names a path: by a variable, so that long paths travel
// once.
func (f *files) ref(path string) string {
	i, ok := f.index[path]
	if !ok {
		i = len(f.index)
		f.index[path] = i
	}
	return variable(i)
}

// round stats everything and reads what has changed.
func (f *files) round(ctx context.Context) {
	f.rounds++
	wants := f.p.wanted(metrics.WantStat, metrics.WantRows, metrics.WantLog)
	var paths []string
	seen := map[string]bool{}
	for _, w := range wants {
		if sendable(w.Path) && !seen[w.Path] {
			seen[w.Path] = true
			paths = append(paths, w.Path)
		}
	}
	f.forget(wants)
	if len(paths) == 0 || !f.stat(ctx, paths) {
		return
	}
	var ops []op
	for _, w := range wants {
		st, ok := f.stats[w.Path]
		if !ok {
			continue
		}
		switch w.Kind {
		case metrics.WantRows:
			ops = append(ops, f.countOps(w, st)...)
		case metrics.WantLog:
			ops = append(ops, f.followOps(ctx, w, st)...)
		}
	}
	f.run(ctx, ops, f.p.files.limit())
	f.afterRound(ctx)
}

// afterRound deals with what the answers of a round asked for.
func (f *files) afterRound(ctx context.Context) {
	var ops []op
	for path, r := range f.rows {
		if r.again {
			r.again = false
			ops = append(ops, f.countOp(r, f.stats[path], sliceFirst/4))
		}
	}
	f.run(ctx, ops, f.p.files.limit())
	for _, r := range f.rows {
		f.judge(ctx, r)
		if r.fresh {
			r.fresh = false
			f.emitRows(r)
		}
	}
}

func (f *files) forget(wants []metrics.Want) {
	rows, logs := map[string]bool{}, map[string]bool{}
	for _, w := range wants {
		switch w.Kind {
		case metrics.WantRows:
			rows[w.Path] = true
		case metrics.WantLog:
			logs[w.Path] = true
		}
	}
	for path := range f.rows {
		if !rows[path] {
			delete(f.rows, path)
		}
	}
	for path := range f.logs {
		if !logs[path] {
			delete(f.logs, path)
		}
	}
}

// stat asks for all paths at once and emits the answer.
func (f *files) stat(ctx context.Context, paths []string) bool {
	var quoted []string
	for _, p := range paths {
		quoted = append(quoted, quote(p))
	}
	list := strings.Join(quoted, " ")
	a, err := f.p.files.callWith(ctx, f.p.files.limit(), func(gen int) string {
		code := ""
		f.prepare(&strings.Builder{}, gen, nil)
		if list != f.list {
			f.list = list
			code = "W=" + quote(list) + ";"
		}
		return code + "st"
	})
	if err != nil {
		f.list = ""
		return false
	}
	if a.rc == 127 {
		f.p.report("files", metrics.ProbeFact{State: "failed", Reason: "there is no stat on the node", Advice: "install coreutils or busybox"})
		return false
	}
	all := parseStats(string(a.data), paths)
	clear(f.stats)
	for _, st := range all {
		f.stats[st.Path] = st
	}
	f.p.emitJSON(metrics.KindFiles, "", time.Time{}, all)
	return true
}

// errNotReadable is said of a file that is there and not this login's to read.
const errNotReadable = "permission denied"

// parseStats reads the answer of st: a line a file that is there, the words of
// stat about the others, and which of those that are there may not be read. The result has the order of paths.
func parseStats(text string, paths []string) []metrics.FileStat {
	found := map[string]metrics.FileStat{}
	var messages []string
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if st, ok := parseStatLine(line); ok {
			found[st.Path] = st
		} else if p, ok := strings.CutPrefix(line, "-r "); ok {
			if st, there := found[p]; there {
				st.Err = errNotReadable
				found[p] = st
			}
		} else {
			messages = append(messages, line)
		}
	}
	out := make([]metrics.FileStat, 0, len(paths))
	for _, p := range paths {
		st, ok := found[p]
		if !ok {
			st = metrics.FileStat{Path: p, Err: statError(messages, p)}
		}
		out = append(out, st)
	}
	return out
}

// parseStatLine reads "device:inode size mtime mode path".
func parseStatLine(line string) (metrics.FileStat, bool) {
	f := strings.SplitN(line, " ", 5)
	if len(f) != 5 || !strings.Contains(f[0], ":") || f[4] == "" {
		return metrics.FileStat{}, false
	}
	size, err1 := strconv.ParseInt(f[1], 10, 64)
	mtime, err2 := strconv.ParseInt(f[2], 10, 64)
	mode, err3 := strconv.ParseUint(f[3], 16, 32)
	if err1 != nil || err2 != nil || err3 != nil {
		return metrics.FileStat{}, false
	}
	st := metrics.FileStat{Path: f[4], Exists: true, ID: f[0], Size: size, Mtime: mtime}
	switch mode & 0o170000 {
	case 0o100000:
	case 0o040000:
		st.Dir = true
	case 0o010000:
		st.Err = "is a pipe" // reading one may block, as a device may
	case 0o140000:
		st.Err = "is a socket"
	default:
		st.Err = "is a device"
	}
	return st, true
}

// statError gives the reason that stat told for a path, "" where the file is
// merely not there.
func statError(messages []string, path string) string {
	for _, m := range messages {
		at := strings.Index(m, path)
		if at < 0 {
			continue
		}
		reason := strings.TrimLeft(m[at+len(path):], "'\": ")
		if reason != "" && !strings.Contains(reason, "No such file") {
			return metrics.Clean(strings.ToLower(reason[:1])+reason[1:], 100)
		}
	}
	return ""
}

// background does one slice of what is left of long reads and tells how long
// to pause after it, or that there is nothing to do.
func (f *files) background(ctx context.Context) (pause time.Duration, worked bool) {
	for path, l := range f.logs {
		if l.fill != nil {
			f.fill(ctx, l, f.stats[path])
			return 0, true
		}
	}
	begun := f.clock()
	for path, r := range f.rows {
		if st := f.stats[path]; st.Exists && !r.done && r.started {
			n := f.slice
			ok := f.run(ctx, []op{f.countOp(r, st, n)}, sliceLimit)
			took := f.clock().Sub(begun)
			f.pace(took, ok)
			if r.done || f.clock().Sub(r.toldAt) >= time.Second {
				f.emitRows(r)
			}
			return max(took, 5*time.Millisecond), ok
		}
	}
	for path, l := range f.logs {
		if st := f.stats[path]; st.Exists && l.counted < l.pos {
			ok := f.countLines(ctx, l)
			took := f.clock().Sub(begun)
			f.pace(took, ok)
			return max(took, 5*time.Millisecond), ok
		}
	}
	return 0, false
}

// pace chooses the next slice so that it takes a fraction of a second, whatever
// the speed of the disk and of the node's tools.
func (f *files) pace(took time.Duration, ok bool) {
	switch {
	case !ok || took > 400*time.Millisecond:
		f.slice = max(f.slice/2, sliceLeast)
	case took < 100*time.Millisecond:
		f.slice = min(f.slice*2, sliceMost)
	}
}
