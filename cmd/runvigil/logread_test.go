package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/recording"
	"github.com/runvigil/runvigil/remote/probe"
	"github.com/runvigil/runvigil/tui"
)

var utc = logClock{zone: time.UTC, now: t0}

// fakeLog is a log in memory that is read as the probe reads one.
type fakeLog struct {
	text  string
	reads int
}

func (f *fakeLog) LogSlice(_ context.Context, _ string, off, n int64) (probe.Page, error) {
	f.reads++
	size := int64(len(f.text))
	if off < 0 {
		off = max(0, size+off)
	}
	for off > 0 && f.text[off-1] != '\n' && off < size {
		off++
	}
	end := min(size, off+n)
	for end > off && f.text[end-1] != '\n' {
		end--
	}
	page := probe.Page{Offset: off, End: end, Size: size}
	for at := off; at < end; {
		i := int64(strings.IndexByte(f.text[at:], '\n'))
		page.Lines = append(page.Lines, f.text[at:at+i])
		page.Offsets = append(page.Offsets, at)
		at += i + 1
	}
	return page, nil
}

func (f *fakeLog) SearchLog(_ context.Context, _ string, s probe.LogSearch) (int64, error) {
	best := -1
	text := f.text
	if s.Fold {
		text = strings.ToLower(text)
	}
	for _, w := range s.Words {
		if s.Newer {
			if i := strings.Index(text[s.From:], w); i >= 0 && (best < 0 || int(s.From)+i < best) {
				best = int(s.From) + i
			}
			continue
		}
		best = max(best, strings.LastIndex(text[:min(s.From, int64(len(text)))], w))
	}
	if best < 0 {
		return 0, probe.ErrNotFound
	}
	return int64(best), nil
}

// longLog has one line a second from noon on, and lines without a time between.
func longLog(lines int) *fakeLog {
	var b strings.Builder
	for i := range lines {
		fmt.Fprintf(&b, "[%s TP0] Decode batch %d\n  continued\n", t0.Add(time.Duration(i)*time.Second).Format(time.DateTime), i)
	}
	return &fakeLog{text: b.String()}
}

func TestLogAtTime(t *testing.T) {
	f := longLog(50_000)
	for _, s := range []int{0, 1, 777, 49_999} {
		f.reads = 0
		got, err := readLog(t.Context(), f, tui.LogQuery{Path: "/s.log", At: t0.Add(time.Duration(s) * time.Second)}, utc)
		if err != nil {
			t.Fatal(err)
		}
		if got.Hit < 0 || !strings.HasSuffix(got.Lines[got.Hit].Text, fmt.Sprintf("Decode batch %d", s)) {
			t.Errorf("second %d: hit %d of %d lines", s, got.Hit, len(got.Lines))
		}
		if f.reads > 20 {
			t.Errorf("second %d took %d reads", s, f.reads)
		}
	}
}

func TestLogPages(t *testing.T) {
	f := longLog(10)
	last, err := readLog(t.Context(), f, tui.LogQuery{Path: "/s.log", Before: -1, Max: 4}, utc)
	if err != nil || len(last.Lines) != 4 || last.Lines[2].Text[len(last.Lines[2].Text)-1] != '9' {
		t.Fatalf("last page %+v, %v", last, err)
	}
	before, err := readLog(t.Context(), f, tui.LogQuery{Path: "/s.log", Before: last.Start, Max: 4}, utc)
	if err != nil || before.End != last.Start || len(before.Lines) != 4 {
		t.Errorf("the page before ends at %d with %d lines, want %d", before.End, len(before.Lines), last.Start)
	}
	after, err := readLog(t.Context(), f, tui.LogQuery{Path: "/s.log", Newer: true, After: before.Start, Max: 4}, utc)
	if err != nil || after.Start != before.Start || after.End != last.Start {
		t.Errorf("the page after is %d to %d, want %d to %d", after.Start, after.End, before.Start, last.Start)
	}
}

func TestLogSearch(t *testing.T) {
	f := longLog(100)
	f.text += "Traceback (most recent call last):\n  File x\nValueError: no\n"
	hit, err := readLog(t.Context(), f, tui.LogQuery{Path: "/s.log", Before: -1, Search: "batch 42"}, utc)
	if err != nil || hit.Hit < 0 || !strings.Contains(hit.Lines[hit.Hit].Text, "batch 42") {
		t.Errorf("search: %+v %v", hit.Hit, err)
	}
	hit, err = readLog(t.Context(), f, tui.LogQuery{Path: "/s.log", Before: -1, Errors: true}, utc)
	if err != nil || hit.Hit < 0 || hit.Lines[hit.Hit].Text != "ValueError: no" {
		t.Errorf("next error: %+v %v", hit.Hit, err)
	}
	hit, err = readLog(t.Context(), f, tui.LogQuery{Path: "/s.log", Before: 10, Search: "batch 42"}, utc)
	if err != nil || hit.Hit != -1 {
		t.Errorf("a search before the first line: %+v %v", hit.Hit, err)
	}
}

func TestStampOf(t *testing.T) {
	for line, want := range map[string]time.Time{
		"[2026-02-24 12:00:01 TP0] x":                   t0.Add(time.Second),
		"INFO 2026-02-24T12:00:01.5 x":                  t0.Add(time.Second),
		"a-b-c [2026-02-24 12:00:01] x":                 t0.Add(time.Second),
		"INFO 02-24 12:00:01 [loggers.py:123] x":        t0.Add(time.Second),
		"(APIServer pid=7) INFO 02-24 12:00:01 x":       t0.Add(time.Second),
		"2026-02-24T12:00:01.123456789Z x":              t0.Add(time.Second),
		"no time here - at all":                         {},
		"an id 7f3a02-24 12:00:01":                      {},
		strings.Repeat("x", 80) + "2026-02-24 12:00:01": {},
	} {
		if got, known := utc.stamp(line); !got.Equal(want) || known == want.IsZero() {
			t.Errorf("%q: %s %v", line, got, known)
		}
	}
}

// bigLog is a log of any size whose lines are made when they are read: one of a
// hundred bytes each second, and where odd says so a line without a time.
type bigLog struct {
	lines int64
	odd   func(i int64) string
	read  int64
	calls int
}

func (f *bigLog) line(i int64) string {
	text := fmt.Sprintf("[%s TP0] Decode batch, #running-req: %d", t0.Add(time.Duration(i)*time.Second).Format(time.DateTime), i)
	if f.odd != nil {
		if o := f.odd(i); o != "" {
			text = o
		}
	}
	return text + strings.Repeat(" ", 99-len(text)) + "\n"
}

func (f *bigLog) LogSlice(_ context.Context, _ string, off, n int64) (probe.Page, error) {
	size := f.lines * 100
	if off < 0 {
		off = max(0, size+off)
	}
	f.calls++
	f.read += n
	page := probe.Page{Offset: (off + 99) / 100 * 100, Size: size}
	page.End = page.Offset
	for i := page.Offset / 100; i < f.lines && (i+1)*100 <= off+n; i++ {
		page.Lines = append(page.Lines, strings.TrimRight(f.line(i), " \n"))
		page.Offsets = append(page.Offsets, i*100)
		page.End = (i + 1) * 100
	}
	return page, nil
}

func (f *bigLog) SearchLog(context.Context, string, probe.LogSearch) (int64, error) {
	return 0, probe.ErrNotFound
}

// A line far back in 5 GB is found by its time, and known by its words, with a
// few small reads.
func TestPlaceInHugeLog(t *testing.T) {
	const lines, at = 50_000_000, 31_234_567
	odd := func(i int64) string {
		switch {
		case i == at:
			return "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 406.88 MiB"
		case i > at-300 && i < at+2000:
			return "  File \"model.py\", line 1" // a traceback, or a prompt that was dumped
		}
		return ""
	}
	place := metrics.LogPlace{Path: "/s.log", At: t0.Add((at - 300) * time.Second), Text: "torch.OutOfMemoryError: CUDA out of memory. Tried to all…"}
	for name, off := range map[string]int64{"by time": 0, "by offset": at*100 + 700, "at an offset that holds another line": 77_000} {
		t.Run(name, func(t *testing.T) {
			f := &bigLog{lines: lines, odd: odd}
			p := place
			p.Off = off
			got, err := readLog(t.Context(), f, tui.LogQuery{Path: "/s.log", Place: p, Before: -1}, utc)
			if err != nil || got.Hit < 0 || got.Missing != "" || got.Lines[got.Hit].Off != at*100 {
				t.Fatalf("hit %d of %d lines, %q, %v", got.Hit, len(got.Lines), got.Missing, err)
			}
			if f.read > 3<<20 || f.calls > 60 {
				t.Errorf("%d reads of %d bytes", f.calls, f.read)
			}
		})
	}
}

// What cannot be found is said, with what can be shown instead.
func TestPlaceThatIsNotThere(t *testing.T) {
	for name, c := range map[string]struct {
		odd   func(int64) string
		place metrics.LogPlace
		says  string
		shows int64 // line that is shown, -1 none
	}{
		"a moment":    {nil, metrics.LogPlace{At: t0.Add(700 * time.Second)}, "", 699},
		"other words": {nil, metrics.LogPlace{At: t0.Add(700 * time.Second), Text: "Traceback"}, "not in s.log any more; this is its moment", 699},
		"rotated":     {nil, metrics.LogPlace{At: t0.Add(-time.Hour), Text: "Traceback"}, "s.log begins at 24 Feb 12:00, after that line: it was rotated or emptied since", 0},
		"no times":    {func(int64) string { return "no time" }, metrics.LogPlace{At: t0, Text: "Traceback"}, "the lines of s.log carry no time", -1},
		"no time":     {nil, metrics.LogPlace{Off: 5000, Text: "Traceback"}, "not in s.log any more", -1},
	} {
		t.Run(name, func(t *testing.T) {
			c.place.Path = "/s.log"
			got, err := readLog(t.Context(), &bigLog{lines: 100_000, odd: c.odd}, tui.LogQuery{Path: "/s.log", Place: c.place}, utc)
			if err != nil || !strings.Contains(got.Missing, c.says) || (c.says == "") != (got.Missing == "") {
				t.Fatalf("says %q, %v", got.Missing, err)
			}
			if c.shows < 0 && got.Hit >= 0 || c.shows >= 0 && (got.Hit < 0 || got.Lines[got.Hit].Off != c.shows*100) {
				t.Errorf("shows line %d of %d", got.Hit, len(got.Lines))
			}
		})
	}
}

// A log's own zone and the node's clock count.
func TestPlaceInAnotherZone(t *testing.T) {
	clock := logClock{zone: time.FixedZone("", 3600), skew: 10 * time.Minute, now: t0}
	at := t0.Add(5000*time.Second - time.Hour - 10*time.Minute)
	got, err := readLog(t.Context(), &bigLog{lines: 100_000}, tui.LogQuery{Path: "/s.log", Place: metrics.LogPlace{Path: "/s.log", At: at, Text: "#running-req: 5000"}}, clock)
	if err != nil || got.Missing != "" || got.Hit < 0 || got.Lines[got.Hit].Off != 500_000 || !got.Lines[got.Hit].At.Equal(at) {
		t.Errorf("hit %d, %q, %v", got.Hit, got.Missing, err)
	}
}

// A replay reads logs from its recording, as far as that has them.
func TestLogOfARecording(t *testing.T) {
	var file bytes.Buffer
	w, err := recording.NewWriter(&file)
	if err != nil {
		t.Fatal(err)
	}
	put := func(at time.Time, id string, off int64, lines ...string) {
		raw := strings.Join(lines, "\n") + "\n"
		end := off + int64(len(raw))
		if err := w.Write(metrics.Frame{Kind: metrics.KindLog, Name: "/s.log", At: at, Data: metrics.EncodeChunk(metrics.LogHeader{ID: id, Offset: off, End: end, Size: max(end, 9000), Lines: -1}, []byte(raw))}); err != nil {
			t.Fatal(err)
		}
	}
	put(t0, "1:0", 0, "[2026-02-24 10:00:00] of the file before")
	put(t0, "1:1", 1000, "[2026-02-24 11:00:00] first", "[2026-02-24 11:00:01] ValueError: no")
	put(t0, "1:1", 9000, "[2026-02-24 12:00:00] recent")
	put(t0.Add(time.Minute), "1:1", 9030, "[2026-02-24 12:01:00] later", "[2026-02-24 12:01:01] last")
	put(t0.Add(2*time.Hour), "1:1", 9090, "[2026-02-24 14:00:00] to come")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	logs := &recordedLogs{func() (*recording.Reader, io.Closer, error) {
		r, err := recording.NewReader(bytes.NewReader(file.Bytes()))
		return r, io.NopCloser(nil), err
	}}
	ask := func(q tui.LogQuery) tui.LogSlice {
		t.Helper()
		r, err := logs.read(t.Context(), "/s.log", t0.Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		q.Path = "/s.log"
		got, err := readLog(t.Context(), r, q, utc)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	text := func(s tui.LogSlice) string {
		var out []string
		for _, l := range s.Lines {
			out = append(out, l.Text[22:])
		}
		return strings.Join(out, ",")
	}
	if got := text(ask(tui.LogQuery{Before: -1})); got != "first,ValueError: no,recent,later,last" {
		t.Errorf("the end is %q", got)
	}
	if got := text(ask(tui.LogQuery{Before: 9000})); got != "first,ValueError: no" {
		t.Errorf("before the gap: %q", got)
	}
	if s := ask(tui.LogQuery{Before: -1, Search: "ValueError"}); s.Hit != 1 {
		t.Errorf("the search stands at %d of %q", s.Hit, text(s))
	}
	s := ask(tui.LogQuery{Place: metrics.LogPlace{Path: "/s.log", At: t0.Add(-time.Hour), Text: "ValueError: no"}})
	if s.Hit != 1 || s.Missing != "" || s.Lines[s.Hit].Off != 1028 {
		t.Errorf("the place is %d of %q (%q)", s.Hit, text(s), s.Missing)
	}
	if _, err := logs.read(t.Context(), "/other.log", t0.Add(time.Hour)); err == nil || !strings.Contains(err.Error(), "no line of other.log") {
		t.Errorf("a log that was not recorded: %v", err)
	}
}

// Searching goes both ways, and errors are found by any of their words, nearest
// first; the lines around a hit have their levels.
func TestLogSearchBothWays(t *testing.T) {
	f := longLog(300)
	f.text = strings.Replace(f.text, "batch 100\n", "batch 100\nTraceback (most recent call last):\nValueError: early\n", 1)
	old, err := readLog(t.Context(), f, tui.LogQuery{Path: "/s.log", Before: -1, Errors: true}, utc)
	if err != nil || old.Hit < 0 || old.Lines[old.Hit].Text != "ValueError: early" || old.Lines[old.Hit].Level != 2 || old.Lines[old.Hit-1].Level != 2 {
		t.Fatalf("errors: %+v %v", old.Hit, err)
	}
	newer, err := readLog(t.Context(), f, tui.LogQuery{Path: "/s.log", Newer: true, After: old.Lines[old.Hit].Off, Search: "decode batch 200", Fold: true}, utc)
	if err != nil || newer.Hit < 0 || !strings.HasSuffix(newer.Lines[newer.Hit].Text, "batch 200") {
		t.Errorf("newer: %+v %v", newer.Hit, err)
	}
	if first, err := readLog(t.Context(), f, tui.LogQuery{Path: "/s.log", Newer: true, Max: 3}, utc); err != nil || first.Start != 0 || len(first.Lines) != 3 {
		t.Errorf("the beginning: %+v %v", first, err)
	}
}

func TestLogWithoutTimes(t *testing.T) {
	f := &fakeLog{text: strings.Repeat("100%|##########| 80/80\n", 50_000)}
	if got, err := readLog(t.Context(), f, tui.LogQuery{Path: "/c.log", At: t0}, utc); err != nil || got.Hit >= 0 || got.Missing == "" {
		t.Errorf("hit %d, %q, %v", got.Hit, got.Missing, err)
	}
}
