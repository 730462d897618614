package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestDryRun plans on the simulated node: the object has the documented keys and
// the figures of the story, and the owner's guard stops it.
func TestDryRun(t *testing.T) {
	code, out, errs := runActing(t, "restart", "demo", "--set", "mem-fraction-static=0.93", "--set", "kv-cache-dtype=fp8_e4m3", "--dry-run", "--json")
	if code != 1 {
		t.Errorf("code %d: %s", code, errs)
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal([]byte(out), &keys); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	want := []string{"break_even", "command", "diff", "forecast", "guards", "not_reproduced", "stops"}
	if got := slices.Sorted(maps.Keys(keys)); !slices.Equal(got, want) {
		t.Errorf("keys %v, want %v", got, want)
	}
	var plan dryRunJSON
	if err := json.Unmarshal([]byte(out), &plan); err != nil {
		t.Fatal(err)
	}
	if len(plan.Guards) != 1 || plan.Guards[0].Flag != "kv-cache-dtype" || !strings.Contains(plan.Guards[0].Reason, "degrades the model noticeably") {
		t.Errorf("guards %+v", plan.Guards)
	}
	if len(plan.Diff) != 2 || plan.Diff[0].Flag != "mem-fraction-static" || *plan.Diff[0].From != "0.88" || *plan.Diff[0].To != "0.93" || plan.Diff[1].From != nil {
		t.Errorf("diff %+v", plan.Diff)
	}
	if f := plan.Forecast; f.CapacityTokens == nil || f.HeadroomGiB == nil || f.HeadroomGiB.Low != 0.77 || f.HeadroomGiB.High != 0.82 {
		t.Errorf("forecast %+v", f)
	}
	if i := slices.Index(plan.Command, "--mem-fraction-static"); i < 0 || plan.Command[i+1] != "0.93" {
		t.Errorf("command %v", plan.Command)
	}
	if stops := strings.Join(plan.Stops, "\n"); !strings.Contains(stops, "requests in flight") || !strings.Contains(stops, "sees errors") {
		t.Errorf("stops %s", stops)
	}
}

// TestConfirmation: without a terminal nothing is done but on --yes.
func TestConfirmation(t *testing.T) {
	code, out, errs := runActing(t, "stop", "demo")
	if code != 64 || !strings.Contains(errs, "no terminal to confirm on") || strings.Contains(out, "begin id=") {
		t.Errorf("code %d, %s, %s", code, errs, out)
	}
}
