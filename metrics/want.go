package metrics

import "time"

// WantKind says what the probe should read.
type WantKind string

// What can be wanted. Frames that answer a want are named beside it.
const (
	WantStat   WantKind = "stat"   // Path's stat, in the KindFiles frame
	WantDir    WantKind = "dir"    // listing of directory Path (and its direct subdirectories): newest data files → KindDir
	WantRows   WantKind = "rows"   // rows of Path → KindRows; Every 0: count once
	WantLog    WantKind = "log"    // follow Path with backfill → KindLog
	WantPane   WantKind = "pane"   // the tmux pane on terminal Path (/dev/pts/N) → KindLog with Pane set
	WantPID    WantKind = "pid"    // state of process PID → KindAlive
	WantMemory WantKind = "memory" // memory limits above process PID (0: this login) → KindSys
	WantHTTP   WantKind = "http"   // GET http://Addr:Port Path → KindHTTP
	WantDisk   WantKind = "disk"   // file system of Path → KindDisk
	WantKernel WantKind = "kernel" // kernel log → KindKernel
)

// Want is one thing that the probe should read next. Wants are values: the
// probe compares the list with the one before and changes only what differs.
type Want struct {
	Kind  WantKind
	Path  string
	Addr  string // HTTP: address to dial, 127.0.0.1 where the listener allows it
	Port  int
	PID   int
	Every time.Duration
	// Log: search backwards from the end for the last of these (newline
	// separated), and deliver from there to the next Tail bytes; then the last
	// Tail bytes of the file; then follow.
	Anchors string
	Tail    int64
	// Rows: where an earlier visit stopped; taken up only if ID and Head still match.
	ID     string
	Head   string
	Offset int64
	Rows   int64
	// Rows: they are records of a text or table that is read once, by the
	// ending of Path: lines that are not blank (.txt), or records behind the
	// one that names the columns (.csv, .tsv).
	Records bool
	// PID: also how much it has read from disk, where that may be known.
	Reads bool
	// HTTP: the process whose argv holds the server's API key (after --api-key);
	// the probe uses it without ever letting it out.
	KeyPID int
}
