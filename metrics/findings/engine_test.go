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

// A finding whose cause changes says so, once, and stays one finding.
func TestEngineCauseChanges(t *testing.T) {
	c := &Condition{Subject: "x", Severity: metrics.SeverityCritical, Cause: metrics.CauseKilledUnknown, Title: "killed"}
	e := newEngine(metrics.Config{}, one(Detector{}, &c))
	for i := range 3 {
		if i == 1 {
			c = &Condition{Subject: "x", Severity: metrics.SeverityCritical, Cause: metrics.CauseHostOOMKilled, Title: "OOM killer"}
		}
		active, _, _ := e.Eval(Input{Snap: &metrics.Snapshot{At: noon.Add(time.Duration(i) * time.Second)}})
		if i == 2 {
			last := active[0].Changed[len(active[0].Changed)-1]
			if len(active) != 1 || len(active[0].Changed) != 2 || last.What != "changed" || last.Text != "OOM killer" {
				t.Errorf("%+v", active)
			}
		}
	}
}

// What the node is not heard of stays as it was: neither cleared nor raised.
func TestEngineDeaf(t *testing.T) {
	var c *Condition
	e := newEngine(metrics.Config{}, one(Detector{}, &c))
	eval := func(s int, deaf bool) int {
		active, _, _ := e.Eval(Input{Snap: &metrics.Snapshot{At: noon.Add(time.Duration(s) * time.Second), Link: metrics.Link{Deaf: deaf}}})
		return len(active)
	}
	c = &Condition{Subject: "x", Severity: metrics.SeverityCritical}
	if eval(0, true) != 0 {
		t.Error("raised while nothing is heard")
	}
	eval(1, false)
	c = nil
	if eval(2, true) != 1 || eval(600, true) != 1 {
		t.Error("cleared while nothing is heard")
	}
	if eval(601, false) != 0 {
		t.Error("not cleared once the node is heard again")
	}
}

// The worst come first, then the oldest.
func TestEngineOrder(t *testing.T) {
	d := Detector{ID: "many", Check: func(_ *Input, out *Output) {
		for _, c := range []Condition{
			{Subject: "young warning", Severity: metrics.SeverityWarning, Since: noon}, {Subject: "info", Severity: metrics.SeverityInfo, Since: noon.Add(-time.Hour)},
			{Subject: "critical", Severity: metrics.SeverityCritical, Since: noon}, {Subject: "old warning", Severity: metrics.SeverityWarning, Since: noon.Add(-time.Minute)},
		} {
			out.Raise(c)
		}
	}}
	active, _, _ := newEngine(metrics.Config{}, []Detector{d}).Eval(Input{Snap: &metrics.Snapshot{At: noon}})
	var got []string
	for _, f := range active {
		got = append(got, f.Subject)
	}
	if !slices.Equal(got, []string{"critical", "old warning", "young warning", "info"}) {
		t.Errorf("order %v", got)
	}
}

// A threshold of the configuration moves the moment at which a finding is raised.
func TestEngineThreshold(t *testing.T) {
	s := healthy()
	s.Servers[0].LastBatch, s.Servers[0].LastToken = noon.Add(-30*time.Second), noon.Add(-30*time.Second)
	s.Datasets[0].Grew = noon.Add(-30 * time.Second)
	for limit, want := range map[float64]bool{20: true, 60: false} {
		active, _, _ := New(metrics.Config{Thresholds: map[string]float64{"hung_s": limit}}).Eval(Input{Snap: s})
		if got := slices.ContainsFunc(active, func(f metrics.Finding) bool { return f.ID == "server-hung" }); got != want {
			t.Errorf("hung_s = %g: raised %v after 30 s", limit, got)
		}
	}
}

// What another host saves is an entry of what cannot be told, with what would.
func TestNothingSavedCannotBeTold(t *testing.T) {
	s := healthy()
	s.Datasets, s.Job = nil, metrics.Job{}
	s.Servers[0].Started = noon.Add(-time.Hour)
	s.Clients = []metrics.Client{{ID: "host:10.0.0.9", Host: "10.0.0.9", State: "remote"}}
	active, _, cannot := New(metrics.Config{}).Eval(Input{Snap: s})
	if slices.ContainsFunc(active, func(f metrics.Finding) bool { return f.ID == "nothing-saved" }) ||
		!slices.ContainsFunc(cannot, func(c metrics.CannotTell) bool { return c.What == "whether rows are saved" && c.Tell != "" }) {
		t.Errorf("raised %v, cannot tell %v", active, cannot)
	}
}

// A finding that was there before hours of which nothing is known, and is not now,
// has ended.
func TestEngineAfterAGap(t *testing.T) {
	c := &Condition{Subject: "x", Severity: metrics.SeverityWarning}
	e := newEngine(metrics.Config{}, one(Detector{Clear: 2 * time.Minute}, &c))
	eval := func(at time.Duration) int {
		active, _, _ := e.Eval(Input{Snap: &metrics.Snapshot{At: noon.Add(at)}})
		return len(active)
	}
	eval(0)
	c = nil
	if eval(time.Second) != 1 {
		t.Error("cleared at once")
	}
	c = &Condition{Subject: "x", Severity: metrics.SeverityWarning}
	eval(2 * time.Second)
	c = nil
	if eval(3*time.Hour) != 0 {
		t.Error("still there after three hours")
	}
}

// While the channel that a detector judges by does not answer, what it raised
// stays, and nothing is raised anew.
func TestEngineChannelIsStuck(t *testing.T) {
	subjects := []string{"old"}
	d := Detector{ID: "x", Channel: "files", Check: func(_ *Input, out *Output) {
		for _, s := range subjects {
			out.Raise(Condition{Subject: s, Severity: metrics.SeverityWarning})
		}
	}}
	e := newEngine(metrics.Config{}, []Detector{d})
	at := noon
	eval := func(state string) (got []string) {
		at = at.Add(time.Minute)
		active, _, _ := e.Eval(Input{Snap: &metrics.Snapshot{At: at, Channels: []metrics.Channel{{Name: "files", State: state, Broke: noon}}}})
		for _, f := range active {
			got = append(got, f.Subject)
		}
		return got
	}
	eval("ok")
	subjects = []string{"new"}
	if got := eval("stuck"); !slices.Equal(got, []string{"old"}) {
		t.Errorf("while it is stuck: %v", got)
	}
	if got := eval("ok"); !slices.Equal(got, []string{"new"}) {
		t.Errorf("when it answers again: %v", got)
	}
}
