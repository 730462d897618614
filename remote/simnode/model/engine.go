package model

import (
	"sort"
	"time"
)

// Duration of the engine's work. A decode step and the share that each running
// request adds are the run's own figures; a prefill is fast beside it.
const (
	stepBase     = 43_900 * time.Microsecond
	stepRequest  = 397 * time.Microsecond
	prefillBase  = 10 * time.Millisecond
	prefillToken = 25 * time.Microsecond
	// clipTokens is how far ahead of a running request the engine reserves room
	// (SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION).
	clipTokens = 4096
	// retractSteps is for how many steps a retraction makes room
	// (SGLANG_RETRACT_DECODE_STEPS).
	retractSteps = 1200
	// mostOwed is by how many ends steady may be late.
	mostOwed = 12
	// steadyMargin is the room, in tokens, that a settled pool keeps at least.
	steadyMargin = 48
)

// The share of clipTokens that is reserved for each running request: it starts
// careful and falls step by step to its floor (SGLANG_INIT_NEW_TOKEN_RATIO and
// its companions), in millionths. The floor and the pace are calibrated on the
// run: 121 requests of 1,151 tokens fill the pool to 0.87 two minutes in.
const (
	ratioInit  = 700_000
	ratioFloor = 39_000
	ratioSteps = 1300
)

// request is one request inside the engine.
type request struct {
	id      int
	rid     string
	prompt  int
	target  int // output tokens it will reach
	limit   int // max_new_tokens
	out     int // while not running; see engine.output
	base    int // while running: the step before its first token, so to say
	active  bool
	done    int // prompt tokens already computed, while it is being chunked
	port    int // the client's side of the connection
	arrived time.Duration
	first   time.Duration
	answer  func(finish string)
	gone    bool // aborted or its connection broke
}

// engine is the scheduler: queue, pool and batches. Its time is the node's.
type engine struct {
	n        *Node
	s        *server
	flags    Flags
	capacity int
	limit    int // of running requests

	queue   []*request
	running []*request // soonest to finish first
	batch   []*request // in the prefill that is under way
	sizes   []int      // tokens of each of batch in this chunk
	live    int        // tokens of running requests, and of the prefill under way
	step    int        // decode steps so far
	busy    bool
	stalled time.Duration // nothing runs before this time
	hung    bool

	ratio   int  // millionths
	full    bool // the pool has overflowed since the engine was last idle
	settled bool // ends are regulated; see steady
	ended   int  // requests that steady has ended
	owed    int  // ends that the mean length asks for and steady has not made, in tokens
	jitter  source

	interval   int // decode forwards since the last Decode line
	generated  int // tokens since then
	lastDecode time.Duration
	lastFill   time.Duration
	lastTokens int

	count counters
}

// counters are totals since the engine's start, for /metrics and the state.
type counters struct {
	finished, aborted            int
	promptTokens, genTokens      int64
	fillTokens, decodeTokens     int64
	retracted                    int
	retractedIn, retractedOut    int64
	decodePasses, prefillPasses  int
	ttft, latency                histogram
	lastGen, lastInput           float64
	lastBatch                    time.Duration
	lastRunning, lastQueued, use int
}

func newEngine(n *Node, s *server) *engine {
	e := &engine{
		n: n, s: s, flags: s.flags, capacity: s.flags.poolTokens(), limit: s.flags.maxRunning(),
		jitter: source(n.scenario.noise), lastDecode: n.at, lastFill: n.at,
	}
	e.ratio = e.startRatio()
	return e
}

func (e *engine) startRatio() int {
	return min(1_000_000, int(ratioInit*e.flags.Conservative))
}

func (e *engine) floorRatio() int {
	return min(1_000_000, int(ratioFloor*e.flags.Conservative))
}

// output is how many tokens a request has.
func (e *engine) output(r *request) int {
	if r.active {
		return e.step - r.base
	}
	return r.out
}

// ends is the step after which a running request is complete.
func (r *request) ends() int { return r.base + r.target }

// add queues a request and wakes an idle engine.
func (e *engine) add(r *request) {
	r.arrived = e.n.at
	e.queue = append(e.queue, r)
	e.wake()
}

func (e *engine) wake() {
	if e.busy || e.hung || e.s.phase == PhaseDead {
		return
	}
	e.busy = true
	e.n.after(0, e.turn)
}

// turn starts the next batch: a prefill when one fits, else a decode step.
func (e *engine) turn() {
	if e.hung || e.s.phase == PhaseDead {
		e.busy = false
		return
	}
	if e.n.at < e.stalled {
		e.n.after(e.stalled-e.n.at, e.turn)
		return
	}
	e.sweep()
	if e.fill() {
		return
	}
	if len(e.running) > 0 {
		e.decode()
		return
	}
	e.busy = false
	if len(e.queue) == 0 {
		e.ratio = e.startRatio()
		e.full = false
		e.settle(false)
	}
}

// stall lets the next batch begin later: a kernel for a new shape is compiled,
// or a very long prompt is computed.
func (e *engine) stall(d time.Duration) {
	if e != nil {
		e.stalled = e.n.at + d
	}
}

// sweep drops requests whose connection is gone.
func (e *engine) sweep() {
	e.queue = drop(e.queue, func(r *request) { e.live -= r.done })
	e.running = drop(e.running, func(r *request) { e.live -= r.prompt + e.output(r) })
}

func drop(list []*request, gone func(*request)) []*request {
	kept := list[:0]
	for _, r := range list {
		if r.gone {
			gone(r)
			continue
		}
		kept = append(kept, r)
	}
	clear(list[len(kept):])
	return kept
}

// fill admits from the head of the queue while it fits and starts the prefill;
// false when nothing was admitted. First come, first served: a head that does
// not fit holds the rest back.
func (e *engine) fill() bool {
	if len(e.queue) == 0 {
		return false
	}
	chunk := e.flags.ChunkedSize
	if chunk <= 0 {
		chunk = 1 << 30
	}
	input := e.flags.MaxPrefill
	room := e.capacity - e.live - e.reserve()
	before := len(e.running)
	total := 0
	for len(e.queue) > 0 && chunk > 0 && input > 0 && len(e.running)+len(e.batch) < e.limit {
		r := e.queue[0]
		left := r.prompt + r.out - r.done
		ahead := min(max(r.limit-r.out, 0), clipTokens)
		if r.done == 0 && !e.admit(r, left, ahead, room) {
			break
		}
		size := min(left, chunk)
		e.batch = append(e.batch, r)
		e.sizes = append(e.sizes, size)
		total += size
		chunk -= size
		input -= size
		room -= size + ahead
		e.live += size
		if size < left {
			break
		}
		e.queue = e.queue[1:]
	}
	if total == 0 {
		return false
	}
	e.logPrefill(before, total)
	if need := activation(total); need > e.s.free()+e.s.held {
		e.s.outOfMemory(need)
		return true
	}
	e.s.hold(activation(total))
	e.n.after(prefillBase+time.Duration(total)*prefillToken, e.filled)
	return true
}

// filled ends a prefill: each request that is whole has its first token.
func (e *engine) filled() {
	if e.s.phase == PhaseDead {
		return
	}
	batch, sizes := e.batch, e.sizes
	e.batch, e.sizes = nil, nil
	e.count.prefillPasses++
	for i, r := range batch {
		r.done += sizes[i]
		e.count.fillTokens += int64(sizes[i])
		if r.done < r.prompt+r.out {
			continue
		}
		r.done = 0
		r.out++
		e.live++
		if r.first == 0 {
			r.first = e.n.at
			e.count.ttft.add((r.first - r.arrived).Seconds())
		}
		if r.gone || r.out >= r.target {
			e.finish(r)
			continue
		}
		r.base, r.active = e.step-r.out, true
		if e.settled && r.limit == outputLimit {
			r.target = r.limit
		}
		e.insert(r)
	}
	e.turn()
}

func (e *engine) insert(r *request) {
	i := sort.Search(len(e.running), func(i int) bool { return e.running[i].ends() > r.ends() })
	e.running = append(e.running, nil)
	copy(e.running[i+1:], e.running[i:])
	e.running[i] = r
}

// decode starts one step, after making room for it.
func (e *engine) decode() {
	if e.live+len(e.running) > e.capacity {
		e.retract()
		if len(e.running) == 0 {
			e.n.after(0, e.turn)
			return
		}
	}
	d := stepBase + time.Duration(len(e.running))*stepRequest
	d += d * time.Duration(e.noise()) / 1_000_000
	e.n.after(d, e.decoded)
}

// noise is the measured unsteadiness of a step, in millionths: up to half a
// percent, the same for the steps of one Decode line.
func (e *engine) noise() int64 {
	s := e.jitter ^ source(uint64(e.step/e.flags.LogInterval)*0xD1342543DE82EF95)
	return s.between(-5000, 5000)
}

func (e *engine) decoded() {
	if e.s.phase == PhaseDead {
		return
	}
	e.step++
	e.live += len(e.running)
	e.generated += len(e.running)
	e.count.decodeTokens += int64(len(e.running))
	e.count.decodePasses++
	floor := e.floorRatio()
	e.ratio = max(floor, e.ratio-(e.startRatio()-floor)/ratioSteps)
	for len(e.running) > 0 && e.running[0].ends() <= e.step {
		e.remove(e.running[0])
	}
	switch {
	case e.full && !e.settled && len(e.running) <= e.grown():
		e.settle(true)
	case e.settled && len(e.queue) == 0 && len(e.running) < e.grown()-3:
		e.settle(false)
	}
	if e.settled {
		e.steady()
	}
	e.interval++
	if e.interval >= e.flags.LogInterval {
		e.logDecode()
	}
	e.turn()
}

func (e *engine) finish(r *request) {
	e.live -= r.prompt + r.out
	if r.gone {
		return
	}
	e.count.finished++
	e.count.promptTokens += int64(r.prompt)
	e.count.genTokens += int64(r.out)
	e.count.latency.add((e.n.at - r.arrived).Seconds())
	reason := "stop"
	if r.out >= r.limit {
		reason = "length"
	}
	r.answer(reason)
}
