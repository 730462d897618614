package findings

import (
	"fmt"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

var diskFilling = Detector{
	ID:     "disk-filling",
	Means:  "The file system that takes the rows or logs is full, or will be before the job is done.",
	Needs:  "df of the file systems in use; growth over 5 minutes for the forecast",
	When:   "Less than 16 MiB or 100 inodes are free (critical); or it is full before the job's ETA, or within a day where there is none (warning).",
	Do:     "Free space on the mount that is named, or move the output.",
	Causes: []metrics.Cause{metrics.CauseDiskFull},
	For:    30 * time.Second,
	Clear:  time.Minute,
	Check: func(in *Input, out *Output) {
		for i := range in.Snap.Sys.Disks {
			d := &in.Snap.Sys.Disks[i]
			if !d.Avail.Known {
				continue
			}
			c := Condition{Subject: d.Mount, Cause: metrics.CauseDiskFull, Advice: "free space on " + d.Mount + " (du -xh " + d.Mount + " | sort -h | tail), or move the output"}
			c.Evidence = append(c.Evidence, figureEvidence(metrics.GiB(d.Avail.V)+" free", d.Avail))
			if len(d.Paths) > 0 {
				c.Evidence = append(c.Evidence, metrics.Evidence{Text: "holds " + strings.Join(d.Paths[:min(3, len(d.Paths))], ", "), Source: "df", At: d.Avail.At})
			}
			soon := time.Duration(0)
			if d.FullIn > 0 {
				soon = d.FullIn
			}
			eta := in.Snap.Job.ETA
			why, full := in.diskFull(d)
			switch {
			case full && in.spaceLeft(d):
				c.Severity, c.Title, c.Why = metrics.SeverityCritical, d.Mount+" "+why, "no new file can be made although there is space"
				c.Evidence = append(c.Evidence, figureEvidence(metrics.Count(d.InodesFree.V)+" inodes free", d.InodesFree))
				c.Advice = "remove small files on " + d.Mount + " (df -i)"
			case full:
				c.Severity, c.Title, c.Why = metrics.SeverityCritical, d.Mount+" "+why, "nothing more can be written; the next row may be torn"
			case soon > 0 && eta.Known && in.now().Add(soon).Before(eta.At) && soon < 30*24*time.Hour:
				c.Severity = metrics.SeverityWarning
				c.Title = fmt.Sprintf("%s is full in %s, before the job is done (%s)", d.Mount, metrics.Age(soon), in.clock(eta.At))
				c.Why = "it fills faster than the job ends"
			case soon > 0 && !eta.Known && soon < in.seconds("disk_soon_s") && len(in.Snap.Datasets) > 0:
				c.Severity = metrics.SeverityWarning
				c.Title, c.Why = fmt.Sprintf("%s is full in %s", d.Mount, metrics.Age(soon)), "it fills at the present growth"
			default:
				continue
			}
			out.Raise(c)
		}
	},
}

// diskFull tells a file system that takes no more, and of what it has none.
func (in *Input) diskFull(d *metrics.Disk) (why string, full bool) {
	switch {
	case !d.Avail.Known:
		return "", false
	case !in.spaceLeft(d):
		return "is full", true
	case d.InodesFree.Known && d.InodesFree.V < in.Threshold("inodes_free_min"):
		return "has no inodes left", true
	}
	return "", false
}

func (in *Input) spaceLeft(d *metrics.Disk) bool {
	return d.Avail.V >= in.Threshold("disk_full_mib")*(1<<20)
}
