package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/runvigil/runvigil/metrics/report"
)

const explainCase = "../../testdata/cases/001-sglang-timeonly-decode.txt"

// runExplain gives what the command prints and its exit code.
func runExplain(t *testing.T, stdin []byte, args ...string) (out, errs string, code int) {
	t.Helper()
	dir := t.TempDir()
	file := func(name string, data []byte) *os.File {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	t.Setenv("XDG_CONFIG_HOME", dir)
	in, o, e := file("in", stdin), file("out", nil), file("err", nil)
	code = run(append([]string{"explain"}, args...), stdio{in, o, e})
	text := func(f *os.File) string {
		data, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	return text(o), text(e), code
}

func TestExplain(t *testing.T) {
	data, err := os.ReadFile(explainCase)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var gz, zs bytes.Buffer
	z := gzip.NewWriter(&gz)
	_, _ = z.Write(data)
	_ = z.Close()
	s, err := zstd.NewWriter(&zs)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = s.Write(data)
	_ = s.Close()
	gzPath, zstPath := write("a.log.gz", gz.Bytes()), write("a.log.zst", zs.Bytes())
	cut := write("cut.gz", gz.Bytes()[:gz.Len()-20])
	poem := write("poem", []byte("roses are red\n"))

	for _, c := range []struct {
		name  string
		stdin []byte
		args  []string
		code  int
		lines int    // of JSON
		errs  string // in the messages
	}{
		{"plain", nil, []string{explainCase, "--json"}, 0, 1, ""},
		{"gzip, zstd and standard input", data, []string{gzPath, zstPath, "-", "--json"}, 0, 3, ""},
		{"gzip on standard input", gz.Bytes(), []string{"-", "--json"}, 0, 1, ""},
		{"kind", nil, []string{explainCase, "--kind", "sglang", "--json"}, 0, 1, ""},
		{"unknown", nil, []string{poem, explainCase, "--json"}, report.ExitUnknown, 2, "not recognised"},
		{"missing", nil, []string{filepath.Join(dir, "none"), explainCase, "--json"}, report.ExitUnknown, 1, "no such file"},
		{"directory", nil, []string{dir, "--json"}, report.ExitUnknown, 0, "directory"},
		{"cut", nil, []string{cut, "--json"}, report.ExitUnknown, 1, "after"},
		{"no file", nil, nil, report.ExitUsage, 0, "at least one FILE"},
		{"bad kind", nil, []string{explainCase, "--kind", "poem"}, report.ExitUsage, 0, "it may be"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, errs, code := runExplain(t, c.stdin, c.args...)
			if code != c.code || !strings.Contains(errs, c.errs) || c.errs == "" && errs != "" {
				t.Errorf("code %d, want %d; messages %q, want %q", code, c.code, errs, c.errs)
			}
			n := 0
			for line := range strings.Lines(out) {
				var v map[string]any
				if err := json.Unmarshal([]byte(line), &v); err != nil {
					t.Fatalf("%v in %q", err, line)
				}
				if v["kind"] == "server-log" && v["gen_tps"] != 231.07 && c.name != "cut" {
					t.Errorf("tok/s %v", v["gen_tps"])
				}
				n++
			}
			if n != c.lines {
				t.Errorf("%d objects, want %d", n, c.lines)
			}
		})
	}
	out, _, code := runExplain(t, nil, explainCase)
	if code != 0 || !strings.Contains(out, "server-log sglang") || !strings.Contains(out, "generation 231.07 tok/s") {
		t.Errorf("text, code %d:\n%s", code, out)
	}
}
