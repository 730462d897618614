package tui

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/launch/forecast"
	"github.com/runvigil/runvigil/launch/restart"
	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/flags"
)

// formView edits a launch. Its draft outlives the view: it belongs to one
// server, and begins anew with another.
type formView struct {
	sel, top int // among rows
	query    string
	draft    *launch.Draft
	of       restart.Identity
	seen     *restart.Seen // what the node told, nil before
	given    bool          // the launch was typed, or read from a start script
	lookErr  string

	judged assessment
	rows   []formRow
	rowsOf string // query for which rows were made
	stale  bool
}

// assessment is what is known of an edited launch; it is made once for each
// edit and snapshot.
type assessment struct {
	snap     *metrics.Snapshot
	draft    *launch.Draft
	launch   launch.Launch
	diff     []launch.Change
	forecast forecast.Forecast
	broken   []launch.Broken
	problems []launch.Problem
}

func assess(s *metrics.Snapshot, srv *metrics.Server, d *launch.Draft) assessment {
	facts := forecast.FactsOf(s, srv, d.Base())
	l := d.Launch()
	known := srv
	if known == nil {
		known = s.Server()
	}
	return assessment{
		snap: s, draft: d, launch: l, diff: d.Diff(), forecast: forecast.Make(l, facts, s.Starts),
		broken: launch.Judge(l, s.Guards, launch.Resolved(known)), problems: launch.Problems(l, facts.Machine()),
	}
}

// edited is a draft of base with the edits made again; those that no longer fit
// are left out.
func edited(base launch.Launch, edits []launch.Edit) *launch.Draft {
	d := launch.NewDraft(base)
	for _, e := range edits {
		if err := d.Do(e); err != nil {
			continue
		}
	}
	return d
}

// formRow is one line of the form: a heading, a flag or a variable.
type formRow struct {
	head     string // of a heading, which is not selected
	name     string
	env      bool
	flag     flags.Flag
	known    bool
	now, neu *string // effective values, nil absent
}

func (r formRow) changed() bool {
	return (r.now == nil) != (r.neu == nil) || r.now != nil && *r.now != *r.neu
}

func (r formRow) kind() string {
	switch {
	case r.env:
		return "env"
	case !r.known:
		return "text"
	case r.flag.List:
		return string(r.flag.Kind) + "s"
	}
	return string(r.flag.Kind)
}

// defaultText is what holds where the flag is absent.
func (r formRow) defaultText() string {
	switch {
	case r.env, !r.known:
		return ""
	case r.flag.Default == "" && r.flag.Presence:
		return "off"
	case r.flag.Default == "" && r.flag.Auto:
		return "auto"
	case r.flag.Default == "":
		return metrics.Dash
	}
	return r.flag.Default
}

func (v *formView) title(m *Model) string {
	if v.draft == nil {
		return "edit"
	}
	l := v.draft.Base()
	title := "edit " + strings.TrimSpace(engineName(l.Engine)+" "+l.Version)
	if l.PID > 0 {
		title += fmt.Sprintf("  pid %d", l.PID)
	} else {
		title += "  (nothing runs)"
	}
	if l.Script != "" {
		title += "  from " + clean(l.Script)
	}
	if n := len(v.draft.Diff()); n > 0 {
		title += "  " + plural(n, "change")
	}
	return title
}

// opened begins a draft for the server that runs now, or goes on with the one
// that was begun for it.
func (v *formView) opened(m *Model) tea.Cmd {
	if m.live == nil {
		return nil
	}
	if m.unsure() != "" {
		v.draft = nil // it begins with the first snapshot that tells what runs
		return nil
	}
	srv := m.aim()
	id := identityOf(m.live, srv)
	if v.draft == nil || v.of != id {
		base := m.lastLaunch()
		if srv != nil {
			base = launch.FromServer(m.live, srv)
		}
		*v = formView{draft: launch.NewDraft(base), of: id, stale: true}
		v.first(m)
	}
	if v.seen != nil {
		return nil
	}
	if !v.draft.Base().Known() {
		return m.askCommand(v)
	}
	return m.look(v, id.PID)
}

// renewed begins a draft where the form was opened before it was known what runs.
func (v *formView) renewed(m *Model) tea.Cmd {
	if v.draft == nil && m.unsure() == "" {
		return v.opened(m)
	}
	return nil
}

// askCommand asks for a command line or a start script where nothing is known to
// start from.
func (m *Model) askCommand(v *formView) tea.Cmd {
	m.ask(newLineDialog("nothing runs here and no launch is known", "paste its command line, or the path of its start script on the node", "", func(m *Model, text string) tea.Cmd {
		if file := strings.TrimSpace(text); strings.HasPrefix(file, "/") && !strings.ContainsAny(file, " \t\n") {
			act := m.actor()
			return m.call(func(ctx context.Context) tea.Msg {
				text, err := act.ReadScript(ctx, file)
				return scriptMsg{v, file, text, err}
			})
		}
		return v.begin(m, []byte(text+"\n"), "", "")
	}))
	return nil
}

type scriptMsg struct {
	v    *formView
	file string
	text []byte
	err  error
}

func (msg scriptMsg) apply(m *Model) tea.Cmd {
	if msg.err != nil {
		return m.say(msg.err.Error())
	}
	return msg.v.begin(m, msg.text, path.Dir(msg.file), msg.file)
}

// begin takes the launch that a command line or script (its path is file) starts, in
// dir where it does not tell.
func (v *formView) begin(m *Model, text []byte, dir, file string) tea.Cmd {
	s, err := launch.ParseScript(text)
	if err != nil {
		return m.say(err.Error())
	}
	if dynamic := s.Dynamic(); len(dynamic) > 0 {
		return m.say("only a run of it tells " + strings.Join(dynamic, ", ") + "; write the values out")
	}
	base := s.Launch()
	base.BootID = m.live.BootID
	if base.Dir == "" {
		base.Dir = dir
	}
	base.Script, v.given = file, true
	v.rebase(m, base)
	return m.look(v, 0)
}

// looked takes what the node told of the launch; edits that were made meanwhile
// hold.
func (v *formView) looked(m *Model, seen restart.Seen, err error) tea.Cmd {
	switch {
	case v.given && (err == nil || errors.Is(err, restart.ErrNothingSaved)):
		seen = withGiven(seen, v.draft.Base())
	case errors.Is(err, restart.ErrNothingSaved):
		seen.Launch = v.draft.Base()
	case err != nil:
		v.lookErr = metrics.Clean(err.Error(), 300)
		return m.say("the launch could not be read back: " + err.Error())
	}
	v.seen, v.lookErr = &seen, ""
	v.rebase(m, seen.Launch)
	return nil
}

func (v *formView) rebase(m *Model, base launch.Launch) {
	name, env := v.current()
	v.draft, v.stale = edited(base, v.draft.Edits()), true
	v.refresh(m)
	v.goTo(name, env)
}

// refresh makes what depends on the draft, the search and the snapshot.
func (v *formView) refresh(m *Model) {
	if v.draft == nil || m.live == nil {
		return
	}
	if base := m.withVersion(v.draft.Base()); base.Version != v.draft.Base().Version {
		v.draft, v.stale = edited(base, v.draft.Edits()), true
	}
	if v.stale || v.judged.snap != m.live || v.judged.draft != v.draft {
		v.judged = assess(m.live, m.aim(), v.draft)
	}
	if v.stale || v.rowsOf != v.query {
		v.rows, v.rowsOf = formRows(v.draft, v.judged.launch, v.query), v.query
	}
	v.stale = false
	v.sel = max(min(v.sel, len(v.rows)-1), 0)
}

// formRows lists the flags in use in the user's order, then those that matter
// for tuning, then all others, then the environment. A search keeps those whose
// name, alias or help has every word.
func formRows(d *launch.Draft, l launch.Launch, query string) []formRow {
	base, cat := d.Base(), l.Catalogue()
	was, is := base.Effective(), l.Effective()
	value := func(of map[string]string, name string) *string {
		if x, ok := of[name]; ok {
			return &x
		}
		return nil
	}
	words := strings.Fields(strings.ToLower(query))
	fits := func(r formRow) bool {
		text := strings.ToLower(r.name + " " + strings.Join(r.flag.Aliases, " ") + " " + r.flag.Help)
		for _, w := range words {
			if !strings.Contains(text, strings.TrimLeft(w, "-")) {
				return false
			}
		}
		return true
	}
	var parts [4][]formRow
	seen := map[string]bool{}
	add := func(part int, r formRow) {
		if seen[r.name] {
			return
		}
		seen[r.name] = true
		if fits(r) {
			parts[part] = append(parts[part], r)
		}
	}
	for _, line := range []flags.Line{l.Line(), base.Line()} {
		for _, a := range line.Args {
			add(0, formRow{name: a.Name, flag: a.Flag, known: a.Known, now: value(was, a.Name), neu: value(is, a.Name)})
		}
	}
	for _, f := range cat.Flags() {
		part := 2
		if f.Tuning && !f.Deprecated {
			part = 1
		}
		add(part, formRow{name: f.Name, flag: f, known: true, now: value(was, f.Name), neu: value(is, f.Name)})
	}
	seen = map[string]bool{}
	for _, env := range [][]launch.Var{l.Masked().Env, base.Env} {
		for _, x := range env {
			r := formRow{name: x.Name, env: true}
			if old, ok := base.Masked().Getenv(x.Name); ok {
				r.now = &old
			}
			if now, ok := l.Masked().Getenv(x.Name); ok {
				r.neu = &now
			}
			add(3, r)
		}
	}
	if len(words) > 0 {
		for i := range parts {
			slices.SortStableFunc(parts[i], func(a, b formRow) int { return nameRank(a.name, words[0]) - nameRank(b.name, words[0]) })
		}
	}
	var out []formRow
	for i, name := range []string{"in use", "for tuning", "all others", "environment"} {
		if len(parts[i]) > 0 {
			out = append(out, formRow{head: fmt.Sprintf("%s (%d)", name, len(parts[i]))})
			out = append(out, parts[i]...)
		}
	}
	return out
}

// nameRank puts names that begin with the word first, then those that hold it.
func nameRank(name, word string) int {
	word = strings.TrimLeft(word, "-")
	switch {
	case strings.HasPrefix(strings.ToLower(name), word):
		return 0
	case strings.Contains(strings.ToLower(name), word):
		return 1
	}
	return 2
}

// first selects the first line that is no heading.
func (v *formView) first(m *Model) {
	v.refresh(m)
	v.sel, v.top = 0, 0
	v.skip(1)
}

// skip leaves a heading in the direction of a movement.
func (v *formView) skip(by int) {
	for v.sel >= 0 && v.sel < len(v.rows) && v.rows[v.sel].head != "" {
		v.sel += by
	}
	if v.sel < 0 || v.sel >= len(v.rows) {
		v.sel = max(min(v.sel, len(v.rows)-1), 0)
		for v.sel < len(v.rows)-1 && v.rows[v.sel].head != "" {
			v.sel++
		}
	}
}

func (v *formView) move(m *Model, d motion) tea.Cmd {
	v.refresh(m)
	was := v.sel
	v.sel = step(v.sel, len(v.rows), 10, d)
	by := 1
	if v.sel < was {
		by = -1
	}
	v.skip(by)
	return nil
}

// row is the selected line.
func (v *formView) row(m *Model) (formRow, bool) {
	v.refresh(m)
	if v.sel >= len(v.rows) || v.rows[v.sel].head != "" {
		return formRow{}, false
	}
	return v.rows[v.sel], true
}

func (v *formView) current() (name string, env bool) {
	if v.sel < len(v.rows) {
		return v.rows[v.sel].name, v.rows[v.sel].env
	}
	return "", false
}

func (v *formView) goTo(name string, env bool) {
	if i := slices.IndexFunc(v.rows, func(r formRow) bool { return r.head == "" && r.name == name && r.env == env }); i >= 0 {
		v.sel = i
		return
	}
	v.skip(1)
}

// do makes an edit and keeps the selection where it was.
func (v *formView) do(m *Model, e launch.Edit) tea.Cmd {
	name, env := v.current()
	err := v.draft.Do(e)
	v.stale = true
	v.refresh(m)
	if e.Kind != launch.TakeArgv {
		name, env = e.Name, e.Kind == launch.SetEnv || e.Kind == launch.UnsetEnv
	}
	v.goTo(name, env)
	if err != nil {
		return m.say(err.Error())
	}
	return nil
}

// change opens the selected line for a value; a switch is turned at once.
func (v *formView) change(m *Model) tea.Cmd {
	r, ok := v.row(m)
	switch {
	case !ok:
		return nil
	case !r.env && r.known && r.flag.Presence:
		if r.neu != nil && *r.neu == "true" {
			if r.now == nil || !r.flag.Negatable {
				return v.do(m, launch.Edit{Kind: launch.UnsetFlag, Name: r.name})
			}
			return v.do(m, launch.Edit{Kind: launch.SetFlag, Name: r.name, Value: "false"})
		}
		return v.do(m, launch.Edit{Kind: launch.SetFlag, Name: r.name, Value: "true"})
	}
	m.ask(newValueDialog(v, r))
	return nil
}

func (v *formView) remove(m *Model) tea.Cmd {
	r, ok := v.row(m)
	switch {
	case !ok:
		return nil
	case r.neu == nil:
		return m.say(r.name + " is not set")
	case r.env:
		return v.do(m, launch.Edit{Kind: launch.UnsetEnv, Name: r.name})
	}
	return v.do(m, launch.Edit{Kind: launch.UnsetFlag, Name: r.name})
}

func (v *formView) undo(m *Model) tea.Cmd {
	if v.draft == nil || !v.draft.Undo() {
		return m.say("nothing to take back")
	}
	v.again(m)
	return nil
}

func (v *formView) redo(m *Model) tea.Cmd {
	if v.draft == nil || !v.draft.Redo() {
		return m.say("nothing to make again")
	}
	v.again(m)
	return nil
}

func (v *formView) reset(m *Model) tea.Cmd {
	if v.draft == nil || len(v.draft.Edits()) == 0 {
		return m.say("nothing was changed")
	}
	v.draft.Reset()
	v.again(m)
	return m.say("all changes are taken back; u brings them again")
}

func (v *formView) again(m *Model) {
	name, env := v.current()
	v.stale = true
	v.refresh(m)
	v.goTo(name, env)
}

func (v *formView) find(m *Model) tea.Cmd {
	if v.draft == nil {
		return nil
	}
	d := &findDialog{v: v}
	d.in.set(v.query)
	m.ask(d)
	return nil
}

// add takes a flag or a variable that is typed whole.
func (v *formView) add(m *Model) tea.Cmd {
	if v.draft == nil {
		return nil
	}
	m.ask(newLineDialog("add", "--flag value, --switch, or NAME=value for the environment", "", func(m *Model, text string) tea.Cmd {
		text = strings.TrimSpace(text)
		if text == "" {
			return nil
		}
		v.query = ""
		if !strings.HasPrefix(text, "-") {
			name, value, ok := strings.Cut(text, "=")
			if !ok {
				return m.say("a variable is NAME=value, a flag begins with --")
			}
			return v.do(m, launch.Edit{Kind: launch.SetEnv, Name: name, Value: value})
		}
		name, value, ok := strings.Cut(text, " ")
		if !ok {
			if name, value, ok = strings.Cut(text, "="); !ok {
				value = "true"
			}
		}
		name = strings.TrimLeft(name, "-")
		if f, _, known := v.draft.Base().Catalogue().Lookup("--" + name); known {
			name = f.Name
		}
		return v.do(m, launch.Edit{Kind: launch.SetFlag, Name: name, Value: strings.TrimSpace(value)})
	}))
	return nil
}

// review goes on to the review; a guard that cannot be overridden is shown there
// with the owner's reason and ends it.
func (v *formView) review(m *Model) tea.Cmd {
	v.refresh(m)
	if v.draft == nil {
		return nil
	}
	if !v.draft.Changed() && v.draft.Base().PID > 0 {
		return m.say("nothing is changed; R restarts with the same flags")
	}
	op := restart.Restart
	if v.of.PID == 0 {
		op = restart.Start
	}
	r := m.views[viewReview].(*reviewView)
	cmd := r.begin(m, restart.Options{Op: op}, m.aim(), v.draft.Edits())
	if v.given {
		base := v.draft.Base()
		r.given = &base
	}
	return cmd
}
