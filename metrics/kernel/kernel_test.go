package kernel

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/runvigil/runvigil/metrics"
)

const casesDir = "../../testdata/cases"

func read(data []byte) (faults []Fault, s *State) {
	var p Parser
	s = &State{}
	p.Feed(data, s.Apply)
	p.Flush(s.Apply)
	return s.Faults(), s
}

func primary(faults []Fault) Fault {
	for _, f := range faults {
		if f.Primary {
			return f
		}
	}
	return Fault{}
}

func kill(faults []Fault) (Fault, bool) {
	for _, f := range faults {
		if f.Kind == KindOOMKill {
			return f, true
		}
	}
	return Fault{}, false
}

// extract gives the value of each name that expect uses.
var extract = map[string]func(faults []Fault, s *State, want string) string{
	"xid":       func(f []Fault, _ *State, _ string) string { return fmt.Sprint(primary(f).Xid) },
	"first_xid": func(f []Fault, _ *State, _ string) string { return fmt.Sprint(f[0].Xid) },
	"bus":       func(f []Fault, _ *State, _ string) string { return primary(f).Bus },
	"pid": func(f []Fault, _ *State, _ string) string {
		if k, ok := kill(f); ok {
			return fmt.Sprint(k.PID)
		}
		return fmt.Sprint(primary(f).PID)
	},
	"name":    func(f []Fault, _ *State, _ string) string { return primary(f).Name },
	"every_s": func(f []Fault, _ *State, _ string) string { return fmt.Sprint(primary(f).Every) },
	"cause": func(f []Fault, _ *State, want string) string {
		if f[0].Primary {
			return "first"
		}
		return "not the first"
	},
	"45": func(f []Fault, _ *State, _ string) string {
		for _, one := range f {
			if one.Xid == 45 && !one.Consequence {
				return "cause"
			}
		}
		return "consequence"
	},
	"fault": func(f []Fault, _ *State, _ string) string {
		return map[metrics.Cause]string{metrics.CauseGPUFirmwareTimeout: "gsp-timeout"}[primary(f).Class]
	},
	"gpu_index":         func(f []Fault, _ *State, _ string) string { return fmt.Sprint(primary(f).GPU) },
	"heartbeat_diff_ms": func(f []Fault, _ *State, _ string) string { return fmt.Sprint(primary(f).Diff) },
	"timeout_ms":        func(f []Fault, _ *State, _ string) string { return fmt.Sprint(primary(f).Limit) },
	"oom_table_rows":    func(_ []Fault, s *State, _ string) string { return fmt.Sprint(s.Tasks()) },
	"killed": func(f []Fault, _ *State, _ string) string {
		if k, ok := kill(f); ok {
			return k.Name
		}
		return "not" // "not in excerpt"
	},
	"oom_killed": func(f []Fault, _ *State, _ string) string { k, _ := kill(f); return k.Name },
	"scope": func(f []Fault, _ *State, _ string) string {
		if k, _ := kill(f); k.Cgroup {
			return "memory-cgroup"
		}
		return "node"
	},
	"anon_rss_kB":   func(f []Fault, _ *State, _ string) string { k, _ := kill(f); return fmt.Sprint(k.AnonRSSKB) },
	"oom_score_adj": func(f []Fault, _ *State, _ string) string { k, _ := kill(f); return fmt.Sprint(k.ScoreAdj) },
}

// prose are names of expect that are advice and no reading.
var prose = map[string]string{"NVreg_EnableGpuFirmware": "a driver option in the advice's words"}

func TestCases(t *testing.T) {
	index, err := os.ReadFile(filepath.Join(casesDir, "INDEX.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	pair := regexp.MustCompile(`([A-Za-z_0-9]+):?=(\S+)`)
	checked := 0
	for _, row := range strings.Split(strings.TrimSpace(string(index)), "\n")[1:] {
		cols := strings.Split(row, "\t")
		if cols[4] != "kernel" {
			continue
		}
		t.Run(cols[0], func(t *testing.T) {
			files, err := filepath.Glob(filepath.Join(casesDir, cols[0]+"-*"))
			if err != nil || len(files) != 1 {
				t.Fatalf("files %v", files)
			}
			data, err := os.ReadFile(files[0])
			if err != nil {
				t.Fatal(err)
			}
			faults, s := read(data)
			if len(faults) == 0 {
				t.Fatal("no fault found")
			}
			for _, m := range pair.FindAllStringSubmatch(cols[5], -1) {
				name, want := m[1], strings.Trim(m[2], ";,.()")
				if prose[name] != "" {
					continue
				}
				f := extract[name]
				if f == nil {
					t.Errorf("%s: no extractor for this name", name)
					continue
				}
				if got := f(faults, s, want); got != want {
					t.Errorf("%s = %s, want %s", name, got, want)
				}
				checked++
			}
		})
	}
	if checked < 15 {
		t.Errorf("only %d pairs were checked", checked)
	}
}

func TestLines(t *testing.T) {
	at := func(s string) time.Time {
		v, err := time.Parse(time.DateTime, s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for name, c := range map[string]struct {
		line string
		want Event
	}{
		"lost, journalctl": {
			"Nov 29 12:00:01 gpu7 kernel: NVRM: Xid (PCI:0000:41:00): 79, pid=77, name=python3, GPU has fallen off the bus.",
			Event{Kind: KindXid, Class: metrics.CauseGPULost, Xid: 79, Bus: "0000:41:00", PID: 77, Name: "python3", At: time.Date(0, 11, 29, 12, 0, 1, 0, time.UTC), Uptime: -1},
		},
		"old form without PCI": {
			"<4>[   12.5] NVRM: Xid (0000:03:00): 31, Ch 00000010, engmask 00000101",
			Event{Kind: KindXid, Class: metrics.CauseGPUXid, Xid: 31, Bus: "0000:03:00", PID: -1, Uptime: 12.5},
		},
		"a MIG instance": {
			"[1.0] NVRM: Xid (PCI:0009:01:00 GPU-I:01): 94, pid=9, name=a b, Contained: SM",
			Event{Kind: KindXid, Class: metrics.CauseGPUECC, Xid: 94, Bus: "0009:01:00", PID: 9, Name: "a b", Uptime: 1},
		},
		"syslog with an ISO stamp": {
			"2026-11-29T12:00:01.123456+01:00 gpu7 kernel: [ 100.5] NVRM: GPU at PCI:0000:0a:00: has fallen off the bus",
			Event{Kind: KindLost, Class: metrics.CauseGPULost, Bus: "0000:0a:00", Xid: -1, PID: -1, At: at("2026-11-29 12:00:01"), Year: true, Uptime: 100.5},
		},
		"out of memory of the node": {
			"[Sa Nov 29 12:00:01 2025] Out of memory: Killed process 4711 (python (x) y) total-vm:10kB, anon-rss:7kB, file-rss:1kB, shmem-rss:0kB, UID:0 pgtables:1kB oom_score_adj:0",
			Event{Kind: KindOOMKill, Class: metrics.CauseHostOOMKilled, PID: 4711, Name: "python (x) y", Xid: -1, TotalVMKB: 10, AnonRSSKB: 7, FileRSSKB: 1, AdjKnown: true, At: at("2025-11-29 12:00:01"), Year: true, Uptime: -1},
		},
		"the old wording": {
			"kern  :err   : [  9.25] Memory cgroup out of memory: Kill process 5 (vllm) score 900 or sacrifice child",
			Event{Kind: KindOOMKill, Class: metrics.CauseHostOOMKilled, PID: 5, Name: "vllm", Cgroup: true, Xid: -1, Uptime: 9.25},
		},
		"the summary line": {
			"[1.5] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,oom_memcg=/docker/a,task_memcg=/docker/a,task=sglang::schedul,pid=616,uid=0",
			Event{Kind: KindOOMKill, Class: metrics.CauseHostOOMKilled, PID: 616, Name: "sglang::schedul", Cgroup: true, Xid: -1, Uptime: 1.5},
		},
		"a table row with its header's columns": {
			"[ven. mars  7 21:40:25 2025] [   7995]  1000  7995    47804      231      100      131        0   110592      626             -5 (sd-pam)",
			Event{Kind: KindOOMTask, Class: metrics.CauseHostOOMKilled, Consequence: true, PID: 7995, Name: "(sd-pam)", Xid: -1, ScoreAdj: -5, AdjKnown: true, TotalVMKB: 4 * 47804, AnonRSSKB: 4 * 231, At: at("2025-03-07 21:40:25"), Year: true, Uptime: -1},
		},
		"driver and library differ": {
			"[1.5] NVRM: API mismatch: the client has the version 570.126, but this kernel module has the version 570.124.",
			Event{Kind: KindMismatch, Class: metrics.CauseDriverMismatch, Xid: -1, PID: -1, Uptime: 1.5},
		},
		"AMD": {
			"[ 99.5] [drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=3",
			Event{Kind: KindXid, Class: metrics.CauseGPUXid, Xid: -1, PID: -1, Uptime: 99.5},
		},
		"dmesg -H": {
			"[  +0.000012] NVRM: GPU 0000:65:00.0: GPU has fallen off the bus.",
			Event{Kind: KindLost, Class: metrics.CauseGPULost, Bus: "0000:65:00", Xid: -1, PID: -1, Uptime: -1},
		},
		"dmesg -H, first of its minute": {
			"[Nov29 12:00] Out of memory: Killed process 7 (x) total-vm:1kB, anon-rss:2kB, file-rss:3kB",
			Event{Kind: KindOOMKill, Class: metrics.CauseHostOOMKilled, PID: 7, Name: "x", Xid: -1, TotalVMKB: 1, AnonRSSKB: 2, FileRSSKB: 3, Uptime: -1},
		},
		"earlyoom": {
			"Nov 29 12:00:01 gpu7 earlyoom[9]: sending SIGTERM to process 4711 uid 0 \"python3\": badness 900",
			Event{Kind: KindOOMKill, Class: metrics.CauseHostOOMKilled, PID: 4711, Xid: -1, At: time.Date(0, 11, 29, 12, 0, 1, 0, time.UTC), Uptime: -1},
		},
		"segfault": {
			"[1.5] python3[99]: segfault at 0 ip 00007f sp 00007f error 4 in libcuda.so[7f+1]",
			Event{Kind: KindSegfault, Class: metrics.CauseNativeCrash, PID: 99, Name: "python3", Xid: -1, Uptime: 1.5},
		},
		"hung task": {
			"[1.5] INFO: task nvidia-smi:1234 blocked for more than 120 seconds.",
			Event{Kind: KindHungTask, PID: 1234, Name: "nvidia-smi", Xid: -1, Uptime: 1.5},
		},
	} {
		var got []Event
		var p Parser
		p.Feed([]byte("[1.0] [ pid ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes swapents oom_score_adj name\n"), func(ev *Event) { got = append(got, *ev) })
		p.Feed([]byte(c.line+"\n"), func(ev *Event) { got = append(got, *ev) })
		if len(got) != 1 {
			t.Errorf("%s: %d events", name, len(got))
			continue
		}
		want := c.want
		want.Line, want.Text, want.GPU, want.Diff, want.Limit = 2, got[0].Text, -1, -1, -1
		if want.TotalVMKB == 0 {
			want.TotalVMKB, want.AnonRSSKB = -1, -1
		}
		if want.FileRSSKB == 0 {
			want.FileRSSKB = -1
		}
		if got[0] != want {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got[0], want)
		}
	}
}

func TestQuietLines(t *testing.T) {
	for _, line := range []string{
		"[14401.198496] NVRM: GPU at PCI:0000:0a:00: GPU-060d0170-b7c5-6817-9414-6cc711264500",
		"[14445.273528] sched: RT throttling activated",
		"[1.0] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.159.04",
		"Nov 29 12:00:01 gpu7 kernel: [14445.27] usb 1-1: new device",
		"[1.0] [drm] Initialized nvidia-drm",
	} {
		if faults, _ := read([]byte(line + "\n")); len(faults) > 0 {
			t.Errorf("%q gives %+v", line, faults[0].Event)
		}
	}
}

func TestFirstCause(t *testing.T) {
	faults, s := read([]byte(`[1.0] NVRM: Xid (PCI:0000:0a:00): 45, pid=1, name=x, Ch 8
[2.0] NVRM: Xid (PCI:0000:0a:00): 31, pid=7, name=python3, MMU Fault
[3.0] NVRM: Xid (PCI:0000:0a:00): 62, pid='<unknown>', name=<unknown>, 20
[4.0] Out of memory: Killed process 9 (python3) total-vm:1kB, anon-rss:1kB, file-rss:0kB
`))
	if p := primary(faults); p.Xid != 31 || p.PID != 7 {
		t.Errorf("primary %+v", p.Event)
	}
	for _, f := range faults {
		if f.Xid == 62 && !f.Consequence {
			t.Error("what the same GPU reports after its first fault is a consequence")
		}
	}
	if _, ok := s.Victim(9); !ok {
		t.Error("pid 9 was killed by the kernel")
	}
	if _, ok := s.Victim(7); ok {
		t.Error("pid 7 was not killed by the kernel")
	}
}

func FuzzParser(f *testing.F) {
	files, err := filepath.Glob(filepath.Join(casesDir, "*-kernel-*.txt"))
	if err != nil || len(files) == 0 {
		f.Fatalf("no cases: %v", err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var s State
		var p Parser
		take := func(ev *Event) {
			for _, text := range []string{ev.Bus, ev.Name, ev.Text} {
				if len(text) > maxLine || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
					t.Errorf("text %q", text)
				}
			}
			s.Apply(ev)
		}
		p.Feed(data, take)
		p.Flush(take)
		for _, fault := range s.Faults() {
			if fault.Detail() == "" && fault.Count == 0 {
				t.Error("an empty fault")
			}
			_ = fault.Advice()
		}
	})
}

func BenchmarkParser(b *testing.B) {
	for name, line := range map[string]string{
		"xid":   "[Fri Mar  3 05:02:08 2023] NVRM: Xid (PCI:0000:61:00): 119, pid=1346250, name=nvidia-smi, Timeout waiting for RPC from GSP!\n",
		"other": "Nov 29 12:00:01 gpu7 kernel: br-abc: port 2(veth1) entered forwarding state and stays there\n",
	} {
		b.Run(name, func(b *testing.B) {
			data := bytes.Repeat([]byte(line), 500)
			b.SetBytes(int64(len(data)))
			var p Parser
			n := 0
			for b.Loop() {
				p.Feed(data, func(*Event) {})
				n += 500
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "lines/s")
		})
	}
}
