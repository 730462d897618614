package metrics

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFramePayloads(t *testing.T) {
	want := Session{Node: "gpu7", BootID: "b", Now: base, UptimeS: 12.5, Tools: map[string]string{"curl": "/usr/bin/curl"}}
	f := JSONFrame(KindSession, "", base, want)
	got, err := Decode[Session](f)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	f.Data = []byte("{")
	if _, err := Decode[Session](f); err == nil || !strings.Contains(err.Error(), "session") {
		t.Errorf("error %v does not name the kind", err)
	}
}

func TestChunks(t *testing.T) {
	raw := []byte("one\ntwo\n\x00\xff")
	data := EncodeChunk(LogHeader{ID: "8:1", Offset: 5, End: 17, Lines: -1}, raw)
	h, got, err := DecodeChunk[LogHeader](data)
	if err != nil || !bytes.Equal(got, raw) || h.Offset != 5 || h.End != 17 || h.Lines != -1 {
		t.Errorf("header %+v, raw %q, error %v", h, got, err)
	}
	for _, bad := range []string{"", "no header", "{\n", "[]\nx"} {
		if _, _, err := DecodeChunk[LogHeader]([]byte(bad)); err == nil {
			t.Errorf("%q was taken as a chunk", bad)
		}
	}
	empty := EncodeChunk(HTTPHeader{Port: 8000}, nil)
	if h, raw, err := DecodeChunk[HTTPHeader](empty); err != nil || h.Port != 8000 || len(raw) != 0 {
		t.Errorf("empty body: %+v %q %v", h, raw, err)
	}
}

func FuzzDecodeChunk(f *testing.F) {
	f.Add(EncodeChunk(LogHeader{ID: "8:1", End: 3}, []byte("ab\n")))
	f.Add([]byte("{}\n"))
	f.Add([]byte("\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, raw, err := DecodeChunk[LogHeader](data)
		if err == nil && !bytes.HasSuffix(data, raw) {
			t.Errorf("raw %q is no suffix of %q", raw, data)
		}
	})
}
