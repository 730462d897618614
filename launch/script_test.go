package launch

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const startSh = `#!/bin/bash
# Serve Kimi for the generation run.
set -euo pipefail
export CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7   # all of them
export HF_TOKEN='hf_planted0123456789abc'
LOGS=/data/eagle3/synth_100k/logs
PORT=8000
cd /data/eagle3

if [ -e "$LOGS/old.log" ]; then mv "$LOGS/old.log" "$LOGS/older.log"; fi

NCCL_DEBUG=WARN nohup python3 -m sglang.launch_server \
    --model-path "/data/models/Kimi K2.5" \
    --tp 8 \
    --port $PORT \
    --mem-fraction-static=0.88 \
    --enable-hierarchical-cache --hicache-size 48 \
    --host '0.0.0.0' \
    > $LOGS/sglang_inference.log 2>&1 &
echo "started, see $LOGS"	
`

func script(t *testing.T, src string) *Script {
	t.Helper()
	s, err := ParseScript([]byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestScriptIsRead(t *testing.T) {
	got := script(t, startSh).Launch()
	want := Launch{
		Engine: "sglang", Umask: -1, UID: -1, GID: -1, Dir: "/data/eagle3",
		Argv: []string{
			"python3", "-m", "sglang.launch_server", "--model-path", "/data/models/Kimi K2.5", "--tp", "8", "--port", "8000",
			"--mem-fraction-static=0.88", "--enable-hierarchical-cache", "--hicache-size", "48", "--host", "0.0.0.0",
		},
		Env: []Var{{Name: "CUDA_VISIBLE_DEVICES", Value: "0,1,2,3,4,5,6,7"}, {Name: "HF_TOKEN", Value: "hf_planted0123456789abc"}, {Name: "NCCL_DEBUG", Value: "WARN"}},
		Log: "/data/eagle3/synth_100k/logs/sglang_inference.log", LogHow: LogFile,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if shown := got.Masked().Env[1]; shown.Value != "***" || !shown.Secret {
		t.Errorf("the planted secret is shown: %+v", shown)
	}
}

func TestCommandLinesAreRead(t *testing.T) {
	for line, want := range map[string]struct {
		argv string
		how  How
		log  string
	}{
		`python -m sglang.launch_server --tp 8`:                            {"python|-m|sglang.launch_server|--tp|8", "", ""},
		`nohup env A=1 taskset -c 0-63 /v/bin/python3 /v/bin/vllm serve M`: {"/v/bin/python3|/v/bin/vllm|serve|M", "", ""},
		`vllm serve M --x "a b" 2>&1 | tee -a run.log`:                     {"vllm|serve|M|--x|a b", LogTee, "run.log"},
		`sglang serve M | rotatelogs x`:                                    {"sglang|serve|M", LogPipe, ""},
		`sglang serve M &>> /data/a.log`:                                   {"sglang|serve|M", LogFile, "/data/a.log"},
		`sglang serve M --a $'x' --b "$UNSET" --c $(date)`:                 {"sglang|serve|M|--a|$'x'|--b|$UNSET|--c|$(date)", "", ""},
		`sglang serve M --re a\ b\*`:                                       {"sglang|serve|M|--re|a b*", "", ""},
	} {
		s, err := ParseScript([]byte(line))
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if l := s.Launch(); strings.Join(l.Argv, "|") != want.argv || l.LogHow != want.how || l.Log != want.log {
			t.Errorf("%s: %q %s %q", line, l.Argv, l.LogHow, l.Log)
		}
	}
	if got := script(t, `sglang serve M --a $'x' --b "$UNSET" --c $(date)`).Dynamic(); len(got) != 3 {
		t.Errorf("dynamic words: %q", got)
	}
}

func TestScriptEdits(t *testing.T) {
	set := func(name, v string) Edit { return Edit{Kind: SetFlag, Name: name, Value: v} }
	unset := func(name string) Edit { return Edit{Kind: UnsetFlag, Name: name} }
	for name, c := range map[string]struct {
		src, old, want string // want replaces old in src
		edits          []Edit
	}{
		"inline value":      {startSh, "=0.88", "=0.93", []Edit{set("mem-fraction-static", "0.93")}},
		"two words":         {startSh, "--hicache-size 48", "--hicache-size 64", []Edit{set("hicache-size", "64")}},
		"alias":             {startSh, "--tp 8", "--tp 4", []Edit{set("tensor-parallel-size", "4")}},
		"quoted value":      {startSh, "'0.0.0.0'", "127.0.0.1", []Edit{set("host", "127.0.0.1")}},
		"needs quotes":      {startSh, `"/data/models/Kimi K2.5"`, `'/data/my models/it'\''s'`, []Edit{set("model-path", "/data/my models/it's")}},
		"presence off":      {startSh, "--enable-hierarchical-cache --hicache", "--hicache", []Edit{set("enable-hierarchical-cache", "false")}},
		"removed line":      {startSh, " \\\n    --tp 8", "", []Edit{unset("tp-size")}},
		"removed in line":   {startSh, " --hicache-size 48", "", []Edit{unset("hicache-size")}},
		"added":             {startSh, "'0.0.0.0'", "'0.0.0.0' \\\n    --kv-cache-dtype bf16", []Edit{set("kv-cache-dtype", "bf16")}},
		"unchanged":         {startSh, "", "", []Edit{set("mem-fraction-static", "0.88"), unset("page-size")}},
		"two edits":         {startSh, "=0.88", "=0.9", []Edit{set("mem-fraction-static", "0.93"), set("mem-fraction-static", "0.9")}},
		"added to a line":   {"vllm serve M | tee x", "M |", "M --max-num-seqs 256 |", []Edit{set("max-num-seqs", "256")}},
		"negated":           {"vllm serve M --enable-prefix-caching", "--enable", "--no-enable", []Edit{set("enable-prefix-caching", "false")}},
		"last one wins":     {"sglang serve M --tp 4 --tp 8 # c", "--tp 8", "--tp 2", []Edit{set("tp-size", "2")}},
		"both go":           {"sglang serve M --tp 4 --port 1 --tp 8 # c", "--tp 4 --port 1 --tp 8", "--port 1", []Edit{unset("tp-size")}},
		"in a function":     {"f() {\n\tsglang serve M --tp 4\n}\nf", "4", "8", []Edit{set("tp-size", "8")}},
		"in a substitution": {`x=$(sglang serve M --tp 4)`, "4", "8", []Edit{set("tp-size", "8")}},
		"redirect between":  {"sglang serve M --tp 4 >log --port 1", "--tp 4", "--tp 8", []Edit{set("tp-size", "8")}},
		"dollar stays text": {"sglang serve M --tp 4", "4", `'$X'`, []Edit{set("tp-size", "$X")}},
	} {
		got, err := script(t, c.src).Apply("", c.edits...)
		want := strings.Replace(c.src, c.old, c.want, 1)
		if d := cmp.Diff(want, string(got)); d != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, d)
		}
	}
}

func TestScriptEditsThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ src, want string }{
		"variable":        {"PORT=$1\nsglang serve M --port $PORT", "line 2: $PORT may hold --port"},
		"quoted variable": {`sglang serve M --port "$PORT"`, `--port takes its value from $PORT`},
		"known variable":  {"PORT=8000\nsglang serve M --port $PORT", "--port takes its value from $PORT"},
		"default value":   {`sglang serve M --port "${PORT:-8000}"`, "${PORT:-8000}"},
		"array":           {`sglang serve M "${ARGS[@]}" --port 1`, `"${ARGS[@]}"`},
		"all arguments":   {`sglang serve M --port 1 "$@"`, "may hold --port too"},
		"substitution":    {`sglang serve M --port $(cat port)`, "$(cat port)"},
		"backquotes":      {"x=`sglang serve M --port 1`", "backquotes"},
		"redirect inside": {"sglang serve M --port >log 1", ""},
		"braces":          {"sglang serve M --port {1,2}", "{1,2}"},
	} {
		s, err := ParseScript([]byte(c.src))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		out, err := s.Apply("", Edit{Kind: SetFlag, Name: "port", Value: "9000"})
		if c.want == "" {
			if err != nil || !strings.Contains(string(out), ">log 9000") {
				t.Errorf("%s: %q, %v", name, out, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), strings.Trim(c.want, `"`)) {
			t.Errorf("%s: %q, error %v, want %q", name, out, err, c.want)
		}
	}
	if _, err := script(t, startSh).Apply("", Edit{Kind: SetEnv, Name: "A", Value: "1"}); err == nil {
		t.Error("a variable was edited in a script")
	}
}

func TestScriptsWithoutOneServer(t *testing.T) {
	for src, want := range map[string]string{
		"echo hello":                         ErrNoServer.Error(),
		"":                                   ErrNoServer.Error(),
		"if [":                               "cannot be read",
		"sglang serve A\nsglang serve B\n":   "2 server commands (lines 1, 2)",
		`bash -c "sglang serve M --tp 8"`:    "inside a quoted string",
		"ssh gpu7 'vllm serve M'":            "inside a quoted string",
		"sglang serve M\x00":                 "NUL",
		strings.Repeat("# filling\n", 1<<17): "more than",
	} {
		if _, err := ParseScript([]byte(src)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: error %v, want %q", src, err, want)
		}
	}
}

func FuzzScriptEdit(f *testing.F) {
	for _, src := range []string{startSh, "sglang serve M --tp 4 >log --port 1", "x=`vllm serve M -tp 4`", "vllm serve \"a\\$b\" --port=1 \\\n --x {a,b} # c", "sglang serve M<<E --tp 1\nx\nE\n"} {
		f.Add([]byte(src), "tp-size", "8")
		f.Add([]byte(src), "port", "a b'c\\")
	}
	f.Fuzz(func(t *testing.T, src []byte, flag, value string) {
		s, err := ParseScript(src)
		if err != nil {
			return
		}
		if string(s.Bytes()) != string(src) {
			t.Fatal("reading changed the script")
		}
		for _, e := range []Edit{{Kind: SetFlag, Name: flag, Value: value}, {Kind: UnsetFlag, Name: flag}} {
			out, err := s.Apply("", e)
			if err != nil {
				continue
			}
			head, tail := src[:s.words[0].start], src[s.words[len(s.words)-1].end:]
			if !strings.HasPrefix(string(out), string(head)) || !strings.HasSuffix(string(out), string(tail)) {
				t.Errorf("%s changed bytes outside of the command:\n%q\n%q", e, src, out)
			}
		}
	})
}
