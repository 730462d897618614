package launch

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/runvigil/runvigil/metrics"
)

// maxGuardsFile is the size in bytes above which a guards file is refused.
const maxGuardsFile = 256 << 10

// GuardsTable is where the guards of a guards-only file stand.
var GuardsTable = []string{"guards"}

type guardsFile struct {
	Guards []guardEntry `toml:"guards"`
}

type guardEntry struct {
	Flag        string   `toml:"flag"`
	Allow       []string `toml:"allow"`
	Deny        []string `toml:"deny"`
	Why         string   `toml:"why"`
	Overridable bool     `toml:"overridable"`
}

// ParseGuards reads a guards-only file: TOML with [[guards]] tables and nothing
// else. Any other key, a guard without a reason, or a range that is none is an
// error: a rule that is misspelt must not fail silently. The guards' From is
// "node" and their text is cleaned, since anybody may have written the file.
func ParseGuards(data []byte) ([]metrics.Guard, error) {
	if len(data) > maxGuardsFile {
		return nil, fmt.Errorf("the guards file has %d bytes, more than %d: is it the right file?", len(data), maxGuardsFile)
	}
	var file guardsFile
	if err := toml.NewDecoder(bytes.NewReader(data)).DisallowUnknownFields().Decode(&file); err != nil {
		var strict *toml.StrictMissingError
		var bad *toml.DecodeError
		switch {
		case errors.As(err, &strict):
			return nil, fmt.Errorf("the guards file has a key that no guard has:\n%s", metrics.Clean(strict.String(), 500))
		case errors.As(err, &bad):
			return nil, fmt.Errorf("the guards file is no TOML:\n%s", metrics.Clean(bad.String(), 500))
		}
		return nil, fmt.Errorf("the guards file: %w", err)
	}
	out := make([]metrics.Guard, 0, len(file.Guards))
	for i, e := range file.Guards {
		g := metrics.Guard{
			Flag: metrics.Clean(strings.TrimLeft(e.Flag, "-"), 80), Allow: cleanAll(e.Allow), Deny: cleanAll(e.Deny),
			Why: metrics.Clean(e.Why, 400), Overridable: e.Overridable, From: "node",
		}
		if err := CheckGuard(g); err != nil {
			return nil, fmt.Errorf("the guards file, guard %d: %w", i+1, err)
		}
		out = append(out, g)
	}
	return out, nil
}

func cleanAll(list []string) []string {
	var out []string
	for _, s := range list {
		out = append(out, metrics.Clean(s, 200))
	}
	return out
}

// EncodeGuards writes a guards-only file.
func EncodeGuards(guards []metrics.Guard) []byte {
	b := []byte("# Rules of the data's owner about the server's flags, read by runvigil. Data, never commands.\n")
	for _, g := range guards {
		b = append(b, guardTOML(GuardsTable, g)...)
	}
	return b
}

// AddGuard puts a guard into a TOML file under a table (GuardsTable, or "node",
// NAME, "guards" in the configuration). One with the same rule, which is the flag
// with what it allows and denies, is replaced where it stands, with its reason;
// replaced is how many there were. Every other byte stays.
func AddGuard(data []byte, table []string, g metrics.Guard) (out []byte, replaced int, err error) {
	if err := CheckGuard(g); err != nil {
		return nil, 0, err
	}
	before, rest, err := guardsAt(data, table)
	if err != nil {
		return nil, 0, err
	}
	var same []bool
	for _, b := range before {
		e := entryOf(b)
		same = append(same, sameRule(e, g))
		if !sameRule(e, g) {
			continue
		}
		replaced++
		if e.Why == g.Why && e.Overridable == g.Overridable && replaced == 1 {
			out = data // nothing to say anew, if it is the only one
		}
	}
	switch {
	case replaced == 0:
		out = bytes.Clone(data)
		if len(out) > 0 && out[len(out)-1] != '\n' {
			out = append(out, '\n')
		}
		out = append(out, guardTOML(table, g)...)
	case replaced > 1 || out == nil:
		if out, err = replaceGuards(data, table, same, g); err != nil {
			return nil, 0, err
		}
	}
	after, restAfter, err := guardsAt(out, table)
	if err != nil || len(after) != len(before)+1-replaced || !reflect.DeepEqual(rest, restAfter) {
		return nil, 0, fmt.Errorf("the file already has %s in a form to which a [[%s]] table cannot be added; write the guard there by hand", dotted(table), dotted(table))
	}
	return out, replaced, nil
}

// replaceGuards writes a guard in place of the first of those marked, and takes
// the others out.
func replaceGuards(data []byte, table []string, marked []bool, g metrics.Guard) ([]byte, error) {
	spans, err := guardSpans(data, table)
	if err != nil {
		return nil, err
	}
	if len(spans) != len(marked) {
		return nil, fmt.Errorf("%s is not written as [[%s]] tables; change the guard on %s by hand", dotted(table), dotted(table), g.Flag)
	}
	text := strings.TrimPrefix(guardTOML(table, g), "\n")
	var out []byte
	pos := 0
	for i, s := range spans {
		if !marked[i] {
			continue
		}
		out = append(append(out, data[pos:s.start]...), text...)
		if pos = s.end; text != "" && bytes.HasSuffix(data[s.start:s.end], []byte("\n\n")) {
			pos-- // the blank line that sets the next table apart
		}
		text = ""
	}
	return append(out, data[pos:]...), nil
}

// entryOf is a decoded guard; what does not fit a guard is absent.
func entryOf(v any) guardEntry {
	m, _ := v.(map[string]any)
	e := guardEntry{Flag: guardFlag(v)}
	e.Why, _ = m["why"].(string)
	e.Overridable, _ = m["overridable"].(bool)
	words := func(key string) (out []string) {
		list, _ := m[key].([]any)
		for _, w := range list {
			if s, ok := w.(string); ok {
				out = append(out, s)
			}
		}
		return out
	}
	e.Allow, e.Deny = words("allow"), words("deny")
	return e
}

// sameRule tells whether an entry allows and denies the same of the same flag,
// in whatever order and spelling.
func sameRule(e guardEntry, g metrics.Guard) bool {
	name := func(s string) string { return strings.ReplaceAll(strings.TrimLeft(s, "-"), "_", "-") }
	set := func(list []string) []string {
		out := make([]string, len(list))
		for i, s := range list {
			out[i] = strings.ToLower(strings.TrimSpace(s))
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	return name(e.Flag) == name(g.Flag) && slices.Equal(set(e.Allow), set(g.Allow)) && slices.Equal(set(e.Deny), set(g.Deny))
}

// RemoveGuard takes the guards on a flag out of a TOML file; n is how many there
// were. Every other byte stays.
func RemoveGuard(data []byte, table []string, flag string) (out []byte, n int, err error) {
	before, rest, err := guardsAt(data, table)
	if err != nil {
		return nil, 0, err
	}
	flag = strings.TrimLeft(flag, "-")
	for _, g := range before {
		if guardFlag(g) == flag {
			n++
		}
	}
	if n == 0 {
		return data, 0, nil
	}
	spans, err := guardSpans(data, table)
	if err != nil {
		return nil, 0, err
	}
	pos := 0
	for _, s := range spans {
		if s.flag != flag {
			continue
		}
		out = append(out, data[pos:s.start]...)
		pos = s.end
	}
	out = append(out, data[pos:]...)
	after, restAfter, err := guardsAt(out, table)
	if err != nil || len(after) != len(before)-n || !reflect.DeepEqual(rest, restAfter) {
		return nil, 0, fmt.Errorf("%s is not written as [[%s]] tables; remove the guard on %s by hand", dotted(table), dotted(table), flag)
	}
	return out, n, nil
}

// guardsAt decodes a file into the list at a table and all the rest.
func guardsAt(data []byte, table []string) (list []any, rest map[string]any, err error) {
	rest = map[string]any{}
	if err := toml.Unmarshal(data, &rest); err != nil {
		var bad *toml.DecodeError
		if errors.As(err, &bad) {
			return nil, nil, fmt.Errorf("the file is no TOML:\n%s", metrics.Clean(bad.String(), 500))
		}
		return nil, nil, err
	}
	return takeAt(rest, table), rest, nil
}

// takeAt removes the list at a path, and the tables that only led to it.
func takeAt(m map[string]any, path []string) []any {
	v, ok := m[path[0]]
	if !ok {
		return nil
	}
	if len(path) == 1 {
		delete(m, path[0])
		list, _ := v.([]any)
		return list
	}
	sub, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	list := takeAt(sub, path[1:])
	if len(sub) == 0 {
		delete(m, path[0])
	}
	return list
}

func guardFlag(g any) string {
	m, _ := g.(map[string]any)
	s, _ := m["flag"].(string)
	return strings.TrimLeft(s, "-")
}

// span is one [[table]] in a file: from the line of its header to the end of
// the line of its last value.
type span struct {
	start, end int
	flag       string
}

func guardSpans(data []byte, table []string) ([]span, error) {
	var out []span
	open := false
	comments := map[int]bool{} // offsets of comments on lines of their own
	finish := func(at int) {
		if open {
			out[len(out)-1].end = lastValueEnd(data, out[len(out)-1].start, at, comments)
			open = false
		}
	}
	var p unstable.Parser
	p.KeepComments = true
	p.Reset(data)
	for p.NextExpression() {
		e := p.Expression()
		if e.Kind == unstable.Comment {
			comments[int(e.Raw.Offset)] = true
			continue
		}
		var keys []string
		first := -1
		for it := e.Key(); it.Next(); {
			keys = append(keys, string(it.Node().Data))
			if first < 0 {
				first = int(it.Node().Raw.Offset)
			}
		}
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			line := bytes.LastIndexByte(data[:first], '\n') + 1
			finish(line)
			if e.Kind == unstable.ArrayTable && strings.Join(keys, "\x00") == strings.Join(table, "\x00") {
				out = append(out, span{start: line})
				open = true
			}
		case unstable.KeyValue:
			if open && len(keys) == 1 && keys[0] == "flag" {
				out[len(out)-1].flag = strings.TrimLeft(string(e.Value().Data), "-")
			}
		default:
		}
	}
	if err := p.Error(); err != nil {
		return nil, fmt.Errorf("the file is no TOML: %w", err)
	}
	finish(len(data))
	return out, nil
}

// lastValueEnd is where a table's last value ends before the next table at
// limit: comments and blank lines above that one are its own.
func lastValueEnd(data []byte, start, limit int, comments map[int]bool) int {
	end := limit
	for end > start {
		line := bytes.LastIndexByte(data[:end-1], '\n') + 1
		text := bytes.TrimSpace(data[line:end])
		if len(text) > 0 && !comments[line+bytes.IndexByte(data[line:end], '#')] {
			break // a line that only looks like a comment ends a long string
		}
		end = line
	}
	if start >= 1 && end < len(data) && data[end] == '\n' {
		end++ // the blank line that set it apart
	}
	return end
}

func guardTOML(table []string, g metrics.Guard) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n[[%s]]\nflag = %s\n", dotted(table), tomlString(strings.TrimLeft(g.Flag, "-")))
	for _, l := range []struct {
		key  string
		list []string
	}{{"allow", g.Allow}, {"deny", g.Deny}} {
		if len(l.list) == 0 {
			continue
		}
		words := make([]string, len(l.list))
		for i, s := range l.list {
			words[i] = tomlString(s)
		}
		fmt.Fprintf(&b, "%s = [%s]\n", l.key, strings.Join(words, ", "))
	}
	fmt.Fprintf(&b, "why = %s\n", tomlString(g.Why))
	if g.Overridable {
		b.WriteString("overridable = true\n")
	}
	return b.String()
}

func dotted(table []string) string {
	keys := make([]string, len(table))
	for i, k := range table {
		keys[i] = k
		if k == "" || strings.Trim(k, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
			keys[i] = tomlString(k)
		}
	}
	return strings.Join(keys, ".")
}

// tomlString writes a basic string.
func tomlString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range strings.ToValidUTF8(s, "�") {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
