package probe

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func TestSplitter(t *testing.T) {
	in := "noise without end\n@n0 READY 7 1\npay\x00load\nline\n@n1 E 9 9\n@n0 S\nsecond\n@n0 E 1 0\n\n@n0 E 2 127\nrest"
	for size := 1; size <= len(in); size++ {
		sp := newSplitter("n0")
		var got []string
		for at := 0; at < len(in); at += size {
			ps, err := sp.write([]byte(in[at:min(len(in), at+size)]))
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range ps {
				got = append(got, fmt.Sprintf("%q %v", p.data, p.words))
			}
		}
		want := []string{
			`"noise without end" [READY 7 1]`,
			`"pay\x00load\nline\n@n1 E 9 9\n@n0 S\nsecond" [E 1 0]`,
			`"" [E 2 127]`,
		}
		if strings.Join(got, "|") != strings.Join(want, "|") || string(sp.rest()) != "rest" {
			t.Fatalf("in pieces of %d: %v, rest %q", size, got, sp.rest())
		}
	}
	if ps := parts("n0", []byte("a\n@n0 S\nb\n@n0 S\n")); len(ps) != 3 || string(ps[1]) != "b" {
		t.Errorf("parts %q", ps)
	}
}

func TestSplitterHasACap(t *testing.T) {
	sp := newSplitter("n0")
	block := bytes.Repeat([]byte("x"), 64<<10)
	for i := range 17 {
		if _, err := sp.write(block); (err != nil) != (i == 16) {
			t.Fatalf("after %d kB: %v", 64*(i+1), err)
		}
	}
	sp = newSplitter("n0")
	if _, err := sp.write([]byte("\n@n0 " + strings.Repeat("y", 300))); err == nil {
		t.Error("a marker without an end is not noticed")
	}
}

// Whatever a payload holds and however it is cut, it comes out as it went in.
func FuzzSplitter(f *testing.F) {
	f.Add([]byte("plain"), uint8(3))
	f.Add([]byte("\n@"), uint8(1))
	f.Add([]byte("a\n@0123456789abcde"), uint8(7))
	f.Add([]byte("\x00\n\n@0123456789abcdef"), uint8(2))
	f.Fuzz(func(t *testing.T, payload []byte, step uint8) {
		const nonce = "0123456789abcdef"
		mark := []byte("\n@" + nonce + " ")
		in := append(append(bytes.Clone(payload), mark...), "E 5 0\n"...)
		if bytes.Contains(in[:len(in)-len(mark)-6+len(mark)-1], mark) || len(in) > maxAnswer {
			return // the payload guesses the nonce
		}
		sp := newSplitter(nonce)
		var got []piece
		for at := 0; at < len(in); at += int(step) + 1 {
			ps, err := sp.write(in[at:min(len(in), at+int(step)+1)])
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, ps...)
		}
		if len(got) != 1 || !bytes.Equal(got[0].data, payload) || strings.Join(got[0].words, " ") != "E 5 0" || len(sp.rest()) != 0 {
			t.Errorf("%q came out as %v, rest %q", payload, got, sp.rest())
		}
	})
}

func BenchmarkSplitter(b *testing.B) {
	answer := append(bytes.Repeat([]byte("a line of a log, as long as they are\n"), 7000), "\n@0123456789abcdef E 5 0\n"...)
	b.SetBytes(int64(len(answer)))
	for b.Loop() {
		sp := newSplitter("0123456789abcdef")
		for at := 0; at < len(answer); at += 32 << 10 {
			if _, err := sp.write(answer[at:min(len(answer), at+32<<10)]); err != nil {
				b.Fatal(err)
			}
		}
	}
}
