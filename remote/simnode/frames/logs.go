package frames

import (
	"bytes"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// How the probe reads history: what it takes of an earlier start, of the last
// one, of the end of a log that says nothing else, and in one read.
const (
	sectionBytes = 64 << 10
	lastSection  = 256 << 10
	logTail      = 256 << 10
	readBytes    = 512 << 10
	liveBytes    = 256 << 10
)

func sum(b []byte) uint64 {
	h := fnv.New64a()
	h.Write(b)
	return h.Sum64()
}

// follow is the state of following one log.
type follow struct {
	pos     int
	begun   bool
	missing bool // it was not there at first
}

// follow tells a log's history once, then what is new.
func (s *Source) follow(w metrics.Want) {
	l := s.follows[w.Path]
	if l == nil {
		l = &follow{}
		s.follows[w.Path] = l
	}
	f := s.files[w.Path]
	if f == nil || !f.log {
		l.missing = true
		return
	}
	if !l.begun {
		l.begun = true
		if !l.missing {
			s.history(f, l, w)
			return
		}
		s.chunk(f, 0, 0, 0, 0)
	}
	if behind := len(f.text) - l.pos; behind > liveBytes {
		from := l.pos
		l.pos = nextLine(f.text, len(f.text)-liveBytes)
		s.deliver(f, l, len(f.text), 0, l.pos-from)
		return
	}
	s.deliver(f, l, len(f.text), 0, 0)
}

// nextLine is where the first line begins at or after an offset.
func nextLine(text []byte, at int) int {
	if at == 0 || text[at-1] == '\n' {
		return at
	}
	if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(text)
}

// deliver emits the whole lines between the position and to.
func (s *Source) deliver(f *file, l *follow, to, fill, skipped int) {
	for l.pos < to {
		end := min(to, l.pos+readBytes)
		n := lastLine(f.text[l.pos:end])
		if n == 0 {
			return
		}
		s.chunk(f, l.pos, l.pos+n, fill, skipped)
		l.pos += n
		skipped = 0
	}
}

func (s *Source) chunk(f *file, from, to, fill, skipped int) {
	h := metrics.LogHeader{
		ID: f.id(), Offset: int64(from), End: int64(to), Size: f.size, Skipped: int64(skipped), Backfill: fill,
		Lines: int64(bytes.Count(f.text[:to], []byte{'\n'})), Mtime: f.mtime.Unix(),
	}
	var masked []byte
	for line := range bytes.Lines(f.text[from:to]) {
		body, ended := bytes.CutSuffix(line, []byte{'\n'})
		masked = append(masked, metrics.Mask(string(body))...)
		if ended {
			masked = append(masked, '\n')
		}
	}
	s.emit(metrics.KindLog, f.path, time.Time{}, metrics.EncodeChunk(h, masked))
}

// span is a range of a log that is told as one kind of history.
type span struct{ from, to, fill int }

// history tells the sections of starts, found by their anchors, and the end of
// the log, in the order of the file.
func (s *Source) history(f *file, l *follow, w metrics.Want) {
	spans := plan(anchors(f.text, w.Anchors), len(f.text), int(w.Tail))
	if len(spans) == 0 {
		s.chunk(f, 0, 0, 2, 0)
		return
	}
	for _, p := range spans {
		if p.from > l.pos {
			l.pos = nextLine(f.text, p.from)
		}
		s.deliver(f, l, p.to, p.fill, 0)
	}
}

// anchors are the offsets of the lines that hold one of the anchors.
func anchors(text []byte, list string) []int {
	var hits []int
	for anchor := range strings.Lines(list) {
		anchor = strings.TrimRight(anchor, "\r\n")
		for at := 0; anchor != ""; {
			i := bytes.Index(text[at:], []byte(anchor))
			if i < 0 {
				break
			}
			at += i
			line := bytes.LastIndexByte(text[:at], '\n') + 1
			if !slices.Contains(hits, line) {
				hits = append(hits, line)
			}
			at += len(anchor)
		}
	}
	slices.Sort(hits)
	return hits
}

// plan turns anchors into ascending spans.
func plan(hits []int, size, tail int) []span {
	if tail <= 0 {
		tail = logTail
	}
	tailFrom := max(0, size-tail)
	var out []span
	at := tailFrom
	for i, h := range hits {
		to := h + sectionBytes
		if i == len(hits)-1 {
			to = h + lastSection
		} else {
			to = min(to, hits[i+1])
		}
		to = min(to, size)
		if to > tailFrom && h > at {
			out = append(out, span{at, h, 2})
		}
		out = append(out, span{h, to, 1})
		at = max(at, to)
	}
	if at < size {
		out = append(out, span{at, size, 2})
	}
	return out
}
