package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/runvigil/runvigil/launch/restart"
	"github.com/runvigil/runvigil/launch/starts"
	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/board"
	"github.com/runvigil/runvigil/metrics/explain"
)

// followOn follows a restart to its end: the journal, then one token of the new
// server, unless that is another login's.
func (a *act) followOn(ctx context.Context, u restart.UnderWay) error {
	out := a.o.io.out
	j, err := restart.Follow(ctx, a.run, u.Folder, func(l metrics.JournalLine) { fmt.Fprintln(out, a.journalText(l)) })
	if ctx.Err() != nil {
		fmt.Fprintf(a.o.io.err, "runvigil: it goes on without us; follow it with `runvigil restart %s --follow`; its journal on the node is %s/%s/journal\n", a.n.name, a.seen.Base, u.ID)
	}
	if err != nil {
		return unreachable(a.n, err)
	}
	a.keepStopped(j)
	if failed, ok := j.Failed(); ok {
		outcome := "failed"
		if failed.Listening {
			outcome = "crashed"
		}
		a.keep(failed, outcome, a.explain(ctx, failed))
	}
	switch {
	case j.State == metrics.JournalUntouched, j.Why == "superseded":
		return exitRefused
	case j.State == metrics.JournalDown:
		return nil
	case j.State == metrics.JournalFailed && j.Why != "exited":
		return exitHeld
	case j.State == metrics.JournalFailed:
		a.keep(j, "failed", a.explain(ctx, j))
		return exitServer
	case !u.Mine || a.o.readOnly:
		fmt.Fprintln(out, "  the script is done; this does not ask its server for a token: `runvigil check "+a.n.name+"` tells how it is")
		return nil
	}
	say := func(s string) { fmt.Fprintln(out, "  "+s) }
	tok, err := restart.Ready(ctx, a.run, a.plan, j, say)
	if err == nil {
		a.token = tok.At
		d := a.watchFor()
		say(fmt.Sprintf("one token came back from process %d by %s in %s; watching it for %s", j.PID, tok.Path, tok.Took.Round(10*time.Millisecond), d))
		err = restart.Stays(ctx, a.run, a.plan, j, d)
	}
	switch {
	case errors.Is(err, restart.ErrServerEnded):
		say(err.Error())
		outcome := "failed"
		if !tok.At.IsZero() {
			outcome = "crashed"
		}
		a.keep(j, outcome, a.explain(ctx, j))
		return exitServer
	case err != nil:
		return unreachable(a.n, err)
	case j.Back:
		a.keep(j, "running", nil)
		say("the new launch failed; the last good one serves again")
		return exitServer
	}
	a.keep(j, "running", nil)
	say("it serves")
	return nil
}

// watchFor is how long a server is watched after its first token: longer where
// the forecast says that memory will not do, for that shows with the first large
// prefill.
func (a *act) watchFor() time.Duration {
	for _, w := range append(a.fore.Outcomes, a.fore.Warnings...) {
		if w.Level == metrics.SeverityCritical {
			return restart.WatchedTight
		}
	}
	return restart.Watched
}

// journalText is a line of the journal for a terminal.
func (a *act) journalText(l metrics.JournalLine) string {
	text := l.At.In(time.FixedZone(a.snap.Zone, a.snap.ZoneSec)).Format("15:04:05") + " " + string(l.Step)
	for _, f := range l.Fields {
		text += " " + f.Key + "=" + f.Value
	}
	if l.Text != "" {
		text += "  " + l.Text
	}
	return text
}

// logTail bounds how much of a failed start's log is read, in bytes.
const logTail = 4 << 20

// explain says why the new server ended, from its part of the log; nil where the
// log names no cause.
func (a *act) explain(ctx context.Context, j metrics.Journal) *explain.Cause {
	out := a.o.io.out
	raw, err := restart.ReadLog(ctx, a.run, j, logTail)
	if err != nil {
		fmt.Fprintln(out, "  its log cannot be read: "+err.Error())
		return nil
	}
	// A way back writes behind what failed.
	own := bytes.TrimPrefix(bytes.TrimLeft(raw, "\n"), []byte(metrics.StartSeparator))
	raw, _, _ = bytes.Cut(own, []byte(metrics.StartSeparator))
	r, err := explain.Read(strings.NewReader(string(raw)), explain.KindServerLog)
	cause := r.Primary()
	if err != nil || cause == nil {
		fmt.Fprintln(out, "  its log names no cause; the end of it:")
		lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
		for _, l := range lines[max(0, len(lines)-8):] {
			fmt.Fprintln(out, "    "+metrics.Mask(metrics.Clean(l, 200)))
		}
		return nil
	}
	text := "  cause: " + cause.Class
	if cause.Detail != nil {
		text += ": " + *cause.Detail
	}
	fmt.Fprintln(out, text)
	for _, advice := range r.Advice {
		fmt.Fprintln(out, "  → "+advice)
	}
	if back, ok := starts.WayBack(a.snap.Starts, a.n.config.Guards, ""); ok && !a.plan.Options.WayBack {
		fmt.Fprintf(out, "  the way back: runvigil start %s --start %d (%s)\n", a.n.name, back.No, first(back.Label, back.ID))
	}
	return cause
}

// keepStopped notes in the node's history that the server was stopped which was.
func (a *act) keepStopped(j metrics.Journal) {
	id := a.plan.Identity
	was := fmt.Sprintf("%s:%d:%d", id.BootID, id.PID, id.Start)
	i := slices.IndexFunc(a.snap.Starts, func(s metrics.Start) bool { return s.ID == was })
	if i < 0 || a.plan.Op == restart.EndOne || !slices.ContainsFunc(j.Lines, func(l metrics.JournalLine) bool { return l.Step == metrics.JournalStopped }) {
		return
	}
	s := a.snap.Starts[i]
	s.No, s.Outcome = 0, "stopped"
	if err := starts.Append(a.n.state.dir, starts.Event{Key: s.ID, At: time.Now(), What: "ended", Start: s}); err != nil {
		slog.Warn("keep the start", "error", err)
	}
}

// keep writes the start into the node's history.
func (a *act) keep(j metrics.Journal, outcome string, cause *explain.Cause) {
	if j.PID == 0 {
		return
	}
	now, argv := time.Now(), a.plan.Command
	if j.Back {
		argv = a.plan.Old.Argv
	}
	s := metrics.Start{
		ID: fmt.Sprintf("%s:%d:%d", a.plan.Identity.BootID, j.PID, j.Start), Node: a.n.name, Engine: a.plan.New.Engine, Version: a.plan.New.Version,
		At: j.Lines[0].At, Argv: argv, Label: board.StartLabel(argv, nil), Outcome: outcome, FirstToken: a.token,
	}
	if a.server != nil {
		s.Model = a.server.Model
	}
	if !j.Back {
		s.Override = metrics.Clean(a.plan.Options.Override, 400)
		for _, b := range a.broken {
			s.GuardBroken = b.Flag + " " + b.Reason
		}
	}
	for _, l := range j.Lines {
		if l.Step == metrics.JournalStart {
			s.At = l.At
		}
	}
	if cause != nil {
		s.Cause = metrics.Cause(cause.Class)
		if cause.Detail != nil {
			s.CauseTxt = metrics.Cut(*cause.Detail, 200)
		}
	}
	if err := starts.Append(a.n.state.dir, starts.Event{Key: s.ID, At: now, What: outcome, Start: s}); err != nil {
		slog.Warn("keep the start", "error", err)
	}
}
