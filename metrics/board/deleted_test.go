package board

import (
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// A file of rows that is deleted stays a dataset without rows, is told, and is
// itself again when it comes back.
func TestDeletedDataset(t *testing.T) {
	r := job(t)
	n, _ := r.grow(part, 1374, 9, time.Minute)
	r.json(metrics.KindFiles, "", []metrics.FileStat{{Path: part}})
	snap := r.tick(2 * time.Minute)
	d := snap.Dataset(part)
	if d == nil || !d.Rows.Known || d.Rows.V != 0 {
		t.Fatalf("the deleted dataset is %+v", d)
	}
	if d.Reset == nil || d.Reset.How != "deleted" || d.Reset.Before != n {
		t.Errorf("reset %+v, want %d rows deleted", d.Reset, n)
	}
	raised := false
	for _, f := range snap.Findings {
		raised = raised || f.ID == "rows-shrank" && f.Severity == metrics.SeverityCritical
	}
	if !raised {
		t.Errorf("nothing is said of it: %v", snap.Findings)
	}
	if _, snap = r.grow(part, n, 9, time.Minute); snap.Dataset(part).Rows.V < float64(n) {
		t.Errorf("after its return it has %v rows", snap.Dataset(part).Rows)
	}
}
