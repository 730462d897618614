package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/launch/forecast"
)

// runActing runs one command line on files, as in a pipeline.
func runActing(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	dir := t.TempDir()
	open := func(name string) *os.File {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	streams := stdio{open("in"), open("out"), open("err")}
	code = run(args, streams)
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	return code, read("out"), read("err")
}

func TestActingUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"restart", "gpu7", "--read-only", "--yes"}, "does not act"},
		{[]string{"stop", "gpu7", "--read-only", "--yes"}, "does not act"},
		{[]string{"start", "gpu7", "--read-only"}, "does not act"},
		{[]string{"restart", "gpu7", "--json"}, "--dry-run"},
		{[]string{"restart", "gpu7", "--client", "kill"}, "keep, stop or restart"},
		{[]string{"stop", "gpu7", "--client", "restart"}, "with no server"},
		{[]string{"start", "gpu7", "--start", "4", "--command", "x"}, "exclude each other"},
		{[]string{"restart", "gpu7", "--follow", "--set", "a=b"}, "begins nothing"},
		{[]string{"restart", "gpu7", "--follow", "--yes"}, "begins nothing"},
		{[]string{"restart"}, "takes one NODE"},
	} {
		if code, _, errs := runActing(t, c.args...); code != 64 || !strings.Contains(errs, c.want) {
			t.Errorf("%v: code %d, %q, want %q", c.args, code, errs, c.want)
		}
	}
}

// Each figure of a plan says what it rests on and what is doubtful, in words too.
func TestPlanInWordsHasItsBasis(t *testing.T) {
	a := &act{o: &options{}, draft: launch.NewDraft(launch.Launch{}), fore: forecast.Forecast{
		Fit:    forecast.Estimate{Known: true, V: 41, Low: 39, High: 44, Basis: []string{"4,480 tokens a grown request"}},
		GenTPS: forecast.Estimate{Doubt: "the step time is not known yet"},
	}}
	out, err := captured(t, a.o, func() error { a.show(); return nil })
	want := "the forecast rests on\n  requests that fit: 4,480 tokens a grown request\nwhat is doubtful about it\n  tok/s: the step time is not known yet\n"
	if err != nil || !strings.Contains(out, "requests that fit: 39 to 44") || !strings.Contains(out, want) {
		t.Errorf("%v:\n%s", err, out)
	}
}
