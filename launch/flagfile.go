package launch

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/runvigil/runvigil/metrics/flags"
)

// ParseFlagsFile reads the file that --config names, for Launch.FileFlags: YAML
// of one level, as the engines' own readers take it ("tp-size: 8", lists in
// brackets or as items). Names are canonical; what is more than that is an error
// with its line.
func ParseFlagsFile(c *flags.Catalogue, data []byte) (map[string]string, error) {
	out := map[string]string{}
	last := "" // flag whose items may follow
	for i, raw := range strings.Split(string(data), "\n") {
		line := strings.TrimRight(raw, " \t\r")
		text := strings.TrimLeft(line, " \t")
		bad := func(what string) error {
			return fmt.Errorf("line %d of the flags file: %s; give such flags on the command line", i+1, what)
		}
		if text == "" || text[0] == '#' || line == "---" {
			continue
		}
		if item, ok := strings.CutPrefix(text+" ", "- "); ok {
			v, err := scalar(item)
			if last == "" || err != nil {
				return nil, bad("an item that belongs to no flag")
			}
			out[last] = strings.TrimLeft(out[last]+" "+v, " ")
			continue
		}
		if text != line {
			return nil, bad("an indented entry")
		}
		name, value, ok := strings.Cut(text, ":")
		name = strings.Trim(strings.TrimSpace(name), `"'`)
		if !ok || name == "" || strings.ContainsAny(name, " {[") || value != "" && value[0] != ' ' {
			return nil, bad("no \"name: value\"")
		}
		if f, _, known := c.Lookup("--" + strings.ReplaceAll(name, "_", "-")); known {
			name = f.Name
		}
		value = strings.TrimSpace(value)
		last = ""
		switch {
		case value == "" || value[0] == '#':
			out[name], last = "", name
		case value[0] == '[':
			inner, closed := strings.CutSuffix(value[1:], "]")
			if !closed {
				return nil, bad("a list that goes on in another line")
			}
			var words []string
			for part := range strings.SplitSeq(inner, ",") {
				v, err := scalar(part)
				if err != nil {
					return nil, bad(err.Error())
				}
				words = append(words, v)
			}
			out[name] = strings.Join(words, " ")
		default:
			v, err := scalar(value)
			if err != nil {
				return nil, bad(err.Error())
			}
			out[name] = v
		}
	}
	return out, nil
}

// scalar reads one plain or quoted value, without the comment behind it.
func scalar(s string) (string, error) {
	s = strings.TrimSpace(s)
	switch {
	case s == "":
		return "", nil
	case s[0] == '\'':
		end := strings.Index(s[1:], "'")
		if end < 0 || !onlyComment(s[end+2:]) {
			return "", fmt.Errorf("a quoted value that does not end")
		}
		return s[1 : end+1], nil
	case s[0] == '"':
		quoted, err := strconv.QuotedPrefix(s)
		if err != nil || !onlyComment(s[len(quoted):]) {
			return "", fmt.Errorf("a quoted value that does not end")
		}
		return strconv.Unquote(quoted)
	case strings.ContainsAny(s[:1], "{[&*!|>%@`"):
		return "", fmt.Errorf("a value that is more than one word or number")
	}
	if i := strings.Index(s, " #"); i >= 0 {
		s = strings.TrimSpace(s[:i])
	}
	switch s {
	case "True", "yes", "on":
		return "true", nil
	case "False", "no", "off":
		return "false", nil
	}
	return s, nil
}

func onlyComment(s string) bool {
	s = strings.TrimSpace(s)
	return s == "" || s[0] == '#'
}
