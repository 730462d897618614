package findings_test

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/findings"
	"github.com/runvigil/runvigil/remote/simnode/model"
)

var update = flag.Bool("update", false, "write docs/findings.md")

const doc = "../../docs/findings.md"

func TestMarkdown(t *testing.T) {
	want := findings.Markdown()
	if *update {
		if err := os.WriteFile(doc, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Errorf("docs/findings.md is not what the registry says; renew it with -update:\n%s", d)
	}
}

// The map of the story names only what is there.
func TestStoriesNameWhatExists(t *testing.T) {
	ids := map[string]bool{}
	for _, d := range findings.Registry() {
		ids[d.ID] = true
	}
	tests := testNames(t)
	if n := len(findings.Stories()); n != 9 {
		t.Errorf("%d things, want nine", n)
	}
	for _, s := range findings.Stories() {
		for _, id := range s.Findings {
			if !ids[id] {
				t.Errorf("%s: no finding %s", s.What, id)
			}
		}
		for _, sc := range s.Scenarios {
			if _, err := model.Lookup(sc); err != nil {
				t.Errorf("%s: %v", s.What, err)
			}
		}
		for _, name := range s.Tests {
			if !tests[name] {
				t.Errorf("%s: no test %s", s.What, name)
			}
		}
	}
}

func testNames(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	re := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir("../..", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(p, "_test.go") {
			return err
		}
		data, err := os.ReadFile(p)
		for _, m := range re.FindAllSubmatch(data, -1) {
			out[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Every threshold is read by some detector, and every one that is read is known.
func TestThresholdsAreUsed(t *testing.T) {
	read := map[string]bool{}
	re := regexp.MustCompile(`in\.(?:Threshold|seconds)\("(\w+)"\)`)
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range re.FindAllSubmatch(data, -1) {
			read[string(m[1])] = true
		}
	}
	for _, l := range findings.Limits() {
		if !read[l.Name] {
			t.Errorf("no detector reads %s", l.Name)
		}
		if l.Unit == "" || l.Means == "" {
			t.Errorf("%s is not documented", l.Name)
		}
		delete(read, l.Name)
	}
	for name := range read {
		t.Errorf("a detector reads %s, which is no threshold", name)
	}
}

func TestKnownThresholds(t *testing.T) {
	if name, near := findings.KnownThresholds([]string{"hung_s", "headroom_warning_gb"}); name != "headroom_warning_gb" || near != "headroom_warning_gib" {
		t.Errorf("unknown %q, near %q", name, near)
	}
	if name, _ := findings.KnownThresholds([]string{"hung_s"}); name != "" {
		t.Errorf("%q is unknown", name)
	}
}

// A threshold of the configuration moves the finding.
func TestThresholdOverride(t *testing.T) {
	cfg := metrics.Config{Thresholds: map[string]float64{"hung_s": 7}}
	if v := findings.Threshold(cfg, "hung_s"); v != 7 {
		t.Errorf("hung_s is %g", v)
	}
	if v := findings.Threshold(cfg, "link_down_s"); v != 5 {
		t.Errorf("link_down_s is %g", v)
	}
}

// Without metrics nothing proves the host tier idle: it is said, not alarmed.
func TestHiCacheCannotBeTold(t *testing.T) {
	s := watch(t, "story", 40*1e9, nil)
	i := slices.IndexFunc(s.CannotTell, func(c metrics.CannotTell) bool { return strings.Contains(c.Tell, "--enable-metrics") })
	if i < 0 {
		t.Errorf("nothing names the flag that would tell: %v", s.CannotTell)
	}
	if slices.ContainsFunc(s.Findings, func(f metrics.Finding) bool { return f.ID == "hicache-unused" }) {
		t.Error("hicache-unused is raised without a counter")
	}
}

// What the simulated node must be said to have, by the findings alone.
func TestLivingScenarios(t *testing.T) {
	for scenario, want := range map[string]map[string]metrics.Cause{
		"gpu-held":     {"server-down": metrics.CauseStartupGPUOccupied, "gpu-memory-held": metrics.CauseGPUMemoryHeld},
		"client-twice": {"client-twice": metrics.CauseRowsDuplicate},
		"work-lost":    {"work-lost": metrics.CauseClientTimeouts},
		"oom":          {"server-oom": metrics.CauseCUDAOOM},
		"hang":         {"server-hung": metrics.CauseServerHung},
		"gpu-lost":     {"gpu-lost": metrics.CauseGPULost},
		"client-dead":  {"client-gone": metrics.CauseKilledUnknown},
		"no-server":    {"server-down": metrics.CauseKilledUnknown},
		"story":        {"client-log-silent": metrics.CauseClientBuffered, "settled": ""},
	} {
		t.Run(scenario, func(t *testing.T) {
			s := watch(t, scenario, 100*1e9, nil)
			for id, cause := range want {
				i := slices.IndexFunc(s.Findings, func(f metrics.Finding) bool { return f.ID == id })
				if i < 0 {
					t.Errorf("%s is not raised among %v", id, s.Findings)
				} else if f := s.Findings[i]; f.Cause != cause {
					t.Errorf("%s has cause %q, want %q", id, f.Cause, cause)
				}
			}
		})
	}
}

// The first look at two minutes of a run: the log alone is worth a word.
func TestRampAndStoryRaiseNothingFalse(t *testing.T) {
	for scenario, want := range map[string][]string{"story": {"client-log-silent", "settled"}, "ramp": {"client-log-silent"}} {
		s := watch(t, scenario, 30*1e9, nil)
		var got []string
		for _, f := range s.Findings {
			got = append(got, f.ID)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s raises %v, want %v", scenario, got, want)
		}
	}
}
