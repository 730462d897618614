package report

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// Away is what happened on a node while nobody looked, as far as one snapshot
// tells it: from a live node's history or from the end of a recording. It is
// the JSON object of `runvigil report --json`; what is not known is null.
type Away struct {
	Schema    int           `json:"schema"`
	Node      string        `json:"node"`
	From      time.Time     `json:"from"`
	To        time.Time     `json:"to"`
	Verdict   string        `json:"verdict"`
	Summary   string        `json:"summary"`
	Starts    []AwayStart   `json:"starts"`
	Rows      AwayRows      `json:"rows"`
	Yield     AwayYield     `json:"yield"`
	Findings  []AwayFinding `json:"findings"`
	Incidents []AwayEvent   `json:"incidents"`
	Now       []string      `json:"what_to_do_now"`
	// GenTPS is tok/s in equal parts of the time from GenFrom on, null where nothing
	// is known. GenFrom is From, or the time at which tok/s begins to be known.
	GenTPS  []*float64 `json:"gen_tps"`
	GenFrom time.Time  `json:"gen_tps_from"`

	zone *time.Location
}

// AwayStart is one start with what it reached.
type AwayStart struct {
	No         int        `json:"no"`
	At         time.Time  `json:"at"`
	Label      string     `json:"label"`
	Outcome    string     `json:"outcome"`
	Cause      *string    `json:"cause"`
	ReadyS     *float64   `json:"ready_s"`
	Capacity   *float64   `json:"capacity_tokens"`
	Headroom   *float64   `json:"headroom_gib"`
	Peak       *float64   `json:"peak_tps"`
	Settled    *float64   `json:"settled_tps"`
	Spread     *float64   `json:"spread_tps"`
	Running    *float64   `json:"running"`
	Queued     *float64   `json:"queued"`
	RowsPerMin *float64   `json:"rows_per_min"`
	Until      *time.Time `json:"until"`
}

// AwayRows is how the datasets grew in the span.
type AwayRows struct {
	Landed   *float64      `json:"landed"` // in all datasets
	Rows     *float64      `json:"rows"`
	Target   *int64        `json:"target"`
	ETAS     *float64      `json:"eta_s"`
	Datasets []AwayDataset `json:"datasets"`
}

// AwayDataset is one dataset's part of it.
type AwayDataset struct {
	Name   string     `json:"name"`
	Path   string     `json:"path"`
	Landed *float64   `json:"landed"`
	Since  *time.Time `json:"landed_since"` // from when Landed is known
	Rows   *float64   `json:"rows"`
	Target *int64     `json:"target"`
	Done   *time.Time `json:"done"`
}

// AwayYield is what the span gave.
type AwayYield struct {
	Tokens   *float64 `json:"tokens_generated"`
	HoursOf  float64  `json:"tokens_known_hours"` // of the span for which tok/s is known
	Requests *float64 `json:"requests_finished"`
	// RowsSince is from when Rows count, null where that is not known.
	RowsSince *time.Time `json:"rows_since"`
	// RequestsSince is from when Requests count, null for the whole span.
	RequestsSince *time.Time `json:"requests_since"`
	Rows          *float64   `json:"rows_landed"`
}

// AwayFinding is a finding with its times.
type AwayFinding struct {
	ID       string     `json:"id"`
	Severity string     `json:"severity"`
	Subject  string     `json:"subject"`
	Title    string     `json:"title"`
	Cause    *string    `json:"cause"`
	Since    time.Time  `json:"since"`
	Cleared  *time.Time `json:"cleared"`
	Advice   string     `json:"advice"`
}

// AwayEvent is one thing on the timeline.
type AwayEvent struct {
	At   time.Time `json:"at"`
	Kind string    `json:"kind"`
	Text string    `json:"text"`
}

// graphParts is how many columns the graph has, and graphLeast what it spans at least.
const (
	graphParts = 60
	graphLeast = 10 * time.Minute
)

// NewAway tells the last span before the snapshot's time.
func NewAway(s *metrics.Snapshot, span time.Duration) Away {
	from := s.At.Add(-span)
	a := Away{
		Schema: Schema, Node: s.Node, From: from.UTC(), To: s.At.UTC(), Verdict: Level(s), Summary: s.Verdict.Text,
		Starts: []AwayStart{}, Findings: []AwayFinding{}, Incidents: []AwayEvent{}, Now: []string{},
		zone: time.FixedZone(s.Zone, s.ZoneSec),
	}
	for i := range s.Starts {
		if st := &s.Starts[i]; begunIn(st, i, s.Starts, from) {
			a.Starts = append(a.Starts, awayStart(st))
		}
	}
	a.Rows = awayRows(s, from)
	a.Yield = a.yield(s, span)
	for _, f := range slices.Concat(s.History, s.Findings) {
		if f.Cleared.IsZero() || !f.Cleared.Before(from) {
			a.Findings = append(a.Findings, AwayFinding{
				ID: f.ID, Severity: f.Severity.String(), Subject: f.Subject, Title: f.Title, Cause: str(string(f.Cause)),
				Since: f.Since.UTC(), Cleared: when(f.Cleared), Advice: f.Advice,
			})
		}
	}
	slices.SortStableFunc(a.Findings, func(x, y AwayFinding) int { return x.Since.Compare(y.Since) })
	for _, e := range s.Events {
		if !e.At.Before(from) {
			a.Incidents = append(a.Incidents, AwayEvent{At: e.At.UTC(), Kind: e.Kind, Text: e.Text})
		}
	}
	for _, f := range s.Findings {
		if f.Advice != "" && !f.Acked && f.Severity > metrics.SeverityInfo {
			a.Now = append(a.Now, f.Title+": "+f.Advice)
		}
	}
	if len(a.Now) == 0 {
		for _, f := range s.Findings {
			if f.Advice != "" && !f.Acked && !strings.HasPrefix(f.Advice, "nothing to do") {
				a.Now = append(a.Now, f.Title+": "+f.Advice)
			}
		}
	}
	return a
}

// begunIn tells whether a start began in the span or ran into it.
func begunIn(st *metrics.Start, i int, all []metrics.Start, from time.Time) bool {
	if !st.At.Before(from) {
		return true
	}
	if st.DurationS != nil {
		return st.At.Add(time.Duration(*st.DurationS * float64(time.Second))).After(from)
	}
	return i == len(all)-1 || all[i+1].At.After(from)
}

func awayStart(st *metrics.Start) AwayStart {
	out := AwayStart{
		No: st.No, At: st.At.UTC(), Label: st.Label, Outcome: st.Outcome, Cause: str(string(st.Cause)), ReadyS: st.ReadyS,
		Capacity: st.Capacity, Headroom: st.HeadroomGB, Peak: st.Peak, Settled: round(st.Settled, 1), Spread: round(st.Spread, 1),
		Running: st.Running, Queued: st.Queued, RowsPerMin: round(st.RowsPerMin, 2),
	}
	if st.DurationS != nil && st.Outcome != "running" {
		out.Until = when(st.At.Add(time.Duration(*st.DurationS * float64(time.Second))))
	}
	return out
}

// grown is how a cumulative series rose since a moment, and the moment from
// which that is known; ok is false without two points.
func grown(s *metrics.Series, from, to time.Time) (n float64, since time.Time, ok bool) {
	const parts = 720
	cols := s.Columns(to, to.Sub(from), parts)
	width := metrics.Step(to.Sub(from), parts)
	first, last := -1, -1
	for i, b := range cols {
		if b.N > 0 {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	if first < 0 || first == last && cols[first].Max == cols[first].Min {
		return 0, time.Time{}, false
	}
	return max(cols[last].Max-cols[first].Min, 0), to.Add(-time.Duration(len(cols)-1-first) * width), true
}

func awayRows(s *metrics.Snapshot, from time.Time) AwayRows {
	out := AwayRows{Rows: num(s.Job.Rows), Target: target(s.Job.Target), ETAS: eta(s.Job.ETA, s.At), Datasets: []AwayDataset{}}
	var sum float64
	known := false
	for i := range s.Datasets {
		d := &s.Datasets[i]
		row := AwayDataset{Name: d.Name, Path: d.Path, Rows: num(d.Rows), Target: target(d.Target), Done: when(d.Done)}
		n, since, ok := grown(s.Series[metrics.SeriesKey{What: metrics.SeriesRows, Of: d.Path}], from, s.At)
		switch {
		case !d.Grew.IsZero() && d.Grew.Before(from):
			n, since, ok = 0, from, true // its mtime proves that nothing came
		case d.Landed.Known && !d.LandedSince.Before(from) && (!ok || d.Landed.V > n):
			n, since, ok = d.Landed.V, d.LandedSince, true
		}
		if ok {
			sum, known = sum+n, true
			row.Landed, row.Since = &n, when(since)
		}
		out.Datasets = append(out.Datasets, row)
	}
	if known {
		out.Landed = &sum
	}
	return out
}

// yield reckons tokens from the curve of tok/s: what the engine's counter says
// began before the span.
func (a *Away) yield(s *metrics.Snapshot, span time.Duration) AwayYield {
	out := AwayYield{Rows: a.Rows.Landed}
	for _, d := range a.Rows.Datasets {
		if d.Since != nil && (out.RowsSince == nil || d.Since.After(*out.RowsSince)) {
			out.RowsSince = d.Since
		}
	}
	const parts = 720
	width := metrics.Step(span, parts)
	var tokens float64
	known, first := 0, parts
	sums := make([]float64, graphParts)
	have := make([]bool, graphParts)
	for i := range s.Servers {
		series := s.Series[metrics.SeriesKey{What: metrics.SeriesGenTPS, Of: s.Servers[i].ID}]
		for j, b := range series.Columns(s.At, span, parts) {
			if b.N > 0 {
				tokens += b.Mean() * width.Seconds()
				known++
				first = min(first, j)
			}
		}
	}
	drawn := span
	if first < parts {
		drawn = min(span, max(time.Duration(parts-first)*width, graphLeast))
	}
	a.GenFrom = s.At.Add(-drawn).UTC()
	for i := range s.Servers {
		series := s.Series[metrics.SeriesKey{What: metrics.SeriesGenTPS, Of: s.Servers[i].ID}]
		for j, b := range series.Columns(s.At, drawn, graphParts) {
			if b.N > 0 {
				sums[j], have[j] = sums[j]+b.Mean(), true
			}
		}
	}
	a.GenTPS = make([]*float64, graphParts)
	for j := range sums {
		if have[j] {
			a.GenTPS[j] = round(&sums[j], 1)
		}
	}
	if known > 0 {
		out.Tokens = round(&tokens, 0)
		out.HoursOf = *round(ptr(time.Duration(known*int(width)).Hours()), 2)
	}
	if f := s.Job.Finished; f.Known {
		out.Requests, out.RequestsSince = num(f), when(s.Job.Since)
	} else if v := s.Server(); v != nil && v.Finished.Known {
		out.Requests, out.RequestsSince = num(v.Finished), when(v.Started)
	}
	return out
}

func ptr(v float64) *float64 { return &v }

// JSON writes the report as one indented object with a final newline.
func (a Away) JSON() ([]byte, error) {
	out, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(out, '\n'), nil
}

// NewFinding is a finding as `check --json` has it.
func NewFinding(f metrics.Finding) Finding { return finding(f) }
