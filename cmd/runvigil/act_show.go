package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/launch/forecast"
	"github.com/runvigil/runvigil/metrics"
)

// dryRunJSON is the object of --dry-run --json. What is refused beside guards
// goes to standard error.
type dryRunJSON struct {
	Command       []string               `json:"command"`
	Diff          []launch.Change        `json:"diff"`
	Guards        []guardJSON            `json:"guards"`
	Forecast      forecast.Report        `json:"forecast"`
	Stops         []string               `json:"stops"`
	NotReproduced []string               `json:"not_reproduced"`
	BreakEven     forecast.BreakEvenJSON `json:"break_even"`
}

type guardJSON struct {
	Flag   string `json:"flag"`
	Reason string `json:"reason"`
}

func (a *act) dryRun() error {
	if !a.flags.asJSON {
		a.show()
	} else if err := a.printJSON(); err != nil {
		return err
	}
	if a.plan.Refused() {
		return exitRefused
	}
	return nil
}

func (a *act) printJSON() error {
	p := a.plan
	out := dryRunJSON{
		Command: orEmpty(p.Command), Diff: orEmpty(p.Diff), Guards: []guardJSON{}, Forecast: a.fore.Report(), Stops: orEmpty(p.Stops),
		NotReproduced: orEmpty(p.NotReproduced), BreakEven: a.fore.BreakEven.Report(),
	}
	for _, w := range append(slices.Clone(p.Warnings), a.notes...) {
		out.Forecast.Warnings = append(out.Forecast.Warnings, forecast.WarningJSON{Level: metrics.SeverityWarning.String(), Text: w})
	}
	for _, b := range a.broken {
		out.Guards = append(out.Guards, guardJSON{b.Flag, b.Reason})
	}
	for _, r := range p.Refusals {
		fmt.Fprintf(a.o.io.err, "runvigil: refused (%s): %s: %s\n", r.Code, r.Reason, r.Way)
	}
	enc := json.NewEncoder(a.o.io.out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(out)
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// show prints the plan.
func (a *act) show() {
	p, out := a.plan, a.o.io.out
	section := func(title string, lines []string) {
		if len(lines) == 0 {
			return
		}
		fmt.Fprintln(out, title)
		for _, l := range lines {
			fmt.Fprintln(out, "  "+l)
		}
	}
	var diff []string
	for _, c := range p.Diff {
		diff = append(diff, c.String())
	}
	section("command", []string{strings.Join(p.Command, " ")}[:min(1, len(p.Command))])
	section("changes", diff)
	if !bytes.Equal(a.scriptOld, a.scriptNew) {
		section("the start script is edited, once it serves", strings.Split(strings.TrimSpace(metrics.Mask(changedLines(a.flags.script, a.scriptOld, a.scriptNew))), "\n"))
	}
	if a.draft != nil {
		section("forecast", forecastLines(a.fore))
		told := a.fore.Report()
		section("the forecast rests on", told.Basis)
		section("what is doubtful about it", told.Doubts)
	}
	section("stops", p.Stops)
	section("is not the same", p.NotReproduced)
	section("warnings", append(p.Warnings, a.notes...))
	var refused []string
	for _, r := range p.Refusals {
		refused = append(refused, fmt.Sprintf("%s (%s): %s", r.Reason, r.Code, r.Way))
	}
	section("refused", refused)
}

// forecastLines are a forecast for a terminal.
func forecastLines(f forecast.Forecast) []string {
	var out []string
	for _, w := range append(f.Outcomes, f.Warnings...) {
		out = append(out, w.Level.String()+": "+w.Text)
	}
	line := func(name string, e forecast.Estimate, show func(float64) string, unit string) {
		switch {
		case !e.Known:
			out = append(out, name+": unknown"+dash(e.Doubt))
		case show(e.Low) == show(e.High):
			out = append(out, name+": "+show(e.V)+unit)
		default:
			out = append(out, name+": "+show(e.Low)+" to "+show(e.High)+unit)
		}
	}
	two := func(v float64) string { return fmt.Sprintf("%.2f", v) }
	line("capacity", f.Capacity, metrics.Count, " tokens")
	line("headroom", f.Headroom, two, " GiB on a GPU")
	line("requests that fit", f.Fit, metrics.Count, "")
	line("throughput", f.GenTPS, metrics.Count, " tok/s settled")
	if f.BreakEven.Why != "" {
		out = append(out, "break-even: "+f.BreakEven.Why)
	}
	return out
}

func dash(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}
