package launch

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/runvigil/runvigil/metrics"
)

// awks are the shells and awks of this machine: sh with its awk, and busybox.
func awks(t *testing.T) [][]string {
	t.Helper()
	out := [][]string{{"/bin/sh"}}
	if path, err := exec.LookPath("busybox"); err == nil {
		out = append(out, []string{path, "sh", "-c", `awk() { busybox awk "$@"; }; tr() { busybox tr "$@"; }; eval "$1"`, "sh"})
	}
	for _, name := range []string{"mawk", "gawk", "original-awk"} {
		if path, err := exec.LookPath(name); err == nil {
			out = append(out, []string{"/bin/sh", "-c", `awk() { ` + path + ` "$@"; }; eval "$1"`, "sh"})
		}
	}
	return out
}

// hidden is what leaves the node of a list of entries.
func hidden(t *testing.T, awk []string, kind string, entries []string) []string {
	t.Helper()
	program := "LC_ALL=C; export LC_ALL\n" + hideProgram + "hide " + kind + "\n"
	argv := append(slices.Clone(awk), program)
	if len(awk) == 1 {
		argv = []string{awk[0], "-c", program}
	}
	c := exec.Command(argv[0], argv[1:]...)
	var in bytes.Buffer
	for _, e := range entries {
		in.WriteString(e + "\x00")
	}
	c.Stdin = &in
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%q: %v", awk, err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

// TestHideKeepsWhatIsNoSecret: what an operator must see stays as it is, bytes of
// any kind with it.
func TestHideKeepsWhatIsNoSecret(t *testing.T) {
	plainArgv := []string{
		"python3", "-m", "sglang.launch_server", "--model-path", "/models/it's \"K2\" $x\n\tmoonshotai/Kimi–K2.5 é\xff", "--tp", "8", "--mem-fraction-static=0.88",
		"--max-total-tokens", "159277", "--tokenizer-path=/models/tok", "--skip-tokenizer-init", "--json-model-override-args", `{"rope": {"factor": 2.0, "eos_token_id": 7}}`,
		"--served-model-name", "keys-and-tokens", "--speculative-token-map", "/m/map.pt", "--ssl-keyfile", "/etc/key.pem", "--api-key", "", "--dist-init-addr", "10.0.0.1:5000", "", strings.Repeat("x", 200_000),
	}
	plainEnv := []string{
		"PATH=/usr/bin:/bin", "CUDA_VISIBLE_DEVICES=0,1", "HF_HOME=/data/hf", "NCCL_DEBUG=INFO", "EMPTY=", "HF_TOKEN=", "PS1=\\u@\\h:\\w\\$ ", "TOKENIZERS_PARALLELISM=false",
		"BIG=" + strings.Repeat("a b=c ", 30_000), "LINES=one\ntwo", "UTF=é–\xfe", "http_proxy=http://proxy:3128/",
	}
	for _, awk := range awks(t) {
		if got := hidden(t, awk, "argv", plainArgv); !slices.Equal(got, plainArgv) {
			t.Errorf("%q changed the arguments:\n%.600q", awk, got)
		}
		if got := hidden(t, awk, "env", plainEnv); !slices.Equal(got, plainEnv) {
			t.Errorf("%q changed the environment:\n%.600q", awk, got)
		}
	}
}

// TestHideIsNoLessThanMask: of whatever is put together from the pieces that masking
// knows, Mask finds nothing more in what the node lets out.
func TestHideIsNoLessThanMask(t *testing.T) {
	pieces := []string{
		"--api-key", "--hf-token", "--password", "-token", "--access_key", "--admin-api-key", "--x", "api_key", "API_KEY", "HF_TOKEN", "WANDB_API_KEY", "MY_DSN", "session.token", "eos_token", "token", "Cookie",
		"AUTHORIZATION", "secretkey", "my-secret", "db_passwd", "--credentials",
		"=", ": ", "=", " ", ",", "'", "\"", "\\\"", "\n", "  ", " = ", "{", "}", "://", "@", "/", "?", ";",
		"sk-ABCDEFGHIJKLMNOPqrst", "hf_abcdefghijklmnopqrst", "ghp_abcdefghijklmnopqrstuv", "glpat-abcdefghijklmnopq", "AKIAABCDEFGHIJKLMNOP", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdefghijkl",
		"Bearer abcdefghijkl", "basic YWxhZGRpbjpvcGVu", "user:pa55word", "https", "hunter2hunter2", "None", "true", "12", "1234567890123456", "***", "", "é", "plain-text",
	}
	r := rand.New(rand.NewPCG(1, 2))
	word := func() string {
		var b strings.Builder
		for range 1 + r.IntN(6) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		return b.String()
	}
	argv, env := make([]string, 6000), make([]string, 6000)
	for i := range argv {
		argv[i], env[i] = word(), fmt.Sprintf("V%d_%s=%s", i, pieces[r.IntN(21)], word())
	}
	for _, awk := range awks(t) {
		got := hidden(t, awk, "argv", argv)
		if len(got) != len(argv) {
			t.Fatalf("%q gave %d of %d arguments", awk, len(got), len(argv))
		}
		for i, more := range metrics.MaskArgv(got) {
			if more != got[i] {
				t.Errorf("%q: %q (behind %q) left the node as %q, and there is more to hide: %q", awk, argv[i], argv[max(i-1, 0)], got[i], more)
			}
		}
		got = hidden(t, awk, "env", env)
		if len(got) != len(env) {
			t.Fatalf("%q gave %d of %d variables", awk, len(got), len(env))
		}
		for i, more := range metrics.MaskEnv(got) {
			if more != got[i] {
				t.Errorf("%q: %q left the node as %q, and there is more to hide: %q", awk, env[i], got[i], more)
			}
		}
	}
}

// TestHideInAFile: the lines of a --config file.
func TestHideInAFile(t *testing.T) {
	const file = "tp-size: 8\napi-key: sk-abc\nhf_token: |\n  line one\n  line two\nmem-fraction-static: 0.88\n\"admin-api-key\" : 'x y'\nurl: http://u:pw@h/\nmodel-path: /m\n"
	const want = "tp-size: 8\napi-key: ***\nhf_token: ***\n# ***\n# ***\nmem-fraction-static: 0.88\n\"admin-api-key\" : ***\n# ***\nmodel-path: /m\n"
	for _, awk := range awks(t) {
		program := "LC_ALL=C; export LC_ALL\n" + hideProgram + "hide file\n"
		argv := append(slices.Clone(awk), program)
		if len(awk) == 1 {
			argv = []string{awk[0], "-c", program}
		}
		c := exec.Command(argv[0], argv[1:]...)
		c.Stdin = strings.NewReader(file)
		if out, err := c.Output(); err != nil || string(out) != want {
			t.Errorf("%q: %v\n%s", awk, err, out)
		}
	}
}
