package model

import "time"

// Stream is a process's output descriptor.
type Stream int

// The two streams; the start lines send both into the same log file.
const (
	Stdout Stream = 1
	Stderr Stream = 2
)

// Chunk is one write of a program: the exact bytes, with their own line end (a
// progress bar's piece starts with a carriage return and has none).
type Chunk struct {
	At     time.Time
	PID    int // of the server's main process, 0 for other programs
	Stream Stream
	Text   string
}

// Row is one sample that the client appended to a part's file by opening,
// writing one line and closing.
type Row struct {
	At     time.Time
	Part   string // name of the part, e.g. "B2_opencodeinstruct"
	File   string // path on the node
	ID     string // the sample's own id
	Prompt int    // index of its prompt in the part
	Input  int    // prompt tokens
	Tokens int    // output tokens
	Finish string // "stop" or "length"
	// Latency is what the request took from being sent, 0 unknown.
	Latency time.Duration
	Seed    uint64 // of the text that JSON makes up
}

// Exit is the end of a process of the server or of the client.
type Exit struct {
	At   time.Time
	Role Role
	PID  int
	Code int // exit status as a shell shows it: 137 after SIGKILL, also of the server's own
}

// Answer is the late reply to an HTTP request that had to wait for the engine.
type Answer struct {
	Ticket int
	Reply  Reply
}

// Output is what the node did between two calls of Advance, each list in order
// of time.
type Output struct {
	Server  []Chunk // the server's writes to its log
	Client  []Chunk // the client's writes that reached its log, after Python's buffering
	Kernel  []Chunk // lines of the kernel log
	Rows    []Row
	Exits   []Exit
	Answers []Answer
}

// Past is the node's disk at the moment of New.
type Past struct {
	Output             // since the oldest log line that is kept
	Parts      []Part  // every part with the rows it had before the oldest of Output.Rows
	History    []Start // earlier starts of this server, oldest first, told by the operator's notes
	ServerLog  string  // path on the node
	ClientLog  string
	RowsFolder string
}

// Part is one dataset of the job.
type Part struct {
	Name    string
	File    string // path on the node
	Target  int    // rows wanted
	Rows    int    // rows at this moment
	Changed time.Time
	// Base is the number of rows that were there before the oldest row that
	// Past.Rows lists; BaseRow(i) gives them.
	Base int
	part *part
}

// Start is an earlier launch with what is known of it. Zero values of the
// pointers are unknown.
type Start struct {
	Number   int // 1 is the oldest
	Argv     []string
	At       time.Time
	Ended    time.Time
	Outcome  string   // "stopped" or "crashed"
	Cause    string   // words of the operator
	Capacity int      // tokens, 0 unknown
	Headroom *float64 // GiB after graph capture
	Running  [2]int   // lowest and highest running requests that were noted, 0 0 unknown
	TokS     [2]float64
	Peak     float64
	Note     string
}

// Role names a process of the node.
type Role string

// Roles of processes. A scheduler's role is Scheduler(rank).
const (
	ServerMain  Role = "server"
	Detokenizer Role = "detokenizer"
	Tracker     Role = "resource_tracker"
	ClientMain  Role = "client"
	OldClient   Role = "old-client"
	Orphan      Role = "orphan"
)

// Process describes one process of the tree.
type Process struct {
	Role   Role
	PID    int
	Parent Role // "" for a child of init
	// ParentPID is the pid of Parent, 0 without one.
	ParentPID int
	Argv      []string
	Title     string   // what ps shows: Argv joined, or the title the process gave itself
	Env       []string // KEY=VALUE, as it was started; nil for children
	Dir       string
	Started   time.Time
	RSS       int64 // bytes
	State     byte  // R, S, D or Z
	Threads   int
	GPU       int   // index of the GPU it computes on, -1 none
	GPUMem    int64 // bytes
	CPU       float64
	Read      int64 // bytes read from disk: the weights
}

// Signal is a signal to a process.
type Signal int

// Signals the model knows.
const (
	SIGHUP  Signal = 1
	SIGINT  Signal = 2
	SIGQUIT Signal = 3
	SIGKILL Signal = 9
	SIGTERM Signal = 15
)

// Launch is one start of a server.
type Launch struct {
	Argv []string // whole command line, as the process has it
	Env  []string // KEY=VALUE
	Dir  string
	// PID of the main process; 0 lets the model choose one.
	PID int
	// Scale multiplies the durations of the start-up phases: 1 is a real start
	// of about 8 minutes, 0 means DemoScale.
	Scale float64
}

// DemoScale shortens a start to under 20 seconds.
const DemoScale = 0.035

// ClientLaunch is one start of a client.
type ClientLaunch struct {
	Argv []string
	Env  []string
	Dir  string
	PID  int // 0 lets the model choose one
	// Concurrency is the number of requests in flight; 0 takes it from argv
	// (--concurrency), else 150.
	Concurrency int
	// Parts are the names of the parts to fill in order; nil takes all that
	// argv names (--parts), else every part below its target.
	Parts []string
	// Scale multiplies the time that reading the prompts takes, 0 means 1.
	Scale float64
}

// Phase is how far a server has come.
type Phase string

// Phases of a server in the order in which they come.
const (
	PhaseNone        Phase = "none" // no process
	PhaseImport      Phase = "import"
	PhaseDistributed Phase = "distributed"
	PhaseWeights     Phase = "weights"
	PhasePool        Phase = "memory-pool"
	PhaseCapture     Phase = "graph-capture"
	PhaseHostPool    Phase = "host-pool"
	PhaseWarmup      Phase = "warm-up" // HTTP is open, /health answers 503
	PhaseReady       Phase = "ready"
	PhaseDraining    Phase = "draining"
	PhaseDead        Phase = "dead" // the last process has ended
)

// ServerState is what a driver must know to run the server's process.
type ServerState struct {
	PID       int // of the main process
	Phase     Phase
	Listening bool // the port accepts connections
	Host      string
	Port      int
	Flags     Flags
	Argv      []string
	Started   time.Time
	Ready     time.Time // zero before
	Running   int
	Queued    int
	Tokens    int // live tokens in the KV pool
	Capacity  int // tokens, 0 before the pool exists
	Usage     float64
	Headroom  float64 // GiB free after graph capture, 0 before
	GenTPS    float64 // tok/s as the last decode line gave it
	Finished  int     // requests answered since the start
	Retracted int     // requests retracted since the start
	LastBatch time.Time
	Hung      bool
}

// ClientState is what a driver must know to run the client's process.
type ClientState struct {
	Running     bool
	PID         int
	Argv        []string
	Dir         string
	Started     time.Time
	Concurrency int
	Part        string // part being filled, "" when nothing is left
	InFlight    int    // open requests, each one connection to the server
	Rows        int    // rows landed since its start
	Retries     int    // refused connections since its start
	Buffered    int    // bytes that Python holds back from the log
}

// GPU is one card at this moment.
type GPU struct {
	Index      int
	Name       string
	UUID       string
	Bus        string // PCI bus id, e.g. 00000000:01:00.0
	Serial     string
	Lost       bool // fallen off the bus: every other figure is unknown
	TotalMiB   int
	UsedMiB    int
	FreeMiB    int
	ReserveMiB int // held by the driver, part of neither used nor free
	Util       int // percent
	MemUtil    int
	Temp       int // °C
	MemTemp    int // 0 unknown: the card does not tell
	Power      float64
	PowerLimit float64
	ClockSM    int // MHz
	ClockMem   int
	Fan        int // percent, -1 unknown
	PState     string
	Throttle   uint64 // bit mask of nvidia-smi's clocks_event_reasons.active
	ECC        int    // uncorrected errors since boot
	Processes  []GPUProcess
}

// GPUProcess is one compute process on a card.
type GPUProcess struct {
	PID     int
	Role    Role
	Name    string
	UsedMiB int
}

// Host is the machine around the GPUs. Sizes in bytes.
type Host struct {
	Hostname     string
	BootID       string
	BootAt       time.Time
	CPUs         int
	CPUUtil      float64 // 0 to 1
	Load         [3]float64
	MemTotal     int64
	MemAvailable int64
	MemFree      int64
	Cached       int64
	Buffers      int64
	Pinned       int64 // page-locked by the hierarchical cache, part of used
	Shmem        int64
	SwapTotal    int64
	SwapFree     int64
	ShmTotal     int64 // the /dev/shm file system
	ShmUsed      int64
	Disks        []Disk
}

// Disk is one file system. Sizes in bytes.
type Disk struct {
	Mount  string
	Device string
	Type   string
	Total  int64
	Used   int64
	Free   int64
}

// Reply is an HTTP response. With a Ticket other than 0 the engine has to work
// first: the reply comes in a later Output's Answers (or never, when it hangs).
type Reply struct {
	Ticket int
	Status int
	Type   string // content type
	Body   []byte
}
