package metrics

import (
	"strings"
	"testing"
)

func TestGuardJudge(t *testing.T) {
	for _, c := range []struct {
		name        string
		allow, deny []string
		value       string
		broken      bool
		says        string
	}{
		{"denied by a glob", nil, []string{"fp8*"}, "fp8_e4m3", true, "fp8* is denied"},
		{"denied whatever its case", nil, []string{"FP8*"}, "fp8_e5m2", true, ""},
		{"not denied", nil, []string{"fp8*"}, "auto", false, ""},
		{"nothing but a denial", nil, []string{"fp8*"}, "", false, ""},
		{"allowed word", []string{"auto", "bf16"}, nil, "bf16", false, ""},
		{"another word", []string{"auto", "bf16"}, nil, "fp8", true, "allowed is auto, bf16"},
		{"in a range", []string{"0.80..0.90"}, nil, "0.9", false, ""},
		{"below a range", []string{"0.80..0.90"}, nil, "0.79", true, "0.80..0.90"},
		{"open above", []string{"4096.."}, nil, "8192", false, ""},
		{"open below", []string{"..4096"}, nil, "8192", true, ""},
		{"a word in a range of numbers", []string{"0..1"}, nil, "auto", true, ""},
		{"compared", nil, []string{">0.9"}, "0.93", true, ""},
		{"compared and equal", nil, []string{">0.9"}, "0.9", false, ""},
		{"at most", []string{"<=0.9"}, nil, "0.90", false, ""},
		{"numbers by value", []string{"8"}, nil, "8.0", false, ""},
		{"denial before allowance", []string{"*"}, []string{"fp8*"}, "fp8", true, ""},
		{"a switch", nil, []string{"true"}, "true", true, ""},
		{"a broken glob is a word", nil, []string{"[x"}, "[x", true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			broken, reason := Guard{Flag: "kv-cache-dtype", Allow: c.allow, Deny: c.deny}.Judge(c.value)
			if broken != c.broken || broken != (reason != "") || !strings.Contains(reason, c.says) {
				t.Errorf("%q: broken %v, %q", c.value, broken, reason)
			}
		})
	}
}

func FuzzGuardJudge(f *testing.F) {
	for _, s := range [][2]string{{"fp8*", "fp8_e4m3"}, {"0.8..0.9", "0.85"}, {"<=1", "x"}, {"..", ".."}, {"[", "["}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, pattern, value string) {
		denied, _ := Guard{Flag: "f", Deny: []string{pattern}}.Judge(value)
		refused, _ := Guard{Flag: "f", Allow: []string{pattern}}.Judge(value)
		if denied == refused {
			t.Errorf("pattern %q and value %q: denied %v, refused %v", pattern, value, denied, refused)
		}
	})
}
