package prom

import "fmt"

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
