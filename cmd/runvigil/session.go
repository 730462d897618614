package main

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/board"
)

// pace bounds how often a new snapshot is made (the screen draws less often
// still), and how often the fold is asked what to read next.
type pace struct{ publish, wants time.Duration }

// A visit that has just begun waits for nothing: each answer leads to the next
// question.
var (
	firstPace  = pace{publish: 20 * time.Millisecond, wants: 20 * time.Millisecond}
	steadyPace = pace{publish: 100 * time.Millisecond, wants: 250 * time.Millisecond}
)

// firstFor is how long firstPace holds.
const firstFor = 5 * time.Second

// A source gives the frames of one node until ctx ends or it has no more.
type source interface {
	// Run calls out for every frame, from any goroutine.
	Run(ctx context.Context, out func(metrics.Frame)) error
	// SetWants says what to read next. It must not block.
	SetWants(wants []metrics.Want)
}

// A clock gives receive times: the wall time at which it began plus the
// monotonic time since, so that it never goes back. The monotonic clock stands
// still while this machine sleeps: a wall that has run ahead takes it along.
type clock struct {
	begun time.Time
	wall  func() time.Time
	slept *atomic.Int64 // how far the wall ran ahead, in ns
}

// wallAhead is how far the wall runs ahead before the clock follows.
const wallAhead = 10 * time.Second

func newClock() clock {
	return clock{time.Now(), func() time.Time { return time.Now().Round(0) }, new(atomic.Int64)}
}

func (c clock) now() time.Time {
	for {
		slept := c.slept.Load()
		t := c.begun.Round(0).Add(time.Since(c.begun) + time.Duration(slept))
		ahead := c.wall().Sub(t)
		if ahead < wallAhead {
			return t
		}
		c.slept.CompareAndSwap(slept, slept+int64(ahead))
	}
}

// A session folds one source into snapshots.
type session struct {
	clock   clock
	src     source
	board   *board.Board
	in      chan metrics.Frame
	record  frameWriter // nil: nothing is recorded
	publish func(*metrics.Snapshot)
	// seen is told every frame after it was folded, and wanted every list of
	// wants: a one-shot command knows by them when it has seen everything.
	seen   func(metrics.Frame)
	wanted func([]metrics.Want)

	last atomic.Pointer[metrics.Snapshot]
}

// zone is the node's zone as far as it is known.
func (s *session) zone() *time.Location {
	if last := s.last.Load(); last != nil && last.Zone != "" {
		return time.FixedZone(last.Zone, last.ZoneSec)
	}
	return time.Local
}

func (s *session) show() {
	snap := s.board.Snapshot()
	s.last.Store(snap)
	s.publish(snap)
}

func newSession(c clock, src source, publish func(*metrics.Snapshot)) *session {
	return &session{clock: c, src: src, board: board.New(), in: make(chan metrics.Frame, 1024), publish: publish}
}

// put hands a frame of the operator's to the fold.
func (s *session) put(ctx context.Context, f metrics.Frame) error {
	f.At = s.stamp()
	select {
	case s.in <- f:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// note puts a text of this program's own onto the timeline.
func (s *session) note(ctx context.Context, text string) {
	note := metrics.Note{At: s.stamp(), Text: metrics.Clean(text, 400)}
	if err := s.put(ctx, metrics.JSONFrame(metrics.KindNote, "", time.Time{}, note)); err != nil {
		slog.Debug("note", "error", err)
	}
}

// stamp is the time of an operator's frame: of the recording, in a replay.
func (s *session) stamp() time.Time {
	if _, replay := s.src.(*replaySource); replay {
		if last := s.last.Load(); last != nil {
			return last.At
		}
	}
	return s.clock.now()
}

// run folds until ctx ends or the source is exhausted; the last snapshot is
// published before it returns.
func (s *session) run(ctx context.Context, before []metrics.Frame) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- s.src.Run(ctx, func(f metrics.Frame) {
			select {
			case s.in <- f:
			case <-ctx.Done():
			}
		})
	}()
	for _, f := range before {
		if err := s.fold(f); err != nil {
			return err
		}
	}
	begun := time.Now()
	var published, wanted time.Time
	toPublish, toWant := true, true
	due := time.NewTimer(0)
	defer due.Stop()
	for {
		select {
		case f := <-s.in:
			if err := s.fold(f); err != nil {
				return err
			}
			toPublish, toWant = true, true
		case <-due.C:
		case err := <-ended:
			for len(s.in) > 0 {
				if ferr := s.fold(<-s.in); ferr != nil {
					return errors.Join(err, ferr)
				}
			}
			s.show()
			if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
				return nil
			}
			return err
		}
		now, at := time.Now(), steadyPace
		if now.Sub(begun) < firstFor {
			at = firstPace
		}
		if len(s.in) > 0 && now.Sub(published) < 10*at.publish {
			continue
		}
		next := time.Duration(0) // until the timer is due, 0: nothing waits for it
		wait := func(d time.Duration) {
			if next == 0 || d < next {
				next = d
			}
		}
		if left := at.wants - now.Sub(wanted); toWant && left > 0 {
			wait(left)
		} else if toWant {
			wanted, toWant = now, false
			wants := s.board.Wants()
			s.src.SetWants(wants)
			if s.wanted != nil {
				s.wanted(wants)
			}
		}
		if left := at.publish - now.Sub(published); toPublish && left > 0 {
			wait(left)
		} else if toPublish {
			published, toPublish = now, false
			s.show()
		}
		if next > 0 {
			due.Reset(next)
		}
	}
}

func (s *session) fold(f metrics.Frame) error {
	s.board.Apply(f)
	if s.record != nil {
		if err := s.record.Write(f); err != nil {
			return err
		}
	}
	if s.seen != nil {
		s.seen(f)
	}
	return nil
}

// logFrame notes what came, for --log-file.
func logFrame(f metrics.Frame) {
	if f.Kind != metrics.KindTick {
		slog.Debug("frame", "kind", f.Kind, "name", f.Name, "bytes", len(f.Data))
	}
}
