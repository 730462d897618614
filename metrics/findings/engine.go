package findings

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

const (
	historyKeep = 200
	changesKeep = 50
	// soon is how long after it cleared a finding that comes back is the same one;
	// lasts is how long it must then last before it is news again.
	soon  = 10 * time.Minute
	lasts = 2 * time.Minute
)

// Input is what detectors look at.
type Input struct {
	Snap *metrics.Snapshot
	// Threshold gives a value by name: the config's, else the default.
	Threshold func(name string) float64
}

// Condition is what a detector sees at one moment.
type Condition struct {
	Subject  string
	Severity metrics.Severity
	Title    string
	Cause    metrics.Cause
	Why      string
	Evidence []metrics.Evidence
	Advice   string
	// Since is when the node's own evidence (mtime, process start, log time) says
	// that it began; zero: when it was first seen.
	Since time.Time
	// Thing is what the finding is about whatever becomes of its subject: a server
	// that is started again is another process. "" where that is the subject.
	Thing string
	Log   metrics.LogPlace
	Graph metrics.SeriesKey
}

// Output collects what one detector reports.
type Output struct {
	conditions []Condition
	cannot     []metrics.CannotTell
}

// Raise reports a condition.
func (o *Output) Raise(c Condition) { o.conditions = append(o.conditions, c) }

// CannotTell reports what cannot be judged and what would tell it.
func (o *Output) CannotTell(what, why, tell string) {
	o.cannot = append(o.cannot, metrics.CannotTell{What: what, Why: why, Tell: tell})
}

// Detector is one entry of the registry.
type Detector struct {
	ID string
	// Means, Needs, When and Do are its documentation.
	Means, Needs, When, Do string
	// Causes are the classes that it can name; none where no class applies.
	Causes []metrics.Cause
	// For is how long a condition must have held before it is raised.
	For time.Duration
	// Clear is how long it must be gone before it is cleared.
	Clear time.Duration
	// Show ends a finding that long after it was raised, 0: never.
	Show time.Duration
	// Deaf lets it judge also while the node is not heard; of the others what
	// was raised stays as it is then.
	Deaf bool
	// Channel is the probe's channel that brings what it judges by, "" for several:
	// while that is stuck or failed, what was raised stays as it is as well.
	Channel string
	Check   func(in *Input, out *Output)
}

type key struct{ id, subject string }

type state struct {
	finding metrics.Finding
	raised  bool
	raiseAt time.Time
	gone    time.Time // when the condition was first missing, zero while it holds
	expired bool
	ack     string
	until   time.Time
	thing   string
	back    bool   // it had cleared a moment ago
	decided string // a decision that the next Eval notes, since only Eval knows the time
}

// Engine is the state machine over all detectors. It is not safe for concurrent use.
type Engine struct {
	cfg       metrics.Config
	detectors []Detector
	states    map[key]*state
	acks      map[key]metrics.Ack
	history   []metrics.Finding
	recent    map[key]metrics.Finding // cleared a moment ago, by their thing
	heard     time.Time               // newest Eval that heard the node
	cannot    []metrics.CannotTell    // at the newest Eval that heard the node
}

// New makes an engine with every registered detector.
func New(cfg metrics.Config) *Engine { return newEngine(cfg, Registry()) }

func newEngine(cfg metrics.Config, detectors []Detector) *Engine {
	return &Engine{cfg: cfg, detectors: detectors, states: map[key]*state{}, acks: map[key]metrics.Ack{}, recent: map[key]metrics.Finding{}}
}

// Configure replaces the configuration; states and decisions stay.
func (e *Engine) Configure(cfg metrics.Config) { e.cfg = cfg }

// Apply takes an operator's decision. It outlives the finding, so that one that
// comes back within a snooze stays quiet.
func (e *Engine) Apply(ack metrics.Ack) {
	k := key{ack.ID, ack.Subject}
	if ack.Action == "clear" {
		delete(e.acks, k)
		return
	}
	e.acks[k] = ack
	if s := e.states[k]; s != nil {
		s.ack, s.until = ack.Action, ack.Until
		s.decided = "acknowledged"
		if ack.Action == "snooze" {
			s.decided = "snoozed"
		}
	}
}

// Eval runs every detector on one snapshot. Active findings come sorted by
// severity, then age; cleared ones are in history only, oldest first. The
// returned slices are the caller's.
func (e *Engine) Eval(in Input) (active, history []metrics.Finding, cannot []metrics.CannotTell) {
	if in.Threshold == nil {
		in.Threshold = func(name string) float64 { return Threshold(e.cfg, name) }
	}
	now := in.Snap.At
	seen := map[key]bool{}
	deaf := in.Snap.Link.Deaf
	blind := func(d *Detector) bool {
		return deaf && !d.Deaf || d.Channel != "" && !in.brokenSince(d.Channel).IsZero()
	}
	for i := range e.detectors {
		d := &e.detectors[i]
		if blind(d) {
			continue
		}
		var out Output
		d.Check(&in, &out)
		cannot = append(cannot, out.cannot...)
		for _, c := range out.conditions {
			k := key{d.ID, c.Subject}
			if !seen[k] {
				seen[k] = true
				if c.Graph.What == "" {
					c.Graph = in.graphOf(c.Subject)
				}
				e.hold(k, d, c, now)
			}
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(e.states), compareKeys) {
		s := e.states[k]
		if s.decided != "" {
			s.change(now, s.decided, "")
			s.decided = ""
		}
		if d := e.detector(k.id); !seen[k] && !blind(d) {
			e.miss(k, s, d, now)
		}
	}
	if deaf {
		cannot = append(cannot, e.cannot...)
	} else {
		e.cannot, e.heard = slices.Clone(cannot), now
	}
	for _, s := range e.states {
		if s.raised && !s.expired {
			f := s.finding
			f.Acked = s.ack == "ack"
			if s.ack == "snooze" && now.Before(s.until) {
				f.Snoozed = s.until
			}
			f.Changed = slices.Clone(f.Changed)
			active = append(active, f)
		}
	}
	slices.SortFunc(active, func(a, b metrics.Finding) int {
		return cmp.Or(-cmp.Compare(a.Severity, b.Severity), a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Subject, b.Subject))
	})
	return active, slices.Clone(e.history), cannot
}

func compareKeys(a, b key) int {
	return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.subject, b.subject))
}

func (e *Engine) detector(id string) *Detector {
	for i := range e.detectors {
		if e.detectors[i].ID == id {
			return &e.detectors[i]
		}
	}
	return &Detector{ID: id}
}

// graphOf is the curve in which what was found of a subject shows best, where its
// detector names none: tok/s of a server, rows a minute of a client or dataset.
// Other subjects have none.
func (in *Input) graphOf(subject string) metrics.SeriesKey {
	switch {
	case in.Snap.ServerByID(subject) != nil:
		return metrics.SeriesKey{What: metrics.SeriesGenTPS, Of: subject}
	case in.Snap.Dataset(subject) != nil:
		return metrics.SeriesKey{What: metrics.SeriesRowRate, Of: subject}
	case slices.ContainsFunc(in.Snap.Clients, func(c metrics.Client) bool { return c.ID == subject }):
		return metrics.SeriesKey{What: metrics.SeriesRowRate}
	}
	return metrics.SeriesKey{}
}

func (e *Engine) hold(k key, d *Detector, c Condition, now time.Time) {
	s := e.states[k]
	if s == nil {
		since := c.Since
		if since.IsZero() || since.After(now) {
			since = now
		}
		s = &state{finding: metrics.Finding{ID: k.id, Subject: k.subject, Since: since}, thing: cmp.Or(c.Thing, k.subject)}
		if was, ok := e.recent[key{k.id, s.thing}]; ok && now.Sub(was.Cleared) < soon {
			s.back, s.finding.Changed = true, slices.Clone(was.Changed)
		}
		if a, ok := e.acks[k]; ok {
			s.ack, s.until = a.Action, a.Until
		}
		e.states[k] = s
	}
	s.gone = time.Time{}
	if !c.Since.IsZero() && c.Since.Before(s.finding.Since) {
		s.finding.Since = c.Since
	}
	before := s.finding
	f := &s.finding
	f.Severity, f.Title, f.Cause, f.Why = c.Severity, c.Title, c.Cause, c.Why
	f.Evidence, f.Advice, f.Graph = c.Evidence, c.Advice, c.Graph
	f.Log = c.Log
	switch {
	case !s.raised:
		if now.Sub(f.Since) >= d.For {
			s.raised, s.raiseAt = true, now
			e.raise(k, s, now)
		}
	case f.Severity > before.Severity:
		s.expired = false
		s.ack = ""
		s.change(now, "worse", f.Title)
	case f.Severity < before.Severity:
		s.change(now, "better", f.Title)
	case f.Cause != before.Cause:
		s.change(now, "changed", f.Title)
	}
	if d.Show > 0 && s.raised && now.Sub(f.Since) >= d.Show && now.Sub(s.raiseAt) >= d.Show {
		s.expired = true
	}
}

// raise notes that a finding is there: as a new one, or as one that is back, which
// then goes on where it was.
func (e *Engine) raise(k key, s *state, now time.Time) {
	if !s.back {
		s.change(now, "raised", s.finding.Title)
		return
	}
	s.finding.NoNews = now.Add(lasts)
	s.change(now, "back", s.finding.Title)
	thing := key{k.id, s.thing}
	was := e.recent[thing]
	delete(e.recent, thing)
	e.history = slices.DeleteFunc(slices.Clone(e.history), func(f metrics.Finding) bool {
		return f.ID == was.ID && f.Subject == was.Subject && f.Cleared.Equal(was.Cleared)
	})
}

// miss handles a condition that was not reported: pending ones go, raised ones
// wait for the hysteresis.
func (e *Engine) miss(k key, s *state, d *Detector, now time.Time) {
	if !s.raised {
		delete(e.states, k)
		return
	}
	if s.gone.IsZero() {
		s.gone = now
		if now.Sub(e.heard) >= d.Clear {
			s.gone = e.heard // nobody looked for as long as it has to be gone
		}
	}
	if now.Sub(s.gone) < d.Clear {
		return
	}
	s.change(now, "cleared", "")
	f := s.finding
	f.Cleared = now
	f.Acked = s.ack == "ack"
	e.history = append(e.history, f)
	maps.DeleteFunc(e.recent, func(_ key, was metrics.Finding) bool { return now.Sub(was.Cleared) >= soon })
	e.recent[key{k.id, s.thing}] = f
	if over := len(e.history) - historyKeep; over > 0 {
		e.history = slices.Clone(e.history[over:])
	}
	if a, ok := e.acks[k]; ok && a.Action == "ack" {
		delete(e.acks, k)
	}
	delete(e.states, k)
}

func (s *state) change(at time.Time, what, text string) {
	s.finding.Changed = append(s.finding.Changed, metrics.FindingChange{At: at, What: what, Text: text})
	if over := len(s.finding.Changed) - changesKeep; over > 0 {
		s.finding.Changed = slices.Clone(s.finding.Changed[over:])
	}
}
