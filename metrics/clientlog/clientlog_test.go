package clientlog

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/runvigil/runvigil/metrics"
)

const casesDir = "../../testdata/cases"

func read(data []byte) *State {
	s := &State{}
	s.Feed(data)
	s.Flush()
	return s
}

func primary(s *State) Fault {
	for _, f := range s.Faults() {
		if f.Primary {
			return f
		}
	}
	return Fault{}
}

var errnos = map[string]metrics.Cause{"EMFILE": metrics.CauseTooManyFiles, "ENOSPC": metrics.CauseShmFull}

// extract gives the value of each name that expect uses.
var extract = map[string]func(s *State, want string) string{
	"lines": func(s *State, _ string) string { return fmt.Sprint(s.Lines()) },
	"progress": func(s *State, _ string) string {
		bar, ok := s.Progress()
		if !ok {
			return "unknown"
		}
		return fmt.Sprintf("%d/%d", bar.Done, bar.Total)
	},
	"diagnosis": func(s *State, want string) string {
		if s.OnlyHeader() {
			return "stdout-buffered-or-just-started"
		}
		return "none"
	},
	"fault": func(s *State, want string) string {
		if c, ok := errnos[want]; ok && c == primary(s).Class {
			return want
		}
		return string(primary(s).Class)
	},
	"where":    func(s *State, _ string) string { return primary(s).Where },
	"attempts": func(s *State, _ string) string { return fmt.Sprint(s.Retry().Attempt) },
	"backoff":  func(s *State, _ string) string { return fmt.Sprintf("%d/%d", s.Retry().Try, s.Retry().Of) },
	"sleep":    func(s *State, _ string) string { return fmt.Sprint(s.Retry().SleepS) },
	"phase": func(s *State, _ string) string {
		if bar, _ := s.Progress(); bar.Label == "Model Responding" && strings.Contains(s.Last(), "generate_until") {
			return "generate"
		}
		return "unknown"
	},
}

// elsewhere are rows of the kind client whose input is no log.
var elsewhere = map[string]string{"jsonl": "a dataset: package metrics/jsonl"}

func TestCases(t *testing.T) {
	index, err := os.ReadFile(filepath.Join(casesDir, "INDEX.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	pair := regexp.MustCompile(`\b([A-Za-z_]+):?=(\S+)`)
	prose := map[string]string{"PYTHONUNBUFFERED": "a variable in the advice's words"}
	checked := 0
	for _, row := range strings.Split(strings.TrimSpace(string(index)), "\n")[1:] {
		cols := strings.Split(row, "\t")
		if cols[4] != "client" || elsewhere[cols[2]] != "" {
			continue
		}
		t.Run(cols[0], func(t *testing.T) {
			files, err := filepath.Glob(filepath.Join(casesDir, cols[0]+"-*"))
			if err != nil || len(files) != 1 {
				t.Fatalf("files %v", files)
			}
			data, err := os.ReadFile(files[0])
			if err != nil {
				t.Fatal(err)
			}
			s := read(data)
			for _, m := range pair.FindAllStringSubmatch(cols[5], -1) {
				name, want := m[1], strings.TrimRight(m[2], ";,.")
				if prose[name] != "" {
					continue
				}
				f := extract[name]
				if f == nil {
					t.Errorf("%s: no extractor for this name", name)
					continue
				}
				if got := f(s, want); got != want {
					t.Errorf("%s = %s, want %s", name, got, want)
				}
				checked++
			}
		})
	}
	if checked < 11 {
		t.Errorf("only %d pairs were checked", checked)
	}
}

func TestProgress(t *testing.T) {
	for name, c := range map[string]struct {
		log  string
		want string
	}{
		"hours above a day":                {"Epoch 0:   6%|██        | 32110/500150 [6:30:02<94:35:10,  1.37it/s, loss=2.6, step=3.21e+4]", "Epoch 0 32110/500150 1.37/s 340510 s left"},
		"slow":                             {"gen: 100%|███| 3/3 [00:02<00:00,  2.50s/it]", "gen 3/3 0.4/s 0 s left"},
		"without a total":                  {"Processing batches: 12it [00:03,  4.55it/s]", "Processing batches 12/0 4.55/s -1 s left"},
		"a unit that stands apart":         {"Generating train split: 10000 examples [00:12, 812.11 examples/s]", "Generating train split 10000/0 812.1/s -1 s left"},
		"units with a prefix":              {" 12%|█  | 1.5k/88.0k [00:01<00:09, 1.37kit/s]", " 1500/88000 1370/s 9 s left"},
		"updates by CR":                    {"a: 1%|| 1/9 [00:01<00:09, 1.00it/s]\ra: 2%|| 2/9 [00:01<00:09, 1.00it/s]\r", "a 2/9 1/s 9 s left"},
		"a full bar of an earlier phase":   {"load: 100%|#| 9/9 [00:01<00:00, 1.00it/s]\ngen:   0%|| 0/500 [00:00<?, ?it/s]\n", "gen 0/500 0/s -1 s left"},
		"a bar inside another":             {"all: 0%|| 0/5 [00:00<?, ?it/s]\npart: 0%|| 0/2 [00:00<?, ?it/s]\npart: 100%|| 2/2 [00:01<00:00, 2.00it/s]\nall: 20%|| 1/5 [00:01<00:04, 1.00s/it]\npart: 0%|| 0/2 [00:00<?, ?it/s]\npart: 100%|| 2/2 [00:01<00:00, 2.00it/s]\nall: 40%|| 2/5 [00:02<00:03, 1.00s/it]\npart: 0%|| 0/2 [00:00<?, ?it/s]\n", "all 2/5 1/s 3 s left"},
		"plain counting":                   {"2026-02-24 12:00:00 INFO Processed 1,450/88,000 samples\n", "2026-02-24 12:00:00 INFO Processed 1450/88000 0/s -1 s left"},
		"in words":                         {"saved 450 of 1000 rows\n", "saved 450/1000 0/s -1 s left"},
		"a retry is no progress":           {"WARNING request failed, retry 2/10\n", "none"},
		"a date or a path is no progress":  {"done on 24/02/2026, saved to /data/1/2\n", "none"},
		"a bar in a prompt's text is none": {"the user wrote 50%| and [later] more\n", "none"},
	} {
		got := "none"
		if bar, ok := read([]byte(c.log)).Progress(); ok {
			got = fmt.Sprintf("%s %d/%d %.4g/s %g s left", bar.Label, bar.Done, bar.Total, bar.PerSecond, bar.Remaining)
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestFaults(t *testing.T) {
	for name, c := range map[string]struct {
		log, class, where string
		timeout           float64
		unreachable       int
	}{
		"timeouts":                {"WARNING: request 7 failed: ReadTimeout: HTTPConnectionPool(host='127.0.0.1', port=8000): Read timed out. (read timeout=600)\n", "client-timeouts", "", 600, 0},
		"a limit in words":        {"[B2] prompt 7: TimeoutError after 600 s, asking again\n", "client-timeouts", "", 600, 0},
		"a limit in minutes":      {"ERROR request 3 timed out after 10 minutes\n", "client-timeouts", "", 600, 0},
		"a limit in milliseconds": {"ERROR request 3 timed out after 90000ms\n", "client-timeouts", "", 90, 0},
		"refused":                 {"ERROR: Cannot connect to host 127.0.0.1:8000 ssl:default [Connect call failed]\n", "", "", -1, 1},
		"the data disk":           {"Traceback (most recent call last):\n  File \"run.py\", line 1, in <module>\n    f.write(x)\nOSError: [Errno 28] No space left on device: '/data/out.jsonl'\n", "disk-full", "/data/out.jsonl", -1, 0},
		"an exception of its own": {"Traceback (most recent call last):\n  File \"run.py\", line 1, in <module>\nKeyError: 'text'\n", "client-exception", "", -1, 0},
		"the end is the cause, not the noise": {
			strings.Repeat("WARNING request timed out\n", 5) + "Traceback (most recent call last):\n  File \"run.py\", line 1, in <module>\nMemoryError\n",
			"host-no-memory", "", -1, 0,
		},
		"killed":                   {"working\nKilled\n", "killed-unknown", "", -1, 0},
		"a prompt about errors":    {"prompt: 'ERROR: Too many open files, what now?'\n", "", "", -1, 0},
		"an answer about errors":   {"The answer explains that Too many open files means a low limit.\n", "", "", -1, 0},
		"a row with an error text": {`{"response": "OSError: [Errno 24] Too many open files"}` + "\n", "", "", -1, 0},
	} {
		s := read([]byte(c.log))
		p := primary(s)
		if string(p.Class) != c.class || p.Where != c.where || s.TimeoutS() != c.timeout || s.Unreachable() != c.unreachable {
			t.Errorf("%s: %s in %q, timeout %v, unreachable %d", name, p.Class, p.Where, s.TimeoutS(), s.Unreachable())
		}
	}
}

func TestRetry(t *testing.T) {
	for log, want := range map[string]Retry{
		"2025-11-02 10:00:01,123 - openai._base_client - INFO - Retrying request to /chat/completions in 0.94 seconds\n": {-1, -1, -1, 0.94, 1},
		"WARNING attempt 3/5 failed, sleeping 2.5s\n":                                                                    {3, -1, 5, 2.5, 1},
		"a line about attempt 3/5 without a level\n":                                                                     {-1, -1, -1, -1, 0},
	} {
		if got := read([]byte(log)).Retry(); got != want {
			t.Errorf("%q: %+v, want %+v", log, got, want)
		}
	}
}

func TestFinished(t *testing.T) {
	for log, want := range map[string]string{
		"All done.\n":                    "All done.",
		"x\nFinished 88000 samples\n\n":  "Finished 88000 samples",
		"Finished batch 1\nworking\n":    "",
		"request completed with error\n": "",
		"not finished yet\n":             "",
	} {
		if got := read([]byte(log)).Finished(); got != want {
			t.Errorf("%q: finished %q, want %q", log, got, want)
		}
	}
}

func FuzzState(f *testing.F) {
	files, err := filepath.Glob(filepath.Join(casesDir, "*-client-*.txt"))
	if err != nil || len(files) == 0 {
		f.Fatalf("no cases: %v", err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		whole := read(data)
		pieces := &State{}
		for i := range data {
			pieces.Feed(data[i : i+1])
		}
		pieces.Flush()
		if a, b := fmt.Sprint(whole.Faults()), fmt.Sprint(pieces.Faults()); a != b {
			t.Errorf("in pieces %s, whole %s", b, a)
		}
		texts := []string{whole.Last(), whole.Newest(), whole.Finished()}
		bar, ok := whole.Progress()
		if ok && (bar.Done < 0 || bar.Total < 0) {
			t.Errorf("bar %+v", bar)
		}
		texts = append(texts, bar.Label)
		for _, fault := range whole.Faults() {
			texts = append(texts, fault.Detail, fault.Where)
			if _, ok := fault.Class.Info(); !ok {
				t.Errorf("class %q is not in the closed list", fault.Class)
			}
		}
		for _, s := range texts {
			if len(s) > 2*maxText || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
				t.Errorf("text %q", s)
			}
		}
	})
}

func BenchmarkState(b *testing.B) {
	line := "2026-01-24 21:02:38,065 - __main__ - INFO - sent request 4711 with 2048 tokens and got an answer\n"
	data := []byte(strings.Repeat(line, 500))
	b.SetBytes(int64(len(data)))
	var s State
	n := 0
	for b.Loop() {
		s.Feed(data)
		n += 500
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "lines/s")
}
