package tui

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
)

// anyKeys are the keys that something could be bound to.
func anyKeys() []string {
	var out []string
	for r := '!'; r <= '~'; r++ {
		out = append(out, string(r))
	}
	out = append(out, "space", "enter", "esc", "tab", "shift+tab", "backspace", "delete", "up", "down", "left", "right", "home", "end", "pgup", "pgdown", "insert", "f1")
	for r := 'a'; r <= 'z'; r++ {
		out = append(out, "ctrl+"+string(r))
	}
	return out
}

// A key that works stands in docs/keys.md, and so does no other: pressed in every
// view, only keys that the key map lists for it change anything.
func TestOnlyListedKeysWork(t *testing.T) {
	for _, view := range append([]string{viewOverview}, viewNames()...) {
		listed := []string{"ctrl+c"}
		for _, b := range allBindings() {
			if b.in(view) {
				listed = append(listed, b.keys...)
			}
		}
		drive(t, 120, 40, sceneTwoServers(), func(d *driver) {
			if view != viewOverview {
				d.m.open(view)
			}
			d.Wait(toastFor)
			before, sent := d.m.View().Content, len(d.sent)
			for _, k := range anyKeys() {
				if slices.Contains(listed, k) {
					continue
				}
				d.Press(k)
				if d.m.View().Content != before || len(d.sent) != sent || len(d.m.dialogs) > 0 {
					t.Errorf("in %s the key %s does something, and the key map does not list it", view, k)
				}
			}
		})
	}
}

// The same of dialogs, where text and the keys that edit it are listed once for
// all that take text.
func TestOnlyListedKeysWorkInDialogs(t *testing.T) {
	edits := []string{"ctrl+c"}
	for _, k := range inputKeys {
		edits = append(edits, k.keys...)
	}
	drive(t, 120, 40, sceneSettled(), func(d *driver) {
		opened := map[string]func(){
			"helpDialog":    func() { d.Press("?") },
			"palette":       func() { d.Press(":") },
			"rowDialog":     func() { d.act.row = Row{JSON: []byte(`{"a":1}`)}; d.Press("o", "enter") },
			"lineDialog":    func() { d.Press("m") },
			"findDialog":    func() { d.Press("e", "/") },
			"valueDialog":   func() { d.Press("e", "enter") },
			"waitDialog":    func() { d.Press("R", "d") },
			"clientDialog":  func() { d.Press("R", "w") },
			"confirmDialog": func() { d.m.confirm("stop", nil, "", func(*Model) tea.Cmd { return nil }) },
			"promptDialog":  func() { d.Send(promptMsg{Prompt{ID: 1, Kind: PromptHostKey, Title: "host key"}}) },
		}
		for _, kind := range dialogTypes(t) {
			open, ok := opened[kind]
			if !ok {
				t.Errorf("no test opens a %s", kind)
				continue
			}
			if !slices.ContainsFunc(dialogKinds(), func(k struct {
				what string
				d    dialog
			}) bool {
				return reflect.TypeOf(k.d).Elem().Name() == kind
			}) {
				t.Errorf("docs/keys.md has no %s", kind)
			}
			d.m.dialogs, d.m.stack = nil, nil
			open()
			d.Wait(2 * toastFor)
			top := d.m.dialog()
			if top == nil || reflect.TypeOf(top).Elem().Name() != kind {
				t.Errorf("%T is open in place of a %s", top, kind)
				continue
			}
			_, _, text := top.cursor()
			listed := slices.Clone(edits)
			for _, k := range top.keys() {
				listed = append(listed, k.keys...)
			}
			before, sent := d.m.View().Content, len(d.sent)
			for _, k := range anyKeys() {
				if slices.Contains(listed, k) || text && (len(k) == 1 || k == "space") {
					continue
				}
				d.Press(k).Wait(time.Second) // the last word is quiet again then
				if d.m.View().Content != before || len(d.sent) != sent || d.m.dialog() != top {
					t.Errorf("in a %s the key %s does something, and it is not listed", kind, k)
				}
			}
		}
	})
}

// dialogTypes are the types of this package that are dialogs.
func dialogTypes(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), e.Name(), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv == nil || f.Name.Name != "typed" {
				continue
			}
			out = append(out, f.Recv.List[0].Type.(*ast.StarExpr).X.(*ast.Ident).Name)
		}
	}
	if len(out) < 10 {
		t.Errorf("dialogs: %v", out)
	}
	return out
}
