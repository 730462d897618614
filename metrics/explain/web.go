package explain

import (
	"fmt"
	"maps"
	"slices"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/prom"
)

// metrics reads Prometheus text of an engine.
func (r *Report) metrics(data []byte) {
	v, ok := prom.Read(data)
	if !ok {
		r.note("metrics of no engine that is known: a mapping in the configuration tells their meaning")
		return
	}
	n := func(x prom.Num) *float64 { return known(x.V, x.OK) }
	r.Engine = str(v.Engine)
	r.Running, r.Queued, r.KVUsage, r.KVTokens = n(v.Running), n(v.Queued), n(v.KVUsage), n(v.UsedTokens)
	r.GenTPS, r.InputTPS = n(v.GenGauge), n(v.InputGauge)
	r.CapacityTokens, r.ContextLen, r.AcceptLen = n(v.Capacity), n(v.ContextLen), n(v.AcceptLen)
	start := Start{Outcome: "unknown", Phases: []Phase{}, Model: str(v.Model), Flags: map[string]string{}, Capacity: n(v.Capacity),
		ContextLen: n(v.ContextLen), Figures: map[string]float64{}}
	fig := figures(start.Figures)
	for _, f := range []struct {
		name string
		v    prom.Num
	}{
		{"cache_hit", v.CacheHit}, {"accept_rate", v.AcceptRate}, {"requests_total", v.Requests}, {"aborted_total", v.Aborted},
		{"retracted_total", v.Retracted}, {"generation_tokens_total", v.GenTokens}, {"decode_tokens_total", v.DecodeTokens},
		{"prompt_tokens_total", v.PromptTokens}, {"cached_tokens_total", v.CachedTokens}, {"prefix_queries_total", v.PrefixQueries},
		{"prefix_hits_total", v.PrefixHits}, {"steps_total", v.Steps}, {"evicted_tokens_total", v.Evicted}, {"loaded_back_tokens_total", v.LoadedBack},
		{"host_used_tokens", v.HostUsed}, {"host_total_tokens", v.HostTotal}, {"started_unix", v.StartedUnix}, {"fit_full", v.FitFull},
	} {
		fig.put(f.name, f.v.V, f.v.OK)
	}
	for _, reason := range slices.Sorted(maps.Keys(v.FinishedBy)) {
		fig.put("finished_"+clean(reason), v.FinishedBy[reason], true)
	}
	r.Starts = append(r.Starts, start)
	if v.Running.OK {
		state := metrics.ServerIdle
		if v.Running.V+v.Queued.V > 0 {
			state = metrics.ServerServing
		}
		r.State = str(string(state))
	}
	if v.GenStale {
		r.note("the rate is a gauge that keeps its last value: nothing runs, so it is old")
	}
	if len(v.Silent) > 0 {
		r.note(fmt.Sprintf("%d families are declared and have no sample: unknown, not 0", len(v.Silent)))
	}
	if total := v.Requests.V; v.Aborted.OK && total > 0 && v.Aborted.V >= 0.2*total {
		r.sign("requests-aborted", metrics.SeverityWarning, metrics.CauseClientTimeouts,
			fmt.Sprintf("%.0f %% of the requests were aborted (%.0f of %.0f)", 100*v.Aborted.V/total, v.Aborted.V, total),
			"clients that give up, or a transfer between servers that fails, waste what was generated", 0)
	}
}

// info reads /server_info and its relatives.
func (r *Report) info(data []byte) {
	i, err := prom.ParseInfo(data)
	if err != nil {
		i, err = prom.ParseInfo(salvage(data))
		r.note("the object is cut, or no JSON: the members that are whole were read")
	}
	if err != nil {
		r.note(err.Error())
		return
	}
	n := func(x prom.Num) *float64 { return known(x.V, x.OK) }
	if i.Args["tp_size"] != "" || i.MemFrac.OK || i.Chunked.OK || i.Args["model_path"] != "" {
		r.Engine = str("sglang")
	}
	r.Version = str(i.Version)
	r.CapacityTokens, r.MaxRunningRequests, r.ContextLen, r.AcceptLen = n(i.Capacity), n(i.MaxRunning), n(i.ContextLen), n(i.AcceptLen)
	start := Start{Outcome: "unknown", Phases: []Phase{}, Version: str(i.Version), Model: str(i.Model), Flags: map[string]string{}, Capacity: n(i.Capacity),
		MaxRunning: n(i.MaxRunning), ContextLen: n(i.ContextLen), Figures: map[string]float64{}}
	for k, v := range i.Args {
		if len(start.Flags) < 512 {
			start.Flags[clean(k)] = clean(v)
		}
	}
	fig := figures(start.Figures)
	for _, f := range []struct {
		name string
		v    prom.Num
	}{
		{"mem_fraction", i.MemFrac}, {"chunked_prefill_size", i.Chunked}, {"weights_gib", i.WeightGiB}, {"kv_gib", i.KVGiB}, {"graphs_gib", i.GraphGiB},
		{"tp_size", i.TP}, {"dp_size", i.DP}, {"pp_size", i.PP},
	} {
		fig.put(f.name, f.v.V, f.v.OK)
	}
	r.Starts = append(r.Starts, start)
	switch i.Status {
	case "Up", "up":
		r.State = str("serving")
	case "Starting", "starting":
		r.State = str(string(metrics.ServerStarting))
	}
	if !i.Capacity.OK {
		r.note("it has no running or queued requests and no capacity: the log tells them")
	}
}

// loads reads /v1/loads.
func (r *Report) loads(data []byte) {
	l, err := prom.ParseLoads(data)
	if err != nil {
		r.note(err.Error())
		return
	}
	n := func(x prom.Num) *float64 { return known(x.V, x.OK) }
	r.Engine, r.Version = str("sglang"), str(l.Version)
	r.Running, r.Queued, r.KVUsage, r.KVTokens = n(l.Running), n(l.Queued), n(l.KVUsage), n(l.Used)
	r.GenTPS, r.CapacityTokens, r.MaxRunningRequests, r.AcceptLen = n(l.GenGauge), n(l.Capacity), n(l.MaxRunning), n(l.AcceptLen)
	if l.Running.OK {
		state := metrics.ServerIdle
		if l.Running.V+l.Queued.V > 0 {
			state = metrics.ServerServing
		}
		r.State = str(string(state))
	}
	r.note(fmt.Sprintf("%d data parallel ranks", len(l.Ranks)))
}
