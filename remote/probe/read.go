package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

const (
	pageMost    = 512 << 10
	rowMost     = 512 << 10
	searchSlice = 32 << 20
	lineMost    = 16 << 10 // bytes of one line on screen

	// A slice of a search takes about searchPace: so long other reads wait.
	searchPace           = 250 * time.Millisecond
	searchMin, searchMax = 1 << 20, 256 << 20
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
	if off < 0 {
		size, err := p.sizeOf(ctx, path)
		if err != nil {
			return Page{}, err
		}
		off = max(0, size+off)
	}
	// One byte before the piece tells whether a line begins with it.
	n = max(0, min(n, pageMost))
	from, read := off, n
	if off > 0 {
		from, read = off-1, n+1
	}
	size, data, err := p.sizeAnd(ctx, path, fmt.Sprintf("rd %d %d %s", from, read, quote(path)))
	if err != nil {
		return Page{}, err
	}
	off = min(off, size)
	page := Page{Offset: off, End: off, Size: size}
	if min(n, size-off) <= 0 {
		return page, nil
	}
	if len(data) == 0 {
		return page, unreadable(path)
	}
	if off > 0 {
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

// LogSearch is what SearchLog looks for.
type LogSearch struct {
	Words []string // plain texts of one line; a line with any of them fits
	Fold  bool     // the case of ASCII letters does not count
	From  int64    // offset
	Newer bool     // forward from From on; else backwards, before it
}

// SearchLog finds the nearest line that fits and gives its offset. It returns
// ErrNotFound at the end of the file, or at its beginning; it reads in slices
// whose size follows the node's speed, so that other reads go on between them,
// and can be interrupted by ctx at any time.
func (p *Probe) SearchLog(ctx context.Context, path string, s LogSearch) (int64, error) {
	for _, w := range s.Words {
		if w == "" || strings.ContainsAny(w, "\n\x00") {
			return 0, fmt.Errorf("search %s: the text to look for must be one line", path)
		}
	}
	size, err := p.sizeOf(ctx, path)
	if err != nil {
		return 0, err
	}
	vars := "A=$(printf %b " + quote(escape(strings.Join(s.Words, "\n"))) + ");"
	if s.Fold {
		vars += "X=-i;"
	}
	if s.Newer {
		vars += "H=head;"
	}
	from, slice := max(0, min(s.From, size)), int64(searchSlice)
	for {
		lo, hi := max(0, from-slice), from
		if s.Newer {
			lo, hi = from, min(size, from+slice)
		}
		if lo >= hi {
			return 0, ErrNotFound
		}
		// One byte before the slice tells whether a line begins with it, and a
		// little behind it completes the last line.
		begin := max(0, lo-1)
		begun := time.Now()
		a, err := p.files.callFor(ctx, fmt.Sprintf("%sgr %d %d %s;H=;X=", vars, begin, min(hi+anchorOverlap, size)-begin, quote(path)), sliceLimit)
		if err != nil {
			return 0, fmt.Errorf("search %s: %w", path, err)
		}
		best := int64(-1)
		for _, word := range strings.Fields(string(a.data)) {
			at := number(word) + begin
			if at < lo || at >= hi || at == begin && begin > 0 {
				continue
			}
			if !s.Newer || best < 0 {
				best = at
			}
		}
		if best >= 0 {
			return best, nil
		}
		from = lo
		if s.Newer {
			from = hi
		}
		switch took := time.Since(begun); {
		case took < searchPace/2:
			slice = min(2*slice, searchMax)
		case took > 2*searchPace:
			slice = max(slice/2, searchMin)
		}
	}
}

// Row is the last whole row of a file.
type Row struct {
	Text  string // masked and cleaned; only the start of a row of more than 512 KiB
	Bytes int64  // of the row in the file, without its end
	Torn  bool   // a further row has begun and is not ended
}

// NewestRow reads the last complete row of a file. It returns ErrNotFound where
// there is none, and an error for one of more than 64 MiB.
func (p *Probe) NewestRow(ctx context.Context, path string) (Row, error) {
	size, err := p.sizeOf(ctx, path)
	if err != nil {
		return Row{}, err
	}
	for n := int64(16 << 10); ; n *= 4 {
		n = min(n, rowMost, size)
		data, err := p.bytesOf(ctx, path, size-n, n)
		if err != nil {
			return Row{}, err
		}
		torn := !bytes.HasSuffix(data, []byte("\n"))
		if end := bytes.LastIndexByte(data, '\n'); end >= 0 {
			body := bytes.TrimRight(data[:end], "\r\n")
			start := bytes.LastIndexByte(body, '\n') + 1
			if len(body) > start && (start > 0 || n == size) {
				return rowOf(body[start:], int64(len(body)-start), torn), nil
			}
		}
		switch n {
		case size:
			return Row{}, fmt.Errorf("newest row of %s: %w", path, ErrNotFound)
		case rowMost:
			return p.longRow(ctx, path, size, torn)
		}
	}
}

func rowOf(text []byte, n int64, torn bool) Row {
	return Row{Text: metrics.Clean(metrics.Mask(string(text)), rowMost), Bytes: n, Torn: torn}
}

// longRow finds where a row begins that is too long to be read as a whole.
func (p *Probe) longRow(ctx context.Context, path string, end int64, torn bool) (Row, error) {
	if torn {
		n, err := p.lastLine(ctx, path, end)
		if err != nil {
			return Row{}, err
		}
		if end -= n; end == 0 {
			return Row{}, fmt.Errorf("newest row of %s: %w: its first row is not ended", path, ErrNotFound)
		}
	}
	n, err := p.lastLine(ctx, path, end)
	if err != nil {
		return Row{}, err
	}
	data, err := p.bytesOf(ctx, path, end-n, min(n, rowMost))
	if err != nil {
		return Row{}, err
	}
	return rowOf(bytes.TrimRight(data, "\r\n"), n-1, torn), nil
}

// lastLine gives the length of the last line before end, its newline included.
func (p *Probe) lastLine(ctx context.Context, path string, end int64) (int64, error) {
	for n := int64(1 << 20); ; n *= 8 {
		n = min(n, end)
		a, err := p.files.callFor(ctx, fmt.Sprintf("rdm %d %d %s | tail -n 1 | wc -c", end-n, n, quote(path)), sliceLimit)
		if err != nil {
			return 0, fmt.Errorf("newest row of %s: %w", path, err)
		}
		if got := number(strings.TrimSpace(string(a.data))); got < n || n == end {
			return got, nil
		}
		if n >= 64<<20 {
			return 0, fmt.Errorf("newest row of %s: it is longer than 64 MiB", path)
		}
	}
}

func (p *Probe) sizeOf(ctx context.Context, path string) (int64, error) {
	size, _, err := p.sizeAnd(ctx, path, "")
	return size, err
}

// sizeAnd gives a file's size and, in the same request, what more code prints.
func (p *Probe) sizeAnd(ctx context.Context, path, code string) (int64, []byte, error) {
	if !sendable(path) {
		return 0, nil, fmt.Errorf("read %q: the path cannot be sent to the node", path)
	}
	a, err := p.files.call(ctx, "stat -L -c '%d:%i %s %Y %f %n' -- "+quote(path)+" 2>&1;s;"+code)
	if err != nil {
		return 0, nil, fmt.Errorf("read %s: %w", path, err)
	}
	ps := append(a.parts(), nil)
	st, ok := parseStatLine(strings.TrimRight(string(ps[0]), "\n"))
	if !ok {
		reason := statError([]string{string(ps[0])}, path)
		if reason == "" {
			reason = "no such file"
		}
		return 0, nil, fmt.Errorf("read %s: %s", path, reason)
	}
	if st.Dir {
		return 0, nil, fmt.Errorf("read %s: is a directory", path)
	}
	if st.Err != "" {
		return 0, nil, fmt.Errorf("read %s: %s", path, st.Err)
	}
	return st.Size, ps[1], nil
}

func unreadable(path string) error {
	return fmt.Errorf("read %s: nothing came; it may not be readable for this user", path)
}

func (p *Probe) bytesOf(ctx context.Context, path string, off, n int64) ([]byte, error) {
	a, err := p.files.call(ctx, fmt.Sprintf("rd %d %d %s", off, n, quote(path)))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(a.data) == 0 && n > 0 {
		return nil, unreadable(path)
	}
	return a.data, nil
}
