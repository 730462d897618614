package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
