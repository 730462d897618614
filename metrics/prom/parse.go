// Package prom reads the HTTP side of inference servers: Prometheus text, and
// the JSON of their status endpoints. Names and shapes that changed over
// versions end in the same figures; what a server did not tell is unknown.
package prom

import (
	"math"
	"strconv"
	"strings"

	"github.com/runvigil/runvigil/metrics"
)

// Label is one label of a sample.
type Label struct{ Name, Value string }

// Sample is one line of an exposition.
type Sample struct {
	Name   string
	Labels []Label
	Value  float64
}

// Get gives a label's value, "" where the sample has none of that name.
func (s *Sample) Get(name string) string {
	for i := range s.Labels {
		if s.Labels[i].Name == name {
			return s.Labels[i].Value
		}
	}
	return ""
}

// Set holds the samples of one scrape by name. It shares memory with the body
// it was read from, so keep what was computed from it rather than the Set.
type Set struct {
	byName   map[string][]Sample
	declared map[string]string // family → type, from TYPE and HELP lines
	Samples  int               // well-formed lines, kept or not
	Bad      int               // lines that are not well formed
	FirstBad string            // the first of these, cleaned
	Torn     bool              // the body does not end in a newline
}

// maxSamples bounds what a hostile endpoint can make us keep.
const maxSamples = 1 << 16

// Parse reads Prometheus text (also OpenMetrics, and names quoted for UTF-8). A
// line that is not well formed is counted and passed over: one bad label must
// not hide every metric after it. keep chooses names; nil keeps all but
// histogram buckets. The caller passes whole bodies: of a body cut in a number
// the last value would be wrong.
func Parse(body []byte, keep func(name string) bool) *Set {
	s := &Set{byName: map[string][]Sample{}, declared: map[string]string{}}
	text := string(body)
	s.Torn = len(text) > 0 && text[len(text)-1] != '\n'
	kept := 0
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if line[0] == '#' {
			s.comment(line)
			continue
		}
		name, rest, ok := cutName(line)
		if ok && !wanted(name, keep) {
			s.Samples++
			continue
		}
		var smp Sample
		if ok {
			smp, ok = sample(name, rest)
		}
		if !ok {
			s.Bad++
			if s.FirstBad == "" {
				s.FirstBad = metrics.Clean(metrics.Mask(line), 120)
			}
			continue
		}
		s.Samples++
		if kept++; kept <= maxSamples {
			s.byName[smp.Name] = append(s.byName[smp.Name], smp)
		}
	}
	return s
}

func wanted(name string, keep func(string) bool) bool {
	if name == "" {
		return true // the name is inside the braces
	}
	if keep != nil {
		return keep(name)
	}
	return !strings.HasSuffix(name, "_bucket")
}

// Get gives the samples of a name.
func (s *Set) Get(name string) []Sample { return s.byName[name] }

// Declared tells whether a family was announced, and with what type; a family
// without samples is declared and unknown.
func (s *Set) Declared(family string) (typ string, ok bool) {
	typ, ok = s.declared[family]
	return typ, ok
}

// HasPrefix tells whether any family or sample has a name with this prefix.
func (s *Set) HasPrefix(prefix string) bool {
	for n := range s.declared {
		if strings.HasPrefix(n, prefix) {
			return true
		}
	}
	for n := range s.byName {
		if strings.HasPrefix(n, prefix) {
			return true
		}
	}
	return false
}

func (s *Set) comment(line string) {
	f := strings.Fields(strings.TrimPrefix(line, "#"))
	if len(f) < 2 || f[0] != "TYPE" && f[0] != "HELP" || len(s.declared) >= maxSamples {
		return
	}
	name := strings.Trim(f[1], `"`)
	if f[0] == "TYPE" && len(f) > 2 {
		s.declared[name] = f[2]
	} else if _, ok := s.declared[name]; !ok {
		s.declared[name] = ""
	}
}

// cutName splits the metric's name from labels and value; the name is empty
// where the exposition puts it, quoted, inside the braces.
func cutName(line string) (name, rest string, ok bool) {
	i := 0
	for i < len(line) && nameByte(line[i]) {
		i++
	}
	if i == len(line) || i > 0 && line[0] >= '0' && line[0] <= '9' {
		return "", "", false
	}
	if c := line[i]; c != '{' && (c != ' ' && c != '\t' || i == 0) {
		return "", "", false
	}
	return line[:i], line[i:], true
}

func nameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == ':' || c == '.'
}

func sample(name, rest string) (Sample, bool) {
	s := Sample{Name: name}
	rest = strings.TrimLeft(rest, " \t")
	if strings.HasPrefix(rest, "{") {
		var ok bool
		if rest, ok = s.labels(rest[1:]); !ok {
			return s, false
		}
	}
	// What follows the value is a timestamp or an exemplar.
	f := strings.TrimLeft(rest, " \t")
	if i := strings.IndexAny(f, " \t"); i >= 0 {
		f = f[:i]
	}
	v, err := strconv.ParseFloat(f, 64)
	if err != nil || s.Name == "" || strings.HasPrefix(strings.ToLower(f), "0x") || strings.Contains(f, "_") {
		return s, false
	}
	s.Value = v
	return s, true
}

// labels reads up to the closing brace and gives what follows it.
func (s *Sample) labels(t string) (rest string, ok bool) {
	for {
		t = strings.TrimLeft(t, " \t,")
		if t == "" {
			return "", false
		}
		if t[0] == '}' {
			return t[1:], true
		}
		var name string
		if t[0] == '"' {
			if name, t, ok = quoted(t[1:]); !ok {
				return "", false
			}
			t = strings.TrimLeft(t, " \t")
			if t != "" && t[0] != '=' {
				s.Name = name // {"a name", label="x"}
				continue
			}
		} else {
			i := strings.IndexByte(t, '=')
			if i <= 0 {
				return "", false
			}
			name, t = strings.TrimSpace(t[:i]), t[i:]
		}
		t = strings.TrimLeft(strings.TrimPrefix(t, "="), " \t")
		if t == "" || t[0] != '"' {
			return "", false
		}
		var value string
		if value, t, ok = quoted(t[1:]); !ok {
			return "", false
		}
		s.Labels = append(s.Labels, Label{name, value})
	}
}

// quoted reads to the closing quote, undoing \\ \" and \n.
func quoted(t string) (value, rest string, ok bool) {
	i := strings.IndexAny(t, `"\`)
	if i < 0 {
		return "", "", false
	}
	if t[i] == '"' {
		return t[:i], t[i+1:], true
	}
	var b strings.Builder
	for i := 0; i < len(t); i++ {
		switch c := t[i]; {
		case c == '"':
			return b.String(), t[i+1:], true
		case c == '\\' && i+1 < len(t):
			i++
			if t[i] == 'n' {
				b.WriteByte('\n')
			} else {
				b.WriteByte(t[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}

// Num is a figure that may be unknown.
type Num struct {
	V  float64
	OK bool
}

// known makes a Num of a value that was told; NaN and infinities say nothing.
func known(v float64) Num {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return Num{}
	}
	return Num{v, true}
}

func (n Num) or(m Num) Num {
	if n.OK {
		return n
	}
	return m
}
