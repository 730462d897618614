package flags

import (
	"slices"
	"strings"
)

// Arg is one flag of a command line with its values, as it was written.
type Arg struct {
	Words []string // as written: ["--tp", "8"] or ["--tp=8"]
	Name  string   // canonical name without dashes; of an unknown flag its own
	Value string   // values joined by spaces; "true" or "false" of a presence flag
	Known bool
	Flag  Flag
}

// Line is a server's command line: the program (interpreter, module, positional
// model) and its flags in the user's order.
type Line struct {
	Program []string
	Args    []Arg
	cat     *Catalogue
}

// Parse reads an argv. Nothing is lost: Argv gives the same words back.
func Parse(c *Catalogue, argv []string) Line {
	l := Line{cat: c}
	i := programLen(argv)
	l.Program = slices.Clone(argv[:i])
	for i < len(argv) {
		word := argv[i]
		i++
		if !strings.HasPrefix(word, "-") || word == "-" {
			if len(l.Args) == 0 {
				l.Program = append(l.Program, word)
				continue
			}
			// A value that belongs to nothing we know stays with what stands before it.
			last := &l.Args[len(l.Args)-1]
			last.Words = append(last.Words, word)
			last.Value = strings.TrimPrefix(last.Value+" "+word, " ")
			continue
		}
		var a Arg
		a, i = l.read(word, argv, i)
		l.Args = append(l.Args, a)
	}
	return l
}

// programLen is how many words come before the first flag of the server:
// options of the interpreter (-u, -m module) belong to the program.
func programLen(argv []string) int {
	for i := 1; i < len(argv); i++ {
		switch {
		case argv[i] == "-m" && i+1 < len(argv):
			return i + 2
		case strings.HasPrefix(argv[i], "-") && strings.Contains(argv[0], "python"):
			continue
		case argv[i] == "serve":
			return i + 1
		case strings.HasPrefix(argv[i], "-"):
			return i
		}
	}
	return len(argv)
}

func (l Line) read(word string, argv []string, i int) (Arg, int) {
	name, inline, hasInline := strings.Cut(word, "=")
	f, negated, known := l.cat.Lookup(name)
	a := Arg{Words: []string{word}, Name: strings.TrimLeft(name, "-"), Known: known, Flag: f}
	if known {
		a.Name = f.Name
		if _, key, dotted := strings.Cut(strings.TrimLeft(name, "-"), "."); dotted && f.JSON {
			a.Name += "." + key
		}
	}
	switch {
	case hasInline:
		a.Value = inline
		return a, i
	case negated:
		a.Value = "false"
		return a, i
	case known && f.Presence:
		a.Value = "true"
		return a, i
	}
	most := 1
	if known && f.List {
		most = len(argv)
	}
	var values []string
	for i < len(argv) && len(values) < most && isValue(argv[i]) {
		values = append(values, argv[i])
		i++
	}
	a.Words = append(a.Words, values...)
	a.Value = strings.Join(values, " ")
	if len(values) == 0 {
		a.Value = "true"
	}
	return a, i
}

// isValue tells a value from the next flag; a negative number is a value.
func isValue(word string) bool {
	if !strings.HasPrefix(word, "-") || word == "-" {
		return true
	}
	return len(word) > 1 && (word[1] >= '0' && word[1] <= '9' || word[1] == '.')
}

// Argv gives the words back, edited ones in their place.
func (l Line) Argv() []string {
	out := slices.Clone(l.Program)
	for _, a := range l.Args {
		out = append(out, a.Words...)
	}
	return out
}

// Get gives the effective value of a flag: of several, the last wins.
func (l Line) Get(name string) (string, bool) {
	name = l.canonical(name)
	for _, a := range slices.Backward(l.Args) {
		if a.Name == name {
			return a.Value, true
		}
	}
	return "", false
}

// Effective gives every flag that is set, by canonical name.
func (l Line) Effective() map[string]string {
	out := map[string]string{}
	for _, a := range l.Args {
		out[a.Name] = a.Value
	}
	return out
}

// Set gives a line in which a flag has one value. A flag that stands there keeps
// its place and spelling; of several the last is edited and the others go.
func (l Line) Set(name, value string) Line {
	name = l.canonical(name)
	out := l.copy()
	last := -1
	for i := range out.Args {
		if out.Args[i].Name == name {
			last = i
		}
	}
	if last < 0 {
		f, _, known := l.cat.Lookup("--" + name)
		a := Arg{Name: name, Known: known, Flag: f}
		a.write("--"+name, value)
		out.Args = append(out.Args, a)
		return out
	}
	if out.Args[last].Value != value {
		spelling, _, _ := strings.Cut(out.Args[last].Words[0], "=")
		out.Args[last].write(strings.Replace(spelling, "--no-", "--", 1), value)
	}
	kept := out.Args[:0]
	for i, a := range out.Args {
		if a.Name != name || i == last {
			kept = append(kept, a)
		}
	}
	out.Args = kept
	return out
}

// Unset gives a line without a flag.
func (l Line) Unset(name string) Line {
	name = l.canonical(name)
	out := l.copy()
	out.Args = slices.DeleteFunc(out.Args, func(a Arg) bool { return a.Name == name })
	return out
}

func (l Line) copy() Line {
	l.Program = slices.Clone(l.Program)
	l.Args = slices.Clone(l.Args)
	for i := range l.Args {
		l.Args[i].Words = slices.Clone(l.Args[i].Words)
	}
	return l
}

func (l Line) canonical(name string) string {
	name = strings.TrimLeft(name, "-")
	if f, _, ok := l.cat.Lookup("--" + name); ok && !strings.Contains(name, ".") {
		return f.Name
	}
	return name
}

// write spells the flag with a value, in the form (`=` or two words) it had.
func (a *Arg) write(spelling, value string) {
	inline := len(a.Words) == 1 && strings.Contains(a.Words[0], "=")
	a.Value = value
	switch {
	case a.Flag.Presence && value == "false" && a.Flag.Negatable:
		a.Words = []string{"--no-" + strings.TrimLeft(spelling, "-")}
	case a.Flag.Presence, !a.Known && value == "true":
		a.Words = []string{spelling}
	case inline:
		a.Words = []string{spelling + "=" + value}
	case a.Flag.List:
		a.Words = append([]string{spelling}, strings.Fields(value)...)
	case value == "" && a.Flag.OptionalValue:
		a.Words = []string{spelling}
	default:
		a.Words = []string{spelling, value}
	}
}

// Change is one flag that differs between two lines; an absent side is nil.
type Change struct {
	Flag     string
	From, To *string
}

// Diff lists the flags whose effective values differ, in the order of b, then
// those that only a has.
func Diff(a, b Line) []Change {
	from, to := a.Effective(), b.Effective()
	var out []Change
	seen := map[string]bool{}
	for _, line := range []Line{b, a} {
		for _, arg := range line.Args {
			if seen[arg.Name] {
				continue
			}
			seen[arg.Name] = true
			x, hasX := from[arg.Name]
			y, hasY := to[arg.Name]
			if hasX == hasY && x == y {
				continue
			}
			c := Change{Flag: arg.Name}
			if hasX {
				c.From = &x
			}
			if hasY {
				c.To = &y
			}
			out = append(out, c)
		}
	}
	return out
}
