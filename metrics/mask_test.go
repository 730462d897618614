package metrics

import (
	"slices"
	"strings"
	"testing"
)

func TestMask(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"api_key='sk-abc'", "api_key='***'"},
		{"server_args=ServerArgs(model_path='/m', api_key='se\\'cret', admin_api_key=None, port=8000)", "server_args=ServerArgs(model_path='/m', api_key='***', admin_api_key=None, port=8000)"},
		{"python -m sglang.launch_server --api-key hunter2 --port 1", "python -m sglang.launch_server --api-key *** --port 1"},
		{"--api-key=hunter2 --port 1", "--api-key=*** --port 1"},
		{"['--api-key', 'hunter2', '--port', '1']", "['--api-key', '***', '--port', '1']"},
		{`{"api_key": "abc", "port": 1}`, `{"api_key": "***", "port": 1}`},
		{`{"log":"{\"api_key\": \"abc\", \"x\": 1}"}`, `{"log":"{\"api_key\": \"***\", \"x\": 1}"}`},
		{"HF_TOKEN=hf_abcdefgh", "HF_TOKEN=***"},
		{"export HUGGING_FACE_HUB_TOKEN=abc; run", "export HUGGING_FACE_HUB_TOKEN=***; run"},
		{"Authorization: Bearer abc.def", "Authorization: Bearer ***"},
		{"authorization: Basic dXNlcjpwYXNz", "authorization: Basic ***"},
		{"'authorization': 'Bearer abc'", "'authorization': '***'"},
		{"curl -H \"Authorization: Bearer t0psecret\" http://h/", "curl -H \"Authorization: Bearer ***\" http://h/"},
		{"X-Api-Key: abcd", "X-Api-Key: ***"},
		{"using bearer abcdefgh1234", "using bearer ***"},
		{"a key sk-abcdefghijklmnop0123 in prose", "a key *** in prose"},
		{"hf_abcdefghijklmnopqrstuv", "***"},
		{"https://user:pa55@host/x https://token@host", "https://user:***@host/x https://***@host"},
		{"postgres://u:p@h:5432/db?password=abc&x=1", "postgres://u:***@h:5432/db?password=***&x=1"},
		{"--ssl-keyfile-password x --ssl-keyfile /a/key.pem", "--ssl-keyfile-password *** --ssl-keyfile /a/key.pem"},
		{"password: hunter2", "password: ***"},
		{"jwt eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSMeKKF2 end", "jwt *** end"},
		{"AKIAIOSFODNN7EXAMPLE used", "*** used"},
		// What must stay as it is.
		{"[2026-02-24 11:59:51 TP0] Decode batch, #running-req: 121, #token: 139222, token usage: 0.87", ""},
		{"#new-token: 1, #cached-token: 0, #full token: 3", ""},
		{"max_total_num_tokens=159277, tokenizer_path='/m', eos_token='<|end|>', tokenizer_mode=auto", ""},
		{"api_key=None, api_key=null, token: 12", ""},
		{"KeyError: 'model.layers.0'", ""},
		{"key: value, keys=3, hash_key=abc", ""},
		{"--tokenizer-path /m --skip-tokenizer-init", ""},
		{"task-sk-x, risk-free-and-very-long-indeed-yes", ""},
		{"http://127.0.0.1:8000/generate http://h/a@b", ""},
		{"the bearer of bad news", ""},
	} {
		want := c.want
		if want == "" {
			want = c.in
		}
		if got := Mask(c.in); got != want {
			t.Errorf("Mask(%q)\n got %q\nwant %q", c.in, got, want)
		}
	}
}

func TestMaskArgvAndEnv(t *testing.T) {
	argv := []string{"python", "-m", "sglang.launch_server", "--api-key", "abc", "--port", "8000", "--hf-token=x y", "--api-key", "--tp", "8", "HF_TOKEN=q"}
	want := []string{"python", "-m", "sglang.launch_server", "--api-key", "***", "--port", "8000", "--hf-token=***", "--api-key", "--tp", "8", "HF_TOKEN=***"}
	if got := MaskArgv(argv); !slices.Equal(got, want) {
		t.Errorf("MaskArgv = %q, want %q", got, want)
	}
	env := []string{"HF_TOKEN=abc", "PATH=/bin", "TOKENIZERS_PARALLELISM=false", "OPENAI_KEY=x", "PROXY=http://u:p@h:1", "SSH_AUTH_SOCK=/tmp/s", "EMPTY_KEY="}
	want = []string{"HF_TOKEN=***", "PATH=/bin", "TOKENIZERS_PARALLELISM=false", "OPENAI_KEY=***", "PROXY=http://u:***@h:1", "SSH_AUTH_SOCK=/tmp/s", "EMPTY_KEY="}
	if got := MaskEnv(env); !slices.Equal(got, want) {
		t.Errorf("MaskEnv = %q, want %q", got, want)
	}
}

func TestMaskValue(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"api_key", "hunter2", "***"}, {"api_key", "None", "None"}, {"port", "8000", "8000"}, {"model_path", "https://u:p@h/m", "https://u:***@h/m"},
	} {
		if got := MaskValue(c.name, c.value); got != c.want {
			t.Errorf("MaskValue(%q, %q) = %q, want %q", c.name, c.value, got, c.want)
		}
	}
}

func FuzzMask(f *testing.F) {
	for _, s := range []string{"api_key='a\\'b", "--api-key v", "http://a:b@c", "Authorization: Bearer x", "\\\"token\\\": \\\"a\\\"", "hf_abcdefghijklmnopqrstuv"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once := Mask(s)
		if twice := Mask(once); twice != once {
			t.Errorf("Mask(%q) = %q, again %q", s, once, twice)
		}
		if len(once) > 4*len(s)+len(Masked) {
			t.Errorf("Mask(%q) grew to %d bytes", s, len(once))
		}
		if strings.ContainsAny(s, "\n\r'\"\\") {
			return
		}
		const secret = "zqxj4711zqxj4711zqxj"
		for _, line := range []string{
			s + " api_key='" + secret + "'",
			s + " --api-key " + secret,
			s + " Authorization: Bearer " + secret,
			s + " {" + `"password": "` + secret + `"}`,
		} {
			if masked := Mask(line); strings.Contains(masked, secret) {
				t.Errorf("Mask(%q) = %q shows the secret", line, masked)
			}
		}
	})
}

func BenchmarkMask(b *testing.B) {
	for name, line := range map[string]string{
		"batch": "[2026-02-24 11:59:51 TP0] Decode batch, #running-req: 121, #token: 139222, token usage: 0.87, cuda graph: True, gen throughput (token/s): 1317.32, #queue-req: 29",
		"plain": `[2026-02-24 12:45:54] INFO:     127.0.0.1:46812 - "GET /health HTTP/1.1" 200 OK`,
		"trace": `  File "/sgl-workspace/sglang/python/sglang/srt/managers/scheduler.py", line 1815, in event_loop_overlap`,
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(line)))
			for b.Loop() {
				Mask(line)
			}
		})
	}
}
