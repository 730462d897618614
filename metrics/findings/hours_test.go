package findings_test

import (
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/board"
	"github.com/runvigil/runvigil/remote/simnode/frames"
	"github.com/runvigil/runvigil/remote/simnode/model"
)

// watch lets a board look at a scenario of the simulated node in virtual time
// and tells of every finding that is new at a tick.
func watch(t *testing.T, scenario string, d time.Duration, each func(s *metrics.Snapshot)) *metrics.Snapshot {
	t.Helper()
	sc, err := model.Lookup(scenario)
	if err != nil {
		t.Fatal(err)
	}
	src := frames.New(sc, time.Date(2026, 2, 24, 12, 16, 7, 0, time.FixedZone("CET", 3600)))
	b := board.New()
	for _, f := range src.Opening() {
		b.Apply(f)
	}
	var wants []metrics.Want
	for i := range int(d / time.Second) {
		if i < 30 || i%10 == 0 {
			wants = b.Wants()
		}
		for _, f := range src.Next(wants) {
			b.Apply(f)
			if f.Kind == metrics.KindTick && each != nil {
				each(b.Snapshot())
			}
		}
	}
	return b.Snapshot()
}

// Hours of an ordinary run raise nothing above info, whatever happens in it: noisy
// load, prefills of 44 s, bursts, quiet minutes, a part that drains and the next
// that begins, a client that is resumed. And nothing comes and goes.
func TestQuietHours(t *testing.T) {
	for scenario, d := range map[string]time.Duration{"restless": 80 * time.Minute, "healthy": 10 * time.Minute, "idle": 10 * time.Minute} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			quiet(t, scenario, d)
		})
	}
}

// quiet watches a scenario in which nothing may be raised above info, and each
// finding a few times at most.
func quiet(t *testing.T, scenario string, d time.Duration) {
	raised := map[string]int{}
	seen := map[string]bool{}
	begin := time.Time{}
	watch(t, scenario, d, func(s *metrics.Snapshot) {
		if begin.IsZero() {
			begin = s.At
		}
		for _, f := range s.Findings {
			if k := f.ID + f.Subject + f.Since.String() + f.Severity.String(); !seen[k] {
				seen[k] = true
				raised[f.ID]++
				if f.Severity > metrics.SeverityInfo {
					t.Errorf("after %s: %s %s: %s (%s)", s.At.Sub(begin).Round(time.Second), f.Severity, f.ID, f.Title, f.Why)
				}
			}
		}
	})
	for id, n := range raised {
		if n > 8 {
			t.Errorf("%s was raised %d times", id, n)
		}
	}
}
