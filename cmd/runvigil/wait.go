package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/findings"
	"github.com/runvigil/runvigil/metrics/report"
)

// Exit codes of `runvigil wait`.
const (
	waitReached  = 0
	waitTimeout  = 1
	waitCritical = 2 // while waiting for something good
)

// criticalFor is how long a critical finding must last before it ends the wait
// for something that it keeps from happening.
const criticalFor = 60 * time.Second

func newWait(o *options) *cobra.Command {
	var until []string
	var limit time.Duration
	cmd := &cobra.Command{
		Use:   "wait NODE --for settled|done|critical|finding:ID",
		Short: "Wait until something is so, for scripts",
		Long: `wait watches a node without a screen until one of the things named with --for is
so, prints the verdict in one line and ends:

  settled      throughput has reached its lasting level
  done         every wanted row has landed, or the client ended with its work done
  critical     a critical finding is raised
  finding:ID   the finding ID is raised (docs/findings.md lists them)

Exit codes: 0 it is so, 1 the time given with --timeout is over, 2 a critical
finding has lasted a minute while settled or done was waited for, 3 the node
could not be reached, 64 wrong usage.`,
		Example: `  runvigil wait gpu7 --for settled --timeout 30m && runvigil check gpu7 --json > level.json
  runvigil wait gpu7 --for done --for critical; runvigil report gpu7 --markdown | mail -s "gpu7" me
  runvigil wait gpu7 --for finding:kv-saturated --timeout 8h`,
		Args: oneNode,
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := newWaiting(until)
			if err != nil {
				return err
			}
			if limit < 0 {
				return usagef("--timeout is %s; it must be above 0", limit)
			}
			return wait(cmd.Context(), o, args[0], w, limit)
		},
	}
	cmd.Flags().StringArrayVar(&until, "for", nil, "settled, done, critical or finding:ID; several: whichever comes first")
	cmd.Flags().DurationVar(&limit, "timeout", 0, "how long to wait at most, e.g. 30m (default without end)")
	return cmd
}

// waiting is what is waited for.
type waiting struct {
	settled, done, critical bool
	ids                     []string
	bad                     time.Time // since when a critical finding lasts
}

func newWaiting(until []string) (*waiting, error) {
	w := &waiting{}
	for _, u := range until {
		id, isID := strings.CutPrefix(u, "finding:")
		switch {
		case u == "settled":
			w.settled = true
		case u == "done":
			w.done = true
		case u == "critical":
			w.critical = true
		case isID && slices.ContainsFunc(findings.Registry(), func(d findings.Detector) bool { return d.ID == id }):
			w.ids = append(w.ids, id)
		case isID:
			return nil, usagef("--for %s: there is no finding %q; docs/findings.md lists them", u, id)
		default:
			return nil, usagef("--for %q is not known; it may be settled, done, critical or finding:ID", u)
		}
	}
	if len(until) == 0 {
		return nil, usagef("say what to wait for: --for settled, done, critical or finding:ID")
	}
	return w, nil
}

// reached tells whether the wait is over, and its exit code.
func (w *waiting) reached(s *metrics.Snapshot) (code int, over bool) {
	worst := metrics.SeverityNone
	for _, f := range s.Findings {
		if slices.Contains(w.ids, f.ID) || w.done && f.ID == "job-done" {
			return waitReached, true
		}
		if !f.Acked && f.Snoozed.IsZero() {
			worst = max(worst, f.Severity)
		}
	}
	if w.done && s.Job.Done {
		return waitReached, true
	}
	if w.settled && slices.ContainsFunc(s.Servers, func(v metrics.Server) bool {
		return v.Gen.Settled.Known && v.State == metrics.ServerServing
	}) {
		return waitReached, true
	}
	switch {
	case worst < metrics.SeverityCritical:
		w.bad = time.Time{}
	case w.critical:
		return waitReached, true
	case s.Link.Status != metrics.LinkUp:
		// The link comes back by itself; what it hides is not known.
	case w.bad.IsZero():
		w.bad = s.At
	case (w.settled || w.done) && s.At.Sub(w.bad) >= criticalFor:
		return waitCritical, true
	}
	return 0, false
}

func wait(ctx context.Context, o *options, name string, w *waiting, limit time.Duration) error {
	n, err := o.openNode(ctx, name)
	if err != nil {
		return err
	}
	defer n.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if limit > 0 {
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	c := newClock()
	var last *metrics.Snapshot
	code, over := 0, false
	// Before the first look is complete nothing is told: a log alone speaks of
	// servers that are gone.
	looked, begun := false, c.now()
	s := newSession(c, newLive(n, c, nil), func(snap *metrics.Snapshot) {
		last = snap
		looked = looked || c.now().Sub(begun) > lookLimit
		if over || !looked {
			return
		}
		if code, over = w.reached(snap); over {
			cancel()
		}
	})
	seen := newFirstLook()
	s.seen = func(f metrics.Frame) {
		seen.see(f)
		if _, down := seen.failed(); down && !seen.session {
			cancel()
		}
	}
	s.wanted = func(wants []metrics.Want) {
		seen.want(wants, c.now())
		looked = looked || seen.complete(c.now())
	}
	if err := s.run(ctx, n.frames(c.now())); err != nil {
		return unreachable(n, err)
	}
	if reason, down := seen.failed(); down && !seen.session {
		return fmt.Errorf("%s could not be reached: %s", name, reason)
	}
	if last != nil {
		if err := n.state.save(last.Saved); err != nil {
			slog.Warn("keep counts", "error", err)
		}
		fmt.Fprint(o.io.out, report.Line(last))
	}
	switch {
	case over && code == waitReached:
		return nil
	case over:
		return exitError(code)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return exitError(waitTimeout)
	}
	return fmt.Errorf("the wait for %s was ended before it was so", name)
}
