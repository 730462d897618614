package board

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/sglang"
)

const sourceLog = "log"

// work is everything that an engine's log tells: its starts and the series over
// all of them.
type work struct {
	path     string
	parser   sglang.Parser
	numbered bool // line numbers are those of the file
	sections []*section
	engine   string // whose log it is, "" for none's so far
	vllm     vllmLog

	gen, in, running, queued, usage, perReq, accept metrics.Series

	// Set for the duration of one line.
	board *Board
	log   *logState
	read  time.Time
	emit  func(*sglang.Event)
}

func newWork(path string) *work {
	w := &work{path: path}
	w.emit, w.vllm.emit = w.event, w.vllmEvent
	return w
}

// cut tells that bytes are missing before the next line.
func (w *work) cut() {
	w.parser.Reset()
	w.vllm.parser.Reset()
	if s := w.section(); s != nil {
		s.broken, s.whole = true, time.Time{}
		for _, l := range s.lanes {
			l.at = time.Time{}
		}
	}
}

// section is the newest start, nil before the first line of one.
func (w *work) section() *section {
	if len(w.sections) == 0 {
		return nil
	}
	return w.sections[len(w.sections)-1]
}

// stamp places a log stamp on the local clock.
func (w *work) stamp(s sglang.Stamp) (time.Time, bool) {
	if !s.Known {
		return time.Time{}, false
	}
	if s.Year {
		return w.board.local(time.Unix(s.Sec-int64(w.log.zone), int64(s.Nano)).UTC()), true
	}
	t, ok := s.Time(w.read.Add(w.board.offset), time.FixedZone("", w.log.zone))
	return w.board.local(t.UTC()), ok
}

// begin opens a section. The one before is over.
func (w *work) begin(t time.Time, id string) *section {
	s := &section{at: t, id: id, last: t, whole: t, lanes: map[int16]*lane{}}
	w.sections = append(w.sections, s)
	if over := len(w.sections) - sectionsKeep; over > 0 {
		w.sections = slices.Clone(w.sections[over:])
	}
	return s
}

// event takes one event of the log.
func (w *work) event(e *sglang.Event) {
	t, ok := w.stamp(e.At)
	s := w.section()
	if !ok {
		t = w.read
		if last, ok := w.stamp(w.parser.LastRecord()); ok {
			t = last
		} else if s != nil && w.log.head.Backfill != 0 {
			t = s.last
		}
	}
	if t.After(w.read.Add(time.Minute)) {
		t = w.read
	}
	switch {
	case e.Kind == sglang.KindSeparator:
		w.begin(t, e.Separator)
		return
	case e.Kind == sglang.KindStartup && e.Startup.Step == sglang.StepArgs:
		// A restarter's separator came just before the arguments of the same start.
		switch {
		case s == nil || s.id == "" || s.flags != nil || len(s.phases.took) > 0:
			s = w.begin(t, "")
		case ok:
			s.at = t // the separator itself has no time
		}
	case s == nil:
		s = w.begin(t, "")
		s.headless, s.broken = true, true
	}
	s.reach(t)
	if w.engine == "" && (e.Kind == sglang.KindBatch || e.Kind == sglang.KindStartup && !shared(e.Startup.Step)) {
		w.engine = "sglang"
	}
	switch e.Kind {
	case sglang.KindBatch:
		w.batch(s, e, t)
	case sglang.KindStartup:
		w.startup(s, e.Startup, t)
	case sglang.KindAccess:
		w.access(s, e.Access.Method, e.Access.Path, e.Access.Status, t)
	case sglang.KindRetraction:
		n := max(e.Retract.Requests.V, 1)
		s.retracted += n
		for range int(min(n, 1000)) {
			s.retracts = append(s.retracts, t)
		}
		if over := len(s.retracts) - 5000; over > 0 {
			s.retracts = slices.Clone(s.retracts[over:])
		}
	case sglang.KindFault:
		rank := ""
		if e.Rank.Known() {
			rank = e.Rank.String()
		}
		w.fault(s, metrics.CauseFact{Class: e.Fault.Class, Detail: e.Fault.Detail, Phase: e.Fault.Phase, Rank: rank, At: t, LineNo: e.Line}, e.Fault.Weight)
	case sglang.KindStop:
		if s.stop.IsZero() {
			s.stop = t
			s.stopText = e.Stop.Signal
		}
	case sglang.KindHealth:
		s.health = t
	}
}

// shared tells the lines of the HTTP server that every engine has.
func shared(step sglang.Step) bool {
	return step == sglang.StepProcess || step == sglang.StepListening || step == sglang.StepJIT
}

func (w *work) startup(s *section, u *sglang.Startup, t time.Time) {
	if u.Step == sglang.StepJIT {
		s.jit, s.phases.sign = t, t
		return
	}
	if s.ready.IsZero() {
		if name := phaseOf(u.Step); name != "" {
			s.phases.enter(name, t)
		}
		if u.Total > 0 {
			s.phases.done, s.phases.total = u.Done, u.Total
		}
	}
	set := func(to *sglang.Num, n sglang.Num) {
		if n.Known {
			*to = n
		}
	}
	switch u.Step {
	case sglang.StepArgs:
		s.flags = u.Flags
		s.kvDtype = u.Flags["kv_cache_dtype"]
	case sglang.StepWeightsBegin:
		// A draft model is loaded after the pool of the main one is laid out.
		if u.AvailGB.Known && !s.capacity.Known && (!s.freeGB.Known || u.AvailGB.V < s.freeGB.V) {
			s.freeGB = u.AvailGB
		}
	case sglang.StepKVDtype, sglang.StepKVAllocated:
		if u.Dtype != "" {
			s.kvDtype = strings.TrimPrefix(u.Dtype, "torch.")
		}
		set(&s.capacity, u.Tokens)
		kv := u.KVGB
		if !kv.Known && u.KGB.Known && u.VGB.Known {
			kv = sglang.Num{V: u.KGB.V + u.VGB.V, Known: true}
		}
		if u.Label == "" {
			set(&s.kvGB, kv)
		}
	case sglang.StepSummary:
		set(&s.capacity, u.Tokens)
		set(&s.headroom, u.AvailGB)
		set(&s.maxRunning, u.MaxRunning)
		set(&s.context, u.ContextLen)
	case sglang.StepHostCache:
		set(&s.hostGB, u.HostGB)
		s.hicache = sglang.Num{V: 1, Known: true}
	case sglang.StepTreeCache:
		set(&s.hicache, u.HiCache)
	case sglang.StepListening:
		s.port, s.addr = u.Port, u.Addr
	case sglang.StepReady:
		s.ready = t
		w.board.event(metrics.Event{At: t, Kind: "ready", Text: fmt.Sprintf("server ready after %s", metrics.Age(t.Sub(s.at))), Ref: w.path})
	}
}

// generating tells the paths whose answers are finished requests.
func generating(p string) bool {
	switch p {
	case "/generate", "/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/messages":
		return true
	}
	return false
}

func (w *work) access(s *section, method, path string, status int, t time.Time) {
	s.accessLog = true
	if method != "POST" || status != 200 || !generating(path) {
		return
	}
	if s.ready.IsZero() && s.lastDecode.IsZero() {
		return // the server's own warm-up
	}
	s.posts++
	s.sinceBatch++
	s.answered = t
	if n := len(s.finishes); n > 0 && t.Unix() < s.finishes[n-1] {
		t = time.Unix(s.finishes[n-1], 0)
	}
	s.finishes = append(s.finishes, t.Unix())
	if over := len(s.finishes) - finishKeep; over > 0 {
		s.finishes = append(s.finishes[:0], s.finishes[over:]...)
	}
}

// fault keeps what went wrong, once a class and rank.
func (w *work) fault(s *section, fact metrics.CauseFact, weight sglang.Weight) {
	fact.Line = fact.Detail
	line := w.log.lineWith(fact.Detail)
	if !w.numbered {
		fact.LineNo = 0
	} else if l := w.log.lineAt(fact.LineNo); l != nil {
		line = l
	}
	if line != nil {
		fact.Line, fact.Off = line.Text, line.Off
	}
	for _, f := range s.faults {
		if f.fact.Class == fact.Class && f.weight == weight && f.fact.Rank == fact.Rank {
			return
		}
	}
	if len(s.faults) >= 40 {
		return
	}
	s.faults = append(s.faults, fault{fact, weight})
	if i := s.primary(); i == len(s.faults)-1 && (weight == sglang.Fatal || weight == sglang.Vague) {
		w.board.event(metrics.Event{At: fact.At, Kind: "crash", Text: metrics.Cut(string(fact.Class)+": "+fact.Detail, 160), Ref: w.path})
	}
}

// lineAt finds a line of the tail by its number, nil for none.
func (l *logState) lineAt(no int64) *metrics.LogLine {
	i := int64(len(l.lines)) - 1 - (l.lineNo - 1 - no)
	if l.lineNo == 0 || i < 0 || i >= int64(len(l.lines)) {
		return nil
	}
	return &l.lines[i]
}

// lineWith finds the newest of the last lines that holds a text, nil for none.
func (l *logState) lineWith(text string) *metrics.LogLine {
	text = strings.TrimSuffix(text, "…")
	for i := len(l.lines) - 1; i >= max(0, len(l.lines)-lately) && text != ""; i-- {
		if strings.Contains(l.lines[i].Text, text) {
			return &l.lines[i]
		}
	}
	return nil
}

// lately is how many lines back a cause is looked for that its log does not number.
const lately = 400

func (w *work) batch(s *section, e *sglang.Event, t time.Time) {
	if e.Rank.TP > 0 || e.Rank.PP > 0 || e.Rank.CP > 0 {
		return // a copy: the first rank of each DP rank speaks for all
	}
	bt := e.Batch
	if bt.Probe || !plausible(bt, s.capacity) {
		return
	}
	if bt.Decode && bt.GenTPS.Known && bt.GenTPS.V == 0 && bt.Running.V > 0 {
		// One may be the first after hours without work, over which its tokens are
		// spread; the second in a row made none.
		if s.stood {
			w.stalled(s, e, t)
			return
		}
		s.stood = true
	} else if bt.Decode {
		s.stood = false
	}
	s.lastBatch = t
	switch {
	case s.ready.IsZero():
		s.phases.sign = t
	case s.firstRequest.IsZero() && !s.headless:
		s.firstRequest = t
	}
	fig := func(n sglang.Num) metrics.Figure {
		if !n.Known {
			return metrics.Figure{}
		}
		return metrics.Known(n.V, t, slowGap, sourceLog)
	}
	if !bt.Decode {
		s.level.started = t
		if n := s.chunk(); n > 0 && bt.NewToken.V >= 0.95*n {
			s.full++
		}
		if bt.InputTPS.Known {
			s.input = fig(bt.InputTPS)
			w.in.Add(t, bt.InputTPS.V)
		}
		s.queued = fig(bt.Queued).Or(s.queued)
		if s.lastDecode.IsZero() && bt.Running.Known {
			s.running = fig(sglang.Num{V: bt.Running.V + bt.NewSeq.V, Known: true}) // the line counts those before it
		}
		return
	}
	w.decode(s, e, t)
	if bt.Graph.Known {
		on := bt.Graph.V != 0
		s.graph = &on
	}
	if bt.AcceptLen.Known {
		s.accept = fig(bt.AcceptLen)
		w.accept.Add(t, bt.AcceptLen.V)
	}
}

// reading is what one line of figures tells about one DP rank.
type reading struct {
	running, queued, tokens, usage, tps sglang.Num
}

// decode takes an SGLang decode line.
// plausible tells a real batch from text that looks like one, as a prompt in a
// request log may: a running request has at least one token, and the usage that
// is printed is that of the tokens.
func plausible(bt *sglang.Batch, capacity sglang.Num) bool {
	tokens := bt.LiveTokens()
	if bt.Decode && bt.Running.Known && tokens.Known && bt.Running.V > tokens.V {
		return false
	}
	usage, _ := bt.Binding()
	return !(bt.Usage.Known && usage.Known && tokens.Known && capacity.Known && capacity.V > 0 && math.Abs(tokens.V/capacity.V-usage.V) > 0.05)
}

func (w *work) decode(s *section, e *sglang.Event, t time.Time) {
	bt := e.Batch
	usage, _ := bt.Binding()
	w.take(s, e.Rank.DP, reading{bt.Running, bt.Queued, bt.LiveTokens(), usage, bt.GenTPS}, t)
}

// stalled takes a line that counts requests and tells of no token: what runs is
// known, and nothing has moved.
func (w *work) stalled(s *section, e *sglang.Event, t time.Time) {
	l := s.lanes[e.Rank.DP]
	if l == nil {
		return
	}
	l.at, l.running, l.queued, l.tps = t, e.Batch.Running.V, e.Batch.Queued.V, 0
	w.sum(s, t, false, reading{running: e.Batch.Running, queued: e.Batch.Queued})
}

// take puts a reading into its DP rank's lane and sums the lanes.
func (w *work) take(s *section, dp int16, r reading, t time.Time) {
	l := s.lanes[dp]
	if l == nil {
		l = &lane{}
		s.lanes[dp] = l
	}
	gap := t.Sub(l.at)
	fresh := !l.at.IsZero() && gap >= 0
	slow := l.interval()
	valid := fresh && gap <= max(slowGap, 4*slow) && r.tps.Known
	if fresh && gap < idleGap {
		l.gaps = append(l.gaps, gap.Seconds())
		if len(l.gaps) > intervals {
			l.gaps = append(l.gaps[:0], l.gaps[1:]...)
		}
	}
	l.at, l.known = t, true
	l.running, l.queued = r.running.V, r.queued.V
	l.tokens, l.usage, l.tps = orNaN(r.tokens), orNaN(r.usage), orNaN(r.tps)
	if s.firstToken.IsZero() {
		s.firstToken = t
		w.board.event(metrics.Event{At: t, Kind: "ready", Text: "first tokens", Ref: w.path})
	}
	s.lastDecode, s.sinceBatch = t, 0
	w.sum(s, t, valid, r)
}

func orNaN(n sglang.Num) float64 {
	if !n.Known {
		return math.NaN()
	}
	return n.V
}

// interval is the usual time between this lane's decode lines.
func (l *lane) interval() time.Duration {
	if len(l.gaps) < 3 {
		return 0
	}
	return time.Duration(median(l.gaps) * float64(time.Second))
}

// sum adds up the DP ranks that spoke lately: throughput, running and queued
// are sums, usage is that of the fullest.
func (w *work) sum(s *section, t time.Time, valid bool, r reading) {
	var running, queued, tokens, tps float64
	usage := math.NaN()
	every := slowGap
	for _, k := range sortedKeys(s.lanes) {
		l := s.lanes[k]
		if !l.known || t.Sub(l.at) > max(time.Minute, 4*l.interval()) {
			continue
		}
		running, queued = running+l.running, queued+l.queued
		tokens += l.tokens
		tps += l.tps
		every = max(every, l.interval())
		if !(l.usage <= usage) && !math.IsNaN(l.usage) {
			usage = l.usage
		}
	}
	fig := func(v float64, known bool) metrics.Figure {
		if !known || math.IsNaN(v) {
			return metrics.Figure{}
		}
		return metrics.Known(v, t, every, sourceLog)
	}
	put := func(to *metrics.Figure, series *metrics.Series, v float64, known bool) {
		f := fig(v, known)
		if f.Known {
			*to = f
			series.Add(t, v)
		}
	}
	put(&s.running, &w.running, running, r.running.Known)
	put(&s.queued, &w.queued, queued, r.queued.Known)
	put(&s.usage, &w.usage, usage, true)
	s.tokens = fig(tokens, true)
	perReq := math.NaN()
	if running > 0 && r.running.Known {
		perReq = tokens / running
	}
	put(&s.perReq, &w.perReq, perReq, true)
	if !valid || math.IsNaN(tps) {
		return
	}
	put(&s.gen, &w.gen, tps, true)
	if !r.running.Known {
		return
	}
	was := s.level.settled
	waiting := math.NaN()
	if r.queued.Known {
		waiting = queued
	}
	s.level.add(point{t: t, running: running, queued: waiting, perReq: perReq, tps: tps})
	if s.level.settled && !was {
		med, _ := s.level.value()
		w.board.event(metrics.Event{At: s.level.since, Kind: "settled", Text: fmt.Sprintf("settled at %s tok/s", metrics.Count(med)), Ref: w.path})
	}
}

// retractRate is retractions a minute over the ten minutes before now.
func (s *section) retractRate(now time.Time) float64 {
	n := 0
	for i := len(s.retracts) - 1; i >= 0 && now.Sub(s.retracts[i]) <= rateSpan; i-- {
		n++
	}
	return float64(n) / rateSpan.Minutes()
}

// flagNum reads a number among the effective server arguments.
func (s *section) flagNum(name string) (float64, bool) {
	v, err := strconv.ParseFloat(s.flags[name], 64)
	return v, err == nil
}

func sortedKeys(m map[int16]*lane) []int16 {
	out := make([]int16, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
