package report

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// night is the morning after a night in which a start crashed and the next held.
func night() *metrics.Snapshot {
	at := time.Date(2026, 2, 25, 7, 0, 0, 0, time.UTC)
	f := func(v float64) *float64 { return &v }
	s := &metrics.Snapshot{
		Node: "gpu7", At: at, Zone: "CET", ZoneSec: 3600, Link: metrics.Link{Status: metrics.LinkUp},
		Servers: []metrics.Server{{ID: "9:9", State: metrics.ServerServing, Started: at.Add(-8 * time.Hour)}},
		Starts: []metrics.Start{
			{No: 1, At: at.Add(-40 * time.Hour), Label: "0.85 bf16", Outcome: "stopped", DurationS: f(3600)},
			{No: 2, At: at.Add(-9 * time.Hour), Label: "0.93 bf16 hicache", Outcome: "crashed", Cause: metrics.CauseCUDAOOM, DurationS: f(600), HeadroomGB: f(0.82)},
			{No: 3, At: at.Add(-8 * time.Hour), Label: "0.88 bf16 hicache", Outcome: "running", ReadyS: f(100), Settled: f(604), Spread: f(21), Peak: f(1317.32), Running: f(35), Queued: f(115), RowsPerMin: f(9.1)},
		},
		Datasets: []metrics.Dataset{
			{Path: "/d/b2.jsonl", Name: "b2", Rows: metrics.Fixed(5900, at, "row count"), Grew: at, Target: metrics.Target{Rows: 10000}},
			{Path: "/d/b1.jsonl", Name: "b1", Rows: metrics.Fixed(10000, at, "row count"), Grew: at.Add(-30 * time.Hour), Done: at.Add(-30 * time.Hour)},
		},
		Job: metrics.Job{Rows: metrics.Fixed(15900, at, "row count"), Finished: metrics.Fixed(4400, at, "log"), Since: at.Add(-8 * time.Hour)},
		History: []metrics.Finding{
			{ID: "server-oom", Severity: metrics.SeverityCritical, Title: "out of GPU memory", Since: at.Add(-530 * time.Minute), Cleared: at.Add(-8 * time.Hour)},
			{ID: "settled", Severity: metrics.SeverityInfo, Title: "of another day", Since: at.Add(-39 * time.Hour), Cleared: at.Add(-38 * time.Hour)},
		},
		Findings: []metrics.Finding{{ID: "kv-saturated", Severity: metrics.SeverityWarning, Title: "4 retractions a minute", Since: at.Add(-time.Hour), Advice: "raise --schedule-conservativeness to 1.3"}},
		Events:   []metrics.Event{{At: at.Add(-20 * time.Hour), Kind: "note", Text: "yesterday"}, {At: at.Add(-530 * time.Minute), Kind: "crash", Text: "cuda-oom\n```\x1b[31m"}},
	}
	gen, rows := &metrics.Series{}, &metrics.Series{}
	for d := 8 * time.Hour; d >= 0; d -= 10 * time.Second {
		gen.Add(at.Add(-d), 600)
		rows.Add(at.Add(-d), 5900-d.Minutes()*9)
	}
	s.Series = map[metrics.SeriesKey]*metrics.Series{
		{What: metrics.SeriesGenTPS, Of: "9:9"}:       gen,
		{What: metrics.SeriesRows, Of: "/d/b2.jsonl"}: rows,
	}
	s.Verdict = metrics.Judge(s)
	return s
}

func TestAway(t *testing.T) {
	a := NewAway(night(), 12*time.Hour)
	if len(a.Starts) != 2 || a.Starts[0].No != 2 {
		t.Errorf("starts %+v, want #2 and #3", a.Starts)
	}
	if y := a.Yield; y.Tokens == nil || *y.Tokens < 600*8*3600*0.99 || *y.Tokens > 600*8*3600*1.01 || y.HoursOf < 7.9 || y.HoursOf > 8.1 {
		t.Errorf("yield %+v: 600 tok/s for 8 h are 17.28 M", y)
	}
	if a.Rows.Landed == nil || *a.Rows.Landed < 4300 || *a.Rows.Landed > 4330 {
		t.Errorf("rows %v, want 9 a minute for 8 h", a.Rows.Landed)
	}
	if d := a.Rows.Datasets[1]; d.Landed == nil || *d.Landed != 0 {
		t.Errorf("a part that was done before landed %v rows", d.Landed)
	}
	if len(a.Findings) != 2 || a.Findings[0].ID != "server-oom" || a.Findings[0].Cleared == nil || a.Findings[1].Cleared != nil {
		t.Errorf("findings %+v", a.Findings)
	}
	if len(a.Incidents) != 1 || a.Incidents[0].Kind != "crash" {
		t.Errorf("incidents %+v", a.Incidents)
	}
	if len(a.Now) != 1 || !strings.Contains(a.Now[0], "--schedule-conservativeness") {
		t.Errorf("what to do: %v", a.Now)
	}
}

func TestAwayTexts(t *testing.T) {
	a := NewAway(night(), 12*time.Hour)
	for name, out := range map[string]string{"markdown": a.Markdown(), "text": a.Text()} {
		for _, want := range []string{
			"gpu7: 24 Feb 20:00 to 08:00 (12 h)", "raise --schedule-conservativeness to 1.3", "tokens generated: 17.3M in the 8 h",
			"requests finished: 4,400 since 00:00", "b2: 5,900 of 10,000", "#2 24 Feb 23:00 0.93 bf16 hicache: crashed at 24 Feb 23:10 (cuda-oom)",
			"settled at 604 ± 21.0 tok/s, peak 1,317", "critical: out of GPU memory (server-oom)", "   600 |",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("%s says nothing of %q:\n%s", name, want, out)
			}
		}
		if strings.Contains(out, "\x1b") || strings.Contains(out, "yesterday") || strings.Contains(out, "of another day") {
			t.Errorf("%s holds what it must not:\n%s", name, out)
		}
	}
	if n := strings.Count(a.Markdown(), "```"); n != 2 {
		t.Errorf("%d fences in the Markdown, want 2", n)
	}
}

func TestAwayOfNothing(t *testing.T) {
	a := NewAway(&metrics.Snapshot{Node: "x", At: time.Date(2026, 2, 25, 7, 0, 0, 0, time.UTC)}, time.Hour)
	data, err := a.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	y, _ := v["yield"].(map[string]any)
	if tokens, there := y["tokens_generated"]; !there || tokens != nil {
		t.Errorf("tokens of an unknown node: %v", tokens)
	}
	if a.graph() != "" {
		t.Error("a graph of nothing")
	}
}
