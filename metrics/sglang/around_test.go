package sglang

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// wraps are what log collectors and terminals do to every line of a log.
var wraps = map[string]func(n int, line string) string{
	"compose":   func(_ int, l string) string { return "sglang-1  | " + l },
	"kubectl":   func(_ int, l string) string { return "[pod/sglang-0/server] " + l },
	"RFC 3339":  func(_ int, l string) string { return "2026-03-01T00:00:00.123456789Z " + l },
	"CRI":       func(_ int, l string) string { return "2026-03-01T00:00:00.123456789+01:00 stderr F " + l },
	"journald":  func(_ int, l string) string { return "Mar  1 00:00:00 gpu7 sglang[4711]: " + l },
	"short-iso": func(_ int, l string) string { return "2026-03-01T00:00:00+0100 gpu7 sglang[4711]: " + l },
	"Ray":       func(_ int, l string) string { return "\x1b[36m(Server pid=4711, ip=10.0.0.9)\x1b[0m " + l },
	"srun":      func(_ int, l string) string { return "0: " + l },
	"colours":   func(_ int, l string) string { return "\x1b[32m" + l + "\x1b[0m" },
	"dashboard": func(_ int, l string) string { return "│ " + l + strings.Repeat(" ", 9) + "│" },
	"CR LF":     func(_ int, l string) string { return l + "\r" },
	"quote":     func(_ int, l string) string { return "> " + l },
	"docker": func(_ int, l string) string {
		return `{"log":` + strconv.Quote(l+"\n") + `,"stream":"stderr","time":"2026-03-01T00:00:00.1Z"}`
	},
	"cloud": func(_ int, l string) string { return "ERROR 2026-03-01T00:00:00.610220145Z " + l },
	"collector ": func(_ int, l string) string {
		return `{"timestamp":"2026-03-01T00:00:00Z","message":` + strconv.Quote(l) + `}`
	},
}

// outcome is what a log said, without the collector's own facts.
func outcome(data []byte) string {
	s := read(data)
	text := fmt.Sprintf("level %+v\n", s.Level())
	if now := s.Now(); now != nil {
		text += fmt.Sprintf("phase %q %d/%d ready %v capacity %v retractions %d\n", now.Phase, now.Done, now.Total, now.Ready, now.Capacity, now.Retractions)
	}
	for _, f := range s.faults {
		text += fmt.Sprintf("fault %s %s %s %v line %d\n", f.Class, f.Rank, f.Phase, f.Primary, f.Line)
	}
	return text
}

func TestCasesInsideCollectors(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(casesDir, "*-sglang-*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, name := range files {
		base := filepath.Base(name)
		if strings.HasPrefix(base, "050") || strings.HasPrefix(base, "056") {
			continue // they stand inside a collector already
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		want := outcome(data)
		for wrap, f := range wraps {
			var out bytes.Buffer
			for i, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
				out.WriteString(f(i, line) + "\n")
			}
			if got := outcome(out.Bytes()); got != want {
				t.Errorf("%s in %s:\n got %swant %s", base, wrap, got, want)
			}
		}
	}
}

// A terminal that is too narrow folds lines inside words.
func TestCasesFolded(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(casesDir, "*-sglang-*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, name := range files {
		base := filepath.Base(name)
		if strings.HasPrefix(base, "012") {
			continue // its first prefix is longer than the lines, so that the stamp itself is torn
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		told := func(data []byte) string {
			s := read(data)
			text := fmt.Sprintf("%+v", s.Level())
			if now := s.Now(); now != nil && now.Flags != nil {
				text += fmt.Sprint(now.Flags)
			}
			return text
		}
		want := told(data)
		for _, width := range []int{72, 80, 100, 120, 132, 160, 200} {
			var out bytes.Buffer
			for line := range strings.SplitSeq(string(data), "\n") {
				for len(line) > width {
					out.WriteString(line[:width] + "\n")
					line = line[width:]
				}
				out.WriteString(line + "\n")
			}
			if got := told(out.Bytes()); got != want {
				t.Errorf("%s folded at %d:\n got %s\nwant %s", base, width, got, want)
			}
		}
	}
}
