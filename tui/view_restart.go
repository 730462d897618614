package tui

import (
	"fmt"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/runvigil/runvigil/launch/forecast"
	"github.com/runvigil/runvigil/metrics"
)

// restartView follows what was begun: the journal, then the engine's own phases
// against the time that earlier starts took, then one real token; on failure the
// cause with its lines and the way back.
type restartView struct{ top int }

func (v *restartView) title(m *Model) string {
	if m.follow == nil {
		return "restart"
	}
	title := opText(m.follow.plan.Op)
	if f := m.follow; f.others {
		title += "  by " + clean(f.of.By) + " since " + m.pen().clock(f.begun)
		if !f.of.Mine {
			title += ", read-only"
		}
	}
	if diff := m.follow.plan.Diff; len(diff) == 1 {
		title += "  " + metrics.Clean(diff[0].String(), 200)
	} else if len(diff) > 1 {
		title += "  " + plural(len(diff), "change")
	}
	return title
}

func (v *restartView) move(_ *Model, d motion) tea.Cmd {
	v.top = step(v.top, 1<<10, 8, d)
	return nil
}

func (v *restartView) draw(m *Model, a area) {
	f := m.follow
	if f == nil || m.live == nil {
		a.note("nothing was begun here")
		return
	}
	rows := v.lines(m, f, a.w())
	v.top = max(min(v.top, len(rows)-a.h()), 0)
	drawLines(a, rows, v.top)
}

// started is the server that the script has started, as far as it was found.
func (f *follow) server(s *metrics.Snapshot) *metrics.Server {
	for i := range s.Servers {
		if srv := &s.Servers[i]; f.journal.PID > 0 && srv.PID == f.journal.PID && srv.Start == f.journal.Start {
			return srv
		}
	}
	return nil
}

// outcome tells how it ended, "" while it goes on; bad is true of a failure.
func (f *follow) outcome(s *metrics.Snapshot) (text string, bad bool) {
	srv := f.server(s)
	switch {
	case f.err != nil:
		return "the journal cannot be followed: " + clean(f.err.Error()), true
	case f.ended && f.journal.State == metrics.JournalUntouched:
		return "nothing was done", true
	case f.ended && f.journal.State == metrics.JournalFailed:
		return failedText(f.journal.Why), true
	case f.ended && f.journal.Why == "superseded":
		return "another restart has taken over", true
	case srv != nil && srv.State == metrics.ServerDown, f.readyErr != nil:
		text = "the new server ended"
		if f.ready {
			text = "the new server gave a token, and then ended"
		}
		if f.journal.Exited && srv == nil {
			text += fmt.Sprintf(" with exit status %d", f.journal.ExitCode)
		}
		return text, true
	case f.ended && !f.starts():
		return "done", false
	case f.ready && f.journal.Back:
		return "the new launch failed; the last good one runs again and gave a real token", true
	case f.ready:
		return "done: one real token came back from the new server", false
	case f.ended && f.starts() && !f.asks():
		if st := f.start(s); st != nil && !st.FirstToken.IsZero() {
			return "done: the new server gives tokens", false
		}
	}
	return "", false
}

// failedText is what is left where the script could not do what was planned.
func failedText(why string) string {
	switch why {
	case "respawned":
		return "it failed: something else started the old command again, and that server runs"
	case "port-held":
		return "it failed: another process holds the port"
	case "gpu-held":
		return "it failed: no server runs, and GPU memory is held"
	case "unkillable", "client-unkillable":
		return "it failed: something could not be ended"
	}
	return "it failed: no server runs"
}

// start is what is known of the start that the script made.
func (f *follow) start(s *metrics.Snapshot) *metrics.Start {
	id := fmt.Sprintf("%s:%d:%d", s.BootID, f.journal.PID, f.journal.Start)
	for i := range s.Starts {
		if s.Starts[i].ID == id {
			return &s.Starts[i]
		}
	}
	return nil
}

func (v *restartView) lines(m *Model, f *follow, w int) []line {
	s, p := m.live, pen{s: m.live, ascii: m.opt.ASCII}
	text, bad := f.outcome(s)
	var out []line
	switch {
	case bad:
		out = append(out, para(sp("✖", stCrit.bold()), 2, w, text, stCrit.bold())...)
		out = append(out, v.failure(m, f, w)...)
	case text != "":
		out = append(out, para(sp("●", stOK.bold()), 2, w, text, stStrong)...)
		if f.starts() {
			out = append(out, para(sp("", stDim), 2, w, "watch whether it holds: a tight launch ends with its first large prefill", stDim)...)
		}
	default:
		out = append(out, line{sp("○ ", stInfo.bold()), sp("under way for "+took(max(s.At.Sub(f.begun), 0)), stStrong), sp("; leaving the screen does not stop it", stDim)})
	}
	out = append(out, f.scriptLines(bad, w)...)
	out = append(out, nil)
	lines := f.journal.Lines
	for i := range lines {
		l := &lines[i]
		sign, st := "✓", stOK
		last := i == len(lines)-1 && !f.ended
		lasted := ""
		switch {
		case l.Step == metrics.JournalRefused || l.Step == metrics.JournalBusy || l.Step == metrics.JournalExited || l.Step == metrics.JournalEnd && l.Get("state") == metrics.JournalFailed:
			sign, st = "✖", stCrit
		case l.Step == metrics.JournalNote || l.Step == metrics.JournalBack:
			sign, st = "▲", stWarn
		case last:
			sign, st = "○", stInfo
		}
		if i+1 < len(lines) {
			if d := lines[i+1].At.Sub(l.At); d >= time.Second {
				lasted = took(d)
			}
		} else if last {
			lasted = took(max(s.At.Add(s.NodeClock).Sub(l.At), 0))
		}
		when := l.At.In(time.FixedZone(s.Zone, s.ZoneSec)).Format("15:04:05")
		rows := para(sp("", stText), 11, w-9, journalText(l), stText)
		for j, row := range rows {
			if j == 0 {
				row[0] = sp(when+" ", stDim)
				row = slices.Insert(row, 1, sp(sign+" ", st.bold()))
				row = append(row, sp("  "+lasted, stDim))
			}
			out = append(out, row)
		}
	}
	if f.starts() && f.journal.PID > 0 {
		out = append(out, v.phases(f, s, p, w)...)
	}
	return out
}

// phases are the engine's own phases with the time that the newest earlier start
// took for each.
func (v *restartView) phases(f *follow, s *metrics.Snapshot, p pen, w int) []line {
	srv := f.server(s)
	before := earlierPhases(s, s.BootID+":"+fmt.Sprintf("%d:%d", f.journal.PID, f.journal.Start))
	out := []line{nil, heading("the new server")}
	if srv == nil {
		return append(out, line{sp("○ ", stInfo), sp("it is looked for among the processes …", stDim)})
	}
	row := func(sign string, st style, name, lasted, than string) {
		out = append(out, line{sp(sign+" ", st.bold()), sp(padRight(name, 24), stText), sp(padLeft(lasted, 9), stStrong), sp(than, stDim)})
	}
	than := func(name string) string {
		if d, ok := before[name]; ok {
			return "   earlier " + took(d)
		}
		return ""
	}
	done := map[string]bool{}
	for _, t := range srv.Phase.Took {
		done[t.Name] = true
		row("✓", stOK, clean(t.Name), took(t.Took), than(t.Name))
	}
	token := func() {
		switch {
		case f.ready && !f.readyAt.IsZero():
			row("✓", stOK, "one real token", took(max(f.readyAt.Sub(f.begun), 0)), "   since it was "+map[bool]string{true: "begun", false: "confirmed"}[f.others])
		case f.active():
			row("○", stInfo, "one real token", metrics.Dash, "   "+truncate(f.waits, max(w-40, 8)))
		}
	}
	if srv.State == metrics.ServerDown {
		token() // what was reached before it ended
	}
	switch {
	case srv.State == metrics.ServerDown:
		row("✖", stCrit, "ended", p.recent(srv.Ended), " ago")
	case srv.Phase.Ready.IsZero():
		name := orText(clean(srv.Phase.Name), "starting")
		so := took(max(s.At.Sub(srv.Phase.Since), 0))
		extra := than(srv.Phase.Name)
		if t := srv.Phase.Total; t > 0 {
			full, rest := bar(float64(srv.Phase.Done)/float64(t), min(max(w/7, 6), 16), p.ascii)
			extra = fmt.Sprintf("   %s%s %d of %d", full, rest, srv.Phase.Done, t) + extra
		}
		row("○", stInfo, name, so, extra)
	default:
		row("✓", stOK, "ready", took(srv.Phase.Ready.Sub(srv.Started)), expectedText(srv.Phase.Expected))
	}
	if srv.State != metrics.ServerDown {
		token()
	}
	if srv.Capacity.Known {
		row(" ", stText, "capacity, tokens", metrics.Count(srv.Capacity.V), "  "+forecastText(f.forecast.Capacity, metrics.Count))
		row(" ", stText, "headroom, GiB", metrics.FigureText(srv.Headroom, two), "  "+forecastText(f.forecast.Headroom, two))
	}
	return out
}

// forecastText is what was told of a figure before it was tried.
func forecastText(e forecast.Estimate, format func(float64) string) string {
	if !e.Known {
		return ""
	}
	low, high := format(e.Low), format(e.High)
	if low == high {
		return " (forecast " + low + ")"
	}
	return " (forecast " + low + " to " + high + ")"
}

func expectedText(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return "   earlier " + took(d)
}

// earlierPhases is what each phase of the newest earlier start that became ready
// took.
func earlierPhases(s *metrics.Snapshot, except string) map[string]time.Duration {
	out := map[string]time.Duration{}
	for _, st := range slices.Backward(s.Starts) {
		if st.ID == except || len(st.Phases) == 0 || st.ReadyS == nil {
			continue
		}
		for _, t := range st.Phases {
			out[t.Name] = t.Took
		}
		break
	}
	return out
}

// failure is the cause with its lines, and the way back.
func (v *restartView) failure(m *Model, f *follow, w int) []line {
	s := m.live
	var out []line
	log := f.journal.Log
	if srv := f.server(s); srv != nil {
		for _, c := range srv.Causes {
			if !c.Primary && len(srv.Causes) > 1 {
				continue
			}
			what := string(c.Class)
			if c.Phase != "" {
				what += " in " + c.Phase
			}
			info, _ := c.Class.Info()
			out = append(out, para(sp("  cause", stDim), 9, w, what+orEmpty(": ", orText(info.Meaning, clean(c.Detail))), stStrong)...)
			if c.Line != "" {
				out = append(out, para(sp("  line", stDim), 9, w, metrics.Cut(clean(c.Line), 260), stWarn)...)
			}
			if info.Advice != "" {
				out = append(out, para(sp("  do", stDim), 9, w, info.Advice, stText)...)
			}
		}
		if srv.Log.Path != "" {
			log = srv.Log.Path
		}
	}
	if tail := s.Logs[log]; tail != nil && len(out) == 0 {
		n := 0
		for i := len(tail.Lines) - 1; i >= 0 && n < 3; i-- {
			if tail.Lines[i].Level == 2 && tail.Lines[i].Off >= f.journal.Offset {
				out = append(out, para(sp("  line", stDim), 9, w, clean(tail.Lines[i].Text), stWarn)...)
				n++
			}
		}
	}
	if f.journal.Why != "" {
		out = append(out, line{sp("  why    ", stDim), sp(clean(f.journal.Why), stText)})
	}
	if !f.starts() || f.journal.Back {
		return out
	}
	if st, ok := m.goodStart(); ok && canAct(m) {
		out = append(out, nil, line{sp("  B", stAccent.bold()), sp(" goes back to the last good start: ", stText), sp(startName(&st), stStrong)})
	}
	return append(out, line{sp("  l", stAccent.bold()), sp(" shows its log   ", stDim), sp("f", stAccent.bold()), sp(" what is wrong   ", stDim), sp("e", stAccent.bold()), sp(" the form", stDim)})
}

func orEmpty(lead, s string) string {
	if s == "" {
		return ""
	}
	return lead + s
}
