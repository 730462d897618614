package explain

import (
	"strings"
	"testing"
)

// TestFigures holds records in forms that the collected cases have not.
func TestFigures(t *testing.T) {
	for _, c := range []struct {
		name, text, engine          string
		running, queued, gen, usage string
	}{
		{"vLLM, structured", `{"asctime": "2025-10-01 10:11:12", "levelname": "INFO", "name": "vllm.v1.metrics.loggers", "message": "Engine 000: Avg prompt throughput: 100.0 tokens/s, Avg generation throughput: 250.0 tokens/s, Running: 8 reqs, Waiting: 1 reqs, GPU KV cache usage: 55.0%, Prefix cache hit rate: 64.4%"}`,
			"vllm", "8", "1", "250", "0.55"},
		{"SGLang, structured", `{"timestamp":"2025-10-01T10:11:12Z","severity":"INFO","message":"[2025-10-01 10:11:12 TP0] Decode batch. #running-req: 12, #token: 4512, token usage: 0.11, gen throughput (token/s): 512.20, #queue-req: 0"}`,
			"sglang", "12", "0", "512.2", "0.11"},
		{"Ray, repeated", "(SGLangEngine pid=9123, ip=10.0.0.7) [2025-10-01 10:11:12 DP0 TP0] Decode batch, #running-req: 12, #token: 4512, token usage: 0.11, cuda graph: True, gen throughput (token/s): 512.20, #queue-req: 3 [repeated 2x across cluster]",
			"sglang", "12", "3", "512.2", "0.11"},
		{"a logger between", "[2025-10-01 10:11:12] INFO scheduler_metrics_mixin.py:210: Decode batch. #running-req: 12, #token: 4512, token usage: 0.11, cuda graph: True, gen throughput (token/s): 512.20, #queue-req: 0",
			"sglang", "12", "0", "512.2", "0.11"},
		{"Python's usual format", "2025-10-01 10:11:12,345 - sglang.srt.managers.scheduler - INFO - Decode batch. #running-req: 12, #token: 4512, token usage: 0.11, cuda graph: True, gen throughput (token/s): 512.20, #queue-req: 0",
			"sglang", "12", "0", "512.2", "0.11"},
		{"vLLM, thousands", "INFO 10-01 10:11:12 [loggers.py:127] Engine 000: Avg prompt throughput: 1,234.5 tokens/s, Avg generation throughput: 2,500.1 tokens/s, Running: 128 reqs, Waiting: 1,024 reqs, GPU KV cache usage: 99.9%, Prefix cache hit rate: 0.0%",
			"vllm", "128", "1024", "2500.1", "0.999"},
		{"vLLM, keys in another order", "INFO 10-01 10:11:12 [loggers.py:127] Engine 000: Avg prompt throughput: 1.0 tokens/s, GPU KV cache usage: 99.9%, Waiting: 4 reqs, Running: 12 reqs, Avg generation throughput: 250.1 tokens/s",
			"vllm", "12", "4", "250.1", "0.999"},
		{"Rust front end", "(RustFrontend pid=3226278) INFO 09-17 15:57:17 [log_stats.rs:273] Avg prompt tput: 672.5 toks/s, Avg generation tput: 1931.6 toks/s, Reqs Running: 57, Waiting: 3, Preemptions: 2, GPU KV cache used: 41.8%, Prefix cache hit rate: 0.0%",
			"vllm", "57", "3", "1931.6", "0.418"},
		{"engines summed", "(APIServer pid=1) INFO 10-20 06:22:21 [loggers.py:310] 8 Engines Aggregated: Avg prompt throughput: 100.0 tokens/s, Avg generation throughput: 2500.0 tokens/s, Running: 88 reqs, Waiting: 10 reqs, GPU KV cache usage: 55.0%, Prefix cache hit rate: 64.4%",
			"vllm", "88", "10", "2500", "0.55"},
		{"two engines", "INFO 10-20 06:22:21 [loggers.py:118] Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 250.0 tokens/s, Running: 8 reqs, Waiting: 1 reqs, GPU KV cache usage: 55.0%, Prefix cache hit rate: 64.4%\n" +
			"INFO 10-20 06:22:21 [loggers.py:118] Engine 001: Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 260.0 tokens/s, Running: 9 reqs, Waiting: 0 reqs, GPU KV cache usage: 65.0%, Prefix cache hit rate: 64.4%",
			"vllm", "17", "1", "510", "0.65"},
		{"two ranks and a copy", "[2025-09-20 06:22:21 DP0 PP0 TP0] Decode batch, #running-req: 10, #token: 1000, token usage: 0.10, pre-allocated usage: 0.01, #prealloc-req: 2, #transfer-req: 1, #retracted-req: 0, cuda graph: True, gen throughput (token/s): 100.00, #queue-req: 0\n" +
			"[2025-09-20 06:22:21 DP1 PP0 TP4] Decode batch, #running-req: 11, #token: 1,200, token usage: 0.12, cuda graph: True, gen throughput (token/s): 110.00, #queue-req: 4\n" +
			"[2025-09-20 06:22:21 DP1 PP0 TP5] Decode batch, #running-req: 11, #token: 1,200, token usage: 0.12, cuda graph: True, gen throughput (token/s): 110.00, #queue-req: 4",
			"sglang", "21", "4", "210", "0.12"},
		{"V0, preempting", "INFO 08-12 01:02:03 metrics.py:345] Avg prompt throughput: 10.0 tokens/s, Avg generation throughput: 200.5 tokens/s, Running: 20 reqs, Swapped: 2 reqs, Pending: 30 reqs, GPU KV cache usage: 99.2%, CPU KV cache usage: 12.0%.",
			"vllm", "20", "30", "200.5", "0.992"},
		{"/v1/loads", `{"version":"0.5.9","loads":[{"dp_rank":0,"num_running_reqs":35,"num_waiting_reqs":115,"num_used_tokens":154912,"max_total_num_tokens":159277,"token_usage":0.97,"gen_throughput":0.0}]}`,
			"sglang", "35", "115", "unknown", "0.97"},
		{"/get_load", `[{"dp_rank": 0, "num_reqs": 12, "num_waiting_reqs": 4, "num_tokens": 50123}, {"dp_rank": 1, "num_reqs": 10, "num_waiting_reqs": 0, "num_tokens": 40000}]`,
			"sglang", "18", "4", "unknown", "unknown"},
		{"/metrics of two engines", "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"0\"} 4.0\nvllm:num_requests_running{engine=\"1\"} 6.0\nvllm:num_requests_waiting{engine=\"0\"} 3.0\nvllm:gpu_cache_usage_perc{engine=\"0\"} 0.5\nvllm:gpu_cache_usage_perc{engine=\"1\"} 0.75",
			"vllm", "10", "3", "unknown", "0.75"},
	} {
		r, err := Read(strings.NewReader(c.text+"\n"), KindAuto)
		got := [5]string{or(r.Engine, ""), num(r.Running), num(r.Queued), num(r.GenTPS), num(r.KVUsage)}
		if want := [5]string{c.engine, c.running, c.queued, c.gen, c.usage}; got != want || err != nil {
			t.Errorf("%s: %q, want %q, error %v", c.name, got, want, err)
		}
	}
}
