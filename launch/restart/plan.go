// Package restart replaces a server on a node by one with an edited launch. A
// Plan says beforehand, purely, what would be done and why not; a POSIX sh
// script on the node carries it out and keeps a journal, whatever becomes of
// the link; Follow tells what the journal says, and Ready asks the new server
// for one token.
//
// The order of use is Look (the launch as the node has it), New (the plan), Check
// (the node's own objections, before anything is touched), Begin (upload and
// start the script) and Follow. Everything reaches the node through a Runner.
package restart

import (
	"context"
	"net"
	"slices"
	"time"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/metrics"
)

// Runner is how this package reaches a node. A link that goes down between two
// calls is the Runner's to bring up again.
type Runner interface {
	// Run feeds program to a POSIX sh on the node ("exec /bin/sh -s") as its
	// standard input, and returns what it wrote to standard output. The program
	// may hold secrets: it must not be logged. A program that a cut link left
	// half sent does nothing. An error says that the answer may be incomplete.
	Run(ctx context.Context, program []byte) (out []byte, err error)
	// Dial connects to a TCP port of the node's own loopback address.
	Dial(ctx context.Context, port int) (net.Conn, error)
	// Wait blocks until the node can be asked, or ctx ends.
	Wait(ctx context.Context) error
}

// Op is what is to be done.
type Op string

// The operations.
const (
	Restart Op = "restart" // stop the server, then start the new launch
	Stop    Op = "stop"
	Start   Op = "start" // nothing runs; start the launch
	// EndOne ends one process of ours by identity: a stale client, an orphan.
	EndOne Op = "end"
)

// Client is what becomes of the client.
type Client string

// The choices for the client.
const (
	ClientKeep    Client = "keep"    // it stays and sees errors while no server answers
	ClientStop    Client = "stop"    // it is stopped before the server
	ClientRestart Client = "restart" // it is stopped first and started again behind the new server
)

// DefaultTermWait is how long a server may take to end after SIGTERM.
const DefaultTermWait = 20 * time.Second

// Options are the operator's choices.
type Options struct {
	Op     Op
	Client Client        // "" is ClientKeep
	Drain  time.Duration // how long requests may end by themselves before SIGTERM
	// Abort asks the engine to give up its requests after the drain; it is done
	// only where the client is stopped, since one that lives would save cut answers.
	Abort    bool
	TermWait time.Duration // 0 is DefaultTermWait
	// WayBack starts the old launch again if the new server exits before it has
	// opened its port, or within a minute after.
	WayBack bool
	// Override is the reason given for breaking guards that allow it.
	Override string
}

// Identity is one process of the node, for good: no other ever has the same.
type Identity struct {
	BootID string
	PID    int
	Start  int64 // clock ticks after boot
}

// Seen is what the node told about a server when it was asked for a plan.
type Seen struct {
	Launch launch.Launch
	// ArgvSum is the node's checksum of the command line, by which a changed one
	// is noticed before any signal.
	ArgvSum string
	// Saved is the id of the earlier restart whose files on the node hold this
	// launch with its secrets; "" where the server itself lives.
	Saved string
	// KillsUserProcesses says that the node's session manager ends a login's
	// processes at logout, and that this login is one that it would.
	KillsUserProcesses bool
	// Busy is a restart under way, nil if none.
	Busy *Owner
	// UID is the login's user id, -1 unknown.
	UID int
	// Init says that the server is pid 1 of the node.
	Init bool
	// Denied says why signals to the server are refused, "" if they are not.
	Denied string
	// Base is the folder on the node that holds the files of restarts.
	Base string
}

// Owner is who has the lock of a node.
type Owner struct {
	ID    string // of the restart
	PID   int
	Start int64
	User  string
	Since time.Time // node clock
}

// Input is what a plan is computed from.
type Input struct {
	ID   string // of the restart: letters, digits and dashes, new each time
	Node string
	Snap *metrics.Snapshot
	// Server is the confirmed server of Snap, nil where none runs.
	Server *metrics.Server
	Seen   Seen
	// Draft is the edited launch; its base is Seen.Launch. It is nil for Stop.
	Draft *launch.Draft
	// Broken are the guards that the draft breaks.
	Broken []launch.Broken
	// Problems are what the engine would refuse or what is rarely meant.
	Problems []launch.Problem
	Options  Options
	// EndPID is the process that EndOne ends.
	EndPID Identity
}

// Plan is what will be done, as it is shown before it is confirmed. Its texts
// hold no secrets; what only the node may see is in unexported fields.
type Plan struct {
	ID   string
	Node string
	Op   Op
	// Identity is the server (of EndOne: the process) that is stopped, zero for Start.
	Identity Identity
	ArgvSum  string
	Old, New launch.Launch // masked
	Command  []string      // of New, masked
	Diff     []launch.Change
	Options  Options

	// Tree are the pids that are stopped, root first.
	Tree []int
	// InFlight are requests that are lost unless they drain, Clients the
	// processes that will see errors or are stopped.
	InFlight metrics.Figure
	Clients  []ClientProcess
	// ClientCommand is what ClientRestart starts, masked.
	ClientCommand string
	Port          int // that the new server will open, 0 unknown
	// Log is where the new server writes; "" is a file of its own below Base.
	Log string

	Stops         []string // one sentence each: what is stopped and lost
	NotReproduced []string
	Warnings      []string
	// Refusals stop the plan; it must not be begun while there is one.
	Refusals []Refusal
	// Missing are the edits that would give a value to secrets that are nowhere any
	// more: they must be asked for.
	Missing []launch.Edit

	words    []launch.Word
	setEnv   []launch.Var
	unsetEnv []string
	// saved is the earlier restart that holds the launch of a Start.
	saved   string
	oldPort int
	// clientCmd is the shell text that becomes the client; clientSaved says that
	// the node takes its words and environment from the living one.
	clientCmd, clientLog string
	clientSaved          bool
	sh                   string // the shell that runs the script, "" is /bin/sh
	gpuWait              time.Duration
}

// ClientProcess is a client of the server.
type ClientProcess struct {
	Identity
	Name     string // command in short, masked
	Datasets []string
}

// Refusal says why a plan must not be carried out.
type Refusal struct {
	Code   RefusalCode
	Reason string // one sentence
	Way    string // what to do instead
}

// RefusalCode names the kind of a refusal.
type RefusalCode string

// The refusals.
const (
	RefusedInit       RefusalCode = "pid-1"
	RefusedSupervised RefusalCode = "supervised"
	RefusedContainer  RefusalCode = "container"
	RefusedOther      RefusalCode = "other-user"
	RefusedPermission RefusalCode = "permission"
	RefusedBusy       RefusalCode = "busy"
	RefusedSession    RefusalCode = "session-manager"
	RefusedSlurm      RefusalCode = "slurm"
	RefusedGuard      RefusalCode = "guard"
	RefusedLaunch     RefusalCode = "launch"     // the new command cannot work
	RefusedSecret     RefusalCode = "secret"     // a value must be asked for
	RefusedClient     RefusalCode = "client"     // the client's command would lose rows
	RefusedGone       RefusalCode = "gone"       // the server is not there any more
	RefusedRunning    RefusalCode = "running"    // Start, and a server runs
	RefusedGPU        RefusalCode = "gpu-memory" // held by others
	RefusedReadOnly   RefusalCode = "read-only"  // this program was told not to act
)

// OnlySecrets tells whether nothing but values that are to be asked for stands
// against the plan.
func (p Plan) OnlySecrets() bool {
	return len(p.Missing) > 0 && !slices.ContainsFunc(p.Refusals, func(r Refusal) bool { return r.Code != RefusedSecret })
}

// Refused tells whether the plan must not be begun.
func (p Plan) Refused() bool { return len(p.Refusals) > 0 }
