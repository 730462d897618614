package vllm

import (
	"bytes"
	"strconv"
	"time"
)

// Stamp is a time as the log prints it: local, without a zone or a year.
type Stamp struct {
	Known bool
	Year  bool  // the year is known; without it the year is 2000
	Sec   int64 // seconds since 1970 in the log's own zone
}

// Time places the stamp on the time line: in loc, and where the year is missing
// in the last year before ref plus an hour.
func (s Stamp) Time(ref time.Time, loc *time.Location) (t time.Time, ok bool) {
	if !s.Known {
		return time.Time{}, false
	}
	w := time.Unix(s.Sec, 0).UTC()
	ref = ref.In(loc)
	year := w.Year()
	if !s.Year {
		year = ref.Year()
	}
	t = time.Date(year, w.Month(), w.Day(), w.Hour(), w.Minute(), w.Second(), 0, loc)
	if !s.Year && t.After(ref.Add(time.Hour)) {
		t = time.Date(year-1, w.Month(), w.Day(), w.Hour(), w.Minute(), w.Second(), 0, loc)
	}
	return t, true
}

// Sub is s minus t in seconds; across a New Year the shorter way round. ok is
// false where one is unknown.
func (s Stamp) Sub(t Stamp) (seconds float64, ok bool) {
	if !s.Known || !t.Known {
		return 0, false
	}
	d := s.Sec - t.Sec
	const year = 366 * 86400 // 2000 was a leap year
	if !s.Year || !t.Year {
		d %= year
		if d < -year/2 {
			d += year
		} else if d > year/2 {
			d -= year
		}
	}
	return float64(d), true
}

// String prints the stamp as the log does.
func (s Stamp) String() string {
	if !s.Known {
		return ""
	}
	t := time.Unix(s.Sec, 0).UTC()
	if s.Year {
		return t.Format("2006-01-02 15:04:05")
	}
	return t.Format("01-02 15:04:05")
}

// Rank is a worker's place; -1 where the log does not say. Engines (DP) have
// requests of their own, the workers of one engine share them.
type Rank struct{ DP, PP, TP, EP, Global int16 }

// NoRank is the rank of a record without one.
var NoRank = Rank{-1, -1, -1, -1, -1}

// String prints the coordinates, e.g. "DP0 TP1".
func (r Rank) String() string {
	var b []byte
	for _, c := range []struct {
		name string
		n    int16
	}{{"DP", r.DP}, {"PP", r.PP}, {"TP", r.TP}, {"EP", r.EP}, {"rank ", r.Global}} {
		if c.n < 0 {
			continue
		}
		if len(b) > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendInt(append(b, c.name...), int64(c.n), 10)
	}
	return string(b)
}

// rankOf reads the coordinates in a process name: Worker_PP0_TP1, EngineCore_DP0;
// EngineCore_0 is engine 0 of 0.10.
func rankOf(name string) Rank {
	r := NoRank
	b := []byte(name)
	engine := bytes.HasPrefix(b, []byte("EngineCore"))
	for part := range bytes.SplitSeq(b, []byte("_")) {
		i := len(part)
		for i > 0 && digit(part[i-1]) {
			i--
		}
		n, err := strconv.ParseInt(string(part[i:]), 10, 16)
		if err != nil {
			continue
		}
		switch v := int16(n); string(part[:i]) {
		case "DP":
			r.DP = v
		case "PP":
			r.PP = v
		case "TP":
			r.TP = v
		case "EP":
			r.EP = v
		case "":
			if engine {
				r.DP = v
			}
		}
	}
	return r
}

// head is a record's prefix.
type head struct {
	level byte
	at    Stamp
	proc  string
	pid   int
	rank  Rank
	file  []byte // source file, e.g. loggers.py; aliases the line
}

var levels = []struct {
	word []byte
	c    byte
}{
	{[]byte("INFO "), 'I'}, {[]byte("WARNING "), 'W'}, {[]byte("ERROR "), 'E'}, {[]byte("DEBUG "), 'D'}, {[]byte("CRITICAL "), 'C'},
}

// findHead looks for the first "LEVEL MM-DD HH:MM:SS [file.py:N] " in a line. at
// is where the record begins (with its process), n where its message begins.
func findHead(b []byte) (at int, h head, n int) {
	at = -1
	if bytes.IndexByte(b, '-') < 0 { // no date
		return at, h, 0
	}
	lim := b
	for _, l := range levels {
		for off := 0; off < len(lim); {
			i := bytes.Index(lim[off:], l.word)
			if i < 0 {
				break
			}
			i += off
			if st, file, m, ok := afterLevel(b, i+len(l.word)); ok {
				at, n = i, m
				h = head{level: l.c, at: st, file: file, rank: NoRank}
				lim = b[:i]
				break
			}
			off = i + len(l.word)
		}
	}
	return at, h, n
}

// afterLevel reads the time and the source that follow a level.
func afterLevel(b []byte, i int) (s Stamp, file []byte, n int, ok bool) {
	s, i, ok = parseStamp(b, i)
	if !ok || i >= len(b) || b[i] != ' ' {
		return s, nil, 0, false
	}
	for i < len(b) && (b[i] == ' ' || b[i] == '[') {
		i++
	}
	start := i
	for i < len(b) && b[i] != ':' && b[i] != ' ' && b[i] != ']' && i-start < 200 {
		i++
	}
	if i >= len(b) || b[i] != ':' || i == start {
		return s, nil, 0, false
	}
	file = b[start:i]
	i++
	digits := i
	for i < len(b) && digit(b[i]) {
		i++
	}
	if i == digits {
		return s, nil, 0, false
	}
	// "]", or what a copy made of it.
	for i < len(b) && (b[i] == ']' || b[i] == '[') {
		i++
	}
	for i < len(b) && b[i] == ' ' {
		i++
	}
	return s, file, i, true
}

// parseStamp reads MM-DD HH:MM:SS, with a year or a fraction too.
func parseStamp(b []byte, i int) (s Stamp, n int, ok bool) {
	year := 2000
	if i+19 <= len(b) && b[i+4] == '-' && b[i+7] == '-' && digit(b[i]) {
		year = two(b, i)*100 + two(b, i+2)
		s.Year = true
		i += 5
	}
	if i+14 > len(b) || b[i+2] != '-' || b[i+5] != ' ' && b[i+5] != 'T' || b[i+8] != ':' || b[i+11] != ':' {
		return s, 0, false
	}
	mo, d, hh, mm, ss := two(b, i), two(b, i+3), two(b, i+6), two(b, i+9), two(b, i+12)
	if year < 1970 || mo < 1 || mo > 12 || d < 1 || d > 31 || hh < 0 || hh > 23 || mm < 0 || mm > 59 || ss < 0 || ss > 60 {
		return s, 0, false
	}
	i += 14
	if i+1 < len(b) && (b[i] == '.' || b[i] == ',') && digit(b[i+1]) {
		for i++; i < len(b) && digit(b[i]); i++ {
		}
	}
	s.Known = true
	s.Sec = days(year, mo, d)*86400 + int64(hh*3600+mm*60+ss)
	return s, i, true
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// two reads two digits; negative where they are none.
func two(b []byte, i int) int {
	if !digit(b[i]) || !digit(b[i+1]) {
		return -1000
	}
	return int(b[i]-'0')*10 + int(b[i+1]-'0')
}

// days counts days since 1970-01-01 in the proleptic Gregorian calendar.
func days(y, m, d int) int64 {
	if m <= 2 {
		y--
		m += 12
	}
	return int64(365*y+y/4-y/100+y/400+(153*(m-3)+2)/5+d-1) - 719468
}
