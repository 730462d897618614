package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/runvigil/runvigil/metrics"
)

const (
	pageMost    = 512 << 10
	rowMost     = 512 << 10
	searchSlice = 32 << 20
	lineMost    = 16 << 10 // bytes of one line on screen
)

// ErrNotFound means that a search has reached the file's end, or its beginning.
var ErrNotFound = errors.New("not found")

// Page is a piece of a file for the screen: whole lines, masked and cleaned.
type Page struct {
	Offset, End, Size int64 // of the first byte, behind the last, of the file
	Lines             []string
	Offsets           []int64 // of each line's first byte in the file
}

// LogSlice reads at most n bytes (512 KiB at most) of a file from an offset;
// a negative one counts from the end. The piece is narrowed to whole lines, so
// End is where the next begins.
func (p *Probe) LogSlice(ctx context.Context, path string, off, n int64) (Page, error) {
	size, err := p.sizeOf(ctx, path)
	if err != nil {
		return Page{}, err
	}
	if off < 0 {
		off = max(0, size+off)
	}
	off = min(off, size)
	n = max(0, min(n, pageMost, size-off))
	page := Page{Offset: off, End: off, Size: size}
	if n == 0 {
		return page, nil
	}
	from, read := off, n
	if off > 0 {
		from, read = off-1, n+1
	}
	data, err := p.bytesOf(ctx, path, from, read)
	if err != nil {
		return page, err
	}
	if off > 0 && len(data) > 0 {
		if i := bytes.IndexByte(data, '\n'); i >= 0 {
			page.Offset = from + int64(i) + 1
			data = data[i+1:]
		} else {
			page.Offset = off
			data = data[1:]
		}
	}
	page.End = page.Offset + int64(len(data))
	if i := bytes.LastIndexByte(data, '\n'); i >= 0 && page.End < size {
		data = data[:i+1]
		page.End = page.Offset + int64(i) + 1
	}
	at := page.Offset
	for line := range bytes.Lines(data) {
		page.Lines = append(page.Lines, screenLine(line))
		page.Offsets = append(page.Offsets, at)
		at += int64(len(line))
	}
	return page, nil
}

func screenLine(line []byte) string {
	line = bytes.TrimRight(line, "\r\n")
	if i := bytes.LastIndexByte(line, '\r'); i >= 0 {
		line = line[i+1:]
	}
	return metrics.Clean(metrics.Mask(string(line[:min(len(line), 2*lineMost)])), lineMost)
}

// SearchLog finds the next line that holds pattern (plain text) and gives its
// offset: forward from an offset, or backwards before it where dir is negative.
// It returns ErrNotFound at the end of the file; it reads in slices and can be
// interrupted by ctx at any time.
func (p *Probe) SearchLog(ctx context.Context, path, pattern string, from int64, dir int) (int64, error) {
	if pattern == "" || strings.ContainsAny(pattern, "\n\x00") {
		return 0, fmt.Errorf("search %s: the text to look for must be one line", path)
	}
	size, err := p.sizeOf(ctx, path)
	if err != nil {
		return 0, err
	}
	from = max(0, min(from, size))
	for {
		lo, hi := from, min(size, from+searchSlice)
		if dir < 0 {
			lo, hi = max(0, from-searchSlice), from
		}
		if lo >= hi {
			return 0, ErrNotFound
		}
		// One byte before the slice tells whether a line begins with it, and a
		// little behind it completes the last line.
		begin := max(0, lo-1)
		first := "head"
		if dir < 0 {
			first = "tail"
		}
		code := fmt.Sprintf("H=%s;A=%s;gr %d %d %s;H=", first, quote(pattern), begin, min(hi+anchorOverlap, size)-begin, quote(path))
		a, err := p.files.callFor(ctx, code, sliceLimit)
		if err != nil {
			return 0, fmt.Errorf("search %s: %w", path, err)
		}
		best := int64(-1)
		for _, word := range strings.Fields(string(a.data)) {
			at := number(word) + begin
			if at < lo || at >= hi || at == begin && begin > 0 {
				continue
			}
			if dir < 0 || best < 0 {
				best = at
			}
		}
		if best >= 0 {
			return best, nil
		}
		if dir < 0 {
			from = lo
		} else {
			from = hi
		}
	}
}

// NewestRow reads the last complete row of a file, masked and cleaned. It
// returns ErrNotFound where there is none, and an error for a row of more than
// 512 KiB.
func (p *Probe) NewestRow(ctx context.Context, path string) (string, error) {
	size, err := p.sizeOf(ctx, path)
	if err != nil {
		return "", err
	}
	for n := int64(16 << 10); ; n *= 4 {
		n = min(n, rowMost, size)
		data, err := p.bytesOf(ctx, path, size-n, n)
		if err != nil {
			return "", err
		}
		end := bytes.LastIndexByte(data, '\n')
		if end >= 0 {
			body := bytes.TrimRight(data[:end], "\r\n")
			start := bytes.LastIndexByte(body, '\n') + 1
			if len(body) > start && (start > 0 || n == size) {
				return metrics.Clean(metrics.Mask(string(body[start:])), rowMost), nil
			}
		}
		switch n {
		case size:
			return "", fmt.Errorf("newest row of %s: %w", path, ErrNotFound)
		case rowMost:
			return "", fmt.Errorf("newest row of %s: the row is longer than 512 KiB", path)
		}
	}
}

func (p *Probe) sizeOf(ctx context.Context, path string) (int64, error) {
	if !sendable(path) {
		return 0, fmt.Errorf("read %q: the path cannot be sent to the node", path)
	}
	a, err := p.files.call(ctx, "stat -L -c '%d:%i %s %Y %f %n' -- "+quote(path)+" 2>&1")
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", path, err)
	}
	st, ok := parseStatLine(strings.TrimRight(string(a.data), "\n"))
	if !ok {
		reason := statError([]string{string(a.data)}, path)
		if reason == "" {
			reason = "no such file"
		}
		return 0, fmt.Errorf("read %s: %s", path, reason)
	}
	if st.Dir {
		return 0, fmt.Errorf("read %s: is a directory", path)
	}
	if st.Err != "" {
		return 0, fmt.Errorf("read %s: %s", path, st.Err)
	}
	return st.Size, nil
}

func (p *Probe) bytesOf(ctx context.Context, path string, off, n int64) ([]byte, error) {
	a, err := p.files.call(ctx, fmt.Sprintf("rd %d %d %s", off, n, quote(path)))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(a.data) == 0 && n > 0 {
		return nil, fmt.Errorf("read %s: nothing came; it may not be readable for this user", path)
	}
	return a.data, nil
}
