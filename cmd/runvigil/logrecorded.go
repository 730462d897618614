package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/recording"
	"github.com/runvigil/runvigil/remote/probe"
)

// recordedLogs gives what a recording holds of the node's logs. It reads the
// recording anew for each question, so that nothing is kept meanwhile.
type recordedLogs struct {
	open func() (*recording.Reader, io.Closer, error)
}

// read collects one log up to a moment: a replay shows nothing that came later.
func (r *recordedLogs) read(ctx context.Context, name string, until time.Time) (*recordedLog, error) {
	rec, file, err := r.open()
	if err != nil {
		return nil, err
	}
	defer file.Close()
	defer rec.Close()
	l := &recordedLog{}
	for {
		f, err := rec.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, recording.ErrTorn) || err == nil && f.At.After(until) {
			break
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("read %s from the recording: %w", path.Base(name), err)
		}
		if f.Kind != metrics.KindLog || f.Name != name {
			continue
		}
		if h, raw, err := metrics.DecodeChunk[metrics.LogHeader](f.Data); err == nil {
			l.add(h, raw)
		}
	}
	if len(l.lines) == 0 {
		return nil, fmt.Errorf("the recording holds no line of %s up to here", path.Base(name))
	}
	return l, nil
}

// recordedLog is a log as far as a recording holds it: whole lines in the order
// of the file, with gaps.
type recordedLog struct {
	id    string
	lines []recordedLine
	size  int64
}

type recordedLine struct {
	off  int64
	text []byte // with its end
}

func (l *recordedLog) add(h metrics.LogHeader, raw []byte) {
	if h.Reset != "" || h.ID != "" && l.id != "" && h.ID != l.id {
		l.lines, l.size = nil, 0 // another file under the same name
	}
	if h.ID != "" {
		l.id = h.ID
	}
	l.size = max(l.size, h.Size, h.End)
	// A visit that begins anew brings lines that are there already.
	from := sort.Search(len(l.lines), func(i int) bool { return l.lines[i].off >= h.Offset })
	to := sort.Search(len(l.lines), func(i int) bool { return l.lines[i].off >= h.End })
	var fresh []recordedLine
	off := h.Offset
	for line := range bytes.Lines(raw) {
		fresh = append(fresh, recordedLine{off, line})
		off += int64(len(line))
	}
	if from == len(l.lines) {
		l.lines = append(l.lines, fresh...)
		return
	}
	l.lines = append(append(append([]recordedLine(nil), l.lines[:from]...), fresh...), l.lines[to:]...)
}

// index is the first line at or behind an offset.
func (l *recordedLog) index(off int64) int {
	return sort.Search(len(l.lines), func(i int) bool { return l.lines[i].off >= off })
}

// lastBefore is the offset of the newest line before another.
func (l *recordedLog) lastBefore(off int64) int64 {
	return l.lines[max(l.index(off)-1, 0)].off
}

// LogSlice gives the whole lines from an offset on, at most so many bytes of
// them; behind a gap those that come next.
func (l *recordedLog) LogSlice(_ context.Context, _ string, off, n int64) (probe.Page, error) {
	if off < 0 {
		off = max(0, l.size+off)
	}
	page := probe.Page{Offset: l.size, End: l.size, Size: l.size}
	i := l.index(off)
	if i == len(l.lines) {
		return page, nil
	}
	page.Offset = l.lines[i].off
	end := off + n
	if page.Offset >= end {
		end = page.Offset + n
	}
	for ; i < len(l.lines) && l.lines[i].off < end; i++ {
		line := l.lines[i]
		text := bytes.TrimRight(line.text, "\r\n")
		text = text[bytes.LastIndexByte(text, '\r')+1:]
		page.Lines = append(page.Lines, metrics.Clean(string(text), 16<<10))
		page.Offsets = append(page.Offsets, line.off)
		page.End = line.off + int64(len(line.text))
	}
	return page, nil
}

// SearchLog finds the nearest line that fits.
func (l *recordedLog) SearchLog(_ context.Context, _ string, s probe.LogSearch) (int64, error) {
	fits := func(line recordedLine) bool {
		text := string(line.text)
		if s.Fold {
			text = strings.ToLower(text)
		}
		return slices.ContainsFunc(s.Words, func(w string) bool { return strings.Contains(text, w) })
	}
	at := l.index(s.From)
	if s.Newer {
		if i := slices.IndexFunc(l.lines[at:], fits); i >= 0 {
			return l.lines[at+i].off, nil
		}
		return 0, probe.ErrNotFound
	}
	for _, line := range slices.Backward(l.lines[:at]) {
		if fits(line) {
			return line.off, nil
		}
	}
	return 0, probe.ErrNotFound
}
