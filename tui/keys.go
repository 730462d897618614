package tui

import (
	"slices"
	"strings"
	"sync"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/runvigil/runvigil/metrics"
)

// A binding is the one source for a key: what it does, the help, the footer's
// hints, the command palette and docs/keys.md. It exists only once it works.
type binding struct {
	name  string   // of the command, for the palette
	keys  []string // as Bubble Tea names them
	show  string   // as a person reads them; of a binding without keys: what leads to it
	views []string // where it works; empty: everywhere
	group string
	short string                // hint in the footer, "" for none
	help  string                // one line
	arg   string                // what the palette's command takes, "" for nothing
	args  func(*Model) []string // what can be completed
	when  func(*Model) bool
	do    func(m *Model, arg string) tea.Cmd

	bound key.Binding // of keys, show and help
}

// pressed is a key as Bubbles compares it.
type pressed string

func (p pressed) String() string { return string(p) }

// The views' names; viewOverview is the screen below all others.
const (
	viewOverview = "overview"
	viewLogs     = "logs"
	viewRows     = "rows"
	viewProcs    = "processes"
	viewEvents   = "events"
	viewFindings = "findings"
	viewStarts   = "starts"
	viewGen      = "generation"
	viewReq      = "requests"
	viewGPUs     = "gpus"
	viewForm     = "form"
	viewReview   = "review"
	viewRestart  = "restart"
)

// The groups of keys, in the order of the help.
var groups = []string{"Look", "Move", "Time", "Log", "Act", "Do", "Screen"}

func (b *binding) in(view string) bool {
	return len(b.views) == 0 || slices.Contains(b.views, view)
}

var (
	bindingsOnce sync.Once
	bindingsAll  []binding
)

// allBindings is the key map: a view's own keys come before those that hold
// everywhere.
func allBindings() []binding {
	bindingsOnce.Do(func() {
		for _, part := range [][]binding{logKeys(), listKeys(), startsKeys(), actKeys(), overviewKeys(), serverKeys(), viewKeys(), moveKeys(), timeKeys(), doKeys(), screenKeys()} {
			bindingsAll = append(bindingsAll, part...)
		}
		for i := range bindingsAll {
			b := &bindingsAll[i]
			if len(b.keys) > 0 {
				b.show = keyNames(b.keys)
			}
			b.bound = key.NewBinding(key.WithKeys(b.keys...), key.WithHelp(b.show, b.help))
		}
	})
	return bindingsAll
}

// keyNames are keys as a person reads them.
func keyNames(keys []string) string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = keyName(k)
	}
	return strings.Join(names, " ")
}

var keySigns = map[string]string{"up": "↑", "down": "↓", "left": "←", "right": "→", "pgdown": "pgdn"}

func keyName(key string) string {
	if sign, ok := keySigns[key]; ok {
		return sign
	}
	return strings.ReplaceAll(key, "ctrl+", "ctrl-")
}

func (m *Model) usable(b *binding, view string) bool {
	return b.in(view) && (b.when == nil || b.when(m))
}

// bindingFor finds what a key does now.
func (m *Model) bindingFor(name string) *binding {
	all := allBindings()
	view := m.topName()
	for _, own := range []bool{true, false} {
		for i := range all {
			if b := &all[i]; own == (len(b.views) > 0) && key.Matches(pressed(name), b.bound) && m.usable(b, view) {
				return b
			}
		}
	}
	return nil
}

// key hands a key to the dialog on top, else to the binding it has here.
func (m *Model) key(k tea.KeyPressMsg) tea.Cmd {
	if k.String() == "ctrl+c" {
		return tea.Quit
	}
	if k.Mod == tea.ModAlt {
		// esc and a key that come in one breath: tmux and terminals take them for
		// one key with alt, which nothing here is bound to.
		k.Mod = 0
		return tea.Batch(m.key(tea.KeyPressMsg{Code: tea.KeyEscape}), m.key(k))
	}
	if d := m.dialog(); d != nil {
		return m.dialogKeyPress(d, k)
	}
	m.toast = ""
	if b := m.bindingFor(k.String()); b != nil {
		return b.do(m, "")
	}
	return nil
}

// hints are the bindings whose keys the footer shows here, the view's own first.
func (m *Model) hints() []binding {
	var own, rest []binding
	view := m.topName()
	for _, b := range allBindings() {
		if b.short == "" || !m.usable(&b, view) || b.name == view {
			continue
		}
		if len(b.keys) > 0 {
			if other := m.bindingFor(b.keys[0]); other == nil || other.name != b.name {
				continue
			}
		}
		if b.name == "quit" && view != viewOverview {
			b.short = "back"
		}
		if len(b.views) > 0 && view != viewOverview {
			own = append(own, b)
		} else {
			rest = append(rest, b)
		}
	}
	slices.SortStableFunc(rest, func(a, b binding) int { return footerRank(a.name) - footerRank(b.name) })
	return append(own, rest...)
}

// footerRank orders the hints: those a newcomer needs first.
func footerRank(name string) int {
	order := []string{"reconnect", "now", "help", "quit", "back", "server", "findings", "logs", "zoom", "range", "history", "rows", "starts", "edit", "shell", "client-log", "events", "processes", "copy", "command"}
	if i := slices.Index(order, name); i >= 0 {
		return i
	}
	return len(order)
}

func overviewKeys() []binding {
	var out []binding
	for i, p := range []Pane{PaneRows, PaneGen, PaneReq, PaneGPU, PaneFind} {
		key := string(rune('1' + i))
		out = append(out, binding{
			name: "pane-" + key, keys: []string{key}, views: []string{viewOverview}, group: "Look",
			help: "focus the pane " + paneTitles[p], do: func(m *Model, _ string) tea.Cmd {
				if m.layout.Rect[p].Empty() {
					return m.open(zoomTo[p]) // there is no room for the pane, but for its view
				}
				m.focusOn(p)
				return nil
			},
		})
	}
	return append(out,
		binding{name: "next-pane", keys: []string{"tab"}, views: []string{viewOverview}, group: "Look", help: "focus the next pane",
			do: func(m *Model, _ string) tea.Cmd { m.cycleFocus(1); return nil }},
		binding{name: "previous-pane", keys: []string{"shift+tab"}, views: []string{viewOverview}, group: "Look", help: "focus the pane before",
			do: func(m *Model, _ string) tea.Cmd { m.cycleFocus(-1); return nil }},
		binding{name: "zoom", keys: []string{"enter"}, views: []string{viewOverview}, group: "Look", short: "zoom", help: "open the focused pane as a view",
			do: func(m *Model, _ string) tea.Cmd { return m.zoom() }},
	)
}

// focusOn gives a pane the focus, if this size of the screen shows it.
func (m *Model) focusOn(p Pane) {
	if m.layout.Rect[p].Empty() {
		return
	}
	m.focus, m.focusShown = p, true
}

func (m *Model) cycleFocus(by int) {
	const n = int(PaneEvents) + 1
	if !m.focusShown {
		m.focusShown = true
		if by > 0 && !m.layout.Rect[m.focus].Empty() {
			return
		}
	}
	for range n {
		m.focus = Pane((int(m.focus) + by + n) % n)
		if !m.layout.Rect[m.focus].Empty() {
			return
		}
	}
}

var zoomTo = map[Pane]string{
	PaneRows: viewRows, PaneGen: viewGen, PaneReq: viewReq, PaneGPU: viewGPUs, PaneFind: viewFindings, PaneEvents: viewEvents,
}

func (m *Model) zoom() tea.Cmd { return m.open(zoomTo[m.focus]) }

func opens(name, key, group, short, help string) binding {
	return binding{name: name, keys: []string{key}, group: group, short: short, help: help,
		when: func(m *Model) bool { return m.topName() != name }, do: func(m *Model, _ string) tea.Cmd { return m.open(name) }}
}

func moveKeys() []binding {
	move := func(name, help string, d motion, keys ...string) binding {
		return binding{name: name, keys: keys, group: "Move", help: help, when: canMove, do: func(m *Model, _ string) tea.Cmd { return m.move(d) }}
	}
	wide := []string{viewLogs}
	left := move("left", "to the left, where lines are longer than the screen", moveLeft, "h", "left")
	right := move("right", "to the right, where lines are longer than the screen", moveRight, "l", "right")
	left.views, right.views = wide, wide
	overview := []string{viewOverview}
	paneLeft := binding{name: "pane-left", keys: []string{"h", "left"}, views: overview, group: "Move", help: "focus the pane before", do: func(m *Model, _ string) tea.Cmd { m.cycleFocus(-1); return nil }}
	paneRight := binding{name: "pane-right", keys: []string{"right"}, views: overview, group: "Move", help: "focus the next pane", do: func(m *Model, _ string) tea.Cmd { m.cycleFocus(1); return nil }}
	return []binding{
		left, right, paneLeft, paneRight,
		move("up", "up one entry or line", moveUp, "k", "up"),
		move("down", "down one entry or line", moveDown, "j", "down"),
		move("page-up", "up half a page", movePageUp, "ctrl+u", "pgup"),
		move("page-down", "down half a page", movePageDown, "ctrl+d", "pgdown"),
		move("top", "to the first entry or line", moveTop, "g", "home"),
		move("bottom", "to the last entry or line; a log follows from there", moveBottom, "G", "end"),
	}
}

// canMove tells that there is something to move in: two views hold only graphs.
func canMove(m *Model) bool { return m.topName() != viewGen && m.topName() != viewReq }

func (m *Model) move(d motion) tea.Cmd {
	if v := m.top(); v != nil {
		return v.move(m, d)
	}
	if m.snap == nil {
		return nil
	}
	m.focusShown = true
	n := map[Pane]int{PaneRows: len(m.snap.Datasets), PaneGPU: len(m.snap.GPUs), PaneFind: len(m.snap.Findings), PaneEvents: len(m.snap.Events)}[m.focus]
	m.sel[m.focus] = step(m.sel[m.focus], n, 5, d)
	return nil
}

// step moves a selection among n entries.
func step(i, n, page int, d motion) int {
	switch d {
	case moveUp:
		i--
	case moveDown:
		i++
	case movePageUp:
		i -= page
	case movePageDown:
		i += page
	case moveTop:
		i = 0
	case moveBottom:
		i = n - 1
	}
	return max(min(i, n-1), 0)
}

// hasGraphs tells that a graph is shown, so that its range can be seen to change.
func hasGraphs(m *Model) bool {
	return slices.Contains([]string{viewOverview, viewRows, viewFindings, viewGen, viewReq, viewGPUs}, m.topName())
}

func timeKeys() []binding {
	return []binding{
		{name: "shorter", keys: []string{"["}, group: "Time", help: "shorter time in all graphs", when: hasGraphs, do: func(m *Model, _ string) tea.Cmd { m.span = max(m.span-1, 0); return nil }},
		{name: "longer", keys: []string{"]"}, group: "Time", help: "longer time in all graphs", when: hasGraphs, do: func(m *Model, _ string) tea.Cmd { m.span = min(m.span+1, len(ranges)-1); return nil }},
		{name: "range", show: "[ ]", group: "Time", short: "range", arg: "1m|10m|1h|6h|24h|72h", args: func(*Model) []string { return rangeNames() }, help: "choose the time in all graphs", when: hasGraphs, do: func(m *Model, arg string) tea.Cmd { return m.setRange(arg) }},
		{name: "history", show: ", .", group: "Time", short: "history", arg: "HH:MM", help: "show everything as it was at a time", do: func(m *Model, arg string) tea.Cmd { return m.setTime(arg) }},
		{name: "earlier", keys: []string{","}, group: "Time", help: "back in time by a sixth of the range, all panes together", do: func(m *Model, _ string) tea.Cmd { m.walk(-1); return nil }},
		{name: "later", keys: []string{"."}, group: "Time", help: "forward in time", do: func(m *Model, _ string) tea.Cmd { m.walk(1); return nil }},
		{name: "now", keys: []string{"0"}, group: "Time", short: "now", help: "back to now", when: func(m *Model) bool { return !m.at.IsZero() || m.paused }, do: func(m *Model, _ string) tea.Cmd {
			m.at, m.paused = time.Time{}, false
			m.show()
			return nil
		}},
		{name: "pause", keys: []string{"space"}, group: "Time", help: "hold the screen still; data goes on", do: func(m *Model, _ string) tea.Cmd {
			m.paused = !m.paused
			m.show()
			return nil
		}},
	}
}

// walk moves the shown moment by a sixth of the range; past the newest it is now.
func (m *Model) walk(by int) {
	if m.live == nil {
		return
	}
	if m.at.IsZero() {
		if by > 0 {
			return
		}
		m.at = m.live.At
	}
	t := m.at.Add(time.Duration(by) * ranges[m.span].span / 6)
	if next, ok := m.past.after(m.at); by > 0 && ok && next.After(t) {
		t = next // a step that is shorter than what was kept still gets on
	}
	m.goTo(t)
}

// goTo shows a moment of the past, as far back as anything is kept.
func (m *Model) goTo(t time.Time) {
	if m.live == nil {
		return
	}
	if oldest := m.live.At.Add(-72 * time.Hour); t.Before(oldest) {
		t = oldest
	}
	if !t.Before(m.live.At) {
		t = time.Time{}
	}
	m.at = t
	m.show()
}

func (m *Model) setRange(arg string) tea.Cmd {
	for i, r := range ranges {
		if r.name == arg {
			m.span = i
			return nil
		}
	}
	return m.say("range: one of " + strings.Join(rangeNames(), ", "))
}

func rangeNames() []string {
	names := make([]string, len(ranges))
	for i, r := range ranges {
		names[i] = r.name
	}
	return names
}

// setTime goes to the newest moment of the past that a clock on the node showed
// as HH:MM or HH:MM:SS.
func (m *Model) setTime(arg string) tea.Cmd {
	if m.live == nil {
		return nil
	}
	t, ok := clockBefore(m.live, arg)
	if !ok {
		return m.say("history: a time as 03:12 or 03:12:30")
	}
	m.goTo(t)
	return nil
}

// clockBefore finds the last moment before now at which the node's clock showed
// the time of day.
func clockBefore(s *metrics.Snapshot, text string) (time.Time, bool) {
	var day time.Time
	for _, form := range []string{"15:04", "15:04:05", "1504"} {
		t, err := time.Parse(form, strings.TrimSpace(text))
		if err == nil {
			day = t
			break
		}
	}
	if day.IsZero() {
		return time.Time{}, false
	}
	zone := time.FixedZone(s.Zone, s.ZoneSec)
	now := s.At.Add(s.NodeClock).In(zone)
	t := time.Date(now.Year(), now.Month(), now.Day(), day.Hour(), day.Minute(), day.Second(), 0, zone)
	if t.After(now) {
		t = t.AddDate(0, 0, -1)
	}
	return t.Add(-s.NodeClock), true
}

func screenKeys() []binding {
	return []binding{
		{name: "back", keys: []string{"esc"}, group: "Screen", help: "back to what is below",
			when: func(m *Model) bool { return len(m.stack) > 0 || !m.at.IsZero() },
			do: func(m *Model, _ string) tea.Cmd {
				if v, ok := m.top().(*formView); ok && v.query != "" {
					v.query = ""
					v.again(m)
					return nil
				}
				if v, ok := m.top().(*logView); ok && v.giveUp() {
					return m.say("stopped")
				}
				if !m.back() {
					m.goTo(m.live.At)
				}
				return nil
			}},
		{name: "redraw", keys: []string{"ctrl+l"}, group: "Screen", help: "draw the whole screen again", do: func(*Model, string) tea.Cmd { return tea.ClearScreen }},
		{name: "mouse", keys: []string{"M"}, group: "Screen", help: "mouse on or off: focus, zoom, scroll; off lets the terminal select text", do: func(m *Model, _ string) tea.Cmd {
			m.mouse = !m.mouse
			if m.mouse {
				return m.say("mouse on: click focuses, a second click zooms, the wheel scrolls; M turns it off")
			}
			return m.say("mouse off: the terminal selects text again")
		}},
		{name: "quit", keys: []string{"q"}, group: "Screen", short: "quit", help: "back; on the overview: quit", do: func(m *Model, _ string) tea.Cmd {
			if m.back() {
				return nil
			}
			return tea.Quit
		}},
	}
}
