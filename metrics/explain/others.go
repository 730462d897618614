package explain

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/clientlog"
	"github.com/runvigil/runvigil/metrics/jsonl"
	"github.com/runvigil/runvigil/metrics/k8s"
	"github.com/runvigil/runvigil/metrics/kernel"
)

// kernelLog reads dmesg, journalctl -k or syslog.
func (r *Report) kernelLog(data []byte, rest io.Reader) error {
	var p kernel.Parser
	var s kernel.State
	err := stream(data, rest, func(b []byte) { p.Feed(b, s.Apply) })
	p.Flush(s.Apply)
	for _, f := range s.Faults() {
		detail := f.Detail()
		if f.Every > 0 {
			detail += fmt.Sprintf(" (every %.0f s)", f.Every)
		}
		subject := f.Bus
		if subject == "" && f.GPU >= 0 && f.Kind == kernel.KindGSP {
			subject = fmt.Sprintf("GPU%d", f.GPU)
		}
		r.cause(f.Class, detail, subject, f.Line, f.Primary)
		if f.Class == "" {
			r.note(detail)
		}
		if f.Primary {
			r.advise(f.Advice())
		}
	}
	if n := s.Tasks(); n > 0 {
		r.note(fmt.Sprintf("%d rows of the OOM killer's table of tasks", n))
	}
	return err
}

// clientLog reads the log of whoever sends requests.
func (r *Report) clientLog(data []byte, rest io.Reader) error {
	var s clientlog.State
	err := stream(data, rest, s.Feed)
	s.Flush()
	if bar, ok := s.Progress(); ok {
		r.Progress.Done = whole(bar.Done)
		if bar.Total > 0 {
			r.Progress.Total = whole(bar.Total)
		}
		r.Phase = str(bar.Label)
		if bar.PerSecond > 0 {
			r.note(fmt.Sprintf("%.4g items a second", bar.PerSecond))
		}
	}
	for _, f := range s.Faults() {
		detail := f.Detail
		if f.Where != "" && !strings.Contains(detail, f.Where) {
			detail += " (" + f.Where + ")"
		}
		if f.Count > 1 {
			detail += fmt.Sprintf(" (%d lines)", f.Count)
		}
		r.cause(f.Class, detail, "", f.Line, f.Primary)
		if f.Primary {
			info, _ := f.Class.Info()
			r.advise(info.Advice)
		}
	}
	if s.OnlyHeader() {
		r.sign("client-log-silent", metrics.SeverityInfo, metrics.CauseClientBuffered, "the log has nothing but nohup's first line",
			"the client has just begun, or its output is held back in its own buffer: the log alone cannot tell", 1)
	}
	if q := s.Retry(); q.Lines > 0 {
		r.note(fmt.Sprintf("backs off: attempt %s, try %s of %s, sleeps %.0f s (%d lines)", count1(q.Attempt), count1(q.Try), count1(q.Of), max(q.SleepS, 0), q.Lines))
	}
	if n := s.Unreachable(); n > 0 {
		r.note(fmt.Sprintf("%d lines say that the server cannot be reached", n))
	}
	if t := s.TimeoutS(); t >= 0 {
		r.note(fmt.Sprintf("its requests time out after %.0f s", t))
	}
	if done := s.Finished(); done != "" {
		r.note("it says that it is done: " + done)
	}
	if last := s.Last(); last != "" {
		r.note("last line: " + last)
	}
	return err
}

func count1(n int) string {
	if n < 0 {
		return metrics.Dash
	}
	return fmt.Sprint(n)
}

// rows tells what a file of rows says.
func (r *Report) rows(f *jsonl.File) {
	r.Rows, r.Duplicates = whole(f.Rows), whole(f.Duplicates)
	torn := f.Torn
	r.TornTail = &torn
	add := func(on bool, class metrics.Cause, title string, severity metrics.Severity) {
		if on {
			r.sign(string(class), severity, class, title, "", 0)
		}
	}
	add(f.NULs > 0, metrics.CauseRowsNUL, fmt.Sprintf("%d NUL bytes among the rows", f.NULs), metrics.SeverityWarning)
	add(f.Torn, metrics.CauseRowsTorn, "the last row is cut", metrics.SeverityInfo)
	add(f.Duplicates > 0, metrics.CauseRowsDuplicate, fmt.Sprintf("%d rows repeat one before", f.Duplicates), metrics.SeverityWarning)
	if f.LastID != "" {
		r.note("last whole row has id " + f.LastID)
	}
	for _, n := range []struct {
		v    int64
		text string
	}{
		{f.Invalid, "rows are not valid JSON"}, {f.Empty, "rows have an empty output"}, {f.Errors, "rows are errors"},
		{f.Truncated, "rows ended at the length limit"}, {f.Glued, "lines hold a row and the start of another"},
	} {
		if n.v > 0 {
			r.note(fmt.Sprintf("%d %s", n.v, n.text))
		}
	}
	if f.Median >= 0 {
		unit := "characters"
		if f.InTokens {
			unit = "tokens"
		}
		r.note(fmt.Sprintf("output length: median %d, 95th percentile %d %s", f.Median, f.P95, unit))
	}
	if f.Indented {
		r.note("indented JSON, not one row a line")
	}
}

// kube reads what kubectl prints about pods.
func (r *Report) kube(data []byte) {
	if body := bytes.TrimSpace(data); len(body) > 0 && body[0] == '{' {
		data = asYAML(body)
	}
	k := k8s.Parse(data)
	for i := range k.Pods {
		p := &k.Pods[i]
		line := "pod " + p.Name
		if p.Status != "" {
			line += ": " + p.Status
		}
		if p.Ready != "" {
			line += ", ready " + p.Ready
		}
		if p.Restarts >= 0 {
			line += fmt.Sprintf(", %d restarts", p.Restarts)
		}
		r.note(line)
		for j := range p.Containers {
			c := &p.Containers[j]
			line := "container " + c.Name
			if c.Port > 0 {
				line += fmt.Sprintf(", port %d", c.Port)
			}
			if c.Restarts >= 0 {
				line += fmt.Sprintf(", %d restarts", c.Restarts)
			}
			for _, run := range []struct {
				name string
				r    k8s.Run
			}{{"now", c.Now}, {"last", c.Last}} {
				if run.r.State == "" && run.r.Exit < 0 {
					continue
				}
				line += fmt.Sprintf("; %s: %s", run.name, run.r.State)
				if run.r.Reason != "" {
					line += " " + run.r.Reason
				}
				if run.r.Exit >= 0 {
					line += fmt.Sprintf(" exit code %d", run.r.Exit)
				}
			}
			r.note(line)
		}
	}
	for _, f := range k.Faults() {
		r.cause(f.Class, f.Detail, f.Subject, f.Line, f.Primary)
		if f.Primary {
			r.advise(f.Advice())
		}
	}
}
