package tui

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/launch/forecast"
	"github.com/runvigil/runvigil/launch/restart"
	"github.com/runvigil/runvigil/metrics"
)

// reviewView shows all of a plan before anything is done: what stands against it,
// what it changes, what it will give, what it stops and what it loses.
type reviewView struct {
	top   int
	id    string // of the plan
	opt   restart.Options
	asked bool // what becomes of the client was chosen
	of    restart.Identity
	edits []launch.Edit
	end   *procRow // the process that is ended, of restart.EndOne
	// client is what C starts, with what stands against it.
	client  *ClientStart
	against []restart.Refusal

	// given is a launch that was typed or read from a script, where nothing ran.
	given  *launch.Launch
	script *scriptEdit // the start script, nil where none is known

	seen    *restart.Seen
	lookErr string
	draft   *launch.Draft
	// The node's own objections.
	checking bool
	checkErr string
	refusals []restart.Refusal
	notes    []string

	judged assessment
	plan   restart.Plan
	stale  bool
	failed string // why it could not be begun
}

// The longest waits that can be chosen: who wants to wait longer does not restart.
const (
	maxDrain    = 24 * time.Hour
	maxTermWait = time.Hour
)

// begin opens the review of a restart, a stop or a start with edits.
func (v *reviewView) begin(m *Model, opt restart.Options, srv *metrics.Server, edits []launch.Edit) tea.Cmd {
	if opt.Client == "" {
		opt.Client = restart.ClientKeep
	}
	opt.TermWait = restart.DefaultTermWait
	*v = reviewView{id: restart.NewID(m.live.At), opt: opt, of: identityOf(m.live, srv), edits: edits, stale: true}
	return tea.Batch(m.open(viewReview), m.look(v, v.of.PID))
}

// beginEnd opens the review of ending one process.
func (v *reviewView) beginEnd(m *Model, id restart.Identity, r procRow) tea.Cmd {
	*v = reviewView{
		id: restart.NewID(m.live.At), opt: restart.Options{Op: restart.EndOne}, of: id, end: &r, stale: true,
		seen: &restart.Seen{UID: -1, Init: id.PID == 1},
	}
	return tea.Batch(m.open(viewReview), v.check(m))
}

func (v *reviewView) title(m *Model) string {
	name := ""
	if m.live != nil {
		name = " on " + clean(m.live.Node)
	}
	if v.client != nil {
		return "start the client" + name
	}
	return "review: " + opText(v.opt.Op) + name
}

func opText(op restart.Op) string {
	switch op {
	case restart.Stop:
		return "stop the server"
	case restart.Start:
		return "start the server"
	case restart.EndOne:
		return "end a process"
	case restart.Restart:
	}
	return "restart the server"
}

func (v *reviewView) looked(m *Model, seen restart.Seen, err error) tea.Cmd {
	if v.given != nil && (err == nil || errors.Is(err, restart.ErrNothingSaved)) {
		seen, err = withGiven(seen, *v.given), nil
	}
	if err != nil {
		v.lookErr = metrics.Clean(err.Error(), 400)
		return nil
	}
	v.seen, v.stale = &seen, true
	if v.opt.Op != restart.Stop {
		v.draft = edited(m.withVersion(seen.Launch), v.edits)
	}
	return tea.Batch(v.offerScript(m), v.check(m))
}

// withGiven puts a launch that was given in place of what the node told; what it
// does not say is as it was with the server that ended.
func withGiven(seen restart.Seen, given launch.Launch) restart.Seen {
	base := seen.Launch
	given.Here = base.Here
	if base.BootID != "" {
		given.BootID = base.BootID
	}
	if given.Dir == "" {
		given.Dir = base.Dir
	}
	if given.Log == "" && (base.LogHow == launch.LogFile || base.LogHow == launch.LogTee) {
		given.Log, given.LogHow = base.Log, base.LogHow
	}
	seen.Launch, seen.Saved = given, ""
	return seen
}

// check asks the node what stands against the plan.
func (v *reviewView) check(m *Model) tea.Cmd {
	v.refresh(m)
	if v.plan.Refused() {
		return nil
	}
	v.checking = true
	act, p := m.actor(), v.plan
	return m.call(func(ctx context.Context) tea.Msg {
		refusals, notes, err := act.Check(ctx, p)
		return checkedMsg{v, p.ID, refusals, notes, err}
	})
}

type checkedMsg struct {
	v        *reviewView
	id       string
	refusals []restart.Refusal
	notes    []string
	err      error
}

func (msg checkedMsg) apply(*Model) tea.Cmd {
	v := msg.v
	if v.id != msg.id {
		return nil // an answer to an earlier question
	}
	v.checking, v.refusals, v.notes = false, msg.refusals, msg.notes
	if msg.err != nil {
		v.checkErr = metrics.Clean(msg.err.Error(), 300)
	}
	return nil
}

// refresh computes the plan anew where the snapshot or the options changed.
func (v *reviewView) refresh(m *Model) {
	if v.seen == nil || m.live == nil || v.client != nil || !v.stale && v.judged.snap == m.live {
		return
	}
	v.stale = false
	srv := v.server(m)
	v.judged = assessment{snap: m.live}
	if v.draft != nil {
		v.judged = assess(m.live, srv, v.draft)
	}
	v.plan = v.planWith(m, v.opt)
	if v.end == nil && v.of.PID > 0 && srv == nil {
		v.plan.Refusals = append(v.plan.Refusals, restart.Refusal{
			Code: restart.RefusedGone, Reason: fmt.Sprintf("process %d is not the running server any more", v.of.PID), Way: "go back and look again",
		})
	}
}

// planWith is the plan with other options than the chosen ones.
func (v *reviewView) planWith(m *Model, o restart.Options) restart.Plan {
	in := restart.Input{ID: v.id, Node: m.live.Node, Snap: m.live, Server: v.server(m), Seen: *v.seen, Draft: v.draft, Options: o, EndPID: v.of}
	if v.draft != nil {
		in.Broken, in.Problems = v.judged.broken, v.judged.problems
	}
	if o.Op == restart.Start {
		in.Server = m.aim()
	}
	return restart.New(in)
}

// server is the server that the plan is about, nil once it is gone.
func (v *reviewView) server(m *Model) *metrics.Server {
	for i := range m.live.Servers {
		s := &m.live.Servers[i]
		if v.of.PID > 0 && s.PID == v.of.PID && s.Start == v.of.Start && s.State != metrics.ServerDown {
			return s
		}
	}
	return nil
}

// stands is everything that stands against the plan.
func (v *reviewView) stands() []restart.Refusal {
	if v.client != nil {
		return v.against
	}
	return slices.Concat(v.plan.Refusals, v.refusals)
}

func (v *reviewView) move(_ *Model, d motion) tea.Cmd {
	v.top = step(v.top, 1<<10, 8, d)
	return nil
}

func (v *reviewView) nextClient(m *Model) tea.Cmd {
	if !v.stops() {
		return m.say("no server is stopped, so the client is left as it is")
	}
	order := clientChoices(v.opt.Op)
	v.choose(order[(slices.Index(order, v.opt.Client)+1)%len(order)])
	return nil
}

func clientChoices(op restart.Op) []restart.Client {
	if op == restart.Stop {
		return []restart.Client{restart.ClientKeep, restart.ClientStop}
	}
	return []restart.Client{restart.ClientKeep, restart.ClientStop, restart.ClientRestart}
}

func (v *reviewView) choose(c restart.Client) {
	v.opt.Client, v.asked, v.stale = c, true, true
	v.opt.Abort = v.opt.Abort && c != restart.ClientKeep
}

// asks tells whether it is still to be asked what becomes of the client.
func (v *reviewView) asks() bool {
	return v.stops() && !v.asked && slices.ContainsFunc(v.plan.Clients, func(c restart.ClientProcess) bool { return c.PID > 0 })
}

// drain asks how long requests may end by themselves.
func (v *reviewView) drain(m *Model) tea.Cmd {
	m.ask(newWaitDialog("how long may requests end by themselves?", "then SIGTERM follows; 0: at once", v.opt.Drain, 0, maxDrain, func(d time.Duration) {
		v.opt.Drain, v.stale = d, true
	}))
	return nil
}

// termWait asks how long the server may take to end after SIGTERM.
func (v *reviewView) termWait(m *Model) tea.Cmd {
	m.ask(newWaitDialog("how long may the server take to end after SIGTERM?", "then what is left gets SIGKILL", v.opt.TermWait, time.Second, maxTermWait, func(d time.Duration) {
		v.opt.TermWait, v.stale = d, true
	}))
	return nil
}

// abort is a choice only where the client is stopped: one that lives would save
// cut answers as rows.
func (v *reviewView) abort(m *Model) tea.Cmd {
	if v.opt.Client == restart.ClientKeep {
		return m.say("the client stays and would save cut answers: stop it first (c)")
	}
	v.opt.Abort, v.stale = !v.opt.Abort, true
	return nil
}

func (v *reviewView) wayBack(m *Model) tea.Cmd {
	if v.opt.Op != restart.Restart {
		return m.say("only a restart has a way back")
	}
	v.opt.WayBack, v.stale = !v.opt.WayBack, true
	return nil
}

func (v *reviewView) stops() bool {
	return v.client == nil && (v.opt.Op == restart.Restart || v.opt.Op == restart.Stop)
}

// override asks why a guard is broken; only one that allows it can be.
func (v *reviewView) override(m *Model) tea.Cmd {
	broken := v.judged.broken
	if len(broken) == 0 {
		return m.say("no guard is broken")
	}
	for _, b := range broken {
		if !b.Guard.Overridable {
			return m.say("the guard on --" + b.Flag + " cannot be overridden: " + b.Guard.Why)
		}
	}
	m.ask(newLineDialog("why break the guard on --"+broken[0].Flag+"?", "it is recorded with the start; empty: do not", v.opt.Override, func(m *Model, text string) tea.Cmd {
		v.opt.Override, v.stale = metrics.Clean(strings.TrimSpace(text), 200), true
		v.refresh(m)
		if v.opt.Override == "" || v.plan.Refused() {
			return nil
		}
		return v.check(m)
	}))
	return nil
}

// confirm asks for the last word, unless something stands against the plan.
func (v *reviewView) confirm(m *Model) tea.Cmd {
	v.refresh(m)
	switch {
	case v.lookErr != "":
		return m.say("it cannot be done: " + v.lookErr)
	case v.client == nil && v.draft != nil && v.plan.OnlySecrets():
		v.askSecret(m)
		return nil
	case len(v.stands()) > 0:
		r := v.stands()[0]
		return m.say("refused: " + r.Reason)
	case v.client != nil:
		return m.confirm("start the client on "+m.live.Node, v.clientLines(64), "", (*Model).beginClient)
	case v.seen == nil:
		return m.say("the launch is still being read back")
	case v.checking:
		return m.say("the node is still being asked what stands against it")
	case v.checkErr != "":
		return m.say("the node could not be asked: " + v.checkErr)
	case v.asks():
		m.ask(newClientDialog(m, v))
		return nil
	}
	name := ""
	if v.works(m) {
		name = m.live.Node
	}
	plan, told, script := v.plan, v.judged.forecast, v.writes() // what is confirmed is what was shown
	return m.confirm(opText(plan.Op)+" on "+m.live.Node, v.losses(64), name, func(m *Model) tea.Cmd { return m.begin(v, plan, told, script) })
}

// askSecret asks for a secret that neither the node nor anything here has any more,
// and for the next one behind it.
func (v *reviewView) askSecret(m *Model) {
	edit := v.plan.Missing[0]
	name := edit.Name
	if edit.Kind == launch.SetFlag {
		name = "--" + name
	}
	d := newLineDialog("nowhere any more: the value of "+clean(name), "it goes to the node only, into a file that this login alone can read", "", func(m *Model, text string) tea.Cmd {
		if text == "" {
			return m.say("without it nothing is started")
		}
		edit.Value = text
		if err := v.draft.Do(edit); err != nil {
			return m.say(err.Error())
		}
		v.stale = true
		v.refresh(m)
		if v.plan.OnlySecrets() {
			v.askSecret(m)
			return nil
		}
		return v.check(m)
	})
	d.in.secret = true
	m.ask(d)
}

// works tells whether something is stopped that works.
func (v *reviewView) works(m *Model) bool {
	if v.end != nil {
		return v.end.state != "zombie" && v.end.state != "Z"
	}
	srv := v.server(m)
	return v.stops() && srv != nil && srv.State != metrics.ServerHung
}

// losses are what the confirmation says again: what is stopped and lost, and
// what is known to go wrong.
func (v *reviewView) losses(w int) []line {
	var out []line
	for _, e := range v.edits {
		if e.Kind == launch.TakeArgv {
			out = append(out, line{sp("the ", stDim), sp(clean(e.String()), stStrong)})
		}
	}
	out = append(out, diffLines(v.plan.Diff, w)...)
	for _, o := range slices.Concat(v.judged.forecast.Outcomes, v.judged.forecast.Warnings) {
		if o.Level >= metrics.SeverityCritical && v.draft != nil {
			out = append(out, para(sp("✖", stCrit.bold()), 2, w, clean(o.Text), stCrit)...)
		}
	}
	for _, s := range v.plan.Stops {
		out = append(out, para(sp("-", stWarn.bold()), 2, w, clean(s), stText)...)
	}
	if v.opt.Op == restart.Start {
		out = append(out, line{sp("- ", stDim), sp("nothing is stopped: no server runs", stText)})
	}
	if e := v.writes(); e != nil {
		out = append(out, para(sp("+", stOK.bold()), 2, w, clean(e.path)+" is edited, once it serves", stText)...)
	}
	return out
}

// begin starts what was confirmed.
func (m *Model) begin(v *reviewView, p restart.Plan, told forecast.Forecast, script *scriptEdit) tea.Cmd {
	act := m.actor()
	if act == nil || !canAct(m) {
		return m.say("nothing was done: acting is not possible now")
	}
	v.failed = ""
	return tea.Batch(m.say("begun: the node has the plan …"), m.call(func(ctx context.Context) tea.Msg { return begunMsg{v, p, told, script, act.Begin(ctx, p)} }))
}

type begunMsg struct {
	v      *reviewView
	p      restart.Plan
	told   forecast.Forecast
	script *scriptEdit
	err    error
}

func (msg begunMsg) apply(m *Model) tea.Cmd {
	if msg.err != nil && !errors.Is(msg.err, restart.ErrUnsure) {
		msg.v.failed = metrics.Clean(msg.err.Error(), 300)
		return m.say("nothing was begun: " + msg.err.Error())
	}
	m.toast = ""
	m.stack = slices.DeleteFunc(m.stack, func(n string) bool { return n == viewReview || n == viewForm })
	m.views[viewForm] = &formView{}
	cmd := m.followPlan(msg.p, msg.told)
	m.follow.script = msg.script
	return tea.Batch(m.open(viewRestart), cmd)
}

// breakEvenLines weigh the gain against what is lost. A launch that is known to
// fail gains nothing, whatever its figures.
func breakEvenLines(f *forecast.Forecast, w int) []line {
	text := clean(f.BreakEven.Why)
	if text == "" {
		return nil
	}
	sign, st := sp("i", stInfo), stText
	if f.BreakEven.Known && !f.BreakEven.Worth {
		sign = sp("▲", stWarn.bold())
	}
	for _, x := range slices.Concat(f.Outcomes, f.Warnings) {
		if x.Level >= metrics.SeverityCritical {
			sign, st = sp("▲", stWarn.bold()), stDim
			break
		}
	}
	return para(sign, 2, w, text, st)
}
