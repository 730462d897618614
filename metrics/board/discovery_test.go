package board

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// rig is a board with a session, at a node time that equals the local one.
type rig struct {
	t  testing.TB
	b  *Board
	at time.Time
}

func newRig(t testing.TB) *rig {
	r := &rig{t: t, b: New(), at: time.Date(2026, 2, 24, 12, 0, 0, 0, time.UTC)}
	r.json(metrics.KindSession, "", metrics.Session{Node: "gpu7", BootID: "boot", Zone: "UTC", HZ: 100, CPUs: 64, Now: r.at, UptimeS: 100_000})
	return r
}

func (r *rig) json(k metrics.Kind, name string, v any) {
	r.b.Apply(metrics.JSONFrame(k, name, r.at, v))
}

func (r *rig) tick(d time.Duration) *metrics.Snapshot {
	for end := r.at.Add(d); r.at.Before(end); {
		r.at = r.at.Add(time.Second)
		r.b.Apply(metrics.Frame{Kind: metrics.KindTick, At: r.at})
	}
	return r.b.Snapshot()
}

func (r *rig) log(path, text string, h metrics.LogHeader) {
	if l := r.b.logs[path]; l != nil && l.seen {
		h.Offset = l.head.End
	}
	h.ID = "8:1"
	h.End = h.Offset + int64(len(text))
	h.Size = h.End
	if h.Lines == 0 {
		h.Lines = -1
	}
	r.b.Apply(metrics.Frame{Kind: metrics.KindLog, Name: path, At: r.at, Data: metrics.EncodeChunk(h, []byte(text))})
}

// ticksAgo is a process start so many seconds ago.
func ticksAgo(s int64) int64 { return 100*100_000 - 100*s }

func sglangProc(pid int, more ...string) metrics.Proc {
	return metrics.Proc{
		PID: pid, PPID: 1, PGID: pid, SID: pid, Start: ticksAgo(600), State: "S", Comm: "python3", Cwd: "/data/run",
		Argv: append([]string{"python3", "-m", "sglang.launch_server", "--model-path", "/models/Kimi-K2.5"}, more...),
	}
}

func clientProc(pid int, more ...string) metrics.Proc {
	return metrics.Proc{
		PID: pid, PPID: 1, PGID: pid, Start: ticksAgo(500), State: "S", Comm: "python3", Cwd: "/data/run", EnvRead: true,
		Argv: append([]string{"python3", "run_inference.py"}, more...),
	}
}

func TestEngineOf(t *testing.T) {
	for argv, want := range map[string]string{
		"python3 -m sglang.launch_server --port 8000":                "sglang",
		"/opt/venv/bin/python3.12 -u -m sglang.launch_server":        "sglang",
		"sglang serve Qwen/Qwen3":                                    "sglang",
		"/usr/bin/python3 /opt/venv/bin/sglang serve --model-path m": "sglang",
		"python3 /src/python/sglang/launch_server.py --port 1":       "sglang",
		"python3 -m vllm.entrypoints.openai.api_server --model m":    "vllm",
		"/usr/bin/python3 /opt/venv/bin/vllm serve m":                "vllm",
		"vllm serve m":                                                  "vllm",
		"sudo python3 -m sglang.launch_server":                          "",
		"bash -c python3 -m sglang.launch_server":                       "",
		"python3 -m sglang.bench_serving --port 8000":                   "",
		"python3 run_inference.py -m sglang.launch_server":              "",
		"python3 -c from multiprocessing.spawn import spawn_main; x":    "",
		"grep -r sglang.launch_server":                                  "",
		"vim sglang/launch_server.py":                                   "",
		"python3":                                                       "",
		"python3 -m http.server --directory /x/sglang/launch_server.py": "",
	} {
		if got := engineOf(strings.Fields(argv)); got != want {
			t.Errorf("engineOf(%q) = %q, want %q", argv, got, want)
		}
	}
}

func TestUnbuffered(t *testing.T) {
	for _, c := range []struct {
		argv string
		env  map[string]string
		read bool
		want string
	}{
		{"python3 -u run.py", nil, false, "true"},
		{"python3 -Bu run.py", nil, true, "true"},
		{"python3 run.py -u", nil, true, "false"},
		{"python3 run.py", nil, false, "unknown"},
		{"python3 run.py", map[string]string{"PYTHONUNBUFFERED": "1"}, true, "true"},
		{"python3 -m tool.u", nil, true, "false"},
	} {
		got := "unknown"
		if u := unbuffered(strings.Fields(c.argv), c.env, c.read); u != nil {
			got = map[bool]string{true: "true", false: "false"}[*u]
		}
		if got != c.want {
			t.Errorf("%s %v: %s, want %s", c.argv, c.env, got, c.want)
		}
	}
}

func TestFindsServerPortAndLog(t *testing.T) {
	for _, c := range []struct {
		name  string
		procs []metrics.Proc
		port  int
		log   string
		note  string
		tp    int
	}{
		{"port and log of the root", []metrics.Proc{
			func() metrics.Proc {
				p := sglangProc(10, "--port", "8000", "--tp", "8")
				p.FD2 = "/data/s.log"
				return p
			}(),
		}, 8000, "/data/s.log", "", 8},
		{"--port=N, stdout only", []metrics.Proc{
			func() metrics.Proc {
				p := sglangProc(10, "--port=8001")
				p.FD1, p.FD2 = "/data/o.log", "/dev/null"
				return p
			}(),
		}, 8001, "/data/o.log", "", 1},
		{"port by the socket of a child", []metrics.Proc{
			sglangProc(10),
			{PID: 11, PPID: 10, Start: ticksAgo(500), State: "S", Argv: []string{"sglang::scheduler"}, Listen: []metrics.ListenAddr{{Addr: "0.0.0.0", Port: 9000}}},
		}, 9000, "", "its descriptors cannot be read", 1},
		{"the engine's default port", []metrics.Proc{sglangProc(10)}, 30000, "", "its descriptors cannot be read", 1},
		{"tee behind the pipe", []metrics.Proc{
			func() metrics.Proc { p := sglangProc(10); p.FD1, p.FD2 = "pipe:[77]", "pipe:[77]"; return p }(),
			{PID: 12, PPID: 1, PGID: 10, Start: ticksAgo(600), State: "S", Comm: "tee", Argv: []string{"tee", "-a", "logs/s.log"}, Cwd: "/data/run"},
		}, 30000, "/data/run/logs/s.log", "", 1},
		{"a terminal", []metrics.Proc{
			func() metrics.Proc { p := sglangProc(10); p.FD1, p.FD2 = "/dev/pts/3", "/dev/pts/3"; return p }(),
		}, 30000, "", "its output goes to terminal /dev/pts/3", 1},
		{"a wrapper above the server", []metrics.Proc{
			{PID: 9, PPID: 1, Start: ticksAgo(600), State: "S", Comm: "sudo", Argv: []string{"sudo", "python3", "-m", "sglang.launch_server", "--port", "1"}},
			func() metrics.Proc { p := sglangProc(10, "--port", "8000"); p.PPID = 9; p.FD2 = "/s.log"; return p }(),
		}, 8000, "/s.log", "", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.json(metrics.KindScan, "", metrics.Scan{Procs: c.procs})
			snap := r.tick(time.Second)
			if len(snap.Servers) != 1 {
				t.Fatalf("%d servers", len(snap.Servers))
			}
			v := snap.Servers[0]
			if v.PID != 10 || v.Port != c.port || v.Log.Path != c.log || v.Log.Note != c.note || v.TP != c.tp {
				t.Errorf("pid %d port %d log %q note %q tp %d", v.PID, v.Port, v.Log.Path, v.Log.Note, v.TP)
			}
		})
	}
}

// A worker that was forked carries its parent's command line: still one server.
func TestForkedWorkersAreOneServer(t *testing.T) {
	r := newRig(t)
	child := sglangProc(11, "--port", "8000")
	child.PPID = 10
	r.json(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{sglangProc(10, "--port", "8000"), child}})
	snap := r.tick(time.Second)
	if len(snap.Servers) != 1 || !slices.Equal(snap.Servers[0].Tree, []int{10, 11}) {
		t.Errorf("servers %+v", snap.Servers)
	}
}

func TestFindsClients(t *testing.T) {
	conn := []metrics.Conn{{Port: 8000, Count: 150}}
	worker := func(pid, parent int) metrics.Proc {
		p := clientProc(pid)
		p.PPID, p.Conns = parent, conn
		return p
	}
	for _, c := range []struct {
		name string
		proc []metrics.Proc
		want []int
	}{
		{"by its connections", []metrics.Proc{func() metrics.Proc { p := clientProc(20); p.Conns = conn; return p }()}, []int{20}},
		{"by an open file of rows", []metrics.Proc{func() metrics.Proc {
			p := clientProc(20)
			p.Files = []metrics.OpenFile{{Path: "/data/out.jsonl", Write: true}}
			return p
		}()}, []int{20}},
		{"by the port in its arguments", []metrics.Proc{clientProc(20, "--url", "http://127.0.0.1:8000/generate")}, []int{20}},
		{"workers are one", []metrics.Proc{clientProc(20), worker(21, 20), worker(22, 20)}, []int{20}},
		{"two roots are two", []metrics.Proc{worker(20, 1), worker(30, 1)}, []int{20, 30}},
		{"who only reads rows is none", []metrics.Proc{func() metrics.Proc {
			p := clientProc(20)
			p.Files = []metrics.OpenFile{{Path: "/data/in.jsonl"}}
			return p
		}()}, nil},
		{"curl is none", []metrics.Proc{{PID: 20, PPID: 1, Start: 1, State: "S", Comm: "curl", Argv: []string{"curl", "http://127.0.0.1:8000/health"}, Conns: conn}}, nil},
		{"another port is none of ours", []metrics.Proc{func() metrics.Proc { p := clientProc(20); p.Conns = []metrics.Conn{{Port: 5432, Count: 3}}; return p }()}, nil},
		{"port 80001 is not 8000", []metrics.Proc{clientProc(20, "http://db.example:80001/")}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.json(metrics.KindScan, "", metrics.Scan{Procs: append([]metrics.Proc{sglangProc(10, "--port", "8000")}, c.proc...)})
			var got []int
			for _, cl := range r.tick(time.Second).Clients {
				got = append(got, cl.PID)
			}
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("clients %v, want %v", got, c.want)
			}
		})
	}
}

func TestClientLife(t *testing.T) {
	r := newRig(t)
	p := clientProc(20)
	p.Conns = []metrics.Conn{{Port: 8000, Count: 150}}
	r.json(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{sglangProc(10, "--port", "8000"), p}})
	if c := r.tick(time.Second).Clients[0]; c.State != "running" || c.Conns != 150 || !slices.Equal(c.Ports, []int{8000}) {
		t.Fatalf("client %+v", c)
	}
	r.json(metrics.KindAlive, "", []metrics.Alive{{PID: 20, Start: p.Start, State: "Z"}})
	if c := r.tick(time.Second).Clients[0]; c.State != "zombie" {
		t.Errorf("a zombie is %q", c.State)
	}
	r.json(metrics.KindAlive, "", []metrics.Alive{{PID: 20, Start: p.Start}})
	snap := r.tick(time.Second)
	if c := snap.Clients[0]; c.State != "gone" || len(c.Argv) == 0 {
		t.Errorf("an ended client is %+v", c)
	}
	if !slices.ContainsFunc(snap.Events, func(e metrics.Event) bool { return e.Text == "client 20 ended" }) {
		t.Errorf("events %+v", snap.Events)
	}
	// Another process with the same pid is not the client.
	q := clientProc(20)
	q.Start = ticksAgo(1)
	q.Conns = p.Conns
	r.json(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{sglangProc(10, "--port", "8000"), q}})
	if snap := r.tick(time.Second); len(snap.Clients) != 2 || snap.Clients[0].State != "running" || snap.Clients[1].State != "gone" {
		t.Errorf("clients %+v", snap.Clients)
	}
}

func TestRemoteClient(t *testing.T) {
	r := newRig(t)
	scan := metrics.Scan{Procs: []metrics.Proc{sglangProc(10, "--port", "8000")}, Remote: []metrics.RemoteConn{{Port: 8000, Addr: "10.0.0.9", Count: 32}, {Port: 22, Addr: "10.0.0.8", Count: 1}}}
	r.json(metrics.KindScan, "", scan)
	snap := r.tick(time.Second)
	if len(snap.Clients) != 1 || snap.Clients[0].State != "remote" || snap.Clients[0].Host != "10.0.0.9" || snap.Clients[0].Conns != 32 {
		t.Fatalf("clients %+v", snap.Clients)
	}
	scan.Remote = nil
	r.json(metrics.KindScan, "", scan)
	if c := r.tick(time.Second).Clients[0]; c.State != "gone" || c.Conns != 0 {
		t.Errorf("client after it left %+v", c)
	}
}

// A server that disappeared stays, with its end and cause, until another takes its place.
func TestServerEnds(t *testing.T) {
	r := newRig(t)
	p := sglangProc(10, "--port", "8000")
	p.FD2 = "/data/s.log"
	r.json(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{p}})
	r.log("/data/s.log", "[2026-02-24 11:51:00] server_args=ServerArgs(model_path='/models/Kimi-K2.5', tp_size=8)\n"+
		"[2026-02-24 11:55:00] The server is fired up and ready to roll!\n", metrics.LogHeader{Backfill: 1})
	r.tick(5 * time.Second)
	r.json(metrics.KindAlive, "", []metrics.Alive{{PID: 10, Start: p.Start}})
	r.b.Apply(metrics.Frame{Kind: metrics.KindKernel, Name: "dmesg", At: r.at, Data: []byte(
		"[100004.000000] Out of memory: Killed process 10 (python3) total-vm:1kB, anon-rss:1kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:1kB oom_score_adj:0\n")})
	snap := r.tick(5 * time.Second)
	v := snap.Server()
	if v == nil || v.State != metrics.ServerDown || v.Ended.IsZero() || len(v.Causes) == 0 || v.Causes[0].Class != metrics.CauseHostOOMKilled || !v.Causes[0].Primary {
		t.Fatalf("%s", show(snap))
	}
	if !slices.ContainsFunc(snap.Findings, func(f metrics.Finding) bool { return f.ID == "server-oom" }) {
		t.Errorf("%s", show(snap))
	}
	q := sglangProc(30, "--port", "8000")
	q.Start, q.FD2 = ticksAgo(0), "/data/s.log"
	r.json(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{q}})
	snap = r.tick(time.Second)
	if len(snap.Servers) != 1 || snap.Servers[0].PID != 30 || snap.Servers[0].State != metrics.ServerStarting {
		t.Errorf("after the next start: %s", show(snap))
	}
}

// A restart of the node ends everything that ran on it.
func TestReboot(t *testing.T) {
	r := newRig(t)
	r.json(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{sglangProc(10, "--port", "8000")}})
	r.tick(time.Second)
	r.json(metrics.KindSession, "", metrics.Session{Node: "gpu7", BootID: "other", Now: r.at, UptimeS: 60, HZ: 100})
	snap := r.tick(time.Second)
	if v := snap.Server(); v.State != metrics.ServerDown || snap.BootID != "other" {
		t.Errorf("%s", show(snap))
	}
}

func TestShardKey(t *testing.T) {
	for p, want := range map[string]string{
		"/d/out-00001-of-00008.jsonl": "/d/out-*-of-*.jsonl",
		"/d/out_part3.jsonl":          "/d/out_part*.jsonl",
		"/d/shard-12.jsonl":           "/d/shard-*.jsonl",
		"/d/rows.0007.jsonl":          "/d/rows.*.jsonl",
		"/d/B1_glaive.jsonl":          "/d/B1_glaive.jsonl",
		"/d/run_20260224.jsonl":       "/d/run_20260224.jsonl",
		"/d/v2.jsonl":                 "/d/v2.jsonl",
	} {
		if got := shardKey(p); got != want {
			t.Errorf("shardKey(%s) = %s, want %s", p, got, want)
		}
	}
}

func TestGPUOwners(t *testing.T) {
	r := newRig(t)
	other := metrics.Proc{PID: 40, PPID: 1, Start: 1, State: "S", Comm: "train", Argv: []string{"train"}, GPUs: []int{0}}
	worker := metrics.Proc{PID: 11, PPID: 10, Start: 2, State: "R", Argv: []string{"sglang::scheduler"}, GPUs: []int{0}}
	r.json(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{sglangProc(10), worker, other}})
	r.b.Apply(metrics.Frame{Kind: metrics.KindGPU, At: r.at, Data: []byte("index,uuid,memory.total,memory.used,utilization.gpu\n0, GPU-a, 97887, 90000, 99\n1, GPU-b, 97887, [N/A], [N/A]\n")})
	r.b.Apply(metrics.Frame{Kind: metrics.KindGPUApps, At: r.at, Data: []byte("gpu_uuid,pid,process_name,used_memory\nGPU-a, 11, sglang::scheduler, 80000\nGPU-a, 40, train, 5000\nGPU-a, 999, [Not Found], 5000\n")})
	snap := r.tick(time.Second)
	got := map[int]string{}
	for _, p := range snap.GPUs[0].Procs {
		got[p.PID] = p.Owner
	}
	if got[11] != "server" || got[40] != "other" || got[999] != "invisible" {
		t.Errorf("owners %v", got)
	}
	if g := snap.GPUs[1]; g.MemUsed.Known || g.Util.Known || !g.MemTotal.Known || g.Raw["utilization.gpu"] == "" {
		t.Errorf("unknown is not zero: %+v", g)
	}
}
