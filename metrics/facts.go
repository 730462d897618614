package metrics

import "time"

// Session describes the node as one connection found it.
type Session struct {
	Node    string    `json:"node"` // as the user named it
	User    string    `json:"user"`
	Host    string    `json:"host"` // the node's own hostname
	Dialer  string    `json:"dialer"`
	BootID  string    `json:"boot_id"`
	Kernel  string    `json:"kernel"`
	Shell   string    `json:"shell"` // dash, bash, busybox …
	Zone    string    `json:"zone"`  // abbreviation, e.g. CET
	ZoneSec int       `json:"zone_s"`
	HZ      int       `json:"hz"` // clock ticks a second of /proc/PID/stat
	CPUs    int       `json:"cpus"`
	UID     int       `json:"uid"`
	Now     time.Time `json:"now"`      // the node's wall time at READY; its offset to Frame.At is the clock offset
	UptimeS float64   `json:"uptime_s"` // /proc/uptime at READY; process start = Now - UptimeS + ticks/HZ
	Noise   string    `json:"noise,omitempty"`
	Root    int       `json:"root,omitempty"` // pid below which processes count; 0: all
	// Tools tells which of nvidia-smi, curl, wget, python3, docker, tmux, journalctl, dmesg were found, with paths.
	Tools map[string]string `json:"tools,omitempty"`
}

// LinkStatus is the state of the connection.
type LinkStatus string

// The states of a connection.
const (
	LinkConnecting LinkStatus = "connecting"
	LinkUp         LinkStatus = "up"
	LinkSuspect    LinkStatus = "suspect"
	LinkDown       LinkStatus = "down"
)

// LinkFact is a change of the connection's state.
type LinkFact struct {
	Status LinkStatus `json:"status"`
	Reason string     `json:"reason,omitempty"` // one cleaned line, e.g. "this machine slept 7 h"
	// Slept is how long this machine was suspended, where that explains the change.
	SleptS float64 `json:"slept_s,omitempty"`
	RTTms  float64 `json:"rtt_ms,omitempty"`
	// Waiting says that a person must act (press a key, answer a prompt) before the next try.
	Waiting bool `json:"waiting,omitempty"`
}

// ProbeFact is the state of one probe channel (ctl, gpu, files, scan, http).
type ProbeFact struct {
	State  string `json:"state"` // ok, stuck, failed, absent
	Reason string `json:"reason,omitempty"`
	// Advice names what would make the missing thing known.
	Advice string `json:"advice,omitempty"`
}

// DiskFact is one file system; sizes in bytes, -1 unknown.
type DiskFact struct {
	Path  string `json:"path"` // a wanted path that lies on it
	Mount string `json:"mount"`
	Total int64  `json:"total"`
	Avail int64  `json:"avail"`
	// InodesFree is -1 where unknown.
	InodesFree int64 `json:"inodes_free"`
}

// GPUErrorFact is nvidia-smi failing as a whole.
type GPUErrorFact struct {
	RC   int    `json:"rc"`   // exit status, -1 unknown
	Text string `json:"text"` // what it printed, cleaned, at most 4 kB
	// Stuck says that the process hangs (state D) rather than fails.
	Stuck bool `json:"stuck,omitempty"`
	// Absent says that there is no nvidia-smi on the node.
	Absent bool `json:"absent,omitempty"`
}

// FileStat is the stat of one file. Mtime is unix seconds of the node's clock.
type FileStat struct {
	Path   string `json:"path"`
	Exists bool   `json:"exists"`
	ID     string `json:"id,omitempty"` // device:inode
	Size   int64  `json:"size,omitempty"`
	Mtime  int64  `json:"mtime,omitempty"`
	Birth  int64  `json:"birth,omitempty"` // when the file was made, unix seconds; 0 unknown
	Dir    bool   `json:"dir,omitempty"`
	Err    string `json:"err,omitempty"` // why it cannot be read, if so
}

// RowsFact is the state of counting one JSONL file.
type RowsFact struct {
	Path  string `json:"path"`
	ID    string `json:"id"`    // device:inode
	Size  int64  `json:"size"`  // bytes at the stat before this count
	Mtime int64  `json:"mtime"` // unix seconds, node clock
	Rows  int64  `json:"rows"`  // complete rows in bytes [0, Offset)
	// Offset is how many bytes were counted. Offset < Size during a first scan.
	Offset int64 `json:"offset"`
	// Head is a checksum of the first bytes, by which a rewrite in place is found.
	Head string `json:"head,omitempty"`
	// Done is false while a first scan runs in slices.
	Done bool `json:"done"`
	// Torn says that the file does not end in a newline.
	Torn bool `json:"torn"`
	// Reset says why the count began anew: "", "replaced", "truncated", "rewritten".
	Reset string `json:"reset,omitempty"`
	Err   string `json:"err,omitempty"`
	// Judged is present at most once a minute.
	Judged *RowsJudged `json:"judged,omitempty"`
}

// RowsJudged are facts about the newest rows, without their content: counts
// over at most the last 64 kB of a file. Lengths are tokens where the row tells
// them, else characters.
type RowsJudged struct {
	Rows      int      `json:"rows"`
	Invalid   int      `json:"invalid"`
	Empty     int      `json:"empty"`
	Errors    int      `json:"errors"`
	Truncated int      `json:"truncated"` // finish_reason length
	Finished  int      `json:"finished"`  // rows that tell a finish_reason at all
	NUL       bool     `json:"nul"`
	InTokens  bool     `json:"in_tokens"` // unit of Lengths
	Lengths   []int    `json:"lengths,omitempty"`
	Hashes    []uint64 `json:"hashes,omitempty"` // salted hash of (id, sample) of each row that has an id
}

// LogHeader heads a KindLog chunk; the raw bytes are whole lines, already masked.
type LogHeader struct {
	ID     string `json:"id"`     // device:inode
	Offset int64  `json:"offset"` // of the first raw byte in the file
	End    int64  `json:"end"`    // offset after the last raw byte
	Size   int64  `json:"size"`   // file size at the time
	// Skipped bytes lie between the previous chunk and this one (too much came at once).
	Skipped int64 `json:"skipped,omitempty"`
	// Backfill marks history that was read on connecting: 1 for a start section
	// found by anchor, 2 for the recent tail, 0 for live lines.
	Backfill int `json:"backfill,omitempty"`
	// Reset says why following began anew: "", "replaced", "truncated".
	Reset string `json:"reset,omitempty"`
	// Lines is the number of newlines in the whole file up to End, -1 unknown.
	Lines int64  `json:"lines"`
	Mtime int64  `json:"mtime,omitempty"`
	Pane  bool   `json:"pane,omitempty"` // captured from a tmux pane, not a file
	Err   string `json:"err,omitempty"`
}

// Scan is one discovery.
type Scan struct {
	UptimeS float64 `json:"uptime_s"`
	// Procs are the processes that matter: engines and their trees, processes
	// connected to an engine's port, writers of JSONL files, holders of GPU
	// devices, the wanted pids, and the ancestors of all of these.
	Procs []Proc `json:"procs"`
	// Remote counts established connections to a listening engine port by peer address, for peers on other hosts.
	Remote []RemoteConn `json:"remote,omitempty"`
	// Total is how many processes the node has.
	Total int `json:"total"`
	// Hidden says what could not be read and why, e.g. "fd of 12 processes: permission denied".
	Hidden []string `json:"hidden,omitempty"`
}

// RemoteConn is a peer on another host.
type RemoteConn struct {
	Port  int    `json:"port"`
	Addr  string `json:"addr"`
	Count int    `json:"count"`
}

// Proc is one process of the node. Argv and Env are masked.
type Proc struct {
	PID     int      `json:"pid"`
	PPID    int      `json:"ppid"`
	PGID    int      `json:"pgid"`
	SID     int      `json:"sid"`
	Start   int64    `json:"start"` // clock ticks after boot; with PID and boot id the identity
	State   string   `json:"state"` // R S D Z T X
	UID     int      `json:"uid"`
	User    string   `json:"user,omitempty"`
	Comm    string   `json:"comm"`
	Argv    []string `json:"argv,omitempty"`
	Exe     string   `json:"exe,omitempty"`
	Cwd     string   `json:"cwd,omitempty"`
	FD1     string   `json:"fd1,omitempty"` // link of descriptor 1: a path, pipe:[n], socket:[n], /dev/pts/n
	FD2     string   `json:"fd2,omitempty"`
	Threads int      `json:"threads"`
	CPU     int64    `json:"cpu"` // user + system ticks
	RSS     int64    `json:"rss"` // bytes
	// Env holds chosen variables only (PYTHONUNBUFFERED, CUDA_VISIBLE_DEVICES, engine settings), values masked.
	Env map[string]string `json:"env,omitempty"`
	// EnvRead says whether the environment could be read at all.
	EnvRead bool       `json:"env_read,omitempty"`
	Files   []OpenFile `json:"files,omitempty"`
	// GPUs are the minor numbers of /dev/nvidiaN held open.
	GPUs []int `json:"gpus,omitempty"`
	// Listen are the TCP ports on which it listens.
	Listen []ListenAddr `json:"listen,omitempty"`
	// Conns counts established connections by peer port on this host.
	Conns []Conn `json:"conns,omitempty"`
	// Cgroup is the last part of its control group path.
	Cgroup string `json:"cgroup,omitempty"`
}

// ListenAddr is a listening TCP socket.
type ListenAddr struct {
	Addr string `json:"addr"` // 0.0.0.0, 127.0.0.1, :: …
	Port int    `json:"port"`
}

// Conn counts established connections of a process to one port of this host.
type Conn struct {
	Port  int `json:"port"`
	Count int `json:"count"`
}

// OpenFile is a regular data file (*.jsonl and the like) that a process holds open.
type OpenFile struct {
	Path  string `json:"path"`
	Write bool   `json:"write"`
}

// Alive is the state of one wanted process; a process that is gone has State "".
type Alive struct {
	PID     int    `json:"pid"`
	Start   int64  `json:"start"`
	State   string `json:"state"`
	Threads int    `json:"threads"`
	CPU     int64  `json:"cpu"`
	// MajFaults are pages that were read from disk through memory maps, as weights are.
	MajFaults int64 `json:"majflt,omitempty"`
	// Read counts bytes that it had fetched from disk (read_bytes of
	// /proc/PID/io, which only its user and root may read); nil unknown, or not
	// asked for.
	Read *int64 `json:"read,omitempty"`
}

// HTTPHeader heads a KindHTTP chunk; the raw bytes are the body, masked, at most 1 MiB.
type HTTPHeader struct {
	Port   int     `json:"port"`
	Path   string  `json:"path"`
	Status int     `json:"status"` // 0: no answer
	Err    string  `json:"err,omitempty"`
	Ms     float64 `json:"ms"`
	Via    string  `json:"via,omitempty"` // forward, curl, wget, python3
}

// Ack is an operator's decision about a finding.
type Ack struct {
	ID      string    `json:"id"`
	Subject string    `json:"subject"`
	Action  string    `json:"action"` // ack, snooze, clear
	Until   time.Time `json:"until,omitzero"`
}

// Note is an operator's remark on the timeline.
type Note struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// Saved is what an earlier visit had counted, keyed by the node; a file is
// taken up again only if its device:inode and head checksum are the same.
type Saved struct {
	Node   string      `json:"node"`
	BootID string      `json:"boot_id"`
	Files  []SavedFile `json:"files"`
	// Targets were set by hand; those of the configuration go before them.
	Targets []ConfigTarget `json:"targets,omitempty"`
}

// SavedFile is one counted file.
type SavedFile struct {
	Path   string    `json:"path"`
	ID     string    `json:"id"`
	Head   string    `json:"head"`
	Offset int64     `json:"offset"`
	Rows   int64     `json:"rows"`
	At     time.Time `json:"at"`
}
