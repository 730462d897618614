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

func (d *confirmDialog) pause() tea.Cmd {
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

func (d *confirmDialog) key(m *Model, k tea.KeyPressMsg) tea.Cmd {
	if !d.armed {
		return nil
	}
	key := k.String()
	if key == "esc" || key == "n" && d.name == "" || key == "q" && d.name == "" {
		m.close(d)
		return m.say("nothing was done")
	}
	var hint tea.Cmd
	if key == "Y" && d.named() {
		if d.quiet && !k.IsRepeat {
			m.close(d)
			return d.yes(m)
		}
		hint = m.say("that was too soon to be meant: Y once more")
	} else if key == "enter" {
		hint = m.say("enter says nothing here: Y does it, esc leaves it")
	} else if d.name != "" && !k.IsRepeat {
		d.in.key(k)
	}
	d.seq++
	d.quiet = false
	return tea.Batch(hint, d.pause())
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
