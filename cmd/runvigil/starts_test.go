package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/adrg/xdg"

	"github.com/runvigil/runvigil/launch/starts"
	"github.com/runvigil/runvigil/metrics"
)

// ownState gives the test a state folder of its own.
func ownState(t *testing.T) {
	t.Helper()
	old := xdg.StateHome
	xdg.StateHome = t.TempDir()
	t.Cleanup(func() { xdg.StateHome = old })
}

func TestImportedStartsAreMarkedAndListed(t *testing.T) {
	ownState(t)
	file := filepath.Join(t.TempDir(), "earlier.json")
	const earlier = `[
 {"node":"", "engine":"sglang", "at":"2026-02-24T08:02:00Z", "settled_tps":725, "argv":["sglang","serve","M","--mem-fraction-static","0.85","--api-key","sk-planted0123456789abc"]},
 {"engine":"sglang", "at":"2026-02-24T10:28:00Z", "outcome":"crashed", "argv":["sglang","serve","M","--mem-fraction-static","0.93"]}
]`
	if err := os.WriteFile(file, []byte(earlier), 0o600); err != nil {
		t.Fatal(err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	o := &options{io: stdio{err: null}}
	rows, err := nodeStarts(t.Context(), o, "gpu7", false, file)
	if err != nil || len(rows) != 2 || !rows[0].Imported || rows[0].Node != "gpu7" || !rows[0].Best || rows[1].Unfit == "" {
		t.Fatalf("%v: %+v", err, rows)
	}
	// The same import again adds nothing.
	if rows, err = nodeStarts(t.Context(), o, "gpu7", false, file); err != nil || len(rows) != 2 {
		t.Errorf("%v: %d starts", err, len(rows))
	}
	kept, err := os.ReadFile(filepath.Join(stateOf("gpu7").dir, "starts.jsonl"))
	if err != nil || strings.Contains(string(kept), "planted") {
		t.Errorf("the planted secret was kept, or %v", err)
	}
	if rows, err = allStarts(o); err != nil || len(rows) != 2 || !strings.HasPrefix(rows[0].Label, "gpu7") {
		t.Errorf("all nodes: %v: %+v", err, rows)
	}
	for text, want := range map[string]string{"{": "neither", `[{"engine":"x"}]`: "has no time"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := nodeStarts(t.Context(), o, "gpu7", false, file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestHistoryIsKeptAndTakenUpAgain(t *testing.T) {
	ownState(t)
	s := stateOf("gpu7")
	at := time.Date(2026, 2, 24, 11, 55, 0, 0, time.UTC)
	snap := &metrics.Snapshot{At: at.Add(time.Minute), Starts: []metrics.Start{{ID: "b:1:2", Engine: "sglang", At: at, Outcome: "running"}}}
	newStartKeeper(s).put(snap)
	if list := s.history(); len(list) != 1 || list[0].ID != "b:1:2" {
		t.Errorf("%+v", list)
	}
	// Another visit that sees the same writes nothing.
	before, err := os.ReadFile(filepath.Join(s.dir, "starts.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	newStartKeeper(s).put(snap)
	after, err := os.ReadFile(filepath.Join(s.dir, "starts.jsonl"))
	if err != nil || string(before) != string(after) {
		t.Errorf("%v: written again:\n%s", err, after)
	}
	n, err := (&options{}).openNode(t.Context(), "gpu7")
	if err != nil || len(n.starts) != 1 {
		t.Errorf("the fold does not get the history: %v", err)
	}
}

func TestStartsForms(t *testing.T) {
	rows := starts.Table([]metrics.Start{{ID: "a", No: 1, Label: "0.88"}}, nil)
	for _, c := range []struct {
		json, csv, markdown bool
		want                string
	}{{want: "0.88"}, {json: true, want: `"best": false`}, {csv: true, want: "no,id,node"}, {markdown: true, want: "| --- "}} {
		render, err := startsForm(c.json, c.csv, c.markdown)
		if err != nil {
			t.Fatal(err)
		}
		o := &options{}
		out, err := captured(t, o, func() error { return render(o.io.out, rows) })
		if err != nil || !strings.Contains(out, c.want) {
			t.Errorf("%+v: %v:\n%s", c, err, out)
		}
		if c.json && !json.Valid([]byte(out)) {
			t.Errorf("no JSON:\n%s", out)
		}
	}
	if _, err := startsForm(true, true, false); err == nil {
		t.Error("two forms at once were accepted")
	}
}
