package launch

import (
	"fmt"
	"strings"

	"github.com/runvigil/runvigil/metrics"
)

// ScriptBackup is what a script's path gets for what it was before it was edited.
const ScriptBackup = ".runvigil.bak"

// Take makes the changes of a draft in the script, as Apply does. Of environment
// variables and of secrets none is written into a script.
func (s *Script) Take(version string, changes []Change) ([]byte, error) {
	edits := make([]Edit, len(changes))
	for i, c := range changes {
		switch {
		case c.Env:
			return nil, fmt.Errorf("the environment variable %s cannot be edited inside a script; change it there by hand", metrics.Clean(c.Flag, 80))
		case c.To == nil:
			edits[i] = Edit{Kind: UnsetFlag, Name: c.Flag}
		case strings.Contains(*c.To, metrics.Masked):
			return nil, fmt.Errorf("the value of --%s is a secret, which is not written into a script; change it there by hand", c.Flag)
		default:
			edits[i] = Edit{Kind: SetFlag, Name: c.Flag, Value: *c.To}
		}
	}
	return s.Apply(version, edits...)
}

// ChangedLines are the lines between the first and the last that differ: those
// that went ("- …") and those that came ("+ …"), cleaned. Secrets are not masked.
func ChangedLines(before, after []byte) []string {
	a, b := strings.SplitAfter(string(before), "\n"), strings.SplitAfter(string(after), "\n")
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	var out []string
	for _, side := range []struct {
		mark  string
		lines []string
	}{{"- ", a}, {"+ ", b}} {
		for _, line := range side.lines {
			if text := strings.TrimRight(line, "\r\n"); text != "" {
				out = append(out, side.mark+metrics.Clean(text, 400))
			}
		}
	}
	return out
}

// ScriptOf is the start script that a launch was taken from, or that the parent
// process of the server runs (`bash /data/start.sh 0.88`), "" where neither is
// known. A path that is not from the root is taken from the server's directory.
func (l Launch) ScriptOf() string {
	if l.Script != "" {
		return l.Script
	}
	words := strings.Fields(l.Parent)
	if len(words) < 2 || strings.Contains(l.Parent, "/restart.sh wrap ") {
		return ""
	}
	switch words[0][strings.LastIndexByte(words[0], '/')+1:] {
	case "sh", "bash", "dash", "ash":
	default:
		return ""
	}
	for _, w := range words[1:] {
		switch {
		case strings.HasPrefix(w, "-") && strings.Contains(w, "c"):
			return "" // a command, no file
		case strings.HasPrefix(w, "-"):
		case strings.HasPrefix(w, "/"):
			return w
		case strings.HasPrefix(l.Dir, "/"):
			return strings.TrimRight(l.Dir, "/") + "/" + strings.TrimPrefix(w, "./")
		default:
			return ""
		}
	}
	return ""
}
