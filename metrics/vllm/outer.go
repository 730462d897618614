package vllm

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"
)

// wrappedJSON takes a line of JSON objects that carry log text in a field, as
// docker's json-file driver and cloud exports write them.
func (p *Parser) wrappedJSON(b []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(b))
	found := false
	for dec.More() {
		var rec struct {
			Log     *string `json:"log"`
			Message *string `json:"message"`
			Msg     *string `json:"msg"`
			Payload *string `json:"textPayload"`
			Time    string  `json:"time"`
			Stamp   string  `json:"timestamp"`
		}
		if dec.Decode(&rec) != nil {
			break
		}
		var text string
		for _, t := range []*string{rec.Log, rec.Payload, rec.Message, rec.Msg} {
			if t != nil {
				text = *t
				break
			}
		}
		if text == "" {
			continue
		}
		found = true
		for _, s := range []string{rec.Time, rec.Stamp} {
			if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
				p.around = t
				break
			}
		}
		for piece := range bytes.FieldsFuncSeq([]byte(text), func(r rune) bool { return r == '\n' || r == '\r' }) {
			if piece[0] != '{' { // else a request logged as JSON
				p.piece(piece)
			}
		}
		p.around = time.Time{}
	}
	return found
}

// outerLen measures what a log collector put before a line: an RFC 3339 stamp,
// severities, CRI streams, names of compose, kubectl, CI and journald.
func (p *Parser) outerLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch c := b[0]; {
	case c == '|' && b[1] == ' ':
		return 2
	case c == '[':
		end := bytes.IndexByte(b[:min(len(b), 120)], ']')
		if end < 0 || end+1 >= len(b) || b[end+1] != ' ' && b[end+1] != ':' {
			return 0
		}
		in := b[1:end]
		if t, err := time.Parse(time.RFC3339Nano, string(in)); err == nil {
			p.outer = t
			return end + 2
		}
		if bytes.HasPrefix(in, []byte("rank")) { // torch's own; what follows is text
			return end + 2
		}
		if bytes.IndexByte(in, ' ') < 0 && letter(in) && b[end+1] == ' ' && (bytes.IndexByte(in, '-') > 0 || bytes.IndexByte(in, '/') > 0) {
			return end + 2 // a container's name
		}
	case digit(c):
		if len(b) > 20 && b[4] == '-' && b[10] == 'T' {
			end := bytes.IndexByte(b[:min(len(b), 40)], ' ')
			if end < 0 {
				return 0
			}
			if t, err := time.Parse(time.RFC3339Nano, string(b[:end])); err == nil {
				if p.outer.IsZero() {
					p.outer = t
				}
				return end + 1
			}
		}
	case c >= 'A' && c <= 'Z':
		if n := p.journald(b); n > 0 {
			return n
		}
		// A cloud export's severity, which stands before a full date.
		if n := bytes.IndexByte(b[:min(len(b), 10)], ' '); n > 2 && len(b) > n+12 && digit(b[n+1]) && b[n+5] == '-' && b[n+11] == 'T' {
			return n + 1
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

func letter(b []byte) bool {
	return len(b) > 0 && (b[0] >= 'a' && b[0] <= 'z' || b[0] >= 'A' && b[0] <= 'Z')
}

// journald measures "Sep 23 00:10:42 host unit[pid]: " and notes the pid, which
// tells two processes of one unit apart.
func (p *Parser) journald(b []byte) int {
	if len(b) < 20 || b[3] != ' ' || b[6] != ' ' || b[9] != ':' || b[12] != ':' || b[15] != ' ' ||
		!bytes.Contains([]byte("JanFebMarAprMayJunJulAugSepOctNovDec"), b[:3]) {
		return 0
	}
	end := bytes.Index(b[:min(len(b), 160)], []byte(": "))
	if end < 16 {
		return 0
	}
	if i := bytes.LastIndexByte(b[:end], '['); i > 0 && b[end-1] == ']' {
		if pid, err := strconv.Atoi(string(b[i+1 : end-1])); err == nil && pid > 0 {
			p.outPI = pid
		}
	}
	return end + 2
}

// composeLen measures "name-1  | ".
func composeLen(b []byte) int {
	i := 0
	for i < len(b) && i < 64 && (digit(b[i]) || letter(b[i:]) || b[i] == '-' || b[i] == '_' || b[i] == '.') {
		i++
	}
	j := i
	for j < len(b) && b[j] == ' ' {
		j++
	}
	if i > 0 && j > i && j+1 < len(b) && b[j] == '|' && b[j+1] == ' ' && !digit(b[0]) {
		return j + 2
	}
	return 0
}
