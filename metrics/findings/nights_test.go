package findings_test

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/board"
	"github.com/runvigil/runvigil/remote/simnode/frames"
	"github.com/runvigil/runvigil/remote/simnode/model"
)

// night is a long watch over a simulated node to which ordinary things happen.
type night struct {
	t     *testing.T
	src   *frames.Source
	b     *board.Board
	at    time.Time
	ticks int
	wants []metrics.Want
	spoil func(f *metrics.Frame) // what becomes of a frame on its way
	loud  []string               // above info, each once, in the order in which they came
	seen  map[string]bool
}

func newNight(t *testing.T, scenario string) *night {
	t.Helper()
	sc, err := model.Lookup(scenario)
	if err != nil {
		t.Fatal(err)
	}
	n := &night{t: t, src: frames.New(sc, time.Date(2026, 2, 24, 12, 16, 7, 0, time.FixedZone("CET", 3600))), b: board.New(), seen: map[string]bool{}}
	for _, f := range n.src.Opening() {
		n.b.Apply(f)
	}
	return n
}

func (n *night) apply(f metrics.Frame) {
	if n.spoil != nil {
		n.spoil(&f)
	}
	n.at = f.At
	n.b.Apply(f)
	if f.Kind != metrics.KindTick {
		return
	}
	for _, g := range n.b.Snapshot().Findings {
		if key := g.ID + " " + g.Subject + " " + g.Changed[0].At.String(); g.Severity > metrics.SeverityInfo && !n.seen[key] {
			n.seen[key] = true
			n.loud = append(n.loud, g.ID)
			causesBelong(n.t, []metrics.Finding{g})
			n.t.Logf("%s: %s %s: %s", f.At.Format(time.TimeOnly), g.Severity, g.ID, g.Title)
		}
	}
}

// watch lets time pass and the board see it.
func (n *night) watch(d time.Duration) *metrics.Snapshot {
	for range int(d / time.Second) {
		if n.ticks < 30 || n.ticks%10 == 0 {
			n.wants = n.b.Wants()
		}
		n.ticks++
		for _, f := range n.src.Next(n.wants) {
			n.apply(f)
		}
	}
	return n.b.Snapshot()
}

// sleep lets time pass on the node while this machine is off.
func (n *night) sleep(d time.Duration) {
	for range int(d / time.Second) {
		n.src.Next(nil)
	}
	n.at = n.src.Node().Now()
}

// silent lets this machine tick without a word from the node.
func (n *night) silent(d time.Duration) {
	for range int(d / time.Second) {
		n.src.Next(nil)
		n.apply(metrics.Frame{Kind: metrics.KindTick, At: n.at.Add(time.Second)})
	}
}

func (n *night) link(s metrics.LinkStatus, reason string) {
	n.apply(metrics.JSONFrame(metrics.KindLink, "", n.at.Add(time.Millisecond), metrics.LinkFact{Status: s, Reason: reason}))
}

// loudest tells what was raised above info, but for some.
func (n *night) loudest(but ...string) []string {
	return slices.DeleteFunc(slices.Clone(n.loud), func(id string) bool { return slices.Contains(but, id) })
}

func has(s *metrics.Snapshot, id string) bool { return raised(s, id) != nil }

// A laptop sleeps for hours. When it wakes it has heard nothing for as long, and
// nothing of that is the node's fault.
func TestALaptopSleeps(t *testing.T) {
	n := newNight(t, "healthy")
	n.watch(3 * time.Minute)
	n.sleep(40 * time.Minute)
	n.silent(9 * time.Second) // the link still counts as up
	n.link(metrics.LinkDown, "this machine slept")
	n.silent(3 * time.Second)
	n.link(metrics.LinkUp, "")
	n.src.Reconnect()
	s := n.watch(3 * time.Minute)
	if got := n.loudest("link-down"); len(got) > 0 || has(s, "clock-skew") {
		t.Errorf("raised %v, and now %v", got, s.Findings)
	}
	if has(s, "link-down") {
		t.Error("the link is up again and still told as down")
	}
}

// The connection outlives a short sleep: nobody says that it was down.
func TestAShortSleep(t *testing.T) {
	n := newNight(t, "healthy")
	n.watch(3 * time.Minute)
	n.sleep(10 * time.Minute)
	n.silent(2 * time.Second)
	if n.watch(3 * time.Minute); len(n.loud) > 0 {
		t.Errorf("raised %v", n.loud)
	}
}

// What was wrong before an outage and is so after it is told once.
func TestAnOutageRaisesNothingAnew(t *testing.T) {
	n := newNight(t, "hang")
	n.watch(time.Minute)
	n.link(metrics.LinkDown, "reset by peer")
	n.silent(90 * time.Second)
	if !has(n.b.Snapshot(), "server-hung") {
		t.Error("what was raised is forgotten while the link is down")
	}
	n.link(metrics.LinkUp, "")
	n.src.Reconnect()
	s := n.watch(2 * time.Minute)
	if got := n.loudest("link-down"); !slices.Equal(got, []string{"server-hung"}) || slices.ContainsFunc(s.History, func(f metrics.Finding) bool { return f.ID == "server-hung" }) {
		t.Errorf("raised %v, history %v", got, s.History)
	}
}

// The stamps of the logs go back an hour: summer time ends, or somebody sets the
// clock. Tokens still flow.
func TestStampsGoBack(t *testing.T) {
	for name, c := range map[string]struct {
		scenario string
		by       time.Duration
	}{
		"summer time ends": {"story", -time.Hour}, "summer time begins": {"story", time.Hour}, "the clock is set back": {"story", -11 * time.Minute},
		"summer time ends for vLLM": {"vllm", -time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			stamp, layout := regexp.MustCompile(`\[2026-\d\d-\d\d \d\d:\d\d:\d\d`), "[2006-01-02 15:04:05"
			if c.scenario == "vllm" {
				stamp, layout = regexp.MustCompile(`INFO \d\d-\d\d \d\d:\d\d:\d\d`), "INFO 01-02 15:04:05"
			}
			n := newNight(t, c.scenario)
			n.watch(2 * time.Minute)
			n.spoil = func(f *metrics.Frame) {
				if f.Kind != metrics.KindLog {
					return
				}
				h, raw, err := metrics.DecodeChunk[metrics.LogHeader](f.Data)
				if err != nil {
					t.Fatal(err)
				}
				raw = stamp.ReplaceAllFunc(raw, func(b []byte) []byte {
					at, err := time.Parse(layout, string(b))
					if err != nil {
						t.Fatal(err)
					}
					return []byte(at.Add(c.by).Format(layout))
				})
				f.Data = metrics.EncodeChunk(h, raw)
			}
			s := n.watch(7 * time.Minute)
			if len(n.loud) > 0 {
				t.Errorf("raised %v", n.loud)
			}
			if v := s.Server(); v == nil || v.Gen.Now.Stale(s.At) || v.State != metrics.ServerServing {
				t.Errorf("the server is %s, tok/s from %s", v.State, v.Gen.Now.At)
			}
		})
	}
}

// A vLLM server writes its log in UTC, in a container, while the node is an hour
// ahead.
func TestAContainerLogsInUTC(t *testing.T) {
	n := newNight(t, "vllm")
	n.spoil = func(f *metrics.Frame) {
		if f.Kind != metrics.KindSession {
			return
		}
		s, err := metrics.Decode[metrics.Session](*f)
		if err != nil {
			t.Fatal(err)
		}
		s.Zone, s.ZoneSec = "CEST", 7200 // its stamps are in CET
		f.Data = metrics.JSONFrame(f.Kind, "", f.At, s).Data
	}
	s := n.watch(3 * time.Minute)
	if v := s.Server(); len(n.loud) > 0 || v == nil || s.At.Sub(v.LastBatch) > 30*time.Second {
		t.Errorf("raised %v, the server is %s, last batch %s", n.loud, v.State, v.LastBatch)
	}
}

// A log is rotated while the server writes it, by copying and emptying the file
// or by a new one under its name.
func TestLogRotates(t *testing.T) {
	for name, c := range map[string]struct{ scenario, how string }{
		"truncated": {"story", "truncated"}, "replaced": {"story", "replaced"},
		"truncated with a client that writes": {"healthy", "truncated"}, "replaced with a client that writes": {"healthy", "replaced"},
	} {
		t.Run(name, func(t *testing.T) {
			how := c.how
			n := newNight(t, c.scenario)
			before := n.watch(2 * time.Minute)
			base, told := map[string]int64{}, map[string]bool{}
			n.spoil = func(f *metrics.Frame) {
				if f.Kind != metrics.KindLog {
					return
				}
				h, raw, err := metrics.DecodeChunk[metrics.LogHeader](f.Data)
				if err != nil {
					t.Fatal(err)
				}
				if _, known := base[f.Name]; !known {
					base[f.Name] = h.Offset
				}
				off := base[f.Name]
				h.Offset, h.End, h.Size, h.Lines = h.Offset-off, h.End-off, h.Size-off, int64(bytes.Count(raw, []byte{'\n'}))
				if how == "replaced" {
					h.ID = "9:" + f.Name
				}
				if !told[f.Name] {
					told[f.Name], h.Reset = true, how
				} else {
					h.Lines = -1
				}
				f.Data = metrics.EncodeChunk(h, raw)
			}
			s := n.watch(7 * time.Minute)
			if len(n.loud) > 0 {
				t.Errorf("raised %v", n.loud)
			}
			was, is := before.Server(), s.Server()
			if is == nil || is.ID != was.ID || is.State != metrics.ServerServing || len(s.Starts) != len(before.Starts) {
				t.Errorf("the server is %+v; %d starts, %d before", is, len(s.Starts), len(before.Starts))
			}
		})
	}
}

// The node restarts: what ended is told with that, and what begins is no news of
// somebody else.
func TestTheNodeRestarts(t *testing.T) {
	r := newReplacing()
	client := metrics.Proc{PID: 20, PPID: 1, Start: 99_000_000, State: "S", Comm: "python3", Argv: []string{"python3", "run.py", "--url", "http://127.0.0.1:8000"}, Conns: []metrics.Conn{{Port: 8000, Count: 3}}}
	r.scan(r.server(10, 5000), client)
	r.run(30)
	r.json(metrics.KindLink, "", metrics.LinkFact{Status: metrics.LinkDown, Reason: "connection reset"})
	r.at = r.at.Add(4 * time.Minute)
	r.json(metrics.KindLink, "", metrics.LinkFact{Status: metrics.LinkUp})
	r.json(metrics.KindSession, "", metrics.Session{Node: "n", BootID: "b2", HZ: 100, Now: r.at, UptimeS: 60})
	r.scan()
	s := r.run(90)
	down := raised(s, "server-down")
	if down == nil || !strings.Contains(down.Title, "the node was restarted") {
		t.Errorf("the server: %+v", s.Findings)
	}
	gone := raised(s, "client-gone")
	if gone == nil || !strings.Contains(gone.Why+gone.Title, "the node was restarted") {
		t.Errorf("the client: %+v", s.Findings)
	}
}

// The processes of a server that has just ended stand in the list of the GPUs for
// a while: nobody is blamed for that.
func TestALetGoIsNoHolder(t *testing.T) {
	m := newMeet(1e6, june)
	m.json(metrics.KindConfig, "", metrics.Config{Started: map[int]time.Time{11: june.Add(-time.Hour)}})
	worker := metrics.Proc{PID: 11, PPID: 10, Start: 99_000_100, State: "R", Comm: "sglang::schedul", Argv: []string{"sglang::scheduler_TP0"}, GPUs: []int{0}}
	server := metrics.Proc{PID: 10, PPID: 1, Start: 99_000_000, State: "S", Comm: "python3", Argv: []string{"python3", "-m", "sglang.launch_server", "--port", "8000"}}
	m.b.Apply(metrics.Frame{Kind: metrics.KindGPUStatic, At: m.at, Data: []byte("index,uuid,memory.total\n0, GPU-0, 97887\n")})
	m.b.Apply(metrics.Frame{Kind: metrics.KindGPU, At: m.at, Data: []byte("index,memory.used\n0, 93388\n")})
	m.json(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{server, worker}})
	m.b.Apply(metrics.Frame{Kind: metrics.KindGPUApps, At: m.at, Data: []byte("pid,process_name,used_memory,gpu_uuid\n11, python3, 93000 MiB, GPU-0\n")})
	m.run(5)
	m.json(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{{PID: 1, State: "S"}}})
	for range 12 {
		if f := raised(m.run(1), "gpu-memory-held"); f != nil {
			t.Fatalf("blamed: %s", f.Title)
		}
	}
}

// A server is stopped in its work and started again: that is no hang, neither of
// the one that drains nor of the one that begins, also where the discovery comes
// later than the new one's first lines.
func TestARestartIsNoHang(t *testing.T) {
	for _, late := range []bool{false, true} {
		n := newNight(t, "story")
		s := n.watch(time.Minute)
		v := s.Server()
		n.src.Node().Signal(v.PID, model.SIGTERM)
		n.watch(20 * time.Second)
		if late {
			n.spoil = func(f *metrics.Frame) {
				if f.Kind == metrics.KindScan || f.Kind == metrics.KindAlive {
					f.Kind = "" // it does not come
				}
			}
		}
		n.src.Node().Signal(v.PID, model.SIGKILL)
		n.src.Node().Launch(model.Launch{Argv: v.Argv, Dir: "/data/eagle3"})
		n.watch(15 * time.Second)
		n.spoil = nil
		s = n.watch(2 * time.Minute)
		if got := n.loudest("server-down"); len(got) > 0 {
			t.Errorf("late %v: raised %v", late, got)
		}
		if slices.ContainsFunc(s.History, func(f metrics.Finding) bool { return f.ID == "gpu-memory-held" }) {
			t.Errorf("late %v: its own memory was somebody's: %v", late, s.History)
		}
		if v := s.Server(); v == nil || v.State != metrics.ServerServing {
			t.Errorf("late %v: the server is %+v", late, v)
		}
	}
}

// The server's log is deleted while it works, and nothing but its log counts its
// work: that is told with the way to save it, and no hang is made of the silence.
func TestALogIsDeleted(t *testing.T) {
	for _, scenario := range []string{"story", "healthy"} {
		t.Run(scenario, func(t *testing.T) {
			n := newNight(t, scenario)
			log := n.watch(2 * time.Minute).Server().Log.Path
			n.spoil = func(f *metrics.Frame) {
				switch {
				case f.Kind == metrics.KindLog && f.Name == log:
					f.Kind = "" // nothing can be read
				case f.Kind == metrics.KindFiles:
					list, err := metrics.Decode[[]metrics.FileStat](*f)
					if err != nil {
						t.Fatal(err)
					}
					for i := range list {
						if list[i].Path == log {
							list[i] = metrics.FileStat{Path: log}
						}
					}
					*f = metrics.JSONFrame(f.Kind, f.Name, f.At, list)
				case f.Kind == metrics.KindDir:
					list, err := metrics.Decode[[]metrics.FileStat](*f)
					if err != nil {
						t.Fatal(err)
					}
					*f = metrics.JSONFrame(f.Kind, f.Name, f.At, slices.DeleteFunc(list, func(st metrics.FileStat) bool { return st.Path == log }))
				case f.Kind == metrics.KindScan:
					scan, err := metrics.Decode[metrics.Scan](*f)
					if err != nil {
						t.Fatal(err)
					}
					for i := range scan.Procs {
						for _, fd := range []*string{&scan.Procs[i].FD1, &scan.Procs[i].FD2} {
							if *fd == log {
								*fd += " (deleted)"
							}
						}
					}
					*f = metrics.JSONFrame(f.Kind, f.Name, f.At, scan)
				}
			}
			s := n.watch(7 * time.Minute)
			if f := raised(s, "log-stale"); !slices.Equal(n.loud, []string{"log-stale"}) || f == nil || !strings.Contains(f.Advice, "cp /proc/") {
				t.Errorf("raised %v, and now %+v", n.loud, s.Findings)
			}
			if v := s.Server(); v.State != metrics.ServerServing {
				t.Errorf("the server is %s", v.State)
			}
			n.spoil = nil
			if s = n.watch(time.Minute); has(s, "log-stale") || len(n.loud) != 1 {
				t.Errorf("it is there again; raised %v, and now %v", n.loud, s.Findings)
			}
		})
	}
}

// A file system hangs for some minutes: nothing is heard of logs and rows, and
// that alone is told. The server, its client and its rows are not blamed.
func TestAFileSystemHangs(t *testing.T) {
	for _, scenario := range []string{"story", "healthy", "vllm"} {
		t.Run(scenario, func(t *testing.T) {
			n := newNight(t, scenario)
			n.watch(3 * time.Minute)
			n.spoil = func(f *metrics.Frame) {
				if slices.Contains([]metrics.Kind{metrics.KindLog, metrics.KindRows, metrics.KindFiles, metrics.KindDir, metrics.KindDisk}, f.Kind) {
					f.Kind = ""
				}
			}
			n.watch(10 * time.Second)
			n.apply(metrics.JSONFrame(metrics.KindProbe, "files", n.at.Add(time.Millisecond), metrics.ProbeFact{State: "stuck", Reason: "no answer for 10 s"}))
			s := n.watch(6 * time.Minute)
			if !slices.Equal(n.loud, []string{"data-old"}) || !has(s, "data-old") {
				t.Errorf("raised %v", n.loud)
			}
			n.spoil = nil
			n.apply(metrics.JSONFrame(metrics.KindProbe, "files", n.at.Add(time.Millisecond), metrics.ProbeFact{State: "ok"}))
			if s = n.watch(3 * time.Minute); has(s, "data-old") || len(n.loud) != 1 {
				t.Errorf("it answers again; raised %v, now %v", n.loud, s.Findings)
			}
		})
	}
}

// nvidia-smi hangs for some minutes: that is told, and no GPU is blamed.
func TestTheGPUToolHangs(t *testing.T) {
	n := newNight(t, "healthy")
	n.watch(3 * time.Minute)
	n.spoil = func(f *metrics.Frame) {
		if slices.Contains([]metrics.Kind{metrics.KindGPU, metrics.KindGPUApps, metrics.KindGPUStatic}, f.Kind) {
			f.Kind = ""
		}
	}
	n.apply(metrics.JSONFrame(metrics.KindGPUError, "", n.at.Add(time.Millisecond), metrics.GPUErrorFact{RC: -1, Stuck: true}))
	n.watch(5 * time.Minute)
	n.spoil = nil
	if s := n.watch(2 * time.Minute); !slices.Equal(n.loud, []string{"gpu-tool-stuck"}) || has(s, "gpu-tool-stuck") {
		t.Errorf("raised %v, now %v", n.loud, s.Findings)
	}
}

// The endpoints stop answering for some minutes while tokens flow by the log.
func TestEndpointsDoNotAnswer(t *testing.T) {
	for _, scenario := range []string{"story", "healthy", "vllm"} {
		n := newNight(t, scenario)
		n.watch(3 * time.Minute)
		n.spoil = func(f *metrics.Frame) {
			if f.Kind == metrics.KindHTTP {
				f.Kind = ""
			}
		}
		if n.watch(6 * time.Minute); len(n.loud) > 0 {
			t.Errorf("%s: raised %v", scenario, n.loud)
		}
	}
}

// A client saves every 12 minutes and opens its file for that only. Until its first
// batch was watched nobody can know that: once it is a warning. Then neither is
// nothing saved, nor do its rows stall, nor is work lost.
func TestAClientSavesInBatches(t *testing.T) {
	n := newNight(t, "story")
	saved := map[string]metrics.Frame{}
	stats := map[string]metrics.FileStat{}
	var next time.Time
	hold := func(list []metrics.FileStat) {
		for i, st := range list {
			if !strings.HasSuffix(st.Path, ".jsonl") {
				continue
			}
			if _, ok := stats[st.Path]; !ok {
				stats[st.Path] = st
			}
			list[i] = stats[st.Path]
		}
	}
	n.spoil = func(f *metrics.Frame) {
		if f.At.Sub(next) >= 12*time.Minute {
			next = f.At
			clear(saved)
			clear(stats)
		}
		switch f.Kind {
		case metrics.KindRows:
			if _, ok := saved[f.Name]; !ok {
				saved[f.Name] = *f
			}
			at := f.At
			*f = saved[f.Name]
			f.At = at
		case metrics.KindFiles, metrics.KindDir:
			list, err := metrics.Decode[[]metrics.FileStat](*f)
			if err != nil {
				t.Fatal(err)
			}
			hold(list)
			*f = metrics.JSONFrame(f.Kind, f.Name, f.At, list)
		case metrics.KindScan:
			scan, err := metrics.Decode[metrics.Scan](*f)
			if err != nil {
				t.Fatal(err)
			}
			for i := range scan.Procs {
				scan.Procs[i].Files = nil
			}
			*f = metrics.JSONFrame(f.Kind, f.Name, f.At, scan)
		}
	}
	s := n.watch(70 * time.Minute)
	i := slices.IndexFunc(s.History, func(f metrics.Finding) bool { return f.ID == "rows-stalled" })
	if !slices.Equal(n.loud, []string{"rows-stalled"}) || i < 0 || s.History[i].Severity != metrics.SeverityWarning || s.History[i].Cleared.Sub(s.History[i].Since) > 14*time.Minute {
		t.Errorf("raised %v, history %+v", n.loud, s.History)
	}
}
