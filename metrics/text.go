package metrics

import (
	"strings"
	"unicode/utf8"
)

const ellipsis = "…"

// Clean makes one line of hostile text fit for a terminal and for JSON: escape
// sequences, control characters, NUL, bidirectional overrides and byte order
// marks go, a tab becomes four spaces, line ends and U+2028/2029 become one
// space, invalid bytes become U+FFFD. The result has at most maxLen bytes (a cut
// one ends in "…"); maxLen <= 0 means no cap. Clean(Clean(s)) == Clean(s).
//
// A string sequence (OSC, DCS, APC, PM, SOS) without its end loses only its
// introducer: the text behind it stays visible, whatever a terminal would hide.
func Clean(s string, maxLen int) string {
	i := 0
	for i < len(s) && s[i] >= ' ' && s[i] < 0x7f {
		i++
	}
	if i < len(s) {
		limit := len(s)
		if maxLen > 0 {
			limit = min(limit, maxLen+len(ellipsis))
		}
		out := make([]byte, 0, limit+utf8.UTFMax)
		out = append(out, s[:min(i, limit)]...)
		s = cleanRest(out, s[i:], maxLen)
	}
	return Cut(s, maxLen)
}

// Cut shortens s to at most maxLen bytes at a rune's border, with "…" where
// there is room for it; maxLen <= 0 means no cap.
func Cut(s string, maxLen int) string {
	if maxLen <= 0 || len(s) <= maxLen {
		return s
	}
	end, tail := maxLen, ""
	if maxLen > len(ellipsis) {
		end, tail = maxLen-len(ellipsis), ellipsis
	}
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + tail
}

func cleanRest(out []byte, s string, maxLen int) string {
	for i := 0; i < len(s); {
		if maxLen > 0 && len(out) > maxLen {
			break
		}
		b := s[i]
		switch {
		case b >= ' ' && b < 0x7f:
			out = append(out, b)
			i++
		case b == '\t':
			out = append(out, "    "...)
			i++
		case b == '\n' || b == '\r':
			out = append(out, ' ')
			i++
			if b == '\r' && i < len(s) && s[i] == '\n' {
				i++
			}
		case b == 0x1b:
			i += escapeLen(s[i:])
		case b < ' ' || b == 0x7f:
			i++
		default:
			r, n := utf8.DecodeRuneInString(s[i:])
			switch {
			case r == utf8.RuneError && n == 1:
				if b < 0xa0 {
					i += c1Len(s[i:], b, 1)
				} else {
					out = append(out, "\ufffd"...)
					i++
				}
			case r >= 0x80 && r < 0xa0:
				i += c1Len(s[i:], byte(r), n)
			case r == 0x2028 || r == 0x2029:
				out = append(out, ' ')
				i += n
			case hiddenRune(r):
				i += n
			default:
				out = append(out, s[i:i+n]...)
				i += n
			}
		}
	}
	return string(out)
}

// hiddenRune tells the characters that reorder or hide what stands beside them:
// bidirectional controls, byte order mark, interlinear and tag characters.
func hiddenRune(r rune) bool {
	switch {
	case r == 0x061c, r == 0x200b, r == 0x200e, r == 0x200f, r == 0xfeff,
		r >= 0x202a && r <= 0x202e,
		r >= 0x2060 && r <= 0x206f,
		r >= 0xfff9 && r <= 0xfffb,
		r >= 0xe0000 && r <= 0xe007f:
		return true
	}
	return false
}

// escapeLen is the length of the sequence that begins with the ESC at s[0]; of
// one that is malformed or has no end, the length of what makes it a sequence.
func escapeLen(s string) int {
	if len(s) == 1 {
		return 1
	}
	switch s[1] {
	case '[':
		return csiLen(s, 2)
	case ']', 'P', 'X', '^', '_':
		return stringLen(s, 2)
	}
	i := 1
	for i < len(s) && s[i] >= 0x20 && s[i] <= 0x2f {
		i++
	}
	if i < len(s) && s[i] >= 0x30 && s[i] <= 0x7e {
		return i + 1
	}
	return 1
}

// c1Len is escapeLen for an 8-bit control c that takes n bytes.
func c1Len(s string, c byte, n int) int {
	switch c {
	case 0x9b:
		return csiLen(s, n)
	case 0x90, 0x98, 0x9d, 0x9e, 0x9f:
		return stringLen(s, n)
	}
	return n
}

func csiLen(s string, start int) int {
	i := start
	for i < len(s) && s[i] >= 0x30 && s[i] <= 0x3f {
		i++
	}
	for i < len(s) && s[i] >= 0x20 && s[i] <= 0x2f {
		i++
	}
	if i < len(s) && s[i] >= 0x40 && s[i] <= 0x7e {
		return i + 1
	}
	return start
}

// stringLen looks for BEL or ST. Any other control character ends the search,
// so the work stays linear and nothing is swallowed past the end of a line.
func stringLen(s string, start int) int {
	for i := start; i < len(s); i++ {
		switch b := s[i]; {
		case b == 0x07:
			return i + 1
		case b == 0x1b:
			if i+1 < len(s) && s[i+1] == '\\' {
				return i + 2
			}
			return start
		case b < ' ' && b != '\t':
			return start
		case b >= 0x80:
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == 0x9c || r == utf8.RuneError && n == 1 && b == 0x9c {
				return i + n
			}
			if r >= 0x80 && r < 0xa0 || r == utf8.RuneError && n == 1 && b < 0xa0 {
				return start
			}
			i += n - 1
		}
	}
	return start
}

// StartSeparator begins the line that runvigil's restarter writes into a
// server's log before a new start: StartSeparator + id + " ====".
const StartSeparator = "==== runvigil start "

// SeparatorID finds the restarter's separator line and gives the start's id.
// A prefix that a log collector put before it does not matter.
func SeparatorID(line string) (id string, ok bool) {
	_, rest, found := strings.Cut(line, StartSeparator)
	if !found {
		return "", false
	}
	id, _, found = strings.Cut(rest, " ====")
	if !found || id == "" || len(id) > 64 || strings.ContainsAny(id, " \t'\"") {
		return "", false
	}
	return id, true
}
