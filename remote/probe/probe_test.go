package probe

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

func TestFirstFrames(t *testing.T) { firstFrames(t, newLocalNode(t)) }

// firstFrames checks what a probe tells of any node that is this machine.
func firstFrames(t *testing.T, conn Conn) {
	dir := t.TempDir()
	rows := write(t, dir+"/rows it's.jsonl", "{\"a\":1}\n{\"a\":2}\n{\"torn")
	log := write(t, dir+"/server.log", "old line\nserver_args=ServerArgs(api_key='topsecretvalue')\nready\n")
	w := watch(t, conn, Options{Node: "gpu7"},
		metrics.Want{Kind: metrics.WantStat, Path: dir + "/absent"},
		metrics.Want{Kind: metrics.WantRows, Path: rows, Every: time.Millisecond},
		metrics.Want{Kind: metrics.WantLog, Path: log, Anchors: "server_args="},
		metrics.Want{Kind: metrics.WantPID, PID: os.Getpid(), Reads: true},
		metrics.Want{Kind: metrics.WantPID, PID: os.Getppid()},
		metrics.Want{Kind: metrics.WantDisk, Path: dir},
		metrics.Want{Kind: metrics.WantDir, Path: filepath.Dir(dir)},
	)
	s, err := metrics.Decode[metrics.Session](w.until("the session", kind(metrics.KindSession)))
	if err != nil {
		t.Fatal(err)
	}
	if s.Node != "gpu7" || s.BootID == "" || s.HZ <= 0 || s.CPUs < 1 || s.UptimeS <= 0 || s.Shell == "" || s.Tools["stat"] == "" {
		t.Errorf("session %+v", s)
	}
	if d := time.Since(s.Now); d < -3*time.Second || d > 3*time.Second {
		t.Errorf("the node's clock is %s off", d)
	}
	sys := w.until("a sample", kind(metrics.KindSys))
	for _, word := range []string{"uptime ", "loadavg ", "\ncpu ", "\nMemTotal:", "\nMemAvailable:", "\nShmem:"} {
		if !strings.Contains(string(sys.Data), word) {
			t.Errorf("sample lacks %q: %q", word, sys.Data)
		}
	}
	if d := sys.Node.Sub(s.Now); d < 0 || d > 10*time.Second {
		t.Errorf("the sample's node time is %s after the session's", d)
	}
	w.until("the stats", decoded(metrics.KindFiles, func(all []metrics.FileStat) bool {
		return len(all) == 3 && !all[0].Exists && all[1].Exists && all[1].Size == 22 && all[1].Path == rows
	}))
	w.until("the rows", decoded(metrics.KindRows, func(r metrics.RowsFact) bool {
		return r.Path == rows && r.Rows == 2 && r.Offset == 22 && r.Torn && r.Done && r.Head != ""
	}))
	w.until("the judgement", decoded(metrics.KindRows, func(r metrics.RowsFact) bool {
		return r.Judged != nil && r.Judged.Rows == 2
	}))
	w.until("the log", logged(func(h metrics.LogHeader, raw string) bool {
		return h.Backfill == 1 && h.Offset == 9 && strings.HasSuffix(raw, "ready\n") && !strings.Contains(raw, "topsecret") && h.Lines == 3
	}))
	w.until("our process", decoded(metrics.KindAlive, func(a []metrics.Alive) bool {
		return len(a) == 2 && a[0].PID == os.Getpid() && a[0].Start > 0 && a[0].Threads > 1 && a[0].Read != nil && *a[0].Read >= 0 &&
			a[1].Start > 0 && a[1].Read == nil
	}))
	w.until("the disks", decoded(metrics.KindDisk, func(d []metrics.DiskFact) bool {
		for _, disk := range d {
			if disk.Path == dir {
				return disk.Total > 0 && disk.Avail > 0 && disk.Mount != ""
			}
		}
		return false
	}))
	w.until("the directory", decoded(metrics.KindDir, func(all []metrics.FileStat) bool {
		for _, st := range all {
			if st.Path == rows {
				return true
			}
		}
		return false
	}))
	w.until("a scan", decoded(metrics.KindScan, func(s metrics.Scan) bool { return s.Total > 0 && s.UptimeS > 0 }))
	w.until("a tick", kind(metrics.KindTick))
	for _, f := range w.all() {
		if strings.Contains(string(f.Data), "topsecret") {
			t.Errorf("a secret is in a %s frame", f.Kind)
		}
	}
	last := time.Time{}
	for _, f := range w.all() {
		if f.At.Before(last) {
			t.Fatalf("frame of %s goes back in time", f.Kind)
		}
		last = f.At
	}
}

// The processes of a session that is over are gone, whatever they did.
func TestNothingStays(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/nvidia-smi", "#!/bin/sh\ncase $1 in --help*) exit 1;; esac\ncase \"$*\" in *-lms*) while :; do echo '0, 1, 2, 3, 4, 5'; sleep 1; done;; esac\n")
	mark := fmt.Sprintf("RUNVIGIL_TEST=%d-%d", os.Getpid(), time.Now().UnixNano())
	n := newLocalNode(t)
	n.env = append(n.env, mark)
	n.path(dir)
	w := watch(t, n, Options{})
	w.until("a GPU sample", kind(metrics.KindGPU))
	w.until("a scan", kind(metrics.KindScan))
	if len(marked(mark)) < 4 {
		t.Fatalf("only %d processes of the probe are there", len(marked(mark)))
	}
	n.hangUp()
	deadline := time.Now().Add(5 * time.Second)
	for len(marked(mark)) > 0 {
		if time.Now().After(deadline) {
			out, _ := exec.Command("ps", append([]string{"-o", "pid,ppid,stat,args", "-p"}, strings.Join(marked(mark), ","))...).CombinedOutput()
			t.Fatalf("still there: %s", out)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// marked are the processes whose environment holds mark.
func marked(mark string) []string {
	var out []string
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range all {
		env, err := os.ReadFile(name)
		if err == nil && strings.Contains(string(env), mark) {
			out = append(out, filepath.Base(filepath.Dir(name)))
		}
	}
	return out
}
