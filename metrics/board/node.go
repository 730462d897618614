package board

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

func (b *Board) applySession(f metrics.Frame, s metrics.Session) {
	if b.known && s.BootID != "" && b.session.BootID != "" && s.BootID != b.session.BootID {
		b.event(metrics.Event{At: f.At, Kind: "crash", Text: metrics.NodeRestarted})
		b.procs = map[int]metrics.Proc{}
		for _, srv := range b.servers {
			srv.gone(f.At, metrics.NodeRestarted)
		}
		for _, c := range b.clients {
			if c.alive() || c.c.State == "zombie" {
				c.gone(f.At)
				c.kernel = &metrics.CauseFact{Class: metrics.CauseKilledUnknown, Detail: metrics.NodeRestarted, Line: metrics.NodeRestarted, At: f.At}
			}
		}
	}
	b.session, b.known = s, true
	b.channels = map[string]metrics.Channel{} // those of the connection before are gone with it
	if !s.Now.IsZero() {
		b.offset = s.Now.Sub(f.At)
		b.boot = f.At.Add(-time.Duration(s.UptimeS * float64(time.Second)))
	}
	for _, l := range b.logs {
		if !l.seen {
			l.zone = s.ZoneSec
		}
	}
}

// applyLink takes a change of the link. An outage is one however often a
// reconnect is tried: it keeps its beginning, and is told once.
func (b *Board) applyLink(f metrics.Frame, l metrics.LinkFact) {
	reason := metrics.Clean(l.Reason, 800)
	if l.Status == metrics.LinkConnecting && b.link.Status == metrics.LinkDown {
		b.link.Waiting = l.Waiting
		return
	}
	if l.Status != b.link.Status {
		was := b.link.Status
		if l.Status == metrics.LinkUp || was == "" || was == metrics.LinkUp {
			b.link.Since = f.At
		}
		switch {
		case l.Status == metrics.LinkDown:
			b.event(metrics.Event{At: f.At, Kind: "link", Text: joinText("link down", reason)})
		case l.Status == metrics.LinkUp && b.wasUp && was != metrics.LinkSuspect:
			b.relinked, b.lastHeard = f.At, b.link.LastData
			b.event(metrics.Event{At: f.At, Kind: "link", Text: joinText("link up again", reason)})
		}
	}
	b.wasUp = b.wasUp || l.Status == metrics.LinkUp
	b.link.Status, b.link.Reason, b.link.Waiting = l.Status, reason, l.Waiting
	if l.RTTms > 0 {
		b.link.RTT = time.Duration(l.RTTms * float64(time.Millisecond))
	}
}

func joinText(a, reason string) string {
	if reason == "" {
		return a
	}
	return a + ": " + reason
}

func (b *Board) applyProbe(f metrics.Frame, p metrics.ProbeFact) {
	c := b.channels[f.Name]
	was := c.Broken()
	if c.State != p.State {
		c.Since = f.At
	}
	c.Name, c.State = f.Name, metrics.Clean(p.State, 20)
	switch {
	case c.Broken() && !was:
		c.Broke = f.At
	case was && !c.Broken():
		c.Back = f.At
	}
	c.Reason, c.Advice = metrics.Clean(p.Reason, 300), metrics.Clean(p.Advice, 300)
	b.channels[f.Name] = c
}

// launched is a process that a restart started.
type launched struct {
	boot  string
	pid   int
	start int64
}

func (b *Board) applyJournal(f metrics.Frame) {
	for line := range strings.Lines(string(f.Data)) {
		text := metrics.Clean(strings.TrimRight(line, "\n"), 400)
		if text == "" {
			continue
		}
		b.event(metrics.Event{At: f.At, Kind: "restart", Text: text, Ref: f.Name})
		l, err := metrics.ParseJournalLine(line)
		if by := b.restarts[f.Name]; err == nil && l.Step == metrics.JournalBegin && by == "" {
			b.restarts[f.Name] = l.Get("by")
		} else {
			b.restarts[f.Name] = by
		}
		if pid, start, ok := l.Process("pid"); err == nil && ok && l.Step == metrics.JournalStarted {
			b.launched[launched{b.session.BootID, pid, start}] = f.At
		}
	}
}

// ours tells whether a restart of this login that was followed here started a
// process, itself or by a wrapper above it; through is the restart that its
// environment names, and by the login that began that, "" unknown.
func (b *Board) ours(pid int) (ours bool, through, by string) {
	for range 64 {
		p, ok := b.procs[pid]
		if !ok {
			break
		}
		if through == "" {
			through, _, _ = cutLast(p.Env["RUNVIGIL_START"], "-")
		}
		if _, told := b.launched[launched{b.session.BootID, p.PID, p.Start}]; told {
			ours = true
		}
		pid = p.PPID
	}
	through = metrics.Clean(through, 60)
	by, followed := b.restarts[through]
	if by != "" && b.session.User != "" && by != b.session.User {
		return false, through, by
	}
	return ours || followed, through, by
}

// cutLast cuts at the last separator.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return "", "", false
}

// hostState is the machine around the GPUs.
type hostState struct {
	host    metrics.Host
	cpuBusy float64
	cpuAll  float64
	load    metrics.Series
	mem     metrics.Series
	disks   map[string]*diskState
	groups  []memoryLimit // at the newest look
}

// memoryLimit is one memory limit of a control group above a server.
type memoryLimit struct {
	limit, free metrics.Figure // bytes
	path        string
}

type diskState struct {
	disk  metrics.Disk
	trail []diskPoint // at most one a minute over the last hour
}

type diskPoint struct {
	at    time.Time
	avail float64
}

const (
	sysEvery    = 2 * time.Second
	groupsEvery = 10 * time.Second
)

func (h *hostState) apply(f metrics.Frame) {
	fig := func(v float64) metrics.Figure { return metrics.Known(v, f.At, sysEvery, "/proc") }
	var swapFree, swapTotal float64
	var hasSwap bool
	for line := range strings.Lines(string(f.Data)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		v, err := strconv.ParseFloat(fields[1], 64)
		if err != nil {
			continue
		}
		switch fields[0] {
		case "uptime":
			h.host.UptimeS = fig(v)
		case "loadavg":
			h.host.Load1 = fig(v)
			h.load.Add(f.At, v)
		case "cpu":
			h.cpu(f.At, fields[1:])
		case "MemTotal:":
			h.host.NodeTotal = fig(v * 1024)
		case "MemAvailable:":
			h.host.NodeAvail = fig(v * 1024)
		case "groups":
			h.groups = nil
		case "group":
			h.group(f.At, fields)
		case "SwapTotal:":
			swapTotal, hasSwap = v*1024, true
		case "SwapFree:":
			swapFree = v * 1024
		}
	}
	h.tightest()
	if h.host.MemAvail.Known && h.host.MemAvail.At.Equal(f.At) {
		h.mem.Add(f.At, h.host.MemAvail.V)
	}
	if hasSwap {
		h.host.SwapTotal, h.host.SwapUsed = fig(swapTotal), fig(swapTotal-swapFree)
	}
}

// group takes the fields "group PID LIMIT USED ACTIVE INACTIVE PATH…".
func (h *hostState) group(at time.Time, fields []string) {
	if len(fields) < 6 {
		return
	}
	var v [4]float64 // limit, in use, page cache of both kinds
	for i := range v {
		n, err := strconv.ParseFloat(fields[2+i], 64)
		if err != nil || n < 0 {
			return
		}
		v[i] = n
	}
	fig := func(v float64) metrics.Figure { return metrics.Known(v, at, groupsEvery, "control group") }
	h.groups = append(h.groups, memoryLimit{fig(v[0]), fig(min(max(v[0]-v[1]+v[2]+v[3], 0), v[0])), metrics.Clean(strings.Join(fields[6:], " "), 300)})
}

// tightest finds what is free for a server: the node's memory, or what is left
// below a limit of its control group.
func (h *hostState) tightest() {
	h.host.MemAvail, h.host.MemTotal, h.host.MemLimit = h.host.NodeAvail, h.host.NodeTotal, ""
	for _, g := range h.groups {
		if h.host.NodeTotal.Known && g.limit.V >= h.host.NodeTotal.V || h.host.MemAvail.Known && g.free.V >= h.host.MemAvail.V {
			continue
		}
		h.host.MemAvail, h.host.MemTotal, h.host.MemLimit = g.free, g.limit, limitName(g.path)
	}
}

// limitName says whose limit it is by the path of the control group: the top of
// what a container shows, or a name that a runtime or a scheduler gives.
func limitName(p string) string {
	for _, s := range []string{"slurm", "/job_"} {
		if strings.Contains(p, s) {
			return "the Slurm job"
		}
	}
	if p == "" || p == "/" {
		return "the container"
	}
	for _, s := range []string{"docker", "containerd", "kubepods", "crio", "libpod", "podman", "lxc"} {
		if strings.Contains(p, s) {
			return "the container"
		}
	}
	return "control group " + path.Base(p)
}

// cpu takes the fields after "cpu" of /proc/stat: user nice system idle iowait
// irq softirq steal. Idle and iowait are not busy.
func (h *hostState) cpu(at time.Time, fields []string) {
	var all, idle float64
	for i, s := range fields {
		if i >= 8 {
			break
		}
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return
		}
		all += v
		if i == 3 || i == 4 {
			idle += v
		}
	}
	busy := all - idle
	if da := all - h.cpuAll; h.cpuAll > 0 && da > 0 {
		h.host.CPUUtil = metrics.Known(min(max((busy-h.cpuBusy)/da, 0), 1), at, sysEvery, "/proc/stat")
	}
	h.cpuBusy, h.cpuAll = busy, all
}

const diskEvery = 30 * time.Second

func (h *hostState) applyDisk(f metrics.Frame, facts []metrics.DiskFact) {
	if h.disks == nil {
		h.disks = map[string]*diskState{}
	}
	fig := func(v int64) metrics.Figure {
		if v < 0 {
			return metrics.Figure{}
		}
		return metrics.Known(float64(v), f.At, diskEvery, "df")
	}
	paths := map[string][]string{}
	for _, d := range facts {
		if d.Total == 0 {
			continue // /proc and its like have no size and are never full
		}
		mount := metrics.Clean(d.Mount, 200)
		paths[mount] = append(paths[mount], metrics.Clean(d.Path, 400))
		s := h.disks[mount]
		if s == nil {
			s = &diskState{}
			h.disks[mount] = s
		}
		s.disk.Mount = mount
		s.disk.Total, s.disk.Avail, s.disk.InodesFree = fig(d.Total), fig(d.Avail), fig(d.InodesFree)
		if d.Avail >= 0 {
			s.add(f.At, float64(d.Avail))
		}
	}
	for mount, ps := range paths {
		slices.Sort(ps)
		h.disks[mount].disk.Paths = slices.Compact(ps)
	}
}

func (s *diskState) add(at time.Time, avail float64) {
	if n := len(s.trail); n == 0 || at.Sub(s.trail[n-1].at) >= time.Minute {
		s.trail = append(s.trail, diskPoint{at, avail})
		for len(s.trail) > 60 {
			s.trail = append(s.trail[:0], s.trail[1:]...)
		}
	}
	s.disk.FullIn = 0
	first := s.trail[0]
	over := at.Sub(first.at)
	if used := first.avail - avail; over >= 5*time.Minute && used > 0 {
		s.disk.FullIn = time.Duration(min(avail/used*float64(over), float64(10*365*24*time.Hour)))
	}
}

func (h *hostState) snapshot(cpus int) metrics.Host {
	out := h.host
	out.CPUs = cpus
	for _, mount := range slices.Sorted(maps.Keys(h.disks)) {
		d := h.disks[mount].disk
		d.Paths = slices.Clone(d.Paths)
		if mount == "/dev/shm" {
			out.Shm = d
			continue
		}
		out.Disks = append(out.Disks, d)
	}
	return out
}

func (b *Board) channelList() []metrics.Channel {
	out := slices.Collect(maps.Values(b.channels))
	slices.SortFunc(out, func(a, c metrics.Channel) int { return cmp.Compare(a.Name, c.Name) })
	return out
}

func (b *Board) cannotTell() []metrics.CannotTell {
	var out []metrics.CannotTell
	for _, c := range b.channelList() {
		if c.State != "ok" && c.State != "" && (c.Reason != "" || c.Advice != "") {
			out = append(out, metrics.CannotTell{What: channelWhat(c.Name), Why: c.Reason, Tell: c.Advice})
		}
	}
	for _, h := range b.hidden {
		out = append(out, metrics.CannotTell{What: "some processes", Why: h, Tell: "connect as root or as the user that runs the server"})
	}
	for _, k := range slices.Sorted(maps.Keys(b.bad)) {
		out = append(out, metrics.CannotTell{What: fmt.Sprintf("newest %s frame", k), Why: b.bad[k], Tell: "a recording of this moment, sent with a report"})
	}
	return out
}

func channelWhat(name string) string {
	switch name {
	case "gpu":
		return "GPU figures"
	case "files":
		return "files, rows and logs"
	case "scan":
		return "processes and connections"
	case "http":
		return "answers of the server's endpoints"
	case "ctl":
		return "host figures"
	case "kernel":
		return "kernel log"
	}
	return metrics.Clean(name, 60)
}
