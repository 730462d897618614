package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/board"
	"github.com/runvigil/runvigil/metrics/report"
)

// lookLimit is how long a one-shot command waits for a node that answers slowly.
const lookLimit = 20 * time.Second

func newCheck(o *options) *cobra.Command {
	var asJSON, asLine, fresh bool
	cmd := &cobra.Command{
		Use:   "check NODE",
		Short: "One glance at a node: a few lines, one JSON object, or one line",
		Long: `check looks at a node once and says how it is. It answers from a live screen that
runs at the same time, if that left a snapshot in the last 10 seconds (and says
so); --fresh asks the node itself.

Exit codes: 0 healthy, 1 warning, 2 critical, 3 unreachable, or no trace of a
server or client; 64 wrong usage. docs/exit-codes.md has all.`,
		Example: `  runvigil check root@gpu7
  runvigil check gpu7 --json | jq .server.gen_tps
  runvigil check demo:oom; echo $?

  # in ~/.tmux.conf
  set -g status-right '#(runvigil check gpu7 --line)'`,
		Args: oneNode,
		RunE: func(cmd *cobra.Command, args []string) error {
			if asJSON && asLine {
				return usagef("--json and --line exclude each other")
			}
			form := formText
			switch {
			case asJSON:
				form = formJSON
			case asLine:
				form = formLine
			}
			return check(cmd.Context(), o, args[0], form, fresh)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object (docs/check.schema.json)")
	cmd.Flags().BoolVar(&asLine, "line", false, "print one line, verdict first, for a status bar")
	cmd.Flags().BoolVar(&fresh, "fresh", false, "ask the node even where a live screen has just looked")
	return cmd
}

// form is how a glance is printed.
type form int

const (
	formText form = iota
	formJSON
	formLine
)

func check(ctx context.Context, o *options, name string, f form, fresh bool) error {
	if _, demo := demoScenario(name); !demo && !fresh {
		if g, ok := stateOf(name).glance(time.Now()); ok {
			return printLeft(o.io.out, g, f)
		}
	}
	n, err := o.openNode(ctx, name)
	if err != nil {
		return err
	}
	defer n.close()
	snap, err := look(ctx, n)
	if err != nil {
		return err
	}
	newStartKeeper(n.state).put(snap)
	if err := n.state.save(snap.Saved); err != nil {
		slog.Warn("keep counts", "error", err)
	}
	return printGlance(o.io.out, newGlance(snap, time.Now()), f)
}

// look visits a node once. A node that cannot be reached gives a snapshot that
// says so, and no error.
func look(ctx context.Context, n *node) (*metrics.Snapshot, error) {
	return lookAfter(ctx, n, board.New())
}

// lookAfter is look on a board that knows what was seen before.
func lookAfter(ctx context.Context, n *node, b *board.Board) (*metrics.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	c := newClock()
	src := newLive(n, c, nil)
	var last *metrics.Snapshot
	s := newSession(c, src, func(snap *metrics.Snapshot) { last = snap })
	s.board = b
	seen := newFirstLook()
	s.seen = func(f metrics.Frame) {
		seen.see(f)
		if _, down := seen.failed(); down {
			cancel()
		}
	}
	s.wanted = func(wants []metrics.Want) {
		seen.want(wants, c.now())
		if seen.complete(c.now()) {
			// Findings are judged at ticks: what came after the last one counts too.
			b.CaughtUp()
			s.board.Apply(metrics.Frame{Kind: metrics.KindTick, At: c.now()})
			cancel()
		}
	}
	err := s.run(ctx, n.frames(c.now()))
	if err != nil {
		return nil, unreachable(n, err)
	}
	if len(seen.pending) > 0 {
		slog.Warn("not answered in time", "wants", seen.pending)
	}
	return last, nil
}

func printGlance(w io.Writer, g leftGlance, f form) error {
	switch f {
	case formJSON:
		out, err := report.Marshal(g.JSON)
		if err != nil {
			return err
		}
		if _, err := w.Write(out); err != nil {
			return err
		}
	case formLine:
		if _, err := io.WriteString(w, g.Line); err != nil {
			return err
		}
	case formText:
		if _, err := io.WriteString(w, g.Text); err != nil {
			return err
		}
	}
	if g.Exit != 0 {
		return exitError(g.Exit)
	}
	return nil
}

// printLeft prints what a live screen left, and says so.
func printLeft(w io.Writer, g leftGlance, f form) error {
	age := time.Since(g.At)
	g.JSON.AgeS = float64(age.Milliseconds()) / 1000
	g.Text += fmt.Sprintf("(seen by the live screen %s ago; --fresh asks the node)\n", metrics.Age(age))
	return printGlance(w, g, f)
}
