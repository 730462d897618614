package starts

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runvigil/runvigil/metrics"
)

// snapshot is the node at a moment with one start, as changes make it.
func snapshot(t time.Time, change ...func(*metrics.Start)) *metrics.Snapshot {
	s := metrics.Start{ID: "boot:206001:4410021", No: 1, Engine: "sglang", At: at(11, 55), Outcome: "running", Argv: argv("0.88")}
	for _, c := range change {
		c(&s)
	}
	return &metrics.Snapshot{
		At: t, BootID: "boot", Starts: []metrics.Start{s}, Guards: fp8,
		Servers:  []metrics.Server{{ID: "206001:4410021", Gen: metrics.GenRate{Settled: metrics.Fixed(604, t, "log")}}},
		GPUs:     []metrics.GPU{{MemLowest: metrics.Fixed(4506, t, "nvidia-smi")}, {MemLowest: metrics.Fixed(5000, t, "nvidia-smi")}},
		Job:      metrics.Job{PerMin: metrics.Fixed(9.1, t, "rows")},
		Datasets: []metrics.Dataset{{Name: "B1", PerMin: metrics.Fixed(0, t, "rows")}, {Name: "B2", PerMin: metrics.Fixed(9.1, t, "rows")}},
	}
}

func TestRecorderWritesWhatIsNew(t *testing.T) {
	var r Recorder
	ready := func(s *metrics.Start) { s.ReadyS, s.Capacity = num(120), num(159_277) }
	token := func(s *metrics.Start) { s.FirstToken, s.Peak = at(11, 58), num(900) }
	settled := func(s *metrics.Start) { s.Settled, s.Spread = num(604), num(21) }
	crash := func(s *metrics.Start) { s.Outcome, s.Cause = "crashed", metrics.CauseCUDAOOM }
	var all []Event
	for i, c := range []struct {
		snap *metrics.Snapshot
		want string // "" nothing
	}{
		{snapshot(at(11, 56)), "seen"},
		{snapshot(at(11, 56)), ""},
		{snapshot(at(11, 57), ready), "ready"},
		{snapshot(at(11, 57), ready), ""},
		{snapshot(at(11, 58), ready, token), "token"},
		{snapshot(at(12, 7), ready, token, settled), "settled"},
		{snapshot(at(12, 8), ready, token, settled, func(s *metrics.Start) { s.Settled = num(590) }), ""},
		{snapshot(at(12, 20), ready, token, settled, func(s *metrics.Start) { s.Settled = num(590) }), "level"},
		{snapshot(at(12, 21), ready, token, settled, crash), "ended"},
		{snapshot(at(12, 22), ready, token, settled, crash), ""},
	} {
		events := r.Events(c.snap)
		all = append(all, events...)
		got := ""
		if len(events) == 1 {
			got = events[0].What
		}
		if got != c.want || len(events) > 1 {
			t.Errorf("snapshot %d: %d events, %q, want %q", i, len(events), got, c.want)
		}
	}
	s := Merge(nil, all)[0]
	if len(s.Argv) == 0 || s.Outcome != "crashed" || *s.Settled != 604 || s.FirstToken.IsZero() || *s.Capacity != 159_277 {
		t.Errorf("read back: %+v", s)
	}
	if again := NewRecorder(Of(snapshot(at(12, 0), ready))); len(again.Events(snapshot(at(12, 1), ready, func(s *metrics.Start) { s.Outcome = "running" }))) != 0 {
		t.Error("what the history has was written again")
	}
}

func TestAStartThatEndedUnseen(t *testing.T) {
	snap := snapshot(at(12, 10))
	snap.Servers = nil
	if s := Of(snap)[0]; s.Outcome != "running" {
		t.Errorf("before a discovery it is %s", s.Outcome)
	}
	snap.Procs = []metrics.Proc{{PID: 1}}
	if s := Of(snap)[0]; s.Outcome != "unknown" {
		t.Errorf("its process is gone and it is %s", s.Outcome)
	}
	if e := NewRecorder(snapshot(at(12, 0)).Starts).Events(snap); len(e) != 1 || e[0].What != "ended" {
		t.Errorf("%+v", e)
	}
}

func TestOfAddsWhatTheSnapshotKnows(t *testing.T) {
	snap := snapshot(at(12, 10))
	s := Of(snap)[0]
	if s.LowestFree == nil || *s.LowestFree != 4506.0/1024 || s.RowsPerMin == nil || *s.RowsPerMin != 9.1 || s.Dataset != "B2" {
		t.Errorf("%+v", s)
	}
	if d := cmp.Diff(snapshot(at(12, 10)), snap); d != "" {
		t.Errorf("the snapshot was changed:\n%s", d)
	}
	snap = snapshot(at(12, 10), func(s *metrics.Start) {
		s.Argv, s.Outcome = argv("0.88", "--kv-cache-dtype", "fp8_e4m3"), "stopped"
	})
	if s = Of(snap)[0]; !strings.Contains(s.GuardBroken, "fp8_e4m3 is denied") || s.LowestFree != nil {
		t.Errorf("%+v", s)
	}
	snap = snapshot(at(12, 10), func(s *metrics.Start) { s.KVDtype = "torch.float8_e5m2" })
	if s = Of(snap)[0]; !strings.Contains(s.GuardBroken, "fp8_e5m2 is denied") {
		t.Errorf("what auto became: %+v", s)
	}
}
