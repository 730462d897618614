package board

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote/simnode/frames"
	"github.com/runvigil/runvigil/remote/simnode/model"
)

// sim is a board that watches the simulated node in virtual time.
type sim struct {
	b      *Board
	src    *frames.Source
	node   *model.Node
	at     time.Time
	down   bool // the link is: the node goes on and only ticks come
	frames []metrics.Frame
}

var cet = time.FixedZone("CET", 3600)

// newSim begins a visit to a scenario at the story's moment.
func newSim(t testing.TB, scenario string) *sim {
	t.Helper()
	sc, err := model.Lookup(scenario)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 2, 24, 12, 16, 7, 0, cet)
	s := &sim{b: New(), src: frames.New(sc, at), at: at}
	s.node = s.src.Node()
	for _, f := range s.src.Opening() {
		s.apply(f)
	}
	return s
}

func (s *sim) apply(f metrics.Frame) {
	s.frames = append(s.frames, f)
	s.b.Apply(f)
	s.at = f.At
}

// run lets time pass, second by second.
func (s *sim) run(d time.Duration) {
	for range int(d / time.Second) {
		if s.down {
			s.src.Next(nil)
			s.apply(metrics.Frame{Kind: metrics.KindTick, At: s.at.Add(time.Second)})
			continue
		}
		for _, f := range s.src.Next(s.b.Wants()) {
			s.apply(f)
		}
	}
}

func visit(t testing.TB, scenario string, d time.Duration) (*sim, *metrics.Snapshot) {
	t.Helper()
	s := newSim(t, scenario)
	s.run(d)
	return s, s.b.Snapshot()
}

// show prints a snapshot for a failing test.
func show(s *metrics.Snapshot) string {
	v := s.Server()
	var out strings.Builder
	fmt.Fprintf(&out, "verdict %s %s\n", s.Verdict.Word, s.Verdict.Text)
	if v != nil {
		c := *v
		c.Argv = nil
		j, _ := json.Marshal(c)
		out.Write(j)
	}
	for _, e := range s.Events {
		fmt.Fprintf(&out, "\nevent %s %s %s", e.At.In(cet).Format(time.TimeOnly), e.Kind, e.Text)
	}
	for _, f := range s.Findings {
		fmt.Fprintf(&out, "\nfinding %s %s %s: %s", f.Severity, f.ID, f.Subject, f.Title)
	}
	for _, d := range s.Datasets {
		fmt.Fprintf(&out, "\ndataset %s rows %v rate %v over %v eta %+v landed %v since %v", d.Name, d.Rows.V, d.PerMin, d.PerMinOver, d.ETA, d.Landed.V, d.LandedSince)
	}
	fmt.Fprintf(&out, "\njob %+v", s.Job)
	for _, c := range s.Clients {
		fmt.Fprintf(&out, "\nclient %+v", c)
	}
	for _, c := range s.Starts {
		j, _ := json.Marshal(c)
		fmt.Fprintf(&out, "\nstart %s", j)
	}
	for _, c := range s.CannotTell {
		fmt.Fprintf(&out, "\ncannot tell %+v", c)
	}
	return out.String()
}
