package findings

import (
	"slices"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// one is a detector whose condition the test sets.
func one(d Detector, c **Condition) []Detector {
	d.ID = "one"
	d.Check = func(_ *Input, out *Output) {
		if *c != nil {
			out.Raise(**c)
		}
	}
	return []Detector{d}
}

func TestEngineLife(t *testing.T) {
	var c *Condition
	e := newEngine(metrics.Config{}, one(Detector{For: 10 * time.Second, Clear: 20 * time.Second}, &c))
	at := func(s int) []metrics.Finding {
		active, _, _ := e.Eval(Input{Snap: &metrics.Snapshot{At: noon.Add(time.Duration(s) * time.Second)}})
		return active
	}
	warn := &Condition{Subject: "x", Severity: metrics.SeverityWarning, Title: "bad"}
	c = warn
	if len(at(0)) != 0 || len(at(9)) != 0 {
		t.Fatal("raised before its time")
	}
	c = nil
	at(10)
	c = warn
	if len(at(11)) != 0 || len(at(20)) != 0 {
		t.Fatal("a pause did not begin its time anew")
	}
	if got := at(21); len(got) != 1 || !got[0].Since.Equal(noon.Add(11*time.Second)) {
		t.Fatalf("not raised after 10 s: %+v", got)
	}
	c = nil
	if len(at(30)) != 1 {
		t.Error("cleared at once")
	}
	c = warn
	at(40)
	c = nil
	if len(at(50)) != 1 || len(at(69)) != 1 || len(at(70)) != 0 {
		t.Error("not cleared 20 s after it was last seen")
	}
	_, history, _ := e.Eval(Input{Snap: &metrics.Snapshot{At: noon.Add(71 * time.Second)}})
	if len(history) != 1 || history[0].Cleared.IsZero() || len(history[0].Changed) != 2 {
		t.Errorf("history %+v", history)
	}
	// The node's own evidence proves a duration.
	c = &Condition{Subject: "y", Severity: metrics.SeverityWarning, Since: noon}
	if len(at(80)) != 1 {
		t.Error("proven since noon, and not raised at once")
	}
}

func TestEngineDecisions(t *testing.T) {
	var c *Condition
	e := newEngine(metrics.Config{}, one(Detector{}, &c))
	at := func(s int) metrics.Finding {
		active, _, _ := e.Eval(Input{Snap: &metrics.Snapshot{At: noon.Add(time.Duration(s) * time.Second)}})
		if len(active) != 1 {
			t.Fatalf("after %d s: %v", s, active)
		}
		return active[0]
	}
	c = &Condition{Subject: "x", Severity: metrics.SeverityWarning}
	at(0)
	e.Apply(metrics.Ack{ID: "one", Subject: "x", Action: "ack"})
	if f := at(1); !f.Acked || f.Changed[len(f.Changed)-1].What != "acknowledged" {
		t.Errorf("not acknowledged: %+v", f)
	}
	c = &Condition{Subject: "x", Severity: metrics.SeverityCritical}
	if f := at(2); f.Acked || f.Changed[len(f.Changed)-1].What != "worse" {
		t.Errorf("worse, and still set aside: %+v", f)
	}
	e.Apply(metrics.Ack{ID: "one", Subject: "x", Action: "snooze", Until: noon.Add(time.Minute)})
	if f := at(3); f.Snoozed.IsZero() {
		t.Error("not snoozed")
	}
	if f := at(61); !f.Snoozed.IsZero() {
		t.Error("a snooze outlives its time")
	}
	c = &Condition{Subject: "x", Severity: metrics.SeverityInfo}
	if f := at(62); f.Changed[len(f.Changed)-1].What != "better" {
		t.Errorf("better, and not noted: %+v", f.Changed)
	}
}

// A finding that comes back soon goes on as the one it was, and is no news until
// it lasts; one that comes back later is new.
func TestEngineComesBack(t *testing.T) {
	var c *Condition
	e := newEngine(metrics.Config{}, one(Detector{}, &c))
	at := func(s int, subject string) (active, history []metrics.Finding) {
		c = nil
		if subject != "" {
			c = &Condition{Subject: subject, Thing: "port 8000", Severity: metrics.SeverityCritical, Title: "down"}
		}
		active, history, _ = e.Eval(Input{Snap: &metrics.Snapshot{At: noon.Add(time.Duration(s) * time.Second)}})
		return active, history
	}
	if f, _ := at(0, "1:1"); len(f) != 1 || !f[0].NoNews.IsZero() {
		t.Fatalf("at first: %+v", f)
	}
	if f, h := at(10, ""); len(f) != 0 || len(h) != 1 {
		t.Fatalf("cleared: %+v, history %+v", f, h)
	}
	f, h := at(300, "2:2") // a supervisor started it, and it crashed again
	if len(f) != 1 || len(h) != 0 || f[0].Subject != "2:2" || !f[0].NoNews.Equal(noon.Add(420*time.Second)) {
		t.Fatalf("back: %+v, history %+v", f, h)
	}
	var life []string
	for _, x := range f[0].Changed {
		life = append(life, x.What)
	}
	if !slices.Equal(life, []string{"raised", "cleared", "back"}) {
		t.Errorf("its life is %v", life)
	}
	at(310, "")
	if f, h := at(310+700, "3:3"); len(f) != 1 || !f[0].NoNews.IsZero() || len(h) != 1 || len(f[0].Changed) != 1 {
		t.Errorf("after 12 minutes it is not new: %+v, history %+v", f, h)
	}
}
