//go:build system

package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote"
	"github.com/runvigil/runvigil/remote/probe"
	"github.com/runvigil/runvigil/remote/remotetest"
	"github.com/runvigil/runvigil/tui"
)

// hugeLog writes a log of five gigabytes over a day, with one line near its
// beginning that is found nowhere else.
func hugeLog(b *testing.B) (path string, begin time.Time) {
	path = filepath.Join(b.TempDir(), "server.log")
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	begin = time.Date(2026, 2, 24, 0, 0, 0, 0, time.UTC)
	const line = " TP0] Decode batch, #running-req: 35, #token: 157948, token usage: 0.99, cuda graph: True, gen throughput (token/s): 603.41, #queue-req: 115, \n"
	for s := range 86_400 {
		stamp := "[" + begin.Add(time.Duration(s)*time.Second).Format(time.DateTime)
		if s == 3600 {
			fmt.Fprintf(w, "%s TP0] the only needle\nTraceback (most recent call last):\n", stamp)
		}
		fmt.Fprint(w, strings.Repeat(stamp+line, 357))
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	return path, begin
}

// BenchmarkSystemHugeLog measures what a person waits for in a log of 5 GB.
func BenchmarkSystemHugeLog(b *testing.B) {
	path, begin := hugeLog(b)
	size, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	s := remotetest.OpenSSH(b, remotetest.Options{})
	for name, dial := range map[string]func() (*remote.Conn, error){
		"local": func() (*remote.Conn, error) {
			return remote.Dial(b.Context(), remote.Target{}, remote.Options{Dialer: remote.DialerLocal})
		},
		"sshd": func() (*remote.Conn, error) {
			return remote.Dial(b.Context(), remote.Target{User: s.User, Host: s.Host, Port: s.Port},
				remote.Options{Dialer: remote.DialerNative, Plain: true, Identity: s.KeyFile, HostKey: s.HostKey})
		},
	} {
		b.Run(name, func(b *testing.B) {
			conn, err := dial()
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			p := probe.New(probe.Over(conn), probe.Options{Node: "n"})
			tail := make(chan struct{}, 1)
			p.SetWants([]metrics.Want{{Kind: metrics.WantLog, Path: path, Every: time.Second, Tail: 1 << 20}})
			opened := time.Now()
			go func() {
				_ = p.Run(b.Context(), func(f metrics.Frame) { // it ends with the benchmark
					if f.Kind == metrics.KindLog {
						select {
						case tail <- struct{}{}:
						default:
						}
					}
				})
			}()
			<-tail
			b.ReportMetric(float64(time.Since(opened).Milliseconds()), "open-ms")
			clock := logClock{zone: time.UTC, now: begin.AddDate(0, 0, 1)}
			for _, c := range []struct {
				name string
				q    tui.LogQuery
				want string
			}{
				{"end", tui.LogQuery{Before: -1, Max: 500}, "23:59:59"},
				{"beginning", tui.LogQuery{Newer: true, Max: 500}, "00:00:00"},
				{"time", tui.LogQuery{At: begin.Add(3*time.Hour + 12*time.Minute)}, "03:12:00"},
				{"near", tui.LogQuery{Before: -1, Search: "23:40:00"}, "23:40:00"},
				{"far", tui.LogQuery{Before: -1, Search: "the only needle"}, "needle"},
				{"far-fold", tui.LogQuery{Before: -1, Search: "the only needle", Fold: true}, "needle"},
				{"error", tui.LogQuery{Before: -1, Errors: true}, "Traceback"},
			} {
				c.q.Path = path
				begun := time.Now()
				got, err := readLog(b.Context(), p, c.q, clock)
				took := time.Since(begun)
				i := max(got.Hit, 0)
				if c.name == "end" {
					i = len(got.Lines) - 1
				}
				if err != nil || len(got.Lines) <= i || !strings.Contains(got.Lines[i].Text, c.want) {
					b.Fatalf("%s: line %d of %d, %v", c.name, i, len(got.Lines), err)
				}
				b.ReportMetric(float64(took.Microseconds())/1000, c.name+"-ms")
			}
			b.ReportMetric(float64(size.Size())/1e9, "GB")
		})
	}
}
