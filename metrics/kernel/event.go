package kernel

import (
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// Kind is what a kernel line is about.
type Kind uint8

// The kinds of events.
const (
	KindXid        Kind = iota + 1 // error number of the NVIDIA driver
	KindGSP                        // the GPU's firmware does not answer
	KindLost                       // a GPU fell off the bus or cannot be initialised
	KindMismatch                   // driver and library differ
	KindOOMInvoked                 // somebody asked for memory that was not there; not the victim
	KindOOMTask                    // a row of the OOM killer's table
	KindOOMKill                    // the victim
	KindReaped                     // the victim's memory was taken back
	KindSegfault
	KindHungTask
)

// Event is one line. A number that the line does not tell is -1.
type Event struct {
	Kind Kind
	Line int64 // 1-based
	// At is the line's date in the log's own zone, written as UTC; zero where
	// only the uptime or the time of day is known.
	At     time.Time
	Year   bool    // At's year was told; otherwise it is 0
	Uptime float64 // seconds since boot, -1 unknown

	Class metrics.Cause
	// Consequence marks what follows from an earlier fault, such as Xid 45.
	Consequence bool

	Xid   int
	Bus   string // as the driver prints it, e.g. 0000:61:00
	GPU   int    // index, where the driver names it by index
	PID   int
	Name  string // of the process; "" unknown
	Text  string // cleaned, at most 300 bytes
	Diff  int    // ms that the firmware's heartbeat is late
	Limit int    // ms that it may be

	Cgroup    bool // the limit of a control group, not the node's memory
	AnonRSSKB int
	FileRSSKB int
	TotalVMKB int
	ScoreAdj  int
	AdjKnown  bool
}
