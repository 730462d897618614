package sglang

import (
	"bytes"

	"github.com/runvigil/runvigil/metrics"
)

// hold keeps a record until its next line shows whether it goes on there.
func (p *Parser) hold(msg []byte, h head, args bool) {
	if p.heldN == 0 {
		p.heldLine = p.line
		p.prevLen = p.width
	}
	p.prev = p.prev[:0]
	p.heldN++
	p.held = append(p.held[:0], msg...)
	p.heldHead, p.heldArgs = h, args
}

// release gives the held record as it is.
func (p *Parser) release() {
	if p.heldN == 0 {
		return
	}
	msg := p.held
	p.heldN = maxArgs // whatever is missing stays missing
	line := p.line
	p.line = p.heldLine
	p.message(msg, p.heldHead)
	p.line = line
	p.heldN = 0
	p.held = p.held[:0]
}

// continued tries a line without a prefix as the rest of the held record.
func (p *Parser) continued(b []byte) bool {
	if p.heldN == 0 {
		return p.corrected(b)
	}
	if len(p.held)+len(b) > metrics.MaxLine || !p.heldArgs && (p.heldN >= maxHeld || !goesOn(p.held, b)) {
		p.release()
		return false
	}
	msg := append(p.held, b...)
	p.held = msg
	n := p.heldN
	line := p.line
	p.line = p.heldLine
	p.message(msg, p.heldHead)
	p.line = line
	if !p.heldArgs {
		p.foldAt = p.prevLen
	}
	if p.heldN == n { // it was whole
		p.heldN = 0
		p.held = p.held[:0]
	}
	return true
}

// corrected gives a batch record again whose end turns out to stand on the next
// line, although it looked whole: folded inside its last number or before a
// last key. It has the same line number as the one it replaces.
func (p *Parser) corrected(b []byte) bool {
	if len(p.prev) == 0 || len(p.prev)+len(b) > metrics.MaxLine || !goesOn(p.prev, b) {
		return false
	}
	p.foldAt = p.prevLen
	line, width := p.line, p.prevLen
	p.line = p.prevLine
	p.heldN = 1 // it is not held again for its width
	p.message(append(p.prev, b...), p.prevHead)
	if p.heldN == 1 {
		p.heldN = 0
	}
	p.line, p.prevLen = line, width
	return true
}

// goesOn tells whether a line can be the rest of a batch record: the end of its
// last number, or text that completes a key or adds one. Longer runs of numbers
// are token ids, and a line with batch words is a record of its own.
func goesOn(record, b []byte) bool {
	if len(b) > 512 || bytes.Contains(b, []byte("batch")) {
		return false
	}
	if bytes.IndexByte(b, ':') >= 0 {
		return keysOf(append(record[:len(record):len(record)], b...)) > keysOf(record)
	}
	b = bytes.Trim(b, ", ")
	for _, c := range b {
		if !digit(c) && c != '.' {
			return false
		}
	}
	return len(b) > 0 && len(b) <= 12
}

func keysOf(record []byte) int {
	body, decode, ok := batchBody(record)
	if !ok {
		return 0
	}
	var b Batch
	parseBatch(&b, body, decode)
	return b.keys
}
