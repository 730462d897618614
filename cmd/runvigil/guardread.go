package main

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/launch/restart"
	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote"
	"github.com/runvigil/runvigil/remote/posix"
)

// maxGuardsFiles bounds where guards are looked for.
const maxGuardsFiles = 16

// guardsEvery is how often a screen looks whether the owner's rules changed.
const guardsEvery = time.Minute

// guardsFiles are where the owner's rules may stand on a node: the configured file
// and no other, else beside the data, in the folder of a dataset or the one above.
// So they hold for an operator too who knows nothing of them.
func guardsFiles(c metrics.Config, data []string) []string {
	if c.GuardsFile != "" {
		return []string{c.GuardsFile}
	}
	var out []string
	add := func(dir string) {
		file := path.Join(dir, guardsName)
		if path.IsAbs(dir) && dir != "/" && !strings.ContainsAny(dir, "*?[") && !slices.Contains(out, file) && len(out) < maxGuardsFiles {
			out = append(out, file)
		}
	}
	if file := guardsPath(c); file != "" {
		add(path.Dir(file))
	}
	for _, p := range data {
		add(path.Dir(p))
		add(path.Dir(path.Dir(p)))
	}
	return out
}

// dataOf are the files of a snapshot's datasets, those that grow first.
func dataOf(s *metrics.Snapshot) []string {
	var out []string
	for _, d := range s.Datasets {
		for _, sh := range d.Shards {
			out = append(out, sh.Path)
		}
		if len(d.Shards) == 0 {
			out = append(out, d.Path)
		}
	}
	return out
}

// existing are those of some files that the node has.
func existing(ctx context.Context, r *runner, files []string) ([]string, error) {
	if len(files) == 0 {
		return nil, nil
	}
	words := make([]string, len(files))
	for i, f := range files {
		q, err := posix.Quote(f)
		if err != nil {
			return nil, err
		}
		words[i] = q
	}
	out, err := r.Run(ctx, []byte("{ i=0; for f in "+strings.Join(words, " ")+"; do [ ! -e \"$f\" ] || echo \"runvigil has $i.\"; i=$((i + 1)); done; echo 'runvigil looked.'; }\n"))
	if err != nil {
		return nil, fmt.Errorf("look for guards: %w", err)
	}
	if !strings.Contains(string(out), "runvigil looked.") {
		return nil, fmt.Errorf("look for guards: the node's answer was cut short")
	}
	var found []string
	for i, f := range files {
		if strings.Contains(string(out), fmt.Sprintf("runvigil has %d.", i)) {
			found = append(found, f)
		}
	}
	return found, nil
}

// readGuards reads the guards files that the node has. One that cannot be read, or
// that has a mistake, is an error: a rule must not fail in silence.
func readGuards(ctx context.Context, r *runner, files []string) (guards []metrics.Guard, found []string, err error) {
	if found, err = existing(ctx, r, files); err != nil {
		return nil, nil, err
	}
	for _, file := range found {
		data, err := restart.ReadFile(ctx, r, file)
		if err != nil {
			return nil, found, fmt.Errorf("guards file %s: %w", file, err)
		}
		there, err := launch.ParseGuards(data)
		if err != nil {
			return nil, found, fmt.Errorf("guards file %s: %w", file, err)
		}
		guards = append(guards, there...)
	}
	return guards, found, nil
}

// guardsFrame is what the fold is told of the owner's rules on the node; ok is
// false where there is nothing to tell.
func guardsFrame(ctx context.Context, r *runner, c metrics.Config, data []string, now func() time.Time) (f metrics.Frame, ok bool) {
	guards, found, err := readGuards(ctx, r, guardsFiles(c, data))
	at := now()
	switch {
	case err != nil:
		return metrics.JSONFrame(metrics.KindProbe, "guards", at, metrics.ProbeFact{
			State: "failed", Reason: metrics.Clean(err.Error(), 300), Advice: "the owner's rules in it do not hold until it is repaired",
		}), true
	case len(found) == 0 && c.GuardsFile != "":
		return metrics.JSONFrame(metrics.KindProbe, "guards", at, metrics.ProbeFact{
			State: "absent", Reason: metrics.Clean(c.GuardsFile+" does not exist", 300), Advice: "`runvigil guard NODE add FLAG … --on-node` makes it",
		}), true
	}
	return metrics.JSONFrame(metrics.KindGuards, "node", at, guards), len(found) > 0
}

// watchGuards tells of the owner's rules once the connection is up, when data is
// found, when somebody is about to act, and when they change.
func (l *live) watchGuards(ctx context.Context, conn *remote.Conn, out func(metrics.Frame)) {
	r := &runner{dial: func(context.Context) (*remote.Conn, error) { return conn, nil }}
	told := ""
	tick := time.NewTicker(guardsEvery)
	defer tick.Stop()
	for {
		l.mu.Lock()
		data := slices.Clone(l.data)
		l.mu.Unlock()
		f, ok := guardsFrame(ctx, r, l.node.config, data, l.clock.now)
		if ctx.Err() != nil {
			return
		}
		// A file that was taken away takes its rules along.
		if text := string(f.Kind) + string(f.Data); text != told && (ok || told != "") {
			if f.Kind != metrics.KindProbe && strings.HasPrefix(told, string(metrics.KindProbe)) {
				out(metrics.JSONFrame(metrics.KindProbe, "guards", f.At, metrics.ProbeFact{State: "ok"}))
			}
			told = text
			out(f)
		}
		select {
		case <-ctx.Done():
			return
		case <-l.lookAgain:
		case <-tick.C:
		}
	}
}

// lookForGuards has the owner's rules read again, soon.
func (l *live) lookForGuards() {
	select {
	case l.lookAgain <- struct{}{}:
	default:
	}
}

// besideTheData is the guards file of a node whose configuration names neither one
// nor data: beside the data that is found there, the one that exists first.
func besideTheData(ctx context.Context, n *node, conn *remote.Conn) (string, error) {
	snap, err := look(ctx, n)
	if err != nil {
		return "", err
	}
	files := guardsFiles(n.config, dataOf(snap))
	if len(files) == 0 {
		return "", usagef("where is the guards file of %s? No data was found there to put it beside; name it with --file /data/…/%s, or as guards_file in the configuration", n.name, guardsName)
	}
	found, err := existing(ctx, &runner{dial: func(context.Context) (*remote.Conn, error) { return conn, nil }}, files)
	if err != nil {
		return "", fmt.Errorf("%s: %w", n.name, err)
	}
	return append(found, files[0])[0], nil
}
