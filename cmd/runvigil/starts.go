package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/adrg/xdg"
	"github.com/spf13/cobra"

	"github.com/runvigil/runvigil/launch/starts"
	"github.com/runvigil/runvigil/metrics"
)

func newStarts(o *options) *cobra.Command {
	var asJSON, asCSV, asMarkdown, fresh, descending bool
	var sortBy, from string
	cmd := &cobra.Command{
		Use:   "starts [NODE]",
		Short: "Every start that was seen, and how they compare",
		Long: `starts shows the history of a node's server starts, or of all nodes: flags,
capacity, headroom, peak and settled tok/s, outcome. The best one is marked; one
that breaks a guard, crashed, or never gave a token is never best. Under each
start stands what differs from the one before.

The history is kept by the live screen, check and restart; --fresh looks at the
node first. --import adds starts that were noted elsewhere.`,
		Example: `  runvigil starts gpu7
  runvigil starts gpu7 --sort settled --desc
  runvigil starts gpu7 --markdown >> NOTES.md
  runvigil starts --json | jq '.[] | select(.best)'
  runvigil starts gpu7 --import earlier.json`,
		Args: usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			render, err := startsForm(asJSON, asCSV, asMarkdown)
			if err != nil {
				return err
			}
			var rows []starts.Row
			switch {
			case len(args) == 0 && (fresh || from != ""):
				return usagef("--fresh and --import need a NODE")
			case len(args) == 0:
				rows, err = allStarts(o)
			default:
				rows, err = nodeStarts(cmd.Context(), o, args[0], fresh, from)
			}
			if err != nil {
				return err
			}
			if sortBy != "" && !starts.Sort(rows, sortBy, descending) {
				return usagef("--sort is %q; it may be %s", sortBy, strings.Join(starts.Columns(), ", "))
			}
			return render(o.io.out, rows)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "print a JSON array")
	f.BoolVar(&asCSV, "csv", false, "print CSV with a header line")
	f.BoolVar(&asMarkdown, "markdown", false, "print a Markdown table")
	f.BoolVar(&fresh, "fresh", false, "look at the node first")
	f.StringVar(&sortBy, "sort", "", "column to sort by: "+strings.Join(starts.Columns(), ", "))
	f.BoolVar(&descending, "desc", false, "largest first")
	f.StringVar(&from, "import", "", "add starts from a JSON file (an array, or the lines of a history)")
	return cmd
}

// startsForm is how starts are printed.
func startsForm(asJSON, asCSV, asMarkdown bool) (func(*os.File, []starts.Row) error, error) {
	switch {
	case asJSON && !asCSV && !asMarkdown:
		return func(w *os.File, rows []starts.Row) error { return starts.WriteJSON(w, rows) }, nil
	case asCSV && !asJSON && !asMarkdown:
		return func(w *os.File, rows []starts.Row) error { return starts.WriteCSV(w, rows) }, nil
	case asMarkdown && !asJSON && !asCSV:
		return func(w *os.File, rows []starts.Row) error { return starts.WriteMarkdown(w, rows, time.Local) }, nil
	case asJSON || asCSV || asMarkdown:
		return nil, usagef("--json, --csv and --markdown exclude each other")
	}
	return func(w *os.File, rows []starts.Row) error {
		if len(rows) == 0 {
			fmt.Fprintln(w, "no start has been seen yet; `runvigil NODE` and `runvigil starts NODE --fresh` look for them")
			return nil
		}
		return starts.WriteTable(w, rows, time.Local)
	}, nil
}

// nodeStarts are the starts of one node. The simulated node begins anew each
// time, so that it is always looked at.
func nodeStarts(ctx context.Context, o *options, name string, fresh bool, from string) ([]starts.Row, error) {
	_, demo := demoScenario(name)
	if from != "" {
		if demo {
			return nil, usagef("the simulated node keeps nothing that could be added to")
		}
		if err := importStarts(stateOf(name), name, from); err != nil {
			return nil, err
		}
	}
	if !demo && !fresh {
		list, err := stateOf(name).starts()
		if len(list) > 0 {
			fmt.Fprintln(o.io.err, "as last seen; --fresh looks at the node")
		}
		return starts.Table(list, o.file.ForNode(name).Guards), err
	}
	n, err := o.openNode(ctx, name)
	if err != nil {
		return nil, err
	}
	defer n.close()
	snap, err := look(ctx, n)
	if err != nil {
		return nil, err
	}
	if snap.Link.Status != metrics.LinkUp && len(snap.Starts) == 0 {
		return nil, fmt.Errorf("%s: %s", name, first(snap.Link.Reason, "the node did not answer"))
	}
	newStartKeeper(n.state).put(snap)
	return starts.Table(starts.Of(snap), snap.Guards), nil
}

// allStarts are the starts of every node of which a history is kept.
func allStarts(o *options) ([]starts.Row, error) {
	dir := filepath.Join(xdg.StateHome, "runvigil", "nodes")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the history of starts: %w", err)
	}
	var rows []starts.Row
	for _, e := range entries {
		name, err := url.PathUnescape(e.Name())
		if err != nil {
			continue // no folder of ours
		}
		list, err := state{filepath.Join(dir, e.Name())}.starts()
		if err != nil {
			return nil, err
		}
		for i := range list {
			list[i].Label = strings.TrimSpace(name + " " + list[i].Label)
		}
		rows = append(rows, starts.Table(list, o.file.ForNode(name).Guards)...)
	}
	return rows, nil
}

// starts is the history of a node. Damage in it is told and passed over.
func (s state) starts() ([]metrics.Start, error) {
	list, skipped, err := starts.Load(s.dir)
	if skipped > 0 {
		slog.Warn("history of starts", "folder", s.dir, "skipped lines", skipped)
	}
	return list, err
}

// history is the history of a node for the fold; a damaged one counts as far as
// it can be read.
func (s state) history() []metrics.Start {
	list, err := s.starts()
	if err != nil {
		slog.Warn("history of starts", "error", err)
	}
	return list
}

// importStarts adds starts that were noted elsewhere, marked as such.
func importStarts(s state, node, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("import starts: %w", err)
	}
	var list []metrics.Start
	if err := json.Unmarshal(data, &list); err != nil {
		events, skipped, readErr := starts.Read(strings.NewReader(string(data)))
		if readErr != nil || len(events) == 0 || skipped > 0 {
			return fmt.Errorf("import starts: %s is neither a JSON array of starts nor a history (%w)", file, err)
		}
		list = starts.Merge(nil, events)
	}
	now := time.Now()
	events := make([]starts.Event, len(list))
	for i, st := range list {
		if st.At.IsZero() {
			return fmt.Errorf("import starts: start %d of %s has no time (at)", i+1, file)
		}
		st.Node, st.Imported = first(st.Node, node), true
		if st.ID == "" {
			st.ID = fmt.Sprintf("imported-%d", st.At.Unix())
		}
		events[i] = starts.Event{Key: st.ID, At: now, What: "seen", Start: st}
	}
	return starts.Append(s.dir, events...)
}

// A startKeeper writes what successive snapshots tell of starts to the history.
type startKeeper struct {
	state    state
	recorder *starts.Recorder
	looked   time.Time
}

// startsEvery is how often a live screen looks for news of starts.
const startsEvery = 5 * time.Second

func newStartKeeper(s state) *startKeeper {
	return &startKeeper{state: s, recorder: starts.NewRecorder(s.history())}
}

// put takes a snapshot. Failing to write is told in the log and tried again
// with the next news.
func (k *startKeeper) put(snap *metrics.Snapshot) {
	now := time.Now()
	if now.Sub(k.looked) < startsEvery {
		return
	}
	k.looked = now
	if err := starts.Append(k.state.dir, k.recorder.Events(snap)...); err != nil {
		slog.Warn("keep starts", "error", err)
	}
}
