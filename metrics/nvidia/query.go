package nvidia

import (
	"bytes"
	"strconv"
	"strings"
)

// App is one process that holds a GPU.
type App struct {
	GPU    int    // index, -1 unknown
	UUID   string // of the GPU or MIG device
	GI, CI int    // MIG instances, -1 for none
	PID    int    // 0 unknown
	Type   string // C, G, C+G, M+C; "" unknown
	Name   string
	User   string
	Used   Num // MiB
	SM     Num // % (pmon)
	Mem    Num // % (pmon)
	// Ghost marks a holder that the tool cannot name any more: its process is
	// gone or lives in another pid namespace, its context is not.
	Ghost bool
}

// cells splits one CSV row. Where there are more cells than fields, the surplus
// commas belong to the field named by wide (a process name may hold anything).
func cells(line string, n, wide int) []string {
	parts := strings.Split(line, ",")
	if n > 0 && len(parts) > n && wide >= 0 {
		extra := len(parts) - n
		joined := strings.Join(parts[wide:wide+extra+1], ",")
		parts = append(append(append([]string{}, parts[:wide]...), joined), parts[wide+extra+1:]...)
	}
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

// Query reads rows of --query-gpu under a given list of fields.
type Query struct {
	fields []string // canonical
	wide   int
}

// NewQuery takes the field list of a query, in its order; names may be aliases.
func NewQuery(fields []string) *Query {
	q := &Query{wide: -1}
	for i, f := range fields {
		c := Canonical(f)
		q.fields = append(q.fields, c)
		if c == "name" {
			q.wide = i
		}
	}
	return q
}

// Row reads one line, with or without units. It is not ok where the line does
// not have the query's number of cells: a message, or a row cut short.
func (q *Query) Row(line string) (Row, bool) {
	line = strings.TrimRight(line, "\r\n")
	if len(q.fields) == 0 || strings.TrimSpace(line) == "" {
		return Row{}, false
	}
	cs := cells(line, len(q.fields), q.wide)
	if len(cs) != len(q.fields) {
		return Row{}, false
	}
	r := newRow()
	for i, f := range q.fields {
		r.set(f, cs[i])
	}
	return r, true
}

// Sample is one round over all GPUs.
type Sample struct {
	Rows     []Row
	Failures []Failure
}

// Stream groups the rows of nvidia-smi -lms into samples. nvidia-smi prints no
// separator between rounds: a round ends where an index does not grow.
type Stream struct {
	q    *Query
	cur  []Row
	want int // index of the last row of the previous round, -1 before the first
	sent bool
}

// NewStream reads rows of the given fields, which should include index.
func NewStream(fields []string) *Stream { return &Stream{q: NewQuery(fields), want: -1} }

// Line takes one line (without its newline) and gives a sample when one is
// complete. The first round is complete when the second begins; later ones as
// soon as the row has come that ended the round before. Where a later row still
// follows (a card came back), the sample is given again with it. A line that is
// not a row gives its failure at once, if it is one.
func (s *Stream) Line(line string) (Sample, bool) {
	r, ok := s.q.Row(line)
	if !ok {
		if f, bad := Classify([]byte(line)); bad {
			return Sample{Failures: []Failure{f}}, true
		}
		return Sample{}, false
	}
	var out Sample
	done := false
	if s.starts(&r) {
		if !s.sent && len(s.cur) > 0 {
			out, done = Sample{Rows: s.cur}, true
		}
		s.want = s.cur[len(s.cur)-1].Index
		s.cur, s.sent = nil, false
	}
	s.cur = append(s.cur[:len(s.cur):len(s.cur)], r)
	if !done && s.want >= 0 && r.Index >= s.want {
		s.sent = true
		return Sample{Rows: s.cur}, true
	}
	return out, done
}

// Flush gives the rows of an unfinished round, for the end of a stream.
func (s *Stream) Flush() (Sample, bool) {
	if s.sent || len(s.cur) == 0 {
		return Sample{}, false
	}
	s.sent = true
	return Sample{Rows: s.cur}, true
}

// starts tells whether r begins a new round.
func (s *Stream) starts(r *Row) bool {
	if len(s.cur) == 0 {
		return false
	}
	if r.Index >= 0 {
		for i := range s.cur {
			if s.cur[i].Index >= r.Index {
				return true
			}
		}
		return false
	}
	// A card that does not even tell its index: the same card again, or more
	// nameless rows than a round can have, begin a new round.
	for i := range s.cur {
		if s.cur[i].UUID != "" && s.cur[i].UUID == r.UUID || s.cur[i].BusID != "" && s.cur[i].BusID == r.BusID {
			return true
		}
	}
	return s.want < 0 && s.cur[len(s.cur)-1].Index < 0 || s.want >= 0 && len(s.cur) > s.want
}

// ParseQuery reads a payload of the probe's GPU frames: a first line of field
// names, then rows. Rows of the wrong width are left out; failures in between
// are kept, each bus id once.
func ParseQuery(data []byte) Sample {
	head, rest, _ := bytes.Cut(data, []byte{'\n'})
	q := NewQuery(strings.Split(strings.TrimSpace(string(head)), ","))
	var s Sample
	for line := range bytes.Lines(rest) {
		if r, ok := q.Row(string(line)); ok {
			s.Rows = append(s.Rows, r)
		}
	}
	if f, bad := Classify(rest); bad {
		s.Failures = append(s.Failures, f)
	}
	return s
}

// ParseApps reads --query-compute-apps: a first line of field names (with or
// without units), then rows.
func ParseApps(data []byte) []App {
	head, rest, _ := bytes.Cut(data, []byte{'\n'})
	fields := strings.Split(strings.TrimSpace(string(head)), ",")
	wide := -1
	for i, f := range fields {
		fields[i] = Canonical(f)
		if fields[i] == "process_name" || fields[i] == "name" && wide < 0 {
			wide = i
		}
	}
	var out []App
	for line := range bytes.Lines(rest) {
		if a, ok := appRow(fields, wide, string(line)); ok {
			out = append(out, a)
		}
	}
	return out
}

func appRow(fields []string, wide int, line string) (App, bool) {
	cs := cells(strings.TrimRight(line, "\r\n"), len(fields), wide)
	if len(cs) != len(fields) {
		return App{}, false
	}
	a := App{GPU: -1, GI: -1, CI: -1}
	for i, f := range fields {
		switch f {
		case "pid":
			a.PID, _ = strconv.Atoi(cs[i])
		case "process_name", "name":
			a.Name = word(cs[i])
		case "uuid":
			a.UUID = word(cs[i])
		case "used_memory", "used_gpu_memory":
			a.Used = ParseNum(cs[i])
		case "index":
			if n, err := strconv.Atoi(cs[i]); err == nil {
				a.GPU = n
			}
		}
	}
	a.Ghost = a.PID > 0 && a.Name == ""
	return a, a.PID > 0 || a.UUID != ""
}
