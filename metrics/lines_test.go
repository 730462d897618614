package metrics

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func cutInto(chunks ...[]byte) (pieces []string, lines int64) {
	var c LineCutter
	take := func(line int64, b []byte) { pieces = append(pieces, fmt.Sprintf("%d %s", line, b)) }
	for _, b := range chunks {
		c.Feed(b, take)
	}
	c.Flush(take)
	c.Flush(take)
	return pieces, c.Lines
}

func TestLineCutter(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		want     []string
		lines    int64
	}{
		{"lines", "a\nb\n", []string{"1 a", "2 b"}, 2},
		{"empty lines count", "\n\na\n", []string{"3 a"}, 3},
		{"DOS", "a\r\nb\r\n", []string{"1 a", "2 b"}, 2},
		{"a bar", "\r 1%\r 2%\r 3%\nnext\n", []string{"1  1%", "1  2%", "1  3%", "2 next"}, 2},
		{"no newline at the end", "a\nb", []string{"1 a", "2 b"}, 1},
		{"nothing", "", nil, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for step := 1; step <= len(tc.in)+1; step++ {
				var chunks [][]byte
				for at := 0; at < len(tc.in); at += step {
					chunks = append(chunks, []byte(tc.in[at:min(at+step, len(tc.in))]))
				}
				got, lines := cutInto(chunks...)
				if diff := cmp.Diff(tc.want, got); diff != "" || lines != tc.lines {
					t.Fatalf("chunks of %d: %d lines, want %d (-want +got):\n%s", step, lines, tc.lines, diff)
				}
			}
		})
	}
}

// A bar is told at its carriage return, not when its line ends an hour later.
func TestLineCutterTellsABarAtOnce(t *testing.T) {
	var c LineCutter
	var got []string
	c.Feed([]byte("a\n\rLoading: 40%\r"), func(_ int64, b []byte) { got = append(got, string(b)) })
	if diff := cmp.Diff([]string{"a", "Loading: 40%"}, got); diff != "" {
		t.Error(diff)
	}
	c.Feed([]byte("half"), nil)
	c.Drop()
	c.Feed([]byte("new\n"), func(_ int64, b []byte) { got = append(got, string(b)) })
	if got[len(got)-1] != "new" {
		t.Errorf("after a gap: %q", got)
	}
}

// A line of any length keeps its start and its end, in bounded memory, however
// it is cut into chunks.
func TestLineCutterBoundsALine(t *testing.T) {
	long := append(bytes.Repeat([]byte("x"), 3<<20), "THE END\n"...)
	copy(long, "THE START")
	for _, step := range []int{1 << 10, 60_000, 1 << 20, len(long)} {
		var c LineCutter
		for at := 0; at < len(long); at += step {
			c.Feed(long[at:min(at+step, len(long))], func(_ int64, b []byte) {
				if len(b) != MaxLine+MaxTail || !bytes.HasPrefix(b, []byte("THE START")) || !bytes.HasSuffix(b, []byte("THE END")) {
					t.Errorf("chunks of %d: %d bytes, %.9q to %q", step, len(b), b, b[len(b)-7:])
				}
			})
			if n := cap(c.partial) + cap(c.tail); n > 8*(MaxLine+MaxTail) && step < MaxLine {
				t.Fatalf("%d bytes are held", n)
			}
		}
	}
}

func FuzzLineCutter(f *testing.F) {
	f.Add([]byte("a\r\nb\rc\n\n\rd"), uint64(1))
	f.Fuzz(func(t *testing.T, text []byte, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		var chunks [][]byte
		for rest := text; len(rest) > 0; {
			n := 1 + r.IntN(len(rest))
			chunks, rest = append(chunks, rest[:n]), rest[n:]
		}
		got, lines := cutInto(chunks...)
		whole, all := cutInto(text)
		if diff := cmp.Diff(whole, got); diff != "" || lines != all || int(all) != bytes.Count(text, []byte("\n")) {
			t.Fatalf("chunks change what is cut (%d, %d lines):\n%s", lines, all, diff)
		}
		if strings.ContainsAny(strings.Join(got, ""), "\r\n") {
			t.Fatal("a piece holds the end of a line")
		}
	})
}
