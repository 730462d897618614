package k8s

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/runvigil/runvigil/metrics"
)

const casesDir = "../../testdata/cases"

func only(r *Report) Container {
	for _, pod := range r.Pods {
		for _, c := range pod.Containers {
			return c
		}
	}
	return Container{}
}

var extract = map[string]func(r *Report) string{
	"exit":   func(r *Report) string { return fmt.Sprint(only(r).Last.Exit) },
	"reason": func(r *Report) string { return only(r).Last.Reason },
	"restarts": func(r *Report) string {
		if n := r.Pods[0].Restarts; n >= 0 {
			return fmt.Sprint(n)
		}
		return fmt.Sprint(only(r).Restarts)
	},
	"pod":    func(r *Report) string { return r.Pods[0].Name },
	"status": func(r *Report) string { return r.Pods[0].Status },
	"port":   func(r *Report) string { return fmt.Sprint(only(r).Port) },
}

func TestCases(t *testing.T) {
	index, err := os.ReadFile(filepath.Join(casesDir, "INDEX.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	pair := regexp.MustCompile(`\b([A-Za-z_]+):?=(\S+)`)
	checked := 0
	for _, row := range strings.Split(strings.TrimSpace(string(index)), "\n")[1:] {
		cols := strings.Split(row, "\t")
		if cols[4] != "k8s" {
			continue
		}
		files, err := filepath.Glob(filepath.Join(casesDir, cols[0]+"-*"))
		if err != nil || len(files) != 1 {
			t.Fatalf("files %v", files)
		}
		data, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		r := Parse(data)
		for _, m := range pair.FindAllStringSubmatch(cols[5], -1) {
			f := extract[m[1]]
			if f == nil {
				t.Errorf("%s %s: no extractor for this name", cols[0], m[1])
				continue
			}
			if got := f(r); got != m[2] {
				t.Errorf("%s %s = %s, want %s", cols[0], m[1], got, m[2])
			}
			checked++
		}
	}
	if checked < 7 {
		t.Errorf("only %d pairs were checked", checked)
	}
}

const describe = `Name:             sglang-0
Namespace:        llm
Node:             node-a/10.0.0.2
Status:           Running
Containers:
  sglang:
    Container ID:  containerd://a
    Image:         lmsysorg/sglang:v0.5.9
    Port:          30000/TCP
    Args:
      --api-key=secret
    State:          Waiting
      Reason:       CrashLoopBackOff
    Last State:     Terminated
      Reason:       %s
      Exit Code:    137
      Started:      Tue, 06 May 2025 18:02:06 +0000
      Finished:     Tue, 06 May 2025 18:12:06 +0000
    Ready:          False
    Restart Count:  4
    Limits:
      memory:          64Gi
      nvidia.com/gpu:  8
    Environment:       <none>
Conditions:
  Type              Status
  Ready             False
Events:
  Type     Reason     Age                  From     Message
  ----     ------     ----                 ----     -------
  Normal   Pulled     10m                  kubelet  Container image already present
%s`

func TestDescribe(t *testing.T) {
	probe := "  Warning  Unhealthy  2m (x30 over 9m)     kubelet  Startup probe failed: Get \"http://10.0.0.1:30000/health\": dial tcp: connect: connection refused\n" +
		"  Normal   Killing    2m                   kubelet  Container sglang failed startup probe, will be restarted\n"
	for name, c := range map[string]struct {
		reason, events string
		want           metrics.Cause
	}{
		"out of memory":      {"OOMKilled", "", metrics.CauseHostOOMKilled},
		"the start-up probe": {"Error", probe, metrics.CauseProbeKilled},
		"killed by nobody":   {"Error", "", metrics.CauseKilledUnknown},
		"memory, then probe": {"OOMKilled", probe, metrics.CauseHostOOMKilled},
	} {
		r := Parse([]byte(fmt.Sprintf(describe, c.reason, c.events)))
		var got Fault
		for _, f := range r.Faults() {
			if f.Primary {
				got = f
			}
		}
		if got.Class != c.want || got.Advice() == "" {
			t.Errorf("%s: %+v, want %s", name, got, c.want)
		}
		k := only(r)
		if k.Name != "sglang" || k.Port != 30000 || k.Last.Exit != 137 || k.Now.Reason != "CrashLoopBackOff" || k.Restarts != 4 || k.Limits["memory"] != "64Gi" {
			t.Errorf("%s: container %+v", name, k)
		}
		if len(r.Pods) != 1 || r.Pods[0].Name != "sglang-0" || r.Pods[0].Node != "node-a/10.0.0.2" {
			t.Errorf("%s: pods %+v", name, r.Pods)
		}
	}
}

func TestYAMLAndTables(t *testing.T) {
	r := Parse([]byte("  containerStatuses:\n  - image: x:1\n    lastState:\n      terminated:\n        exitCode: 139\n        reason: Error\n    restartCount: 2\n"))
	if k := only(r); k.Last.Exit != 139 || k.Restarts != 2 || len(r.Faults()) != 1 || r.Faults()[0].Class != metrics.CauseNativeCrash {
		t.Errorf("%+v %+v", k, r.Faults())
	}
	r = Parse([]byte("NAMESPACE   NAME   READY   STATUS      RESTARTS       AGE\nllm         a-0    0/1     OOMKilled   3 (5m ago)     1h\nllm         b-0    1/1     Running     0              1h\n"))
	if len(r.Pods) != 2 || r.Pods[0].Restarts != 3 || r.Pods[0].Namespace != "llm" || r.Pods[0].Age != "1h" || r.Faults()[0].Class != metrics.CauseHostOOMKilled {
		t.Errorf("%+v %+v", r.Pods, r.Faults())
	}
	r = Parse([]byte("LAST SEEN   TYPE      REASON      OBJECT      MESSAGE\n2m          Warning   Evicted     pod/a-0     The node was low on resource: ephemeral-storage.\n"))
	if len(r.Events) != 1 || len(r.Faults()) != 1 || r.Faults()[0].Class != metrics.CauseDiskFull {
		t.Errorf("%+v %+v", r.Events, r.Faults())
	}
}

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob(filepath.Join(casesDir, "*-k8s-*.txt"))
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
	f.Add([]byte(fmt.Sprintf(describe, "Error", "")))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := Parse(data)
		text := fmt.Sprintf("%+v", *r)
		if strings.ContainsFunc(text, unicode.IsControl) {
			t.Errorf("control character in %q", text)
		}
		for _, f := range r.Faults() {
			if len(f.Detail) > maxText {
				t.Errorf("detail of %d bytes", len(f.Detail))
			}
		}
	})
}
