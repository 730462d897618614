package tui

import (
	"context"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/runvigil/runvigil/metrics"
)

// Model is the whole screen: one model, whose panes, views and dialogs are plain
// structs that draw into areas. Nothing in Update or View waits for a network, a
// file or a clock; the only time is the snapshot's.
type Model struct {
	opt     Options
	ctx     context.Context
	layout  Layout
	theme   *Theme
	dark    bool
	profile colorprofile.Profile

	live   *metrics.Snapshot // the newest
	rung   map[string]bool   // critical findings for which the bell rang
	snap   *metrics.Snapshot // the one that is shown
	chosen chosen            // of several servers
	found  bool              // what the first look found was told
	at     time.Time         // moment of the past that is shown, zero: now
	past   memory
	paused bool
	span   int // index into ranges

	focus      Pane
	focusShown bool // the focus is drawn once it was used
	sel        [paneCount]int
	stack      []string // open views above the overview
	views      map[string]view
	dialogs    []dialog
	mouse      bool
	scales     map[string]*scale
	follow     *follow  // the last plan that was begun, nil: none
	offered    []string // logs of a folder that was named
	sought     string   // of what a restart under way was looked for
	toast      string
	toastID    int

	dirty bool
	rows  string // the drawn screen
	drawn *canvas
}

// A view is a zoomed view above the overview. It draws its whole area and moves
// its own selection; keys reach it through the bindings.
type view interface {
	title(m *Model) string
	draw(m *Model, a area)
	move(m *Model, d motion) tea.Cmd
}

// An opener is told when it comes to the top.
type opener interface{ opened(m *Model) tea.Cmd }

// A renewer is told of each snapshot while it is on top.
type renewer interface{ renewed(m *Model) tea.Cmd }

// motion is a movement that a key asks for.
type motion int

const (
	moveUp motion = iota
	moveDown
	moveLeft
	moveRight
	movePageUp
	movePageDown
	moveTop
	moveBottom
)

type (
	snapshotMsg struct{ s *metrics.Snapshot }
	promptMsg   struct{ p Prompt }
	toastMsg    struct{ text string }
	toastGone   struct{ id int }
)

// tellFound says once what the first look found: its panes then take the place
// of the lines that told what was being done.
func (m *Model) tellFound() tea.Cmd {
	if m.found || firstVisit(m.live) {
		return nil
	}
	if len(m.live.Doing) > 0 && (m.live.Doing[0] == metrics.DoingLook || strings.HasPrefix(m.live.Doing[0], metrics.DoingConnect)) {
		return nil // a log may come before the first look is done
	}
	if m.toast != "" {
		return nil // an answer to a key stays, this can wait
	}
	m.found = true
	if len(m.live.Doing) == 0 || m.live.Replay {
		return nil
	}
	return m.say(strings.Join(m.live.Doing, "; "))
}

// toastFor is how long the footer says what happened.
const toastFor = 6 * time.Second

// drawEvery is the shortest time between two drawings of new data.
const drawEvery = 250 * time.Millisecond

// firstEvery is that time while a visit is so young that its GPUs were not told.
const firstEvery = 20 * time.Millisecond

// New makes the screen's model. It shows nothing but the node's name until the
// first snapshot comes.
func New(opt Options) tea.Model { return newModel(context.Background(), opt) }

func newModel(ctx context.Context, opt Options) *Model {
	m := &Model{
		opt: opt, ctx: ctx, span: defaultRange, dark: opt.Theme != SchemeLight, profile: colorprofile.TrueColor,
		scales: map[string]*scale{}, dirty: true,
	}
	if opt.NoColor {
		m.profile = colorprofile.Ascii
	}
	m.theme = newTheme(m.dark, m.profile)
	m.views = newViews()
	m.resize(80, 24)
	return m
}

// Init asks the terminal for its background and waits for data and prompts.
func (m *Model) Init() tea.Cmd {
	cmds := []tea.Cmd{m.takeSnapshot(0), m.takePrompt()}
	if m.opt.Theme == SchemeAuto && !m.opt.NoColor {
		cmds = append(cmds, tea.RequestBackgroundColor)
	}
	return tea.Batch(cmds...)
}

// takeSnapshot waits for the next snapshot, at the earliest after d.
func (m *Model) takeSnapshot(d time.Duration) tea.Cmd {
	if m.opt.Source == nil {
		return nil
	}
	ctx, box := m.ctx, m.opt.Source
	return func() tea.Msg {
		if d > 0 {
			t := time.NewTimer(d)
			defer t.Stop()
			select {
			case <-t.C:
			case <-ctx.Done():
				return nil
			}
		}
		s, ok := box.Take(ctx)
		if !ok {
			return nil
		}
		return snapshotMsg{s}
	}
}

func (m *Model) takePrompt() tea.Cmd {
	if m.opt.Prompts == nil {
		return nil
	}
	ctx, ch := m.ctx, m.opt.Prompts
	return func() tea.Msg {
		select {
		case p, ok := <-ch:
			if ok {
				return promptMsg{p}
			}
		case <-ctx.Done():
		}
		return nil
	}
}

// pace is how soon the next snapshot may be drawn after one.
func pace(s *metrics.Snapshot) time.Duration {
	if s.GPUTool.State == "" {
		return firstEvery
	}
	return drawEvery
}

// Update takes one message. Keys are drawn at once; data at most every drawEvery.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	was := m.dirty
	m.dirty = true
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.resize(msg.Width, msg.Height)
	case tea.ColorProfileMsg:
		if !m.opt.NoColor {
			m.profile = msg.Profile
			m.theme = newTheme(m.dark, m.profile)
		}
	case tea.BackgroundColorMsg:
		if m.opt.Theme == SchemeAuto && msg.Color != nil {
			m.dark = msg.IsDark()
			m.theme = newTheme(m.dark, m.profile)
		}
	case snapshotMsg:
		m.live = m.front(msg.s)
		m.past.keep(msg.s)
		m.dirty = was || !m.paused || !m.at.IsZero() || m.snap == nil
		m.show()
		cmds := []tea.Cmd{m.bell(), m.takeSnapshot(pace(msg.s)), m.seek(), m.tellFound()}
		if v, ok := m.top().(renewer); ok {
			cmds = append(cmds, v.renewed(m))
		}
		return m, tea.Batch(cmds...)
	case promptMsg:
		return m, tea.Batch(m.prompt(msg.p), m.takePrompt())
	case toastMsg:
		return m, m.say(msg.text)
	case toastGone:
		if msg.id == m.toastID {
			m.toast = ""
		}
	case tea.KeyPressMsg:
		return m, m.key(msg)
	case tea.PasteMsg:
		if d := m.dialog(); d != nil {
			return m, d.paste(m, msg.Content)
		}
	case tea.MouseClickMsg:
		return m, m.click(msg.Mouse())
	case tea.MouseWheelMsg:
		return m, m.wheel(msg.Mouse())
	case applier:
		return m, msg.apply(m)
	default:
		m.dirty = was
	}
	return m, nil
}

// An applier is the answer of something that ran beside the screen.
type applier interface{ apply(m *Model) tea.Cmd }

func (m *Model) resize(w, h int) {
	m.layout = LayoutFor(w, h)
	if m.focus != 0 && m.layout.Rect[m.focus].Empty() {
		m.focus = PaneRows
	}
}

// show chooses the snapshot that is drawn: the newest, the paused one, or the
// past.
func (m *Model) show() {
	switch {
	case m.live == nil:
	case !m.at.IsZero():
		m.snap = m.front(m.lookBack())
		m.at = m.snap.At
	case !m.paused || m.snap == nil:
		m.snap = m.live
	}
	m.clampSelections()
}

func (m *Model) clampSelections() {
	if m.snap == nil {
		return
	}
	for p, n := range map[Pane]int{
		PaneRows: len(m.snap.Datasets), PaneGPU: len(m.snap.GPUs), PaneFind: len(m.snap.Findings), PaneEvents: len(m.snap.Events),
		PaneGen: 1, PaneReq: 1,
	} {
		m.sel[p] = min(m.sel[p], max(n-1, 0))
	}
}

// View gives the screen. It is drawn anew only after something changed.
func (m *Model) View() tea.View {
	if m.dirty || m.drawn == nil {
		m.draw()
	}
	v := tea.NewView(m.rows)
	v.AltScreen = true
	v.WindowTitle = m.windowTitle()
	if m.mouse {
		v.MouseMode = tea.MouseModeCellMotion
	}
	if d := m.dialog(); d != nil {
		if x, y, ok := d.cursor(); ok {
			v.Cursor = tea.NewCursor(x, y)
		}
	}
	return v
}

func (m *Model) draw() {
	c := newCanvas(m.layout.W, m.layout.H, m.opt.ASCII)
	if v := m.top(); v != nil {
		m.drawView(c, v)
	} else {
		m.drawOverview(c)
	}
	for _, d := range m.dialogs {
		d.draw(m, c.area(Rect{0, 0, c.w, c.h}))
	}
	m.drawn, m.rows, m.dirty = c, c.render(m.theme), false
}

// drawView puts the verdict above every view: it is never lost.
func (m *Model) drawView(c *canvas, v view) {
	w, h := c.w, c.h
	if h < 5 {
		v.draw(m, c.area(Rect{0, 0, w, h}))
		return
	}
	head := 0
	if w >= 60 && h >= 12 {
		m.drawHeader(c.area(Rect{0, 0, w, 1}))
		head = 1
	}
	m.drawVerdict(c.area(Rect{0, head, w, 1}), true)
	st := stAccent
	boxed := w >= 60 && h >= 20
	a := border(c.area(Rect{0, head + 1, w, h - head - 2}), boxed, st, line{sp(v.title(m), stStrong)}, nil)
	v.draw(m, a)
	if head > 0 {
		m.drawFooter(c.area(Rect{0, h - 1, w, 1}))
	} else {
		m.drawSideStatus(c.area(Rect{0, h - 1, w, 1}))
	}
}

func (m *Model) windowTitle() string {
	if m.snap == nil {
		return "WAIT " + metrics.Clean(m.opt.Node, 60) + " runvigil"
	}
	return m.snap.Verdict.Word + " " + metrics.Clean(m.snap.Node+": "+m.snap.Verdict.Text, 120)
}

func (m *Model) pen() pen { return pen{s: m.snap, ascii: m.opt.ASCII} }

func (m *Model) colours() bool { return m.profile >= colorprofile.ANSI }

// marked tells whether an entry of a pane is drawn as selected.
func (m *Model) marked(p Pane, i int) bool {
	return m.focusShown && m.focus == p && m.sel[p] == i && len(m.stack) == 0
}

func (m *Model) series(what, of string) *metrics.Series {
	return m.snap.Series[metrics.SeriesKey{What: what, Of: of}]
}

func (m *Model) scale(key string) *scale {
	s := m.scales[key]
	if s == nil {
		s = &scale{}
		m.scales[key] = s
	}
	return s
}

// top is the view that is open, nil on the overview.
func (m *Model) top() view {
	if len(m.stack) == 0 {
		return nil
	}
	return m.views[m.stack[len(m.stack)-1]]
}

func (m *Model) topName() string {
	if len(m.stack) == 0 {
		return viewOverview
	}
	return m.stack[len(m.stack)-1]
}

// open shows a view; one that is open already comes to the top once.
func (m *Model) open(name string) tea.Cmd {
	for i, n := range m.stack {
		if n == name {
			m.stack = append(m.stack[:i], m.stack[i+1:]...)
			break
		}
	}
	m.stack = append(m.stack, name)
	if o, ok := m.views[name].(opener); ok {
		return o.opened(m)
	}
	return nil
}

func (m *Model) back() bool {
	if len(m.stack) == 0 {
		return false
	}
	m.stack = m.stack[:len(m.stack)-1]
	return true
}

// say shows a line in the footer for a while.
func (m *Model) say(text string) tea.Cmd {
	m.toastID++
	m.toast = metrics.Clean(text, 400)
	id := m.toastID
	return tea.Tick(toastFor, func(time.Time) tea.Msg { return toastGone{id} })
}

// call runs something by hand beside the screen, with a limit; done turns its
// answer into a message.
func (m *Model) call(do func(ctx context.Context) tea.Msg) tea.Cmd {
	ctx := m.ctx
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, callLimit)
		defer cancel()
		return do(ctx)
	}
}
