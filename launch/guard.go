package launch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/flags"
)

// Broken is a guard that a launch breaks.
type Broken struct {
	Flag  string // canonical name
	Value string // effective value
	// Default says that the value was not set but is what the flag defaults to,
	// or what the engine made of "auto".
	Default bool
	Guard   metrics.Guard
	// Reason is one sentence: the value, the rule, and the owner's why.
	Reason string
}

// Judge lists the guards that a launch breaks, by effective values: what the
// command line or its --config file sets, else what resolved says that the
// engine made of it (see Resolved), else the flag's default. A value that only
// the start itself will tell breaks a guard that allows certain values, and none
// that denies some.
func Judge(l Launch, guards []metrics.Guard, resolved map[string]string) []Broken {
	cat := l.Catalogue()
	set := l.Effective()
	var out []Broken
	for _, g := range guards {
		b := Broken{Flag: strings.TrimLeft(g.Flag, "-"), Guard: g}
		f, _, known := cat.Lookup("--" + b.Flag)
		if known {
			b.Flag = f.Name
		}
		value, isSet := set[b.Flag]
		if !isSet || isAuto(value) {
			b.Default = true
			if r, ok := resolved[b.Flag]; ok {
				value = r
			} else if !isSet {
				value = defaultOf(f, known)
			}
		}
		b.Value = value
		if b.Reason = breaks(f, value, g); b.Reason == "" {
			continue
		}
		if b.Default && isSet {
			b.Reason = fmt.Sprintf("--%s %s: %s", b.Flag, set[b.Flag], b.Reason)
		}
		out = append(out, b)
	}
	return out
}

// Resolved is what the engine made of a server's flags that were absent or
// "auto", for Judge of launches of the same model on the same node.
func Resolved(s *metrics.Server) map[string]string {
	out := map[string]string{}
	if s == nil {
		return out
	}
	line := flags.Parse(flags.For(s.Engine, s.Version), s.Argv)
	if v, ok := line.Get("kv-cache-dtype"); s.KVDtype != "" && (!ok || isAuto(v)) {
		out["kv-cache-dtype"] = Dtype(s.KVDtype)
	}
	return out
}

// CheckGuard tells what is wrong with a guard, nil if nothing.
func CheckGuard(g metrics.Guard) error {
	flag := strings.TrimLeft(g.Flag, "-")
	switch {
	case flag == "" || strings.ContainsAny(flag, " =\t\n\"'"):
		return fmt.Errorf("a guard needs a flag, e.g. kv-cache-dtype; this one has %q", g.Flag)
	case len(g.Allow)+len(g.Deny) == 0:
		return fmt.Errorf("the guard on %s allows and denies nothing; give allow or deny, e.g. deny = [\"fp8*\"]", flag)
	case strings.TrimSpace(g.Why) == "":
		return fmt.Errorf("the guard on %s has no why: the operator who meets it at night needs the reason", flag)
	}
	for _, p := range slices.Concat(g.Allow, g.Deny) {
		if strings.TrimSpace(p) == "" {
			return fmt.Errorf("the guard on %s has an empty pattern", flag)
		}
		if _, _, err := parseRange(p); err != nil {
			return fmt.Errorf("the guard on %s: %w", flag, err)
		}
	}
	return nil
}

func breaks(f flags.Flag, value string, g metrics.Guard) string {
	values := []string{value}
	if f.List && value != "" {
		values = strings.Fields(value)
	}
	for _, v := range values {
		for _, p := range g.Deny {
			if matches(p, v) {
				return because("%s is denied (%s)", shown(v), p, g.Why)
			}
		}
		if len(g.Allow) > 0 && !slices.ContainsFunc(g.Allow, func(p string) bool { return matches(p, v) }) {
			rule := strings.Join(g.Allow, ", ")
			if isAuto(v) || v == "" {
				return because("%s is decided by the engine at its start, and only %s is allowed", shown(v), rule, g.Why)
			}
			return because("%s is not among the allowed values (%s)", shown(v), rule, g.Why)
		}
	}
	return ""
}

func because(format, value, rule, why string) string {
	return fmt.Sprintf(format, value, rule) + ": " + why
}

func shown(v string) string {
	if v == "" {
		return "the default"
	}
	return v
}

func isAuto(v string) bool { return strings.EqualFold(v, "auto") }

// defaultOf is the value of a flag that is absent; "" where the engine decides.
func defaultOf(f flags.Flag, known bool) string {
	switch {
	case !known:
		return ""
	case f.Default == "" && f.Presence:
		return "false"
	}
	return f.Default
}

// matches tells whether a value fits a pattern: a range ("0.80..0.90", ">=0.9"),
// a number, or text with * and ?, without regard to case. A KV cache type fits
// under each of its spellings.
func matches(pattern, value string) bool {
	if lim, isRange, err := parseRange(pattern); isRange {
		n, numErr := strconv.ParseFloat(value, 64)
		return err == nil && numErr == nil && lim.has(n)
	}
	if p, err := strconv.ParseFloat(pattern, 64); err == nil {
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			return p == v
		}
	}
	pattern, value = strings.ToLower(strings.TrimSpace(pattern)), strings.ToLower(value)
	return glob(pattern, value) || glob(Dtype(pattern), Dtype(value))
}

type limits struct {
	low, high         float64
	hasLow, hasHigh   bool
	openLow, openHigh bool
}

func (l limits) has(v float64) bool {
	const eps = 1e-9 // 0.9 as typed in two ways
	switch {
	case v != v:
		return false
	case l.hasLow && (v < l.low-eps || l.openLow && v <= l.low+eps):
		return false
	case l.hasHigh && (v > l.high+eps || l.openHigh && v >= l.high-eps):
		return false
	}
	return true
}

// parseRange reads "A..B", "A..", "..B", ">A", ">=A", "<B" and "<=B"; ok is false
// for other patterns.
func parseRange(p string) (l limits, ok bool, err error) {
	p = strings.TrimSpace(p)
	num := func(s string) float64 {
		v, e := strconv.ParseFloat(strings.TrimSpace(s), 64)
		if e != nil || v != v {
			err = fmt.Errorf("the range %q needs numbers, e.g. 0.80..0.90 or >=0.9", p)
		}
		return v
	}
	switch {
	case strings.HasPrefix(p, ">"):
		rest, closed := strings.CutPrefix(p[1:], "=")
		l = limits{low: num(rest), hasLow: true, openLow: !closed}
	case strings.HasPrefix(p, "<"):
		rest, closed := strings.CutPrefix(p[1:], "=")
		l = limits{high: num(rest), hasHigh: true, openHigh: !closed}
	default:
		a, b, found := strings.Cut(p, "..")
		if !found || strings.Trim(a+b, "0123456789.+-eE ") != "" {
			return l, false, nil // text such as a path may hold two dots
		}
		if a != "" {
			l.low, l.hasLow = num(a), true
		}
		if b != "" {
			l.high, l.hasHigh = num(b), true
		}
		switch {
		case a == "" && b == "":
			err = fmt.Errorf("the range %q has no end", p)
		case err == nil && l.hasLow && l.hasHigh && l.low > l.high:
			err = fmt.Errorf("the range %q is empty: %v is above %v", p, l.low, l.high)
		}
	}
	return l, true, err
}

// glob matches * (any run) and ? (one character); all else is literal.
func glob(pattern, s string) bool {
	p, t := []rune(pattern), []rune(s)
	i, j, star, mark := 0, 0, -1, 0
	for j < len(t) {
		switch {
		case i < len(p) && p[i] == '*':
			star, mark = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == t[j]):
			i++
			j++
		case star >= 0:
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}

// Dtype is a KV cache type in the spelling of the engines' flags: fp8_e4m3 for
// torch.float8_e4m3fn, bfloat16 for bf16. Others stay as they are, in lower case.
func Dtype(s string) string {
	s = strings.TrimPrefix(strings.ToLower(strings.TrimSpace(s)), "torch.")
	switch {
	case s == "bf16":
		return "bfloat16"
	case s == "half" || s == "fp16":
		return "float16"
	case strings.HasPrefix(s, "float8_"):
		s = "fp8_" + strings.TrimPrefix(s, "float8_")
	case strings.HasPrefix(s, "float4_"):
		s = "fp4_" + strings.TrimPrefix(s, "float4_")
	}
	return strings.TrimSuffix(strings.TrimSuffix(s, "fnuz"), "fn")
}
