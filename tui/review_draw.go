package tui

import (
	"fmt"
	"slices"
	"strings"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/launch/restart"
	"github.com/runvigil/runvigil/metrics"
)

func (v *reviewView) draw(m *Model, a area) {
	v.refresh(m)
	rows := v.lines(m, a.w())
	v.top = max(min(v.top, len(rows)-a.h()), 0)
	drawLines(a, rows, v.top)
}

// lines are the whole review, what decides first.
func (v *reviewView) lines(m *Model, w int) []line {
	var out []line
	if v.failed != "" {
		out = append(out, para(sp("✖", stCrit.bold()), 2, w, "nothing was begun: "+v.failed, stCrit)...)
	}
	if v.lookErr != "" {
		return append(out, para(sp("✖", stCrit.bold()), 2, w, v.lookErr, stCrit)...)
	}
	out = append(out, refusalLines(v.stands(), w)...)
	if v.client != nil {
		return append(out, v.clientLines(w)...)
	}
	if v.seen == nil {
		return append(out, line{sp("○ ", stInfo), sp("the launch is being read back from the node …", stDim)})
	}
	p := &v.plan
	out = append(out, v.checkLines(w)...)
	out = append(out, v.optionLines(w)...)
	out = append(out, nil)
	section := func(title string, rows []line) {
		if len(rows) > 0 {
			out = append(out, heading(title))
			out = append(append(out, rows...), nil)
		}
	}
	if v.end != nil {
		section("what is ended", v.endLines(w))
		return out
	}
	diff := diffLines(p.Diff, w)
	for _, e := range v.edits {
		if e.Kind == launch.TakeArgv {
			diff = append([]line{{sp("the ", stDim), sp(clean(e.String()), stStrong)}}, diff...)
		}
	}
	if v.opt.Op == restart.Restart && len(diff) == 0 {
		diff = []line{{sp("the same flags", stText)}}
	}
	section("what changes", diff)
	if v.draft != nil {
		section("forecast", forecastLines(&v.judged.forecast, v.server(m), w))
	}
	if v.script != nil && v.opt.Op != restart.Stop {
		title := "the start script " + clean(v.script.path)
		switch {
		case v.script.why != "":
		case v.script.chosen:
			title += " is edited, once the new server serves"
		default:
			title += " is left as it is; p writes this into it, once the new server serves"
		}
		section(title, v.script.lines(w))
	}
	section("what is stopped and lost", bullets(p.Stops, w))
	if v.draft != nil && v.of.PID > 0 {
		section("does it pay?", breakEvenLines(&v.judged.forecast, w))
	}
	section("warnings", bullets(p.Warnings, w))
	if v.opt.Op != restart.Stop {
		section("the exact command", commandLines(p, w))
		section("what a restart cannot reproduce", bullets(p.NotReproduced, w))
		section("what the forecast rests on", basisLines(&v.judged.forecast, w))
	}
	return out
}

func bullets(texts []string, w int) []line {
	var out []line
	for _, s := range texts {
		out = append(out, para(sp("-", stDim), 2, w, clean(s), stText)...)
	}
	return out
}

func refusalLines(list []restart.Refusal, w int) []line {
	var out []line
	for _, r := range list {
		out = append(out, para(sp("✖", stCrit.bold()), 2, w, "refused: "+clean(r.Reason), stCrit.bold())...)
		if r.Way != "" {
			out = append(out, para(sp("  →", stDim), 4, w, clean(r.Way), stText)...)
		}
	}
	if len(out) > 0 {
		out = append(out, nil)
	}
	return out
}

// checkLines say what the node itself thinks of the plan.
func (v *reviewView) checkLines(w int) []line {
	var out []line
	switch {
	case v.checking:
		out = []line{{sp("○ ", stInfo), sp("the node is asked what stands against it …", stDim)}}
	case v.checkErr != "":
		out = para(sp("▲", stWarn.bold()), 2, w, "the node could not be asked: "+v.checkErr, stWarn)
	case len(v.stands()) == 0 && v.judged.forecast.Critical():
		out = []line{{sp("▲ ", stWarn.bold()), sp("the node has no objection, the forecast has; ", stText), sp("w", stAccent.bold()), sp(" goes on to the confirmation", stDim)}}
	case len(v.stands()) == 0:
		out = []line{{sp("● ", stOK), sp("the node has no objection; ", stText), sp("w", stAccent.bold()), sp(" goes on to the confirmation", stDim)}}
	}
	for _, n := range v.notes {
		out = append(out, para(sp("i", stInfo), 2, w, clean(n), stDim)...)
	}
	return out
}

// optionLines are the choices with their keys, as many on a line as fit.
func (v *reviewView) optionLines(w int) []line {
	drain := "none"
	if v.opt.Drain > 0 {
		drain = waitText(v.opt.Drain)
	}
	type option struct {
		key, name, value string
		st               style
	}
	client := string(v.opt.Client)
	if v.asks() {
		client = "to be asked"
	}
	var options []option
	if v.stops() {
		options = []option{{"c", "client", client, stStrong}, {"d", "drain", drain, stStrong}, {"t", "SIGKILL after", waitText(v.opt.TermWait), stStrong}}
	}
	if v.stops() && v.opt.Client != restart.ClientKeep {
		options = append(options, option{"a", "abort requests", map[bool]string{true: "yes", false: "no"}[v.opt.Abort], stStrong})
	}
	if v.opt.Op == restart.Restart {
		options = append(options, option{"b", "way back", map[bool]string{true: "by the node itself", false: "by hand (B)"}[v.opt.WayBack], stStrong})
	}
	if v.draft != nil && v.opt.Op != restart.Stop && len(v.plan.Diff) > 0 {
		options = append(options, option{"p", "start script", v.scriptText(), stStrong})
	}
	if v.opt.Override != "" {
		options = append(options, option{"o", "override:", v.opt.Override, stWarn})
	}
	var out []line
	used := w
	for _, o := range options {
		size := textWidth(o.key + " " + o.name + " " + o.value)
		if used+3+size > w {
			out, used = append(out, nil), -3
		}
		l := &out[len(out)-1]
		if used > 0 {
			*l = append(*l, sp("   ", stDim))
		}
		*l = append(*l, sp(o.key, stAccent.bold()), sp(" "+o.name+" ", stDim), sp(o.value, o.st))
		used += 3 + size
	}
	return out
}

func commandLines(p *restart.Plan, w int) []line {
	out := para(sp("$", stDim), 2, w, clean(strings.Join(p.Command, " ")), stText)
	if p.New.Dir != "" {
		out = append(out, para(sp("in", stDim), 4, w, clean(p.New.Dir), stDim)...)
	}
	log := p.Log
	if log == "" {
		log = "a file of its own below the folder of restarts"
	}
	out = append(out, para(sp("log", stDim), 4, w, clean(log), stDim)...)
	if p.ClientCommand != "" {
		out = append(out, para(sp("then", stDim), 5, w, clean(p.ClientCommand), stText)...)
	}
	return out
}

func (v *reviewView) endLines(w int) []line {
	out := []line{{sp(fmt.Sprintf("process %d ", v.end.pid), stStrong), sp(v.end.role, stDim)}}
	out = append(out, para(sp("$", stDim), 2, w, clean(v.end.name), stText)...)
	lost := v.plan.Stops
	if v.end.role == "client" {
		lost = append(slices.Clone(lost), "its requests that are under way are lost; rows that have landed stay")
	}
	return append(out, bullets(lost, w)...)
}

func (v *reviewView) clientLines(w int) []line {
	c := v.client
	text := c.Command
	if text == "" {
		text = strings.Join(c.Argv, " ")
	}
	out := []line{heading("what is started")}
	if text != "" {
		out = append(out, para(sp("$", stDim), 2, w, clean(metrics.Mask(text)), stText)...)
	}
	if c.Dir != "" {
		out = append(out, para(sp("in", stDim), 4, w, clean(c.Dir), stDim)...)
	}
	if c.Log != "" {
		out = append(out, para(sp("log", stDim), 4, w, clean(c.Log), stDim)...)
	}
	out = append(append(out, nil), para(sp("", stDim), 0, w, "It sends requests and appends rows; nothing is stopped.", stDim)...)
	if len(v.against) == 0 {
		out = append(out, line{sp("w", stAccent.bold()), sp(" goes on to the confirmation", stDim)})
	}
	return out
}
