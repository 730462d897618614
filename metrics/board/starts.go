package board

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

const (
	// sameStart is how far two reports of one start may lie apart.
	sameStart  = 10 * time.Minute
	startsKeep = 200
)

func (b *Board) importStarts(list []metrics.Start) {
	for _, s := range list {
		s.Label, s.Note, s.CauseTxt = metrics.Clean(s.Label, 120), metrics.Clean(s.Note, 400), metrics.Clean(s.CauseTxt, 400)
		i := slices.IndexFunc(b.imported, func(o metrics.Start) bool { return o.ID == s.ID && s.ID != "" })
		if i >= 0 {
			b.imported = slices.Clone(b.imported)
			b.imported[i] = s
			continue
		}
		b.imported = append(slices.Clip(b.imported), s)
	}
	slices.SortStableFunc(b.imported, func(a, c metrics.Start) int { return a.At.Compare(c.At) })
}

func (b *Board) startID(s *serverState, sec *section) string {
	if s.s.PID != 0 {
		return b.session.BootID + ":" + s.s.ID
	}
	if sec != nil {
		return sectionID(s.log, sec)
	}
	return s.s.ID
}

// sectionID names a start of which only the log is known. A restart and its way
// back write the same id into the log.
func sectionID(path string, sec *section) string {
	if sec.id != "" {
		path = sec.id
	}
	return path + "@" + strconv.FormatInt(sec.at.Unix(), 10)
}

// startList merges the starts that were told with those that the logs show,
// oldest first, numbered in that order.
func (b *Board) startList(servers []*serverState) []metrics.Start {
	out := slices.Clone(b.imported)
	logged := map[string]bool{} // ids of starts that were told by a log just now
	owner := map[*section]*serverState{}
	for _, s := range servers {
		if sec := b.sectionOf(s); sec != nil {
			owner[sec] = s
		} else if s.s.PID != 0 { // an endpoint tells no start
			out, _ = b.mergeStart(out, b.bareStart(s), logged)
		}
	}
	for _, path := range sortedLogs(b.logs) {
		l := b.logs[path]
		if l.work.engine == "" {
			continue
		}
		for i, sec := range l.work.sections {
			if sec.headless && i < len(l.work.sections)-1 && sec.flags == nil && sec.level.peak.tps == 0 {
				continue // a shred of a start of which nothing is known
			}
			var id string
			out, id = b.mergeStart(out, b.sectionStart(l, i, owner[sec]), logged)
			logged[id] = true
		}
	}
	slices.SortStableFunc(out, func(a, c metrics.Start) int { return a.At.Compare(c.At) })
	if over := len(out) - startsKeep; over > 0 {
		out = slices.Delete(out, 0, over)
	}
	no := 0
	for i := range out {
		if out[i].No <= no {
			out[i].No = no + 1
		}
		no = out[i].No
	}
	return out
}

// sameAs finds the start in a list that another report is of: by its id, else
// the nearest in time that nothing speaks against. Starts may follow each other
// within minutes (a crash, and the way back), so neither two parts of logs nor
// two processes nor two sizes of the pool are ever one start.
func (b *Board) sameAs(list []metrics.Start, s metrics.Start, logged map[string]bool) int {
	best, nearest := -1, sameStart+1
	process := func(id string) bool { return b.session.BootID != "" && strings.HasPrefix(id, b.session.BootID+":") }
	for i, o := range list {
		if o.ID == s.ID {
			return i
		}
		d := o.At.Sub(s.At).Abs()
		switch {
		case o.At.IsZero() || d >= nearest, logged[o.ID], process(o.ID) && process(s.ID):
		case o.Capacity != nil && s.Capacity != nil && math.Abs(*o.Capacity-*s.Capacity) > 0.01**s.Capacity:
		default:
			best, nearest = i, d
		}
	}
	return best
}

// mergeStart adds what the log shows to a start that was told, or appends it; id
// is the start's in the list. A start of which only the log is left keeps the id
// under which it was told.
func (b *Board) mergeStart(list []metrics.Start, s metrics.Start, logged map[string]bool) (out []metrics.Start, id string) {
	if i := b.sameAs(list, s, logged); i >= 0 {
		o := &list[i]
		if s.Imported {
			s.ID, s.Imported = o.ID, o.Imported
		}
		s.No, s.Note, s.GuardBroken, s.Override = o.No, o.Note, o.GuardBroken, o.Override
		if o.Label != "" {
			s.Label = o.Label
		}
		if len(s.Argv) == 0 {
			s.Argv = o.Argv
		}
		if s.KVDtype == "" {
			s.KVDtype = o.KVDtype
		}
		if s.FirstToken.IsZero() {
			s.FirstToken = o.FirstToken
		}
		if s.FirstRequest.IsZero() {
			s.FirstRequest = o.FirstRequest
		}
		for _, p := range []struct{ to, from **float64 }{
			{&s.ReadyS, &o.ReadyS}, {&s.Capacity, &o.Capacity}, {&s.HeadroomGB, &o.HeadroomGB}, {&s.Peak, &o.Peak},
			{&s.Settled, &o.Settled}, {&s.Spread, &o.Spread}, {&s.Running, &o.Running}, {&s.Queued, &o.Queued},
			{&s.KVUsage, &o.KVUsage}, {&s.PerRequest, &o.PerRequest}, {&s.RowsPerMin, &o.RowsPerMin}, {&s.LowestFree, &o.LowestFree},
			{&s.DurationS, &o.DurationS}, {&s.FreeAtStartGB, &o.FreeAtStartGB}, {&s.BytesPerTok, &o.BytesPerTok},
		} {
			if *p.to == nil {
				*p.to = *p.from
			}
		}
		if s.Outcome == "unknown" && o.Outcome != "" {
			s.Outcome, s.Cause, s.CauseTxt = o.Outcome, o.Cause, o.CauseTxt
			s.CausePhase, s.AfterS, s.AfterRequestS = o.CausePhase, o.AfterS, o.AfterRequestS
		}
		list[i] = s
		return list, s.ID
	}
	return append(list, s), s.ID
}

func (b *Board) bareStart(s *serverState) metrics.Start {
	out := metrics.Start{
		ID: b.startID(s, nil), Node: b.session.Node, Engine: s.s.Engine, Version: s.version, Model: s.s.Model,
		At: s.s.Started, Argv: s.s.Argv, Label: StartLabel(s.s.Argv, nil), Outcome: "running",
	}
	if !s.alive() {
		out.Outcome = "unknown"
	}
	return out
}

// sectionStart is one start as its log tells it.
func (b *Board) sectionStart(l *logState, i int, s *serverState) metrics.Start {
	sec := l.work.sections[i]
	out := metrics.Start{
		ID: sectionID(l.path, sec), Node: b.session.Node, Engine: l.work.engine, At: sec.at, Imported: s == nil || s.s.PID == 0,
		Model: shortModel(sec.flags["model_path"]), Phases: slices.Clone(sec.phases.took),
	}
	if out.Model == "" {
		out.Model = sec.modelName
	}
	if s != nil {
		out.ID, out.Version, out.Argv = b.startID(s, sec), s.version, s.s.Argv
		if s.s.PID != 0 {
			out.At = s.s.Started
		}
	}
	out.Label = StartLabel(out.Argv, sec.flags)
	out.KVDtype, out.FirstToken, out.FirstRequest = sec.kvDtype, sec.firstToken, sec.firstRequest
	set := func(to **float64, v float64, known bool) {
		if known && !math.IsNaN(v) {
			*to = &v
		}
	}
	set(&out.ReadyS, sec.ready.Sub(out.At).Seconds(), !sec.ready.IsZero() && !sec.headless)
	set(&out.Capacity, sec.capacity.V, sec.capacity.Known)
	set(&out.HeadroomGB, sec.headroom.V, sec.headroom.Known)
	set(&out.FreeAtStartGB, sec.freeGB.V, sec.freeGB.Known)
	set(&out.BytesPerTok, math.Round(sec.kvGB.V*(1<<30)/sec.capacity.V), sec.kvGB.Known && sec.capacity.Known && sec.capacity.V > 0)
	lv := &sec.level
	set(&out.Peak, lv.peak.tps, lv.peak.tps > 0)
	if lv.settled {
		med, spread := lv.value()
		set(&out.Settled, med, true)
		set(&out.Spread, spread, true)
	}
	if m, ok := lv.means(); ok {
		set(&out.PerRequest, m.perReq, true)
		set(&out.Running, m.running, true)
		set(&out.Queued, m.queued, true)
		set(&out.KVUsage, sec.usage.V, sec.usage.Known)
	}
	last := i == len(l.work.sections)-1
	switch {
	case last && s != nil && s.s.PID != 0 && s.endedAt.IsZero():
		out.Outcome = "running" // whatever its log complains of
		return out
	case sec.ended() && sec.ready.IsZero() && sec.lastDecode.IsZero():
		out.Outcome = "failed"
	case sec.ended():
		out.Outcome = "crashed"
	case !sec.stop.IsZero():
		out.Outcome = "stopped"
	case last && s != nil && s.endedAt.IsZero():
		out.Outcome = "running"
	default:
		out.Outcome = "unknown"
	}
	if p := sec.primary(); p >= 0 {
		fact := &sec.faults[p].fact
		out.Cause, out.CauseTxt, out.CausePhase = fact.Class, fact.Detail, fact.Phase
		if !sec.ready.IsZero() {
			out.AfterS = fact.At.Sub(sec.ready).Seconds()
		}
		if !sec.firstRequest.IsZero() {
			out.AfterRequestS = fact.At.Sub(sec.firstRequest).Seconds()
		}
	}
	set(&out.DurationS, sec.last.Sub(out.At).Seconds(), out.Outcome != "running")
	return out
}

// StartLabel names a start by the flags that operators turn: memory fraction,
// KV type, host cache.
func StartLabel(argv []string, flags map[string]string) string {
	get := func(py string, names ...string) string {
		if v, ok := flagValue(argv, names...); ok {
			return v
		}
		if v := flags[py]; v != "None" {
			return v
		}
		return ""
	}
	var parts []string
	if v := get("mem_fraction_static", "mem-fraction-static", "gpu-memory-utilization"); v != "" {
		if f, err := strconv.ParseFloat(v, 64); err == nil {
			if v = strconv.FormatFloat(f, 'f', -1, 64); len(v) < len("0.88") {
				v = fmt.Sprintf("%.2f", f)
			}
		}
		parts = append(parts, v)
	}
	switch v := get("kv_cache_dtype", "kv-cache-dtype"); {
	case strings.HasPrefix(v, "fp8"):
		parts = append(parts, v)
	case len(argv) > 0 || flags != nil:
		parts = append(parts, "bf16")
	}
	if flagSet(argv, "enable-hierarchical-cache") || flags["enable_hierarchical_cache"] == "True" {
		parts = append(parts, "hicache")
	}
	return metrics.Clean(strings.Join(parts, " "), 120)
}

// withStarts puts the starts that were seen here among the events, in order.
func withStarts(events []metrics.Event, starts []metrics.Start) []metrics.Event {
	out := make([]metrics.Event, 0, len(events)+len(starts))
	i := 0
	for _, s := range starts {
		if s.At.IsZero() {
			continue
		}
		for i < len(events) && events[i].At.Before(s.At) {
			out = append(out, events[i])
			i++
		}
		text := fmt.Sprintf("start #%d", s.No)
		if s.Label != "" {
			text += " (" + s.Label + ")"
		}
		out = append(out, metrics.Event{At: s.At, Kind: "start", Text: text, Ref: s.ID})
	}
	return append(out, events[i:]...)
}
