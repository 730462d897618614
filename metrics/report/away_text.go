package report

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// Markdown writes the report for a person, as Markdown.
func (a Away) Markdown() string { return a.write("## ", "- ", "```\n") }

// Text writes the report for a terminal.
func (a Away) Text() string { return a.write("", "  ", "") }

func (a Away) write(head, item, fence string) string {
	var b strings.Builder
	title := func(s string) {
		if head == "" {
			s = strings.ToUpper(s)
		}
		fmt.Fprintf(&b, "\n%s%s\n", head, s)
		if head != "" {
			b.WriteByte('\n')
		}
	}
	line := func(format string, args ...any) { fmt.Fprintf(&b, item+format+"\n", args...) }
	if head != "" {
		b.WriteString("# ")
	}
	fmt.Fprintf(&b, "%s: %s to %s (%s)\n\n", plain(a.Node), a.clock(a.From), a.clock(a.To), metrics.Age(a.To.Sub(a.From)))
	fmt.Fprintf(&b, "%s: %s\n", a.Verdict, plain(a.Summary))

	title("What to do now")
	for _, s := range a.Now {
		line("%s", plain(s))
	}
	if len(a.Now) == 0 {
		line("nothing")
	}
	a.rowsText(title, line)
	if g := a.graph(); g != "" {
		title("tok/s")
		b.WriteString(fence + g + fence)
	}
	title("Starts")
	for _, s := range a.Starts {
		line("%s", plain(s.text(a)))
	}
	if len(a.Starts) == 0 {
		line("none")
	}
	title("Findings")
	for _, f := range a.Findings {
		until := "still"
		if f.Cleared != nil {
			until = "to " + a.clock(*f.Cleared)
		}
		line("%s %s, %s: %s (%s)", a.clock(f.Since), until, f.Severity, plain(f.Title), f.ID)
	}
	if len(a.Findings) == 0 {
		line("none")
	}
	title("Incidents")
	for _, e := range a.Incidents {
		line("%s %s: %s", a.clock(e.At), e.Kind, plain(e.Text))
	}
	if len(a.Incidents) == 0 {
		line("none")
	}
	return b.String()
}

func (a Away) rowsText(title func(string), line func(string, ...any)) {
	title("Yield")
	hours := ""
	if y := a.Yield; y.Tokens != nil && y.HoursOf < a.To.Sub(a.From).Hours()*0.98 {
		known := time.Duration(y.HoursOf * float64(time.Hour)).Round(time.Minute)
		hours = fmt.Sprintf(" in the %s for which tok/s is known", metrics.Age(max(known, time.Minute)))
	}
	line("tokens generated: %s%s", text(a.Yield.Tokens, metrics.Short), hours)
	since := ""
	if t := a.Yield.RequestsSince; t != nil {
		since = " since " + a.clock(*t)
	}
	line("requests finished: %s%s", text(a.Yield.Requests, metrics.Count), since)
	since = ""
	if t := a.Yield.RowsSince; t != nil && a.Yield.Rows != nil && t.Sub(a.From) > time.Minute {
		since = " since " + a.clock(*t)
	}
	line("rows landed: %s%s", text(a.Yield.Rows, metrics.Count), since)
	title("Rows")
	total := fmt.Sprintf("job: %s", text(a.Rows.Rows, metrics.Count))
	if a.Rows.Target != nil {
		total += " of " + metrics.Count(float64(*a.Rows.Target))
	}
	if a.Rows.ETAS != nil {
		total += ", done about " + a.clock(a.To.Add(time.Duration(*a.Rows.ETAS*float64(time.Second))))
	}
	line("%s", total)
	for _, d := range a.Rows.Datasets {
		s := fmt.Sprintf("%s: %s", plain(d.Name), text(d.Rows, metrics.Count))
		if d.Target != nil {
			s += " of " + metrics.Count(float64(*d.Target))
		}
		s += ", landed " + text(d.Landed, metrics.Count)
		if d.Since != nil && d.Since.Sub(a.From) > time.Minute {
			s += " since " + a.clock(*d.Since)
		}
		if d.Done != nil {
			s += ", done " + a.clock(*d.Done)
		}
		line("%s", s)
	}
}

func (s AwayStart) text(a Away) string {
	out := fmt.Sprintf("#%d %s %s: %s", s.No, a.clock(s.At), s.Label, s.Outcome)
	if s.Until != nil {
		out += " at " + a.clock(*s.Until)
	}
	if s.Cause != nil {
		out += " (" + *s.Cause + ")"
	}
	if s.ReadyS != nil {
		out += ", ready after " + metrics.Age(time.Duration(*s.ReadyS*float64(time.Second)))
	}
	switch {
	case s.Settled != nil:
		out += ", settled at " + metrics.Count(*s.Settled)
		if s.Spread != nil {
			out += " ± " + metrics.Rate(*s.Spread)
		}
		out += " tok/s"
	case s.Peak != nil:
		out += ", never settled"
	}
	if s.Peak != nil {
		out += ", peak " + metrics.Count(*s.Peak)
	}
	if s.Running != nil {
		out += fmt.Sprintf(", %s running + %s queued", metrics.Count(*s.Running), text(s.Queued, metrics.Count))
	}
	if s.Headroom != nil {
		out += fmt.Sprintf(", %.2f GiB free after capture", *s.Headroom)
	}
	if s.RowsPerMin != nil {
		out += ", " + metrics.Rate(*s.RowsPerMin) + " rows/min"
	}
	return out
}

const graphRows = 8

// graph draws tok/s over the span with plain letters, "" where nothing is known.
func (a Away) graph() string {
	top := 0.0
	known := false
	for _, v := range a.GenTPS {
		if v != nil {
			known, top = true, max(top, *v)
		}
	}
	if !known {
		return ""
	}
	top = max(top, 1)
	var b strings.Builder
	for r := graphRows; r >= 1; r-- {
		fmt.Fprintf(&b, "%6s |", metrics.Short(math.Round(top*float64(r)/graphRows)))
		row := make([]byte, 0, graphParts)
		for _, v := range a.GenTPS {
			switch {
			case v == nil:
				row = append(row, ' ')
			case *v >= top*(float64(r)-0.5)/graphRows:
				row = append(row, '#')
			case r == 1:
				row = append(row, '_')
			default:
				row = append(row, ' ')
			}
		}
		b.WriteString(strings.TrimRight(string(row), " ") + "\n")
	}
	b.WriteString("       +" + strings.Repeat("-", graphParts) + "\n")
	from, to := a.clock(a.GenFrom), a.clock(a.To)
	fmt.Fprintf(&b, "        %s%s%s\n", from, strings.Repeat(" ", max(1, graphParts-len(from)-len(to))), to)
	return b.String()
}

// clock is a moment on the node's wall.
func (a Away) clock(t time.Time) string {
	zone := a.zone
	if zone == nil {
		zone = time.UTC
	}
	t = t.In(zone)
	if a.To.In(zone).Format(time.DateOnly) == t.Format(time.DateOnly) {
		return t.Format("15:04")
	}
	return t.Format("2 Jan 15:04")
}

func text(v *float64, f func(float64) string) string {
	if v == nil {
		return metrics.Dash
	}
	return f(*v)
}

// plain keeps text of the node from ending a line or a fence of the report.
func plain(s string) string {
	return strings.ReplaceAll(metrics.Clean(s, 400), "```", "'''")
}
