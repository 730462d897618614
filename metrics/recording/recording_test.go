package recording

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/runvigil/runvigil/metrics"
)

func frames() []metrics.Frame {
	t0 := time.Unix(1_772_000_000, 123_456_789)
	return []metrics.Frame{
		{Kind: metrics.KindSession, Name: "gpu7", At: t0, Node: t0.Add(-time.Hour), Data: []byte(`{"node":"gpu7"}`)},
		{Kind: metrics.KindTick, At: t0.Add(time.Second)},
		{Kind: metrics.KindLog, Name: "/data/logs/a b.log", At: t0.Add(2 * time.Second), Data: []byte("{}\nline\x00\xff\n")},
	}
}

func write(t *testing.T, fs []metrics.Frame) []byte {
	t.Helper()
	var buf bytes.Buffer
	w, err := NewWriter(&buf)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fs {
		if err := w.Write(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func read(data []byte) ([]metrics.Frame, error) {
	r, err := NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var out []metrics.Frame
	for {
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, f)
	}
}

func TestRoundTrip(t *testing.T) {
	got, err := read(write(t, frames()))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(frames(), got); d != "" {
		t.Errorf("frames changed (-want +got):\n%s", d)
	}
}

// A recording cut anywhere gives a prefix of its frames, and an error unless
// the cut fell between two records.
func TestCutAnywhere(t *testing.T) {
	whole := write(t, frames())
	for n := len("runvigil-recording 1\n"); n < len(whole); n++ {
		got, err := read(whole[:n])
		if len(got) == len(frames()) {
			continue // only the end mark of the stream is missing
		}
		if err == nil && len(got) != 0 {
			// A flush after the tick is a sound place to stop.
			if got[len(got)-1].Kind != metrics.KindTick {
				t.Errorf("cut at %d: %d frames and no error", n, len(got))
			}
		}
		if d := cmp.Diff(frames()[:len(got)], got, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("cut at %d:\n%s", n, d)
		}
	}
}

// A tick reaches the stream at once, without Close.
func TestTickFlushes(t *testing.T) {
	var buf bytes.Buffer
	w, err := NewWriter(&buf)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range frames()[:2] {
		if err := w.Write(f); err != nil {
			t.Fatal(err)
		}
	}
	got, err := read(buf.Bytes())
	if len(got) != 2 {
		t.Errorf("%d frames after a sudden death, want 2 (error %v)", len(got), err)
	}
}

func TestNotARecording(t *testing.T) {
	for in, want := range map[string]string{
		"":                        "no runvigil recording",
		"hello\n":                 "no runvigil recording",
		"runvigil-recording 99\n": "format 99",
	} {
		if _, err := NewReader(strings.NewReader(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", in, err, want)
		}
	}
}

func FuzzReader(f *testing.F) {
	var buf bytes.Buffer
	w, err := NewWriter(&buf)
	if err != nil {
		f.Fatal(err)
	}
	for _, fr := range frames() {
		if err := w.Write(fr); err != nil {
			f.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(buf.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		fs, _ := read(data)
		for _, fr := range fs {
			_ = fmt.Sprint(fr.Kind, fr.Name)
		}
	})
}
