package launch

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// finder looks for server commands in a script.
type finder struct {
	src   []byte
	vars  map[string]variable
	env   []Var  // exported so far
	dir   string // where the script has changed to so far
	found []*Script
	// quotedIn is the line of a quoted string that holds a server command.
	quotedIn int
	back     [][2]uint // spans of backquoted substitutions
}

// variable is a shell variable. Its value is known only where the script sets it
// once, to plain text.
type variable struct {
	value string
	known bool
}

// variables reads the assignments of the whole script.
func (f *finder) variables(file *syntax.File) {
	assign := func(a *syntax.Assign) {
		if a.Name == nil {
			return
		}
		name := a.Name.Value
		_, again := f.vars[name]
		v := variable{}
		if !again && !a.Append && a.Array == nil && a.Index == nil {
			if a.Value == nil {
				v.known = true
			} else if w := f.word(a.Value); w.known {
				v = variable{w.text, true}
			}
		}
		f.vars[name] = v
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CallExpr:
			if len(n.Args) == 0 {
				for _, a := range n.Assigns {
					assign(a)
				}
			} else if lit := n.Args[0].Lit(); lit == "read" || lit == "getopts" || lit == "mapfile" || lit == "unset" {
				for _, w := range n.Args[1:] {
					f.vars[w.Lit()] = variable{}
				}
			}
		case *syntax.DeclClause:
			for _, a := range n.Args {
				if a.Value != nil || a.Array != nil {
					assign(a)
				}
			}
		case *syntax.WordIter:
			f.vars[n.Name.Value] = variable{}
		}
		return true
	})
}

// visit collects what the script has set up before the server command, and the
// command itself.
func (f *finder) visit(n syntax.Node) bool {
	switch n := n.(type) {
	case *syntax.Stmt:
		if call, ok := n.Cmd.(*syntax.CallExpr); ok {
			f.call(call, n, nil)
			for _, a := range call.Assigns {
				syntax.Walk(a, f.visit)
			}
			for _, w := range call.Args {
				syntax.Walk(w, f.visit)
			}
			return false
		}
	case *syntax.BinaryCmd:
		if call, ok := n.X.Cmd.(*syntax.CallExpr); ok && (n.Op == syntax.Pipe || n.Op == syntax.PipeAll) {
			f.call(call, n.X, n.Y)
			syntax.Walk(n.Y, f.visit)
			return false
		}
	case *syntax.DeclClause:
		if n.Variant.Value == "export" {
			for _, a := range n.Args {
				f.export(a)
			}
		}
	case *syntax.CmdSubst:
		if n.Backquotes {
			f.back = append(f.back, [2]uint{n.Pos().Offset(), n.End().Offset()})
		}
	}
	return true
}

func (f *finder) export(a *syntax.Assign) {
	if a.Name == nil {
		return
	}
	if a.Value != nil {
		if w := f.word(a.Value); w.known {
			f.env = setVar(slices.Clone(f.env), a.Name.Value, w.text)
		}
	} else if v := f.vars[a.Name.Value]; v.known {
		f.env = setVar(slices.Clone(f.env), a.Name.Value, v.value)
	}
}

func (f *finder) call(call *syntax.CallExpr, stmt, reader *syntax.Stmt) {
	words := make([]word, len(call.Args))
	texts := make([]string, len(call.Args))
	for i, a := range call.Args {
		words[i] = f.word(a)
		texts[i] = words[i].text
		if f.quotedIn == 0 && words[i].known && strings.ContainsAny(texts[i], " \t\n") && engineOf(strings.Fields(texts[i])) != "" {
			f.quotedIn = words[i].line
		}
	}
	if len(texts) == 2 && texts[0] == "cd" && words[1].known {
		f.dir = texts[1]
		return
	}
	if engineOf(texts) == "" {
		return
	}
	begin := programStart(texts)
	if begin < 0 {
		return
	}
	s := &Script{src: f.src, words: words[begin:], env: slices.Clone(f.env), dir: f.dir}
	for _, a := range call.Assigns {
		if a.Name != nil && a.Value != nil {
			if w := f.word(a.Value); w.known {
				s.env = setVar(s.env, a.Name.Value, w.text)
			}
		}
	}
	for _, t := range texts[:begin] { // env NAME=value python …
		if name, value, ok := strings.Cut(t, "="); ok && validVar(name) {
			s.env = setVar(s.env, name, value)
		}
	}
	for _, b := range f.back {
		s.backquoted = s.backquoted || call.Pos().Offset() >= b[0] && call.Pos().Offset() < b[1]
	}
	f.output(s, stmt, reader)
	f.found = append(f.found, s)
}

// output tells where the server's output goes.
func (f *finder) output(s *Script, stmt, reader *syntax.Stmt) {
	for _, r := range stmt.Redirs {
		if r.N != nil && r.N.Value != "1" {
			continue
		}
		switch r.Op {
		case syntax.RdrOut, syntax.AppOut, syntax.RdrAll, syntax.AppAll, syntax.RdrClob:
			if w := f.word(r.Word); w.known {
				s.log, s.how, _ = place(w.text)
				if s.how == LogUnknown {
					s.log, s.how = w.text, LogFile
				}
			}
		default:
		}
	}
	if reader == nil || s.how != LogUnknown {
		return
	}
	s.how = LogPipe
	call, ok := reader.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 || call.Args[0].Lit() != "tee" {
		return
	}
	s.how = LogTee
	for _, a := range call.Args[1:] {
		if w := f.word(a); w.known && !strings.HasPrefix(w.text, "-") {
			s.log = w.text
			return
		}
	}
}

// programStart is where the server's own command begins, behind nohup, env,
// setsid, taskset and their like.
func programStart(argv []string) int {
	for i := range argv {
		if engineOf(argv[i:]) == "" {
			break
		}
		base := baseName(argv[i])
		if strings.HasPrefix(base, "python") || base == "vllm" || base == "sglang" {
			return i
		}
	}
	return -1
}

func baseName(s string) string { return s[strings.LastIndexByte(s, '/')+1:] }

// word reads one word of the source.
func (f *finder) word(w *syntax.Word) word {
	out := word{start: int(w.Pos().Offset()), end: int(w.End().Offset()), static: true, known: true, line: int(w.Pos().Line())}
	var b strings.Builder
	for i, part := range w.Parts {
		f.part(&out, &b, part, false, i == 0)
	}
	out.text = b.String()
	if !out.static && out.why == "" {
		out.why = out.text
	}
	return out
}

// part adds one part of a word. A part whose value only a run tells stands as in
// the source.
func (f *finder) part(w *word, b *strings.Builder, part syntax.WordPart, quoted, first bool) {
	dynamic := func(loose bool) {
		src := string(f.src[part.Pos().Offset():part.End().Offset()])
		b.WriteString(src)
		w.static, w.known, w.loose = false, false, w.loose || loose
		if w.why == "" {
			w.why = src
		}
	}
	switch p := part.(type) {
	case *syntax.Lit:
		if !quoted && expands(p.Value, first) {
			dynamic(true)
			return
		}
		b.WriteString(unescape(p.Value, quoted))
	case *syntax.SglQuoted:
		if p.Dollar {
			dynamic(false)
			return
		}
		b.WriteString(p.Value)
	case *syntax.DblQuoted:
		if p.Dollar {
			dynamic(false)
			return
		}
		for _, inner := range p.Parts {
			f.part(w, b, inner, true, false)
		}
	case *syntax.ParamExp:
		f.param(w, b, p, quoted, dynamic)
	default:
		dynamic(!quoted)
	}
}

// expands tells unquoted text that the shell may turn into something else: a
// pattern, braces, or a home directory at its beginning.
func expands(s string, first bool) bool {
	if first && strings.HasPrefix(s, "~") {
		return true
	}
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '*', '?', '[', '{':
			return true
		}
	}
	return false
}

// param is a variable. One that the script sets once to plain text is known, but
// its word is not for editing.
func (f *finder) param(w *word, b *strings.Builder, p *syntax.ParamExp, quoted bool, dynamic func(bool)) {
	src := string(f.src[p.Pos().Offset():p.End().Offset()])
	many := p.Index != nil || p.Param != nil && (p.Param.Value == "@" || p.Param.Value == "*")
	plain := p.Param != nil && !p.Excl && !p.Length && !p.Width && p.Slice == nil && p.Repl == nil && p.Exp == nil && !many
	v := variable{}
	if plain {
		v = f.vars[p.Param.Value]
	}
	if !v.known || !quoted && (strings.ContainsAny(v.value, " \t\n*?[") || v.value == "") {
		dynamic(!quoted || many)
		return
	}
	b.WriteString(v.value)
	w.static = false
	if w.why == "" {
		w.why = src
	}
}

// unescape removes the backslashes of unquoted or double-quoted text.
func unescape(s string, quoted bool) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		next := s[i+1]
		switch {
		case next == '\n':
			i++
		case !quoted || strings.IndexByte("$`\"\\", next) >= 0:
			b.WriteByte(next)
			i++
		default:
			b.WriteByte('\\')
		}
	}
	return b.String()
}
