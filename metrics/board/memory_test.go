package board

import (
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// What is free is the node's memory, or what is left below a limit above the
// server, whichever is less; dropped page cache counts as free.
func TestMemoryLimit(t *testing.T) {
	const node = "uptime 100.00 1\nMemTotal:  1000 kB\nMemAvailable:  600 kB\n" // 1,024,000 and 614,400 bytes
	for name, c := range map[string]struct {
		groups      string
		avail, of   float64
		whose, next string
	}{
		"none":                          {"groups 7\n", 614_400, 1_024_000, "", ""},
		"a container's":                 {"groups 7\ngroup 7 400000 390000 20000 30000 /docker/abc\n", 60_000, 400_000, "the container", ""},
		"the top of a container":        {"groups 7\ngroup 7 400000 390000 0 0\n", 10_000, 400_000, "the container", ""},
		"a job's":                       {"groups 7\ngroup 7 400000 100000 0 0 /slurm/uid_7/job_12/step_0\n", 300_000, 400_000, "the Slurm job", ""},
		"a login's":                     {"groups 0\ngroup 0 400000 100000 0 0 /user.slice/user 7.slice\n", 300_000, 400_000, "control group user 7.slice", ""},
		"the tightest of two":           {"groups 7\ngroup 7 400000 100000 0 0 /a/b\ngroup 7 500000 450000 0 0 /a\n", 50_000, 500_000, "control group a", ""},
		"a limit with more room":        {"groups 7\ngroup 7 900000 200000 0 0 /docker/abc\n", 614_400, 1_024_000, "", ""},
		"a limit above what there is":   {"groups 7\ngroup 7 2000000 1990000 0 0 /docker/abc\n", 614_400, 1_024_000, "", ""},
		"more cache than it uses":       {"groups 7\ngroup 7 400000 100 9000 0 /docker/abc\n", 400_000, 400_000, "the container", ""},
		"figures that cannot be read":   {"groups 7\ngroup 7 400000 - 0 0 /docker/abc\ngroup 7\n", 614_400, 1_024_000, "", ""},
		"it holds while nobody asks":    {"groups 7\ngroup 7 400000 390000 0 0 /docker/abc\n", 10_000, 400_000, "the container", node},
		"and ends when it is not there": {"groups 7\ngroup 7 400000 390000 0 0 /docker/abc\n", 614_400, 1_024_000, "", node + "groups 7\n"},
	} {
		t.Run(name, func(t *testing.T) {
			b := New()
			at := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
			b.Apply(metrics.Frame{Kind: metrics.KindSys, At: at, Data: []byte(node + c.groups)})
			if c.next != "" {
				b.Apply(metrics.Frame{Kind: metrics.KindSys, At: at.Add(2 * time.Second), Data: []byte(c.next)})
			}
			h := b.Snapshot().Sys
			if h.MemAvail.V != c.avail || h.MemTotal.V != c.of || h.MemLimit != c.whose || h.NodeAvail.V != 614_400 || h.NodeTotal.V != 1_024_000 {
				t.Errorf("%v of %v of %q, the node %v of %v", h.MemAvail.V, h.MemTotal.V, h.MemLimit, h.NodeAvail.V, h.NodeTotal.V)
			}
		})
	}
}

// The limits of the servers count, and where none runs those of this login.
func TestMemoryWants(t *testing.T) {
	b := New()
	pids := func() (out []int) {
		for _, w := range b.Wants() {
			if w.Kind == metrics.WantMemory {
				out = append(out, w.PID)
			}
		}
		return out
	}
	if got := pids(); len(got) != 1 || got[0] != 0 {
		t.Errorf("without a server: %v", got)
	}
	at := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	b.Apply(metrics.JSONFrame(metrics.KindSession, "", at, metrics.Session{Node: "n", BootID: "b", HZ: 100, Now: at, UptimeS: 1e6}))
	b.Apply(metrics.JSONFrame(metrics.KindScan, "", at, metrics.Scan{Procs: []metrics.Proc{
		{PID: 1, State: "S"}, {PID: 10, PPID: 1, Start: 100, State: "S", Comm: "python3", Argv: []string{"python3", "-m", "sglang.launch_server", "--port", "8000"}},
	}}))
	if got := pids(); len(got) != 1 || got[0] != 10 {
		t.Errorf("with a server: %v", got)
	}
}
