package sglang

import (
	"bytes"
	"strconv"
)

var (
	wordDecode  = []byte("Decode batch")
	wordPrefill = []byte("Prefill batch")
	wordFill    = []byte("new fill batch")
)

// batchBody tells whether msg is a batch line and gives what follows the words.
func batchBody(msg []byte) (body []byte, decode, ok bool) {
	switch {
	case bytes.HasPrefix(msg, wordDecode):
		body, decode = msg[len(wordDecode):], true
	case bytes.HasPrefix(msg, wordPrefill):
		body = msg[len(wordPrefill):]
	case bytes.HasPrefix(msg, wordFill):
		body = msg[len(wordFill):] // 0.1
	default:
		return nil, false, false
	}
	// "Decode batch" must go on with its figures, not with prose.
	if len(body) < 2 || body[0] != ',' && body[0] != '.' && (body[0] != ' ' || body[1] != '[' && body[1] != '#') {
		return nil, false, false
	}
	if bytes.IndexByte(body, '#') < 0 {
		return nil, false, false
	}
	return body, decode, true
}

// parseBatch fills b from the text behind "Decode batch" or "Prefill batch".
// whole tells whether the record has the keys its kind always ends with, and
// does not stop inside a key or a number.
func parseBatch(b *Batch, body []byte, decode bool) (whole bool) {
	*b = Batch{Decode: decode}
	i := 0
	if bytes.HasPrefix(body, []byte(" [")) {
		n := 2
		v, next := parseNum(body, n)
		if next > n && next < len(body) && body[next] == ']' {
			b.Iter, i = v, next+1
		}
	}
	if i < len(body) && (body[i] == ',' || body[i] == '.') {
		b.dot = body[i] == '.'
		i++
	}
	cut := false
	for i < len(body) {
		for i < len(body) && (body[i] == ' ' || body[i] == ',') {
			i++
		}
		if i >= len(body) {
			break
		}
		colon := bytes.IndexByte(body[i:], ':')
		if colon < 0 {
			cut = true
			break
		}
		key := body[i : i+colon]
		i += colon + 1
		for i < len(body) && body[i] == ' ' {
			i++
		}
		// A key cut off from its value leaves the rest of the line before the
		// next key: that key is what stands behind the last separator.
		if comma := bytes.LastIndex(key, []byte(", ")); comma >= 0 {
			key = key[comma+2:]
		}
		for at := elisionAt(key); at >= 0; at = elisionAt(key) {
			key = bytes.TrimLeft(key[at+3:], " ")
		}
		if i >= len(body) {
			cut = true
			break
		}
		v, next := parseValue(body, i)
		if n := elision(body[next:]); n > 0 {
			i = next + n // the middle of the line is cut out, perhaps of the number too
			continue
		}
		if v.Known {
			if next < len(body) && body[next] == '%' {
				next++
				if string(key) != "fwd occupancy" {
					v.V /= 100
				}
			}
			b.set(key, v)
		}
		i = next
		// The oldest lines end a piece with a full stop; at the end of a line it
		// is a number that goes on on the next one.
		if i < len(body) && body[i] == '.' {
			cut = i+1 == len(body)
			i++
			continue
		}
		if i < len(body) && body[i] != ',' {
			comma := bytes.IndexByte(body[i:], ',')
			if comma < 0 {
				break
			}
			i += comma
		}
	}
	b.trailing = len(body) > 1 && (body[len(body)-1] == ',' || body[len(body)-2] == ',' && body[len(body)-1] == ' ')
	b.Probe = !decode && b.NewToken.V == 1 && b.NewSeq.V == 1 && b.Cached.V == 0 && b.Running.Known && b.Running.V == 0 && b.Queued.V == 0
	if cut {
		return false
	}
	if decode {
		return b.GenTPS.Known
	}
	return b.Queued.Known
}

// elision is the length of the dots that stand for text cut out of a line.
func elision(b []byte) int {
	if bytes.HasPrefix(b, []byte("…")) || bytes.HasPrefix(b, []byte("...")) {
		return 3
	}
	return 0
}

func elisionAt(b []byte) int {
	if at := bytes.Index(b, []byte("…")); at >= 0 {
		return at
	}
	return bytes.Index(b, []byte("..."))
}

// parseValue reads a number, or True and False as 1 and 0. An unknown value has
// its end where it began.
func parseValue(b []byte, i int) (v Num, next int) {
	switch {
	case bytes.HasPrefix(b[i:], []byte("True")):
		return num(1), i + 4
	case bytes.HasPrefix(b[i:], []byte("False")):
		return num(0), i + 5
	}
	return parseNum(b, i)
}

var pow10 = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// parseNum reads a decimal number with an optional sign, thousands commas and
// exponent at b[i:]; next is behind it. A full stop that no digit follows is
// not part of it. Without a number v is unknown and next is i.
func parseNum(b []byte, i int) (v Num, next int) {
	start := i
	neg := false
	if i < len(b) && (b[i] == '-' || b[i] == '+') {
		neg = b[i] == '-'
		i++
	}
	var mantissa uint64
	digits, frac := 0, 0
	grouped := false
	for i < len(b) {
		switch c := b[i]; {
		case digit(c):
			mantissa = mantissa*10 + uint64(c-'0')
			digits++
			i++
			continue
		case c == ',' && digits > 0 && i+3 < len(b) && digit(b[i+1]) && digit(b[i+2]) && digit(b[i+3]) && (i+4 >= len(b) || !digit(b[i+4])):
			grouped = true
			i++
			continue
		}
		break
	}
	if digits == 0 {
		return Num{}, start
	}
	if i+1 < len(b) && b[i] == '.' && digit(b[i+1]) {
		for i++; i < len(b) && digit(b[i]); i++ {
			mantissa = mantissa*10 + uint64(b[i]-'0')
			digits++
			frac++
		}
	}
	exponent := i+1 < len(b) && (b[i] == 'e' || b[i] == 'E') && (digit(b[i+1]) || i+2 < len(b) && (b[i+1] == '-' || b[i+1] == '+') && digit(b[i+2]))
	if exponent {
		for i += 2; i < len(b) && digit(b[i]); i++ {
		}
	}
	if exponent || digits > 15 {
		text := string(b[start:i])
		if grouped {
			text = string(bytes.ReplaceAll(b[start:i], []byte{','}, nil))
		}
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return Num{}, i
		}
		return num(f), i
	}
	f := float64(mantissa) / pow10[frac]
	if neg {
		f = -f
	}
	return num(f), i
}

// set stores a value under its key, in the spelling of any version.
func (b *Batch) set(key []byte, v Num) {
	b.keys++
	switch string(key) {
	case "#running-req", "#running_req":
		b.Running = v
	case "#queue-req", "#remaining_req", "#queue_req":
		b.Queued = v
	case "#token":
		b.Tokens = v
	case "token usage":
		b.Usage = v
	case "#full token":
		b.FullTokens = v
	case "full token usage":
		b.FullUsage = v
	case "#swa token":
		b.SWATokens = v
	case "swa token usage":
		b.SWAUsage = v
	case "mamba num", "#mamba num":
		b.MambaNum = v
	case "mamba usage":
		b.MambaUsage = v
	case "#gpu token":
		b.GPUTokens = v
	case "gpu token usage":
		b.GPUUsage = v
	case "#cpu token":
		b.CPUTokens = v
	case "cpu token usage":
		b.CPUUsage = v
	case "gen throughput (token/s)":
		b.GenTPS = v
	case "input throughput (token/s)":
		b.InputTPS = v
		b.inputFirst = !b.Graph.Known
	case "cuda graph", "npu graph", "musa graph":
		b.Graph, b.GraphOn = v, key[0]
	case "cpu graph":
		b.Graph, b.GraphOn = v, 'C'
	case "accept len":
		b.AcceptLen = v
	case "accept rate":
		b.AcceptRate = v
	case "cap len":
		b.CapLen = v
	case "block accept len":
		b.BlockAcceptLen = v
	case "#new-seq", "#seq":
		b.NewSeq = v
	case "#new-token", "#new_token":
		b.NewToken = v
	case "#cached-token", "#cached_token":
		b.Cached = v
	case "#pending-token":
		b.Pending = v
	case "cache hit rate", "tree_cache_hit_rate":
		b.CacheHit = v
	case "pre-allocated usage":
		b.PreallocUsage = v
	case "#prealloc-req":
		b.Prealloc = v
	case "#transfer-req":
		b.Transfer = v
	case "#retracted-req":
		b.Retracted = v
	case "#bootstrap-req", "#unbootstrapped-req":
		b.Bootstrap = v
	case "#inflight-req", "#transferring-req":
		b.Inflight = v
	case "#optimistic-req":
		b.Optimistic = v
	case "waiting-image-req":
		b.WaitingImage = v
	case "est. decode TFLOPS/s (per GPU)":
		b.DecodeTFLOPS = v
	case "est. prefill TFLOPS/s (per GPU)":
		b.PrefillTFLOPS = v
	case "est. read BW (GB/s per GPU)":
		b.ReadGBs = v
	case "est. write BW (GB/s per GPU)":
		b.WriteGBs = v
	case "fwd occupancy":
		b.Occupancy = v
	default:
		b.keys--
	}
}
