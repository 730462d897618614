package sglang

import (
	"bytes"
	"time"
)

// OldestFirst turns a log that was exported newest first around, line by line;
// reversed tells whether it did. Line n of the result is then line
// lines+1-n of the file. The direction is taken from the stamps that lines
// begin with, a collector's before the log's own.
func OldestFirst(data []byte) (out []byte, reversed bool) {
	forward, backward := 0, 0
	var last time.Time
	var p Parser
	for rest := data; len(rest) > 0 && forward+backward < 2000; {
		line, after, _ := bytes.Cut(rest, []byte{'\n'})
		rest = after
		p.outer = time.Time{}
		text := p.stripOuter(line)
		at := p.outer
		if at.IsZero() {
			h, _, ok := parseHead(text)
			if !ok || !h.at.Date {
				continue
			}
			at = time.Unix(h.at.Sec, int64(h.at.Nano))
		}
		if !last.IsZero() {
			if at.Before(last) {
				backward++
			} else if at.After(last) {
				forward++
			}
		}
		last = at
	}
	if backward <= 2*forward || backward < 2 {
		return data, false
	}
	lines := bytes.Split(bytes.TrimSuffix(data, []byte{'\n'}), []byte{'\n'})
	out = make([]byte, 0, len(data)+1)
	for i := len(lines) - 1; i >= 0; i-- {
		out = append(append(out, lines[i]...), '\n')
	}
	return out, true
}
