package findings

import (
	"slices"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// causeCases raise each detector that passes on what a log, the kernel or a tool
// told with every class that it can be told.
func causeCases() []caseOf {
	const warning, critical = metrics.SeverityWarning, metrics.SeverityCritical
	fact := func(class metrics.Cause) metrics.CauseFact {
		return metrics.CauseFact{Class: class, Line: "what was said", LineNo: 4711, At: noon.Add(-50 * time.Second), Primary: true}
	}
	var out []caseOf
	add := func(name string, class metrics.Cause, id string, sev metrics.Severity, says []string, spoil func(s *metrics.Snapshot), also ...string) {
		out = append(out, caseOf{name + ": " + string(class), spoil, id, sev, class, says, also})
	}
	end := func(class metrics.Cause) func(s *metrics.Snapshot) {
		return func(s *metrics.Snapshot) {
			v := &s.Servers[0]
			v.State, v.Ended, v.Causes = metrics.ServerDown, noon.Add(-50*time.Second), []metrics.CauseFact{fact(class)}
		}
	}
	for _, class := range endings {
		add("ended", class, "server-down", critical, []string{causeWords(fact(class)), causeInfo(class).Advice, "what was said", "log line 4,711"}, end(class))
	}
	for class, advice := range map[metrics.Cause]string{
		metrics.CauseStartupNoKVMemory: "raise --mem-fraction-static above 0.88", metrics.CauseStartupKVTooSmall: "lower --context-length",
		metrics.CauseStartupHostCache: "Raise --hicache-size", metrics.CauseCaptureOOM: "lower --mem-fraction-static below 0.88",
		metrics.CauseCUDAOOM: "--chunked-prefill-size to 4096", metrics.CauseKVPoolExhausted: "lower --max-running-requests",
		metrics.CauseHostOOMKilled: "Free host memory or raise the limit", metrics.CauseHostNoMemory: "Lower --hicache-size",
	} {
		add("ended for want of memory", class, "server-oom", critical, []string{causeWords(fact(class)), advice, "what was said"}, end(class))
	}
	for _, class := range partEnds {
		add("outlived", class, "server-half-dead", critical, []string{"restart the server", "still lives", "what was said"}, func(s *metrics.Snapshot) {
			v := &s.Servers[0]
			v.LastToken, v.LastBatch, v.Causes = noon.Add(-50*time.Second), noon.Add(-50*time.Second), []metrics.CauseFact{fact(class)}
		})
	}
	for _, class := range slices.Concat(clientFaults, []metrics.Cause{metrics.CauseStopped, metrics.CauseKilledUnknown, metrics.CauseHostOOMKilled}) {
		advice := "start it again"
		if class == metrics.CauseHostOOMKilled {
			advice = "free host memory first"
		}
		add("the client ended", class, "client-gone", critical, []string{causeWords(fact(class)), advice, "what was said"}, func(s *metrics.Snapshot) {
			s.Clients[0].State, s.Clients[0].Since, s.Clients[0].Causes = "gone", noon.Add(-6*time.Minute), []metrics.CauseFact{fact(class)}
		})
	}
	for _, class := range clientFaults {
		add("rows get lost", class, "work-lost", warning, []string{"100 of 400", "look for retries and timeouts", "what was said"}, func(s *metrics.Snapshot) {
			s.Job.Finished, s.Job.Landed, s.Job.Since = fig(400), fig(300), noon.Add(-time.Hour)
			s.Clients[0].Causes = []metrics.CauseFact{fact(class)}
		})
	}
	for _, class := range troubles {
		add("a client in trouble", class, "rows-stalled", critical, []string{causeWords(fact(class)), causeInfo(class).Advice, "what was said", "server idle since"}, func(s *metrics.Snapshot) {
			s.Servers[0].State, s.Servers[0].Since = metrics.ServerIdle, noon.Add(-5*time.Minute)
			s.Datasets[0].Grew, s.Clients[0].Causes = noon.Add(-10*time.Minute), []metrics.CauseFact{fact(class)}
		})
	}
	for _, class := range gpuFaults {
		sev := critical
		if class == metrics.CauseGPUXid {
			sev = warning // while the server works
		}
		add("the kernel tells", class, "gpu-lost", sev, []string{causeInfo(class).Advice, "kernel log: what was said"}, func(s *metrics.Snapshot) {
			s.Kernel = []metrics.CauseFact{fact(class)}
		})
	}
	for _, class := range gpuToolStuck.Causes {
		add("nvidia-smi fails", class, "gpu-tool-stuck", warning, []string{"fails since 12:11", causeInfo(class).Advice}, func(s *metrics.Snapshot) {
			s.GPUTool = metrics.GPUTool{State: "failed", Since: noon.Add(-5 * time.Minute), Cause: class, Text: "what it said"}
		})
	}
	add("the kernel ended another", metrics.CauseHostOOMKilled, "host-memory-low", warning, []string{"OOM killer ran at 12:15", "ps aux --sort -rss"}, func(s *metrics.Snapshot) {
		s.Kernel = []metrics.CauseFact{fact(metrics.CauseHostOOMKilled)}
	})
	add("hung beside a lost GPU", metrics.CauseGPULost, "server-hung", critical, []string{"GPU 0 is lost", "reset the GPU"}, func(s *metrics.Snapshot) {
		s.Servers[0].LastBatch, s.Servers[0].LastToken = noon.Add(-3*time.Minute), noon.Add(-3*time.Minute)
		s.Datasets[0].Grew, s.GPUs[0].Lost = noon.Add(-3*time.Minute), "GPU is lost"
	}, "gpu-lost")
	return out
}
