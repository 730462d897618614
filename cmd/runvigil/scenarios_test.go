package main

import (
	"slices"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/board"
	"github.com/runvigil/runvigil/metrics/report"
	"github.com/runvigil/runvigil/remote/simnode/frames"
	"github.com/runvigil/runvigil/remote/simnode/model"
)

// scenarios is what `check` must say of each state of the simulated node: its
// exit code, a finding that must be there, and that finding's cause.
var scenarios = []struct {
	name    string
	exit    int
	finding string
	cause   metrics.Cause
}{
	{"story", 0, "settled", ""},
	{"story", 0, "client-log-silent", metrics.CauseClientBuffered},
	{"ramp", 0, "client-log-silent", metrics.CauseClientBuffered},
	{"healthy", 0, "settled", ""},
	{"idle", 0, "job-done", ""},
	{"loading", 0, "", ""},
	{"oom", 2, "server-oom", metrics.CauseCUDAOOM},
	{"hang", 2, "server-hung", metrics.CauseServerHung},
	{"client-dead", 2, "client-gone", metrics.CauseKilledUnknown},
	{"no-server", 2, "server-down", metrics.CauseKilledUnknown},
	{"gpu-lost", 2, "gpu-lost", metrics.CauseGPULost},
	{"gpu-held", 2, "gpu-memory-held", metrics.CauseGPUMemoryHeld},
	{"gpu-held", 2, "server-down", metrics.CauseStartupGPUOccupied},
	{"client-twice", 2, "client-twice", metrics.CauseRowsDuplicate},
	{"work-lost", 1, "work-lost", metrics.CauseClientTimeouts},
	{"vllm", 0, "settled", ""},
	{"vllm-hang", 2, "server-hung", metrics.CauseServerHung},
	{"vllm-oom", 2, "server-oom", metrics.CauseCUDAOOM},
}

// lookAt visits a scenario in virtual time as `check` does, for a while; within it
// every want must have an answer, or check would wait for its limit.
func lookAt(t *testing.T, name string) *metrics.Snapshot {
	t.Helper()
	sc, err := model.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	src := frames.New(sc, time.Date(2026, 2, 24, 11, 16, 7, 0, time.UTC))
	b := board.New()
	seen := newFirstLook()
	at := time.Time{}
	apply := func(frames []metrics.Frame) {
		for _, f := range frames {
			b.Apply(f)
			seen.see(f)
			at = f.At
		}
		seen.want(b.Wants(), at)
	}
	apply(src.Opening())
	for range 10 {
		apply(src.Next(b.Wants()))
	}
	s := b.Snapshot()
	// An endpoint that hangs is answered for when its time is over; /health has 20 s.
	for end := at.Add(25 * time.Second); !seen.complete(at.Add(settleFor)); apply(src.Next(b.Wants())) {
		if at.After(end) {
			t.Errorf("%s: never answered: %v", name, seen.pending)
			break
		}
	}
	return s
}

func TestScenarios(t *testing.T) {
	for _, sc := range scenarios {
		t.Run(sc.name+" "+sc.finding, func(t *testing.T) {
			s := lookAt(t, sc.name)
			if got := report.ExitCode(s); got != sc.exit {
				t.Errorf("exit code %d, want %d\n%s", got, sc.exit, report.Glance(s))
			}
			if sc.finding == "" {
				return
			}
			i := slices.IndexFunc(s.Findings, func(f metrics.Finding) bool { return f.ID == sc.finding })
			if i < 0 {
				t.Fatalf("%s is not raised\n%s", sc.finding, report.Glance(s))
			}
			if f := s.Findings[i]; f.Cause != sc.cause {
				t.Errorf("%s has cause %q, want %q: %s", f.ID, f.Cause, sc.cause, f.Title)
			}
		})
	}
}

// The story at the moment of the sketch, and two minutes after the client's start.
func TestStoryFigures(t *testing.T) {
	near := func(what string, got metrics.Figure, low, high float64) {
		t.Helper()
		if !got.Known || got.V < low || got.V > high {
			t.Errorf("%s is %v (known %v), want %g to %g", what, got.V, got.Known, low, high)
		}
	}
	s := lookAt(t, "story")
	v := s.Server()
	if v == nil {
		t.Fatal("no server")
	}
	near("tok/s now", v.Gen.Now, 540, 670)
	near("settled", v.Gen.Settled, 590, 620)
	near("peak", v.Gen.Peak, 1317.32, 1317.32)
	near("running at the peak", v.Gen.PeakRunning, 121, 121)
	near("running", v.Running, 33, 37)
	near("in flight", v.InFlight, 149, 150)
	near("capacity", v.Capacity, 159277, 159277)
	near("headroom", v.Headroom, 5.47, 5.47)
	near("context", v.ContextLen, 262144, 262144)
	near("tokens a request", v.PerRequest, 4200, 4650)
	if v.Version != "0.5.9" || v.TP != 8 || v.Port == 0 || v.Gen.Ramp {
		t.Errorf("version %q, TP %d, port %d, ramp %v", v.Version, v.TP, v.Port, v.Gen.Ramp)
	}
	if len(s.GPUs) != 8 {
		t.Errorf("%d GPUs, want 8", len(s.GPUs))
	}
	near("rows", s.Job.Rows, 11_520, 11_580)

	r := lookAt(t, "ramp")
	near("tok/s in the ramp", r.Server().Gen.Now, 1200, 1320)
	if !r.Server().Gen.Ramp || r.Server().Gen.Settled.Known {
		t.Error("two minutes after the start is taken for settled")
	}
}

// The second engine has the same figures, from its own log and metrics.
func TestVLLMFigures(t *testing.T) {
	near := func(what string, got metrics.Figure, low, high float64) {
		t.Helper()
		if !got.Known || got.V < low || got.V > high {
			t.Errorf("%s is %v (known %v), want %g to %g", what, got.V, got.Known, low, high)
		}
	}
	s := lookAt(t, "vllm")
	v := s.Server()
	if v == nil {
		t.Fatal("no server")
	}
	near("tok/s now", v.Gen.Now, 600, 760)
	near("settled", v.Gen.Settled, 600, 760)
	near("running", v.Running, 36, 44)
	near("in flight", v.InFlight, 149, 151)
	near("KV usage", v.KVUsage, 0.9, 1)
	near("capacity", v.Capacity, 184_908, 184_908)
	near("context", v.ContextLen, 131_072, 131_072)
	near("finished", v.Finished, 300, 600)
	near("tokens a request", v.PerRequest, 3800, 5000)
	if v.Engine != "vllm" || v.Version != "0.11.2" || v.Model != "Kimi-K2.5" || v.TP != 8 || v.Port != 8000 {
		t.Errorf("%s %s %s TP%d port %d", v.Engine, v.Version, v.Model, v.TP, v.Port)
	}
	if len(s.GPUs) != 8 || len(s.GPUs[0].Procs) == 0 || s.GPUs[0].Procs[0].Owner != "server" {
		t.Errorf("GPUs: %+v", s.GPUs)
	}
	h := lookAt(t, "vllm-hang").Server()
	near("running while it hangs", h.Running, 7, 7)
	near("tok/s while it hangs", h.Gen.Now, 0, 0)
	if h.State != metrics.ServerHung {
		t.Errorf("state %s", h.State)
	}
}
