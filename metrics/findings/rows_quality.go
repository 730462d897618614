package findings

import (
	"fmt"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// rowsGraph is the curve of a dataset's rows.
func rowsGraph(d *metrics.Dataset) metrics.SeriesKey {
	return metrics.SeriesKey{What: metrics.SeriesRows, Of: d.Path}
}

// judgedWell tells whether the newest rows are many enough to speak of shares.
func judgedWell(in *Input, d *metrics.Dataset) bool {
	return d.Judged != nil && float64(d.Judged.Rows) >= in.Threshold("rows_judged_min")
}

var rowsTorn = Detector{
	ID:      "rows-torn",
	Means:   "The last row of a file is cut, or the file holds NUL bytes. A resume that appends behind it makes one more row unreadable.",
	Needs:   "the file's end (the probe looks at its last 64 kB at most once a minute)",
	When:    "The file does not end in a newline for 60 s and nobody has it open for writing; or NUL bytes stand in its newest rows. While a writer lives a torn end is normal for an instant.",
	Do:      "Remove the torn row before resuming.",
	Channel: "files",
	Causes:  []metrics.Cause{metrics.CauseRowsTorn, metrics.CauseRowsNUL},
	For:     10 * time.Second,
	Clear:   10 * time.Second,
	Check: func(in *Input, out *Output) {
		for i := range in.Snap.Datasets {
			d := &in.Snap.Datasets[i]
			if d.Judged != nil && d.Judged.NUL {
				out.Raise(Condition{
					Subject: d.Path, Severity: metrics.SeverityWarning, Cause: metrics.CauseRowsNUL,
					Title: base(d.Path) + " holds NUL bytes", Why: causeInfo(metrics.CauseRowsNUL).Meaning,
					Evidence: []metrics.Evidence{{Text: "NUL bytes among the newest rows", Source: "newest rows", At: in.now()}},
					Advice:   "remove the damaged rows (grep -aPc '\\x00' counts them) and generate them again", Graph: rowsGraph(d),
				})
				continue
			}
			if !d.Torn || len(d.Writers) > 0 || d.Grew.IsZero() || in.now().Sub(d.Grew) < in.seconds("torn_s") || clientOf(in, d) != nil {
				continue
			}
			out.Raise(Condition{
				Subject: d.Path, Severity: metrics.SeverityWarning, Cause: metrics.CauseRowsTorn, Since: d.Grew,
				Title:    fmt.Sprintf("the last row of %s is cut since %s", base(d.Path), in.clock(d.Grew)),
				Why:      "its writer ended in the middle of a row",
				Evidence: []metrics.Evidence{{Text: "no newline at the end, and nobody writes it", Source: "row count", At: d.Rows.At}},
				Advice:   "before resuming cut it off: sed -i '$d' " + quoted(d.Path), Graph: rowsGraph(d),
			})
		}
	},
}

// quoted is a path as one word of a shell.
func quoted(p string) string {
	out := "'"
	for _, r := range p {
		if r == '\'' {
			out += `'\''`
			continue
		}
		out += string(r)
	}
	return out + "'"
}

// clientOf is a living client that writes a dataset, nil for none.
func clientOf(in *Input, d *metrics.Dataset) *metrics.Client {
	for i := range in.Snap.Clients {
		c := &in.Snap.Clients[i]
		if !alive(c) {
			continue
		}
		for _, p := range c.Datasets {
			if p == d.Path {
				return c
			}
		}
	}
	return nil
}

var rowsShrank = Detector{
	ID:      "rows-shrank",
	Means:   "A file of rows became shorter or was replaced: rows may be lost, or a resume rewrote the file.",
	Needs:   "a count from before",
	When:    "Its rows fell below what was counted. A rewrite that has its old number back within a minute is only told (info), and so is a file that is found again under another name beside it.",
	Do:      "Compare with a backup before more is written; look at who rewrote it.",
	Channel: "files",
	Clear:   10 * time.Second,
	Check: func(in *Input, out *Output) {
		for i := range in.Snap.Datasets {
			d := &in.Snap.Datasets[i]
			r := d.Reset
			if r == nil || !d.Rows.Known || in.now().Sub(r.At) > in.seconds("shrank_shown_s") {
				continue
			}
			now := d.Rows.V
			for _, s := range d.Shards {
				if s.Path == r.Path && s.Rows.Known {
					now = s.Rows.V
				}
			}
			c := Condition{
				Subject: d.Path, Since: r.At, Graph: rowsGraph(d),
				Evidence: []metrics.Evidence{
					{Text: fmt.Sprintf("%s rows before, %s now; the file was %s", metrics.Count(float64(r.Before)), metrics.Count(now), r.How), Source: "row count", At: r.At},
				},
			}
			if now >= 0.98*float64(r.Before) {
				c.Severity, c.Title = metrics.SeverityInfo, fmt.Sprintf("%s was %s, its %s rows are there", base(r.Path), r.How, metrics.Count(now))
				c.Why, c.Advice = "a client rewrote it on resuming", "nothing to do"
			} else if r.Moved != "" {
				c.Severity, c.Title = metrics.SeverityInfo, fmt.Sprintf("%s was moved to %s with its %s rows", base(r.Path), r.Moved, metrics.Count(float64(r.Before)))
				c.Why = "the same file has another name now"
				c.Evidence = append(c.Evidence, metrics.Evidence{Text: r.Moved + " is the file that was counted", Source: "stat", At: r.At})
				c.Advice = "nothing is lost; a target that counts these rows has to know the new name"
			} else {
				c.Severity, c.Title = metrics.SeverityCritical, fmt.Sprintf("%s lost rows: %s before, %s now", base(r.Path), metrics.Count(float64(r.Before)), metrics.Count(now))
				c.Why = "it was " + r.How
				c.Advice = "stop its writer and look for a backup before more is written"
				if in.now().Sub(r.At) < time.Minute {
					c.Severity = metrics.SeverityWarning // a rewrite on resume may be under way
				}
			}
			out.Raise(c)
		}
	},
}

var rowsDuplicate = Detector{
	ID:      "rows-duplicate",
	Means:   "Rows with the same id and sample come again in one file.",
	Needs:   "rows that have an id; the probe compares salted hashes, never content",
	When:    "3 of the rows that were judged since the visit began have an id that had been seen before in this file. Quiet where ids came again from the first look on: several samples an id that nothing tells apart.",
	Do:      "Look for a second client, or a resume that does not check what is there; remove the repeats afterwards.",
	Channel: "files",
	Causes:  []metrics.Cause{metrics.CauseRowsDuplicate},
	For:     5 * time.Second,
	Clear:   time.Minute,
	Check: func(in *Input, out *Output) {
		for i := range in.Snap.Datasets {
			d := &in.Snap.Datasets[i]
			if !d.Repeats.Known || d.Repeats.V < in.Threshold("duplicate_rows") || in.now().Sub(d.Repeats.At) > time.Hour {
				continue
			}
			c := Condition{
				Subject: d.Path, Severity: metrics.SeverityWarning, Cause: metrics.CauseRowsDuplicate, Since: d.Repeats.At,
				Title:    fmt.Sprintf("%s rows of %s repeat an id", metrics.Count(d.Repeats.V), base(d.Path)),
				Why:      "the same sample was generated and saved again",
				Evidence: []metrics.Evidence{figureEvidence(metrics.Count(d.Repeats.V)+" of the judged rows have an id that was seen before", d.Repeats)},
				Advice:   "look for a second client or a resume without a check; remove repeats by id when the job is done", Graph: rowsGraph(d),
			}
			if n := len(d.Writers); n > 1 {
				c.Why = fmt.Sprintf("%d processes append to it", n)
				c.Advice = fmt.Sprintf("end all writers but one (pids %v)", d.Writers)
			}
			out.Raise(c)
		}
	},
}

var rowsPoor = Detector{
	ID:      "rows-poor",
	Means:   "Many of the newest rows are empty or hold an error instead of an answer. They count as rows and are worth nothing.",
	Needs:   "the newest rows of the file (at most 64 kB once a minute)",
	When:    "10 % of at least 8 newest rows, and 3 times as many as in this file's own past; or half of them, however it was before: a file that was worthless from its first row on has no better past.",
	Do:      "Look at one of them (o on the row), then at the client's handling of errors and the prompt of this part.",
	Channel: "files",
	For:     30 * time.Second,
	Clear:   2 * time.Minute,
	Check: func(in *Input, out *Output) {
		for i := range in.Snap.Datasets {
			d := &in.Snap.Datasets[i]
			if !judgedWell(in, d) {
				continue
			}
			j := d.Judged
			bad := j.Empty + j.Errors + j.Invalid
			share := float64(bad) / float64(j.Rows)
			if share < in.Threshold("poor_share") || share < in.Threshold("poor_always") && d.UsualPoor.Known && share < in.Threshold("poor_factor")*d.UsualPoor.V {
				continue
			}
			c := Condition{
				Subject: d.Path, Severity: metrics.SeverityWarning, Graph: rowsGraph(d),
				Title:    fmt.Sprintf("%s of the newest rows of %s are worthless: %d empty, %d errors, %d unreadable of %d", metrics.Percent(share), base(d.Path), j.Empty, j.Errors, j.Invalid, j.Rows),
				Why:      "answers are empty or errors, and rows are counted all the same",
				Evidence: []metrics.Evidence{{Text: fmt.Sprintf("%d of %d newest rows", bad, j.Rows), Source: "newest rows", At: d.Median.At}},
				Advice:   "look at the newest row, then at the client's log; generate these rows again",
			}
			if d.UsualPoor.Known {
				c.Evidence = append(c.Evidence, figureEvidence(metrics.Percent(d.UsualPoor.V)+" before", d.UsualPoor))
			}
			out.Raise(c)
		}
	},
}

var rowsTruncated = Detector{
	ID:      "rows-truncated",
	Means:   "Many answers end at the length limit instead of their own end, more than before.",
	Needs:   "rows that tell a finish_reason",
	When:    "30 % of at least 8 newest rows, and 20 points more than before the running start (or than in this file's past).",
	Do:      "Raise the client's max tokens, or find what made answers longer (repetition, another chat template, reasoning without an end).",
	Channel: "files",
	For:     60 * time.Second,
	Clear:   5 * time.Minute,
	Check: func(in *Input, out *Output) {
		for i := range in.Snap.Datasets {
			d := &in.Snap.Datasets[i]
			if !judgedWell(in, d) || float64(d.Judged.Finished) < in.Threshold("rows_judged_min") || !d.Cut.Known || !d.UsualCut.Known {
				continue
			}
			if d.Cut.V < in.Threshold("cut_share") || d.Cut.V-d.UsualCut.V < in.Threshold("cut_more") {
				continue
			}
			c := Condition{
				Subject: d.Path, Severity: metrics.SeverityWarning, Graph: rowsGraph(d),
				Title:    fmt.Sprintf("%s of the newest rows of %s are cut at the length limit, %s before", metrics.Percent(d.Cut.V), base(d.Path), metrics.Percent(d.UsualCut.V)),
				Why:      "answers reach the limit of tokens",
				Evidence: []metrics.Evidence{figureEvidence(metrics.Percent(d.Cut.V)+" ended with finish_reason length", d.Cut), figureEvidence(metrics.Percent(d.UsualCut.V)+" before", d.UsualCut)},
				Advice:   "raise the client's limit of output tokens; look at a newest row for repetition",
			}
			if d.Median.Known && d.UsualLength.Known {
				c.Evidence = append(c.Evidence, figureEvidence(fmt.Sprintf("median length %s, %s before", metrics.Short(d.Median.V), metrics.Short(d.UsualLength.V)), d.Median))
			}
			out.Raise(c)
		}
	},
}
