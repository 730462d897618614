package simnode

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// parents reads the parent of every process on the machine.
func parents() map[int]int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	parent := make(map[int]int, len(entries))
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue
		}
		// The command name may hold spaces and parentheses: fields count
		// from the last one.
		_, rest, ok := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ")
		if !ok {
			continue
		}
		fields := strings.Fields(rest)
		if len(fields) < 2 {
			continue
		}
		if ppid, err := strconv.Atoi(fields[1]); err == nil {
			parent[pid] = ppid
		}
	}
	return parent
}

// alive says whether a process exists and is no zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err == nil && !strings.HasPrefix(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " Z")
}

// descendants lists every process below root, root itself left out.
func descendants(root int) []int {
	parent := parents()
	var below []int
	for pid := range parent {
		for at, steps := pid, 0; at > 1 && steps < 64; at, steps = parent[at], steps+1 {
			if parent[at] == root {
				below = append(below, pid)
				break
			}
		}
	}
	return below
}

// killBelow ends every process below root. Orphans come back to root, which
// is a subreaper, so looking again until nothing is left finds all of them.
// It gives up after limit and says how many remain.
func killBelow(root int, limit time.Duration) int {
	deadline := time.Now().Add(limit)
	for {
		below := descendants(root)
		if len(below) == 0 || time.Now().After(deadline) {
			return len(below)
		}
		for _, pid := range below {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// killMarked ends every process whose environment names dir as its node: the
// last resort for what outlived a supervisor that was killed.
func killMarked(dir string) {
	mark := []byte(nodeEnv + "=" + dir)
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		environ, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err != nil {
			continue
		}
		for variable := range bytes.SplitSeq(environ, []byte{0}) {
			if bytes.Equal(variable, mark) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				break
			}
		}
	}
}
