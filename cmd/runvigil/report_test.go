package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics/report"
	"github.com/runvigil/runvigil/testdata"
)

// The story told from its recording alone.
func TestReportOfARecording(t *testing.T) {
	path := filepath.Join(t.TempDir(), "story.rv")
	if err := os.WriteFile(path, testdata.Story, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := lookBack(t.Context(), &options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	a := report.NewAway(s, 2*time.Hour)
	if a.Rows.Landed == nil || *a.Rows.Landed < 150 || *a.Rows.Landed > 250 {
		t.Errorf("landed %v rows", a.Rows.Landed)
	}
	if a.Yield.Tokens == nil || *a.Yield.Tokens < 500_000 || *a.Yield.Tokens > 1_500_000 {
		t.Errorf("generated %v tokens in 20 minutes at 600 to 1,300 tok/s", a.Yield.Tokens)
	}
	text := a.Markdown()
	for _, want := range []string{"## What to do now", "0.88 bf16 hicache", "client-log-silent", "settled at 60", "B1_glaive: 10,000"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report says nothing of %q:\n%s", want, text)
		}
	}
}

func TestReportUsage(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, args := range [][]string{{"report"}, {"report", "x", "--json", "--markdown"}, {"report", "x", "--since", "0s"}, {"wait", "x"}, {"wait", "x", "--for", "soon"}} {
		if code := run(args, stdio{null, null, null}); code != report.ExitUsage {
			t.Errorf("%v ends with %d, want %d", args, code, report.ExitUsage)
		}
	}
}
