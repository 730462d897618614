package findings

import (
	"fmt"
	"strings"
	"sync"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/flags"
)

var guardBroken = Detector{
	ID:    "guard-broken",
	Means: "The running server breaks a rule of the data's owner about a flag. What it makes may have to be thrown away.",
	Needs: "a guard in the configuration or beside the data, and the server's effective settings",
	When:  "The effective value (the engine's own server_args, the KV type that its log names, else the command line or the flag's default) is denied, or is not allowed.",
	Do:    "Restart with an allowed value; ask the owner about the rows that were made meanwhile.",
	Check: func(in *Input, out *Output) {
		for _, v := range in.working() {
			for _, g := range in.Snap.Guards {
				values, from := effective(v, g.Flag)
				if len(values) == 0 {
					out.CannotTell("whether the guard on "+g.Flag+" holds", "its effective value is not known", "the start-up section of the server's log")
					continue
				}
				broken, reason := judgeAll(g, values)
				if !broken {
					continue
				}
				c := Condition{
					Subject: v.ID + " " + g.Flag, Severity: metrics.SeverityCritical, Since: v.Started, Log: metrics.LogPlace{Path: v.Log.Path},
					Title:    fmt.Sprintf("guard broken: %s", reason),
					Why:      g.Why,
					Evidence: []metrics.Evidence{{Text: g.Flag + " = " + strings.Join(values, ", that is "), Source: from, At: v.Started}, {Text: "the owner's reason: " + g.Why, Source: "guards of the " + orNode(g.From), At: v.Started}},
					Advice:   guardAdvice(g),
				}
				if in.Snap.Job.Landed.Known && in.Snap.Job.Landed.V > 0 {
					c.Evidence = append(c.Evidence, figureEvidence(metrics.Count(in.Snap.Job.Landed.V)+" rows landed meanwhile", in.Snap.Job.Landed))
				}
				out.Raise(c)
			}
		}
	},
}

func orNode(from string) string {
	if from == "" {
		return "configuration"
	}
	return from
}

func guardAdvice(g metrics.Guard) string {
	out := "restart with "
	if len(g.Allow) > 0 {
		out += "--" + g.Flag + " " + g.Allow[0]
		if len(g.Allow) > 1 {
			out += " (or " + strings.Join(g.Allow[1:], ", ") + ")"
		}
	} else {
		out += "another value of --" + g.Flag + " than " + strings.Join(g.Deny, ", ")
	}
	return out + ", and ask the owner about the rows that were made meanwhile"
}

var catalogues = map[string]func() *flags.Catalogue{
	"sglang": sync.OnceValue(func() *flags.Catalogue { return flags.For("sglang", "") }),
	"vllm":   sync.OnceValue(func() *flags.Catalogue { return flags.For("vllm", "") }),
}

// judgeAll judges a setting that has several names (a KV type by its flag and by
// its dtype): one that is denied breaks the guard, one that is allowed keeps it.
func judgeAll(g metrics.Guard, values []string) (broken bool, reason string) {
	for _, v := range values {
		if broken, reason = (metrics.Guard{Flag: g.Flag, Deny: g.Deny}).Judge(v); broken {
			return broken, reason
		}
	}
	for _, v := range values {
		if broken, reason = (metrics.Guard{Flag: g.Flag, Allow: g.Allow}).Judge(v); !broken {
			return false, ""
		}
	}
	return broken, reason
}

// effective gives the names of a flag's value in force and where it was read;
// none where it is not known.
func effective(v *metrics.Server, flag string) (values []string, from string) {
	flag = strings.ReplaceAll(strings.TrimLeft(flag, "-"), "_", "-")
	set, from := flagInForce(v, flag)
	if flag != "kv-cache-dtype" || v.KVDtype == "" {
		if set == "" {
			return nil, ""
		}
		return []string{set}, from
	}
	values = append(values, kvType(v.KVDtype))
	if v.KVDtype != values[0] {
		values = append(values, v.KVDtype)
	}
	if set != "" && set != values[0] && set != v.KVDtype {
		values = append(values, set)
	}
	return values, "KV cache line of the log"
}

// kvType is a dtype in the words of the flag.
func kvType(dtype string) string {
	switch {
	case strings.HasPrefix(dtype, "float8_e4m3"):
		return "fp8_e4m3"
	case strings.HasPrefix(dtype, "float8_e5m2"):
		return "fp8_e5m2"
	case dtype == "bfloat16":
		return "bf16"
	case dtype == "float16":
		return "fp16"
	}
	return dtype
}

// flagInForce is a flag's value by the engine's own list of arguments, else by
// the command line, else its default where that is fixed; "" unknown.
func flagInForce(v *metrics.Server, flag string) (value, from string) {
	word := func(s string) string {
		switch s {
		case "True":
			return "true"
		case "False":
			return "false"
		}
		return s
	}
	if s := v.Flags[strings.ReplaceAll(flag, "-", "_")]; s != "" {
		return word(s), "server_args in the log"
	}
	load := catalogues[v.Engine]
	if len(v.Argv) == 0 || load == nil {
		return flagValue(v.Argv, "--"+flag), "command line"
	}
	cat := load()
	if s, set := flags.Parse(cat, v.Argv).Get(flag); set {
		return word(s), "command line"
	}
	f, _, found := cat.Lookup("--" + flag)
	switch {
	case !found || f.Auto && f.Default == "":
		return "", ""
	case f.Kind == flags.Bool && f.Default == "":
		return "false", "default"
	}
	return word(f.Default), "default"
}
