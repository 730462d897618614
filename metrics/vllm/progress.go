package vllm

import (
	"bytes"

	"github.com/runvigil/runvigil/metrics"
)

// bar reads a progress bar anywhere in b:
// "Label:  25%|██   | 1/4 [00:01<00:03,  1.02s/it]", or with "Completed" in
// place of the picture. Bars without a total say nothing and are none.
func (p *Parser) bar(b []byte, h head) bool {
	i := bytes.Index(b, []byte("%|"))
	gap := 2
	if i < 0 {
		if i = bytes.Index(b, []byte("% Completed |")); i < 0 {
			return false
		}
	} else if j := bytes.IndexByte(b[i+2:], '|'); j >= 0 {
		gap = j + 3
	} else {
		return false
	}
	rest := b[i+gap:]
	if gap == 2 {
		rest = b[i+len("% Completed |"):]
	}
	rest = bytes.TrimLeft(rest, " ")
	done, n := integer(rest)
	if n == 0 || n >= len(rest) || rest[n] != '/' {
		return false
	}
	total, m := integer(rest[n+1:])
	rest = rest[n+1+m:]
	if m == 0 || done > total || total > 1<<40 {
		return false
	}
	label := b[:i]
	for len(label) > 0 && (digit(label[len(label)-1]) || label[len(label)-1] == ' ') {
		label = label[:len(label)-1]
	}
	label = bytes.TrimSuffix(label, []byte(":"))
	p.progress = Progress{Label: metrics.Clean(string(label), 100), Done: int(done), Total: int(total)}
	if t := bytes.IndexByte(rest, '['); t >= 0 {
		times(&p.progress, rest[t+1:])
	}
	p.begin(KindProgress, h).Progress = &p.progress
	p.emit(&p.ev)
	return true
}

// times reads "06:30:02<94:35:10,  1.37it/s".
func times(pr *Progress, b []byte) {
	var n int
	pr.Elapsed, n = clock(b)
	if n < len(b) && b[n] == '<' {
		b = b[n+1:]
		pr.Left, n = clock(b)
	}
	if n >= len(b) || b[n] != ',' {
		return
	}
	b = bytes.TrimLeft(b[n+1:], " ")
	v, k := float(b)
	switch {
	case k == 0 || v != v || v <= 0:
	case bytes.HasPrefix(b[k:], []byte("s/")):
		pr.Rate = num(1 / v)
	case bytes.Contains(b[k:min(len(b), k+12)], []byte("/s")):
		pr.Rate = num(v)
	}
}

// clock reads [[h:]mm:]ss; hours may pass 24, and "?" is unknown.
func clock(b []byte) (t Num, n int) {
	if len(b) > 0 && b[0] == '?' {
		return Num{}, 1
	}
	total := int64(0)
	for {
		v, k := integer(b[n:])
		if k == 0 {
			return Num{}, n
		}
		total = total*60 + v
		n += k
		if n >= len(b) || b[n] != ':' {
			return num(float64(total)), n
		}
		n++
	}
}
