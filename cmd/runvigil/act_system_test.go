//go:build system && linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// actLimit is when a restart on the demo counts as hung. It takes about 35 s, of
// which the simulated server drains 20 s; a loaded machine takes longer.
const actLimit = 2 * time.Minute

// TestRestartDemo restarts the simulated server: one that holds, and one whose
// memory is too tight, which is explained.
func TestRestartDemo(t *testing.T) {
	t.Parallel()
	// Servers of this machine that look the same are no business of the demo's.
	var decoys []*exec.Cmd
	for _, argv := range [][]string{
		{"python3", "-c", "read x", "-m", "sglang.launch_server", "--model-path", "/models/k2", "--port", "8000"},
		{"sglang::scheduler_TP0", "-c", "read x"},
		{"python3", "-c", "read x", "run_inference.py"},
	} {
		decoy := &exec.Cmd{Path: "/bin/sh", Args: argv} // sh reads its title only as far as the command
		if _, err := decoy.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		if err := decoy.Start(); err != nil {
			t.Fatal(err)
		}
		decoys = append(decoys, decoy)
		t.Cleanup(func() { _ = decoy.Process.Kill(); _ = decoy.Wait() })
	}
	t.Cleanup(func() {
		for _, d := range decoys {
			if cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", d.Process.Pid)); err != nil || len(cmdline) == 0 { // a zombie has none
				t.Errorf("%v was ended: %v", d.Args, err)
			}
		}
	})
	for _, c := range []struct {
		name string
		args []string
		code int
		says []string
	}{
		{"0.86 holds", []string{"restart", "demo", "--set", "mem-fraction-static=0.86", "--yes"}, 0,
			[]string{"--mem-fraction-static 0.88 → 0.86", "capacity: 130,539 tokens", " term ", " kill ", " stopped", " gpu-free ", " started ", " end state=running", "one token came back", "it serves"}},
		{"0.93 runs out of memory", []string{"restart", "demo", "--set", "mem-fraction-static=0.93", "--yes"}, 2,
			[]string{"capacity: 231,120 tokens", "one token came back", "the new server ended: killed by signal 9", "cause: cuda-oom", "lower --mem-fraction-static", "runvigil start demo --start"}},
		{"fp8 is the owner's to allow", []string{"restart", "demo", "--set", "kv-cache-dtype=fp8_e4m3", "--yes"}, 1,
			[]string{"degrades the model noticeably"}},
		{"the client first", []string{"restart", "demo", "--client", "restart", "--abort", "--yes"}, 0,
			[]string{" client-stop ", " client-gone", " abort rc=0", " client pid=", "it serves"}},
		{"stop", []string{"stop", "demo", "--client", "stop", "--yes"}, 0, []string{" stopped", " port-free ", " gpu-free ", "end state=down"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			began := time.Now()
			code, out, errs := runActing(t, c.args...)
			if took := time.Since(began); took > actLimit {
				t.Errorf("it took %s", took)
			}
			if code != c.code {
				t.Errorf("code %d, want %d: %s\n%s", code, c.code, errs, out)
			}
			for _, want := range c.says {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
		})
	}
}
