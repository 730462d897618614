package board

import (
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// BenchmarkSecond is one second of a watched run: a tick with its findings, the
// frames of that second and one snapshot. A core at 1 Hz is 1e9 ns.
func BenchmarkSecond(b *testing.B) {
	s := newSim(b, "healthy")
	s.run(10 * time.Minute)
	seconds := 0
	frames := s.frames[len(s.frames)/2:]
	b.ReportAllocs()
	b.ResetTimer()
	shift := time.Duration(0)
	span := frames[len(frames)-1].At.Sub(frames[0].At) + time.Second
	for seconds < b.N {
		shift += span
		for _, f := range frames {
			f.At = f.At.Add(shift)
			s.b.Apply(f)
			if f.Kind == metrics.KindTick {
				seconds++
				s.b.Snapshot()
				s.b.Wants()
				if seconds >= b.N {
					break
				}
			}
		}
	}
}

// BenchmarkBackfill reads the log of three hours.
func BenchmarkBackfill(b *testing.B) {
	s := newSim(b, "healthy")
	s.run(2 * time.Second)
	var log metrics.Frame
	for _, f := range s.frames {
		if f.Kind == metrics.KindLog && len(f.Data) > len(log.Data) {
			log = f
		}
	}
	b.SetBytes(int64(len(log.Data)))
	b.ReportAllocs()
	for b.Loop() {
		fresh := New()
		fresh.Apply(log)
	}
}

// BenchmarkSnapshot is what one more look costs.
func BenchmarkSnapshot(b *testing.B) {
	s := newSim(b, "healthy")
	s.run(2 * time.Minute)
	b.ReportAllocs()
	for b.Loop() {
		s.b.snap = nil
		s.b.Snapshot()
	}
}
