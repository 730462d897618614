package vllm

import (
	"bytes"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// Bounds of what is kept of one line, and of one record that was wrapped.
const (
	maxHeld = 4 // physical lines of one wrapped record
	// A wrapped record that has grown this long is none.
	maxHeldBytes = 4 << 10
)

// Parser turns the bytes of a log into events. Bytes come in chunks of any
// size; memory is bounded whatever they hold. The zero Parser is ready.
type Parser struct {
	emit func(*Event)

	cut  metrics.LineCutter
	line int64 // number of the current line, from 1

	outer  time.Time // collector's stamp of the current line
	around time.Time // that of the JSON record around it
	outPI  int       // collector's pid of the current line
	last   Stamp

	held     []byte
	heldHead head
	heldLine int64
	heldN    int

	trace traceback
	asgi  int64 // line at which uvicorn announced an exception of a handler

	procs  map[string]proc
	intern map[string]string

	ev        Event
	batch     Batch
	spec      Spec
	prefix    Prefix
	iteration Iteration
	counts    []Count
	startup   Startup
	progress  Progress
	access    Access
	wait      Wait
	fault     Fault
	stop      Stop
	dump      Dump
}

// proc is a process name and what it tells.
type proc struct {
	name string
	pid  int
	rank Rank
}

// SetLine says how many lines of the file came before the next byte.
func (p *Parser) SetLine(before int64) { p.cut.Lines, p.line = before, before }

// Lines is how many newlines the file had up to here.
func (p *Parser) Lines() int64 { return p.cut.Lines }

// Last is the stamp of the newest record, of whatever kind.
func (p *Parser) Last() Stamp { return p.last }

// Feed takes the next bytes of the log and hands each event to emit.
func (p *Parser) Feed(chunk []byte, emit func(*Event)) {
	p.emit = emit
	p.cut.Feed(chunk, p.at)
	p.line = p.cut.Lines
}

// Flush gives what waited for more: a last line without its end, a record that
// looked cut, a traceback without its last line. Call it when a file ends, or
// when a live log has been silent for a while; not after each chunk.
func (p *Parser) Flush(emit func(*Event)) {
	p.emit = emit
	p.cut.Flush(p.at)
	p.line = p.cut.Lines
	p.release()
	p.closeTrace()
}

func (p *Parser) at(line int64, b []byte) {
	p.line = line
	p.piece(b)
}

// Reset forgets a line and a record in progress, after a gap in the bytes.
func (p *Parser) Reset() {
	p.cut.Drop()
	p.held, p.heldN = p.held[:0], 0
	p.trace, p.asgi = traceback{}, 0
}

var (
	border    = []byte("│")
	separator = []byte(metrics.StartSeparator)
	// A record that shows a request's text; nothing in it is ours to read.
	requestWords = []byte("Received request ")
)

// piece takes one physical line.
func (p *Parser) piece(b []byte) {
	p.outer, p.outPI = p.around, 0
	if bytes.IndexByte(b, 0x1b) >= 0 || bytes.IndexByte(b, 0) >= 0 {
		b = []byte(metrics.Clean(string(b), 0))
	}
	if bytes.HasPrefix(b, border) || bytes.HasSuffix(bytes.TrimRight(b, " "), border) {
		b = bytes.Trim(bytes.TrimSuffix(bytes.TrimPrefix(bytes.TrimSpace(b), border), border), " ")
	}
	if len(b) == 0 {
		return
	}
	if b[0] == '{' && p.wrappedJSON(b) {
		return
	}
	at, h, n := findHead(b)
	if at < 0 {
		p.bare(b)
		return
	}
	if at > 0 && quotesText(b[:at]) {
		return // a request's text that holds log lines
	}
	if at > 0 {
		p.lead(b[:at], &h)
	}
	p.record(b[n:], h)
}

// quotesText tells a part of a line that shows a request's text.
func quotesText(b []byte) bool {
	for _, w := range quoteWords {
		if bytes.Contains(b, w) {
			return true
		}
	}
	return false
}

var quoteWords = [][]byte{
	[]byte("prompt:"), []byte("prompt="), []byte("'prompt"), []byte(`"prompt`), []byte("messages"), []byte("content"), []byte("text="),
	[]byte("'text'"), []byte(`"text"`), []byte("Received request"), []byte("Generated response"),
}

// lead reads what stands before a record: collectors' stamps, the process, and
// perhaps a progress bar that the record was glued to.
func (p *Parser) lead(b []byte, h *head) {
	rest := p.strip(b, h)
	if bytes.Contains(rest, []byte("%|")) || bytes.Contains(rest, []byte("% Completed")) {
		p.bar(rest, head{rank: NoRank})
		if i := bytes.LastIndexByte(rest, '('); i >= 0 {
			p.process(rest[i:], h)
		}
	}
}

// strip takes collectors' stamps and process names off the start of a line, and
// notes them in h and p.
func (p *Parser) strip(b []byte, h *head) []byte {
	for range 8 {
		b = bytes.TrimLeft(b, " ")
		n := p.outerLen(b)
		if n == 0 {
			if n = p.process(b, h); n == 0 {
				return b
			}
		}
		b = b[n:]
	}
	return b
}

// process reads "(NAME pid=N)" or "(NAME pid=N, ip=…)" at the start of b; n is its length.
func (p *Parser) process(b []byte, h *head) (n int) {
	if len(b) == 0 || b[0] != '(' {
		return 0
	}
	end := bytes.IndexByte(b[:min(len(b), 120)], ')')
	if end < 0 {
		return 0
	}
	if pr, ok := p.procs[string(b[:end])]; ok {
		p.put(h, pr)
		return end + 1
	}
	at := bytes.Index(b[:end], []byte("pid="))
	if at < 1 {
		return 0
	}
	var pr proc
	pid, digits := integer(b[at+len("pid="):])
	if digits == 0 {
		return 0
	}
	name := bytes.TrimRight(b[1:at], " ")
	pr.rank = NoRank
	if i := bytes.Index(name, []byte(" rank=")); i > 0 { // VllmWorker rank=0, until 0.10
		if r, k := integer(name[i+len(" rank="):]); k > 0 {
			pr.rank.Global = int16(r)
		}
		name = name[:i]
	}
	pr.name, pr.pid = metrics.Clean(string(name), 60), int(pid)
	if pr.rank == NoRank {
		pr.rank = rankOf(pr.name)
	}
	if p.procs == nil || len(p.procs) > 4096 {
		p.procs = map[string]proc{}
	}
	p.procs[string(b[:end])] = pr
	p.put(h, pr)
	return end + 1
}

// put notes a process; of nested ones (Ray's inside the engine's) the inner name
// counts, with whatever rank either tells.
func (p *Parser) put(h *head, pr proc) {
	h.proc, h.pid = pr.name, pr.pid
	if pr.rank != NoRank {
		h.rank = pr.rank
	}
}

// record takes a message with its prefix.
func (p *Parser) record(msg []byte, h head) {
	p.release()
	p.last = h.at
	whole := msg
	msg = bytes.TrimRight(msg, " ")
	if len(msg) == 0 || bytes.HasPrefix(msg, requestWords) {
		return
	}
	// Another record may be glued to this one.
	if at, h2, n2 := findHead(msg); at > 0 && !quotesText(msg[:at]) {
		first := msg[:at]
		if i := bytes.LastIndexByte(first, '('); i >= 0 && bytes.Contains(first[i:], []byte("pid=")) {
			p.process(first[i:], &h2)
			first = first[:i]
		}
		p.record(first, h)
		p.record(msg[n2:], h2)
		return
	}
	if body, engine, engines, ok := batchBody(msg); ok {
		p.batch.Engine, p.batch.Engines = engine, engines
		if !parseBatch(&p.batch, body) && p.heldN < maxHeld {
			p.hold(whole, h)
			return
		}
		p.begin(KindBatch, h).Batch = &p.batch
		p.emit(&p.ev)
		return
	}
	if p.specLine(msg, h) || p.companion(msg, h) || p.startupLine(msg, h) || p.accessLine(msg, h) || p.runtimeLine(msg, h) {
		return
	}
	if h.level == 'E' || h.level == 'C' {
		p.errorLine(msg, h)
	}
}

// hold keeps a record whose line was wrapped until the next line shows the rest.
func (p *Parser) hold(msg []byte, h head) {
	if p.heldN == 0 {
		p.heldLine = p.line
		p.held = append(p.held[:0], msg...)
	}
	h.file = nil
	p.heldHead = h
	p.heldN++
}

// release gives the held record as it is.
func (p *Parser) release() {
	if p.heldN == 0 {
		return
	}
	p.heldN = 0
	body, engine, engines, _ := batchBody(p.held)
	p.batch.Engine, p.batch.Engines = engine, engines
	parseBatch(&p.batch, body)
	line := p.line
	p.line = p.heldLine
	p.begin(KindBatch, p.heldHead).Batch = &p.batch
	p.emit(&p.ev)
	p.line = line
}

// continued tries a line without a prefix as the rest of the held record.
func (p *Parser) continued(b []byte) bool {
	if p.heldN == 0 {
		return false
	}
	rest := bytes.IndexByte(b, '%') >= 0 || bytes.Contains(b, []byte("reqs")) || bytes.Contains(b, []byte("put"))
	if !rest || len(p.held)+len(b) > maxHeldBytes || bytes.Contains(b, []byte("%|")) {
		p.release()
		return false
	}
	p.held = append(p.held, b...)
	p.heldN++
	body, engine, engines, _ := batchBody(p.held)
	p.batch.Engine, p.batch.Engines = engine, engines
	if parseBatch(&p.batch, body) || p.heldN >= maxHeld {
		p.release()
	}
	return true
}

// bare takes a line without a prefix of vLLM's own.
func (p *Parser) bare(b []byte) {
	if p.heldN > 0 && p.continued(b) {
		return
	}
	h := head{rank: NoRank}
	rest := p.strip(b, &h)
	if len(rest) == 0 {
		return
	}
	if h.pid == 0 {
		h.pid = p.outPI
	}
	if p.accessLine(rest, h) {
		return
	}
	if bytes.IndexByte(rest, '%') >= 0 && p.bareBatch(rest, h) {
		return
	}
	if bytes.IndexByte(rest, '%') >= 0 && p.bar(rest, h) {
		if i := bytes.Index(rest, []byte("][")); i >= 0 {
			p.bareFault(rest[i+1:], h)
		}
		return
	}
	if bytes.Contains(rest, separator) && !quotesText(rest) {
		if id, ok := metrics.SeparatorID(string(rest)); ok {
			p.closeTrace()
			p.begin(KindSeparator, h).Separator = metrics.Clean(id, 64)
			p.emit(&p.ev)
			return
		}
	}
	if p.uvicornLine(rest, h) {
		return
	}
	p.bareFault(rest, h)
}

// bareBatch takes figures whose prefix another logging setup replaced, or whose
// beginning a copy cut off: they are told by two keys that only they have.
func (p *Parser) bareBatch(b []byte, h head) bool {
	from := bytes.Index(b, []byte("Running: "))
	if from < 0 || !bytes.Contains(b[from:], []byte(" KV cache us")) {
		return false
	}
	for _, w := range [][]byte{[]byte("Avg generation t"), avgPrompt} {
		if j := bytes.Index(b[:from], w); j >= 0 {
			from = j
		}
	}
	lead := b[:from]
	if quotesText(lead) {
		return true // and not the log's own
	}
	p.batch.Engine, p.batch.Engines = -1, 0
	if e := bytes.LastIndex(lead, []byte("Engine ")); e >= 0 {
		if n, k := integer(lead[e+len("Engine "):]); k > 0 {
			p.batch.Engine = int(n)
		}
	}
	if s, _, ok := parseStamp(b, 0); ok {
		h.at, p.last = s, s
	}
	parseBatch(&p.batch, b[from:])
	p.begin(KindBatch, h).Batch = &p.batch
	p.emit(&p.ev)
	return true
}

// begin prepares the event that is about to be given.
func (p *Parser) begin(kind Kind, h head) *Event {
	pid := h.pid
	if pid == 0 {
		pid = p.outPI
	}
	p.ev = Event{Kind: kind, Line: p.line, At: h.at, Outer: p.outer, Level: h.level, Proc: h.proc, PID: pid, Rank: h.rank}
	return &p.ev
}

var dashQuote = []byte(` - "`)

// accessLine reads `10.0.0.7:42710 - "POST /v1/completions HTTP/1.1" 200 OK`.
func (p *Parser) accessLine(b []byte, h head) bool {
	i := bytes.Index(b[:min(len(b), 200)], dashQuote)
	if i < 0 {
		return false
	}
	who := b[:i]
	if j := bytes.LastIndexByte(who, ' '); j >= 0 {
		who = who[j+1:]
	}
	c := bytes.LastIndexByte(who, ':')
	if c <= 0 {
		return false
	}
	port, n := integer(who[c+1:])
	if n == 0 || c+1+n != len(who) {
		return false
	}
	req := b[i+len(dashQuote):]
	sp := bytes.IndexByte(req, ' ')
	if sp < 3 || sp > 8 {
		return false
	}
	for _, ch := range req[:sp] {
		if ch < 'A' || ch > 'Z' {
			return false
		}
	}
	path := req[sp+1:]
	status := 0
	if q := bytes.IndexByte(path, '"'); q >= 0 {
		if v, n := integer(bytes.TrimLeft(path[q+1:], " ")); n == 3 {
			status = int(v)
		}
		path = path[:q]
	}
	if s := bytes.IndexByte(path, ' '); s >= 0 {
		path = path[:s]
	}
	if q := bytes.IndexByte(path, '?'); q >= 0 {
		path = path[:q]
	}
	p.access = Access{Client: p.str(who[:c]), Port: int(port), Method: p.str(req[:sp]), Path: p.str(path), Status: status}
	p.begin(KindAccess, h).Access = &p.access
	p.emit(&p.ev)
	return true
}

// str interns short strings that repeat on every line.
func (p *Parser) str(b []byte) string {
	if s, ok := p.intern[string(b)]; ok {
		return s
	}
	if p.intern == nil || len(p.intern) > 4096 {
		p.intern = map[string]string{}
	}
	s := metrics.Clean(string(b), 256)
	p.intern[string(b)] = s
	return s
}
