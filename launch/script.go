package launch

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/flags"
	"github.com/runvigil/runvigil/remote/posix"
)

// maxScript is the size in bytes above which a start script is refused.
const maxScript = 1 << 20

// Script is a start script, or a command line, with the server command in it.
// Edits change the words of that command and no other byte.
type Script struct {
	src   []byte
	words []word // of the server's own command, without nohup and the like
	env   []Var
	dir   string
	log   string
	how   How
	// backquoted says that the command stands in a backquoted substitution, whose
	// escapes make edits unsafe.
	backquoted bool
}

// word is one argument as it stands in the source.
type word struct {
	start, end int    // byte offsets
	text       string // its value; of a word with variables its source
	// static words are plain text. known ones have a text that is their value in
	// every run, perhaps through a variable. loose ones may become several words,
	// or none.
	static, known, loose bool
	why                  string // what makes it not static, e.g. "$MEM"
	line                 int
}

// ErrNoServer says that a script or command line starts no server.
var ErrNoServer = errors.New("no SGLang or vLLM server is started in it")

// ParseScript reads a shell script (POSIX sh or bash) or a pasted command line
// and finds the one server command in it.
func ParseScript(src []byte) (*Script, error) {
	if len(src) > maxScript {
		return nil, fmt.Errorf("the script has %d bytes, more than %d: is it the right file?", len(src), maxScript)
	}
	if i := slices.Index(src, 0); i >= 0 {
		return nil, fmt.Errorf("byte %d is NUL: this is no shell script", i)
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(string(src)), "script")
	if err != nil {
		return nil, fmt.Errorf("the script cannot be read: %w", cleanErr(err))
	}
	f := finder{src: src, vars: map[string]variable{}}
	f.variables(file)
	syntax.Walk(file, f.visit)
	switch len(f.found) {
	case 0:
		if f.quotedIn > 0 {
			return nil, fmt.Errorf("line %d: the server command stands inside a quoted string, where it cannot be edited; paste the command itself", f.quotedIn)
		}
		return nil, ErrNoServer
	case 1:
		return f.found[0], nil
	}
	lines := make([]string, len(f.found))
	for i, s := range f.found {
		lines[i] = fmt.Sprint(s.words[0].line)
	}
	return nil, fmt.Errorf("the script has %d server commands (lines %s): which of them runs cannot be told; paste the one that is meant", len(lines), strings.Join(lines, ", "))
}

func cleanErr(err error) error { return errors.New(metrics.Clean(err.Error(), 300)) }

// Bytes are the source.
func (s *Script) Bytes() []byte { return slices.Clone(s.src) }

// Argv is the server's command. Words whose value only a run tells stand as they
// are in the source; Dynamic lists them. It may hold secrets.
func (s *Script) Argv() []string {
	out := make([]string, len(s.words))
	for i, w := range s.words {
		out[i] = w.text
	}
	return out
}

// Dynamic lists what stands in the command and only a run of the script tells.
func (s *Script) Dynamic() []string {
	var out []string
	for _, w := range s.words {
		if !w.known {
			out = append(out, fmt.Sprintf("line %d: %s", w.line, metrics.Clean(w.text, 80)))
		}
	}
	return out
}

// Launch is what the script starts. It may hold secrets: show Masked.
func (s *Script) Launch() Launch {
	argv := s.Argv()
	l := Launch{Engine: engineOf(argv), Argv: argv, Env: slices.Clone(s.env), Dir: s.dir, Log: s.log, LogHow: s.how, Umask: -1, UID: -1, GID: -1}
	if l.Log != "" && l.Dir != "" && !path.IsAbs(l.Log) {
		l.Log = path.Join(l.Dir, l.Log)
	}
	for _, d := range s.Dynamic() {
		l.Unread = append(l.Unread, "in the start script, "+d)
	}
	return l
}

// Apply makes edits of flags in place; environment variables and whole sets of
// flags are not edited in a script. The result is read again before it is given
// out: it starts the same command with just the edited flags, and every byte
// outside of the command's words is as it was.
func (s *Script) Apply(version string, edits ...Edit) ([]byte, error) {
	cur := s
	for _, e := range edits {
		cat := flags.For(engineOf(cur.Argv()), version)
		var out []byte
		var err error
		switch e.Kind {
		case SetFlag:
			out, err = cur.set(cat, strings.TrimLeft(e.Name, "-"), e.Value)
		case UnsetFlag:
			out, err = cur.unset(cat, strings.TrimLeft(e.Name, "-"))
		default:
			err = fmt.Errorf("%s cannot be edited inside a script; change it there by hand", e)
		}
		if err != nil {
			return nil, err
		}
		next, err := ParseScript(out)
		if err != nil {
			return nil, fmt.Errorf("after %s the script could not be read: %w", e, err)
		}
		if err := cur.verify(next, cat, e); err != nil {
			return nil, err
		}
		cur = next
	}
	return cur.Bytes(), nil
}

// verify compares the flags after an edit with what they must be.
func (s *Script) verify(next *Script, cat *flags.Catalogue, e Edit) error {
	line := flags.Parse(cat, s.Argv())
	if e.Kind == UnsetFlag {
		line = line.Unset(e.Name)
	} else {
		f, _, known := cat.Lookup("--" + e.Name)
		if known && f.Presence && e.Value == "false" && !f.Negatable {
			line = line.Unset(f.Name)
		} else {
			line = line.Set(e.Name, e.Value)
		}
	}
	got := flags.Parse(cat, next.Argv())
	if !slices.Equal(line.Program, got.Program) || len(flags.Diff(line, got)) > 0 || s.log != next.log || s.dir != next.dir {
		return fmt.Errorf("%s cannot be done safely in this script; change it there by hand", e)
	}
	return nil
}

// place finds a flag's words: their indexes [from, to), -1 where it is not set.
// Of several the last is the one in force.
func (s *Script) place(line flags.Line, name string) (from, to int, a flags.Arg) {
	from = -1
	i := len(line.Program)
	for _, arg := range line.Args {
		if arg.Name == name {
			from, to, a = i, i+len(arg.Words), arg
		}
		i += len(arg.Words)
	}
	return from, to, a
}

// editable tells why words [from, to) may not be edited.
func (s *Script) editable(name string, from, to int) error {
	if s.backquoted {
		return fmt.Errorf("line %d: the command stands in backquotes, where edits are not safe; write it as $(…) first", s.words[from].line)
	}
	for _, w := range s.words[from:to] {
		if !w.static {
			return fmt.Errorf("line %d: --%s takes its value from %s; change it where that is set", w.line, name, metrics.Clean(w.why, 80))
		}
	}
	return nil
}

// settled tells why the command as a whole cannot be edited: words that may
// become any number of words could hold the flag too.
func (s *Script) settled(name string) error {
	for _, w := range s.words {
		if w.loose {
			return fmt.Errorf("line %d: %s may hold --%s too, which only a run of the script tells; change it where that is set", w.line, metrics.Clean(w.why, 80), name)
		}
	}
	return nil
}

func (s *Script) canonical(cat *flags.Catalogue, name string) (string, flags.Flag, bool) {
	f, _, known := cat.Lookup("--" + name)
	if known && !strings.Contains(name, ".") {
		return f.Name, f, true
	}
	return name, f, known
}

func (s *Script) set(cat *flags.Catalogue, name, value string) ([]byte, error) {
	line := flags.Parse(cat, s.Argv())
	name, f, known := s.canonical(cat, name)
	if known && f.Presence && value == "false" && !f.Negatable {
		return s.unset(cat, name)
	}
	if err := s.settled(name); err != nil {
		return nil, err
	}
	from, to, _ := s.place(line, name)
	if from >= 0 {
		if err := s.editable(name, from, to); err != nil {
			return nil, err
		}
	} else if s.backquoted {
		return nil, s.editable(name, 0, 1)
	}
	// The edited words come from the same code that edits a running server's argv.
	_, _, edited := s.place(line.Set(name, value), name)
	words := make([]string, len(edited.Words))
	for i, w := range edited.Words {
		head, tail, inline := strings.Cut(w, "=")
		if !inline || !strings.HasPrefix(w, "-") {
			head, tail = "", w
		} else {
			head += "="
		}
		q, err := posix.Quote(tail)
		if err != nil {
			return nil, err
		}
		words[i] = head + q
	}
	if from < 0 {
		at := s.words[len(s.words)-1]
		return s.splice(at.end, at.end, s.gap(at)+strings.Join(words, " ")), nil
	}
	// What stays the same keeps its spelling: the flag's own word, and the text
	// before an equals sign.
	for from < to && len(words) > 0 && s.words[from].text == edited.Words[len(edited.Words)-len(words)] {
		from++
		words = words[1:]
	}
	switch {
	case len(words) == 0 && from == to:
		return s.Bytes(), nil
	case len(words) == 0:
		return s.splice(s.words[from-1].end, s.words[to-1].end, ""), nil
	case from == to:
		at := s.words[to-1]
		return s.splice(at.end, at.end, " "+strings.Join(words, " ")), nil
	case !s.plainGaps(from, to):
		return nil, fmt.Errorf("line %d: something stands between the values of --%s; change it there by hand", s.words[from].line, name)
	}
	return s.splice(s.words[from].start, s.words[to-1].end, strings.Join(words, " ")), nil
}

// gap is what to put before a flag that is added after a word: a continued line
// where that word began one.
func (s *Script) gap(at word) string {
	for _, w := range s.words {
		if w.line != at.line {
			continue
		}
		// w is the first word of the last line.
		start := strings.LastIndexByte(string(s.src[:w.start]), '\n') + 1
		indent := string(s.src[start:w.start])
		if len(s.words) > 0 && w.line != s.words[0].line && strings.TrimLeft(indent, " \t") == "" {
			return " \\\n" + indent
		}
		break
	}
	return " "
}

func (s *Script) unset(cat *flags.Catalogue, name string) ([]byte, error) {
	name, _, _ = s.canonical(cat, name)
	if err := s.settled(name); err != nil {
		return nil, err
	}
	out := s
	for {
		line := flags.Parse(cat, out.Argv())
		from, to, _ := out.place(line, name)
		if from < 0 {
			return out.Bytes(), nil
		}
		if err := out.editable(name, from, to); err != nil {
			return nil, err
		}
		if from == 0 || !out.plainGaps(from-1, to) {
			return nil, fmt.Errorf("line %d: something stands between --%s and the word before it; change it there by hand", out.words[from].line, name)
		}
		a, b := out.words[from-1].end, out.words[to-1].end
		// The first flag of a continued line gives its place to the next.
		if to < len(out.words) && out.words[from].line != out.words[from-1].line && out.words[to].line == out.words[to-1].line && out.plainGaps(to-1, to+1) {
			a, b = out.words[from].start, out.words[to].start
		}
		next, err := ParseScript(out.splice(a, b, ""))
		if err != nil {
			return nil, fmt.Errorf("without --%s the script could not be read: %w", name, err)
		}
		if len(next.words) >= len(out.words) {
			return nil, fmt.Errorf("--%s cannot be removed safely; change it there by hand", name)
		}
		out = next
	}
}

// plainGaps tells that only blanks and continued lines stand between words.
func (s *Script) plainGaps(from, to int) bool {
	for i := from + 1; i < to; i++ {
		gap := strings.ReplaceAll(string(s.src[s.words[i-1].end:s.words[i].start]), "\\\n", "")
		if strings.Trim(gap, " \t") != "" {
			return false
		}
	}
	return true
}

func (s *Script) splice(from, to int, text string) []byte {
	return slices.Concat(s.src[:from], []byte(text), s.src[to:])
}
