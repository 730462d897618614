package findings

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

var noon = time.Date(2026, 2, 24, 12, 16, 7, 0, time.UTC)

func fig(v float64) metrics.Figure { return metrics.Known(v, noon, time.Second, "test") }

// healthy is the story ten minutes after it settled, with nothing wrong: the
// client is unbuffered and its log grows.
func healthy() *metrics.Snapshot {
	yes := true
	return &metrics.Snapshot{
		Node: "gpu7", At: noon, Link: metrics.Link{Status: metrics.LinkUp, LastData: noon},
		Servers: []metrics.Server{{
			ID: "1:1", Engine: "sglang", State: metrics.ServerServing, Argv: []string{"python", "-m", "sglang.launch_server", "--mem-fraction-static", "0.88"},
			Gen: metrics.GenRate{
				Now: fig(606), Settled: fig(604), Spread: fig(21), Since: noon.Add(-9 * time.Minute),
				Peak: fig(1317.32), PeakAt: noon.Add(-16 * time.Minute), PeakRunning: fig(121), PeakPerRequest: fig(1151),
				SettledRunning: fig(35), SettledPerRequest: fig(4426),
			},
			Running: fig(35), Queued: fig(115), PerRequest: fig(4426), Headroom: fig(5.47), Finished: fig(157),
			LastBatch: noon.Add(-2 * time.Second), LastToken: noon.Add(-2 * time.Second), Health: fig(200),
			Log: metrics.LogRef{Path: "/data/logs/sglang.log"},
		}},
		GPUs: []metrics.GPU{{Index: 0, MemTotal: fig(97887), MemUsed: fig(93388), MemLowest: fig(4500)}},
		Clients: []metrics.Client{{
			ID: "206570:1", PID: 206570, State: "running", Started: noon.Add(-19 * time.Minute), Argv: []string{"python3", "run_inference.py"},
			Python: true, Unbuffered: &yes, LogOwned: true, Datasets: []string{"/data/b2.jsonl"},
			Log: metrics.LogRef{Path: "/data/logs/client.log", Bytes: fig(4000), Mtime: noon.Add(-3 * time.Second)},
		}},
		Datasets: []metrics.Dataset{{
			Path: "/data/b2.jsonl", Rows: fig(1531), Landed: fig(157), Grew: noon.Add(-4 * time.Second), Gap: 7 * time.Second,
			Target: metrics.Target{Rows: 10000}, Writers: []int{206570},
		}},
		Job: metrics.Job{Rows: fig(11531), Target: metrics.Target{Rows: 88000}, Finished: fig(157), Landed: fig(157)},
	}
}

// backs are the ages at which a snapshot is judged before its own time, so that
// conditions have held for their duration.
var backs = []time.Duration{
	6 * time.Minute, 5 * time.Minute, 4 * time.Minute, 3 * time.Minute, 2 * time.Minute, 90 * time.Second,
	60 * time.Second, 45 * time.Second, 30 * time.Second, 20 * time.Second, 10 * time.Second, 0,
}

// judge gives the active findings of a snapshot that has been true for minutes.
func judge(t *testing.T, s *metrics.Snapshot) map[string]metrics.Finding {
	t.Helper()
	return judgeWith(t, New(s.Config), s)
}

func judgeWith(t *testing.T, e *Engine, s *metrics.Snapshot) map[string]metrics.Finding {
	t.Helper()
	return judgeFor(t, e, s, backs[0])
}

// judgeFor gives the active findings of a snapshot that has been true so long.
func judgeFor(t *testing.T, e *Engine, s *metrics.Snapshot, held time.Duration) map[string]metrics.Finding {
	t.Helper()
	var active []metrics.Finding
	for _, back := range backs {
		if back > held {
			continue
		}
		c := *s
		c.At = s.At.Add(-back)
		active, _, _ = e.Eval(Input{Snap: &c})
	}
	out := map[string]metrics.Finding{}
	for _, f := range active {
		if f.Title == "" || f.Subject == "" || f.Advice == "" || len(f.Evidence) == 0 {
			t.Errorf("%s is not said in full: %+v", f.ID, f)
		}
		if f.Cause != "" && !slices.Contains(e.detector(f.ID).Causes, f.Cause) {
			t.Errorf("%s names %s, which is none of its causes", f.ID, f.Cause)
		}
		out[f.ID] = f
	}
	return out
}

func TestHealthyIsQuiet(t *testing.T) {
	got := judge(t, healthy())
	for id, f := range got {
		if f.Severity > metrics.SeverityInfo {
			t.Errorf("%s is raised: %s", id, f.Title)
		}
	}
	if _, ok := got["settled"]; !ok || len(got) != 1 {
		t.Errorf("findings %v, want settled alone", got)
	}
}

// caseOf is a healthy snapshot with one thing spoilt, and what must be said of it.
type caseOf struct {
	name  string
	spoil func(s *metrics.Snapshot)
	id    string // "" : nothing beyond settled
	sev   metrics.Severity
	cause metrics.Cause
	says  []string // in title, why, advice or evidence
	also  []string // findings that come with it
}

func allCases() []caseOf {
	return slices.Concat(storyCases(), rowCases(), serverCases(), machineCases(), causeCases())
}

func storyCases() []caseOf {
	no := false
	rc := 137
	return []caseOf{
		{"settled", func(*metrics.Snapshot) {}, "settled", metrics.SeverityInfo, "", []string{"settled at 604 tok/s", "judge this start by this level"}, nil},
		{"buffered log", func(s *metrics.Snapshot) {
			s.Clients[0].Unbuffered = &no
			s.Clients[0].Log.Bytes, s.Clients[0].Log.Mtime = fig(0), noon.Add(-19*time.Minute)
			s.Clients[0].LogSilentSince = noon.Add(-19 * time.Minute)
		}, "client-log-silent", metrics.SeverityInfo, metrics.CauseClientBuffered, []string{"rows are safe", "python -u", "PYTHONUNBUFFERED", "157 rows landed"}, nil},
		{"empty log that nobody writes", func(s *metrics.Snapshot) {
			s.Clients[0].LogOwned = false
			s.Clients[0].Log.Bytes, s.Clients[0].Log.Mtime = fig(0), noon.Add(-19*time.Minute)
		}, "client-log-silent", metrics.SeverityWarning, "", []string{"writes elsewhere", "fd/1"}, nil},
		{"empty log before 20 rows", func(s *metrics.Snapshot) {
			s.Clients[0].Log.Bytes, s.Clients[0].Log.Mtime = fig(0), noon.Add(-19*time.Minute)
			s.Datasets[0].Landed = fig(19)
			s.Servers[0].Finished = fig(19)
		}, "", 0, "", nil, nil},
		{"buffered log on a first visit", func(s *metrics.Snapshot) {
			s.Clients[0].Unbuffered = &no
			s.Clients[0].Log.Bytes, s.Clients[0].Log.Mtime = fig(0), noon.Add(-19*time.Minute)
			s.Servers[0].Started = noon.Add(-21 * time.Minute)
			s.Datasets[0].Landed = fig(2)
		}, "client-log-silent", metrics.SeverityInfo, metrics.CauseClientBuffered, []string{"157 requests finished and rows land"}, nil},
		{"empty log beside a server that is much older", func(s *metrics.Snapshot) {
			s.Clients[0].Log.Bytes, s.Clients[0].Log.Mtime = fig(0), noon.Add(-19*time.Minute)
			s.Servers[0].Started = noon.Add(-10 * time.Hour)
			s.Datasets[0].Landed = fig(2)
		}, "", 0, "", nil, nil},
		{"rows stalled", func(s *metrics.Snapshot) {
			s.Datasets[0].Grew = noon.Add(-3 * time.Minute)
			s.Job.Finished = fig(190)
			s.Job.Landed = fig(157)
		}, "rows-stalled", metrics.SeverityCritical, metrics.CauseRequestsLost, []string{"190 requests finished, 157 rows landed", "state running, 0 connections to the server", "py-spy dump --pid 206570"}, nil},
		{"rows stalled since the disk is full", func(s *metrics.Snapshot) {
			s.Datasets[0].Grew = noon.Add(-3 * time.Minute)
			s.Job.Finished = fig(190)
			s.Sys.Disks = []metrics.Disk{{Mount: "/data", Avail: fig(0), Paths: []string{"/data"}}} // the probe asks for the folders of rows
		}, "rows-stalled", metrics.SeverityCritical, metrics.CauseDiskFull, []string{"free space on /data"}, []string{"disk-filling"}},
		{"no rows in the ramp", func(s *metrics.Snapshot) {
			s.Datasets[0].Grew = noon.Add(-3 * time.Minute)
			s.Job.Finished = fig(190)
			s.Servers[0].Gen.Ramp = true
			s.Servers[0].Gen.Settled = metrics.Figure{}
		}, "", 0, "", nil, nil},
		{"a quiet minute while nothing finishes", func(s *metrics.Snapshot) {
			s.Datasets[0].Grew = noon.Add(-3 * time.Minute)
		}, "", 0, "", nil, nil},
		{"client gone", func(s *metrics.Snapshot) {
			s.Clients[0].State, s.Clients[0].Since = "gone", noon.Add(-6*time.Minute)
			s.Clients[0].LastLine = "Traceback"
		}, "client-gone", metrics.SeverityCritical, metrics.CauseKilledUnknown, []string{"run_inference.py 206570 is gone for 6 m", "11,531 of 88,000", "Traceback"}, nil},
		{"client gone before we came", func(s *metrics.Snapshot) {
			s.Clients = nil
			s.Servers[0].State, s.Servers[0].Since = metrics.ServerIdle, noon.Add(-5*time.Minute)
			s.Datasets[0].Grew = noon.Add(-6 * time.Minute)
			s.Datasets[0].Writers = nil
		}, "client-gone", metrics.SeverityCritical, metrics.CauseKilledUnknown, []string{"gone for 6 m"}, nil},
		{"idle without a target", func(s *metrics.Snapshot) {
			s.Clients = nil
			s.Servers[0].State, s.Servers[0].Since = metrics.ServerIdle, noon.Add(-5*time.Minute)
			s.Job.Target, s.Datasets[0].Target = metrics.Target{}, metrics.Target{}
		}, "", 0, "", nil, nil},
		{"done", func(s *metrics.Snapshot) {
			s.Job.Done = true
			s.Clients[0].State = "gone"
			s.Servers[0].State = metrics.ServerIdle
		}, "job-done", metrics.SeverityInfo, "", []string{"1 GPUs idle", "stop the server, or give it the next job"}, nil},
		{"server killed", func(s *metrics.Snapshot) {
			s.Servers[0].State, s.Servers[0].Ended, s.Servers[0].ExitCode = metrics.ServerDown, noon.Add(-5*time.Minute), &rc
			s.GPUs[0].MemUsed = fig(0)
		}, "server-down", metrics.SeverityCritical, metrics.CauseKilledUnknown, []string{"killed, nothing says by whom", "still runs and gets no answers", "exit status 137"}, nil},
		{"a restart of ours under way", func(s *metrics.Snapshot) {
			s.Servers[0].State, s.Servers[0].Ended = metrics.ServerDown, noon.Add(-20*time.Second)
			s.GPUs[0].MemUsed = fig(0)
			s.Events = []metrics.Event{
				{At: noon.Add(-40 * time.Second), Kind: "restart", Ref: "r1", Text: "1772 begin id=r1"},
				{At: noon.Add(-10 * time.Second), Kind: "restart", Ref: "r1", Text: "1772 port-free port=8000"},
			}
		}, "server-down", metrics.SeverityInfo, metrics.CauseStopped, []string{"being restarted since", "goes on whatever the link does"}, nil},
		{"a restart of ours that asked it to stop", func(s *metrics.Snapshot) {
			v := &s.Servers[0]
			v.State, v.Ended = metrics.ServerDown, noon.Add(-20*time.Second)
			v.Causes = []metrics.CauseFact{{Class: metrics.CauseStopped, Detail: "SIGTERM received", Line: "SIGTERM received", Primary: true, At: noon.Add(-35 * time.Second)}}
			s.GPUs[0].MemUsed = fig(0)
			s.Events = []metrics.Event{{At: noon.Add(-40 * time.Second), Kind: "restart", Ref: "r1", Text: "1772 begin id=r1"}}
		}, "server-down", metrics.SeverityInfo, metrics.CauseStopped, []string{"being restarted since"}, nil},
		{"a restart of ours that ended without a server", func(s *metrics.Snapshot) {
			s.Servers[0].State, s.Servers[0].Ended = metrics.ServerDown, noon.Add(-20*time.Second)
			s.GPUs[0].MemUsed = fig(0)
			s.Events = []metrics.Event{{At: noon.Add(-10 * time.Second), Kind: "restart", Ref: "r1", Text: "1772 end state=failed"}}
		}, "server-down", metrics.SeverityCritical, metrics.CauseKilledUnknown, []string{"killed, nothing says by whom"}, nil},
		{"server out of memory in prefill", func(s *metrics.Snapshot) {
			s.Servers[0].State, s.Servers[0].Ended = metrics.ServerDown, noon.Add(-time.Minute)
			s.Servers[0].Headroom = fig(0.82)
			s.Servers[0].Argv = []string{"--mem-fraction-static", "0.93"}
			s.Servers[0].Causes = []metrics.CauseFact{
				{Class: metrics.CausePeerRankLost}, {Class: metrics.CauseCUDAOOM, Phase: "prefill", Rank: "TP3", Line: "torch.OutOfMemoryError", LineNo: 4711, Primary: true},
			}
		}, "server-oom", metrics.SeverityCritical, metrics.CauseCUDAOOM, []string{"out of GPU memory in prefill (TP3)", "below 0.93", "0.82 GiB", "line 4,711"}, nil},
		{"weights leave no room", func(s *metrics.Snapshot) {
			s.Servers[0].State = metrics.ServerDown
			s.Servers[0].Causes = []metrics.CauseFact{{Class: metrics.CauseStartupNoKVMemory, Primary: true}}
			s.GPUs[0].MemUsed = fig(0)
		}, "server-oom", metrics.SeverityCritical, metrics.CauseStartupNoKVMemory, []string{"raise --mem-fraction-static above 0.88"}, nil},
		{"a crash that was replaced", func(s *metrics.Snapshot) {
			old := s.Servers[0]
			old.ID, old.State, old.Ended = "0:0", metrics.ServerDown, noon.Add(-time.Hour)
			s.Servers = append(s.Servers, old)
		}, "", 0, "", nil, nil},
		{"hung", func(s *metrics.Snapshot) {
			s.Datasets[0].Grew = noon.Add(-3 * time.Minute)
			s.Servers[0].LastBatch, s.Servers[0].LastToken = noon.Add(-3*time.Minute), noon.Add(-3*time.Minute)
		}, "server-hung", metrics.SeverityCritical, metrics.CauseServerHung, []string{"35 running, no token for 3 m", "/health answers 200, which proves nothing", "py-spy"}, nil},
		{"a long prefill", func(s *metrics.Snapshot) {
			s.Servers[0].LastBatch, s.Servers[0].LastToken = noon.Add(-44*time.Second), noon.Add(-44*time.Second)
		}, "", 0, "", nil, nil},
		{"compiling", func(s *metrics.Snapshot) {
			s.Servers[0].LastBatch, s.Servers[0].LastToken = noon.Add(-3*time.Minute), noon.Add(-3*time.Minute)
			s.Servers[0].Causes = []metrics.CauseFact{{Class: metrics.CauseJITCompiling}}
		}, "", 0, "", nil, nil},
		{"little headroom", func(s *metrics.Snapshot) { s.Servers[0].Headroom = fig(4.2) },
			"headroom-low", metrics.SeverityWarning, "", []string{"4.20 GiB", "from 0.88 to 0.87", "--chunked-prefill-size to 4096"}, nil},
		{"nearly no headroom", func(s *metrics.Snapshot) { s.Servers[0].Headroom = fig(0.82) },
			"headroom-low", metrics.SeverityCritical, "", []string{"0.82 GiB", "from 0.88 to 0.83"}, nil},
		{"little headroom that held", func(s *metrics.Snapshot) {
			s.Servers[0].Headroom = fig(0.82)
			s.Servers[0].FullPrefills = fig(2400)
		}, "headroom-low", metrics.SeverityWarning, "", nil, nil},
		{"some headroom that held", func(s *metrics.Snapshot) {
			s.Servers[0].Headroom, s.Servers[0].FullPrefills = fig(4.2), fig(2400)
		}, "headroom-low", metrics.SeverityInfo, "", []string{"2,400 full prefills held", "lowest since ready"}, nil},
		{"little headroom on small cards", func(s *metrics.Snapshot) {
			s.Servers[0].Headroom = fig(2)
			s.GPUs[0].MemTotal = fig(24576)
		}, "", 0, "", nil, nil},
		{"GPU lost", func(s *metrics.Snapshot) { s.GPUs[0].Lost = "GPU is lost" },
			"gpu-lost", metrics.SeverityCritical, metrics.CauseGPULost, []string{"GPU 0 is lost", "nvidia-smi -r -i 0"}, nil},
		{"the tool fails on a lost GPU", func(s *metrics.Snapshot) {
			s.GPUs = nil
			s.GPUTool = metrics.GPUTool{State: "failed", Cause: metrics.CauseGPULost, Text: "Unable to determine the device handle"}
		}, "gpu-lost", metrics.SeverityCritical, metrics.CauseGPULost, []string{"device handle"}, nil},
		{"link down", func(s *metrics.Snapshot) {
			s.Link = metrics.Link{Status: metrics.LinkDown, Since: noon.Add(-time.Minute), Reason: "this machine slept 7 h", LastData: noon.Add(-time.Minute)}
		}, "link-down", metrics.SeverityCritical, "", []string{"slept 7 h", "1 m ago", "reconnecting by itself"}, nil},
		{"a first connect", func(s *metrics.Snapshot) {
			s.Link = metrics.Link{Status: metrics.LinkConnecting, Since: noon.Add(-time.Minute)}
		}, "", 0, "", nil, nil},
	}
}

// TestDetectors asserts of every detector that it is raised, with each cause that
// it can name and with advice for each, and that what was raised is cleared.
func TestDetectors(t *testing.T) {
	type reach struct {
		id    string
		cause metrics.Cause
	}
	raised, advised := map[reach]bool{}, map[reach]bool{}
	for _, c := range allCases() {
		t.Run(c.name, func(t *testing.T) {
			s := healthy()
			c.spoil(s)
			e := New(s.Config)
			got := judgeWith(t, e, s)
			if c.id != "settled" {
				delete(got, "settled")
			}
			for _, id := range c.also {
				if _, ok := got[id]; !ok {
					t.Errorf("%s is not raised", id)
				}
				delete(got, id)
			}
			if c.id == "" {
				if len(got) != 0 {
					t.Errorf("raised %v", got)
				}
				return
			}
			f, ok := got[c.id]
			if !ok || len(got) != 1 {
				t.Fatalf("findings %v, want %s alone", got, c.id)
			}
			if f.Severity != c.sev || f.Cause != c.cause {
				t.Errorf("severity %s cause %q, want %s %q", f.Severity, f.Cause, c.sev, c.cause)
			}
			raised[reach{c.id, c.cause}] = true
			all := []string{f.Title, f.Why, f.Advice}
			for _, e := range f.Evidence {
				all = append(all, e.Text, e.Source)
			}
			for _, want := range c.says {
				if !strings.Contains(strings.Join(all, "\n"), want) {
					t.Errorf("says nothing of %q:\n%s", want, strings.Join(all, "\n"))
				}
				if strings.Contains(f.Advice, want) {
					advised[reach{c.id, c.cause}] = true
				}
			}
			clears(t, e, s, c.id)
		})
	}
	for _, d := range Registry() {
		if len(d.Causes) == 0 && !raised[reach{d.ID, ""}] {
			t.Errorf("no case raises %s", d.ID)
		}
		for _, cause := range d.Causes {
			if !raised[reach{d.ID, cause}] {
				t.Errorf("no case raises %s with cause %s", d.ID, cause)
			}
		}
	}
	for r := range raised {
		if !advised[r] {
			t.Errorf("no case of %s with cause %q asserts its advice", r.id, r.cause)
		}
	}
}

func TestSettledTellsTheRamp(t *testing.T) {
	f := judge(t, healthy())["settled"]
	if want := "settled at 604 tok/s since 12:07; 1,317 was the ramp"; f.Title != want {
		t.Errorf("title %q, want %q", f.Title, want)
	}
	if want := "requests grew from 1,151 to 4,426 tokens each, so 35 run where 121 did"; f.Why != want {
		t.Errorf("why %q, want %q", f.Why, want)
	}
}

// The level keeps its own figures when the work has ended.
func TestSettledOfAnIdleServer(t *testing.T) {
	s := healthy()
	v := &s.Servers[0]
	v.State, v.Running, v.Queued, v.PerRequest = metrics.ServerIdle, fig(0), fig(0), metrics.Figure{}
	f := judge(t, s)["settled"]
	if !strings.Contains(f.Why, "to 4,426 tokens each, so 35 run where 121 did") || !strings.Contains(f.Advice, "while it worked") {
		t.Errorf("why %q, advice %q", f.Why, f.Advice)
	}
}

// Every class of cause has words of its own where its name is no sentence's part.
func TestCauseWords(t *testing.T) {
	for _, c := range metrics.Causes() {
		if c.Side == metrics.SideServer && wordsOf[c.Cause] == "" && strings.Contains(string(c.Cause), "-") &&
			!slices.Contains([]metrics.Cause{metrics.CauseKVThrashing, metrics.CauseJITCompiling, metrics.CauseRepetition}, c.Cause) {
			t.Errorf("%s has no words for a title", c.Cause)
		}
	}
	if got := causeWords(metrics.CauseFact{Class: metrics.CauseKilledUnknown, Detail: "the node was restarted"}); got != "the node was restarted" {
		t.Errorf("a node that was restarted: %q", got)
	}
}

// Two clients that write one log are one silent log.
func TestOneFindingALog(t *testing.T) {
	s := healthy()
	s.Clients[0].Log.Bytes, s.Clients[0].Log.Mtime = fig(0), noon.Add(-19*time.Minute)
	s.Clients = append(s.Clients, s.Clients[0])
	s.Clients[1].ID, s.Clients[1].PID, s.Clients[1].Argv = "9:9", 9, []string{"python3", "other.py"}
	active, _, _ := New(s.Config).Eval(Input{Snap: s})
	n := 0
	for _, f := range active {
		if f.ID == "client-log-silent" {
			n++
		}
	}
	if n != 1 {
		t.Errorf("one log is told %d times: %v", n, active)
	}
}

func TestSettledIsShownForHalfAnHour(t *testing.T) {
	e := New(metrics.Config{})
	s := healthy()
	e.Eval(Input{Snap: s})
	later := *s
	later.At = noon.Add(31 * time.Minute)
	later.Link.LastData = later.At
	later.Servers[0].LastBatch, later.Servers[0].LastToken = later.At, later.At
	active, _, _ := e.Eval(Input{Snap: &later})
	for _, f := range active {
		if f.ID == "settled" {
			t.Error("settled is still shown after 31 minutes")
		}
	}
}

func TestEveryDetectorIsDocumented(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range Registry() {
		if seen[d.ID] {
			t.Errorf("%s is registered twice", d.ID)
		}
		seen[d.ID] = true
		if d.Means == "" || d.Needs == "" || d.When == "" || d.Do == "" || d.Check == nil {
			t.Errorf("%s is not documented in full", d.ID)
		}
	}
}

// clears checks that one moment without the condition neither ends the finding
// nor raises it anew, and that it ends for good once all is well.
func clears(t *testing.T, e *Engine, spoilt *metrics.Snapshot, id string) {
	t.Helper()
	at := spoilt.At
	well := healthy()
	if id == "settled" {
		well.Servers[0].Gen.Settled = metrics.Figure{} // another start ramps up
	}
	var history []metrics.Finding
	eval := func(s *metrics.Snapshot, after time.Duration) *metrics.Finding {
		c := *s
		c.At = at.Add(after)
		c.Link.LastData = c.At
		if len(c.Servers) > 0 && s != spoilt {
			c.Servers = slices.Clone(c.Servers)
			c.Servers[0].LastBatch, c.Servers[0].LastToken = c.At, c.At
		}
		var active []metrics.Finding
		active, history, _ = e.Eval(Input{Snap: &c})
		for i := range active {
			if active[i].ID == id {
				return &active[i]
			}
		}
		return nil
	}
	if d := e.detector(id); d.Clear > time.Second {
		eval(well, time.Second)
		f := eval(spoilt, 2*time.Second)
		if f == nil || len(f.Changed) != 1 || f.Changed[0].What != "raised" {
			t.Errorf("one good moment changes it: %+v", f)
		}
	}
	for d := 3 * time.Second; d < 12*time.Minute; d += 10 * time.Second {
		if eval(well, d) != nil {
			continue
		}
		i := slices.IndexFunc(history, func(f metrics.Finding) bool { return f.ID == id })
		if i < 0 || history[i].Cleared.IsZero() || history[i].Changed[len(history[i].Changed)-1].What != "cleared" {
			t.Errorf("its end is not told: %+v", history)
		}
		return
	}
	t.Errorf("%s is still there when all has been well for 12 minutes", id)
}

// What was found is drawn beside its evidence, also where its detector names no curve.
func TestEveryKnownSubjectHasAGraph(t *testing.T) {
	in := Input{Snap: &metrics.Snapshot{
		Servers: []metrics.Server{{ID: "1:2"}}, Clients: []metrics.Client{{ID: "3:4"}}, Datasets: []metrics.Dataset{{Path: "/data/b2.jsonl"}},
	}}
	for subject, want := range map[string]metrics.SeriesKey{
		"1:2": {What: metrics.SeriesGenTPS, Of: "1:2"}, "3:4": {What: metrics.SeriesRowRate}, "/data/b2.jsonl": {What: metrics.SeriesRowRate, Of: "/data/b2.jsonl"}, "node": {},
	} {
		if got := in.graphOf(subject); got != want {
			t.Errorf("%s: %+v, want %+v", subject, got, want)
		}
	}
}
