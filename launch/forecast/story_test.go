package forecast

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/metrics"
)

var zone = time.FixedZone("CET", 3600)

func at(h, m int) time.Time { return time.Date(2026, 2, 24, h, m, 0, 0, zone) }

func serve(flags ...string) launch.Launch {
	return launch.Launch{Engine: "sglang", Version: "0.5.9", PID: 206001, Argv: append(
		[]string{"python3", "-m", "sglang.launch_server", "--model-path", "/data/models/Kimi-K2.5", "--tp", "8"}, flags...)}
}

func num(v float64) *float64 { return &v }

func fig(v float64) metrics.Figure { return metrics.Fixed(v, at(12, 0), "test") }

// start is one row of the story's table.
func start(no int, h, m int, capacity, headroom float64, outcome string, flags ...string) metrics.Start {
	s := metrics.Start{No: no, At: at(h, m), Engine: "sglang", Version: "0.5.9", Imported: true, Outcome: outcome, Argv: serve(flags...).Argv}
	if capacity > 0 {
		s.Capacity = num(capacity)
	}
	if headroom > 0 {
		s.HeadroomGB = num(headroom)
	}
	return s
}

var hicache = []string{"--enable-hierarchical-cache", "--hicache-size", "48"}

func baseline() metrics.Start {
	return start(1, 9, 2, 116_171, 0, "stopped", "--mem-fraction-static", "0.85")
}

func try1() metrics.Start {
	s := start(2, 11, 28, 231_120, 0.82, "crashed", append(hicache, "--mem-fraction-static", "0.93")...)
	s.Cause, s.CauseTxt, s.AfterS, s.AfterRequestS = metrics.CauseCUDAOOM, "out of memory in prefill", 95, 40
	return s
}

func try3() metrics.Start {
	return start(4, 11, 46, 376_000, 0, "stopped", append(hicache, "--mem-fraction-static", "0.90", "--kv-cache-dtype", "fp8_e4m3")...)
}

// present is the kept start, ten minutes after it settled.
func present() Facts {
	return Facts{
		Launch: serve(append(hicache, "--mem-fraction-static", "0.88")...), Model: "Kimi-K2.5", Now: at(12, 16), ZoneSec: 3600, TP: 8,
		Capacity: fig(159_277), Headroom: fig(5.47), FreeAtStart: fig(94.04), BytesPerTok: fig(70_272), KVDtype: "bfloat16",
		ContextLen: fig(262_144), MaxRunning: fig(2048), GPUs: 8, GPUGiB: fig(95.6),
		HostTotal: fig(1008 * gib), HostAvail: fig(118 * gib), Pinned: fig(384e9),
		Step:    metrics.FitSteps([]metrics.StepPoint{{Running: 35, TPS: 606}, {Running: 121, TPS: 1317.32}}),
		Running: fig(35), Queued: fig(115), PerRequest: fig(4426), Grown: true, Settled: fig(606),
		RowsPerMin: fig(9.1), RowsLeft: fig(76_469), PerRow: fig(4000), LoadS: fig(900),
	}
}

func edited(flags ...string) launch.Launch { return serve(append(hicache, flags...)...) }

func TestCapacityOfTheStory(t *testing.T) {
	noBytes := present()
	noBytes.BytesPerTok, noBytes.FreeAtStart, noBytes.KVDtype = metrics.Figure{}, metrics.Figure{}, ""
	for name, c := range map[string]struct {
		l       launch.Launch
		facts   Facts
		earlier []metrics.Start
		want    float64
		within  float64 // relative
	}{
		"0.93 from 0.85 and 0.88":                  {edited("--mem-fraction-static", "0.93"), present(), []metrics.Start{baseline()}, 231_120, 0},
		"0.93 from flags alone":                    {edited("--mem-fraction-static", "0.93"), noBytes, []metrics.Start{baseline()}, 231_120, 0},
		"0.93 with try 1 known":                    {edited("--mem-fraction-static", "0.93"), present(), []metrics.Start{baseline(), try1()}, 231_120, 0},
		"fp8 at 0.90":                              {edited("--mem-fraction-static", "0.90", "--kv-cache-dtype", "fp8_e4m3"), present(), []metrics.Start{baseline()}, 376_028, 0},
		"fp8 at 0.90 with the whole table":         {edited("--mem-fraction-static", "0.90", "--kv-cache-dtype", "fp8_e4m3"), present(), []metrics.Start{baseline(), try1(), try3()}, 376_028, 0},
		"fp8 where auto is not known to be bf16":   {edited("--mem-fraction-static", "0.90", "--kv-cache-dtype", "fp8_e4m3"), noBytes, []metrics.Start{baseline()}, 376_028, 0},
		"bf16 at 0.90":                             {edited("--mem-fraction-static", "0.90"), present(), []metrics.Start{baseline()}, 188_014, 0},
		"unchanged":                                {edited("--mem-fraction-static", "0.88"), present(), nil, 159_277, 0},
		"back to the baseline":                     {edited("--mem-fraction-static", "0.85"), present(), []metrics.Start{baseline()}, 116_171, 0.01},
		"0.93 from one start":                      {edited("--mem-fraction-static", "0.93"), present(), nil, 231_120, 0.01},
		"fp8 at 0.90 from one start":               {edited("--mem-fraction-static", "0.90", "--kv-cache-dtype", "fp8_e5m2"), present(), nil, 376_028, 0.01},
		"fp8 at the same fraction, no bytes":       {edited("--mem-fraction-static", "0.88", "--kv-cache-dtype", "fp8_e4m3"), noBytes, nil, 318_554, 0},
		"fp8 undone, from an fp8 start and a pair": {edited("--mem-fraction-static", "0.93", "--kv-cache-dtype", "bf16"), present(), []metrics.Start{baseline(), try3()}, 231_120, 0},
		"limited by max-total-tokens":              {edited("--mem-fraction-static", "0.93", "--max-total-tokens", "100000"), present(), []metrics.Start{baseline()}, 100_000, 0},
	} {
		got := Make(c.l, c.facts, c.earlier).Capacity
		if !got.Known || math.Abs(got.V-c.want) > c.within*c.want || got.Low > got.V || got.High < got.V || len(got.Basis) == 0 {
			t.Errorf("%s: %+v, want %v", name, got, c.want)
		}
		if c.within > 0 && (got.Low > c.want || got.High < c.want) && name != "back to the baseline" {
			t.Errorf("%s: the range %v to %v leaves out %v", name, got.Low, got.High, c.want)
		}
	}
}

func TestCapacityThatNothingTells(t *testing.T) {
	blank := present()
	blank.BytesPerTok, blank.FreeAtStart, blank.GPUGiB = metrics.Figure{}, metrics.Figure{}, metrics.Figure{}
	for name, c := range map[string]struct {
		l     launch.Launch
		facts Facts
		want  string
	}{
		"one start without bytes": {edited("--mem-fraction-static", "0.93"), blank, "bytes a token"},
		"the engine chooses":      {edited(), present(), "chooses the memory fraction"},
		"nothing ran yet":         {edited("--mem-fraction-static", "0.93"), Facts{}, "no start of this model"},
	} {
		got := Make(c.l, c.facts, nil).Capacity
		if got.Known || !strings.Contains(got.Doubt, c.want) {
			t.Errorf("%s: %+v, want unknown since %q", name, got, c.want)
		}
	}
	other := baseline()
	other.Argv = append([]string{}, other.Argv...)
	other.Argv[4] = "/data/models/Other"
	if got := Make(edited("--mem-fraction-static", "0.93"), blank, []metrics.Start{other}).Capacity; got.Known {
		t.Errorf("a start of another model was used: %+v", got)
	}
}

func TestCapacityOverOtherRanks(t *testing.T) {
	got := Make(serve("--tp-size", "4", "--mem-fraction-static", "0.88"), present(), nil).Capacity
	if !got.Known || got.V != 0 || !strings.Contains(got.Doubt, "leave no room") {
		t.Errorf("72 GiB of weights a GPU at tp 8 do not fit at tp 4: %+v", got)
	}
	whole := Make(serve("--tp-size", "4", "--mem-fraction-static", "0.88"), present(), nil)
	if !has(whole.Warnings, metrics.SeverityCritical, "leave no room") || !strings.Contains(whole.GenTPS.Doubt, "tp 4 was never measured") || !strings.Contains(whole.Headroom.Doubt, "tp 4") {
		t.Errorf("%+v", whole)
	}
	if left := Make(edited(), present(), nil); left.Headroom.Known || !strings.Contains(left.Headroom.Doubt, "chooses the memory fraction") {
		t.Errorf("left to the engine: %+v", left.Headroom)
	}
	small := present()
	small.FreeAtStart, small.Capacity = fig(94.04), fig(1_000_000)
	got = Make(serve("--tp-size", "4", "--mem-fraction-static", "0.88"), small, nil).Capacity
	if !got.Known || got.Low >= got.High || got.High > 1_000_000 || !strings.Contains(got.Doubt, "MLA") {
		t.Errorf("tp 4: %+v", got)
	}
}

func TestHeadroomOfTheStory(t *testing.T) {
	for name, c := range map[string]struct {
		fraction  string
		earlier   []metrics.Start
		low, high float64
	}{
		"0.93 as it was":             {"0.93", []metrics.Start{baseline(), try1()}, 0.77, 0.82},
		"0.93 before it was tried":   {"0.93", []metrics.Start{baseline()}, 0.71, 0.825},
		"0.88 again":                 {"0.88", nil, 5.47, 5.47},
		"0.90 between two that told": {"0.90", []metrics.Start{try1()}, 3.56, 3.64},
	} {
		got := Make(edited("--mem-fraction-static", c.fraction), present(), c.earlier).Headroom
		if !got.Known || math.Abs(got.Low-c.low) > 0.005 || math.Abs(got.High-c.high) > 0.005 || len(got.Basis) == 0 {
			t.Errorf("%s: %.3f to %.3f, want %v to %v: %+v", name, got.Low, got.High, c.low, c.high, got)
		}
	}
	// Free memory at the start follows from the tokens of one step.
	f := present()
	f.FreeAtStart, f.GPUGiB = metrics.Figure{}, metrics.Figure{}
	if got := Make(edited("--mem-fraction-static", "0.93"), f, []metrics.Start{baseline(), try1()}).Headroom; math.Abs(got.Low-0.77) > 0.005 {
		t.Errorf("without the log's free memory: %+v", got)
	}
	if got := Make(edited("--mem-fraction-static", "0.93", "--cuda-graph-max-bs", "16"), f, nil).Headroom; got.Known {
		t.Errorf("other graphs leave another headroom: %+v", got)
	}
}

func TestStepTimeOfTheStory(t *testing.T) {
	fit := present().Step
	for _, c := range []struct{ running, want float64 }{{35, 606}, {50, 785}, {121, 1317}, {134, 1381}, {150, 1451}} {
		got := At(fit, c.running)
		if math.Round(got.V) != c.want || got.Low >= got.V || got.High <= got.V {
			t.Errorf("%v running: %+v, want %v", c.running, got, c.want)
		}
	}
	if in, out := At(fit, 121), At(fit, 150); out.High/out.V <= in.High/in.V || out.Doubt == "" {
		t.Errorf("beyond what was measured the range must grow: %+v, %+v", in, out)
	}
	if got := At(metrics.StepFit{}, 50); got.Known || got.Doubt == "" {
		t.Errorf("no fit: %+v", got)
	}
}

func TestFitAndSpeedOfTheStory(t *testing.T) {
	f := present()
	got := Make(edited("--mem-fraction-static", "0.93"), f, []metrics.Start{baseline()})
	if got.Fit.V != 52 || got.Fit.Low >= 52 || got.Fit.High <= 52 {
		t.Errorf("231,120 tokens hold %+v requests of 4,426", got.Fit)
	}
	if v := got.GenTPS; math.Abs(v.V-52/(0.0439+0.000397*52)) > 3 || v.Low > 785 || v.High < 820 {
		t.Errorf("tok/s of 52 running: %+v", v)
	}
	// The clients keep 150 in flight: a pool for more runs no more.
	f.PerRequest = fig(1000)
	if got = Make(edited("--mem-fraction-static", "0.93"), f, []metrics.Start{baseline()}); math.Round(got.GenTPS.V) != 1451 {
		t.Errorf("150 in flight and room for 231: %+v", got.GenTPS)
	}
	// In the ramp nothing is told, unless an earlier start says how long requests get.
	f.Grown = false
	got = Make(edited("--mem-fraction-static", "0.93"), f, []metrics.Start{baseline()})
	if got.Fit.Known || got.GenTPS.Known || !strings.Contains(got.Fit.Doubt, "too early") {
		t.Errorf("in the ramp: %+v, %+v", got.Fit, got.GenTPS)
	}
	old := baseline()
	old.PerRequest, old.Dataset = num(4400), "B1_glaive"
	got = Make(edited("--mem-fraction-static", "0.93"), f, []metrics.Start{old})
	if got.Fit.V != 52 || !strings.Contains(got.Fit.Doubt, "B1_glaive") {
		t.Errorf("with an earlier start's length: %+v", got.Fit)
	}
	if got := Make(edited("--mem-fraction-static", "0.93", "--max-running-requests", "20"), present(), nil).Fit; got.V != 20 || got.High != 20 {
		t.Errorf("20 at most: %+v", got)
	}
}

func TestKnownOutcomesComeFirst(t *testing.T) {
	for name, c := range map[string]struct {
		flags []string
		want  string
		level metrics.Severity
	}{
		"the same": {[]string{"--mem-fraction-static", "0.93"},
			"0.93 was tried on 24 Feb: out of memory in prefill, 40 s after the first request, 0.82 GiB headroom", metrics.SeverityCritical},
		"above it": {[]string{"--mem-fraction-static", "0.95"}, "this is above it", metrics.SeverityCritical},
		"it held": {[]string{"--mem-fraction-static", "0.90", "--kv-cache-dtype", "fp8_e4m3"},
			"0.90 fp8_e4m3 was tried on 24 Feb: it ran until it was stopped", metrics.SeverityInfo},
	} {
		got := Make(edited(c.flags...), present(), []metrics.Start{baseline(), try1(), try3()}).Outcomes
		if len(got) == 0 || !strings.Contains(got[0].Text, c.want) || got[0].Level != c.level {
			t.Errorf("%s: %+v, want %q", name, got, c.want)
		}
	}
	killed := try1()
	killed.Cause, killed.CauseTxt = metrics.CauseKilledUnknown, "Killed"
	if got := Make(edited("--mem-fraction-static", "0.93"), present(), []metrics.Start{baseline(), killed}).Outcomes; len(got) != 1 || got[0].Level != metrics.SeverityInfo {
		t.Errorf("somebody killed it: %+v", got)
	}
	seen := try1()
	seen.CauseTxt, seen.Imported = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 406.88 MiB. GPU 3 has a total capacity of 95.59 GiB", false
	if got := Make(edited("--mem-fraction-static", "0.93"), present(), []metrics.Start{seen}).Outcomes; !strings.Contains(got[0].Text, "24 Feb: out of GPU memory, 40 s after the first request") {
		t.Errorf("in the exception's words: %+v", got)
	}
	seen.CausePhase, seen.AfterRequestS = "prefill", 0
	if got := Make(edited("--mem-fraction-static", "0.93"), present(), []metrics.Start{seen}).Outcomes; !strings.Contains(got[0].Text, "24 Feb: out of memory in prefill, 1 m after it was ready") {
		t.Errorf("where nothing tells the first request: %+v", got)
	}
	runs := try3()
	runs.Outcome = "running"
	if got := Make(edited("--mem-fraction-static", "0.90", "--kv-cache-dtype", "fp8_e4m3"), present(), []metrics.Start{runs}).Outcomes; len(got) != 0 {
		t.Errorf("what runs still has no outcome: %+v", got)
	}
	if got := Make(edited("--mem-fraction-static", "0.89"), present(), []metrics.Start{baseline(), try1()}).Outcomes; len(got) != 0 {
		t.Errorf("0.89 was never tried: %+v", got)
	}
}
