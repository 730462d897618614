package tui

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
)

// confirmDialog is the last word before the node is touched. It says no unless
// it is told yes: by the key Y, after a pause in which nothing was typed, and
// where something that works is stopped, behind the typed name of the node.
// Enter, a paste, a held key and its first moment say nothing.
type confirmDialog struct {
	title string
	body  []line
	name  string // that must be typed, "" for none
	in    input
	yes   func(m *Model) tea.Cmd

	armed bool // the first moment is over
	quiet bool // nothing was typed for as long
	seq   int
}

// pausedMsg tells that nothing was typed since the key seq.
type pausedMsg struct {
	d   *confirmDialog
	seq int
}

func (msg pausedMsg) apply(*Model) tea.Cmd {
	msg.d.armed = true
	if msg.seq == msg.d.seq {
		msg.d.quiet = true
	}
	return nil
}

// pause begins a time in which nothing is typed.
func (d *confirmDialog) pause() tea.Cmd {
	d.quiet = false
	d.seq++
	seq := d.seq
	return tea.Tick(grace, func(time.Time) tea.Msg { return pausedMsg{d, seq} })
}

func (m *Model) confirm(title string, body []line, name string, yes func(m *Model) tea.Cmd) tea.Cmd {
	d := &confirmDialog{title: title, body: body, name: name, yes: yes}
	m.ask(d)
	return d.pause()
}

func (d *confirmDialog) named() bool { return d.in.text() == d.name }

func (d *confirmDialog) draw(_ *Model, screen area) {
	extra := 2
	if d.name != "" {
		extra = 4
	}
	h := min(len(d.body)+extra+3, screen.h())
	a := popup(screen, 72, h, clean(d.title)+"?", stCrit)
	room := max(a.h()-extra, 0)
	drawLines(a.sub(0, 0, a.w(), room), d.body, 0)
	y := room
	if d.name != "" {
		x := a.line(0, y+1, a.w(), line{sp("it works: type ", stText), sp(clean(d.name), stStrong), sp(", then Y  ", stText)})
		d.in.draw(a, x, y+1, min(a.w()-x, textWidth(d.name)+12))
		y += 2
	}
	yes := line{sp("Y", stDim), sp(" does it   ", stDim)}
	switch {
	case d.named() && d.quiet:
		yes = line{sp("Y", stCrit.bold()), sp(" does it   ", stStrong)}
	case d.named():
		yes = line{sp("…", stDim), sp(" wait a moment   ", stDim)}
	}
	a.line(0, y+1, a.w(), append(yes, sp("esc", stAccent.bold()), sp(" no, leave it as it is", stText)))
}

func (d *confirmDialog) keys() []dialogKey {
	no := []string{"esc"}
	if d.name == "" {
		no = append(no, "n", "q")
	}
	return []dialogKey{
		{no, "no, leave it as it is; n and q only where no name is asked for", func(m *Model, _ tea.KeyPressMsg) tea.Cmd {
			if !d.armed {
				return nil
			}
			m.close(d)
			return m.say("nothing was done")
		}},
		{[]string{"Y"}, "do it; where something that works is stopped, only behind the typed name of the node", func(m *Model, k tea.KeyPressMsg) tea.Cmd {
			if !d.armed || !d.named() {
				return d.typed(m, k)
			}
			if d.quiet && !k.IsRepeat {
				m.close(d)
				return d.yes(m)
			}
			return tea.Batch(m.say("that was too soon to be meant: Y once more"), d.pause())
		}},
		{[]string{"enter"}, "nothing: it says so", func(m *Model, _ tea.KeyPressMsg) tea.Cmd {
			if !d.armed {
				return nil
			}
			return tea.Batch(m.say("enter says nothing here: Y does it, esc leaves it"), d.pause())
		}},
	}
}

// typed takes the node's name; each key begins the pause anew.
func (d *confirmDialog) typed(_ *Model, k tea.KeyPressMsg) tea.Cmd {
	if !d.armed {
		return nil
	}
	if d.name != "" && !k.IsRepeat {
		d.in.key(k)
	}
	return d.pause()
}

func (d *confirmDialog) paste(m *Model, text string) tea.Cmd {
	if d.name == "" || !strings.Contains(text, d.name) {
		return nil
	}
	return m.say(fmt.Sprintf("type %s: it is not taken from a paste", clean(d.name)))
}

func (d *confirmDialog) cursor() (x, y int, ok bool) {
	if d.name == "" {
		return 0, 0, false
	}
	return d.in.cursor()
}
