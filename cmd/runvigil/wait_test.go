package main

import (
	"errors"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

func TestWaiting(t *testing.T) {
	up := metrics.Link{Status: metrics.LinkUp}
	bad := metrics.Finding{ID: "server-oom", Severity: metrics.SeverityCritical}
	acked := bad
	acked.Acked = true
	settled := metrics.Server{State: metrics.ServerServing, Gen: metrics.GenRate{Settled: metrics.Fixed(604, t0, "log")}}
	gone := settled
	gone.State = metrics.ServerDown
	rests := settled
	rests.State = metrics.ServerIdle
	snap := func(after time.Duration, fs []metrics.Finding, servers ...metrics.Server) *metrics.Snapshot {
		return &metrics.Snapshot{At: t0.Add(after), Link: up, Findings: fs, Servers: servers}
	}
	done := snap(0, nil)
	done.Job.Done = true
	down := snap(2*time.Minute, []metrics.Finding{{ID: "link-down", Severity: metrics.SeverityCritical}})
	down.Link.Status = metrics.LinkDown
	for _, c := range []struct {
		name  string
		until []string
		see   []*metrics.Snapshot
		code  int
		over  bool
	}{
		{"settled", []string{"settled"}, []*metrics.Snapshot{snap(0, nil, settled)}, waitReached, true},
		{"a level of a server that is gone", []string{"settled"}, []*metrics.Snapshot{snap(0, nil, gone)}, 0, false},
		{"a level of before, and no work now", []string{"settled"}, []*metrics.Snapshot{snap(0, nil, rests)}, 0, false},
		{"done", []string{"done"}, []*metrics.Snapshot{done}, waitReached, true},
		{"done by the finding", []string{"done"}, []*metrics.Snapshot{snap(0, []metrics.Finding{{ID: "job-done"}})}, waitReached, true},
		{"critical", []string{"critical"}, []*metrics.Snapshot{snap(0, []metrics.Finding{bad})}, waitReached, true},
		{"critical and set aside", []string{"critical"}, []*metrics.Snapshot{snap(0, []metrics.Finding{acked})}, 0, false},
		{"a finding", []string{"finding:server-oom"}, []*metrics.Snapshot{snap(0, []metrics.Finding{acked})}, waitReached, true},
		{"whichever comes first", []string{"done", "critical"}, []*metrics.Snapshot{snap(0, []metrics.Finding{bad})}, waitReached, true},
		{"a crash that lasts", []string{"settled"}, []*metrics.Snapshot{snap(0, []metrics.Finding{bad}), snap(time.Minute, []metrics.Finding{bad})}, waitCritical, true},
		{"a crash that was cured", []string{"settled"}, []*metrics.Snapshot{snap(0, []metrics.Finding{bad}), snap(30*time.Second, nil), snap(70*time.Second, []metrics.Finding{bad})}, 0, false},
		{"a link that comes back", []string{"settled"}, []*metrics.Snapshot{snap(0, nil), down}, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, err := newWaiting(c.until)
			if err != nil {
				t.Fatal(err)
			}
			var code int
			var over bool
			for _, s := range c.see {
				code, over = w.reached(s)
			}
			if code != c.code || over != c.over {
				t.Errorf("code %d, over %v; want %d, %v", code, over, c.code, c.over)
			}
		})
	}
}

func TestWaitUsage(t *testing.T) {
	for _, until := range [][]string{nil, {"soon"}, {"finding:no-such"}} {
		var usage usageError
		if _, err := newWaiting(until); !errors.As(err, &usage) {
			t.Errorf("%v: %v", until, err)
		}
	}
}
