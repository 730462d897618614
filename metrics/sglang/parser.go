package sglang

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// Bounds of what is kept of one line, and of one record that spans several.
const (
	maxHeld = 8   // physical lines of one wrapped batch record
	maxArgs = 256 // those of the server arguments
)

// Parser turns the bytes of a log into events. Bytes come in chunks of any
// size; memory is bounded whatever they hold. The zero Parser is ready.
type Parser struct {
	emit func(*Event)

	cut  metrics.LineCutter
	line int64 // number of the current line, from 1

	last   head      // prefix of the newest record
	outer  time.Time // collector's stamp of the current line
	around time.Time // that of the JSON record around it

	// held is a record whose end seems to stand on the next line.
	held     []byte
	heldHead head
	heldLine int64
	heldN    int
	heldArgs bool
	// prev is the batch record just given, until another line shows that it was
	// whole; foldAt is the width at which this log's lines are folded, 0 unknown.
	prev     []byte
	prevHead head
	prevLine int64
	prevLen  int
	width    int // of the current physical line
	foldAt   int

	trace     traceback
	prompt    int  // lines left of a request's text that runs over several lines
	quote     byte // the quote that ends it
	native    bool // the last line was a native stack frame
	rayPID    int  // pid in the Ray prefix of the current line
	outerRank Rank // rank in a prefix that is not the log's own

	intern map[string]string

	ev      Event
	batch   Batch
	startup Startup
	access  Access
	retract Retraction
	fault   Fault
	stop    Stop
	health  Health
	dump    Dump
}

// SetLine says how many lines of the file came before the next byte.
func (p *Parser) SetLine(before int64) { p.cut.Lines, p.line = before, before }

// Lines is how many newlines the file had up to here.
func (p *Parser) Lines() int64 { return p.cut.Lines }

// LastRecord is the stamp of the newest record, of whatever kind.
func (p *Parser) LastRecord() Stamp { return p.last.at }

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
	p.held, p.prev, p.heldN = p.held[:0], p.prev[:0], 0
	p.trace = traceback{}
	p.prompt, p.native = 0, false
}

var separatorBytes = []byte(metrics.StartSeparator)

// piece takes one physical line: strips what collectors and terminals put
// around it and finds the records in it.
func (p *Parser) piece(b []byte) {
	p.outer, p.rayPID, p.outerRank = p.around, 0, NoRank
	p.width = len(b)
	if bytes.IndexByte(b, 0x1b) >= 0 || bytes.IndexByte(b, 0) >= 0 {
		b = []byte(metrics.Clean(string(b), 0))
	}
	if len(b) > 0 && (b[0] == 0xe2 || b[len(b)-1] >= 0x80) {
		b = trimBorder(b)
	}
	if len(b) == 0 {
		return
	}
	if b[0] == '[' {
		if h, n, ok := parseHead(b); ok {
			p.record(b, h, n)
			return
		}
	}
	rest := p.stripOuter(b)
	if len(rest) == 0 {
		return
	}
	if rest[0] == '{' && p.wrappedJSON(rest) {
		return
	}
	if bytes.Contains(rest, separatorBytes) && p.prompt == 0 {
		if id, ok := metrics.SeparatorID(string(rest)); ok && !quotesText(rest) {
			p.release()
			p.closeTrace()
			p.begin(KindSeparator, head{rank: NoRank}).Separator = metrics.Clean(id, 64)
			p.emit(&p.ev)
			return
		}
	}
	if at, h, n := findHead(rest); at >= 0 {
		if at == 0 {
			p.record(rest, h, n)
			return
		}
		if !quotesText(rest[:at]) {
			p.text(rest[:at])
			p.record(rest[at:], h, n)
			return
		}
	}
	p.text(rest)
}

// findHead looks for a record's prefix inside a line; only one with a time counts.
func findHead(b []byte) (at int, h head, n int) {
	for i := 0; i < len(b); {
		j := bytes.IndexByte(b[i:], '[')
		if j < 0 {
			break
		}
		i += j
		if h, n, ok := parseHead(b[i:]); ok && (h.at.Known || i == 0) {
			return i, h, n
		}
		i++
	}
	return -1, head{}, 0
}

// quotesText tells a line that shows a request's text, which may look like a log.
func quotesText(b []byte) bool {
	for _, w := range quoteWords {
		if bytes.Contains(b, w) {
			return true
		}
	}
	if bytes.IndexByte(b, '\'') < 0 && bytes.IndexByte(b, '"') < 0 {
		return false // a progress bar over prompts, not a prompt
	}
	for _, w := range quotedWords {
		if bytes.Contains(b, w) {
			return true
		}
	}
	return false
}

var (
	quoteWords  = [][]byte{[]byte("text="), []byte("'text'"), []byte(`"text"`), []byte("input_ids"), []byte("Receive:"), []byte("Finish:")}
	quotedWords = [][]byte{[]byte("prompt"), []byte("messages"), []byte("content")}
)

// request tells a record that logs a request; nothing behind its prefix is ours to read.
func request(msg []byte) bool {
	switch msg[0] {
	case 'R':
		return bytes.HasPrefix(msg, []byte("Receive:")) || bytes.HasPrefix(msg, []byte("Receive ")) || bytes.HasPrefix(msg, []byte("Received request"))
	case 'i':
		return bytes.HasPrefix(msg, []byte("in=")) // 0.3
	case 'F':
		return bytes.HasPrefix(msg, []byte("Finish:")) || bytes.HasPrefix(msg, []byte("Finish "))
	case '{':
		return true
	}
	return false
}

// Lines that a request's text may run over, and the seconds within which a
// record that follows is the log's own and not part of the text.
const (
	promptLines   = 64
	promptSeconds = 120
)

// record takes a line that begins with a prefix.
func (p *Parser) record(b []byte, h head, n int) {
	msg := b[n:]
	if p.prompt > 0 {
		d, ok := h.at.Sub(p.last.at)
		if !ok || d < 0 || d > promptSeconds {
			p.promptLine(b)
			return
		}
		p.prompt = 0
	}
	p.release()
	p.prev = p.prev[:0]
	p.native = false
	if h.at.Known || h.rank.Known() {
		p.last = h
	}
	if len(msg) == 0 {
		return
	}
	if request(msg) {
		if q := openQuote(msg); q != 0 && len(msg) < metrics.MaxLine {
			p.prompt, p.quote = promptLines, q
		}
		return
	}
	// Several records may share a line.
	if at, h2, n2 := findHead(msg); at > 0 && anchored(msg[at+n2:]) && !quotesText(msg[:at]) {
		p.message(torn(msg[:at]), h)
		p.record(msg[at:], h2, n2)
		return
	}
	p.message(msg, h)
}

// torn takes the last number off a batch record that another process wrote
// into: without the key that ends every record, that number may be cut.
func torn(msg []byte) []byte {
	if _, _, ok := batchBody(msg); !ok || bytes.Contains(msg, []byte("#queue-req: ")) || !digit(msg[len(msg)-1]) {
		return msg
	}
	if comma := bytes.LastIndex(msg, []byte(", ")); comma > 0 {
		return msg[:comma]
	}
	return msg
}

// anchored tells a message by which a prefix inside a line proves to be one.
func anchored(msg []byte) bool {
	for _, w := range anchors {
		if bytes.HasPrefix(msg, w) {
			return true
		}
	}
	return false
}

var anchors = [][]byte{
	wordDecode, wordPrefill, []byte("INFO: "), []byte("max_total_num_tokens="), []byte("Load weight "), []byte("Capture "),
	[]byte("KV Cache is "), []byte("Memory pool end"), []byte("Init torch "), []byte("Allocating "), []byte("Scheduler hit "),
	[]byte("KV cache pool is full"), []byte("server_args="), []byte("The server is fired up"), []byte("Using "),
	[]byte("SIGQUIT"), []byte("SIGTERM"), []byte("Received sigquit"), []byte("Scheduler watchdog"),
}

// openQuote finds whether a Python string literal is still open at the end of
// the line, and gives its quote.
func openQuote(b []byte) byte {
	if last := b[len(b)-1]; last == ')' || last == '}' {
		return 0
	}
	var q byte
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case q == 0 && (c == '\'' || c == '"'):
			// An apostrophe inside a word opens nothing.
			if i == 0 || !letter(b[i-1]) {
				q = c
			}
		case q != 0 && c == '\\':
			i++
		case c == q:
			q = 0
		}
	}
	return q
}

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// promptLine takes a line inside a request's text and sees whether it ends there.
func (p *Parser) promptLine(b []byte) {
	p.prompt--
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case p.quote:
			p.prompt = 0
			return
		}
	}
}

// message takes a record's text.
func (p *Parser) message(msg []byte, h head) {
	if msg = skipLogger(msg); len(msg) == 0 {
		return // a logger's prefix with nothing behind it
	}
	if body, decode, ok := batchBody(msg); ok {
		p.batchLine(body, decode, h, msg)
		return
	}
	if p.accessLine(msg, h) || p.startupLine(msg, h) || p.runtimeLine(msg, h) {
		return
	}
	if p.inside(msg, h) {
		return
	}
	p.faultRecord(msg, h)
}

// skipLogger takes off "INFO model_runner.py:1101: ", which a logging
// configuration of the operator's puts behind the bracket.
func skipLogger(msg []byte) []byte {
	i := bytes.IndexByte(msg[:min(len(msg), 9)], ' ')
	if i < 4 || msg[i-1] < 'A' || msg[i-1] > 'Z' {
		return msg
	}
	switch string(msg[:i]) {
	case "INFO", "DEBUG", "WARNING", "ERROR", "CRITICAL":
	default:
		return msg
	}
	place := msg[i+1 : min(len(msg), i+80)]
	end := bytes.Index(place, []byte(": "))
	if end < 1 || !digit(place[end-1]) || bytes.IndexByte(place[:end], ':') < 1 || bytes.IndexByte(place[:end], ' ') >= 0 {
		return msg
	}
	return msg[i+1+end+2:]
}

// inside finds a batch line behind words that another logger put first, or
// whose own first words are lost. Only figures count: prose about batches has none.
func (p *Parser) inside(b []byte, h head) bool {
	if bytes.IndexByte(b, '#') < 0 || quotesText(b) {
		return false
	}
	for _, w := range [][]byte{wordDecode, wordPrefill, wordFill} {
		at := bytes.Index(b, w)
		if at < 0 {
			continue
		}
		body, decode, ok := batchBody(b[at:])
		if !ok {
			continue
		}
		if !h.at.Known {
			h = looseHead(b[:at])
		}
		if h.at.Known {
			p.last = h
		}
		p.batchLine(body, decode, h, b[at:])
		return true
	}
	// 0.1 prints the figures of a decode batch without the words.
	if bytes.HasPrefix(b, []byte("#running-req: ")) && bytes.Contains(b, []byte("gen throughput")) {
		p.batchLine(b, true, h, append([]byte("Decode batch, "), b...))
		return true
	}
	return false
}

func (p *Parser) batchLine(body []byte, decode bool, h head, msg []byte) {
	if p.trace.open && p.trace.head.rank == h.rank {
		p.closeTrace()
	}
	if !parseBatch(&p.batch, body, decode) && p.heldN < maxHeld || p.heldN == 0 && p.width == p.foldAt {
		p.hold(msg, h, false)
		return
	}
	p.begin(KindBatch, h).Batch = &p.batch
	p.emit(&p.ev)
	p.prev, p.prevHead, p.prevLine, p.prevLen = append(p.prev[:0], msg...), h, p.line, p.width
}

// text takes a line, or a part of one, without a prefix.
func (p *Parser) text(b []byte) {
	if p.prompt > 0 {
		p.promptLine(b)
		return
	}
	if p.continued(b) {
		return
	}
	p.prev = p.prev[:0]
	h := head{rank: NoRank}
	if p.inside(b, h) {
		return
	}
	if p.accessLine(b, h) || p.progressBar(b) || p.dumpLine(b, h) {
		return
	}
	if anchored(b) && (p.startupLine(b, h) || p.runtimeLine(b, h)) {
		return
	}
	p.faultText(b)
}

// begin prepares the event that is about to be given.
func (p *Parser) begin(kind Kind, h head) *Event {
	p.ev = Event{Kind: kind, Line: p.line, At: h.at, Rank: h.rank, Outer: p.outer}
	return &p.ev
}

// wrappedJSON takes a line of JSON objects that carry log text in a field, as
// docker's json-file driver and cloud exports write them.
func (p *Parser) wrappedJSON(b []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(b))
	found := false
	for dec.More() {
		var rec struct {
			Log     *string `json:"log"`
			Message *string `json:"message"`
			Msg     *string `json:"msg"`
			Payload *string `json:"textPayload"`
			Time    string  `json:"time"`
			Stamp   string  `json:"timestamp"`
		}
		if err := dec.Decode(&rec); err != nil {
			break
		}
		var text string
		switch {
		case rec.Log != nil:
			text = *rec.Log
		case rec.Payload != nil:
			text = *rec.Payload
		case rec.Message != nil:
			text = *rec.Message
		case rec.Msg != nil:
			text = *rec.Msg
		default:
			continue
		}
		found = true
		var outer time.Time
		for _, s := range []string{rec.Time, rec.Stamp} {
			if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
				outer = t
				break
			}
		}
		for _, piece := range bytes.FieldsFunc([]byte(text), func(r rune) bool { return r == '\n' || r == '\r' }) {
			if piece[0] == '{' {
				continue // a request logged as JSON
			}
			p.around = outer
			p.piece(piece)
			p.around = time.Time{}
		}
	}
	return found
}

// str interns short strings that repeat on every line.
func (p *Parser) str(b []byte) string {
	if s, ok := p.intern[string(b)]; ok {
		return s
	}
	if p.intern == nil || len(p.intern) > 4096 {
		p.intern = map[string]string{}
	}
	s := metrics.Mask(metrics.Clean(string(b), 256))
	p.intern[string(b)] = s
	return s
}
