package metrics

import (
	"fmt"
	"time"
)

// Severity orders findings.
type Severity int

// The severities.
const (
	SeverityNone Severity = iota
	SeverityInfo
	SeverityWarning
	SeverityCritical
)

// String gives the word used on screen, in JSON and in the config.
func (s Severity) String() string {
	switch s {
	case SeverityInfo:
		return "info"
	case SeverityWarning:
		return "warning"
	case SeverityCritical:
		return "critical"
	}
	return "none"
}

// MarshalText writes the word.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the word.
func (s *Severity) UnmarshalText(text []byte) error {
	for v := SeverityNone; v <= SeverityCritical; v++ {
		if v.String() == string(text) {
			*s = v
			return nil
		}
	}
	return fmt.Errorf("severity %q: none, info, warning or critical", text)
}

// Finding is a diagnosis with evidence and advice.
type Finding struct {
	ID       string // kebab-case, stable
	Severity Severity
	Subject  string // whose: a server id, a client id, a path, "gpu 3", "node"
	Since    time.Time
	Title    string // one line with the figures in it
	Cause    Cause  // "" where no class applies
	Why      string // the cause in words
	Evidence []Evidence
	Advice   string // the exact flag, value and direction, or command, or setting
	Acked    bool
	Snoozed  time.Time // until when, zero: not
	Cleared  time.Time // zero while it holds
	Changed  []FindingChange
	// NoNews is until when nobody is told of it anew: it is back soon after it had
	// cleared. Zero for one that is new.
	NoNews time.Time
	// Log leads to the line that proves it, or to its moment in the log.
	Log LogPlace
	// Series to draw beside it.
	Graph SeriesKey
}

// LogPlace leads to a line of a log. What is not known is zero; without a Text
// a moment is meant, not a line.
type LogPlace struct {
	Path string
	Line int64     // its number, 1-based
	Off  int64     // its byte offset in the file, about
	At   time.Time // its time on the local clock
	Text string    // the line, cleaned, or its beginning
}

// Evidence is one figure that a finding rests on.
type Evidence struct {
	Text   string // e.g. "rows 1,374 → 1,531"
	Source string // e.g. "stat of B2.jsonl"
	At     time.Time
}

// FindingChange is one step in a finding's life.
type FindingChange struct {
	At   time.Time
	What string // raised, back, worse, better, changed, cleared, acknowledged, snoozed
	Text string
}
