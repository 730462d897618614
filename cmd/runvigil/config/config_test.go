package config

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runvigil/runvigil/metrics"
)

const full = `
theme = "dark"
interval = "2s"

[node.gpu7]
host = "root@10.0.0.7:2222"
dial = "native"
target = 88000
targets = [{ path = "/data/b2.jsonl", rows = 10000 }]
datasets = ["/data/*.jsonl"]
expected = true

[[node.gpu7.guards]]
flag = "--kv-cache-dtype"
deny = ["fp8*"]
why = "degrades the model noticeably"

[node.gpu7.thresholds]
headroom_warning_gib = 4

[node.gpu7.endpoint]
engine = "tgi"
port = 8080
[node.gpu7.endpoint.metrics]
running = "tgi_batch_current_size"
`

func TestParse(t *testing.T) {
	c, err := Parse([]byte(full))
	if err != nil {
		t.Fatal(err)
	}
	want := metrics.Config{
		Node: "gpu7", Interval: 2 * time.Second, Expected: true, Datasets: []string{"/data/*.jsonl"},
		Targets:    []metrics.ConfigTarget{{Rows: 88000}, {Path: "/data/b2.jsonl", Rows: 10000}},
		Guards:     []metrics.Guard{{Flag: "kv-cache-dtype", Deny: []string{"fp8*"}, Why: "degrades the model noticeably", From: "config"}},
		Thresholds: map[string]float64{"headroom_warning_gib": 4},
		Endpoint:   &metrics.ConfigEndpoint{Engine: "tgi", Port: 8080, Path: "/metrics", Metrics: map[string]string{"running": "tgi_batch_current_size"}},
	}
	if d := cmp.Diff(want, c.ForNode("gpu7")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if d := cmp.Diff(metrics.Config{Node: "other", Interval: 2 * time.Second}, c.ForNode("other")); d != "" {
		t.Errorf("a node that is not in the file (-want +got):\n%s", d)
	}
}

func TestErrorsNameWhatAndWhere(t *testing.T) {
	for in, want := range map[string]string{
		"thme = \"dark\"":                                 "thme",
		"theme = \"pink\"":                                "it may be auto, light, dark",
		"interval = \"1 day\"":                            "is no duration",
		"interval = \"1ms\"":                              "shortest is 200ms",
		"[node.a]\ndial = \"telnet\"":                     `node "a": dial is "telnet"`,
		"[node.a]\ntarget = -1":                           "leave it out",
		"[[node.a.guards]]\nflag = \"x\"":                 "allowed or denied",
		"[[node.a.guards]]\nflag=\"x\"\ndeny=[\"y\"]":     "has no why",
		"[node.a.endpoint]\nport = 0":                     "1 to 65535",
		"[node.a.thresholds]\nheadroom_warning_gib = nan": "must be a number",
		"theme = ": "1| theme",
	} {
		if _, err := Parse([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q in it", in, err, want)
		}
	}
}

func TestNamedFileMustExist(t *testing.T) {
	if _, err := Load(filepath.Join(t.TempDir(), "none.toml")); err == nil {
		t.Error("a named file that is missing was accepted")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(full))
	f.Fuzz(func(_ *testing.T, data []byte) { _, _ = Parse(data) })
}
