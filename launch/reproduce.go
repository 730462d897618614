package launch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/runvigil/runvigil/metrics"
)

// NotReproduced lists, one sentence each, everything of this launch that a
// restart from our shell cannot give the new server, with what happens instead.
func (l Launch) NotReproduced() []string {
	out := make([]string, 0, 8)
	say := func(format string, a ...any) { out = append(out, metrics.Clean(fmt.Sprintf(format, a...), 600)) }
	if l.EnvGone {
		say("environment: the process overwrote it when it set its title; the new server gets the login's environment, give what it needs with --env NAME=VALUE")
	}
	if l.DirGone {
		say("directory: %s no longer exists", l.Dir)
	}
	for _, u := range l.Unread {
		say("not read: %s", u)
	}
	l.lostOutput(say)
	for _, fd := range l.FDs {
		say("descriptor %d (%s) was inherited: the new server starts without it", fd.N, fd.Target)
	}
	l.lostRights(say)
	l.lostPlace(say)
	return out
}

func (l Launch) lostOutput(say func(string, ...any)) {
	const own = "the new server writes to a log file of its own"
	switch l.LogHow {
	case LogTerminal:
		say("output: it went to the terminal %s; %s", l.LogNote, own)
	case LogTee:
		say("output: it went through `%s`; the new server appends to %s itself, and nothing shows it on that terminal", l.LogNote, orNone(l.Log))
	case LogPipe:
		say("output: it went through a pipe into `%s`; %s", l.LogNote, own)
	case LogSocket:
		say("output: it went to a socket (%s, perhaps the journal); %s", l.LogNote, own)
	case LogNone:
		say("output: it was thrown away; %s", own)
	case LogFile:
		if l.LogNote != "" {
			say("log: %s: %s; the new server creates it again", l.Log, l.LogNote)
		}
	case LogUnknown:
		if l.LogNote != "" {
			say("output: it went to %s; %s", l.LogNote, own)
		}
	}
	if l.Stderr != "" {
		say("standard error: it went to %s apart from the output; the new server writes both to one log", l.Stderr)
	}
	if l.Stdin != "" {
		say("standard input: it was %s; the new server reads /dev/null", l.Stdin)
	}
	if l.Terminal {
		say("terminal: it belonged to a terminal's session; the new server has a session of its own")
	}
}

func (l Launch) lostRights(say func(string, ...any)) {
	h := l.Here
	if !h.Known || l.UID < 0 {
		return
	}
	root := h.UID == 0
	if l.UID != h.UID {
		say("user: it runs as %s (uid %d), your login is %s (uid %d)", orNone(l.User), l.UID, orNone(h.User), h.UID)
	}
	if l.Caps&^h.Caps != 0 {
		say("capabilities: it has %016x, the new server gets %016x", l.Caps, h.Caps)
	}
	if l.NoNewPrivs || l.Seccomp != 0 {
		say("sandbox: it ran with no_new_privs or a seccomp filter; the new server runs without them")
	}
	if lost := without(l.Groups, h.Groups); len(lost) > 0 && l.UID == h.UID {
		say("groups %v: your login is not in them", lost)
	}
	for _, lim := range l.Limits {
		mine, ok := (Launch{Limits: h.Limits}).Limit(lim.Name)
		if ok && !root && above(lim.Soft, mine.Hard) {
			say("limit %q: it has %s, your login may have %s at most", lim.Name, lim.Soft, mine.Hard)
		}
	}
	if l.Nice < 0 && !root {
		say("priority: nice %d needs root; the new server gets 0", l.Nice)
	}
	if l.OOMScore < 0 && !root {
		say("oom_score_adj %d needs root; the new server gets the login's", l.OOMScore)
	}
	if l.Policy != 0 {
		say("scheduling policy %d: the new server gets the usual one", l.Policy)
	}
	if n := cpuCount(l.Affinity); n > 0 && l.Affinity != h.Affinity && !slices.Contains(h.Tools, "taskset") {
		say("CPU affinity %s: the node has no taskset", l.Affinity)
	}
}

func (l Launch) lostPlace(say func(string, ...any)) {
	h := l.Here
	if l.Container != "" {
		say("container: it runs inside %s; a server started from this login runs outside", l.Container)
	}
	if l.Unit != "" {
		say("unit: %s supervises it; a server started here is not supervised", l.Unit)
	}
	if l.SlurmJob != "" {
		say("Slurm job %s: a server started here is not part of it", l.SlurmJob)
	}
	if len(l.Namespaces) > 0 {
		say("namespaces (%s): the new server lives in those of your login", strings.Join(l.Namespaces, ", "))
	}
	if h.Known && h.Cgroup != l.Cgroup {
		if l.MemoryMax > 0 {
			say("memory limit of its control group (%s): it does not hold for the new server", metrics.GiB(float64(l.MemoryMax)))
		}
		if l.CPUMax != "" {
			say("CPU quota of its control group (%s): it does not hold for the new server", l.CPUMax)
		}
	}
	if v, ok := l.Line().Get("config"); ok && l.FileFlags == nil {
		say("flags in %s: the file was not read, so forecast and guards do not know them", v)
	}
}

// without is what a has and b has not.
func without(a, b []int) []int {
	var out []int
	for _, x := range a {
		if !slices.Contains(b, x) {
			out = append(out, x)
		}
	}
	return out
}

// above compares limits, where "unlimited" is above every number.
func above(a, b string) bool {
	if b == "unlimited" || a == b {
		return false
	}
	if a == "unlimited" {
		return true
	}
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return errX == nil && errY == nil && x > y
}

func orNone(s string) string {
	if s == "" {
		return "an unknown one"
	}
	return s
}
