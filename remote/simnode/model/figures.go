package model

// Server is the state of the newest server.
func (n *Node) Server() ServerState { return ServerState{} }

// Client is the state of the newest client.
func (n *Node) Client() ClientState { return ClientState{} }

// Parts are the datasets of the job as they are now.
func (n *Node) Parts() []Part { return nil }

// GPUs are the cards as they are now, by index.
func (n *Node) GPUs() []GPU { return nil }

// Host is the machine as it is now.
func (n *Node) Host() Host { return Host{} }

// Processes are the server's and the client's processes, parents first.
func (n *Node) Processes() []Process { return nil }

// Scheduler is the role of the scheduler process of one rank.
func Scheduler(rank int) Role { return "" }

// JSON is the line that the client writes for a row, without its newline.
func (r Row) JSON() []byte { return nil }

// BaseRow is row i of the rows that the part had before Past.Rows begins.
func (p Part) BaseRow(i int) Row { return Row{} }

// Flags are the effective settings of a server.
type Flags struct {
	ModelPath    string
	TP           int
	Host         string
	Port         int
	MemFraction  float64
	KVDtype      string // "auto", "bfloat16", "fp8_e4m3", "fp8_e5m2"
	HiCache      bool
	HiCacheSize  int // GB of 1e9 a rank
	HiCacheRatio float64
	MaxRunning   int // --max-running-requests, 0 automatic
	ChunkedSize  int
	MaxPrefill   int
	ContextLen   int
	Metrics      bool
	APIKey       string
	// Conservative is --schedule-conservativeness.
	Conservative float64
	DisableRadix bool
	MaxQueued    int
	Watchdog     int // seconds
}
