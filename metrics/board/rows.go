package board

import (
	"slices"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

const (
	rowsEvery = 2 * time.Second
	// rateSpan is the span over which rows a minute are reckoned.
	rateSpan = 10 * time.Minute
	fineSpan = 15 * time.Minute
	longSpan = 12 * time.Hour
	gapsKeep = 32
)

// rowPoint is a count of rows at a moment of the local clock.
type rowPoint struct {
	at   time.Time
	rows float64
}

// trail is a count's past: fine for a quarter of an hour, a point a minute for
// half a day. It only grows; a reset empties it.
type trail struct {
	fine []rowPoint
	long []rowPoint
}

func (t *trail) add(at time.Time, rows float64) {
	t.fine = appendPoint(t.fine, rowPoint{at, rows}, 5*time.Second, fineSpan)
	t.long = appendPoint(t.long, rowPoint{at, rows}, time.Minute, longSpan)
}

// appendPoint adds p, at most one every step, and forgets what is older than
// span. The newest point always holds the newest count.
func appendPoint(ps []rowPoint, p rowPoint, step, span time.Duration) []rowPoint {
	n := len(ps)
	if n >= 2 && p.at.Sub(ps[n-2].at) < step {
		ps[n-1] = p
	} else {
		ps = append(ps, p)
	}
	drop := 0
	for drop < len(ps)-1 && p.at.Sub(ps[drop+1].at) > span {
		drop++
	}
	if drop > 0 {
		ps = append(ps[:0], ps[drop:]...)
	}
	return ps
}

func (t *trail) first() (rowPoint, bool) {
	if len(t.long) == 0 {
		return rowPoint{}, false
	}
	return t.long[0], true
}

// before gives the newest point at or before a moment.
func (t *trail) before(at time.Time) (rowPoint, bool) {
	for _, ps := range [][]rowPoint{t.fine, t.long} {
		for i := len(ps) - 1; i >= 0; i-- {
			if !ps[i].at.After(at) {
				return ps[i], true
			}
		}
	}
	return rowPoint{}, false
}

// after gives the oldest point after a moment.
func (t *trail) after(at time.Time) (rowPoint, bool) {
	for _, ps := range [][]rowPoint{t.long, t.fine} {
		for _, p := range ps {
			if p.at.After(at) {
				return p, true
			}
		}
	}
	return rowPoint{}, false
}

// rowState is what is known of one file of rows.
type rowState struct {
	fact    metrics.RowsFact
	at      time.Time
	seen    bool // a whole count is known
	trail   trail
	grew    time.Time // newest growth, local clock
	watched bool      // that growth was watched
	gaps    []float64 // seconds between observed growths
	steps   []float64 // rows that came with one growth
	judged  *metrics.RowsJudged
	past    rowsPast
	reset   *metrics.RowsReset
	missing bool // its file was deleted
	errAt   time.Time
	fresh   bool // the file was not there when its directory was first listed
}

func (b *Board) applyRows(f metrics.Frame, r metrics.RowsFact) {
	path := r.Path
	s := b.rows[path]
	if s == nil {
		s = &rowState{}
		b.rows[path] = s
	}
	if r.Reset != "" && s.seen {
		name := shortName(path)
		b.event(metrics.Event{At: f.At, Kind: "rows", Text: name + " was " + metrics.Clean(r.Reset, 20) + ": " + metrics.Count(float64(s.fact.Rows)) + " rows before", Ref: path})
		s.trail = trail{}
		s.reset = &metrics.RowsReset{At: f.At, Path: path, How: metrics.Clean(r.Reset, 20), Before: s.fact.Rows, ID: s.fact.ID, Bytes: s.fact.Offset}
		s.past.last, s.past.ids, s.past.repeats, s.past.habit = nil, nil, 0, false
		s.judged = nil // of rows that are there no more
	}
	if r.Judged != nil {
		s.judged = r.Judged
		s.past.judge(r.Judged, f.At)
	}
	if r.Err != s.fact.Err {
		s.errAt = f.At
	}
	s.fact = r
	before := s.at
	if r.Err == "" {
		s.at = f.At
	}
	if r.Err != "" || !r.Done {
		return
	}
	rows := float64(r.Rows)
	if !s.seen {
		s.seen = true
		if sf, ok := b.saved[path]; ok && sf.ID == r.ID && sf.Rows <= r.Rows && !sf.At.IsZero() && sf.At.Before(f.At) {
			s.trail.add(sf.At, float64(sf.Rows))
		} else if s.fresh {
			s.trail.add(b.begun, 0)
		}
		s.grew = b.localUnix(r.Mtime)
	} else if last := s.trail.fine; len(last) > 0 && rows > last[len(last)-1].rows {
		grew := b.localUnix(r.Mtime)
		if grew.IsZero() || grew.After(f.At) {
			grew = f.At
		}
		// The time since a growth from before the watch is no habit: a file may have
		// rested until its client was started again.
		if d := grew.Sub(s.grew).Seconds(); s.watched && d > 0 {
			s.gaps = append(s.gaps, d)
			if len(s.gaps) > gapsKeep {
				s.gaps = append(s.gaps[:0], s.gaps[1:]...)
			}
		}
		if f.At.Sub(before) <= stepWithin {
			s.steps = append(s.steps, rows-last[len(last)-1].rows)
			if len(s.steps) > gapsKeep {
				s.steps = append(s.steps[:0], s.steps[1:]...)
			}
		}
		s.grew, s.watched = grew, true
	}
	s.trail.add(f.At, rows)
}

// stepWithin is how far two counts may lie apart for the rows between them to be
// one growth.
const stepWithin = 10 * time.Second

// step is the most rows that lately came at once: a writer that saves in batches
// holds back as many.
func (s *rowState) step() float64 {
	if len(s.steps) == 0 {
		return 0
	}
	return slices.Max(s.steps)
}

// gap is the usual time between growths: their median, the longest of the first
// few, 0 before two were watched.
func (s *rowState) gap() time.Duration {
	switch {
	case len(s.gaps) == 0:
		return 0
	case len(s.gaps) < 4:
		return time.Duration(slices.Max(s.gaps) * float64(time.Second))
	}
	return time.Duration(median(s.gaps) * float64(time.Second))
}

// nearCount is how far a count may lie from the moment for which it stands.
const nearCount = time.Minute

// growth gives the rows that came since a moment, over all trails, and the
// moment from which that is really known: since, or the first count after it.
func growth(trails []*trail, since, now time.Time) (rows float64, over time.Duration, ok bool) {
	from := since
	for _, t := range trails {
		if p, found := t.before(since); found && since.Sub(p.at) < nearCount {
			continue
		}
		p, found := t.after(since)
		if !found {
			return 0, 0, false
		}
		from = latest(from, p.at)
	}
	for _, t := range trails {
		p, found := t.before(from)
		if !found {
			return 0, 0, false
		}
		rows += t.fine[len(t.fine)-1].rows - p.rows
	}
	return max(rows, 0), now.Sub(from), len(trails) > 0
}

// perMin gives rows a minute over the last ten minutes, or over the time that
// was watched where that is shorter, at least one minute.
func perMin(trails []*trail, now time.Time) (rate float64, over time.Duration, ok bool) {
	rows, over, ok := growth(trails, now.Add(-rateSpan), now)
	if !ok || over < time.Minute {
		return 0, 0, false
	}
	return rows / over.Minutes(), over, true
}

// landedSince gives rows that came since a moment: since is that moment where
// the count then is known, else the first moment that is. born is when the file
// was made, to the second, zero unknown.
func (s *rowState) landedSince(at, born time.Time) (rows float64, since time.Time, ok bool) {
	if !s.seen || len(s.trail.fine) == 0 {
		return 0, time.Time{}, false
	}
	last := s.trail.fine[len(s.trail.fine)-1]
	if !s.grew.IsZero() && s.grew.Before(at) {
		return 0, at, true // its mtime proves that nothing came since
	}
	if !born.IsZero() && !born.Before(at.Truncate(time.Second)) {
		return last.rows, at, true // the file is younger: all of it came since
	}
	if p, found := s.trail.before(at); found {
		return last.rows - p.rows, at, true
	}
	p, _ := s.trail.first()
	return last.rows - p.rows, p.at, true
}

func (b *Board) applyFiles(_ metrics.Frame, stats []metrics.FileStat) {
	for _, st := range stats {
		b.file(st)
	}
}

// foundAgain is how soon after a file went one with its number (device:inode) and
// all its bytes counts as that file: later the number may be another's.
const foundAgain = time.Minute

// file keeps the newest stat. A listing may not tell when a file was made.
func (b *Board) file(st metrics.FileStat) {
	prev, ok := b.files[st.Path]
	if ok && st.Birth == 0 && prev.ID == st.ID {
		st.Birth = prev.Birth
	}
	if r := b.rows[st.Path]; r != nil {
		if ok && prev.Exists && !st.Exists && st.Err == "" {
			r.deleted(b, st.Path)
		}
		r.missing = r.missing && !st.Exists
	}
	for p, r := range b.rows {
		if p != st.Path && r.reset != nil && r.reset.Moved == "" && b.now.Sub(r.reset.At) < foundAgain && st.Exists && st.ID == r.reset.ID && st.Size >= r.reset.Bytes && r.reset.Bytes > 0 {
			moved := *r.reset
			moved.Moved = metrics.Clean(st.Path, 400)
			r.reset = &moved // snapshots hold the one before
		}
	}
	if l := b.logs[st.Path]; l != nil {
		switch {
		case st.Exists:
			l.deleted = time.Time{}
		case l.seen && st.Err == "" && l.deleted.IsZero():
			l.deleted = b.now
		}
	}
	b.files[st.Path] = st
}

// deleted notes that a file whose rows were counted is there no more. It stays a
// dataset, with no rows, until it comes back.
func (r *rowState) deleted(b *Board, path string) {
	if !r.seen || r.fact.Rows == 0 {
		return
	}
	b.event(metrics.Event{At: b.now, Kind: "rows", Text: shortName(path) + " was deleted: " + metrics.Count(float64(r.fact.Rows)) + " rows before", Ref: path})
	r.reset = &metrics.RowsReset{At: b.now, Path: path, How: "deleted", Before: r.fact.Rows, ID: r.fact.ID, Bytes: r.fact.Offset}
	r.missing, r.trail, r.judged = true, trail{}, nil
	r.fact.Rows, r.fact.Size, r.fact.Offset = 0, 0, 0
	r.trail.add(b.now, 0)
}

func (b *Board) applyDir(f metrics.Frame, list []metrics.FileStat) {
	old, again := b.dirs[f.Name]
	for _, st := range list {
		had := slices.ContainsFunc(old, func(o metrics.FileStat) bool { return o.Path == st.Path })
		if again && !had && isData(st.Path) && b.rows[st.Path] == nil {
			b.rows[st.Path] = &rowState{fresh: true}
		}
		for _, o := range old {
			if o.Path == st.Path && st.Size > o.Size && isData(st.Path) {
				d := b.data[st.Path]
				if d == nil {
					d = &dataState{}
					b.data[st.Path] = d
				}
				d.growing = true
			}
		}
		if prev, ok := b.files[st.Path]; !ok || st.Mtime >= prev.Mtime {
			b.file(st)
		}
	}
	b.dirs[f.Name] = list
}
