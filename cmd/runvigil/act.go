package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/launch/forecast"
	"github.com/runvigil/runvigil/launch/restart"
	"github.com/runvigil/runvigil/launch/starts"
	"github.com/runvigil/runvigil/metrics"
)

// Exit codes of restart, stop and start; docs/exit-codes.md has them too.
const (
	exitRefused exitError = 1 // refused or declined: nothing was touched
	exitServer  exitError = 2 // the new server ended, or gave no token
	exitHeld    exitError = 4 // something could not be ended or is not free
)

// actFlags are the choices of restart, stop and start.
type actFlags struct {
	set, unset, env, unsetEnv []string
	client, override          string
	drain, term               time.Duration
	abort, wayBack            bool
	dryRun, asJSON, yes       bool
	follow                    bool
	start, command, script    string
}

func (f *actFlags) edits(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringArrayVar(&f.set, "set", nil, "give a flag a value: FLAG=VALUE, or FLAG for one without a value")
	fl.StringArrayVar(&f.unset, "unset", nil, "remove a flag")
	fl.StringArrayVar(&f.env, "env", nil, "give an environment variable a value: NAME=VALUE")
	fl.StringArrayVar(&f.unsetEnv, "unset-env", nil, "remove an environment variable")
	fl.StringVar(&f.override, "override", "", "the reason for breaking a guard that allows it")
}

func (f *actFlags) stopping(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.client, "client", "", "what becomes of the client: keep, stop or restart (default: it is asked; with --yes keep)")
	fl.DurationVar(&f.drain, "drain", 0, "how long requests may end by themselves before SIGTERM")
	fl.DurationVar(&f.term, "term-wait", restart.DefaultTermWait, "how long the server may take after SIGTERM before SIGKILL")
	fl.BoolVar(&f.abort, "abort", false, "make the engine give its requests up after the drain (only with --client stop or restart)")
}

func (f *actFlags) common(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.BoolVar(&f.dryRun, "dry-run", false, "show the plan and do nothing")
	fl.BoolVar(&f.asJSON, "json", false, "print the plan of a dry run as one JSON object")
	fl.BoolVar(&f.yes, "yes", false, "do not ask")
}

// An act is one restart, stop or start under way.
type act struct {
	token  time.Time // when the newest server gave its first one, zero: none yet
	o      *options
	n      *node
	run    *runner
	flags  actFlags
	op     restart.Op
	snap   *metrics.Snapshot
	server *metrics.Server
	seen   restart.Seen
	draft  *launch.Draft
	fore   forecast.Forecast
	broken []launch.Broken
	input  restart.Input
	plan   restart.Plan
	typed  *bufio.Reader // what a person answers
	notes  []string
	// script is the start script that was edited, and its bytes before and after.
	scriptOld, scriptNew []byte
}

// doAct plans one operation, shows it, has it confirmed, and follows it.
func doAct(ctx context.Context, o *options, name string, op restart.Op, f actFlags) error {
	if o.readOnly && !f.dryRun && !f.follow {
		return usagef("--read-only: this runvigil does not act on the node; --dry-run shows what it would do")
	}
	if f.follow && (f.dryRun || f.yes || len(f.set)+len(f.unset)+len(f.env)+len(f.unsetEnv) > 0) {
		return usagef("--follow begins nothing: it takes no edits, --yes or --dry-run")
	}
	if f.asJSON && !f.dryRun {
		return usagef("--json belongs to --dry-run")
	}
	switch restart.Client(f.client) {
	case "", restart.ClientKeep, restart.ClientStop, restart.ClientRestart:
	default:
		return usagef("--client is %q; it may be keep, stop or restart", f.client)
	}
	if op == restart.Stop && restart.Client(f.client) == restart.ClientRestart {
		return usagef("stop --client restart would start the client with no server; choose keep or stop")
	}
	n, err := o.openNode(ctx, name)
	if err != nil {
		return err
	}
	defer n.close()
	a := &act{o: o, n: n, run: newRunner(n), flags: f, op: op, typed: bufio.NewReader(o.io.in)}
	defer a.run.close()
	if f.follow {
		return a.followOther(ctx)
	}
	if err := a.prepare(ctx); err != nil {
		return err
	}
	if f.dryRun {
		return a.dryRun()
	}
	a.show()
	if a.plan.Refused() {
		return exitRefused
	}
	if err := a.askClient(); err != nil {
		return err
	}
	if err := a.confirm(); err != nil {
		return err
	}
	return a.carry(ctx)
}

// prepare looks at the node and computes the plan.
func (a *act) prepare(ctx context.Context) error {
	if err := a.free(ctx); err != nil {
		return err
	}
	snap, err := look(ctx, a.n)
	if err != nil {
		return err
	}
	if snap.Link.Status != metrics.LinkUp && snap.BootID == "" {
		return fmt.Errorf("%s: %s", a.n.name, first(snap.Link.Reason, "the node did not answer"))
	}
	a.snap = snap
	newStartKeeper(a.n.state).put(snap)
	if known, _, err := starts.Load(a.n.state.dir); err == nil && len(snap.Starts) == 0 {
		snap.Starts = known
	}
	for i := range snap.Servers {
		if s := &snap.Servers[i]; s.PID > 0 && s.State != metrics.ServerDown {
			a.server = s
			break
		}
	}
	if err := a.lookBack(ctx); err != nil {
		return err
	}
	if err := a.edit(ctx); err != nil {
		return err
	}
	facts := forecast.FactsOf(snap, a.server, a.seen.Launch)
	a.input = restart.Input{
		ID: restart.NewID(time.Now()), Node: a.n.name, Snap: snap, Server: a.server, Seen: a.seen, Draft: a.draft,
		Options: restart.Options{
			Op: a.op, Client: restart.Client(a.flags.client), Drain: a.flags.drain, TermWait: a.flags.term, Abort: a.flags.abort,
			WayBack: a.flags.wayBack, Override: a.flags.override,
		},
	}
	if a.draft != nil {
		edited := a.draft.Launch()
		guards, err := a.guards(ctx)
		if err != nil {
			return err
		}
		a.broken = launch.Judge(edited, guards, launch.Resolved(a.server))
		a.input.Broken, a.input.Problems = a.broken, launch.Problems(edited, facts.Machine())
		a.fore = forecast.Make(edited.Masked(), facts, snap.Starts)
	}
	a.plan = restart.New(a.input)
	if err := a.askSecrets(); err != nil {
		return err
	}
	if a.plan.Refused() {
		return nil
	}
	refusals, notes, err := restart.Check(ctx, a.run, a.plan)
	if err != nil {
		return unreachable(a.n, err)
	}
	a.plan.Refusals, a.notes = refusals, notes
	return nil
}

// free tells whether another restart is under way, here or of another login: then
// nothing is planned, for what would be stopped is not what will run.
func (a *act) free(ctx context.Context) error {
	u, err := a.find(ctx)
	if err != nil || u == nil {
		return err
	}
	how := fmt.Sprintf("follow it with `runvigil restart %s --follow`", a.n.name)
	switch {
	case u.Hidden:
		how = "its journal is for that login only"
	case u.Dead:
		how = "its journal is " + u.Folder + "/journal"
	case !u.Held:
		how = "its server has started, and this takes it over; to watch it instead, " + how
	}
	fmt.Fprintf(a.o.io.err, "runvigil: %s: %s (%s): %s\n", a.n.name, u, u.ID, how)
	if u.Held && !a.flags.dryRun {
		return exitRefused
	}
	return nil
}

// find looks for a restart under way. The simulated node has no other logins.
func (a *act) find(ctx context.Context) (*restart.UnderWay, error) {
	u, err := restart.Find(ctx, a.run, a.n.root == 0)
	if err != nil {
		return nil, unreachable(a.n, err)
	}
	return u, nil
}

// followOther follows what is under way instead of beginning something.
func (a *act) followOther(ctx context.Context) error {
	snap, err := look(ctx, a.n)
	if err != nil {
		return err
	}
	a.snap = snap
	u, err := a.find(ctx)
	switch {
	case err != nil:
		return err
	case u == nil:
		fmt.Fprintf(a.o.io.err, "runvigil: %s: no restart is under way\n", a.n.name)
		return exitRefused
	case u.Hidden:
		fmt.Fprintf(a.o.io.err, "runvigil: %s: %s (%s): its journal is for that login only\n", a.n.name, u, u.ID)
		return exitRefused
	}
	fmt.Fprintf(a.o.io.out, "%s (%s)\n", u, u.ID)
	for _, c := range u.Plan.Diff {
		fmt.Fprintln(a.o.io.out, "  "+c.String())
	}
	a.plan, a.seen.Base = u.Plan, filepath.Dir(u.Folder)
	return a.followOn(ctx, *u)
}

// lookBack reads the launch that is stopped, or, for start, the one that was.
func (a *act) lookBack(ctx context.Context) error {
	pid := 0
	if a.op == restart.Start && a.server != nil {
		fmt.Fprintf(a.o.io.err, "runvigil: %s: a server runs already: process %d; restart it instead: runvigil restart %s\n", a.n.name, a.server.PID, a.n.name)
		return exitRefused
	}
	if a.op != restart.Start {
		if a.server == nil {
			return fmt.Errorf("%s: no server runs; `runvigil start %s` starts one", a.n.name, a.n.name)
		}
		pid = a.server.PID
	}
	var err error
	a.seen, err = restart.Look(ctx, a.run, pid)
	switch {
	case errors.Is(err, restart.ErrNothingSaved) && a.flags.command+a.flags.start+a.flags.script != "":
	case err != nil:
		return unreachable(a.n, err)
	}
	if a.server != nil && pid > 0 && a.seen.Launch.Start != a.server.Start {
		return fmt.Errorf("%s: process %d is another one by now; try again", a.n.name, pid)
	}
	if a.server != nil && a.seen.Launch.Version == "" {
		a.seen.Launch.Version = a.server.Version
	}
	return nil
}

// edit makes the draft of what is to be started.
func (a *act) edit(ctx context.Context) error {
	if a.op == restart.Stop {
		return nil
	}
	var err error
	switch {
	case a.flags.command != "":
		err = a.takeText("--command", []byte(a.flags.command))
	case a.flags.script != "":
		err = a.takeScript(ctx)
	}
	if err != nil {
		return err
	}
	base := a.seen.Launch
	var start metrics.Start
	if a.flags.start != "" {
		if start, err = a.startByName(a.flags.start); err != nil {
			return err
		}
		if !base.Known() { // no launch was saved: the start itself is the base
			given := launch.FromStart(start)
			given.BootID, given.Here = base.BootID, base.Here
			a.seen.Launch, base = given, given
		}
	}
	a.draft = launch.NewDraft(base)
	if a.flags.start != "" {
		if err := a.draft.Take("start "+a.flags.start, start.Argv); err != nil {
			return usageError{err}
		}
	}
	for _, e := range a.edits() {
		if err := a.draft.Do(e); err != nil {
			return usageError{err}
		}
	}
	return nil
}

func (a *act) edits() []launch.Edit {
	var out []launch.Edit
	for _, s := range a.flags.set {
		name, value, found := strings.Cut(s, "=")
		if !found {
			value = "true"
		}
		out = append(out, launch.Edit{Kind: launch.SetFlag, Name: name, Value: value})
	}
	for _, s := range a.flags.unset {
		out = append(out, launch.Edit{Kind: launch.UnsetFlag, Name: s})
	}
	for _, s := range a.flags.env {
		name, value, _ := strings.Cut(s, "=")
		out = append(out, launch.Edit{Kind: launch.SetEnv, Name: name, Value: value})
	}
	for _, s := range a.flags.unsetEnv {
		out = append(out, launch.Edit{Kind: launch.UnsetEnv, Name: s})
	}
	return out
}

// startByName finds an earlier start by its id or number.
func (a *act) startByName(name string) (metrics.Start, error) {
	var known []string
	for _, s := range a.snap.Starts {
		if len(s.Argv) == 0 {
			continue
		}
		if s.ID == name || fmt.Sprint(s.No) == strings.TrimPrefix(name, "#") {
			return s, nil
		}
		known = append(known, fmt.Sprintf("%d (%s)", s.No, first(s.Label, s.ID)))
	}
	return metrics.Start{}, usagef("--start: no start %q with known flags; there are %s", name, first(strings.Join(known, ", "), "none"))
}

// guards are the owner's rules from the configuration and from the file beside
// the data. A file that cannot be read stops the restart: a rule must not fail
// silently.
func (a *act) guards(ctx context.Context) ([]metrics.Guard, error) {
	there, found, err := readGuards(ctx, a.run, guardsFiles(a.n.config, dataOf(a.snap)))
	if err == nil && len(found) == 0 && a.n.config.GuardsFile != "" {
		err = fmt.Errorf("guards file %s: it does not exist", a.n.config.GuardsFile)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.n.name, err)
	}
	return append(there, a.n.config.Guards...), nil
}

// askSecrets asks for the values that are nowhere any more, unseen, where somebody
// can be asked.
func (a *act) askSecrets() error {
	in := int(a.o.io.in.Fd())
	if a.flags.yes || a.flags.dryRun || !a.plan.OnlySecrets() || !term.IsTerminal(in) {
		return nil
	}
	for _, edit := range a.plan.Missing {
		name := edit.Name
		if edit.Kind == launch.SetFlag {
			name = "--" + name
		}
		fmt.Fprintf(a.o.io.out, "A secret is nowhere any more; type the value of %s (it is not shown): ", metrics.Clean(name, 80))
		value, err := term.ReadPassword(in)
		fmt.Fprintln(a.o.io.out)
		if err != nil || len(value) == 0 {
			fmt.Fprintln(a.o.io.out, "nothing was done")
			return exitRefused
		}
		edit.Value = string(value)
		if err := a.draft.Do(edit); err != nil {
			return usageError{err}
		}
	}
	a.plan = restart.New(a.input)
	return nil
}

// askClient asks what becomes of the client, with what each choice loses, where it
// was not said.
func (a *act) askClient() error {
	if a.flags.yes || a.flags.client != "" || len(a.plan.Clients) == 0 || a.op == restart.Start || !term.IsTerminal(int(a.o.io.in.Fd())) {
		return nil
	}
	choices := []restart.Client{restart.ClientKeep, restart.ClientStop, restart.ClientRestart}
	if a.op == restart.Stop {
		choices = choices[:2]
	}
	out := a.o.io.out
	fmt.Fprintln(out, "\nWhat becomes of the client?")
	for _, c := range choices {
		in := a.input
		in.Options.Client = c
		p := restart.New(in)
		for _, l := range p.ClientLosses() {
			fmt.Fprintf(out, "  %-8s %s\n", c, l)
		}
		for _, r := range p.Refusals {
			if r.Code == restart.RefusedClient {
				fmt.Fprintf(out, "           refused: %s\n", r.Reason)
			}
		}
	}
	fmt.Fprint(out, "keep, stop"+map[bool]string{true: " or restart"}[len(choices) == 3]+": ")
	typed, err := a.typed.ReadString('\n')
	chosen := restart.Client(strings.TrimSpace(typed))
	if err != nil || !slices.Contains(choices, chosen) {
		fmt.Fprintln(out, "nothing was done")
		return exitRefused
	}
	a.input.Options.Client = chosen
	a.plan = restart.New(a.input)
	if a.plan.Refused() {
		a.show()
		return exitRefused
	}
	return nil
}

// confirm has the node's name typed, unless --yes was given.
func (a *act) confirm() error {
	if a.flags.yes {
		return nil
	}
	if !term.IsTerminal(int(a.o.io.in.Fd())) {
		return usagef("there is no terminal to confirm on; give --yes to do it, or --dry-run to look")
	}
	fmt.Fprintf(a.o.io.out, "\nType the node's name (%s) to do it: ", a.n.name)
	typed, err := a.typed.ReadString('\n')
	if err != nil || strings.TrimSpace(typed) != a.n.name {
		fmt.Fprintln(a.o.io.out, "nothing was done")
		return exitRefused
	}
	return nil
}

// carry begins the plan and follows it to its end.
func (a *act) carry(ctx context.Context) error {
	if err := restart.Begin(ctx, a.run, a.plan); err != nil && !errors.Is(err, restart.ErrUnsure) {
		return unreachable(a.n, err)
	}
	err := a.followOn(ctx, restart.UnderWay{ID: a.plan.ID, Folder: a.plan.ID, Mine: true, Plan: a.plan})
	if err != nil || bytes.Equal(a.scriptOld, a.scriptNew) {
		return err
	}
	if err := writeScript(ctx, a.run, a.flags.script, a.scriptOld, a.scriptNew); err != nil {
		return fmt.Errorf("%s: the server runs, and its start script is as it was: %w", a.n.name, err)
	}
	fmt.Fprintln(a.o.io.out, "  "+a.flags.script+" is edited; as it was: "+a.flags.script+launch.ScriptBackup)
	return nil
}
