package sglang

import (
	"bytes"

	"github.com/runvigil/runvigil/metrics"
)

// step prepares a start-up event.
func (p *Parser) step(step Step, h head) *Startup {
	p.startup = Startup{Step: step}
	p.begin(KindStartup, h).Startup = &p.startup
	return &p.startup
}

// startupLine takes the records of the start-up, in the wording of any version.
func (p *Parser) startupLine(msg []byte, h head) bool {
	has := func(prefix string) bool { return bytes.HasPrefix(msg, []byte(prefix)) }
	switch msg[0] {
	case 's':
		if has("server_args=") || has("server_args: ") {
			return p.argsLine(msg, h)
		}
		if has("sglang is using nccl") {
			return true
		}
		return false
	case 'I':
		switch {
		case has("Init torch distributed begin"), has("Init nccl begin"), has("Init torch begin"):
			p.step(StepDistBegin, h)
		case has("Init torch distributed ends"):
			s := p.step(StepDistEnd, h)
			s.Elapsed, s.UsedGB = after(msg, "elapsed="), after(msg, "mem usage=")
		default:
			return false
		}
	case 'L':
		switch {
		case has("Load weight begin"):
			p.step(StepWeightsBegin, h).AvailGB = after(msg, "avail mem=")
		case has("Load weight end"):
			s := p.step(StepWeightsEnd, h)
			s.Elapsed, s.AvailGB, s.UsedGB = after(msg, "elapsed="), after(msg, "avail mem="), after(msg, "mem usage=")
			s.Label, s.Dtype = word(msg, "type="), word(msg, "dtype=")
		default:
			return false
		}
	case 'B':
		if !has("Beginning to load weights") {
			return false
		}
		p.step(StepWeightsBegin, h)
	case 'U':
		if !has("Using KV cache dtype: ") {
			return false
		}
		p.step(StepKVDtype, h).Dtype = word(msg, "dtype: ")
	case 'M':
		switch {
		case has("Memory pool end"):
			p.step(StepPoolEnd, h).AvailGB = after(msg, "avail mem=")
		case has("Mamba Cache is allocated"):
			s := p.step(StepKVAllocated, h)
			s.Label, s.Tokens = "mamba", after(msg, "max_mamba_cache_size: ")
		default:
			return false
		}
	case 'm':
		switch {
		case has("max_total_num_tokens="):
			s := p.step(StepSummary, h)
			s.Tokens = after(msg, "max_total_num_tokens=")
			s.ChunkedPrefill, s.MaxPrefill = after(msg, "chunked_prefill_size="), after(msg, "max_prefill_tokens=")
			s.MaxRunning, s.ContextLen = after(msg, "max_running_requests="), after(msg, "context_len=")
			s.AvailGB = after(msg, "available_gpu_mem=")
			if !s.AvailGB.Known {
				s.AvailGB = after(msg, "available_cpu_mem=")
				s.Label = "cpu"
			}
		case has("max_total_tokens=") && bytes.Contains(msg, []byte("profiled value")):
			s := p.step(StepProfiled, h)
			s.Tokens = after(msg, "profiled value ")
			p.emit(&p.ev)
			if s.Tokens.Known && s.Tokens.V <= 0 {
				p.giveFault(h, Fault{Class: metrics.CauseStartupNoKVMemory, Weight: Fatal, Phase: PhaseStartup, Detail: metrics.Clean(string(msg), maxDetail)})
			}
			return true
		default:
			return false
		}
	case 'C':
		return p.captureLine(msg, h)
	case 'A':
		if !has("Allocating ") || !bytes.Contains(msg, []byte("host")) {
			return false
		}
		s := p.step(StepHostCache, h)
		if at := bytes.Index(msg, []byte(" GB host memory")); at > 0 {
			s.HostGB = numBefore(msg, at)
		}
		if at := bytes.Index(msg, []byte(" tokens,")); at > 0 {
			s.HostTokens = numBefore(msg, at)
			s.since = 517
		} else {
			s.until = 516
		}
	case 'T':
		switch {
		case has("Tree cache initialized:"):
			s := p.step(StepTreeCache, h)
			s.Label = word(msg, "impl=")
			s.HiCache = flag(msg, "hicache_attached=")
			if !s.HiCache.Known {
				s.HiCache = flag(msg, "hierarchical=")
			}
		case has("The server is fired up"):
			p.step(StepReady, h)
		case has("Try DeepGEMM JIT"):
			p.step(StepJIT, h).Label = "DeepGEMM"
		default:
			return false
		}
	case 'E':
		switch {
		case has("Entering DeepGEMM JIT"):
			p.step(StepJIT, h).Label = "DeepGEMM"
		case has("End of") && bytes.Contains(msg, []byte("warmup")):
			p.step(StepWarmup, h)
		default:
			return false
		}
	case 'P':
		if !has("Post-capture KV sizing:") {
			return false
		}
		s := p.step(StepKVAllocated, h)
		s.Label = "post-capture"
		p.kvSizes(s, msg)
	case 'S':
		if !has("Start of") || !bytes.Contains(msg, []byte("warmup")) {
			return false
		}
		p.step(StepWarmup, h)
	default:
		return p.kvLine(msg, h)
	}
	p.emit(&p.ev)
	return true
}

// kvLine takes "[label ]KV Cache is allocated." in all its forms.
func (p *Parser) kvLine(msg []byte, h head) bool {
	at := bytes.Index(msg[:min(len(msg), 80)], []byte("KV Cache is allocated"))
	if at < 0 {
		at = bytes.Index(msg[:min(len(msg), 80)], []byte("KV Cache VA upper bound"))
	}
	if at < 0 || quotesText(msg[:at]) {
		return false
	}
	s := p.step(StepKVAllocated, h)
	s.Label = metrics.Clean(string(bytes.TrimRight(msg[:at], " ")), 64)
	p.kvSizes(s, msg)
	p.emit(&p.ev)
	return true
}

func (p *Parser) kvSizes(s *Startup, msg []byte) {
	s.Tokens = after(msg, "#tokens: ")
	s.KGB, s.VGB, s.KVGB = after(msg, "K size: "), after(msg, "V size: "), after(msg, "KV size: ")
	if s.KVGB.Known {
		s.VGB = Num{} // "KV size: " ends in "V size: "
	} else if s.KGB.Known && s.VGB.Known {
		s.KVGB = num(s.KGB.V + s.VGB.V)
	}
	s.Dtype = word(msg, "dtype: ")
	s.AvailGB = after(msg, "avail mem=")
}

// captureLine takes the capture of graphs: the wording up to 0.5.13 and the
// one since 0.5.14 with its target, kind and phase.
func (p *Parser) captureLine(msg []byte, h head) bool {
	if !bytes.HasPrefix(msg, []byte("Capture ")) {
		return false
	}
	lead := msg[:min(len(msg), 80)]
	old := bytes.HasPrefix(msg, []byte("Capture cuda graph")) || bytes.HasPrefix(msg, []byte("Capture piecewise"))
	var s *Startup
	switch {
	case bytes.Contains(lead, []byte("failed")):
		return false
	case bytes.Contains(lead, []byte("graph begin")), bytes.Contains(lead, []byte("graph bs [")), bytes.Contains(lead, []byte("graph num tokens [")):
		s = p.step(StepCaptureBegin, h)
	case bytes.Contains(lead, []byte("graph end")):
		s = p.step(StepCaptureEnd, h)
		s.Elapsed = after(msg, "elapsed=")
		if !s.Elapsed.Known {
			s.Elapsed = after(msg, "Time elapsed: ")
		}
		s.UsedGB = after(msg, "mem usage=")
	default:
		return false
	}
	s.AvailGB = after(msg, "avail mem=")
	switch {
	case bytes.Contains(lead, []byte("num tokens [")), bytes.Contains(lead, []byte("piecewise")):
		s.Label = "piecewise"
	case !old:
		if at := bytes.Index(lead, []byte(" CUDA graph ")); at > len("Capture ") {
			s.Label = metrics.Clean(string(lead[len("Capture "):at]), 40)
		}
	}
	if old {
		s.until = 513
	} else {
		s.since = 514
	}
	p.emit(&p.ev)
	return true
}

// progressBar takes a tqdm bar of the start-up: i/n behind its last "| ".
func (p *Parser) progressBar(b []byte) bool {
	pct := bytes.Index(b[:min(len(b), 160)], []byte("%"))
	if pct < 0 || bytes.IndexByte(b[pct:], '|') < 0 {
		return false
	}
	lead := b[:pct]
	var step Step
	switch {
	case bytes.Contains(lead, []byte("shards:")), bytes.Contains(lead, []byte("Loading ")):
		step = StepWeightsProgress
	case bytes.Contains(lead, []byte("Capturing ")):
		step = StepCaptureProgress
	case bytes.Contains(lead, []byte("DeepGEMM")):
		step = StepJIT
	default:
		// Somebody else's bar: no event, and nothing of it is a fault.
		return (bytes.Contains(b, []byte("it/s")) || bytes.Contains(b, []byte("s/it"))) && !bytes.Contains(b, []byte("NCCL"))
	}
	done, total, ok := barCount(b[pct:])
	if !ok {
		return true
	}
	s := p.step(step, head{rank: NoRank})
	if p.last.at.Known {
		p.ev.At = p.last.at
	}
	s.Done, s.Total = done, total
	switch step {
	case StepCaptureProgress:
		s.AvailGB = after(lead, "avail_mem=")
		if bytes.Contains(lead, []byte("num tokens")) {
			s.Label = "piecewise"
		}
	case StepJIT:
		s.Label = "DeepGEMM"
	}
	p.emit(&p.ev)
	return true
}

// barCount reads the last " i/n [" of a bar.
func barCount(b []byte) (done, total int, ok bool) {
	for at := bytes.LastIndexByte(b, '['); at > 0; at = bytes.LastIndexByte(b[:at], '[') {
		i := at
		for i > 0 && b[i-1] == ' ' {
			i--
		}
		end := i
		for i > 0 && (digit(b[i-1]) || b[i-1] == '/') {
			i--
		}
		slash := bytes.IndexByte(b[i:end], '/')
		if slash <= 0 {
			continue
		}
		d, _ := parseNum(b[:end], i)
		t, _ := parseNum(b[:end], i+slash+1)
		if d.Known && t.Known && t.V > 0 && d.V <= t.V && t.V < 1e9 {
			return int(d.V), int(t.V), true
		}
	}
	return 0, 0, false
}

// numBefore reads the number that ends at b[end].
func numBefore(b []byte, end int) Num {
	i := end
	for i > 0 && (digit(b[i-1]) || b[i-1] == '.' || b[i-1] == ',') {
		i--
	}
	v, _ := parseNum(b[:end], i)
	return v
}

// word reads the word behind a key, up to a comma, a space or the end.
func word(b []byte, key string) string {
	for from := 0; ; {
		at := bytes.Index(b[from:], []byte(key))
		if at < 0 {
			return ""
		}
		at += from
		// "type=" also ends "dtype=".
		if at > 0 && letter(b[at-1]) {
			from = at + len(key)
			continue
		}
		rest := b[at+len(key):]
		end := 0
		for end < len(rest) && end < 96 && rest[end] != ',' && rest[end] != ' ' {
			end++
		}
		return metrics.Clean(string(rest[:end]), 96)
	}
}

func flag(b []byte, key string) Num {
	switch word(b, key) {
	case "True":
		return num(1)
	case "False":
		return num(0)
	}
	return Num{}
}
