package probe

import (
	"bytes"
	"errors"
	"strings"
)

// maxAnswer bounds one answer of a shell, in bytes.
const maxAnswer = 1 << 20

var errTooLong = errors.New("the answer is longer than 1 MiB")

// piece is what stood before one marker, and the marker's words.
type piece struct {
	data  []byte
	words []string // START, READY pid ppid, E id rc
}

// splitter cuts a shell's output at its markers: a newline, "@", the nonce, a
// space, words, a newline. Payloads may hold anything else, also NUL bytes and
// lines without an end.
type splitter struct {
	mark    []byte
	buf     []byte
	scanned int // buf[:scanned] holds no beginning of a marker
}

func newSplitter(nonce string) *splitter {
	return &splitter{mark: []byte("\n@" + nonce + " ")}
}

// write takes output and gives the pieces that it completes; "S" markers stay
// in the payload, see parts.
func (s *splitter) write(p []byte) ([]piece, error) {
	s.buf = append(s.buf, p...)
	var out []piece
	from := 0
	for {
		at := bytes.Index(s.buf[from+s.scanned:], s.mark)
		if at < 0 {
			s.scanned = max(0, len(s.buf)-from-len(s.mark)+1)
			break
		}
		at += from + s.scanned
		body := at + len(s.mark)
		end := bytes.IndexByte(s.buf[body:], '\n')
		if end < 0 {
			s.scanned = at - from
			if len(s.buf)-body > 256 {
				return out, errTooLong
			}
			break
		}
		words := strings.Fields(string(s.buf[body : body+end]))
		if len(words) == 0 || words[0] == "S" {
			s.scanned = body - from
			continue
		}
		out = append(out, piece{data: bytes.Clone(s.buf[from:at]), words: words})
		from, s.scanned = body+end+1, 0
	}
	s.buf = append(s.buf[:0], s.buf[from:]...)
	if len(s.buf) > maxAnswer {
		return out, errTooLong
	}
	return out, nil
}

// rest is what came since the last marker.
func (s *splitter) rest() []byte { return s.buf }

// parts splits an answer at its "S" markers.
func parts(nonce string, data []byte) [][]byte {
	return bytes.Split(data, []byte("\n@"+nonce+" S\n"))
}
