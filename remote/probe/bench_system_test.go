//go:build system

package probe

import (
	"fmt"

	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote"
	"github.com/runvigil/runvigil/remote/remotetest"
)

// measured is how long each benchmark here watches: RUNVIGIL_MEASURE, or 10 s.
func measured(b *testing.B) time.Duration {
	if text := os.Getenv("RUNVIGIL_MEASURE"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			b.Fatal(err)
		}
		return d
	}
	return 10 * time.Second
}

// growing is a node's files while a run goes on: some logs and datasets, of
// which some grow each second. It ends with the test.
func growing(b *testing.B, logs, datasets, grow int) (wants []metrics.Want) {
	dir := b.TempDir()
	var live []string
	line := "[2026-02-24 11:59:51 TP0] Decode batch, #running-req: 121, #token: 139222, token usage: 0.87, cuda graph: True, gen throughput (token/s): 1317.32, #queue-req: 29\n"
	for i := range logs {
		path := write(b, fmt.Sprintf("%s/logs/server%d.log", dir, i), strings.Repeat(line, 1000))
		wants = append(wants, metrics.Want{Kind: metrics.WantLog, Path: path, Anchors: "server_args=", Tail: 1 << 20})
		live = append(live, path)
	}
	row := `{"text":"` + strings.Repeat("w", 2000) + "\"}\n"
	for i := range datasets {
		path := write(b, fmt.Sprintf("%s/rows/B%d.jsonl", dir, i), strings.Repeat(row, 5000))
		wants = append(wants, metrics.Want{Kind: metrics.WantRows, Path: path, Every: 2 * time.Second})
		if i < grow {
			live = append(live, path)
		}
	}
	stop := make(chan struct{})
	done := make(chan struct{})
	b.Cleanup(func() { close(stop); <-done })
	go func() {
		defer close(done)
		for {
			for _, path := range live {
				text := line
				if filepath.Ext(path) == ".jsonl" {
					text = row
				}
				add(b, path, text)
			}
			select {
			case <-time.After(time.Second):
			case <-stop:
				return
			}
		}
	}()
	return wants
}

// meter counts what goes through a TCP relay.
type meter struct {
	addr     *net.TCPAddr
	up, down atomic.Int64
}

func newMeter(b *testing.B, to string) *meter {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	m := &meter{addr: l.Addr().(*net.TCPAddr)}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("tcp", to)
			if err != nil {
				c.Close()
				return
			}
			relay := func(dst, src net.Conn, n *atomic.Int64) {
				defer dst.Close()
				buf := make([]byte, 32<<10)
				for {
					k, err := src.Read(buf)
					n.Add(int64(k))
					if _, werr := dst.Write(buf[:k]); err != nil || werr != nil {
						return
					}
				}
			}
			go relay(s, c, &m.up)
			go relay(c, s, &m.down)
		}
	}()
	return m
}

// cpuOf is the time on CPU of the processes below pid, with their children
// that have ended, without those whose command line holds not.
func cpuOf(pid int, not string) time.Duration {
	names, _ := filepath.Glob("/proc/[0-9]*/stat")
	parents, ticks := map[int]int{}, map[int]int64{}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		st, f, ok := statHead(string(data))
		if !ok || len(f) < 15 {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Dir(name) + "/cmdline")
		parents[st.pid] = st.ppid
		if not == "" || !strings.Contains(string(cmdline), not) {
			ticks[st.pid] = number(f[11]) + number(f[12]) + number(f[13]) + number(f[14])
		}
	}
	sum := int64(0)
	for p, n := range ticks {
		for q := p; q > 1; q = parents[q] {
			if q == pid {
				sum += n
				break
			}
		}
	}
	return time.Duration(sum) * 10 * time.Millisecond
}

// benchProbe measures what a probe costs the node and the link in the steady
// state. Where the machine has no nvidia-smi, eight GPUs are played by a shell
// that prints their rows; its own time is left out.
func benchProbe(b *testing.B, logs, datasets, grow int) {
	config := ""
	if _, err := exec.LookPath("nvidia-smi"); err != nil {
		dir := b.TempDir()
		write(b, dir+"/nvidia-smi", smiScript("while :; do printf '%s, 91000, 5000, 99, 64, 412.3, 2100, 0x0000000000000000\\n' 0 1 2 3 4 5 6 7; sleep 1; done"))
		config = "SetEnv PATH=" + dir + ":/usr/bin:/bin"
	}
	s := remotetest.OpenSSH(b, remotetest.Options{Config: config})
	m := newMeter(b, s.Addr)
	c, err := remote.Dial(b.Context(), remote.Target{User: s.User, Host: s.Host, Port: m.addr.Port},
		remote.Options{Dialer: remote.DialerNative, Plain: true, Identity: s.KeyFile, HostKey: s.HostKey})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	w := watch(b, Over(c), Options{Interval: time.Second}, growing(b, logs, datasets, grow)...)
	w.until("a scan", kind(metrics.KindScan))
	time.Sleep(3 * time.Second) // the start is over
	d := measured(b)
	for b.Loop() {
		cpu, up, down := cpuOf(s.PID, "query-gpu"), m.up.Load(), m.down.Load()
		time.Sleep(d)
		b.ReportMetric(float64(cpuOf(s.PID, "query-gpu")-cpu)/float64(d)*100, "%core")
		b.ReportMetric(float64(m.up.Load()-up)/d.Seconds(), "up-B/s")
		b.ReportMetric(float64(m.down.Load()-down)/d.Seconds(), "down-B/s")
	}
	w.stop()
}

// DESIGN's two loads: five logs and ten datasets of which three grow, and one
// of each.
func BenchmarkSystemProbe(b *testing.B)      { benchProbe(b, 5, 10, 3) }
func BenchmarkSystemProbeSmall(b *testing.B) { benchProbe(b, 1, 1, 1) }

// BenchmarkSystemByHand is what an operator does instead: a login each second
// for nvidia-smi and wc -l.
func BenchmarkSystemByHand(b *testing.B) {
	s := remotetest.OpenSSH(b, remotetest.Options{})
	wants := growing(b, 1, 1, 1)
	rows := wants[1].Path
	m := newMeter(b, s.Addr)
	d := measured(b)
	for b.Loop() {
		cpu, up, down := cpuOf(s.PID, ""), m.up.Load(), m.down.Load()
		begun := time.Now()
		rounds := 0
		for time.Since(begun) < d {
			next := time.Now().Add(time.Second)
			cmd := exec.Command("ssh", "-F", s.SSHConfig, "-p", fmt.Sprint(m.addr.Port), "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", s.Alias,
				"nvidia-smi --query-gpu=index,memory.used,utilization.gpu --format=csv; wc -l "+rows)
			out, _ := cmd.Output()
			if !strings.Contains(string(out), rows) {
				b.Fatalf("ssh: %q", out)
			}
			rounds++
			time.Sleep(time.Until(next))
		}
		took := time.Since(begun)
		b.ReportMetric(float64(cpuOf(s.PID, "")-cpu)/float64(took)*100, "%core")
		b.ReportMetric(float64(m.up.Load()-up)/took.Seconds(), "up-B/s")
		b.ReportMetric(float64(m.down.Load()-down)/took.Seconds(), "down-B/s")
		b.ReportMetric(took.Seconds()/float64(rounds), "s/round")
	}
}

// BenchmarkSystemCount is one count of a dataset that has grown by a row.
func BenchmarkSystemCount(b *testing.B) {
	path := b.TempDir() + "/rows.jsonl"
	row := strings.Repeat("r", 4000) + "\n"
	write(b, path, strings.Repeat(row, 50_000)) // 200 MB
	p := New(newLocalNode(b), Options{})
	b.Cleanup(p.closeChannels)
	f := newFiles(p)
	st := metrics.FileStat{Path: path, Exists: true, ID: "1:1", Size: 50_000 * 4001}
	r := &rowCount{path: path, off: st.Size - 4001, done: true}
	for b.Loop() {
		r.off, r.guard = st.Size-4001, nil
		if !f.run(b.Context(), []op{f.countOp(r, st, sliceFirst)}, time.Minute) || r.off != st.Size {
			b.Fatal("it was not counted")
		}
	}
}

// BenchmarkSystemSample is one sample of the host.
func BenchmarkSystemSample(b *testing.B) {
	p := New(newLocalNode(b), Options{})
	b.Cleanup(p.closeChannels)
	for b.Loop() {
		if _, err := p.ctl.call(b.Context(), "sys;s;al 1"); err != nil {
			b.Fatal(err)
		}
	}
}

// timedSMI is an nvidia-smi that takes as long as that of one H200 (driver 580,
// persistence on), where each of these was measured by hand: the list of fields
// 25 ms, a query 33 ms, the first row of a stream 29 ms, the whole table 108 ms.
func timedSMI() string {
	return `#!/bin/sh
case "$*" in
--help-query-gpu) sleep 0.025; cat <<'E'
` + help + `E
;;
*query-compute-apps*) sleep 0.033; echo "4242, python3, 123398 MiB, GPU-1" ;;
*-lms*) sleep 0.029; while :; do printf '%s, 91000, 5000, 99, 64, 412.3, 2100, 0x0000000000000000\n' 0 1 2 3 4 5 6 7; sleep 1; done ;;
*query-gpu*) sleep 0.033; printf '%s, GPU-1, NVIDIA RTX PRO 6000, 97887\n' 0 1 2 3 4 5 6 7 ;;
*) sleep 0.108; echo table ;;
esac
`
}

// BenchmarkSystemFirstGPU is the time from before the login to the first frame
// with figures of the GPUs, beside what a person types instead. What the login
// shell of this machine does in its start files is left out (bash reads none from
// level 2 on).
func BenchmarkSystemFirstGPU(b *testing.B) {
	dir := b.TempDir()
	write(b, dir+"/nvidia-smi", timedSMI())
	s := remotetest.OpenSSH(b, remotetest.Options{Config: "SetEnv SHLVL=2 PATH=" + dir + ":/usr/bin:/bin"})
	for _, dialer := range []string{remote.DialerOpenSSH, remote.DialerNative} {
		b.Run(dialer, func(b *testing.B) {
			var login, session, first, static time.Duration
			for b.Loop() {
				begun := time.Now()
				c, err := remote.Dial(b.Context(), remote.Target{Host: s.Alias}, remote.Options{Dialer: dialer, SSHConfig: s.SSHConfig})
				if err != nil {
					b.Fatal(err)
				}
				login += time.Since(begun)
				w := watch(b, Over(c), Options{Interval: time.Second})
				w.until("the session", kind(metrics.KindSession))
				session += time.Since(begun)
				w.until("GPUs", kind(metrics.KindGPU))
				first += time.Since(begun)
				w.until("GPUs by name", kind(metrics.KindGPUStatic))
				static += time.Since(begun)
				w.stop()
				_ = c.Close()
			}
			for name, d := range map[string]time.Duration{"login-ms": login, "session-ms": session, "gpu-ms": first, "names-ms": static} {
				b.ReportMetric(float64(d.Milliseconds())/float64(b.N), name)
			}
			b.ReportMetric(0, "ns/op") // ending it is no part of it
		})
	}
	b.Run("ssh-nvidia-smi", func(b *testing.B) {
		for b.Loop() {
			if out, err := exec.Command("ssh", "-F", s.SSHConfig, s.Alias, "nvidia-smi").CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "gpu-ms")
		b.ReportMetric(0, "ns/op")
	})
}
