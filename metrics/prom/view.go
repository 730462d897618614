package prom

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// View is what one scrape of /metrics says in our figures. Requests, tokens and
// counters are summed over data parallel ranks, never over copies (tensor,
// pipeline, context parallel). Counters count since the server's start.
type View struct {
	Engine string // sglang, vllm, or the configured name
	Model  string

	Running    Num // requests
	Queued     Num // requests that wait
	UsedTokens Num
	Capacity   Num // tokens of the KV pool over all data parallel ranks
	KVUsage    Num // 0 to 1; of several pools or ranks the fullest
	RankUsage  []float64
	ContextLen Num
	FitFull    Num // requests of full length that fit (vLLM's own figure)

	// GenGauge is the engine's own rate in tok/s. It keeps its last value while
	// nothing is generated: trust it only while counters move (see Rates).
	GenGauge   Num
	InputGauge Num // tok/s
	// GenStale is set where the scrape itself shows that GenGauge is old: nothing runs.
	GenStale bool

	AcceptLen  Num // tokens a speculative step
	AcceptRate Num // 0 to 1
	CacheHit   Num // 0 to 1, of prompt tokens since the start; see CacheHitFrom
	// CacheHitFrom names the metric CacheHit was reckoned from.
	CacheHitFrom string
	Graph        Num // 1: the last batch ran in a captured graph

	// Counters.
	DecodeTokens   Num // generated, counted each step
	GenTokens      Num // generated, as the front end counts (may lump at a request's end)
	PromptTokens   Num
	CachedTokens   Num // prompt tokens found in a cache
	PrefixQueries  Num // tokens looked up (vLLM)
	PrefixHits     Num
	Requests       Num                // finished, with any reason
	FinishedBy     map[string]float64 // reason → requests (vLLM)
	Aborted        Num
	Retracted      Num // retractions (SGLang), preemptions (vLLM)
	Steps          Num // engine steps: the heartbeat
	Evicted        Num // tokens
	LoadedBack     Num // tokens from the host tier; SGLang counts once a tensor parallel rank
	TransferFailed Num
	HostUsed       Num // tokens in the host tier
	HostTotal      Num
	StartedUnix    Num                // process start, seconds
	HTTP           map[string]float64 // status code → responses

	// Silent lists families that are declared and have no sample: the engine
	// knows the figure and does not tell it yet.
	Silent []string
	Bad    int // lines that were not well formed
}

// Read picks the engine by its metric names and gives its view. ok is false
// where the text has no metrics of a known engine.
func Read(body []byte) (View, bool) {
	s := Parse(body, keepKnown)
	switch {
	case s.HasPrefix("sglang:"):
		return SGLang(s), true
	case s.HasPrefix("vllm:"):
		return VLLM(s), true
	}
	return View{Bad: s.Bad}, false
}

// keepKnown keeps the families that the views read: not the thousand buckets.
func keepKnown(name string) bool {
	if strings.HasSuffix(name, "_bucket") || strings.HasSuffix(name, "_created") {
		return false
	}
	return strings.HasPrefix(name, "sglang:") || strings.HasPrefix(name, "vllm:") || name == "process_start_time_seconds" ||
		strings.HasPrefix(name, "http_")
}

// silent lists declared families of a prefix that have no samples.
func (s *Set) silent(prefix string) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(s.declared)) {
		typ := s.declared[name]
		if !strings.HasPrefix(name, prefix) || typ == "histogram" || typ == "summary" || strings.HasSuffix(name, "_created") {
			continue
		}
		if len(s.byName[name]) == 0 && len(s.byName[name+"_total"]) == 0 && len(out) < 200 {
			out = append(out, metrics.Clean(name, 100))
		}
	}
	return out
}

func (s *Set) model() string {
	for _, label := range []string{"model_name", "name"} {
		for _, samples := range []string{"sglang:num_running_reqs", "sglang:num_requests_running", "vllm:num_requests_running", "vllm:kv_cache_usage_perc", "sglang:num_requests_total", "sglang:prompt_tokens_total"} {
			for i := range s.byName[samples] {
				if m := s.byName[samples][i].Get(label); m != "" {
					return metrics.Clean(m, 200)
				}
			}
		}
	}
	return ""
}

func (s *Set) httpStatus() map[string]float64 {
	out := s.by("status_code", "sglang:http_responses_total", "http_responses_total")
	if out == nil {
		out = s.by("status", "http_requests_total")
	}
	delete(out, "")
	return out
}

// SGLang gives the view of SGLang's metrics, from the first names (0.3) on.
func SGLang(s *Set) View {
	n := func(names ...string) []string {
		for i := range names {
			names[i] = "sglang:" + names[i]
		}
		return names
	}
	v := View{Engine: "sglang", Model: s.model(), Bad: s.Bad, Silent: s.silent("sglang:"), HTTP: s.httpStatus()}
	v.Running = s.sum(n("num_running_reqs", "num_requests_running")...)
	v.Queued = s.sum(n("num_queue_reqs", "num_requests_waiting", "queue_req")...)
	v.UsedTokens = s.sum(n("num_used_tokens", "kv_used_tokens")...)
	v.Capacity = s.sum(n("max_total_num_tokens")...)
	v.KVUsage = s.max(n("token_usage", "full_token_usage", "swa_token_usage", "mamba_usage")...)
	v.RankUsage = ranks(s.byName["sglang:token_usage"], "dp_rank")
	v.ContextLen = s.first(n("context_len")...)
	v.GenGauge = s.sum(n("gen_throughput")...)
	v.AcceptLen = s.mean(n("spec_accept_length")...)
	v.AcceptRate = s.mean(n("spec_accept_rate")...)
	v.Graph = s.first(n("is_cuda_graph")...)
	v.DecodeTokens = s.sumWhere("mode", []string{"decode"}, n("realtime_tokens_total")...)
	v.GenTokens = s.sum(n("generation_tokens_total")...)
	v.PromptTokens = s.sum(n("prompt_tokens_total")...)
	v.CachedTokens = s.sumWhere("cache_source", []string{"total"}, n("cached_tokens_total")...).or(s.sum(n("cached_tokens_total")...))
	v.Requests = s.sum(n("num_requests_total")...)
	v.Aborted = s.sum(n("num_aborted_requests_total")...)
	v.Retracted = s.sum(n("num_retracted_requests_total")...)
	v.Steps = s.sum(n("cuda_graph_passes_total")...)
	v.Evicted = s.sum(n("evicted_tokens_total")...)
	v.LoadedBack = s.sum(n("load_back_tokens_total")...)
	v.HostUsed = s.sum(n("hicache_host_used_tokens")...)
	v.HostTotal = s.sum(n("hicache_host_total_tokens")...)
	v.TransferFailed = s.sum(n("num_transfer_failed_reqs_total", "num_bootstrap_failed_reqs_total")...)
	v.StartedUnix = s.first("process_start_time_seconds")
	v.cacheHit(s)
	v.settle()
	return v
}

// cacheHit prefers counters. The gauge is set to 0 by each decode report, so a 0
// of it says nothing; the first versions gave it in per cent and named the model
// label "name".
func (v *View) cacheHit(s *Set) {
	if v.CachedTokens.OK && v.PromptTokens.OK && v.PromptTokens.V > 0 && v.CachedTokens.V <= v.PromptTokens.V {
		v.CacheHit, v.CacheHitFrom = Num{v.CachedTokens.V / v.PromptTokens.V, true}, "sglang:cached_tokens_total"
		return
	}
	g := s.max("sglang:cache_hit_rate")
	if !g.OK || g.V <= 0 {
		return
	}
	first := s.byName["sglang:cache_hit_rate"][0]
	if first.Get("name") != "" || g.V > 1 {
		g.V /= 100
	}
	v.CacheHit, v.CacheHitFrom = g, "sglang:cache_hit_rate"
}

// settle marks a rate that the scrape itself disproves.
func (v *View) settle() {
	v.GenStale = v.GenGauge.OK && v.GenGauge.V > 0 && v.Running.OK && v.Running.V == 0
}

// VLLM gives the view of vLLM's metrics, V0 to the newest, both front ends.
func VLLM(s *Set) View {
	n := func(names ...string) []string {
		for i := range names {
			names[i] = "vllm:" + names[i]
		}
		return names
	}
	v := View{Engine: "vllm", Model: s.model(), Bad: s.Bad, Silent: s.silent("vllm:"), HTTP: s.httpStatus()}
	v.Running = s.sum(n("num_requests_running")...)
	v.Queued = s.sum(n("num_requests_waiting")...)
	kv := n("kv_cache_usage_perc", "gpu_cache_usage_perc")
	for _, name := range kv {
		if v.KVUsage = s.max(name); v.KVUsage.OK {
			v.RankUsage = ranks(s.byName[name], "engine")
			break
		}
	}
	// V0 on a CPU keeps its cache in what a GPU server uses for swapping.
	if cpu := s.max(n("cpu_cache_usage_perc")...); cpu.OK && cpu.V > 0 && v.KVUsage.OK && v.KVUsage.V == 0 && v.Running.V > 0 {
		v.KVUsage = cpu
	}
	v.GenGauge = s.sum(n("avg_generation_throughput_toks_per_s")...)
	v.InputGauge = s.sum(n("avg_prompt_throughput_toks_per_s")...)
	v.GenTokens = s.sum(n("generation_tokens_total")...)
	v.DecodeTokens = v.GenTokens // counted each step
	v.PromptTokens = s.sum(n("prompt_tokens_total")...)
	v.CachedTokens = s.sum(n("prompt_tokens_cached_total")...)
	v.PrefixQueries = s.sum(n("prefix_cache_queries_total", "gpu_prefix_cache_queries_total")...)
	v.PrefixHits = s.sum(n("prefix_cache_hits_total", "gpu_prefix_cache_hits_total")...)
	v.Retracted = s.sum(n("num_preemptions_total")...)
	v.Steps = s.sum(n("iteration_tokens_total_count")...)
	v.FinishedBy = s.by("finished_reason", n("request_success_total")...)
	for reason, k := range v.FinishedBy {
		v.Requests = Num{v.Requests.V + k, true}
		if reason == "abort" || reason == "error" {
			v.Aborted = Num{v.Aborted.V + k, true}
		}
	}
	if v.Requests.OK {
		v.Aborted.OK = true
	}
	v.StartedUnix = s.first("process_start_time_seconds")
	switch {
	case v.PrefixQueries.V > 0 && v.PrefixHits.OK:
		v.CacheHit, v.CacheHitFrom = Num{v.PrefixHits.V / v.PrefixQueries.V, true}, "vllm:prefix_cache_hits_total"
	default:
		if g := s.max(n("gpu_prefix_cache_hit_rate")...); g.OK && g.V >= 0 && g.V <= 1 {
			v.CacheHit, v.CacheHitFrom = g, "vllm:gpu_prefix_cache_hit_rate"
		}
	}
	drafts, accepted := s.sum(n("spec_decode_num_drafts_total")...), s.sum(n("spec_decode_num_accepted_tokens_total")...)
	drafted := s.sum(n("spec_decode_num_draft_tokens_total")...)
	if drafts.V > 0 && accepted.OK {
		v.AcceptLen = Num{1 + accepted.V/drafts.V, true}
	}
	if drafted.V > 0 && accepted.OK {
		v.AcceptRate = Num{accepted.V / drafted.V, true}
	}
	v.TransferFailed = s.sum(n("nixl_num_failed_transfers_total")...)
	v.cacheConfig(distinct(s.byName["vllm:cache_config_info"]))
	if v.Capacity.OK && v.KVUsage.OK {
		v.UsedTokens = Num{v.Capacity.V * v.KVUsage.V, true}
		if len(v.RankUsage) > 1 {
			total := 0.0
			for _, u := range v.RankUsage {
				total += u
			}
			v.UsedTokens.V = v.Capacity.V * total / float64(len(v.RankUsage))
		}
	}
	v.settle()
	return v
}

// cacheConfig reads the pool's size, told as labels, one series an engine.
func (v *View) cacheConfig(info []Sample) {
	for i := range info {
		get := func(label string) (float64, bool) {
			f, err := strconv.ParseFloat(info[i].Get(label), 64)
			return f, err == nil && f > 0
		}
		if t, ok := get("kv_cache_size_tokens"); ok {
			v.Capacity = Num{v.Capacity.V + t, true}
		} else if blocks, ok := get("num_gpu_blocks"); ok {
			if size, ok := get("block_size"); ok {
				v.Capacity = Num{v.Capacity.V + blocks*size, true}
			}
		}
		if c, ok := get("kv_cache_max_concurrency"); ok {
			v.FitFull = Num{v.FitFull.V + c, true}
		}
	}
}

func ranks(in []Sample, label string) []float64 {
	var out []float64
	for _, s := range distinct(in) {
		if v := known(s.Value); v.OK && s.Get(label) != "" && len(out) < 1024 {
			out = append(out, v.V)
		}
	}
	return out
}

// Rates are tokens and requests a second between two scrapes.
type Rates struct {
	Gen, Input, Finished, Retracted, Steps Num
	// Moved tells whether any counter of work moved: while none does, gauges are
	// as old as the last scrape in which one did.
	Moved bool
}

// Between reckons rates from prev to v, dt apart. A counter that fell was reset
// by a restart: its rate is unknown.
func (v *View) Between(prev *View, dt time.Duration) Rates {
	rate := func(a, b Num) Num {
		if !a.OK || !b.OK || b.V < a.V || dt <= 0 {
			return Num{}
		}
		return Num{(b.V - a.V) / dt.Seconds(), true}
	}
	var r Rates
	r.Gen = rate(prev.DecodeTokens, v.DecodeTokens).or(rate(prev.GenTokens, v.GenTokens))
	r.Input = rate(prev.PromptTokens, v.PromptTokens)
	r.Finished = rate(prev.Requests, v.Requests)
	r.Retracted = rate(prev.Retracted, v.Retracted)
	r.Steps = rate(prev.Steps, v.Steps)
	for _, n := range []Num{r.Gen, r.Input, r.Finished, r.Steps} {
		r.Moved = r.Moved || n.OK && n.V > 0
	}
	return r
}
