//go:build system

package remotetest

import (
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// Process is one line of the process table.
type Process struct {
	PID, Parent int
	Group       int // process group
	State       string
	Args        []string
}

// Processes reads the process table from /proc.
func Processes() []Process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var list []Process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) < 3 {
			continue
		}
		p := Process{PID: pid, State: fields[0]}
		p.Parent, _ = strconv.Atoi(fields[1])
		p.Group, _ = strconv.Atoi(fields[2])
		cmdline, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		p.Args = strings.Split(strings.TrimSuffix(string(cmdline), "\x00"), "\x00")
		list = append(list, p)
	}
	return list
}

// Running are the processes, zombies aside, whose command line holds text.
func Running(text string) []Process {
	var found []Process
	for _, p := range Processes() {
		if p.State != "Z" && p.State != "X" && p.PID != os.Getpid() && strings.Contains(strings.Join(p.Args, " "), text) {
			found = append(found, p)
		}
	}
	return found
}

// Listening tells whether somebody listens on a port of the loopback address.
func Listening(port string) bool {
	c, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", port), time.Second)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// descendants are the children of pid and theirs, without pid.
func descendants(pid int) []int {
	children := map[int][]int{}
	for _, p := range Processes() {
		children[p.Parent] = append(children[p.Parent], p.PID)
	}
	var all []int
	for queue := []int{pid}; len(queue) > 0; queue = queue[1:] {
		all = append(all, children[queue[0]]...)
		queue = append(queue, children[queue[0]]...)
	}
	return all
}
