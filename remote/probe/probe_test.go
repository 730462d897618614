package probe

import (
	"fmt"
	"io"
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
		metrics.Want{Kind: metrics.WantMemory, Every: time.Minute},
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
	w.until("the memory limits", func(f metrics.Frame) bool {
		return f.Kind == metrics.KindSys && strings.Contains(string(f.Data), "\ngroups 0\n")
	})
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

func TestMemoryLimits(t *testing.T) { memoryLimits(t, newLocalNode(t)) }

// memoryLimits reads the limits of control groups of made-up nodes.
func memoryLimits(t *testing.T, conn Conn) {
	const none = "9223372036854771712\n"
	stat := func(prefix string) string {
		return "cache 900\n" + prefix + "inactive_file 300\nshmem 5\n" + prefix + "active_file 70\nslab 1\n"
	}
	for name, c := range map[string]struct {
		cgroup string
		files  map[string]string
		want   string
	}{
		"v2, a group below one with a limit": {"0::/kubepods.slice/pod 7/abc\n", map[string]string{
			"kubepods.slice/pod 7/abc/memory.max": "max\n", "kubepods.slice/pod 7/memory.max": "4000\n", "kubepods.slice/pod 7/memory.current": "3500\n",
			"kubepods.slice/pod 7/memory.stat": stat(""), "kubepods.slice/memory.max": "9000\n", "kubepods.slice/memory.current": "5000\n",
		}, "group 7 4000 3500 70 300 /kubepods.slice/pod 7\ngroup 7 9000 5000 0 0 /kubepods.slice\n"},
		"v2, in a container that sees its own top": {"0::/\n", map[string]string{"memory.max": "4000\n", "memory.current": "3500\n", "memory.stat": stat("")}, "group 7 4000 3500 70 300 /\n"},
		"v2, without a limit":                      {"0::/user.slice\n", map[string]string{"user.slice/memory.max": "max\n"}, ""},
		"v2, out of what this mount shows":         {"0::/../other\n", map[string]string{"memory.max": "4000\n", "memory.current": "1\n"}, ""},
		"v1, by the path of the host": {"9:name=systemd:/\n4:cpu,memory:/docker/abc\n0::/\n", map[string]string{
			"memory/memory.limit_in_bytes": "4000\n", "memory/memory.usage_in_bytes": "3500\n", "memory/memory.stat": stat("") + stat("total_"),
			"memory.max": "1\n",
		}, "group 7 4000 3500 70 300 \n"},
		"v1, without a limit": {"4:memory:/a\n", map[string]string{"memory/a/memory.limit_in_bytes": none, "memory/memory.limit_in_bytes": none}, ""},
		"no control groups":   {"", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir+"/proc/7/cgroup", c.cgroup)
			for f, text := range c.files {
				write(t, dir+"/sys/"+f, text)
			}
			program := strings.NewReplacer("/sys/fs/cgroup", dir+"/sys", "/proc/$q/", dir+"/proc/$q/").Replace(strip(ctlSh))
			st, err := conn.Start(t.Context(), command)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(st.Stdin, "exec 2>&-\n%scg 7 999\nexit 0\n", program)
			got, err := io.ReadAll(st.Stdout)
			if want := "groups 7 999\n" + c.want; err != nil || string(got) != want {
				t.Errorf("got %q (%v), want %q", got, err, want)
			}
		})
	}
}
