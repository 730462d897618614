//go:build system

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"

	"github.com/runvigil/runvigil/remote/remotetest"
)

// timedSMI is an nvidia-smi of eight GPUs that takes as long as that of one H200
// (driver 580, persistence on), where each was measured by hand: the list of fields
// 25 ms, a query 33 ms, the first row of a stream 29 ms, the whole table 108 ms.
const timedSMI = `#!/bin/sh
rows() { for i in 0 1 2 3 4 5 6 7; do echo "$i, $1"; done; }
case "$*" in
--help-query-gpu)
	sleep 0.025
	printf '"%s"\n' index uuid name memory.total memory.used memory.free utilization.gpu temperature.gpu power.draw ;;
*query-compute-apps*) sleep 0.033 ;;
*-lms*)
	sleep 0.029
	while :; do rows "91000, 5887, 99, 64, 412.3"; sleep 1; done ;;
*query-gpu*) sleep 0.033; for i in 0 1 2 3 4 5 6 7; do echo "$i, GPU-$i, NVIDIA RTX PRO 6000, 97887"; done ;;
*) sleep 0.108; echo table ;;
esac
`

// BenchmarkSystemFirstScreen is the time from the start of the program to the
// figures of the GPUs on its screen, over a real sshd, beside what a person types
// instead. What the login shell of this machine does in its start files is left
// out (bash reads none from level 2 on). RUNVIGIL_BINARY names a program to compare
// with.
func BenchmarkSystemFirstScreen(b *testing.B) {
	dir := b.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(timedSMI), 0o755); err != nil {
		b.Fatal(err)
	}
	node := newRealNodeWith(b, remotetest.Options{Config: "SetEnv SHLVL=2 PATH=" + dir + ":/usr/bin:/bin"})
	bins := map[string]string{"this": binary(b)}
	if other := os.Getenv("RUNVIGIL_BINARY"); other != "" {
		bins["other"] = other
	}
	for name, bin := range bins {
		b.Run(name, func(b *testing.B) {
			var all []time.Duration
			for b.Loop() {
				all = append(all, firstFigures(b, bin, node))
			}
			slices.Sort(all)
			b.ReportMetric(float64(all[len(all)/2].Milliseconds()), "median-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
	b.Run("ssh-nvidia-smi", func(b *testing.B) {
		var all []time.Duration
		for b.Loop() {
			begun := time.Now()
			if out, err := exec.Command("ssh", "-F", node.SSHConfig, node.Alias, "nvidia-smi").CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
			all = append(all, time.Since(begun))
		}
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Milliseconds()), "median-ms")
		b.ReportMetric(0, "ns/op")
	})
}

// firstFigures starts the program on a terminal of 120x40 and waits for the
// memory of the GPUs to be read there.
func firstFigures(b *testing.B, bin string, node realNode) time.Duration {
	cmd := exec.Command(bin, "--dial", "openssh", node.Alias)
	cmd.Env = append(os.Environ(), append([]string{"XDG_STATE_HOME=" + b.TempDir(), "XDG_CONFIG_HOME=" + b.TempDir(), "TERM=xterm-256color"}, node.env...)...)
	screen := vt.NewSafeEmulator(120, 40)
	go func() { _, _ = io.Copy(io.Discard, screen) }()
	begun := time.Now()
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: 120, Rows: 40})
	if err != nil {
		b.Fatal(err)
	}
	seen := make(chan time.Duration, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		buf := make([]byte, 64<<10)
		told := false
		for {
			n, err := tty.Read(buf)
			if n > 0 {
				_, _ = screen.Write(buf[:n])
				if !told && strings.Contains(screen.String(), "88.9") { // GiB
					told = true
					seen <- time.Since(begun)
				}
			}
			if err != nil {
				return
			}
		}
	}()
	var took time.Duration
	select {
	case took = <-seen:
	case <-time.After(30 * time.Second):
		b.Error(fmt.Errorf("no figures of the GPUs within 30 s:\n%s", screen.String()))
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	<-ended
	_ = cmd.Wait()
	_ = tty.Close()
	return took
}
