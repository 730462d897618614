package remote

import (
	"strings"
	"testing"
)

func TestParseTarget(t *testing.T) {
	tests := []struct {
		in   string
		want Target
		out  string // String, if it differs from in
	}{
		{"gpu7", Target{"", "gpu7", 0}, ""},
		{"root@gpu7", Target{"root", "gpu7", 0}, ""},
		{"root@gpu7:2222", Target{"root", "gpu7", 2222}, ""},
		{"gpu7.example.org:65535", Target{"", "gpu7.example.org", 65535}, ""},
		{`DOM\user@gpu7`, Target{`DOM\user`, "gpu7", 0}, ""},
		{"dom@user@gpu7", Target{"dom@user", "gpu7", 0}, ""},
		{"10.0.0.1:22", Target{"", "10.0.0.1", 22}, ""},
		{"[::1]:22", Target{"", "::1", 22}, ""},
		{"[::1]", Target{"", "::1", 0}, "::1"},
		{"::1", Target{"", "::1", 0}, ""},
		{"op@fe80::1%eth0", Target{"op", "fe80::1%eth0", 0}, ""},
		{"op@[fe80::1%eth0]:22", Target{"op", "fe80::1%eth0", 22}, ""},
		{"a_b-c", Target{"", "a_b-c", 0}, ""},
	}
	for _, tt := range tests {
		got, err := ParseTarget(tt.in)
		if err != nil || got != tt.want {
			t.Errorf("ParseTarget(%q) = %+v, %v; want %+v", tt.in, got, err, tt.want)
			continue
		}
		want := tt.out
		if want == "" {
			want = tt.in
		}
		if got.String() != want {
			t.Errorf("%+v.String() = %q, want %q", got, got, want)
		}
	}
}

func TestParseTargetRefuses(t *testing.T) {
	tests := []struct{ in, word string }{
		{"", "empty"},
		{"-oProxyCommand=id", "must not begin with '-'"},
		{"root@-gpu7", "must not begin with '-'"},
		{"@gpu7", "user before '@' is empty"},
		{"root@", "host is empty"},
		{"gpu7:", "port after ':' is empty"},
		{"gpu7:0", "not a port"},
		{"gpu7:65536", "not a port"},
		{"gpu7:ssh", "not a port"},
		{"gpu7:22:23", "more than one ':'"},
		{"[::1", "without ']'"},
		{"[gpu7]:22", "no IP address"},
		{"[::1]22", "after ']'"},
		{"[::1]:", "port after ':' is empty"},
		{"gpu 7", "spaces"},
		{"gpu7\n", "control"},
		{"gpu7;id", "character"},
		{"$(id)", "character"},
		{"gpu*", "character"},
		{"op;id@gpu7", "user contains"},
		{"$(id)@gpu7", "user contains"},
		{"ssh://gpu7", "leave out"},
	}
	for _, tt := range tests {
		if got, err := ParseTarget(tt.in); err == nil || !strings.Contains(err.Error(), tt.word) || !strings.Contains(err.Error(), "[user@]host[:port]") {
			t.Errorf("ParseTarget(%q) = %+v, %v; want an error with %q", tt.in, got, err, tt.word)
		}
	}
}

func FuzzParseTarget(f *testing.F) {
	for _, s := range []string{"root@gpu7:22", "[::1]:22", "::1", "a@b@c", "-x", "[", ":", "@", "a:b:c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseTarget(s)
		if err != nil {
			return
		}
		again, err := ParseTarget(got.String())
		if err != nil || again != got {
			t.Errorf("ParseTarget(%q) = %+v, whose form %q reads back as %+v, %v", s, got, got, again, err)
		}
		if strings.HasPrefix(got.Host, "-") || strings.HasPrefix(got.User, "-") {
			t.Errorf("ParseTarget(%q) = %+v could be taken for an option", s, got)
		}
	})
}
