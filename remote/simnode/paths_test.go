package simnode

import (
	"slices"
	"testing"
)

func TestPlaces(t *testing.T) {
	p := newPlaces("/tmp/rv-1", 23456)
	theirs := []string{"python3", "-m", "sglang.launch_server", "--model-path", "/data/models/K", "--port", "8000",
		"--max-running-requests", "8000", "--url", "http://127.0.0.1:8000/generate"}
	ours := []string{"python3", "-m", "sglang.launch_server", "--model-path", "/tmp/rv-1/data/models/K", "--port", "23456",
		"--max-running-requests", "8000", "--url", "http://127.0.0.1:23456/generate"}
	if got := p.argv(theirs); !slices.Equal(got, ours) {
		t.Errorf("outward: %q", got)
	}
	if got := p.modelArgv(ours); !slices.Equal(got, theirs) {
		t.Errorf("inward: %q", got)
	}
	for path, want := range map[string]string{"/data/a": "/tmp/rv-1/data/a", "/tmp/rv-1/data/a": "/tmp/rv-1/data/a"} {
		if got := p.file(path); got != want {
			t.Errorf("file(%q) = %q, want %q", path, got, want)
		}
	}
	if got := p.modelPath("/tmp/rv-1/data/a"); got != "/data/a" {
		t.Errorf("modelPath: %q", got)
	}
}

func TestLabel(t *testing.T) {
	argv := []string{"x", "--mem-fraction-static", "0.90", "--hicache-size", "48"}
	if got := labelOf(argv); got != "0.90 bf16 hicache" {
		t.Errorf("%q", got)
	}
	if got := labelOf(append(argv, "--kv-cache-dtype", "fp8_e4m3")); got != "0.90 fp8 hicache" {
		t.Errorf("%q", got)
	}
}
