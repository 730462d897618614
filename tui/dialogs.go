package tui

import (
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
)

// lineDialog asks for one line of text.
type lineDialog struct {
	title, hint string
	in          input
	done        func(m *Model, text string) tea.Cmd
}

func newLineDialog(title, hint, start string, done func(m *Model, text string) tea.Cmd) *lineDialog {
	d := &lineDialog{title: title, hint: hint, done: done}
	d.in.set(start)
	return d
}

func (d *lineDialog) draw(_ *Model, screen area) {
	a := popup(screen, 70, 5, d.title, stAccent)
	d.in.draw(a, 0, 0, a.w())
	a.cut(0, 1, a.w(), d.hint, stDim)
	a.line(0, 2, a.w(), line{sp("enter", stAccent.bold()), sp(" done   ", stDim), sp("esc", stAccent.bold()), sp(" leave it", stDim)})
}

func (d *lineDialog) keys() []dialogKey {
	return []dialogKey{
		closeKey(d, "leave it", "esc"),
		{[]string{"enter"}, "done", func(m *Model, _ tea.KeyPressMsg) tea.Cmd {
			m.close(d)
			return d.done(m, d.in.text())
		}},
	}
}

func (d *lineDialog) typed(_ *Model, k tea.KeyPressMsg) tea.Cmd { d.in.key(k); return nil }

func (d *lineDialog) paste(_ *Model, text string) tea.Cmd { d.in.insert(text); return nil }

func (d *lineDialog) cursor() (x, y int, ok bool) { return d.in.cursor() }

// palette runs any command by name.
type palette struct {
	in     input
	sel    int
	picked bool // an argument was chosen in the list
}

func (d *palette) matches(m *Model) []binding {
	word, _, _ := strings.Cut(strings.TrimLeft(d.in.text(), " "), " ")
	var out []binding
	view := m.topName()
	for _, b := range allBindings() {
		if !m.usable(&b, view) || b.do == nil || b.name == "command" || b.group == "Move" || strings.HasPrefix(b.name, "pane-") {
			continue
		}
		if strings.HasPrefix(b.name, word) || word != "" && strings.Contains(b.name, word) {
			out = append(out, b)
		}
	}
	slices.SortStableFunc(out, func(a, b binding) int {
		// Half a word and enter must not lead to acting where looking fits too.
		if actA, actB := a.group == "Act", b.group == "Act"; actA != actB {
			if actB {
				return -1
			}
			return 1
		}
		pa, pb := strings.HasPrefix(a.name, word), strings.HasPrefix(b.name, word)
		if pa != pb {
			if pa {
				return -1
			}
			return 1
		}
		return strings.Compare(a.name, b.name)
	})
	return out
}

func (d *palette) draw(m *Model, screen area) {
	a := popup(screen, 76, min(16, screen.h()), "command", stAccent)
	a.put(0, 0, ":", stAccent.bold())
	d.in.draw(a, 1, 0, a.w()-1)
	if b, args, ok := d.args(m); ok {
		d.drawArgs(a.sub(0, 1, a.w(), a.h()-1), b, args)
		return
	}
	found := d.matches(m)
	d.sel = max(min(d.sel, len(found)-1), 0)
	h := a.h() - 1
	top := max(d.sel-h+1, 0)
	for i := top; i < len(found) && i-top < h; i++ {
		b := found[i]
		y := 1 + i - top
		st := stText
		if i == d.sel {
			a.sub(0, y, a.w(), 1).clear(style{bg: roleSelect})
			st.bg = roleSelect
		}
		bg := st.bg
		a.cut(0, y, 16, b.name, st.bold())
		x := 17
		if a.w() >= 60 {
			a.cut(x, y, 9, b.show, stAccent.on(bg))
			x += 10
		}
		a.cut(x, y, a.w()-x, b.help, stDim.on(bg))
		if i == d.sel && !m.colours() {
			a.put(16, y, "<", stStrong)
		}
	}
}

// args are the values that a command which was typed can take, as far as they
// hold what was typed of them.
func (d *palette) args(m *Model) (b binding, args []string, ok bool) {
	word, arg, has := strings.Cut(strings.TrimLeft(d.in.text(), " "), " ")
	i := slices.IndexFunc(allBindings(), func(b binding) bool { return b.name == word && b.arg != "" && m.usable(&b, m.topName()) })
	if !has || i < 0 {
		return b, nil, false
	}
	b = allBindings()[i]
	if b.args != nil {
		for _, a := range b.args(m) {
			if strings.Contains(a, strings.TrimSpace(arg)) {
				args = append(args, a)
			}
		}
	}
	return b, args, true
}

func (d *palette) drawArgs(a area, b binding, args []string) {
	head := line{sp(b.help, stDim)}
	if len(args) == 0 {
		head = append(line{sp(b.arg+"  ", stAccent)}, head...)
	}
	a.line(0, 0, a.w(), head)
	d.sel = max(min(d.sel, len(args)-1), 0)
	h := a.h() - 1
	top := max(d.sel-h+1, 0)
	for i := top; i < len(args) && i-top < h; i++ {
		st := stText
		if d.picked && i == d.sel {
			a.sub(0, 1+i-top, a.w(), 1).clear(style{bg: roleSelect})
			st.bg = roleSelect
			a.put(0, 1+i-top, ">", stStrong.on(roleSelect))
		}
		a.cut(2, 1+i-top, a.w()-2, args[i], st)
	}
}

// complete finishes the command's name, or its argument as far as all that fit
// agree.
func (d *palette) complete(m *Model, found []binding) {
	word, arg, hasArg := strings.Cut(strings.TrimLeft(d.in.text(), " "), " ")
	i := slices.IndexFunc(found, func(b binding) bool { return b.name == word })
	if !hasArg || i < 0 {
		if d.sel < len(found) {
			d.in.set(found[d.sel].name)
			if found[d.sel].arg != "" {
				d.in.insert(" ")
			}
		}
		return
	}
	if found[i].args == nil {
		return
	}
	common := ""
	for _, a := range found[i].args(m) {
		if !strings.HasPrefix(a, arg) && !strings.Contains(a, arg) {
			continue
		}
		if common == "" {
			common = a
		}
		for !strings.HasPrefix(a, common) {
			common = common[:len(common)-1]
		}
	}
	if common != "" {
		d.in.set(word + " " + common)
	}
}

func (d *palette) keys() []dialogKey {
	return []dialogKey{
		closeKey(d, "leave it", "esc"),
		{[]string{"down", "ctrl+n"}, "the next command or value", func(m *Model, _ tea.KeyPressMsg) tea.Cmd {
			if _, args, ok := d.args(m); ok && !d.picked && len(args) > 0 {
				d.picked, d.sel = true, 0
				return nil
			}
			d.sel++
			return nil
		}},
		{[]string{"up", "ctrl+p"}, "the command or value before", func(*Model, tea.KeyPressMsg) tea.Cmd { d.sel--; return nil }},
		{[]string{"tab"}, "complete the name or the value", func(m *Model, _ tea.KeyPressMsg) tea.Cmd {
			d.complete(m, d.matches(m))
			return nil
		}},
		{[]string{"enter"}, "run the command", func(m *Model, _ tea.KeyPressMsg) tea.Cmd { return d.run(m) }},
	}
}

// run runs what was typed, or what is chosen in the list.
func (d *palette) run(m *Model) tea.Cmd {
	found := d.matches(m)
	m.close(d)
	word, arg, _ := strings.Cut(strings.TrimSpace(d.in.text()), " ")
	if _, args, ok := d.args(m); ok && d.picked && d.sel < len(args) {
		arg = args[d.sel]
	}
	if word == "" && d.sel == 0 {
		return nil // nothing was typed and nothing chosen
	}
	for _, b := range found {
		if b.name == word {
			return b.do(m, strings.TrimSpace(arg))
		}
	}
	if d.sel < len(found) {
		return found[d.sel].do(m, strings.TrimSpace(arg))
	}
	return m.say("no command " + word)
}

func (d *palette) typed(_ *Model, k tea.KeyPressMsg) tea.Cmd {
	d.in.key(k)
	d.sel, d.picked = 0, false
	return nil
}

func (d *palette) paste(_ *Model, text string) tea.Cmd { d.in.insert(text); return nil }

func (d *palette) cursor() (x, y int, ok bool) { return d.in.cursor() }

// helpDialog lists the keys that work where it was opened.
type helpDialog struct{ top int }

// helpLines are the bindings of a view, group by group, in w cells: where they
// are few, a group and a key have lines of their own.
func helpLines(m *Model, w int) []line {
	label, name := 8, 12
	switch {
	case w < 34:
		label, name = 0, 0
	case w < 60:
		label = 0
	}
	var out []line
	view := m.topName()
	for _, g := range groups {
		first := true
		for _, b := range allBindings() {
			if b.group != g || len(b.keys) == 0 || !m.usable(&b, view) {
				continue
			}
			if m.bindingFor(b.keys[0]) == nil || m.bindingFor(b.keys[0]).name != b.name {
				continue
			}
			head := ""
			if first {
				head, first = g, false
				if len(out) > 0 {
					out = append(out, nil)
				}
				if label == 0 {
					out = append(out, line{sp(g, stStrong)})
				}
			}
			key := line{sp(padRight(head, label), stStrong), sp(padRight(b.show, name), stAccent.bold())}
			if name == 0 {
				out = append(out, line{sp(b.show, stAccent.bold())})
				key = line{sp(" ", stText)}
			}
			for _, row := range wrap(b.help, max(w-key.width(), 10), 4) {
				out = append(out, append(key[:len(key):len(key)], sp(row, stText)))
				key = line{sp(strings.Repeat(" ", key.width()), stText)}
			}
		}
	}
	return out
}

func (d *helpDialog) draw(m *Model, screen area) {
	w := min(88, screen.w())
	lines := helpLines(m, w-4)
	h := screen.h()
	if h >= 12 {
		h -= 2
	}
	a := popup(screen, w, min(len(lines)+2, h), "keys in "+m.topName()+"   (esc leaves, j k scroll, : finds all commands)", stAccent)
	d.top = max(min(d.top, len(lines)-a.h()), 0)
	for i := d.top; i < len(lines) && i-d.top < a.h(); i++ {
		a.line(0, i-d.top, a.w(), lines[i])
	}
	if d.top+a.h() < len(lines) {
		a.put(a.w()-2, a.h()-1, "▼", stAccent)
	}
}

func (d *helpDialog) keys() []dialogKey {
	return append(scrollKeys(&d.top), closeKey(d, "close", "esc", "q", "?", "enter"))
}

func (d *helpDialog) typed(*Model, tea.KeyPressMsg) tea.Cmd { return nil }

func (d *helpDialog) paste(*Model, string) tea.Cmd { return nil }

func (d *helpDialog) cursor() (x, y int, ok bool) { return 0, 0, false }
