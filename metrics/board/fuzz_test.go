package board

import (
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// Whatever a frame holds, the board neither fails nor breaks what it knows.
func FuzzApply(f *testing.F) {
	s := newSim(f, "ramp")
	s.run(8 * time.Second)
	seen := map[metrics.Kind]int{}
	for _, fr := range s.frames {
		if seen[fr.Kind]++; seen[fr.Kind] <= 3 && len(fr.Data) < 20_000 {
			f.Add(string(fr.Kind), fr.Name, fr.Data)
		}
	}
	f.Add("scan", "", []byte(`{"procs":[{"pid":1,"ppid":1,"state":"S","argv":["python3","-m","sglang.launch_server"]},{"pid":2,"ppid":3},{"pid":3,"ppid":2}]}`))
	f.Add("rows", "x", []byte(`{"path":"/a/b.jsonl","done":true,"rows":-5,"mtime":-99999999999}`))
	f.Add("session", "", []byte(`{"uptime_s":1e300,"hz":-1,"now":"0001-01-01T00:00:00Z"}`))
	f.Add("disk", "", []byte(`[{"mount":"/","total":-1,"avail":9223372036854775807}]`))
	f.Add("starts", "", []byte(`[{"id":""},{"id":"","at":"2026-01-01T00:00:00Z"}]`))
	f.Fuzz(func(t *testing.T, kind, name string, data []byte) {
		b := New()
		at := time.Date(2026, 2, 24, 12, 0, 0, 0, time.UTC)
		scan := metrics.Scan{Procs: []metrics.Proc{sglangProc(10, "--port", "8000"), clientProc(20, "--url", "http://127.0.0.1:8000")}}
		b.Apply(metrics.JSONFrame(metrics.KindSession, "", at, metrics.Session{Node: "n", BootID: "b", HZ: 100, Now: at, UptimeS: 1000}))
		b.Apply(metrics.JSONFrame(metrics.KindScan, "", at, scan))
		for i := range 3 {
			b.Apply(metrics.Frame{Kind: metrics.Kind(kind), Name: name, At: at.Add(time.Duration(i) * time.Second), Data: data})
			b.Apply(metrics.Frame{Kind: metrics.KindTick, At: at.Add(time.Duration(i+1) * time.Second)})
		}
		b.Wants()
		if s := b.Snapshot(); s.Verdict.Word == "" || s.At.Before(at) {
			t.Errorf("snapshot %+v", s.Verdict)
		}
	})
}
