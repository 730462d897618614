package model

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// dump is all that a node tells, as text.
func dump(n *Node, outs ...Output) string {
	b := &strings.Builder{}
	for _, out := range append([]Output{n.Past().Output}, outs...) {
		for _, list := range [][]Chunk{out.Server, out.Client, out.Kernel} {
			for _, c := range list {
				fmt.Fprintf(b, "%d %d %s", c.At.UnixNano(), c.Stream, c.Text)
			}
		}
		for _, r := range out.Rows {
			fmt.Fprintf(b, "%s\n", r.JSON())
		}
		fmt.Fprintf(b, "%+v\n", out.Exits)
	}
	smi, _ := n.NvidiaSMI(nil)
	fmt.Fprintf(b, "%s%+v\n%+v\n%+v\n", smi, n.GPUs(), n.Host(), n.Processes())
	return b.String()
}

func TestDeterminism(t *testing.T) {
	for _, sc := range Scenarios() {
		var texts [2]string
		for i := range texts {
			n := New(sc, noon)
			var outs []Output
			// The pace at which a driver asks must not change what happens.
			for at := time.Duration(0); at < time.Minute; at += time.Duration(1+6*i) * time.Second {
				outs = append(outs, n.Advance(noon.Add(at)))
			}
			outs = append(outs, n.Advance(noon.Add(time.Minute)))
			var all Output
			for _, o := range outs {
				all.Server = append(all.Server, o.Server...)
				all.Client = append(all.Client, o.Client...)
				all.Kernel = append(all.Kernel, o.Kernel...)
				all.Rows = append(all.Rows, o.Rows...)
				all.Exits = append(all.Exits, o.Exits...)
			}
			texts[i] = dump(n, all)
		}
		if texts[0] != texts[1] {
			t.Errorf("%s: two runs differ", sc.Name)
		}
	}
}

func TestScenariosAreWhatTheySay(t *testing.T) {
	type facts struct {
		phase           Phase
		running, queued int
		client          bool
		clientLog       bool
		lost            bool
		silence         time.Duration // since the last batch line, 0 not looked at
	}
	for name, want := range map[string]facts{
		"story":        {phase: PhaseReady, running: 35, queued: 115, client: true},
		"ramp":         {phase: PhaseReady, running: 121, queued: 29, client: true},
		"healthy":      {phase: PhaseReady, running: 35, queued: 115, client: true, clientLog: true},
		"idle":         {phase: PhaseReady, clientLog: true},
		"loading":      {phase: PhaseWeights},
		"oom":          {phase: PhaseDead, client: true, clientLog: true},
		"hang":         {phase: PhaseReady, running: 35, queued: 115, client: true, silence: 3 * time.Minute},
		"client-dead":  {phase: PhaseReady, silence: 6 * time.Minute},
		"no-server":    {phase: PhaseDead, client: true, clientLog: true},
		"gpu-lost":     {phase: PhaseReady, running: 35, queued: 115, client: true, lost: true, silence: 4 * time.Minute},
		"gpu-held":     {phase: PhaseDead, client: true, clientLog: true},
		"client-twice": {phase: PhaseReady, running: 35, queued: 265, client: true},
		"work-lost":    {phase: PhaseReady, running: 35, queued: 115, client: true, clientLog: true},
		"restless":     {phase: PhaseReady, running: 35, queued: 115, client: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := New(scenario(t, name), noon)
			s, c := n.Server(), n.Client()
			got := facts{
				phase: s.Phase, running: s.Running, queued: s.Queued, client: c.Running,
				clientLog: len(n.Past().Client) > 0, lost: n.GPUs()[5].Lost, silence: want.silence,
			}
			if abs(got.running-want.running) <= 2 && got.running+got.queued == want.running+want.queued {
				got.running, got.queued = want.running, want.queued
			}
			if got != want {
				t.Errorf("%+v\nwant %+v", got, want)
			}
			if since := noon.Sub(s.LastBatch); want.silence > 0 && (since < want.silence-3*time.Second || since > want.silence+10*time.Second) {
				t.Errorf("last batch line %s ago, want %s", since, want.silence)
			}
		})
	}
}

func TestOrphanHoldsItsCard(t *testing.T) {
	n := New(scenario(t, "gpu-held"), noon)
	text := joined(n.Past().Output)
	if !strings.Contains(text, "RuntimeError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. pre_model_load_memory=2.") {
		t.Errorf("the log does not tell of the imbalance: %.300s", text[len(text)-600:])
	}
	used := func() int { return n.GPUs()[3].UsedMiB }
	if used() < 90_000 || n.GPUs()[2].UsedMiB > 10 {
		t.Fatalf("GPU 3 holds %d MiB, GPU 2 %d", used(), n.GPUs()[2].UsedMiB)
	}
	orphan := n.GPUs()[3].Processes[0].PID
	if !n.Signal(orphan, SIGKILL) || used() > 10 {
		t.Fatalf("after the orphan's end GPU 3 holds %d MiB", used())
	}
	n.Launch(Launch{Argv: serverArgv, Env: runEnv, Dir: "/"})
	n.Advance(noon.Add(25 * time.Second))
	if phase := n.Server().Phase; phase != PhaseReady {
		t.Errorf("the next start is %s, want ready", phase)
	}
}

func TestTwoClientsDoTheSameWork(t *testing.T) {
	n := New(scenario(t, "client-twice"), noon)
	seen, twice := map[string]bool{}, 0
	for _, r := range n.Past().Rows {
		if seen[r.ID] {
			twice++
		}
		seen[r.ID] = true
	}
	if twice < 20 {
		t.Errorf("%d rows are there twice, want more", twice)
	}
	roles := map[Role]int{}
	for _, p := range n.Processes() {
		roles[p.Role]++
	}
	if roles[ClientMain] != 1 || roles[OldClient] != 1 {
		t.Errorf("processes %v", roles)
	}
}

func TestResumedClientRepeatsNothing(t *testing.T) {
	n := New(scenario(t, "story"), noon)
	n.Signal(n.pidOf(ClientMain), SIGKILL)
	n.StartClient(ClientLaunch{Argv: clientArgv, Env: runEnv, Dir: jobFolder})
	out := n.Advance(noon.Add(time.Hour))
	seen := map[string]bool{}
	for _, r := range append(n.Past().Rows, out.Rows...) {
		if seen[r.ID] {
			t.Fatalf("row %s is there twice", r.ID)
		}
		seen[r.ID] = true
	}
	if len(out.Rows) < 300 {
		t.Errorf("%d rows in an hour", len(out.Rows))
	}
}

func TestTimeoutsLoseWork(t *testing.T) {
	n := New(scenario(t, "work-lost"), noon)
	r, _ := n.HTTP("GET", "/metrics", "", nil)
	value := func(name string) float64 {
		_, after, found := strings.Cut(string(r.Body), "\n"+name+"{")
		line, _, _ := strings.Cut(after, "\n")
		v, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if !found || err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return v
	}
	finished, aborted := value("sglang:num_requests_total"), value("sglang:num_aborted_requests_total")
	late := 0
	for _, row := range n.Past().Rows {
		if noon.Sub(row.At) < 10*time.Minute {
			late++
		}
	}
	if late < 60 || late > 110 {
		t.Errorf("%d rows in the last ten minutes, want those of a settled run", late)
	}
	if landed := float64(len(n.Past().Rows)); aborted < 100 || finished != landed+1 {
		t.Errorf("%v finished (one of them the warm-up), %v landed, %v aborted", finished, landed, aborted)
	}
}

func TestRestlessGoesOn(t *testing.T) {
	n := New(scenario(t, "restless"), noon)
	out := n.Advance(noon.Add(6 * time.Hour))
	var last time.Time
	var gap time.Duration
	for _, l := range decodeLines(t, out.Server) {
		if !last.IsZero() {
			gap = max(gap, l.at.Sub(last))
		}
		last = l.at
	}
	parts := n.Parts()
	if gap < 44*time.Second || gap > 70*time.Second {
		t.Errorf("longest time without a Decode line is %s, want the stall of 44 s", gap)
	}
	if parts[1].Rows != parts[1].Target || parts[2].Rows < 1000 || !n.Client().Running {
		t.Errorf("rows %d and %d, client running %v", parts[1].Rows, parts[2].Rows, n.Client().Running)
	}
}

func abs(v int) int { return max(v, -v) }

func TestIdleJobIsDone(t *testing.T) {
	n := New(scenario(t, "idle"), noon)
	sum := 0
	for _, p := range n.Parts() {
		sum += p.Rows
	}
	if sum != n.scenario.Job {
		t.Errorf("%d rows, want the job's %d", sum, n.scenario.Job)
	}
	if last := n.Past().Client; !strings.Contains(last[len(last)-1].Text, "all parts done") {
		t.Errorf("the client's log ends with %q", last[len(last)-1].Text)
	}
}

func TestHangAnswersHealth(t *testing.T) {
	n := New(scenario(t, "hang"), noon)
	if r, ok := n.HTTP("GET", "/health", "", nil); !ok || r.Status != 200 {
		t.Errorf("/health: %+v %v, want 200 at once", r, ok)
	}
	loads, ok := n.HTTP("GET", "/v1/loads", "", nil)
	if !ok || loads.Ticket == 0 {
		t.Fatalf("/v1/loads: %+v, want a reply that waits for the scheduler", loads)
	}
	if out := n.Advance(noon.Add(2 * time.Minute)); len(out.Answers) != 0 {
		t.Errorf("a scheduler that hangs has answered: %+v", out.Answers)
	}
}

func TestHealthOnAnIdleServerIsWork(t *testing.T) {
	n := New(scenario(t, "client-dead"), noon)
	r, ok := n.HTTP("GET", "/health", "", nil)
	if !ok || r.Ticket == 0 {
		t.Fatalf("/health: %+v %v, want a ticket", r, ok)
	}
	out := n.Advance(noon.Add(1500 * time.Millisecond))
	if len(out.Answers) != 1 || out.Answers[0].Ticket != r.Ticket || out.Answers[0].Reply.Status != 200 {
		t.Fatalf("answers %+v", out.Answers)
	}
	if text := out.Server[0].Text; !strings.Contains(text, "Prefill batch, #new-seq: 1, #new-token: 1, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 0") {
		t.Errorf("first line %q", text)
	}
}

func TestRestart(t *testing.T) {
	n := New(scenario(t, "story"), noon)
	at := noon
	step := func(d time.Duration) Output { at = at.Add(d); return n.Advance(at) }
	n.Signal(n.pidOf(ServerMain), SIGTERM)
	if text := joined(step(8 * time.Second)); !strings.Contains(text, "SIGTERM received.") || !strings.Contains(text, "Remaining number of requests 150.") {
		t.Errorf("drain says\n%s", text)
	}
	n.Signal(n.pidOf(ServerMain), SIGKILL)
	if out := step(time.Second); len(out.Exits) != 11 || n.Server().Phase != PhaseDead || n.GPUs()[0].UsedMiB > 5 {
		t.Fatalf("%d exits, phase %s", len(out.Exits), n.Server().Phase)
	}
	n.Launch(Launch{Argv: with(serverArgv, "--mem-fraction-static", "0.85"), Env: runEnv, Dir: "/"})
	said := ""
	for i := 0; i < 20 && !strings.Contains(said, "ready to roll"); i++ {
		said += joined(step(time.Second))
	}
	if !strings.Contains(said, "ready to roll") {
		t.Fatalf("no start in 20 s: phase %s", n.Server().Phase)
	}
	r, ok := n.HTTP("POST", "/generate", "", []byte(`{"text":"x","sampling_params":{"max_new_tokens":1}}`))
	if !ok || r.Ticket == 0 {
		t.Fatalf("/generate: %+v %v", r, ok)
	}
	out := step(10 * time.Second)
	found := false
	for _, a := range out.Answers {
		found = found || a.Ticket == r.Ticket && a.Reply.Status == 200
	}
	if st := n.Server(); !found || st.Running == 0 || st.Capacity != 116_171 {
		t.Errorf("answered %v, %d running, capacity %d", found, st.Running, st.Capacity)
	}
}

func joined(out Output) string {
	b := &strings.Builder{}
	for _, c := range out.Server {
		b.WriteString(c.Text)
	}
	return b.String()
}

func TestBadLaunches(t *testing.T) {
	for _, c := range []struct {
		argv []string
		says string
		code int
	}{
		{with(serverArgv, "--no-such-flag", ""), "error: unrecognized arguments: --no-such-flag", 2},
		{with(serverArgv, "--mem-fraction-static", "0.7"), "Not enough memory. Please try to increase --mem-fraction-static. Current value: 0.7", 137},
		{with(serverArgv, "--mem-fraction-static", "0.97"), "Capture cuda graph failed", 137},
		{with(serverArgv, "--hicache-size", "1100"), "Not enough host memory available", 137},
		{with(serverArgv, "--hicache-size", "200"), "Rank 5 scheduler is dead. Please check if there are relevant logs.", 1},
		{with(serverArgv, "--disable-radix-cache", ""), "mutually exclusive", 137},
		{with(serverArgv, "--hicache-size", "5"), "The host memory should be larger than the device memory", 137},
	} {
		n := New(scenario(t, "loading"), noon)
		n.Signal(n.pidOf(ServerMain), SIGKILL)
		n.Launch(Launch{Argv: c.argv, Dir: "/"})
		out := n.Advance(noon.Add(25 * time.Second))
		code := -1
		for _, e := range out.Exits {
			if e.Role == ServerMain {
				code = e.Code
			}
		}
		if !strings.Contains(joined(out), c.says) || code != c.code {
			t.Errorf("%v: exit %d, says\n%.800s\nwant exit %d and %q", c.argv[len(c.argv)-2:], code, joined(out), c.code, c.says)
		}
	}
}

func TestRowsAreJSON(t *testing.T) {
	n := New(scenario(t, "ramp"), noon)
	rows := append(n.Past().Rows[:3:3], n.Parts()[0].BaseRow(0), n.Parts()[0].BaseRow(9_999))
	for _, r := range rows {
		var v struct {
			ID, Text string
			Meta     struct {
				Finish     struct{ Type string } `json:"finish_reason"`
				Completion int                   `json:"completion_tokens"`
			} `json:"meta_info"`
		}
		line := r.JSON()
		if err := json.Unmarshal(line, &v); err != nil || v.ID != r.ID || v.Meta.Completion != r.Tokens || v.Meta.Finish.Type != "stop" {
			t.Errorf("%v %+v of %s", err, v, line)
		}
		if strings.Contains(string(line), "\n") || len(line) < 400 || len(line) != r.Size() {
			t.Errorf("row of %d bytes: %s", len(line), line)
		}
	}
}

func TestSMI(t *testing.T) {
	n := New(scenario(t, "gpu-lost"), noon)
	out, code := n.NvidiaSMI([]string{"--query-gpu=index,memory.used,memory.free,utilization.gpu", "--format=csv,noheader,nounits", "-lms", "1000"})
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != 0 || len(lines) != 8 || lines[0] != "0, 93366, 4521, 100" || lines[5] != "5, [GPU is lost], [GPU is lost], [GPU is lost]" {
		t.Errorf("exit %d\n%s", code, out)
	}
	out, code = n.NvidiaSMI([]string{"--query-gpu=index,nosuch", "--format=csv"})
	if code != 2 || !strings.HasPrefix(out, `Field "nosuch" is not a valid field to query.`) {
		t.Errorf("exit %d %q", code, out)
	}
	if kernel := n.Past().Kernel; len(kernel) == 0 || !strings.Contains(kernel[1].Text, "Xid (PCI:0000:91:00): 79") {
		t.Errorf("kernel log %v", kernel)
	}
}

func BenchmarkSixHours(b *testing.B) {
	sc := scenario(b, "healthy")
	for b.Loop() {
		n := New(sc, noon)
		n.Advance(noon.Add(6 * time.Hour))
	}
}

func TestLogLevelWarningSaysNothingOfBatches(t *testing.T) {
	sc := run("quiet", "", time.Minute)
	sc.script[0].do = launch(with(serverArgv, "--log-level", "warning"))
	n := New(sc, noon)
	n.Signal(n.pidOf(ServerMain), SIGQUIT)
	out := n.Advance(noon.Add(time.Second))
	if text := joined(n.Past().Output); strings.Contains(text, "batch, ") || strings.Contains(text, "HTTP/1.1") {
		t.Errorf("the log says %.400q", text)
	}
	if text := joined(out); !strings.Contains(text, "SIGQUIT received.") {
		t.Errorf("the end says %q", text)
	}
}
