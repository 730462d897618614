// Package tui is the screen: one Bubble Tea model that shows snapshots and
// lets a person look closer. It knows nothing of connections: data comes through
// a Mailbox, and what is asked for by hand goes through Actions.
package tui

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/term"
)

// Options are the screen's inputs.
type Options struct {
	Node    string   // as the user named it, for the time before the first snapshot
	Source  *Mailbox // snapshots; nil shows the empty screen
	Prompts <-chan Prompt
	Actions Actions // nil: nothing can be asked for by hand
	Theme   Scheme
	ASCII   bool // draw with ASCII only
	NoColor bool // bold, underline and reverse only
	// ReadOnly leaves out everything that could touch the node.
	ReadOnly bool
	// Leaving is asked once when the person quits; a text is shown after the
	// screen is gone, e.g. that a restart goes on.
	Leaving func() string
}

// ErrTerminal says that the terminal took nothing any more when the screen was
// to be left; its state was restored all the same.
var ErrTerminal = errors.New("the terminal does not take output: its screen may need a reset")

// leaveLimit is how long a terminal that takes no output may hold up the end.
const leaveLimit = 2 * time.Second

// writesPerSecond is how often the terminal may be written to: often enough for
// a key to be seen within 50 ms, seldom enough that looking for changes costs
// little over days.
const writesPerSecond = 40

// Run shows the screen on the terminal until the person quits or the context
// ends. It always comes back: a terminal or a link that hangs is left behind
// after leaveLimit.
func Run(ctx context.Context, opt Options) error {
	return run(ctx, opt, os.Stdin, os.Stdout)
}

func run(ctx context.Context, opt Options, in, out *os.File, extra ...tea.ProgramOption) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := newModel(ctx, opt)
	leaving := make(chan struct{})
	options := append([]tea.ProgramOption{
		tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithFPS(writesPerSecond),
		tea.WithFilter(func(_ tea.Model, msg tea.Msg) tea.Msg {
			if _, ok := msg.(tea.QuitMsg); ok {
				select {
				case <-leaving:
				default:
					close(leaving)
				}
			}
			return msg
		}),
	}, extra...)
	state, _ := term.GetState(in.Fd())
	done := make(chan error, 1)
	program := tea.NewProgram(m, options...)
	go func() {
		_, err := program.Run()
		done <- err
	}()
	defer wakeAfterStop(program)()
	err := await(ctx, done, leaving)
	if errors.Is(err, ErrTerminal) && state != nil {
		_ = term.Restore(in.Fd(), state)
	}
	if opt.Leaving != nil && err == nil {
		if text := opt.Leaving(); text != "" {
			_, _ = io.WriteString(out, text+"\n")
		}
	}
	if errors.Is(err, tea.ErrInterrupted) || ctx.Err() != nil && errors.Is(err, tea.ErrProgramKilled) {
		return nil
	}
	return err
}

// wakeAfterStop takes the terminal anew after the program was stopped and goes
// on: the shell has set it to its own liking meanwhile.
func wakeAfterStop(p *tea.Program) (end func()) {
	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGCONT)
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case <-again:
				_ = p.ReleaseTerminal() // it is not ours any more; only the program's own view of it counts
				_ = p.RestoreTerminal()
			case <-ended:
				return
			}
		}
	}()
	return func() {
		signal.Stop(again)
		close(ended)
	}
}

// await waits for the program's end; from the wish to quit on, only so long.
func await(ctx context.Context, done <-chan error, leaving <-chan struct{}) error {
	select {
	case err := <-done:
		return err
	case <-leaving:
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(leaveLimit):
		return ErrTerminal
	}
}
