package board

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote/simnode/model"
)

// sim carries out the board's wants on the model of a node in virtual time: it
// stands for the probe and the link.
type sim struct {
	t      testing.TB
	b      *Board
	node   *model.Node
	past   model.Past
	zone   *time.Location
	skew   time.Duration // node clock minus local clock
	log    []byte        // the server's log
	client []byte
	rows   map[string]int64
	mtime  map[string]time.Time
	sent   map[string]int64 // bytes of each log that were delivered
	due    map[string]time.Time
	down   bool
	saved  time.Duration // how long before the client's start an earlier visit counted; 0: never
	frames []metrics.Frame
	job    int64
}

var cet = time.FixedZone("CET", 3600)

// newSim is a node of a scenario at the story's moment.
func newSim(t testing.TB, scenario string) *sim {
	t.Helper()
	sc, err := model.Lookup(scenario)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 2, 24, 12, 16, 7, 0, cet)
	s := &sim{t: t, b: New(), node: model.New(sc, now), zone: cet, rows: map[string]int64{}, mtime: map[string]time.Time{}, sent: map[string]int64{}, due: map[string]time.Time{}, job: int64(sc.Job)}
	s.past = s.node.Past()
	for _, p := range s.past.Parts {
		s.rows[p.File] = int64(p.Base)
		s.mtime[p.File] = p.Changed
	}
	return s
}

func (s *sim) now() time.Time { return s.node.Now().Add(-s.skew) }

func (s *sim) apply(f metrics.Frame) {
	s.frames = append(s.frames, f)
	s.b.Apply(f)
}

// connect begins a visit.
func (s *sim) connect(cfg metrics.Config) {
	h := s.node.Host()
	at := s.now()
	s.apply(metrics.JSONFrame(metrics.KindConfig, "", at, cfg))
	if s.saved > 0 {
		var files []metrics.SavedFile
		for f, n := range s.rows {
			files = append(files, metrics.SavedFile{Path: f, ID: "8:" + path.Base(f), Rows: n, At: s.node.Client().Started.Add(-s.saved - s.skew)})
		}
		s.apply(metrics.JSONFrame(metrics.KindSaved, "", at, metrics.Saved{Files: files}))
	}
	s.absorb(s.past.Output)
	s.apply(metrics.JSONFrame(metrics.KindLink, "", at, metrics.LinkFact{Status: metrics.LinkUp}))
	s.apply(metrics.JSONFrame(metrics.KindSession, "", at, metrics.Session{
		Node: "gpu7", Host: h.Hostname, BootID: h.BootID, Zone: "CET", ZoneSec: 3600, HZ: 100, CPUs: h.CPUs,
		Now: s.node.Now(), UptimeS: s.node.Now().Sub(h.BootAt).Seconds(),
	}))
}

func (s *sim) absorb(o model.Output) {
	for _, c := range o.Server {
		s.log = append(s.log, c.Text...)
		s.mtime[s.past.ServerLog] = c.At
	}
	for _, c := range o.Client {
		s.client = append(s.client, c.Text...)
		s.mtime[s.past.ClientLog] = c.At
	}
	for _, r := range o.Rows {
		s.rows[r.File]++
		s.mtime[r.File] = r.At
	}
	if len(o.Kernel) > 0 && !s.down {
		var text strings.Builder
		for _, c := range o.Kernel {
			text.WriteString(c.Text)
		}
		s.apply(metrics.Frame{Kind: metrics.KindKernel, Name: "dmesg", At: s.now(), Data: []byte(text.String())})
	}
}

// run lets time pass, second by second.
func (s *sim) run(d time.Duration) {
	end := s.node.Now().Add(d)
	for s.node.Now().Before(end) {
		s.absorb(s.node.Advance(s.node.Now().Add(time.Second)))
		s.second()
	}
}

func (s *sim) second() {
	s.apply(metrics.Frame{Kind: metrics.KindTick, At: s.now()})
	if s.down {
		return
	}
	if s.every("scan", scanEvery) {
		s.apply(metrics.JSONFrame(metrics.KindScan, "", s.now(), s.scan()))
	}
	if s.every("gpu", 2*time.Second) {
		s.gpu()
	}
	if s.every("sys", 2*time.Second) {
		s.sys()
	}
	for _, w := range s.b.Wants() {
		if w.Every > 0 && !s.every(fmt.Sprint(w.Kind, w.Path, w.Port, w.PID), w.Every) {
			continue
		}
		s.want(w)
	}
}

func (s *sim) every(name string, d time.Duration) bool {
	if s.now().Before(s.due[name]) {
		return false
	}
	s.due[name] = s.now().Add(d)
	return true
}

func (s *sim) stat(p string) metrics.FileStat {
	st := metrics.FileStat{Path: p, ID: "8:" + path.Base(p), Mtime: s.mtime[p].Unix(), Exists: true}
	switch {
	case p == s.past.ServerLog:
		st.Size = int64(len(s.log))
	case p == s.past.ClientLog:
		st.Size = int64(len(s.client))
		if st.Mtime < 0 {
			st.Mtime = s.node.Client().Started.Unix()
		}
	case s.rows[p] > 0:
		st.Size = s.rows[p] * 16_000
	default:
		st.Exists = false
	}
	return st
}

func (s *sim) want(w metrics.Want) {
	at := s.now()
	switch w.Kind {
	case metrics.WantStat:
		s.apply(metrics.JSONFrame(metrics.KindFiles, "", at, []metrics.FileStat{s.stat(w.Path)}))
	case metrics.WantDir:
		var list []metrics.FileStat
		for _, p := range append([]string{s.past.ServerLog, s.past.ClientLog}, sortedPaths(s.rows)...) {
			if d := path.Dir(p); d == w.Path || path.Dir(d) == w.Path {
				list = append(list, s.stat(p))
			}
		}
		s.apply(metrics.JSONFrame(metrics.KindDir, w.Path, at, list))
	case metrics.WantRows:
		n, ok := s.rows[w.Path]
		if !ok {
			return
		}
		st := s.stat(w.Path)
		s.apply(metrics.JSONFrame(metrics.KindRows, w.Path, at, metrics.RowsFact{
			Path: w.Path, ID: st.ID, Size: st.Size, Mtime: st.Mtime, Rows: n, Offset: st.Size, Done: true,
		}))
	case metrics.WantLog:
		s.sendLog(w)
	case metrics.WantPID:
		a := metrics.Alive{PID: w.PID}
		for _, p := range s.node.Processes() {
			if p.PID == w.PID {
				a.Start, a.State, a.Threads = s.ticks(p.Started), string(rune(p.State)), p.Threads
			}
		}
		if a.State == "" {
			for _, srv := range s.b.servers {
				if srv.s.PID == w.PID {
					a.Start = srv.s.Start
				}
			}
			for _, c := range s.b.clients {
				if c.c.PID == w.PID {
					a.Start = c.c.Start
				}
			}
		}
		s.apply(metrics.JSONFrame(metrics.KindAlive, "", at, []metrics.Alive{a}))
	case metrics.WantHTTP:
		h := metrics.HTTPHeader{Port: w.Port, Path: w.Path}
		r, ok := s.node.HTTP("GET", w.Path, "", nil)
		if ok && r.Ticket == 0 {
			h.Status = r.Status
		} else {
			h.Err = "connection refused"
		}
		s.apply(metrics.Frame{Kind: metrics.KindHTTP, Name: fmt.Sprint(w.Port, " ", w.Path), At: at, Data: metrics.EncodeChunk(h, r.Body)})
	}
}

func sortedPaths(m map[string]int64) []string {
	var out []string
	for p := range m {
		out = append(out, p)
	}
	for i := range out {
		for j := i; j > 0 && out[j] < out[j-1]; j-- {
			out[j], out[j-1] = out[j-1], out[j]
		}
	}
	return out
}

func (s *sim) sendLog(w metrics.Want) {
	text := s.log
	if w.Path == s.past.ClientLog {
		text = s.client
	} else if w.Path != s.past.ServerLog {
		return
	}
	from, seen := s.sent[w.Path]
	whole := int64(strings.LastIndexByte(string(text), '\n') + 1)
	if seen && whole <= from {
		return
	}
	h := metrics.LogHeader{ID: "8:" + path.Base(w.Path), Offset: from, End: whole, Size: int64(len(text)), Mtime: s.mtime[w.Path].Unix()}
	if !seen {
		h.Backfill = 1
	}
	h.Lines = int64(strings.Count(string(text[:whole]), "\n"))
	s.sent[w.Path] = whole
	s.apply(metrics.Frame{Kind: metrics.KindLog, Name: w.Path, At: s.now(), Data: metrics.EncodeChunk(h, text[from:whole])})
}

func (s *sim) ticks(t time.Time) int64 { return int64(t.Sub(s.node.Host().BootAt).Seconds() * 100) }

func (s *sim) scan() metrics.Scan {
	out := metrics.Scan{UptimeS: s.node.Now().Sub(s.node.Host().BootAt).Seconds(), Total: 200}
	pids := map[model.Role]int{}
	srv, cli := s.node.Server(), s.node.Client()
	for _, p := range s.node.Processes() {
		pids[p.Role] = p.PID
		q := metrics.Proc{
			PID: p.PID, PPID: 1, PGID: p.PID, Start: s.ticks(p.Started), State: string(rune(p.State)), Comm: "python3",
			Argv: p.Argv, Cwd: p.Dir, Threads: p.Threads, RSS: p.RSS, User: "root", EnvRead: true,
		}
		if p.Parent != "" {
			q.PPID = pids[p.Parent]
			q.PGID = pids[p.Parent]
		}
		switch p.Role {
		case model.ServerMain:
			q.FD1, q.FD2 = s.past.ServerLog, s.past.ServerLog
			if srv.Listening {
				q.Listen = []metrics.ListenAddr{{Addr: srv.Host, Port: srv.Port}}
			}
		case model.ClientMain:
			q.FD1, q.FD2 = s.past.ClientLog, s.past.ClientLog
			if srv.Listening {
				q.Conns = []metrics.Conn{{Port: srv.Port, Count: cli.InFlight}}
			}
		}
		out.Procs = append(out.Procs, q)
	}
	return out
}

func (s *sim) gpu() {
	const fields = "index,name,uuid,pci.bus_id,memory.total,memory.used,memory.free,utilization.gpu,temperature.gpu,power.draw,power.limit,clocks.sm"
	text, _ := s.node.NvidiaSMI([]string{"--query-gpu=" + fields, "--format=csv,noheader,nounits"})
	s.apply(metrics.Frame{Kind: metrics.KindGPU, At: s.now(), Data: []byte(fields + "\n" + text)})
}

func (s *sim) sys() {
	h := s.node.Host()
	text := fmt.Sprintf("uptime %.2f 1\nloadavg %.2f %.2f %.2f 1/200 1\nMemTotal: %d kB\nMemAvailable: %d kB\n",
		s.node.Now().Sub(h.BootAt).Seconds(), h.Load[0], h.Load[1], h.Load[2], h.MemTotal/1024, h.MemAvailable/1024)
	s.apply(metrics.Frame{Kind: metrics.KindSys, At: s.now(), Data: []byte(text)})
}

// config is the operator's wish.
func (s *sim) config() metrics.Config {
	cfg := metrics.Config{Node: "gpu7", Targets: []metrics.ConfigTarget{{Path: "", Rows: s.job}}}
	for _, p := range s.past.Parts {
		cfg.Targets = append(cfg.Targets, metrics.ConfigTarget{Path: p.Name, Rows: int64(p.Target)})
	}
	return cfg
}

// show prints a snapshot for a failing test.
func show(s *metrics.Snapshot) string {
	v := s.Server()
	var out strings.Builder
	fmt.Fprintf(&out, "verdict %s %s\n", s.Verdict.Word, s.Verdict.Text)
	if v != nil {
		c := *v
		c.Argv = nil
		j, _ := json.MarshalIndent(c, "", " ")
		out.Write(j)
	}
	for _, e := range s.Events {
		fmt.Fprintf(&out, "\nevent %s %s %s", e.At.In(cet).Format(time.TimeOnly), e.Kind, e.Text)
	}
	for _, f := range s.Findings {
		fmt.Fprintf(&out, "\nfinding %s %s %s: %s", f.Severity, f.ID, f.Subject, f.Title)
	}
	for _, d := range s.Datasets {
		fmt.Fprintf(&out, "\ndataset %s rows %v rate %v over %v eta %+v landed %v since %v", d.Name, d.Rows.V, d.PerMin, d.PerMinOver, d.ETA, d.Landed.V, d.LandedSince)
	}
	fmt.Fprintf(&out, "\njob %+v", s.Job)
	for _, c := range s.Clients {
		fmt.Fprintf(&out, "\nclient %+v", c)
	}
	for _, c := range s.Starts {
		j, _ := json.Marshal(c)
		fmt.Fprintf(&out, "\nstart %s", j)
	}
	for _, c := range s.CannotTell {
		fmt.Fprintf(&out, "\ncannot tell %+v", c)
	}
	return out.String()
}
