package tui

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/runvigil/runvigil/metrics"
)

// snoozeFor is how long A quiets a finding.
const snoozeFor = time.Hour

func hasActions(m *Model) bool { return m.opt.Actions != nil }

// live tells that what is asked for by hand reaches a node.
func isLive(m *Model) bool { return m.opt.Actions != nil && (m.live == nil || !m.live.Replay) }

func canReconnect(m *Model) bool {
	_, ok := m.opt.Actions.(Reconnecter)
	return ok && isLive(m) && m.live != nil && m.live.Link.Waiting
}

func doKeys() []binding {
	findings := []string{viewOverview, viewFindings}
	return []binding{
		{name: "acknowledge", keys: []string{"a"}, views: findings, group: "Do", help: "acknowledge the selected finding: it stays in sight, quietly", when: hasActions,
			do: func(m *Model, _ string) tea.Cmd { return m.ack("ack", time.Time{}) }},
		{name: "snooze", keys: []string{"A"}, views: findings, group: "Do", help: "quiet the selected finding for an hour", when: hasActions,
			do: func(m *Model, _ string) tea.Cmd {
				if m.live == nil {
					return nil
				}
				return m.ack("snooze", m.live.At.Add(snoozeFor))
			}},
		{name: "note", keys: []string{"m"}, group: "Do", help: "write a note onto the timeline", arg: "TEXT", when: hasActions,
			do: func(m *Model, arg string) tea.Cmd {
				if arg != "" {
					return m.note(arg)
				}
				m.ask(newLineDialog("note", "what should be remembered of this moment", "", (*Model).note))
				return nil
			}},
		{name: "target", keys: []string{"T"}, views: []string{viewOverview, viewRows}, group: "Do", help: "how many rows are wanted: of the selected dataset, else of the job", arg: "ROWS", when: hasActions,
			do: func(m *Model, arg string) tea.Cmd { return m.target(arg) }},
		{name: "shell", keys: []string{"s"}, group: "Do", short: "shell", help: "a shell on the node over the same connection; its end comes back here",
			when: func(m *Model) bool { return isLive(m) && !m.opt.ReadOnly }, do: func(m *Model, _ string) tea.Cmd { return m.shell() }},
		{name: "reconnect", keys: []string{"r"}, group: "Do", short: "reconnect", help: "try the connection again where it waits for a person",
			when: canReconnect, do: func(m *Model, _ string) tea.Cmd {
				act := m.opt.Actions.(Reconnecter)
				return m.call(func(ctx context.Context) tea.Msg { return sayMsg("connecting again", act.Reconnect(ctx)) })
			}},
		{name: "copy", keys: []string{"y"}, group: "Do", short: "copy", help: "copy what is in focus as text",
			do: func(m *Model, _ string) tea.Cmd { return m.copy() }},
		{name: "save", show: ":save", group: "Do", arg: "PATH", help: "write what is in focus to a new file of this machine; a bare name lies among the copies", when: hasActions,
			do: func(m *Model, arg string) tea.Cmd { return m.save(arg) }},
		{name: "command", keys: []string{":"}, group: "Do", short: "command", help: "run any command by its name; tab completes",
			do: func(m *Model, _ string) tea.Cmd { m.ask(&palette{}); return nil }},
		{name: "help", keys: []string{"?"}, group: "Screen", short: "help", help: "the keys that work here",
			do: func(m *Model, _ string) tea.Cmd { m.ask(&helpDialog{}); return nil }},
	}
}

// sayMsg shows the outcome of something that ran beside the screen.
func sayMsg(done string, err error) tea.Msg {
	if err != nil {
		return toastMsg{err.Error()}
	}
	return toastMsg{done}
}

// put hands a frame to the fold.
func (m *Model) put(f metrics.Frame, done string) tea.Cmd {
	act := m.opt.Actions
	return m.call(func(ctx context.Context) tea.Msg { return sayMsg(done, act.Put(ctx, f)) })
}

// focused is the finding that acting keys mean.
func (m *Model) focused() *metrics.Finding {
	if m.topName() == viewFindings {
		return m.views[viewFindings].(*findingsView).selected(m)
	}
	if m.snap == nil || m.sel[PaneFind] >= len(m.snap.Findings) {
		return nil
	}
	return &m.snap.Findings[m.sel[PaneFind]]
}

func (m *Model) ack(action string, until time.Time) tea.Cmd {
	f := m.focused()
	if f == nil {
		return m.say("no finding to " + map[string]string{"ack": "acknowledge", "snooze": "snooze"}[action])
	}
	done := f.ID + " acknowledged"
	switch {
	case action == "snooze":
		done = f.ID + " is quiet until " + m.pen().clock(until)
	case f.Acked:
		action, done = "clear", f.ID+" is no longer acknowledged"
	}
	return m.put(metrics.JSONFrame(metrics.KindAck, "", time.Time{}, metrics.Ack{ID: f.ID, Subject: f.Subject, Action: action, Until: until}), done)
}

func (m *Model) note(text string) tea.Cmd {
	text = metrics.Clean(strings.TrimSpace(text), 400)
	if text == "" || m.live == nil {
		return nil
	}
	at := m.live.At
	if !m.at.IsZero() {
		at = m.at
	}
	return m.put(metrics.JSONFrame(metrics.KindNote, "", time.Time{}, metrics.Note{At: at, Text: text}), "noted")
}

// target asks for a number of rows and hands the changed configuration to the
// fold.
func (m *Model) target(arg string) tea.Cmd {
	if m.live == nil {
		return nil
	}
	path, name, was := "", "the job", m.live.Job.Target
	var d *metrics.Dataset
	if m.topName() == viewRows {
		v := m.views[viewRows].(*rowsView)
		if es := v.entries(m.snap); v.sel < len(es) {
			d = es[v.sel].d
		}
	} else if m.focusShown && m.focus == PaneRows && m.sel[PaneRows] < len(m.snap.Datasets) {
		d = &m.snap.Datasets[m.sel[PaneRows]]
	}
	if d != nil {
		path, name, was = d.Path, d.Name, d.Target
	}
	set := func(m *Model, s string) tea.Cmd {
		n, err := strconv.ParseInt(strings.NewReplacer(",", "", " ", "", "_", "", "'", "").Replace(s), 10, 64)
		if err != nil || n < 0 {
			return m.say("target: a number of rows, as 10000")
		}
		c := m.live.Config
		c.Targets = slices.DeleteFunc(slices.Clone(c.Targets), func(t metrics.ConfigTarget) bool { return t.Path == path })
		if n > 0 {
			c.Targets = append(c.Targets, metrics.ConfigTarget{Path: path, Rows: n})
		}
		return m.put(metrics.JSONFrame(metrics.KindConfig, "", time.Time{}, c), fmt.Sprintf("target of %s: %s rows", name, commas(n)))
	}
	if arg != "" {
		return set(m, arg)
	}
	start := ""
	if was.Rows > 0 {
		start = strconv.FormatInt(was.Rows, 10)
	}
	m.ask(newLineDialog("target of "+name, "rows that are wanted; 0 for none", start, set))
	return nil
}

// shell leaves the screen for a shell on the node and comes back.
func (m *Model) shell() tea.Cmd {
	act, ctx := m.opt.Actions, m.ctx
	return func() tea.Msg {
		c, err := act.Shell(ctx)
		return shellMsg{c, err}
	}
}

type shellMsg struct {
	c   tea.ExecCommand
	err error
}

func (msg shellMsg) apply(m *Model) tea.Cmd {
	if msg.err != nil {
		return m.say("shell: " + msg.err.Error())
	}
	return tea.Exec(msg.c, func(err error) tea.Msg {
		if err != nil {
			return toastMsg{"the shell ended: " + err.Error()}
		}
		return toastMsg{"back from the shell"}
	})
}

// focusText is what is in focus, as text.
func (m *Model) focusText() string {
	m.draw()
	m.dirty = true // what is said about the copy is drawn after it
	c := m.drawn
	if v, ok := m.top().(*logView); ok {
		b := v.buf(m)
		end := min(v.top+v.page, v.last(m, b))
		var out strings.Builder
		for i := v.top; i < end; i++ {
			out.WriteString(b.lines[i].Text)
			out.WriteByte('\n')
		}
		return out.String()
	}
	r := Rect{0, 0, c.w, c.h}
	if len(m.stack) == 0 && m.focusShown {
		r = m.layout.Rect[m.focus]
	}
	rows := strings.Split(c.text(r), "\n")
	for i, row := range rows {
		rows[i] = strings.TrimRight(strings.Trim(row, "│╭╮╰╯|"), " ─-")
	}
	return strings.Trim(strings.Join(rows, "\n"), "\n") + "\n"
}

// copy gives what is in focus to the terminal's clipboard. No terminal tells
// that it refused, so the text lies in a file as well.
func (m *Model) copy() tea.Cmd {
	text, act := m.focusText(), m.opt.Actions
	lines := plural(strings.Count(text, "\n"), "line")
	clip := tea.SetClipboard(text)
	if act == nil {
		return tea.Batch(clip, m.say("copied "+lines+" to the terminal's clipboard"))
	}
	return tea.Batch(clip, m.call(func(ctx context.Context) tea.Msg {
		path, err := act.Save(ctx, "", text)
		if err != nil {
			return toastMsg{"copied " + lines + " to the terminal's clipboard; no file where that is refused: " + err.Error()}
		}
		return toastMsg{"copied " + lines + " to the terminal's clipboard, and to " + path}
	}))
}

// save writes what is in focus to a new file of this machine.
func (m *Model) save(name string) tea.Cmd {
	text, act := m.focusText(), m.opt.Actions
	name = strings.TrimSpace(name)
	if name == "" {
		name = "runvigil-" + m.topName()
		if m.snap != nil {
			name += m.snap.At.Add(m.snap.NodeClock).In(time.FixedZone(m.snap.Zone, m.snap.ZoneSec)).Format("-20060102-150405")
		}
		name += ".txt"
	}
	return m.call(func(ctx context.Context) tea.Msg {
		path, err := act.Save(ctx, name, text)
		return sayMsg("written to "+path, err)
	})
}

// newestRow asks for the newest row of a file and shows it.
func (m *Model) newestRow(path string) tea.Cmd {
	if !isLive(m) {
		return m.say("rows can be read only from a live node")
	}
	act := m.opt.Actions
	return tea.Batch(m.say("reading the newest row of "+base(path)+" …"), m.call(func(ctx context.Context) tea.Msg {
		r, err := act.NewestRow(ctx, path)
		if err == nil && len(r.JSON) == 0 {
			err = errors.New(base(path) + " has no row yet")
		}
		return rowMsg{r, err}
	}))
}

type rowMsg struct {
	r   Row
	err error
}

func (msg rowMsg) apply(m *Model) tea.Cmd {
	if msg.err != nil {
		return m.say("newest row: " + msg.err.Error())
	}
	m.toast = ""
	m.ask(newRowDialog(msg.r))
	return nil
}
