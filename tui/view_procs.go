package tui

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/runvigil/runvigil/metrics"
)

// procsView is the processes that matter: the servers' trees, the clients, and
// who else holds GPU memory.
type procsView struct{ list }

func (v *procsView) title(*Model) string { return "processes" }

func (v *procsView) move(m *Model, d motion) tea.Cmd {
	if m.snap != nil {
		v.list.move(len(procRows(m.snap)), 10, d)
	}
	return nil
}

// procRow is one line of the view; its name is indented by depth.
type procRow struct {
	pid   int
	role  string
	depth int
	user  string
	name  string
	state string
	gpu   metrics.Figure // MiB on all GPUs
	gpus  []int
	since time.Time
	rss   int64
	warn  bool
}

// procRows orders what is known of processes: each server with its tree, the
// clients, then holders of GPU memory that belong to neither.
func procRows(s *metrics.Snapshot) []procRow {
	held := map[int]*procRow{}
	var holders []int
	for _, g := range s.GPUs {
		for _, pr := range g.Procs {
			h := held[pr.PID]
			if h == nil {
				h = &procRow{pid: pr.PID, name: pr.Name, role: pr.Owner}
				held[pr.PID] = h
				holders = append(holders, pr.PID)
			}
			if pr.MiB.Known {
				h.gpu = metrics.Known(h.gpu.V+pr.MiB.V, pr.MiB.At, pr.MiB.Every, pr.MiB.Source)
			}
			h.gpus = append(h.gpus, g.Index)
		}
	}
	procs := map[int]*metrics.Proc{}
	for i := range s.Procs {
		procs[s.Procs[i].PID] = &s.Procs[i]
	}
	seen := map[int]bool{}
	fill := func(r procRow) procRow {
		seen[r.pid] = true
		if h := held[r.pid]; h != nil {
			r.gpu, r.gpus = h.gpu, h.gpus
			if r.name == "" {
				r.name = h.name
			}
		}
		if p := procs[r.pid]; p != nil {
			r.state, r.rss = p.State, p.RSS
			if r.user == "" {
				r.user = p.User
			}
			if r.name == "" {
				r.name = p.Comm
			}
		}
		return r
	}
	var out []procRow
	for _, srv := range s.Servers {
		if srv.PID == 0 || srv.State == metrics.ServerDown {
			continue
		}
		out = append(out, fill(procRow{pid: srv.PID, role: "server", user: srv.User, name: strings.Join(srv.Argv, " "), since: srv.Started}))
		out = append(out, originRows(procs, srv.PID, seen)...)
		for _, pid := range srv.Tree {
			if pid == srv.PID || seen[pid] {
				continue
			}
			out = append(out, fill(procRow{pid: pid, role: "server", depth: depthIn(procs, pid, srv.PID), user: srv.User}))
		}
	}
	for _, c := range s.Clients {
		if c.PID == 0 {
			out = append(out, procRow{role: "client", name: "on " + c.Host, state: plural(c.Conns, "connection")})
			continue
		}
		if c.State == "gone" {
			continue
		}
		r := fill(procRow{pid: c.PID, role: "client", user: c.User, name: strings.Join(c.Argv, " "), since: c.Started})
		if c.State == "zombie" || c.State == "stopped" {
			r.state, r.warn = c.State, true
		}
		out = append(out, r)
		out = append(out, originRows(procs, c.PID, seen)...)
	}
	for _, pid := range holders {
		if !seen[pid] {
			r := fill(*held[pid])
			r.warn = r.role != "server" && r.role != "client"
			r.role = orText(r.role, "other")
			out = append(out, r)
		}
	}
	return out
}

// depthIn counts the generations between a process and the root of its tree.
func depthIn(procs map[int]*metrics.Proc, pid, root int) int {
	for d := 1; d < 8; d++ {
		p := procs[pid]
		if p == nil || p.PPID == root {
			return d
		}
		pid = p.PPID
	}
	return 8
}

// originRows tell where a process was started from: its ancestors up to the
// login, each once.
func originRows(procs map[int]*metrics.Proc, pid int, seen map[int]bool) []procRow {
	var names []string
	for p := procs[pid]; p != nil && p.PPID > 1 && len(names) < 6; {
		p = procs[p.PPID]
		if p == nil || seen[p.PID] {
			break
		}
		names = append(names, fmt.Sprintf("%s %d", p.Comm, p.PID))
	}
	if len(names) == 0 {
		return nil
	}
	slices.Reverse(names)
	return []procRow{{role: "from", depth: 1, name: strings.Join(names, " → ")}}
}

func (v *procsView) draw(m *Model, a area) {
	if m.snap == nil {
		return
	}
	rows := procRows(m.snap)
	if len(rows) == 0 {
		if !m.at.IsZero() {
			a.note("which processes ran then is not known")
			return
		}
		a.note("no server and no client runs here")
		return
	}
	p := m.pen()
	cols := []col{{"pid", 8, true}, {"", 7, false}, {"user", 7, false}, {"up", 7, true}, {"GPU memory", 10, true}, {"on", 7, false}, {"RSS", 8, true}, {"state", 5, false}, {"command", 0, false}}
	pick := []int{0, 1, 2, 3, 4, 5, 6, 7, 8}
	switch {
	case a.w() < 60:
		pick = []int{0, 4, 8}
	case a.w() < 100:
		pick = []int{0, 1, 4, 8}
	}
	cols = picked(cols, pick)
	h := a.h()
	if h >= 12 {
		h = min(len(rows)+1, h-7)
		v.detail(m, a.sub(0, h+1, a.w(), a.h()-h-1), p, &rows[max(min(v.sel, len(rows)-1), 0)])
	}
	m.table(a.sub(0, 0, a.w(), h), cols, len(rows), &v.list, func(i int) []span {
		r := rows[i]
		pid, up, rss := "", "", ""
		if r.pid > 0 {
			pid = strconv.Itoa(r.pid)
		}
		if !r.since.IsZero() {
			up = p.age(r.since)
		}
		if r.rss > 0 {
			rss = metrics.GiB(float64(r.rss))
		}
		if r.name == "" {
			r.name = metrics.Dash
		}
		st, role := stText, stDim
		if r.warn {
			role = stWarn.bold()
		}
		if r.depth > 0 {
			st = stDim
		}
		mem := sp("", stText)
		if r.gpu.Known {
			mem = p.fig(r.gpu, gibOfMiB, 0, stText)
		}
		cells := []span{sp(pid, stText), sp(r.role, role), sp(r.user, stDim), sp(up, stDim), mem, sp(gpuList(r.gpus), stDim), sp(rss, stDim), sp(r.state, role), sp(strings.Repeat("  ", r.depth)+r.name, st)}
		return picked(cells, pick)
	})
}

// detail tells of one process what its row has no room for.
func (v *procsView) detail(m *Model, a area, p pen, r *procRow) {
	y := 0
	put := func(label, text string, most int) {
		for i, row := range wrap(clean(text), a.w()-15, most) {
			if i > 0 {
				label = ""
			}
			a.line(1, y, a.w()-2, line{sp(padRight(label, 12), stDim), sp(row, stText)})
			y++
		}
	}
	pr := m.snap.Proc(r.pid)
	var began []string
	if !r.since.IsZero() {
		began = append(began, p.clock(r.since))
	}
	if pr != nil {
		began = append(began, fmt.Sprintf("by pid %d", pr.PPID))
		if pr.Cwd != "" {
			began = append(began, "in "+pr.Cwd)
		}
	}
	put("started", strings.Join(began, "  "), 1)
	if r.pid > 0 {
		from := m.snap.Origin(r.pid)
		if from == "" {
			from = metrics.Dash + " no login is seen among the processes before it"
		}
		put("from", from, 1)
	}
	if len(r.gpus) > 0 {
		put("holds", metrics.FigureText(r.gpu, gibOfMiB)+" on "+gpuList(r.gpus), 1)
	}
	command := r.name
	if pr != nil && len(pr.Argv) > 0 {
		command = strings.Join(pr.Argv, " ")
	}
	put("command", command, max(a.h()-y, 1))
}

// gpuList names GPUs in short: "0-7", "3".
func gpuList(gpus []int) string {
	if len(gpus) == 0 {
		return ""
	}
	g := slices.Clone(gpus)
	slices.Sort(g)
	g = slices.Compact(g)
	if n := len(g); n > 1 && g[n-1]-g[0] == n-1 {
		return fmt.Sprintf("GPU %d-%d", g[0], g[n-1])
	}
	parts := make([]string, len(g))
	for i, n := range g {
		parts[i] = strconv.Itoa(n)
	}
	return "GPU " + strings.Join(parts, ",")
}
