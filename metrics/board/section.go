package board

import (
	"math"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/sglang"
)

const (
	sectionsKeep = 40
	finishKeep   = 50_000
	intervals    = 15
	// slowGap is the shortest time between decode lines that can count as a gap.
	slowGap = 10 * time.Second
)

// section is one start as its log tells it.
type section struct {
	at        time.Time // first line
	id        string    // announced by a separator line of a restarter
	last      time.Time // newest line
	flags     map[string]string
	phases    phases
	ready     time.Time
	version   string
	modelName string

	capacity, headroom, maxRunning, context, kvGB sglang.Num
	freeGB                                        sglang.Num // before the weights, of the fullest GPU
	kvDtype                                       string
	hostGB                                        sglang.Num // 1e9 bytes a rank
	hicache                                       sglang.Num
	port                                          int
	addr                                          string

	level   level
	lanes   map[int16]*lane // by DP rank
	running metrics.Figure
	queued  metrics.Figure
	usage   metrics.Figure
	tokens  metrics.Figure
	perReq  metrics.Figure
	gen     metrics.Figure
	input   metrics.Figure
	accept  metrics.Figure
	repeats time.Time // since when every draft is accepted at a constant rate
	graph   *bool

	lastBatch  time.Time
	lastDecode time.Time
	firstToken time.Time
	// firstRequest is when the first batch began that is neither the engine's own
	// warm-up nor a health check.
	firstRequest time.Time
	posts        int64
	stood        bool    // the newest decode line made no token
	accessLog    bool    // the server logs its answers
	finishes     []int64 // unix seconds of finished requests, local clock
	answered     time.Time
	sinceBatch   int64 // requests answered since the last decode line
	retracts     []time.Time
	retracted    float64
	headless     bool // its beginning was not read
	broken       bool // bytes of this section were never read
	// whole is when the newest stretch began in which nothing is missing.
	whole time.Time

	faults   []fault
	stop     time.Time
	stopText string
	health   time.Time // newest failed health check
	noStats  bool      // vLLM: no line of figures will come
	jit      time.Time
	full     int64             // prefills as large as the engine makes them
	stuck    metrics.CauseFact // vLLM: the engine waits for its workers
	stuckFor float64           // seconds, since the newest batch
}

type fault struct {
	fact   metrics.CauseFact
	weight sglang.Weight
}

// lane is one DP rank's newest decode line.
type lane struct {
	at                      time.Time
	running, queued, tokens float64
	usage, tps              float64
	known                   bool
	gaps                    []float64
}

// reach notes that a line of time t was read.
func (s *section) reach(t time.Time) {
	if s.whole.IsZero() {
		s.whole = t
	}
	if t.After(s.last) {
		s.last = t
	}
}

// chunk is how many tokens a prefill has at most, 0 unknown.
func (s *section) chunk() float64 {
	n, ok := s.flagNum("chunked_prefill_size")
	if !ok || n <= 0 {
		return 0
	}
	if dp, ok := s.flagNum("dp_size"); ok && dp > 1 && s.flags["enable_dp_attention"] == "True" {
		n = math.Floor(n / dp)
	}
	return n
}

// primary is the cause of the section's end: the first fault that ends a
// server, else the first that ends it without saying why.
func (s *section) primary() int {
	for _, w := range []sglang.Weight{sglang.Fatal, sglang.Vague, sglang.Consequence} {
		for i, f := range s.faults {
			if f.weight == w {
				return i
			}
		}
	}
	return -1
}

// ended tells whether the log itself shows that the server ended.
func (s *section) ended() bool {
	i := s.primary()
	return i >= 0 && s.faults[i].weight != sglang.Remark
}

func (s *section) causes() []metrics.CauseFact {
	main := s.primary()
	out := make([]metrics.CauseFact, 0, len(s.faults))
	for i, f := range s.faults {
		f.fact.Primary = i == main
		if f.fact.Primary {
			out = append([]metrics.CauseFact{f.fact}, out...)
		} else {
			out = append(out, f.fact)
		}
	}
	return out
}

// finishedSince counts requests that finished at or after a moment; ok is false
// where the log of that time was not read.
func (s *section) finishedSince(t time.Time) (n int64, ok bool) {
	if !s.accessLog || t.Before(s.whole) || s.whole.IsZero() || int64(len(s.finishes)) < s.posts && (len(s.finishes) == 0 || t.Unix() < s.finishes[0]) {
		return 0, false
	}
	sec := t.Unix()
	lo, hi := 0, len(s.finishes)
	for lo < hi {
		m := (lo + hi) / 2
		if s.finishes[m] < sec {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return int64(len(s.finishes) - lo), true
}

// phases are the steps of a start-up in order.
type phases struct {
	name  string
	since time.Time
	done  int
	total int
	sign  time.Time
	took  []metrics.PhaseTook
}

func (p *phases) enter(name string, t time.Time) {
	p.sign = t
	if p.name == name {
		return
	}
	if p.name != "" {
		p.took = append(p.took, metrics.PhaseTook{Name: p.name, Took: t.Sub(p.since)})
	}
	p.name, p.since, p.done, p.total = name, t, 0, 0
}

// phaseOf names the phase that a start-up line begins, "" for none. Names are
// those of the field.
func phaseOf(step sglang.Step) string {
	switch step {
	case sglang.StepArgs:
		return "spawning ranks"
	case sglang.StepDistBegin:
		return "joining ranks"
	case sglang.StepWeightsBegin, sglang.StepWeightsProgress:
		return "loading weights"
	case sglang.StepWeightsEnd, sglang.StepProfiled, sglang.StepKVDtype, sglang.StepKVAllocated:
		return "allocating KV pool"
	case sglang.StepCaptureBegin, sglang.StepCaptureProgress:
		return "capturing graphs"
	case sglang.StepSummary, sglang.StepHostCache, sglang.StepTreeCache:
		return "pinning host cache"
	case sglang.StepProcess, sglang.StepListening, sglang.StepWarmup:
		return "warming up"
	case sglang.StepReady:
		return "ready"
	}
	return ""
}
