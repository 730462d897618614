package kernel

import (
	"bytes"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// prefix is what stands before a kernel message.
type prefix struct {
	at     time.Time
	year   bool
	uptime float64
}

// cutPrefix takes priorities, collectors' stamps, syslog's host and the
// kernel's own bracket off a line.
func cutPrefix(b []byte) (p prefix, msg []byte) {
	p.uptime = -1
	for range 6 {
		b = bytes.TrimLeft(b, " \t")
		n := p.one(b)
		if n == 0 {
			break
		}
		b = b[n:]
	}
	return p, bytes.TrimLeft(b, " ")
}

// one reads the prefix that b begins with and returns its length.
func (p *prefix) one(b []byte) int {
	if len(b) < 4 {
		return 0
	}
	switch c := b[0]; {
	case c == '<':
		if end := bytes.IndexByte(b[:min(len(b), 6)], '>'); end > 1 && number(b[1:end]) >= 0 {
			return end + 1
		}
	case c == '[':
		return p.bracket(b)
	case c >= '0' && c <= '9':
		if end := bytes.IndexByte(b[:min(len(b), 40)], ' '); end >= 19 {
			if t, ok := isoTime(b[:end]); ok {
				p.set(t, true)
				return end + 1 + hostLen(b[end+1:])
			}
		}
	case bytes.HasPrefix(b, []byte("kern")), bytes.HasPrefix(b, []byte("user")):
		// dmesg -x: "kern  :err   : "
		if end := bytes.Index(b[:min(len(b), 24)], []byte(": ")); end > 0 {
			if colon := bytes.IndexByte(b, ':'); colon < end {
				return end + 2
			}
		}
		if bytes.HasPrefix(b, []byte("kernel: ")) {
			return len("kernel: ")
		}
	case len(b) > 16 && b[3] == ' ' && b[9] == ':' && b[12] == ':':
		// syslog: "Nov 29 12:00:01 host kernel: "
		if month := monthOf(b[:3]); month > 0 {
			day, clock := number(bytes.TrimLeft(b[4:6], " ")), b[7:15]
			h, m, s, ok := clockOf(clock)
			if ok && day > 0 {
				p.set(time.Date(0, month, day, h, m, s, 0, time.UTC), false)
				return 16 + hostLen(b[16:])
			}
		}
	}
	return 0
}

func (p *prefix) set(t time.Time, year bool) {
	if p.at.IsZero() || !p.year && year {
		p.at, p.year = t, year
	}
}

// hostLen measures "host kernel: " and "host kernel[1]: ".
func hostLen(b []byte) int {
	end := bytes.Index(b[:min(len(b), 120)], []byte(": "))
	if end < 0 || !bytes.Contains(b[:end], []byte("kernel")) {
		return 0
	}
	return end + 2
}

// bracket reads [uptime], [date] in any language, or an ISO stamp.
func (p *prefix) bracket(b []byte) int {
	end := bytes.IndexByte(b[:min(len(b), 64)], ']')
	if end < 0 {
		return 0
	}
	in := bytes.TrimSpace(b[1:end])
	// dmesg -H prints the time since the line before, or a date without seconds.
	if len(in) > 1 && in[0] == '+' {
		if _, err := strconv.ParseFloat(string(in), 64); err == nil {
			return end + 1
		}
	}
	if len(in) == len("Nov29 12:00") && in[5] == ' ' && in[8] == ':' && monthOf(in[:3]) > 0 {
		return end + 1
	}
	if up, err := strconv.ParseFloat(string(in), 64); err == nil && bytes.IndexByte(in, '.') > 0 && up >= 0 {
		p.uptime = up
		return end + 1
	}
	if t, ok := isoTime(in); ok {
		p.set(t, true)
		return end + 1
	}
	if t, ok := wordyTime(in); ok {
		p.set(t, true)
		return end + 1
	}
	return 0
}

// isoTime reads YYYY-MM-DDTHH:MM:SS with a fraction and a zone, which is dropped.
func isoTime(b []byte) (time.Time, bool) {
	if len(b) < 19 {
		return time.Time{}, false
	}
	t, err := time.Parse("2006-01-02T15:04:05", strings.Replace(string(b[:19]), " ", "T", 1))
	return t, err == nil
}

// wordyTime reads dmesg -T's "Fri Mar  3 05:02:08 2023" in the words of any
// language: by the clock, the year behind it, and a day and a month before it
// in either order.
func wordyTime(b []byte) (time.Time, bool) {
	fields := bytes.Fields(b)
	at := -1
	var h, m, s int
	for i, f := range fields {
		var ok bool
		if h, m, s, ok = clockOf(f); ok {
			at = i
			break
		}
	}
	if at < 1 {
		return time.Time{}, false
	}
	year, month, day := -1, time.Month(0), -1
	for i, f := range fields {
		n := number(f)
		switch {
		case i == at:
		case n >= 1900 && n < 10000:
			year = n
		case n >= 1 && n <= 31:
			day = n
		case n < 0 && monthOf(f) > 0:
			month = monthOf(f)
		}
	}
	if year < 0 || day < 0 || month == 0 {
		return time.Time{}, false
	}
	return time.Date(year, month, day, h, m, s, 0, time.UTC), true
}

func clockOf(b []byte) (h, m, s int, ok bool) {
	if len(b) != 8 || b[2] != ':' || b[5] != ':' {
		return 0, 0, 0, false
	}
	h, m, s = number(b[:2]), number(b[3:5]), number(b[6:])
	return h, m, s, h >= 0 && h < 24 && m >= 0 && m < 60 && s >= 0 && s <= 60
}

// number is a plain decimal number, -1 for anything else.
func number(b []byte) int {
	if len(b) == 0 || len(b) > 9 {
		return -1
	}
	n := 0
	for _, c := range b {
		if c < '0' || c > '9' {
			return -1
		}
		n = n*10 + int(c-'0')
	}
	return n
}

// months are the first letters by which month names are told apart, in the
// languages that dmesg -T was seen in.
var months = func() (split [12][]string) {
	for i, words := range monthWords {
		split[i] = strings.Fields(words)
	}
	return split
}()

var monthWords = [12]string{
	"jan ene gen янв 一月 sty led", "feb fév fev 二月 фев lut úno", "mar mär mrt мар 三月 bře", "apr avr abr апр 四月 kwi dub",
	"may mai mag мая май mei 五月 maj kvě", "jun giu juin июн 六月 cze čer", "jul lug juil июл 七月 lip", "aug aoû ago авг 八月 sie srp",
	"sep set сен 九月 wrz zář", "oct okt ott out окт 十月 paź říj", "nov ноя 十一 lis", "dec déc dez dic дек 十二 gru pro",
}

// monthOf reads a month's name, or a number with 月 or 월 behind it; 0 for none.
func monthOf(b []byte) time.Month {
	digits := 0
	for digits < len(b) && b[digits] >= '0' && b[digits] <= '9' {
		digits++
	}
	if digits > 0 {
		if rest := string(b[digits:]); strings.HasPrefix(rest, "月") || strings.HasPrefix(rest, "월") {
			if n := number(b[:digits]); n >= 1 && n <= 12 {
				return time.Month(n)
			}
		}
		return 0
	}
	name := strings.ToLower(string(b))
	best := time.Month(0)
	for i, words := range months {
		for _, w := range words {
			if strings.HasPrefix(name, w) && (best == 0 || utf8.RuneCountInString(w) > 3) {
				best = time.Month(i + 1)
			}
		}
	}
	return best
}
