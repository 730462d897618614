package sglang

import (
	"bytes"
	"time"
)

// trimBorder takes the frame and the padding of a terminal dashboard off a line.
func trimBorder(b []byte) []byte {
	bar := []byte("│")
	left, right := bytes.HasPrefix(b, bar), bytes.HasSuffix(b, bar)
	if !left && !right {
		return b
	}
	if left {
		b = b[len(bar):]
		b = b[space(b):]
	}
	if right {
		b = bytes.TrimSuffix(b, bar)
	}
	return bytes.TrimRight(b, " ")
}

// stripOuter removes what log collectors put before a line: severity words, RFC
// 3339 stamps (noted in p.outer), CRI streams, compose and kubectl names,
// journald and Ray prefixes.
func (p *Parser) stripOuter(b []byte) []byte {
	for range 5 {
		n := p.outerLen(b)
		if n == 0 {
			return b
		}
		b = b[n:]
	}
	return b
}

func (p *Parser) outerLen(b []byte) int {
	if len(b) < 3 {
		return 0
	}
	switch c := b[0]; {
	case c == ' ' || c == '\t':
		return 0
	case c == '>' && b[1] == ' ':
		return 2 // quoted in a report
	case c == '(':
		// (Actor pid=…, ip=…)
		if end := bytes.IndexByte(b[:min(len(b), 160)], ')'); end > 0 && bytes.Contains(b[:end], []byte("pid=")) {
			p.rayPID = int(after(b[:end], "pid=").V)
			return end + 1 + space(b[end+1:])
		}
	case c == '[':
		// "[36m", a colour whose escape character was lost in a copy.
		for n := 1; n < len(b) && n < 10; n++ {
			if b[n] == 'm' && n > 1 {
				return n + 1 + space(b[n+1:])
			}
			if !digit(b[n]) && b[n] != ';' {
				break
			}
		}
		// "[rank1]: " of torch, but not "[rank1]:[E…" of NCCL, which is read whole.
		if bytes.HasPrefix(b, []byte("[rank")) {
			if v, n := parseNum(b, len("[rank")); v.Known && v.V < 1<<14 && bytes.HasPrefix(b[n:], []byte("]: ")) {
				p.outerRank.Global = int16(v.V)
				return n + 3
			}
		}
		if bytes.HasPrefix(b, []byte("[pod/")) || bytes.HasPrefix(b, []byte("[container/")) {
			if end := bytes.IndexByte(b[:min(len(b), 300)], ']'); end > 0 {
				return end + 1 + space(b[end+1:])
			}
		}
	case digit(c):
		if n := p.rfc3339(b); n > 0 {
			return n
		}
	case c >= 'A' && c <= 'Z':
		if n := severityLen(b); n > 0 {
			return n
		}
		if n := journaldLen(b); n > 0 {
			return n
		}
	}
	if bytes.HasPrefix(b, []byte("stderr ")) || bytes.HasPrefix(b, []byte("stdout ")) {
		n := len("stderr ")
		if len(b) > n+1 && (b[n] == 'F' || b[n] == 'P') && b[n+1] == ' ' {
			n += 2
		}
		return n
	}
	return composeLen(b)
}

// space is the length of the one space that ends a prefix; what follows belongs
// to the line, whose indent tells a traceback's frames.
func space(b []byte) int {
	if len(b) > 0 && b[0] == ' ' {
		return 1
	}
	return 0
}

func spaces(b []byte) int {
	n := 0
	for n < len(b) && b[n] == ' ' {
		n++
	}
	return n
}

// rfc3339 reads a stamp with a zone at the start of the line.
func (p *Parser) rfc3339(b []byte) int {
	if len(b) < 20 || b[4] != '-' || b[10] != 'T' {
		return 0
	}
	end := bytes.IndexByte(b[:min(len(b), 40)], ' ')
	if end < 0 {
		return 0
	}
	t, err := time.Parse(time.RFC3339Nano, string(b[:end]))
	if err != nil {
		t, err = time.Parse("2006-01-02T15:04:05.999999999Z0700", string(b[:end])) // journalctl's short-iso
	}
	if err != nil {
		return 0
	}
	if p.outer.IsZero() {
		p.outer = t
	}
	return end + 1 + unitLen(b[end+1:])
}

// unitLen measures journald's "host unit[pid]: ".
func unitLen(b []byte) int {
	end := bytes.Index(b[:min(len(b), 120)], []byte("]: "))
	if end < 0 {
		return 0
	}
	open := bytes.LastIndexByte(b[:end], '[')
	if open <= 0 || bytes.Count(b[:open], []byte{' '}) != 1 {
		return 0
	}
	for _, c := range b[open+1 : end] {
		if !digit(c) {
			return 0
		}
	}
	return end + 3
}

// severityLen measures the severity that a cloud export puts before its stamp.
func severityLen(b []byte) int {
	end := bytes.IndexByte(b[:min(len(b), 12)], ' ')
	if end < 3 || len(b) < end+12 {
		return 0
	}
	for _, c := range b[:end] {
		if c < 'A' || c > 'Z' {
			return 0
		}
	}
	next := end + spaces(b[end:])
	// Only before a full date: "ERROR 2025-04-05T…"; vLLM's lines have none.
	if len(b) > next+11 && digit(b[next]) && b[next+4] == '-' && b[next+10] == 'T' {
		return next
	}
	return 0
}

// journaldLen measures "Sep 23 00:10:42 host unit[pid]: ".
func journaldLen(b []byte) int {
	if len(b) < 20 || b[3] != ' ' || b[6] != ' ' || b[9] != ':' || b[12] != ':' || b[15] != ' ' {
		return 0
	}
	if !bytes.Contains([]byte("JanFebMarAprMayJunJulAugSepOctNovDec"), b[:3]) {
		return 0
	}
	end := bytes.Index(b[:min(len(b), 160)], []byte(": "))
	if end < 16 {
		return 0
	}
	return end + 2
}

// composeLen measures "name-1  | " and srun's "3: ".
func composeLen(b []byte) int {
	i := 0
	for i < len(b) && i < 64 && (letter(b[i]) || digit(b[i]) || b[i] == '-' || b[i] == '_' || b[i] == '.') {
		i++
	}
	if i == 0 || i >= len(b) {
		return 0
	}
	if b[i] == ':' && i <= 4 && i+1 < len(b) && b[i+1] == ' ' {
		for _, c := range b[:i] {
			if !digit(c) {
				return 0
			}
		}
		return i + 2
	}
	n := spaces(b[i:])
	if n > 0 && bytes.HasPrefix(b[i+n:], []byte("| ")) && !digit(b[0]) {
		return i + n + 2
	}
	return 0
}
