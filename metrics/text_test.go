package metrics

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestClean(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"plain text", "plain text"},
		{"\x1b[31mred\x1b[0m", "red"},
		{"\x1b[38;5;196m\x1b[1Kx", "x"},
		{"a\tb", "a    b"},
		{"a\x00b\x7fc\bd", "abcd"},
		{"\x1b]0;title\x07after", "after"},
		{"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"},
		{"\x1bPq#0;2;0\x1b\\sixel", "sixel"},
		{"\x1b_apc\x1b\\\x1b^pm\x1b\\\x1bXsos\x1b\\x", "x"},
		{"\x1b]0;never ends", "0;never ends"},
		{"\x1b]0;never ends\nnext line", "0;never ends next line"},
		{"\x9b31mraw C1\x9b0m", "raw C1"},
		{"\u009b31mUTF-8 C1\u009dtitle\u009cend", "UTF-8 C1end"},
		{"\x1b(Bcharset\x1bc\x1b7", "charset"},
		{"\x1b[12", "12"},
		{"\x1b", ""},
		{"evil\u202egpj.exe\u2066x", "evilgpj.exex"},
		{"a\u2028b\u2029c\r\nd\re", "a b c d e"},
		{"bad \xff\xfe byte", "bad \ufffd\ufffd byte"},
		{"[四 3月] ░█▓ °C", "[四 3月] ░█▓ °C"},
		{"\ufeffbom", "bom"},
	} {
		if got := Clean(c.in, 0); got != c.want {
			t.Errorf("Clean(%q) = %q, want %q", c.in, got, c.want)
		}
	}
	for _, c := range []struct {
		in   string
		max  int
		want string
	}{
		{"abcdefgh", 8, "abcdefgh"},
		{"abcdefgh", 7, "abcd…"},
		{"abcdefgh", 2, "ab"},
		{"ééééé", 8, "éé…"},
		{"\x1b[31mabcdefgh", 7, "abcd…"},
	} {
		if got := Clean(c.in, c.max); got != c.want {
			t.Errorf("Clean(%q, %d) = %q, want %q", c.in, c.max, got, c.want)
		}
	}
}

func TestSeparatorID(t *testing.T) {
	for line, want := range map[string]string{
		StartSeparator + "20260224-1155-ab12 ====":                           "20260224-1155-ab12",
		"2026-02-24T11:55:00Z " + StartSeparator + "x ====":                  "x",
		StartSeparator + " ====":                                             "",
		StartSeparator + "no end":                                            "",
		"Receive: obj=GenerateReqInput(text='" + StartSeparator + "a b ====": "",
	} {
		if id, ok := SeparatorID(line); id != want || ok != (want != "") {
			t.Errorf("SeparatorID(%q) = %q, %v, want %q", line, id, ok, want)
		}
	}
}

func checkClean(t *testing.T, in, got string) {
	t.Helper()
	if !utf8.ValidString(got) {
		t.Errorf("Clean(%q) = %q is not UTF-8", in, got)
	}
	for _, r := range got {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 || hiddenRune(r) {
			t.Errorf("Clean(%q) = %q holds %U", in, got, r)
		}
	}
	if again := Clean(got, 0); again != got {
		t.Errorf("Clean(%q) = %q, again %q", in, got, again)
	}
}

func FuzzClean(f *testing.F) {
	for _, s := range []string{"a\x1b]0;x\x07b", "\x9b\xc2\x9d\x1b\x1b[", "\x1b[31m\u202e\tx\r\n", "é\xff"} {
		f.Add(s, 0)
		f.Add(s, 5)
	}
	f.Fuzz(func(t *testing.T, s string, maxLen int) {
		checkClean(t, s, Clean(s, 0))
		capped := Clean(s, maxLen)
		checkClean(t, s, capped)
		if maxLen > 0 && len(capped) > maxLen {
			t.Errorf("Clean(%q, %d) has %d bytes", s, maxLen, len(capped))
		}
	})
}

func BenchmarkClean(b *testing.B) {
	line := strings.Repeat("[2026-02-24 11:59:51 TP0] some ordinary line of a log, ", 4)
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		Clean(line, 4096)
	}
}
