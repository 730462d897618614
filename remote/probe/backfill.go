package probe

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

const (
	sectionBytes  = 64 << 10  // what is read of an earlier start
	lastSection   = 256 << 10 // what is read of the last start
	clusterBytes  = 256 << 10 // anchors of one start stand closer than this
	sectionsMost  = 20
	sectionsBytes = 2 << 20
	fillRead      = 512 << 10
	anchorOverlap = 4096
	countAtOnce   = 8 << 20 // logs up to this size are counted before their first chunk

	searchEnough = 2500 * time.Millisecond // for earlier starts, once the last is found
	searchMost   = 10 * time.Second        // for the last start
)

// span is a range of a log to deliver, of one kind of backfill.
type span struct {
	from, to int64
	fill     int
}

// backfill reads the history of a log: first it searches backwards for the
// anchors of starts, then it delivers the sections of earlier starts, that of
// the last, and the recent bytes, in the order of the file.
type backfill struct {
	size, tail int64
	anchors    string
	begun      time.Time
	searched   int64 // everything from here on was searched
	hits       []int64
	spans      []span
	reading    bool
	head       bool // the lines before the first span are counted
}

func newBackfill(w metrics.Want, size int64, now time.Time) *backfill {
	tail := w.Tail
	if tail <= 0 {
		tail = logDefault
	}
	var anchors []string
	for line := range strings.Lines(w.Anchors) {
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			anchors = append(anchors, line)
		}
	}
	return &backfill{size: size, tail: tail, anchors: strings.Join(anchors, "\n"), begun: now, searched: size}
}

// fill does the next step of a log's backfill.
func (f *files) fill(ctx context.Context, l *logFollow, st metrics.FileStat) {
	b := l.fill
	if !st.Exists || st.ID != l.id || st.Size < b.size {
		l.fill = nil // it was replaced meanwhile: live reading says so
		return
	}
	if !b.reading {
		if b.wantsSearch(f.clock()) {
			f.search(ctx, l)
			return
		}
		b.plan()
		b.reading = true
		if f.emptyLog(l, st) {
			return
		}
	}
	if !b.head {
		f.countBefore(ctx, l)
		return
	}
	if len(b.spans) == 0 {
		l.size = -1
		l.fill = nil
		return
	}
	f.readSpan(ctx, l, st)
}

func (f *files) emptyLog(l *logFollow, st metrics.FileStat) bool {
	if len(l.fill.spans) > 0 {
		return false
	}
	f.emitLog(l, st, 2, 0, 0, nil)
	l.fill, l.size = nil, 0
	return true
}

// countBefore counts the lines before the first span where that is quick.
func (f *files) countBefore(ctx context.Context, l *logFollow) {
	b := l.fill
	b.head = true
	l.pos = b.spans[0].from
	if l.pos == 0 || l.pos > countAtOnce {
		return
	}
	n := l.pos
	f.run(ctx, []op{{code: fmt.Sprintf("rdm 0 %d %s | wc -lc", n, f.ref(l.path)), parts: 1, bytes: 64, take: func(ps [][]byte) {
		if c := strings.Fields(string(ps[0])); len(c) == 2 && number(c[1]) == n {
			l.counted, l.lines = n, number(c[0])
		}
	}}}, sliceLimit)
}

func (b *backfill) wantsSearch(now time.Time) bool {
	if b.anchors == "" || b.searched == 0 {
		return false
	}
	limit := searchMost
	if len(b.hits) > 0 {
		limit = searchEnough
	}
	return now.Sub(b.begun) < limit
}

// search looks for anchors in the slice before what was searched.
func (f *files) search(ctx context.Context, l *logFollow) {
	b := l.fill
	from := max(0, b.searched-f.slice)
	n := min(b.searched+anchorOverlap, b.size) - from
	begun := f.clock()
	code := fmt.Sprintf("A=$(printf %%b %s);gr %d %d %s", quote(escape(b.anchors)), from, n, f.ref(l.path))
	ok := f.run(ctx, []op{{code: code, parts: 1, bytes: 8192, take: func(ps [][]byte) {
		for _, word := range strings.Fields(string(ps[0])) {
			at := number(word)
			if at == 0 && from > 0 {
				continue // in the middle of a line: the slice before has its start
			}
			if at += from; at < b.size && !slices.Contains(b.hits, at) {
				b.hits = append(b.hits, at)
			}
		}
		b.searched = from
	}}}, sliceLimit)
	f.pace(f.clock().Sub(begun), ok)
	if !ok && !sleep(ctx, time.Second) {
		return
	}
}

// escape writes anchors for printf %b, on one line.
func escape(s string) string {
	return strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(s)
}

// plan turns the anchors into ascending spans.
func (b *backfill) plan() {
	b.spans = planSpans(b.hits, b.size, b.tail)
}

func planSpans(hits []int64, size, tail int64) []span {
	tailFrom := max(0, size-tail)
	slices.Sort(hits)
	var sections []span
	for _, h := range hits {
		if n := len(sections); n > 0 && h < sections[n-1].to && h-sections[n-1].from < clusterBytes-sectionBytes {
			sections[n-1].to = h + sectionBytes
			continue
		}
		sections = append(sections, span{h, h + sectionBytes, 1})
	}
	if n := len(sections); n > 0 {
		sections[n-1].to = max(sections[n-1].to, sections[n-1].from+lastSection)
	}
	sections = sections[max(0, len(sections)-sectionsMost):]
	sum := int64(0)
	for i := len(sections) - 1; i >= 0; i-- {
		if i+1 < len(sections) {
			sections[i].to = min(sections[i].to, sections[i+1].from)
		}
		sections[i].to = min(sections[i].to, size)
		if sum += sections[i].to - sections[i].from; sum > sectionsBytes {
			sections = sections[i+1:]
			break
		}
	}
	var out []span
	at := tailFrom
	for _, s := range sections {
		if s.to > tailFrom && s.from > at {
			out = append(out, span{at, s.from, 2})
		}
		out = append(out, s)
		at = max(at, s.to)
	}
	if at < size {
		out = append(out, span{at, size, 2})
	}
	return out
}

// readSpan delivers the next bytes of the first span.
func (f *files) readSpan(ctx context.Context, l *logFollow, st metrics.FileStat) {
	b := l.fill
	s := b.spans[0]
	if s.from != l.pos {
		l.pos, l.dropping = s.from, false
	}
	n := min(s.to-l.pos, fillRead)
	if n <= 0 {
		b.spans = b.spans[1:]
		return
	}
	// Only the recent bytes may begin inside a line: a section begins at one.
	first := s.from == max(0, b.size-b.tail) && s.from > 0 && s.fill == 2
	from := l.pos
	read := n
	if first {
		from, read = from-1, n+1 // the byte before tells whether a line begins here
	}
	ok := f.run(ctx, []op{{code: fmt.Sprintf("rd %d %d %s", from, read, f.ref(l.path)), parts: 1, bytes: read, take: func(ps [][]byte) {
		data := ps[0]
		if first && len(data) > 0 {
			if data[0] != '\n' {
				i := bytes.IndexByte(data, '\n')
				if i < 0 {
					i = len(data) - 1
				}
				if l.counted == l.pos {
					l.counted += int64(i)
					l.lines++
				}
				l.pos += int64(i)
				data = data[i:]
			}
			data = data[1:]
		}
		before := l.pos
		f.deliver(l, st, s.fill, data)
		l.skipped = 0
		over := int64(len(ps[0])) < read || l.pos == before || before+int64(len(data)) >= s.to
		if !over {
			b.spans[0].from = l.pos
			return
		}
		b.spans = b.spans[1:]
		// The line that the span's end cut belongs to the next one.
		if len(b.spans) > 0 && b.spans[0].from == s.to {
			b.spans[0].from = l.pos
		}
	}}}, sliceLimit)
	if !ok {
		sleep(ctx, time.Second)
	}
}
