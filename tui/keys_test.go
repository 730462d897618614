package tui

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/runvigil/runvigil/metrics"
)

func TestKeysDoc(t *testing.T) {
	const path = "../docs/keys.md"
	want := KeysMarkdown()
	if f := flag.Lookup("update"); f != nil && f.Value.String() == "true" {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/keys.md is stale: go test ./tui -run TestKeysDoc -update")
	}
}

// In one place a key means one thing: a view may take a key from the general
// map, but no two bindings of the same rank may share it.
func TestKeysAreUnambiguous(t *testing.T) {
	names := map[string]bool{}
	for _, b := range allBindings() {
		if names[b.name] {
			t.Errorf("two bindings are called %s", b.name)
		}
		names[b.name] = true
		if b.help == "" || b.do == nil || b.show == "" || !slices.Contains(groups, b.group) {
			t.Errorf("binding %s is not complete", b.name)
		}
	}
	for _, view := range append([]string{viewOverview}, viewNames()...) {
		for _, own := range []bool{true, false} {
			seen := map[string]string{}
			for _, b := range allBindings() {
				if !b.in(view) || (len(b.views) > 0) != own {
					continue
				}
				for _, k := range b.keys {
					if other := seen[k]; other != "" {
						t.Errorf("%s: key %s means %s and %s", view, k, other, b.name)
					}
					seen[k] = b.name
				}
			}
		}
	}
}

// Every key that the design promises works somewhere.
func TestEveryKeyIsBound(t *testing.T) {
	promised := map[string][]string{
		"up": {"k", "up"}, "down": {"j", "down"}, "left": {"h", "left"}, "right": {"l", "right"}, "top": {"g"}, "bottom": {"G"}, "page-down": {"ctrl+d"}, "page-up": {"ctrl+u"},
		"search": {"/"}, "next-hit": {"n"}, "previous-hit": {"N"}, "next-pane": {"tab"}, "pane-1": {"1"}, "pane-2": {"2"}, "pane-3": {"3"}, "pane-4": {"4"}, "pane-5": {"5"},
		"zoom": {"enter"}, "back": {"esc"}, "command": {":"}, "help": {"?"}, "redraw": {"ctrl+l"}, "pause": {"space"}, "shorter": {"["}, "longer": {"]"}, "earlier": {","}, "later": {"."}, "now": {"0"},
		"logs": {"l"}, "client-log": {"L"}, "findings": {"f"}, "rows": {"o"}, "starts": {"t"}, "events": {"v"}, "processes": {"p"}, "shell": {"s"},
		"acknowledge": {"a"}, "snooze": {"A"}, "copy": {"y"}, "note": {"m"}, "target": {"T"}, "mouse": {"M"}, "quit": {"q"},
		"edit": {"e"}, "restart": {"R"}, "stop": {"S"}, "start-client": {"C"}, "last-good": {"B"}, "end-process": {"X"}, "review": {"w"}, "confirm": {"w"},
	}
	for name, keys := range promised {
		i := slices.IndexFunc(allBindings(), func(b binding) bool { return b.name == name })
		if i < 0 {
			t.Errorf("no binding %s", name)
			continue
		}
		for _, k := range keys {
			if !slices.Contains(allBindings()[i].keys, k) {
				t.Errorf("%s is not on %s", name, k)
			}
		}
	}
}

func TestViewsOpenAndClose(t *testing.T) {
	drive(t, 120, 40, sceneSettled(), func(d *driver) {
		for key, text := range map[string]string{
			"l": "server log  sglang_inference.log", "L": "inference_all.log is empty", "f": "Python holds back", "o": "written by", "t": "flags that differ",
			"v": "client 206570 started; first token 4 s later", "p": "sglang::scheduler",
		} {
			d.Press(key).See(text, "rows land").Press("esc").See("generation tok/s", "requests").NotSee(text)
			d.Press(key).See(text).Press("q").NotSee(text)
		}
		d.Press("o", "t", "esc").See("written by").Press("esc").See("generation tok/s")
	})
}

func TestFocusAndZoom(t *testing.T) {
	drive(t, 120, 40, sceneSettled(), func(d *driver) {
		for key, text := range map[string]string{"1": "written by", "2": "running requests", "3": "max running", "4": "SM MHz", "5": "evidence"} {
			d.Press(key, "enter").See(text).Press("esc")
		}
		d.Press("1", "tab")
		if d.m.focus != PaneGen {
			t.Errorf("tab went from rows to pane %d", d.m.focus)
		}
		d.Press("shift+tab", "h", "right", "left")
		if d.m.focus != PaneEvents {
			t.Errorf("the focus is on pane %d", d.m.focus)
		}
		d.Press("4", "j", "j", "k", "enter").See("GPU 1 ").Press("G").See("GPU 7 ").Press("g").See("GPU 0 ").Press("ctrl+d").See("GPU 7 ").Press("ctrl+u").See("GPU 0 ")
	})
	drive(t, 80, 24, sceneSettled(), func(d *driver) {
		d.Press("1", "tab", "tab", "tab", "tab", "tab")
		if d.m.layout.Rect[d.m.focus].Empty() {
			t.Error("the focus is on a pane that is not shown")
		}
	})
}

func TestRangeAndHistory(t *testing.T) {
	drive(t, 120, 40, sceneSettled(), func(d *driver) {
		d.See("[1h]").Press("[").See("[10m]").Press("[", "[", "[").See("[1m]").Press("]", "]", "]", "]", "]", "]").See("[72h]")
		d.Press(":").Type("range 10m").Press("enter").See("[10m]")
		d.Press(":").Type("range 3y").Press("enter").See("one of 1m, 10m")
		d.Press(",").See("HISTORY 12:14").Press(",", ",").See("HISTORY 12:11").Press(".").See("HISTORY 12:12").Press("0").NotSee("HISTORY")
		d.Press(":").Type("history 12:00").Press("enter").See("HISTORY 12:00", "start #5").NotSee("settled at 604")
		d.Press("l").See("11:59:59").NotSee("12:00:1").Press("esc", "esc").NotSee("HISTORY")
		d.Press(":").Type("history noon").Press("enter").See("a time as 03:12")
		d.Press(".").NotSee("HISTORY")
	})
}

func TestPauseHoldsTheScreen(t *testing.T) {
	drive(t, 120, 40, sceneSettled(), func(d *driver) {
		d.Press("space").See("PAUSED")
		held := d.Screen()
		d.Send(snapshotMsg{sceneCrash()})
		if d.Screen() != held {
			t.Error("the paused screen changed")
		}
		d.Press("space").See("CRIT").NotSee("PAUSED")
		d.Press("space").See("PAUSED").Press("0").NotSee("PAUSED")
	})
}

func TestOperatorFrames(t *testing.T) {
	drive(t, 120, 40, sceneSettled(), func(d *driver) {
		d.Press("a").See("client-log-silent acknowledged").Press("5", "j", "A").See("settled is quiet until 13:16")
		d.Press("m").Type("owner called").Press("enter").See("noted")
		d.Press("T").Type("backspace").Press("ctrl+u").Type("90,000").Press("enter").See("target of the job: 90,000 rows")
		d.Press("1", "j", "T", "ctrl+u").Type("12000").Press("enter").See("target of B1_glaive: 12,000 rows")
		d.Press("T", "ctrl+u").Type("many").Press("enter").See("a number of rows")
		if len(d.act.frames) != 5 {
			t.Fatalf("%d frames", len(d.act.frames))
		}
		ack, _ := metrics.Decode[metrics.Ack](d.act.frames[0])
		snooze, _ := metrics.Decode[metrics.Ack](d.act.frames[1])
		note, _ := metrics.Decode[metrics.Note](d.act.frames[2])
		conf, _ := metrics.Decode[metrics.Config](d.act.frames[4])
		if ack != (metrics.Ack{ID: "client-log-silent", Subject: "206570:4425110", Action: "ack"}) {
			t.Errorf("ack = %+v", ack)
		}
		if snooze.ID != "settled" || snooze.Action != "snooze" || !snooze.Until.Equal(storyNow.Add(time.Hour)) {
			t.Errorf("snooze = %+v", snooze)
		}
		if note.Text != "owner called" || !note.At.Equal(storyNow) {
			t.Errorf("note = %+v", note)
		}
		if len(conf.Targets) != 1 || conf.Targets[0] != (metrics.ConfigTarget{Path: storyB1, Rows: 12000}) {
			t.Errorf("targets = %+v", conf.Targets)
		}
		for _, f := range d.act.frames {
			if !f.At.IsZero() {
				t.Errorf("a frame of the screen has a time of its own: %+v", f)
			}
		}
		d.act.fail = errNode
		d.Press("a").See("node unreachable")
	})
}

func TestNewestRow(t *testing.T) {
	drive(t, 100, 30, sceneSettled(), func(d *driver) {
		d.act.row = Row{JSON: []byte(`{"id":"oc-1","output":"` + strings.Repeat("long ", 200) + `END","usage":{"tokens":4012},"api_key":"sk-abcdefghijklmnopqrstuvwx","none":null,"esc":"a\u001b[31mred\u009bb\u202e"}`), Bytes: 4000}
		d.Press("o", "enter").See("newest row of B2_opencodeinstruct.jsonl", "oc-1", "tokens: 4012", "enter unfolds", "none: null", "***", "(its start)").NotSee("END", "sk-abcdef", "\u009b", "\u202e", "\x1b")
		d.Press("enter", "G").See("END").Press("g").See("oc-1").Press("j", "k", "ctrl+d", "ctrl+u", "esc").NotSee("oc-1")
		d.act.row = Row{JSON: []byte(`not json at all`)}
		d.Press("enter").See("not json at all", "this is not JSON").Press("esc")
		d.act.row = Row{JSON: []byte(`{"id":"x","ids":[1,2,3],"deep":{"a":[{"b":1}]}} {`), Torn: true}
		d.Press("enter").See("this is not JSON: there is more behind its end", "a further row is not ended").Press("esc")
		d.act.row.JSON = d.act.row.JSON[:len(d.act.row.JSON)-2]
		d.Press("enter").See("ids: [1, 2, 3]", "b: 1").NotSee("not JSON").Press("esc")
		d.act.row = Row{JSON: []byte(`{"id":"big","text":"` + strings.Repeat("w", 500_000)), Bytes: 10 << 20}
		d.Press("enter").See("id: big", "only its first 500 kB are shown", "10.5 MB (its start)", "text: wwww", "characters, enter unfolds").Press("esc")
		for _, bad := range []string{strings.Repeat("[", 500_000), strings.Repeat(`{"a":`, 90_000), `{"n":[` + strings.Repeat(`{"a":1},`, 60_000) + `1]}`, "\x1b]52;c;eA==\a" + strings.Repeat("\u202e", 1000)} {
			d.act.row = Row{JSON: []byte(bad), Bytes: int64(len(bad))}
			d.Press("enter").See("newest row of").NotSee("\x1b", "\u202e").Press("enter", "G", "k", "esc")
		}
		d.act.fail = errNode
		d.Press("enter").See("newest row: node unreachable")
		d.act.fail, d.act.row = nil, Row{}
		d.Press("enter").See("has no row yet")
	})
	s := sceneSettled()
	s.Replay = true
	drive(t, 100, 30, s, func(d *driver) { d.Press("o", "enter").See("only from a live node") })
}

func TestShardsOpen(t *testing.T) {
	s := sceneSettled()
	s.Datasets[0].Shards = []metrics.Shard{{Path: "/d/B2-0.jsonl", Rows: metrics.Fixed(700, s.At, "stat")}, {Path: "/d/B2-1.jsonl", Rows: metrics.Fixed(831, s.At, "stat")}}
	drive(t, 120, 40, s, func(d *driver) {
		d.act.row = Row{JSON: []byte(`{"id":"x"}`)}
		d.See("B2_opencodeinstr").Press("o").NotSee("B2-1.jsonl").Press("enter").See("B2-0.jsonl", "B2-1.jsonl").Press("j", "j", "enter").See("newest row of B2-1.jsonl").Press("esc", "g", "enter").NotSee("B2-1.jsonl")
	})
}

// esc and the next key in one breath are both heard, though a terminal takes
// them for one with alt.
func TestEscapeInOneBreath(t *testing.T) {
	drive(t, 120, 40, sceneSettled(), func(d *driver) {
		d.act.row = Row{JSON: []byte(`{"id":"x"}`)}
		d.Press("o", "enter").See("newest row of").Press("alt+esc").NotSee("newest row of", "newest 24")
		if len(d.m.stack) != 0 {
			t.Errorf("still open: %v", d.m.stack)
		}
		d.Press("?").See("keys in").Press("alt+f").NotSee("keys in")
		if d.m.topName() != viewFindings {
			t.Errorf("the second key was lost: %s", d.m.topName())
		}
	})
}

func TestShellCopyAndMore(t *testing.T) {
	drive(t, 120, 40, sceneSettled(), func(d *driver) {
		d.Press("s").Sent("execMsg")
		time.Sleep(time.Hour)
		if d.act.shell.Err() != nil {
			t.Error("the shell's context ends before the shell")
		}
		d.Press("y").See("copied", "and to /state/copied.txt").Sent("tea.setClipboardMsg")
		d.Press("2", "y").Sent("settled 604 ± 21")
		if text := d.act.saved["copied.txt"]; !strings.Contains(text, "settled 604 ± 21") || strings.Contains(text, "requests") {
			t.Errorf("the file of a copied pane holds %q", text)
		}
		d.Press("ctrl+l").Sent("clearScreenMsg")
		d.Press(":").Type("save today.txt").Press("enter").See("written to /state/today.txt")
		if !strings.Contains(d.act.saved["today.txt"], "606 tok/s") {
			t.Errorf("saved %q", d.act.saved)
		}
		d.Press(":").Type("save").Press("enter").See("written to /state/runvigil-overview-20260224-121607.txt")
		d.Press(":").Type("save ~/x y.txt").Press("enter").See("written to /state/~/x y.txt")
		d.act.fail = errNode
		d.Press("y").Sent("tea.setClipboardMsg").See("no file where that is refused: node unreachable")
		d.Press("s").See("shell: node unreachable")
		d.Press("q").Sent("QuitMsg")
	})
	drive(t, 120, 40, sceneSettled(), func(d *driver) {
		if d.m.bindingFor("s") != nil {
			t.Error("a read-only screen has a shell")
		}
		d.Press("?").NotSee("a shell on the node").Press("esc").NotSee("keys in")
		d.Press("ctrl+c").Sent("QuitMsg")
	}, func(o *Options) { o.ReadOnly = true })
	drive(t, 120, 40, sceneSettled(), func(d *driver) {
		for _, k := range []string{"a", "A", "m", "T", "s"} {
			if b := d.m.bindingFor(k); b != nil {
				t.Errorf("without actions %s means %s", k, b.name)
			}
		}
		d.Press("l", "g", "k").See("only the newest lines are here")
	}, func(o *Options) { o.Actions = nil })
}

func TestEventGoesBackInTime(t *testing.T) {
	drive(t, 120, 40, sceneSettled(), func(d *driver) {
		d.Press("v", "j", "j", "enter").See("HISTORY", "as it was shortly after: client 206570 started")
	})
}

func TestFindingProof(t *testing.T) {
	drive(t, 120, 40, sceneSettled(), func(d *driver) {
		d.Press("f", "j").See("tok/s [1h]", "line 30,990: o").Press("o").See("server log")
		if v := d.m.views[viewLogs].(*logView); v.hit < 0 || v.buf(d.m).first+int64(v.hit) != 30990 {
			t.Errorf("the log stands at %d", v.hit)
		}
		d.Press("esc", "enter").NotSee("the client's log is empty").Press("enter").See("the client's log is empty")
	})
}

func TestPaletteAndHelp(t *testing.T) {
	drive(t, 120, 40, sceneSettled(), func(d *driver) {
		d.Press("?").See("keys in overview", "the server's log", "focus the pane GPUs").Press("j", "G", "g", "ctrl+d", "ctrl+u", "k", "esc").NotSee("keys in overview")
		d.Press(":").Type("fin").See("what is wrong").Press("tab", "enter").See("evidence").Press("esc")
		d.Press(":").Type("xyzzy").Press("enter").See("no command xyzzy")
		d.Press(":").Type("st").Press("down", "up", "enter").See("flags that differ").Press("esc", ":", "esc").See("generation tok/s")
		d.Press(":").Type("ran").Press("tab").Type("7").Press("tab", "enter").See("[72h]")
		d.Press(":").Type("range ").See("1m", "72h", "choose the time").Press("down", "down", "enter").See("[10m]")
		d.Press(":").Type("logs ").See("sglang_inference.log", "inference_all.log", "any file as :logs /PATH").Press("esc")
		d.Press(":").Type("logs infer").Press("tab").See(":logs /data/eagle3/synth_100k/logs/").Press("esc")
		d.Press(":").Type("logs inference_all").Press("tab", "enter").See("client log").Press("esc")
		d.Press(":").Type("note all is well").Press("enter").See("noted")
		d.Press(":")
		d.Send(tea.PasteMsg{Content: "starts\n"})
		d.Press("enter").See("flags that differ")
	})
}

// On the smallest screens too: what each key does can be read, and a digit whose
// pane has no room opens its view.
func TestSmallScreens(t *testing.T) {
	for _, size := range [][2]int{{40, 12}, {20, 6}} {
		drive(t, size[0], size[1], sceneSettled(), func(d *driver) {
			var seen strings.Builder
			d.Press("?")
			for range 120 {
				seen.WriteString(d.Screen())
				d.Press("j")
			}
			text := strings.Join(strings.Fields(strings.NewReplacer("│", " ", "▼", " ").Replace(seen.String())), " ")
			for _, want := range []string{"focus the pane GPUs", "shift+tab", "what is wrong"} {
				if !strings.Contains(text, want) {
					t.Errorf("%v: help does not tell %q", size, want)
				}
			}
			d.Press("esc", "t").See("604").Press("esc")
		})
	}
	drive(t, 20, 6, sceneSettled(), func(d *driver) { d.Press("3", "4").See("─ GPUs").Press("esc", "5").See("─ findings") })
	drive(t, 40, 12, sceneSettled(), func(d *driver) { d.Press("t").See("breaks a guard").Press("v").See("client 206570 sta") })
}

func TestMouse(t *testing.T) {
	drive(t, 120, 40, sceneSettled(), func(d *driver) {
		gpu := d.m.layout.Rect[PaneGPU]
		click := tea.MouseClickMsg{X: gpu.X + 3, Y: gpu.Y + 1, Button: tea.MouseLeft}
		d.Send(click)
		if d.m.focusShown || d.m.View().MouseMode != tea.MouseModeNone {
			t.Fatal("the mouse works before M")
		}
		d.Press("M").See("mouse on").Send(click)
		if d.m.focus != PaneGPU || d.m.View().MouseMode == tea.MouseModeNone {
			t.Errorf("focus on pane %d", d.m.focus)
		}
		d.Send(tea.MouseWheelMsg{X: gpu.X + 3, Y: gpu.Y + 1, Button: tea.MouseWheelDown})
		d.Send(click).See("GPU 3 ")
		at := func(text string) tea.MouseClickMsg {
			for y, row := range strings.Split(d.Screen(), "\n") {
				if i := strings.Index(row, text); i >= 0 {
					return tea.MouseClickMsg{X: textWidth(row[:i]) + 1, Y: y, Button: tea.MouseLeft}
				}
			}
			t.Fatalf("no %q in\n%s", text, d.Screen())
			return tea.MouseClickMsg{}
		}
		d.Send(at("[1h]")).See("[6h]").Press("esc").Send(at("[6h]")).See("[24h]")
		d.Press("f").Send(at("606 tok/s is what")).See("tok/s [").Send(at("606 tok/s is what")).NotSee("the client's log is empty").Press("esc")
		d.act.row = Row{JSON: []byte(`{"id":"clicked"}`)}
		d.Press("o").Send(at("B1_glaive")).See("B1_glaive.jsonl").Send(at("B1_glaive ")).See("id: clicked").Press("esc")
		down := tea.MouseWheelMsg{Button: tea.MouseWheelDown}
		d.Press("esc", "?").See("focus the pane rows").Send(down).NotSee("focus the pane rows").Send(tea.MouseWheelMsg{Button: tea.MouseWheelUp}).See("focus the pane rows").Press("esc", "o")
		d.Send(tea.MouseClickMsg{X: 3, Y: 20, Button: tea.MouseLeft}).Press("esc", "l").Send(tea.MouseClickMsg{X: 3, Y: 20, Button: tea.MouseLeft}).Press("esc")
		d.Press("M").See("mouse off")
	})
}

func TestPrompts(t *testing.T) {
	drive(t, 80, 24, nil, func(d *driver) {
		ask := func(p Prompt) *driver { return d.Send(promptMsg{p}).Wait(grace) }
		d.Send(promptMsg{Prompt{ID: 9, Kind: PromptHostKey, Title: "sudden"}}).Press("y").See("sudden").Wait(grace).Press("esc")
		ask(Prompt{ID: 1, Kind: PromptHostKey, Title: "gpu7 is not known yet", Text: "Trust this key?", Fingerprint: "SHA256:abcDEF"}).See("gpu7 is not known yet", "SHA256:abcDEF", "trust it")
		d.Press("enter", "space")
		d.Send(tea.PasteMsg{Content: "y"})
		if len(d.act.answers) != 1 {
			t.Fatalf("a host key was answered by %q", d.act.answers)
		}
		d.Press("y").NotSee("SHA256")
		ask(Prompt{ID: 2, Kind: PromptSecret, Title: "Passphrase", Text: "for id_ed25519"}).Type("hunter2").See("*******").NotSee("hunter2").Press("enter")
		ask(Prompt{ID: 3, Kind: PromptText, Title: "Verification code"}).Type("123").Press("left", "backspace", "end").Type("4").See("134").Press("enter")
		ask(Prompt{ID: 4, Kind: PromptTouch, Title: "Security key"}).See("touch your key").Press("x", "esc")
		ask(Prompt{ID: 5, Kind: PromptSecret, Title: "Password\x1b]0;x\a"}).NotSee("\x1b")
		ask(Prompt{ID: 5, Kind: PromptWithdraw}).NotSee("Password")
		ask(Prompt{ID: 6, Kind: PromptHostKey, Title: "k"}).Press("n")
		want := []string{`9 "" false`, `1 "yes" true`, `2 "hunter2" true`, `3 "134" true`, `4 "" false`, `6 "no" false`}
		if !slices.Equal(d.act.answers, want) {
			t.Errorf("answers %q, want %q", d.act.answers, want)
		}
	})
}

func TestInputEditing(t *testing.T) {
	drive(t, 80, 24, sceneSettled(), func(d *driver) {
		d.Press("m").Type("one two three").Press("ctrl+w").See("one two").NotSee("three").Press("home", "delete", "right", "left", "ctrl+k")
		d.Type("x").Press("ctrl+u", "end").Type("fine").Press("enter").See("noted")
		n, _ := metrics.Decode[metrics.Note](d.act.frames[0])
		if n.Text != "fine" {
			t.Errorf("note %q", n.Text)
		}
		if v := d.Press("m").m.View(); v.Cursor == nil {
			t.Error("no cursor while typing")
		}
		d.Press("esc")
		if v := d.m.View(); v.Cursor != nil {
			t.Error("a cursor without an input")
		}
	})
}

func TestWindowTitle(t *testing.T) {
	drive(t, 80, 24, nil, func(d *driver) {
		if got := d.m.View().WindowTitle; !strings.HasPrefix(got, "WAIT gpu7") {
			t.Errorf("title %q", got)
		}
		d.See("connecting to gpu7")
		d.Send(snapshotMsg{sceneCrash()})
		if got := d.m.View().WindowTitle; !strings.HasPrefix(got, "CRIT gpu7: the server crashed") {
			t.Errorf("title %q", got)
		}
	})
}

func TestReconnect(t *testing.T) {
	s := sceneDown()
	drive(t, 120, 40, s, func(d *driver) {
		if d.Press("r"); d.act.reconnects != 0 {
			t.Error("a link that comes back by itself was asked for")
		}
		waiting := *s
		waiting.Link.Waiting = true
		d.Send(snapshotMsg{&waiting}).See("r reconnects").Press("r").See("connecting again")
		if d.act.reconnects != 1 {
			t.Errorf("%d reconnects", d.act.reconnects)
		}
	})
}

// A probe channel that hangs costs its own figures and says so.
func TestStuckChannel(t *testing.T) {
	s := sceneSettled()
	s.Findings = nil
	s.Channels[1] = metrics.Channel{Name: "gpu", State: "stuck", Since: s.At.Add(-time.Minute), Reason: "nvidia-smi does not end", Advice: "look for state D"}
	drive(t, 120, 40, s, func(d *driver) { d.See("probe gpu stuck for 1 m: nvidia-smi does not end") })
}

// Every key is safe in every place, with data of any kind and with none.
func TestEveryKeyEverywhere(t *testing.T) {
	all := map[string]func() *metrics.Snapshot{"none": func() *metrics.Snapshot { return nil }, "bare": func() *metrics.Snapshot { return &metrics.Snapshot{At: storyNow} }, "hostile": hostileScene}
	for name, make := range scenes {
		all[name] = make
	}
	for name, make := range all {
		s := make()
		for _, size := range [][2]int{{120, 40}, {30, 8}} {
			drive(t, size[0], size[1], s, func(d *driver) {
				for _, view := range append([]string{viewOverview}, viewNames()...) {
					for _, b := range allBindings() {
						if !b.in(view) {
							continue
						}
						for _, k := range b.keys {
							d.m.stack, d.m.dialogs, d.m.at, d.m.paused = nil, nil, time.Time{}, false
							if view != viewOverview {
								d.m.open(view)
							}
							d.m.focusShown = true
							d.Press(k)
							if rows := strings.Count(d.Screen(), "\n") + 1; rows != size[1] {
								t.Fatalf("%s: %s in %s: %d rows", name, k, view, rows)
							}
						}
					}
				}
			})
		}
	}
}
