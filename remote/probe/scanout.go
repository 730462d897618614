package probe

import (
	"context"
	"slices"
	"strings"

	"github.com/runvigil/runvigil/metrics"
)

// finish reads the running figures of the chosen processes and emits the scan.
func (l *look) finish(ctx context.Context) {
	pids := l.pickedPIDs()
	code := "al " + join(pids)
	if l.users == nil {
		code += ";s;users"
	}
	a, err := l.p.scan.callFor(ctx, code, scanLimit)
	if err != nil {
		return
	}
	ps := a.parts()
	if len(ps) > 1 {
		l.users = map[int]string{}
		for line := range strings.Lines(string(ps[1])) {
			if f := strings.Fields(line); len(f) == 2 {
				l.users[int(number(f[0]))] = metrics.Clean(f[1], 64)
			}
		}
	}
	out := metrics.Scan{UptimeS: l.uptime, Procs: []metrics.Proc{}, Total: len(l.table.rows), Hidden: l.hidden, Remote: l.remotes()}
	for line := range strings.Lines(string(ps[0])) {
		if st, ok := parseStat(line); ok && l.picked[st.pid] && l.table.rows[st.pid].start == st.start {
			out.Procs = append(out.Procs, l.proc(st))
		}
	}
	l.forget()
	l.p.emitJSON(metrics.KindScan, "", l.p.nodeTime(l.uptime), out)
}

func (l *look) proc(st procStat) metrics.Proc {
	l.p.stateMu.Lock()
	page := l.p.pageSize
	l.p.stateMu.Unlock()
	out := metrics.Proc{
		PID: st.pid, PPID: st.ppid, PGID: st.pgid, SID: st.sid, Start: st.start, State: st.state, UID: -1,
		Comm: metrics.Clean(st.comm, 64), Threads: st.threads, CPU: st.cpu, RSS: st.rss * page,
	}
	if d := l.details[l.id(st.pid)]; d != nil {
		most := argMost
		if l.above[st.pid] {
			most = argAbove
		}
		for _, arg := range metrics.MaskArgv(d.argv) {
			out.Argv = append(out.Argv, metrics.Clean(arg, most))
		}
		out.Env, out.EnvRead, out.Cgroup = d.env, d.envRead, d.cgroup
		out.UID, out.User = d.links.uid, l.users[d.links.uid]
		for _, link := range []struct {
			to   *string
			from string
		}{{&out.Exe, d.links.exe}, {&out.Cwd, d.links.cwd}, {&out.FD1, d.links.fd1}, {&out.FD2, d.links.fd2}} {
			*link.to = metrics.Clean(link.from, 4096)
		}
	}
	fd := l.fds[l.id(st.pid)]
	if fd == nil {
		return out
	}
	for _, f := range fd.writes {
		out.Files = addFile(out.Files, f, true)
	}
	for _, f := range fd.reads {
		out.Files = addFile(out.Files, f, false)
	}
	slices.Sort(fd.gpus)
	out.GPUs = slices.Compact(fd.gpus)
	out.Conns = l.conns(fd)
	for _, inode := range fd.sockets {
		if s := l.socks.byInode[inode]; s.listen {
			a := metrics.ListenAddr{Addr: s.local.String(), Port: s.lport}
			if !slices.Contains(out.Listen, a) {
				out.Listen = append(out.Listen, a)
			}
		}
	}
	slices.SortFunc(out.Listen, func(a, b metrics.ListenAddr) int { return a.Port - b.Port })
	return out
}

func addFile(files []metrics.OpenFile, name string, write bool) []metrics.OpenFile {
	name = metrics.Clean(strings.TrimSuffix(name, " (deleted)"), 4096)
	for i := range files {
		if files[i].Path == name {
			files[i].Write = files[i].Write || write
			return files
		}
	}
	if len(files) >= 100 {
		return files
	}
	return append(files, metrics.OpenFile{Path: name, Write: write})
}

// remotes counts the peers on other hosts of the engines' ports.
func (l *look) remotes() []metrics.RemoteConn {
	var out []metrics.RemoteConn
	owned := map[string]bool{}
	for pid := range l.engines {
		if fd := l.fds[l.id(pid)]; fd != nil {
			for _, inode := range fd.sockets {
				owned[inode] = true
			}
		}
	}
	for inode, s := range l.socks.byInode {
		if s.listen || !owned[inode] || !l.ports[s.lport] || l.socks.isHere(s.peer) {
			continue
		}
		addr := s.peer.String()
		i := slices.IndexFunc(out, func(r metrics.RemoteConn) bool { return r.Port == s.lport && r.Addr == addr })
		if i < 0 {
			out = append(out, metrics.RemoteConn{Port: s.lport, Addr: addr})
			i = len(out) - 1
		}
		out[i].Count++
	}
	slices.SortFunc(out, func(a, b metrics.RemoteConn) int {
		if a.Port != b.Port {
			return a.Port - b.Port
		}
		return strings.Compare(a.Addr, b.Addr)
	})
	return out
}
