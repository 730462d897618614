package nvidia

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/runvigil/runvigil/metrics"
)

func capture(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("../../testdata/captures/nvidia-smi/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestParseNum(t *testing.T) {
	for _, c := range []struct {
		in  string
		v   float64
		why Why
		ok  bool
	}{
		{"0", 0, 0, true}, {"81002MiB", 81002, 0, true}, {" 11.40 W", 11.40, 0, true}, {"36c", 36, 0, true},
		{"1411Mhz", 1411, 0, true}, {"56°C", 56, 0, true}, {"0x0000000000000004", 4, 0, true}, {"-1", -1, 0, true},
		{"1.5 GiB", 1536, 0, true}, {"[N/A]", 0, NotThere, false}, {"N/A", 0, NotThere, false}, {"-", 0, NotThere, false},
		{"", 0, NotThere, false}, {"[Not Supported]", 0, NotThere, false}, {"ERR!", 0, Failed, false},
		{"[Unknown Error]", 0, Failed, false}, {"[GPU is lost]", 0, Lost, false}, {"[GPU requires reset]", 0, NeedsReset, false},
		{"[Insufficient Permissions]", 0, NotAllowed, false}, {"10340...", 0, Cut, false},
		{"Requested functionality has been deprecated", 0, NotThere, false}, {"12 parsecs", 0, Odd, false}, {"Enabled", 0, Odd, false},
		{"nan", 0, Odd, false}, {"1e5", 0, Odd, false},
	} {
		n := ParseNum(c.in)
		if n.V != c.v || n.OK != c.ok || n.Why != c.why {
			t.Errorf("%q: %+v", c.in, n)
		}
	}
}

func TestQueryCaptures(t *testing.T) {
	head, _, _ := bytes.Cut(capture(t, "q_load.csv"), []byte("\n"))
	fields := strings.Split(string(head), ",")
	units, _ := ParseAny(capture(t, "q_load.csv"))
	bare := ParseQuery(append(append(slices.Clone(head), '\n'), capture(t, "q_load_nounits.csv")...))
	if len(units.Rows) != 2 || len(bare.Rows) != 2 {
		t.Fatalf("rows: %d with units, %d without", len(units.Rows), len(bare.Rows))
	}
	for i, r := range []Row{units.Rows[1], bare.Rows[1]} {
		if r.Index != 1 || r.Name != "NVIDIA H200" || r.MemTotal.V != 143771 || r.MemUsed.V != 62451 || r.MemFree.V != 80706 ||
			r.Util.V != 99 || r.Temp.V != 59 || r.TempMem.V != 51 || !slices.Equal(r.Throttled(), []string{"SW Power Cap"}) ||
			r.Fan.OK || r.Fan.Raw != "[N/A]" || !r.ECC.OK || r.PState != "P0" || r.MIG != "Disabled" {
			t.Errorf("row %d: %+v", i, r)
		}
		if r.Health() != Fine || r.Unified() {
			t.Errorf("row %d: health %v unified %v", i, r.Health(), r.Unified())
		}
	}
	if _, ok := NewQuery(fields).Row("1, GPU-0a1b"); ok {
		t.Error("a row cut short was taken")
	}
	idle, _ := ParseAny(capture(t, "q_idle.csv"))
	if r := idle.Rows[0]; !r.MemUsed.OK || r.MemUsed.V != 0 || len(r.Throttled()) != 0 || r.Reasons[0] != "GPU Idle" {
		t.Errorf("idle: %+v", r)
	}
}

func TestStream(t *testing.T) {
	s := NewStream([]string{"timestamp", "index", "memory.used", "utilization.gpu"})
	var got []Sample
	for line := range strings.Lines(string(capture(t, "lms_stream.txt"))) {
		_, row, _ := strings.Cut(strings.TrimSpace(line), " ") // the arrival stamp of the capture
		if smp, ok := s.Line(row); ok {
			got = append(got, smp)
		}
	}
	if _, ok := s.Flush(); ok {
		t.Error("the last round was complete, yet flushed again")
	}
	// The first round is complete with the second, which itself comes with its last row.
	if len(got) != 12 {
		t.Fatalf("%d samples of 12 rounds", len(got))
	}
	for i, smp := range got {
		if len(smp.Rows) != 2 || smp.Rows[0].MemUsed.V != 103411 || smp.Rows[1].Index != 1 {
			t.Errorf("sample %d: %+v", i, smp)
		}
	}
}

func TestStreamChanges(t *testing.T) {
	s := NewStream([]string{"index", "memory.used"})
	var counts []int
	for _, l := range []string{"0, 1", "1, 1", "2, 1", "0, 2", "1, 2", "2, 2", "0, 3", "1, 3", "0, 4", "1, 4", "0, 5", "1, 5", "2, 5"} {
		if smp, ok := s.Line(l); ok {
			counts = append(counts, len(smp.Rows))
		}
	}
	// 3 cards; the third goes missing for two rounds and comes back: its round is given again, whole.
	if want := []int{3, 3, 2, 2, 2, 3}; !slices.Equal(counts, want) {
		t.Errorf("rows of each sample: %v, want %v", counts, want)
	}
	smp, ok := s.Line("Unable to determine the device handle for GPU0000:BA:00.0: Unknown Error")
	if !ok || len(smp.Failures) != 1 || smp.Failures[0].Bus[0] != "0000:BA:00.0" || smp.Failures[0].Cause != metrics.CauseGPULost {
		t.Errorf("failure in a stream: %+v", smp)
	}
	one := NewStream([]string{"index", "memory.used"})
	n := 0
	for _, l := range []string{"0, 1", "0, 2", "0, 3"} {
		if _, ok := one.Line(l); ok {
			n++
		}
	}
	if _, ok := one.Flush(); n != 3-0 && !ok {
		t.Errorf("one card: %d samples", n)
	}
}

func TestLostCard(t *testing.T) {
	q := NewQuery([]string{"index", "memory.used", "memory.total", "utilization.gpu", "temperature.gpu", "power.draw"})
	for line, want := range map[string]Health{
		"0, 1, 2, 3, 4, 5": Fine,
		"0, [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost]": Gone,
		"3, [Unknown Error], [Unknown Error], ERR!, ERR!, ERR!":                        Suspect,
		"0, 1, 2, 3, 4, [Unknown Error]":                                               Fine,
		"0, [GPU requires reset], 2, 3, 4, 5":                                          Reset,
		"0, [N/A], [N/A], 0, 36, 11.40":                                                Fine,
	} {
		r, ok := q.Row(line)
		if !ok || r.Health() != want {
			t.Errorf("%s: ok %v health %v want %v", line, ok, r.Health(), want)
		}
	}
	r, _ := q.Row("0, [N/A], [N/A], 0, 36, 11.40")
	if !r.Unified() {
		t.Error("a card without memory figures is not called unified")
	}
}

func TestClassify(t *testing.T) {
	for _, c := range []struct {
		text  string
		kind  FailureKind
		cause metrics.Cause
	}{
		{"No devices were found", NoDevices, ""},
		{"Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.126", Mismatch, metrics.CauseDriverMismatch},
		{"Failed to initialize NVML: Unknown Error", DeviceDenied, metrics.CauseDriverNotLoaded},
		{"NVIDIA-SMI has failed because it couldn‘t communicate with the NVIDIA driver. Make sure\nthat", NoDriver, metrics.CauseDriverNotLoaded},
		{"NVIDIA-SMI has failed because it couldn't communicate with\nthe NVIDIA driver.", NoDriver, metrics.CauseDriverNotLoaded},
		{"NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.", NoLibrary, metrics.CauseDriverNotLoaded},
		{"Unable to determine the device handle for GPU 0000:01:00.0: GPU is lost. Reboot the system", DeviceLost, metrics.CauseGPULost},
		{"Field \"nosuchfield\" is not a valid field to query.\n\n", BadField, ""},
		{"sh: 1: nvidia-smi: not found", NoTool, metrics.CauseDriverNotLoaded},
	} {
		f, ok := Classify([]byte(c.text))
		if !ok || f.Kind != c.kind || f.Cause != c.cause || f.Text == "" {
			t.Errorf("%q: %+v %v", c.text, f, ok)
		}
	}
	if f, _ := Classify(capture(t, "q_badfield.txt")); f.Field != "nosuchfield" {
		t.Errorf("bad field: %+v", f)
	}
	if _, ok := Classify(capture(t, "smi_load.txt")); ok {
		t.Error("a table is a failure")
	}
	if _, known := metrics.CauseGPULost.Info(); !known {
		t.Error("a cause that is not in the list")
	}
}

func TestFields(t *testing.T) {
	help := []byte("List of valid properties\n\n\"index\"\nZero based index.\n\n\"memory.used\"\nX\n\n\"uuid\" or \"gpu_uuid\"\n\n" +
		"\"clocks_event_reasons.active\" or \"clocks_throttle_reasons.active\"\nSee \"nosuch\"\n\n\"name\" or \"gpu_name\"\n\"clocks.current.sm\" or \"clocks.sm\"\n")
	stream, static := Fields(help)
	if want := []string{"index", "memory.used", "clocks.current.sm", "clocks_event_reasons.active"}; !slices.Equal(stream, want) {
		t.Errorf("stream: %v", stream)
	}
	if want := []string{"index", "uuid", "name"}; !slices.Equal(static, want) {
		t.Errorf("static: %v", static)
	}
	old := []byte("\"index\"\n\"memory.used\"\n\"clocks_throttle_reasons.active\"\n")
	if stream, _ = Fields(old); stream[2] != "clocks_throttle_reasons.active" {
		t.Errorf("old driver: %v", stream)
	}
	if stream, static = Fields(nil); !slices.Equal(stream, streamCore) || !slices.Equal(static, staticCore) {
		t.Errorf("without help: %v %v", stream, static)
	}
	if got := Without([]string{"index", "clocks.sm"}, "clocks.current.sm"); !slices.Equal(got, []string{"index"}) {
		t.Errorf("without: %v", got)
	}
}

// The field list of a real driver: all that is wished for is known to it, and
// the row that it prints for the stream's fields is read whole.
func TestFieldsOfADriver(t *testing.T) {
	stream, static := Fields(capture(t, "help_query_gpu.txt"))
	if len(stream) != len(streamWish) || len(static) != len(staticWish) {
		t.Errorf("stream %v static %v", stream, static)
	}
	r, ok := NewQuery(stream).Row(strings.TrimSpace(string(capture(t, "q_stream.csv"))))
	if !ok || r.MemFree.V != 143156 || r.Temp.V != 32 || r.Power.V != 102.71 || r.Recovery != "" || r.Health() != Fine || r.Reasons[0] != "GPU Idle" || len(r.Extra) != 0 {
		t.Errorf("%+v", r)
	}
}

func TestText(t *testing.T) {
	r, _ := ParseAny(capture(t, "q.txt"))
	if r.Format != FormatQuery || len(r.Rows) != 1 || r.Driver != "580.159.04" || r.CUDA != "13.0" {
		t.Fatalf("%+v", r)
	}
	g := r.Rows[0]
	if g.Name != "NVIDIA H200" || g.MemTotal.V != 143771 || g.MemReserved.V != 616 || g.MemUsed.V != 0 || !g.MemUsed.OK || !g.Util.OK || g.Temp.V != 33 || g.TempMem.V != 37 ||
		g.Power.V != 110.58 || g.PowerNow.V != 76.46 || g.PowerLimit.V != 700 || !g.ECC.OK || g.ECC.V != 0 || g.ECCMode != "Enabled" || g.MIG != "Disabled" ||
		g.ClockSM.V != 375 || !slices.Equal(g.Reasons, []string{"GPU Idle"}) || g.Fan.OK || len(r.Procs) != 0 || r.ProcsUnknown {
		t.Errorf("%+v", g)
	}
	r, _ = ParseAny(capture(t, "dmon_all.txt"))
	if len(r.Rows) != 1 || r.Rows[0].Power.V != 76 || !r.Rows[0].ECC.OK || !r.Rows[0].PViol.OK || r.Rounds != 2 {
		t.Errorf("dmon: %+v", r)
	}
}

func TestTables(t *testing.T) {
	r, ok := ParseAny(capture(t, "smi_load.txt"))
	if !ok || len(r.Rows) != 2 || r.Driver != "580.159.04" || r.CUDA != "13.0" {
		t.Fatalf("%+v", r)
	}
	if len(r.Procs) != 2 || r.Procs[0].PID != 575 || r.Procs[0].Used.OK || r.Procs[0].Used.Why != Cut || r.Procs[1].Used.V != 62442 || r.Procs[1].Name != "python3" {
		t.Errorf("processes: %+v", r.Procs)
	}
	idle, _ := ParseAny(capture(t, "smi_idle.txt"))
	if len(idle.Procs) != 0 || idle.ProcsUnknown || idle.Rows[0].Power.V != 128 {
		t.Errorf("idle: %+v", idle)
	}
	list, _ := ParseAny(capture(t, "smi_L.txt"))
	if list.Format != FormatList || len(list.Rows) != 2 || list.Rows[1].UUID != "GPU-0a1b2c3d-1111-2222-3333-444455556661" {
		t.Errorf("list: %+v", list)
	}
}

const migTable = `
| NVIDIA-SMI 470.82.01    Driver Version: 470.82.01    CUDA Version: 11.4     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
|===============================+======================+======================|
|   3  NVIDIA A100-SXM...  ERR! | 00000000:3B:00.0 Off |                   On |
| N/A   ERR! P0    ERR! / 400W  |     39MiB / 40536MiB |     N/A      Default |
|                               |                      |              Enabled |
+-------------------------------+----------------------+----------------------+
| MIG devices:                                                                |
+------------------+----------------------+-----------+-----------------------+
| GPU  GI  CI  MIG |         Memory-Usage |        Vol|         Shared        |
|==================+======================+===========+=======================|
|  3    1   0   0  |     20MiB / 20096MiB | 42      0 |  3   0    2    0    0 |
|                  |      0MiB / 32767MiB |           |                       |
+------------------+----------------------+-----------+-----------------------+
|  3    2   0   1  |     19MiB / 20096MiB | 42      0 |  3   0    2    0    0 |
+------------------+----------------------+-----------+-----------------------+
| Processes:                                                                  |
|  GPU   GI   CI        PID   Type   Process name                  GPU Memory |
|=============================================================================|
|    3    1    0      57345      C   /opt/my app/python3             1234MiB  |
+-----------------------------------------------------------------------------+
`

func TestMIG(t *testing.T) {
	r, _ := ParseAny([]byte(migTable))
	if len(r.Rows) != 1 || r.Rows[0].Index != 3 || r.Rows[0].MIG != "Enabled" || r.Rows[0].Util.OK || r.Rows[0].Power.Why != Failed || r.Rows[0].PowerLimit.V != 400 {
		t.Fatalf("%+v", r.Rows)
	}
	if d := r.Rows[0].Instances; len(d) != 2 || d[1].GI != 2 || d[1].Device != 1 || d[0].MemUsed.V != 20 || d[1].MemTotal.V != 20096 {
		t.Errorf("instances: %+v", d)
	}
	if p := r.Procs; len(p) != 1 || p[0].GI != 1 || p[0].PID != 57345 || p[0].Used.V != 1234 || p[0].Name != "/opt/my app/python3" {
		t.Errorf("processes: %+v", p)
	}
	x := `<nvidia_smi_log><driver_version>535.1</driver_version><gpu id="00000000:3B:00.0"><product_name>A100</product_name>
<mig_mode><current_mig>Enabled</current_mig></mig_mode><mig_devices><mig_device><index>0</index><gpu_instance_id>1</gpu_instance_id>
<compute_instance_id>0</compute_instance_id><fb_memory_usage><total>20096 MiB</total><used>20 MiB</used></fb_memory_usage></mig_device></mig_devices>
<clocks_throttle_reasons><clocks_throttle_reason_hw_slowdown>Active</clocks_throttle_reason_hw_slowdown></clocks_throttle_reasons>
<power_readings><power_draw>88.10 W</power_draw><power_limit>400.00 W</power_limit></power_readings></gpu><gpu id="0000`
	r, _ = ParseAny([]byte(x))
	if len(r.Rows) != 1 || len(r.Rows[0].Instances) != 1 || r.Rows[0].Instances[0].MemUsed.V != 20 || r.Rows[0].Power.V != 88.10 || r.Rows[0].Reasons[0] != "HW Slowdown" {
		t.Errorf("xml cut in its second gpu: %+v", r)
	}
}

func TestXML(t *testing.T) {
	r, ok := ParseAny(capture(t, "qx_load.xml"))
	if !ok || r.Format != FormatXML || len(r.Rows) != 2 || r.Driver != "580.159.04" {
		t.Fatalf("%+v", r)
	}
	g := r.Rows[0]
	if g.MemUsed.V != 103411 || g.MemReserved.V != 616 || g.Util.V != 100 || g.Power.V != 690.74 || g.PowerNow.V != 697.28 ||
		g.TempMem.V != 53 || g.ClockSM.V != 1470 || !g.ECC.OK || g.ECC.V != 0 || !slices.Equal(g.Throttled(), []string{"SW Power Cap"}) || g.Recovery != "" && g.Recovery != "None" {
		t.Errorf("%+v", g)
	}
	if len(r.Procs) != 2 || r.Procs[0].Used.V != 103402 {
		t.Errorf("processes: %+v", r.Procs)
	}
}

func TestMonitors(t *testing.T) {
	r, _ := ParseAny(capture(t, "dmon.txt"))
	if r.Format != FormatDmon || len(r.Rows) != 2 || r.Rows[0].Power.V != 692 || r.Rows[1].ClockSM.V != 1455 || r.Rounds != 3 {
		t.Errorf("dmon: %+v", r)
	}
	r, _ = ParseAny(capture(t, "pmon.txt"))
	if r.Format != FormatPmon || len(r.Procs) != 2 || r.Procs[1].PID != 576 || r.Procs[1].SM.V != 99 || r.Procs[0].Name != "python3" {
		t.Errorf("pmon: %+v", r)
	}
	r, _ = ParseAny([]byte("> \\# gpu   pwr  temp    sm\n> \\# Idx     W     C     %\n>     0    50     -    12\n"))
	if len(r.Rows) != 1 || r.Rows[0].Temp.OK || r.Rows[0].Util.V != 12 {
		t.Errorf("quoted dmon: %+v", r)
	}
	r, _ = ParseAny([]byte("#Date       Time        gpu   pwr  fb\n#YYYYMMDD   HH:MM:SS    Idx     W  MB\n 20240805   13:20:09      0    50  99\n"))
	if len(r.Rows) != 1 || r.Rows[0].MemUsed.V != 99 {
		t.Errorf("dmon with time: %+v", r)
	}
}

func TestOtherVendors(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		ok   func(r *Row) bool
	}{
		"rocm-smi 5": {"==== ROCm System Management Interface ====\nGPU  Temp (DieEdge)  AvgPwr  SCLK    MCLK     Fan   Perf  PwrCap  VRAM%  GPU%\n0    46.0c           92.0W   800Mhz  1600Mhz  0%    auto  300.0W   81%   97%\n",
			func(r *Row) bool {
				return r.Temp.V == 46 && r.Power.V == 92 && r.PowerLimit.V == 300 && r.MemPercent.V == 81 && r.Util.V == 97 && !r.MemUsed.OK
			}},
		"rocm-smi 6": {"==== ROCm System Management Interface ====\nDevice  Node  IDs              Temp        Power     Partitions          SCLK    MCLK    Fan    Perf  PwrCap  VRAM%  GPU%\n0       2     0x74a1,   28851  41.0°C      141.0W    NPS1, SPX, 0        132Mhz  900Mhz  0%     auto  750.0W  5%     7%\n",
			func(r *Row) bool {
				return r.Temp.V == 41 && r.Power.V == 141 && r.PowerLimit.V == 750 && r.ClockMem.V == 900 && r.MemPercent.V == 5 && r.Util.V == 7
			}},
		"rocm-smi facts": {"GPU[0]\t\t: GPU use (%): 12\nGPU[0]\t\t: VRAM Total Memory (B): 68702699520\nGPU[0]\t\t: VRAM Total Used Memory (B): 1048576\nGPU[0]\t\t: Temperature (Sensor edge) (C): 36.0\nGPU[0]\t\t: Temperature (Sensor junction) (C): 51.0\n",
			func(r *Row) bool {
				return r.Util.V == 12 && r.MemTotal.V == 65520 && r.MemUsed.V == 1 && r.Temp.V == 36
			}},
		"amd-smi monitor": {"GPU  POWER   GPU_T   MEM_T   GFX_CLK   GFX%   MEM%   VRAM_USED   VRAM_TOTAL\n  0  126 W   40 °C   35 °C   131 MHz   3 %   0 %   285 MB   196300 MB\n",
			func(r *Row) bool {
				return r.Power.V == 126 && r.Util.V == 3 && r.MemUsed.V == 285 && r.MemTotal.V == 196300
			}},
		"npu-smi": {"| npu-smi 23.0.rc2                 Version: 23.0.rc2                                             |\n| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|\n| 4     910B1               | OK            | 93.9        49                0    / 0             |\n| 0                         | 0000:C1:00.0  | 5           0    / 0          3157 / 65536         |\n",
			func(r *Row) bool {
				return r.Index == 4 && r.Power.V == 93.9 && r.Temp.V == 49 && r.Util.V == 5 && r.MemUsed.V == 3157 && r.MemTotal.V == 65536 && r.BusID == "0000:C1:00.0"
			}},
	} {
		r, ok := ParseAny([]byte(c.text))
		if !ok || len(r.Rows) != 1 || !c.ok(&r.Rows[0]) {
			t.Errorf("%s: %s %+v", name, r.Format, r.Rows)
		}
	}
}

// One line of every kind of table that older drivers and failing cards print.
func TestTableOddities(t *testing.T) {
	const head = "| NVIDIA-SMI 331.113   Driver Version: 331.113  |\n|===+===+===|\n"
	r, _ := ParseAny([]byte(head + "|   0  Tesla K80           On   | 0000:00:1E.0     Off |                    0 |\n| 30%   30C    P0    ERR! / 149W |  10%   102MB / 1023MB |     97%      Default |\n" +
		"|   1  ERR!               ERR!  | 0000:00:1F.0    ERR! |                 ERR! |\n|ERR!  ERR! ERR!    ERR! / ERR! |      1MiB /  8192MiB |     ERR!      Default |\n"))
	if len(r.Rows) != 2 || r.Rows[0].MemUsed.V != 102 || r.Rows[0].MemTotal.V != 1023 || r.Rows[0].Util.V != 97 || r.Rows[0].Health() != Fine {
		t.Fatalf("%+v", r.Rows)
	}
	if g := &r.Rows[1]; g.Index != 1 || g.Health() != Suspect || g.Util.Why != Failed || g.MemTotal.V != 8192 {
		t.Errorf("%+v", g)
	}
	r, _ = ParseAny([]byte("| NVIDIA-SMI 531.14   Driver Version: 531.14   CUDA Version: 12.1 |\n|===+===+===|\n|   0  NVIDIA GeForce RTX 3060       WDDM | 00000000:01:00.0  On |   N/A |\n| 54%   66C    P2   159W / 170W |  11834MiB / 12288MiB | 100%  Default |\n|  |  | N/A |\n" +
		"| Processes: |\n|===|\n|    0   N/A  N/A      1234    C+G   ...ystem32\\dwm.exe    N/A      |\n|    0   N/A  N/A      77      C   [Insufficient Permissions]    N/A      |\n"))
	if g := &r.Rows[0]; g.Name != "NVIDIA GeForce RTX 3060" || g.Persist != "WDDM" || g.MemUsed.V != 11834 || g.MIG != "" {
		t.Errorf("%+v", g)
	}
	if len(r.Procs) != 2 || r.Procs[0].Used.OK || r.Procs[0].Type != "C+G" || r.Procs[1].PID != 77 || r.ProcsUnknown {
		t.Errorf("%+v", r.Procs)
	}
}

func TestApps(t *testing.T) {
	a := ParseApps(capture(t, "apps_load.csv"))
	if len(a) != 2 || a[0].PID != 575 || a[0].Used.V != 103402 || a[1].UUID != "GPU-0a1b2c3d-1111-2222-3333-444455556661" {
		t.Errorf("%+v", a)
	}
	a = ParseApps([]byte("pid,process_name,used_memory,gpu_uuid\n480, sglang::scheduler, with comma, 123398, GPU-1\n481, [Not Found], [N/A], GPU-1\n"))
	if len(a) != 2 || a[0].Name != "sglang::scheduler, with comma" && a[0].Name != "sglang::scheduler,with comma" || !a[1].Ghost || a[1].Used.OK {
		t.Errorf("%+v", a)
	}
	if a = ParseApps([]byte("pid,process_name,used_memory,gpu_uuid\n")); len(a) != 0 {
		t.Errorf("no process: %+v", a)
	}
}

func TestGhost(t *testing.T) {
	for _, c := range readCases(t, "gpu") {
		if c.id != "127" {
			continue
		}
		r, _ := ParseAny(c.data)
		if len(r.Procs) != 2 || !r.Procs[0].Ghost || r.Procs[0].GPU != 6 || r.Procs[1].PID != 2417733 || r.Procs[1].Used.V != 10150 {
			t.Errorf("%+v", r.Procs)
		}
	}
	r, _ := ParseAny([]byte("[0] NVIDIA A100 | 56'C,  30 %,  99 %, 300 / 400 W | 100 / 200 MB | ann:python3/123(90M) bob(10M)\n"))
	if r.Rows[0].Fan.V != 30 || r.Rows[0].Util.V != 99 || r.Rows[0].Power.V != 300 || len(r.Procs) != 2 || r.Procs[0].PID != 123 || r.Procs[1].User != "bob" {
		t.Errorf("%+v", r)
	}
}

func FuzzParseAny(f *testing.F) {
	for _, c := range readCases(f, "gpu") {
		f.Add(c.data)
	}
	for _, n := range []string{"smi_load.txt", "dmon.txt", "pmon.txt", "q_load.csv", "smi_L.txt"} {
		f.Add(capture(f, n))
	}
	f.Add([]byte(migTable))
	f.Add([]byte("00000\nGPU\n0  ROCm SMI")) // a header of one column
	f.Fuzz(func(t *testing.T, data []byte) {
		r, _ := ParseAny(data)
		clean := func(s string) {
			if !utf8.ValidString(s) || s != metrics.Clean(s, 0) || len(s) > 400 {
				t.Fatalf("dirty text %q", s)
			}
		}
		for i := range r.Rows {
			row := &r.Rows[i]
			row.Health()
			for _, s := range append([]string{row.Name, row.UUID, row.BusID, row.PState, row.MIG, row.Recovery, row.MemUsed.Raw, row.Util.Raw}, row.Reasons...) {
				clean(s)
			}
			for k, v := range row.Extra {
				clean(k)
				clean(v)
			}
		}
		for _, p := range r.Procs {
			clean(p.Name)
			clean(p.User)
			clean(p.UUID)
		}
		for _, f := range r.Failures {
			clean(f.Text)
			clean(f.Field)
			clean(f.Lib)
		}
		s := NewStream([]string{"index", "name", "memory.used"})
		for l := range strings.Lines(string(data)) {
			s.Line(l)
		}
	})
}

func BenchmarkStream(b *testing.B) {
	row := "0, 103411, 39746, 99, 23, 65, 53, 693.38, 1470, 0x0000000000000004, 0, None, P0"
	s := NewStream(streamCoreOf())
	b.SetBytes(int64(len(row)))
	for b.Loop() {
		s.Line(row)
	}
}

func streamCoreOf() []string {
	var out []string
	for _, w := range streamWish {
		out = append(out, w[0])
	}
	return out
}
