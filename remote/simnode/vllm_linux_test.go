package simnode

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The living vLLM stops as the real one does, its workers with it, and comes
// back with other flags.
func TestVLLMRestart(t *testing.T) {
	n, client := startNode(t, "vllm")
	server := find(n.RootPID, "vllm.entrypoints.openai.api_server")
	argv := argvOf(t, server)
	if find(n.RootPID, "VLLM::EngineCore") == 0 || find(n.RootPID, "VLLM::Worker_TP7") == 0 {
		t.Error("the engine and its workers have no titles")
	}
	if status, body, err := get(client, n.ServerPort, "/version"); err != nil || status != 200 || !bytes.Contains(body, []byte("0.11.2")) {
		t.Errorf("/version: %d %s %v", status, body, err)
	}
	from := size(n.ServerLog)
	run(t, client, fmt.Sprintf("kill -TERM %d", server))
	waitFor(t, "the server's end", 8*time.Second, func() bool { return !alive(server) && find(n.RootPID, "VLLM::") == 0 })
	if text := logSince(n, from); !strings.Contains(text, "Application shutdown complete.") {
		t.Errorf("log of the stop:\n%.2000s", text)
	}
	from = size(n.ServerLog)
	edited := setFlag(argv, "--gpu-memory-utilization", "0.93")
	relaunch(t, n, client, edited)
	waitFor(t, "the new server is ready", 60*time.Second, func() bool {
		return strings.Contains(logSince(n, from), "Application startup complete.")
	})
	next := find(n.RootPID, "vllm.entrypoints.openai.api_server")
	if next == 0 || next == server || strings.Join(argvOf(t, next), " ") != strings.Join(edited, " ") {
		t.Errorf("the new server is %d with %q", next, argvOf(t, next))
	}
	runs := regexp.MustCompile(`vllm:num_requests_running\{[^}]*\} [1-9]`)
	waitFor(t, "the client is back", 15*time.Second, func() bool {
		_, body, err := get(client, n.ServerPort, "/metrics")
		return err == nil && runs.Match(body)
	})
}
