package tui

import (
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/runvigil/runvigil/launch/restart"
)

// clientDialog asks what becomes of the client, with what each choice loses.
type clientDialog struct {
	v       *reviewView
	who     []string
	choices []clientChoice
}

type clientChoice struct {
	key     string
	client  restart.Client
	lines   []string // what is lost
	refused string   // why it is no choice
}

func newClientDialog(m *Model, v *reviewView) *clientDialog {
	d := &clientDialog{v: v}
	for _, c := range clientChoices(v.opt.Op) {
		o := v.opt
		o.Client = c
		p := v.planWith(m, o)
		choice := clientChoice{key: string(c[0]), client: c}
		for _, l := range p.ClientLosses() {
			if !slices.Contains(d.who, l.Who) {
				d.who = append(d.who, l.Who)
			}
			if !slices.Contains(choice.lines, l.What) { // several clients fare alike
				choice.lines = append(choice.lines, l.What)
			}
		}
		for _, r := range p.Refusals {
			if r.Code == restart.RefusedClient {
				choice.refused = r.Reason
			}
		}
		d.choices = append(d.choices, choice)
	}
	return d
}

func (d *clientDialog) lines(w int) []line {
	var out []line
	for _, who := range d.who {
		out = append(out, para(sp("", stText), 0, w, clean(who), stText)...)
	}
	for _, c := range d.choices {
		key := stAccent
		if c.refused != "" {
			key = stDim
		}
		out = append(out, line{sp(c.key, key.bold()), sp(" "+string(c.client), stStrong)})
		for _, text := range c.lines {
			out = append(out, para(sp("  -", stDim), 4, w, clean(text), stText)...)
		}
		if c.refused != "" {
			out = append(out, para(sp("  ✖", stCrit.bold()), 4, w, "refused: "+clean(c.refused), stCrit)...)
		}
	}
	return append(out, nil, line{sp("esc", stAccent.bold()), sp(" back to the review", stDim)})
}

func (d *clientDialog) draw(_ *Model, screen area) {
	w := min(76, screen.w())
	rows := d.lines(w - 4)
	a := popup(screen, w, min(len(rows)+2, screen.h()), "what becomes of the client?", stWarn)
	drawLines(a, rows, 0)
}

func (d *clientDialog) keys() []dialogKey {
	out := []dialogKey{closeKey(d, "back to the review", "esc")}
	for _, c := range d.choices {
		out = append(out, dialogKey{[]string{c.key, strings.ToUpper(c.key)}, "the client: " + string(c.client), func(m *Model, _ tea.KeyPressMsg) tea.Cmd {
			if c.refused != "" {
				return m.say("refused: " + c.refused)
			}
			m.close(d)
			d.v.choose(c.client)
			return d.v.confirm(m)
		}})
	}
	return out
}

func (d *clientDialog) typed(*Model, tea.KeyPressMsg) tea.Cmd { return nil }

func (d *clientDialog) paste(*Model, string) tea.Cmd { return nil }

func (d *clientDialog) cursor() (x, y int, ok bool) { return 0, 0, false }
