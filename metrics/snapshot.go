package metrics

import (
	"math"
	"slices"
	"strings"
	"time"
)

// Snapshot is everything known about a node at one moment. Times are on the
// local clock (the node's are shifted by the measured offset); Zone tells how
// the node itself would print them. A Snapshot is never changed after it was
// given away.
type Snapshot struct {
	Node string
	Host string
	User string
	At   time.Time
	// NodeClock is the node's clock minus the local clock.
	NodeClock time.Duration
	Zone      string // abbreviation of the node's zone
	ZoneSec   int
	BootID    string
	Replay    bool

	Link     Link
	Channels []Channel
	// Servers are ordered: serving first, then by start, newest first.
	Servers []Server
	GPUs    []GPU
	GPUTool GPUTool
	Clients []Client
	// Datasets are ordered: growing first, then by path.
	Datasets []Dataset
	Job      Job
	Sys      Host
	// Findings are sorted by severity, then age; cleared ones are in History only.
	Findings   []Finding
	History    []Finding
	CannotTell []CannotTell
	Events     []Event     // oldest first, bounded
	Kernel     []CauseFact // newest facts of the kernel log, oldest first, bounded
	Starts     []Start     // oldest first; imported and seen
	Guards     []Guard
	Verdict    Verdict
	Config     Config
	// Doing tells a first visit what is being done and found, at most three lines.
	Doing []string
	// Logs are the newest lines of each followed log, by path. They and the series
	// hold hours by themselves: a snapshot that is kept for later goes without them.
	Logs   map[string]*LogTail   `json:"-"`
	Series map[SeriesKey]*Series `json:"-"`
	// Saved is what the next visit should know.
	Saved Saved
	Notes []Note
	// Procs are the processes of the newest discovery, with the ancestors that
	// tell where they were started from.
	Procs []Proc
}

// SeriesKey names a series: what it is, and whose (a server's "pid:start", a GPU index, a path).
type SeriesKey struct {
	What string
	Of   string
}

// What a series can hold.
const (
	SeriesGenTPS    = "gen_tps"    // tok/s of a server
	SeriesInputTPS  = "input_tps"  // tok/s
	SeriesRunning   = "running"    // requests
	SeriesQueued    = "queued"     // requests
	SeriesKVUsage   = "kv_usage"   // 0 to 1
	SeriesPerReq    = "per_req"    // tokens a running request
	SeriesRows      = "rows"       // rows of a dataset, cumulative
	SeriesRowRate   = "row_rate"   // rows a minute of the job or a dataset
	SeriesGPUMem    = "gpu_mem"    // MiB used, of a GPU index
	SeriesGPUUtil   = "gpu_util"   // %
	SeriesGPUTemp   = "gpu_temp"   // °C
	SeriesGPUPower  = "gpu_power"  // W
	SeriesAcceptLen = "accept_len" // tokens
	SeriesLoad      = "load1"
	SeriesMemAvail  = "mem_avail" // bytes
)

// Link is the connection as the screen shows it.
type Link struct {
	Status   LinkStatus
	Since    time.Time
	Reason   string
	Waiting  bool
	RTT      time.Duration
	LastData time.Time // newest frame that came from the node
	// Deaf says that nothing was heard for a while, or that what was missed
	// meanwhile is not read yet: the node's silence proves nothing.
	Deaf bool
}

// Channel is one probe channel.
type Channel struct {
	Name   string
	State  string
	Since  time.Time
	Reason string
	Advice string
	// Broke and Back are when it was last found broken, and when it answered again.
	Broke, Back time.Time
}

// Broken tells that the channel should work and does not.
func (c Channel) Broken() bool { return c.State == "stuck" || c.State == "failed" }

// caughtUp is how long a channel that answers again needs to tell what it missed.
const caughtUp = 15 * time.Second

// Behind tells that what the channel tells stands still: it is broken, or was a
// moment ago.
func (c Channel) Behind(now time.Time) bool {
	return c.Broken() || !c.Back.IsZero() && now.Sub(c.Back) < caughtUp
}

// ServerState says what a server does.
type ServerState string

// The states of a server.
const (
	ServerStarting ServerState = "starting"
	ServerServing  ServerState = "serving" // generates, or waits for requests after ready
	ServerIdle     ServerState = "idle"    // ready, nothing running or queued
	ServerDraining ServerState = "draining"
	ServerHung     ServerState = "hung"
	ServerDown     ServerState = "down"
	ServerUnknown  ServerState = "unknown"
)

// Server is one inference server's process tree.
type Server struct {
	ID      string // "pid:start", or "log:PATH" where only its log is known
	Engine  string // sglang, vllm, or the configured name
	Version string
	Model   string
	PID     int
	Start   int64 // clock ticks after boot
	Started time.Time
	User    string
	Port    int // 0 unknown
	Addr    string
	State   ServerState
	Since   time.Time // of State
	Phase   Phase
	Argv    []string // masked
	Cwd     string
	Tree    []int // pids of the tree, root first
	// Workers counts the living processes of the tree that carry the engine's
	// own title (schedulers, engine cores, the detokenizer).
	Workers int
	TP, DP  int // 0 unknown
	PP      int
	Log     LogRef
	// StartNo is the number of the start among the node's known starts, 0 unknown.
	StartNo int

	Gen         GenRate
	InputTPS    Figure
	Running     Figure
	Queued      Figure
	InFlight    Figure // running + queued
	KVUsage     Figure // 0 to 1; of hybrid pools the fullest
	KVTokens    Figure // live tokens
	PerRequest  Figure // live tokens a running request
	RequestsFit Figure
	FitTooEarly bool   // RequestsFit is withheld since requests are still young
	Capacity    Figure // tokens
	MaxRunning  Figure
	ContextLen  Figure
	Headroom    Figure // GiB, the engine's own available_gpu_mem after capture
	// FullPrefills counts prefills of chunked-prefill-size tokens that the log told,
	// at least: what of it was not read is not counted.
	FullPrefills Figure
	KVDtype      string
	BytesPerTok  Figure // bytes a token a GPU
	FreeAtStart  Figure // GiB free on a GPU before the weights were loaded
	KVPool       Figure // GiB of the KV pool on a GPU
	HiCache      HiCache
	Graph        *bool // last decode batch ran in a captured graph
	AcceptLen    Figure
	CacheHit     Figure // 0 to 1
	Finished     Figure // requests finished since the start
	Aborted      Figure
	Retracted    Figure // retractions a minute, over 10 minutes
	// RetractedSince is since when retractions follow each other within 2 minutes, zero now none.
	RetractedSince time.Time
	MetricsOn      *bool
	Health         Figure    // last HTTP status of /health
	LastBatch      time.Time // newest batch line that was real work
	LastToken      time.Time // newest proof of a generated token
	Step           StepFit
	FinishedWith   string // where Finished comes from
	// Flags are the effective settings by the engine's own names (server_args), nil unknown.
	Flags map[string]string
	// Generated is tokens generated since the start, by the engine's counter.
	Generated Figure
	// Evicted is tokens that the KV pool evicted since the start.
	Evicted Figure
	// Repeating is since when every draft is accepted at a constant rate, zero not so.
	Repeating time.Time
	// Stuck tells that the engine waits in vain for its workers (vLLM), nil not so.
	Stuck *CauseFact
	// Aborting is when the counter of aborted requests last rose, zero not seen.
	Aborting time.Time
	// NewRequest is when the newest new request was taken into a batch.
	NewRequest time.Time
	// Ranks are the data parallel ranks where there are several.
	Ranks []RankState
	// Answers is the newest time at which any endpoint answered.
	Answers time.Time
	// Scheduler tells whether a process of the engine's scheduler lives, nil unknown.
	Scheduler *bool
	// Replaced is the server before this one on the same log or port, nil unknown.
	Replaced *ReplacedServer

	// End of a server that is gone.
	Ended    time.Time
	ExitCode *int
	Causes   []CauseFact
}

// RankState is one data parallel rank as its newest batch line tells.
type RankState struct {
	DP      int
	Last    time.Time
	Running Figure
}

// ReplacedServer is a server that another one took the place of.
type ReplacedServer struct {
	ID    string
	Argv  []string
	Ended time.Time
	// Ours says that a restart that was followed here started the new one: its
	// journal names the process (or an ancestor) by boot, pid and start time.
	Ours bool
	// Through is the id of the restart of some runvigil by which the new one was
	// started, as its environment tells; "" none, or unknown.
	Through string
	By      string // the login that began that restart, "" unknown
}

// Phase is where a start is.
type Phase struct {
	Name     string // e.g. "loading weights", "capturing graphs", "ready"
	Since    time.Time
	Done     int // progress, 0 of 0 unknown
	Total    int
	Took     []PhaseTook   // finished phases, in order
	Expected time.Duration // of the whole start, from earlier ones; 0 unknown
	Ready    time.Time     // zero until ready
	LastSign time.Time     // newest sign of progress that is listed here
	LogAt    time.Time     // newest line of the log, zero: none yet
	DiskAt   time.Time     // when its processes were last seen to read from disk
	DiskBPS  Figure        // bytes a second that they read from disk
}

// PhaseTook is one finished phase.
type PhaseTook struct {
	Name string
	Took time.Duration
}

// GenRate is generation throughput in tok/s, with its phases told apart.
type GenRate struct {
	Now     Figure
	Settled Figure // median since Since; unknown while in the ramp
	Spread  Figure // interquartile range / 2
	Since   time.Time
	// The next are means over SettledOver, the last hour at most of that level:
	// requests that run and wait, tokens in the pool, tokens a running request.
	// Eight of ten half minutes lie between PerRequestLow and PerRequestHigh.
	SettledRunning    Figure
	SettledQueued     Figure
	SettledTokens     Figure
	SettledPerRequest Figure
	SettledOver       time.Duration

	PerRequestLow, PerRequestHigh float64

	PerFinished Figure // generated tokens of each request that finished in SettledOver
	Peak        Figure // highest of this start
	PeakAt      time.Time
	// PeakRunning, PeakPerRequest say with how many requests, of which length, the peak came.
	PeakRunning    Figure
	PeakPerRequest Figure
	Ramp           bool // requests are still young
}

// HiCache is the hierarchical KV cache.
type HiCache struct {
	On       bool
	SizeGB   float64 // --hicache-size, 1e9 bytes a rank; 0 unset
	HostGB   Figure  // pinned host memory in all, 1e9 bytes
	LoadBack Figure  // tokens loaded back, total
	// Watched is since when LoadBack and Evicted are known without a gap, and
	// Loaded and Evicting when they last rose, zero never.
	Watched, Loaded, Evicting time.Time
}

// LogRef is a log that is followed.
type LogRef struct {
	Path  string
	Bytes Figure
	Lines Figure
	Mtime time.Time
	// Gap is the longest time between two growths that was watched, 0 unknown.
	Gap time.Duration
	// Note says what is missing, e.g. "stdout goes to a terminal".
	Note string
	// Deleted is since when the file is not there, zero while it is; a log that was
	// renamed and made anew was not deleted. Held is where a process still has it
	// open ("/proc/PID/fd/N"), "" for none that is known.
	Deleted time.Time
	Held    string
}

// CauseFact is a cause with its proof.
type CauseFact struct {
	Class   Cause
	Detail  string
	Rank    string
	Line    string // the log line, cleaned
	LineNo  int64  // 1-based line of the log, 0 unknown
	Off     int64  // its byte offset in the log, about; 0 unknown
	At      time.Time
	Phase   string // start-up, prefill, decode, idle
	Primary bool
}

// GPU is one device. Memory in MiB as nvidia-smi counts it.
type GPU struct {
	Index      int
	Name       string
	UUID       string
	Bus        string
	MemUsed    Figure
	MemTotal   Figure
	MemLowest  Figure // lowest free memory since the server was ready, MiB
	Util       Figure // %
	Temp       Figure // °C
	MemTemp    Figure
	Power      Figure // W
	PowerLimit Figure
	ClockSM    Figure // MHz
	ClockMax   Figure // of the SMs, MHz
	ClockMem   Figure
	ECC        Figure // uncorrected volatile errors
	Throttle   []string
	MIG        bool
	Unified    bool              // memory is the host's
	Lost       string            // what the tool said instead of figures, "" while well
	Raw        map[string]string // cells that were no numbers, by field
	Procs      []GPUProc
}

// GPUProc is a process with memory on a GPU.
type GPUProc struct {
	PID   int
	Name  string
	MiB   Figure
	Owner string // server, client, other, gone, invisible
}

// GPUTool is the state of nvidia-smi.
type GPUTool struct {
	State  string // ok, absent, failed, stuck, ""
	Text   string
	Cause  Cause
	Since  time.Time
	Driver string
}

// Client is a process that sends requests and writes rows.
type Client struct {
	ID      string // "pid:start", or "host:ADDR" for one on another host
	PID     int
	Start   int64
	Started time.Time
	User    string
	Argv    []string
	Cwd     string
	State   string    // running, zombie, stopped, gone, remote
	Since   time.Time // of State
	Python  bool
	// Unbuffered is nil where it cannot be told.
	Unbuffered *bool
	// LogOwned: its descriptor 1 is the log.
	LogOwned       bool
	Log            LogRef
	LogSilentSince time.Time
	LastLine       string   // last line of its log, cleaned
	Datasets       []string // paths
	Ports          []int    // server ports it is connected to
	Conns          int
	Host           string // peer address of a remote client
	Progress       Progress
	Cores          Figure // processors that its own process used over the last 2 minutes
	Causes         []CauseFact
	// LogOnlyHeader: its log has nothing but nohup's first line.
	LogOnlyHeader bool
	// Finished is the last line of its log where that says that the work is done.
	Finished string
	// Unreachable counts lines of its log about a server that cannot be reached.
	Unreachable int
	TimeoutS    Figure // seconds that it gives a request, as its errors tell
}

// Progress is done of total, with the source.
type Progress struct {
	Done, Total int64
	Known       bool
	Source      string
}

// Dataset is a JSONL file, or the shards of one, that a client grows.
type Dataset struct {
	Path   string // of the shard set: the common pattern
	Name   string // short, for the screen
	Shards []Shard
	Rows   Figure
	Bytes  Figure
	// PerMin is rows a minute over the last 10 minutes, or since the start where that is younger.
	PerMin         Figure
	PerMinOver     time.Duration
	Grew           time.Time     // newest growth
	Gap            time.Duration // usual gap between growths, 0 unknown
	Step           float64       // most rows that lately came at once, 0 unknown
	Target         Target
	ETA            ETA
	Torn           bool
	Counting       Progress // first count in bytes
	Writers        []int
	Landed         Figure // rows since the running client's start
	LandedSince    time.Time
	Done           time.Time // when the target was reached, zero before
	Judged         *RowsJudged
	Median         Figure // of output lengths
	MedianInTokens bool
	Cut            Figure // share of finish_reason length, 0 to 1
	// Err says why a file of it cannot be counted, e.g. "is a directory"; ErrPath is
	// that file, ErrSince when it was first so.
	Err      string
	ErrPath  string
	ErrSince time.Time
	// Repeats are rows among the judged ones whose id had been seen before.
	Repeats Figure
	// What this file's rows were like before: shares of 1, and the median length.
	UsualPoor, UsualCut, UsualLength Figure
	// Reset is the newest time at which the file began anew, nil never.
	Reset *RowsReset
}

// RowsReset is a file of rows that was replaced, cut or rewritten.
type RowsReset struct {
	At     time.Time
	Path   string
	How    string // replaced, truncated, rewritten, deleted
	Before int64  // rows
	// ID (device:inode) and Bytes are the file's from before; Moved is where that one was found
	// again under another name, "" not.
	ID, Moved string
	Bytes     int64
}

// Shard is one file of a dataset.
type Shard struct {
	Path  string
	Rows  Figure
	Bytes Figure
	Mtime time.Time
}

// Target is how many rows are wanted.
type Target struct {
	Rows     int64 // 0 unknown
	Inferred bool
	Source   string
}

// ETA is when a target will be reached.
type ETA struct {
	Known  bool
	At     time.Time
	Spread time.Duration // plus or minus
	Held   string        // why there is none yet
}

// Job is all datasets together.
type Job struct {
	Rows       Figure
	Target     Target
	PerMin     Figure
	PerMinOver time.Duration
	ETA        ETA
	// Finished and Landed are since Since: requests that the server finished, rows that reached a file.
	Finished Figure
	Landed   Figure
	Since    time.Time
	Done     bool
}

// Apart tells that finished requests and landed rows differ by more than what
// may be under way between them: a few, 2 %, or the rows of ten seconds, for
// neither log nor count tells fractions of a second.
func (j *Job) Apart() bool {
	return j.Finished.Known && j.Landed.Known && math.Abs(j.Finished.V-j.Landed.V) > max(3, 0.02*j.Finished.V, j.PerMin.V/6)
}

// Host is the machine. Memory in bytes.
type Host struct {
	Load1   Figure
	CPUs    int
	CPUUtil Figure // 0 to 1
	// MemAvail of MemTotal are free for a server: of the node, or of the limit that
	// MemLimit names where less is left below that. Page cache that can be dropped
	// counts as free.
	MemAvail Figure
	MemTotal Figure
	// MemLimit names whose limit it is ("the container", "the Slurm job", "control
	// group NAME"), "" where the node's own memory is what ends first.
	MemLimit string
	// NodeAvail of NodeTotal are the node's own, whatever limits its servers.
	NodeAvail Figure
	NodeTotal Figure
	SwapUsed  Figure
	SwapTotal Figure
	UptimeS   Figure
	Disks     []Disk
	Shm       Disk
}

// LimitText is a memory limit in words: "the container's limit of 400 GiB".
func LimitText(name string, limit Figure) string {
	return name + "'s limit of " + FigureText(limit, GiB)
}

// Disk is one file system in use. Sizes in bytes.
type Disk struct {
	Mount      string
	Paths      []string
	Total      Figure
	Avail      Figure
	InodesFree Figure
	// FullIn is when it is full at the present growth, 0 unknown.
	FullIn time.Duration
}

// CannotTell is something that cannot be known, with what would tell it.
type CannotTell struct {
	What string
	Why  string
	Tell string // what would tell it
}

// Event is something that happened, for the timeline.
type Event struct {
	At   time.Time
	Kind string // start, ready, client, settled, crash, finding, cleared, link, note, rows, restart
	Text string
	Ref  string // finding id, start id, log line
}

// LogTail is the newest lines of one log.
type LogTail struct {
	Path    string
	ZoneSec int   // seconds east of UTC in which its stamps are
	First   int64 // number of Lines[0] in the file, 1-based; 0 unknown
	Lines   []LogLine
	Offset  int64 // bytes of the file read so far
	Size    int64
	Skipped int64 // bytes never read since too much came at once
	// Deleted and Held are as in LogRef.
	Deleted time.Time
	Held    string
}

// LogLine is one cleaned line.
type LogLine struct {
	At    time.Time // its own timestamp on the local clock, else when it was read
	Text  string
	Off   int64 // byte offset in the file, -1 unknown
	Level int8  // see LineLevel
}

// ErrorWords are what a line of an error holds.
var ErrorWords = []string{"Traceback (most recent", "ERROR", "Error:", "Exception", "CRITICAL", "SIGQUIT", "Killed"}

var warnWords = []string{"WARN", "Warning", "Retract", "retract"}

// LineLevel is 2 for a line of an error, 1 for one of a warning, else 0. What
// stands far to the right is quoted text.
func LineLevel(s string) int8 {
	s = s[:min(len(s), 400)]
	has := func(w string) bool { return strings.Contains(s, w) }
	switch {
	case slices.ContainsFunc(ErrorWords, has):
		return 2
	case slices.ContainsFunc(warnWords, has):
		return 1
	}
	return 0
}

// Verdict is the state of the node in one sentence.
type Verdict struct {
	Level Severity
	// Word is OK, WARN, CRIT, DOWN, NONE (no trace of a server or client) or WAIT (still finding out).
	Word string
	Text string
}

// ServerByID finds a server.
func (s *Snapshot) ServerByID(id string) *Server {
	for i := range s.Servers {
		if s.Servers[i].ID == id {
			return &s.Servers[i]
		}
	}
	return nil
}

// Proc is a process of the newest discovery, nil where it was not seen.
func (s *Snapshot) Proc(pid int) *Proc {
	for i := range s.Procs {
		if s.Procs[i].PID == pid {
			return &s.Procs[i]
		}
	}
	return nil
}

// Origin says where a process was started from: the login or the multiplexer
// among its ancestors; "" where that cannot be told.
func (s *Snapshot) Origin(pid int) string {
	from := ""
	for range 64 {
		p := s.Proc(pid)
		if p == nil {
			break
		}
		if addr, _, ok := strings.Cut(p.Env["SSH_CONNECTION"], " "); ok && from == "" {
			from = " from " + Clean(addr, 60) // inherited, so it outlives the login itself
		}
		title := strings.Join(p.Argv, " ")
		switch {
		case strings.HasPrefix(title, "sshd") && strings.Contains(title, "@"):
			return "login " + Cut(strings.TrimSpace(title[strings.Index(title, ":")+1:]), 60) + from
		case strings.HasPrefix(p.Comm, "tmux"), strings.HasPrefix(p.Comm, "screen"):
			return p.Comm + " of " + p.User + from
		}
		pid = p.PPID
	}
	return strings.TrimSpace(strings.Replace(from, " from", "login from", 1))
}

// Server is the first server, nil without one.
func (s *Snapshot) Server() *Server {
	if len(s.Servers) == 0 {
		return nil
	}
	return &s.Servers[0]
}

// Dataset finds a dataset by path.
func (s *Snapshot) Dataset(path string) *Dataset {
	for i := range s.Datasets {
		if s.Datasets[i].Path == path {
			return &s.Datasets[i]
		}
	}
	return nil
}
