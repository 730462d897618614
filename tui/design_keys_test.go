package tui

import (
	"slices"
	"strings"
	"testing"

	"github.com/runvigil/runvigil/metrics"
)

// designKeys is the list of keys of the design, one word a key.
const designKeys = `h j k l left down up right g G ctrl+d ctrl+u / n N tab 1 2 3 4 5 enter esc : ? ctrl+l space [ ] , . 0
l L f o t v p s a A y m T e R S C B X q M`

// Every key of the design, pressed where it belongs, does what the design says.
func TestDesignKeys(t *testing.T) {
	tested := map[string]bool{}
	log := func() *metrics.Snapshot { return logScene(1801, 200) }
	for key, c := range map[string]struct {
		scene func() *metrics.Snapshot // nil: settled
		do    func(d *driver)
	}{
		"h":     {do: func(d *driver) { d.Press("2", "h", "enter").See("written by") }},
		"j":     {do: func(d *driver) { d.Press("4", "j", "enter").See("GPU 1 ") }},
		"k":     {do: func(d *driver) { d.Press("4", "j", "j", "k", "enter").See("GPU 1 ") }},
		"l":     {do: func(d *driver) { d.Press("l").See("server log") }},
		"left":  {do: func(d *driver) { d.Press("2", "left", "enter").See("written by") }},
		"right": {do: func(d *driver) { d.Press("3", "right", "enter").See("SM MHz") }},
		"up":    {do: func(d *driver) { d.Press("4", "down", "down", "up", "enter").See("GPU 1 ") }},
		"down":  {do: func(d *driver) { d.Press("4", "down", "enter").See("GPU 1 ") }},
		"g":     {do: func(d *driver) { d.Press("4", "G", "g", "enter").See("GPU 0 ") }},
		"G":     {do: func(d *driver) { d.Press("4", "G", "enter").See("GPU 7 ") }},
		"ctrl+d": {log, func(d *driver) {
			d.Press("l", "ctrl+u", "ctrl+u").NotSee("line 1999").Press("ctrl+d", "ctrl+d").See("line 1999")
		}},
		"ctrl+u": {log, func(d *driver) { d.Press("l", "ctrl+u").See("G follows").NotSee("line 1999") }},
		"/":      {log, func(d *driver) { d.Press("l", "/").Type("line 1950").Press("enter").See("1 of 1", "line 1950") }},
		"n": {log, func(d *driver) {
			d.Press("l", "/").Type("line 195").Press("enter").See("10 of 10").Press("n").See("9 of 10")
		}},
		"N": {log, func(d *driver) {
			d.Press("l", "/").Type("line 195").Press("enter", "n").See("9 of 10").Press("N").See("10 of 10")
		}},
		"tab":    {do: func(d *driver) { d.Press("1", "tab", "enter").See("running requests") }},
		"1":      {do: func(d *driver) { d.Press("1", "enter").See("written by") }},
		"2":      {do: func(d *driver) { d.Press("2", "enter").See("running requests") }},
		"3":      {do: func(d *driver) { d.Press("3", "enter").See("max running") }},
		"4":      {do: func(d *driver) { d.Press("4", "enter").See("SM MHz") }},
		"5":      {do: func(d *driver) { d.Press("5", "enter").See("evidence") }},
		"enter":  {do: func(d *driver) { d.Press("enter").See("written by") }},
		"esc":    {do: func(d *driver) { d.Press("o").See("written by").Press("esc").See("requests").NotSee("written by") }},
		":":      {do: func(d *driver) { d.Press(":").Type("rows").Press("enter").See("written by") }},
		"?":      {do: func(d *driver) { d.Press("?").See("keys in overview", "focus the next pane") }},
		"ctrl+l": {do: func(d *driver) { d.Press("ctrl+l").Sent("clearScreenMsg") }},
		"space": {do: func(d *driver) {
			d.Press("space").See("PAUSED").Send(snapshotMsg{sceneCrash()}).NotSee("CRIT").Press("space").See("CRIT")
		}},
		"[": {do: func(d *driver) { d.Press("[").See("[10m]") }},
		"]": {do: func(d *driver) { d.Press("]").See("[6h]") }},
		",": {do: func(d *driver) { d.Press(",").See("HISTORY") }},
		".": {do: func(d *driver) { d.Press(",", ".").NotSee("HISTORY") }},
		"0": {do: func(d *driver) { d.Press(",", ",", ",").See("HISTORY").Press("0").NotSee("HISTORY") }},
		"L": {do: func(d *driver) { d.Press("L").See("inference_all.log is empty") }},
		"f": {do: func(d *driver) { d.Press("f").See("Python holds back") }},
		"o": {do: func(d *driver) {
			d.act.row = Row{JSON: []byte(`{"id":"row-1"}`)}
			d.Press("o").See("written by").Press("enter").See("id: row-1")
		}},
		"t": {do: func(d *driver) { d.Press("t").See("flags that differ") }},
		"v": {do: func(d *driver) { d.Press("v").See("client 206570 started") }},
		"p": {do: func(d *driver) { d.Press("p").See("sglang::scheduler") }},
		"s": {do: func(d *driver) { d.Press("s").Sent("execMsg") }},
		"a": {do: func(d *driver) { d.Press("a").See("client-log-silent acknowledged") }},
		"A": {do: func(d *driver) { d.Press("A").See("client-log-silent is quiet until 13:16") }},
		"y": {do: func(d *driver) { d.Press("2", "y").Sent("settled 604 ± 21") }},
		"m": {do: func(d *driver) { d.Press("m").Type("owner called").Press("enter").See("noted") }},
		"T": {do: func(d *driver) {
			d.Press("T", "ctrl+u").Type("90000").Press("enter").See("target of the job: 90,000 rows")
		}},
		"e": {do: func(d *driver) { d.Press("e").See("mem-fraction-static") }},
		"R": {do: func(d *driver) { d.Press("R").See("review: restart") }},
		"S": {do: func(d *driver) { d.Press("S").See("review: stop") }},
		"C": {do: func(d *driver) { d.Press("C").See("client 206570 runs already") }},
		"B": {do: func(d *driver) { d.Press("B").See("review: restart") }},
		"X": {do: func(d *driver) { d.Press("p", "X").See("review: stop") }},
		"q": {do: func(d *driver) { d.Press("o", "q").NotSee("written by").Press("q").Sent("QuitMsg") }},
		"M": {do: func(d *driver) { d.Press("M").See("mouse on").Press("M").See("mouse off") }},
	} {
		t.Run(key, func(t *testing.T) {
			scene := sceneSettled
			if c.scene != nil {
				scene = c.scene
			}
			if !slices.Contains(strings.Fields(designKeys), key) {
				t.Errorf("the design has no key %s", key)
			}
			drive(t, 120, 40, scene(), func(d *driver) {
				d.act.slice = fileSlice
				c.do(d)
				if !slices.Contains(d.pressed, key) {
					t.Errorf("the test of %s does not press it: %q", key, d.pressed)
				}
			})
			tested[key] = true
		})
	}
	for _, key := range strings.Fields(designKeys) {
		if !tested[key] {
			t.Errorf("the design's key %s has no test", key)
		}
	}
}

// Help shows only keys that work where it was opened: each of them changes the
// screen or has something done.
func TestHelpShowsOnlyWhatWorks(t *testing.T) {
	for _, view := range append([]string{viewOverview}, viewNames()...) {
		for i := range allBindings() {
			b := &allBindings()[i]
			if len(b.keys) == 0 || b.name == "redraw" || !b.in(view) {
				continue
			}
			drive(t, 120, 40, sceneTwoServers(), func(d *driver) {
				d.act.slice = fileSlice
				d.m.past.keep(d.m.live)
				if view == viewLogs {
					d.Press("l", "k", "k").Press("/").Type("e").Press("enter", "n")
				} else if view != viewOverview {
					d.m.open(view)
				}
				d.m.focus, d.m.focusShown = PaneEvents, view == viewOverview
				start := map[string]string{"down": "g", "page-down": "g", "bottom": "g", "left": "right"}[b.name]
				if start == "" {
					start = "j"
				}
				d.Press(start).Wait(toastFor)
				if b.name == "later" || b.name == "now" {
					d.Press(",", ",")
				}
				if !slices.ContainsFunc(helpLines(d.m, 200), func(l line) bool { return len(l) > 2 && l[2].s == b.help }) {
					return
				}
				d.m.dirty = true
				screen, sent := d.m.View(), len(d.sent)
				d.Press(b.keys[0])
				after := d.m.View()
				if after.Content == screen.Content && len(d.sent) == sent && after.MouseMode == screen.MouseMode {
					t.Errorf("in %s help shows %s (%s), which does nothing there", view, b.keys[0], b.name)
				}
			})
		}
	}
}
