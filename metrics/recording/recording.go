// Package recording writes frames to a stream and reads them back.
//
// A recording is the line "runvigil-recording 1", then one zstd stream of
// records. A record is, in this order: the length of the rest as a uvarint;
// kind and name, each a uvarint length and bytes; the receive time and the
// node's time as varints of unix nanoseconds (0: none); and the payload up to
// the end. A recording that ends in the middle of a record, as after a sudden
// death, is read up to there.
package recording

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/runvigil/runvigil/metrics"
)

// Version is the format that Writer writes and Reader accepts.
const Version = 1

const magic = "runvigil-recording "

// maxRecord bounds one record, so that a damaged length does not exhaust memory.
const maxRecord = 16 << 20

// ErrTorn says that the recording ends in the middle of a record.
var ErrTorn = errors.New("the recording ends in the middle of a record; everything before was read")

// Writer writes frames. It is not safe for concurrent use.
type Writer struct {
	z   *zstd.Encoder
	buf []byte
}

// NewWriter begins a recording on w.
func NewWriter(w io.Writer) (*Writer, error) {
	if _, err := fmt.Fprintf(w, "%s%d\n", magic, Version); err != nil {
		return nil, fmt.Errorf("begin recording: %w", err)
	}
	z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	if err != nil {
		return nil, fmt.Errorf("begin recording: %w", err)
	}
	return &Writer{z: z}, nil
}

// Write appends one frame. A tick also flushes, so that at most a second is
// lost when the program dies.
func (w *Writer) Write(f metrics.Frame) error {
	b := w.buf[:0]
	b = appendString(b, string(f.Kind))
	b = appendString(b, f.Name)
	b = binary.AppendVarint(b, nanos(f.At))
	b = binary.AppendVarint(b, nanos(f.Node))
	b = append(b, f.Data...)
	w.buf = b
	var head [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(head[:], uint64(len(b)))
	if _, err := w.z.Write(head[:n]); err != nil {
		return fmt.Errorf("write recording: %w", err)
	}
	if _, err := w.z.Write(b); err != nil {
		return fmt.Errorf("write recording: %w", err)
	}
	if f.Kind == metrics.KindTick {
		if err := w.z.Flush(); err != nil {
			return fmt.Errorf("write recording: %w", err)
		}
	}
	return nil
}

// Close ends the recording. It does not close the underlying writer.
func (w *Writer) Close() error {
	if err := w.z.Close(); err != nil {
		return fmt.Errorf("end recording: %w", err)
	}
	return nil
}

// Reader reads frames.
type Reader struct {
	z *zstd.Decoder
	r *bufio.Reader
}

// NewReader opens a recording.
func NewReader(r io.Reader) (*Reader, error) {
	br := bufio.NewReader(r)
	line, err := br.ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("open recording: %w", err)
	}
	var version int
	if n, _ := fmt.Sscanf(line, magic+"%d\n", &version); n != 1 {
		return nil, errors.New("open recording: this is no runvigil recording (make one with `runvigil record NODE -o FILE`)")
	}
	if version != Version {
		return nil, fmt.Errorf("open recording: format %d, this runvigil reads format %d", version, Version)
	}
	z, err := zstd.NewReader(br, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(64<<20))
	if err != nil {
		return nil, fmt.Errorf("open recording: %w", err)
	}
	return &Reader{z: z, r: bufio.NewReaderSize(z, 64<<10)}, nil
}

// Next gives the next frame, io.EOF after the last one, and ErrTorn where the
// stream breaks off.
func (r *Reader) Next() (metrics.Frame, error) {
	size, err := binary.ReadUvarint(r.r)
	if errors.Is(err, io.EOF) {
		return metrics.Frame{}, io.EOF
	}
	if err != nil {
		return metrics.Frame{}, torn(err)
	}
	if size > maxRecord {
		return metrics.Frame{}, fmt.Errorf("read recording: a record of %d bytes is damaged", size)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(r.r, b); err != nil {
		return metrics.Frame{}, torn(err)
	}
	kind, b, ok1 := cutString(b)
	name, b, ok2 := cutString(b)
	at, n := binary.Varint(b)
	if !ok1 || !ok2 || n <= 0 {
		return metrics.Frame{}, errors.New("read recording: a record is damaged")
	}
	b = b[n:]
	node, n := binary.Varint(b)
	if n <= 0 {
		return metrics.Frame{}, errors.New("read recording: a record is damaged")
	}
	f := metrics.Frame{Kind: metrics.Kind(kind), Name: name, At: fromNanos(at), Node: fromNanos(node)}
	if len(b) > n {
		f.Data = b[n:]
	}
	return f, nil
}

// Close releases the decoder.
func (r *Reader) Close() { r.z.Close() }

func torn(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrTorn
	}
	return fmt.Errorf("read recording: %w", err)
}

func appendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func cutString(b []byte) (string, []byte, bool) {
	n, w := binary.Uvarint(b)
	if w <= 0 || n > uint64(len(b)-w) {
		return "", nil, false
	}
	end := w + int(n)
	return string(b[w:end]), b[end:], true
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func fromNanos(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n)
}
