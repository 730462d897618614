package sglang

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func benchFeed(b *testing.B, text string) {
	data := []byte(strings.Repeat(text, 200))
	lines := float64(bytes.Count(data, []byte{'\n'}))
	var p Parser
	b.SetBytes(int64(len(data)))
	n := 0.0
	for b.Loop() {
		p.Feed(data, func(*Event) {})
		n += lines
	}
	b.ReportMetric(n/b.Elapsed().Seconds(), "lines/s")
}

func BenchmarkParser(b *testing.B) {
	const decode = "[2026-02-24 11:59:51 TP0] Decode batch, #running-req: 121, #token: 139222, token usage: 0.87, cuda graph: True, gen throughput (token/s): 1317.32, #queue-req: 29\n"
	const prefill = "[2026-02-24 12:45:54 TP0] Prefill batch, #new-seq: 1, #new-token: 1, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 0, input throughput (token/s): 3.58, cuda graph: False\n"
	b.Run("decode", func(b *testing.B) { benchFeed(b, decode) })
	b.Run("prefill", func(b *testing.B) { benchFeed(b, prefill) })
	b.Run("access", func(b *testing.B) {
		benchFeed(b, "[2026-02-24 12:45:54] INFO:     127.0.0.1:46812 - \"POST /generate HTTP/1.1\" 200 OK\n")
	})
	b.Run("other", func(b *testing.B) {
		benchFeed(b, strings.Join([]string{
			"[2026-02-24 12:40:01 TP3] MOE_RUNNER_BACKEND is not initialized, the backend will be automatically selected for this model and device",
			"[2026-02-24 12:40:02 TP1] Parameter model.layers.17.self_attn.k_proj.weight not found in params_dict",
			`  File "/sgl-workspace/sglang/python/sglang/srt/managers/scheduler.py", line 1815, in event_loop_overlap`,
			"[2026-02-24 12:40:03] Receive: obj=GenerateReqInput(rid='0c77a1f2d1b34f0fa5d5f9b7a42f18de', text='Write a story about a log that says Decode batch, #running-req: 9', sampling_params={'max_new_tokens': 4096})",
			"/usr/lib/python3.12/site-packages/torch/cuda/__init__.py:61: FutureWarning: The package is deprecated and will be removed in a later release",
			"",
		}, "\n"))
	})
	b.Run("cases", func(b *testing.B) {
		files, err := filepath.Glob("../../testdata/cases/*-sglang-*.txt")
		if err != nil || len(files) == 0 {
			b.Fatalf("no cases: %v", err)
		}
		var all strings.Builder
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				b.Fatal(err)
			}
			all.Write(data)
			all.WriteByte('\n')
		}
		benchFeed(b, all.String())
	})
}
