package board

import (
	"math"
	"path"
	"slices"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// target finds how many rows are wanted, when they were reached, and the ETA.
func (b *Board) target(d *metrics.Dataset) {
	for _, t := range b.cfg.Targets {
		if t.Path == "" || t.Rows <= 0 {
			continue
		}
		ok, _ := path.Match(t.Path, d.Path)
		if ok || t.Path == d.Path || t.Path == d.Name || t.Path == path.Base(d.Path) || slices.ContainsFunc(d.Shards, func(s metrics.Shard) bool { return s.Path == t.Path }) {
			d.Target = metrics.Target{Rows: t.Rows, Source: "configuration"}
		}
	}
	if d.Target.Rows == 0 {
		d.Target = b.inferTarget(d)
	}
	if d.Target.Rows > 0 && d.Rows.Known && d.Rows.V >= float64(d.Target.Rows) {
		d.Done = d.Grew
		if d.Done.IsZero() {
			d.Done = d.Rows.At
		}
	}
	d.ETA = b.eta(d.Rows, d.Target, d.PerMin, b.trailsOf(d))
}

func (b *Board) trailsOf(d *metrics.Dataset) []*trail {
	var out []*trail
	for _, s := range d.Shards {
		if r := b.rows[s.Path]; r != nil && r.seen {
			out = append(out, &r.trail)
		}
	}
	return out
}

// inferTarget reads a wish out of the client's command line, its input file or
// its progress bar, the records of a text or table that it reads last: the
// newest client's that lives, else of the newest that ended, since a client that
// is resumed wants the same.
func (b *Board) inferTarget(d *metrics.Dataset) metrics.Target {
	list := slices.Clone(b.clients)
	slices.SortStableFunc(list, compareClients)
	for _, c := range list {
		if !b.writes(c, d) && !(c.c.State == "gone" && b.wrote(c, d)) {
			continue
		}
		if n := flagInt(c.c.Argv, "num-samples", "num-prompts", "max-samples", "num-examples", "limit", "total", "n-samples"); n > 0 {
			return metrics.Target{Rows: int64(n), Inferred: true, Source: "the client's arguments"}
		}
		var input []string
		for _, p := range c.argvFiles {
			if r := b.rows[p]; r != nil && r.seen && !slices.ContainsFunc(d.Shards, func(s metrics.Shard) bool { return s.Path == p }) {
				input = append(input, p)
			}
		}
		one := len(c.c.Datasets) <= 1 // what several datasets share is not the wish of one
		if n := b.inputRows(input); n > 0 && one {
			return metrics.Target{Rows: n, Inferred: true, Source: "rows of " + path.Base(input[0])}
		}
		if p := c.c.Progress; p.Known && p.Total > 0 {
			return metrics.Target{Rows: p.Total, Inferred: true, Source: "the client's progress bar"}
		}
		if n := b.inputRows(c.tables); n > 0 && one {
			source := "records of "
			if path.Ext(c.tables[0]) == ".txt" {
				source = "lines of "
			}
			return metrics.Target{Rows: n, Inferred: true, Source: source + path.Base(c.tables[0])}
		}
	}
	return metrics.Target{}
}

// inputRows is how many rows an input has, 0 unless it is one file that was
// counted to its end. A last row needs no newline there: nobody writes on it.
func (b *Board) inputRows(paths []string) int64 {
	if len(paths) != 1 {
		return 0
	}
	r := b.rows[paths[0]]
	if r == nil || !r.seen || !r.fact.Done || r.fact.Err != "" {
		return 0
	}
	if r.fact.Torn {
		return r.fact.Rows + 1
	}
	return r.fact.Rows
}

// eta reckons when a target will be reached, from the growth since the last
// start. It is held until a first generation of requests has landed: before
// that only the short ones have, and the rate would mislead.
func (b *Board) eta(rows metrics.Figure, target metrics.Target, perMin metrics.Figure, trails []*trail) metrics.ETA {
	switch {
	case target.Rows <= 0:
		return metrics.ETA{Held: "no target is known"}
	case !rows.Known:
		return metrics.ETA{Held: "rows are not counted yet"}
	case rows.V >= float64(target.Rows):
		return metrics.ETA{Held: "reached"}
	}
	if held := b.held(); held != "" {
		return metrics.ETA{Held: held}
	}
	now := b.present()
	rate, over := perMin.V, rateSpan
	known := perMin.Known && perMin.V > 0
	// What landed before the newest start, and the pause of it, tell nothing of
	// the time to come.
	if start := b.lastStart(); start.After(now.Add(-rateSpan)) && perMin.Source != sourceFinishes {
		rows, span, ok := growth(trails, start, now)
		if !ok || span < time.Minute {
			return metrics.ETA{Held: "started " + metrics.Age(now.Sub(start)) + " ago"}
		}
		rate, over, known = rows/span.Minutes(), span, rows > 0
	}
	// A longer watch since the level settled gives a steadier rate.
	if since := b.steadySince(); known && !since.IsZero() && now.Sub(since) > rateSpan {
		if rows, span, ok := growth(trails, since, now); ok && span > rateSpan && rows > 0 {
			rate, over = rows/span.Minutes(), span
		} else if perMin.Source == sourceFinishes {
			if r, span, ok := b.finishRate(since, now); ok {
				rate, over = r, span
			}
		}
	}
	if !known || rate <= 0 {
		return metrics.ETA{Held: "no row landed in the last 10 minutes"}
	}
	left := (float64(target.Rows) - rows.V) / rate // minutes
	if left > 10*365*24*60 {
		return metrics.ETA{Held: "more than ten years at this rate"}
	}
	n := max(rate*over.Minutes(), 1)
	spread := left / math.Sqrt(n)
	return metrics.ETA{
		Known: true, At: now.Add(time.Duration(left * float64(time.Minute))),
		Spread: time.Duration(spread * float64(time.Minute)),
	}
}

// lastStart is when the newest of the living servers was ready and the newest
// client had begun.
func (b *Board) lastStart() time.Time {
	out := b.clientStart()
	for _, s := range b.servers {
		if sec := b.sectionOf(s); s.alive() && sec != nil {
			out = latest(out, latest(sec.ready, sec.at))
		}
	}
	return out
}

// steadySince is since when a living server's level is settled, zero for none.
func (b *Board) steadySince() time.Time {
	var out time.Time
	for _, s := range b.servers {
		if sec := b.sectionOf(s); s.alive() && sec != nil && sec.level.settled {
			out = latest(out, sec.level.since, b.clientStart())
		}
	}
	return out
}

// logTellsServer tells that the log of a server is read, whoever runs now.
func (b *Board) logTellsServer() bool {
	for _, l := range b.logs {
		if l.work.engine != "" && l.work.section() != nil {
			return true
		}
	}
	return false
}

// held says why an ETA would mislead now, "" where it would not.
func (b *Board) held() string {
	client := b.clientStart()
	if !b.scanned.IsZero() && (len(b.servers) > 0 || b.logTellsServer()) {
		if !slices.ContainsFunc(b.servers, (*serverState).alive) {
			return "no server runs"
		}
		if !slices.ContainsFunc(b.clients, func(c *clientState) bool { return c.alive() || c.c.State == "remote" }) {
			return "no client runs"
		}
	}
	for _, s := range b.servers {
		sec := b.sectionOf(s)
		if !s.alive() || sec == nil || !sec.running.Known || !sec.queued.Known || sec.lastDecode.IsZero() {
			continue
		}
		if state, since := b.judge(s, sec); state == metrics.ServerHung {
			return "no token for " + metrics.Age(b.present().Sub(since))
		}
		flight := sec.running.V + sec.queued.V
		from := latest(client, sec.at)
		n, ok := sec.finishedSince(from)
		switch {
		case sec.level.settled && ok && float64(n) >= flight/2:
			return ""
		case ok && float64(n) < flight:
			return metrics.Count(float64(n)) + " of the first " + metrics.Count(flight) + " landed"
		case !ok && !sec.level.settled:
			return "after the level has settled"
		}
	}
	return ""
}
