package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/recording"
)

// A replaySource gives the frames of a recording at the speed at which they
// were made, or faster.
type replaySource struct {
	torn   bool // it ended in the middle of a record
	frames *recording.Reader
	speed  float64 // 0: as fast as possible
	from   time.Time
	clock  func(gap time.Duration) <-chan time.Time
	// hold keeps the source open after the last frame, so that the screen stays.
	hold bool
}

// SetWants is ignored: a recording holds what it holds.
func (r *replaySource) SetWants([]metrics.Want) {}

// Run gives frames before `from` at once, and the rest in time. A recording that
// breaks off is played up to there and is no error.
func (r *replaySource) Run(ctx context.Context, out func(metrics.Frame)) error {
	var last time.Time
	given := 0
	for {
		f, err := r.frames.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, recording.ErrTorn) {
			r.torn = errors.Is(err, recording.ErrTorn)
			break
		}
		if err != nil {
			return err
		}
		if last.Before(r.from) {
			last = r.from
		}
		if gap := f.At.Sub(last); r.speed > 0 && !last.IsZero() && gap > 0 {
			select {
			case <-r.clock(time.Duration(float64(gap) / r.speed)):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		last = f.At
		out(f)
		given++
	}
	if given == 0 {
		return errors.New("the recording holds no whole frame")
	}
	if r.hold {
		<-ctx.Done()
	}
	return ctx.Err()
}

// openRecording opens a file, or one of the embedded recordings.
func openRecording(path string) (*recording.Reader, io.Closer, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("open the recording: %w", err)
	}
	r, err := recording.NewReader(file)
	if err != nil {
		file.Close()
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, file, nil
}

// startAt is what --at means: a time of day, a time in the node's zone, or a full
// time. The zero one is none.
type startAt struct {
	text   string
	layout string
}

// dayTimes and fullTimes are the forms of --at.
var (
	dayTimes  = []string{"15:04:05", "15:04"}
	fullTimes = []string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04"}
)

func (s startAt) isZero() bool { return s.text == "" }

// parseStartAt knows the form of --at; which moment it means, only a recording tells.
func parseStartAt(text string) (startAt, error) {
	if text == "" {
		return startAt{}, nil
	}
	for _, layout := range slices.Concat(fullTimes, dayTimes) {
		if _, err := time.Parse(layout, text); err == nil {
			return startAt{text, layout}, nil
		}
	}
	return startAt{}, usagef("--at %q is no time; write 03:12, 03:12:30 or \"2026-02-24 03:12\"", text)
}

// after gives the moment: a time of day on the day on which the recording begins,
// or on the next where it is earlier than that minute.
func (s startAt) after(begin time.Time, zone *time.Location) time.Time {
	t, err := time.ParseInLocation(s.layout, s.text, zone)
	if err != nil || !slices.Contains(dayTimes, s.layout) {
		return t
	}
	b := begin.In(zone)
	at := time.Date(b.Year(), b.Month(), b.Day(), t.Hour(), t.Minute(), t.Second(), 0, zone)
	if at.Before(begin.Truncate(time.Minute)) {
		at = at.AddDate(0, 0, 1)
	}
	return at
}
