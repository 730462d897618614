package tui

import (
	"context"
	"fmt"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/runvigil/runvigil/launch/forecast"
	"github.com/runvigil/runvigil/launch/restart"
	"github.com/runvigil/runvigil/metrics"
)

// A follow is a plan that was begun, here or elsewhere, as far as its journal and
// the new server tell.
type follow struct {
	of   restart.UnderWay
	plan restart.Plan
	// others says that somebody else began it: another screen, a command line,
	// another login.
	others bool
	// looking says that this screen may not ask the new server for a token.
	looking bool
	// forecast is what was told of the new launch before.
	forecast forecast.Forecast
	// script is the start script that is edited once the new server serves.
	script   *scriptEdit
	wrote    bool
	writeErr error
	journal  metrics.Journal
	begun    time.Time // on the screen's clock
	waits    string    // what the wait for a token waits for
	ended    bool      // the script is done, or its journal is lost
	err      error     // why the journal could not be followed
	// Of the new server, once the script has handed over.
	ready    bool
	readyAt  time.Time
	readyErr error
	events   chan tea.Msg
}

// active tells whether it goes on; nil is not.
func (f *follow) active() bool {
	return f != nil && (!f.ended || f.asks() && f.err == nil && f.journal.State == metrics.JournalRunning && !f.ready && f.readyErr == nil)
}

// asks tells whether the new server is asked for a token once the script is done:
// never that of another login, where all is looking.
func (f *follow) asks() bool { return f.starts() && f.of.Mine && !f.looking }

func (f *follow) starts() bool {
	return f.plan.Op == restart.Restart || f.plan.Op == restart.Start
}

// stage is where it is, in a few words.
func (f *follow) stage() string {
	what := map[restart.Op]string{restart.Restart: "restart", restart.Start: "start", restart.Stop: "stop", restart.EndOne: "end of a process"}[f.plan.Op]
	switch {
	case !f.active():
		return what + " done"
	case f.ended:
		return what + ": " + orText(f.waits, "waiting for a token")
	case len(f.journal.Lines) > 0:
		return what + ": " + journalText(&f.journal.Lines[len(f.journal.Lines)-1])
	}
	return what + ": begun"
}

func orText(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

type (
	journalMsg struct {
		f *follow
		l metrics.JournalLine
	}
	waitsMsg struct {
		f    *follow
		text string
	}
	endedMsg struct {
		f   *follow
		j   metrics.Journal
		err error
	}
	readyMsg struct {
		f   *follow
		err error
	}
)

// seek looks for a restart that somebody else began: once the link is up, and each
// time that another server runs or none.
func (m *Model) seek() tea.Cmd {
	follower, ok := m.opt.Actions.(Follower)
	if !ok || m.live.Replay || m.live.Link.Status != metrics.LinkUp || m.follow.active() {
		return nil
	}
	about := m.live.Link.Since.String()
	if srv := m.aim(); srv != nil {
		about += " " + srv.ID
	}
	if about == m.sought {
		return nil
	}
	m.sought = about
	return m.call(func(ctx context.Context) tea.Msg {
		u, err := follower.Find(ctx)
		if err != nil || u == nil {
			return nil // it is looked for again when the link or the server changes
		}
		return foundMsg{u}
	})
}

type foundMsg struct{ u *restart.UnderWay }

// apply follows what was found. One that ended without a last word matters only
// where no server runs.
func (msg foundMsg) apply(m *Model) tea.Cmd {
	u := msg.u
	if m.follow.active() || m.follow != nil && m.follow.of.ID == u.ID || u.Dead && m.aim() != nil {
		return nil
	}
	if u.Hidden {
		return m.say(u.String() + "; its journal is for that login only")
	}
	cmd := m.followThis(*u, forecast.Forecast{})
	m.follow.others = true
	m.follow.begun = u.Since.Add(-m.live.NodeClock)
	return tea.Batch(cmd, m.say(u.String()+": R follows it"))
}

// followPlan follows a plan that was begun here.
func (m *Model) followPlan(p restart.Plan, told forecast.Forecast) tea.Cmd {
	return m.followThis(restart.UnderWay{ID: p.ID, Folder: p.ID, Mine: true, Plan: p}, told)
}

// followThis follows what was begun, beside the screen and without limit.
func (m *Model) followThis(u restart.UnderWay, told forecast.Forecast) tea.Cmd {
	f := &follow{of: u, plan: u.Plan, forecast: told, begun: m.live.At, looking: m.actor() == nil || m.opt.ReadOnly, events: make(chan tea.Msg, 64)}
	m.follow = f
	act, ctx := m.opt.Actions.(Follower), m.ctx
	return tea.Batch(f.next(ctx), func() tea.Msg {
		j, err := act.Follow(ctx, u, func(l metrics.JournalLine) { f.tell(ctx, journalMsg{f, l}) })
		if ctx.Err() != nil {
			return nil
		}
		f.tell(ctx, endedMsg{f, j, err})
		return nil
	})
}

func (f *follow) tell(ctx context.Context, msg tea.Msg) {
	select {
	case f.events <- msg:
	case <-ctx.Done():
	}
}

// next waits for the next thing that is told.
func (f *follow) next(ctx context.Context) tea.Cmd {
	return func() tea.Msg {
		select {
		case msg := <-f.events:
			return msg
		case <-ctx.Done():
			return nil
		}
	}
}

func (msg journalMsg) apply(m *Model) tea.Cmd {
	if _, err := msg.f.journal.Apply(msg.l.String()); err != nil {
		msg.f.journal.Broken++
	}
	return msg.f.next(m.ctx)
}

func (msg waitsMsg) apply(m *Model) tea.Cmd {
	msg.f.waits = clean(msg.text)
	return msg.f.next(m.ctx)
}

// apply goes on to the wait for a token where the script has started a server.
func (msg endedMsg) apply(m *Model) tea.Cmd {
	f := msg.f
	f.ended, f.err = true, msg.err
	if msg.err == nil {
		f.journal = msg.j
	}
	act := m.actor()
	if act == nil || !f.active() {
		return nil
	}
	ctx, p, j := m.ctx, f.plan, f.journal
	return tea.Batch(f.next(ctx), func() tea.Msg {
		err := act.Ready(ctx, p, j, func(s string) { f.tell(ctx, waitsMsg{f, s}) })
		if ctx.Err() != nil {
			return nil
		}
		f.tell(ctx, readyMsg{f, err})
		return nil
	})
}

func (msg readyMsg) apply(m *Model) tea.Cmd {
	f := msg.f
	f.readyErr = msg.err
	f.ready = msg.err == nil
	if m.live != nil {
		f.readyAt = m.live.At
	}
	switch {
	case f.ready && f.script != nil && !f.journal.Back:
		return tea.Batch(m.say("a real token came back from the new server"), f.writeScript(m))
	case f.ready:
		return m.say("a real token came back from the new server")
	}
	return m.say("the new server did not become ready: " + msg.err.Error())
}

// journalText is a line of the journal in words.
func journalText(l *metrics.JournalLine) string {
	text := map[metrics.JournalStep]string{
		metrics.JournalBegin: "the script runs on the node", metrics.JournalBusy: "another restart runs", metrics.JournalRefused: "refused before anything was touched",
		metrics.JournalIdentify: "the launch is saved on the node", metrics.JournalClientStop: "the client was told to end", metrics.JournalClientGone: "the client has ended",
		metrics.JournalDrain: "requests may end by themselves for " + l.Get("for") + " s", metrics.JournalDrained: l.Get("left") + " connections were left after the drain",
		metrics.JournalAbort: "the engine was asked to give its requests up", metrics.JournalTerm: "SIGTERM was sent", metrics.JournalKill: "SIGKILL was sent to what was left",
		metrics.JournalStopped: "nothing of its tree lives", metrics.JournalPortWait: "waiting for the port to be free", metrics.JournalPortFree: "the port is free",
		metrics.JournalGPUWait: "waiting for GPU memory to be free", metrics.JournalGPUFree: "GPU memory is free",
		metrics.JournalStart: "the log goes on behind a separator", metrics.JournalStarted: "the new server runs: process " + pidOf(l),
		metrics.JournalListening: "it has opened port " + l.Get("port"), metrics.JournalExited: "it ended with exit status " + l.Get("rc"),
		metrics.JournalBack: "the last good launch is started instead", metrics.JournalClient: "the client was started again: process " + pidOf(l), metrics.JournalNote: "note",
		metrics.JournalEnd: map[string]string{
			metrics.JournalRunning: "the script is done: a server runs", metrics.JournalDown: "the script is done: nothing runs, as was wanted",
			metrics.JournalUntouched: "nothing was done", metrics.JournalFailed: failedText(l.Get("why")),
		}[l.Get("state")],
	}[l.Step]
	if l.Text != "" && l.Step != metrics.JournalStart {
		text += ": " + clean(l.Text)
	}
	return text
}

// eventText is an event in words; the lines of a journal have a grammar.
func eventText(e *metrics.Event) string {
	if e.Kind != "restart" {
		return e.Text
	}
	l, err := metrics.ParseJournalLine(e.Text)
	if err != nil {
		return e.Text
	}
	return journalText(&l)
}

func pidOf(l *metrics.JournalLine) string {
	if pid, _, ok := l.Process("pid"); ok {
		return fmt.Sprint(pid)
	}
	return metrics.Dash
}
