package tui

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/runvigil/runvigil/metrics"
)

// logView shows one log at a time: it follows the end until somebody looks back.
type logView struct {
	path  string
	bufs  map[string]*logBuf
	top   int // index of the first line in sight, while not following
	back  bool
	left  int // columns cut at the left
	wrap  bool
	match matcher
	index hitIndex
	hit   int                // index of the line the search stands on, -1: none
	page  int                // rows of the last drawing
	asked int                // number of the newest query; answers to others are late
	stop  context.CancelFunc // ends the query that is under way, nil: none
}

// logMsg is the answer to a query for a part of a log.
type logMsg struct {
	no  int
	q   LogQuery
	s   LogSlice
	err error
}

func (v *logView) title(m *Model) string {
	name := base(v.path)
	if name == "" {
		return "log"
	}
	if m.snap != nil && v.path == m.serverLog() {
		return "server log  " + name
	}
	if m.snap != nil && v.path == m.clientLog() {
		return "client log  " + name
	}
	return "log  " + name
}

func (v *logView) opened(m *Model) tea.Cmd {
	v.left, v.hit = 0, -1
	v.follow()
	return nil
}

func (v *logView) follow() {
	v.giveUp()
	v.back = false
	if b := v.bufs[v.path]; b != nil && b.apart {
		delete(v.bufs, v.path)
	}
}

// buf is the buffer of the shown log with what the snapshot has added.
func (v *logView) buf(m *Model) *logBuf {
	b := v.bufs[v.path]
	if b == nil {
		b = &logBuf{}
		v.bufs[v.path] = b
	}
	if m.snap != nil && !m.paused {
		b.join(m.snap.Logs[v.path])
		v.shift(b)
	}
	return b
}

// shift moves what stands on lines by as many as were taken away before them.
func (v *logView) shift(b *logBuf) {
	d := b.dropped
	v.top, b.dropped = max(v.top-d, 0), 0
	if v.hit >= 0 {
		v.hit = max(v.hit-d, -1)
	}
}

// last is the index after the newest line that the shown moment knows.
func (v *logView) last(m *Model, b *logBuf) int {
	n := len(b.lines)
	if m.at.IsZero() {
		return n
	}
	for n > 0 && b.lines[n-1].At.After(m.at) {
		n--
	}
	return n
}

func (v *logView) draw(m *Model, a area) {
	b := v.buf(m)
	h := a.h() - 1
	v.page = h
	if h < 1 {
		return
	}
	if len(b.lines) == 0 {
		v.drawEmpty(m, a)
		return
	}
	end := v.last(m, b)
	// The last screenful is full.
	if last := v.topFor(b, end, h, a.w()); !v.back || v.top > last {
		v.top = last
	}
	y := 0
	for i := v.top; i < end && y < h; i++ {
		y += v.drawLine(m, a.sub(0, y, a.w(), h-y), b, i)
	}
	v.drawStatus(m, a.sub(0, a.h()-1, a.w(), 1), b, end)
}

// topFor is the first line of the screenful that ends before end.
func (v *logView) topFor(b *logBuf, end, h, w int) int {
	top := end
	for rows := 0; top > 0; top-- {
		rows += v.height(b.lines[top-1].Text, w)
		if rows > h {
			break
		}
	}
	return top
}

func (v *logView) height(text string, w int) int {
	if !v.wrap {
		return 1
	}
	return max((textWidth(text)+w-1)/max(w, 1), 1)
}

func (v *logView) drawLine(m *Model, a area, b *logBuf, i int) int {
	l := &b.lines[i]
	st := stText
	switch l.Level {
	case 1:
		st = stWarn
	case 2:
		st = stCrit
	}
	rowBg := i == v.hit
	x, y := -v.left, 0
	if v.wrap {
		x = 0
	}
	if rowBg {
		a.sub(0, 0, a.w(), 1).clear(style{bg: roleSelect})
		if !m.colours() {
			st = st.bold()
		}
	}
	put := func(s string, st style) {
		if rowBg && st.bg == roleText {
			st.bg = roleSelect
		}
		if !v.wrap {
			x = a.put(x, 0, s, st)
			return
		}
		for len(s) > 0 {
			_, w, n := grapheme(s)
			if x+w > a.w() {
				x, y = 0, y+1
			}
			x = a.put(x, y, s[:n], st)
			s = s[n:]
		}
	}
	from := 0
	if n := stampEnd(l.Text); n > 0 && st == stText {
		if s, _, ok := v.match.next(l.Text, 0); !ok || s >= n {
			put(l.Text[:n], stDim)
			from = n
		}
	}
	for !v.match.empty() {
		s, e, ok := v.match.next(l.Text, from)
		if !ok {
			break
		}
		put(l.Text[from:s], st)
		put(l.Text[s:e], style{fg: st.fg, bg: roleMatch, attr: attrBold | attrUnderline})
		from = e
	}
	put(l.Text[from:], st)
	if !v.wrap && x > a.w() {
		a.put(a.w()-1, 0, "›", stDim)
	}
	return y + 1
}

// stampEnd is the length of the bracket with time and rank that begins a line.
func stampEnd(s string) int {
	if !strings.HasPrefix(s, "[") {
		return 0
	}
	if n := strings.IndexByte(s, ']'); n > 0 && n < 48 {
		return n + 1
	}
	return 0
}

func (v *logView) drawEmpty(m *Model, a area) {
	text := "no line of " + v.path + " was read yet; if none comes, it is not there or this login may not read it"
	if m.snap != nil {
		if t := m.snap.Logs[v.path]; t != nil && t.Size == 0 {
			text = base(v.path) + " is empty"
			for _, c := range m.snap.Clients {
				if c.Log.Path == v.path && c.Unbuffered != nil && !*c.Unbuffered {
					text += ": the client's output is buffered (python -u would show it); its rows are in `o`"
				}
			}
		}
		for _, s := range m.snap.Servers {
			if s.Log.Path == v.path && s.Log.Note != "" {
				text = s.Log.Note
			}
		}
	}
	for i, row := range wrap(text, a.w()-2, a.h()) {
		a.put(1, i, row, stDim)
	}
}

func (v *logView) drawStatus(m *Model, a area, b *logBuf, end int) {
	state := sp("following", stOK)
	var t *metrics.LogTail
	if m.snap != nil {
		t = m.snap.Logs[v.path]
	}
	switch {
	case v.stop != nil:
		state = sp("reading …  esc stops", stInfo)
	case b.apart:
		state = sp("far back, G follows", stWarn)
	case v.back:
		state = sp(commas(int64(max(end-v.top-v.page, 0)))+" below, G follows", stWarn)
	case !m.at.IsZero():
		state = sp("as it was", stInfo)
	case t != nil && !t.Deleted.IsZero():
		state = sp("deleted since "+m.snap.Clock(t.Deleted), stWarn)
	}
	segs := []seg{{0, line{state}}}
	if !v.match.empty() {
		idx := v.index.in(b, v.match)
		hits, _ := slices.BinarySearch(idx, end)
		text := fmt.Sprintf("/%s  %s with it here", v.match.text, plural(hits, "line"))
		if at, found := slices.BinarySearch(idx, v.hit); found {
			text = fmt.Sprintf("/%s  %d of %d", v.match.text, at+1, hits)
		}
		segs = append(segs, seg{1, line{sp(text, stAccent)}})
	}
	if b.first > 0 {
		segs = append(segs, seg{3, line{sp("line "+commas(b.first+int64(v.top)), stDim)}})
	}
	if t != nil {
		segs = append(segs, seg{4, line{sp(metrics.Bytes(float64(t.Size)), stDim)}})
		if t.Skipped > 0 {
			segs = append(segs, seg{2, line{sp("skipped "+metrics.Bytes(float64(t.Skipped)), stWarn)}})
		}
	}
	mode := "cut"
	if v.wrap {
		mode = "wrapped"
	}
	segs = append(segs, seg{5, line{sp(mode, stDim)}})
	gap := 3
	if a.w() < 60 {
		gap = 2
	}
	a.fit(1, 0, a.w()-2, gap, segs...)
}

func (v *logView) move(m *Model, d motion) tea.Cmd {
	b := v.buf(m)
	end := v.last(m, b)
	by := 0
	switch d {
	case moveLeft:
		v.left = max(v.left-20, 0)
		return nil
	case moveRight:
		v.left += 20
		return nil
	case moveUp:
		by = -1
	case moveDown:
		by = 1
	case movePageUp:
		by = -max(v.page/2, 1)
	case movePageDown:
		by = max(v.page/2, 1)
	case moveTop:
		if len(b.lines) > 0 && !b.head && m.opt.Actions != nil {
			return v.ask(m, LogQuery{Path: v.path, Newer: true, Max: 500})
		}
		by = -max(v.top, 1)
	case moveBottom:
		v.follow()
		return nil
	}
	if by < 0 {
		v.back = true
	}
	v.top = max(v.top+by, 0)
	switch {
	case by > 0 && v.top+v.page >= end && !b.apart:
		v.back = false
	case by > 0 && v.top+v.page >= end && v.stop == nil:
		v.top = max(end-v.page, 0)
		return v.ask(m, LogQuery{Path: v.path, Newer: true, After: b.lines[len(b.lines)-1].Off + 1})
	case by < 0 && v.top == 0 && !b.head && len(b.lines) > 0 && v.stop == nil:
		return v.ask(m, LogQuery{Path: v.path, Before: b.lines[0].Off, Max: 500})
	}
	return nil
}

// ask reads a part of the log beside the screen; a query that is still under
// way is given up for it.
func (v *logView) ask(m *Model, q LogQuery) tea.Cmd {
	if m.opt.Actions == nil {
		return m.say("only the newest lines are here")
	}
	v.giveUp()
	limit := callLimit
	if q.Search != "" || q.Errors {
		limit = searchLimit
	}
	ctx, cancel := context.WithTimeout(m.ctx, limit)
	v.stop = cancel
	no, act := v.asked, m.opt.Actions
	return func() tea.Msg {
		defer cancel()
		s, err := act.Log(ctx, q)
		return logMsg{no, q, s, err}
	}
}

// giveUp ends the query that is under way; false: there was none.
func (v *logView) giveUp() bool {
	v.asked++
	if v.stop == nil {
		return false
	}
	v.stop()
	v.stop = nil
	return true
}

func (msg logMsg) apply(m *Model) tea.Cmd {
	v := m.views[viewLogs].(*logView)
	if msg.no != v.asked {
		return nil
	}
	v.stop = nil
	if msg.err != nil {
		return m.say("log: " + msg.err.Error())
	}
	b := v.bufs[msg.q.Path]
	if b == nil {
		return nil
	}
	lead := msg.q.Search != "" || msg.q.Errors || !msg.q.At.IsZero() || msg.q.Place.Path != ""
	switch {
	case lead && msg.s.Hit < 0 && msg.q.Newer:
		return m.say("nothing newer")
	case lead && msg.s.Hit < 0 && msg.s.Missing == "":
		return m.say("nothing further back")
	case lead && msg.s.Hit < 0:
		return m.say(msg.s.Missing)
	case lead:
		b.replace(msg.s)
		v.stand(msg.s.Hit)
		if msg.s.Missing != "" {
			return m.say(msg.s.Missing)
		}
	case msg.q.Newer && msg.q.After == 0:
		b.replace(msg.s)
		v.hit, v.back, v.top = -1, true, 0
	case msg.q.Newer:
		if b.after(msg.s) == 0 {
			v.follow()
		}
		v.shift(b)
	case len(b.lines) == 0:
		b.replace(msg.s)
	default:
		n := b.before(msg.s)
		v.top += n
		if v.hit >= 0 {
			v.hit += n
		}
		if n == 0 {
			return m.say("this is the first line")
		}
		v.top = max(v.top-max(v.page/2, 1), 0)
	}
	return nil
}

// stand shows a line a third down the screen and marks it.
func (v *logView) stand(i int) {
	page := v.page
	if page == 0 {
		page = 24 // it was never drawn
	}
	v.hit, v.back = i, true
	v.top = max(i-page/3, 0)
}

// seek goes to the next line that fits, older for by -1.
func (v *logView) seek(m *Model, by int, fits func(*metrics.LogLine) bool, far LogQuery) tea.Cmd {
	b := v.buf(m)
	from := v.hit + by
	if v.hit < 0 || v.hit >= len(b.lines) {
		from = v.last(m, b) - 1
		if by > 0 {
			from = v.top
		}
	}
	if i := b.find(from, by, fits); i >= 0 {
		v.stand(i)
		return nil
	}
	far.Path, far.Newer, far.Max = v.path, by > 0, 500
	switch {
	case by > 0 && (!b.apart || m.opt.Actions == nil):
		return m.say("nothing newer")
	case by > 0:
		far.After = b.lines[len(b.lines)-1].Off + 1
	case b.head || len(b.lines) == 0 || m.opt.Actions == nil:
		if far.Errors {
			return m.say("no older error")
		}
		return m.say("nothing older")
	default:
		far.Before = b.lines[0].Off
	}
	return v.ask(m, far)
}

func (v *logView) search(m *Model, text string) tea.Cmd {
	v.match, v.hit = newMatcher(text), -1
	if v.match.empty() {
		return nil
	}
	return v.again(m, -1)
}

func (v *logView) again(m *Model, by int) tea.Cmd {
	if v.match.empty() {
		return m.say("nothing to search for yet: /")
	}
	return v.seek(m, by, func(l *metrics.LogLine) bool { return v.match.in(l.Text) }, LogQuery{Search: v.match.text, Fold: v.match.fold})
}

func (v *logView) nextError(m *Model) tea.Cmd {
	return v.seek(m, -1, func(l *metrics.LogLine) bool { return l.Level >= 2 }, LogQuery{Errors: true})
}

// goToTime stands at the first line that is not before t.
func (v *logView) goToTime(m *Model, t time.Time) tea.Cmd {
	b := v.buf(m)
	older := func() bool { // what is sought lies before the buffer
		i := b.find(0, 1, func(l *metrics.LogLine) bool { return !l.At.IsZero() })
		return !b.head && (i < 0 || b.lines[i].At.After(t))
	}
	if n := len(b.lines); n == 0 || m.opt.Actions != nil && (older() || b.apart && b.lines[n-1].At.Before(t)) {
		return v.ask(m, LogQuery{Path: v.path, Before: -1, At: t, Max: 500})
	}
	if i := b.find(0, 1, func(l *metrics.LogLine) bool { return !l.At.Before(t) }); i >= 0 {
		v.stand(i)
		return nil
	}
	return m.say("no line is that young")
}

// goToPlace stands at a line: by its number, by its words near where it was, or
// at its moment. What is not here is asked for.
func (v *logView) goToPlace(m *Model, at metrics.LogPlace) tea.Cmd {
	b := v.buf(m)
	if i := b.place(at); i >= 0 {
		v.stand(i)
		return nil
	}
	return v.ask(m, LogQuery{Path: v.path, Place: at, Before: -1, Max: 500})
}

// nextLog goes to the next watched log by path.
func (v *logView) nextLog(m *Model) tea.Cmd {
	paths := m.logPaths()
	if len(paths) == 0 {
		return nil
	}
	i := slices.Index(paths, v.path)
	v.path = paths[(i+1)%len(paths)]
	return v.opened(m)
}

// logKeys are the keys of the log view.
func logKeys() []binding {
	in := []string{viewLogs}
	v := func(m *Model) *logView { return m.views[viewLogs].(*logView) }
	return []binding{
		{name: "search", keys: []string{"/"}, views: in, group: "Log", short: "search", arg: "TEXT", help: "search towards older lines; capitals count only where they are typed", do: func(m *Model, arg string) tea.Cmd {
			if arg != "" {
				return v(m).search(m, arg)
			}
			m.ask(newLineDialog("search", "text to find", "", func(m *Model, s string) tea.Cmd { return v(m).search(m, s) }))
			return nil
		}},
		{name: "next-hit", keys: []string{"n"}, views: in, group: "Log", short: "older hit", help: "the next older hit", do: func(m *Model, _ string) tea.Cmd { return v(m).again(m, -1) }},
		{name: "previous-hit", keys: []string{"N"}, views: in, group: "Log", help: "the next newer hit", do: func(m *Model, _ string) tea.Cmd { return v(m).again(m, 1) }},
		{name: "next-error", keys: []string{"!"}, views: in, group: "Log", short: "error", help: "the next older line that is an error", do: func(m *Model, _ string) tea.Cmd { return v(m).nextError(m) }},
		{name: "wrap", keys: []string{"w"}, views: in, group: "Log", short: "wrap", help: "wrap long lines or cut them", do: func(m *Model, _ string) tea.Cmd {
			v(m).wrap = !v(m).wrap
			v(m).left = 0
			return nil
		}},
		{name: "jump", keys: []string{"@"}, views: in, group: "Log", short: "time", arg: "HH:MM", help: "jump to a time", do: func(m *Model, arg string) tea.Cmd {
			jump := func(m *Model, s string) tea.Cmd {
				if m.live == nil || strings.TrimSpace(s) == "" {
					return nil
				}
				t, ok := clockBefore(m.live, s)
				if !ok {
					return m.say("jump: a time as 03:12 or 03:12:30")
				}
				return v(m).goToTime(m, t)
			}
			if arg != "" {
				return jump(m, arg)
			}
			m.ask(newLineDialog("jump to a time", "as 03:12 on the node's clock", "", jump))
			return nil
		}},
		{name: "next-log", keys: []string{"tab"}, views: in, group: "Log", short: "next log", help: "the next watched log", do: func(m *Model, _ string) tea.Cmd { return v(m).nextLog(m) }},
	}
}
