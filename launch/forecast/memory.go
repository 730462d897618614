package forecast

import (
	"fmt"
	"math"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/metrics"
)

const gib = 1 << 30

// Doubts that more than one figure has.
const (
	engineChooses = "the engine chooses the memory fraction itself; set it and it can be told"
	noRoom        = "the weights leave no room for the KV pool: the engine will refuse to start"
)

// capacity tells how many tokens the KV pool will hold.
func (m *maker) capacity() Estimate {
	var e Estimate
	same, hasSame := m.find(func(s sample) bool { return known(s.capacity) && sameMemory(s.settings, m.to) })
	switch {
	case hasSame && !same.start.Imported:
		e = exact(same.capacity, fmt.Sprintf("%s had the same memory flags: %s tokens", same.name, metrics.Count(same.capacity)))
	case known(m.to.fraction) && m.line(&e), m.oneSample(&e), m.otherTP(&e):
		if hasSame {
			e.Low, e.High = min(e.Low, same.capacity), max(e.High, same.capacity)
			e.Basis = append(e.Basis, fmt.Sprintf("%s had the same memory flags: %s tokens", same.name, metrics.Count(same.capacity)))
		}
	case hasSame:
		e = exact(same.capacity, fmt.Sprintf("%s had the same memory flags: %s tokens", same.name, metrics.Count(same.capacity)))
	case math.IsNaN(m.to.fraction):
		return Estimate{Doubt: engineChooses}
	case len(m.samples) == 0:
		return Estimate{Doubt: "no start of this model has been seen on this node"}
	default:
		return Estimate{Doubt: "neither two starts with different fractions nor bytes a token and free memory at start are known"}
	}
	if e.V <= 0 {
		e.Doubt = noRoom
		e.V, e.Low, e.High = 0, 0, max(e.High, 0)
	}
	if known(m.to.maxTotal) && m.to.maxTotal < e.V {
		e = exact(m.to.maxTotal, "--max-total-tokens limits the pool")
	}
	return e
}

// line goes through two starts of different fractions: the pool in bytes is
// linear in the fraction, so the tokens are too.
func (m *maker) line(e *Estimate) bool {
	var a, b sample
	found := false
	for pass := 0; pass < 2 && !found; pass++ {
		for i, x := range m.samples {
			for _, y := range m.samples[i+1:] {
				usable := known(x.capacity) && known(y.capacity) && known(x.fraction) && known(y.fraction) &&
					x.dtype == y.dtype && samePool(x.settings, m.to) && samePool(y.settings, m.to) && !near(x.fraction, y.fraction)
				// What is asked for is reckoned from others first, so that it can be compared.
				if !usable || pass == 0 && (near(x.fraction, m.to.fraction) || near(y.fraction, m.to.fraction)) {
					continue
				}
				if d := math.Abs(x.fraction - y.fraction); !found || d > math.Abs(a.fraction-b.fraction)+1e-9 {
					a, b, found = x, y, true
				}
			}
		}
	}
	if !found {
		return false
	}
	if a.fraction > b.fraction {
		a, b = b, a
	}
	slope := (b.capacity - a.capacity) / (b.fraction - a.fraction)
	ratio, note := scale(a.dtype, m.to.dtype)
	if !known(ratio) || slope <= 0 {
		return false
	}
	v := math.Floor((a.capacity+slope*(m.to.fraction-a.fraction))*ratio + 1e-6)
	*e = exact(v, fmt.Sprintf("linear in the fraction through %s (%s: %s) and %s (%s: %s): %s tokens for each 0.01",
		a.name, share(a.fraction), metrics.Count(a.capacity), b.name, share(b.fraction), metrics.Count(b.capacity), metrics.Count(slope*ratio/100)))
	if ratio != 1 {
		e.Basis = append(e.Basis, fmt.Sprintf("%s takes 1/%.3g of the bytes of %s", m.to.dtype, ratio, a.dtype))
		e.Doubt = note
	}
	return true
}

// oneSample moves from one start by free memory and bytes a token.
func (m *maker) oneSample(e *Estimate) bool {
	s, ok := m.find(func(s sample) bool {
		return known(s.capacity) && samePool(s.settings, m.to) && (near(s.fraction, m.to.fraction) || known(s.fraction) && known(m.to.fraction))
	})
	if !ok {
		return false
	}
	ratio, note := scale(s.dtype, m.to.dtype)
	if !known(ratio) {
		return false
	}
	v, basis, width := s.capacity*ratio, fmt.Sprintf("%s: %s tokens", s.name, metrics.Count(s.capacity)), 0.0
	if !near(s.fraction, m.to.fraction) {
		bytes := m.bytes(s)
		free, doubt := m.free(s)
		if !known(bytes) || !known(free) {
			return false
		}
		step := (m.to.fraction - s.fraction) * free * gib / bytes * ratio
		v += step
		width = 0.01 * math.Abs(step)
		if doubt != "" {
			note, width = doubt, 0.03*math.Abs(step)
		}
		basis += fmt.Sprintf("; %+.4g of %.2f GiB at %s bytes a token", m.to.fraction-s.fraction, free, metrics.Count(bytes))
	}
	*e = Estimate{Known: true, V: math.Floor(v + 1e-6), Low: math.Floor(v - width), High: math.Ceil(v + width), Basis: []string{basis}, Doubt: note}
	if width == 0 {
		e.Low, e.High = e.V, e.V
	}
	if ratio != 1 {
		e.Basis = append(e.Basis, fmt.Sprintf("%s takes 1/%.3g of the bytes of %s", m.to.dtype, ratio, s.dtype))
	}
	return true
}

// otherTP reckons with the weights divided over another number of ranks. Whether
// the KV cache is divided too (heads) or copied (MLA) is not known, so the range
// has both.
func (m *maker) otherTP(e *Estimate) bool {
	s, ok := m.find(func(s sample) bool {
		to := m.to
		to.tp = s.tp
		return known(s.capacity) && known(s.fraction) && known(m.to.fraction) && s.tp != m.to.tp && samePool(s.settings, to)
	})
	if !ok || m.to.engine == "vllm" {
		return false
	}
	ratio, _ := scale(s.dtype, m.to.dtype)
	bytes := m.bytes(s)
	free, _ := m.free(s)
	if !known(ratio) || !known(bytes) || !known(free) {
		return false
	}
	weights := free*gib*s.fraction - s.capacity*bytes
	pool := free*gib*m.to.fraction - weights*s.tp/m.to.tp
	copied := pool / bytes * ratio
	divided := copied * m.to.tp / s.tp
	*e = Estimate{
		Known: true, V: math.Floor((copied + divided) / 2), Low: math.Floor(min(copied, divided)), High: math.Ceil(max(copied, divided)),
		Basis: []string{fmt.Sprintf("%s: weights of %.1f GiB a GPU at tp %g, spread over tp %g", s.name, weights/gib, s.tp, m.to.tp)},
		Doubt: "whether the KV cache is divided over the ranks (heads) or copied to each (MLA) is not known",
	}
	return true
}

// bytes is bytes a token a GPU of a start.
func (m *maker) bytes(s sample) float64 {
	if known(s.bytes) && s.bytes > 0 {
		return s.bytes
	}
	for _, o := range m.samples {
		if known(o.bytes) && o.bytes > 0 && o.tp == s.tp && o.pp == s.pp {
			if r, _ := scale(o.dtype, s.dtype); known(r) {
				return o.bytes / r
			}
		}
	}
	return nan
}

// free is the memory in GiB of which the fraction takes its share: what was free
// before the weights (SGLang), or all of the GPU (vLLM).
func (m *maker) free(s sample) (v float64, doubt string) {
	total := figure(m.facts.GPUGiB)
	if s.engine == "vllm" {
		return total, ""
	}
	if known(s.free) {
		return s.free, ""
	}
	for _, o := range m.samples {
		if known(o.free) {
			return o.free, ""
		}
	}
	return total, "free memory at the start is not in the log; all of the GPU was taken"
}

// headroom tells what stays free on a GPU after graph capture: what the fraction
// takes is missing there.
func (m *maker) headroom() Estimate {
	if m.to.engine == "vllm" {
		total := figure(m.facts.GPUGiB)
		if !known(total) || !known(m.to.fraction) {
			return Estimate{Doubt: "the GPUs' memory is not known"}
		}
		v := total * (1 - m.to.fraction)
		return Estimate{
			Known: true, V: v, Low: max(v-1, 0), High: v, Basis: []string{fmt.Sprintf("vLLM leaves 1 - %s of %.1f GiB to others", share(m.to.fraction), total)},
			Doubt: "drivers, other processes and memory that the profiling run did not see come out of it",
		}
	}
	e := Estimate{Low: math.Inf(1), High: math.Inf(-1)}
	nearest, width := math.Inf(1), 0.0
	for _, s := range m.samples {
		if !known(s.headroom) || s.tp != m.to.tp || s.pp != m.to.pp || s.pool != m.to.pool || s.head != m.to.head {
			continue
		}
		d, h := 0.0, s.headroom
		basis := fmt.Sprintf("%s had %.2f GiB", s.name, h)
		if !near(s.fraction, m.to.fraction) {
			free := m.freeBySlope(s)
			if !known(free) || !known(s.fraction) || !known(m.to.fraction) {
				continue
			}
			d = math.Abs(m.to.fraction-s.fraction) * free
			h -= (m.to.fraction - s.fraction) * free
			basis += fmt.Sprintf(" at %s; %+.4g of %.2f GiB makes it %.2f", share(s.fraction), m.to.fraction-s.fraction, free, h)
		}
		if d < nearest {
			// Graphs and buffers differ from start to start, by about a hundredth of
			// the memory that moves; and the log rounds to 0.01.
			nearest, width, e.V, e.Known = d, 0, h, true
			if d > 0 {
				width = d/100 + 0.01
			}
		}
		if len(e.Basis) < 3 {
			e.Basis = append(e.Basis, basis)
		}
		e.Low, e.High = min(e.Low, h), max(e.High, h)
	}
	switch {
	case e.Known:
	case math.IsNaN(m.to.fraction):
		return Estimate{Doubt: engineChooses}
	default:
		return Estimate{Doubt: fmt.Sprintf("no start at tp %g with these graph and speculation flags told its available_gpu_mem", m.to.tp)}
	}
	e.Low, e.High = min(e.Low, e.V-width), max(e.High, e.V+width)
	if m.samples[0].chunk != m.to.chunk {
		e.Doubt = "another chunked prefill size needs another amount of this memory while it runs"
	}
	return e
}

// freeBySlope is free memory at the start, from the log or from how many tokens
// a step of the fraction gives.
func (m *maker) freeBySlope(s sample) float64 {
	if v, doubt := m.free(s); known(v) && doubt == "" {
		return v
	}
	bytes := m.bytes(s)
	for i, x := range m.samples {
		for _, y := range m.samples[i+1:] {
			if known(x.capacity) && known(y.capacity) && x.dtype == y.dtype && x.dtype == s.dtype && samePool(x.settings, y.settings) &&
				samePool(x.settings, s.settings) && math.Abs(x.fraction-y.fraction) > 1e-6 && known(bytes) {
				return (x.capacity - y.capacity) / (x.fraction - y.fraction) * bytes / gib
			}
		}
	}
	v, _ := m.free(s)
	return v
}

// within names the limit below which memory is counted, where it is not the node's own.
func within(f Facts) string {
	if f.HostLimit == "" {
		return ""
	}
	return " within " + metrics.LimitText(f.HostLimit, f.HostTotal)
}

// host tells how much host memory the hierarchical cache needs on the node, and
// how much is free for it.
func (m *maker) host(capacity Estimate) (need, free Estimate) {
	if f := m.facts.hostFree(); f.Known {
		free = exact(f.V, "available now"+within(m.facts)+": "+metrics.GiB(m.facts.HostAvail.V))
		if m.facts.Pinned.Known {
			free.Basis = append(free.Basis, "the old server gives back "+metrics.GiB(m.facts.Pinned.V)+" that its cache has pinned")
		}
	} else {
		free.Doubt = "the node's memory is not known"
	}
	set := m.launch.Effective()
	if m.to.engine != "sglang" || set["enable-hierarchical-cache"] != "true" {
		return exact(0, "no hierarchical cache"), free
	}
	ranks := m.to.tp * m.to.pp
	if size := launch.Number(set["hicache-size"]); size > 0 {
		return exact(size*1e9*ranks, fmt.Sprintf("--hicache-size %g is %g GB (1e9) for each of %g ranks", size, size, ranks)), free
	}
	ratio := launch.Number(set["hicache-ratio"])
	if !(ratio > 0) {
		ratio = 2
	}
	bytes := nan
	for _, s := range m.samples {
		if r, _ := scale(s.dtype, m.to.dtype); known(r) && s.tp == m.to.tp && s.pp == m.to.pp && known(m.bytes(s)) {
			bytes = m.bytes(s) / r
			break
		}
	}
	if !capacity.Known || !known(bytes) {
		return Estimate{Doubt: "it is --hicache-ratio times the KV pool, whose size is not known"}, free
	}
	need = exact(ratio*capacity.V*bytes*ranks, fmt.Sprintf("--hicache-ratio %g times %s tokens at %s bytes for each of %g ranks", ratio, metrics.Count(capacity.V), metrics.Count(bytes), ranks))
	need.Low, need.High = ratio*capacity.Low*bytes*ranks, ratio*capacity.High*bytes*ranks
	return need, free
}
