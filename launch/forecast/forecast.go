// Package forecast tells what an edited launch will give, from what the running
// server and earlier starts of the same model and node gave. It is pure. Each
// figure says what it rests on and what is doubtful about it; what nothing
// tells is unknown.
package forecast

import (
	"time"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/metrics"
)

// Facts are what the present start measured. Unknown figures are zero with
// Known false.
type Facts struct {
	Launch launch.Launch // of the start that measured them
	Model  string
	Now    time.Time
	// Sec is the offset of the node's zone from UTC in seconds, for dates in texts.
	ZoneSec int

	Capacity    metrics.Figure // tokens
	Headroom    metrics.Figure // GiB free on a GPU after graph capture
	FreeAtStart metrics.Figure // GiB free on a GPU before the weights were loaded
	KVPool      metrics.Figure // GiB of the KV pool on a GPU
	BytesPerTok metrics.Figure // bytes a token a GPU
	KVDtype     string         // as the engine's log names it
	// Resolved is what the engine chose for flags that were absent, by canonical
	// name (see launch.Resolved).
	Resolved   map[string]string
	ContextLen metrics.Figure
	MaxRunning metrics.Figure
	TP         int // 0 unknown

	GPUs   int
	GPUGiB metrics.Figure // memory of one GPU; of unequal ones the smallest

	// HostAvail of HostTotal are free, in bytes; HostLimit names the limit of a
	// container or its like that they are counted below, "" the node's own memory.
	HostTotal, HostAvail metrics.Figure
	HostLimit            string
	// Pinned is host memory that the running server's cache holds and gives back
	// when it ends, bytes.
	Pinned metrics.Figure

	// Running, Queued and PerRequest (tokens a running request) are means over the
	// last PerRequestOver of the settled level, and the last line's where that is 0.
	// Most of the time tokens a request were between PerRequestLow and -High.
	Step           metrics.StepFit
	Running        metrics.Figure
	Queued         metrics.Figure
	PerRequest     metrics.Figure
	PerRequestOver time.Duration

	PerRequestLow, PerRequestHigh float64
	// PoolUsed is the share of the pool that running requests fill while others
	// wait for it: the last request that would fit never fits quite.
	PoolUsed metrics.Figure
	// Grown says that PerRequest is of grown requests: the start has settled, or
	// an earlier one of the same work had.
	Grown bool
	// Settled is the present level of throughput, tok/s.
	Settled metrics.Figure
	// PerRow is generated tokens a row, for break-even: the mean of finished
	// requests, else the median of the newest rows where no rate tells it.
	PerRow metrics.Figure
	// RowsPerMin is rows a minute now, RowsLeft the rows still wanted.
	RowsPerMin metrics.Figure
	RowsLeft   metrics.Figure
	// LoadS is how long starts of this model took until ready, seconds.
	LoadS metrics.Figure
}

// Estimate is one forecast figure. Low and High are its range; both equal V
// where the arithmetic is exact.
type Estimate struct {
	Known        bool
	V, Low, High float64
	Basis        []string // what it rests on, in order of weight
	Doubt        string   // what could make it wrong, or why it is unknown
}

// Warning is one thing to know before restarting.
type Warning struct {
	Level metrics.Severity
	Text  string
}

// Forecast is what an edited launch will give.
type Forecast struct {
	// Outcomes are what earlier starts with the same flags did, worst first.
	Outcomes []Warning
	Capacity Estimate // tokens
	Headroom Estimate // GiB on a GPU after graph capture
	// HostNeed is host memory for the hierarchical cache on the node, bytes;
	// HostFree what is free for it, with the old server's pinned memory.
	HostNeed Estimate
	HostFree Estimate
	// Fit is how many grown requests run at once.
	Fit      Estimate
	GenTPS   Estimate // tok/s, settled
	Warnings []Warning
	// BreakEven is zero where the gain or the loss is unknown; Why says so.
	BreakEven BreakEven
}

// BreakEven weighs the gain of a restart against what it loses.
type BreakEven struct {
	Known       bool
	PerRow      float64       // generated tokens a row with which it was reckoned
	GainPerHour float64       // rows an hour, negative for a loss
	LostLoading float64       // rows that do not land while the server loads
	LostHalf    float64       // rows' worth of tokens of half-done requests
	After       time.Duration // until the gain has paid the loss; 0 never
	RowsLeft    float64       // rows still wanted, -1 unknown
	// Worth says whether it pays off before the rows are done, and nothing critical
	// speaks against the launch.
	Worth bool
	Why   string // one sentence
}
