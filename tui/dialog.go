package tui

import (
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/runvigil/runvigil/launch/restart"
)

// A dialog lies above the screen and takes every key. Dialogs are a stack: the
// last one opened is asked first.
type dialog interface {
	draw(m *Model, screen area)
	keys() []dialogKey
	// typed takes a key that is none of keys: text and the keys that edit it.
	typed(m *Model, k tea.KeyPressMsg) tea.Cmd
	paste(m *Model, text string) tea.Cmd
	cursor() (x, y int, ok bool)
}

// A dialogKey is the one source for a key of a dialog: what it does, and its
// line in docs/keys.md.
type dialogKey struct {
	keys []string // as Bubble Tea names them
	help string
	do   func(m *Model, k tea.KeyPressMsg) tea.Cmd
}

// dialogKeyPress hands a key to a dialog.
func (m *Model) dialogKeyPress(d dialog, k tea.KeyPressMsg) tea.Cmd {
	for _, b := range d.keys() {
		if slices.Contains(b.keys, k.String()) {
			return b.do(m, k)
		}
	}
	return d.typed(m, k)
}

// dialogKinds are the dialogs by what they ask for, as docs/keys.md lists them.
func dialogKinds() []struct {
	what string
	d    dialog
} {
	var clients clientDialog
	for _, c := range clientChoices(restart.Restart) {
		clients.choices = append(clients.choices, clientChoice{key: string(c[0]), client: c})
	}
	return []struct {
		what string
		d    dialog
	}{
		{"the help", &helpDialog{}},
		{"a command (`:`)", &palette{}},
		{"the newest row", &rowDialog{}},
		{"one line of text, as for a search or a note", &lineDialog{}},
		{"the search of the form", &findDialog{}},
		{"the value of a flag", &valueDialog{}},
		{"a span of time", &waitDialog{}},
		{"what becomes of the client", &clients},
		{"the last word before the node is touched", &confirmDialog{}},
		{"a host key", &promptDialog{p: Prompt{Kind: PromptHostKey}}},
		{"a password or code", &promptDialog{p: Prompt{Kind: PromptSecret}}},
		{"the touch of a security key", &promptDialog{p: Prompt{Kind: PromptTouch}}},
	}
}

// scrollKeys move a dialog's first line.
func scrollKeys(top *int) []dialogKey {
	by := func(n int) func(*Model, tea.KeyPressMsg) tea.Cmd {
		return func(*Model, tea.KeyPressMsg) tea.Cmd { *top += n; return nil }
	}
	return []dialogKey{
		{[]string{"j", "down"}, "down one line", by(1)},
		{[]string{"k", "up"}, "up one line", by(-1)},
		{[]string{"ctrl+d", "pgdown"}, "down ten lines", by(10)},
		{[]string{"ctrl+u", "pgup"}, "up ten lines", by(-10)},
		{[]string{"g", "home"}, "to the first line", func(*Model, tea.KeyPressMsg) tea.Cmd { *top = 0; return nil }},
		{[]string{"G", "end"}, "to the last line", func(*Model, tea.KeyPressMsg) tea.Cmd { *top = 1 << 20; return nil }},
	}
}

// closeKey closes a dialog.
func closeKey(d dialog, help string, keys ...string) dialogKey {
	return dialogKey{keys, help, func(m *Model, _ tea.KeyPressMsg) tea.Cmd { m.close(d); return nil }}
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

// An inputKey edits a line of text.
type inputKey struct {
	keys []string
	help string
	do   func(in *input)
}

var inputKeys = []inputKey{
	{[]string{"left", "ctrl+b"}, "one letter to the left", func(in *input) { in.pos = max(in.pos-1, 0) }},
	{[]string{"right", "ctrl+f"}, "one letter to the right", func(in *input) { in.pos = min(in.pos+1, len(in.runes)) }},
	{[]string{"home", "ctrl+a"}, "to the beginning", func(in *input) { in.pos = 0 }},
	{[]string{"end", "ctrl+e"}, "to the end", func(in *input) { in.pos = len(in.runes) }},
	{[]string{"backspace", "ctrl+h"}, "delete the letter before", func(in *input) {
		if in.pos > 0 {
			in.runes = append(in.runes[:in.pos-1], in.runes[in.pos:]...)
			in.pos--
		}
	}},
	{[]string{"delete"}, "delete the letter here", func(in *input) {
		if in.pos < len(in.runes) {
			in.runes = append(in.runes[:in.pos], in.runes[in.pos+1:]...)
		}
	}},
	{[]string{"ctrl+u"}, "delete all before", func(in *input) { in.runes, in.pos = in.runes[in.pos:], 0 }},
	{[]string{"ctrl+k"}, "delete all behind", func(in *input) { in.runes = in.runes[:in.pos] }},
	{[]string{"ctrl+w"}, "delete the word before", func(in *input) {
		i := in.pos
		for i > 0 && in.runes[i-1] == ' ' {
			i--
		}
		for i > 0 && in.runes[i-1] != ' ' {
			i--
		}
		in.runes, in.pos = append(in.runes[:i], in.runes[in.pos:]...), i
	}},
}

// key takes an editing key or text; ok is false for a key that edits nothing.
func (in *input) key(k tea.KeyPressMsg) (ok bool) {
	for _, b := range inputKeys {
		if slices.Contains(b.keys, k.String()) {
			b.do(in)
			return true
		}
	}
	if k.Text == "" || k.Mod&^tea.ModShift != 0 {
		return false
	}
	in.insert(k.Text)
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
