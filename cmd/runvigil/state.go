package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/adrg/xdg"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/report"
)

// A state keeps what one visit of a node leaves for the next: what had been
// counted, and the latest glance. Its files are readable by their owner only.
type state struct{ dir string }

// stateOf is the state of a node as the user named it.
func stateOf(node string) state {
	name := url.PathEscape(node)
	if rest, dot := strings.CutPrefix(name, "."); dot {
		name = "%2E" + rest // "." and ".." are folders already
	}
	return state{filepath.Join(xdg.StateHome, "runvigil", "nodes", name)}
}

// glanceMaxAge is how old the glance of a live screen may be to answer for the node.
const glanceMaxAge = 10 * time.Second

// leftGlance is the latest answer that a live screen left for `check`.
type leftGlance struct {
	At   time.Time    `json:"at"` // of this machine's clock
	PID  int          `json:"pid"`
	Exit int          `json:"exit"`
	Line string       `json:"line"`
	Text string       `json:"text"`
	JSON report.Check `json:"json"`
}

func newGlance(s *metrics.Snapshot, at time.Time) leftGlance {
	return leftGlance{
		At: at, PID: os.Getpid(), Exit: report.ExitCode(s),
		Line: report.Line(s), Text: report.Glance(s), JSON: report.NewCheck(s),
	}
}

func (s state) leaveGlance(g leftGlance) error { return s.write("glance.json", g) }

// glance gives what a live screen left, if it is young enough.
func (s state) glance(now time.Time) (leftGlance, bool) {
	var g leftGlance
	if err := s.read("glance.json", &g); err != nil {
		return g, false
	}
	age := now.Sub(g.At)
	return g, age >= 0 && age < glanceMaxAge
}

func (s state) save(v metrics.Saved) error { return s.write("counted.json", v) }

// saved gives what the last visit had counted; a damaged file counts as none,
// since counting anew is always right.
func (s state) saved() (metrics.Saved, bool) {
	var v metrics.Saved
	return v, s.read("counted.json", &v) == nil
}

func (s state) read(name string, v any) error {
	data, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

// write replaces a file as a whole, so that a reader never sees half of it.
func (s state) write(name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("keep state: %w", err)
	}
	if err := replaceIn(s.dir, filepath.Join(s.dir, name), 0o600, data, false); err != nil {
		return fmt.Errorf("keep state: %w", err)
	}
	return nil
}
