package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/cmd/runvigil/config"
	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/board"
	"github.com/runvigil/runvigil/metrics/report"
	"github.com/runvigil/runvigil/remote/simnode/frames"
	"github.com/runvigil/runvigil/remote/simnode/model"
	"github.com/runvigil/runvigil/testdata"
)

// The story told from its recording alone.
func TestReportOfARecording(t *testing.T) {
	path := filepath.Join(t.TempDir(), "story.rv")
	if err := os.WriteFile(path, testdata.Story, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := lookBack(t.Context(), &options{}, path, time.Hour)
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

// A report of a node begins with what a watcher of it kept, whatever files that
// was cut into, and leaves out those of another node or of long before.
func TestReportFoldsWhatAWatcherKept(t *testing.T) {
	cfg := config.Rotation{Dir: t.TempDir(), FileSize: 1e9, Total: 1e12, FileAge: time.Minute, MaxAge: 1000 * time.Hour}
	sc, err := model.Lookup("hang")
	if err != nil {
		t.Fatal(err)
	}
	src := frames.New(sc, t0)
	r := newRotating(cfg, "gpu7")
	direct := board.New()
	put := func(f metrics.Frame) {
		if err := r.Write(f); err != nil {
			t.Fatal(err)
		}
		direct.Apply(f)
	}
	for _, f := range src.Opening() {
		put(f)
	}
	for range 240 {
		for _, f := range src.Next(direct.Wants()) {
			put(f)
		}
	}
	r.close()
	other := newRotating(cfg, "gpu8")
	if err := other.Write(metrics.Frame{Kind: metrics.KindTick, At: t0.Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	other.close()
	if n := len(recordings(t, cfg.Dir)); n < 4 {
		t.Fatalf("only %d files", n)
	}
	b := board.New()
	last, err := foldRecordings(t.Context(), cfg, "gpu7", t0.Add(-time.Hour), b)
	if err != nil || last.Before(t0.Add(235*time.Second)) || last.After(t0.Add(250*time.Second)) {
		t.Fatalf("folded until %s: %v", last, err)
	}
	got, want := b.Snapshot(), direct.Snapshot()
	if ids(got.Findings) != ids(want.Findings) || !strings.Contains(ids(got.Findings), "server-hung") || len(got.Starts) != len(want.Starts) {
		t.Errorf("findings %s, want %s; %d starts, want %d", ids(got.Findings), ids(want.Findings), len(got.Starts), len(want.Starts))
	}
	for _, f := range got.Findings {
		if len(f.Changed) != 1 {
			t.Errorf("%s changed between files: %v", f.ID, f.Changed)
		}
	}
	none := board.New()
	if last, err := foldRecordings(t.Context(), cfg, "gpu9", t0, none); err != nil || !last.IsZero() {
		t.Errorf("of a node that nobody watched: %s, %v", last, err)
	}
}

func ids(fs []metrics.Finding) string {
	var out []string
	for _, f := range fs {
		out = append(out, f.ID)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}
