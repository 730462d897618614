// Package posix writes words that a POSIX shell reads back unchanged.
package posix

import (
	"fmt"
	"strings"
)

// Quote returns s as one word for sh. Every byte but NUL survives, also in
// dash, bash, busybox ash, zsh and fish; NUL cannot be in an argument and is
// an error. Words of harmless characters stay as they are.
//
// csh and tcsh expand "!" even in single quotes, so programs for unknown login
// shells belong on the standard input of "exec /bin/sh -s".
func Quote(s string) (string, error) {
	if i := strings.IndexByte(s, 0); i >= 0 {
		return "", fmt.Errorf("quote for sh: NUL at byte %d cannot be part of an argument", i)
	}
	if s != "" && strings.IndexFunc(s, special) < 0 {
		return s, nil
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'", nil
}

// special tells characters that a shell could take for more than themselves,
// anywhere in a word.
func special(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune("-_./:,+@%", r)
}

// Join quotes each argument and joins them with spaces: a command line. An
// empty argv is an error, for it would run the next line's command instead.
func Join(argv []string) (string, error) {
	if len(argv) == 0 {
		return "", fmt.Errorf("quote for sh: no arguments")
	}
	words := make([]string, len(argv))
	for i, a := range argv {
		w, err := Quote(a)
		if err != nil {
			return "", fmt.Errorf("argument %d: %w", i, err)
		}
		words[i] = w
	}
	return strings.Join(words, " "), nil
}

// Export returns the line, without its newline, that puts name=value into the
// environment. A value may hold newlines; it is then several lines long.
// Unlike "env name=value", the line shows nothing in a process list.
func Export(name, value string) (string, error) {
	if !validName(name) {
		return "", fmt.Errorf("export for sh: %q is not a variable name", name)
	}
	q, err := Quote(value)
	if err != nil {
		return "", fmt.Errorf("export %s: %w", name, err)
	}
	return "export " + name + "=" + q, nil
}

func validName(s string) bool {
	for i, r := range s {
		switch {
		case r == '_', 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z':
		case i > 0 && '0' <= r && r <= '9':
		default:
			return false
		}
	}
	return s != ""
}
