package tui

import (
	"strings"
	"time"
	"unicode"

	"github.com/runvigil/runvigil/metrics"
)

// bufLimit and bufSlack bound the lines of one log that are kept here; the file
// may have any size. The oldest go a slack at a time.
const (
	bufLimit = 50_000
	bufSlack = 5_000
)

// A logBuf is a run of whole lines of one log. It grows at its end with the
// snapshot's tail, and at its start with slices that were asked for. A jump far
// back replaces it; it then stands apart from the tail until it follows again.
type logBuf struct {
	lines []metrics.LogLine
	first int64 // number of lines[0] in the file, 0 unknown
	apart bool
	head  bool // lines[0] is the file's first
	// dropped counts the lines taken away at the start since it was last asked
	// for, for those who remember an index.
	dropped int
}

// join takes the lines of the tail that are new. A tail that does not touch the
// buffer (a gap, a new file) replaces it.
func (b *logBuf) join(t *metrics.LogTail) {
	if t == nil || b.apart {
		return
	}
	fresh, ok := b.fresh(t)
	if !ok {
		b.lines = append([]metrics.LogLine(nil), t.Lines...)
		b.first, b.head = t.First, t.First == 1
		return
	}
	b.lines = append(b.lines, fresh...)
	b.trim()
}

// trim takes the oldest lines away where there are too many.
func (b *logBuf) trim() {
	over := len(b.lines) - bufLimit
	if over < bufSlack {
		return
	}
	b.lines = append([]metrics.LogLine(nil), b.lines[over:]...)
	if b.first > 0 {
		b.first += int64(over)
	}
	b.head = false
	b.dropped += over
}

func (b *logBuf) fresh(t *metrics.LogTail) ([]metrics.LogLine, bool) {
	if len(b.lines) == 0 || len(t.Lines) == 0 {
		return nil, len(b.lines) > 0
	}
	last := b.lines[len(b.lines)-1]
	if b.first > 0 && t.First > 0 {
		start := b.first + int64(len(b.lines)) - t.First
		if start < 0 || start > int64(len(t.Lines)) {
			return nil, false
		}
		if start > 0 && t.Lines[start-1].Text != last.Text {
			return nil, false
		}
		return t.Lines[start:], true
	}
	for i := len(t.Lines) - 1; i >= 0; i-- {
		if t.Lines[i].Off == last.Off && t.Lines[i].Text == last.Text {
			return t.Lines[i+1:], true
		}
	}
	return nil, false
}

// before puts an older slice in front, if it ends where the buffer begins; n is
// how many lines came.
func (b *logBuf) before(s LogSlice) (n int) {
	if len(b.lines) == 0 {
		return 0
	}
	for n = len(s.Lines); n > 0 && s.Lines[n-1].Off >= b.lines[0].Off; {
		n--
	}
	if n == 0 {
		b.head = true
		return 0
	}
	b.lines = append(append([]metrics.LogLine(nil), s.Lines[:n]...), b.lines...)
	if b.first > 0 {
		b.first = max(b.first-int64(n), 1)
	}
	b.head = s.Lines[0].Off == 0
	if len(b.lines) >= bufLimit+bufSlack {
		b.lines = append([]metrics.LogLine(nil), b.lines[:bufLimit]...)
		b.apart = true // what was taken away lies between it and the tail
	}
	return n
}

// replace makes the slice the whole buffer, apart from the tail.
func (b *logBuf) replace(s LogSlice) {
	b.lines, b.first, b.apart, b.head = s.Lines, s.First, true, s.Start == 0
}

// after puts a younger slice behind.
func (b *logBuf) after(s LogSlice) (n int) {
	from := int64(-1)
	if len(b.lines) > 0 {
		from = b.lines[len(b.lines)-1].Off
	}
	for i, l := range s.Lines {
		if l.Off > from {
			b.lines = append(b.lines, s.Lines[i:]...)
			b.trim()
			return len(s.Lines) - i
		}
	}
	return 0
}

// find looks for a line that fits, from one index on in a direction; -1: none.
func (b *logBuf) find(from, by int, fits func(*metrics.LogLine) bool) int {
	for i := from; i >= 0 && i < len(b.lines); i += by {
		if fits(&b.lines[i]) {
			return i
		}
	}
	return -1
}

// placeSlack is how far in the file or in time a line may stand from where it
// was told to be: bytes that were masked shift the ones behind them.
const (
	placeSlack     = 64 << 10
	placeSlackTime = time.Minute
)

// place is the index of a line that is told by its number, or by its words and
// about where it stands; without words that of the first line not before its
// time. It is -1 where the buffer cannot tell.
func (b *logBuf) place(at metrics.LogPlace) int {
	words := strings.TrimSpace(strings.TrimSuffix(at.Text, "…"))
	if i := at.Line - b.first; at.Line > 0 && b.first > 0 && i >= 0 && i < int64(len(b.lines)) && strings.Contains(b.lines[i].Text, words) {
		return int(i)
	}
	if words == "" {
		if at.At.IsZero() || len(b.lines) == 0 || b.lines[0].At.After(at.At) && !b.head {
			return -1
		}
		if i := b.find(0, 1, func(l *metrics.LogLine) bool { return !l.At.Before(at.At) }); i >= 0 {
			return i
		}
		return len(b.lines) - 1 // it says nothing since
	}
	best, nearest := -1, int64(0)
	for i := range b.lines {
		l := &b.lines[i]
		d := max(l.Off-at.Off, at.Off-l.Off)
		near := at.Off > 0 && d <= placeSlack || !at.At.IsZero() && l.At.Sub(at.At).Abs() <= placeSlackTime
		if near && strings.Contains(l.Text, words) && (best < 0 || d < nearest) {
			best, nearest = i, d
		}
	}
	return best
}

// hitIndex remembers which lines of a buffer hold a match, so that a long log is
// not searched again for every drawing.
type hitIndex struct {
	m    matcher
	head int64 // offset of the first line
	n    int   // lines searched so far
	idx  []int
}

// in gives the indices of the lines with a hit, in order.
func (h *hitIndex) in(b *logBuf, m matcher) []int {
	head := int64(-1)
	if len(b.lines) > 0 {
		head = b.lines[0].Off
	}
	if h.m != m || h.head != head || h.n > len(b.lines) {
		*h = hitIndex{m: m, head: head}
	}
	for ; h.n < len(b.lines); h.n++ {
		if m.in(b.lines[h.n].Text) {
			h.idx = append(h.idx, h.n)
		}
	}
	return h.idx
}

// matcher finds a plain text: its case counts only where it has capitals.
type matcher struct {
	text string
	fold bool
}

func newMatcher(text string) matcher {
	m := matcher{text: text, fold: true}
	for _, r := range text {
		if unicode.IsUpper(r) {
			m.fold = false
		}
	}
	return m
}

func (m matcher) empty() bool { return m.text == "" }

// next gives the span of the first hit in s from a byte on.
func (m matcher) next(s string, from int) (start, end int, ok bool) {
	if m.text == "" || from > len(s) {
		return 0, 0, false
	}
	hay := s[from:]
	if m.fold {
		if lower := strings.ToLower(hay); len(lower) == len(hay) {
			hay = lower
		}
	}
	i := strings.Index(hay, m.text)
	if i < 0 {
		return 0, 0, false
	}
	return from + i, from + i + len(m.text), true
}

func (m matcher) in(s string) bool {
	_, _, ok := m.next(s, 0)
	return ok
}
