package model

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"
)

const engineVersion = "0.5.9"

// HTTP answers a request to the server's port: /health, /health_generate,
// /generate, /v1/loads, /server_info, /model_info, /v1/models, /metrics,
// /abort_request, /flush_cache and /ping as SGLang 0.5.9 does, 404 for others.
// target is path and query. ok is false while the connection would be refused.
// Access lines come in Output.Server.
func (n *Node) HTTP(method, target, authorization string, body []byte) (r Reply, ok bool) {
	s := n.listener()
	if s == nil {
		return Reply{}, false
	}
	where, err := url.Parse(target)
	if err != nil {
		return s.reply(n.connection(), method, target, 400, "text/plain", "bad request"), true
	}
	return s.http(method, where, target, authorization, body), true
}

// listener is the server that has the port: the one that had it first.
func (n *Node) listener() *server {
	for _, s := range n.servers() {
		if s.listening() {
			return s
		}
	}
	return nil
}

func (s *server) reply(port int, method, target string, status int, kind, body string) Reply {
	s.access(port, method+" "+target, status)
	return Reply{Status: status, Type: kind, Body: []byte(body)}
}

func (s *server) json(port int, method, target string, v any) Reply {
	body, err := json.Marshal(v)
	if err != nil {
		panic("model: a reply of plain values must be JSON: " + err.Error())
	}
	return s.reply(port, method, target, 200, "application/json", string(body))
}

func (s *server) http(method string, where *url.URL, target, authorization string, body []byte) Reply {
	path := where.Path
	if s.flags.VLLM {
		return s.vllmHTTP(method, path, target, authorization, body)
	}
	port := s.n.connection()
	open := strings.HasPrefix(path, "/health") || strings.HasPrefix(path, "/metrics")
	if s.flags.APIKey != "" && !open && authorization != "Bearer "+s.flags.APIKey {
		return s.reply(port, method, target, 401, "application/json", `{"error":"Unauthorized"}`)
	}
	switch path {
	case "/ping":
		return s.reply(port, method, target, 200, "text/plain", "")
	case "/health", "/health_generate":
		return s.health(port, method, target, path)
	case "/model_info", "/get_model_info":
		return s.json(port, method, target, map[string]any{
			"model_path": s.flags.ModelPath, "tokenizer_path": s.flags.ModelPath, "is_generation": true,
			"preferred_sampling_params": nil, "weight_version": "default", "has_image_understanding": true,
			"has_audio_understanding": false, "model_type": "kimi_k25", "architectures": []string{"KimiK25ForConditionalGeneration"},
		})
	case "/v1/models":
		return s.json(port, method, target, map[string]any{"object": "list", "data": []any{map[string]any{
			"id": s.flags.ServedName, "object": "model", "created": s.n.wall(s.started).Unix(), "owned_by": "sglang",
			"root": s.flags.ServedName, "parent": nil, "max_model_len": s.flags.ContextLen,
		}}})
	case "/metrics":
		if !s.flags.Metrics {
			return s.reply(port, method, target, 404, "application/json", `{"detail":"Not Found"}`)
		}
		return s.reply(port, method, target, 200, "text/plain; version=0.0.4; charset=utf-8", s.metrics())
	case "/v1/loads":
		return s.ask(port, method, target, func() any { return s.loads() })
	case "/server_info", "/get_server_info":
		return s.ask(port, method, target, func() any { return s.info0() })
	case "/flush_cache":
		if s.eng != nil && len(s.eng.running)+len(s.eng.queue)+len(s.eng.batch) > 0 {
			s.log(0, "Cache not flushed because there are pending requests. #queue-req: %d, #running-req: %d", len(s.eng.queue), len(s.eng.running))
			return s.reply(port, method, target, 400, "text/plain", "Flush cache failed.\n")
		}
		s.log(0, "Cache flushed successfully!")
		return s.reply(port, method, target, 200, "text/plain", "Cache flushed.\n")
	case "/abort_request":
		if method == "POST" {
			var ask struct {
				RID string `json:"rid"`
				All bool   `json:"abort_all"`
			}
			if json.Unmarshal(body, &ask) != nil {
				return s.reply(port, method, target, 422, "application/json", `{"detail":"bad body"}`)
			}
			s.abort(ask.RID, ask.All)
			return s.reply(port, method, target, 200, "text/plain", "")
		}
	case "/generate":
		if method == "POST" {
			return s.generate(port, method, target, body)
		}
	default:
		return s.reply(port, method, target, 404, "application/json", `{"detail":"Not Found"}`)
	}
	return s.reply(port, method, target, 405, "application/json", `{"detail":"Method Not Allowed"}`)
}

// ticket makes a reply that comes later.
func (s *server) ticket() (Reply, func(Reply)) {
	s.n.tickets++
	t := s.n.tickets
	return Reply{Ticket: t}, func(r Reply) {
		s.n.out.Answers = append(s.n.out.Answers, Answer{Ticket: t, Reply: r})
	}
}

// ask puts a question to the scheduler, which answers between two batches; one
// that hangs never does.
func (s *server) ask(port int, method, target string, answer func() any) Reply {
	if s.eng == nil || !s.eng.hung {
		return s.json(port, method, target, answer())
	}
	wait, _ := s.ticket()
	return wait
}

// health is a real generation of one token on an idle server, which takes at
// least a second; a busy one answers with its next batch.
func (s *server) health(port int, method, target, path string) Reply {
	if s.phase != PhaseReady {
		if s.phase == PhaseDraining {
			s.log(mainRank, "Health check request received during shutdown. Returning 503.")
		}
		return s.reply(port, method, target, 503, "text/plain", "")
	}
	if path == "/health" && s.setting("SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION") == "0" {
		return s.reply(port, method, target, 200, "text/plain", "")
	}
	wait, answer := s.ticket()
	asked := s.n.at
	done := false
	if !s.eng.hung && len(s.eng.running)+len(s.eng.queue)+len(s.eng.batch) == 0 {
		s.eng.add(&request{rid: "HEALTH_CHECK_" + fmt.Sprint(s.n.at.Seconds()), prompt: 1, target: 1, limit: 1, port: port,
			answer: func(string) {}})
	}
	var look func()
	look = func() {
		switch {
		case done || !s.alive():
		case s.eng.count.lastBatch >= asked:
			done = true
			answer(s.reply(port, method, target, 200, "text/plain", ""))
		case s.n.at-asked >= 20*time.Second:
			done = true
			s.warn(mainRank, "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds. tic start time: %s. last_heartbeat time: %s",
				s.n.wall(asked).Format("15:04:05"), s.n.wall(s.eng.count.lastBatch).Format("15:04:05"))
			answer(s.reply(port, method, target, 503, "text/plain", ""))
		default:
			s.n.after(time.Second, look)
		}
	}
	s.n.after(time.Second, look)
	return wait
}

func (s *server) setting(name string) string {
	for _, e := range s.env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return ""
}

// generate queues a request from outside: a restart's readiness check.
func (s *server) generate(port int, method, target string, body []byte) Reply {
	var ask struct {
		Text     string          `json:"text"`
		InputIDs json.RawMessage `json:"input_ids"`
		Sampling struct {
			MaxNew *int `json:"max_new_tokens"`
		} `json:"sampling_params"`
	}
	if err := json.Unmarshal(body, &ask); err != nil || ask.Text == "" && len(ask.InputIDs) == 0 {
		return s.reply(port, method, target, 400, "application/json", `{"error":{"message":"Either text, input_ids or input_embeds should be provided."}}`)
	}
	limit := 128
	if ask.Sampling.MaxNew != nil {
		limit = max(1, *ask.Sampling.MaxNew)
	}
	prompt := len(ask.Text)/4 + 1
	if len(ask.InputIDs) > 0 {
		prompt = strings.Count(string(ask.InputIDs), ",") + 1
	}
	wait, answer := s.ticket()
	r := &request{rid: requestID(&s.n.ids), prompt: prompt, target: limit, limit: limit, port: port}
	r.answer = func(reason string) {
		words := strings.Repeat(" token", min(r.out, 200))
		answer(s.json(port, method, target, map[string]any{
			"text": words,
			"meta_info": map[string]any{
				"id": r.rid, "finish_reason": map[string]any{"type": reason, "length": r.out}, "prompt_tokens": r.prompt,
				"completion_tokens": r.out, "cached_tokens": 0, "weight_version": "default", "e2e_latency": (s.n.at - r.arrived).Seconds(),
			},
		}))
	}
	s.eng.add(r)
	return wait
}

// abort ends requests where they are: their clients get what there is.
func (s *server) abort(rid string, all bool) {
	if s.eng == nil {
		return
	}
	e := s.eng
	for _, list := range [][]*request{append([]*request(nil), e.queue...), append([]*request(nil), e.running...)} {
		for _, r := range list {
			if !all && !strings.HasPrefix(r.rid, rid) || r.gone {
				continue
			}
			r.out = e.output(r)
			r.gone = true
			e.count.aborted++
			s.n.after(20*time.Millisecond, func() { r.answer("abort") })
		}
	}
	e.wake()
}

// loads is /v1/loads of this version. Throughput and hit rate are filled in
// only with --enable-metrics.
func (s *server) loads() any {
	e := s.eng
	tps := 0.0
	if s.flags.Metrics {
		tps = round2(e.count.lastGen)
	}
	used, usage := e.live, round4(e.usage())
	running, queued := len(e.running), len(e.queue)
	return map[string]any{
		"timestamp": s.n.Now().Format("2006-01-02T15:04:05.000000"), "version": engineVersion, "dp_rank_count": 1,
		"loads": []any{map[string]any{
			"dp_rank": 0, "num_running_reqs": running, "num_waiting_reqs": queued, "num_total_reqs": running + queued,
			"num_used_tokens": used, "max_total_num_tokens": e.capacity, "token_usage": usage, "gen_throughput": tps,
			"cache_hit_rate": 0.0, "utilization": 0.0, "max_running_requests": e.limit,
			"memory": map[string]any{
				"weight_gb": round2(gb(weightBytes)), "kv_cache_gb": round2(gb(s.flags.poolBytes())), "graph_gb": round2(gb(s.flags.workspace())),
				"token_capacity": e.capacity,
			},
			"queues": map[string]any{"waiting": queued, "grammar": 0, "paused": 0, "retracted": 0},
		}},
		"aggregate": map[string]any{
			"total_running_reqs": running, "total_waiting_reqs": queued, "total_reqs": running + queued,
			"avg_token_usage": usage, "avg_throughput": tps, "avg_utilization": 0.0,
		},
	}
}

// info0 is /server_info.
func (s *server) info0() any {
	e, f := s.eng, s.flags
	status := "Up"
	if s.phase == PhaseWarmup {
		status = "Starting"
	}
	args := map[string]any{
		"model_path": f.ModelPath, "tokenizer_path": f.ModelPath, "trust_remote_code": true, "context_length": f.ContextLen,
		"host": f.Host, "port": f.Port, "kv_cache_dtype": f.KVDtype, "mem_fraction_static": f.MemFraction, "tp_size": f.TP,
		"dp_size": 1, "pp_size": 1, "ep_size": 1, "chunked_prefill_size": f.ChunkedSize, "max_prefill_tokens": f.MaxPrefill,
		"schedule_policy": "fcfs", "schedule_conservativeness": f.Conservative, "watchdog_timeout": f.Watchdog,
		"enable_metrics": f.Metrics, "decode_log_interval": f.LogInterval, "served_model_name": f.ServedName, "page_size": 1,
		"enable_hierarchical_cache": f.HiCache, "hicache_ratio": f.HiCacheRatio, "hicache_size": f.HiCacheSize,
		"disable_radix_cache": f.DisableRadix, "cuda_graph_max_bs": 512, "disable_cuda_graph": false, "api_key": nil,
		"attention_backend": "flashinfer",
	}
	if f.MaxRunning > 0 {
		args["max_running_requests"] = f.MaxRunning
	} else {
		args["max_running_requests"] = nil
	}
	if f.APIKey != "" {
		args["api_key"] = f.APIKey
	}
	state := map[string]any{
		"last_gen_throughput": round2(e.count.lastGen), "effective_max_running_requests_per_dp": e.limit,
		"memory_usage": map[string]any{
			"weight": round2(gb(weightBytes)), "kvcache": round2(gb(f.poolBytes())), "token_capacity": e.capacity, "graph": round2(gb(f.workspace())),
		},
	}
	whole := map[string]any{}
	for k, v := range args {
		whole[k] = v
		state[k] = v
	}
	whole["max_total_num_tokens"] = e.capacity
	whole["max_req_input_len"] = min(f.ContextLen, e.capacity) - 6
	whole["status"], whole["version"] = status, engineVersion
	whole["internal_states"] = []any{state}
	return whole
}

func round2(v float64) float64 { return float64(int64(v*100+0.5)) / 100 }
func round4(v float64) float64 { return float64(int64(v*10000+0.5)) / 10000 }
