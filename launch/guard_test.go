package launch

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runvigil/runvigil/metrics"
)

func serve(more ...string) Launch {
	return Launch{Engine: "sglang", Version: "0.5.9", PID: 1, Argv: append(strings.Fields(
		"python3 -m sglang.launch_server --model-path /data/models/Kimi-K2.5 --tp 8 --mem-fraction-static 0.88"), more...)}
}

func TestJudge(t *testing.T) {
	fp8 := metrics.Guard{Flag: "kv-cache-dtype", Deny: []string{"fp8*"}, Why: "degrades the model noticeably"}
	for name, c := range map[string]struct {
		l        Launch
		g        metrics.Guard
		resolved map[string]string
		want     string // "": kept
	}{
		"denied":                     {serve("--kv-cache-dtype", "fp8_e4m3"), fp8, nil, "fp8_e4m3 is denied (fp8*): degrades the model noticeably"},
		"denied in another spelling": {serve("--kv-cache-dtype=FP8_E5M2"), fp8, nil, "FP8_E5M2 is denied"},
		"abbreviated flag":           {serve("--kv-cache-dt", "fp8_e4m3"), fp8, nil, "is denied"},
		"last one wins":              {serve("--kv-cache-dtype", "fp8_e4m3", "--kv-cache-dtype", "bf16"), fp8, nil, ""},
		"absent":                     {serve(), fp8, nil, ""},
		"auto became fp8":            {serve("--kv-cache-dtype", "auto"), fp8, map[string]string{"kv-cache-dtype": "fp8_e4m3"}, "--kv-cache-dtype auto: fp8_e4m3 is denied"},
		"default became fp8":         {serve(), fp8, map[string]string{"kv-cache-dtype": "fp8_e4m3"}, "fp8_e4m3 is denied"},
		"set wins over resolved":     {serve("--kv-cache-dtype", "bf16"), fp8, map[string]string{"kv-cache-dtype": "fp8_e4m3"}, ""},
		"in a file":                  {Launch{Engine: "sglang", Argv: serve().Argv, FileFlags: map[string]string{"kv-cache-dtype": "fp8_e4m3"}}, fp8, nil, "is denied"},
		"torch's name in the rule":   {serve("--kv-cache-dtype", "fp8_e4m3"), metrics.Guard{Flag: "kv-cache-dtype", Deny: []string{"torch.float8_e4m3fn"}, Why: "w"}, nil, "is denied"},
		"allowed alias":              {serve("--kv-cache-dtype", "bf16"), metrics.Guard{Flag: "kv-cache-dtype", Allow: []string{"bfloat16"}, Why: "w"}, nil, ""},
		"allowed, left to the engine": {serve(), metrics.Guard{Flag: "kv-cache-dtype", Allow: []string{"bf16"}, Why: "w"}, nil,
			"auto is decided by the engine at its start, and only bf16 is allowed"},
		"allowed, and the log told":   {serve(), metrics.Guard{Flag: "kv-cache-dtype", Allow: []string{"bf16"}, Why: "w"}, map[string]string{"kv-cache-dtype": "bfloat16"}, ""},
		"in range":                    {serve(), metrics.Guard{Flag: "--mem-fraction-static", Allow: []string{"0.80..0.90"}, Why: "w"}, nil, ""},
		"edge of range":               {serve("--mem-frac", "0.90"), metrics.Guard{Flag: "mem-fraction-static", Allow: []string{"0.80..0.90"}, Why: "w"}, nil, ""},
		"above range":                 {serve("--mem-frac", "0.93"), metrics.Guard{Flag: "mem-fraction-static", Allow: []string{"0.80..0.90"}, Why: "w"}, nil, "0.93 is not among the allowed values (0.80..0.90)"},
		"at least":                    {serve("--mem-frac", "0.90"), metrics.Guard{Flag: "mem-fraction-static", Deny: []string{">=0.9"}, Why: "w"}, nil, "0.90 is denied (>=0.9)"},
		"above, open":                 {serve("--mem-frac", "0.90"), metrics.Guard{Flag: "mem-fraction-static", Deny: []string{">0.9"}, Why: "w"}, nil, ""},
		"number in another spelling":  {serve("--mem-frac", ".90"), metrics.Guard{Flag: "mem-fraction-static", Deny: []string{"0.9"}, Why: "w"}, nil, ".90 is denied"},
		"presence denied":             {serve("--disable-radix-cache"), metrics.Guard{Flag: "disable-radix-cache", Deny: []string{"true"}, Why: "w"}, nil, "true is denied"},
		"presence absent":             {serve(), metrics.Guard{Flag: "disable-radix-cache", Deny: []string{"true"}, Why: "w"}, nil, ""},
		"unknown flag":                {serve("--odd", "x"), metrics.Guard{Flag: "odd", Deny: []string{"?"}, Why: "w"}, nil, "x is denied"},
		"path with two dots no range": {serve("--odd", "/a/../b"), metrics.Guard{Flag: "odd", Deny: []string{"/a/../*"}, Why: "w"}, nil, "is denied"},
	} {
		got := Judge(c.l, []metrics.Guard{c.g}, c.resolved)
		switch {
		case c.want == "" && len(got) > 0:
			t.Errorf("%s: broken: %s", name, got[0].Reason)
		case c.want != "" && (len(got) != 1 || !strings.Contains(got[0].Reason, c.want)):
			t.Errorf("%s: %+v, want %q", name, got, c.want)
		}
	}
}

func TestResolvedOnlyWhereTheServerWasFree(t *testing.T) {
	s := &metrics.Server{Engine: "sglang", Argv: serve().Argv, KVDtype: "torch.float8_e4m3fn"}
	if d := cmp.Diff(map[string]string{"kv-cache-dtype": "fp8_e4m3"}, Resolved(s)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	s.Flags = map[string]string{"mem_fraction_static": "0.879", "chunked_prefill_size": "8192", "disable_radix_cache": "False", "kv_cache_dtype": "auto", "api_key": "None", "odd_one": "1"}
	want := map[string]string{"kv-cache-dtype": "fp8_e4m3", "chunked-prefill-size": "8192", "disable-radix-cache": "false"}
	if d := cmp.Diff(want, Resolved(s)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	s.Argv, s.Flags = serve("--kv-cache-dtype", "fp8_e4m3").Argv, nil
	if got := Resolved(s); len(got) != 0 {
		t.Errorf("a server told to use fp8 says nothing about auto, got %v", got)
	}
}

const config = `theme = "dark" # keep me

[node.gpu7]
host="root@10.0.0.7"

# the owner said so on 24 Feb
[[node.gpu7.guards]]
flag = "--kv-cache-dtype"
deny = [
  "fp8*", # both
]
why = """degrades
# not a comment"""

[[node.gpu7.guards]]
flag = 'mem-fraction-static'
allow = ["0.80..0.90"]
why = "headroom"
# about gpu8
[node."gpu8.lab"]
target = 5
`

func TestAddGuardKeepsEveryByte(t *testing.T) {
	g := metrics.Guard{Flag: "--quantization", Allow: []string{"a\"b"}, Why: "w", Overridable: true}
	for _, table := range [][]string{{"node", "gpu7", "guards"}, {"node", "gpu8.lab", "guards"}, {"node", "new@host:22", "guards"}} {
		out, n, err := AddGuard([]byte(config), table, g)
		if err != nil || n != 0 {
			t.Fatal(n, err)
		}
		if !strings.HasPrefix(string(out), config) {
			t.Errorf("%v: bytes changed", table)
		}
	}
	out, _, err := AddGuard([]byte(strings.TrimSuffix(config, "\n")), []string{"node", "gpu8.lab", "guards"}, g)
	want := config + "\n[[node.\"gpu8.lab\".guards]]\nflag = \"quantization\"\nallow = [\"a\\\"b\"]\nwhy = \"w\"\noverridable = true\n"
	if d := cmp.Diff(want, string(out)); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	for in, want := range map[string]string{
		"[node.gpu7]\nguards = [{flag='x', deny=['y'], why='z'}]\n": "by hand",
		"node = 5": "by hand",
		"= broken": "no TOML",
	} {
		if _, _, err := AddGuard([]byte(in), []string{"node", "gpu7", "guards"}, g); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", in, err, want)
		}
	}
	if _, _, err := AddGuard(nil, GuardsTable, metrics.Guard{Flag: "x", Deny: []string{"y"}}); err == nil {
		t.Error("a guard without a reason was added")
	}
}

// The same rule twice is one rule with the newer reason, where it stood.
func TestAddGuardTwice(t *testing.T) {
	add := func(data []byte, why string, deny ...string) ([]byte, int) {
		t.Helper()
		out, n, err := AddGuard(data, GuardsTable, metrics.Guard{Flag: "--kv_cache_dtype", Deny: deny, Why: why})
		if err != nil {
			t.Fatal(err)
		}
		return out, n
	}
	const file = "# ours\n\n[[guards]]\nflag = \"kv-cache-dtype\"\ndeny = [\"int8*\", \"fp8*\"]\nwhy = \"old\"\noverridable = true\n\n# about tp\n[[guards]]\nflag = \"tp-size\"\nallow = [\"8\"]\nwhy = \"w\"\n"
	out, n := add([]byte(file), "new", "FP8*", "int8*")
	want := strings.Replace(strings.Replace(file, "deny = [\"int8*\", \"fp8*\"]\nwhy = \"old\"\noverridable = true\n", "deny = [\"FP8*\", \"int8*\"]\nwhy = \"new\"\n", 1), "kv-cache-dtype", "kv_cache_dtype", 1)
	if d := cmp.Diff(want, string(out)); d != "" || n != 1 {
		t.Errorf("%d (-want +got):\n%s", n, d)
	}
	if again, n := add(out, "new", "int8*", "fp8*"); n != 1 || string(again) != string(out) {
		t.Errorf("%d: written again:\n%s", n, again)
	}
	if out, n := add(out, "other values, another rule", "fp8*"); n != 0 || strings.Count(string(out), "[[guards]]") != 3 {
		t.Errorf("%d:\n%s", n, out)
	}
	// Those that were doubled before become one.
	twice := file + strings.TrimPrefix(file, "# ours\n")
	if out, n := add([]byte(twice), "one", "fp8*", "int8*"); n != 2 || strings.Count(string(out), "dtype") != 1 || strings.Count(string(out), "tp-size") != 2 {
		t.Errorf("%d:\n%s", n, out)
	}
	if _, _, err := AddGuard([]byte("guards = [{flag='x', deny=['y'], why='z'}]\n"), GuardsTable, metrics.Guard{Flag: "x", Deny: []string{"y"}, Why: "w"}); err == nil || !strings.Contains(err.Error(), "by hand") {
		t.Errorf("inline guards: %v", err)
	}
}

func TestRemoveGuardKeepsTheRest(t *testing.T) {
	table := []string{"node", "gpu7", "guards"}
	out, n, err := RemoveGuard([]byte(config), table, "kv-cache-dtype")
	from := strings.Index(config, "[[node.gpu7.guards]]")
	to := strings.LastIndex(config, "[[node.gpu7.guards]]")
	if d := cmp.Diff(config[:from]+config[to:], string(out)); d != "" || n != 1 || err != nil {
		t.Errorf("%d, %v (-want +got):\n%s", n, err, d)
	}
	out, n, err = RemoveGuard([]byte(config), table, "--mem-fraction-static")
	end := strings.Index(config, "# about gpu8")
	if d := cmp.Diff(config[:to]+config[end:], string(out)); d != "" || n != 1 || err != nil {
		t.Errorf("%d, %v (-want +got):\n%s", n, err, d)
	}
	if out, n, err = RemoveGuard([]byte(config), table, "other"); n != 0 || err != nil || string(out) != config {
		t.Errorf("a flag without a guard: %d, %v", n, err)
	}
	if _, _, err = RemoveGuard([]byte("guards = [{flag='x', deny=['y'], why='z'}]\n"), GuardsTable, "x"); err == nil || !strings.Contains(err.Error(), "by hand") {
		t.Errorf("inline guards: %v", err)
	}
}

func TestGuardsFileRoundTrip(t *testing.T) {
	want := []metrics.Guard{
		{Flag: "kv-cache-dtype", Deny: []string{"fp8*"}, Why: "degrades the model noticeably", From: "node"},
		{Flag: "mem-fraction-static", Allow: []string{"0.80..0.90", "auto"}, Deny: []string{"0.85"}, Why: `"quoted" \ and ünicode`, Overridable: true, From: "node"},
	}
	got, err := ParseGuards(EncodeGuards(want))
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
}

func TestParseGuardsIsStrict(t *testing.T) {
	for in, want := range map[string]string{
		"[[guards]]\nflag='x'\ndeny=['y']\n":                  "has no why",
		"[[guards]]\nflag='x'\nwhy='z'\n":                     "allows and denies nothing",
		"[[guards]]\nflag='x'\ndenny=['y']\nwhy='z'\n":        "key that no guard has",
		"command = 'rm -rf /'\n":                              "key that no guard has",
		"[[guards]]\nflag='x'\nallow=['0.9..0.8']\nwhy='z'\n": "is empty",
		"[[guards]]\nflag='x'\nallow=['>=much']\nwhy='z'\n":   "needs numbers",
		"[[guards]]\nflag='x'\nallow=['..']\nwhy='z'\n":       "no end",
		"[[guards]]\nflag='x'\nallow=['']\nwhy='z'\n":         "empty pattern",
		"[[guards]]\nflag='x y'\nallow=['a']\nwhy='z'\n":      "needs a flag",
		"[[guards": "no TOML",
		"[[guards]]\n" + strings.Repeat("# filling\n", 1+256<<10/10) + "": "more than",
	} {
		if _, err := ParseGuards([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: error %v, want %q", in, err, want)
		}
	}
	got, err := ParseGuards([]byte("[[guards]]\nflag='x'\ndeny=['y']\nwhy=\"a\\u001b[31mred\"\n"))
	if err != nil || strings.Contains(got[0].Why, "\x1b") {
		t.Errorf("hostile text: %+q, %v", got[0].Why, err)
	}
}

func FuzzGuardsFile(f *testing.F) {
	f.Add([]byte(config), "kv-cache-dtype")
	f.Add(EncodeGuards([]metrics.Guard{{Flag: "x", Deny: []string{"y"}, Why: "z"}}), "x")
	f.Add([]byte("[[guards]]\nflag='x'#c\n\n[[guards]]\r\n'flag'=\"--x\"\n[other]"), "x")
	f.Fuzz(func(t *testing.T, data []byte, flag string) {
		if guards, err := ParseGuards(data); err == nil {
			again, err := ParseGuards(EncodeGuards(guards))
			if d := cmp.Diff(guards, again); d != "" && len(guards) > 0 || err != nil {
				t.Errorf("%v: encoded and read again (-want +got):\n%s", err, d)
			}
		}
		out, n, err := RemoveGuard(data, GuardsTable, flag)
		if err == nil && n == 0 && string(out) != string(data) {
			t.Error("removing nothing changed the file")
		}
		out, _, err = AddGuard(data, GuardsTable, metrics.Guard{Flag: "x", Deny: []string{flag + "."}, Why: "z"})
		if err == nil && !strings.HasPrefix(string(out), string(data)) {
			t.Error("adding changed what was there")
		}
	})
}
