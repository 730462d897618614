package probe

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

const (
	dirEvery    = 15 * time.Second
	diskEvery   = 30 * time.Second
	kernelEvery = 30 * time.Second
	paneEvery   = 5 * time.Second
	placeLimit  = 15 * time.Second
	dirMost     = 100 // files of one directory
	dirsMost    = 400 // files of all directories in one answer
)

// kernelPattern chooses the kernel's lines about GPUs and the OOM killer.
const kernelPattern = `NVRM|Xid|nvidia|oom-kill|oom_reaper|Out of memory|Killed process|Memory cgroup out of memory|amdgpu|AER:.*(Fatal|Uncorrect)|EXT4-fs error|I/O error`

// places reads what changes slowly: directories, file systems, the kernel log
// and terminal panes. It belongs to one goroutine.
type places struct {
	p      *Probe
	last   map[metrics.Want]time.Time
	kernel float64 // stamp of the newest kernel line that was told
	panes  map[string][]string
	large  map[string]bool // directories that are listed by themselves
}

func (p *Probe) watchPlaces(ctx context.Context) error {
	w := &places{p: p, last: map[metrics.Want]time.Time{}, panes: map[string][]string{}, large: map[string]bool{}}
	every(ctx, p.opts.Interval, p.kicked(), func() { w.round(ctx) })
	return nil
}

// due tells whether a want's time has come, and notes it.
func (w *places) due(want metrics.Want, usual time.Duration) bool {
	interval := want.Every
	if interval <= 0 {
		interval = usual
	}
	want.Every = 0
	if last, ok := w.last[want]; ok && time.Since(last) < interval-interval/8 {
		return false
	}
	w.last[want] = time.Now()
	return true
}

func (w *places) round(ctx context.Context) {
	var dirs []string
	for _, want := range w.p.wanted(metrics.WantDir) {
		if sendable(want.Path) && w.due(want, dirEvery) && !slices.Contains(dirs, want.Path) {
			dirs = append(dirs, want.Path)
		}
	}
	if len(dirs) > 0 {
		w.listDirs(ctx, dirs)
	}
	if w.due(metrics.Want{Kind: metrics.WantDisk}, diskEvery) || w.newDisk() {
		w.disks(ctx)
	}
	for _, want := range w.p.wanted(metrics.WantKernel) {
		if w.p.opts.RootPID == 0 && w.due(want, kernelEvery) {
			w.kernelLog(ctx)
		}
	}
	for _, want := range w.p.wanted(metrics.WantPane) {
		if w.p.opts.RootPID == 0 && strings.HasPrefix(want.Path, "/dev/pts/") && sendable(want.Path) && w.due(want, paneEvery) {
			w.pane(ctx, want.Path)
		}
	}
}

// listDirs lists directories with one find for all. One that fills a large part
// of the answer is listed by itself from then on, so that it crowds out no
// other.
func (w *places) listDirs(ctx context.Context, dirs []string) {
	var together []string
	for _, dir := range dirs {
		if w.large[dir] {
			w.list(ctx, dirMost, dir)
		} else {
			together = append(together, dir)
		}
	}
	if len(together) > 0 {
		w.list(ctx, dirsMost, together...)
	}
}

func (w *places) list(ctx context.Context, most int, dirs ...string) {
	var quoted []string
	for _, dir := range dirs {
		quoted = append(quoted, quote(dir))
	}
	a, err := w.p.scan.callFor(ctx, "nd "+strconv.Itoa(most)+" "+strings.Join(quoted, " "), placeLimit)
	if err != nil {
		return
	}
	found := parseDirs(string(a.data), dirs)
	for _, dir := range dirs {
		if len(found[dir]) > dirMost {
			w.large[dir] = true
			found[dir] = found[dir][:dirMost]
		}
		w.p.emitJSON(metrics.KindDir, dir, time.Time{}, found[dir])
	}
}

// parseDirs sorts the answer of nd by the directory that was asked for; find
// puts "/./" behind it.
func parseDirs(text string, dirs []string) map[string][]metrics.FileStat {
	out := map[string][]metrics.FileStat{}
	for _, dir := range dirs {
		out[dir] = []metrics.FileStat{}
	}
	for line := range strings.Lines(text) {
		st, ok := parseStatLine(strings.TrimSuffix(line, "\n"))
		if !ok {
			continue
		}
		dir, name, ok := strings.Cut(st.Path, "/./")
		if _, asked := out[dir]; !ok || !asked {
			continue
		}
		st.Path = strings.TrimSuffix(dir, "/") + "/" + name
		out[dir] = append(out[dir], st)
	}
	return out
}

// newDisk tells whether a file system is wanted that was not asked for yet.
func (w *places) newDisk() bool {
	fresh := false
	for _, want := range w.p.wanted(metrics.WantDisk) {
		key := metrics.Want{Kind: metrics.WantDisk, Path: want.Path}
		if _, ok := w.last[key]; !ok {
			w.last[key], fresh = time.Now(), true
		}
	}
	return fresh
}

func (w *places) disks(ctx context.Context) {
	paths := []string{"/", "/dev/shm"}
	for _, want := range w.p.wanted(metrics.WantDisk) {
		if sendable(want.Path) && !slices.Contains(paths, want.Path) && len(paths) < 20 {
			paths = append(paths, want.Path)
		}
	}
	out, ok := w.askDisks(ctx, paths)
	if !ok && len(paths) > 1 {
		// One of them does not tell: then each is asked by itself.
		for _, path := range paths {
			if one, ok := w.askDisks(ctx, []string{path}); ok {
				out = append(out, one...)
			}
		}
	}
	if out != nil {
		w.p.emitJSON(metrics.KindDisk, "", time.Time{}, out)
	}
}

func (w *places) askDisks(ctx context.Context, paths []string) ([]metrics.DiskFact, bool) {
	var quoted []string
	for _, path := range paths {
		quoted = append(quoted, quote(path))
	}
	a, err := w.p.scan.callFor(ctx, "dk "+strings.Join(quoted, " "), placeLimit)
	if err != nil {
		return nil, false
	}
	return parseDisks(a.parts(), paths)
}

// parseDisks reads df -Pk and df -Pi, a line a path in both; it is not ok where
// the first has another number of lines. -1 is unknown.
func parseDisks(ps [][]byte, paths []string) ([]metrics.DiskFact, bool) {
	space := dfLines(string(ps[0]))
	if len(space) != len(paths) {
		return nil, false
	}
	var inodes []dfLine
	if len(ps) > 1 {
		inodes = dfLines(string(ps[1]))
	}
	var out []metrics.DiskFact
	for i, path := range paths {
		d := metrics.DiskFact{Path: path, Mount: space[i].mount, Total: space[i].total * 1024, Avail: space[i].avail * 1024, InodesFree: -1}
		if len(inodes) == len(space) && inodes[i].total > 0 {
			d.InodesFree = inodes[i].avail
		}
		out = append(out, d)
	}
	return out, true
}

type dfLine struct {
	mount        string
	total, avail int64
}

func dfLines(text string) []dfLine {
	var out []dfLine
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 6 || f[0] == "Filesystem" {
			continue
		}
		// A file system's name may hold spaces: count from the mount point.
		at := slices.IndexFunc(f[1:], func(s string) bool { return strings.HasSuffix(s, "%") || s == "-" }) + 1
		if at < 4 || at+1 >= len(f) {
			continue
		}
		total, err1 := strconv.ParseInt(f[at-3], 10, 64)
		avail, err2 := strconv.ParseInt(f[at-1], 10, 64)
		if err1 != nil || err2 != nil {
			continue
		}
		out = append(out, dfLine{metrics.Clean(strings.Join(f[at+1:], " "), 300), total, avail})
	}
	return out
}

func (w *places) kernelLog(ctx context.Context) {
	a, err := w.p.scan.callFor(ctx, "kn "+quote(kernelPattern), placeLimit)
	if err != nil {
		return
	}
	source, text, _ := strings.Cut(string(a.data), "\n")
	if source != "dmesg" && source != "journalctl" {
		w.p.report("kernel", metrics.ProbeFact{
			State: "absent", Reason: "the kernel log cannot be read: " + metrics.Clean(strings.TrimSpace(text), 200),
			Advice: "log in as root, or set kernel.dmesg_restrict=0, or put the user into the group systemd-journal: Xid errors and the OOM killer are told there",
		})
		return
	}
	w.p.report("kernel", metrics.ProbeFact{State: "ok"})
	lines, newest := newKernelLines(text, w.kernel)
	w.kernel = newest
	if len(lines) > 0 {
		w.p.emit(metrics.KindKernel, source, time.Time{}, []byte(strings.Join(lines, "\n")+"\n"))
	}
}

// newKernelLines are those with a stamp after the given one, in seconds since
// the boot. Lines without a stamp go with the line before them.
func newKernelLines(text string, after float64) (lines []string, newest float64) {
	newest = after
	fresh := false
	for line := range strings.Lines(text) {
		line = metrics.Clean(metrics.Mask(line), 500)
		if at, ok := kernelStamp(line); ok {
			fresh = at > after
			newest = max(newest, at)
		}
		if fresh && strings.TrimSpace(line) != "" {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines, newest
}

func kernelStamp(line string) (float64, bool) {
	if !strings.HasPrefix(line, "[") {
		return 0, false
	}
	inside, _, ok := strings.Cut(line[1:], "]")
	if !ok {
		return 0, false
	}
	at, err := strconv.ParseFloat(strings.TrimSpace(inside), 64)
	return at, err == nil
}

// pane delivers what a terminal pane shows anew.
func (w *places) pane(ctx context.Context, tty string) {
	a, err := w.p.scan.callFor(ctx, "pn "+quote(tty), placeLimit)
	if err != nil {
		return
	}
	h := metrics.LogHeader{Lines: -1, Pane: true}
	if a.rc != 0 {
		if w.p.tool("tmux") == "" {
			h.Err = "the log goes to a terminal, and there is no tmux to read it from"
		} else {
			h.Err = "the log goes to a terminal that is no tmux pane of this user: start the server with its output in a file"
		}
		w.p.emit(metrics.KindLog, tty, time.Time{}, metrics.EncodeChunk(h, nil))
		return
	}
	var lines []string
	for line := range strings.Lines(string(a.data)) {
		lines = append(lines, metrics.Mask(strings.TrimRight(line, "\r\n")))
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	before, known := w.panes[tty]
	w.panes[tty] = lines
	fresh := newPaneLines(before, lines)
	if known && len(fresh) == 0 {
		return
	}
	if !known {
		h.Backfill = 2
	}
	text := ""
	if len(fresh) > 0 {
		text = strings.Join(fresh, "\n") + "\n"
	}
	w.p.emit(metrics.KindLog, tty, time.Time{}, metrics.EncodeChunk(h, []byte(text)))
}

// newPaneLines are the lines of now behind the last place where it shows what
// stood at the end before; a screen that shares nothing is all new.
func newPaneLines(before, now []string) []string {
	if len(before) == 0 {
		return now
	}
	k := min(3, len(before))
	last := before[len(before)-k:]
	for at := len(now) - k; at >= 0; at-- {
		if slices.Equal(now[at:at+k], last) {
			return now[at+k:]
		}
	}
	return now
}
