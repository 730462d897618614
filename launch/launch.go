// Package launch holds a server's launch: what it was started with as read back
// from its node, edits to it, what guards and the engine say about them, and
// what a restart cannot reproduce. Everything in it is pure: bytes and values
// in, values out. Secrets are placeholders (metrics.Masked); only the node has
// their values.
package launch

import (
	"maps"
	"slices"
	"strings"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/flags"
)

// How tells how the standard output of a process reaches its log.
type How string

// The ways of a log.
const (
	LogUnknown  How = ""
	LogFile     How = "file"     // descriptor 1 is the log
	LogTee      How = "tee"      // a pipe into tee, which writes the log
	LogPipe     How = "pipe"     // a pipe into something else
	LogTerminal How = "terminal" // a terminal: nothing is kept
	LogSocket   How = "socket"   // e.g. journald
	LogNone     How = "none"     // /dev/null, or closed
)

// Launch is a server's command with all that it ran in. A field that the node
// did not tell is zero and named in Unread.
type Launch struct {
	BootID string
	PID    int
	Start  int64 // clock ticks after boot

	Engine  string // sglang or vllm, "" unknown
	Version string // "" unknown
	Argv    []string
	Exe     string
	// Env is the environment in the node's order. EnvGone says that it is no
	// longer in /proc: the process overwrote it when it set its title.
	Env     []Var
	EnvGone bool
	Dir     string
	DirGone bool // deleted or unmounted since

	Log    string // path, "" where there is none
	LogHow How
	// LogNote names the other end of a pipe or the terminal.
	LogNote string
	// Stderr is where descriptor 2 goes if not to the log.
	Stderr string
	Stdin  string

	Limits   []Limit
	Affinity string // CPUs it may run on, e.g. "0-63,128-191"; "" unknown
	Mems     string // NUMA nodes it may use
	// CPUs is how many the node has online, 0 unknown: an affinity of all is none.
	CPUs     int
	Umask    int // -1 unknown
	Nice     int
	Policy   int // scheduling policy, 0 the usual one
	OOMScore int // oom_score_adj

	PPID, PGID, SID int
	Parent          string // command of the parent, "" unknown
	Terminal        bool   // it has a controlling terminal
	UID, GID        int    // -1 unknown
	User            string
	Groups          []int

	Cgroup    string // path of its control group
	Container string // id or name of a container that is not the whole node
	Unit      string // systemd unit that supervises it
	SlurmJob  string
	MemoryMax int64  // bytes of the control group, 0 none
	CPUMax    string // quota of the control group, "" none

	FDs        []FD // inherited descriptors above 2 that a restart would lose
	Caps       uint64
	NoNewPrivs bool
	Seccomp    int
	// Namespaces says that it lives in other namespaces than the shell that asked.
	Namespaces []string

	// FileFlags are the flags that --config FILE holds, by canonical name; the
	// command line wins over them.
	FileFlags map[string]string
	// Here is the shell that asked, which would also start the new server.
	Here Here
	// Script is the path of the start script that it was taken from, where nothing
	// ran.
	Script string
	// Unread says what the node did not let us read, with the reason.
	Unread []string
}

// Here is what the shell on the node can pass on to a server that it starts.
type Here struct {
	Known    bool
	UID      int
	User     string
	Groups   []int
	Caps     uint64
	Cgroup   string
	Limits   []Limit
	Affinity string
	// Tools are the programs found: setsid, taskset, chrt, prlimit, renice …
	Tools []string
}

// Var is one environment variable; a secret has the value metrics.Masked.
type Var struct {
	Name, Value string
	Secret      bool
}

// Limit is one resource limit as /proc/PID/limits names it ("Max open files");
// values are numbers in Unit or "unlimited".
type Limit struct {
	Name, Soft, Hard, Unit string
}

// FD is an open descriptor and what it points to.
type FD struct {
	N      int
	Target string
}

// Known tells whether there is a command at all.
func (l Launch) Known() bool { return len(l.Argv) > 0 }

// Catalogue is the flags of the launch's engine and version.
func (l Launch) Catalogue() *flags.Catalogue { return flags.For(l.Engine, l.Version) }

// Line is the command line, read with the engine's catalogue.
func (l Launch) Line() flags.Line { return flags.Parse(l.Catalogue(), l.Argv) }

// Effective gives the value of every flag that is set, on the command line or in
// its --config file, by canonical name; secrets are masked.
func (l Launch) Effective() map[string]string {
	out := map[string]string{}
	maps.Copy(out, l.FileFlags)
	maps.Copy(out, l.Line().Effective())
	for name, v := range out {
		out[name] = metrics.MaskValue(name, v)
	}
	return out
}

// Getenv gives a variable of the environment.
func (l Launch) Getenv(name string) (string, bool) {
	for _, v := range slices.Backward(l.Env) {
		if v.Name == name {
			return v.Value, true
		}
	}
	return "", false
}

// Limit gives a resource limit by its name in /proc/PID/limits.
func (l Launch) Limit(name string) (Limit, bool) {
	for _, x := range l.Limits {
		if x.Name == name {
			return x, true
		}
	}
	return Limit{}, false
}

// Masked is the launch as it may be shown and kept: no secret that was typed in
// is left in it.
func (l Launch) Masked() Launch {
	l.Argv = metrics.MaskArgv(l.Argv)
	l.Env = slices.Clone(l.Env)
	for i, v := range l.Env {
		l.Env[i] = maskVar(v.Name, v.Value)
	}
	return l
}

// maskVar makes a variable whose value may be shown.
func maskVar(name, value string) Var {
	masked := metrics.MaskEnv([]string{name + "=" + value})[0]
	_, shown, _ := strings.Cut(masked, "=")
	return Var{Name: name, Value: shown, Secret: strings.Contains(shown, metrics.Masked)}
}

// FromServer is the launch as far as discovery alone tells it: argv, directory,
// log. It serves until the node was asked for the rest.
func FromServer(snap *metrics.Snapshot, s *metrics.Server) Launch {
	l := Launch{
		BootID: snap.BootID, PID: s.PID, Start: s.Start, Engine: s.Engine, Version: s.Version,
		Argv: slices.Clone(s.Argv), Dir: s.Cwd, User: s.User, Log: s.Log.Path, Umask: -1, UID: -1, GID: -1,
		Unread: []string{"environment, limits and descriptors: the node was not asked yet"},
	}
	for _, p := range snap.Procs {
		if p.PID == s.PID && p.Start == s.Start {
			l.PPID, l.PGID, l.SID, l.Exe, l.UID = p.PPID, p.PGID, p.SID, p.Exe, p.UID
		}
	}
	return l
}

// FromStart is the launch of an earlier start: its flags only.
func FromStart(s metrics.Start) Launch {
	return Launch{
		Engine: s.Engine, Version: s.Version, Argv: slices.Clone(s.Argv), Umask: -1, UID: -1, GID: -1,
		Unread: []string{"environment, limits and directory: an earlier start keeps its flags only"},
	}
}
