package explain

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/runvigil/runvigil/metrics"
)

// JSON is the report as one line with its newline, so that the objects of
// several files can be told apart.
func (r *Report) JSON() ([]byte, error) {
	out, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return append(out, '\n'), nil
}

// Text is the report for a person. title, usually the file's name, heads it.
func (r *Report) Text(title string) string {
	var b strings.Builder
	head := []string{}
	if title != "" {
		head = append(head, clean(title)+":")
	}
	head = append(head, or(r.Kind, "of no known kind"))
	if r.Engine != nil {
		head = append(head, *r.Engine)
	}
	if r.Version != nil {
		head = append(head, *r.Version)
	}
	b.WriteString(strings.Join(head, " ") + "\n")
	r.levels(&b)
	if len(r.Starts) > 0 && or(r.Kind, "") == string(KindServerLog) {
		r.timeline(&b)
	} else if len(r.Starts) > 0 {
		for _, line := range figureLines(r.Starts[0].Figures) {
			b.WriteString("  " + line + "\n")
		}
	}
	for i := range r.GPUs {
		b.WriteString("  " + r.GPUs[i].line() + "\n")
	}
	section(&b, "causes", r.causeLines())
	var found []string
	for _, f := range r.Findings {
		line := f.Severity + ": " + f.Title
		if f.Why != nil {
			line += " (" + *f.Why + ")"
		}
		found = append(found, line)
		for _, e := range f.Evidence {
			found = append(found, "  "+e)
		}
	}
	section(&b, "findings", found)
	section(&b, "advice", r.Advice)
	section(&b, "notes", r.notes)
	return b.String()
}

func section(b *strings.Builder, name string, lines []string) {
	if len(lines) == 0 {
		return
	}
	b.WriteString(name + "\n")
	for _, l := range lines {
		b.WriteString("  " + l + "\n")
	}
}

func or(s *string, none string) string {
	if s == nil {
		return none
	}
	return *s
}

func show(v *float64) string {
	if v == nil {
		return metrics.Dash
	}
	return strconv.FormatFloat(*v, 'f', -1, 64)
}

// levels are the figures at the end of the file; unknown ones are left out but
// for those that a reader looks for.
func (r *Report) levels(b *strings.Builder) {
	line := []string{}
	if r.State != nil {
		line = append(line, *r.State)
	}
	if r.Phase != nil {
		line = append(line, "phase "+*r.Phase)
	}
	if r.Progress.Done != nil {
		p := fmt.Sprintf("%d", *r.Progress.Done)
		if r.Progress.Total != nil {
			p += fmt.Sprintf(" of %d", *r.Progress.Total)
		}
		line = append(line, p)
	}
	if len(line) > 0 {
		b.WriteString("  " + strings.Join(line, ", ") + "\n")
	}
	line = line[:0]
	queued := "queued"
	if or(r.Engine, "") == "vllm" {
		queued = "waiting"
	}
	if r.Running != nil || r.Queued != nil || r.GenTPS != nil {
		line = append(line, "running "+show(r.Running), queued+" "+show(r.Queued), "generation "+show(r.GenTPS)+" tok/s")
	}
	for _, f := range []struct {
		name, unit string
		v          *float64
	}{
		{"input", " tok/s", r.InputTPS}, {"KV usage", "", r.KVUsage}, {"KV tokens", "", r.KVTokens}, {"capacity", " tokens", r.CapacityTokens},
		{"max running", "", r.MaxRunningRequests}, {"context", " tokens", r.ContextLen}, {"headroom", " GiB", r.HeadroomGiB}, {"accept length", "", r.AcceptLen},
	} {
		if f.v != nil {
			line = append(line, f.name+" "+show(f.v)+f.unit)
		}
	}
	if r.Rows != nil {
		line = append(line, fmt.Sprintf("%d rows", *r.Rows), fmt.Sprintf("%d duplicates", *r.Duplicates), "torn tail "+strconv.FormatBool(*r.TornTail))
	}
	for len(line) > 0 {
		n := min(6, len(line))
		b.WriteString("  " + strings.Join(line[:n], "   ") + "\n")
		line = line[n:]
	}
}

// timeline tells the starts one by one, then compares them in a table.
func (r *Report) timeline(b *strings.Builder) {
	var lines []string
	for i, s := range r.Starts {
		head := fmt.Sprintf("#%d  line %d", i+1, s.Line)
		if s.At != nil {
			head += "  " + *s.At
		}
		head += "  " + s.Outcome
		for _, p := range []*string{s.Version, s.Model} {
			if p != nil {
				head += "  " + *p
			}
		}
		if s.Cause != nil {
			head += "  cause " + *s.Cause
		}
		lines = append(lines, head)
		var took []string
		for _, p := range s.Phases {
			t := p.Name
			if p.Seconds != nil {
				t += " " + show(p.Seconds) + " s"
			}
			took = append(took, t)
		}
		if s.Phase != nil {
			took = append(took, *s.Phase)
		}
		if len(took) > 0 {
			lines = append(lines, "    "+strings.Join(took, " → "))
		}
		for _, l := range figureLines(s.Figures) {
			lines = append(lines, "    "+l)
		}
	}
	section(b, "starts", lines)
	if len(r.Starts) < 2 {
		return
	}
	rows := [][]string{{"#", "at", "ready s", "capacity", "headroom", "peak tok/s", "outcome", "cause"}}
	for i, s := range r.Starts {
		rows = append(rows, []string{strconv.Itoa(i + 1), or(s.At, metrics.Dash), show(s.ReadyS), show(s.Capacity), show(s.Headroom), show(s.PeakTPS), s.Outcome, or(s.Cause, metrics.Dash)})
	}
	section(b, "table of starts", table(rows))
}

func table(rows [][]string) []string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	var out []string
	for _, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			b.WriteString(cell + strings.Repeat(" ", widths[i]-len([]rune(cell))+2))
		}
		out = append(out, strings.TrimRight(b.String(), " "))
	}
	return out
}

func figureLines(f map[string]float64) []string {
	var out []string
	line := ""
	for _, k := range slices.Sorted(maps.Keys(f)) {
		v := f[k]
		cell := k + " " + show(&v)
		if line != "" && len(line)+len(cell) > 100 {
			out = append(out, line)
			line = ""
		}
		if line != "" {
			line += "   "
		}
		line += cell
	}
	if line != "" {
		out = append(out, line)
	}
	return out
}

func (r *Report) causeLines() []string {
	var out []string
	for _, c := range r.Causes {
		line := "  "
		if c.Primary {
			line = "* "
		}
		line += c.Class
		if c.Rank != nil {
			line += " (" + *c.Rank + ")"
		}
		if c.Line != nil {
			line += fmt.Sprintf(" line %d", *c.Line)
		}
		if c.Detail != nil {
			line += ": " + *c.Detail
		}
		out = append(out, line)
	}
	return out
}

func (g *GPU) line() string {
	index := metrics.Dash
	if g.Index != nil {
		index = strconv.Itoa(*g.Index)
	}
	out := fmt.Sprintf("GPU %s %s  %s of %s MiB  %s %%  %s °C  %s of %s W", index, or(g.Name, metrics.Dash), show(g.MemoryUsed), show(g.MemoryTotal),
		show(g.Util), show(g.Temp), show(g.Power), show(g.PowerLimit))
	for _, t := range g.Throttle {
		out += "  " + t
	}
	if g.Lost != nil {
		out += "  LOST: " + *g.Lost
	}
	for _, p := range g.Processes {
		pid := metrics.Dash
		if p.PID != nil {
			pid = strconv.Itoa(*p.PID)
		}
		out += fmt.Sprintf("  [%s %s %s MiB]", pid, or(p.Name, metrics.Dash), show(p.Memory))
	}
	return out
}
