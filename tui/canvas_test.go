package tui

import (
	"strings"
	"testing"

	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"
)

func TestPutClips(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"abc", "abc···"},
		{"abcdefghij", "abcdef"},
		{"漢字漢字", "漢字漢"},
		{"a漢字漢字", "a漢字·"},
		{"e\u0301tude", "e\u0301tude·"},
		{"a\x1b[31mb", "a[31mb"},
		{"a\u009bb\x00\x7f", "ab····"},
		{"👨\u200d👩\u200d👧x", ""},
		{"ok\xff!", ""},
	} {
		cv := newCanvas(10, 3, false)
		for i := range cv.cells {
			cv.cells[i].s = "·"
		}
		cv.area(Rect{2, 1, 6, 1}).put(0, 0, c.in, stText)
		rows := strings.Split(ansi.Strip(cv.render(newTheme(true, colorprofile.TrueColor))), "\n")
		if rows[0] != strings.Repeat("·", 10) || rows[2] != rows[0] || !strings.HasPrefix(rows[1], "··") || !strings.HasSuffix(rows[1], "··") {
			t.Errorf("%q left its area:\n%s", c.in, strings.Join(rows, "\n"))
		}
		if w := ansi.StringWidth(rows[1]); w != 10 {
			t.Errorf("%q makes a row of %d cells: %q", c.in, w, rows[1])
		}
		if c.want != "" && strings.TrimSuffix(strings.TrimPrefix(rows[1], "··"), "··") != c.want {
			t.Errorf("%q drawn as %q, want %q", c.in, rows[1], c.want)
		}
	}
}

// A wide character that is drawn over in part leaves no half behind.
func TestPutOverWide(t *testing.T) {
	for x := range 6 {
		cv := newCanvas(8, 1, false)
		a := cv.area(Rect{0, 0, 8, 1})
		a.put(1, 0, "漢字漢", stText)
		a.put(x, 0, "z", stText)
		row := ansi.Strip(cv.render(newTheme(true, colorprofile.TrueColor)))
		if ansi.StringWidth(row) != 8 {
			t.Errorf("z at %d: %q", x, row)
		}
		cv = newCanvas(8, 1, false)
		a = cv.area(Rect{0, 0, 8, 1})
		a.put(1, 0, "漢字漢", stText)
		a.put(x, 0, "字", stText)
		if row := ansi.Strip(cv.render(newTheme(true, colorprofile.TrueColor))); ansi.StringWidth(row) != 8 {
			t.Errorf("字 at %d: %q", x, row)
		}
	}
}

func FuzzPut(f *testing.F) {
	for _, s := range []string{"abc", "漢字", "e\u0301", "\x1b]0;x\a", "👨\u200d👩", "\u202e", "\xff\xfe", "🇩🇪🇩", "\u1100\u1161"} {
		f.Add(s, 3)
	}
	th := newTheme(true, colorprofile.TrueColor)
	f.Fuzz(func(t *testing.T, s string, x int) {
		for _, ascii := range []bool{false, true} {
			cv := newCanvas(12, 1, ascii)
			cv.area(Rect{1, 0, 10, 1}).put(x%12, 0, s, stText)
			row := cv.render(th)
			if w, wc := ansi.StringWidth(row), ansi.StringWidthWc(row); w != 12 || wc != 12 {
				t.Fatalf("%q makes %d or %d cells: %q", s, w, wc, row)
			}
			if strings.ContainsAny(row, "\x1b\a\r\n\b\t") {
				t.Fatalf("%q lets a control through: %q", s, row)
			}
			for _, r := range row {
				if ascii && r >= 0x7f {
					t.Fatalf("%q is not ASCII: %q", s, row)
				}
			}
		}
		if w := textWidth(truncate(s, 5)); w > 5 {
			t.Fatalf("truncate(%q, 5) has %d cells", s, w)
		}
		if w := textWidth(padLeft(s, 7)); w != 7 {
			t.Fatalf("padLeft(%q, 7) has %d cells", s, w)
		}
	})
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		in   string
		w, n int
		want string
	}{
		{"one two three", 8, 3, "one two|three"},
		{"one two three four", 8, 2, "one two|three f…"},
		{"one two, or three", 12, 1, "one two, …"},
		{"one, two three four", 16, 1, "one, two three …"},
		{"abcdefghij", 4, 3, "abcd|efgh|ij"},
		{"", 4, 3, ""},
		{"  padded  ", 20, 1, "padded"},
		{"漢字漢字", 5, 3, "漢字|漢字"},
	} {
		if got := strings.Join(wrap(c.in, c.w, c.n), "|"); got != c.want {
			t.Errorf("wrap(%q, %d, %d) = %q, want %q", c.in, c.w, c.n, got, c.want)
		}
	}
}

func TestFitDropsTheLeastImportant(t *testing.T) {
	segs := []seg{{0, line{sp("aaaa", stText)}}, {2, line{sp("bbbb", stText)}}, {1, line{sp("cccc", stText)}}}
	for w, want := range map[int]string{20: "aaaa bbbb cccc", 13: "aaaa cccc", 8: "aaaa", 3: "aa…"} {
		cv := newCanvas(w, 1, false)
		cv.area(Rect{0, 0, w, 1}).fit(0, 0, w, 1, segs...)
		if got := cv.text(Rect{0, 0, w, 1}); got != want {
			t.Errorf("fit in %d cells = %q, want %q", w, got, want)
		}
	}
}
