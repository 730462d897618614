package board

import (
	"time"

	"github.com/runvigil/runvigil/metrics"
)

const (
	// readSpan is the time over which reading from disk is measured.
	readSpan = 30 * time.Second
	// readMoves is how many bytes in that time are progress: a stuck process may
	// fetch a page now and then.
	readMoves = 1 << 20
)

// diskReading follows what a server's processes read from disk.
type diskReading struct {
	faults map[int]int64 // major page faults of each process at the newest look
	bytes  map[int]int64 // bytes that each had read
	trail  []readPoint   // the last readSpan, while bytes are known
	total  int64         // bytes since the first look
	at     time.Time     // when it was last seen to read
}

type readPoint struct {
	at    time.Time
	total int64
}

// look takes the states of the server's processes. Pages that were read through
// a memory map are always known, bytes that were read only to some users.
func (r *diskReading) look(at time.Time, procs []metrics.Alive) {
	faults, bytes := map[int]int64{}, map[int]int64{}
	before := r.total
	for _, a := range procs {
		if a.State == "" {
			continue
		}
		faults[a.PID] = a.MajFaults
		if n, known := r.faults[a.PID]; known && a.MajFaults > n {
			r.at = at
		}
		if a.Read == nil {
			continue
		}
		bytes[a.PID] = *a.Read
		if n, known := r.bytes[a.PID]; known && *a.Read > n {
			r.total += *a.Read - n
		}
	}
	r.faults, r.bytes = faults, bytes
	if len(bytes) == 0 {
		r.trail = nil
		return
	}
	for len(r.trail) > 0 && at.Sub(r.trail[0].at) > readSpan {
		r.trail = r.trail[1:]
	}
	r.trail = append(r.trail, readPoint{at, r.total})
	if r.total > before && r.total-r.trail[0].total >= readMoves {
		r.at = at
	}
}

// rate is bytes a second over the last readSpan; unknown where bytes are not told.
func (r *diskReading) rate() metrics.Figure {
	if len(r.trail) < 2 {
		return metrics.Figure{}
	}
	first, last := r.trail[0], r.trail[len(r.trail)-1]
	over := last.at.Sub(first.at).Seconds()
	if over <= 0 {
		return metrics.Figure{}
	}
	return metrics.Known(float64(last.total-first.total)/over, last.at, aliveEvery, "/proc/PID/io")
}
