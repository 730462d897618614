package board

import (
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// A log whose file is gone is told with the descriptor by which its process still
// has it; one that is away for the moment of a rotation is not.
func TestDeletedLog(t *testing.T) {
	r := job(t)
	server := sglangProc(10, "--port", "8000")
	server.FD2 = serverLog
	r.json(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{server}})
	ready(r)
	stat := func(exists bool) {
		r.json(metrics.KindFiles, "", []metrics.FileStat{{Path: serverLog, Exists: exists, ID: "1:9", Size: 400}})
	}
	log := func(s *metrics.Snapshot) metrics.LogRef { return s.Servers[0].Log }
	stat(true)
	r.tick(time.Second)
	stat(false)
	if s := r.tick(2 * time.Second); !log(s).Deleted.IsZero() {
		t.Errorf("deleted in the moment of a rotation: %+v", log(s))
	}
	stat(true)
	if s := r.tick(10 * time.Second); !log(s).Deleted.IsZero() {
		t.Errorf("deleted after a rotation: %+v", log(s))
	}
	stat(false)
	since := r.b.now
	s := r.tick(10 * time.Second)
	if !log(s).Deleted.Equal(since) || !s.Logs[serverLog].Deleted.Equal(since) || log(s).Held != "" {
		t.Errorf("%+v, want deleted since %s", log(s), since)
	}
	server.FD1, server.FD2 = "/dev/null", serverLog+" (deleted)"
	r.json(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{server}})
	if s = r.tick(time.Second); log(s).Held != "/proc/10/fd/2" || log(s).Held != s.Logs[serverLog].Held || log(s).Path != serverLog {
		t.Errorf("who holds it is not told: %+v", log(s))
	}
	stat(true)
	if s = r.tick(time.Second); !log(s).Deleted.IsZero() {
		t.Errorf("still deleted when it is there again: %+v", log(s))
	}
}

// A file of rows whose name a directory took keeps its count, says since when, and
// is itself again when it comes back.
func TestDatasetBecomesADirectory(t *testing.T) {
	r := job(t)
	n, _ := r.grow(part, 1374, 9, time.Minute)
	fact := metrics.RowsFact{Path: part, ID: "1:2", Size: 1000, Offset: 1000, Rows: n, Done: true, Err: "is a directory"}
	r.json(metrics.KindRows, part, fact)
	at := r.b.now
	s := r.tick(2 * time.Minute)
	d := s.Dataset(part)
	if d.Err != "is a directory" || d.ErrPath != part || !d.ErrSince.Equal(at) || d.Rows.V != float64(n) || !d.Rows.Stale(s.At) {
		t.Errorf("%+v", d)
	}
	found := false
	for _, f := range s.Findings {
		found = found || f.ID == "rows-unreadable" && f.Severity == metrics.SeverityCritical
	}
	if !found {
		t.Errorf("nothing is said of it: %v", s.Findings)
	}
	if _, s = r.grow(part, n, 9, time.Minute); s.Dataset(part).Err != "" {
		t.Errorf("after its return: %q", s.Dataset(part).Err)
	}
}

// A file of rows that is found again under another name was moved, not lost.
func TestDatasetIsMoved(t *testing.T) {
	r := job(t)
	n, _ := r.grow(part, 1374, 9, time.Minute)
	id := r.b.rows[part].fact.ID
	r.json(metrics.KindFiles, "", []metrics.FileStat{{Path: part}})
	r.json(metrics.KindDir, "/data/run", []metrics.FileStat{{Path: "/data/run/other.jsonl", Exists: true, ID: "8:other", Size: 9}, {Path: "/data/run/done.jsonl", Exists: true, ID: id, Size: n * 100}})
	s := r.tick(2 * time.Minute)
	if d := s.Dataset(part); d.Reset == nil || d.Reset.Moved != "/data/run/done.jsonl" || d.Reset.Before != n {
		t.Errorf("%+v", d.Reset)
	}
	for _, f := range s.Findings {
		if f.ID == "rows-shrank" && f.Severity > metrics.SeverityInfo {
			t.Errorf("it is told as lost: %s", f.Title)
		}
	}
}
