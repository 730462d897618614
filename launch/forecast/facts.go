package forecast

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/metrics"
)

// FactsOf takes the facts from a snapshot. base is the launch of the server s,
// which may be nil where nothing runs: then only the node and earlier starts
// speak.
func FactsOf(snap *metrics.Snapshot, s *metrics.Server, base launch.Launch) Facts {
	f := Facts{
		Launch: base, Now: snap.At, ZoneSec: snap.ZoneSec, GPUs: len(snap.GPUs),
		HostTotal: snap.Sys.MemTotal, HostAvail: snap.Sys.MemAvail, HostLimit: snap.Sys.MemLimit,
	}
	for _, g := range snap.GPUs {
		if g.MemTotal.Known && (!f.GPUGiB.Known || g.MemTotal.V/1024 < f.GPUGiB.V) {
			f.GPUGiB = metrics.Fixed(g.MemTotal.V/1024, g.MemTotal.At, g.MemTotal.Source)
		}
	}
	job := snap.Job
	f.RowsPerMin = job.PerMin
	if job.Target.Rows > 0 && job.Rows.Known {
		f.RowsLeft = metrics.Known(max(float64(job.Target.Rows)-job.Rows.V, 0), job.Rows.At, job.Rows.Every, job.Rows.Source)
	}
	for _, d := range snap.Datasets {
		// The median of the newest rows jumps, and is not their mean: it serves where
		// no rate tells more.
		if d.Median.Known && d.MedianInTokens && !f.PerRow.Known && !(job.PerMin.Known && job.PerMin.V > 0) {
			f.PerRow = d.Median // datasets are ordered: the one that grows comes first
		}
	}
	f.LoadS = loadTime(snap.Starts)
	if s == nil {
		return f
	}
	f.Model, f.TP = s.Model, s.TP
	f.Capacity, f.Headroom, f.FreeAtStart, f.KVPool = s.Capacity, s.Headroom, s.FreeAtStart, s.KVPool
	f.BytesPerTok, f.KVDtype, f.ContextLen, f.MaxRunning = s.BytesPerTok, s.KVDtype, s.ContextLen, s.MaxRunning
	f.Step, f.Running, f.Queued, f.PerRequest = s.Step, s.Running, s.Queued, s.PerRequest
	f.Settled, f.Resolved = s.Gen.Settled, launch.Resolved(s)
	f.Grown = s.Gen.Settled.Known && !s.Gen.Ramp
	if f.Grown {
		f.means(&s.Gen)
	}
	if s.HiCache.On && s.State != metrics.ServerDown {
		f.Pinned = s.HiCache.HostGB
		if f.Pinned.Known {
			f.Pinned.V *= 1e9
		} else if s.HiCache.SizeGB > 0 {
			f.Pinned = metrics.Fixed(s.HiCache.SizeGB*1e9*float64(max(s.TP, 1)), s.Started, "flags")
		}
	}
	return f
}

// leastUsed is the share of the pool from which it, and nothing else, is taken to
// limit how many requests run.
const leastUsed = 0.8

// means replaces what the last line said by what the settled level says: requests
// of one generation grow together, and any one line is a chance.
func (f *Facts) means(g *metrics.GenRate) {
	if g.PerFinished.Known {
		f.PerRow = g.PerFinished
	}
	if !g.SettledPerRequest.Known {
		return
	}
	f.Running, f.Queued = g.SettledRunning, g.SettledQueued.Or(f.Queued)
	f.PerRequest, f.PerRequestOver = g.SettledPerRequest, g.SettledOver
	f.PerRequestLow, f.PerRequestHigh = g.PerRequestLow, g.PerRequestHigh
	used := g.SettledTokens.V / f.Capacity.V
	if f.Capacity.Known && used > leastUsed && used <= 1 && f.Queued.Known && f.Queued.V >= 1 {
		f.PoolUsed = metrics.Fixed(used, g.SettledTokens.At, g.SettledTokens.Source)
	}
}

// Machine is what Problems of a launch needs to know of the node.
func (f Facts) Machine() launch.Machine {
	return launch.Machine{GPUs: f.GPUs, HostFree: f.hostFree(), HostTotal: f.HostTotal, HostLimit: f.HostLimit}
}

// hostFree is host memory for a new server: what is available, and what the old
// one has pinned.
func (f Facts) hostFree() metrics.Figure {
	free := f.HostAvail
	if free.Known && f.Pinned.Known {
		free.V += f.Pinned.V
		if f.HostTotal.Known {
			free.V = min(free.V, f.HostTotal.V)
		}
	}
	return free
}

// loadTime is the median time until ready of the starts that became so.
func loadTime(list []metrics.Start) metrics.Figure {
	var took []float64
	var at time.Time
	for _, s := range list {
		if s.ReadyS != nil && *s.ReadyS > 0 {
			took = append(took, *s.ReadyS)
			at = s.At
		}
	}
	if len(took) == 0 {
		return metrics.Figure{}
	}
	slices.Sort(took)
	return metrics.Fixed(took[len(took)/2], at, strconv.Itoa(len(took))+" earlier starts")
}

// figure is a figure's value, NaN where unknown.
func figure(f metrics.Figure) float64 {
	if !f.Known {
		return nan
	}
	return f.V
}

func deref(p *float64) float64 {
	if p == nil {
		return nan
	}
	return *p
}

var nan = math.NaN()

func known(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
