package model

import (
	"encoding/json"
	"fmt"
	"strings"
)

// vllmHTTP answers vLLM's routes. /health stays 200 while the engine hangs: it
// looks at a flag only.
func (s *server) vllmHTTP(method, path, target, authorization string, body []byte) Reply {
	port := s.n.connection()
	if s.flags.APIKey != "" && strings.HasPrefix(path, "/v1") && authorization != "Bearer "+s.flags.APIKey {
		return s.reply(port, method, target, 401, "application/json", `{"error":"Unauthorized"}`)
	}
	switch path {
	case "/health", "/ping":
		return s.reply(port, method, target, 200, "text/plain", "")
	case "/version":
		return s.json(port, method, target, map[string]any{"version": vllmVersion})
	case "/load":
		return s.json(port, method, target, map[string]any{"server_load": 0})
	case "/v1/models":
		return s.json(port, method, target, map[string]any{"object": "list", "data": []any{map[string]any{
			"id": s.flags.ServedName, "object": "model", "created": s.n.wall(s.started).Unix(), "owned_by": "vllm",
			"root": s.flags.ModelPath, "parent": nil, "max_model_len": s.flags.ContextLen, "permission": []any{},
		}}})
	case "/metrics":
		return s.reply(port, method, target, 200, "text/plain; version=0.0.4; charset=utf-8", s.vllmMetrics())
	case "/v1/completions":
		if method == "POST" {
			return s.complete(port, method, target, body)
		}
		return s.reply(port, method, target, 405, "application/json", `{"detail":"Method Not Allowed"}`)
	}
	return s.reply(port, method, target, 404, "application/json", `{"detail":"Not Found"}`)
}

// complete queues a request from outside.
func (s *server) complete(port int, method, target string, body []byte) Reply {
	var ask struct {
		Prompt string `json:"prompt"`
		Max    *int   `json:"max_tokens"`
	}
	if err := json.Unmarshal(body, &ask); err != nil || ask.Prompt == "" {
		return s.reply(port, method, target, 400, "application/json", `{"error":{"message":"prompt is required","type":"BadRequestError","param":null,"code":400}}`)
	}
	limit := 16
	if ask.Max != nil {
		limit = max(1, *ask.Max)
	}
	wait, answer := s.ticket()
	r := &request{rid: requestID(&s.n.ids), prompt: len(ask.Prompt)/4 + 1, target: limit, limit: limit, port: port}
	r.answer = func(reason string) {
		answer(s.json(port, method, target, map[string]any{
			"id": "cmpl-" + r.rid, "object": "text_completion", "created": s.n.Now().Unix(), "model": s.flags.ServedName,
			"choices": []any{map[string]any{"index": 0, "text": strings.Repeat(" token", min(r.out, 200)), "logprobs": nil, "finish_reason": reason}},
			"usage":   map[string]any{"prompt_tokens": r.prompt, "completion_tokens": r.out, "total_tokens": r.prompt + r.out},
		}))
	}
	s.eng.add(r)
	return wait
}

// vllmMetrics is the text of /metrics, as of 0.11: without the engine's series
// where the statistics are off.
func (s *server) vllmMetrics() string {
	b := &strings.Builder{}
	if !s.flags.Metrics {
		return ""
	}
	e, c := s.eng, &s.eng.count
	labels := fmt.Sprintf(`engine="0",model_name="%s"`, s.flags.ServedName)
	family := func(name, kind, help string, samples ...string) {
		fmt.Fprintf(b, "# HELP vllm:%s %s\n# TYPE vllm:%s %s\n", name, help, name, kind)
		for _, sample := range samples {
			fmt.Fprintf(b, "vllm:%s\n", sample)
		}
	}
	value := func(name, extra string, v float64) string {
		return fmt.Sprintf("%s{%s%s} %s", name, labels, extra, pyFloat(v))
	}
	gauge := func(name, help string, v float64) { family(name, "gauge", help, value(name, "", v)) }
	created := fmt.Sprintf("%.1f", float64(s.n.wall(s.ready).Unix()))
	counter := func(name, help string, v float64) {
		family(name, "counter", help, value(name+"_total", "", v))
		fmt.Fprintf(b, "# HELP vllm:%s_created %s\n# TYPE vllm:%s_created gauge\nvllm:%s_created{%s} %s\n", name, help, name, name, labels, created)
	}
	gauge("num_requests_running", "Number of requests in model execution batches.", float64(len(e.running)+len(e.batch)))
	gauge("num_requests_waiting", "Number of requests waiting to be processed.", float64(len(e.queue)))
	gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", round4(e.usage()))
	counter("prefix_cache_queries", "Prefix cache queries, in tokens.", float64(c.fillTokens))
	counter("prefix_cache_hits", "Prefix cache hits, in tokens.", 0)
	counter("num_preemptions", "Number of preemptions.", float64(c.retracted))
	counter("prompt_tokens", "Number of prefill tokens.", float64(c.fillTokens))
	counter("generation_tokens", "Number of generated tokens.", float64(c.decodeTokens))
	family("request_success", "counter", "Number of requests that ended.",
		value("request_success_total", `,finished_reason="stop"`, float64(c.finished)),
		value("request_success_total", `,finished_reason="length"`, 0),
		value("request_success_total", `,finished_reason="abort"`, float64(c.aborted)))
	steps := float64(c.decodePasses + c.prefillPasses)
	family("iteration_tokens_total", "histogram", "Tokens of an engine step.",
		fmt.Sprintf(`iteration_tokens_total_bucket{%s,le="+Inf"} %s`, labels, pyFloat(steps)),
		value("iteration_tokens_total_count", "", steps), value("iteration_tokens_total_sum", "", float64(c.decodeTokens+c.fillTokens)))
	for _, h := range []struct {
		name, help string
		h          *histogram
	}{{"time_to_first_token_seconds", "From the request to its first token.", &c.ttft}, {"e2e_request_latency_seconds", "From the request to its end.", &c.latency}} {
		family(h.name, "histogram", h.help, fmt.Sprintf(`%s_bucket{%s,le="+Inf"} %d.0`, h.name, labels, h.h.total),
			value(h.name+"_sum", "", round2(h.h.sum)), value(h.name+"_count", "", float64(h.h.total)))
	}
	fmt.Fprintf(b, "# HELP vllm:cache_config_info Settings of the cache.\n# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{block_size=\"16\",cache_dtype=\"%s\",enable_prefix_caching=\"True\",engine=\"0\",gpu_memory_utilization=\"%s\",num_gpu_blocks=\"%d\"} 1.0\n",
		s.flags.KVDtype, pyFloat(s.flags.MemFraction), e.capacity/16)
	fmt.Fprintf(b, "# HELP process_start_time_seconds Start time of the process.\n# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds %.2f\n", float64(s.n.wall(s.started).UnixMilli())/1000)
	return b.String()
}
