package forecast

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/metrics"
)

// settings are what memory and speed depend on, by effective values.
type settings struct {
	engine   string
	model    string
	fraction float64 // NaN: the engine decides
	dtype    string  // canonical type of the KV cache; auto where nothing tells more
	tp, pp   float64
	chunk    string
	maxTotal float64 // --max-total-tokens, NaN unset
	maxRun   float64 // --max-running-requests or --max-num-seqs, NaN unset
	context  float64
	// pool are further flags on which the size of the pool depends, head those on
	// which the memory left beside it does.
	pool, head string
}

func settingsOf(l launch.Launch) settings {
	set, cat := l.Effective(), l.Catalogue()
	get := func(names ...string) string {
		for _, n := range names {
			if v, ok := set[n]; ok {
				return v
			}
		}
		for _, n := range names {
			if f, _, ok := cat.Lookup("--" + n); ok && f.Default != "" {
				return f.Default
			}
		}
		return ""
	}
	all := func(names ...string) string {
		var b strings.Builder
		for _, n := range names {
			if v := get(n); v != "" && v != "false" {
				fmt.Fprintf(&b, "--%s %s ", n, v)
			}
		}
		return b.String()
	}
	s := settings{
		engine: l.Engine, model: modelOf(l), dtype: launch.Dtype(get("kv-cache-dtype")),
		fraction: launch.Number(get("mem-fraction-static", "gpu-memory-utilization")),
		tp:       launch.Number(get("tp-size", "tensor-parallel-size")), pp: launch.Number(get("pp-size", "pipeline-parallel-size")),
		chunk: get("chunked-prefill-size", "max-num-batched-tokens"), maxTotal: launch.Number(get("max-total-tokens")),
		maxRun: launch.Number(get("max-running-requests", "max-num-seqs")), context: launch.Number(get("context-length", "max-model-len")),
		pool: all("quantization", "dtype", "dp-size", "data-parallel-size", "enable-dp-attention", "speculative-algorithm",
			"speculative-config", "speculative-num-draft-tokens", "kv-cache-memory-bytes", "num-gpu-blocks-override", "page-size", "cpu-offload-gb"),
		head: all("cuda-graph-max-bs", "cuda-graph-max-bs-decode", "cuda-graph-bs", "disable-cuda-graph", "enforce-eager", "enable-torch-compile"),
	}
	if s.dtype == "" {
		s.dtype = "auto"
	}
	for _, p := range []*float64{&s.tp, &s.pp} {
		if !(*p >= 1) {
			*p = 1
		}
	}
	return s
}

// modelOf is the last part of the model's path.
func modelOf(l launch.Launch) string {
	line := l.Line()
	for _, n := range []string{"model-path", "model"} {
		if v, ok := line.Get(n); ok {
			return path.Base(v)
		}
	}
	for i, w := range line.Program {
		if w == "serve" && i+1 < len(line.Program) {
			return path.Base(line.Program[i+1])
		}
	}
	return ""
}

// itemSize is bytes an element of a KV cache of that type, NaN where unknown.
func itemSize(dtype string) float64 {
	switch {
	case dtype == "bfloat16" || dtype == "float16":
		return 2
	case dtype == "float32":
		return 4
	case strings.HasPrefix(dtype, "fp8"), strings.HasPrefix(dtype, "int8"):
		return 1
	}
	return nan
}

// sample is one start that was really run. Figures are NaN where unknown.
type sample struct {
	name string // how a text calls it
	now  bool   // the present one
	settings
	capacity, headroom, free, bytes float64
	perReq, settled, running        float64
	low, high                       float64       // between which perReq moves, NaN unknown
	over                            time.Duration // over which perReq is the mean, 0 unknown
	start                           metrics.Start // zero for the present one
}

// reader reads the settings of starts; most starts share their flags.
type reader map[string]settings

func (r reader) of(s metrics.Start) settings {
	key := s.Engine + "\x00" + s.Version + "\x00" + strings.Join(s.Argv, "\x00")
	got, ok := r[key]
	if !ok {
		got = settingsOf(launch.FromStart(s))
		r[key] = got
	}
	return got
}

// keepSamples is how many earlier starts a forecast looks at.
const keepSamples = 60

// samplesOf gathers the present start and the earlier ones of the same engine
// and model, the present one first, then the newest. auto is what the engine
// makes of the KV type "auto" for this model, "" unknown.
func samplesOf(f Facts, earlier []metrics.Start) (out []sample, auto string) {
	read := reader{}
	model := f.Model
	if f.Launch.Known() {
		p := sample{
			name: "the running start", now: true, settings: settingsOf(f.Launch),
			capacity: figure(f.Capacity), headroom: figure(f.Headroom), free: figure(f.FreeAtStart), bytes: figure(f.BytesPerTok),
			perReq: nan, settled: figure(f.Settled), running: nan, low: nan, high: nan,
		}
		if f.Grown {
			p.perReq, p.running = figure(f.PerRequest), figure(f.Running)
		}
		if f.Grown && f.PerRequestOver > 0 {
			p.low, p.high, p.over = f.PerRequestLow, f.PerRequestHigh, f.PerRequestOver
		}
		p.logged(f.KVDtype)
		p.chosen(f)
		if p.model == "" {
			p.model = model
		}
		out = append(out, p)
	}
	present := f.Launch.Known() // not met among the earlier ones yet: it is the newest that runs
	for _, s := range slices.Backward(earlier) {
		if present && s.Outcome == "running" {
			present = false
			continue
		}
		if len(s.Argv) == 0 || len(out) > keepSamples {
			continue
		}
		p := sample{
			name: startName(s, f.ZoneSec), settings: read.of(s), start: s,
			capacity: deref(s.Capacity), headroom: deref(s.HeadroomGB), free: deref(s.FreeAtStartGB), bytes: deref(s.BytesPerTok),
			perReq: deref(s.PerRequest), settled: deref(s.Settled), running: deref(s.Running), low: nan, high: nan,
		}
		p.logged(s.KVDtype)
		if p.model == "" {
			p.model = s.Model
		}
		if len(out) > 0 && (p.engine != out[0].engine || p.model != "" && out[0].model != "" && p.model != out[0].model) {
			continue
		}
		out = append(out, p)
	}
	// "auto" is the same type for all starts of one model.
	if auto = autoDtype(f, earlier, read); auto != "" {
		for i := range out {
			if out[i].dtype == "auto" {
				out[i].dtype = auto
			}
		}
	}
	return out, auto
}

// logged takes the type that the log told where the flags leave it open.
func (s *sample) logged(dtype string) {
	if d := launch.Dtype(dtype); s.dtype == "auto" && d != "" {
		s.dtype = d
	}
}

// chosen takes the memory fraction that the engine chose where the flag was left
// to it.
func (s *settings) chosen(f Facts) {
	if known(s.fraction) {
		return
	}
	for _, name := range []string{"mem-fraction-static", "gpu-memory-utilization"} {
		if v, ok := f.Resolved[name]; ok {
			s.fraction = launch.Number(v)
		}
	}
}

// autoDtype is what the engine made of "auto" for this model, "" unknown.
func autoDtype(f Facts, earlier []metrics.Start, read reader) string {
	if f.Launch.Known() && settingsOf(f.Launch).dtype == "auto" && f.KVDtype != "" && launch.Dtype(f.KVDtype) != "auto" {
		return launch.Dtype(f.KVDtype)
	}
	for _, s := range slices.Backward(earlier) {
		d := launch.Dtype(s.KVDtype)
		if d != "" && d != "auto" && len(s.Argv) > 0 && read.of(s).dtype == "auto" {
			return d
		}
	}
	return ""
}

func startName(s metrics.Start, zoneSec int) string {
	name := "an earlier start"
	if s.No > 0 {
		name = fmt.Sprintf("start #%d", s.No)
	}
	if !s.At.IsZero() {
		name += " of " + day(s.At, zoneSec)
	}
	if s.Imported {
		name += " (imported)"
	}
	return name
}

func day(t time.Time, zoneSec int) string {
	return t.In(time.FixedZone("", zoneSec)).Format("2 Jan")
}

// samePool tells whether the settings of a start share with others all that the
// pool's size in bytes depends on besides the fraction. A pool that was limited
// by hand says nothing.
func samePool(a, b settings) bool {
	same := a.tp == b.tp && a.pp == b.pp && a.pool == b.pool && !known(a.maxTotal)
	if a.engine == "vllm" {
		same = same && a.chunk == b.chunk && a.head == b.head
	}
	return same
}

// sameMemory tells whether two settings would lay out memory alike.
func sameMemory(a, b settings) bool {
	return samePool(a, b) && !known(b.maxTotal) && near(a.fraction, b.fraction) && a.dtype == b.dtype
}

// share is a fraction as text, with two decimals at least.
func share(v float64) string {
	if math.IsNaN(v) {
		return "the engine's own choice"
	}
	s := strconv.FormatFloat(v, 'f', -1, 64)
	if i := strings.IndexByte(s, '.'); i < 0 || len(s)-i < 3 {
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return s
}

// near compares shares; two that the engine decides are equal.
func near(a, b float64) bool {
	return math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) < 1e-6
}

// scale is how many tokens of type b fit where one of type a did, NaN unknown.
// note says what was assumed.
func scale(a, b string) (ratio float64, note string) {
	if a == b {
		return 1, ""
	}
	from, to := itemSize(a), itemSize(b)
	if a == "auto" && !known(from) {
		from, note = 2, "the model's own KV type was taken to have 16 bits"
	}
	if b == "auto" && !known(to) {
		to, note = 2, "the model's own KV type was taken to have 16 bits"
	}
	if to == 1 && from != 1 && note == "" {
		note = "some engines keep scales beside an 8-bit cache, which cost a little"
	}
	return from / to, note
}
