package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote/probe"
	"github.com/runvigil/runvigil/tui"
)

// logReader is what reading a log by hand needs of the probe, or of a recording.
type logReader interface {
	LogSlice(ctx context.Context, path string, off, n int64) (probe.Page, error)
	SearchLog(ctx context.Context, path string, s probe.LogSearch) (int64, error)
}

const (
	pageBytes   = 128 << 10 // of lines around what was sought
	leadBytes   = 32 << 10  // of these before it
	stampProbe  = 16 << 10  // read at each step of a search by time
	stampReach  = 4 << 20   // read at most there for a line that has a time
	stampLast   = 256 << 10 // read at its last step
	stampColumn = 64        // a line's own time stands before this column
	placeReach  = 1 << 20   // read at most for a line near its time
	placeSlack  = time.Minute
)

// FindLog tells which file of the node a name means.
func (a *actions) FindLog(ctx context.Context, name string) (tui.LogFile, error) {
	p, err := a.probe()
	if err != nil {
		return tui.LogFile{}, err
	}
	f, err := p.FindLog(ctx, name)
	return tui.LogFile{Path: f.Path, Missing: f.Missing, Newest: f.Newest}, err
}

// Log reads a part of a log that the screen's tail does not hold.
func (a *actions) Log(ctx context.Context, q tui.LogQuery) (tui.LogSlice, error) {
	clock := a.session.logClock(q.Path)
	if a.recorded != nil {
		r, err := a.recorded.read(ctx, q.Path, a.session.stamp())
		if err != nil {
			return tui.LogSlice{}, err
		}
		return readLog(ctx, r, q, clock)
	}
	p, err := a.probe()
	if err != nil {
		return tui.LogSlice{}, err
	}
	return readLog(ctx, p, q, clock)
}

func readLog(ctx context.Context, p logReader, q tui.LogQuery, clock logClock) (tui.LogSlice, error) {
	switch {
	case q.Place.Path != "":
		return findPlace(ctx, p, q, clock)
	case q.Errors:
		return searchLog(ctx, p, q, metrics.ErrorWords, clock)
	case q.Search != "":
		return searchLog(ctx, p, q, []string{q.Search}, clock)
	case !q.At.IsZero():
		off, err := offsetAt(ctx, p, q.Path, q.At, clock)
		if err != nil {
			return tui.LogSlice{}, err
		}
		out, err := sliceAround(ctx, p, q.Path, off, clock)
		if err == nil && !slices.ContainsFunc(out.Lines, func(l metrics.LogLine) bool { return !l.At.IsZero() }) {
			out.Hit, out.Missing = -1, "the lines of "+path.Base(q.Path)+" do not tell their time"
		}
		return out, err
	}
	from := int64(-pageBytes)
	n := int64(pageBytes)
	switch {
	case q.Newer:
		from = q.After
	case q.Before >= 0:
		from = max(0, q.Before-pageBytes)
		if r, recorded := p.(*recordedLog); recorded {
			from = min(from, r.lastBefore(q.Before))
		}
		n = q.Before - from
	}
	page, err := p.LogSlice(ctx, q.Path, from, n)
	if err != nil {
		return tui.LogSlice{}, err
	}
	out := slice(q.Path, page, clock)
	if q.Max > 0 && len(out.Lines) > q.Max {
		if q.Newer {
			out.End = out.Lines[q.Max].Off
			out.Lines = out.Lines[:q.Max]
		} else {
			out.Lines = out.Lines[len(out.Lines)-q.Max:]
			out.Start = out.Lines[0].Off
		}
	}
	return out, nil
}

// findPlace finds a line by its offset, else by its time, and knows it by its
// text. Where it is not there any more, the lines of its moment are given, and
// what is missing is said.
func findPlace(ctx context.Context, p logReader, q tui.LogQuery, clock logClock) (tui.LogSlice, error) {
	at := q.Place
	if at.Off > 0 && at.Text != "" {
		page, err := p.LogSlice(ctx, q.Path, max(0, at.Off-leadBytes), pageBytes)
		if err != nil {
			return tui.LogSlice{}, err
		}
		if i := lineOf(page, at.Text, at.Off); i >= 0 {
			out := slice(q.Path, page, clock)
			out.Hit = i
			return out, nil
		}
	}
	if at.At.IsZero() {
		return tui.LogSlice{Path: q.Path, Hit: -1, Missing: "the line is not in " + path.Base(q.Path) + " any more"}, nil
	}
	off, err := offsetAt(ctx, p, q.Path, at.At.Add(-time.Second), clock)
	if err != nil {
		return tui.LogSlice{}, err
	}
	for from := off; at.Text != "" && from < off+placeReach; {
		page, err := p.LogSlice(ctx, q.Path, from, pageBytes)
		if err != nil {
			return tui.LogSlice{}, err
		}
		if i := lineOf(page, at.Text, from); i >= 0 {
			return sliceAround(ctx, p, q.Path, page.Offsets[i], clock)
		}
		if t, known := clock.first(page); page.End <= from || known && t.After(at.At.Add(placeSlack)) {
			break
		}
		from = page.End
	}
	out, err := sliceAround(ctx, p, q.Path, off, clock)
	if err == nil {
		out.Missing = missing(&out, at, clock)
	}
	return out, err
}

// missing says why a slice that begins about a place's moment has not its line.
func missing(s *tui.LogSlice, at metrics.LogPlace, clock logClock) string {
	name := path.Base(s.Path)
	stamped := false
	for _, l := range s.Lines {
		stamped = stamped || !l.At.IsZero()
		if s.Start == 0 && !l.At.IsZero() && l.At.After(at.At.Add(placeSlack)) {
			s.Hit = 0
			return fmt.Sprintf("%s begins at %s, after that line: it was rotated or emptied since", name, l.At.In(clock.zone).Format("02 Jan 15:04"))
		}
		if !l.At.IsZero() {
			break
		}
	}
	switch {
	case !stamped:
		s.Hit = -1
		return "the lines of " + name + " carry no time by which this one could be found; / searches for its words"
	case at.Text != "":
		return "that line is not in " + name + " any more; this is its moment"
	}
	return ""
}

// lineOf finds the line with a text in a page, the nearest to an offset; -1: none.
func lineOf(page probe.Page, text string, near int64) int {
	text = strings.TrimSpace(strings.TrimSuffix(text, "…"))
	text = text[:min(len(text), 200)]
	best := -1
	for i, l := range page.Lines {
		if strings.Contains(l, text) && (best < 0 || (page.Offsets[i]-near)*(page.Offsets[i]-near) < (page.Offsets[best]-near)*(page.Offsets[best]-near)) {
			best = i
		}
	}
	return best
}

// searchLog finds the nearest line that holds one of the words.
func searchLog(ctx context.Context, p logReader, q tui.LogQuery, words []string, clock logClock) (tui.LogSlice, error) {
	s := probe.LogSearch{Words: words, Fold: q.Fold, From: q.Before, Newer: q.Newer}
	switch {
	case q.Newer:
		s.From = q.After
	case q.Before < 0:
		s.From = 1 << 62
	}
	off, err := p.SearchLog(ctx, q.Path, s)
	if errors.Is(err, probe.ErrNotFound) {
		return tui.LogSlice{Path: q.Path, Hit: -1}, nil
	}
	if err != nil {
		return tui.LogSlice{}, err
	}
	return sliceAround(ctx, p, q.Path, off, clock)
}

// sliceAround gives the lines around an offset, with the one that holds it as hit.
func sliceAround(ctx context.Context, p logReader, path string, off int64, clock logClock) (tui.LogSlice, error) {
	page, err := p.LogSlice(ctx, path, max(0, off-leadBytes), pageBytes)
	if err != nil {
		return tui.LogSlice{}, err
	}
	out := slice(path, page, clock)
	for i, l := range out.Lines {
		if l.Off <= off {
			out.Hit = i
		}
	}
	return out, nil
}

// slice turns a page into lines with their own times; a line without one has
// that of the line before.
func slice(path string, page probe.Page, clock logClock) tui.LogSlice {
	out := tui.LogSlice{Path: path, Start: page.Offset, End: page.End, Hit: -1}
	var last time.Time
	for i, text := range page.Lines {
		if at, known := clock.stamp(text); known {
			last = at
		}
		out.Lines = append(out.Lines, metrics.LogLine{At: last, Text: text, Off: page.Offsets[i], Level: metrics.LineLevel(text)})
	}
	return out
}

// offsetAt finds the first line whose own time is not before t, by halving the
// file: a 5 GB log takes some twenty small reads.
func offsetAt(ctx context.Context, p logReader, path string, t time.Time, clock logClock) (int64, error) {
	end, err := p.LogSlice(ctx, path, -1, 1)
	if err != nil {
		return 0, err
	}
	lo, hi := int64(0), end.Size
	for hi-lo > stampLast {
		mid := lo + (hi-lo)/2
		at, known, err := stampFrom(ctx, p, path, mid, hi, clock)
		if err != nil {
			return 0, err
		}
		if known && at.Before(t) {
			lo = mid
		} else {
			hi = mid
		}
	}
	// Lines without a time belong to the one before them.
	for from := lo; from < end.Size && from < lo+stampReach; {
		page, err := p.LogSlice(ctx, path, from, stampLast+stampProbe)
		if err != nil {
			return 0, err
		}
		for i, text := range page.Lines {
			if at, known := clock.stamp(text); known && !at.Before(t) {
				return page.Offsets[i], nil
			}
		}
		if page.End <= from {
			break
		}
		from = page.End
	}
	return end.Size, nil
}

// stampFrom is the first line's time at or behind an offset. A traceback or a
// dumped prompt may be long, so that it goes on reading for a while.
func stampFrom(ctx context.Context, p logReader, path string, from, to int64, clock logClock) (time.Time, bool, error) {
	n := int64(stampProbe)
	for at := from; at < to && at < from+stampReach; n = min(2*n, 4*pageBytes) {
		page, err := p.LogSlice(ctx, path, at, n)
		if err != nil {
			return time.Time{}, false, err
		}
		if t, known := clock.first(page); known {
			return t, true, nil
		}
		at = max(page.End, at+n)
	}
	return time.Time{}, false, nil
}

// A logClock reads the times that stand in a log's lines.
type logClock struct {
	zone *time.Location // of the stamps
	skew time.Duration  // the node's clock minus the local one
	now  time.Time      // of the screen: stamps without a year are of the year before it
}

// logClock is the clock of one log, as far as it is known.
func (s *session) logClock(path string) logClock {
	c := logClock{zone: s.zone(), now: s.stamp()}
	if last := s.last.Load(); last != nil {
		c.skew = last.NodeClock
		if t := last.Logs[path]; t != nil {
			c.zone = time.FixedZone("", t.ZoneSec)
		}
	}
	return c
}

func (c logClock) first(page probe.Page) (time.Time, bool) {
	for _, text := range page.Lines {
		if at, known := c.stamp(text); known {
			return at, true
		}
	}
	return time.Time{}, false
}

// stamp reads a date and time near a line's beginning, of the form 2006-01-02
// 15:04:05 (with a T between and Z behind: in UTC) or, as vLLM writes it, 01-02
// 15:04:05, and gives it on the local clock.
func (c logClock) stamp(line string) (time.Time, bool) {
	head := line[:min(len(line), stampColumn)]
	for i := strings.IndexByte(head, '-'); i >= 0; {
		if at, ok := c.stampAt(line, i); ok {
			return at.Add(-c.skew), true
		}
		next := strings.IndexByte(head[i+1:], '-')
		if next < 0 {
			break
		}
		i += 1 + next
	}
	return time.Time{}, false
}

// stampAt reads the stamp whose first dash stands at i.
func (c logClock) stampAt(line string, i int) (time.Time, bool) {
	if i >= 4 && len(line) >= i+15 {
		text := line[i-4 : i+15]
		zone := c.zone
		if text[10] == 'T' && strings.HasSuffix(strings.TrimLeft(line[i+15:min(len(line), i+26)], ".0123456789")+" ", "Z ") {
			zone = time.UTC
		}
		if at, err := time.ParseInLocation(time.DateTime, strings.Replace(text, "T", " ", 1), zone); err == nil {
			return at, true
		}
	}
	if i >= 2 && len(line) >= i+12 && (i == 2 || line[i-3] == ' ' || line[i-3] == '[') {
		year := c.now.In(c.zone).Year()
		at, err := time.ParseInLocation(time.DateTime, fmt.Sprintf("%04d-%s", year, line[i-2:i+12]), c.zone)
		if err == nil && at.After(c.now.Add(24*time.Hour)) {
			at = at.AddDate(-1, 0, 0)
		}
		return at, err == nil
	}
	return time.Time{}, false
}
