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
	"github.com/runvigil/runvigil/launch/restart"
	"github.com/runvigil/runvigil/launch/starts"
	"github.com/runvigil/runvigil/metrics"
)

// A Follower is an Actions that finds what others begin on the node and follows it;
// it changes nothing there.
type Follower interface {
	// Find looks for a restart under way, nil if there is none.
	Find(ctx context.Context) (*restart.UnderWay, error)
	// Follow reads the journal of a restart until its script has ended, and calls
	// each for every line. It lives as long as the screen.
	Follow(ctx context.Context, u restart.UnderWay, each func(metrics.JournalLine)) (metrics.Journal, error)
}

// An Actor is an Actions that can act on the node. Without one, in read-only and
// in a recording no key acts. Plans hold secrets only where nothing shows them.
type Actor interface {
	Follower
	// Look reads back the launch of the process pid; pid 0: the one that the last
	// restart or stop left on the node (restart.ErrNothingSaved where none did).
	Look(ctx context.Context, pid int) (restart.Seen, error)
	// Check asks the node what stands against a plan; nothing is touched.
	Check(ctx context.Context, p restart.Plan) (refusals []restart.Refusal, notes []string, err error)
	// Begin starts what was confirmed; it runs to its end whatever becomes of us.
	Begin(ctx context.Context, p restart.Plan) error
	// Ready waits until the started server has given one real token; state is
	// called with what it waits for. It lives as long as the screen.
	Ready(ctx context.Context, p restart.Plan, j metrics.Journal, state func(string)) error
	// ReadScript reads a start script on the node.
	ReadScript(ctx context.Context, path string) ([]byte, error)
	// WriteScript replaces a start script on the node, unless it is not as it was
	// before any more; what it was is kept beside it (launch.ScriptBackup).
	WriteScript(ctx context.Context, path string, before, after []byte) error
	// StartClient starts the client in a session of its own.
	StartClient(ctx context.Context, c ClientStart) error
}

// ClientStart is how a client is started: the shell text Command, or the words of
// Argv as they were read back, in Dir, with its output appended to Log.
type ClientStart struct {
	Command string
	Argv    []string
	Dir     string
	Log     string
}

func (m *Model) actor() Actor {
	a, _ := m.opt.Actions.(Actor)
	return a
}

// canAct tells whether keys may act: never in read-only, in a recording or while
// the past is shown.
func canAct(m *Model) bool {
	return m.actor() != nil && !m.opt.ReadOnly && m.live != nil && !m.live.Replay && m.at.IsZero()
}

// actKeys are the keys that lead to acting; each ends in a confirmation.
func actKeys() []binding {
	form := func(m *Model) *formView { return m.views[viewForm].(*formView) }
	review := func(m *Model) *reviewView { return m.views[viewReview].(*reviewView) }
	inForm, inReview := []string{viewForm}, []string{viewReview}
	formKey := func(name, key, short, help string, do func(v *formView, m *Model) tea.Cmd) binding {
		show := strings.ReplaceAll(key, "ctrl+", "ctrl-")
		return binding{name: name, keys: []string{key}, show: show, views: inForm, group: "Act", short: short, help: help, when: canAct,
			do: func(m *Model, _ string) tea.Cmd { return do(form(m), m) }}
	}
	reviewKey := func(name, key, short, help string, do func(v *reviewView, m *Model) tea.Cmd) binding {
		return binding{name: name, keys: []string{key}, views: inReview, group: "Act", short: short, help: help,
			when: func(m *Model) bool {
				return canAct(m) && (name == "confirm" || review(m).stops() || name == "script" && review(m).opt.Op == restart.Start)
			},
			do: func(m *Model, _ string) tea.Cmd { return do(review(m), m) }}
	}
	acts := func(name, key, short, help string, do func(m *Model) tea.Cmd) binding {
		return binding{name: name, keys: []string{key}, group: "Act", short: short, help: help, when: canAct,
			do: func(m *Model, _ string) tea.Cmd {
				if why := m.unsure(); why != "" && name != "edit" {
					return m.say(why)
				}
				return do(m)
			}}
	}
	keys := []binding{
		formKey("change-flag", "enter", "change", "give the selected flag or variable a value", (*formView).change),
		formKey("find-flag", "/", "find", "search all flags of this engine and version as you type", (*formView).find),
		formKey("review", "w", "review", "look at all of it before anything is done", (*formView).review),
		formKey("add-flag", "a", "add", "add by name: --flag value, or NAME=value for the environment", (*formView).add),
		formKey("remove-flag", "x", "remove", "remove the selected flag or variable", (*formView).remove),
		formKey("undo", "u", "undo", "take the last change back", (*formView).undo),
		formKey("redo", "ctrl+r", "", "make an undone change again", (*formView).redo),
		formKey("reset", "U", "reset", "take all changes back; u brings them again", (*formView).reset),
		formKey("copy-start", "c", "copy a start", "take the flags of an earlier start", func(_ *formView, m *Model) tea.Cmd { return m.open(viewStarts) }),
		reviewKey("confirm", "w", "go on", "go on to the confirmation", (*reviewView).confirm),
		reviewKey("client-choice", "c", "client", "what becomes of the client: keep, stop, restart", (*reviewView).nextClient),
		reviewKey("drain", "d", "drain", "how long requests may end by themselves before SIGTERM", (*reviewView).drain),
		reviewKey("term-wait", "t", "", "how long the server may take to end after SIGTERM, before SIGKILL", (*reviewView).termWait),
		reviewKey("abort", "a", "", "after the drain, have the engine give up its requests; not while a client lives that would save cut answers", (*reviewView).abort),
		reviewKey("way-back", "b", "way back", "whether the node itself starts the old launch again if the new one fails", (*reviewView).wayBack),
		reviewKey("script", "p", "", "write the changed flags into the start script once the new server serves, or leave it", (*reviewView).chooseScript),
		reviewKey("override", "o", "", "give the reason for breaking a guard that allows it", (*reviewView).override),
		acts("edit", "e", "edit & restart", "change flags, with a forecast, and restart", func(m *Model) tea.Cmd { return m.open(viewForm) }),
		{name: "restart", keys: []string{"R"}, group: "Act", help: "restart with the same flags; while one goes on: follow it", when: func(m *Model) bool { return canAct(m) || m.follow != nil },
			do: func(m *Model, _ string) tea.Cmd { return m.restartSame() }},
		acts("stop", "S", "", "stop the server", (*Model).stopServer),
		acts("start-client", "C", "", "start the client", (*Model).startClient),
		acts("last-good", "B", "", "go back to the last start that was good", (*Model).lastGood),
		{name: "end-process", keys: []string{"X"}, views: []string{viewProcs}, group: "Act", short: "end it", help: "end the selected process, by identity", when: canAct,
			do: func(m *Model, _ string) tea.Cmd { return m.endProcess() }},
		{name: "take-start", keys: []string{"enter"}, views: []string{viewStarts}, group: "Act", short: "to the form", help: "put the flags of the selected start into the form", when: canAct,
			do: func(m *Model, _ string) tea.Cmd { return m.takeStart() }},
	}
	return keys
}

// aim is the server that acting keys mean: the one that was chosen, else the
// first that lives.
func (m *Model) aim() *metrics.Server {
	if m.live == nil {
		return nil
	}
	for i := range m.live.Servers {
		if s := &m.live.Servers[i]; s.PID > 0 && s.State != metrics.ServerDown {
			return s
		}
		if m.chosen.id != "" {
			break
		}
	}
	return nil
}

// firstLook is how long the first discovery of processes may take.
const firstLook = 20 * time.Second

// withVersion is a launch with its engine's version, which not the process tells
// but its log, perhaps later.
func (m *Model) withVersion(l launch.Launch) launch.Launch {
	if s := m.live.Server(); s != nil && l.Version == "" && s.Engine == l.Engine {
		l.Version = s.Version
	}
	return l
}

// unsure says why it cannot be told yet what runs, "" where it can: nothing may be
// started beside a server that was not found yet.
func (m *Model) unsure() string {
	if m.aim() != nil {
		return ""
	}
	for i := range m.live.Servers {
		if s := &m.live.Servers[i]; s.State != metrics.ServerDown && s.PID == 0 {
			return "the server's process was not found yet: without it nothing can be done; try again in a moment"
		}
	}
	young := len(m.live.Procs) == 0 && m.live.At.Sub(m.live.Link.Since) < firstLook
	if m.live.Verdict.Word == "WAIT" || young {
		return "still looking at what runs: try again in a moment"
	}
	return ""
}

// lastLaunch is the launch to begin with where none runs and none was saved: the
// flags of the last good start, else of the newest, in the directory and with the
// log of the server that ended.
func (m *Model) lastLaunch() launch.Launch {
	l := launch.Launch{Umask: -1, UID: -1, GID: -1}
	if good, ok := m.goodStart(); ok {
		l = launch.FromStart(good)
	}
	for i := len(m.live.Starts) - 1; i >= 0 && !l.Known(); i-- {
		if s := m.live.Starts[i]; len(s.Argv) > 0 {
			l = launch.FromStart(s)
		}
	}
	if s := m.live.Server(); s != nil {
		if len(l.Argv) == 0 {
			l.Argv, l.Engine, l.Version = slices.Clone(s.Argv), s.Engine, s.Version
		}
		l.Dir, l.Log = s.Cwd, s.Log.Path
		if l.Log != "" {
			l.LogHow = launch.LogFile
		}
	}
	l.BootID = m.live.BootID
	return l
}

// A looker waits for what the node tells of a launch.
type looker interface {
	looked(m *Model, seen restart.Seen, err error) tea.Cmd
}

type seenMsg struct {
	to   looker
	seen restart.Seen
	err  error
}

func (msg seenMsg) apply(m *Model) tea.Cmd { return msg.to.looked(m, msg.seen, msg.err) }

// look asks the node for a launch. Where no server runs and nothing was saved,
// the newest start that is known serves.
func (m *Model) look(to looker, pid int) tea.Cmd {
	act, fallback := m.actor(), m.lastLaunch()
	return m.call(func(ctx context.Context) tea.Msg {
		seen, err := act.Look(ctx, pid)
		if errors.Is(err, restart.ErrNothingSaved) && fallback.Known() {
			fallback.Here, seen.Launch, err = seen.Launch.Here, fallback, nil
		}
		return seenMsg{to, seen, err}
	})
}

func identityOf(s *metrics.Snapshot, srv *metrics.Server) restart.Identity {
	if srv == nil {
		return restart.Identity{BootID: s.BootID}
	}
	return restart.Identity{BootID: s.BootID, PID: srv.PID, Start: srv.Start}
}

func (m *Model) restartSame() tea.Cmd {
	if m.follow.active() || !canAct(m) {
		return m.open(viewRestart)
	}
	if why := m.unsure(); why != "" {
		return m.say(why)
	}
	srv := m.aim()
	if srv == nil {
		v := m.views[viewReview].(*reviewView)
		return v.begin(m, restart.Options{Op: restart.Start}, nil, nil)
	}
	v := m.views[viewReview].(*reviewView)
	return v.begin(m, restart.Options{Op: restart.Restart}, srv, nil)
}

func (m *Model) stopServer() tea.Cmd {
	srv := m.aim()
	if srv == nil {
		return m.say("no server runs that could be stopped")
	}
	return m.views[viewReview].(*reviewView).begin(m, restart.Options{Op: restart.Stop}, srv, nil)
}

// goodStart is the newest start that may be gone back to; the one that runs is
// not it.
func (m *Model) goodStart() (metrics.Start, bool) {
	return starts.WayBack(m.live.Starts, m.live.Guards, startID(m.live, m.aim()))
}

// startID is the identity of a server's start among the starts that are known.
func startID(s *metrics.Snapshot, srv *metrics.Server) string {
	if srv == nil {
		return ""
	}
	return s.BootID + ":" + srv.ID
}

func (m *Model) lastGood() tea.Cmd {
	st, ok := m.goodStart()
	if !ok {
		return m.say("no earlier start is known that gave tokens, did not crash and breaks no guard")
	}
	edits := []launch.Edit{{Kind: launch.TakeArgv, Name: startName(&st), Argv: st.Argv}}
	srv, op := m.aim(), restart.Restart
	if srv == nil {
		op = restart.Start
	}
	return m.views[viewReview].(*reviewView).begin(m, restart.Options{Op: op}, srv, edits)
}

// startName is a start as texts call it: "#5 0.88 bf16 hicache".
func startName(st *metrics.Start) string {
	name := st.Label
	if st.No > 0 {
		name = strings.TrimSpace(fmt.Sprintf("#%d %s", st.No, st.Label))
	}
	if name == "" {
		name = st.ID
	}
	return clean(name)
}

// endProcess asks to end the selected process; only what has an identity can be.
func (m *Model) endProcess() tea.Cmd {
	v := m.views[viewProcs].(*procsView)
	rows := procRows(m.snap) // what is seen is meant, also while the screen is held
	if v.sel >= len(rows) || rows[v.sel].pid <= 0 {
		return m.say("no process is selected")
	}
	r := rows[v.sel]
	id := restart.Identity{BootID: m.snap.BootID, PID: r.pid}
	for _, p := range m.snap.Procs {
		if p.PID == r.pid {
			id.Start = p.Start
		}
	}
	for _, c := range m.snap.Clients {
		if c.PID == r.pid {
			id.Start = c.Start
		}
	}
	for i := range m.snap.Servers {
		if s := &m.snap.Servers[i]; s.PID == r.pid {
			return m.views[viewReview].(*reviewView).begin(m, restart.Options{Op: restart.Stop}, s, nil)
		}
	}
	if id.Start == 0 {
		return m.say(fmt.Sprintf("process %d has no identity yet: its start time was not seen, so it might be another one by then", r.pid))
	}
	return m.views[viewReview].(*reviewView).beginEnd(m, id, r)
}

// takeStart puts the selected start's flags into the form.
func (m *Model) takeStart() tea.Cmd {
	st := m.views[viewStarts].(*startsView).selected(m)
	if st == nil {
		return nil
	}
	if len(st.Argv) == 0 {
		return m.say("the flags of " + startName(st) + " are not known")
	}
	v := m.views[viewForm].(*formView)
	cmd := m.open(viewForm)
	if v.draft == nil {
		return tea.Batch(cmd, m.say(m.unsure()))
	}
	v.do(m, launch.Edit{Kind: launch.TakeArgv, Name: startName(st), Argv: st.Argv})
	return tea.Batch(cmd, m.say("the flags of "+startName(st)+" are in the form; u takes that back"))
}
