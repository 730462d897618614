package prom

import (
	"maps"
	"slices"
	"strings"
)

// figures are the names under which a configuration maps another engine's
// metrics to ours. Usage may be told as a fraction or in per cent.
var figures = map[string]func(*View) *Num{
	"running":             func(v *View) *Num { return &v.Running },
	"queued":              func(v *View) *Num { return &v.Queued },
	"kv_usage":            func(v *View) *Num { return &v.KVUsage },
	"kv_tokens":           func(v *View) *Num { return &v.UsedTokens },
	"capacity_tokens":     func(v *View) *Num { return &v.Capacity },
	"context_len":         func(v *View) *Num { return &v.ContextLen },
	"gen_tps":             func(v *View) *Num { return &v.GenGauge },
	"input_tps":           func(v *View) *Num { return &v.InputGauge },
	"accept_len":          func(v *View) *Num { return &v.AcceptLen },
	"cache_hit":           func(v *View) *Num { return &v.CacheHit },
	"gen_tokens_total":    func(v *View) *Num { return &v.GenTokens },
	"prompt_tokens_total": func(v *View) *Num { return &v.PromptTokens },
	"requests_total":      func(v *View) *Num { return &v.Requests },
	"aborted_total":       func(v *View) *Num { return &v.Aborted },
	"retracted_total":     func(v *View) *Num { return &v.Retracted },
	"steps_total":         func(v *View) *Num { return &v.Steps },
	"started_unix":        func(v *View) *Num { return &v.StartedUnix },
}

// Figures lists the names that a mapping may use.
func Figures() []string { return slices.Sorted(maps.Keys(figures)) }

// Custom reads the metrics of a server that is neither SGLang nor vLLM: mapping
// gives the metric for each of our figures (see Figures). A metric may carry
// labels to choose series by, as name{label="value"}. Series are summed, those
// of a fraction give the largest. unknown are names of figures that do not exist.
func Custom(body []byte, engine string, mapping map[string]string) (v View, unknown []string) {
	type source struct {
		figure string
		Sample
	}
	var sources []source
	names := map[string]bool{}
	for _, fig := range slices.Sorted(maps.Keys(mapping)) {
		if figures[fig] == nil {
			unknown = append(unknown, fig)
			continue
		}
		metric := strings.TrimSpace(mapping[fig])
		smp := Sample{Name: metric}
		if name, rest, ok := cutName(metric); ok && strings.HasPrefix(rest, "{") {
			smp.Name = name
			if _, ok := smp.labels(rest[1:]); !ok {
				unknown = append(unknown, fig)
				continue
			}
		}
		names[smp.Name] = true
		sources = append(sources, source{fig, smp})
	}
	s := Parse(body, func(name string) bool { return names[name] || name == "process_start_time_seconds" })
	v = View{Engine: engine, Bad: s.Bad, StartedUnix: s.first("process_start_time_seconds")}
	for _, src := range sources {
		*figures[src.figure](&v) = s.pick(&src.Sample, src.figure == "kv_usage" || src.figure == "cache_hit" || src.figure == "context_len")
	}
	for _, frac := range []*Num{&v.KVUsage, &v.CacheHit} {
		if frac.OK && frac.V > 1 {
			frac.V /= 100
		}
	}
	v.settle()
	return v, unknown
}

// pick sums (or takes the largest of) the series that carry the wanted labels.
func (s *Set) pick(want *Sample, largest bool) Num {
	var out Num
	for i := range s.byName[want.Name] {
		smp := &s.byName[want.Name][i]
		fits := true
		for _, l := range want.Labels {
			fits = fits && smp.Get(l.Name) == l.Value
		}
		v := known(smp.Value)
		switch {
		case !fits || !v.OK:
		case !out.OK:
			out = v
		case largest:
			out.V = max(out.V, v.V)
		default:
			out.V += v.V
		}
	}
	return out
}
