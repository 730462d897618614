package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote/simnode"
	"github.com/runvigil/runvigil/remote/simnode/model"
	"github.com/runvigil/runvigil/tui"
)

func newWatch(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "watch NODE",
		Short: "The live screen (the same as `runvigil NODE`)",
		Example: `  runvigil watch root@gpu7
  runvigil watch gpu7 --interval 2s --read-only
  runvigil watch local`,
		Args: oneNode,
		RunE: func(cmd *cobra.Command, args []string) error { return watch(cmd.Context(), o, args[0]) },
	}
}

func newDemo(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo [SCENARIO]",
		Short: "The live screen on a simulated node",
		Long: `demo starts a simulated GPU node on this machine, with a real SSH server, real
shells and real processes, and shows it as any other. Nothing outside its own
folder and processes is touched, and all of it ends with the screen.

Scenarios:
` + scenarioList(),
		Example: `  runvigil demo
  runvigil demo oom
  runvigil check demo:hang --json`,
		Args: usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := "demo"
			if len(args) == 1 {
				name += ":" + args[0]
			}
			return watch(cmd.Context(), o, name)
		},
	}
	for _, s := range model.Scenarios() {
		cmd.ValidArgs = append(cmd.ValidArgs, s.Name)
	}
	return cmd
}

func scenarioList() string {
	var out string
	for _, s := range model.Scenarios() {
		out += fmt.Sprintf("  %-12s %s\n", s.Name, s.Title)
	}
	return out
}

// needTerminal refuses to draw where nobody can see it.
func needTerminal(o *options, name string) error {
	if term.IsTerminal(o.io.in.Fd()) && term.IsTerminal(o.io.out.Fd()) {
		return nil
	}
	return fmt.Errorf("the live screen needs a terminal; for one glance without one use `runvigil check %s`", name)
}

// watch shows the live screen of a node.
func watch(ctx context.Context, o *options, name string) error {
	if err := needTerminal(o, name); err != nil {
		return err
	}
	n, err := o.openNode(ctx, name)
	if errors.Is(err, simnode.ErrUnsupported) {
		fmt.Fprintln(o.io.err, "runvigil: the simulated node needs Linux; this is a recording of its story")
		return replayEmbedded(ctx, o)
	}
	if err != nil {
		return err
	}
	defer n.close()
	c := newClock()
	prompts := newPrompts()
	src := newLive(n, c, prompts)
	box := tui.NewMailbox()
	keep := &keeper{state: n.state, starts: newStartKeeper(n.state), first: newFirstLook(), began: c.now()}
	tell := newNotifier(ctx, o.file.NotifyFor(name))
	s := newSession(c, src, func(snap *metrics.Snapshot) {
		box.Put(snap)
		keep.put(snap)
		tell.put(snap)
	})
	s.seen, s.wanted = keep.see, func(wants []metrics.Want) { keep.want(wants, c.now()) }
	if r := newRotating(o.file.Record.Rotation(), name); r != nil {
		s.record = r
		r.tell = func(text string) { go s.note(ctx, text) } // it is told from within the fold
		defer r.close()
	}
	before := n.frames(c.now())
	opt := tui.Options{Node: name, Source: box, Prompts: prompts.out}
	looking := &actions{session: s, live: src, prompts: prompts, state: n.state}
	follow := newFollowing(looking)
	opt.Actions = follow
	if !o.readOnly {
		act := newActing(follow)
		opt.Actions, opt.Leaving = act, act.leaving
	}
	return screen(ctx, o, s, before, opt, keep.flush)
}

// gcPercent keeps a screen that is left open for days small: 4 MiB less of about
// 21 that are its own, for a tenth more CPU.
const gcPercent = 50

// screenProcs is how many cores a screen uses at most: it has work for a part of
// one, and a collection that wakes 16 idle ones costs more than it collects.
const screenProcs = 2

// screen runs a session behind the screen and ends both together.
func screen(ctx context.Context, o *options, s *session, before []metrics.Frame, opt tui.Options, flush func()) error {
	opt.ASCII, opt.ReadOnly = o.ascii, o.readOnly || opt.ReadOnly
	opt.NoColor = os.Getenv("NO_COLOR") != ""
	opt.Theme = map[string]tui.Scheme{"light": tui.SchemeLight, "dark": tui.SchemeDark}[o.theme]
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMAXPROCS") == "" && runtime.NumCPU() > screenProcs {
		runtime.GOMAXPROCS(screenProcs)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	folded := make(chan error, 1)
	go func() {
		err := s.run(ctx, before)
		if err != nil {
			cancel() // a damaged recording, say: nothing more will come
		}
		folded <- err
	}()
	err := tui.Run(ctx, opt)
	cancel()
	select {
	case ferr := <-folded:
		err = errors.Join(err, ferr)
	case <-time.After(leaveLimit):
		slog.Warn("the session did not end in time")
	}
	flush()
	return err
}

// leaveLimit is how long a link that hangs may hold up the end of the program.
const leaveLimit = 2 * time.Second

// A keeper leaves the latest glance, starts and counts on disk: the glance at
// most once a second, the counts once a minute. Before everything was seen once
// it leaves nothing: half of a first look says what is not so ("no server").
type keeper struct {
	state            state
	starts           *startKeeper
	first            *firstLook
	began            time.Time
	whole            bool
	glanced, counted time.Time
	last             *metrics.Snapshot
}

func (k *keeper) see(f metrics.Frame) {
	if !k.whole {
		k.first.see(f)
	}
}

func (k *keeper) want(wants []metrics.Want, at time.Time) {
	if !k.whole {
		k.first.want(wants, at)
	}
}

func (k *keeper) put(s *metrics.Snapshot) {
	k.last = s
	if k.whole = k.whole || k.first.complete(s.At) || s.At.Sub(k.began) > lookLimit; !k.whole {
		return
	}
	k.starts.put(s)
	now := time.Now()
	if now.Sub(k.glanced) >= time.Second && s.Link.Status == metrics.LinkUp && now.Sub(s.Link.LastData.Local()) < glanceMaxAge {
		k.glanced = now
		if err := k.state.leaveGlance(newGlance(s, now)); err != nil {
			slog.Warn("leave glance", "error", err)
		}
	}
	if now.Sub(k.counted) >= time.Minute {
		k.counted = now
		k.flush()
	}
}

func (k *keeper) flush() {
	if k.last == nil || len(k.last.Saved.Files) == 0 && len(k.last.Saved.Targets) == 0 {
		return
	}
	if err := k.state.save(k.last.Saved); err != nil {
		slog.Warn("keep counts", "error", err)
	}
}
