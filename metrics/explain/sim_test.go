package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote/simnode/model"
)

// simulated is the log of a scenario that is looked at so much later.
func simulated(sc model.Scenario, later time.Duration) string {
	var log strings.Builder
	for _, chunk := range model.New(sc, time.Date(2026, 2, 24, 12, 16, 7, 0, time.UTC).Add(later)).Past().Server {
		log.WriteString(chunk.Text)
	}
	return log.String()
}

// A log of several starts tells each of them, and the table compares them.
func TestSeveralStarts(t *testing.T) {
	for _, engine := range []string{"", "vllm-"} {
		failed, err := model.Lookup(engine + "oom")
		if err != nil {
			t.Fatal(err)
		}
		good, err := model.Lookup(map[string]string{"": "story", "vllm-": "vllm"}[engine])
		if err != nil {
			t.Fatal(err)
		}
		r := explained(t, []byte(simulated(failed, 0)+simulated(good, 4*time.Hour)))
		if len(r.Starts) != 2 {
			t.Fatalf("%d starts: %s", len(r.Starts), r.Text(""))
		}
		a, b := r.Starts[0], r.Starts[1]
		if a.Outcome != "crashed" && a.Outcome != "failed" || or(a.Cause, "") != string(metrics.CauseCUDAOOM) || b.Outcome != "serving" || b.Cause != nil ||
			b.PeakTPS == nil || b.Capacity == nil || b.ReadyS == nil || b.Line <= a.Line || len(b.Phases) < 3 {
			t.Errorf("%s", r.Text(""))
		}
		if r.Primary() != nil || or(r.State, "") != "serving" {
			t.Errorf("the newest start is healthy: %s", r.Text(""))
		}
		if text := r.Text(""); !strings.Contains(text, "table of starts") || !strings.Contains(text, "cuda-oom") {
			t.Errorf("%s", text)
		}
	}
}

// The logs that the simulated node leaves are told like those of the field.
func TestSimulatedLogs(t *testing.T) {
	for _, c := range []struct {
		scenario, engine, state string
		cause                   metrics.Cause
	}{
		{"story", "sglang", "serving", ""},
		{"loading", "sglang", "starting", ""},
		{"oom", "sglang", "down", metrics.CauseCUDAOOM},
		{"gpu-held", "sglang", "down", metrics.CauseStartupGPUOccupied},
		{"vllm", "vllm", "serving", ""},
		{"vllm-oom", "vllm", "down", metrics.CauseCUDAOOM},
	} {
		t.Run(c.scenario, func(t *testing.T) {
			sc, err := model.Lookup(c.scenario)
			if err != nil {
				t.Fatal(err)
			}
			r := explained(t, []byte(simulated(sc, 0)))
			cause := ""
			if p := r.Primary(); p != nil {
				cause = p.Class
			}
			if or(r.Engine, "") != c.engine || or(r.State, "") != c.state || cause != string(c.cause) {
				t.Errorf("%s", r.Text(""))
			}
			if c.state == "serving" && (r.Running == nil || *r.Running < 30 || r.CapacityTokens == nil || r.GenTPS == nil || *r.GenTPS < 500) {
				t.Errorf("%s", r.Text(""))
			}
		})
	}
}
