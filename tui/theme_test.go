package tui

import (
	"context"
	"image/color"
	"math"
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

// Text reads on black, on the usual dark greys, on white and on paper; frames
// and bars are seen; what is selected reads too.
func TestContrast(t *testing.T) {
	for name, c := range map[string]struct {
		pal     *hues
		grounds [][3]uint8
		text    [3]uint8
	}{
		"dark":  {&darkPalette, [][3]uint8{{0, 0, 0}, {30, 30, 30}, {40, 42, 54}}, [3]uint8{220, 220, 220}},
		"light": {&lightPalette, [][3]uint8{{255, 255, 255}, {250, 250, 250}, {253, 246, 227}}, [3]uint8{30, 30, 30}},
	} {
		for _, ground := range c.grounds {
			for _, r := range []role{roleDim, roleAccent, roleData, roleData2, roleOK, roleInfo, roleWarn, roleCrit, roleStale} {
				least := 4.5
				if r == roleStale {
					least = 3.5 // what is old steps back
				}
				if got := contrast(c.pal[r].rgb, ground); got < least {
					t.Errorf("%s: role %d on %v has a contrast of %.1f, want %.1f", name, r, ground, got, least)
				}
			}
			if got := contrast(c.pal[roleFaint].rgb, ground); got < 1.5 {
				t.Errorf("%s: frames on %v have a contrast of %.1f", name, ground, got)
			}
		}
		for _, r := range []role{roleOK, roleInfo, roleWarn, roleCrit, roleDim} {
			if got := contrast(c.pal[roleOnBadge].rgb, c.pal[r].rgb); got < 4.5 {
				t.Errorf("%s: a badge of role %d has a contrast of %.1f", name, r, got)
			}
		}
		for _, bg := range []role{roleSelect, roleMatch} {
			if got := contrast(c.text, c.pal[bg].rgb); got < 4.5 {
				t.Errorf("%s: text on role %d has a contrast of %.1f", name, bg, got)
			}
			for _, r := range []role{roleCrit, roleWarn} {
				if got := contrast(c.pal[r].rgb, c.pal[bg].rgb); got < 3 {
					t.Errorf("%s: role %d on role %d has a contrast of %.1f", name, r, bg, got)
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
		colorprofile.ANSI256:   "\x1b[0;1;38;5;209;48;5;237m",
		colorprofile.ANSI:      "\x1b[0;1;91;100m",
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
