package board

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runvigil/runvigil/metrics"
)

func within(t *testing.T, what string, f metrics.Figure, lo, hi float64) {
	t.Helper()
	if !f.Known || f.V < lo || f.V > hi {
		t.Errorf("%s = %v (known %v), want %v to %v", what, f.V, f.Known, lo, hi)
	}
}

// The story, nineteen minutes in, seen for the first time.
func TestStory(t *testing.T) {
	s, snap := visit(t, "story", 6*time.Second)
	v := snap.Server()
	if v == nil || v.State != metrics.ServerServing || v.Port != 8000 || v.TP != 8 || v.Model != "Kimi-K2.5" || v.Version != "0.5.9" {
		t.Fatalf("server: %s", show(snap))
	}
	within(t, "gen now", v.Gen.Now, 540, 670)
	within(t, "settled", v.Gen.Settled, 590, 620)
	within(t, "peak", v.Gen.Peak, 1250, 1400)
	within(t, "peak running", v.Gen.PeakRunning, 115, 130)
	within(t, "running", v.Running, 30, 40)
	within(t, "in flight", v.InFlight, 150, 150)
	within(t, "tokens a request", v.PerRequest, 3900, 5200)
	within(t, "fit", v.RequestsFit, 30, 40)
	within(t, "capacity", v.Capacity, 159277, 159277)
	within(t, "headroom", v.Headroom, 5.47, 5.47)
	within(t, "host cache", v.HiCache.HostGB, 384, 384)
	within(t, "step at 35", metrics.Known(v.Step.TPS(35), snap.At, 0, ""), 580, 640)
	if v.Gen.Ramp || v.FitTooEarly {
		t.Errorf("settled, but ramp %v, too early %v", v.Gen.Ramp, v.FitTooEarly)
	}
	if d := s.node.Client().Started; v.Gen.Since.Sub(d) < 5*time.Minute || v.Gen.Since.Sub(d) > 12*time.Minute {
		t.Errorf("settled since %s, the client began at %s", v.Gen.Since, d)
	}
	j := snap.Job
	within(t, "rows a minute", j.PerMin, 7.5, 11.5)
	if !j.Finished.Known || !j.Landed.Known || math.Abs(j.Finished.V-j.Landed.V) > 2 || j.Landed.V < 100 {
		t.Errorf("finished %v, landed %v since %s", j.Finished, j.Landed, j.Since)
	}
	if !j.ETA.Known || j.ETA.Spread <= 0 || j.ETA.At.Sub(snap.At) < 4*24*time.Hour {
		t.Errorf("job ETA %+v", j.ETA)
	}
	if len(snap.Datasets) != 2 || snap.Datasets[0].Name != "B2_opencodeinstruct" || snap.Datasets[1].Done.IsZero() {
		t.Errorf("datasets: %s", show(snap))
	}
	if len(snap.Clients) != 1 || snap.Clients[0].Log.Bytes.V != 0 || snap.Clients[0].Unbuffered == nil || *snap.Clients[0].Unbuffered {
		t.Errorf("clients: %s", show(snap))
	}
	if w := snap.Verdict; w.Word != metrics.WordOK || !strings.Contains(w.Text, "rows land") || !strings.Contains(w.Text, "is settled") || !strings.Contains(w.Text, "was the ramp") {
		t.Errorf("verdict %+v", w)
	}
	for _, kind := range []string{"start", "ready", "client", "settled"} {
		if !slices.ContainsFunc(snap.Events, func(e metrics.Event) bool { return e.Kind == kind }) {
			t.Errorf("no %s event: %s", kind, show(snap))
		}
	}
	if !slices.IsSortedFunc(snap.Events, func(a, b metrics.Event) int { return a.At.Compare(b.At) }) {
		t.Error("events out of order")
	}
	// The screen has the time before the visit at once.
	for _, k := range []metrics.SeriesKey{{What: metrics.SeriesGenTPS, Of: v.ID}, {What: metrics.SeriesRowRate}} {
		n := 0
		for _, b := range snap.Series[k].Columns(snap.At, time.Hour, 60) {
			if b.N > 0 {
				n++
			}
		}
		if n < 15 {
			t.Errorf("series %v covers %d of the last minutes, want 15 or more", k, n)
		}
	}
}

func TestRampIsNotSettled(t *testing.T) {
	_, snap := visit(t, "ramp", 6*time.Second)
	v := snap.Server()
	if !v.Gen.Ramp || v.Gen.Settled.Known || !v.FitTooEarly || v.RequestsFit.Known {
		t.Errorf("ramp: %+v, fit %+v", v.Gen, v.RequestsFit)
	}
	within(t, "gen now", v.Gen.Now, 1200, 1400)
	if snap.Job.ETA.Known || !strings.Contains(snap.Job.ETA.Held, "of the first ") {
		t.Errorf("ETA in the ramp: %+v", snap.Job.ETA)
	}
	if !strings.Contains(snap.Verdict.Text, "not settled") {
		t.Errorf("verdict %q", snap.Verdict.Text)
	}
}

// Each scenario ends in the word, the finding and the cause that belong to it.
func TestScenarios(t *testing.T) {
	for _, c := range []struct {
		scenario, word, id string
		cause              metrics.Cause
		state              metrics.ServerState
	}{
		{"healthy", metrics.WordOK, "settled", "", metrics.ServerServing},
		{"idle", metrics.WordOK, "job-done", "", metrics.ServerIdle},
		{"loading", metrics.WordOK, "", "", metrics.ServerStarting},
		{"oom", metrics.WordCrit, "server-oom", metrics.CauseCUDAOOM, metrics.ServerDown},
		{"hang", metrics.WordCrit, "server-hung", metrics.CauseServerHung, metrics.ServerHung},
		{"client-dead", metrics.WordCrit, "client-gone", metrics.CauseKilledUnknown, metrics.ServerIdle},
		{"no-server", metrics.WordCrit, "server-down", metrics.CauseKilledUnknown, metrics.ServerDown},
		{"gpu-lost", metrics.WordCrit, "gpu-lost", metrics.CauseGPULost, ""},
	} {
		t.Run(c.scenario, func(t *testing.T) {
			_, snap := visit(t, c.scenario, 8*time.Second)
			if c.scenario == "healthy" && (len(snap.Doing) < 2 || !strings.Contains(snap.Doing[0], "found SGLang on port") || !strings.Contains(snap.Doing[0], ".log") || snap.Doing[1] != "found 1 client and 2 datasets") {
				t.Errorf("what was found: %q", snap.Doing)
			}
			if e := snap.Job.ETA; c.scenario == "no-server" && (e.Known || e.Held != "no server runs") {
				t.Errorf("ETA without a server: %+v", e)
			}
			if snap.Verdict.Word != c.word {
				t.Errorf("verdict %s %s, want %s", snap.Verdict.Word, snap.Verdict.Text, c.word)
			}
			i := slices.IndexFunc(snap.Findings, func(f metrics.Finding) bool { return f.ID == c.id })
			switch {
			case c.id == "":
			case i < 0:
				t.Errorf("no finding %s: %s", c.id, show(snap))
			case snap.Findings[i].Cause != c.cause:
				t.Errorf("cause %q, want %q", snap.Findings[i].Cause, c.cause)
			}
			if v := snap.Server(); c.state != "" && (v == nil || v.State != c.state) {
				t.Errorf("state %v, want %s: %s", v, c.state, show(snap))
			}
		})
	}
}

// What was given away does not change, and the same frames give the same again.
func TestReplayEqualsLive(t *testing.T) {
	s := newSim(t, "ramp")
	s.run(40 * time.Second)
	early, n := s.b.Snapshot(), len(s.frames)
	s.run(40 * time.Second)
	late := s.b.Snapshot()
	again := New()
	for i, f := range s.frames {
		if i == n {
			if d := cmp.Diff(again.Snapshot(), early); d != "" {
				t.Fatalf("the early snapshot changed after it was given away: %s", d)
			}
		}
		again.Apply(f)
	}
	if d := cmp.Diff(again.Snapshot(), late); d != "" {
		t.Fatalf("replay differs from live: %s", d)
	}
	if d := cmp.Diff(again.Wants(), s.b.Wants()); d != "" {
		t.Fatalf("wants differ: %s", d)
	}
	if a, b := again.Snapshot(), again.Snapshot(); a != b {
		t.Error("two snapshots without a frame in between")
	}
}

// No figure of any scenario is NaN or infinite, and none is known without a time.
func TestFiguresAreFinite(t *testing.T) {
	for _, sc := range []string{"story", "ramp", "oom", "loading", "gpu-lost", "no-server"} {
		_, snap := visit(t, sc, 5*time.Second)
		walk(t, sc, reflect.ValueOf(*snap))
	}
}

func walk(t *testing.T, where string, v reflect.Value) {
	if f, ok := v.Interface().(metrics.Figure); ok && f.Known && f.At.IsZero() {
		t.Errorf("%s is known and has no time", where)
	}
	switch v.Kind() {
	case reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			t.Errorf("%s = %v", where, f)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				walk(t, where+"."+f.Name, v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			walk(t, where+"[]", v.Index(i))
		}
	case reflect.Pointer:
		if _, series := v.Interface().(*metrics.Series); !v.IsNil() && !series {
			walk(t, where, v.Elem())
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			walk(t, where+"{}", v.MapIndex(k))
		}
	}
}

// While the link is down everything stays and grows old; nothing is called hung.
func TestLinkDown(t *testing.T) {
	s, before := visit(t, "story", 30*time.Second)
	s.down = true
	s.apply(metrics.JSONFrame(metrics.KindLink, "", s.at, metrics.LinkFact{Status: metrics.LinkDown, Reason: "this machine slept 7 h"}))
	s.run(5 * time.Minute)
	snap := s.b.Snapshot()
	if got := snap.At.Sub(before.At); got < 5*time.Minute {
		t.Errorf("the snapshot's time moved %s", got)
	}
	v := snap.Server()
	if v == nil || v.State != metrics.ServerServing || !v.Gen.Now.Known || !v.Gen.Now.Stale(snap.At) {
		t.Errorf("server while the link is down: %s", show(snap))
	}
	if snap.Verdict.Word != metrics.WordDown || !strings.Contains(snap.Verdict.Text, "slept 7 h") {
		t.Errorf("verdict %+v", snap.Verdict)
	}
	if slices.ContainsFunc(snap.Findings, func(f metrics.Finding) bool { return f.ID == "server-hung" || f.ID == "rows-stalled" }) {
		t.Errorf("findings from silence of the link: %s", show(snap))
	}
	s.down = false
	s.apply(metrics.JSONFrame(metrics.KindLink, "", s.at, metrics.LinkFact{Status: metrics.LinkUp}))
	for range 40 {
		s.run(time.Second)
		if snap := s.b.Snapshot(); snap.Server().State != metrics.ServerServing || snap.Verdict.Word != metrics.WordOK && snap.Link.Status == metrics.LinkUp && snap.At.Sub(snap.Link.Since) > 10*time.Second {
			t.Fatalf("after the link came back: %s", show(snap))
		}
	}
	if v := s.b.Snapshot().Server(); v.Gen.Now.Stale(s.b.Snapshot().At) || v.Gen.Since != before.Server().Gen.Since {
		t.Errorf("the level did not survive the gap: %+v", v.Gen)
	}
}

// A log whose stamps are in another zone than the node's is placed by its growth.
func TestLogInAnotherZone(t *testing.T) {
	s := newSim(t, "story")
	s.run(time.Second)
	session := metrics.Session{
		Node: "demo", BootID: s.node.Host().BootID, Zone: "UTC", HZ: 100,
		Now: s.node.Now(), UptimeS: s.node.Now().Sub(s.node.Host().BootAt).Seconds(),
	}
	s.apply(metrics.JSONFrame(metrics.KindSession, "", s.at, session))
	s.run(10 * time.Second)
	snap := s.b.Snapshot()
	if age := snap.At.Sub(snap.Server().LastBatch); age < -2*time.Second || age > time.Minute {
		t.Errorf("last batch is %s old: the zone was not derived", age)
	}
	if snap.Server().StartNo != 5 || len(snap.Starts) != 5 {
		t.Errorf("starts: %s", show(snap))
	}
}

// Hours of a healthy run, and of an idle server, raise nothing above info and
// keep memory flat.
func TestHoursOfHealth(t *testing.T) {
	for _, sc := range []string{"healthy", "idle"} {
		s := newSim(t, sc)
		worst := metrics.SeverityNone
		for range 15 {
			s.run(time.Minute)
			s.frames = nil
			for _, f := range s.b.Snapshot().Findings {
				if f.Severity > worst {
					worst = f.Severity
					t.Logf("%s: %s %s", sc, f.ID, f.Title)
				}
			}
		}
		if worst > metrics.SeverityInfo {
			t.Errorf("%s raised a %s: %s", sc, worst, show(s.b.Snapshot()))
		}
	}
}

// How often somebody looks changes nothing, whatever happened on the node.
func TestLookingChangesNothing(t *testing.T) {
	for _, sc := range []string{"story", "oom", "hang", "client-dead", "no-server", "gpu-lost", "idle"} {
		s := newSim(t, sc)
		s.run(12 * time.Second)
		again := New()
		for _, f := range s.frames {
			again.Apply(f)
			again.Snapshot()
			again.Wants()
		}
		if d := cmp.Diff(again.Snapshot(), s.b.Snapshot()); d != "" {
			t.Errorf("%s: %s", sc, d)
		}
	}
}
