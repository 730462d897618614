package posix

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

var awkward = []string{
	"", "a", "two words", "it's", "'", "''", `\`, `\'`, `"`, "$HOME", "`id`", "$(id)", "a\nb", "\n", "\t",
	"*", "?", "[a]", "{a,b}", "~", "~root", "!", "!!", "#", "a#b", "&", ";", "|", "<", ">", "(", ")", "a=b",
	"-n", "--flag=it's \"x\"", "\x01\x7f", "\xff\xfe", "ä", "日本", "\r\n", "%s", "--model=/data/my model",
	"se cr'et", strings.Repeat("'", 50),
}

func TestQuoteReadsBack(t *testing.T) {
	for _, s := range awkward {
		q, err := Quote(s)
		if err != nil {
			t.Fatalf("Quote(%q): %v", s, err)
		}
		got, err := words(q)
		if err != nil || !slices.Equal(got, []string{s}) {
			t.Errorf("Quote(%q) = %s reads back as %q, %v", s, q, got, err)
		}
	}
}

func TestQuoteLeavesPlainWords(t *testing.T) {
	for _, s := range []string{"python3", "-m", "--tp=8", "/data/x_y.z", "0.88", "a@b:22"} {
		q, err := Quote(s)
		if err != nil {
			t.Fatal(err)
		}
		if plain := !strings.Contains(s, "="); plain != (q == s) {
			t.Errorf("Quote(%q) = %s", s, q)
		}
	}
}

func TestJoin(t *testing.T) {
	got, err := Join([]string{"python3", "-c", "print('hi')", ""})
	if want := `python3 -c 'print('\''hi'\'')' ''`; err != nil || got != want {
		t.Errorf("Join = %s, %v; want %s", got, err, want)
	}
	if _, err := Join(nil); err == nil {
		t.Error("Join(nil) gave no error")
	}
	if _, err := Join([]string{"a", "b\x00c"}); err == nil || !strings.Contains(err.Error(), "argument 1") {
		t.Errorf("Join with NUL: %v", err)
	}
}

func TestExport(t *testing.T) {
	tests := []struct{ name, value, want string }{
		{"A", "b", "export A=b"},
		{"HF_TOKEN", "se cr'et", `export HF_TOKEN='se cr'\''et'`},
		{"_x1", "", "export _x1=''"},
		{"1x", "v", ""},
		{"", "v", ""},
		{"A-B", "v", ""},
		{"BASH_FUNC_x%%", "() { :; }", ""},
		{"A", "nul\x00", ""},
	}
	for _, tt := range tests {
		got, err := Export(tt.name, tt.value)
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("Export(%q, %q) = %q, %v; want %q", tt.name, tt.value, got, err, tt.want)
		}
	}
}

func FuzzQuote(f *testing.F) {
	for _, s := range awkward {
		f.Add(s, "x")
	}
	f.Add("a\x00b", "x")
	f.Fuzz(func(t *testing.T, a, b string) {
		line, err := Join([]string{a, b})
		if hasNUL := strings.ContainsRune(a+b, 0); hasNUL != (err != nil) {
			t.Fatalf("Join(%q, %q): error %v", a, b, err)
		}
		if err != nil {
			return
		}
		got, err := words(line)
		if err != nil || !slices.Equal(got, []string{a, b}) {
			t.Fatalf("%s reads back as %q, %v", line, got, err)
		}
	})
}

// words splits one line as sh does. It knows single quotes and backslashes and
// refuses every other character with a meaning, so that a word which Quote
// left bare by mistake is found.
func words(line string) ([]string, error) {
	var out []string
	var word []byte
	inWord, inQuote := false, false
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case inQuote && c == '\'':
			inQuote = false
		case inQuote:
			word = append(word, c)
		case c == '\'':
			inWord, inQuote = true, true
		case c == '\\':
			if i++; i == len(line) {
				return nil, errors.New("backslash at the end")
			}
			inWord, word = true, append(word, line[i])
		case c == ' ':
			if inWord {
				out, word, inWord = append(out, string(word)), nil, false
			}
		case strings.IndexByte("\t\n\r\"$`*?[]{}~!#&;|<>()=^", c) >= 0 || c >= 0x80 || c < ' ' || c == 0x7f:
			return nil, errors.New("special character outside quotes")
		default:
			inWord, word = true, append(word, c)
		}
	}
	if inQuote {
		return nil, errors.New("open quote at the end")
	}
	if inWord {
		out = append(out, string(word))
	}
	return out, nil
}
