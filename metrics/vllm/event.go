package vllm

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
	KindBatch Kind = iota + 1 // the periodic line of figures
	KindSpec
	KindPrefix // V0's own line of prefix cache rates
	KindIteration
	KindTransfer
	KindCounts
	KindPreempt
	KindStartup
	KindProgress
	KindAccess
	KindWait
	KindFault
	KindStop
	KindDump
	KindSeparator
)

// Event is one thing the log says. It and what it points to are valid only
// during the call that hands it over; strings may be kept.
type Event struct {
	Kind Kind
	// Line is the 1-based number of the line, counted by newlines.
	Line int64
	At   Stamp
	// Outer is the stamp of a log collector; zero where there is none.
	Outer time.Time
	Level byte   // D I W E C, 0 without a prefix
	Proc  string // APIServer, EngineCore_DP0, Worker_TP0 …, "" where not told
	PID   int    // of Proc, or the collector's; 0 unknown
	Rank  Rank

	Batch     *Batch
	Spec      *Spec
	Prefix    *Prefix
	Iteration *Iteration
	Counts    []Count
	Preempt   Num // V0: preemptions since the start, as its warning tells them
	Startup   *Startup
	Progress  *Progress
	Access    *Access
	Wait      *Wait
	Fault     *Fault
	Stop      *Stop
	Dump      *Dump
	Separator string // id of the start that a restarter of ours announced
}

// Batch is the line that the front end prints every 10 s (V0: 5 s) for each
// engine. It is silent while idle, and by default with several API servers.
type Batch struct {
	Engine  int // number of the data parallel engine; -1 where the line tells none
	Engines int // how many engines the line sums up; 0 where it is about one

	Running, Waiting   Num // requests; waiting includes deferred
	Swapped, Deferred  Num
	Preemptions        Num // works in the Rust front end only
	GenTPS, InputTPS   Num // tok/s, mean over the interval
	KVUsage            Num // 0 to 1, of the GPU pool
	CPUUsage           Num // 0 to 1, V0: swap space, or the pool itself on a CPU
	PrefixHit          Num // 0 to 1
	ExternalHit, MMHit Num
	Corrupted          Num
	Rust               bool
}

// Usage is the pool's use, 0 to 1: on V0's CPU backend the GPU figure stays 0
// and the CPU's is the one that lives.
func (b *Batch) Usage() Num {
	if b.CPUUsage.Known && b.CPUUsage.V > 0 && b.KVUsage.Known && b.KVUsage.V == 0 && b.Running.V > 0 {
		return b.CPUUsage
	}
	return b.KVUsage
}

// Still tells a line that shows requests running and no token moving.
func (b *Batch) Still() bool {
	return b.Running.V > 0 && b.GenTPS.Known && b.GenTPS.V == 0 && b.InputTPS.Known && b.InputTPS.V == 0
}

// Spec is the companion line about speculative decoding.
type Spec struct {
	AcceptLen               Num // tokens a step, with the bonus token
	AcceptRate              Num // 0 to 1, of drafted tokens
	AcceptedTPS, DraftedTPS Num // tok/s; not the generation rate
	Accepted, Drafted       Num // tokens in the interval (V0: since the start)
	Emitted, Efficiency     Num // V0
}

// Prefix holds V0's hit rates of the prefix cache, 0 to 1.
type Prefix struct{ GPU, CPU Num }

// Iteration is one engine step, logged only on request.
type Iteration struct {
	Engine                          int
	Context, Generation             Num // requests
	ContextTokens, GenerationTokens Num
	ElapsedMs, KVUsage              Num
}

// Count is one engine's load as the data parallel coordinator passes it on.
type Count struct{ Waiting, Running int }

// Step is a point of the start-up.
type Step uint8

// The steps in the order in which a start takes them.
const (
	StepVersion Step = iota + 1
	StepArgs
	StepModelLen
	StepChunked
	StepEngineInit
	StepDist
	StepWeightsBegin
	StepDownloaded
	StepWeightsEnd // reading the files
	StepModelLoaded
	StepCompile
	StepCompileEnd
	StepProfile // memory profiling (V0's summary of it)
	StepGraphEstimate
	StepKVMemory
	StepBlocks
	StepKVSize
	StepConcurrency
	StepCaptureBegin
	StepCaptureEnd
	StepMemory // the newest versions' summary of all parts
	StepEngineReady
	StepListening
	StepProcess
	StepReady
	StepNoStats // no line of figures will come; which is no hang
)

// Startup is a start-up line. Which fields are set depends on Step.
type Startup struct {
	Step    Step
	Version string
	Model   string
	// Flags are the arguments that differ from the defaults, by Python name,
	// secrets masked (StepArgs).
	Flags    map[string]string
	Elapsed  Num // s
	WeightGB Num // GiB
	KVGB     Num // GiB left for the KV cache; may be negative
	GraphGB  Num
	FreeGB   Num
	TotalGB  Num
	PeakGB   Num // activations
	OtherGB  Num // outside of torch
	Budget   Num // GiB wanted: total × utilization
	Util     Num // gpu_memory_utilization
	KVBytes  Num // what --kv-cache-memory-bytes would have to be

	Tokens      Num // of the KV pool
	Blocks      Num // V0: GPU blocks
	CPUBlocks   Num
	MaxLen      Num // tokens a request
	Concurrency Num // requests of full length that fit
	Batched     Num // max_num_batched_tokens
	Servers     Num // API servers (StepNoStats)

	PID  int
	Addr string
	Port int
}

// Progress is a bar: of shards, of graphs, or of an offline client's prompts.
type Progress struct {
	Label       string // cleaned, e.g. "Loading safetensors checkpoint shards"
	Done, Total int
	Elapsed     Num // s
	Left        Num // s, the bar's own estimate
	Rate        Num // items a second
}

// Access is a line of the HTTP server's access log. Status is 0 where it is cut.
type Access struct {
	Client string
	Port   int
	Method string
	Path   string // without the query
	Status int
}

// Wait is a worker that waits for the engine's next message. It repeats every
// minute while something hangs, and is harmless while kernels compile.
type Wait struct{ Seconds Num }

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

// Fault is a line that says what went wrong.
type Fault struct {
	Class  metrics.Cause
	Detail string // cleaned, at most 400 bytes
	Weight Weight
	// Phase is start-up, capture, prefill, decode, serving, or "".
	Phase string
	// Exit is the exit code that the line tells, negative for a signal.
	Exit   Num
	Worker string // the process that died
	// Figures of single classes; GiB, tokens, milliseconds.
	FreeGB, TotalGB, NeedGB, Util Num
	MaxLen                        Num // longest context that would fit
	Port, HolderPID               int
	Holder                        string
	Op                            string // collective operation
	Seq                           int64
	LimitMs, RanMs                Num
}

// Stop is an orderly end.
type Stop struct {
	Asked bool // somebody asked for it
	Done  bool // the server process ended
}

// Dump is the engine's state as a crash prints it, which tells the figures that
// no line of figures will tell any more.
type Dump struct {
	Running, Waiting, KVUsage Num
	Scheduled                 Num // tokens of the step
}
