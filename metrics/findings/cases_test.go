package findings_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/board"
)

// visitCase lets a board meet a captured server log whose process wrote its
// last line some time ago; where it died, the process goes after that.
func visitCase(t *testing.T, name, engine string, died bool, quiet time.Duration) *metrics.Snapshot {
	t.Helper()
	s := visitAt(t, name, engine, died, quiet, time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC))
	if died {
		return s
	}
	var newest time.Time
	for _, l := range s.Logs[caseLog].Lines {
		if l.At.After(newest) {
			newest = l.At
		}
	}
	return visitAt(t, name, engine, died, quiet, newest.Add(quiet))
}

const caseLog = "/data/server.log"

// visitAt is visitCase at a moment of the node's clock.
func visitAt(t *testing.T, name, engine string, died bool, quiet time.Duration, at time.Time) *metrics.Snapshot {
	t.Helper()
	files, err := filepath.Glob("../../testdata/cases/" + name + "-*.txt")
	if err != nil || len(files) != 1 {
		t.Fatalf("case %s: %v %v", name, files, err)
	}
	raw, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(string(raw), "\n") {
		raw = append(raw, '\n')
	}
	const log = caseLog
	b := board.New()
	apply := func(kind metrics.Kind, name string, v any) {
		b.Apply(metrics.JSONFrame(kind, name, at, v))
		at = at.Add(time.Millisecond)
	}
	apply(metrics.KindConfig, "", metrics.Config{Node: "n", ServerLogs: []string{log}})
	apply(metrics.KindSession, "", metrics.Session{Node: "n", BootID: "b", HZ: 100, Now: at, UptimeS: 1e8})
	apply(metrics.KindLink, "", metrics.LinkFact{Status: metrics.LinkUp})
	argv := []string{"python3", "-m", "sglang.launch_server", "--port", "8000"}
	if engine == "vllm" {
		argv = []string{"vllm", "serve", "m", "--port", "8000"}
	}
	initial := metrics.Proc{PID: 1, State: "S", Comm: "init"}
	server := metrics.Proc{PID: 10, PPID: 1, Start: 100, State: "S", Comm: "python3", Argv: argv, FD1: log, FD2: log}
	apply(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{initial, server}})
	size := int64(len(raw))
	mtime := at.Add(-quiet).Unix()
	apply(metrics.KindFiles, "", []metrics.FileStat{{Path: log, Exists: true, ID: "1:1", Size: size, Mtime: mtime}})
	b.Apply(metrics.Frame{Kind: metrics.KindLog, Name: log, At: at, Data: metrics.EncodeChunk(metrics.LogHeader{ID: "1:1", End: size, Size: size, Backfill: 1, Lines: -1, Mtime: mtime}, raw)})
	if died {
		apply(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{initial}})
	}
	for range 40 {
		at = at.Add(time.Second)
		b.Apply(metrics.Frame{Kind: metrics.KindTick, At: at})
	}
	return b.Snapshot()
}

// Every crash and hang of a server that the field reported reaches its finding
// and cause, from the log alone.
func TestServerCases(t *testing.T) {
	const dead, alive = true, false
	for _, c := range []struct {
		name    string
		engine  string
		died    bool
		quiet   time.Duration // since the log last grew
		finding string        // "": none above info
		cause   metrics.Cause
	}{
		{"012", "sglang", dead, 5 * time.Minute, "server-down", metrics.CauseKVLeakCheck},
		{"018", "sglang", alive, time.Second, "server-half-dead", metrics.CauseSchedulerException},
		{"035", "sglang", dead, 5 * time.Minute, "server-oom", metrics.CauseStartupNoKVMemory},
		{"037", "sglang", dead, 5 * time.Minute, "server-oom", metrics.CauseStartupNoKVMemory},
		{"039", "sglang", dead, 5 * time.Minute, "server-oom", metrics.CauseKVPoolExhausted},
		{"041", "sglang", dead, 5 * time.Minute, "server-down", metrics.CauseIllegalAccess},
		{"043", "sglang", dead, 5 * time.Minute, "server-down", metrics.CauseKVLeakCheck},
		{"046", "sglang", dead, 5 * time.Minute, "server-down", metrics.CauseSchedulerWatchdog},
		{"048", "sglang", dead, 5 * time.Minute, "server-down", metrics.CauseNCCLTimeout},
		{"050", "sglang", dead, 5 * time.Minute, "server-down", metrics.CauseShmFull},
		{"054", "sglang", dead, 5 * time.Minute, "server-oom", metrics.CauseCUDAOOM},
		{"056", "sglang", dead, 5 * time.Minute, "server-down", metrics.CauseNativeCrash},
		{"086", "vllm", dead, 5 * time.Minute, "server-down", metrics.CauseSchedulerException},
		{"088", "vllm", dead, 5 * time.Minute, "server-down", metrics.CauseEngineDead},
		{"090", "vllm", dead, 5 * time.Minute, "server-oom", metrics.CauseStartupNoKVMemory},
		{"092", "vllm", dead, 5 * time.Minute, "server-down", metrics.CauseStartupGPUOccupied},
		{"094", "vllm", dead, 5 * time.Minute, "server-down", metrics.CauseWorkerDied},
		{"096", "vllm", dead, 5 * time.Minute, "server-down", metrics.CausePortInUse},
		{"098", "vllm", dead, 5 * time.Minute, "server-down", metrics.CauseIllegalAccess},
		{"100", "vllm", dead, 5 * time.Minute, "server-down", metrics.CauseNCCLTimeout},
		{"002", "sglang", alive, 15 * time.Minute, "server-hung", metrics.CauseServerHung},
		{"034", "sglang", alive, 15 * time.Minute, "start-stuck", ""},
		{"057", "sglang", alive, 15 * time.Minute, "server-hung", metrics.CauseServerHung},
		{"067", "vllm", alive, time.Second, "repetition", metrics.CauseRepetition},
		{"069", "vllm", alive, 2 * time.Minute, "server-hung", metrics.CauseServerHung},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := visitCase(t, c.name, c.engine, c.died, c.quiet)
			for _, f := range s.Findings {
				if f.ID == c.finding {
					if f.Cause != c.cause {
						t.Errorf("%s has cause %q, want %q: %s", f.ID, f.Cause, c.cause, f.Title)
					}
					return
				}
			}
			t.Errorf("%s is not raised among %v", c.finding, s.Findings)
		})
	}
}

// Starts that only take their time, and logs whose writer is gone, are no fault.
func TestQuietCases(t *testing.T) {
	for name, engine := range map[string]string{
		"010": "sglang", "023": "sglang", "025": "sglang", "027": "sglang", "029": "sglang", "031": "sglang",
		"079": "vllm", "081": "vllm", "084": "vllm", "076": "vllm", "006": "sglang", "051": "sglang", "164": "sglang",
	} {
		t.Run(name, func(t *testing.T) {
			for _, f := range visitCase(t, name, engine, false, time.Second).Findings {
				if f.Severity > metrics.SeverityWarning || f.Severity == metrics.SeverityWarning && f.ID != "start-slow" {
					t.Errorf("%s %s is raised: %s", f.Severity, f.ID, f.Title)
				}
			}
		})
	}
}

// meet lets a board meet a node with a server, a client that writes rows, and
// what frames say besides.
type meet struct {
	b  *board.Board
	at time.Time
}

func newMeet(uptime float64, at time.Time) *meet {
	m := &meet{board.New(), at}
	m.json(metrics.KindSession, "", metrics.Session{Node: "n", BootID: "b", HZ: 100, Now: at, UptimeS: uptime})
	m.json(metrics.KindLink, "", metrics.LinkFact{Status: metrics.LinkUp})
	return m
}

func (m *meet) json(kind metrics.Kind, name string, v any) {
	m.b.Apply(metrics.JSONFrame(kind, name, m.at, v))
	m.at = m.at.Add(time.Millisecond)
}

func (m *meet) run(seconds int) *metrics.Snapshot {
	for range seconds {
		m.at = m.at.Add(time.Second)
		m.b.Apply(metrics.Frame{Kind: metrics.KindTick, At: m.at})
	}
	return m.b.Snapshot()
}

func caseText(t *testing.T, name string) []byte {
	t.Helper()
	files, err := filepath.Glob("../../testdata/cases/" + name + "-*.txt")
	if err != nil || len(files) != 1 {
		t.Fatalf("case %s: %v %v", name, files, err)
	}
	raw, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func expect(t *testing.T, s *metrics.Snapshot, id string, cause metrics.Cause) {
	t.Helper()
	for _, f := range s.Findings {
		if f.ID == id {
			if f.Cause != cause {
				t.Errorf("%s has cause %q, want %q: %s", id, f.Cause, cause, f.Title)
			}
			return
		}
	}
	t.Errorf("%s is not raised among %v; clients %+v; kernel %v", id, s.Findings, s.Clients, s.Kernel)
}

func TestMachineCases(t *testing.T) {
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	for name, want := range map[string]struct {
		id    string
		cause metrics.Cause
	}{
		"113": {"gpu-tool-stuck", metrics.CauseDriverMismatch},
		"115": {"gpu-lost", metrics.CauseGPULost},
		"121": {"gpu-tool-stuck", metrics.CauseDriverNotLoaded},
	} {
		m := newMeet(1e6, now)
		m.json(metrics.KindGPUError, "", metrics.GPUErrorFact{RC: 9, Text: string(caseText(t, name))})
		expect(t, m.run(40), want.id, want.cause)
	}
	// The kernel's stamps are uptimes or dates: the visit comes a minute later.
	for name, want := range map[string]metrics.Cause{"129": metrics.CauseGPUFirmwareTimeout, "131": metrics.CauseGPUXid, "133": metrics.CauseGPUFirmwareTimeout} {
		look := func(uptime float64, at time.Time) *metrics.Snapshot {
			m := newMeet(uptime, at)
			m.b.Apply(metrics.Frame{Kind: metrics.KindKernel, Name: "dmesg", At: m.at, Data: caseText(t, name)})
			return m.run(10)
		}
		const long = 1e8
		first := look(long, now)
		if len(first.Kernel) == 0 {
			t.Errorf("%s: the kernel log says nothing", name)
			continue
		}
		at := first.Kernel[len(first.Kernel)-1].At
		up := at.Sub(now.Add(-long * time.Second)).Seconds()
		s := look(up+60, now)
		if len(s.Findings) == 0 {
			s = look(long, at.Add(time.Minute))
		}
		expect(t, s, "gpu-lost", want)
	}
}

func TestClientCases(t *testing.T) {
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	const log, rows = "/data/run/client.log", "/data/run/rows.jsonl"
	for name, c := range map[string]struct {
		died  bool
		rows  int64 // a minute
		torn  bool
		id    string
		cause metrics.Cause
	}{
		"150": {false, 30, false, "client-log-silent", metrics.CauseClientBuffered},
		"152": {true, 0, true, "rows-torn", metrics.CauseRowsTorn},
		"154": {false, 0, false, "rows-stalled", metrics.CauseTooManyFiles},
		"156": {true, 0, false, "client-gone", metrics.CauseShmFull},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMeet(3600, now)
			m.json(metrics.KindConfig, "", metrics.Config{Targets: []metrics.ConfigTarget{{Rows: 10_000}}})
			server := metrics.Proc{PID: 10, PPID: 1, Start: 1000, State: "S", Comm: "python3", Argv: []string{"python3", "-m", "sglang.launch_server", "--port", "8000"}, Listen: []metrics.ListenAddr{{Addr: "127.0.0.1", Port: 8000}}}
			client := metrics.Proc{
				PID: 20, PPID: 1, Start: 2000, State: "S", Comm: "python3", Argv: []string{"python3", "run.py", "--url", "http://127.0.0.1:8000"}, Cwd: "/data/run", FD1: log, FD2: log, EnvRead: true,
				Files: []metrics.OpenFile{{Path: rows, Write: true}}, Conns: []metrics.Conn{{Port: 8000, Count: 3}},
			}
			m.json(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{server, client}})
			text := caseText(t, name)
			if c.torn {
				text = nil
			}
			size := int64(len(text))
			m.b.Apply(metrics.Frame{Kind: metrics.KindLog, Name: log, At: m.at, Data: metrics.EncodeChunk(metrics.LogHeader{ID: "1:1", End: size, Size: size, Backfill: 2, Lines: -1, Mtime: m.at.Unix() - 60}, text)})
			grew := m.at.Add(-10 * time.Minute).Unix()
			for i := range 100 {
				if c.rows > 0 {
					grew = m.at.Unix()
				}
				m.json(metrics.KindRows, rows, metrics.RowsFact{Path: rows, ID: "1:2", Size: 1000, Offset: 1000, Rows: 100 + int64(i)*c.rows/60, Mtime: grew, Done: true, Torn: c.torn})
				m.b.Apply(metrics.Frame{Kind: metrics.KindHTTP, Name: "8000 /v1/loads", At: m.at, Data: metrics.EncodeChunk(metrics.HTTPHeader{Port: 8000, Path: "/v1/loads", Status: 200}, []byte(`{"loads":[{"num_running_reqs":0,"num_waiting_reqs":0}]}`))})
				if c.died && i == 10 {
					m.json(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{server}})
				}
				m.run(1)
			}
			expect(t, m.run(1), c.id, c.cause)
		})
	}
}
