package launch

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runvigil/runvigil/metrics"
)

func p(s string) *string { return &s }

func running() Launch {
	l := serve("--api-key", "***", "--enable-hierarchical-cache", "--hicache-size=48", "--odd")
	l.PID = 206001
	l.Env = []Var{{Name: "HF_TOKEN", Value: "***", Secret: true}, {Name: "CUDA_VISIBLE_DEVICES", Value: "0,1"}}
	return l
}

func TestDraftEditsKeepOrderAndSpelling(t *testing.T) {
	d := NewDraft(running())
	for _, e := range []Edit{
		{Kind: SetFlag, Name: "--mem-frac", Value: "0.93"},
		{Kind: SetFlag, Name: "hicache-size", Value: "64"},
		{Kind: SetFlag, Name: "enable-mixed-chunk", Value: "true"},
		{Kind: SetFlag, Name: "enable-hierarchical-cache", Value: "false"},
		{Kind: UnsetFlag, Name: "odd"},
		{Kind: SetEnv, Name: "NCCL_DEBUG", Value: "INFO"},
		{Kind: UnsetEnv, Name: "CUDA_VISIBLE_DEVICES"},
	} {
		if err := d.Do(e); err != nil {
			t.Fatal(err)
		}
	}
	want := strings.Fields("python3 -m sglang.launch_server --model-path /data/models/Kimi-K2.5 --tp 8 --mem-fraction-static 0.93 --api-key *** --hicache-size=64 --enable-mixed-chunk")
	if diff := cmp.Diff(want, d.Launch().Argv); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	wantDiff := []Change{
		{Flag: "mem-fraction-static", From: p("0.88"), To: p("0.93")},
		{Flag: "hicache-size", From: p("48"), To: p("64")},
		{Flag: "enable-mixed-chunk", To: p("true")},
		{Flag: "enable-hierarchical-cache", From: p("true")},
		{Flag: "odd", From: p("true")},
		{Flag: "NCCL_DEBUG", To: p("INFO"), Env: true},
		{Flag: "CUDA_VISIBLE_DEVICES", From: p("0,1"), Env: true},
	}
	if diff := cmp.Diff(wantDiff, d.Diff()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := d.Diff()[0].String(); got != "--mem-fraction-static 0.88 → 0.93" {
		t.Errorf("shown as %q", got)
	}
	set, unset, missing := d.EnvChanges()
	if diff := cmp.Diff([]any{[]Var{{Name: "NCCL_DEBUG", Value: "INFO"}}, []string{"CUDA_VISIBLE_DEVICES"}, []string(nil)}, []any{set, unset, missing}); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestDraftUndoRedoReset(t *testing.T) {
	d := NewDraft(running())
	fraction := func() string { v, _ := d.Launch().Line().Get("mem-fraction-static"); return v }
	for _, v := range []string{"0.90", "0.91", "0.91"} {
		if err := d.Set("mem-fraction-static", v); err != nil {
			t.Fatal(err)
		}
	}
	if len(d.Edits()) != 2 {
		t.Errorf("an edit that changes nothing was kept: %v", d.Edits())
	}
	steps := []struct {
		do   func() bool
		ok   bool
		want string
	}{
		{d.Undo, true, "0.90"}, {d.Redo, true, "0.91"}, {d.Redo, false, "0.91"}, {d.Undo, true, "0.90"}, {d.Undo, true, "0.88"},
		{d.Undo, false, "0.88"}, {d.Redo, true, "0.90"},
		{func() bool { d.Reset(); return true }, true, "0.88"}, {d.Undo, true, "0.90"}, {d.Redo, true, "0.88"},
	}
	for i, s := range steps {
		if ok := s.do(); ok != s.ok || fraction() != s.want {
			t.Errorf("step %d: %v and %s, want %v and %s", i, ok, fraction(), s.ok, s.want)
		}
	}
	if d.Changed() {
		t.Error("a draft that was reset says that it changed")
	}
	if err := d.Set("mem-fraction-static", "0.7"); err != nil || d.Redo() {
		t.Error("a new edit must forget what was undone")
	}
	for _, e := range []Edit{{Kind: SetFlag}, {Kind: SetFlag, Name: "a b", Value: "1"}, {Kind: SetEnv, Name: "1X"}, {Kind: SetFlag, Name: "x", Value: "a\x00b"}} {
		if err := d.Do(e); err == nil {
			t.Errorf("%+v was taken", e)
		}
	}
}

func TestSecretsStayOnTheNode(t *testing.T) {
	d := NewDraft(running())
	if err := d.Set("mem-fraction-static", "0.93"); err != nil {
		t.Fatal(err)
	}
	words, missing := d.Words()
	for i, w := range words {
		if (w.Text == metrics.Masked) != (w.From >= 0) || w.From >= 0 && d.Base().Argv[w.From] != metrics.Masked {
			t.Errorf("word %d: %+v", i, w)
		}
	}
	if len(missing) != 0 {
		t.Errorf("missing %v", missing)
	}
	// The flags of another start have a key of their own that nobody knows.
	if err := d.Take("start #2", serve("--ssl-keyfile-password", "***", "--api-key", "***").Argv); err != nil {
		t.Fatal(err)
	}
	if _, missing = d.Words(); !cmp.Equal(missing, []string{"ssl-keyfile-password"}) {
		t.Errorf("missing %v", missing)
	}
	// Where nothing runs, nothing can be taken.
	if _, missing = NewDraft(FromStart(metrics.Start{Engine: "sglang", Argv: running().Argv})).Words(); !cmp.Equal(missing, []string{"api-key"}) {
		t.Errorf("missing %v", missing)
	}
	// A key that is typed in is used and not shown.
	if err := d.Set("api-key", "sk-typed-in-0123456789"); err != nil {
		t.Fatal(err)
	}
	if err := d.Do(Edit{Kind: SetEnv, Name: "HF_TOKEN", Value: "hf_typed0123456789ab"}); err != nil {
		t.Fatal(err)
	}
	shown := strings.Join(d.Launch().Masked().Argv, " ")
	for _, c := range d.Diff() {
		shown += c.String()
	}
	for _, e := range d.Edits() {
		shown += e.String()
	}
	for _, v := range d.Launch().Masked().Env {
		shown += v.Value
	}
	if strings.Contains(shown, "typed") {
		t.Errorf("a secret is shown: %s", shown)
	}
	if set, _, _ := d.EnvChanges(); len(set) != 1 || set[0].Value != "hf_typed0123456789ab" {
		t.Errorf("the typed value is lost: %v", set)
	}
}

func TestProblems(t *testing.T) {
	free := Machine{GPUs: 8, HostFree: metrics.Figure{V: 500 << 30, Known: true}, HostTotal: metrics.Figure{V: 1008 << 30, Known: true}}
	inside := Machine{GPUs: 8, HostFree: metrics.Figure{V: 118 << 30, Known: true}, HostTotal: metrics.Figure{V: 400 << 30, Known: true}, HostLimit: "the container"}
	little := Machine{GPUs: 8, HostFree: metrics.Figure{V: 118 << 30, Known: true}}
	vllm := func(flags ...string) Launch {
		return Launch{Engine: "vllm", Argv: append([]string{"vllm", "serve", "M"}, flags...)}
	}
	for name, c := range map[string]struct {
		l     Launch
		m     Machine
		level metrics.Severity
		want  string // "": none of warning or worse
	}{
		"nothing wrong":          {serve("--enable-hierarchical-cache", "--hicache-size", "48"), free, 0, ""},
		"no command":             {Launch{}, free, metrics.SeverityCritical, "no command"},
		"not a number":           {serve("--hicache-size", "lots"), free, metrics.SeverityCritical, "whole number"},
		"not a share":            {serve("--mem-frac", "1.2"), free, metrics.SeverityCritical, "share above 0"},
		"unknown choice":         {serve("--kv-cache-dtype", "fp7"), free, metrics.SeverityCritical, "may be auto"},
		"unknown flag":           {serve("--mem-fraktion", "0.9"), free, metrics.SeverityWarning, "not a flag that SGLang 0.5.9"},
		"given twice":            {serve("--mem-frac", "0.9"), free, metrics.SeverityWarning, "given 2 times"},
		"hicache without radix":  {serve("--enable-hierarchical-cache", "--disable-radix-cache"), free, metrics.SeverityCritical, "needs the radix cache"},
		"size without hicache":   {serve("--hicache-size", "48"), free, metrics.SeverityWarning, "does nothing"},
		"ratio of nothing":       {serve("--enable-hierarchical-cache", "--hicache-ratio", "1"), free, metrics.SeverityWarning, "nothing is gained"},
		"more than the host has": {serve("--enable-hierarchical-cache", "--hicache-size", "48"), little, metrics.SeverityCritical, "358 GiB in all; 108 GiB is free"},
		"more than is left below a limit": {serve("--enable-hierarchical-cache", "--hicache-size", "48"), inside, metrics.SeverityCritical,
			"108 GiB is free for it within the container's limit of 400 GiB"},
		"most of the host":      {serve("--enable-hierarchical-cache", "--hicache-size", "115"), Machine{HostFree: metrics.Figure{V: 1000 << 30, Known: true}, HostTotal: free.HostTotal}, metrics.SeverityWarning, "pins"},
		"more GPUs than there":  {serve("--pp-size", "2"), free, metrics.SeverityCritical, "needs 16 GPUs, the node has 8"},
		"chunk and page":        {serve("--chunked-prefill-size", "1000", "--page-size", "64"), free, metrics.SeverityCritical, "no multiple"},
		"pool below a request":  {serve("--max-total-tokens", "1000", "--context-length", "4096"), free, metrics.SeverityWarning, "less than one request"},
		"vllm two sizes":        {vllm("--gpu-memory-utilization", "0.9", "--kv-cache-memory-bytes", "10G"), free, metrics.SeverityWarning, "sizes the KV cache"},
		"vllm batch below seqs": {vllm("--max-num-batched-tokens", "512", "--max-num-seqs", "1k"), free, metrics.SeverityCritical, "below --max-num-seqs 1000"},
		"vllm batch below length": {vllm("--no-enable-chunked-prefill", "--max-num-batched-tokens", "8192", "--max-model-len", "32K"), free, metrics.SeverityCritical,
			"must reach --max-model-len 32768"},
		"vllm GPUs":          {vllm("-tp", "16"), free, metrics.SeverityCritical, "needs 16 GPUs"},
		"a secret is no err": {serve("--api-key", "***"), free, 0, ""},
	} {
		got := Problems(c.l, c.m)
		ok := false
		for _, pr := range got {
			ok = ok || pr.Level == c.level && strings.Contains(pr.Text, c.want)
			if c.want == "" && pr.Level >= metrics.SeverityWarning {
				t.Errorf("%s: %+v", name, pr)
			}
		}
		if c.want != "" && !ok {
			t.Errorf("%s: %+v lacks %v %q", name, got, c.level, c.want)
		}
	}
}

func TestNumber(t *testing.T) {
	for in, want := range map[string]float64{"8192": 8192, "8k": 8000, "8K": 8192, "1.5M": 1.5 * (1 << 20), "0.88": 0.88} {
		if got := Number(in); got != want {
			t.Errorf("%s is %v, want %v", in, got, want)
		}
	}
	for _, in := range []string{"", "auto", "k", "1z"} {
		if got := Number(in); got == got {
			t.Errorf("%q is %v, want no number", in, got)
		}
	}
}
