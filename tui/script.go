package tui

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/launch/restart"
	"github.com/runvigil/runvigil/metrics"
)

// A scriptEdit is a start script into which the changed flags can go, once the new
// server serves. It is the operator's own file: nothing is written unless that was
// chosen, and shown in the confirmation.
type scriptEdit struct {
	path          string
	before, after []byte
	why           string // why it cannot be edited, "" where it can
	// other is in how many flags the script differs from the launch that is edited.
	other  int
	chosen bool
}

// newScriptEdit makes the changes of a draft in a script.
func newScriptEdit(path string, text []byte, d *launch.Draft) *scriptEdit {
	e := &scriptEdit{path: path, before: text, after: text}
	base := d.Base()
	s, err := launch.ParseScript(text)
	if err == nil {
		l := s.Launch()
		l.Version = base.Version
		for _, c := range launch.Diff(base, l) {
			if !c.Env {
				e.other++
			}
		}
		e.after, err = s.Take(base.Version, d.Diff())
	}
	switch {
	case err != nil:
		e.after, e.why = text, metrics.Clean(err.Error(), 300)
	case bytes.Equal(e.before, e.after):
		e.why = "it has these flags already"
	}
	return e
}

// lines show what is changed in the script.
func (e *scriptEdit) lines(w int) []line {
	if e.why != "" {
		return para(sp("-", stDim), 2, w, clean(e.path)+" is left as it is: "+e.why, stText)
	}
	var out []line
	if e.other > 0 {
		out = para(sp("▲", stWarn.bold()), 2, w, "it differs from what runs in "+plural(e.other, "other flag")+"; only those that are changed here go into it", stWarn)
	}
	for _, text := range launch.ChangedLines(e.before, e.after) {
		sign, st := sp("-", stDim), stDim
		if strings.HasPrefix(text, "+") {
			sign, st = sp("+", stOK.bold()), stText
		}
		out = append(out, para(sign, 2, w, clean(metrics.Mask(strings.TrimSpace(text[2:]))), st)...)
	}
	return out
}

// reviewScriptMsg is a start script as it stands on the node.
type reviewScriptMsg struct {
	v      *reviewView
	id     string
	path   string
	text   []byte
	err    error
	chosen bool // it was asked for
}

// offerScript reads the script that the server was started by, if one was found.
func (v *reviewView) offerScript(m *Model) tea.Cmd {
	if v.draft == nil || len(v.draft.Diff()) == 0 {
		return nil
	}
	if file := v.seen.Launch.ScriptOf(); file != "" {
		return v.readScript(m, file, false)
	}
	return nil
}

func (v *reviewView) readScript(m *Model, file string, chosen bool) tea.Cmd {
	act, id := m.actor(), v.id
	return m.call(func(ctx context.Context) tea.Msg {
		text, err := act.ReadScript(ctx, file)
		return reviewScriptMsg{v, id, file, text, err, chosen}
	})
}

func (msg reviewScriptMsg) apply(m *Model) tea.Cmd {
	v := msg.v
	if v.id != msg.id || v.draft == nil {
		return nil
	}
	if msg.err != nil {
		if msg.chosen {
			return m.say(msg.err.Error())
		}
		return nil // it was a guess
	}
	e := newScriptEdit(msg.path, msg.text, v.draft)
	switch {
	case !msg.chosen && e.other > 0:
		return nil // the parent's script starts something else
	case msg.chosen && e.why != "":
		v.script = e
		return m.say(e.path + " is left as it is: " + e.why)
	}
	e.chosen = msg.chosen
	v.script = e
	return nil
}

// chooseScript turns the edit of the start script on or off, and asks for its path
// where none is known.
func (v *reviewView) chooseScript(m *Model) tea.Cmd {
	switch {
	case v.draft == nil || len(v.draft.Diff()) == 0:
		return m.say("no flag is changed that could go into a start script")
	case v.script != nil && v.script.why == "":
		v.script.chosen = !v.script.chosen
		return nil
	}
	start := v.seen.Launch.ScriptOf()
	if v.script != nil {
		start = v.script.path
	}
	m.ask(newLineDialog("write the changed flags into which start script?", "its path on the node, from the root; edited once it serves", start, func(m *Model, text string) tea.Cmd {
		text = strings.TrimSpace(text)
		switch {
		case text == "":
			return nil
		case !strings.HasPrefix(text, "/"):
			return m.say("a path from the root, as /data/start.sh")
		}
		return v.readScript(m, text, true)
	}))
	return nil
}

// writes is the script that is edited with the plan, nil for none.
func (v *reviewView) writes() *scriptEdit {
	if v.script == nil || !v.script.chosen || v.script.why != "" || v.opt.Op == restart.Stop {
		return nil
	}
	e := *v.script
	return &e
}

// scriptText is the choice in the review's line of options.
func (v *reviewView) scriptText() string {
	switch {
	case v.script == nil || v.script.why != "":
		return "none"
	case v.script.chosen:
		return "edited once it serves"
	}
	return "left as it is"
}

// writeScript edits the start script of a launch that serves now.
func (f *follow) writeScript(m *Model) tea.Cmd {
	act, e := m.actor(), f.script
	if e == nil || act == nil {
		return nil
	}
	return m.call(func(ctx context.Context) tea.Msg {
		return wroteMsg{f, act.WriteScript(ctx, e.path, e.before, e.after)}
	})
}

type wroteMsg struct {
	f   *follow
	err error
}

func (msg wroteMsg) apply(m *Model) tea.Cmd {
	msg.f.wrote, msg.f.writeErr = msg.err == nil, msg.err
	if msg.err != nil {
		return m.say("the start script is as it was: " + msg.err.Error())
	}
	return m.say(msg.f.script.path + " is edited")
}

// scriptLines tell what became of the start script.
func (f *follow) scriptLines(bad bool, w int) []line {
	e := f.script
	switch {
	case e == nil:
		return nil
	case f.writeErr != nil:
		return para(sp("▲", stWarn.bold()), 2, w, fmt.Sprintf("%s is as it was: %s", clean(e.path), clean(f.writeErr.Error())), stWarn)
	case f.wrote:
		return para(sp("●", stOK.bold()), 2, w, clean(e.path)+" is edited; as it was: "+clean(e.path)+launch.ScriptBackup, stText)
	case bad || f.journal.Back:
		return para(sp("-", stDim), 2, w, clean(e.path)+" is as it was: the new launch does not serve", stText)
	}
	return para(sp("○", stInfo), 2, w, clean(e.path)+" is edited once the new server serves, if this screen is open then", stDim)
}
