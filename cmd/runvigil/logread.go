package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote/probe"
	"github.com/runvigil/runvigil/tui"
)

// logReader is what reading a log by hand needs of the probe.
type logReader interface {
	LogSlice(ctx context.Context, path string, off, n int64) (probe.Page, error)
	SearchLog(ctx context.Context, path, pattern string, from int64, dir int) (int64, error)
}

const (
	pageBytes   = 128 << 10 // of lines around what was sought
	leadBytes   = 32 << 10  // of these before it
	stampProbe  = 16 << 10  // read at each step of a search by time
	stampColumn = 64        // a line's own time stands before this column
)

// errorWords are what "next error" looks for.
var errorWords = []string{"Traceback (most recent call last)", "Error", "ERROR", "error:", "CUDA out of memory"}

// Log reads a part of a log that the screen's tail does not hold.
func (a *actions) Log(ctx context.Context, q tui.LogQuery) (tui.LogSlice, error) {
	p, err := a.probe()
	if err != nil {
		return tui.LogSlice{}, err
	}
	return readLog(ctx, p, q, a.session.zone())
}

func readLog(ctx context.Context, p logReader, q tui.LogQuery, zone *time.Location) (tui.LogSlice, error) {
	switch {
	case q.Errors:
		return searchLog(ctx, p, q, errorWords, zone)
	case q.Search != "":
		return searchLog(ctx, p, q, []string{q.Search}, zone)
	case !q.At.IsZero():
		off, err := offsetAt(ctx, p, q.Path, q.At, zone)
		if err != nil {
			return tui.LogSlice{}, err
		}
		return sliceAround(ctx, p, q, off, zone)
	}
	from := int64(-pageBytes)
	n := int64(pageBytes)
	switch {
	case q.After > 0:
		from = q.After
	case q.Before >= 0:
		from = max(0, q.Before-pageBytes)
		n = q.Before - from
	}
	page, err := p.LogSlice(ctx, q.Path, from, n)
	if err != nil {
		return tui.LogSlice{}, err
	}
	out := slice(q.Path, page, zone)
	if q.Max > 0 && len(out.Lines) > q.Max {
		if q.After > 0 {
			out.End = out.Lines[q.Max].Off
			out.Lines = out.Lines[:q.Max]
		} else {
			out.Lines = out.Lines[len(out.Lines)-q.Max:]
			out.Start = out.Lines[0].Off
		}
	}
	return out, nil
}

// searchLog finds the newest line before q.Before that holds one of the words.
func searchLog(ctx context.Context, p logReader, q tui.LogQuery, words []string, zone *time.Location) (tui.LogSlice, error) {
	from := q.Before
	if from < 0 {
		from = 1 << 62
	}
	best := int64(-1)
	for _, w := range words {
		off, err := p.SearchLog(ctx, q.Path, w, from, -1)
		if errors.Is(err, probe.ErrNotFound) {
			continue
		}
		if err != nil {
			return tui.LogSlice{}, err
		}
		best = max(best, off)
	}
	if best < 0 {
		return tui.LogSlice{Path: q.Path, Hit: -1}, nil
	}
	return sliceAround(ctx, p, q, best, zone)
}

// sliceAround gives the lines around an offset, with the one that holds it as hit.
func sliceAround(ctx context.Context, p logReader, q tui.LogQuery, off int64, zone *time.Location) (tui.LogSlice, error) {
	page, err := p.LogSlice(ctx, q.Path, max(0, off-leadBytes), pageBytes)
	if err != nil {
		return tui.LogSlice{}, err
	}
	out := slice(q.Path, page, zone)
	for i, l := range out.Lines {
		if l.Off <= off {
			out.Hit = i
		}
	}
	return out, nil
}

// slice turns a page into lines with their own times.
func slice(path string, page probe.Page, zone *time.Location) tui.LogSlice {
	out := tui.LogSlice{Path: path, Start: page.Offset, End: page.End, Hit: -1}
	for i, text := range page.Lines {
		at, _ := stampOf(text, zone)
		out.Lines = append(out.Lines, metrics.LogLine{At: at, Text: text, Off: page.Offsets[i]})
	}
	return out
}

// offsetAt finds the first line whose own time is not before t, by halving the
// file: a 5 GB log takes some twenty small reads.
func offsetAt(ctx context.Context, p logReader, path string, t time.Time, zone *time.Location) (int64, error) {
	end, err := p.LogSlice(ctx, path, -1, 1)
	if err != nil {
		return 0, err
	}
	lo, hi := int64(0), end.Size
	for hi-lo > stampProbe {
		mid := lo + (hi-lo)/2
		page, err := p.LogSlice(ctx, path, mid, stampProbe)
		if err != nil {
			return 0, err
		}
		at, known := firstStamp(page, zone)
		if known && at.Before(t) {
			lo = mid
		} else {
			hi = mid
		}
	}
	page, err := p.LogSlice(ctx, path, lo, 2*stampProbe)
	if err != nil {
		return 0, err
	}
	for i, text := range page.Lines {
		if at, known := stampOf(text, zone); known && !at.Before(t) {
			return page.Offsets[i], nil
		}
	}
	return page.End, nil
}

func firstStamp(page probe.Page, zone *time.Location) (time.Time, bool) {
	for _, text := range page.Lines {
		if at, known := stampOf(text, zone); known {
			return at, true
		}
	}
	return time.Time{}, false
}

// stampOf reads a date and time of the form 2006-01-02 15:04:05 near a line's beginning.
func stampOf(line string, zone *time.Location) (time.Time, bool) {
	head := line[:min(len(line), stampColumn)]
	for i := strings.IndexByte(head, '-'); i >= 0; {
		if i >= 4 && len(line) >= i+15 {
			text := strings.Replace(line[i-4:i+15], "T", " ", 1)
			if at, err := time.ParseInLocation(time.DateTime, text, zone); err == nil {
				return at, true
			}
		}
		next := strings.IndexByte(head[i+1:], '-')
		if next < 0 {
			break
		}
		i += 1 + next
	}
	return time.Time{}, false
}
