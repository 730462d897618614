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
// "auto", for Judge of launches of the same model on the same node: its own list
// of arguments, and what its log names the KV type.
func Resolved(s *metrics.Server) map[string]string {
	out := map[string]string{}
	if s == nil {
		return out
	}
	cat := flags.For(s.Engine, s.Version)
	line := flags.Parse(cat, s.Argv)
	free := func(name string) bool {
		v, ok := line.Get(name)
		return !ok || isAuto(v)
	}
	for name, v := range s.Flags {
		f, _, known := cat.Lookup("--" + strings.ReplaceAll(name, "_", "-"))
		switch {
		case !known || !free(f.Name) || v == "" || v == "None" || isAuto(v):
		case v == "True" || v == "False":
			out[f.Name] = strings.ToLower(v)
		default:
			out[f.Name] = metrics.MaskValue(f.Name, v)
		}
	}
	if d := Dtype(s.KVDtype); d != "" && !isAuto(d) && free("kv-cache-dtype") {
		out["kv-cache-dtype"] = d
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
		if err := checkRange(p); err != nil {
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

// matches tells whether a value fits a pattern, as metrics.Guard judges it; a KV
// cache type fits under each of its spellings.
func matches(pattern, value string) bool {
	for _, p := range []string{pattern, Dtype(pattern)} {
		for _, v := range []string{value, Dtype(value)} {
			if hit, _ := (metrics.Guard{Deny: []string{p}}).Judge(v); hit {
				return true
			}
		}
	}
	return false
}

// checkRange tells what is wrong with a pattern that is meant as a range: "A..B",
// "A..", "..B", ">A", ">=A", "<B" or "<=B". Other patterns are text.
func checkRange(p string) (err error) {
	p = strings.TrimSpace(p)
	num := func(s string) float64 {
		v, e := strconv.ParseFloat(strings.TrimSpace(s), 64)
		if e != nil || v != v {
			err = fmt.Errorf("the range %q needs numbers, e.g. 0.80..0.90 or >=0.9", p)
		}
		return v
	}
	if p[0] == '<' || p[0] == '>' {
		num(strings.TrimPrefix(p[1:], "="))
		return err
	}
	a, b, found := strings.Cut(p, "..")
	switch {
	case !found || strings.Trim(a+b, "0123456789.+-eE ") != "": // a path may hold two dots
	case a == "" && b == "":
		return fmt.Errorf("the range %q has no end", p)
	case a == "":
		num(b)
	case b == "":
		num(a)
	default:
		if low, high := num(a), num(b); err == nil && low > high {
			return fmt.Errorf("the range %q is empty: %v is above %v", p, low, high)
		}
	}
	return err
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
