// Package flags knows the flags of the engines' servers and reads their command
// lines: aliases, abbreviations, `--flag=value`, last one wins.
package flags

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed sglang.json
var sglangJSON []byte

//go:embed vllm.json
var vllmJSON []byte

// Kind is what a flag takes.
type Kind string

// The kinds of flags.
const (
	Bool   Kind = "bool"
	Int    Kind = "int"
	Float  Kind = "float"
	String Kind = "string"
	Choice Kind = "choice"
)

// Flag is one flag of a server.
type Flag struct {
	Name    string   `json:"name"` // without dashes
	Kind    Kind     `json:"kind"`
	Aliases []string `json:"aliases"` // with dashes, long and short
	// Default is the value where the flag is absent; "" with Auto: decided at start-up.
	Default       string   `json:"default"`
	Default059    string   `json:"default_0_5_9"`
	Auto          bool     `json:"auto"`
	Choices       []string `json:"choices"`
	Choices059    []string `json:"choices_0_5_9"`
	Group         string   `json:"group"`
	Help          string   `json:"help"`
	Tuning        bool     `json:"tuning"` // matters for throughput and memory
	Required      bool     `json:"required"`
	Presence      bool     `json:"presence"`       // takes no value
	Negatable     bool     `json:"negatable"`      // --no-NAME exists
	OptionalValue bool     `json:"optional_value"` // may stand alone
	List          bool     `json:"list"`           // takes several values
	Nullable      bool     `json:"nullable"`
	JSON          bool     `json:"json"` // a JSON value, or dotted keys
	Suffix        bool     `json:"accepts_suffix"`
	Format        string   `json:"format"`
	Since         string   `json:"since"`
	Deprecated    bool     `json:"deprecated"`
	ReplacedBy    string   `json:"replaced_by"`
	LastSeen      string   `json:"last_seen"` // removed after this release
	In059         bool     `json:"in_0_5_9"`
}

// Catalogue is the flags of one engine in one version.
type Catalogue struct {
	Engine string
	flags  []Flag
	byName map[string]int // long names and aliases, without dashes for long ones
	names  []string       // keys of byName, sorted
}

// made keeps the catalogues that were asked for: they do not change, and a
// command line is read many times.
var made sync.Map // of [2]string{engine, version} to *Catalogue

var parsed = sync.OnceValues(func() (map[string][]Flag, error) {
	out := map[string][]Flag{}
	for engine, data := range map[string][]byte{"sglang": sglangJSON, "vllm": vllmJSON} {
		var fs []Flag
		if err := json.Unmarshal(data, &fs); err != nil {
			return nil, fmt.Errorf("flag catalogue of %s: %w", engine, err)
		}
		out[engine] = fs
	}
	return out, nil
})

// For gives the catalogue of an engine. With a version ("0.5.9"; "" for the
// newest that is known) flags that the version does not have are left out. An
// engine that is not known has an empty catalogue: all its flags are edited as
// text.
func For(engine, version string) *Catalogue {
	key := [2]string{engine, version}
	if c, ok := made.Load(key); ok {
		return c.(*Catalogue)
	}
	c := build(engine, version)
	if len(c.flags) > 0 {
		made.Store(key, c)
	}
	return c
}

func build(engine, version string) *Catalogue {
	all, err := parsed()
	if err != nil {
		panic(err) // the embedded files are tested
	}
	c := &Catalogue{Engine: engine, byName: map[string]int{}}
	for _, f := range all[engine] {
		if engine == "sglang" && !f.fits(version) {
			continue
		}
		if engine == "sglang" && version != "" && compare(version, "0.5.9") <= 0 {
			if f.Default059 != "" {
				f.Default = f.Default059
			}
			if f.Choices059 != nil {
				f.Choices = f.Choices059
			}
		}
		c.flags = append(c.flags, f)
	}
	for i, f := range c.flags {
		c.byName[f.Name] = i
		for _, a := range f.Aliases {
			c.byName[strings.TrimPrefix(a, "--")] = i
		}
	}
	c.names = slices.Sorted(maps.Keys(c.byName))
	return c
}

// fits tells whether a version has the flag.
func (f Flag) fits(version string) bool {
	if version == "" {
		return f.LastSeen == ""
	}
	since := strings.TrimLeft(f.Since, "<=v")
	if f.LastSeen != "" && compare(version, strings.TrimPrefix(f.LastSeen, "v")) > 0 {
		return false
	}
	if compare(version, "0.5.9") == 0 {
		return f.In059
	}
	return since == "" || since == "main" && compare(version, "0.5.18") > 0 || since != "main" && compare(version, since) >= 0
}

// compare orders versions by their leading numbers: -1, 0 or 1.
func compare(a, b string) int {
	return slices.Compare(numbers(a), numbers(b))
}

func numbers(v string) []int {
	var out []int
	for part := range strings.SplitSeq(strings.TrimPrefix(v, "v"), ".") {
		digits := strings.TrimRight(part, "abcdefghijklmnopqrstuvwxyz+-_")
		n, err := strconv.Atoi(digits)
		if err != nil {
			break
		}
		out = append(out, n)
	}
	return out
}

// knobs are what is turned first when a server is tuned, in that order: how much
// memory, how many requests, how large a step, what a token takes.
var knobs = map[string][]string{
	"sglang": {
		"mem-fraction-static", "max-running-requests", "chunked-prefill-size", "schedule-conservativeness", "kv-cache-dtype", "context-length",
		"enable-hierarchical-cache", "hicache-size", "hicache-ratio", "max-prefill-tokens", "max-total-tokens",
		"schedule-policy", "enable-mixed-chunk", "num-continuous-decode-steps", "attention-backend", "speculative-algorithm", "tp-size", "dp-size",
	},
	"vllm": {
		"gpu-memory-utilization", "max-num-seqs", "max-num-batched-tokens", "max-model-len", "kv-cache-dtype", "enable-prefix-caching",
		"enable-chunked-prefill", "async-scheduling", "scheduling-policy", "cpu-offload-gb", "enforce-eager", "speculative-config",
		"tensor-parallel-size", "data-parallel-size",
	},
}

// Flags lists the catalogue: what is tuned first, the other flags that matter for
// tuning, then all others by group and name. Deprecated ones come last.
func (c *Catalogue) Flags() []Flag {
	out := slices.Clone(c.flags)
	first := knobs[c.Engine]
	turn := func(f Flag) int {
		if i := slices.Index(first, f.Name); i >= 0 {
			return i
		}
		return len(first)
	}
	rank := func(f Flag) int {
		switch {
		case f.Deprecated:
			return 2
		case f.Tuning:
			return 0
		}
		return 1
	}
	slices.SortStableFunc(out, func(a, b Flag) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		if d := turn(a) - turn(b); d != 0 {
			return d
		}
		if d := strings.Compare(a.Group, b.Group); d != 0 {
			return d
		}
		return strings.Compare(a.Name, b.Name)
	})
	return out
}

// Lookup finds the flag that a word of a command line means: a name, an alias, a
// negation, underscores for dashes (vLLM), or an abbreviation that is the
// beginning of exactly one name, as argparse allows. negated is true for --no-NAME.
func (c *Catalogue) Lookup(word string) (f Flag, negated, ok bool) {
	long, isLong := strings.CutPrefix(word, "--")
	if !isLong {
		i, ok := c.byName[word]
		if !ok {
			return Flag{}, false, false
		}
		return c.flags[i], false, true
	}
	if c.Engine == "vllm" {
		long, _, _ = strings.Cut(long, ".") // dotted keys of a JSON value
		long = strings.ReplaceAll(long, "_", "-")
	}
	if i, ok := c.byName[long]; ok {
		return c.flags[i], false, true
	}
	if pos, cut := strings.CutPrefix(long, "no-"); cut {
		if i, ok := c.byName[pos]; ok && c.flags[i].Negatable {
			return c.flags[i], true, true
		}
	}
	if long == "" {
		return Flag{}, false, false
	}
	hit := -1
	at, _ := slices.BinarySearch(c.names, long)
	for _, name := range c.names[at:] {
		if !strings.HasPrefix(name, long) {
			break
		}
		if strings.HasPrefix(name, "-") {
			continue
		}
		if hit >= 0 && hit != c.byName[name] {
			return Flag{}, false, false // ambiguous: argparse refuses it too
		}
		hit = c.byName[name]
	}
	if hit < 0 {
		return Flag{}, false, false
	}
	return c.flags[hit], false, true
}

// Check tells why a value does not fit the flag, nil if it does.
func (f Flag) Check(value string) error {
	if f.Nullable && (value == "" || strings.EqualFold(value, "none")) {
		return nil
	}
	switch {
	case f.Presence || f.Kind == Bool && !f.OptionalValue:
		if value != "true" && value != "false" {
			return fmt.Errorf("--%s takes no value: it is there or not", f.Name)
		}
		return nil
	case value == "" && f.OptionalValue:
		return nil
	case value == "":
		return fmt.Errorf("--%s needs a value", f.Name)
	}
	values := []string{value}
	if f.List {
		values = strings.Fields(value)
	}
	for _, v := range values {
		if err := f.checkOne(v); err != nil {
			return err
		}
	}
	return nil
}

func (f Flag) checkOne(v string) error {
	switch f.Kind {
	case Int:
		if _, err := strconv.ParseInt(v, 10, 64); err == nil || f.suffixed(v) {
			return nil
		}
		return fmt.Errorf("--%s is %q; it takes a whole number", f.Name, v)
	case Float:
		n, err := strconv.ParseFloat(v, 64)
		if err != nil {
			return fmt.Errorf("--%s is %q; it takes a number", f.Name, v)
		}
		if f.isShare() && (n <= 0 || n >= 1) && !(f.Name == "gpu-memory-utilization" && n == 1) {
			return fmt.Errorf("--%s is %s; it is a share above 0 and below 1", f.Name, v)
		}
	case Choice:
		if len(f.Choices) > 0 && !slices.Contains(f.Choices, v) {
			return fmt.Errorf("--%s is %q; it may be %s", f.Name, v, strings.Join(f.Choices, ", "))
		}
	case String, Bool:
		if f.JSON && strings.HasPrefix(strings.TrimSpace(v), "{") && !json.Valid([]byte(v)) {
			return fmt.Errorf("--%s is no valid JSON", f.Name)
		}
	}
	return nil
}

// isShare names the flags whose value is a share of GPU memory.
func (f Flag) isShare() bool {
	return f.Name == "mem-fraction-static" || f.Name == "gpu-memory-utilization"
}

// suffixed tells whether v is a number with a unit that the flag accepts.
func (f Flag) suffixed(v string) bool {
	if !f.Suffix && !strings.Contains(f.Format, "suffix") {
		return strings.Contains(f.Format, "auto") && v == "auto"
	}
	if v == "auto" {
		return strings.Contains(f.Format, "auto")
	}
	_, err := strconv.ParseFloat(strings.TrimRight(v, "kKmMgGtTiB"), 64)
	return err == nil
}
