package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

const (
	logCap     = 256 << 10 // bytes of a log a poll
	longLine   = 64 << 10  // what is shown of a line that never ends
	logDefault = 256 << 10 // recent bytes where the want does not say
)

// logFollow is the state of following one log. Only whole lines are delivered:
// the bytes behind the last line end wait for theirs.
type logFollow struct {
	path, id string
	pos      int64 // next byte to deliver
	size     int64 // at the last read: nothing new while it stays
	begun    bool
	dropping bool  // the rest of a line that was cut or jumped into
	skipped  int64 // bytes left out since the last chunk
	reset    string
	counted  int64 // newlines in [0, counted) are lines
	lines    int64
	told     bool // a chunk told the number of lines
	err      string
	fill     *backfill
}

// followOps reads what is new in a log.
func (f *files) followOps(ctx context.Context, w metrics.Want, st metrics.FileStat) []op {
	l := f.logs[w.Path]
	if l == nil {
		l = &logFollow{path: w.Path}
		f.logs[w.Path] = l
	}
	if !st.Exists || st.Dir || st.Err != "" {
		if st.Err != "" && st.Err != l.err {
			l.err = st.Err
			f.emitLog(l, st, 0, l.pos, l.pos, nil)
		}
		if !l.begun {
			f.missing[w.Path] = true
		}
		return nil
	}
	if !l.begun {
		l.begun, l.id = true, st.ID
		if f.missing[w.Path] {
			f.emitLog(l, st, 0, 0, 0, nil)
		} else {
			l.fill = newBackfill(w, st.Size, f.clock())
			return nil
		}
	}
	if l.fill != nil {
		return nil
	}
	switch {
	case st.ID != l.id:
		f.rotated(ctx, l)
		l.restart(st.ID, "replaced")
	case st.Size < l.pos:
		l.restart(st.ID, "truncated")
	}
	if st.Size == l.size && l.reset == "" {
		return nil
	}
	if l.reset != "" && st.Size == 0 {
		f.emitLog(l, st, 0, 0, 0, nil)
	}
	l.size = st.Size
	if behind := st.Size - l.pos; behind > logCap {
		l.skipped += behind - logCap
		l.pos = st.Size - logCap
		l.dropping = true
	}
	n := st.Size - l.pos
	if n <= 0 {
		return nil
	}
	return []op{{code: fmt.Sprintf("rd %d %d %s", l.pos, n, f.ref(l.path)), parts: 1, bytes: n, take: func(ps [][]byte) {
		if len(ps[0]) == 0 && l.err == "" {
			l.err = "cannot be read"
			f.emitLog(l, st, 0, l.pos, l.pos, nil)
			return
		}
		l.err = ""
		f.deliver(l, st, 0, ps[0])
	}}}
}

func (l *logFollow) restart(id, why string) {
	l.id, l.pos, l.size, l.reset = id, 0, -1, why
	l.counted, l.lines, l.skipped, l.dropping = 0, 0, 0, false
}

// rotated delivers what is left of the file that was renamed to PATH.1.
func (f *files) rotated(ctx context.Context, l *logFollow) {
	old := l.path + ".1"
	a, err := f.p.files.call(ctx, "stat -L -c '%d:%i %s %Y %f %n' -- "+quote(old))
	if err != nil {
		return
	}
	st, ok := parseStatLine(strings.TrimRight(string(a.data), "\n"))
	if !ok || st.ID != l.id || st.Size <= l.pos {
		return
	}
	n := min(st.Size-l.pos, logCap)
	l.skipped += st.Size - l.pos - n
	l.dropping = l.dropping || l.skipped > 0
	l.pos = st.Size - n
	if a, err = f.p.files.call(ctx, fmt.Sprintf("rd %d %d %s", l.pos, n, quote(old))); err == nil {
		data := a.data
		if len(data) > 0 && data[len(data)-1] != '\n' {
			data = append(data, '\n') // nothing follows: the file is closed
		}
		f.deliver(l, st, 0, data)
	}
}

// deliver emits the whole lines at the start of data, which was read at pos.
func (f *files) deliver(l *logFollow, st metrics.FileStat, fill int, data []byte) {
	if l.dropping {
		i := bytes.IndexByte(data, '\n') + 1
		if i == 0 {
			i = len(data)
		} else {
			l.dropping = false
		}
		l.skipped += int64(i)
		l.pos += int64(i)
		data = data[i:]
	}
	cut := bytes.LastIndexAny(data, "\n\r") + 1
	if cut == 0 && len(data) >= logCap {
		// A line without an end: its beginning is shown, its rest left out, so
		// that no cut falls into a secret behind its name.
		start := l.pos
		l.pos += int64(len(data))
		shown := append(bytes.Clone(data[:longLine]), '\n')
		f.emitLog(l, st, fill, start, start+longLine, shown)
		l.skipped += int64(len(data) - longLine)
		l.dropping = true
		return
	}
	if cut == 0 {
		return
	}
	start := l.pos
	l.pos += int64(cut)
	if l.counted == start {
		l.counted = l.pos
		l.lines += int64(bytes.Count(data[:cut], []byte{'\n'}))
	}
	f.emitLog(l, st, fill, start, l.pos, data[:cut])
}

func (f *files) emitLog(l *logFollow, st metrics.FileStat, fill int, from, to int64, data []byte) {
	h := metrics.LogHeader{
		ID: st.ID, Offset: from, End: to, Size: max(st.Size, to), Skipped: l.skipped, Backfill: fill,
		Reset: l.reset, Lines: -1, Mtime: st.Mtime, Err: l.err,
	}
	if l.counted == to {
		h.Lines, l.told = l.lines, true
	}
	l.skipped, l.reset = 0, ""
	f.p.emit(metrics.KindLog, l.path, time.Time{}, metrics.EncodeChunk(h, maskLines(l.path, data)))
}

// countLines counts a slice of the lines that were not read, and tells the
// number when it is complete.
func (f *files) countLines(ctx context.Context, l *logFollow) bool {
	n := min(f.slice, l.pos-l.counted)
	return f.run(ctx, []op{{code: fmt.Sprintf("rdm %d %d %s | wc -lc", l.counted, n, f.ref(l.path)), parts: 1, bytes: 64, take: func(ps [][]byte) {
		c := strings.Fields(string(ps[0]))
		if len(c) != 2 || number(c[1]) != n {
			l.counted, l.lines = l.pos, 0 // it was cut meanwhile; the next stat tells
			return
		}
		l.counted += n
		l.lines += number(c[0])
		if l.counted == l.pos {
			f.emitLog(l, f.stats[l.path], 0, l.pos, l.pos, nil)
		}
	}}}, sliceLimit)
}

// maskLines masks the secrets in whole lines. Lines of docker's json log are
// unwrapped first.
func maskLines(path string, data []byte) []byte {
	if len(data) == 0 {
		return nil
	}
	docker := strings.HasSuffix(path, "-json.log")
	out := make([]byte, 0, len(data))
	for line := range bytes.Lines(data) {
		body := string(bytes.TrimSuffix(line, []byte{'\n'}))
		if docker {
			var entry struct {
				Log *string `json:"log"`
			}
			if json.Unmarshal([]byte(body), &entry) == nil && entry.Log != nil {
				body = strings.TrimSuffix(*entry.Log, "\n")
			}
		}
		out = append(out, metrics.Mask(body)...)
		if len(line) > len(body) || docker {
			out = append(out, '\n')
		}
	}
	return out
}
