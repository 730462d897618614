package metrics

import "bytes"

// Bounds of what a LineCutter keeps of one piece, in bytes.
const (
	MaxLine = 64 << 10
	MaxTail = 2 << 10 // the end of a longer one, where a watchdog's dump has its figures
)

// LineCutter cuts the bytes of a log, which come in chunks of any size, into
// lines, and a line at the carriage returns of progress bars, each as soon as it
// is whole. Memory is bounded whatever comes: of a piece longer than MaxLine the
// start and the last MaxTail bytes are kept. The zero LineCutter is ready.
type LineCutter struct {
	// Lines is how many newlines came up to here. Set it first where a file is
	// not read from its start.
	Lines int64

	partial []byte
	tail    []byte // end of a piece longer than MaxLine
}

// Feed takes the next bytes and hands each piece that is not empty to take, with
// the number of its line from 1. The bytes hold only during the call.
func (c *LineCutter) Feed(chunk []byte, take func(line int64, piece []byte)) {
	for len(chunk) > 0 {
		end := bytes.IndexByte(chunk, '\n')
		part := chunk
		if end >= 0 {
			part = chunk[:end]
		}
		for {
			cr := bytes.IndexByte(part, '\r')
			if cr < 0 {
				break
			}
			c.cut(part[:cr], take)
			part = part[cr+1:]
		}
		if end < 0 {
			c.keep(part)
			return
		}
		c.cut(part, take)
		c.Lines++
		chunk = chunk[end+1:]
	}
}

// Flush hands over a last line that has no newline.
func (c *LineCutter) Flush(take func(line int64, piece []byte)) { c.cut(nil, take) }

// Drop forgets a line in progress, after a gap in the bytes.
func (c *LineCutter) Drop() { c.partial, c.tail = c.partial[:0], c.tail[:0] }

func (c *LineCutter) cut(b []byte, take func(line int64, piece []byte)) {
	switch {
	case len(c.partial) > 0:
		c.keep(b)
		b = append(c.partial, c.tail...)
		c.partial, c.tail = b[:0], c.tail[:0]
	case len(b) > MaxLine+MaxTail:
		b = append(append(make([]byte, 0, MaxLine+MaxTail), b[:MaxLine]...), b[len(b)-MaxTail:]...)
	}
	if len(b) > 0 {
		take(c.Lines+1, b)
	}
}

func (c *LineCutter) keep(b []byte) {
	if room := MaxLine - len(c.partial); len(b) > room {
		over := b[room:]
		b = b[:room]
		c.tail = append(c.tail, over[max(0, len(over)-MaxTail):]...)
		if len(c.tail) > MaxTail {
			c.tail = append(c.tail[:0], c.tail[len(c.tail)-MaxTail:]...)
		}
	}
	c.partial = append(c.partial, b...)
}
