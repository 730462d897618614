package board

import (
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

func TestRepeats(t *testing.T) {
	at := time.Date(2026, 2, 24, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name    string
		windows [][]uint64
		want    int
	}{
		{"windows that overlap", [][]uint64{{1, 2, 3}, {2, 3, 4}, {2, 3, 4}, {4, 5, 6}}, 0},
		{"windows that do not meet", [][]uint64{{1, 2}, {5, 6}}, 0},
		{"an id that comes again later", [][]uint64{{1, 2, 3}, {3, 4, 1}, {9, 2}}, 2},
		{"an id twice in one window", [][]uint64{{1, 2, 2}}, 1},
		{"several samples an id from the first look on", [][]uint64{{1, 1, 2, 2, 3, 3, 4, 4}, {4, 4, 5, 5, 6}, {6, 7, 7}}, 0},
		{"few rows tell no habit", [][]uint64{{1, 1, 2, 2}, {2, 2, 5, 5}}, 3},
		{"a row that grew over the whole window", [][]uint64{{1, 2, 3}, {}, {4}}, 0},
	} {
		var p rowsPast
		for i, w := range c.windows {
			p.judge(&metrics.RowsJudged{Rows: len(w), Hashes: w}, at.Add(time.Duration(i)*time.Minute))
		}
		if p.repeats != c.want {
			t.Errorf("%s: %d repeats, want %d", c.name, p.repeats, c.want)
		}
	}
}

func TestUsualRows(t *testing.T) {
	at := time.Date(2026, 2, 24, 12, 0, 0, 0, time.UTC)
	var p rowsPast
	poor := func(p pastPoint) float64 { return p.poor }
	for i := range 5 {
		p.judge(&metrics.RowsJudged{Rows: 10, Empty: i}, at.Add(time.Duration(i)*time.Minute))
	}
	if f := p.usual(at.Add(2*time.Minute), poor); f.Known {
		t.Errorf("two judgements tell a past: %v", f)
	}
	if f := p.usual(at.Add(time.Hour), poor); !f.Known || f.V != 0.2 {
		t.Errorf("usual share of poor rows %v, want 0.2", f)
	}
	if f := p.usual(at.Add(time.Hour), func(p pastPoint) float64 { return p.cut }); f.Known {
		t.Errorf("rows that tell no reason have a share of cut ones: %v", f)
	}
}

// Snapshots tell the processes of the newest discovery, by pid, with ancestors.
func TestSnapshotProcs(t *testing.T) {
	r := newRig(t)
	r.json(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{{PID: 30, PPID: 7, Comm: "python3\x1b[31m"}, {PID: 7, PPID: 1, Comm: "sshd"}}})
	got := r.tick(time.Second).Procs
	if len(got) != 2 || got[0].PID != 7 || got[1].PPID != 7 || got[1].Comm != "python3" {
		t.Errorf("processes %+v", got)
	}
}
