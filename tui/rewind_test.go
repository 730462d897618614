package tui

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runvigil/runvigil/metrics"
)

// At 12:00 of the story the run was in its ramp: figures come from the series,
// nothing of what came later is shown, and what no series holds is unknown.
func TestRewind(t *testing.T) {
	s := sceneSettled()
	s.History = []metrics.Finding{{ID: "old", Severity: metrics.SeverityWarning, Title: "old", Since: storyRun, Cleared: storyRun.Add(4 * time.Minute)}}
	at := storyRun.Add(150 * time.Second)
	past := rewind(s, at)
	srv := past.Server()
	if srv == nil || srv.Running.V < 110 || srv.Running.V > 130 || srv.Gen.Now.V < 1100 {
		t.Fatalf("server %+v", srv)
	}
	if srv.Gen.Settled.Known || srv.Retracted.Known || srv.Finished.Known || srv.RequestsFit.Known {
		t.Error("figures of now are shown for the past")
	}
	if !srv.Gen.Peak.Known || srv.State != metrics.ServerServing {
		t.Errorf("peak %+v, state %s", srv.Gen.Peak, srv.State)
	}
	if d := past.Dataset(storyB2); !d.Rows.Known || d.Rows.V >= 1531 || d.Rows.V < 1374 || d.ETA.Known {
		t.Errorf("rows %+v", d.Rows)
	}
	if d := past.Dataset(storyB1); d.Rows.V != 10000 {
		t.Errorf("a finished dataset has %v rows", d.Rows)
	}
	var ids []string
	for _, f := range past.Findings {
		ids = append(ids, f.ID)
	}
	if diff := cmp.Diff([]string{"client-log-silent", "old"}, ids); diff != "" {
		t.Error(diff)
	}
	if past.Verdict.Word != "WARN" {
		t.Errorf("verdict %+v", past.Verdict)
	}
	for _, e := range past.Events {
		if e.At.After(at) {
			t.Errorf("event of the future: %+v", e)
		}
	}
	for _, l := range past.Logs[storyLog].Lines {
		if l.At.After(at) {
			t.Fatal("a log line of the future")
		}
	}
	if !past.GPUs[0].Util.Known || past.GPUs[0].MemLowest.Known || len(past.GPUs) != 8 {
		t.Errorf("GPU %+v", past.GPUs[0])
	}
	done := 600.0
	s.Starts = []metrics.Start{
		{ID: "a", No: 1, At: storyStart.Add(-time.Hour), DurationS: &done, Settled: &done, Outcome: "stopped"},
		{ID: "b", No: 2, At: storyStart, Settled: &done, Outcome: "running"},
		{ID: "c", No: 3, At: at.Add(time.Minute), Outcome: "running"},
	}
	s.Findings[0].Evidence = []metrics.Evidence{{Text: "then", At: at.Add(-time.Second)}, {Text: "later", At: at.Add(time.Minute)}}
	past = rewind(s, at)
	if len(past.Starts) != 2 || past.Starts[0].Settled == nil || past.Starts[1].Settled != nil || past.Starts[1].Outcome != "unknown" {
		t.Errorf("starts %+v", past.Starts)
	}
	if e := past.Findings[0].Evidence; len(e) != 1 || e[0].Text != "then" || len(s.Findings[0].Evidence) != 2 {
		t.Errorf("evidence %+v", e)
	}
	before := rewind(s, storyStart.Add(-time.Minute))
	if before.Server() != nil || len(before.Clients) != 0 || before.Verdict.Word != "NONE" {
		t.Errorf("before the start: %d servers, %d clients, %+v", len(before.Servers), len(before.Clients), before.Verdict)
	}
	crash := rewind(sceneCrash(), storyNow.Add(-90*time.Second))
	if crash.Server().State == metrics.ServerDown {
		t.Error("a server is down before it crashed")
	}
	if s.Servers[0].Gen.Now.V != 606 || len(s.Findings) != 2 {
		t.Error("looking back changed the snapshot")
	}
}
