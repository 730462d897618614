package probe

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

const help = `List of valid properties to query for the switch "--query-gpu=":

Section about index properties
"index"
Zero based index of the GPU. Can change at each boot.

"name" or "gpu_name"
"uuid" or "gpu_uuid"
"memory.total"
"memory.used"
Total memory allocated by active contexts ("quoted in text" is no field).
"memory.free"
"utilization.gpu"
"temperature.gpu"
"power.draw"
"clocks.current.sm" or "clocks.sm"
"clocks_throttle_reasons.active"
`

func TestChooseFields(t *testing.T) {
	stream, static := chooseFields(help)
	if want := []string{"index", "memory.used", "memory.free", "utilization.gpu", "temperature.gpu", "power.draw", "clocks.current.sm", "clocks_throttle_reasons.active"}; !slices.Equal(stream, want) {
		t.Errorf("stream %v", stream)
	}
	if want := []string{"index", "uuid", "name", "memory.total"}; !slices.Equal(static, want) {
		t.Errorf("static %v", static)
	}
	stream, static = chooseFields("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.")
	if !slices.Equal(stream, coreStream) || !slices.Equal(static, coreStatic) {
		t.Errorf("without a list: %v %v", stream, static)
	}
	if got := refusedField("Field \"bogus\" is not a valid field to query.\n\n"); got != "bogus" {
		t.Errorf("refused %q", got)
	}
}

// smiScript is a node's nvidia-smi; stream is what it does for -lms.
func smiScript(stream string) string {
	return `#!/bin/sh
case "$*" in
--help-query-gpu) cat <<'E'
` + help + `E
;;
*query-compute-apps*) echo "4242, python3 --api-key secretsecretsecret, 123398 MiB, GPU-1" ;;
*-lms*) ` + stream + ` ;;
*query-gpu*) ` + twoCards + ` ;;
esac
`
}

const twoCards = `printf '%s, GPU-1, NVIDIA RTX PRO 6000, 97887\n' 0 1`

const twoRows = `printf '%s, 91000, 5000, 99, 64, 412.3, 2100, 0x0000000000000000\n' 0 1`

func gpuNode(t *testing.T, script string) *localNode {
	dir := t.TempDir()
	write(t, dir+"/nvidia-smi", script)
	n := newLocalNode(t)
	n.path(dir)
	return n
}

func TestGPUStream(t *testing.T) {
	w := watch(t, gpuNode(t, smiScript("while :; do "+twoRows+"; sleep 0.3; done")), Options{})
	f := w.until("a sample", kind(metrics.KindGPU))
	want := "index,memory.used,memory.free,utilization.gpu,temperature.gpu,power.draw,clocks.current.sm,clocks_throttle_reasons.active\n" +
		"0, 91000, 5000, 99, 64, 412.3, 2100, 0x0000000000000000\n1, 91000, 5000, 99, 64, 412.3, 2100, 0x0000000000000000\n"
	if string(f.Data) != want {
		t.Errorf("sample %q", f.Data)
	}
	f = w.until("what does not change", kind(metrics.KindGPUStatic))
	if string(f.Data) != "index,uuid,name,memory.total\n0, GPU-1, NVIDIA RTX PRO 6000, 97887\n1, GPU-1, NVIDIA RTX PRO 6000, 97887\n" {
		t.Errorf("static %q", f.Data)
	}
	f = w.until("the processes", kind(metrics.KindGPUApps))
	if !strings.HasPrefix(string(f.Data), appFields+"\n4242, python3") || strings.Contains(string(f.Data), "secretsecret") {
		t.Errorf("processes %q", f.Data)
	}
}

func TestGPUFailures(t *testing.T) {
	for name, tc := range map[string]struct {
		stream string
		ok     func(metrics.GPUErrorFact) bool
	}{
		"no driver": {
			"echo \"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\"; exit 9",
			func(f metrics.GPUErrorFact) bool { return f.RC == 9 && strings.Contains(f.Text, "communicate") },
		},
		"no devices": {
			"echo No devices were found; exit 6",
			func(f metrics.GPUErrorFact) bool { return f.RC == 6 && f.Text == "No devices were found" },
		},
		"one lost among others": {
			twoRows + "; echo 'Unable to determine the device handle for GPU0000:BA:00.0: GPU is lost.  Reboot the system to recover this GPU'; sleep 60",
			func(f metrics.GPUErrorFact) bool { return strings.Contains(f.Text, "GPU is lost") && !f.Stuck },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := watch(t, gpuNode(t, smiScript(tc.stream)), Options{})
			w.until("the failure", decoded(metrics.KindGPUError, tc.ok))
		})
	}
}

func TestGPUAbsent(t *testing.T) {
	if _, err := os.Stat("/usr/bin/nvidia-smi"); err == nil {
		t.Log("this machine has an nvidia-smi where drivers put it: only its presence is checked")
		watch(t, newLocalNode(t), Options{}).until("a sample or a failure", func(f metrics.Frame) bool {
			return f.Kind == metrics.KindGPU || f.Kind == metrics.KindGPUError
		})
		return
	}
	n := newLocalNode(t)
	n.env = append(n.env, "PATH=/usr/bin:/bin")
	w := watch(t, n, Options{})
	w.until("its absence", decoded(metrics.KindGPUError, func(f metrics.GPUErrorFact) bool { return f.Absent && f.RC == 127 }))
	w.until("the advice", decoded(metrics.KindProbe, func(f metrics.ProbeFact) bool { return f.State == "absent" && f.Advice != "" }))
}

// A card that the list of cards has not is missed once at most.
func TestGPUCountIsWrong(t *testing.T) {
	w := watch(t, gpuNode(t, smiScript("while :; do "+twoRows+" 2; sleep 0.3; done")), Options{})
	w.until("a sample of all three", func(f metrics.Frame) bool {
		return f.Kind == metrics.KindGPU && strings.Count(string(f.Data), "\n") == 4
	})
	whole, parts := 0, 0
	w.until("further samples", func(f metrics.Frame) bool {
		if f.Kind != metrics.KindGPU {
			return false
		}
		if strings.Count(string(f.Data), "\n") == 4 {
			whole++
		} else {
			parts++
		}
		return whole == 5
	})
	if parts > 2 {
		t.Errorf("%d parts of rounds", parts)
	}
}

// A driver may list a field and refuse it all the same; then it is left out.
func TestGPURefusedField(t *testing.T) {
	script := smiScript(`case "$*" in *clocks_throttle*) printf 'Field "clocks_throttle_reasons.active" is not a valid field to query.\n\n'; exit 2 ;; esac
while :; do printf '%s, 91000, 5000, 99, 64, 412.3, 2100\n' 0 1; sleep 0.3; done`)
	w := watch(t, gpuNode(t, script), Options{})
	f := w.until("a sample", kind(metrics.KindGPU))
	if strings.Contains(string(f.Data), "throttle") || !strings.Contains(string(f.Data), "\n1, 91000") {
		t.Errorf("sample %q", f.Data)
	}
}

// The node itself finds out which of the wanted fields its nvidia-smi knows, by
// newer and older names, as chooseFields does, and where the driver's folder has
// to be named.
func TestGPUFieldsOnTheNode(t *testing.T) { gpuFieldsOnTheNode(t, newLocalNode(t)) }

func gpuFieldsOnTheNode(t *testing.T, n *localNode) {
	for name, tc := range map[string]struct{ help, want string }{
		"all that are there": {"cat <<'E'\n" + help + "E", "index,memory.used,memory.free,utilization.gpu,temperature.gpu,power.draw,clocks.current.sm,clocks_throttle_reasons.active"},
		"an older name":      {`printf '"index"\n"memory.used"\n"clocks.sm"\n'`, "index,memory.used,clocks.sm"},
		"no list":            {"echo NVIDIA-SMI has failed", strings.Join(coreStream, ",")},
		"a library": {`if [ -n "$LD_LIBRARY_PATH" ]; then printf '"index"\n"memory.used"\n'; else echo "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system."; fi`,
			"index,memory.used"},
	} {
		dir := t.TempDir()
		write(t, dir+"/nvidia-smi", "#!/bin/sh\ncase \"$*\" in\n--help-query-gpu) "+tc.help+"\n;;\n*-lms*) sleep 5 ;;\nesac\n")
		node := newLocalNode(t, n.shell...)
		node.path(dir)
		node.env = append(node.env, "LD_LIBRARY_PATH=")
		sh, err := startShell(t.Context(), node, gpuProgram("", nil, 1000, false), true)
		if err != nil {
			t.Fatal(err)
		}
		if got := streamed(string(<-sh.lines)); strings.Join(got, ",") != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
		sh.close()
	}
	if streamed("fields index,$(reboot)") != nil || streamed("0, 91000") != nil {
		t.Error("a name that is no field was taken")
	}
}

// Without a session for the stream, one call after the other runs in the
// background of ctl.
func TestGPUOneShots(t *testing.T) {
	n := gpuNode(t, strings.Replace(smiScript("exit 1"), twoCards, `case "$*" in *uuid*) `+twoCards+` ;; *) `+twoRows+` ;; esac`, 1))
	n.most = 1
	w := watch(t, n, Options{})
	w.until("a sample", func(f metrics.Frame) bool {
		return f.Kind == metrics.KindGPU && strings.Contains(string(f.Data), "\n1, 91000")
	})
	w.until("the processes", kind(metrics.KindGPUApps))
	w.until("a sample of the host beside it", kind(metrics.KindSys))
}

// An nvidia-smi that hangs in the driver is told as such, is not joined by
// another within a minute, and delays nothing.
func TestGPUStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &scriptedNode{answer: func(s int, code string) (string, time.Duration) {
			switch {
			case code == "info":
				return "uptime 1 1\ndate 1800000000 +0000 UTC\ntool nvidia-smi /usr/bin/nvidia-smi\n", time.Millisecond
			case strings.HasPrefix(code, "al "):
				return code[3:] + " (nvidia-smi) D 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 100 1000 10", time.Millisecond
			case code == "jp g":
				return "run D", time.Millisecond
			}
			return scriptedAnswer(s, code)
		}}
		frames, _ := runScripted(t, n, 5*time.Minute)
		stuck, samples := 0, 0
		for _, f := range frames {
			switch f.Kind {
			case metrics.KindGPUError:
				if e, err := metrics.Decode[metrics.GPUErrorFact](f); err == nil && e.Stuck {
					stuck++
				}
			case metrics.KindSys:
				samples++
			}
		}
		if stuck < 3 || !strings.Contains(states(frames)["gpu"], "stuck: nvidia-smi hangs") {
			t.Errorf("told %d times: %q", stuck, states(frames)["gpu"])
		}
		if n.opened > 4+5 {
			t.Errorf("%d sessions in five minutes", n.opened)
		}
		if samples < 295 {
			t.Errorf("only %d samples of the host", samples)
		}
	})
}

func TestJobs(t *testing.T) { backgroundJobs(t, newLocalNode(t)) }

func backgroundJobs(t *testing.T, n *localNode) {
	p := New(n, Options{})
	t.Cleanup(p.closeChannels)
	ctx := t.Context()
	out, rc, err := p.job(ctx, "g", "echo one; echo two >&2; exit 7", 10*time.Second)
	if err != nil || rc != 7 || string(out) != "one\ntwo\n" {
		t.Errorf("job: %q %d %v", out, rc, err)
	}
	begun := time.Now()
	if _, _, err = p.job(ctx, "g", "exec sleep 60", time.Millisecond); !errors.Is(err, errLate) || time.Since(begun) > 5*time.Second {
		t.Errorf("a slow job: %v after %s", err, time.Since(begun))
	}
	out, _, err = p.job(ctx, "g", "head -c 300000 /dev/zero | tr '\\0' x", 10*time.Second)
	if err != nil || len(out) != 300000 {
		t.Errorf("after it: %d bytes, %v", len(out), err)
	}
}
