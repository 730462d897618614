package prom

import (
	"strconv"
	"strings"
)

// copies are labels of ranks that hold copies of one batch: tensor, pipeline,
// expert and context parallel ranks all report the same requests. Data parallel
// ranks (dp_rank, engine) hold requests of their own.
var copies = map[string]bool{
	"tp_rank": true, "pp_rank": true, "moe_ep_rank": true, "ep_rank": true, "cp_rank": true,
	"attn_cp_rank": true, "attn_tp_rank": true, "moe_dp_rank": true, "moe_tp_rank": true, "pid": true,
}

// distinct leaves one sample of each group of copies, that of the lowest rank.
// Where series are split by priority beside one for all, only that one is left.
func distinct(in []Sample) []Sample {
	if len(in) < 2 {
		return in
	}
	all := false
	split := false
	for i := range in {
		if p := in[i].Get("priority"); p != "" {
			split = true
		} else {
			all = true
		}
	}
	best := map[string]int{}
	var order []string
	for i := range in {
		if all && split && in[i].Get("priority") != "" {
			continue
		}
		var key strings.Builder
		for _, l := range in[i].Labels {
			if !copies[l.Name] {
				key.WriteString(l.Name + "\x00" + l.Value + "\x00")
			}
		}
		k := key.String()
		if j, ok := best[k]; !ok {
			best[k] = i
			order = append(order, k)
		} else if lower(&in[i], &in[j]) {
			best[k] = i
		}
	}
	out := make([]Sample, 0, len(order))
	for _, k := range order {
		out = append(out, in[best[k]])
	}
	return out
}

func lower(a, b *Sample) bool {
	for _, l := range a.Labels {
		if !copies[l.Name] {
			continue
		}
		x, err1 := strconv.Atoi(l.Value)
		y, err2 := strconv.Atoi(b.Get(l.Name))
		if err1 == nil && err2 == nil && x != y {
			return x < y
		}
	}
	return false
}

// sum adds the distinct series of the first name that has samples.
func (s *Set) sum(names ...string) Num {
	return s.sumWhere("", nil, names...)
}

// sumWhere adds only series whose label has one of the values.
func (s *Set) sumWhere(label string, values []string, names ...string) Num {
	for _, n := range names {
		var out Num
		for _, smp := range distinct(s.byName[n]) {
			if label != "" && !contains(values, smp.Get(label)) {
				continue
			}
			if v := known(smp.Value); v.OK {
				out.V += v.V
				out.OK = true
			}
		}
		if out.OK {
			return out
		}
	}
	return Num{}
}

// max gives the largest value over all names and series.
func (s *Set) max(names ...string) Num {
	var out Num
	for _, n := range names {
		for i := range s.byName[n] {
			if v := known(s.byName[n][i].Value); v.OK && (!out.OK || v.V > out.V) {
				out = v
			}
		}
	}
	return out
}

// first gives the value of the lowest rank of the first name that has samples,
// for constants that every rank repeats.
func (s *Set) first(names ...string) Num {
	for _, n := range names {
		if d := distinct(s.byName[n]); len(d) > 0 {
			if v := known(d[0].Value); v.OK {
				return v
			}
		}
	}
	return Num{}
}

// mean averages the distinct series of the first name that has samples.
func (s *Set) mean(names ...string) Num {
	for _, n := range names {
		d := distinct(s.byName[n])
		total, k := 0.0, 0
		for i := range d {
			if v := known(d[i].Value); v.OK {
				total += v.V
				k++
			}
		}
		if k > 0 {
			return Num{total / float64(k), true}
		}
	}
	return Num{}
}

// by splits a counter by a label.
func (s *Set) by(label string, names ...string) map[string]float64 {
	for _, n := range names {
		var out map[string]float64
		for _, smp := range distinct(s.byName[n]) {
			if v := known(smp.Value); v.OK && len(out) < 64 {
				if out == nil {
					out = map[string]float64{}
				}
				out[smp.Get(label)] += v.V
			}
		}
		if out != nil {
			return out
		}
	}
	return nil
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if v == s {
			return true
		}
	}
	return false
}
