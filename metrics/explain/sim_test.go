package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote/simnode/model"
)

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
			var log strings.Builder
			for _, chunk := range model.New(sc, time.Date(2026, 2, 24, 12, 16, 7, 0, time.UTC)).Past().Server {
				log.WriteString(chunk.Text)
			}
			r := explained(t, []byte(log.String()))
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
