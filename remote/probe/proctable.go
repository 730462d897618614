package probe

import (
	"strconv"
	"strings"
)

// procStat is one line of /proc/PID/stat.
type procStat struct {
	pid, ppid, pgid, sid int
	comm, state          string
	threads              int
	start, cpu, rss      int64 // clock ticks, clock ticks, pages
	majflt               int64 // pages read from disk through memory maps
}

// parseStat reads a whole stat line. The name may hold anything, also ") ".
func parseStat(line string) (procStat, bool) {
	st, f, ok := statHead(line)
	if !ok || len(f) < 22 {
		return st, false
	}
	st.threads = int(number(f[17]))
	st.cpu = number(f[11]) + number(f[12])
	st.majflt = number(f[9])
	st.start = number(f[19])
	st.rss = number(f[21])
	return st, true
}

// parseRead reads a line "read PID BYTES".
func parseRead(line string) (pid int, bytes int64, ok bool) {
	f := strings.Fields(line)
	if len(f) != 3 || f[0] != "read" {
		return 0, 0, false
	}
	pid, err := strconv.Atoi(f[1])
	if err != nil {
		return 0, 0, false
	}
	bytes, err = strconv.ParseInt(f[2], 10, 64)
	return pid, bytes, err == nil && bytes >= 0
}

// parseRow reads a line of discovery: "pid (comm) state ppid pgrp sid start".
func parseRow(line string) (procStat, bool) {
	st, f, ok := statHead(line)
	if !ok || len(f) < 5 {
		return st, false
	}
	st.start = number(f[4])
	return st, true
}

func statHead(line string) (st procStat, fields []string, ok bool) {
	open, end := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
	if open < 1 || end < open {
		return st, nil, false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line[:open]))
	if err != nil || pid <= 0 {
		return st, nil, false
	}
	f := strings.Fields(line[end+1:])
	if len(f) < 4 || len(f[0]) != 1 {
		return st, nil, false
	}
	st.pid, st.comm, st.state = pid, line[open+1:end], f[0]
	st.ppid, st.pgid, st.sid = int(number(f[1])), int(number(f[2])), int(number(f[3]))
	return st, f, true
}

// procTable is every process at one moment.
type procTable struct {
	rows     map[int]procStat
	children map[int][]int
}

func parseTable(text string) procTable {
	t := procTable{rows: map[int]procStat{}, children: map[int][]int{}}
	for line := range strings.Lines(text) {
		if st, ok := parseRow(line); ok {
			t.rows[st.pid] = st
			t.children[st.ppid] = append(t.children[st.ppid], st.pid)
		}
	}
	return t
}

// below keeps only the descendants of root.
func (t procTable) below(root int) procTable {
	out := procTable{rows: map[int]procStat{}, children: map[int][]int{}}
	for _, pid := range t.descendants(root) {
		st := t.rows[pid]
		out.rows[pid] = st
		out.children[st.ppid] = append(out.children[st.ppid], pid)
	}
	return out
}

// descendants are the processes below pid, without itself.
func (t procTable) descendants(pid int) []int {
	var out []int
	seen := map[int]bool{pid: true}
	for todo := []int{pid}; len(todo) > 0; {
		for _, c := range t.children[todo[0]] {
			if !seen[c] {
				seen[c] = true
				out = append(out, c)
				todo = append(todo, c)
			}
		}
		todo = todo[1:]
	}
	return out
}

// ancestors are the processes above pid, nearest first.
func (t procTable) ancestors(pid int) []int {
	var out []int
	for range 64 {
		st, ok := t.rows[pid]
		if !ok || st.ppid <= 0 {
			break
		}
		if _, ok := t.rows[st.ppid]; !ok {
			break
		}
		out = append(out, st.ppid)
		pid = st.ppid
	}
	return out
}
