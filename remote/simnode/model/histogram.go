package model

// histogram counts values by upper bounds, as a Prometheus histogram does.
type histogram struct {
	counts [len(bounds) + 1]int
	sum    float64
	total  int
}

// bounds are the engine's default buckets of request latency, in seconds.
var bounds = [...]float64{0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400, 600, 1200, 1800, 2400}

func (h *histogram) add(v float64) {
	i := 0
	for i < len(bounds) && v > bounds[i] {
		i++
	}
	h.counts[i]++
	h.sum += v
	h.total++
}
