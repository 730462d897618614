package findings_test

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/board"
	"github.com/runvigil/runvigil/metrics/explain"
	"github.com/runvigil/runvigil/metrics/findings"
	"github.com/runvigil/runvigil/metrics/nvidia"
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
		b.Apply(metrics.Frame{Kind: metrics.KindSys, At: at, Data: []byte("uptime 1000000.00 1\n")})
		b.Apply(metrics.Frame{Kind: metrics.KindTick, At: at})
	}
	return b.Snapshot()
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
		m.b.Apply(metrics.Frame{Kind: metrics.KindSys, At: m.at, Data: []byte("uptime 1000000.00 1\n")})
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

// caseRow is one case of the field: how the board meets it, and what must be said.
type caseRow struct {
	id      string
	drive   func(t *testing.T, id string) *metrics.Snapshot
	finding string // "": nothing above info, but for what also names
	cause   metrics.Cause
	says    string // in title, why, advice or evidence
	also    string // a warning that the case deserves besides
}

// serverLog meets a server by its log alone, which last grew so long ago.
func serverLog(engine string, died bool, quiet time.Duration) func(*testing.T, string) *metrics.Snapshot {
	return func(t *testing.T, id string) *metrics.Snapshot { return visitCase(t, id, engine, died, quiet) }
}

// toolFails meets a node whose nvidia-smi fails with the case's words.
func toolFails(t *testing.T, id string) *metrics.Snapshot {
	m := newMeet(1e6, june)
	m.json(metrics.KindGPUError, "", metrics.GPUErrorFact{RC: 9, Text: string(caseText(t, id))})
	return m.run(40)
}

var june = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// kernelLog meets a node with this kernel log, a minute after its last line: its
// stamps are uptimes or dates. Before, says what else the node has.
func kernelLog(before func(m *meet), after func(m *meet)) func(*testing.T, string) *metrics.Snapshot {
	return func(t *testing.T, id string) *metrics.Snapshot {
		const long = 1e8
		look := func(uptime float64, at time.Time) *metrics.Snapshot {
			m := newMeet(uptime, at)
			if before != nil {
				before(m)
			}
			m.b.Apply(metrics.Frame{Kind: metrics.KindKernel, Name: "dmesg", At: m.at, Data: caseText(t, id)})
			m.run(2)
			if after != nil {
				after(m)
			}
			return m.run(90)
		}
		first := look(long, june)
		if len(first.Kernel) == 0 {
			t.Fatal("the kernel log says nothing")
		}
		at := first.Kernel[len(first.Kernel)-1].At
		s := look(at.Sub(june.Add(-long*time.Second)).Seconds()+60, june)
		if len(s.Findings) == 0 {
			s = look(long, at.Add(time.Minute))
		}
		return s
	}
}

// victim is a server whose pid is the case's victim.
func victim(pid int) func(m *meet) {
	return func(m *meet) {
		m.json(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{{PID: 1, State: "S", Comm: "init"}, {PID: pid, PPID: 1, Start: 100, State: "S", Comm: "python3", Argv: []string{"python3", "-m", "sglang.launch_server", "--port", "8000"}}}})
	}
}

func gone(m *meet) {
	m.json(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{{PID: 1, State: "S", Comm: "init"}}})
}

// client meets a client beside an idle server.
type client struct {
	died    bool
	perMin  int64 // rows that land
	torn    bool  // the case is the end of its rows, not its log
	quiet   time.Duration
	minutes int
}

func (c client) drive(t *testing.T, id string) *metrics.Snapshot {
	const log, rows = "/data/run/client.log", "/data/run/rows.jsonl"
	m := newMeet(36_000, june)
	m.json(metrics.KindConfig, "", metrics.Config{Targets: []metrics.ConfigTarget{{Rows: 10_000}}})
	server := metrics.Proc{PID: 10, PPID: 1, Start: 1000, State: "S", Comm: "python3", Argv: []string{"python3", "-m", "sglang.launch_server", "--port", "8000"}, Listen: []metrics.ListenAddr{{Addr: "127.0.0.1", Port: 8000}}}
	run := metrics.Proc{
		PID: 20, PPID: 1, Start: 2000, State: "S", Comm: "python3", Argv: []string{"python3", "run.py", "--url", "http://127.0.0.1:8000"}, Cwd: "/data/run", FD1: log, FD2: log, EnvRead: true,
		Files: []metrics.OpenFile{{Path: rows, Write: true}}, Conns: []metrics.Conn{{Port: 8000, Count: 3}},
	}
	m.json(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{server, run}})
	text := caseText(t, id)
	if c.torn {
		text = nil
	}
	size := int64(len(text))
	quiet := cmp.Or(c.quiet, time.Minute)
	m.b.Apply(metrics.Frame{Kind: metrics.KindLog, Name: log, At: m.at, Data: metrics.EncodeChunk(metrics.LogHeader{ID: "1:1", End: size, Size: size, Backfill: 2, Lines: -1, Mtime: m.at.Add(-quiet).Unix()}, text)})
	grew := m.at.Add(-max(quiet, 10*time.Minute)).Unix()
	for i := range max(100, 60*c.minutes) {
		if c.perMin > 0 {
			grew = m.at.Unix()
		}
		m.json(metrics.KindRows, rows, metrics.RowsFact{Path: rows, ID: "1:2", Size: 1000, Offset: 1000, Rows: 100 + int64(i)*c.perMin/60, Mtime: grew, Done: true, Torn: c.torn})
		m.idleServer()
		if c.died && i == 10 {
			m.json(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{server}})
		}
		m.run(1)
	}
	return m.run(1)
}

// idleServer says that the server on port 8000 has nothing to do.
func (m *meet) idleServer() {
	m.b.Apply(metrics.Frame{Kind: metrics.KindHTTP, Name: "8000 /v1/loads", At: m.at, Data: metrics.EncodeChunk(metrics.HTTPHeader{Port: 8000, Path: "/v1/loads", Status: 200}, []byte(`{"loads":[{"num_running_reqs":0,"num_waiting_reqs":0}]}`))})
}

// gpus meets the figures of a case as the probe's own query would give them,
// beside a server that holds the memory.
func gpus(t *testing.T, id string) *metrics.Snapshot {
	rep, ok := nvidia.ParseAny(caseText(t, id))
	if !ok {
		t.Fatal("no output of a GPU tool")
	}
	m := newMeet(1e6, june)
	m.json(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{{PID: 1, State: "S", Comm: "init"}, {PID: 10, PPID: 1, Start: 100, State: "S", Comm: "python3", Argv: []string{"python3", "-m", "sglang.launch_server", "--port", "8000"}}}})
	cell := func(n nvidia.Num) string {
		switch {
		case n.OK:
			return fmt.Sprint(n.V)
		case n.Raw != "":
			return n.Raw
		}
		return "[N/A]"
	}
	static, stream := "index,uuid,name,memory.total,power.limit,mig.mode.current\n", "index,memory.used,memory.free,utilization.gpu,temperature.gpu,power.draw,clocks.sm,clocks_event_reasons.active,ecc.errors.uncorrected.volatile.total\n"
	apps := "pid,process_name,used_memory,gpu_uuid\n"
	for i, r := range rep.Rows {
		n := r.Index
		if n < 0 {
			n = i
		}
		reasons := "0x0000000000000000"
		if slices.Contains(r.Throttled(), "SW Power Cap") {
			reasons = "0x0000000000000004"
		}
		static += fmt.Sprintf("%d, GPU-%d, %s, %s, %s, %s\n", n, n, cmp.Or(r.Name, "[N/A]"), cell(r.MemTotal), cell(r.PowerLimit), cmp.Or(r.MIG, "[N/A]"))
		stream += fmt.Sprintf("%d, %s, %s, %s, %s, %s, %s, %s, %s\n", n, cell(r.MemUsed), cell(r.MemFree), cell(r.Util), cell(r.Temp), cell(r.Power), cell(r.ClockSM), reasons, cell(r.ECC))
		for _, p := range rep.Procs {
			if p.PID > 0 && (p.GPU == n || p.GPU < 0 && len(rep.Rows) == 1) {
				apps += fmt.Sprintf("%d, %s, %s, GPU-%d\n", p.PID, cmp.Or(p.Name, "[Not Found]"), cell(p.Used), n)
			}
		}
	}
	m.b.Apply(metrics.Frame{Kind: metrics.KindGPUStatic, At: m.at, Data: []byte(static)})
	for i := range 200 {
		m.b.Apply(metrics.Frame{Kind: metrics.KindGPU, At: m.at, Data: []byte(stream)})
		if i%10 == 0 {
			m.idleServer()
			m.b.Apply(metrics.Frame{Kind: metrics.KindGPUApps, At: m.at, Data: []byte(apps)})
		}
		m.run(1)
	}
	s := m.run(1)
	if len(s.GPUs) != len(rep.Rows) {
		t.Errorf("the board has %d GPUs of %d", len(s.GPUs), len(rep.Rows))
	}
	return s
}

// fieldCases lists how each is met. Those of kubectl are met by explain alone: no
// frame carries its output.
func fieldCases() []caseRow {
	const dead, alive = true, false
	const long = 5 * time.Minute
	down := func(id, engine, finding string, cause metrics.Cause) caseRow {
		return caseRow{id: id, drive: serverLog(engine, dead, long), finding: finding, cause: cause}
	}
	quiet := func(id, engine string) caseRow {
		return caseRow{id: id, drive: serverLog(engine, alive, time.Second), also: "start-slow"}
	}
	return []caseRow{
		down("012", "sglang", "server-down", metrics.CauseKVLeakCheck),
		{"018", serverLog("sglang", alive, time.Second), "server-half-dead", metrics.CauseSchedulerException, "DP1", ""},
		{"035", serverLog("sglang", dead, long), "server-oom", metrics.CauseStartupNoKVMemory, "raise --mem-fraction-static", ""},
		down("037", "sglang", "server-oom", metrics.CauseStartupNoKVMemory),
		{"039", serverLog("sglang", dead, long), "server-oom", metrics.CauseKVPoolExhausted, "lower --max-running-requests, or raise --schedule-conservativeness", ""},
		{"041", serverLog("sglang", dead, long), "server-down", metrics.CauseIllegalAccess, "CUDA_LAUNCH_BLOCKING=1", ""},
		down("043", "sglang", "server-down", metrics.CauseKVLeakCheck),
		down("046", "sglang", "server-down", metrics.CauseSchedulerWatchdog),
		down("048", "sglang", "server-down", metrics.CauseNCCLTimeout),
		{"050", serverLog("sglang", dead, long), "server-down", metrics.CauseShmFull, "--shm-size", ""},
		{"054", serverLog("sglang", dead, long), "server-oom", metrics.CauseCUDAOOM, "lower --mem-fraction-static", ""},
		down("056", "sglang", "server-down", metrics.CauseNativeCrash),
		down("086", "vllm", "server-down", metrics.CauseSchedulerException),
		down("088", "vllm", "server-down", metrics.CauseEngineDead),
		down("090", "vllm", "server-oom", metrics.CauseStartupNoKVMemory),
		{"092", serverLog("vllm", dead, long), "server-down", metrics.CauseStartupGPUOccupied, "do not lower the memory fraction", ""},
		down("094", "vllm", "server-down", metrics.CauseWorkerDied),
		down("096", "vllm", "server-down", metrics.CausePortInUse),
		down("098", "vllm", "server-down", metrics.CauseIllegalAccess),
		down("100", "vllm", "server-down", metrics.CauseNCCLTimeout),

		{"002", serverLog("sglang", alive, 15*time.Minute), "server-hung", metrics.CauseServerHung, "", ""},
		{"034", serverLog("sglang", alive, 15*time.Minute), "start-stuck", "", "", ""},
		{"057", serverLog("sglang", alive, 15*time.Minute), "server-hung", metrics.CauseServerHung, "", ""},
		{"067", serverLog("vllm", alive, time.Second), "repetition", metrics.CauseRepetition, "", ""},
		{"069", serverLog("vllm", alive, 2*time.Minute), "server-hung", metrics.CauseServerHung, "7 running", ""},
		{"078", serverLog("vllm", alive, 5*time.Minute), "server-hung", metrics.CauseServerHung, "waited for its workers for 240 s", ""},

		// Starts that only take their time, and a log whose writer is gone.
		quiet("010", "sglang"), quiet("023", "sglang"), quiet("025", "sglang"), quiet("027", "sglang"), quiet("029", "sglang"), quiet("031", "sglang"),
		quiet("079", "vllm"), quiet("081", "vllm"), quiet("084", "vllm"),
		// Statistics that look like trouble and are none.
		quiet("076", "vllm"), quiet("006", "sglang"), quiet("051", "sglang"), quiet("164", "sglang"),

		{"113", toolFails, "gpu-tool-stuck", metrics.CauseDriverMismatch, "Reload", ""},
		{"115", toolFails, "gpu-lost", metrics.CauseGPULost, "restart the machine", ""},
		{"121", toolFails, "gpu-tool-stuck", metrics.CauseDriverNotLoaded, "driver", ""},
		{"127", gpus, "gpu-memory-held", metrics.CauseGPUMemoryHeld, "cannot be seen from here (process 2417733 of the host)", ""},
		{id: "101", drive: gpus}, {id: "103", drive: gpus}, {id: "105", drive: gpus}, {id: "107", drive: gpus}, {id: "109", drive: gpus},
		{id: "111", drive: gpus}, {id: "117", drive: gpus}, {id: "119", drive: gpus}, {id: "123", drive: gpus}, {id: "125", drive: gpus},
		{id: "134", drive: gpus}, {id: "136", drive: gpus}, {id: "138", drive: gpus},

		{"129", kernelLog(nil, nil), "gpu-lost", metrics.CauseGPUFirmwareTimeout, "", ""},
		{"131", kernelLog(nil, nil), "gpu-lost", metrics.CauseGPUXid, "31", ""},
		{"133", kernelLog(nil, nil), "gpu-lost", metrics.CauseGPUFirmwareTimeout, "", ""},
		{"168", kernelLog(nil, nil), "host-memory-low", metrics.CauseHostOOMKilled, "whom it ended is not in what is left of its log", ""},
		{"170", kernelLog(victim(63270), gone), "server-oom", metrics.CauseHostOOMKilled, "raise the memory limit of the server's container", ""},

		{"150", client{perMin: 30}.drive, "client-log-silent", metrics.CauseClientBuffered, "PYTHONUNBUFFERED", ""},
		{"152", client{died: true, torn: true}.drive, "rows-torn", metrics.CauseRowsTorn, "", ""},
		{"154", client{}.drive, "rows-stalled", metrics.CauseTooManyFiles, "ulimit -n", ""},
		{"156", client{died: true}.drive, "client-gone", metrics.CauseShmFull, "", ""},
		{"158", client{quiet: time.Hour, minutes: 20}.drive, "rows-stalled", "", "0 of 2,374 done", ""},
	}
}

// causesBelong checks that every finding names a cause of its detector's list.
func causesBelong(t *testing.T, list []metrics.Finding) {
	t.Helper()
	for _, f := range list {
		if f.Cause != "" && !slices.ContainsFunc(findings.Registry(), func(d findings.Detector) bool { return d.ID == f.ID && slices.Contains(d.Causes, f.Cause) }) {
			t.Errorf("%s names %s, which is none of its causes", f.ID, f.Cause)
		}
	}
}

// Every crash, hang, start-up, gpu, kernel and client case of the field reaches
// the finding and cause that its expectation names, through the board.
func TestFieldCases(t *testing.T) {
	met := map[string]bool{}
	for _, c := range fieldCases() {
		met[c.id] = true
		t.Run(c.id, func(t *testing.T) {
			s := c.drive(t, c.id)
			causesBelong(t, s.Findings)
			found := c.finding == ""
			for _, f := range s.Findings {
				if f.ID == c.finding {
					found = true
					said := strings.Join([]string{f.Title, f.Why, f.Advice, fmt.Sprint(f.Evidence)}, "\n")
					if f.Cause != c.cause || !strings.Contains(said, c.says) {
						t.Errorf("%s has cause %q, want %q, saying %q:\n%s", f.ID, f.Cause, c.cause, c.says, said)
					}
				} else if c.finding == "" && f.Severity > metrics.SeverityInfo && f.ID != c.also {
					t.Errorf("%s %s is raised: %s", f.Severity, f.ID, f.Title)
				}
			}
			if !found {
				t.Errorf("%s is not raised among %v; clients %+v; kernel %v", c.finding, s.Findings, s.Clients, s.Kernel)
			}
		})
	}
	for id, want := range map[string]metrics.Cause{"160": metrics.CauseKilledUnknown, "162": metrics.CauseStartupFailed} {
		met[id] = true
		r, err := explain.Read(bytes.NewReader(caseText(t, id)), "")
		if err != nil {
			t.Fatal(err)
		}
		if p := r.Primary(); p == nil || p.Class != string(want) || len(r.Findings) == 0 {
			t.Errorf("%s: explain says %+v", id, p)
		}
	}
	index, err := os.ReadFile("../../testdata/cases/INDEX.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range strings.Split(strings.TrimSpace(string(index)), "\n")[1:] {
		cols := strings.Split(row, "\t")
		_, part, split := strings.Cut(cols[4], "-")
		if !split {
			part = cols[4]
		}
		if slices.Contains([]string{"crash", "hang", "startup", "gpu", "kernel", "client", "k8s"}, part) && !met[cols[0]] {
			t.Errorf("case %s (%s) is not driven through the board: %s", cols[0], cols[4], cols[5])
		}
	}
}

// A victim of the OOM killer that is a client is told as such; one that is
// neither, as what may come next.
func TestKernelEndsOthers(t *testing.T) {
	s := kernelLog(nil, nil)(t, "170")
	if f := raised(s, "host-memory-low"); f == nil || f.Cause != metrics.CauseHostOOMKilled || f.Severity != metrics.SeverityInfo || !strings.Contains(f.Why, "its own memory limit") {
		t.Errorf("a container's limit: %+v", f)
	}
	client := metrics.Proc{
		PID: 63270, PPID: 1, Start: 2000, State: "S", Comm: "python3", Argv: []string{"python3", "run.py", "--url", "http://127.0.0.1:8000"}, Conns: []metrics.Conn{{Port: 8000, Count: 3}},
	}
	server := metrics.Proc{PID: 10, PPID: 1, Start: 1000, State: "S", Comm: "python3", Argv: []string{"python3", "-m", "sglang.launch_server", "--port", "8000"}}
	s = kernelLog(func(m *meet) { m.json(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{server, client}}) },
		func(m *meet) { m.json(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{server}}) })(t, "170")
	if f := raised(s, "client-gone"); f == nil || f.Cause != metrics.CauseHostOOMKilled || !strings.Contains(f.Title, "killed by the kernel's OOM killer") {
		t.Errorf("the client: %+v", f)
	}
	if f := raised(s, "host-memory-low"); f != nil {
		t.Errorf("it is told twice: %s", f.Title)
	}
}
