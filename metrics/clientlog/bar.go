package clientlog

import (
	"bytes"

	"github.com/runvigil/runvigil/metrics"
)

// Bar is a progress bar, or a line that counts like one.
type Bar struct {
	Label string // text before the bar, cleaned; tells phases apart
	Done  int64
	Total int64 // 0 unknown
	// PerSecond is the bar's own rate in items a second, 0 unknown.
	PerSecond float64
	// Elapsed and Remaining in seconds, -1 unknown.
	Elapsed, Remaining float64
	Line               int64

	restarts int // how often it began anew: a bar inside another one
	updates  int
	first    int64 // line of its first update
}

// Complete tells whether the bar has reached its total.
func (b Bar) Complete() bool { return b.Total > 0 && b.Done >= b.Total }

// parseBar reads tqdm's bars with and without a total:
// "label:  6%|██  | 32110/500150 [6:30:02<94:35:10,  1.37it/s, loss=2.6]" and
// "label: 12it [00:03, 4.5it/s]".
func parseBar(b []byte) (bar Bar, ok bool) {
	bar.Elapsed, bar.Remaining = -1, -1
	open := bytes.LastIndexByte(b, '[')
	if open < 2 {
		return bar, false
	}
	inside := b[open+1:]
	if end := bytes.IndexByte(inside, ']'); end >= 0 {
		inside = inside[:end]
	}
	if len(inside) == 0 || inside[0] < '0' || inside[0] > '9' {
		return bar, false
	}
	count := bytes.TrimRight(b[:open], " ")
	var label []byte
	if pct := bytes.IndexByte(b[:open], '%'); pct > 0 {
		pipe := bytes.LastIndexByte(count, '|')
		if pipe < pct {
			return bar, false
		}
		label = bytes.TrimRight(b[:pct], "0123456789. ")
		done, total, found := bytes.Cut(bytes.TrimSpace(count[pipe+1:]), []byte{'/'})
		if !found {
			return bar, false
		}
		d, okD := scaled(done)
		t, okT := scaled(total)
		if !okD || !okT || t <= 0 || d < 0 {
			return bar, false
		}
		bar.Done, bar.Total = d, t
	} else {
		word := count[bytes.LastIndexAny(count, " :")+1:]
		n, unit := leadingNumber(word)
		if gap := len(count) - len(word) - 1; n < 0 && gap > 0 && count[gap] == ' ' {
			// "10000 examples": the unit stands apart
			word = count[bytes.LastIndexAny(count[:gap], " :")+1:]
			if n, unit = leadingNumber(word); unit != "" && unit[0] != ' ' {
				n = -1
			}
		}
		if n < 0 || unit == "" || !bytes.Contains(inside, []byte("/s")) && !bytes.Contains(inside, []byte("s/")) {
			return bar, false
		}
		bar.Done, label = n, count[:len(count)-len(word)]
	}
	bar.Label = metrics.Clean(string(bytes.Trim(label, " :|")), 120)
	times, rate, _ := bytes.Cut(inside, []byte{','})
	elapsed, remaining, _ := bytes.Cut(times, []byte{'<'})
	bar.Elapsed, bar.Remaining = clock(elapsed), clock(remaining)
	bar.PerSecond = perSecond(bytes.TrimSpace(rate))
	return bar, true
}

// scaled reads a count that may have a unit prefix: 450, 1.2k, 88.0M.
func scaled(b []byte) (int64, bool) {
	b = bytes.TrimSpace(b)
	whole, frac, scale, digits := int64(0), int64(0), int64(1), 0
	i := 0
	for ; i < len(b) && b[i] >= '0' && b[i] <= '9' && digits < 15; i++ {
		whole = whole*10 + int64(b[i]-'0')
		digits++
	}
	if digits == 0 {
		return 0, false
	}
	if i < len(b) && b[i] == '.' {
		for i++; i < len(b) && b[i] >= '0' && b[i] <= '9' && scale < 1e6; i++ {
			frac = frac*10 + int64(b[i]-'0')
			scale *= 10
		}
	}
	factor := int64(1)
	if i < len(b) {
		switch b[i] {
		case 'k', 'K':
			factor = 1e3
		case 'M':
			factor = 1e6
		case 'G':
			factor = 1e9
		}
	}
	if whole > 1e15/factor {
		return 0, false
	}
	return whole*factor + frac*factor/scale, true
}

// leadingNumber splits "12it" into 12 and "it"; n is -1 without a number.
func leadingNumber(b []byte) (n int64, unit string) {
	i := 0
	for i < len(b) && b[i] >= '0' && b[i] <= '9' && i < 15 {
		n = n*10 + int64(b[i]-'0')
		i++
	}
	if i == 0 {
		return -1, ""
	}
	return n, string(b[i:])
}

// clock reads mm:ss, h:mm:ss or "2 days, 1:02:03" in seconds, -1 for none.
func clock(b []byte) float64 {
	b = bytes.TrimSpace(b)
	if len(b) == 0 || b[0] < '0' || b[0] > '9' {
		return -1
	}
	total := 0.0
	for part := range bytes.SplitSeq(b, []byte{':'}) {
		n, unit := leadingNumber(part)
		if n < 0 || unit != "" {
			return -1
		}
		total = total*60 + float64(n)
	}
	return total
}

// perSecond reads "1.37it/s" or "2.44s/it".
func perSecond(b []byte) float64 {
	var mantissa, scale float64 = 0, 1
	i, digits := 0, 0
	dot := false
	for ; i < len(b) && (b[i] >= '0' && b[i] <= '9' || b[i] == '.' && !dot); i++ {
		if b[i] == '.' {
			dot = true
			continue
		}
		mantissa = mantissa*10 + float64(b[i]-'0')
		if dot {
			scale *= 10
		}
		digits++
	}
	if digits == 0 || digits > 15 {
		return 0
	}
	v := mantissa / scale
	if i+1 < len(b) {
		switch b[i] {
		case 'k', 'K':
			v *= 1e3
		case 'M':
			v *= 1e6
		case 'G':
			v *= 1e9
		}
	}
	switch rest := b[i:]; {
	case bytes.HasPrefix(rest, []byte("s/")):
		if v > 0 {
			return 1 / v
		}
		return 0
	case bytes.Contains(rest[:min(len(rest), 16)], []byte("/s")):
		return v
	}
	return 0
}

// countWords are what a line that counts "N/M" or "N of M" says it counts.
var countWords = [][]byte{
	[]byte("rogress"), []byte("rocessed"), []byte("rocessing"), []byte("ompleted"), []byte("inished"), []byte("aved"), []byte("enerated"),
	[]byte("samples"), []byte("rows"), []byte("prompts"), []byte("requests"), []byte("items"), []byte("done"), []byte("Done"),
}

// notCounts are words of lines whose "2/10" is no progress.
var notCounts = [][]byte{
	[]byte("etry"), []byte("etries"), []byte("ttempt"), []byte("ackoff"), []byte("rror"), []byte("xception"), []byte("http"), []byte("GPU"), []byte("rank"), []byte("shard"),
}

// parseCount reads "Processed 450/1000 samples" and "450 of 1000 done".
func parseCount(b []byte) (bar Bar, ok bool) {
	bar.Elapsed, bar.Remaining = -1, -1
	if len(b) > 400 || !containsAny(b, countWords) || containsAny(b, notCounts) {
		return bar, false
	}
	for i := 0; i < len(b); i++ {
		if b[i] < '0' || b[i] > '9' || i > 0 && (word(b[i-1]) || b[i-1] == '.' || b[i-1] == '/' || b[i-1] == '-') {
			continue
		}
		done, end := groupedNumber(b, i)
		gap := end
		switch {
		case gap < len(b) && b[gap] == '/':
			gap++
		case bytes.HasPrefix(b[gap:], []byte(" / ")):
			gap += 3
		case bytes.HasPrefix(b[gap:], []byte(" of ")):
			gap += 4
		default:
			i = end
			continue
		}
		if gap >= len(b) || b[gap] < '0' || b[gap] > '9' {
			i = end
			continue
		}
		total, after := groupedNumber(b, gap)
		if after < len(b) && (b[after] == '/' || b[after] == '-' || word(b[after])) || total < done || total < 2 {
			i = after
			continue
		}
		bar.Done, bar.Total = done, total
		bar.Label = metrics.Clean(string(bytes.Trim(b[:i], " :[(")), 120)
		return bar, true
	}
	return bar, false
}

func word(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
}

// groupedNumber reads digits with optional thousands commas from b[i].
func groupedNumber(b []byte, i int) (n int64, end int) {
	start := i
	for i < len(b) && i-start < 18 {
		if b[i] >= '0' && b[i] <= '9' {
			n = n*10 + int64(b[i]-'0')
			i++
			continue
		}
		if b[i] == ',' && i+3 < len(b) && word(b[i+1]) && word(b[i+2]) && word(b[i+3]) && b[i+1] <= '9' && (i+4 >= len(b) || b[i+4] < '0' || b[i+4] > '9') {
			i++
			continue
		}
		break
	}
	return n, i
}

func containsAny(b []byte, words [][]byte) bool {
	for _, w := range words {
		if bytes.Contains(b, w) {
			return true
		}
	}
	return false
}
