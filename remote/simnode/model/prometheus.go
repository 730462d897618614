package model

import (
	"fmt"
	"strings"
)

// metrics is the text of /metrics.
func (s *server) metrics() string {
	e, c := s.eng, &s.eng.count
	b := &strings.Builder{}
	sched := fmt.Sprintf(`engine_type="unified",model_name="%s",moe_ep_rank="0",pp_rank="0",tp_rank="0"`, s.flags.ServedName)
	token := fmt.Sprintf(`model_name="%s"`, s.flags.ServedName)
	cache := `cache_type="HiRadixCache"`
	if !s.flags.HiCache {
		cache = `cache_type="RadixCache"`
	}
	family := func(name, kind, help string, samples ...string) {
		fmt.Fprintf(b, "# HELP sglang:%s %s\n# TYPE sglang:%s %s\n", name, help, name, kind)
		for _, sample := range samples {
			fmt.Fprintf(b, "sglang:%s\n", sample)
		}
	}
	value := func(name, labels string, v float64) string {
		return fmt.Sprintf("%s{%s} %v", name, labels, pyFloat(v))
	}
	gauge := func(name, help string, v float64) { family(name, "gauge", help, value(name, sched, v)) }
	counter := func(name, help, labels string, v float64) { family(name, "counter", help, value(name, labels, v)) }

	gauge("num_running_reqs", "Requests that run.", float64(c.lastRunning))
	gauge("num_queue_reqs", "Requests that wait.", float64(c.lastQueued))
	gauge("num_grammar_queue_reqs", "Requests that wait for a grammar.", 0)
	gauge("num_paused_reqs", "Requests that are paused.", 0)
	gauge("num_used_tokens", "Tokens of the pool in use.", float64(c.use))
	gauge("token_usage", "Share of the pool in use.", round2(float64(c.use)/float64(e.capacity)))
	gauge("decode_sum_seq_lens", "Tokens of all running requests.", float64(c.use))
	gauge("gen_throughput", "Generated tokens a second.", round2(c.lastGen))
	gauge("cache_hit_rate", "Share of prompt tokens found in the cache.", 0)
	gauge("utilization", "Utilization.", 0)
	gauge("new_token_ratio", "Share of new tokens that is reserved.", float64(e.ratio)/1e6)
	gauge("is_cuda_graph", "Whether the last batch ran as a graph.", 1)
	gauge("max_total_num_tokens", "Capacity of the pool.", float64(e.capacity))
	gauge("num_retracted_reqs", "Requests retracted since the last report.", 0)
	counter("num_retracted_requests_total", "Requests retracted.", sched, float64(c.retracted))
	counter("num_retracted_input_tokens_total", "Prompt tokens of retracted requests.", sched, float64(c.retractedIn))
	counter("num_retracted_output_tokens_total", "Output tokens of retracted requests.", sched, float64(c.retractedOut))
	family("realtime_tokens_total", "counter", "Tokens processed.",
		value("realtime_tokens_total", sched+`,mode="prefill_compute"`, float64(c.fillTokens)),
		value("realtime_tokens_total", sched+`,mode="prefill_cache"`, 0),
		value("realtime_tokens_total", sched+`,mode="decode"`, float64(c.decodeTokens)))
	family("cuda_graph_passes_total", "counter", "Forward passes by kind.",
		value("cuda_graph_passes_total", sched+`,mode="decode_cuda_graph"`, float64(c.decodePasses)),
		value("cuda_graph_passes_total", sched+`,mode="decode_none"`, 0))
	counter("prompt_tokens_total", "Prompt tokens of finished requests.", token, float64(c.promptTokens))
	counter("generation_tokens_total", "Generated tokens.", token, float64(c.genTokens))
	family("cached_tokens_total", "counter", "Prompt tokens found in a cache.",
		value("cached_tokens_total", token+`,cache_source="device"`, 0),
		value("cached_tokens_total", token+`,cache_source="host"`, 0),
		value("cached_tokens_total", token+`,cache_source="total"`, 0))
	counter("num_requests_total", "Requests finished.", token, float64(c.finished))
	counter("num_aborted_requests_total", "Requests aborted.", token, float64(c.aborted))
	tp := float64(s.flags.TP)
	counter("evicted_tokens_total", "Tokens evicted from the pool.", cache, tp*float64(e.evicted()))
	if s.flags.HiCache {
		counter("load_back_tokens_total", "Tokens loaded back from host memory.", cache, 0)
	}
	for _, h := range []struct {
		name, help string
		h          *histogram
	}{
		{"time_to_first_token_seconds", "From the request to its first token.", &c.ttft},
		{"e2e_request_latency_seconds", "From the request to its end.", &c.latency},
	} {
		var samples []string
		sum := 0
		for i, bound := range bounds {
			sum += h.h.counts[i]
			samples = append(samples, fmt.Sprintf("%s_bucket{le=\"%s\",%s} %d.0", h.name, pyFloat(bound), token, sum))
		}
		samples = append(samples,
			fmt.Sprintf("%s_bucket{le=\"+Inf\",%s} %d.0", h.name, token, h.h.total),
			fmt.Sprintf("%s_sum{%s} %s", h.name, token, pyFloat(round2(h.h.sum))),
			fmt.Sprintf("%s_count{%s} %d.0", h.name, token, h.h.total))
		family(h.name, "histogram", h.help, samples...)
	}
	return b.String()
}

// evicted is how many cached tokens of finished requests have had to make room:
// all that do not fit beside the live ones.
func (e *engine) evicted() int64 {
	written := e.count.promptTokens + e.count.genTokens
	return max(0, written-int64(e.capacity))
}
