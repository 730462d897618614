package launch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/flags"
)

// EditKind is what one edit does.
type EditKind string

// The kinds of edits.
const (
	SetFlag   EditKind = "set"
	UnsetFlag EditKind = "unset"
	SetEnv    EditKind = "setenv"
	UnsetEnv  EditKind = "unsetenv"
	// TakeArgv replaces all flags by those of another start; the program stays.
	TakeArgv EditKind = "take"
)

// Edit is one change of a launch. Name is a flag without dashes or a variable;
// Value is as typed and may be a secret: show String, not Value.
type Edit struct {
	Kind  EditKind
	Name  string
	Value string
	Argv  []string // of TakeArgv
}

// String is the edit as the command line of `runvigil restart` would say it,
// masked.
func (e Edit) String() string {
	switch e.Kind {
	case SetFlag:
		return "--set " + e.Name + "=" + metrics.MaskValue(e.Name, e.Value)
	case UnsetFlag:
		return "--unset " + e.Name
	case SetEnv:
		return "--env " + e.Name + "=" + maskVar(e.Name, e.Value).Value
	case UnsetEnv:
		return "--unset-env " + e.Name
	case TakeArgv:
		return "flags of " + e.Name
	}
	return string(e.Kind)
}

// Draft is a launch being edited. Every edit can be undone and done again; a
// reset is an edit as well.
type Draft struct {
	base   Launch
	past   [][]Edit // states before the present one, oldest first
	now    []Edit
	future [][]Edit // undone states, the next one last
}

// NewDraft begins to edit a launch.
func NewDraft(base Launch) *Draft { return &Draft{base: base} }

// Base is the launch before any edit.
func (d *Draft) Base() Launch { return d.base }

// Edits are the edits in force, in order.
func (d *Draft) Edits() []Edit { return slices.Clone(d.now) }

// Changed tells whether the edited launch differs from the base.
func (d *Draft) Changed() bool { return len(d.Diff()) > 0 }

// Do makes an edit. An edit that changes nothing is not kept.
func (d *Draft) Do(e Edit) error {
	switch e.Kind {
	case SetFlag, UnsetFlag:
		e.Name = strings.TrimLeft(e.Name, "-")
		if e.Name == "" || strings.ContainsAny(e.Name, "= \t\n\x00") {
			return fmt.Errorf("%q is no flag: give its name, e.g. mem-fraction-static", e.Name)
		}
	case SetEnv, UnsetEnv:
		if !validVar(e.Name) {
			return fmt.Errorf("%q is no name of an environment variable: letters, digits and _, no digit first", e.Name)
		}
	}
	if strings.ContainsRune(e.Value, 0) {
		return fmt.Errorf("the value of %s holds a NUL byte, which no process can be given", e.Name)
	}
	next := append(slices.Clone(d.now), e)
	before, after := d.apply(d.now), d.apply(next)
	if slices.Equal(before.Argv, after.Argv) && slices.Equal(before.Env, after.Env) {
		return nil
	}
	d.past, d.now, d.future = append(d.past, d.now), next, nil
	return nil
}

// Set gives a flag a value: "true" or "false" for one that takes none.
func (d *Draft) Set(flag, value string) error {
	return d.Do(Edit{Kind: SetFlag, Name: flag, Value: value})
}

// Unset removes a flag.
func (d *Draft) Unset(flag string) error { return d.Do(Edit{Kind: UnsetFlag, Name: flag}) }

// Take takes the flags of a start; its name is for the list of edits.
func (d *Draft) Take(name string, argv []string) error {
	return d.Do(Edit{Kind: TakeArgv, Name: name, Argv: slices.Clone(argv)})
}

// Undo takes the last edit back; false where there is none.
func (d *Draft) Undo() bool {
	if len(d.past) == 0 {
		return false
	}
	d.future = append(d.future, d.now)
	d.now = d.past[len(d.past)-1]
	d.past = d.past[:len(d.past)-1]
	return true
}

// Redo makes the last undone edit again; false where there is none.
func (d *Draft) Redo() bool {
	if len(d.future) == 0 {
		return false
	}
	d.past = append(d.past, d.now)
	d.now = d.future[len(d.future)-1]
	d.future = d.future[:len(d.future)-1]
	return true
}

// Reset takes all edits back; Undo brings them again.
func (d *Draft) Reset() {
	if len(d.now) == 0 {
		return
	}
	d.past, d.now, d.future = append(d.past, d.now), nil, nil
}

// Launch is the edited launch. It may hold secrets that were typed in: show
// Launch().Masked(), and write the commands from Words.
func (d *Draft) Launch() Launch { return d.apply(d.now) }

func (d *Draft) apply(edits []Edit) Launch {
	l := d.base
	line := l.Line()
	l.Env = slices.Clone(l.Env)
	for _, e := range edits {
		switch e.Kind {
		case SetFlag:
			f, negated, known := l.Catalogue().Lookup("--" + e.Name)
			switch {
			case known && negated:
				line = line.Set(f.Name, "false")
			case known && f.Presence && e.Value == "false" && !f.Negatable:
				line = line.Unset(f.Name)
			default:
				line = line.Set(e.Name, e.Value)
			}
		case UnsetFlag:
			line = line.Unset(e.Name)
		case SetEnv:
			l.Env = setVar(l.Env, e.Name, e.Value)
		case UnsetEnv:
			l.Env = slices.DeleteFunc(l.Env, func(v Var) bool { return v.Name == e.Name })
		case TakeArgv:
			other := flags.Parse(l.Catalogue(), e.Argv)
			if len(line.Program) == 0 {
				line.Program = other.Program
			}
			line.Args = other.Args
		}
	}
	l.Argv = line.Argv()
	return l
}

func setVar(env []Var, name, value string) []Var {
	v := Var{Name: name, Value: value}
	for i := range env {
		if env[i].Name == name {
			env[i] = v
			return env
		}
	}
	return append(env, v)
}

func validVar(s string) bool {
	for i, r := range s {
		switch {
		case r == '_', 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', i > 0 && '0' <= r && r <= '9':
		default:
			return false
		}
	}
	return s != ""
}

// Change is one difference of two launches: a flag without dashes, or a
// variable as "NAME" with Env set. An absent side is nil; secrets are masked.
type Change struct {
	Flag string  `json:"flag"`
	From *string `json:"from"`
	To   *string `json:"to"`
	Env  bool    `json:"env,omitempty"`
}

// Diff lists what the edits change, by effective values.
func (d *Draft) Diff() []Change { return Diff(d.base, d.Launch()) }

// Diff lists what differs between two launches by effective values: flags in
// the order of b, then those that only a has; then environment variables.
func Diff(a, b Launch) []Change {
	var out []Change
	mask := func(name string, v *string) *string {
		if v == nil {
			return nil
		}
		m := metrics.MaskValue(name, *v)
		return &m
	}
	for _, c := range flags.Diff(a.Line(), b.Line()) {
		out = append(out, Change{Flag: c.Flag, From: mask(c.Flag, c.From), To: mask(c.Flag, c.To)})
	}
	return append(out, diffEnv(a, b)...)
}

func diffEnv(a, b Launch) []Change {
	var out []Change
	seen := map[string]bool{}
	for _, env := range [][]Var{b.Env, a.Env} {
		for _, v := range env {
			if seen[v.Name] {
				continue
			}
			seen[v.Name] = true
			x, hasX := a.Getenv(v.Name)
			y, hasY := b.Getenv(v.Name)
			if hasX == hasY && x == y {
				continue
			}
			c := Change{Flag: v.Name, Env: true}
			if hasX {
				m := maskVar(v.Name, x).Value
				c.From = &m
			}
			if hasY {
				m := maskVar(v.Name, y).Value
				c.To = &m
			}
			out = append(out, c)
		}
	}
	return out
}

// String is the change in one line, e.g. "--mem-fraction-static 0.88 → 0.93".
func (c Change) String() string {
	name := "--" + c.Flag
	if c.Env {
		name = c.Flag
	}
	show := func(v *string) string {
		switch {
		case v == nil:
			return "unset"
		case *v == "":
			return `""`
		}
		return *v
	}
	return name + " " + show(c.From) + " → " + show(c.To)
}

// Word is one argument of the edited command.
type Word struct {
	// Text is the argument; where From is set it may hold metrics.Masked.
	Text string
	// From is the index in the base argv of an argument that holds a secret and
	// was kept: the node takes its text from what the server was started with.
	// It is -1 for arguments whose text is complete.
	From int
}

// Words are the arguments of the edited command, for the node's script. Missing
// names the flags whose secret is nowhere: it was masked in what they were taken
// from, and the running server has no such argument. They must be asked for.
func (d *Draft) Words() (words []Word, missing []string) {
	argv := d.Launch().Argv
	used := map[int]bool{}
	for i, text := range argv {
		w := Word{Text: text, From: -1}
		if strings.Contains(text, metrics.Masked) {
			w.From = d.secretWord(argv, i, used)
			if w.From < 0 {
				missing = append(missing, secretOwner(argv, i))
			} else {
				used[w.From] = true
			}
		}
		words = append(words, w)
	}
	return words, missing
}

// secretWord finds the base argument that a masked one is: the same text under
// the same flag. A base that does not run has no secrets to take.
func (d *Draft) secretWord(argv []string, i int, used map[int]bool) int {
	if d.base.PID == 0 {
		return -1
	}
	owner := secretOwner(argv, i)
	for j, text := range d.base.Argv {
		if !used[j] && text == argv[i] && secretOwner(d.base.Argv, j) == owner {
			return j
		}
	}
	return -1
}

// secretOwner is the flag to which the argument at i belongs, without dashes.
func secretOwner(argv []string, i int) string {
	word := argv[i]
	if !strings.HasPrefix(word, "-") && i > 0 {
		word = argv[i-1]
	}
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	return name
}

// EnvChanges are the variables that the edits set or remove, for the node's
// script: the others keep the values that the node has. Values may be secrets.
// missing names set variables whose value is only a placeholder.
func (d *Draft) EnvChanges() (set []Var, unset, missing []string) {
	l := d.Launch()
	for _, v := range l.Env {
		old, had := d.base.Getenv(v.Name)
		switch {
		case had && old == v.Value:
		case strings.Contains(v.Value, metrics.Masked):
			missing = append(missing, v.Name)
		default:
			set = append(set, v)
		}
	}
	for _, v := range d.base.Env {
		if _, has := l.Getenv(v.Name); !has && !slices.Contains(unset, v.Name) {
			unset = append(unset, v.Name)
		}
	}
	return set, unset, missing
}
