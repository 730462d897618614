package metrics

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Dash stands for what is not known.
const Dash = "–"

// Count groups thousands: 1531 → "1,531".
func Count(v float64) string {
	s := strconv.FormatFloat(math.Round(math.Abs(v)), 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if math.Round(v) < 0 {
		return "-" + s
	}
	return s
}

// Short gives at most four digits and a suffix: 4426 → "4.4k", 606 → "606".
func Short(v float64) string {
	a := math.Abs(v)
	switch {
	case a < 10 && a != math.Trunc(a):
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a < 1000:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a < 99_950:
		return strconv.FormatFloat(v/1e3, 'f', 1, 64) + "k"
	case a < 999_500:
		return strconv.FormatFloat(v/1e3, 'f', 0, 64) + "k"
	case a < 1e9:
		return strconv.FormatFloat(v/1e6, 'f', 1, 64) + "M"
	}
	return strconv.FormatFloat(v/1e9, 'f', 1, 64) + "G"
}

// Rate gives a number a minute or a second with three significant digits at
// most: 9.1, 86, 1,317.
func Rate(v float64) string {
	if math.Abs(v) < 99.95 {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return Count(v)
}

// GiB formats a size that is given in bytes: "5.47 GiB", "118 GiB", "1.9 TiB".
func GiB(bytes float64) string {
	g := bytes / (1 << 30)
	switch {
	case math.Abs(g) >= 1024*9.995:
		return Count(g/1024) + " TiB"
	case math.Abs(g) >= 1000:
		return strconv.FormatFloat(g/1024, 'f', 1, 64) + " TiB"
	case math.Abs(g) >= 99.95:
		return Count(g) + " GiB"
	case math.Abs(g) >= 9.995:
		return strconv.FormatFloat(g, 'f', 1, 64) + " GiB"
	}
	return strconv.FormatFloat(g, 'f', 2, 64) + " GiB"
}

// Bytes formats a file's size: "812 B", "4.1 kB", "3.2 MB", "1.4 GB" (powers of ten).
func Bytes(v float64) string {
	units := []string{"B", "kB", "MB", "GB", "TB", "PB"}
	i := 0
	for i < len(units)-1 && math.Abs(v) >= 999.5 {
		v /= 1000
		i++
	}
	if i == 0 || math.Abs(v) >= 99.95 {
		return strconv.FormatFloat(v, 'f', 0, 64) + " " + units[i]
	}
	return strconv.FormatFloat(v, 'f', 1, 64) + " " + units[i]
}

// Percent formats a share of 1: 0.874 → "87 %"; below ten percent one decimal.
func Percent(share float64) string {
	p := share * 100
	if p != 0 && math.Abs(p) < 9.95 {
		return strconv.FormatFloat(p, 'f', 1, 64) + " %"
	}
	return strconv.FormatFloat(p, 'f', 0, 64) + " %"
}

// Age formats a span as people say it: "4 s", "19 m", "3 h 12 m", "5 d 2 h".
func Age(d time.Duration) string {
	s := int64(max(d, 0) / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return fmt.Sprintf("%d m", s/60)
	case s < 86400:
		if m := s % 3600 / 60; m != 0 {
			return fmt.Sprintf("%d h %d m", s/3600, m)
		}
		return fmt.Sprintf("%d h", s/3600)
	}
	if h := s % 86400 / 3600; h != 0 {
		return fmt.Sprintf("%d d %d h", s/86400, h)
	}
	return fmt.Sprintf("%d d", s/86400)
}

// Clock formats a moment of the local clock as it was on the node's wall.
func (s *Snapshot) Clock(t time.Time) string {
	if t.IsZero() {
		return Dash
	}
	return Clock(t.Add(s.NodeClock), s.At.Add(s.NodeClock), s.ZoneSec, s.Zone)
}

// Clock formats a moment on the node's wall: the time today, the weekday within
// a week, else the date.
func Clock(t, now time.Time, zoneSec int, zone string) string {
	if t.IsZero() {
		return Dash
	}
	loc := time.FixedZone(zone, zoneSec)
	t, now = t.In(loc), now.In(loc)
	days := t.Sub(now).Hours() / 24
	switch {
	case t.Format(time.DateOnly) == now.Format(time.DateOnly):
		return t.Format("15:04")
	case days > -6 && days < 6:
		return t.Format("Mon 15:04")
	}
	return strings.TrimLeft(t.Format("_2 Jan 15:04"), " ")
}

// FigureText formats a known figure with f, an unknown one as a dash.
func FigureText(x Figure, f func(float64) string) string {
	if !x.Known {
		return Dash
	}
	return f(x.V)
}
