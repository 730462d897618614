package findings

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// absent is what the probe says of a file of rows that is not there.
const absent = "no such file"

var rowsUnreadable = Detector{
	ID:      "rows-unreadable",
	Means:   "A file of rows cannot be counted any more: a directory has its name, or this login may not read it. What lands is not known.",
	Needs:   "the file's stat and its bytes",
	When:    "A file that was counted, that a client writes or that the configuration names is a directory, or cannot be read (permission, a file system that fails), from the first look on. One that is not there yet, or was deleted (rows-shrank), is not meant.",
	Do:      "Find who replaced it, or let this login read it.",
	Channel: "files",
	Clear:   5 * time.Second,
	Check: func(in *Input, out *Output) {
		for i := range in.Snap.Datasets {
			d := &in.Snap.Datasets[i]
			wanted := d.Rows.Known || len(d.Writers) > 0 || clientOf(in, d) != nil || slices.Contains(in.Snap.Config.Datasets, d.Path)
			if !unreadable(d) || !wanted {
				continue
			}
			file := d.ErrPath
			c := Condition{
				Subject: d.Path, Severity: metrics.SeverityWarning, Since: d.ErrSince, Graph: rowsGraph(d),
				Title:    fmt.Sprintf("%s cannot be counted: %s", base(file), d.Err),
				Why:      "what lands in it since " + in.clock(d.ErrSince) + " is not known",
				Evidence: []metrics.Evidence{{Text: file + ": " + d.Err, Source: "stat", At: d.ErrSince}},
				Advice:   "look at the file and its file system (ls -l " + quoted(file) + ", df " + quoted(file) + ", dmesg)",
			}
			if d.Rows.Known {
				c.Evidence = append(c.Evidence, figureEvidence(metrics.Count(d.Rows.V)+" rows when it was last counted", d.Rows))
			}
			switch {
			case strings.Contains(d.Err, "directory"):
				c.Title = base(file) + " is a directory now, no file of rows"
				c.Why = "a directory has the file's name: no row can be written there"
				c.Advice = fmt.Sprintf("look for the rows beside it before anything is removed (ls -lat %s), and who made it (ls -ld %s)", quoted(path.Dir(file)), quoted(file))
				if d.Rows.Known {
					c.Severity = metrics.SeverityCritical // they were there
				}
			case strings.Contains(d.Err, "permission"):
				c.Why = "this login may not read it; " + c.Why
				c.Advice = "let this login read it: chmod a+r " + quoted(file) + " by its owner (and x on the folders above), or connect as its owner"
			}
			out.Raise(c)
		}
	},
}

// unreadable tells a dataset of which a file is there and cannot be counted.
func unreadable(d *metrics.Dataset) bool { return d.Err != "" && d.Err != absent }
