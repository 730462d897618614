package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/recording"
	"github.com/runvigil/runvigil/testdata"
	"github.com/runvigil/runvigil/tui"
)

func newReplay(o *options) *cobra.Command {
	var speed float64
	var at string
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Show a recording on the screen",
		Long: `replay shows a recording as the live screen showed it. Keys work as there; nothing
is acted on, and no command of the configuration is run.`,
		Example: `  runvigil replay night.rv
  runvigil replay night.rv --at 03:12 --speed 10`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !(speed > 0 && speed <= 10_000) {
				return usagef("--speed is %g; it must be above 0 and at most 10000", speed)
			}
			start, err := parseStartAt(at)
			if err != nil {
				return err
			}
			from, err := replayStart(args[0], start)
			if err != nil {
				return err
			}
			if err := needTerminal(o, "NODE"); err != nil {
				return err
			}
			r, file, err := openRecording(args[0])
			if err != nil {
				return err
			}
			defer file.Close()
			defer r.Close()
			again := func() (*recording.Reader, io.Closer, error) { return openRecording(args[0]) }
			return replay(cmd.Context(), o, args[0], r, speed, from, again)
		},
	}
	cmd.Flags().Float64Var(&speed, "speed", 1, "how much faster than it was")
	cmd.Flags().StringVar(&at, "at", "", "begin at this time of the node, e.g. 03:12 or \"2026-02-24 03:12\"")
	return cmd
}

// replayStart turns --at into a moment of the recording, in the node's zone.
func replayStart(path string, at startAt) (time.Time, error) {
	if at.isZero() {
		return time.Time{}, nil
	}
	begin, end, zone, err := spanOf(path)
	if err != nil {
		return time.Time{}, err
	}
	t := at.after(begin, zone)
	if t.Before(begin.Truncate(time.Minute)) || t.After(end) {
		const layout = "2006-01-02 15:04:05"
		return time.Time{}, usagef("--at %s is %s, which is not in %s: it holds %s to %s %s", at.text,
			t.In(zone).Format(layout), path, begin.In(zone).Format(layout), end.In(zone).Format(layout), zone)
	}
	return t, nil
}

// spanOf gives the times of a recording's first and last frame, and its node's
// zone.
func spanOf(path string) (begin, end time.Time, zone *time.Location, err error) {
	r, file, err := openRecording(path)
	if err != nil {
		return begin, end, nil, err
	}
	defer file.Close()
	defer r.Close()
	zone = time.Local
	known := false
	for {
		f, err := r.Next()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, recording.ErrTorn):
			if begin.IsZero() {
				return begin, end, nil, fmt.Errorf("%s: the recording holds no whole frame", path)
			}
			return begin, end, zone, nil
		case err != nil:
			return begin, end, nil, fmt.Errorf("%s: %w", path, err)
		}
		if begin.IsZero() {
			begin = f.At
		}
		end = f.At
		if f.Kind == metrics.KindSession && !known {
			if s, err := metrics.Decode[metrics.Session](f); err == nil {
				zone, known = time.FixedZone(s.Zone, s.ZoneSec), true
			}
		}
	}
}

func replay(ctx context.Context, o *options, name string, r *recording.Reader, speed float64, from time.Time, again func() (*recording.Reader, io.Closer, error)) error {
	box := tui.NewMailbox()
	src := &replaySource{frames: r, speed: speed, from: from, clock: time.After, hold: true}
	s := newSession(newClock(), src, func(snap *metrics.Snapshot) {
		shown := *snap
		shown.Replay = true
		box.Put(&shown)
	})
	return screen(ctx, o, s, nil, tui.Options{Node: name, Source: box, Actions: &actions{session: s, recorded: &recordedLogs{again}}, ReadOnly: true}, func() {})
}

// replayEmbedded shows the story that the program ships.
func replayEmbedded(ctx context.Context, o *options) error {
	again := func() (*recording.Reader, io.Closer, error) {
		r, err := recording.NewReader(bytes.NewReader(testdata.Story))
		return r, io.NopCloser(nil), err
	}
	r, _, err := again()
	if err != nil {
		return err
	}
	defer r.Close()
	return replay(ctx, o, "demo", r, 1, time.Time{}, again)
}
