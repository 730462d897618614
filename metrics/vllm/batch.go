package vllm

import (
	"bytes"
	"math"
)

var (
	avgPrompt  = []byte("Avg prompt t") // throughput, or the Rust front end's tput
	commaSpace = []byte(", ")
)

// batchBody tells a message that is the periodic line of figures, and gives the
// part with the figures and the engine before it.
func batchBody(msg []byte) (body []byte, engine, engines int, ok bool) {
	at := bytes.Index(msg[:min(len(msg), 64)], avgPrompt)
	if at < 0 {
		return nil, 0, 0, false
	}
	engine = -1
	if at > 0 {
		lead := bytes.TrimSpace(msg[:at])
		if rest, is := bytes.CutPrefix(lead, []byte("Engine ")); is {
			n, size := integer(rest)
			if size == 0 {
				return nil, 0, 0, false
			}
			engine = int(n)
		} else if n, size := integer(lead); size > 0 && bytes.HasPrefix(lead[size:], []byte(" Engines Aggregated")) {
			engines = int(n)
		} else if len(lead) > 0 {
			return nil, 0, 0, false
		}
	}
	return msg[at:], engine, engines, true
}

// parseBatch reads the figures key by key, in any order. whole is false where
// the line seems to go on elsewhere.
func parseBatch(b *Batch, body []byte) (whole bool) {
	*b = Batch{Engine: b.Engine, Engines: b.Engines}
	rest := body
	for len(rest) > 0 {
		piece := rest
		if i := pairEnd(rest); i >= 0 {
			piece, rest = rest[:i], rest[i+1:]
		} else {
			rest = nil
		}
		// A wrapped line may have lost its spaces.
		for len(piece) > 0 && piece[0] == ' ' {
			piece = piece[1:]
		}
		i := bytes.IndexByte(piece, ':')
		if i < 0 {
			continue
		}
		val := piece[i+1:]
		for len(val) > 0 && val[0] == ' ' {
			val = val[1:]
		}
		b.set(piece[:i], val)
	}
	t := bytes.TrimRight(body, " ")
	return bytes.HasSuffix(t, []byte("%")) || bytes.HasSuffix(t, []byte("%.")) || b.KVUsage.Known && bytes.IndexByte(t, '=') > 0 ||
		b.KVUsage.Known && bytes.HasSuffix(t, []byte("reqs"))
}

// pairEnd finds the comma between two pairs: not one that groups thousands.
func pairEnd(b []byte) int {
	for at := 0; ; {
		i := bytes.IndexByte(b[at:], ',')
		if i < 0 {
			return -1
		}
		i += at
		if i == 0 || !digit(b[i-1]) || i+3 >= len(b) || !digit(b[i+1]) || !digit(b[i+2]) || !digit(b[i+3]) {
			return i
		}
		at = i + 1
	}
}

func (b *Batch) set(key, val []byte) {
	v, n := float(val)
	if n == 0 {
		return
	}
	f := num(v)
	if v != v {
		f = Num{}
	}
	if n < len(val) && val[n] == '%' {
		f = percent(f)
	}
	switch string(key) {
	case "Avg prompt throughput":
		b.InputTPS = f
	case "Avg prompt tput":
		b.InputTPS, b.Rust = f, true
	case "Avg generation throughput", "Avg generation tput":
		b.GenTPS = f
	case "Running", "Reqs Running":
		b.Running = f
	case "Waiting", "Pending":
		b.Waiting = f
	case "Swapped":
		b.Swapped = f
	case "Deferred":
		b.Deferred = f
	case "Preemptions":
		b.Preemptions = f
	case "GPU KV cache usage", "GPU KV cache used", "KV cache usage", "GPU cache usage":
		b.KVUsage = f
	case "CPU KV cache usage", "CPU cache usage":
		b.CPUUsage = f
	case "Prefix cache hit rate":
		b.PrefixHit = f
	case "External prefix cache hit rate":
		b.ExternalHit = f
	case "MM cache hit rate":
		b.MMHit = f
	case "Corrupted":
		b.Corrupted = f
	}
}

func percent(f Num) Num {
	f.V = math.Round(f.V*1e6) / 1e8
	return f
}

// float reads a decimal number at the start of b; n is its length, 0 for none.
// "nan" is read as NaN.
func float(b []byte) (v float64, n int) {
	i := 0
	neg := false
	if i < len(b) && (b[i] == '-' || b[i] == '+') {
		neg = b[i] == '-'
		i++
	}
	if bytes.HasPrefix(b[i:], []byte("nan")) {
		return math.NaN(), i + 3
	}
	var mant uint64
	scale, digits := 0, 0
	for ; i < len(b); i++ {
		c := b[i]
		switch {
		case digit(c):
			digits++
			if mant < 1e17 {
				mant = mant*10 + uint64(c-'0')
				if scale > 0 {
					scale++
				}
			} else if scale == 0 {
				return 0, 0 // no figure of a log is that large
			}
			continue
		case c == '.' && scale == 0 && i+1 < len(b) && digit(b[i+1]):
			scale = 1
			continue
		case c == ',' && scale == 0 && digits > 0 && i+3 < len(b) && digit(b[i+1]) && digit(b[i+2]) && digit(b[i+3]):
			continue // thousands
		}
		break
	}
	if digits == 0 {
		return 0, 0
	}
	v = float64(mant)
	if scale > 1 {
		v /= pow10[scale-1]
	}
	if neg {
		v = -v
	}
	if i+2 < len(b) && b[i]|0x20 == 'e' && (b[i+1] == '-' || b[i+1] == '+') && digit(b[i+2]) {
		e := 0
		j := i + 2
		for ; j < len(b) && digit(b[j]) && j < i+5; j++ {
			e = e*10 + int(b[j]-'0')
		}
		if b[i+1] == '-' {
			e = -e
		}
		return v * math.Pow10(e), j
	}
	return v, i
}

var pow10 = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18}

// integer reads digits at the start of b; n is their count.
func integer(b []byte) (v int64, n int) {
	for n < len(b) && digit(b[n]) && n < 18 {
		v = v*10 + int64(b[n]-'0')
		n++
	}
	return v, n
}

// after finds key in b and reads the number behind it.
func after(b []byte, key string) Num {
	i := bytes.Index(b, []byte(key))
	if i < 0 {
		return Num{}
	}
	v, n := float(bytes.TrimLeft(b[i+len(key):], " "))
	if n == 0 || v != v {
		return Num{}
	}
	return num(v)
}

// specLine reads "SpecDecoding metrics: …" of all versions and V0's
// "Speculative metrics: …", whose rates are fractions.
func (p *Parser) specLine(msg []byte, h head) bool {
	if !bytes.HasPrefix(msg, []byte("SpecDecoding metrics:")) && !bytes.HasPrefix(msg, []byte("Speculative metrics:")) {
		return false
	}
	p.spec = Spec{
		AcceptLen:   after(msg, "Mean acceptance length:"),
		AcceptedTPS: after(msg, "Accepted throughput:"), DraftedTPS: after(msg, "Drafted throughput:"),
		Accepted: after(msg, "Accepted:"), Drafted: after(msg, "Drafted:"),
	}
	if msg[4] == 'D' { // SpecDecoding
		p.spec.AcceptRate = percent(after(msg, "raft acceptance rate:"))
	} else {
		p.spec.AcceptRate = after(msg, "Draft acceptance rate:")
		p.spec.Efficiency = after(msg, "System efficiency:")
		p.spec.Accepted, p.spec.Drafted = after(msg, "Number of accepted tokens:"), after(msg, "Number of draft tokens:")
		p.spec.Emitted = after(msg, "Number of emitted tokens:")
	}
	p.begin(KindSpec, h).Spec = &p.spec
	p.emit(&p.ev)
	return true
}

// companion reads the other lines of the same tick.
func (p *Parser) companion(msg []byte, h head) bool {
	switch {
	case bytes.HasPrefix(msg, []byte("Prefix cache hit rate: GPU:")):
		p.prefix = Prefix{GPU: percent(after(msg, "GPU:")), CPU: percent(after(msg, "CPU:"))}
		p.begin(KindPrefix, h).Prefix = &p.prefix
	case bytes.HasPrefix(msg, []byte("KV Transfer metrics:")):
		p.begin(KindTransfer, h)
	case bytes.HasPrefix(msg, []byte("Received counts: [[")):
		p.counts = parseCounts(p.counts[:0], msg[len("Received counts: "):])
		p.begin(KindCounts, h).Counts = p.counts
	case bytes.HasPrefix(msg, []byte("Engine ")) && bytes.Contains(msg, []byte(": Iteration(")):
		n, _ := integer(msg[len("Engine "):])
		p.iteration = Iteration{Engine: int(n), ElapsedMs: after(msg, "elapsed time:"), KVUsage: percent(after(msg, "KV cache usage:"))}
		p.iteration.Context, p.iteration.ContextTokens = before(msg, " context requests"), before(msg, " context tokens")
		p.iteration.Generation, p.iteration.GenerationTokens = before(msg, " generation requests"), before(msg, " generation tokens")
		p.begin(KindIteration, h).Iteration = &p.iteration
	default:
		return false
	}
	p.emit(&p.ev)
	return true
}

// before reads the number that ends where key begins.
func before(b []byte, key string) Num {
	i := bytes.Index(b, []byte(key))
	if i < 0 {
		return Num{}
	}
	j := i
	for j > 0 && (digit(b[j-1]) || b[j-1] == '.' || b[j-1] == ',' || b[j-1] == '-') {
		j--
	}
	v, n := float(b[j:i])
	if n == 0 || n != i-j {
		return Num{}
	}
	return num(v)
}

// maxCounts bounds the engines of one coordinator line.
const maxCounts = 1024

// parseCounts reads [[waiting, running], …].
func parseCounts(out []Count, b []byte) []Count {
	for len(b) > 0 && len(out) < maxCounts {
		i := bytes.IndexByte(b, '[')
		if i < 0 {
			break
		}
		b = b[i+1:]
		w, n := integer(b)
		if n == 0 {
			continue
		}
		rest, ok := bytes.CutPrefix(b[n:], commaSpace)
		if !ok {
			break
		}
		r, n := integer(rest)
		if n == 0 || n >= len(rest) || rest[n] != ']' {
			break
		}
		out = append(out, Count{int(w), int(r)})
		b = rest[n:]
	}
	return out
}
