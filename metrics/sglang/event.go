package sglang

import (
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// Num is a number the log may or may not have told. The zero Num is unknown.
type Num struct {
	V     float64
	Known bool
}

func num(v float64) Num { return Num{V: v, Known: true} }

// Kind tells which part of an Event is set.
type Kind uint8

// The kinds of events.
const (
	KindBatch Kind = iota + 1
	KindStartup
	KindAccess
	KindRetraction
	KindFault
	KindStop
	KindHealth
	KindDump
	KindSeparator
)

// Event is one thing the log says. A batch with the same line and rank as the
// one before replaces it: the record turned out to go on. An Event and what it points to are valid only
// during the call that hands it over; strings may be kept.
type Event struct {
	Kind Kind
	// Line is the 1-based number of the line, counted by newlines.
	Line int64
	At   Stamp
	// Outer is the stamp of a log collector with a zone; zero where there is none.
	Outer time.Time
	Rank  Rank

	Batch     *Batch
	Startup   *Startup
	Access    *Access
	Retract   *Retraction
	Fault     *Fault
	Stop      *Stop
	Health    *Health
	Dump      *Dump
	Separator string // id of the start that a restarter of ours announced
}

// Batch is a line that a scheduler prints about a prefill or a decode batch.
type Batch struct {
	Decode bool // else prefill
	// Probe marks the one-token prefill that a health check causes on an idle server.
	Probe bool

	Iter    Num // forward count, only by environment variable
	Running Num // in a prefill line: before this batch
	Queued  Num
	Usage   Num // 0 to 1, of the plain pool
	Tokens  Num // live tokens of the plain pool

	FullTokens, FullUsage Num // hybrid models: full attention
	SWATokens, SWAUsage   Num // sliding window
	MambaNum, MambaUsage  Num // state slots
	GPUTokens, GPUUsage   Num // sparse models: device pool
	CPUTokens, CPUUsage   Num // sparse models: host pool

	GenTPS   Num  // tok/s since the previous decode line
	InputTPS Num  // tok/s
	Graph    Num  // 1 captured, 0 not
	GraphOn  byte // device letter of the graph key: c(uda), C(pu), n(pu), m(usa)

	AcceptLen, AcceptRate, CapLen, BlockAcceptLen Num

	NewSeq, NewToken, Cached, Pending Num
	CacheHit                          Num // 0 to 1; versions up to 0.4

	PreallocUsage, Prealloc, Transfer, Retracted Num // decode side of a split server
	Bootstrap, Inflight, Optimistic              Num // prefill side
	WaitingImage                                 Num

	DecodeTFLOPS, PrefillTFLOPS, ReadGBs, WriteGBs Num
	Occupancy                                      Num // %

	// Feature bits that tell versions apart.
	dot, trailing, inputFirst bool
	keys                      int // how many keys were read
}

// Binding is the usage (0 to 1) of the fullest pool and its name: "", full, swa,
// mamba or gpu. A host pool never binds.
func (b *Batch) Binding() (usage Num, pool string) {
	usage = b.Usage
	for _, p := range []struct {
		name string
		n    Num
	}{{"full", b.FullUsage}, {"swa", b.SWAUsage}, {"mamba", b.MambaUsage}, {"gpu", b.GPUUsage}} {
		if p.n.Known && (!usage.Known || p.n.V > usage.V) {
			usage, pool = p.n, p.name
		}
	}
	return usage, pool
}

// LiveTokens are the tokens of running requests in the pool that holds all of
// a request's tokens.
func (b *Batch) LiveTokens() Num {
	switch {
	case b.Tokens.Known:
		return b.Tokens
	case b.FullTokens.Known:
		return b.FullTokens
	}
	return b.GPUTokens
}

// Step is a point of the start-up.
type Step uint8

// The steps in the order in which a start takes them.
const (
	StepArgs Step = iota + 1
	StepDistBegin
	StepDistEnd
	StepWeightsBegin
	StepWeightsProgress
	StepWeightsEnd
	StepProfiled // the token count that memory profiling gave
	StepKVDtype
	StepKVAllocated
	StepPoolEnd
	StepCaptureBegin
	StepCaptureProgress
	StepCaptureEnd
	StepSummary
	StepHostCache
	StepTreeCache
	StepProcess
	StepListening
	StepWarmup
	StepReady
	StepJIT // kernels are compiled; may come at any time
)

// Startup is a start-up line. Which fields are set depends on Step.
type Startup struct {
	Step Step
	// Flags are the effective server arguments with their Python names; strings
	// without quotes, secrets masked (StepArgs).
	Flags map[string]string
	// Label tells variants apart: piecewise, "draft decode", mamba …
	Label   string
	Elapsed Num // s
	AvailGB Num // GiB free on the device
	UsedGB  Num // GiB
	Dtype   string

	Done, Total int // progress; Total 0 where unknown

	Tokens             Num // of the pool; of StepProfiled perhaps negative
	KGB, VGB, KVGB     Num // GiB
	ChunkedPrefill     Num
	MaxPrefill         Num
	MaxRunning         Num
	ContextLen         Num
	HostGB, HostTokens Num // host cache of one rank, 1e9 bytes
	HiCache            Num // 1 attached, 0 not
	PID                int
	Addr               string // host of StepListening
	Port               int
	since, until       int // versions that print this text, 0 open
}

// Access is a line of the HTTP server's access log.
type Access struct {
	Client string // address without the port
	Port   int
	Method string
	Path   string // without the query
	Status int
}

// Retraction is the scheduler taking running requests back because the pool is
// full. It is no crash, whatever its old wording says.
type Retraction struct {
	Requests           Num
	Gained             Num // tokens
	RatioFrom, RatioTo Num
	Old                bool // wording up to 0.4
	Aborted            bool // the last request did not fit and was aborted
}

// Weight tells how a fault counts when the cause of a crash is looked for.
type Weight uint8

// Weights, from the strongest.
const (
	// Fatal faults end a server; the first of them is the cause.
	Fatal Weight = iota + 1
	// Vague ones end a server without saying why: the cause only if nothing fatal is there.
	Vague
	// Consequence follows from another fault.
	Consequence
	// Remark does not end a server.
	Remark
)

// Fault is a line, or a traceback, that says what went wrong.
type Fault struct {
	Class  metrics.Cause
	Detail string // cleaned, at most 400 bytes
	Weight Weight
	// Phase is where the stack or the wording says it was: start-up, capture,
	// prefill, decode, idle, or "".
	Phase string
	PID   int
	// Exit is the exit code that the line tells.
	Exit Num
	// Bare marks a "hit an exception" whose own words are missing.
	Bare bool
}

// Stop is an orderly end: a signal, draining, or the end of the HTTP server.
type Stop struct {
	Signal    string // SIGTERM, SIGINT or ""
	Remaining Num    // requests that are waited for
	Done      bool   // the server process ended
}

// Health is a failed health check: since when the other side is silent.
type Health struct {
	Checked, Heartbeat Stamp
	Silent             Num // s
}

// Dump is what the watchdog prints about the stuck batch.
type Dump struct {
	BatchSize, Available, Evictable Num
}
