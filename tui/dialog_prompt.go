package tui

import (
	"time"

	tea "charm.land/bubbletea/v2"
)

// promptDialog is a question of the connection: a host key, a secret, a touch.
// Its answer goes back once, whatever happens to the dialog.
type promptDialog struct {
	p     Prompt
	in    input
	armed bool
}

// grace is how long a question that opens by itself takes no key: what is typed
// then was meant for what lay below it.
const grace = 400 * time.Millisecond

type armMsg struct{ d *promptDialog }

func (msg armMsg) apply(*Model) tea.Cmd {
	msg.d.armed = true
	return nil
}

// prompt opens a question, or withdraws one that is no longer asked.
func (m *Model) prompt(p Prompt) tea.Cmd {
	for _, d := range m.dialogs {
		if pd, ok := d.(*promptDialog); ok && pd.p.ID == p.ID {
			m.close(pd)
			break
		}
	}
	if p.Kind == PromptWithdraw {
		return nil
	}
	d := &promptDialog{p: p}
	d.in.secret = p.Kind == PromptSecret
	m.ask(d)
	return tea.Tick(grace, func(time.Time) tea.Msg { return armMsg{d} })
}

func (d *promptDialog) draw(_ *Model, screen area) {
	body := wrap(clean(d.p.Text), min(screen.w(), 76)-4, 6)
	h := len(body) + 4
	if d.p.Fingerprint != "" {
		h += 2
	}
	if d.types() {
		h += 2
	}
	a := popup(screen, 76, h, clean(d.p.Title), stWarn)
	y := 0
	for _, row := range body {
		a.put(0, y, row, stText)
		y++
	}
	if d.p.Fingerprint != "" {
		a.cut(0, y+1, a.w(), clean(d.p.Fingerprint), stStrong)
		y += 2
	}
	y++
	hint := line{sp("enter", stAccent.bold()), sp(" answer   ", stDim), sp("esc", stAccent.bold()), sp(" decline", stDim)}
	switch d.p.Kind {
	case PromptHostKey:
		hint = line{sp("y", stAccent.bold()), sp(" trust it and remember   ", stDim), sp("n", stAccent.bold()), sp(" or ", stDim), sp("esc", stAccent.bold()), sp(" decline", stDim)}
	case PromptTouch:
		hint = line{sp("touch your key; ", stStrong), sp("esc", stAccent.bold()), sp(" gives up", stDim)}
	default:
		d.in.draw(a, 0, y, a.w())
		y += 2
	}
	a.line(0, min(y, a.h()-1), a.w(), hint)
}

func (d *promptDialog) answer(m *Model, text string, ok bool) tea.Cmd {
	m.close(d)
	d.in.set("")
	if m.opt.Actions != nil {
		m.opt.Actions.Answer(d.p.ID, text, ok)
	}
	return nil
}

// keys are none before the question has been there for a moment.
func (d *promptDialog) keys() []dialogKey {
	says := func(answer func() string, ok bool) func(m *Model, _ tea.KeyPressMsg) tea.Cmd {
		return func(m *Model, _ tea.KeyPressMsg) tea.Cmd {
			if !d.armed {
				return nil
			}
			return d.answer(m, answer(), ok)
		}
	}
	word := func(s string) func() string { return func() string { return s } }
	esc := dialogKey{[]string{"esc"}, "decline", says(word(""), false)}
	switch d.p.Kind {
	case PromptHostKey:
		return []dialogKey{
			{[]string{"y"}, "trust it and remember", says(word("yes"), true)},
			{[]string{"n"}, "decline", says(word("no"), false)},
			esc,
		}
	case PromptTouch:
		return []dialogKey{esc}
	}
	return []dialogKey{{[]string{"enter"}, "answer", says(d.in.text, true)}, esc}
}

func (d *promptDialog) typed(_ *Model, k tea.KeyPressMsg) tea.Cmd {
	if d.armed && d.types() {
		d.in.key(k)
	}
	return nil
}

// types tells that the answer is typed.
func (d *promptDialog) types() bool { return d.p.Kind == PromptText || d.p.Kind == PromptSecret }

// paste is taken where something is typed; a host key is never trusted by it.
func (d *promptDialog) paste(_ *Model, text string) tea.Cmd {
	if d.armed && d.types() {
		d.in.insert(text)
	}
	return nil
}

func (d *promptDialog) cursor() (x, y int, ok bool) {
	if d.types() {
		return d.in.cursor()
	}
	return 0, 0, false
}
