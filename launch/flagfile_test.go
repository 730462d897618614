package launch

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/flags"
)

func TestFlagsFile(t *testing.T) {
	const file = `---
# the model
model-path: "/data/models/Kimi K2.5"   # quoted
tensor-parallel-size: 8
mem_fraction_static: 0.88 # c
kv-cache-dtype: 'fp8_e4m3'
enable-hierarchical-cache: True
cuda-graph-bs: [1, 2, 4]
served-model-name:
  - a
  - "b"
odd: x#y
`
	got, err := ParseFlagsFile(flags.For("sglang", "0.5.9"), []byte(file))
	want := map[string]string{
		"model-path": "/data/models/Kimi K2.5", "tp-size": "8", "mem-fraction-static": "0.88", "kv-cache-dtype": "fp8_e4m3",
		"enable-hierarchical-cache": "true", "cuda-graph-bs": "1 2 4", "served-model-name": "a b", "odd": "x#y",
	}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	// The command line wins over the file; the guard sees what is in force.
	l := serve("--config", "/c.yaml")
	l.FileFlags = got
	if v := l.Effective()["mem-fraction-static"]; v != "0.88" {
		t.Errorf("in force: %s", v)
	}
	if b := Judge(l, []metrics.Guard{{Flag: "kv-cache-dtype", Deny: []string{"fp8*"}, Why: "w"}}, nil); len(b) != 1 {
		t.Errorf("a rule that the file breaks: %+v", b)
	}
	for in, want := range map[string]string{
		"a: {b: c}":  "line 1 of the flags file: a value that is more",
		"a:\n  b: 1": "line 2 of the flags file: an indented",
		"- a":        "belongs to no flag",
		"a: [1,\n2]": "goes on",
		"just text":  "no \"name: value\"",
		"a: 'x":      "does not end",
	} {
		if _, err := ParseFlagsFile(flags.For("sglang", ""), []byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
}

func FuzzFlagsFile(f *testing.F) {
	f.Add([]byte("a: 1\nb: [x, 'y']\nc:\n- \"z\"\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := ParseFlagsFile(flags.For("sglang", ""), data)
		if err == nil && len(got) > strings.Count(string(data), ":") {
			t.Errorf("%d flags out of %q", len(got), data)
		}
	})
}
