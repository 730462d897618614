package vllm

import (
	"bytes"
	"strings"

	"github.com/runvigil/runvigil/metrics"
)

// startupLine reads a line of the start-up (and the few that come later about
// what the start set).
func (p *Parser) startupLine(msg []byte, h head) bool {
	u := &p.startup
	*u = Startup{}
	has := func(prefix string) bool { return bytes.HasPrefix(msg, []byte(prefix)) }
	switch {
	case bytes.Contains(msg, []byte("█")):
		if !logo(u, msg) {
			return false
		}
	case has("vLLM API server version "):
		u.Step, u.Version = StepVersion, word(msg[len("vLLM API server version "):])
	case has("non-default args: "), has("args: Namespace("):
		u.Step = StepArgs
		u.Flags = parseArgs(metrics.Mask(string(msg[bytes.IndexByte(msg, ':')+1:])))
		u.Model = u.Flags["model"]
		if u.Model == "" {
			u.Model = u.Flags["model_tag"]
		}
	case has("Using max model len "):
		u.Step, u.MaxLen = StepModelLen, after(msg, "len ")
	case has("Chunked prefill is enabled with max_num_batched_tokens="):
		u.Step, u.Batched = StepChunked, after(msg, "max_num_batched_tokens=")
	case has("Initializing a"):
		if !bytes.Contains(msg, []byte("LLM engine (v")) {
			return false
		}
		u.Step = StepEngineInit
		i := bytes.Index(msg, []byte("(v"))
		u.Version = strings.TrimRight(word(msg[i+2:]), ")")
		cfg := parseArgs(metrics.Mask(string(msg)))
		u.Model, u.MaxLen = cfg["model"], after(msg, "max_seq_len=")
	case has("world_size="), has("rank ") && bytes.Contains(msg, []byte("in world size")), has("vLLM is using nccl=="):
		u.Step = StepDist
	case has("Starting to load model "), has("Loading model from scratch"):
		u.Step = StepWeightsBegin
	case has("Time spent downloading weights"):
		u.Step, u.Elapsed = StepDownloaded, before(msg, " seconds")
	case has("Loading weights took "):
		u.Step, u.Elapsed = StepWeightsEnd, after(msg, "took ")
	case has("Model loading took "), has("Loading model weights took "):
		u.Step, u.WeightGB = StepModelLoaded, after(msg, "took ")
		u.Elapsed = after(msg, " and ")
	case has("Using cache directory:"), has("Start compiling"), has("Dynamo bytecode transform time:"), has("Cache the graph"), has("Compiling a graph for"), has("Directly load the compiled graph"):
		u.Step, u.Elapsed = StepCompile, after(msg, "takes ").or(after(msg, "took ")).or(after(msg, "time: "))
	case has("torch.compile takes "), has("torch.compile took "), has("Initial profiling/warmup run took "), has("torch.compile and initial profiling"):
		u.Step, u.Elapsed = StepCompileEnd, after(msg, "takes ").or(after(msg, "took "))
	case has("Memory profiling takes "), has("Memory profiling took "), has("Profiling CUDA graph memory"):
		u.Step, u.Elapsed = StepProfile, before(msg, " seconds")
	case has("the current vLLM instance can use total_gpu_memory "):
		u.Step, u.TotalGB, u.Util, u.Budget = StepProfile, after(msg, "total_gpu_memory ("), after(msg, "gpu_memory_utilization ("), after(msg, "= ")
	case has("model weights take "):
		u.Step, u.WeightGB, u.OtherGB = StepKVMemory, after(msg, "weights take "), after(msg, "non_torch_memory takes ")
		u.PeakGB, u.KVGB = after(msg, "peak memory takes "), after(msg, "reserved for KV Cache is ")
	case has("Estimated CUDA graph memory:"):
		u.Step, u.GraphGB = StepGraphEstimate, after(msg, "memory: ")
	case has("Available KV cache memory:"):
		u.Step, u.KVGB = StepKVMemory, after(msg, "memory: ")
	case has("# ") && bytes.Contains(msg, []byte(" blocks: ")):
		u.Step, u.Blocks = StepBlocks, after(msg, " blocks: ")
		u.CPUBlocks = after(msg, "# CPU blocks: ")
	case has("GPU KV cache size: "), has("CPU KV cache size: "), has("KV cache size: "):
		u.Step, u.Tokens = StepKVSize, after(msg, "size: ")
		u.Concurrency, u.MaxLen = before(msg, "x"), after(msg, "concurrency for ")
		if !u.MaxLen.Known {
			u.Concurrency = Num{}
		} else {
			u.Concurrency = after(msg, "per request: ")
		}
	case has("Maximum concurrency for "):
		u.Step, u.MaxLen, u.Concurrency = StepConcurrency, after(msg, "concurrency for "), after(msg, "per request: ")
	case has("Capturing the model for CUDA graphs"), has("Capturing cudagraphs for decoding"), has("Capturing CUDA graphs"):
		u.Step = StepCaptureBegin
	case has("Graph capturing finished in "):
		u.Step, u.Elapsed, u.GraphGB = StepCaptureEnd, after(msg, "finished in "), after(msg, "took ")
	case has("Free memory on device") && bytes.Contains(msg, []byte("Actual usage is")):
		memoryBreakdown(u, msg)
	case has("init engine ("):
		u.Step, u.Elapsed = StepEngineReady, after(msg, ") took ")
	case has("Starting vLLM"):
		u.Step = StepListening
		u.Addr, u.Port = address(msg)
	case has("OpenAI server is ready to accept requests"):
		u.Step = StepReady
		u.Addr, u.Port = address(msg)
	case bytes.Contains(msg, []byte("disabling stats logging")):
		u.Step = StepNoStats
	case has("Defaulting api_server_count to data_parallel_size"):
		u.Step, u.Servers = StepNoStats, after(msg, "size (")
	default:
		return false
	}
	p.begin(KindStartup, h).Startup = u
	p.emit(&p.ev)
	return true
}

func (n Num) or(m Num) Num {
	if n.Known {
		return n
	}
	return m
}

// logo reads a line of the banner, which has the version or the model beside it.
func logo(u *Startup, msg []byte) bool {
	if i := bytes.Index(msg, []byte("version ")); i >= 0 {
		u.Step, u.Version = StepVersion, word(bytes.TrimLeft(msg[i+len("version "):], " "))
		return u.Version != ""
	}
	if i := bytes.Index(msg, []byte("model ")); i >= 0 {
		u.Step, u.Model = StepVersion, word(bytes.TrimLeft(msg[i+len("model "):], " "))
		return u.Model != ""
	}
	return false
}

// memoryBreakdown reads the summary of the newest versions. It begins like the
// failure of a GPU that is in use, and is none.
func memoryBreakdown(u *Startup, msg []byte) {
	u.Step = StepMemory
	u.FreeGB = after(msg, "Free memory on device (")
	u.TotalGB = before(msg, " GiB) on startup")
	u.Util = after(msg, "utilization is (")
	if i := bytes.Index(msg, []byte("utilization is (")); i >= 0 {
		u.Budget = after(msg[i:], ", ")
	}
	u.WeightGB = before(msg, " GiB for consumed memory").or(before(msg, " GiB for weight"))
	u.PeakGB = before(msg, " GiB for peak activation").or(before(msg, " for peak activation"))
	u.OtherGB = before(msg, " GiB for non-torch")
	u.GraphGB = before(msg, " GiB for CUDAGraph memory")
	u.KVBytes = after(msg, "--kv-cache-memory=")
}

// uvicornLine reads the HTTP server's own lines, which have a level and a colon
// and no time.
func (p *Parser) uvicornLine(b []byte, h head) bool {
	var rest []byte
	for _, l := range []string{"INFO: ", "ERROR: ", "WARNING: "} {
		if i := bytes.Index(b[:min(len(b), 80)], []byte(l)); i >= 0 {
			rest = bytes.TrimLeft(b[i+len(l):], " ")
			h.level = l[0]
			break
		}
	}
	if rest == nil {
		return false
	}
	u := &p.startup
	*u = Startup{}
	switch {
	case bytes.HasPrefix(rest, []byte("Started server process [")):
		pid, _ := integer(rest[len("Started server process ["):])
		u.Step, u.PID = StepProcess, int(pid)
	case bytes.HasPrefix(rest, []byte("Application startup complete")):
		u.Step = StepReady
	case bytes.HasPrefix(rest, []byte("Uvicorn running on ")):
		u.Step = StepReady
		u.Addr, u.Port = address(rest)
	case bytes.HasPrefix(rest, []byte("Shutting down")), bytes.HasPrefix(rest, []byte("Waiting for application shutdown")):
		p.stopped(h, false, false)
		return true
	case bytes.HasPrefix(rest, []byte("Application shutdown complete")), bytes.HasPrefix(rest, []byte("Finished server process")):
		p.stopped(h, false, true)
		return true
	default:
		if h.level == 'E' && bytes.HasPrefix(rest, []byte("Exception in ASGI application")) {
			p.asgi = p.line
			return true
		}
		if h.level == 'E' {
			p.errorLine(rest, h)
			return true
		}
		return false
	}
	p.begin(KindStartup, h).Startup = u
	p.emit(&p.ev)
	return true
}

// address finds http://HOST:PORT.
func address(b []byte) (host string, port int) {
	i := bytes.Index(b, []byte("://"))
	if i < 0 {
		return "", 0
	}
	rest := b[i+3:]
	if e := bytes.IndexAny(rest, " /,"); e >= 0 {
		rest = rest[:e]
	}
	c := bytes.LastIndexByte(rest, ':')
	if c < 0 {
		return metrics.Clean(string(rest), 100), 0
	}
	n, _ := integer(rest[c+1:])
	return metrics.Clean(string(rest[:c]), 100), int(n)
}

// word is the first word of b, cleaned.
func word(b []byte) string {
	if i := bytes.IndexAny(b, " \t,"); i >= 0 {
		b = b[:i]
	}
	return metrics.Clean(string(b), 200)
}

// maxFlags bounds the arguments kept of one line.
const maxFlags = 400

// parseArgs reads a Python dict, or name=value pairs as repr prints them, into
// name → value; strings lose their quotes, nested values stay as printed.
func parseArgs(s string) map[string]string {
	out := map[string]string{}
	i := 0
	for i < len(s) && len(out) < maxFlags {
		for i < len(s) && strings.IndexByte("{(, '\"", s[i]) >= 0 {
			i++
		}
		start := i
		for i < len(s) && (s[i] >= 'a' && s[i] <= 'z' || s[i] >= 'A' && s[i] <= 'Z' || s[i] == '_' || digit(s[i])) {
			i++
		}
		name := s[start:i]
		for i < len(s) && (s[i] == '\'' || s[i] == '"') {
			i++
		}
		if i >= len(s) {
			break
		}
		if name == "" || s[i] != ':' && s[i] != '=' {
			if i == start {
				i++
			}
			continue
		}
		i++
		for i < len(s) && s[i] == ' ' {
			i++
		}
		end := valueEnd(s, i)
		v := s[i:end]
		if len(v) >= 2 && (v[0] == '\'' || v[0] == '"') && v[len(v)-1] == v[0] {
			v = v[1 : len(v)-1]
		}
		out[name] = metrics.Clean(v, 300)
		i = end
	}
	return out
}

// valueEnd finds where a printed Python value ends.
func valueEnd(s string, i int) int {
	depth := 0
	var quote byte
	for ; i < len(s); i++ {
		c := s[i]
		switch {
		case quote != 0:
			if c == '\\' {
				i++
			} else if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '(' || c == '[' || c == '{':
			depth++
		case c == ')' || c == ']' || c == '}':
			if depth == 0 {
				return i
			}
			depth--
		case c == ',' && depth == 0:
			return i
		}
	}
	return len(s)
}
