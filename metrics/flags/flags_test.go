package flags

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLookup(t *testing.T) {
	sglang, vllm := For("sglang", "0.5.9"), For("vllm", "")
	for _, c := range []struct {
		cat  *Catalogue
		word string
		want string // "" : not known
		neg  bool
	}{
		{sglang, "--mem-fraction-static", "mem-fraction-static", false},
		{sglang, "--mem-frac", "mem-fraction-static", false},
		{sglang, "--tp", "tp-size", false},
		{sglang, "--tensor-parallel-size", "tp-size", false},
		{sglang, "--model", "model-path", false},
		{sglang, "--enable", "", false},
		{sglang, "--no-such-flag", "", false},
		{sglang, "--", "", false},
		{sglang, "--cuda-graph-max-bs", "cuda-graph-max-bs", false},
		{sglang, "--cuda-graph-max-bs-decode", "", false},
		{vllm, "-tp", "tensor-parallel-size", false},
		{vllm, "--gpu_memory_utilization", "gpu-memory-utilization", false},
		{vllm, "--no-enable-expert-parallel", "enable-expert-parallel", true},
		{vllm, "--compilation-config.mode", "compilation-config", false},
	} {
		f, neg, ok := c.cat.Lookup(c.word)
		if f.Name != c.want || neg != c.neg || ok != (c.want != "") {
			t.Errorf("%s %s means %q (negated %v, known %v), want %q", c.cat.Engine, c.word, f.Name, neg, ok, c.want)
		}
	}
}

var story = strings.Fields("python3 -u -m sglang.launch_server --model-path /data/models/Kimi-K2.5 --tp 8 --port=8000 " +
	"--mem-fraction-static 0.88 --enable-hierarchical-cache --hicache-size 48 --mem-frac 0.9 --odd-flag x")

func TestParseKeepsEveryWord(t *testing.T) {
	l := Parse(For("sglang", "0.5.9"), story)
	if d := cmp.Diff(story, l.Argv()); d != "" {
		t.Errorf("words changed (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"python3", "-u", "-m", "sglang.launch_server"}, l.Program); d != "" {
		t.Errorf("program (-want +got):\n%s", d)
	}
	want := map[string]string{
		"model-path": "/data/models/Kimi-K2.5", "tp-size": "8", "port": "8000", "mem-fraction-static": "0.9",
		"enable-hierarchical-cache": "true", "hicache-size": "48", "odd-flag": "x",
	}
	if d := cmp.Diff(want, l.Effective()); d != "" {
		t.Errorf("values (-want +got):\n%s", d)
	}
}

func TestEdit(t *testing.T) {
	l := Parse(For("sglang", "0.5.9"), story)
	edited := l.Set("mem-fraction-static", "0.93").Unset("--hicache-size").Set("port", "8001").Set("kv-cache-dtype", "fp8_e4m3")
	want := "python3 -u -m sglang.launch_server --model-path /data/models/Kimi-K2.5 --tp 8 --port=8001 " +
		"--enable-hierarchical-cache --mem-frac 0.93 --odd-flag x --kv-cache-dtype fp8_e4m3"
	if got := strings.Join(edited.Argv(), " "); got != want {
		t.Errorf("edited to\n%s\nwant\n%s", got, want)
	}
	if !slices.Equal(l.Argv(), story) {
		t.Error("the line that was edited changed itself")
	}
	var diff []string
	for _, c := range Diff(l, edited) {
		side := func(p *string) string {
			if p == nil {
				return "-"
			}
			return *p
		}
		diff = append(diff, c.Flag+":"+side(c.From)+">"+side(c.To))
	}
	if got, want := strings.Join(diff, " "), "port:8000>8001 mem-fraction-static:0.9>0.93 kv-cache-dtype:->fp8_e4m3 hicache-size:48>-"; got != want {
		t.Errorf("diff %s, want %s", got, want)
	}
}

func TestVLLMLine(t *testing.T) {
	argv := strings.Fields("vllm serve /models/m -tp 4 --no-enable-prefix-caching --max-model-len 32k --cudagraph-capture-sizes 1 2 4 --seed -1")
	l := Parse(For("vllm", ""), argv)
	if !slices.Equal(l.Argv(), argv) {
		t.Errorf("words changed: %q", l.Argv())
	}
	if d := cmp.Diff([]string{"vllm", "serve", "/models/m"}, l.Program); d != "" {
		t.Errorf("program (-want +got):\n%s", d)
	}
	want := map[string]string{"tensor-parallel-size": "4", "enable-prefix-caching": "false", "max-model-len": "32k", "cudagraph-capture-sizes": "1 2 4", "seed": "-1"}
	if d := cmp.Diff(want, l.Effective()); d != "" {
		t.Errorf("values (-want +got):\n%s", d)
	}
	if got := strings.Join(l.Set("enable-prefix-caching", "true").Argv(), " "); !strings.Contains(got, " --enable-prefix-caching ") {
		t.Errorf("negation not taken back: %s", got)
	}
}

func TestCheck(t *testing.T) {
	c := For("sglang", "0.5.9")
	for _, tc := range []struct{ flag, value, want string }{
		{"mem-fraction-static", "0.88", ""},
		{"mem-fraction-static", "88", "share above 0 and below 1"},
		{"mem-fraction-static", "x", "takes a number"},
		{"hicache-size", "48", ""},
		{"hicache-size", "48GB", "whole number"},
		{"kv-cache-dtype", "fp8_e4m3", ""},
		{"kv-cache-dtype", "fp9", "it may be"},
		{"enable-metrics", "yes", "takes no value"},
		{"port", "", "needs a value"},
	} {
		f, _, ok := c.Lookup("--" + tc.flag)
		if !ok {
			t.Fatalf("%s is not known", tc.flag)
		}
		err := f.Check(tc.value)
		if (tc.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("--%s %q: %v, want %q", tc.flag, tc.value, err, tc.want)
		}
	}
	ml, _, _ := For("vllm", "").Lookup("--max-model-len")
	for v, ok := range map[string]bool{"32k": true, "32768": true, "auto": true, "long": false} {
		if err := ml.Check(v); (err == nil) != ok {
			t.Errorf("--max-model-len %s: %v", v, err)
		}
	}
}

func TestCatalogues(t *testing.T) {
	for _, engine := range []string{"sglang", "vllm"} {
		fs := For(engine, "").Flags()
		if len(fs) < 250 {
			t.Errorf("%s has only %d flags", engine, len(fs))
		}
		for i, name := range knobs[engine] {
			if fs[i].Name != name || !fs[i].Tuning {
				t.Errorf("%s lists %s (tuning %v) where %s is wanted", engine, fs[i].Name, fs[i].Tuning, name)
			}
		}
		for _, f := range fs {
			switch f.Kind {
			case Bool, Int, Float, String, Choice:
			default:
				t.Errorf("%s --%s has kind %q", engine, f.Name, f.Kind)
			}
		}
	}
	if n := len(For("tgi", "").Flags()); n != 0 {
		t.Errorf("an unknown engine has %d flags", n)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(strings.Join(story, "\x00"))
	f.Add("vllm\x00serve\x00-O3\x00--x.y\x00{}")
	f.Add("")
	cats := []*Catalogue{For("sglang", ""), For("vllm", ""), For("other", "")}
	f.Fuzz(func(t *testing.T, joined string) {
		var argv []string
		if joined != "" {
			argv = strings.Split(joined, "\x00")
		}
		for _, c := range cats {
			if got := Parse(c, argv).Argv(); !slices.Equal(got, argv) {
				t.Errorf("%s: %q became %q", c.Engine, argv, got)
			}
		}
	})
}
