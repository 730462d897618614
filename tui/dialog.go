package tui

import (
	"strings"

	tea "charm.land/bubbletea/v2"
)

// A dialog lies above the screen and takes every key. Dialogs are a stack: the
// last one opened is asked first.
type dialog interface {
	draw(m *Model, screen area)
	key(m *Model, k tea.KeyPressMsg) tea.Cmd
	paste(m *Model, text string) tea.Cmd
	cursor() (x, y int, ok bool)
}

func (m *Model) dialog() dialog {
	if len(m.dialogs) == 0 {
		return nil
	}
	return m.dialogs[len(m.dialogs)-1]
}

func (m *Model) ask(d dialog) { m.dialogs = append(m.dialogs, d) }

func (m *Model) close(d dialog) {
	for i, other := range m.dialogs {
		if other == d {
			m.dialogs = append(m.dialogs[:i], m.dialogs[i+1:]...)
			return
		}
	}
}

// popup draws an empty box in the middle of the screen and gives its inside.
func popup(screen area, w, h int, title string, st style) area {
	w, h = min(w, screen.w()), min(h, screen.h())
	a := screen.sub((screen.w()-w)/2, max((screen.h()-h)/3, 0), w, h)
	a.clear(stText)
	return border(a, true, st, line{sp(title, stStrong)}, nil)
}

// input is one line of text that is being typed.
type input struct {
	runes  []rune
	pos    int
	secret bool
	x, y   int // of the cursor on the screen, as last drawn
}

func (in *input) text() string { return string(in.runes) }

func (in *input) set(s string) { in.runes = []rune(s); in.pos = len(in.runes) }

func (in *input) insert(s string) {
	for _, r := range strings.TrimRight(s, "\r\n") {
		if r == '\n' || r == '\t' {
			r = ' ' // words that stood on two lines stay two
		}
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == 0xfffd {
			continue
		}
		in.runes = append(in.runes[:in.pos], append([]rune{r}, in.runes[in.pos:]...)...)
		in.pos++
	}
}

// key takes an editing key; ok is false for one that edits nothing.
func (in *input) key(k tea.KeyPressMsg) (ok bool) {
	switch k.String() {
	case "left", "ctrl+b":
		in.pos = max(in.pos-1, 0)
	case "right", "ctrl+f":
		in.pos = min(in.pos+1, len(in.runes))
	case "home", "ctrl+a":
		in.pos = 0
	case "end", "ctrl+e":
		in.pos = len(in.runes)
	case "backspace", "ctrl+h":
		if in.pos > 0 {
			in.runes = append(in.runes[:in.pos-1], in.runes[in.pos:]...)
			in.pos--
		}
	case "delete":
		if in.pos < len(in.runes) {
			in.runes = append(in.runes[:in.pos], in.runes[in.pos+1:]...)
		}
	case "ctrl+u":
		in.runes, in.pos = in.runes[in.pos:], 0
	case "ctrl+k":
		in.runes = in.runes[:in.pos]
	case "ctrl+w":
		i := in.pos
		for i > 0 && in.runes[i-1] == ' ' {
			i--
		}
		for i > 0 && in.runes[i-1] != ' ' {
			i--
		}
		in.runes, in.pos = append(in.runes[:i], in.runes[in.pos:]...), i
	default:
		if k.Text == "" || k.Mod&^tea.ModShift != 0 {
			return false
		}
		in.insert(k.Text)
	}
	return true
}

// draw writes the text with the cursor in sight and remembers where that is.
func (in *input) draw(a area, x, y, w int) {
	if w <= 0 {
		return
	}
	shown := in.runes
	if in.secret {
		shown = make([]rune, len(in.runes))
		for i := range shown {
			shown[i] = '*'
		}
	}
	first := 0
	for textWidth(string(shown[first:in.pos])) > w-1 {
		first++
	}
	a.fill(x, y, w, " ", stText.underline())
	a.sub(x, y, w, 1).put(0, 0, string(shown[first:]), stText.underline())
	in.x = a.r.X + x + textWidth(string(shown[first:in.pos]))
	in.y = a.r.Y + y
}

func (in *input) cursor() (x, y int, ok bool) { return in.x, in.y, true }
