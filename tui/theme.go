package tui

import (
	"fmt"
	"strconv"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/colorprofile"
)

// Scheme chooses between the palettes.
type Scheme int

// The schemes: asked of the terminal, or forced.
const (
	SchemeAuto Scheme = iota
	SchemeDark
	SchemeLight
)

// role is what a colour means. Colour is never the only signal: every role
// that carries meaning goes with a word, a sign or a shape.
type role uint8

const (
	roleText   role = iota // the terminal's own foreground
	roleDim                // labels
	roleFaint              // frames
	roleAccent             // focus and keys
	roleData               // first series of a graph, bars
	roleData2              // second series
	roleOK
	roleInfo
	roleWarn
	roleCrit
	roleStale // figures that are old
	roleOnBadge
	roleSelect // background of the selection
	roleMatch  // background of a search hit
	roleCount
)

const (
	attrBold uint8 = 1 << iota
	attrUnderline
	attrReverse
	attrFaint
)

// style is what a cell looks like; the zero style is the terminal's default.
type style struct {
	fg, bg role
	attr   uint8
}

func (s style) bold() style      { s.attr |= attrBold; return s }
func (s style) underline() style { s.attr |= attrUnderline; return s }
func (s style) on(bg role) style { s.bg = bg; return s }

var (
	stText   = style{}
	stStrong = style{attr: attrBold}
	stDim    = style{fg: roleDim}
	stFaint  = style{fg: roleFaint}
	stAccent = style{fg: roleAccent}
	stData   = style{fg: roleData}
	stData2  = style{fg: roleData2}
	stOK     = style{fg: roleOK}
	stInfo   = style{fg: roleInfo}
	stWarn   = style{fg: roleWarn}
	stCrit   = style{fg: roleCrit}
	stStale  = style{fg: roleStale}
)

// colour is one colour for each number of colours a terminal may have: the near
// ones are chosen by eye, since reckoned ones turn grey into green.
type colour struct {
	rgb   [3]uint8
	near  uint8 // of the 256
	basic uint8 // of the 16
}

type hues [roleCount]colour

func hex(v uint32, near, basic uint8) colour {
	r, g, b, _ := lipgloss.Color("#" + fmt.Sprintf("%06x", v)).RGBA()
	return colour{[3]uint8{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8)}, near, basic}
}

// The hues are told apart with every common colour blindness: blue, amber and
// vermilion, with a bluish green for what is well.
var darkPalette = hues{
	roleDim:     hex(0x9aa5b1, 248, 7),
	roleFaint:   hex(0x4a5562, 240, 8),
	roleAccent:  hex(0x7dd3fc, 117, 14),
	roleData:    hex(0x56b4e9, 74, 6),
	roleData2:   hex(0xd98fbb, 175, 13),
	roleOK:      hex(0x4fd1a5, 79, 10),
	roleInfo:    hex(0x8ab4f8, 111, 12),
	roleWarn:    hex(0xf0b429, 214, 11),
	roleCrit:    hex(0xff7a66, 209, 9),
	roleStale:   hex(0x818b96, 244, 8),
	roleOnBadge: hex(0x101418, 233, 0),
	roleSelect:  hex(0x2b3440, 236, 8),
	roleMatch:   hex(0x5c4a12, 53, 3),
}

var lightPalette = hues{
	roleDim:     hex(0x57606a, 241, 8),
	roleFaint:   hex(0xb4bcc6, 250, 7),
	roleAccent:  hex(0x0550ae, 25, 4),
	roleData:    hex(0x0a66a8, 25, 4),
	roleData2:   hex(0xa0307a, 90, 5),
	roleOK:      hex(0x006d66, 23, 2),
	roleInfo:    hex(0x0550ae, 25, 4),
	roleWarn:    hex(0x845400, 94, 5),
	roleCrit:    hex(0xb0103f, 125, 1),
	roleStale:   hex(0x6b7280, 243, 8),
	roleOnBadge: hex(0xffffff, 231, 15),
	roleSelect:  hex(0xdde5ee, 254, 7),
	roleMatch:   hex(0xffe08a, 222, 11),
}

// Theme turns styles into escape sequences for one palette and one number of
// colours. It remembers what it has made.
type Theme struct {
	dark    bool
	profile colorprofile.Profile
	pal     *hues
	cache   map[style]string
}

// newTheme makes a theme. Below 16 colours only bold, underline and reverse are
// used.
func newTheme(dark bool, profile colorprofile.Profile) *Theme {
	t := &Theme{dark: dark, profile: profile, pal: &lightPalette, cache: map[style]string{}}
	if dark {
		t.pal = &darkPalette
	}
	return t
}

func (t *Theme) sgr(st style) string {
	if s, ok := t.cache[st]; ok {
		return s
	}
	s := "\x1b[" + strings.Join(t.codes(st), ";") + "m"
	if st == (style{}) {
		s = "\x1b[m"
	}
	t.cache[st] = s
	return s
}

// shown is a style as this number of colours can show it. Among 16 no background
// lets every foreground be read: what is selected or found is reversed.
func (t *Theme) shown(st style) style {
	if t.profile > colorprofile.ANSI {
		return st
	}
	if t.profile == colorprofile.ANSI {
		if st.bg == roleSelect || st.bg == roleMatch {
			st.fg, st.bg = roleText, roleText
			st.attr |= attrReverse
		}
		return st
	}
	if st.bg != roleText {
		st.attr |= attrReverse
	}
	if st.fg == roleStale {
		st.attr |= attrFaint
	}
	if st.bg == roleText && (st.fg == roleCrit || st.fg == roleWarn) {
		st.attr |= attrBold
	}
	st.fg, st.bg = roleText, roleText
	return st
}

func (t *Theme) codes(st style) []string {
	out := []string{"0"}
	st = t.shown(st)
	for _, a := range []struct {
		bit  uint8
		code string
	}{{attrBold, "1"}, {attrFaint, "2"}, {attrUnderline, "4"}, {attrReverse, "7"}} {
		if st.attr&a.bit != 0 {
			out = append(out, a.code)
		}
	}
	if st.fg != roleText {
		out = append(out, t.colour(st.fg, false))
	}
	if st.bg != roleText {
		out = append(out, t.colour(st.bg, true))
	}
	return out
}

func (t *Theme) colour(r role, bg bool) string {
	c := t.pal[r]
	lead := "38;"
	if bg {
		lead = "48;"
	}
	switch t.profile {
	case colorprofile.ANSI256:
		return lead + "5;" + strconv.Itoa(int(c.near))
	case colorprofile.TrueColor:
		return lead + "2;" + strconv.Itoa(int(c.rgb[0])) + ";" + strconv.Itoa(int(c.rgb[1])) + ";" + strconv.Itoa(int(c.rgb[2]))
	}
	n := 30 + int(c.basic)
	if c.basic >= 8 {
		n = 90 + int(c.basic) - 8
	}
	if bg {
		n += 10
	}
	return strconv.Itoa(n)
}
