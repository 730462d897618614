package clientlog

import (
	"bytes"
	"slices"

	"github.com/runvigil/runvigil/metrics"
)

const (
	maxLine   = 16 << 10
	maxText   = 300
	maxBars   = 32
	maxFaults = 64
)

// Fault is one class of fault with all the lines that told it.
type Fault struct {
	Class  metrics.Cause
	Detail string // first line that told it, cleaned and masked
	Where  string // the path or place that was full, "" unknown
	Line   int64  // first line
	Last   int64  // last line
	Count  int
	// Ended says that it was the end of a traceback; the client may live on.
	Ended bool
	// Survived says that the client went on without what it lacked.
	Survived bool
	// Primary marks the cause.
	Primary bool
}

// Retry is how the client backs off, as its newest line about it says. -1 unknown.
type Retry struct {
	Attempt, Try, Of int
	SleepS           float64
	Lines            int // how many lines spoke of it
}

// State reads a client's log in chunks of any size and keeps what matters, in
// bounded memory. The zero State is ready.
type State struct {
	cut     metrics.LineCutter
	started bool

	lines  int64 // not empty
	nohup  bool
	last   []byte // last line that is no bar, as it came
	newest []byte // last of all lines

	bars   []Bar
	faults []Fault
	retry  Retry
	conns  int // lines about a server that cannot be reached
	limitS float64
	done   bool // the last line says that the work is done

	trace     bool
	traceShm  bool // a frame of the traceback works with shared memory
	traceLine int64
}

// Feed takes the next bytes of the log.
func (s *State) Feed(chunk []byte) {
	if !s.started {
		s.started = true
		s.retry, s.limitS = Retry{Attempt: -1, Try: -1, Of: -1, SleepS: -1}, -1
	}
	s.cut.Feed(chunk, s.one)
}

// Flush takes a last line that has no newline.
func (s *State) Flush() { s.cut.Flush(s.one) }

func (s *State) one(at int64, raw []byte) {
	raw = raw[:min(len(raw), maxLine)]
	b := raw
	if bytes.IndexByte(b, 0x1b) >= 0 || bytes.IndexByte(b, 0) >= 0 {
		b = []byte(metrics.Clean(string(b), 0))
	}
	trimmed := bytes.TrimSpace(b)
	if len(trimmed) == 0 {
		return
	}
	s.lines++
	s.newest = append(s.newest[:0], trimmed[:min(len(trimmed), 4*maxText)]...)
	if bytes.HasPrefix(trimmed, []byte("nohup: ")) {
		s.nohup = true
		return
	}
	if bar, ok := parseBar(b); ok {
		bar.Line = at
		s.bar(bar)
		// Something may be glued behind the bar.
		if end := bytes.LastIndexByte(b, ']'); end >= 0 && end+1 < len(b) {
			s.text(b[end+1:], at)
		}
		return
	}
	s.last = append(s.last[:0], s.newest...)
	if trimmed[0] == '{' {
		return // a row or a request, not a message
	}
	s.text(b, at)
}

func (s *State) text(b []byte, at int64) {
	s.faultLine(b, at)
	if s.trace {
		return
	}
	if bar, ok := parseCount(b); ok {
		bar.Line = at
		s.bar(bar)
	}
	s.done = finishedWord(b)
}

// bar notes an update of a bar; a smaller count under the same label means that
// it began anew.
func (s *State) bar(bar Bar) {
	for i := range s.bars {
		old := &s.bars[i]
		if old.Label != bar.Label {
			continue
		}
		bar.restarts, bar.updates, bar.first = old.restarts, old.updates+1, old.first
		if bar.Done < old.Done || bar.Total != old.Total {
			bar.restarts++
		}
		s.bars = append(slices.Delete(s.bars, i, i+1), bar)
		return
	}
	if len(s.bars) >= maxBars {
		s.bars = slices.Delete(s.bars, 0, 1)
	}
	bar.updates, bar.first = 1, bar.Line
	s.bars = append(s.bars, bar)
}

// Progress is the bar of the phase that runs now: the one updated last, or the
// one around it where the last is a bar inside another that begins anew again
// and again. A full bar of an earlier phase is no progress.
func (s *State) Progress() (bar Bar, ok bool) {
	if len(s.bars) == 0 {
		return Bar{}, false
	}
	last := s.bars[len(s.bars)-1]
	if last.restarts >= 2 {
		for i := len(s.bars) - 2; i >= 0; i-- {
			if outer := s.bars[i]; outer.restarts == 0 && !outer.Complete() && outer.updates > 1 && outer.Line > last.first {
				return outer, true
			}
		}
	}
	return last, true
}

// Lines is how many lines are not empty.
func (s *State) Lines() int64 { return s.lines }

// OnlyHeader tells that the log has nothing but nohup's first line: the client
// has just begun, or its output is held back in its own buffer. The log alone
// cannot tell which; rows and CPU time do.
func (s *State) OnlyHeader() bool { return s.nohup && s.lines == 1 }

// Last is the last line that is no bar, cleaned and masked.
func (s *State) Last() string { return shown(s.last) }

// Newest is the last line, a bar or not, cleaned and masked.
func (s *State) Newest() string { return shown(s.newest) }

func shown(b []byte) string { return metrics.Cut(metrics.Mask(metrics.Clean(string(b), 0)), maxText) }

// Finished is the last line where it says that the work is done, else "".
func (s *State) Finished() string {
	if !s.done {
		return ""
	}
	return s.Last()
}

// Retry is how the client backs off.
func (s *State) Retry() Retry {
	if !s.started {
		return Retry{Attempt: -1, Try: -1, Of: -1, SleepS: -1}
	}
	return s.retry
}

// Unreachable is how many lines say that the server cannot be reached.
func (s *State) Unreachable() int { return s.conns }

// TimeoutS is the request timeout in seconds that the client's errors tell, -1 unknown.
func (s *State) TimeoutS() float64 {
	if !s.started {
		return -1
	}
	return s.limitS
}

// Faults are the classes of fault, in the order in which they began. The
// primary one ended the client, or else was told most often.
func (s *State) Faults() []Fault {
	out := slices.Clone(s.faults)
	best := -1
	for i, f := range out {
		switch {
		case f.Survived:
		case best < 0, f.Ended && !out[best].Ended, f.Ended == out[best].Ended && f.Ended && f.Last > out[best].Last,
			f.Ended == out[best].Ended && !f.Ended && f.Count > out[best].Count:
			best = i
		}
	}
	if best < 0 && len(out) > 0 {
		best = 0
	}
	if best >= 0 {
		out[best].Primary = true
	}
	return out
}

var finished = [][]byte{
	[]byte("all done"), []byte("finished"), []byte("completed"), []byte("complete!"), []byte("complete."), []byte("done."), []byte("done!"), []byte("nothing to do"),
}

var unfinished = [][]byte{[]byte("not "), []byte("unfinished"), []byte("n't"), []byte("incomplete"), []byte("error"), []byte("failed to"), []byte("with status")}

// stems are what every finished word holds in any case of its first letter.
var stems = [][]byte{[]byte("one"), []byte("inish"), []byte("omplet"), []byte("hing to do"), []byte("DONE"), []byte("FINISH"), []byte("COMPLET")}

// finishedWord tells a short line that says that the work is done.
func finishedWord(b []byte) bool {
	if len(b) > 200 || !containsAny(b, stems) {
		return false
	}
	low := bytes.ToLower(bytes.TrimSpace(b))
	if containsAny(low, unfinished) {
		return false
	}
	return bytes.Equal(low, []byte("done")) || containsAny(low, finished)
}
