package explain

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/runvigil/runvigil/metrics"
)

func caseByID(t *testing.T, id string) *Report {
	t.Helper()
	for _, c := range readCases(t) {
		if c.id == id {
			return explained(t, c.data)
		}
	}
	t.Fatalf("no case %s", id)
	return nil
}

// Advice points in the direction that the index says.
func TestAdvice(t *testing.T) {
	for id, word := range map[string]string{
		"035": "Raise the memory fraction", "037": "Raise the memory fraction", "039": "--schedule-conservativeness", "041": "CUDA_LAUNCH_BLOCKING=1",
		"050": "--shm-size", "054": "--mem-fraction-static", "092": "do not lower", "113": "Reload the modules", "115": "restart the machine",
		"121": "Load the driver", "129": "Stop polling", "150": "PYTHONUNBUFFERED", "154": "ulimit -n", "156": "--shm-size", "160": "probe",
		"170": "memory limit of the container",
	} {
		if r := caseByID(t, id); !strings.Contains(strings.Join(r.Advice, "\n"), word) {
			t.Errorf("%s: advice %q does not say %q", id, r.Advice, word)
		}
	}
}

func TestPrimaryIsFirst(t *testing.T) {
	r := caseByID(t, "131")
	for i, c := range r.Causes {
		if c.Primary != (i == 0) {
			t.Errorf("cause %d: %+v", i, c)
		}
	}
}

// A healthy log has no primary cause that ends a server, and no warning.
func TestHealthyLogsAreHealthy(t *testing.T) {
	for _, c := range readCases(t) {
		if !strings.HasSuffix(c.kind, "-stats") && !strings.HasSuffix(c.kind, "-startup") {
			continue
		}
		switch c.id {
		case "018", "051", "017", "164": // a dead rank, an aborted transfer, a full pool, retractions
			continue
		}
		r := explained(t, c.data)
		if p := r.Primary(); p != nil && p.Class != string(metrics.CauseJITCompiling) {
			t.Errorf("%s: %+v", c.id, *p)
		}
		for _, f := range r.Findings {
			if f.Severity != "info" {
				t.Errorf("%s: %+v", c.id, f)
			}
		}
	}
}

// Prompts and answers that hold log text stay text.
func TestQuotedLogsTellNothing(t *testing.T) {
	rows := &strings.Builder{}
	for i := range 50 {
		fmt.Fprintf(rows, `{"id": %d, "prompt": "[2026-02-24 12:00:00 TP0] Decode batch, #running-req: 7, #token: 9, token usage: 0.50, cuda graph: True, gen throughput (token/s): 5.00, #queue-req: 1", "text": "torch.OutOfMemoryError: CUDA out of memory."}`+"\n", i)
	}
	r := explained(t, []byte(rows.String()))
	if or(r.Kind, "") != string(KindRows) || r.Primary() != nil || r.Running != nil || *r.Rows != 50 {
		t.Errorf("rows: %s", r.Text(""))
	}
}

// A file of any length streams through: the newest figures count.
func TestLongLogs(t *testing.T) {
	line := "[2026-02-24 12:%02d:%02d TP0] Decode batch, #running-req: %d, #token: 5000, token usage: 0.03, cuda graph: True, gen throughput (token/s): 100.00, #queue-req: 0\n"
	n := 0
	in := &generator{make: func() string {
		n++
		return fmt.Sprintf(line, n/60%60, n%60, n)
	}, left: 40 << 20}
	r, err := Read(in, KindAuto)
	if err != nil || r.Running == nil || *r.Running != float64(n) {
		t.Errorf("running %s of %d, error %v", num(r.Running), n, err)
	}
}

type generator struct {
	make func() string
	left int
	rest string
}

func (g *generator) Read(p []byte) (int, error) {
	if g.rest == "" {
		if g.left <= 0 {
			return 0, io.EOF
		}
		var b strings.Builder
		for b.Len() < 64<<10 {
			b.WriteString(g.make())
		}
		g.rest = b.String()
		g.left -= b.Len()
	}
	n := copy(p, g.rest)
	g.rest = g.rest[n:]
	return n, nil
}

// The report of a file that breaks off says what was read, and the error where.
func TestReadError(t *testing.T) {
	data := readCases(t)[0].data
	broken := io.MultiReader(bytes.NewReader(data), failing{})
	r, err := Read(broken, KindAuto)
	if err == nil || !strings.Contains(err.Error(), "after") || r.GenTPS == nil {
		t.Errorf("error %v, report %s", err, r.Text(""))
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestKindOverrides(t *testing.T) {
	for _, c := range readCases(t) {
		for _, k := range Kinds() {
			if r, err := Read(bytes.NewReader(c.data), k); err != nil || r.Kind == nil {
				t.Errorf("%s as %s: %v", c.id, k, err)
			}
		}
	}
	for _, name := range []string{"nvidia-smi", "dmesg", "k8s", "server-log", "vllm"} {
		if _, ok := ParseKind(name); !ok {
			t.Errorf("--kind %s is not taken", name)
		}
	}
	if _, ok := ParseKind("poem"); ok {
		t.Error("--kind poem is taken")
	}
}

// What a file says is cleaned and masked before it is told.
func TestSecretsAreMasked(t *testing.T) {
	log := "[2026-02-24 12:00:00] server_args=ServerArgs(model_path='/m', api_key='sk-verysecret1234567890', tp_size=1)\n" +
		"[2026-02-24 12:00:01] Scheduler hit an exception: Traceback (most recent call last):\n" +
		"ValueError: bad token hf_abcdefghijklmnopqrstuvwxyz012345 \x1b[31mred\x1b[0m\n"
	r := explained(t, []byte(log))
	out, err := r.JSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{string(out), r.Text("x")} {
		if strings.Contains(text, "verysecret") || strings.Contains(text, "hf_abcdefghij") || strings.Contains(text, "\x1b") || strings.Contains(text, `\u001b`) {
			t.Errorf("told: %s", text)
		}
	}
}

// Of an output that lists processes alone, each card is told with its processes.
func TestProcessesWithoutCards(t *testing.T) {
	r := explained(t, []byte("# gpu         pid   type     sm    mem    enc    dec    command\n# Idx           #    C/G      %      %      %      %    name\n"+
		"    0        575     C     99     22      -      -    python3\n    1        576     C     98     22      -      -    python3\n"))
	if len(r.GPUs) != 2 || r.GPUs[1].Index == nil || *r.GPUs[1].Index != 1 || len(r.GPUs[1].Processes) != 1 || *r.GPUs[1].Processes[0].PID != 576 {
		t.Errorf("%s", r.Text(""))
	}
}

// What is cut, printed by Python or given as JSON tells what it can.
func TestOtherForms(t *testing.T) {
	info := `{"model_path": "/models/Q", "tp_size": 8, "mem_fraction_static": 0.88, "chunked_prefill_size": 8192, "max_total_num_tokens": 159277, "version": "0.5.9", "api_key": "sk-secretsecretsecret", "x": [1, 2`
	python := `{'model_path': '/models/Q', 'tp_size': 8, 'mem_fraction_static': 0.88, 'enable_metrics': True, 'max_total_num_tokens': 159277, 'chunked_prefill_size': 8192, 'version': '0.5.9'}`
	for name, text := range map[string]string{"cut": info, "cut in front": strings.Replace(strings.ReplaceAll(info[30:], ", ", ",\n"), `"`, "", 1), "python": python} {
		r, err := Read(strings.NewReader(text), KindAuto)
		if err != nil || or(r.Kind, "") != string(KindInfo) || num(r.CapacityTokens) != "159277" || or(r.Version, "") != "0.5.9" {
			t.Errorf("%s: %v %s", name, err, r.Text(""))
		}
		if strings.Contains(r.Text(""), "secretsecret") {
			t.Errorf("%s tells a secret", name)
		}
	}
	pod := `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "vllm-0", "namespace": "llm"}, "spec": {"containers": [{"name": "vllm", "image": "vllm/vllm-openai"}]},
 "status": {"phase": "Running", "containerStatuses": [{"name": "vllm", "ready": false, "restartCount": 7,
 "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}}`
	r := explained(t, []byte(pod))
	if or(r.Kind, "") != string(KindKube) || r.Primary() == nil || r.Primary().Class != string(metrics.CauseHostOOMKilled) {
		t.Errorf("pod as JSON: %s", r.Text(""))
	}
	r = explained(t, []byte(strings.Repeat("2026-02-24 12:00:00,123 INFO httpx: HTTP Request: POST http://127.0.0.1:8000/v1/completions \"HTTP/1.1 200 OK\"\n", 20)))
	if or(r.Kind, "") != string(KindClient) || r.Primary() != nil {
		t.Errorf("a client without progress: %s", r.Text(""))
	}
}

// Every primary cause has a finding that speaks of it, with advice.
func TestCausesHaveFindings(t *testing.T) {
	for _, c := range readCases(t) {
		r := explained(t, c.data)
		p := r.Primary()
		if p == nil {
			continue
		}
		found := false
		for _, f := range r.Findings {
			found = found || or(f.Cause, "") == p.Class && f.Title != "" && f.Advice != ""
		}
		if !found || len(r.Advice) == 0 {
			t.Errorf("%s: %s has no finding: %s", c.id, p.Class, r.Text(""))
		}
		if _, ok := metrics.Cause(p.Class).Info(); !ok {
			t.Errorf("%s: %s is not in the list of causes", c.id, p.Class)
		}
	}
}

// Requests that run without a token are a hang; a first line after a pause is not.
func TestStillServers(t *testing.T) {
	line := "[2025-10-01 10:%s TP0] Decode batch, #running-req: 7, #token: 4512, token usage: 0.11, cuda graph: True, gen throughput (token/s): %s, #queue-req: 0\n"
	for _, c := range []struct {
		text  string
		state string
	}{
		{fmt.Sprintf(line, "11:02", "120.00") + fmt.Sprintf(line, "11:04", "119.00") + fmt.Sprintf(line, "11:06", "0.00") + fmt.Sprintf(line, "11:08", "0.00"), "hung"},
		{fmt.Sprintf(line, "11:02", "120.00") + fmt.Sprintf(line, "11:04", "119.00") + fmt.Sprintf(line, "51:06", "0.00"), "serving"},
		{fmt.Sprintf(line, "11:02", "120.00"), "serving"},
	} {
		if r := explained(t, []byte(c.text)); or(r.State, "") != c.state {
			t.Errorf("want %s: %s", c.state, r.Text(""))
		}
	}
}
