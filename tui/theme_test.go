package tui

import (
	"context"
	"image/color"
	"math"
	"slices"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
)

func luminance(c [3]uint8) float64 {
	l := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		v := float64(c[i]) / 255
		if v <= 0.04045 {
			v /= 12.92
		} else {
			v = math.Pow((v+0.055)/1.055, 2.4)
		}
		l += weight * v
	}
	return l
}

func contrast(a, b [3]uint8) float64 {
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// xterm256 is a colour of the 256 as every terminal shows it.
func xterm256(n uint8) [3]uint8 {
	switch {
	case n >= 232:
		v := 8 + 10*(n-232)
		return [3]uint8{v, v, v}
	case n >= 16:
		step := func(i uint8) uint8 {
			if i == 0 {
				return 0
			}
			return 55 + 40*i
		}
		n -= 16
		return [3]uint8{step(n / 36), step(n / 6 % 6), step(n % 6)}
	}
	panic("the 16 differ from terminal to terminal")
}

// The 16 colours of common terminals.
var sixteen = map[string][16][3]uint8{
	"xterm":   {{0, 0, 0}, {205, 0, 0}, {0, 205, 0}, {205, 205, 0}, {0, 0, 238}, {205, 0, 205}, {0, 205, 205}, {229, 229, 229}, {127, 127, 127}, {255, 0, 0}, {0, 255, 0}, {255, 255, 0}, {92, 92, 255}, {255, 0, 255}, {0, 255, 255}, {255, 255, 255}},
	"VS Code": {{0, 0, 0}, {205, 49, 49}, {13, 188, 121}, {229, 229, 16}, {36, 114, 200}, {188, 63, 188}, {17, 168, 205}, {229, 229, 229}, {102, 102, 102}, {241, 76, 76}, {35, 209, 139}, {245, 245, 67}, {59, 142, 234}, {214, 112, 214}, {41, 184, 219}, {255, 255, 255}},
	"Tango":   {{0, 0, 0}, {204, 0, 0}, {78, 154, 6}, {196, 160, 0}, {52, 101, 164}, {117, 80, 123}, {6, 152, 154}, {211, 215, 207}, {85, 87, 83}, {239, 41, 41}, {138, 226, 52}, {252, 233, 79}, {114, 159, 207}, {173, 127, 168}, {52, 226, 226}, {238, 238, 236}},
}

// ground is what a terminal draws on, and with.
type ground struct {
	name       string
	back, text [3]uint8
}

var grounds = map[bool][]ground{
	true:  {{"black", [3]uint8{}, [3]uint8{229, 229, 229}}, {"grey", [3]uint8{30, 30, 30}, [3]uint8{220, 220, 220}}, {"dracula", [3]uint8{40, 42, 54}, [3]uint8{248, 248, 242}}},
	false: {{"white", [3]uint8{255, 255, 255}, [3]uint8{0, 0, 0}}, {"paper", [3]uint8{250, 250, 250}, [3]uint8{30, 30, 30}}, {"solarized", [3]uint8{253, 246, 227}, [3]uint8{60, 70, 75}}},
}

// roleNames are the roles as failures tell them.
var roleNames = map[role]string{roleText: "text", roleDim: "dim", roleFaint: "faint", roleAccent: "accent", roleData: "data", roleData2: "data2", roleOK: "ok", roleInfo: "info", roleWarn: "warn", roleCrit: "crit", roleStale: "stale", roleOnBadge: "on badge", roleSelect: "selection", roleMatch: "match"}

// leastContrast is what a pair of foreground and background needs: 4.5 for text
// (WCAG AA), 3 for what only accompanies text or steps back, and frames need to
// be seen at all. 0: the pair is never drawn.
func leastContrast(fg, bg role) float64 {
	badge := slices.Contains([]role{roleOK, roleInfo, roleWarn, roleCrit, roleDim}, bg)
	switch {
	case !badge && bg != roleText && bg != roleSelect && bg != roleMatch, (fg == roleOnBadge) != badge, fg == roleSelect, fg == roleMatch:
		return 0
	case badge:
		return 4.5
	case fg == roleFaint && bg == roleText:
		return 1.5
	case fg == roleFaint:
		return 1.1
	case bg == roleMatch && fg != roleText && fg != roleWarn && fg != roleCrit && fg != roleDim:
		return 0 // a hit has the colour of its line
	case fg == roleStale, bg == roleMatch, bg == roleSelect && fg != roleText:
		return 3
	}
	return 4.5
}

// Every foreground reads on every background on which it is drawn: with 24-bit
// colours, with 256, and with the 16 of common terminals.
func TestContrast(t *testing.T) {
	type look struct {
		name    string
		profile colorprofile.Profile
		of      func(c colour) [3]uint8
		least   float64 // share of what is needed: the 16 are the terminal's own choice
	}
	looks := []look{
		{"24 bits", colorprofile.TrueColor, func(c colour) [3]uint8 { return c.rgb }, 1},
		{"256", colorprofile.ANSI256, func(c colour) [3]uint8 { return xterm256(c.near) }, 1},
	}
	for name, pal := range sixteen {
		looks = append(looks, look{"16 of " + name, colorprofile.ANSI, func(c colour) [3]uint8 { return pal[c.basic] }, 0.44})
	}
	for _, l := range looks {
		for dark, list := range grounds {
			theme := newTheme(dark, l.profile)
			for _, g := range list {
				for fg := range roleCount {
					for bg := range roleCount {
						least := leastContrast(fg, bg) * l.least
						if least == 0 {
							continue
						}
						st := theme.shown(style{fg: fg, bg: bg})
						back, front := g.back, g.text
						if st.bg != roleText {
							back = l.of(theme.pal[st.bg])
						}
						if st.fg != roleText {
							front = l.of(theme.pal[st.fg])
						}
						if st.attr&attrReverse != 0 {
							back, front = front, back
						}
						if got := contrast(front, back); got < least {
							t.Errorf("%s, dark %v on %s: %s on %s has a contrast of %.2f, want %.2f", l.name, dark, g.name, roleNames[fg], roleNames[bg], got, least)
						}
					}
				}
			}
		}
	}
}

// lms simulates how a colour looks to an eye that lacks one kind of cone.
func seen(c [3]uint8, m [9]float64) [3]float64 {
	var lin, out [3]float64
	for i := range lin {
		lin[i] = math.Pow(float64(c[i])/255, 2.2)
	}
	for i := range out {
		out[i] = math.Pow(max(m[3*i]*lin[0]+m[3*i+1]*lin[1]+m[3*i+2]*lin[2], 0), 1/2.2) * 255
	}
	return out
}

// The levels of a verdict differ also for eyes that lack red or green.
func TestLevelsDifferForEveryEye(t *testing.T) {
	eyes := map[string][9]float64{
		"normal":       {1, 0, 0, 0, 1, 0, 0, 0, 1},
		"protanopia":   {0.152, 1.053, -0.205, 0.115, 0.786, 0.099, -0.004, -0.048, 1.052},
		"deuteranopia": {0.367, 0.861, -0.228, 0.280, 0.673, 0.047, -0.012, 0.043, 0.969},
		"tritanopia":   {1.256, -0.077, -0.179, -0.078, 0.931, 0.148, 0.005, 0.691, 0.304},
	}
	for name, pal := range map[string]*hues{"dark": &darkPalette, "light": &lightPalette} {
		for eye, m := range eyes {
			pairs := [][2]role{{roleOK, roleCrit}, {roleOK, roleWarn}, {roleWarn, roleCrit}, {roleData, roleData2}}
			for _, p := range pairs {
				a, b := seen(pal[p[0]].rgb, m), seen(pal[p[1]].rgb, m)
				d := math.Sqrt((a[0]-b[0])*(a[0]-b[0]) + (a[1]-b[1])*(a[1]-b[1]) + (a[2]-b[2])*(a[2]-b[2]))
				if d < 30 {
					t.Errorf("%s, %s: roles %d and %d differ by only %.0f", name, eye, p[0], p[1], d)
				}
			}
		}
	}
}

func TestProfiles(t *testing.T) {
	st := stCrit.bold().on(roleSelect)
	for p, want := range map[colorprofile.Profile]string{
		colorprofile.TrueColor: "\x1b[0;1;38;2;255;122;102;48;2;43;52;64m",
		colorprofile.ANSI256:   "\x1b[0;1;38;5;209;48;5;236m",
		colorprofile.ANSI:      "\x1b[0;1;7m",
		colorprofile.Ascii:     "\x1b[0;1;7m",
	} {
		if got := newTheme(true, p).sgr(st); got != want {
			t.Errorf("profile %v: %q, want %q", p, got, want)
		}
	}
	if got := newTheme(true, colorprofile.Ascii).sgr(stStale); got != "\x1b[0;2m" {
		t.Errorf("old figures without colour: %q", got)
	}
}

// The terminal is asked for its background; what is forced stays.
func TestBackground(t *testing.T) {
	white := tea.BackgroundColorMsg{Color: color.White}
	auto := newModel(context.Background(), Options{})
	auto.Update(white)
	if auto.theme.dark {
		t.Error("a white terminal gets the dark theme")
	}
	auto.Update(tea.BackgroundColorMsg{Color: color.Black})
	if !auto.theme.dark {
		t.Error("a black terminal gets the light theme")
	}
	forced := newModel(context.Background(), Options{Theme: SchemeDark})
	forced.Update(white)
	if !forced.theme.dark {
		t.Error("a forced theme was changed by the terminal")
	}
	auto.Update(tea.ColorProfileMsg{Profile: colorprofile.ANSI})
	auto.Update(snapshotMsg{sceneSettled()})
	if strings.Contains(auto.View().Content, "38;2;") {
		t.Error("16 colours get true colour")
	}
	plain := newModel(context.Background(), Options{NoColor: true})
	plain.Update(tea.ColorProfileMsg{Profile: colorprofile.TrueColor})
	plain.Update(snapshotMsg{sceneCrash()})
	if v := plain.View().Content; strings.Contains(v, ";38;") || strings.Contains(v, "[38") || strings.Contains(v, "48;") {
		t.Error("NO_COLOR has colours")
	}
}

// In ASCII not one byte beyond it is drawn, in any scene, view or dialog.
func TestASCIIOnly(t *testing.T) {
	for name, make := range scenes {
		drive(t, 120, 40, make(), func(d *driver) {
			for _, keys := range [][]string{{"1"}, {"l"}, {"esc", "f"}, {"esc", "o"}, {"esc", "t"}, {"esc", "p"}, {"esc", "v"}, {"esc", "2", "enter"}, {"esc", "4", "enter"}, {"esc", "?"}, {"esc", ":"}, {"esc", ",", ","}} {
				d.Press(keys...)
				for _, r := range d.Screen() {
					if r >= 0x7f {
						t.Fatalf("%s after %v shows %q in\n%s", name, keys, r, d.Screen())
					}
				}
			}
		}, func(o *Options) { o.ASCII = true })
	}
}
