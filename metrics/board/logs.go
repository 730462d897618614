package board

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/clientlog"
)

const (
	tailKeep = 2000
	lineCap  = 2000
	// keptBytes bounds the history that is kept to be read again in another zone.
	keptBytes  = 5 << 20
	keptFor    = 5 * time.Minute
	zoneStep   = 15 * 60
	zoneVotes  = 3
	tailBytes  = 4 << 20
	clientTail = 256 << 10
)

// logState is one followed log.
type logState struct {
	path   string
	server bool // an engine writes it
	client bool // a client writes it
	head   metrics.LogHeader
	at     time.Time // newest chunk
	seen   bool
	open   bool      // a record may wait for its end in the parser
	grew   time.Time // when it was last longer than before
	// deleted is since when the file is not there, zero while it is.
	deleted time.Time
	gap     time.Duration // longest time between two growths

	lines  []metrics.LogLine
	lineNo int64 // number of the newest line, 0 unknown

	zone      int // seconds east of UTC in which its stamps are
	drift     drift
	zoneFixed bool
	vote      int
	votes     int
	kept      []keptChunk // until the zone is certain
	keptSize  int

	work *work
	said clientlog.State  // what a client's log tells
	told map[string]int64 // byte offsets of the lines that told its faults
	base int64            // lines of the file before the first that `said` was given, -1 unknown
}

type keptChunk struct {
	head metrics.LogHeader
	raw  []byte
	at   time.Time
}

// log gives the state of a path, made on first use.
func (b *Board) log(path string) *logState {
	l := b.logs[path]
	if l == nil {
		l = &logState{path: path, zone: b.session.ZoneSec}
		l.work = newWork(path)
		b.logs[path] = l
	}
	return l
}

func (b *Board) applyLog(f metrics.Frame) error {
	h, raw, err := metrics.DecodeChunk[metrics.LogHeader](f.Data)
	if err != nil {
		return err
	}
	l := b.log(f.Name)
	if h.Err != "" {
		l.head.Err = metrics.Clean(h.Err, 200)
		l.at = f.At
		return nil
	}
	raw = l.take(&h, raw, f.At)
	if !l.zoneFixed {
		l.keep(h, raw, f.At)
		if zone, ok := l.guessZone(b, h, raw, f.At); ok && zone != l.zone {
			l.rezone(b, zone)
			return nil
		}
	} else if zone := l.drifted(b, h, raw, f.At); zone != l.zone {
		was := l.zone
		l.zone = zone
		l.fold(b, h, raw, f.At)
		if !l.drift.sure() {
			l.zone = was
		}
		return nil
	}
	l.fold(b, h, raw, f.At)
	return nil
}

// take notes the chunk's place in the file and gives the bytes that are new.
func (l *logState) take(h *metrics.LogHeader, raw []byte, at time.Time) []byte {
	fresh := !l.seen || h.Reset != "" || h.ID != "" && l.head.ID != "" && h.ID != l.head.ID
	if fresh && l.seen {
		l.lines, l.lineNo, l.said, l.told = nil, 0, clientlog.State{}, nil
		l.work.cut()
	}
	if !fresh && h.Offset < l.head.End {
		over := l.head.End - h.Offset
		if over >= int64(len(raw)) {
			raw = nil
		} else {
			raw = raw[over:]
			h.Offset += over
		}
	}
	skipped := l.head.Skipped
	if fresh {
		skipped = 0
	}
	if !fresh && h.Offset > l.head.End || h.Skipped > 0 {
		l.work.cut()
		l.lineNo = 0
	}
	if !l.seen || h.Size > l.head.Size || fresh {
		if l.seen && !fresh && h.Backfill == 0 {
			l.gap = max(l.gap, at.Sub(l.grew))
		}
		l.grew = at
	}
	end := max(h.End, l.head.End)
	if fresh {
		end = h.End
	}
	lines := h.Lines
	if lines < 0 && !fresh && len(raw) == 0 {
		lines = l.head.Lines
	}
	skip := h.Skipped
	l.head = *h
	l.head.End, l.head.Lines, l.head.Skipped = end, lines, skipped+skip
	l.seen, l.at = true, at
	return raw
}

// keep holds history until the zone of its stamps is certain.
func (l *logState) keep(h metrics.LogHeader, raw []byte, at time.Time) {
	if l.keptSize+len(raw) > keptBytes {
		l.zoneFixed, l.kept, l.keptSize = true, nil, 0
		return
	}
	l.kept = append(l.kept, keptChunk{h, raw, at})
	l.keptSize += len(raw)
}

// guessZone derives the zone of the stamps: a log that was just written has its
// newest stamp at the node's present, up to whole quarters of an hour.
func (l *logState) guessZone(b *Board, h metrics.LogHeader, raw []byte, at time.Time) (int, bool) {
	written, slack := at.Add(b.offset).Unix(), int64(60)
	if h.Backfill != 0 {
		if h.Mtime == 0 || h.End != h.Size {
			return 0, false
		}
		written, slack = h.Mtime, 3
	}
	stamp, ok := lastStamp(raw, written)
	if !ok {
		return 0, false
	}
	diff := stamp - written
	zone := (diff + zoneStep/2 + 96*zoneStep) / zoneStep * zoneStep
	zone -= 96 * zoneStep
	if rest := diff - zone; rest < -slack || rest > slack || zone < -12*3600 || zone > 14*3600 {
		l.votes = 0
		return 0, false
	}
	if int(zone) != l.vote {
		l.vote, l.votes = int(zone), 0
	}
	l.votes++
	if h.Backfill == 0 && l.votes >= zoneVotes {
		l.zoneFixed = true
	}
	return int(zone), l.zoneFixed || h.Backfill != 0
}

// rezone reads the kept history again with its stamps in another zone.
func (l *logState) rezone(b *Board, zone int) {
	l.zone = zone
	l.lines, l.lineNo, l.said, l.told = nil, 0, clientlog.State{}, nil
	engine := l.work.engine
	l.work = newWork(l.path)
	l.work.engine = engine
	b.events = slices.DeleteFunc(slices.Clone(b.events), func(e metrics.Event) bool { return e.Ref == l.path })
	var end int64
	for i, k := range l.kept {
		if i > 0 && k.head.Offset > end {
			l.work.cut()
		}
		end = k.head.End
		l.fold(b, k.head, k.raw, k.at)
	}
	if l.zoneFixed {
		l.kept, l.keptSize = nil, 0
	}
}

// fold reads whole lines.
func (l *logState) fold(b *Board, h metrics.LogHeader, raw []byte, at time.Time) {
	if l.zoneFixed {
		l.kept, l.keptSize = nil, 0
	}
	if h.Lines >= 0 {
		l.lineNo = h.Lines - int64(bytes.Count(raw, []byte{'\n'}))
		l.work.parser.SetLine(l.lineNo)
		l.work.vllm.parser.SetLine(l.lineNo)
		l.work.numbered = true
	} else if l.lineNo == 0 {
		l.work.numbered = false
	}
	// A log whose writer is not known yet may be a client's: a backfill comes
	// before the first discovery.
	listens := !l.server && l.work.engine == ""
	if listens {
		if l.said.Lines() == 0 {
			l.base = -1
			if h.Lines >= 0 {
				l.base = l.lineNo
			}
		}
		l.said.Feed(raw)
	}
	before := len(l.lines)
	off := h.Offset
	l.open = l.open || len(raw) > 0
	for len(raw) > 0 {
		n := bytes.IndexByte(raw, '\n') + 1
		if n == 0 {
			n = len(raw)
		}
		line := raw[:n]
		raw = raw[n:]
		if l.lineNo > 0 || h.Lines >= 0 {
			l.lineNo++
		}
		stamp := at
		if !l.client {
			if t, ok := l.feed(b, line, at); ok {
				stamp = t
			}
		}
		text := bytes.TrimRight(line, "\r\n")
		if cr := bytes.LastIndexByte(text, '\r'); cr >= 0 {
			text = text[cr+1:] // what a terminal would show of a progress bar
		}
		s := metrics.Clean(string(text[:min(len(text), 4*lineCap)]), lineCap)
		l.lines = append(l.lines, metrics.LogLine{At: stamp, Text: s, Off: off, Level: metrics.LineLevel(s)})
		off += int64(n)
	}
	if listens {
		l.placeFaults(l.lines[before:])
	}
	if len(l.lines) > 2*tailKeep {
		l.lines = slices.Clone(l.lines[len(l.lines)-tailKeep:])
	}
}

// placeFaults notes where the lines that told a client's faults stand.
func (l *logState) placeFaults(fresh []metrics.LogLine) {
	for _, f := range l.said.Faults() {
		text := strings.TrimSuffix(f.Detail, "…")
		if _, known := l.told[f.Detail]; known || text == "" {
			continue
		}
		if i := slices.IndexFunc(fresh, func(line metrics.LogLine) bool { return strings.Contains(line.Text, text) }); i >= 0 {
			if l.told == nil {
				l.told = map[string]int64{}
			}
			l.told[f.Detail] = fresh[i].Off
		}
	}
}

// feed gives one line to the engine's parser and tells the line's own time.
func (l *logState) feed(b *Board, line []byte, at time.Time) (time.Time, bool) {
	w := l.work
	w.board, w.log, w.read = b, l, at
	// Until one engine's words were seen, both parsers listen.
	var t time.Time
	var ok bool
	if w.engine != "vllm" {
		w.parser.Feed(line, w.emit)
		t, ok = w.stamp(w.parser.LastRecord())
	}
	if w.engine != "sglang" {
		w.vllm.parser.Feed(line, w.vllm.emit)
		if v, known := w.vllmStamp(w.vllm.parser.Last()); known && !ok {
			t, ok = v, true
		}
	}
	return t, ok && !t.After(at.Add(time.Minute))
}

// quiet is how long a log says nothing until a record that waits for more is taken as whole.
const quiet = 2 * time.Second

// flushLogs gives what waits in the parsers of logs that are quiet: the last
// traceback of a dead server has no line behind it.
func (b *Board) flushLogs(now time.Time) {
	for _, p := range sortedLogs(b.logs) {
		l := b.logs[p]
		if len(l.kept) > 0 && now.Sub(l.at) > keptFor {
			l.zoneFixed, l.kept, l.keptSize = true, nil, 0 // a log that does not grow tells no zone
		}
		if !l.open || l.client || now.Sub(l.at) < quiet {
			continue
		}
		l.open = false
		w := l.work
		w.board, w.log, w.read = b, l, l.at
		if w.engine != "vllm" {
			w.parser.Flush(w.emit)
		}
		if w.engine != "sglang" {
			w.vllm.parser.Flush(w.vllm.emit)
		}
	}
}

// ref is the log as the screen shows it.
func (l *logState) ref(b *Board, note string) metrics.LogRef {
	r := metrics.LogRef{Path: l.path, Note: note, Gap: l.gap}
	if st, ok := b.files[l.path]; ok && st.Exists {
		r.Bytes = metrics.Known(float64(st.Size), l.at, 0, "stat")
		r.Mtime = b.localUnix(st.Mtime)
	}
	if l.seen {
		r.Bytes = metrics.Known(float64(l.head.Size), l.at, 0, "stat")
		if l.head.Lines >= 0 {
			r.Lines = metrics.Known(float64(l.head.Lines), l.at, 0, "log")
		}
		if t := b.localUnix(l.head.Mtime); t.After(r.Mtime) {
			r.Mtime = t
		}
	}
	if l.head.Err != "" && r.Note == "" {
		r.Note = l.head.Err
	}
	r.Deleted, r.Held = b.deletedLog(l)
	return r
}

// rotating is how long a log may be away while it is rotated.
const rotating = 5 * time.Second

// deletedLog tells since when a log's file is not there, and where a process
// still has it open as its output.
func (b *Board) deletedLog(l *logState) (since time.Time, held string) {
	if l.deleted.IsZero() || b.present().Sub(l.deleted) < rotating {
		return time.Time{}, ""
	}
	for _, pid := range slices.Sorted(maps.Keys(b.procs)) {
		p := b.procs[pid]
		for n, fd := range []string{p.FD1, p.FD2} {
			if fd == l.path+deletedMark {
				return l.deleted, fmt.Sprintf("/proc/%d/fd/%d", pid, n+1)
			}
		}
	}
	return l.deleted, ""
}

// deletedMark ends the name of an open file that is there no more.
const deletedMark = " (deleted)"

// snapshot shares the lines: later lines come behind the given ones.
func (l *logState) snapshot(b *Board) *metrics.LogTail {
	n := len(l.lines)
	from := max(0, n-tailKeep)
	t := &metrics.LogTail{Path: l.path, ZoneSec: l.zone, Lines: l.lines[from:n:n], Offset: l.head.End, Size: l.head.Size, Skipped: l.head.Skipped}
	t.Deleted, t.Held = b.deletedLog(l)
	if l.lineNo > 0 {
		t.First = l.lineNo - int64(n-from) + 1
	}
	return t
}
