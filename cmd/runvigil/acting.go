package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/runvigil/runvigil/launch/restart"
	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote"
	"github.com/runvigil/runvigil/remote/posix"
	"github.com/runvigil/runvigil/tui"
)

// following are the actions of a screen that may look only: it finds and follows
// what others begin.
type following struct {
	*actions
	run *runner
}

func newFollowing(a *actions) *following {
	return &following{actions: a, run: &runner{dial: func(context.Context) (*remote.Conn, error) {
		if conn := a.live.Conn(); conn != nil {
			return conn, nil
		}
		return nil, errNoLink
	}}}
}

// Find looks for a restart under way. The simulated node has no other logins.
func (f *following) Find(ctx context.Context) (*restart.UnderWay, error) {
	return restart.Find(ctx, f.run, f.live.node.root == 0)
}

// Follow reads the journal; its lines become frames too, so that the timeline
// and a recording have them.
func (f *following) Follow(ctx context.Context, u restart.UnderWay, each func(metrics.JournalLine)) (metrics.Journal, error) {
	return restart.Follow(ctx, f.run, u.Folder, func(l metrics.JournalLine) {
		if err := f.session.put(ctx, metrics.Frame{Kind: metrics.KindJournal, Name: u.ID, Data: []byte(l.String() + "\n")}); err != nil {
			slog.Warn("tell of the journal", "error", err)
		}
		each(l)
	})
}

// acting are the actions of a screen that may act. With --read-only none exists.
type acting struct {
	*following

	mu    sync.Mutex
	going map[string]restart.Op // under way and not yet ended, by the plan's id
}

func newActing(f *following) *acting {
	return &acting{following: f, going: map[string]restart.Op{}}
}

// Look reads a launch back, and has the owner's rules read again.
func (a *acting) Look(ctx context.Context, pid int) (restart.Seen, error) {
	a.live.lookForGuards()
	seen, err := restart.Look(ctx, a.run, pid)
	if snap := a.session.last.Load(); snap != nil && seen.Launch.Version == "" {
		// The process itself does not tell its version; its log did.
		if s := snap.Server(); s != nil && s.Engine == seen.Launch.Engine {
			seen.Launch.Version = s.Version
		}
	}
	return seen, err
}

// Check asks the node what stands against a plan.
func (a *acting) Check(ctx context.Context, p restart.Plan) ([]restart.Refusal, []string, error) {
	return restart.Check(ctx, a.run, p)
}

// Begin starts a plan. The start that it ends is told to the fold first: once its
// process is gone, nothing else knows its flags.
func (a *acting) Begin(ctx context.Context, p restart.Plan) error {
	if s, ok := a.startOf(p.Identity); ok && p.Op != restart.EndOne {
		s.Outcome = "stopped"
		a.tell(ctx, s)
	}
	return restart.Begin(ctx, a.run, p)
}

// Follow follows, and tells of the starts that this login's restarts make.
func (a *acting) Follow(ctx context.Context, u restart.UnderWay, each func(metrics.JournalLine)) (metrics.Journal, error) {
	if !u.Mine {
		return a.following.Follow(ctx, u, each)
	}
	p := u.Plan
	a.mu.Lock()
	a.going[p.ID] = p.Op
	a.mu.Unlock()
	j, err := a.following.Follow(ctx, u, func(l metrics.JournalLine) {
		if s, ok := begunStart(p, l); ok {
			a.tell(ctx, s)
		}
		each(l)
	})
	if ctx.Err() == nil && (err != nil || j.State != metrics.JournalRunning || p.Op != restart.Restart && p.Op != restart.Start) {
		a.done(p.ID)
	}
	return j, err
}

// tell hands a start to the fold, from where the history has it too.
func (a *acting) tell(ctx context.Context, s metrics.Start) {
	if err := a.session.put(ctx, metrics.JSONFrame(metrics.KindStarts, "", time.Time{}, []metrics.Start{s})); err != nil {
		slog.Warn("tell of a start", "error", err)
	}
}

// startOf is what is known of the start of a running process.
func (a *acting) startOf(id restart.Identity) (metrics.Start, bool) {
	snap := a.session.last.Load()
	if snap == nil || id.PID <= 0 {
		return metrics.Start{}, false
	}
	want := fmt.Sprintf("%s:%d:%d", id.BootID, id.PID, id.Start)
	i := slices.IndexFunc(snap.Starts, func(s metrics.Start) bool { return s.ID == want })
	if i < 0 {
		return metrics.Start{}, false
	}
	return snap.Starts[i], true
}

// begunStart is the start that a line of the journal tells of, with its flags
// and the reason for a broken guard.
func begunStart(p restart.Plan, l metrics.JournalLine) (metrics.Start, bool) {
	pid, start, ok := l.Process("pid")
	if !ok || l.Step != metrics.JournalStarted {
		return metrics.Start{}, false
	}
	s := metrics.Start{
		ID: fmt.Sprintf("%s:%d:%d", p.Old.BootID, pid, start), Node: p.Node, Engine: p.New.Engine, Version: p.New.Version, At: l.At,
		Argv: p.Command, Outcome: "unknown",
	}
	if l.Get("launch") == "old" {
		s.Argv = p.Old.Argv
		return s, true
	}
	s.Override = p.Options.Override
	for _, w := range p.Warnings {
		if strings.HasPrefix(w, "guard on ") && s.Override != "" {
			s.GuardBroken = w
		}
	}
	return s, true
}

// Ready waits for one real token.
func (a *acting) Ready(ctx context.Context, p restart.Plan, j metrics.Journal, state func(string)) error {
	tok, err := restart.Ready(ctx, a.run, p, j, state)
	if s, ok := a.startOf(restart.Identity{BootID: p.Old.BootID, PID: j.PID, Start: j.Start}); ok && err == nil && s.FirstToken.IsZero() {
		s.FirstToken = tok.At // its log may tell it only when the next batch is printed
		a.tell(ctx, s)
	}
	if ctx.Err() == nil {
		a.done(p.ID)
	}
	return err
}

func (a *acting) done(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.going, id)
}

// leaving says what goes on without the screen.
func (a *acting) leaving() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, op := range a.going {
		return fmt.Sprintf("runvigil: the %s %s goes on by itself on the node, and its journal tells how it ended; look with `runvigil %s`", op, id, a.live.node.name)
	}
	return ""
}

// clientProgram starts a client in a session of its own, deaf to the login's end.
func clientProgram(c tui.ClientStart) ([]byte, error) {
	command := c.Command
	if command == "" {
		words := make([]string, len(c.Argv))
		for i, w := range c.Argv {
			q, err := posix.Quote(w)
			if err != nil {
				return nil, err
			}
			words[i] = q
		}
		command = "exec " + strings.Join(words, " ")
	}
	if strings.TrimSpace(command) == "" {
		return nil, errors.New("there is no command")
	}
	var b bytes.Buffer
	b.WriteString("{\n")
	for _, v := range [][2]string{{"C", command}, {"D", c.Dir}, {"L", c.Log}} {
		q, err := posix.Quote(v[1])
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%s=%s\n", v[0], q)
	}
	// One compound command: a shell that gets only a part of it does nothing.
	b.WriteString(`[ -z "$D" ] || cd "$D" || { echo "runvigil failed: no folder $D"; exit 0; }
if [ -z "$L" ]; then mkdir -p "$HOME/.cache/runvigil" && L=$HOME/.cache/runvigil/client.log; fi
(: >>"$L") 2>/dev/null || { echo "runvigil failed: $L cannot be written"; exit 0; }
S=setsid; command -v setsid >/dev/null 2>&1 || S=
(trap '' HUP; exec $S /bin/sh -c "$C" >>"$L" 2>&1 </dev/null) &
P=$!
sleep 1
if kill -0 "$P" 2>/dev/null; then echo "runvigil started $P"; else echo "runvigil failed: it ended at once; its log $L tells why"; fi
}
`)
	return b.Bytes(), nil
}

// StartClient starts the client on the node.
func (a *acting) StartClient(ctx context.Context, c tui.ClientStart) error {
	program, err := clientProgram(c)
	if err != nil {
		return fmt.Errorf("start the client: %w", err)
	}
	out, err := a.run.Run(ctx, program)
	if err != nil {
		return fmt.Errorf("start the client: %w", err)
	}
	if _, why, failed := strings.Cut(string(out), "runvigil failed: "); failed {
		return fmt.Errorf("start the client: %s", metrics.Clean(strings.TrimSpace(why), 300))
	}
	if !strings.Contains(string(out), "runvigil started ") {
		return errors.New("start the client: the node did not confirm it; look at its processes")
	}
	return nil
}

// ReadScript reads a start script on the node.
func (a *acting) ReadScript(ctx context.Context, path string) ([]byte, error) {
	text, err := restart.ReadFile(ctx, a.run, path)
	if err != nil {
		return nil, fmt.Errorf("read the script %s: %w", path, err)
	}
	return text, nil
}

// WriteScript edits a start script on the node that is still as it was read.
func (a *acting) WriteScript(ctx context.Context, path string, before, after []byte) error {
	return writeScript(ctx, a.run, path, before, after)
}
