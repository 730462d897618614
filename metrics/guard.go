package metrics

import (
	"path"
	"strconv"
	"strings"
)

// Judge tells whether a flag's effective value breaks the guard, and says how.
// value is as the engine takes it: a number, a word, "true" or "false" of a
// switch. Patterns are words, globs (fp8*), ranges of numbers (0.80..0.90, an
// open end is left out) or comparisons (<=0.9, >0.5); words compare without
// regard to case, numbers by value. A denied value is broken whatever is
// allowed; with an Allow list every other value is broken.
func (g Guard) Judge(value string) (broken bool, reason string) {
	value = strings.TrimSpace(value)
	for _, p := range g.Deny {
		if guardMatch(p, value) {
			return true, g.Flag + " is " + value + ", and " + p + " is denied"
		}
	}
	if len(g.Allow) == 0 {
		return false, ""
	}
	for _, p := range g.Allow {
		if guardMatch(p, value) {
			return false, ""
		}
	}
	return true, g.Flag + " is " + value + "; allowed is " + strings.Join(g.Allow, ", ")
}

// guardMatch tells whether a value lies in what a pattern names.
func guardMatch(pattern, value string) bool {
	pattern = strings.TrimSpace(pattern)
	v, err := strconv.ParseFloat(value, 64)
	number := err == nil
	if low, high, ok := strings.Cut(pattern, ".."); ok {
		l, lok := guardBound(low)
		h, hok := guardBound(high)
		if lok && hok && strings.TrimSpace(low)+strings.TrimSpace(high) != "" {
			return number && (l == nil || v >= *l) && (h == nil || v <= *h)
		}
	}
	for _, op := range []string{"<=", ">=", "<", ">"} {
		rest, ok := strings.CutPrefix(pattern, op)
		if !ok {
			continue
		}
		limit, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
		if err != nil || !number {
			return false
		}
		switch op {
		case "<=":
			return v <= limit
		case ">=":
			return v >= limit
		case "<":
			return v < limit
		}
		return v > limit
	}
	if p, err := strconv.ParseFloat(pattern, 64); err == nil && number {
		return p == v
	}
	ok, err := path.Match(strings.ToLower(pattern), strings.ToLower(value))
	return err == nil && ok || strings.EqualFold(pattern, value)
}

// guardBound reads one end of a range; an empty one is open.
func guardBound(s string) (bound *float64, ok bool) {
	s = strings.TrimSpace(s)
	if s == "" {
		return nil, true
	}
	v, err := strconv.ParseFloat(s, 64)
	return &v, err == nil
}
