package launch

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/flags"
)

// Problem is something wrong with a launch. A critical one would stop the engine
// at its start; a warning is legal but rarely meant.
type Problem struct {
	Flag  string // without dashes, "" for the command as a whole
	Level metrics.Severity
	Text  string
}

// Machine is what a launch may use; zero figures are unknown.
type Machine struct {
	GPUs int
	// HostFree is host memory for a new server in bytes: what is available now
	// and what the old one gives back.
	HostFree  metrics.Figure
	HostTotal metrics.Figure // bytes
	HostLimit string         // whose limit HostTotal is, "" the node's own memory
}

// hostReserve is the host memory in bytes that SGLang leaves to others when it
// pins its cache (reserve of the pool's own check, 10 GiB).
const hostReserve = 10 << 30

// Problems lists what is wrong with a launch: values that do not fit their
// flags, flags that exclude each other, and more memory or GPUs than there are.
func Problems(l Launch, m Machine) []Problem {
	if !l.Known() {
		return []Problem{{Level: metrics.SeverityCritical, Text: "there is no command: nothing was read back and none was given"}}
	}
	var out []Problem
	line := l.Line()
	seen := map[string]int{}
	for _, a := range line.Args {
		seen[a.Name]++
		switch {
		case !a.Known && l.Engine != "" && a.Name != "":
			out = append(out, Problem{a.Name, metrics.SeverityWarning, fmt.Sprintf("--%s is not a flag that %s is known to have: it is passed on as it is", a.Name, engineName(l))})
			continue
		case !a.Known:
			continue
		}
		if err := a.Flag.Check(a.Value); err != nil && !strings.Contains(a.Value, metrics.Masked) && !strings.Contains(a.Name, ".") {
			out = append(out, Problem{a.Name, metrics.SeverityCritical, err.Error()})
		}
		if a.Flag.Deprecated && a.Flag.ReplacedBy != "" {
			out = append(out, Problem{a.Name, metrics.SeverityInfo, fmt.Sprintf("--%s is deprecated: use %s", a.Name, a.Flag.ReplacedBy)})
		}
	}
	for _, a := range line.Args {
		if seen[a.Name] > 1 && !a.Flag.List {
			out = append(out, Problem{a.Name, metrics.SeverityWarning, fmt.Sprintf("--%s is given %d times: the last one wins", a.Name, seen[a.Name])})
			seen[a.Name] = 1
		}
	}
	v := values{set: l.Effective(), cat: l.Catalogue()}
	if l.Engine == "sglang" {
		out = append(out, sglangConflicts(v, m)...)
	}
	if l.Engine == "vllm" {
		out = append(out, vllmConflicts(v)...)
	}
	return append(out, gpuConflicts(v, l.Engine, m)...)
}

func engineName(l Launch) string {
	name := map[string]string{"sglang": "SGLang", "vllm": "vLLM"}[l.Engine]
	return strings.TrimSpace(name + " " + l.Version)
}

// values reads effective values as numbers and switches.
type values struct {
	set map[string]string
	cat *flags.Catalogue
}

func (v values) on(flag string) bool {
	s, ok := v.set[flag]
	return ok && s != "false"
}

// num is a flag's number, or its default; NaN where the engine decides.
func (v values) num(flag string) float64 {
	s, ok := v.set[flag]
	if !ok {
		f, _, known := v.cat.Lookup("--" + flag)
		if !known {
			return math.NaN()
		}
		s = f.Default
	}
	return Number(s)
}

// Number reads a flag's number with the engines' unit suffixes (k is 1000, K
// 1024); NaN where it is none.
func Number(s string) float64 {
	scale := 1.0
	if n := len(s); n > 1 {
		switch s[n-1] {
		case 'k':
			scale = 1e3
		case 'm':
			scale = 1e6
		case 'g':
			scale = 1e9
		case 'K':
			scale = 1 << 10
		case 'M':
			scale = 1 << 20
		case 'G':
			scale = 1 << 30
		}
		if scale != 1 {
			s = s[:n-1]
		}
	}
	x, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return math.NaN()
	}
	return x * scale
}

func sglangConflicts(v values, m Machine) []Problem {
	var out []Problem
	add := func(flag string, level metrics.Severity, format string, a ...any) {
		out = append(out, Problem{flag, level, fmt.Sprintf(format, a...)})
	}
	hicache := v.on("enable-hierarchical-cache")
	if hicache && v.on("disable-radix-cache") {
		add("enable-hierarchical-cache", metrics.SeverityCritical, "--enable-hierarchical-cache needs the radix cache, which --disable-radix-cache switches off")
	}
	size := v.num("hicache-size")
	if _, set := v.set["hicache-size"]; set && size > 0 && !hicache {
		add("hicache-size", metrics.SeverityWarning, "--hicache-size does nothing without --enable-hierarchical-cache")
	}
	if ratio := v.num("hicache-ratio"); hicache && !(size > 0) && ratio <= 1 {
		add("hicache-ratio", metrics.SeverityWarning, "--hicache-ratio %g keeps no more on the host than on the GPU: nothing is gained", ratio)
	}
	ranks := v.num("tp-size") * v.num("pp-size")
	if nodes := v.num("nnodes"); nodes > 1 {
		ranks /= nodes
	}
	if hicache && size > 0 && m.HostFree.Known && !math.IsNaN(ranks) {
		need := size * 1e9 * ranks
		total := metrics.GiB(m.HostTotal.V) + " host memory"
		free := ""
		if m.HostLimit != "" {
			total = metrics.LimitText(m.HostLimit, m.HostTotal)
			free = " within " + total
		}
		switch room := m.HostFree.V - hostReserve; {
		case need > room:
			add("hicache-size", metrics.SeverityCritical, "--hicache-size %g is %g GB for each of %g ranks, %s in all; %s is free for it%s (10 GiB stay reserved)",
				size, size, ranks, metrics.GiB(need), metrics.GiB(max(room, 0)), free)
		case m.HostTotal.Known && need > 0.8*m.HostTotal.V:
			add("hicache-size", metrics.SeverityWarning, "--hicache-size %g pins %s of %s", size, metrics.GiB(need), total)
		}
	}
	if chunk, most := v.num("chunked-prefill-size"), v.num("max-prefill-tokens"); chunk > most {
		add("chunked-prefill-size", metrics.SeverityWarning, "--chunked-prefill-size %g is above --max-prefill-tokens %g, which limits it", chunk, most)
	}
	if page := v.num("page-size"); page > 1 {
		if chunk := v.num("chunked-prefill-size"); chunk > 0 && math.Mod(chunk, page) != 0 {
			add("chunked-prefill-size", metrics.SeverityCritical, "--chunked-prefill-size %g is no multiple of --page-size %g", chunk, page)
		}
	}
	if total, ctx := v.num("max-total-tokens"), v.num("context-length"); total < ctx {
		add("max-total-tokens", metrics.SeverityWarning, "--max-total-tokens %g is less than one request of --context-length %g", total, ctx)
	}
	return out
}

func vllmConflicts(v values) []Problem {
	var out []Problem
	_, bytes := v.set["kv-cache-memory-bytes"]
	if _, util := v.set["gpu-memory-utilization"]; bytes && util {
		out = append(out, Problem{"gpu-memory-utilization", metrics.SeverityWarning, "--kv-cache-memory-bytes sizes the KV cache; --gpu-memory-utilization does not"})
	}
	if v.set["enable-chunked-prefill"] == "false" {
		if batch, length := v.num("max-num-batched-tokens"), v.num("max-model-len"); batch < length {
			out = append(out, Problem{"max-num-batched-tokens", metrics.SeverityCritical, fmt.Sprintf(
				"without chunked prefill --max-num-batched-tokens %g must reach --max-model-len %g", batch, length)})
		}
	}
	if batch, seqs := v.num("max-num-batched-tokens"), v.num("max-num-seqs"); batch < seqs {
		out = append(out, Problem{"max-num-batched-tokens", metrics.SeverityCritical, fmt.Sprintf(
			"--max-num-batched-tokens %g is below --max-num-seqs %g: each running request needs one token a step", batch, seqs)})
	}
	return out
}

func gpuConflicts(v values, engine string, m Machine) []Problem {
	tp, pp, nodes := "tp-size", "pp-size", "nnodes"
	if engine == "vllm" {
		tp, pp = "tensor-parallel-size", "pipeline-parallel-size"
	}
	n := v.num(tp) * v.num(pp)
	if k := v.num(nodes); k > 1 {
		n /= k
	}
	if m.GPUs > 0 && n > float64(m.GPUs) {
		return []Problem{{tp, metrics.SeverityCritical, fmt.Sprintf("--%s x --%s needs %g GPUs, the node has %d", tp, pp, n, m.GPUs)}}
	}
	return nil
}
