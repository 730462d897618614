package explain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
)

// variation is a way in which the same log reaches somebody. It must not change
// what is read.
type variation struct {
	name string
	// kinds that it makes sense for: log, page (what a command printed), text (any line of text), all.
	of string
	do func(data []byte) []byte
}

var moment = time.Date(2026, 2, 24, 12, 0, 0, 0, time.UTC)

// each applies f to the lines, without their newline.
func each(f func(i int, line string) string) func([]byte) []byte {
	return func(data []byte) []byte {
		var b strings.Builder
		i := 0
		for line := range strings.Lines(string(data)) {
			body, ended := strings.CutSuffix(line, "\n")
			b.WriteString(f(i, body))
			if ended {
				b.WriteByte('\n')
			}
			i++
		}
		return []byte(b.String())
	}
}

func prefixed(p string) func([]byte) []byte {
	return each(func(_ int, l string) string { return p + l })
}

// wrapped folds lines as a narrow terminal does; copies keep the breaks.
func wrapped(width int) func([]byte) []byte {
	return each(func(_ int, l string) string {
		var parts []string
		r := []rune(l)
		for len(r) > width {
			parts = append(parts, string(r[:width]))
			r = r[width:]
		}
		return strings.Join(append(parts, string(r)), "\n")
	})
}

func stamped(layout string, after string) func([]byte) []byte {
	return each(func(i int, l string) string {
		return moment.Add(time.Duration(i)*137*time.Millisecond).Format(layout) + after + l
	})
}

// betweenRecords puts a line before every record, not inside one of several lines.
func betweenRecords(text string) func([]byte) []byte {
	return each(func(_ int, l string) string {
		if strings.HasPrefix(l, "[20") || strings.HasPrefix(l, "INFO ") || strings.HasPrefix(l, "(APIServer") || strings.HasPrefix(l, "(EngineCore") {
			return text + "\n" + l
		}
		return l
	})
}

var variations = []variation{
	{"docker compose", "log", prefixed("inference-server-1  | ")},
	{"docker compose colour", "log", prefixed("\x1b[33minference-1  |\x1b[0m ")},
	{"docker logs -t", "log", stamped("2006-01-02T15:04:05.000000000Z", " ")},
	{"kubectl --prefix", "log", prefixed("[pod/llm-0/server] ")},
	{"kubectl --timestamps", "log", stamped("2006-01-02T15:04:05.000000Z", " ")},
	{"CRI", "log", each(func(i int, l string) string {
		return moment.Add(time.Duration(i)*time.Second).Format("2006-01-02T15:04:05.000000000Z") + " stdout F " + l
	})},
	{"journald", "log", stamped("Jan _2 15:04:05", " node-a server[361991]: ")},
	{"journald iso", "log", stamped("2006-01-02T15:04:05-0700", " node-a python3[361991]: ")},
	{"Ray", "log", prefixed("(Engine pid=71234, ip=10.0.0.4) ")},
	{"Ray colour", "log", prefixed("\x1b[36m(Engine pid=71234)\x1b[0m ")},
	{"colour", "log", each(func(_ int, l string) string { return "\x1b[2m" + l + "\x1b[0m" })},
	{"colour reset last", "text", each(func(_ int, l string) string { return l + "\x1b[0m\x1b[K" })},
	{"CR LF", "all", func(d []byte) []byte { return bytes.ReplaceAll(d, []byte("\n"), []byte("\r\n")) }},
	{"NULs before", "log", func(d []byte) []byte { return append(bytes.Repeat([]byte{0}, 4096), d...) }},
	{"NULs between", "log", each(func(_ int, l string) string { return l + "\x00\x00" })},
	{"blank lines", "log", each(func(_ int, l string) string { return l + "\n" })},
	{"byte order mark", "text", func(d []byte) []byte { return append([]byte("\xef\xbb\xbf"), d...) }},
	{"UTF-16", "text", func(d []byte) []byte {
		out := []byte{0xff, 0xfe}
		for _, u := range utf16.Encode([]rune(string(d))) {
			out = append(out, byte(u), byte(u>>8))
		}
		return out
	}},
	{"cut in front", "log", func(d []byte) []byte { return append([]byte("oken: 31, token usa\n"), d...) }},
	{"no final newline", "text", func(d []byte) []byte { return bytes.TrimRight(d, "\n") }},
	{"one more newline", "text", func(d []byte) []byte { return append(d, '\n', '\n') }},
	{"docker json-file", "log", func(d []byte) []byte {
		return each(func(i int, l string) string {
			if l == "" {
				return ""
			}
			out, _ := json.Marshal(struct {
				Log    string `json:"log"`
				Stream string `json:"stream"`
				Time   string `json:"time"`
			}{l + "\n", "stderr", moment.Add(time.Duration(i) * time.Second).Format(time.RFC3339Nano)})
			return string(out)
		})(d)
	}},
	{"quoted mail", "text", prefixed("> ")},
	{"code fence", "log", func(d []byte) []byte {
		return append(append([]byte("Here is the log:\n\n```\n"), d...), "\n```\nWhat can I do?\n"...)
	}},
	{"80 columns", "log", wrapped(80)},
	{"100 columns", "log", wrapped(100)},
	{"120 columns", "log", wrapped(120)},
	{"200 columns", "log", wrapped(200)},
	{"padded", "log", each(func(_ int, l string) string { return l + strings.Repeat(" ", max(0, 180-len(l))) })},
	{"framed", "log", each(func(_ int, l string) string { return "│ " + l + strings.Repeat(" ", max(0, 180-len(l))) + " │" })},
	{"script", "log", func(d []byte) []byte {
		return append([]byte("Script started on 2026-02-24 12:00:00+00:00 [TERM=\"xterm\"]\n$ ./run.sh\n"), d...)
	}},
	{"srun -l", "log", prefixed("0: ")},
	{"tab", "log", prefixed("\t")},
	{"CloudWatch", "log", stamped("2006-01-02T15:04:05.000Z", " ")},
	{"Loki", "log", stamped("2006-01-02 15:04:05.000", "\t")},
	{"grep -n", "log", each(func(i int, l string) string { return fmt.Sprintf("%d:%s", i+1, l) })},
	{"grep -H", "log", prefixed("server.log:")},
	{"bar glued", "log", each(func(_ int, l string) string {
		if l == "" {
			return l
		}
		return "Batches:  50%|█████     | 1/2 [00:01<00:01,  1.00s/it]\r" + l
	})},
	{"scrapes between", "log", each(func(_ int, l string) string {
		return l + "\nINFO:     10.0.0.9:41260 - \"GET /metrics HTTP/1.1\" 200 OK"
	})},
	{"prompts between", "log", betweenRecords("[2026-02-24 12:00:00] Receive: obj=GenerateReqInput(rid='4f2a', text='Explain this log: " +
		"torch.OutOfMemoryError: CUDA out of memory. [2026-02-24 12:00:00 TP0] Decode batch, #running-req: 999, #token: 1, token usage: 0.99, " +
		"gen throughput (token/s): 1.00, #queue-req: 999', input_ids=None, sampling_params={'max_new_tokens': 16})")},
	{"vLLM prompts between", "log", betweenRecords("INFO 02-24 12:00:00 [logger.py:43] Received request cmpl-1: prompt: 'What is INFO 02-24 12:00:00 [loggers.py:111] " +
		"Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 999.0 tokens/s, Running: 999 reqs, Waiting: 9 reqs, GPU KV cache usage: 99.0%, " +
		"Prefix cache hit rate: 0.0% and EngineDeadError?', params: SamplingParams(n=1), prompt_token_ids: None, lora_request: None.")},
	{"long idle prelude", "log", func(d []byte) []byte {
		return append([]byte(strings.Repeat("INFO:     10.0.0.9:41260 - \"GET /health HTTP/1.1\" 200 OK\n", 30)), d...)
	}},
	{"shell", "page", func(d []byte) []byte { return append([]byte("root@gpu7:~# the-command --with flags\n"), d...) }},
	{"shell prompt after", "page", func(d []byte) []byte { return append(d, "root@gpu7:~# \n"...) }},
	{"watch", "page", func(d []byte) []byte {
		return append([]byte("Every 2.0s: the-command                    gpu7: Tue Feb 24 12:00:00 2026\n\n"), d...)
	}},
	{"letter", "page", func(d []byte) []byte {
		return append(append([]byte("Hello, this is what it says on our node:\n\n```\n"), d...), "\n```\n\nThank you!\n"...)
	}},
	{"code indent", "page", prefixed("    ")},
	{"kubectl exec", "page", func(d []byte) []byte {
		return append([]byte("Defaulted container \"server\" out of: server, init (init)\n"), d...)
	}},
	{"newest first", "log", func(d []byte) []byte { return reversed(stamped("2006-01-02T15:04:05.000000000Z", " ")(d)) }},
}

// collectedAs are the variations that are a collector's.
var collectedAs = []string{
	"docker compose", "docker compose colour", "docker logs -t", "kubectl --prefix", "kubectl --timestamps", "CRI", "journald", "journald iso", "Ray", "Ray colour",
	"colour", "docker json-file", "CloudWatch", "tab", "grep -n", "grep -H", "Loki", "srun -l", "quoted mail", "blank lines",
}

// told is what must not change.
func told(r *Report) string {
	primary := "none"
	if p := r.Primary(); p != nil {
		primary = p.Class
	}
	return fmt.Sprintf("%s %s: running %s queued %s gen %s in %s usage %s tokens %s capacity %s max %s context %s headroom %s accept %s cause %s rows %v gpus %d",
		or(r.Kind, "-"), or(r.Engine, "-"), num(r.Running), num(r.Queued), num(r.GenTPS), num(r.InputTPS), num(r.KVUsage), num(r.KVTokens), num(r.CapacityTokens),
		num(r.MaxRunningRequests), num(r.ContextLen), num(r.HeadroomGiB), num(r.AcceptLen), primary, r.Rows != nil && *r.Rows > 0, len(r.GPUs))
}

// changes are cases that a variation really changes, with the reason.
var changes = map[string]string{
	"one more newline 152": "a row that is cut and ended is invalid, not torn",
}

// folded is a case whose lines a terminal folded before it was copied: with
// something before its second halves they cannot be told from lines.
const folded = "070"

func TestVariations(t *testing.T) {
	if len(variations) < 30 {
		t.Errorf("only %d variations", len(variations))
	}
	done, ran := map[string]bool{}, 0
	cases := readCases(t)
	plainly := map[string]string{}
	for _, c := range cases {
		plainly[c.id] = told(explained(t, c.data))
	}
	for _, v := range variations {
		var wrong []string
		for _, c := range cases {
			group, _, _ := strings.Cut(c.kind, "-")
			log := group == "sglang" || group == "vllm"
			// What a collector does to a server's log it does to a client's and the kernel's.
			log = log || (c.kind == "client" && c.id != "152" || c.kind == "kernel") && slices.Contains(collectedAs, v.name) && !(c.kind == "kernel" && strings.HasPrefix(v.name, "journald"))
			if v.of == "page" && c.kind != "gpu" && c.kind != "k8s" && c.kind != "kernel" && c.kind != "metrics" || v.of == "log" && !log || v.of == "text" && (c.kind == "json" || c.kind == "metrics") {
				continue
			}
			if c.id == folded && v.of == "log" {
				continue
			}
			key := v.name + " " + c.id
			want := plainly[c.id]
			ran++
			r, err := Read(bytes.NewReader(v.do(slices.Clone(c.data))), KindAuto)
			if got := told(r); got != want || err != nil {
				if changes[key] != "" {
					done[key] = true
					continue
				}
				wrong = append(wrong, fmt.Sprintf("%s:\n   got  %s (%v)\n   want %s", c.id, got, err, want))
			}
		}
		if len(wrong) > 0 {
			t.Errorf("%s: %d cases\n%s", v.name, len(wrong), strings.Join(wrong, "\n"))
		}
	}
	for key := range changes {
		if !done[key] {
			t.Errorf("%s is listed as changed and is not", key)
		}
	}
	if ran < 1500 {
		t.Errorf("only %d variations of cases ran", ran)
	}
}
