package jsonl

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/runvigil/runvigil/metrics"
)

// File is what a whole JSONL file says.
type File struct {
	Rows       int64 // lines that hold something, without a torn last one
	Invalid    int64
	Empty      int64
	Errors     int64
	Truncated  int64
	Finished   int64 // rows that tell why they ended
	Duplicates int64 // rows whose (id, sample), or whole text where they have no id, came before; of the first MaxIDs
	Glued      int64 // invalid lines that hold a whole row and the start of another
	Oversize   int64 // rows over MaxRow bytes: counted, not judged
	NULs       int64 // NUL bytes
	Bytes      int64
	Torn       bool   // the file ends inside a row
	FinalNL    bool   // the last byte is a newline
	LastID     string // id of the last whole row, cleaned
	InTokens   bool   // unit of Median and P95
	Median     int    // output length, -1 unknown; over a sample of the file's rows
	P95        int
	Indented   bool // indented JSON, not one row a line
}

// Bounds of reading a whole file.
const (
	MaxRow = 16 << 20
	MaxIDs = 4 << 20
	// Lengths are kept of every row until there are this many, then of every second and so on.
	maxLengths = 1 << 16
)

// Read reads a JSONL file to its end in bounded memory. On a read error it
// gives what it had learnt until then.
func Read(in io.Reader) (File, error) {
	br := bufio.NewReaderSize(in, 1<<20)
	out := File{Median: -1, P95: -1}
	f := facts{byLine: true}
	seen := make(map[uint64]struct{})
	keep := sampler{every: 1}
	var line []byte
	for {
		part, err := br.ReadSlice('\n')
		out.Bytes += int64(len(part))
		out.NULs += int64(bytes.Count(part, []byte{0}))
		if len(line)+len(part) <= MaxRow {
			line = append(line, part...)
		} else {
			line = append(line[:0], oversize...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if n := len(part); n > 0 {
			out.FinalNL = part[n-1] == '\n'
		}
		if len(line) > 0 {
			out.take(&f, line, seen, &keep)
		}
		line = line[:0]
		if err == io.EOF {
			break
		}
		if err != nil {
			out.finish(&f, &keep)
			return out, fmt.Errorf("reading rows after %d bytes: %w", out.Bytes, err)
		}
	}
	out.finish(&f, &keep)
	return out, nil
}

// oversize stands for a row that was too long to keep.
const oversize = "\x00oversize"

func (out *File) take(f *facts, line []byte, seen map[uint64]struct{}, keep *sampler) {
	if bytes.HasPrefix(line, []byte(oversize)) {
		out.Oversize++
		return
	}
	f.line(line)
	for _, h := range f.j.Hashes {
		if _, dup := seen[h]; dup {
			out.Duplicates++
		} else if len(seen) < MaxIDs {
			seen[h] = struct{}{}
		}
	}
	f.j.Hashes = f.j.Hashes[:0]
	for i, t := range f.tokens {
		keep.add(t, f.runes[i])
	}
	f.tokens, f.runes = f.tokens[:0], f.runes[:0]
	if f.lastID != nil {
		out.LastID = metrics.Clean(string(bytes.Trim(f.lastID, `"`)), 80)
		f.lastID = nil
	}
}

func (out *File) finish(f *facts, keep *sampler) {
	j := f.j
	out.Indented = j.Invalid > 0 && j.Invalid == j.Rows && f.pretty*2 > j.Rows
	out.Rows, out.Invalid, out.Empty = int64(j.Rows)+out.Oversize, int64(j.Invalid), int64(j.Empty)
	out.Errors, out.Truncated, out.Finished = int64(j.Errors), int64(j.Truncated), int64(j.Finished)
	out.Torn, out.Glued = f.torn, int64(f.glued)
	lengths := keep.runes
	if len(keep.tokens) > 0 && keep.told == len(keep.tokens) {
		out.InTokens = true
		lengths = keep.tokens
	}
	if len(lengths) > 0 {
		slices.Sort(lengths)
		out.Median, out.P95 = lengths[len(lengths)/2], lengths[len(lengths)*95/100]
	}
}

// sampler keeps every n-th length, n doubling as the file grows.
type sampler struct {
	tokens, runes []int
	told          int
	n, every      int
}

func (s *sampler) add(tokens, runes int) {
	s.n++
	if s.n%s.every != 0 {
		return
	}
	if len(s.tokens) >= maxLengths {
		s.tokens, s.runes = half(s.tokens), half(s.runes)
		s.told = 0
		for _, t := range s.tokens {
			if t >= 0 {
				s.told++
			}
		}
		s.every *= 2
	}
	s.tokens, s.runes = append(s.tokens, tokens), append(s.runes, runes)
	if tokens >= 0 {
		s.told++
	}
}

func half(v []int) []int {
	for i := range len(v) / 2 {
		v[i] = v[2*i]
	}
	return v[:len(v)/2]
}
