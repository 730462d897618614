package jsonl

import "unicode/utf8"

// maxDepth bounds nesting; a row that nests deeper is not valid here.
const maxDepth = 128

// scanner walks one JSON value without building it. It takes what Python's json
// module writes: NaN and Infinity count as numbers.
type scanner struct {
	b     []byte
	i     int
	depth int
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

func (s *scanner) peek() byte {
	s.space()
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

func (s *scanner) eat(c byte) bool {
	if s.peek() == c && s.i < len(s.b) {
		s.i++
		return true
	}
	return false
}

// str is a string's span without its quotes, its length in characters and
// whether it holds anything but white space.
type str struct {
	raw   []byte
	runes int
	inky  bool
}

func (s *scanner) str() (str, bool) {
	if !s.eat('"') {
		return str{}, false
	}
	start := s.i
	var out str
	for s.i < len(s.b) {
		c := s.b[s.i]
		switch {
		case c == '"':
			out.raw = s.b[start:s.i]
			s.i++
			return out, true
		case c == '\\':
			n, ink := s.escape()
			if n == 0 {
				return str{}, false
			}
			s.i += n
			out.inky = out.inky || ink
		case c < 0x20:
			return str{}, false
		case c < utf8.RuneSelf:
			out.inky = out.inky || c != ' '
			s.i++
		default:
			_, n := utf8.DecodeRune(s.b[s.i:])
			s.i += n
			out.inky = true
		}
		out.runes++
	}
	return str{}, false
}

// escape gives the length of the escape at s.i, 0 for a wrong one. A pair of
// surrogates is one character.
func (s *scanner) escape() (n int, inky bool) {
	if s.i+1 >= len(s.b) {
		return 0, false
	}
	switch s.b[s.i+1] {
	case 'n', 'r', 't', 'b', 'f':
		return 2, false
	case '"', '\\', '/':
		return 2, true
	case 'u':
		v, ok := s.hex4(s.i + 2)
		if !ok {
			return 0, false
		}
		if v>>10 == 0xd800>>10 && s.i+7 < len(s.b) && s.b[s.i+6] == '\\' && s.b[s.i+7] == 'u' {
			if lo, ok := s.hex4(s.i + 8); ok && lo>>10 == 0xdc00>>10 {
				return 12, true
			}
		}
		return 6, v > 0x20
	}
	return 0, false
}

func (s *scanner) hex4(at int) (v int, ok bool) {
	if at+4 > len(s.b) {
		return 0, false
	}
	for _, c := range s.b[at : at+4] {
		switch {
		case c >= '0' && c <= '9':
			v = v<<4 | int(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			v = v<<4 | int(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return v, true
}

// scalar reads a number, true, false, null, NaN or Infinity and gives its span.
func (s *scanner) scalar() ([]byte, bool) {
	s.space()
	start := s.i
	for s.i < len(s.b) {
		c := s.b[s.i]
		if c == ',' || c == '}' || c == ']' || c <= ' ' || c == ':' || c == '"' || c == '{' || c == '[' {
			break
		}
		s.i++
	}
	t := s.b[start:s.i]
	switch string(t) {
	case "true", "false", "null", "NaN", "Infinity", "-Infinity":
		return t, true
	}
	return t, number(t)
}

func number(t []byte) bool {
	i := 0
	digits := func() bool {
		start := i
		for i < len(t) && t[i] >= '0' && t[i] <= '9' {
			i++
		}
		return i > start
	}
	if i < len(t) && t[i] == '-' {
		i++
	}
	first := i
	if !digits() || t[first] == '0' && i > first+1 {
		return false
	}
	if i < len(t) && t[i] == '.' {
		i++
		if !digits() {
			return false
		}
	}
	if i < len(t) && t[i]|0x20 == 'e' {
		i++
		if i < len(t) && (t[i] == '+' || t[i] == '-') {
			i++
		}
		if !digits() {
			return false
		}
	}
	return i == len(t)
}

// object calls field for each member; field must read the value.
func (s *scanner) object(field func(key []byte) bool) bool {
	if !s.eat('{') || s.depth >= maxDepth {
		return false
	}
	s.depth++
	defer func() { s.depth-- }()
	if s.eat('}') {
		return true
	}
	for {
		k, ok := s.str()
		if !ok || !s.eat(':') || !field(k.raw) {
			return false
		}
		if s.eat('}') {
			return true
		}
		if !s.eat(',') {
			return false
		}
	}
}

// array calls item for each element; item must read it.
func (s *scanner) array(item func(i int) bool) bool {
	if !s.eat('[') || s.depth >= maxDepth {
		return false
	}
	s.depth++
	defer func() { s.depth-- }()
	if s.eat(']') {
		return true
	}
	for i := 0; ; i++ {
		if !item(i) {
			return false
		}
		if s.eat(']') {
			return true
		}
		if !s.eat(',') {
			return false
		}
	}
}

// skip reads any value.
func (s *scanner) skip() bool {
	switch s.peek() {
	case '{':
		return s.object(func([]byte) bool { return s.skip() })
	case '[':
		return s.array(func(int) bool { return s.skip() })
	case '"':
		_, ok := s.str()
		return ok
	}
	_, ok := s.scalar()
	return ok
}
