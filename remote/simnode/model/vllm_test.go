package model

import (
	"strings"
	"testing"
	"time"
)

func vllmNode(t *testing.T, name string) *Node {
	t.Helper()
	sc, err := Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return New(sc, time.Date(2026, 2, 24, 11, 16, 7, 0, time.UTC))
}

func logText(chunks []Chunk) string {
	var b strings.Builder
	for _, c := range chunks {
		b.WriteString(c.Text)
	}
	return b.String()
}

// metric is the value of a series of /metrics, as printed.
func metric(t *testing.T, n *Node, name string) string {
	t.Helper()
	r, ok := n.HTTP("GET", "/metrics", "", nil)
	if !ok || r.Status != 200 {
		t.Fatalf("/metrics: %+v, %v", r, ok)
	}
	for line := range strings.Lines(string(r.Body)) {
		if strings.HasPrefix(line, name+"{") {
			f := strings.Fields(line)
			return f[len(f)-1]
		}
	}
	t.Fatalf("no series %s in\n%s", name, r.Body)
	return ""
}

func TestVLLMServes(t *testing.T) {
	n := vllmNode(t, "vllm")
	log := logText(n.Past().Server)
	for _, want := range []string{
		"vLLM API server version 0.11.2", "non-default args: {'port': 8000, 'model': '/data/models/Kimi-K2.5'", "Completed | 64/64", "GPU KV cache size: 184,908 tokens",
		"Application startup complete.", "Engine 000: Avg prompt throughput:", `"POST /v1/completions HTTP/1.1" 200 OK`,
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %q", want)
		}
	}
	titles := map[string]int{}
	for _, p := range n.Processes() {
		titles[p.Title]++
	}
	if titles["VLLM::EngineCore"] != 1 || titles["VLLM::Worker_TP0"] != 1 || titles["VLLM::Worker_TP7"] != 1 || titles["sglang::detokenizer"] != 0 {
		t.Errorf("titles: %v", titles)
	}
	before := metric(t, n, "vllm:iteration_tokens_total_count")
	n.Advance(n.Now().Add(20 * time.Second))
	if after := metric(t, n, "vllm:iteration_tokens_total_count"); after == before {
		t.Errorf("the heartbeat stands at %s", after)
	}
	for path, want := range map[string]string{"/version": "0.11.2", "/v1/models": "131072", "/health": ""} {
		if r, ok := n.HTTP("GET", path, "", nil); !ok || r.Status != 200 || !strings.Contains(string(r.Body), want) {
			t.Errorf("%s: %d %s", path, r.Status, r.Body)
		}
	}
	if r, _ := n.HTTP("GET", "/v1/loads", "", nil); r.Status != 404 {
		t.Errorf("/v1/loads: %d", r.Status)
	}
	n.Signal(n.Server().PID, SIGTERM)
	out := n.Advance(n.Now().Add(30 * time.Second))
	if text := logText(out.Server); !strings.Contains(text, "Application shutdown complete.") || n.Server().Phase != PhaseDead {
		t.Errorf("after SIGTERM: phase %s, log %s", n.Server().Phase, text)
	}
}

func TestVLLMCompletes(t *testing.T) {
	n := vllmNode(t, "vllm-hang")
	idle := vllmNode(t, "vllm")
	idle.Signal(idle.pidOf(ClientMain), SIGKILL)
	idle.Advance(idle.Now().Add(5 * time.Second))
	r, ok := idle.HTTP("POST", "/v1/completions", "", []byte(`{"prompt": "one two three", "max_tokens": 2}`))
	if !ok || r.Ticket == 0 {
		t.Fatalf("%+v", r)
	}
	answered := false
	for range 10 {
		for _, a := range idle.Advance(idle.Now().Add(time.Second)).Answers {
			answered = answered || a.Ticket == r.Ticket && a.Reply.Status == 200
		}
	}
	if !answered {
		t.Error("no completion came")
	}
	before := metric(t, n, "vllm:iteration_tokens_total_count")
	running := metric(t, n, "vllm:num_requests_running")
	out := n.Advance(n.Now().Add(2 * time.Minute))
	if after := metric(t, n, "vllm:iteration_tokens_total_count"); after != before || running != "7.0" {
		t.Errorf("heartbeat %s then %s, running %s", before, after, running)
	}
	if r, _ := n.HTTP("GET", "/health", "", nil); r.Status != 200 {
		t.Errorf("/health is %d while it hangs", r.Status)
	}
	if text := logText(out.Server); !strings.Contains(text, "No available shared memory broadcast block found") || strings.Contains(text, "Avg generation") {
		t.Errorf("log of a hang: %s", text)
	}
}

func TestVLLMFailures(t *testing.T) {
	log := logText(vllmNode(t, "vllm-oom").Past().Server)
	for _, want := range []string{"torch.OutOfMemoryError: CUDA out of memory", "WorkerProc failed to start.", "EngineCore failed to start.", "Engine core initialization failed. See root cause above."} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %q", want)
		}
	}
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--gpu-memory-utilization", "0.7"}, "No available memory for the cache blocks"},
		{[]string{"--max-model-len", "262144"}, "To serve at least one request"},
		{[]string{"--no-such-flag"}, "error: unrecognized arguments: --no-such-flag"},
		{[]string{"--port", "x"}, "invalid int value: 'x'"},
	} {
		n := vllmNode(t, "vllm")
		n.Signal(n.Server().PID, SIGKILL)
		n.Advance(n.Now().Add(time.Second))
		n.Launch(Launch{Argv: append(append([]string(nil), vllmArgv...), c.flags...), Env: runEnv, Dir: "/data/eagle3"})
		out := n.Advance(n.Now().Add(2 * time.Minute))
		if text := logText(out.Server); !strings.Contains(text, c.want) || n.Server().Phase != PhaseDead {
			t.Errorf("%v: phase %s, log %s", c.flags, n.Server().Phase, text)
		}
	}
	n := vllmNode(t, "vllm")
	n.Launch(Launch{Argv: with(vllmArgv, "--port", "8001"), Env: runEnv, Dir: "/data/eagle3"})
	if text := logText(n.Advance(n.Now().Add(time.Minute)).Server); !strings.Contains(text, "is less than desired GPU memory utilization") {
		t.Errorf("beside another server: %s", text)
	}
	n = vllmNode(t, "vllm")
	n.Signal(n.pidOf(Scheduler(3)), SIGKILL)
	text := logText(n.Advance(n.Now().Add(10 * time.Second)).Server)
	if !strings.Contains(text, "Worker proc VllmWorker-3 died unexpectedly") || !strings.Contains(text, "EngineDeadError") || n.Server().Phase != PhaseDead {
		t.Errorf("a worker killed: %s", text)
	}
	n = vllmNode(t, "vllm-hang")
	n.srv.env = nil
	n.srv.eng.stuck()
	if text := logText(n.Advance(n.Now().Add(6 * time.Minute)).Server); !strings.Contains(text, "RPC call to execute_model timed out") {
		t.Errorf("no end of a hang: %s", text)
	}
}
