package sglang

import (
	"bytes"
	"strconv"
	"time"
)

// Stamp is a time as the log prints it: local, without a zone, perhaps without
// a date or a year.
type Stamp struct {
	Known bool
	Date  bool  // the day is known
	Year  bool  // the year is known; without it the year is 2000
	Sec   int64 // seconds since 1970 in the log's own zone, or since midnight
	Nano  int32
}

const daySeconds = 86400

// Sub is s minus t in seconds. Where one of them lacks the date, it is the
// difference nearest to zero. ok is false where one is unknown.
func (s Stamp) Sub(t Stamp) (seconds float64, ok bool) {
	if !s.Known || !t.Known {
		return 0, false
	}
	d := s.Sec - t.Sec
	if !s.Date || !t.Date {
		d = ((d % daySeconds) + daySeconds) % daySeconds
		if d > daySeconds/2 {
			d -= daySeconds
		}
	}
	return float64(d) + float64(s.Nano-t.Nano)/1e9, true
}

// Time places the stamp on the time line: in loc, and where the date or the
// year is missing, in the last day or year before ref plus an hour.
func (s Stamp) Time(ref time.Time, loc *time.Location) (t time.Time, ok bool) {
	if !s.Known {
		return time.Time{}, false
	}
	wall := time.Unix(s.Sec, int64(s.Nano)).UTC()
	ref = ref.In(loc)
	year, month, day := wall.Date()
	switch {
	case !s.Date:
		year, month, day = ref.Date()
	case !s.Year:
		year = ref.Year()
	}
	at := func() time.Time {
		return time.Date(year, month, day, wall.Hour(), wall.Minute(), wall.Second(), wall.Nanosecond(), loc)
	}
	t = at()
	if t.After(ref.Add(time.Hour)) {
		switch {
		case !s.Date:
			day--
		case !s.Year:
			year--
		default:
			return t, true
		}
		t = at()
	}
	return t, true
}

// String prints the stamp as the log does.
func (s Stamp) String() string {
	switch t := time.Unix(s.Sec, 0).UTC(); {
	case !s.Known:
		return ""
	case !s.Date:
		return t.Format("15:04:05")
	case !s.Year:
		return t.Format("01-02 15:04:05")
	default:
		return t.Format("2006-01-02 15:04:05")
	}
}

// Rank is the place of a scheduler in the parallel layout; -1 where the log does
// not say, which with one rank is always.
type Rank struct {
	DP, PP, CP, TP, EP int16
	// Global is the rank of the whole process group, which NCCL's lines print.
	Global int16
}

// NoRank is the rank of a record without one.
var NoRank = Rank{-1, -1, -1, -1, -1, -1}

// Known tells whether any coordinate is known.
func (r Rank) Known() bool { return r != NoRank }

// String prints the coordinates in the order of the newest versions, e.g. "DP0 TP0".
func (r Rank) String() string {
	var b []byte
	for _, c := range []struct {
		name string
		n    int16
	}{{"DP", r.DP}, {"PP", r.PP}, {"ATTN_CP", r.CP}, {"TP", r.TP}, {"EP", r.EP}, {"rank ", r.Global}} {
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

// head is a record's prefix: [stamp ranks].
type head struct {
	at   Stamp
	rank Rank
}

// parseHead reads the prefix that begins with the bracket at b[0]; n is where
// the message begins. Besides SGLang's own forms it takes a prefix with ranks
// and no time, and the [gpu=0] of the oldest versions.
func parseHead(b []byte) (h head, n int, ok bool) {
	h.rank = NoRank
	if len(b) < 5 || b[0] != '[' {
		return h, 0, false
	}
	i := 0 // the rank loop expects a separator before each name
	if digit(b[1]) {
		h.at, i, ok = parseStamp(b, 1)
		if !ok {
			return h, 0, false
		}
		if i < len(b) && b[i] == 'Z' {
			i++
		} else if i+6 < len(b) && (b[i] == '+' || b[i] == '-') && b[i+3] == ':' {
			i += 6
		}
	} else if b[1] == 'g' {
		return parseGPUHead(b)
	}
	for {
		if i >= len(b) {
			return h, 0, false
		}
		if b[i] == ']' {
			break
		}
		if b[i] != ' ' && b[i] != '[' {
			return h, 0, false
		}
		i++
		start := i
		for i < len(b) && (b[i] >= 'A' && b[i] <= 'Z' || b[i] == '_') {
			i++
		}
		name := b[start:i]
		value, digits := int16(0), i
		for i < len(b) && digit(b[i]) && i-digits < 4 {
			value = value*10 + int16(b[i]-'0')
			i++
		}
		if len(name) == 0 || len(name) > 12 || digits == i {
			return h, 0, false
		}
		switch string(name) {
		case "TP", "ATTN_TP":
			h.rank.TP = value
		case "DP", "ATTN_DP":
			h.rank.DP = value
		case "PP":
			h.rank.PP = value
		case "EP", "MOE_EP":
			h.rank.EP = value
		case "CP", "ATTN_CP":
			h.rank.CP = value
		default:
			if !h.at.Known {
				return h, 0, false
			}
		}
	}
	i++
	for i < len(b) && b[i] == ' ' {
		i++
	}
	return h, i, true
}

// looseHead reads what it can of a prefix whose brackets are lost or which
// another logger wrote: the first stamp and the ranks.
func looseHead(b []byte) head {
	h := head{rank: NoRank}
	if len(b) > 160 {
		b = b[len(b)-160:]
	}
	for i := 0; i+8 <= len(b); i++ {
		if !digit(b[i]) || i > 0 && (digit(b[i-1]) || letter(b[i-1])) {
			continue
		}
		if at, _, ok := parseStamp(b, i); ok {
			h.at = at
			break
		}
	}
	for _, part := range bytes.FieldsFunc(b, func(r rune) bool { return r == ' ' || r == '[' || r == ']' || r == '|' }) {
		if one, _, ok := parseHead(append(append([]byte{'['}, part...), ']')); ok && !one.at.Known && part[0] != 'g' {
			h.rank.merge(one.rank)
		}
	}
	return h
}

// merge takes the coordinates that o knows.
func (r *Rank) merge(o Rank) {
	for _, c := range []struct {
		dst *int16
		v   int16
	}{{&r.DP, o.DP}, {&r.PP, o.PP}, {&r.CP, o.CP}, {&r.TP, o.TP}, {&r.EP, o.EP}, {&r.Global, o.Global}} {
		if c.v >= 0 {
			*c.dst = c.v
		}
	}
}

func parseGPUHead(b []byte) (h head, n int, ok bool) {
	h.rank = NoRank
	i := len("[gpu")
	if len(b) < i+3 || string(b[:i]) != "[gpu" {
		return h, 0, false
	}
	if string(b[i:min(len(b), i+3)]) == "_id" {
		i += 3
	}
	if i >= len(b) || b[i] != '=' {
		return h, 0, false
	}
	i++
	value, digits := int16(0), i
	for i < len(b) && digit(b[i]) && i-digits < 4 {
		value = value*10 + int16(b[i]-'0')
		i++
	}
	if i == digits || i >= len(b) || b[i] != ']' {
		return h, 0, false
	}
	h.rank.TP = value
	for i++; i < len(b) && b[i] == ' '; i++ {
	}
	return h, i, true
}

// parseStamp reads YYYY-MM-DD HH:MM:SS, MM-DD HH:MM:SS or HH:MM:SS with
// optional fractions from b[i:]; n is where it ends.
func parseStamp(b []byte, i int) (s Stamp, n int, ok bool) {
	if i+8 > len(b) {
		return s, 0, false
	}
	year, month, day := 1970, 1, 1
	switch {
	case b[i+2] == ':':
	case b[i+2] == '-':
		year, month, day = 2000, two(b, i), two(b, i+3)
		s.Date = true
		i += 6
	case i+19 <= len(b) && b[i+4] == '-' && b[i+7] == '-':
		year, month, day = two(b, i)*100+two(b, i+2), two(b, i+5), two(b, i+8)
		if year < 1970 || b[i+10] != ' ' && b[i+10] != 'T' {
			return s, 0, false
		}
		s.Date, s.Year = true, true
		i += 11
	default:
		return s, 0, false
	}
	if i+8 > len(b) || b[i+2] != ':' || b[i+5] != ':' {
		return s, 0, false
	}
	hour, minute, second := two(b, i), two(b, i+3), two(b, i+6)
	if hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60 || month < 1 || month > 12 || day < 1 || day > 31 {
		return s, 0, false
	}
	i += 8
	if i+1 < len(b) && (b[i] == '.' || b[i] == ',') && digit(b[i+1]) {
		scale := int32(1e9)
		for i++; i < len(b) && digit(b[i]); i++ {
			scale /= 10
			s.Nano += int32(b[i]-'0') * scale
		}
	}
	s.Known = true
	s.Sec = daysFromCivil(year, month, day)*daySeconds + int64(hour*3600+minute*60+second)
	return s, i, true
}

func digit(b byte) bool { return b >= '0' && b <= '9' }

// two reads two digits; -1 where they are none.
func two(b []byte, i int) int {
	if !digit(b[i]) || !digit(b[i+1]) {
		return -100
	}
	return int(b[i]-'0')*10 + int(b[i+1]-'0')
}

// daysFromCivil counts days since 1970-01-01 in the proleptic Gregorian calendar.
func daysFromCivil(y, m, d int) int64 {
	if m <= 2 {
		y--
		m += 12
	}
	return int64(365*y+y/4-y/100+y/400+(153*(m-3)+2)/5+d-1) - 719468
}
