package forecast

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/metrics"
)

func has(list []Warning, level metrics.Severity, text string) bool {
	for _, w := range list {
		if w.Level == level && strings.Contains(w.Text, text) {
			return true
		}
	}
	return false
}

func TestWarnings(t *testing.T) {
	tight := present()
	tight.Pinned = metrics.Figure{}
	for name, c := range map[string]struct {
		l     launch.Launch
		facts Facts
		level metrics.Severity
		want  string
	}{
		"headroom critical": {edited("--mem-fraction-static", "0.93"), present(), metrics.SeverityCritical, "0.71 to 0.83 GiB stay free on a GPU"},
		"nothing left":      {edited("--mem-fraction-static", "0.95"), present(), metrics.SeverityCritical, "nothing stays free"},
		"headroom small":    {edited("--mem-fraction-static", "0.90"), present(), metrics.SeverityWarning, "GiB stay free on a GPU: from 5"},
		"host memory":       {edited("--mem-fraction-static", "0.88"), tight, metrics.SeverityCritical, "the host cache needs 358 GiB"},
		"less than a full context": {edited("--mem-fraction-static", "0.88"), present(), metrics.SeverityWarning,
			"the pool of 159,277 tokens is smaller than one request of the full context (262,144)"},
		"8-bit cache": {edited("--mem-fraction-static", "0.88", "--kv-cache-dtype", "fp8_e4m3"), present(), metrics.SeverityWarning, "8-bit KV cache"},
		"host cache below the GPU's": {serve("--mem-fraction-static", "0.88", "--enable-hierarchical-cache", "--hicache-size", "11"), present(), metrics.SeverityWarning,
			"no more than the GPU's"},
	} {
		if got := Make(c.l, c.facts, nil).Warnings; !has(got, c.level, c.want) {
			t.Errorf("%s: %+v lacks %v %q", name, got, c.level, c.want)
		}
	}
	if got := Make(edited("--mem-fraction-static", "0.88"), present(), nil).Warnings; has(got, metrics.SeverityCritical, "") {
		t.Errorf("the kept start has nothing critical: %+v", got)
	}
}

func TestHostMemoryCountsWhatTheOldServerPins(t *testing.T) {
	f := Make(edited("--mem-fraction-static", "0.88"), present(), nil)
	if f.HostNeed.V != 384e9 || f.HostFree.V != 118*gib+384e9 {
		t.Errorf("needs %v of %v", f.HostNeed, f.HostFree)
	}
	l := serve("--mem-fraction-static", "0.88", "--enable-hierarchical-cache", "--hicache-ratio", "2")
	if got := Make(l, present(), nil).HostNeed; got.V != 2*159_277*70_272*8 {
		t.Errorf("ratio 2: %+v", got)
	}
	if got := Make(serve("--mem-fraction-static", "0.88"), present(), nil).HostNeed; !got.Known || got.V != 0 {
		t.Errorf("no host cache: %+v", got)
	}
}

func TestBreakEven(t *testing.T) {
	f := present()
	f.Headroom = fig(10.47) // so that 0.93 is in no danger
	got := Make(edited("--mem-fraction-static", "0.93"), f, []metrics.Start{baseline()}).BreakEven
	// 606 tok/s are 545 rows an hour of 4,000 tokens; 806 are 725.
	if !got.Known || math.Abs(got.GainPerHour-180) > 3 || math.Abs(got.LostLoading-136) > 1 || got.LostHalf != 17.5 || !got.Worth || got.RowsLeft != 76_469 {
		t.Errorf("%+v", got)
	}
	if got := Make(edited("--mem-fraction-static", "0.93"), present(), []metrics.Start{try1()}).BreakEven; got.Worth || !strings.HasPrefix(got.Why, "only if it holds") {
		t.Errorf("a start that crashed: %+v", got)
	}
	if want := 15*time.Minute + time.Duration(153.9/180*float64(time.Hour)); (got.After - want).Abs() > 2*time.Minute {
		t.Errorf("even after %v, want about %v", got.After, want)
	}
	f.RowsLeft = fig(300)
	if got := Make(edited("--mem-fraction-static", "0.93"), f, []metrics.Start{baseline()}).BreakEven; got.Worth || !strings.Contains(got.Why, "later") {
		t.Errorf("with 300 rows left: %+v", got)
	}
	if got := Make(edited("--mem-fraction-static", "0.85"), present(), []metrics.Start{baseline()}).BreakEven; got.Worth || got.GainPerHour >= 0 || got.After != 0 {
		t.Errorf("a slower one: %+v", got)
	}
	f = present()
	f.Settled, f.Grown = metrics.Figure{}, false
	if got := Make(edited("--mem-fraction-static", "0.93"), f, nil).BreakEven; got.Known || !strings.Contains(got.Why, "not settled") {
		t.Errorf("in the ramp: %+v", got)
	}
}

func TestVLLM(t *testing.T) {
	serve := func(flags ...string) launch.Launch {
		return launch.Launch{Engine: "vllm", PID: 7, Argv: append([]string{"python3", "/usr/bin/vllm", "serve", "/data/models/Qwen3-8B"}, flags...)}
	}
	// 40 GiB of KV cache in 291,271 tokens: 147,456 bytes a token.
	f := Facts{Launch: serve("--gpu-memory-utilization", "0.85"), GPUGiB: fig(80), GPUs: 1, Capacity: fig(291_271), KVPool: fig(40), BytesPerTok: fig(147_456), KVDtype: "auto"}
	got := Make(serve("--gpu-memory-utilization", "0.92"), f, nil)
	want := 291_271 + 0.07*80*gib/147_456
	if c := got.Capacity; !c.Known || math.Abs(c.V-want) > 1 || c.Low >= want || c.High <= want {
		t.Errorf("capacity %+v, want %v", c, want)
	}
	if c := Make(serve("--gpu-memory-utilization", "0.85", "--kv-cache-dtype", "fp8"), f, nil).Capacity; c.V != 2*291_271 || c.Doubt == "" {
		t.Errorf("fp8: %+v", c)
	}
	if h := got.Headroom; !h.Known || math.Abs(h.V-6.4) > 0.01 || h.Doubt == "" {
		t.Errorf("headroom %+v", h)
	}
	// Another batch size changes what the profiling run leaves.
	if c := Make(serve("--gpu-memory-utilization", "0.92", "--max-num-batched-tokens", "16384"), f, nil).Capacity; c.Known {
		t.Errorf("with another batch size: %+v", c)
	}
}

func TestFractionThatTheEngineChose(t *testing.T) {
	f := present()
	f.Launch = edited()
	f.Resolved = map[string]string{"mem-fraction-static": "0.88"}
	if got := Make(edited("--mem-fraction-static", "0.93"), f, []metrics.Start{baseline()}).Capacity; got.V != 231_120 {
		t.Errorf("0.93 from a start whose fraction the engine chose: %+v", got)
	}
	if got := Make(edited(), f, nil).Capacity; got.V != 159_277 {
		t.Errorf("left to the engine again: %+v", got)
	}
	if got := Make(edited("--chunked-prefill-size", "2048"), f, nil).Capacity; got.Known {
		t.Errorf("another chunk moves the engine's choice: %+v", got)
	}
}

func TestFactsOfASnapshot(t *testing.T) {
	s := metrics.Server{Model: "Kimi-K2.5", TP: 8, Capacity: fig(159_277), State: metrics.ServerServing, HiCache: metrics.HiCache{On: true, SizeGB: 48},
		Gen: metrics.GenRate{Settled: fig(606)}, Running: fig(35)}
	snap := &metrics.Snapshot{
		At: at(12, 16), GPUs: []metrics.GPU{{MemTotal: fig(97_887)}, {MemTotal: fig(97_800)}, {}},
		Job:    metrics.Job{Rows: fig(11_531), Target: metrics.Target{Rows: 88_000}, PerMin: fig(9.1)},
		Sys:    metrics.Host{MemAvail: fig(118 * gib), MemTotal: fig(1008 * gib)},
		Starts: []metrics.Start{{ReadyS: num(800)}, {ReadyS: num(900)}, {}, {ReadyS: num(1000)}},
	}
	f := FactsOf(snap, &s, serve())
	if f.Pinned.V != 384e9 || f.RowsLeft.V != 76_469 || f.LoadS.V != 900 || math.Abs(f.GPUGiB.V-97_800.0/1024) > 1e-9 || f.GPUs != 3 || !f.Grown {
		t.Errorf("%+v", f)
	}
	if m := f.Machine(); m.HostFree.V != 118*gib+384e9 || m.GPUs != 3 {
		t.Errorf("%+v", m)
	}
	s.HiCache.HostGB, s.Gen.Ramp = fig(400), true
	if f = FactsOf(snap, &s, serve()); f.Pinned.V != 400e9 || f.Grown {
		t.Errorf("%+v", f)
	}
	snap.Sys.MemAvail, snap.Sys.MemTotal, snap.Sys.MemLimit = fig(20*gib), fig(400*gib), "the container"
	f = FactsOf(snap, &s, edited())
	if got := Make(edited(), f, nil).HostFree; got.V != 20*gib+400e9 || !slices.Contains(got.Basis, "available now within the container's limit of 400 GiB: 20.0 GiB") {
		t.Errorf("below a limit: %+v", got)
	}
	if f = FactsOf(snap, nil, launch.Launch{}); f.Capacity.Known || f.Pinned.Known || f.LoadS.V != 900 {
		t.Errorf("without a server: %+v", f)
	}
}

func TestReport(t *testing.T) {
	f := Make(edited("--mem-fraction-static", "0.93"), present(), []metrics.Start{baseline(), try1()})
	out, err := json.Marshal(f.Report())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"capacity_tokens":231120`, `"headroom_gib":{"low":0.77,"high":0.82}`, `"requests_fit":52`, `"host_need_gib":357.6`,
		`"warnings":[{"level":"critical","text":"0.93 was tried on 24 Feb`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%s lacks %s", out, want)
		}
	}
	if out, err = json.Marshal(Make(edited(), Facts{}, nil).Report()); err != nil || !strings.Contains(string(out), `"capacity_tokens":null`) {
		t.Errorf("unknown: %s, %v", out, err)
	}
	b := f.BreakEven.Report()
	if b.AfterS == nil || *b.AfterS < 900 || b.RowsLeft == nil || b.GainRowsPerHour == nil {
		t.Errorf("%+v", b)
	}
	if b = (BreakEven{RowsLeft: -1}).Report(); b.RowsLeft != nil || b.AfterS != nil {
		t.Errorf("%+v", b)
	}
}
