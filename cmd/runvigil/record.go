package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/recording"
)

func newRecord(o *options) *cobra.Command {
	var out string
	var limit time.Duration
	cmd := &cobra.Command{
		Use:   "record NODE -o FILE",
		Short: "Keep everything that is learnt about a node in a file",
		Long: `record watches a node without a screen and keeps every frame in FILE, until
ctrl-c, or for the time that --for gives. Secrets are masked before they are
written. A recording is for looking back, and for a bug report: replay shows it.`,
		Example: `  runvigil record gpu7 -o night.rv --for 12h
  runvigil replay night.rv --at 03:12`,
		Args: oneNode,
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return usagef("name the file with -o FILE")
			}
			if cmd.Flags().Changed("for") && limit <= 0 {
				return usagef("--for is %s; it must be above 0", limit)
			}
			return record(cmd.Context(), o, args[0], out, limit)
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "file to write; it must not exist")
	cmd.Flags().DurationVar(&limit, "for", 0, "how long to record, e.g. 12h (default until ctrl-c)")
	return cmd
}

func record(ctx context.Context, o *options, name, path string, limit time.Duration) (err error) {
	n, err := o.openNode(ctx, name)
	if err != nil {
		return err
	}
	defer n.close()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists already; a recording is never overwritten", path)
	}
	if err != nil {
		return fmt.Errorf("make the recording: %w", err)
	}
	w, err := recording.NewWriter(file)
	if err != nil {
		return errors.Join(err, file.Close(), os.Remove(path))
	}
	defer func() { err = errors.Join(err, w.Close(), file.Close()) }()
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	c := newClock()
	var last *metrics.Snapshot
	tell := newNotifier(ctx, o.file.NotifyFor(name))
	s := newSession(c, newLive(n, c, nil), func(snap *metrics.Snapshot) {
		last = snap
		tell.put(snap)
	})
	s.record = w
	seen := newFirstLook()
	s.seen = seen.see
	if err := s.run(ctx, n.frames(c.now())); err != nil {
		return unreachable(n, err)
	}
	if reason, down := seen.failed(); down && !seen.session {
		return fmt.Errorf("%s could not be reached: %s", name, reason)
	}
	if last != nil {
		fmt.Fprintf(o.io.err, "%s: %s\n", path, last.Verdict.Text)
	}
	return nil
}
