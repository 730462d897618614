package prom

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/runvigil/runvigil/metrics"
)

// Load is one data parallel rank of /v1/loads (or the older /get_load).
type Load struct {
	DPRank     int
	Running    Num
	Queued     Num
	Used       Num // tokens
	Capacity   Num // tokens
	MaxRunning Num
	KVUsage    Num // 0 to 1
	GenGauge   Num // tok/s, only where the server fills it (see Loads)
	AcceptLen  Num
	Retracted  Num // requests that wait after a retraction
	Paused     Num
	WeightGiB  Num
	KVGiB      Num
}

// Loads is the answer of /v1/loads in any of its shapes, summed over ranks.
// gen_throughput, cache_hit_rate and utilization in it stay 0 unless the server
// runs with --enable-metrics, so a 0 of the rate is unknown; running, waiting
// and token figures are real either way.
type Loads struct {
	Version string
	Ranks   []Load
	Load    // sums over ranks; usage is the fullest rank's, DPRank -1
}

// ParseLoads reads /v1/loads: with and without an aggregate, the bare list of
// /get_load, and a single object.
func ParseLoads(body []byte) (Loads, error) {
	v, err := decode(body)
	if err != nil {
		return Loads{}, fmt.Errorf("/v1/loads: %w", err)
	}
	var out Loads
	var list []any
	switch t := v.(type) {
	case []any:
		list = t
	case map[string]any:
		out.Version = str(t["version"])
		if l, ok := t["loads"].([]any); ok {
			list = l
		} else if _, ok := t["num_running_reqs"]; ok {
			list = []any{t}
		} else {
			return out, fmt.Errorf("/v1/loads: no loads in an object with keys %s", keysOf(t))
		}
	}
	byRank := map[int]int{}
	for i, e := range list {
		m, ok := e.(map[string]any)
		if !ok || i >= 4096 {
			continue
		}
		l := load(m, i)
		if at, dup := byRank[l.DPRank]; dup {
			out.Ranks[at] = l // the list may hold several snapshots of a rank; the last is the newest
			continue
		}
		byRank[l.DPRank] = len(out.Ranks)
		out.Ranks = append(out.Ranks, l)
	}
	out.total()
	return out, nil
}

func load(m map[string]any, i int) Load {
	l := Load{DPRank: i}
	if r := num(m["dp_rank"]); r.OK && r.V >= 0 {
		l.DPRank = int(r.V)
	}
	l.Queued = num(m["num_waiting_reqs"])
	l.Running = num(m["num_running_reqs"])
	// /get_load counts running and waiting together.
	if all := num(m["num_reqs"]); !l.Running.OK && all.OK && l.Queued.OK {
		l.Running = Num{max(all.V-l.Queued.V, 0), true}
	}
	l.Used = num(m["num_used_tokens"]).or(num(m["num_tokens"]))
	l.Capacity = num(m["max_total_num_tokens"])
	l.MaxRunning = num(m["max_running_requests"])
	l.KVUsage = num(m["token_usage"])
	if g := num(m["gen_throughput"]); g.V > 0 {
		l.GenGauge = g
	}
	if sub, ok := m["speculative"].(map[string]any); ok {
		if a := num(sub["accept_length"]); a.V > 0 {
			l.AcceptLen = a
		}
	}
	if sub, ok := m["queues"].(map[string]any); ok {
		l.Retracted, l.Paused = num(sub["retracted"]), num(sub["paused"])
	}
	if sub, ok := m["memory"].(map[string]any); ok {
		l.WeightGiB, l.KVGiB = num(sub["weight_gb"]), num(sub["kv_cache_gb"])
		l.Capacity = l.Capacity.or(num(sub["token_capacity"]))
	}
	return l
}

func (o *Loads) total() {
	o.DPRank = -1
	add := func(to *Num, n Num) {
		if n.OK {
			to.V += n.V
			to.OK = true
		}
	}
	for _, l := range o.Ranks {
		add(&o.Running, l.Running)
		add(&o.Queued, l.Queued)
		add(&o.Used, l.Used)
		add(&o.Capacity, l.Capacity)
		add(&o.MaxRunning, l.MaxRunning)
		add(&o.GenGauge, l.GenGauge)
		add(&o.Retracted, l.Retracted)
		add(&o.Paused, l.Paused)
		if l.KVUsage.OK && (!o.KVUsage.OK || l.KVUsage.V > o.KVUsage.V) {
			o.KVUsage = l.KVUsage
		}
		o.AcceptLen = o.AcceptLen.or(l.AcceptLen)
		o.WeightGiB, o.KVGiB = o.WeightGiB.or(l.WeightGiB), o.KVGiB.or(l.KVGiB)
	}
}

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

// decode reads one JSON value. A status page may hold NaN, which Python writes.
func decode(body []byte) (any, error) {
	d := json.NewDecoder(strings.NewReader(pythonNumbers(string(body))))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("%d bytes that are not JSON: %w", len(body), err)
	}
	return v, nil
}

// pythonNumbers replaces NaN and Infinity outside of strings by null.
func pythonNumbers(s string) string {
	if !strings.Contains(s, "NaN") && !strings.Contains(s, "Infinity") {
		return s
	}
	var b strings.Builder
	in := false
	for i := 0; i < len(s); i++ {
		switch {
		case in && s[i] == '\\' && i+1 < len(s):
			b.WriteByte(s[i])
			i++
		case s[i] == '"':
			in = !in
		case !in && strings.HasPrefix(s[i:], "NaN"):
			b.WriteString("null")
			i += 2
			continue
		case !in && (strings.HasPrefix(s[i:], "Infinity") || strings.HasPrefix(s[i:], "-Infinity")):
			b.WriteString("null")
			i += strings.Index(s[i:], "y")
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func num(v any) Num {
	n, ok := v.(json.Number)
	if !ok {
		return Num{}
	}
	f, err := n.Float64()
	if err != nil || math.IsInf(f, 0) {
		return Num{}
	}
	return Num{f, true}
}

func str(v any) string {
	s, _ := v.(string)
	return metrics.Clean(metrics.Mask(s), 300)
}

func first(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}

func keysOf(m map[string]any) string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return metrics.Clean(strings.Join(keys[:min(len(keys), 12)], ", "), 200)
}
