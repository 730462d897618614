package tui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/runvigil/runvigil/metrics"
)

// A driver uses the screen as a person does: it presses keys and reads. Inside a
// synctest bubble every command runs to its end before the next key.
type driver struct {
	t    *testing.T
	m    *Model
	act  *fakeActions
	out  chan tea.Msg
	sent []string // what commands gave back, as text

	pressed []string // keys by name
}

// drive runs a test against a screen of one size that shows a snapshot.
func drive(t *testing.T, w, h int, s *metrics.Snapshot, do func(d *driver), change ...func(*Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer func() {
			cancel()
			time.Sleep(time.Minute) // what waits for its time ends
		}()
		act := &fakeActions{}
		opt := Options{Node: "gpu7", Actions: act, Theme: SchemeDark}
		for _, c := range change {
			c(&opt)
		}
		d := &driver{t: t, m: newModel(ctx, opt), act: act, out: make(chan tea.Msg, 4096)}
		d.Send(tea.WindowSizeMsg{Width: w, Height: h})
		if s != nil {
			d.Send(snapshotMsg{s})
		}
		do(d)
	})
}

// Send gives the model one message and whatever follows from it.
func (d *driver) Send(msg tea.Msg) *driver {
	_, cmd := d.m.Update(msg)
	d.start(cmd)
	return d.settle()
}

// Wait lets time pass.
func (d *driver) Wait(t time.Duration) *driver {
	time.Sleep(t)
	return d.settle()
}

// settle runs commands to their ends and gives the model what they found.
func (d *driver) settle() *driver {
	for {
		synctest.Wait()
		select {
		case msg := <-d.out:
			d.sent = append(d.sent, fmt.Sprintf("%T %v", msg, msg))
			if batch, ok := msg.(tea.BatchMsg); ok {
				for _, c := range batch {
					d.start(c)
				}
				continue
			}
			_, cmd := d.m.Update(msg)
			d.start(cmd)
		default:
			return d
		}
	}
}

func (d *driver) start(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	go func() {
		if msg := cmd(); msg != nil {
			d.out <- msg
		}
	}()
}

// Press presses keys by their names; the screen is drawn after each, as on a
// terminal.
func (d *driver) Press(keys ...string) *driver {
	for _, k := range keys {
		d.pressed = append(d.pressed, k)
		d.Send(keyNamed(k))
		d.m.View()
	}
	return d
}

// Type types a text letter by letter.
func (d *driver) Type(text string) *driver {
	for _, r := range text {
		d.Send(tea.KeyPressMsg{Code: r, Text: string(r)})
	}
	return d
}

var namedKeys = map[string]rune{
	"enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab, "up": tea.KeyUp, "down": tea.KeyDown, "left": tea.KeyLeft, "right": tea.KeyRight,
	"backspace": tea.KeyBackspace, "home": tea.KeyHome, "end": tea.KeyEnd, "pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown, "delete": tea.KeyDelete, "insert": tea.KeyInsert, "f1": tea.KeyF1,
}

func keyNamed(name string) tea.KeyPressMsg {
	if code, ok := namedKeys[name]; ok {
		return tea.KeyPressMsg{Code: code}
	}
	if name == "space" {
		return tea.KeyPressMsg{Code: ' ', Text: " "}
	}
	if name == "shift+tab" {
		return tea.KeyPressMsg{Code: tea.KeyTab, Mod: tea.ModShift}
	}
	if n, ok := strings.CutPrefix(name, "alt+"); ok {
		k := keyNamed(n)
		k.Mod, k.Text = tea.ModAlt, ""
		return k
	}
	if c, ok := strings.CutPrefix(name, "ctrl+"); ok {
		return tea.KeyPressMsg{Code: rune(c[0]), Mod: tea.ModCtrl}
	}
	return tea.KeyPressMsg{Code: rune(name[0]), Text: name}
}

// Screen is the text of the screen.
func (d *driver) Screen() string { return ansi.Strip(d.m.View().Content) }

// Pane is the text of one pane.
func (d *driver) Pane(p Pane) string {
	d.m.View()
	return d.m.drawn.text(d.m.layout.Rect[p])
}

func (d *driver) See(texts ...string) *driver {
	d.t.Helper()
	for _, text := range texts {
		if !strings.Contains(d.Screen(), text) {
			d.t.Fatalf("the screen does not show %q:\n%s", text, d.Screen())
		}
	}
	return d
}

func (d *driver) NotSee(texts ...string) *driver {
	d.t.Helper()
	for _, text := range texts {
		if strings.Contains(d.Screen(), text) {
			d.t.Fatalf("the screen shows %q:\n%s", text, d.Screen())
		}
	}
	return d
}

// Sent tells whether a command gave back something that holds the text.
func (d *driver) Sent(text string) *driver {
	d.t.Helper()
	for _, s := range d.sent {
		if strings.Contains(s, text) {
			return d
		}
	}
	d.t.Fatalf("no command gave %q: %q", text, d.sent)
	return d
}

// fakeActions remembers what it was asked for.
type fakeActions struct {
	mu      sync.Mutex
	frames  []metrics.Frame
	queries []LogQuery
	answers []string
	saved   map[string]string
	row     Row
	logs    map[string]LogFile
	slice   func(LogQuery) LogSlice
	fail    error

	reconnects int
	shell      context.Context

	acted fakeActed
}

func (f *fakeActions) Put(_ context.Context, fr metrics.Frame) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frames = append(f.frames, fr)
	return f.fail
}

func (f *fakeActions) NewestRow(_ context.Context, path string) (Row, error) {
	r := f.row
	r.Path = path
	return r, f.fail
}

func (f *fakeActions) Log(_ context.Context, q LogQuery) (LogSlice, error) {
	f.mu.Lock()
	f.queries = append(f.queries, q)
	f.mu.Unlock()
	if f.slice == nil {
		return LogSlice{Path: q.Path, Hit: -1}, f.fail
	}
	return f.slice(q), f.fail
}

func (f *fakeActions) FindLog(_ context.Context, name string) (LogFile, error) {
	if l, ok := f.logs[name]; ok {
		return l, nil
	}
	if !strings.HasPrefix(name, "/") {
		return LogFile{}, errors.New(name + " stands in no folder of the node; write the whole path")
	}
	return LogFile{Path: name}, f.fail
}

type fakeShell struct{}

func (fakeShell) Run() error          { return nil }
func (fakeShell) SetStdin(io.Reader)  {}
func (fakeShell) SetStdout(io.Writer) {}
func (fakeShell) SetStderr(io.Writer) {}

func (f *fakeActions) Shell(ctx context.Context) (tea.ExecCommand, error) {
	f.shell = ctx
	if f.fail != nil {
		return nil, f.fail
	}
	return fakeShell{}, nil
}

func (f *fakeActions) Reconnect(context.Context) error { f.reconnects++; return f.fail }

func (f *fakeActions) Answer(id int, text string, ok bool) {
	f.answers = append(f.answers, fmt.Sprintf("%d %q %v", id, text, ok))
}

func (f *fakeActions) Save(_ context.Context, name, text string) (string, error) {
	if f.saved == nil {
		f.saved = map[string]string{}
	}
	if name == "" {
		name = "copied.txt"
	}
	f.saved[name] = text
	return "/state/" + name, f.fail
}

var errNode = errors.New("node unreachable: try again when the link is up")
