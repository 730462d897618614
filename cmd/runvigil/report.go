package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/board"
	"github.com/runvigil/runvigil/metrics/recording"
	"github.com/runvigil/runvigil/metrics/report"
)

func newReport(o *options) *cobra.Command {
	var since time.Duration
	var asMarkdown, asJSON bool
	cmd := &cobra.Command{
		Use:   "report NODE|FILE",
		Short: "What happened while you were away",
		Long: `report tells the last hours of a node: what to do now, yield (tokens generated,
requests finished, rows landed), rows by dataset, tok/s as a plain graph, starts
and their levels, findings with their times, incidents.

Of a NODE it knows what the node's own logs, files and processes still tell, and
what a watcher has kept of it ([record] in the configuration, docs/notify.md):
without one, findings that came and went are not known. Of a FILE made by record
it knows all that was seen; the span ends with the recording.`,
		Example: `  runvigil report gpu7 --since 12h
  runvigil report night.rv --markdown > night.md
  runvigil report gpu7 --json | jq .yield`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case asMarkdown && asJSON:
				return usagef("--markdown and --json exclude each other")
			case since <= 0 || since > 75*time.Hour:
				return usagef("--since is %s; it may be up to 75h", since)
			}
			snap, err := lookBack(cmd.Context(), o, args[0], since)
			if err != nil {
				return err
			}
			return printReport(o, report.NewAway(snap, since), asMarkdown, asJSON)
		},
	}
	cmd.Flags().DurationVar(&since, "since", 12*time.Hour, "how far to look back, up to 75h")
	cmd.Flags().BoolVar(&asMarkdown, "markdown", false, "write Markdown")
	cmd.Flags().BoolVar(&asJSON, "json", false, "write one JSON object")
	return cmd
}

// lookBack gives the snapshot that a report is made from: of a recording's end,
// else of a node that is asked now, after what a watcher of it recorded.
func lookBack(ctx context.Context, o *options, name string, since time.Duration) (*metrics.Snapshot, error) {
	if st, err := os.Stat(name); err == nil && st.Mode().IsRegular() {
		snap, torn, err := lastOf(ctx, name)
		if torn {
			fmt.Fprintf(o.io.err, "runvigil: %s: %v\n", name, recording.ErrTorn)
		}
		return snap, err
	}
	n, err := o.openNode(ctx, name)
	if err != nil {
		return nil, err
	}
	defer n.close()
	b := board.New()
	if _, err := foldRecordings(ctx, o.file.Record.Rotation(), name, time.Now().Add(-since), b); err != nil {
		slog.Warn("recordings", "error", err) // the node itself still tells what it can
	}
	snap, err := lookAfter(ctx, n, b)
	if err != nil {
		return nil, err
	}
	if snap.Link.Status != metrics.LinkUp {
		return nil, fmt.Errorf("%s could not be reached: %s", name, snap.Link.Reason)
	}
	return snap, nil
}

// lastOf folds a whole recording as fast as it can be read; torn says that it
// ends in the middle of a record.
func lastOf(ctx context.Context, path string) (snap *metrics.Snapshot, torn bool, err error) {
	r, file, err := openRecording(path)
	if err != nil {
		return nil, false, err
	}
	defer file.Close()
	defer r.Close()
	var last *metrics.Snapshot
	src := &replaySource{frames: r}
	s := newSession(newClock(), src, func(snap *metrics.Snapshot) { last = snap })
	if err := s.run(ctx, nil); err != nil {
		return nil, false, fmt.Errorf("%s: %w", path, err)
	}
	shown := *last
	shown.Replay = true
	shown.Verdict = metrics.Judge(&shown)
	return &shown, src.torn, nil
}

func printReport(o *options, a report.Away, asMarkdown, asJSON bool) error {
	switch {
	case asJSON:
		out, err := a.JSON()
		if err != nil {
			return err
		}
		_, err = o.io.out.Write(out)
		return err
	case asMarkdown:
		fmt.Fprint(o.io.out, a.Markdown())
	default:
		fmt.Fprint(o.io.out, a.Text())
	}
	return nil
}
