package jsonl

import (
	"bytes"

	"github.com/runvigil/runvigil/metrics"
)

// MaxTail is the most bytes of a file's end that are judged at a time.
const MaxTail = 64 << 10

// Judge reduces the last bytes of a JSONL file to facts. tail ends where the
// file ended when it was read; whole tells that it begins at the start of a row,
// otherwise its first line is left out. A last line without a newline is judged
// only if it is a whole object: a torn one is not a bad row, its writer may be
// in the middle of it. Lengths and Hashes follow the rows' order.
func Judge(tail []byte, whole bool, salt []byte) metrics.RowsJudged {
	if len(tail) > MaxTail {
		tail, whole = tail[len(tail)-MaxTail:], false
	}
	var f facts
	f.salt = salt
	if bytes.IndexByte(tail, 0) >= 0 {
		f.j.NUL = true
	}
	if !whole {
		i := bytes.IndexByte(tail, '\n')
		if i < 0 {
			return f.j
		}
		tail = tail[i+1:]
	}
	for line := range bytes.Lines(tail) {
		f.line(line)
	}
	return f.done()
}

// facts adds up rows.
type facts struct {
	salt   []byte
	j      metrics.RowsJudged
	tokens []int
	runes  []int
	told   int // rows with an output whose tokens are told
	pretty int // invalid lines that look like pieces of indented JSON
	torn   bool
	lastID []byte
	glued  int // lines that hold more than one whole row
	// byLine hashes rows without an id by their whole text.
	byLine bool
}

func (f *facts) line(line []byte) {
	body := bytes.TrimRight(line, "\r\n \t")
	ended := len(line) > 0 && line[len(line)-1] == '\n'
	body = bytes.TrimLeft(body, " \t\ufeff")
	if len(body) == 0 {
		return
	}
	// One big array written one element a line.
	elem := bytes.TrimSuffix(body, []byte(","))
	if len(body) == 1 && (body[0] == '[' || body[0] == ']') {
		f.pretty++
		return
	}
	r, ok := judge(elem)
	if !ok {
		if !ended {
			f.torn = true
			return
		}
		f.j.Rows++
		f.j.Invalid++
		if glued(elem) {
			f.glued++
		}
		if c := body[0]; c == '"' || c == '}' || c == ']' || len(body) == 1 {
			f.pretty++
		}
		return
	}
	f.j.Rows++
	if f.byLine && r.idRank == 0 {
		r.idRank, r.id = lineRank, elem
	}
	f.add(&r)
}

// lineRank stands for a row that is named by its own text.
const lineRank = 100

// glued tells a line in which one whole row is followed by the start of another:
// two writers, or one whose newline was lost.
func glued(line []byte) bool {
	s := &scanner{b: line}
	return s.peek() == '{' && s.skip() && s.peek() == '{'
}

func (f *facts) add(r *row) {
	switch {
	case r.failed:
		f.j.Errors++
	case r.empty():
		f.j.Empty++
	}
	if r.finish != finishUnknown {
		f.j.Finished++
	}
	if r.finish == finishLength {
		f.j.Truncated++
	}
	t, n := r.length()
	if !r.failed && (r.rank > 0 || t >= 0) {
		f.tokens = append(f.tokens, t)
		f.runes = append(f.runes, n)
		if t >= 0 {
			f.told++
		}
	}
	if h, ok := r.hash(f.salt); ok {
		f.j.Hashes = append(f.j.Hashes, h)
	}
	if r.idRank > 0 && r.idRank != lineRank {
		f.lastID = r.id
	}
}

// done settles the unit of the lengths, which is one for all, and drops facts
// about a file that is not JSONL at all but indented JSON.
func (f *facts) done() metrics.RowsJudged {
	if f.j.Invalid > 0 && f.j.Invalid == f.j.Rows && f.pretty*2 > f.j.Rows {
		return metrics.RowsJudged{NUL: f.j.NUL}
	}
	f.j.InTokens = len(f.tokens) > 0 && f.told == len(f.tokens)
	f.j.Lengths = f.runes
	if f.j.InTokens {
		f.j.Lengths = f.tokens
	}
	return f.j
}
