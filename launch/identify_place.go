package launch

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/runvigil/runvigil/metrics"
)

// output tells where the server's output goes.
func (l *Launch) output(p parts) {
	if !p.has("fd") {
		return
	}
	fds := p.fds()
	l.Log, l.LogHow, l.LogNote = place(fds["1"])
	if l.LogHow == LogPipe {
		l.pipe(p, fds["1"])
	}
	if fds["2"] != fds["1"] {
		l.Stderr = fds["2"]
		if l.Stderr == "" {
			l.Stderr = "closed"
		}
	}
	if in := fds["0"]; in != "/dev/null" {
		l.Stdin = in
	}
}

func place(target string) (log string, how How, note string) {
	name, deleted := strings.CutSuffix(target, " (deleted)")
	switch {
	case target == "" || target == "/dev/null":
		return "", LogNone, target
	case strings.HasPrefix(target, "pipe:"):
		return "", LogPipe, ""
	case strings.HasPrefix(target, "socket:"):
		return "", LogSocket, target
	case strings.HasPrefix(target, "/dev/pts/"), strings.HasPrefix(target, "/dev/tty"), target == "/dev/console":
		return "", LogTerminal, target
	case !strings.HasPrefix(target, "/"):
		return "", LogUnknown, target
	case deleted:
		return name, LogFile, "the file was deleted: what is written since is lost"
	}
	return name, LogFile, ""
}

// pipe tells who reads the server's output. tee writes what it reads into the
// files that it was given; others that it has open it only inherited.
func (l *Launch) pipe(p parts, target string) {
	reader := argvOf(p.get("reader"))
	if len(reader) == 0 {
		l.LogNote = target + ", whose reader cannot be seen"
		return
	}
	l.LogNote = metrics.Clean(strings.Join(metrics.MaskArgv(reader), " "), 200)
	if path.Base(reader[0]) != "tee" {
		return
	}
	l.LogHow = LogTee
	open := map[string]bool{}
	for n, to := range p.pairs("readerfd") {
		if log, how, _ := place(to); atoi(n) > 2 && how == LogFile {
			open[log] = true
		}
	}
	for _, a := range reader[1:] {
		if strings.HasPrefix(a, "-") {
			continue
		}
		if !path.IsAbs(a) {
			a = path.Join(p.text("readercwd"), a)
		}
		if l.Log == "" || open[a] {
			l.Log = a
		}
		if open[a] {
			return
		}
	}
}

// inherited finds descriptors that a restart would lose: those that the parent
// has too under the same number, those that the command names, and sockets that
// systemd handed over. Others cannot be told from what the server opened itself.
// What every process of the node has open, our shell too, is not lost.
func (l *Launch) inherited(p parts) {
	fds, parent, mine := p.fds(), p.pairs("parentfd"), p.pairs("myfd")
	for n, target := range fds {
		num, err := strconv.Atoi(n)
		if err != nil || num <= 2 || mine[n] == target {
			continue
		}
		// A language's runtime opens the limits of its control group in each process.
		shared := parent[n] == target && !strings.HasPrefix(target, "anon_inode:") && !strings.HasPrefix(target, "/sys/") && target != "/dev/null"
		named := slices.ContainsFunc(l.Argv, func(a string) bool {
			return strings.HasSuffix(a, "/dev/fd/"+n) || strings.HasSuffix(a, "/proc/self/fd/"+n)
		})
		handed, _ := l.Getenv("LISTEN_FDS")
		if shared || named || num < 3+atoi(handed) {
			l.FDs = append(l.FDs, FD{N: num, Target: metrics.Clean(target, 200)})
		}
	}
	slices.SortFunc(l.FDs, func(a, b FD) int { return a.N - b.N })
}

// cgroupPath is the path of the unified hierarchy, else of systemd's, else the
// longest that is named.
func cgroupPath(text string) string {
	best := ""
	for line := range strings.SplitSeq(text, "\n") {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		if f[0] == "0" && f[2] != "/" || f[1] == "name=systemd" {
			return f[2]
		}
		if len(f[2]) > len(best) {
			best = f[2]
		}
	}
	return best
}

func (l *Launch) cgroup(p parts) {
	l.Cgroup = metrics.Clean(cgroupPath(p.text("cgroup")), 400)
	if l.Cgroup == "" {
		return
	}
	parts := strings.Split(strings.Trim(l.Cgroup, "/"), "/")
	for _, part := range parts {
		switch {
		case strings.HasPrefix(part, "job_"):
			l.SlurmJob = strings.TrimPrefix(part, "job_")
		case strings.HasPrefix(part, "docker-"), strings.HasPrefix(part, "libpod-"), strings.HasPrefix(part, "cri-containerd-"),
			strings.HasPrefix(part, "crio-"), strings.HasPrefix(part, "kubepods"), strings.HasPrefix(part, "lxc.payload"):
			l.Container = strings.TrimSuffix(part, ".scope")
		case len(part) == 64 && strings.Trim(part, "0123456789abcdef") == "":
			l.Container = part
		}
	}
	last := parts[len(parts)-1]
	// A login's own service (the user manager, sshd, cron) supervises nothing that it started.
	if strings.HasSuffix(last, ".service") && !slices.Contains([]string{"ssh.service", "sshd.service", "cron.service", "crond.service"}, last) &&
		!strings.HasPrefix(last, "user@") {
		l.Unit = last
	}
	if job, ok := l.Getenv("SLURM_JOB_ID"); ok && l.SlurmJob == "" {
		l.SlurmJob = job
	}
	if l.Here.Cgroup != "" && l.Container != "" && strings.Contains(l.Here.Cgroup, l.Container) {
		l.Container = "" // the shell is in the same one: it is the whole node for both
	}
	if v, err := strconv.ParseInt(p.text("memory.max"), 10, 64); err == nil {
		l.MemoryMax = v
	}
	if v := p.text("cpu.max"); v != "" && !strings.HasPrefix(v, "max") {
		l.CPUMax = metrics.Clean(v, 40)
	}
}
