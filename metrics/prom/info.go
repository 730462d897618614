package prom

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/runvigil/runvigil/metrics"
)

// Info is what /server_info, /get_server_info, /model_info or /v1/models tell.
type Info struct {
	Version    string
	Model      string // path or id
	Served     string // name under which it is served
	KVDtype    string
	TP, DP, PP Num
	Capacity   Num // tokens, over all data parallel ranks
	MaxRunning Num // over all data parallel ranks
	ContextLen Num
	MemFrac    Num // mem_fraction_static or gpu_memory_utilization
	Chunked    Num // chunked_prefill_size
	WeightGiB  Num
	KVGiB      Num
	GraphGiB   Num
	AcceptLen  Num // over the server's life
	Status     string
	// Args are the server's arguments: numbers, booleans and the strings of a
	// fixed list of names. Keys, tokens and whatever else a string may hold are
	// never kept.
	Args map[string]string
}

// keepStrings are string arguments that cannot hold a secret.
var keepStrings = map[string]bool{
	"model_path": true, "tokenizer_path": true, "served_model_name": true, "host": true, "dtype": true, "kv_cache_dtype": true,
	"quantization": true, "load_format": true, "device": true, "attention_backend": true, "prefill_attention_backend": true,
	"decode_attention_backend": true, "sampling_backend": true, "grammar_backend": true, "schedule_policy": true,
	"disaggregation_mode": true, "speculative_algorithm": true, "speculative_draft_model_path": true, "moe_runner_backend": true,
	"moe_a2a_backend": true, "hicache_io_backend": true, "hicache_write_policy": true, "hicache_mem_layout": true,
	"hicache_storage_backend": true, "tool_call_parser": true, "reasoning_parser": true, "load_balance_method": true,
	"mamba_ssm_dtype": true, "model_type": true, "weight_version": true, "dist_init_addr": true, "cuda_graph_mode": true,
}

// ParseInfo reads any of the status endpoints: SGLang's arguments flat or under
// server_args, with or without internal states, and vLLM's list of models.
func ParseInfo(body []byte) (Info, error) {
	v, err := decode(body)
	if err != nil {
		return Info{}, fmt.Errorf("server info: %w", err)
	}
	root, ok := v.(map[string]any)
	if !ok {
		return Info{}, fmt.Errorf("server info: %T, not an object", v)
	}
	i := Info{Args: map[string]string{}}
	if list, ok := root["data"].([]any); ok {
		i.models(list)
		return i, nil
	}
	if cfg, ok := root["vllm_config"]; ok {
		i.vllm(cfg)
		return i, nil
	}
	args := root
	if nested, ok := root["server_args"].(map[string]any); ok {
		args = nested
	}
	i.args(args)
	i.Version = str(root["version"])
	i.Status = str(root["status"])
	i.Model = first(str(args["model_path"]), str(root["model_path"]))
	i.Served = first(str(args["served_model_name"]), str(root["served_model_name"]))
	i.KVDtype = str(args["kv_cache_dtype"])
	i.TP, i.DP, i.PP = num(args["tp_size"]), num(args["dp_size"]), num(args["pp_size"])
	i.MemFrac = num(args["mem_fraction_static"]).or(num(args["gpu_memory_utilization"]))
	i.Chunked = num(args["chunked_prefill_size"])
	i.ContextLen = num(args["context_length"])
	if n := num(root["max_total_num_tokens"]); n.OK {
		i.Capacity = n
	}
	i.states(root)
	return i, nil
}

// states reads internal_states, a list with one entry a data parallel rank.
func (i *Info) states(root map[string]any) {
	list, ok := root["internal_states"].([]any)
	if !ok {
		return
	}
	var capacity, running Num
	for _, e := range list {
		m, ok := e.(map[string]any)
		if !ok {
			continue
		}
		if n := num(m["effective_max_running_requests_per_dp"]).or(num(m["max_running_requests"])); n.OK {
			running = Num{running.V + n.V, true}
		}
		i.AcceptLen = i.AcceptLen.or(num(m["avg_spec_accept_length"]))
		i.Version = first(i.Version, str(m["version"]))
		if mem, ok := m["memory_usage"].(map[string]any); ok {
			i.WeightGiB, i.KVGiB = i.WeightGiB.or(num(mem["weight"])), i.KVGiB.or(num(mem["kvcache"]))
			i.GraphGiB = i.GraphGiB.or(graphSize(mem["graph"]))
			if n := num(mem["token_capacity"]); n.OK {
				capacity = Num{capacity.V + n.V, true}
			}
		}
	}
	i.Capacity = capacity.or(i.Capacity)
	i.MaxRunning = running
}

// Empty tells a JSON object that is no status page of a server we know.
func (i *Info) Empty() bool {
	return i.Model == "" && i.Served == "" && !i.TP.OK && !i.Capacity.OK && !i.ContextLen.OK && !i.MemFrac.OK && !i.Chunked.OK
}

// vllm reads the configuration that vLLM shows in development mode: an object,
// or one long line of name=value pairs.
func (i *Info) vllm(cfg any) {
	switch t := cfg.(type) {
	case map[string]any:
		sub := func(name string) map[string]any { m, _ := t[name].(map[string]any); return m }
		model, cache, par := sub("model_config"), sub("cache_config"), sub("parallel_config")
		i.Model, i.ContextLen = str(model["model"]), num(model["max_model_len"])
		i.KVDtype, i.MemFrac = str(cache["cache_dtype"]), num(cache["gpu_memory_utilization"])
		i.TP, i.PP, i.DP = num(par["tensor_parallel_size"]), num(par["pipeline_parallel_size"]), num(par["data_parallel_size"])
		i.MaxRunning = num(sub("scheduler_config")["max_num_seqs"])
		if blocks, size := num(cache["num_gpu_blocks"]), num(cache["block_size"]); blocks.OK && size.OK {
			i.Capacity = Num{blocks.V * size.V, true}
		}
	case string:
		after := func(name string) string {
			_, rest, ok := strings.Cut(", "+t, ", "+name+"=")
			if !ok {
				return ""
			}
			v, _, _ := strings.Cut(rest, ", ")
			return strings.Trim(v, "'\"")
		}
		number := func(name string) Num {
			v, err := strconv.ParseFloat(after(name), 64)
			if err != nil {
				return Num{}
			}
			return known(v)
		}
		i.Model, i.KVDtype = str(after("model")), str(after("kv_cache_dtype"))
		i.ContextLen, i.TP, i.PP = number("max_seq_len"), number("tensor_parallel_size"), number("pipeline_parallel_size")
	}
}

// graphSize is a number, or since 0.5.17 an object with one number a phase.
func graphSize(v any) Num {
	if m, ok := v.(map[string]any); ok {
		var out Num
		for _, e := range m {
			if n := num(e); n.OK {
				out = Num{out.V + n.V, true}
			}
		}
		return out
	}
	return num(v)
}

func (i *Info) args(args map[string]any) {
	for k, v := range args {
		if len(i.Args) >= 1000 || len(k) > 80 {
			continue
		}
		k = metrics.Clean(k, 80)
		switch t := v.(type) {
		case string:
			if keepStrings[k] {
				i.Args[k] = str(t)
			}
		case json.Number:
			i.Args[k] = metrics.Clean(t.String(), 40)
		case bool:
			i.Args[k] = fmt.Sprint(t)
		}
	}
}

// models reads /v1/models: the first entry that is not an adapter of another.
func (i *Info) models(list []any) {
	for _, e := range list {
		m, ok := e.(map[string]any)
		if !ok || i.Model != "" && str(m["parent"]) != "" {
			continue
		}
		if i.Model == "" || str(m["parent"]) == "" {
			i.Served = str(m["id"])
			i.Model = first(str(m["root"]), i.Served)
			i.ContextLen = num(m["max_model_len"])
			if str(m["parent"]) == "" {
				return
			}
		}
	}
}

// ParseVersion reads vLLM's /version.
func ParseVersion(body []byte) (string, error) {
	v, err := decode(body)
	if err != nil {
		return "", fmt.Errorf("/version: %w", err)
	}
	m, _ := v.(map[string]any)
	if s := str(m["version"]); s != "" {
		return s, nil
	}
	return "", fmt.Errorf("/version: no version in an object with keys %s", keysOf(m))
}

// ParseServerLoad reads vLLM's /load. It stays 0 unless the server tracks it, so
// a 0 is unknown.
func ParseServerLoad(body []byte) (Num, error) {
	v, err := decode(body)
	if err != nil {
		return Num{}, fmt.Errorf("/load: %w", err)
	}
	m, _ := v.(map[string]any)
	if n := num(m["server_load"]); n.V > 0 {
		return n, nil
	}
	return Num{}, nil
}
