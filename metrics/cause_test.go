package metrics

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Other test packages of the module define -update too; two definitions in one
// binary would panic, so it is only defined when it is missing.
func init() {
	if flag.Lookup("update") == nil {
		flag.Bool("update", false, "rewrite generated files")
	}
}

func updating() bool {
	return flag.Lookup("update").Value.String() == "true"
}

func TestCausesDoc(t *testing.T) {
	path := filepath.Join("..", "docs", "causes.md")
	want := CausesMarkdown()
	if updating() {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test ./metrics -run TestCausesDoc -update writes it)", err)
	}
	if string(got) != want {
		t.Errorf("%s is not what metrics/cause.go says; go test ./metrics -run TestCausesDoc -update renews it", path)
	}
}

func TestCausesAreClosedAndComplete(t *testing.T) {
	word := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	seen := map[Cause]bool{}
	for _, c := range Causes() {
		if !word.MatchString(string(c.Cause)) {
			t.Errorf("%q is not kebab-case", c.Cause)
		}
		if seen[c.Cause] {
			t.Errorf("%s is listed twice", c.Cause)
		}
		seen[c.Cause] = true
		switch c.Side {
		case SideServer, SideClient, SideGPU, SideHost:
		default:
			t.Errorf("%s: side %q", c.Cause, c.Side)
		}
		for _, text := range []string{c.Meaning, c.Advice} {
			if !strings.HasSuffix(text, ".") || strings.ContainsAny(text, "|\n") {
				t.Errorf("%s: %q is not one sentence fit for a table", c.Cause, text)
			}
		}
		if info, ok := c.Cause.Info(); !ok || info != c {
			t.Errorf("%s: Info says %v, %v", c.Cause, info, ok)
		}
	}
	for _, name := range strings.Fields(`startup-no-kv-memory startup-gpu-occupied startup-kv-too-small capture-oom
		cuda-oom kv-pool-exhausted request-slots-exhausted kv-leak-check illegal-memory-access nccl-timeout
		nccl-error peer-rank-lost scheduler-exception scheduler-watchdog server-hung worker-died engine-dead
		port-in-use bad-flag host-oom-killed host-no-memory killed-unknown shm-full disk-full too-many-files
		gpu-lost gpu-xid gpu-firmware-timeout gpu-memory-held driver-mismatch driver-not-loaded jit-compiling
		load-slow client-buffered client-timeouts requests-lost rows-torn rows-duplicate rows-nul`) {
		if !seen[Cause(name)] {
			t.Errorf("%s is missing", name)
		}
	}
	if _, ok := Cause("no-such-cause").Info(); ok {
		t.Error("a cause that is not listed has no information")
	}
}
