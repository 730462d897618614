package explain

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/runvigil/runvigil/metrics/jsonl"
)

const (
	// window is how much of a file is held at once. A log of any length streams
	// through it; of other kinds the beginning and the end are read.
	window = 32 << 20
	// sniffBytes of the beginning, and of the window's end, tell the kind.
	sniffBytes = 128 << 10
	chunkBytes = 256 << 10
)

// ErrUnknown says that the bytes are of no kind that is known.
var ErrUnknown = errors.New("the kind of this file was not recognised; name it with --kind")

// Read tells what a captured file says. kind overrides what would be recognised.
// With an error there is a report all the same: of what was read before the
// error, or, for ErrUnknown, one that knows nothing. Memory is bounded.
func Read(in io.Reader, kind Kind) (*Report, error) {
	head := make([]byte, 0, 64<<10)
	buf := bytes.NewBuffer(head)
	n, err := io.Copy(buf, io.LimitReader(in, window))
	if err != nil {
		err = fmt.Errorf("reading after %d bytes: %w", n, err)
	}
	data := buf.Bytes()
	rest := in
	if n < window || err != nil {
		rest = nil
	}
	data = plain(data)
	r := newReport()
	if rest == nil {
		data, kind = r.asWritten(data, kind)
	} else {
		kind = orKind(kind, data)
	}
	var more error
	switch kind {
	case KindAuto:
		if err == nil {
			err = ErrUnknown
		}
		return r, err
	case KindServerLog, KindSGLang, KindVLLM:
		more = r.serverLog(data, rest, kind)
	case KindKernel:
		more = r.kernelLog(data, rest)
	case KindClient:
		more = r.clientLog(data, rest)
	case KindRows:
		whole := io.Reader(bytes.NewReader(data))
		if rest != nil {
			whole = io.MultiReader(whole, rest)
		}
		more = r.jsonRows(whole)
	default:
		var skipped int64
		data, skipped, more = ends(data, rest)
		if skipped > 0 {
			r.note(fmt.Sprintf("%d bytes in the middle were not read", skipped))
		}
		switch kind {
		case KindGPU:
			r.gpu(data)
		case KindMetrics:
			r.metrics(data)
		case KindInfo:
			r.info(data)
		case KindLoads:
			r.loads(data)
		case KindKube:
			r.kube(data)
		}
	}
	switch kind {
	case KindSGLang, KindVLLM:
		kind = KindServerLog
	}
	name := string(kind)
	r.Kind = &name
	r.detect()
	r.conclude()
	return r, errors.Join(err, more)
}

// asWritten undoes what a copy did to a file: quote marks, colours, a
// collector's records and prefixes, folds; and tells what kind it is. Folds are
// undone for logs only (those of tables and rows have a meaning of their own),
// and only where more can be read afterwards.
func (r *Report) asWritten(data []byte, named Kind) ([]byte, Kind) {
	data = unquote(data)
	kind := orKind(named, data)
	if isCollected(data) && !serverKind(kind) {
		out := unpacked(data)
		if is := orKind(named, out); is != KindAuto {
			data, kind = out, is
		}
	}
	if !serverKind(kind) {
		if bare := stripped(data, collectors); len(bare) != len(data) {
			if is := orKind(named, bare); is != KindAuto && (kind == is || kind == KindAuto) {
				data, kind = bare, is
			}
		}
	}
	if !serverKind(kind) && kind != KindClient && kind != KindAuto {
		return data, kind
	}
	out, first, sure := unfold(data)
	if first == nil {
		return data, kind
	}
	is := orKind(named, out)
	if !serverKind(is) && is != KindClient {
		return data, kind
	}
	if a, b := reads(data), reads(out); b <= a && (!sure || 10*b < 7*a) {
		return data, kind
	}
	r.first = first
	return out, is
}

func serverKind(k Kind) bool { return k == KindServerLog || k == KindSGLang || k == KindVLLM }

// orKind is the kind that was named, else the one that is recognised.
func orKind(kind Kind, data []byte) Kind {
	if kind != KindAuto {
		return kind
	}
	return Recognise(sample(data))
}

// lineNo is the number in the file of a line of what was read.
func (r *Report) lineNo(n int64) int64 {
	if n > 0 && n <= int64(len(r.first)) {
		return r.first[n-1]
	}
	return n
}

// plain turns UTF-16, as PowerShell's redirection writes it, into UTF-8.
func plain(data []byte) []byte {
	little := bytes.HasPrefix(data, []byte{0xff, 0xfe})
	if !little && !bytes.HasPrefix(data, []byte{0xfe, 0xff}) {
		return data
	}
	return fromUTF16(data[2:], little)
}

// sample is the beginning of a file and, of a longer one, the end of the window.
func sample(data []byte) []byte {
	if len(data) <= 2*sniffBytes {
		return data
	}
	end := data[len(data)-sniffBytes:]
	if i := bytes.IndexByte(end, '\n'); i >= 0 {
		end = end[i+1:]
	}
	return append(append(make([]byte, 0, 2*sniffBytes), data[:sniffBytes]...), end...)
}

// ends keeps the beginning and the end of a file that is longer than the window.
func ends(data []byte, rest io.Reader) (out []byte, skipped int64, err error) {
	if rest == nil {
		return data, 0, nil
	}
	head := data[:sniffBytes]
	tail := append([]byte(nil), data[sniffBytes:]...)
	buf := make([]byte, chunkBytes)
	for {
		n, err := rest.Read(buf)
		tail = append(tail, buf[:n]...)
		if over := len(tail) - window; over > window/2 {
			skipped += int64(over)
			tail = append(tail[:0], tail[over:]...)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return append(head, tail...), skipped, err
		}
	}
	if i := bytes.IndexByte(tail, '\n'); skipped > 0 && i >= 0 {
		skipped += int64(i + 1)
		tail = tail[i+1:]
	}
	if skipped == 0 {
		return append(head, tail...), 0, nil
	}
	return append(append(append([]byte(nil), head...), '\n'), tail...), skipped, nil
}

// stream feeds the window and whatever follows it.
func stream(data []byte, rest io.Reader, feed func([]byte)) error {
	for len(data) > 0 {
		n := min(len(data), chunkBytes)
		feed(data[:n])
		data = data[n:]
	}
	if rest == nil {
		return nil
	}
	buf := make([]byte, chunkBytes)
	for {
		n, err := rest.Read(buf)
		if n > 0 {
			feed(buf[:n])
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading: %w", err)
		}
	}
}

// reversed gives the lines of a file in the opposite order.
func reversed(data []byte) []byte {
	lines := bytes.Split(bytes.TrimSuffix(data, []byte{'\n'}), []byte{'\n'})
	out := make([]byte, 0, len(data)+1)
	for i := len(lines) - 1; i >= 0; i-- {
		out = append(append(out, lines[i]...), '\n')
	}
	return out
}

func countLines(data []byte) int64 {
	n := int64(bytes.Count(data, []byte{'\n'}))
	if len(data) > 0 && data[len(data)-1] != '\n' {
		n++
	}
	return n
}

func (r *Report) jsonRows(in io.Reader) error {
	f, err := jsonl.Read(in)
	r.rows(&f)
	return err
}
