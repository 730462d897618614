package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/runvigil/runvigil/cmd/runvigil/config"
	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/recording"
)

func framesOf(t *testing.T, path string) []metrics.Frame {
	t.Helper()
	r, file, err := openRecording(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	defer r.Close()
	var out []metrics.Frame
	for {
		f, err := r.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, recording.ErrTorn) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, f)
	}
}

func recordings(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "*.rv"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(list)
	return list
}

func TestRotateByAge(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs")
	r := newRotating(config.Rotation{Dir: dir, FileSize: 1e9, Total: 1e12, FileAge: time.Hour, MaxAge: 3 * time.Hour}, "root@gpu7:22")
	write := func(f metrics.Frame) {
		t.Helper()
		if err := r.Write(f); err != nil {
			t.Fatal(err)
		}
	}
	write(metrics.JSONFrame(metrics.KindConfig, "gpu7", t0, metrics.Config{Node: "gpu7"}))
	write(metrics.JSONFrame(metrics.KindSession, "", t0, metrics.Session{BootID: "b", Now: t0.Add(3 * time.Second), UptimeS: 100}))
	write(metrics.Frame{Kind: metrics.KindLog, Name: "/s.log", At: t0, Data: metrics.EncodeChunk(metrics.LogHeader{Backfill: 1}, []byte("server_args=\n"))})
	for s := range 9 * 3600 / 10 {
		write(metrics.Frame{Kind: metrics.KindTick, At: t0.Add(time.Duration(s*10) * time.Second)})
	}
	r.close()
	list := recordings(t, dir)
	if len(list) < 3 || len(list) > 5 {
		t.Fatalf("%d files after 9 h, of which 3 h are kept in files of an hour: %v", len(list), list)
	}
	fs := framesOf(t, list[len(list)-1])
	if len(fs) < 100 || fs[0].Kind != metrics.KindConfig || fs[1].Kind != metrics.KindSession || fs[2].Kind != metrics.KindLog {
		t.Fatalf("the newest file begins with %v", fs[:min(4, len(fs))])
	}
	s, err := metrics.Decode[metrics.Session](fs[1])
	if err != nil {
		t.Fatal(err)
	}
	if skew := s.Now.Sub(fs[1].At); skew != 3*time.Second {
		t.Errorf("the clocks differ by %s in the later file, 3 s before", skew)
	}
	if up := s.UptimeS - 100; up < 7*3600 || up > 9*3600 {
		t.Errorf("uptime moved by %g s", up)
	}
	if gap := fs[3].At.Sub(fs[0].At); gap < 0 || gap > time.Minute {
		t.Errorf("a replay would wait %s before the first new frame", gap)
	}
}

func TestRotateBySize(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "gpu8-20200101T000000.000Z.rv")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRotating(config.Rotation{Dir: dir, FileSize: 20_000, Total: 100_000, FileAge: 100 * time.Hour, MaxAge: 1000 * time.Hour}, "gpu7")
	noise := uint64(1)
	for s := range 2000 {
		data := make([]byte, 500) // that no compression makes small
		for i := range data {
			noise ^= noise << 13
			noise ^= noise >> 7
			noise ^= noise << 17
			data[i] = byte(noise)
		}
		at := t0.Add(time.Duration(s) * time.Second)
		for _, f := range []metrics.Frame{{Kind: metrics.KindSys, At: at, Data: data}, {Kind: metrics.KindTick, At: at}} {
			if err := r.Write(f); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.close()
	var total int64
	n := 0
	for _, p := range recordings(t, dir) {
		if p == other {
			continue
		}
		st, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		if st.Size() > 25_000 {
			t.Errorf("%s has %d bytes, the bound is 20,000", p, st.Size())
		}
		total += st.Size()
		n++
	}
	if n < 3 || total > 100_000 {
		t.Errorf("%d files with %d bytes, the bound is 100,000", n, total)
	}
	if _, err := os.Stat(other); err != nil {
		t.Error("another node's recording was removed")
	}
}

// A folder that cannot be written costs the recording, not the screen.
func TestRotateFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRotating(config.Rotation{Dir: filepath.Join(file, "sub"), FileSize: 1, Total: 2, FileAge: time.Hour, MaxAge: time.Hour}, "x")
	for range 3 {
		if err := r.Write(metrics.Frame{Kind: metrics.KindTick, At: t0}); err != nil {
			t.Error(err)
		}
	}
	r.close()
	if newRotating(config.Rotation{}, "x") != nil {
		t.Error("a recorder without a folder")
	}
}
