package board

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

func (r *rig) http(port int, path string, status int, body string) {
	h := metrics.HTTPHeader{Port: port, Path: path, Status: status}
	r.b.Apply(metrics.Frame{Kind: metrics.KindHTTP, Name: fmt.Sprint(port, " ", path), At: r.at, Data: metrics.EncodeChunk(h, []byte(body))})
}

// asked lists the paths that are wanted by HTTP.
func (r *rig) asked() []string {
	var out []string
	for _, w := range r.b.Wants() {
		if w.Kind == metrics.WantHTTP {
			out = append(out, w.Path)
		}
	}
	slices.Sort(out)
	return out
}

func ready(r *rig) {
	r.log(serverLog, "["+r.stamp(-10*time.Minute)+"] The server is fired up and ready to roll!\n"+
		decodeLine(r.stamp(-5*time.Second), "", 35, 150_000, 0.95, 606, 115)+
		decodeLine(r.stamp(-2*time.Second), "", 35, 150_000, 0.95, 606, 115), metrics.LogHeader{Backfill: 2})
	r.tick(time.Second)
}

func TestWantsNothingOfANodeThatIsNotKnown(t *testing.T) {
	for _, w := range New().Wants() {
		if w.Kind != metrics.WantKernel && w.Kind != metrics.WantDisk && (w.Kind != metrics.WantMemory || w.PID != 0) {
			t.Errorf("an empty board wants %+v", w)
		}
	}
}

func TestHTTPIsAskedAsLittleAsPossible(t *testing.T) {
	loads := `{"timestamp":"x","version":"0.5.9","loads":[{"dp_rank":0,"num_running_reqs":35,"num_waiting_reqs":115,"num_used_tokens":150000,"max_total_num_tokens":159277,"token_usage":0.94,"gen_throughput":0.0}]}`
	for _, c := range []struct {
		name string
		do   func(r *rig)
		want []string
	}{
		{"a start that is not ready has no port", func(r *rig) {
			r.b.servers[0].listening = false
			r.log(serverLog, "["+r.stamp(-time.Minute)+"] server_args=ServerArgs(model_path='/m', enable_metrics=False)\n", metrics.LogHeader{Backfill: 1})
		}, nil},
		{"ready", ready, []string{"/metrics", "/server_info", "/v1/loads"}},
		{"once it has told its version", func(r *rig) {
			ready(r)
			r.http(8000, "/server_info", 200, `{"version":"0.5.9","max_total_num_tokens":159277,"kv_cache_dtype":"auto"}`)
		}, []string{"/metrics", "/v1/loads"}},
		{"without metrics they are tried once", func(r *rig) {
			ready(r)
			r.http(8000, "/server_info", 200, `{"version":"0.5.9"}`)
			r.http(8000, "/metrics", 404, "")
		}, []string{"/v1/loads"}},
		{"a version without /v1/loads", func(r *rig) {
			ready(r)
			r.http(8000, "/server_info", 200, `{"version":"0.5.7"}`)
			r.http(8000, "/metrics", 404, "")
		}, nil},
		{"a silent log with requests running", func(r *rig) {
			ready(r)
			r.http(8000, "/server_info", 200, `{"version":"0.5.9"}`)
			r.http(8000, "/metrics", 404, "")
			r.tick(2 * time.Minute)
			r.http(8000, "/v1/loads", 200, loads)
		}, []string{"/health", "/v1/loads"}},
		{"a silent log of an idle server", func(r *rig) {
			ready(r)
			r.http(8000, "/server_info", 200, `{"version":"0.5.9"}`)
			r.http(8000, "/metrics", 404, "")
			r.tick(2 * time.Minute)
			r.http(8000, "/v1/loads", 200, `{"version":"0.5.9","loads":[{"dp_rank":0,"num_running_reqs":0,"num_waiting_reqs":0}]}`)
		}, []string{"/v1/loads"}},
		{"a server that is gone", func(r *rig) {
			ready(r)
			r.json(metrics.KindScan, "", metrics.Scan{})
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := served(t)
			c.do(r)
			if got := r.asked(); !slices.Equal(got, c.want) {
				t.Errorf("asked %v, want %v", got, c.want)
			}
		})
	}
}

func TestWantsCarryAddressAndKey(t *testing.T) {
	r := newRig(t)
	p := sglangProc(10, "--port", "8000", "--host", "10.1.2.3", "--api-key", "***")
	p.Listen = []metrics.ListenAddr{{Addr: "10.1.2.3", Port: 8000}}
	r.json(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{p}})
	for _, w := range r.b.Wants() {
		if w.Kind == metrics.WantHTTP && (w.Addr != "10.1.2.3" || w.KeyPID != 10 || w.Port != 8000) {
			t.Errorf("want %+v", w)
		}
	}
	for addr, want := range map[string]string{"0.0.0.0": "127.0.0.1", "::": "127.0.0.1", "": "127.0.0.1", "10.1.2.3": "10.1.2.3", "::1": "::1"} {
		if got := dial(addr); got != want {
			t.Errorf("dial(%q) = %q, want %q", addr, got, want)
		}
	}
}

func TestLogWants(t *testing.T) {
	r := served(t)
	r.json(metrics.KindConfig, "", metrics.Config{ClientLogs: []string{"/data/c.log"}, Logs: []string{"/var/log/x.log"}})
	got := map[string]metrics.Want{}
	for _, w := range r.b.Wants() {
		if w.Kind == metrics.WantLog {
			got[w.Path] = w
		}
	}
	if got[serverLog].Anchors == "" || got[serverLog].Tail != tailBytes {
		t.Errorf("server log: %+v", got[serverLog])
	}
	for _, p := range []string{"/data/c.log", "/var/log/x.log"} {
		if w, ok := got[p]; !ok || w.Anchors != "" {
			t.Errorf("%s: %+v %v", p, w, ok)
		}
	}
}

// A terminal's pane is captured where no file takes the output.
func TestPaneIsWanted(t *testing.T) {
	r := newRig(t)
	p := sglangProc(10)
	p.FD1, p.FD2 = "/dev/pts/3", "/dev/pts/3"
	r.json(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{p}})
	if !slices.ContainsFunc(r.b.Wants(), func(w metrics.Want) bool { return w.Kind == metrics.WantPane && w.Path == "/dev/pts/3" }) {
		t.Errorf("wants %v", r.b.Wants())
	}
}

// Idle is told from hung by /v1/loads; without it, by how many were answered.
func TestSilentServers(t *testing.T) {
	load := func(run, wait int) string {
		return fmt.Sprintf(`{"version":"0.5.9","loads":[{"dp_rank":0,"num_running_reqs":%d,"num_waiting_reqs":%d}]}`, run, wait)
	}
	for _, c := range []struct {
		name string
		do   func(r *rig)
		want metrics.ServerState
	}{
		{"loads say idle", func(r *rig) { r.poll(2*time.Minute, load(0, 0)) }, metrics.ServerIdle},
		{"loads say busy", func(r *rig) { r.poll(2*time.Minute, load(35, 115)) }, metrics.ServerHung},
		{"a minute is no hang", func(r *rig) { r.poll(40*time.Second, load(35, 115)) }, metrics.ServerServing},
		{"no loads, a queue in the last line", func(r *rig) { r.tick(2 * time.Minute) }, metrics.ServerHung},
		{"no loads, all were answered", func(r *rig) {
			text := decodeLine(r.stamp(0), "", 5, 20_000, 0.10, 200, 0)
			for range 5 {
				text += "[" + r.stamp(time.Second) + "] INFO:     127.0.0.1:1 - \"POST /generate HTTP/1.1\" 200 OK\n"
			}
			r.log(serverLog, text, metrics.LogHeader{})
			r.tick(2 * time.Minute)
		}, metrics.ServerIdle},
		{"asked to stop", func(r *rig) {
			r.log(serverLog, "["+r.stamp(0)+"] SIGTERM received. signum=15 frame=None. Draining requests and shutting down...\n", metrics.LogHeader{})
			r.tick(5 * time.Second)
		}, metrics.ServerDraining},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := served(t)
			ready(r)
			c.do(r)
			if v := r.b.Snapshot().Server(); v.State != c.want {
				t.Errorf("state %s since %s, want %s", v.State, v.Since, c.want)
			}
		})
	}
}

func (r *rig) poll(d time.Duration, body string) {
	for end := r.at.Add(d); r.at.Before(end); {
		r.http(8000, "/v1/loads", 200, body)
		r.tick(5 * time.Second)
	}
}

// Counters of /metrics give the rate while the log tells none.
func TestMetricsStepIn(t *testing.T) {
	r := served(t)
	text := func(tokens int) string {
		return fmt.Sprintf("# TYPE sglang:num_running_reqs gauge\nsglang:num_running_reqs{model_name=\"m\"} 12\n# TYPE sglang:generation_tokens_total counter\nsglang:generation_tokens_total{model_name=\"m\"} %d\n# TYPE sglang:num_requests_total counter\nsglang:num_requests_total{model_name=\"m\"} 77\n", tokens)
	}
	r.http(8000, "/metrics", 200, text(1000))
	r.tick(5 * time.Second)
	r.http(8000, "/metrics", 200, text(3500))
	v := r.tick(time.Second).Server()
	within(t, "tok/s", v.Gen.Now, 500, 500)
	within(t, "running", v.Running, 12, 12)
	within(t, "finished", v.Finished, 77, 77)
	if v.Gen.Now.Source != sourceMetrics || v.MetricsOn == nil || !*v.MetricsOn || v.FinishedWith != sourceMetrics {
		t.Errorf("sources: %+v", v)
	}
	ready(r)
	if v := r.b.Snapshot().Server(); v.Gen.Now.Source != sourceLog || v.Gen.Now.V != 606 {
		t.Errorf("a fresh decode line comes first: %+v", v.Gen.Now)
	}
}

func TestVersionAtLeast(t *testing.T) {
	for v, want := range map[string]bool{"0.5.8": true, "0.5.9.post1": true, "0.5.10": true, "0.5.7": false, "0.4.9": false, "1.0": true, "": true, "0.5": false, "0.5.8rc1": true, "main": true} {
		if got := versionAtLeast(v, 0, 5, 8); got != want {
			t.Errorf("versionAtLeast(%q) = %v", v, got)
		}
	}
}

func TestBrokenFramesAreSaid(t *testing.T) {
	r := newRig(t)
	for _, k := range []metrics.Kind{metrics.KindScan, metrics.KindLog, metrics.KindHTTP, metrics.KindRows, metrics.KindSession} {
		r.b.Apply(metrics.Frame{Kind: k, Name: "x", At: r.at, Data: []byte("{broken")})
	}
	snap := r.tick(time.Second)
	if n := len(snap.CannotTell); n < 5 {
		t.Errorf("%d entries: %+v", n, snap.CannotTell)
	}
	r.json(metrics.KindScan, "", metrics.Scan{Hidden: []string{"fd of 12 processes: permission denied"}})
	r.json(metrics.KindProbe, "gpu", metrics.ProbeFact{State: "absent", Reason: "no nvidia-smi", Advice: "put it on the PATH"})
	got := map[string]metrics.CannotTell{}
	for _, c := range r.tick(time.Second).CannotTell {
		got[c.What] = c
	}
	if got["GPU figures"].Tell != "put it on the PATH" || got["some processes"].Why == "" {
		t.Errorf("cannot tell %+v", got)
	}
	if _, ok := got["newest scan frame"]; ok {
		t.Error("a good frame does not clear the broken one")
	}
}

func TestHostFigures(t *testing.T) {
	r := newRig(t)
	sys := func(busy, idle int) {
		r.b.Apply(metrics.Frame{Kind: metrics.KindSys, At: r.at, Data: fmt.Appendf(nil, "uptime 100 1\nloadavg 3.50 1 1 1/9 9\ncpu  %d 0 0 %d 0 0 0 0 0 0\nMemTotal:  1000 kB\nMemAvailable:  400 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n", busy, idle)})
	}
	sys(100, 100)
	if h := r.tick(time.Second).Sys; h.CPUUtil.Known || h.Load1.V != 3.5 || h.MemAvail.V != 400*1024 || !h.SwapUsed.Known || h.SwapUsed.V != 0 || h.CPUs != 64 {
		t.Errorf("host %+v", h)
	}
	sys(150, 250)
	within(t, "cpu", r.tick(time.Second).Sys.CPUUtil, 0.25, 0.25)
	avail := int64(1_000_000)
	for range 11 {
		r.json(metrics.KindDisk, "", []metrics.DiskFact{{Path: "/data/a", Mount: "/data", Total: 2_000_000, Avail: avail, InodesFree: -1}, {Path: "/dev/shm", Mount: "/dev/shm", Total: 5, Avail: 5, InodesFree: 1}})
		avail -= 1000
		r.tick(time.Minute)
	}
	h := r.b.Snapshot().Sys
	if len(h.Disks) != 1 || h.Disks[0].InodesFree.Known || h.Shm.Total.V != 5 {
		t.Fatalf("disks %+v", h)
	}
	if full := h.Disks[0].FullIn; full < 980*time.Minute || full > 1000*time.Minute {
		t.Errorf("full in %s, want 990 minutes", full)
	}
}

func TestGuardsNotesAcks(t *testing.T) {
	r := newRig(t)
	r.json(metrics.KindConfig, "", metrics.Config{Guards: []metrics.Guard{{Flag: "kv-cache-dtype", Deny: []string{"fp8*"}, Why: "degrades the model"}}})
	r.json(metrics.KindGuards, "node", []metrics.Guard{{Flag: "kv-cache-dtype", Deny: []string{"fp8*"}, Why: "degrades the model"}, {Flag: "tp-size", Allow: []string{"8"}, Why: "w"}})
	r.json(metrics.KindNote, "", metrics.Note{At: r.at, Text: "coffee\x1b[0m"})
	r.b.Apply(metrics.Frame{Kind: metrics.KindJournal, Name: "r1", At: r.at, Data: []byte("stopping\nstopped\n")})
	snap := r.tick(time.Second)
	if len(snap.Guards) != 2 || snap.Guards[0].From != "config" || snap.Guards[1].From != "node" {
		t.Errorf("guards %+v", snap.Guards)
	}
	if len(snap.Notes) != 1 || snap.Notes[0].Text != "coffee" || len(snap.Events) != 3 {
		t.Errorf("notes %+v events %+v", snap.Notes, snap.Events)
	}
	served := func(s string) bool {
		return slices.ContainsFunc(snap.Events, func(e metrics.Event) bool { return e.Text == s && e.Ref == "r1" })
	}
	if !served("stopping") || !served("stopped") {
		t.Errorf("events %+v", snap.Events)
	}
}

func TestFirstVisitSaysWhatItDoes(t *testing.T) {
	b := New()
	b.Apply(metrics.JSONFrame(metrics.KindConfig, "", t0, metrics.Config{Node: "gpu7"}))
	if s := b.Snapshot(); s.Verdict.Word != metrics.WordWait || len(s.Doing) != 1 {
		t.Errorf("before the session: %+v %v", s.Verdict, s.Doing)
	}
	r := newRig(t)
	if s := r.tick(time.Second); s.Verdict.Word != metrics.WordWait {
		t.Errorf("before the first scan: %+v", s.Verdict)
	}
	r.json(metrics.KindScan, "", metrics.Scan{})
	if s := r.tick(time.Second); s.Verdict.Word != metrics.WordNone {
		t.Errorf("an empty node: %+v", s.Verdict)
	}
}

// Another engine is a server by its endpoint and a mapping of its metrics.
func TestConfiguredEndpoint(t *testing.T) {
	r := newRig(t)
	r.json(metrics.KindConfig, "", metrics.Config{Endpoint: &metrics.ConfigEndpoint{
		Engine: "tgi", Port: 9090, Path: "/stats", Metrics: map[string]string{"running": "tgi_batch_current_size", "gen_tokens_total": "tgi_tokens"},
	}})
	r.json(metrics.KindScan, "", metrics.Scan{})
	if got := r.asked(); !slices.Equal(got, []string{"/stats"}) {
		t.Fatalf("asked %v", got)
	}
	for i := range 4 {
		r.http(9090, "/stats", 200, fmt.Sprintf("tgi_batch_current_size 12\ntgi_tokens %d\n", 1000*i))
		r.tick(5 * time.Second)
	}
	v := r.b.Snapshot().Server()
	if v == nil || v.Engine != "tgi" || v.State != metrics.ServerServing || v.Gen.Now.V != 200 || v.Running.V != 12 {
		t.Fatalf("%s", show(r.b.Snapshot()))
	}
	for range 4 {
		r.http(9090, "/stats", 0, "")
		r.tick(5 * time.Second)
	}
	if v := r.b.Snapshot().Server(); v.State != metrics.ServerDown || v.Ended.IsZero() {
		t.Errorf("an endpoint that does not answer: %s", show(r.b.Snapshot()))
	}
	// A process that is found on the port knows more.
	r.json(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{sglangProc(10, "--port", "9090")}})
	if s := r.tick(time.Second).Servers; len(s) != 1 || s[0].PID != 10 {
		t.Errorf("servers %+v", s)
	}
}

// A server that a restart has just started is looked for at once, and not for ever.
func TestStartedServerIsSought(t *testing.T) {
	r := newRig(t)
	r.tick(time.Second)
	sought := func() bool {
		return slices.ContainsFunc(r.b.Wants(), func(w metrics.Want) bool { return w.Kind == metrics.WantPID && w.PID == 77 })
	}
	if sought() {
		t.Fatal("it is sought before anything was started")
	}
	r.b.Apply(metrics.Frame{Kind: metrics.KindJournal, Name: "1-ab", At: r.at, Data: []byte("1771931778 started pid=77:9 port=8000 launch=new\n")})
	if !sought() {
		t.Error("nobody looks for the server that was started")
	}
	for range 10 {
		r.tick(8 * time.Second)
	}
	if sought() {
		t.Error("it is sought for ever")
	}
}
