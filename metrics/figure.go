package metrics

import "time"

// Figure is a number that knows its age and its source. The zero Figure is
// unknown: drawn as –, null in JSON, a gap in a graph.
type Figure struct {
	V      float64
	Known  bool
	At     time.Time     // when it was true, local clock
	Every  time.Duration // how often its source speaks; 0: does not age
	Source string        // e.g. "log", "/v1/loads", "/metrics", "nvidia-smi"
}

// Known makes a figure that is known.
func Known(v float64, at time.Time, every time.Duration, source string) Figure {
	return Figure{V: v, Known: true, At: at, Every: every, Source: source}
}

// Fixed makes a known figure that does not age (a capacity, a size).
func Fixed(v float64, at time.Time, source string) Figure {
	return Figure{V: v, Known: true, At: at, Source: source}
}

// Stale tells whether the figure is older than three of its intervals.
func (f Figure) Stale(now time.Time) bool {
	return f.Known && f.Every > 0 && now.Sub(f.At) > 3*f.Every
}

// Or gives f where it is known, else g.
func (f Figure) Or(g Figure) Figure {
	if f.Known {
		return f
	}
	return g
}
