package tui

import (
	"fmt"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// A pen formats what a snapshot says, as of the snapshot's own moment: no
// figure on screen is made in another way.
type pen struct {
	s     *metrics.Snapshot
	ascii bool
}

func (p pen) now() time.Time { return p.s.At }

// fig is a figure in w cells, right-aligned: – where unknown, grey where old.
func (p pen) fig(f metrics.Figure, format func(float64) string, w int, st style) span {
	text := metrics.FigureText(f, format)
	switch {
	case !f.Known:
		st = stDim
	case f.Stale(p.now()):
		st = stStale
	}
	if w > 0 {
		text = padLeft(text, w)
	}
	return sp(text, st)
}

// style is st for a figure that is fresh.
func (p pen) style(f metrics.Figure, st style) style {
	switch {
	case !f.Known:
		return stDim
	case f.Stale(p.now()):
		return stStale
	}
	return st
}

// old gives the age of the oldest stale figure, "" where all are fresh.
func (p pen) old(figs ...metrics.Figure) string {
	var worst time.Duration
	for _, f := range figs {
		if f.Stale(p.now()) {
			worst = max(worst, p.now().Sub(f.At))
		}
	}
	if worst == 0 {
		return ""
	}
	return metrics.Age(worst) + " old"
}

// clock is a moment on the node's wall.
func (p pen) clock(t time.Time) string {
	return metrics.Clock(t.Add(p.s.NodeClock), p.now().Add(p.s.NodeClock), p.s.ZoneSec, p.s.Zone)
}

// seconds is a moment on the node's wall with seconds.
func (p pen) seconds(t time.Time) string {
	if t.IsZero() {
		return metrics.Dash
	}
	return t.Add(p.s.NodeClock).In(time.FixedZone(p.s.Zone, p.s.ZoneSec)).Format("15:04:05")
}

// day is the day on the node's wall, which dates of the past and of an ETA are
// read against.
func (p pen) day(t time.Time) string {
	return t.Add(p.s.NodeClock).In(time.FixedZone(p.s.Zone, p.s.ZoneSec)).Format("Mon 2 Jan")
}

// ago is relative while young and absolute when old.
func (p pen) ago(t time.Time) string {
	if t.IsZero() {
		return metrics.Dash
	}
	if d := p.now().Sub(t); d < time.Hour {
		return metrics.Age(d)
	}
	return p.clock(t)
}

// recent is ago in at most five cells.
func (p pen) recent(t time.Time) string {
	if d := p.now().Sub(t); t.IsZero() || d < time.Hour {
		return p.ago(t)
	} else if d < 24*time.Hour {
		return fmt.Sprintf("%d h", int(d.Hours()))
	} else {
		return fmt.Sprintf("%d d", int(d.Hours()/24))
	}
}

func (p pen) age(t time.Time) string {
	if t.IsZero() {
		return metrics.Dash
	}
	return metrics.Age(p.now().Sub(t))
}

// eta says when a target is reached, or why that cannot be said yet.
func (p pen) eta(e metrics.ETA) string {
	if !e.Known {
		if e.Held != "" {
			return metrics.Dash + " " + e.Held
		}
		return metrics.Dash
	}
	text := p.clock(e.At)
	if e.At.Sub(p.now()) > 20*time.Hour {
		t := e.At.Add(p.s.NodeClock).In(time.FixedZone(p.s.Zone, p.s.ZoneSec))
		text = strings.TrimLeft(t.Format("Mon _2 Jan 15h"), " ")
		text = strings.Join(strings.Fields(text), " ")
	}
	if e.Spread > 0 {
		text += " ± " + spread(e.Spread)
	}
	return text
}

// inTime is how long it is until an ETA that lies days ahead.
func (p pen) inTime(e metrics.ETA) line {
	if d := e.At.Sub(p.now()); e.Known && d > 20*time.Hour {
		return line{sp(", in "+spread(d), stDim)}
	}
	return nil
}

// etaOnly leaves out why there is none.
func (p pen) etaOnly(e metrics.ETA) string {
	if !e.Known {
		return metrics.Dash
	}
	return p.eta(e)
}

// spread rounds a range to one unit.
func spread(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d d", int(d.Hours()/24+0.5))
	case d >= 90*time.Minute:
		return fmt.Sprintf("%d h", int(d.Hours()+0.5))
	}
	return fmt.Sprintf("%d m", max(int(d.Minutes()+0.5), 1))
}

// took is a duration to the second while it is short enough to compare.
func took(d time.Duration) string {
	if d >= time.Minute && d < time.Hour {
		d = d.Round(time.Second)
		return fmt.Sprintf("%d m %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return metrics.Age(d)
}

func gibOfMiB(v float64) string { return metrics.GiB(v * (1 << 20)) }
func gib(v float64) string      { return metrics.GiB(v * (1 << 30)) }
func whole(v float64) string    { return fmt.Sprintf("%.0f", v) }
func two(v float64) string      { return fmt.Sprintf("%.2f", v) }
func one(v float64) string      { return fmt.Sprintf("%.1f", v) }

// brief is a number in at most five cells.
func brief(v float64) string {
	if v < 9999.5 && v > -999.5 {
		return metrics.Count(v)
	}
	return metrics.Short(v)
}

// briefRate is a rate in at most five cells.
func briefRate(v float64) string {
	if v < 9999.5 {
		return metrics.Rate(v)
	}
	return metrics.Short(v)
}

func watts(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%.1f kW", v/1000)
	}
	return fmt.Sprintf("%.0f W", v)
}

// axis is a value of a graph's axis: short, and without a fraction where it can be.
func axis(v float64) string {
	switch {
	case v >= 10000:
		return metrics.Short(v)
	case v >= 10 || v == float64(int(v)):
		return metrics.Count(v)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.2f", v), "0")
}

var severitySign = map[metrics.Severity]string{
	metrics.SeverityCritical: "✖", metrics.SeverityWarning: "▲", metrics.SeverityInfo: "i", metrics.SeverityNone: "●",
}

func severityStyle(s metrics.Severity) style {
	switch s {
	case metrics.SeverityCritical:
		return stCrit.bold()
	case metrics.SeverityWarning:
		return stWarn.bold()
	case metrics.SeverityInfo:
		return stInfo
	}
	return stOK
}

// verdictLook gives the sign and colour of a verdict's word.
func verdictLook(v metrics.Verdict) (sign string, r role) {
	switch v.Word {
	case "OK":
		return "●", roleOK
	case "WARN":
		return "▲", roleWarn
	case "CRIT":
		return "✖", roleCrit
	case "DOWN":
		return "✖", roleCrit
	case "WAIT":
		return "○", roleInfo
	}
	return "○", roleDim
}

func commas(n int64) string { return metrics.Count(float64(n)) }

func plural(n int, word string) string {
	if n == 1 {
		return fmt.Sprintf("%d %s", n, word)
	}
	return fmt.Sprintf("%d %ss", n, word)
}
