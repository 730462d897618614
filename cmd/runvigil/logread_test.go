package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/remote/probe"
	"github.com/runvigil/runvigil/tui"
)

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

func (f *fakeLog) SearchLog(_ context.Context, _, pattern string, from int64, _ int) (int64, error) {
	i := strings.LastIndex(f.text[:min(from, int64(len(f.text)))], pattern)
	if i < 0 {
		return 0, probe.ErrNotFound
	}
	return int64(i), nil
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
		got, err := readLog(t.Context(), f, tui.LogQuery{Path: "/s.log", At: t0.Add(time.Duration(s) * time.Second)}, time.UTC)
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
	last, err := readLog(t.Context(), f, tui.LogQuery{Path: "/s.log", Before: -1, Max: 4}, time.UTC)
	if err != nil || len(last.Lines) != 4 || last.Lines[2].Text[len(last.Lines[2].Text)-1] != '9' {
		t.Fatalf("last page %+v, %v", last, err)
	}
	before, err := readLog(t.Context(), f, tui.LogQuery{Path: "/s.log", Before: last.Start, Max: 4}, time.UTC)
	if err != nil || before.End != last.Start || len(before.Lines) != 4 {
		t.Errorf("the page before ends at %d with %d lines, want %d", before.End, len(before.Lines), last.Start)
	}
	after, err := readLog(t.Context(), f, tui.LogQuery{Path: "/s.log", After: before.Start, Max: 4}, time.UTC)
	if err != nil || after.Start != before.Start || after.End != last.Start {
		t.Errorf("the page after is %d to %d, want %d to %d", after.Start, after.End, before.Start, last.Start)
	}
}

func TestLogSearch(t *testing.T) {
	f := longLog(100)
	f.text += "Traceback (most recent call last):\n  File x\nValueError: no\n"
	hit, err := readLog(t.Context(), f, tui.LogQuery{Path: "/s.log", Before: -1, Search: "batch 42"}, time.UTC)
	if err != nil || hit.Hit < 0 || !strings.Contains(hit.Lines[hit.Hit].Text, "batch 42") {
		t.Errorf("search: %+v %v", hit.Hit, err)
	}
	hit, err = readLog(t.Context(), f, tui.LogQuery{Path: "/s.log", Before: -1, Errors: true}, time.UTC)
	if err != nil || hit.Hit < 0 || hit.Lines[hit.Hit].Text != "ValueError: no" {
		t.Errorf("next error: %+v %v", hit.Hit, err)
	}
	hit, err = readLog(t.Context(), f, tui.LogQuery{Path: "/s.log", Before: 10, Search: "batch 42"}, time.UTC)
	if err != nil || hit.Hit != -1 {
		t.Errorf("a search before the first line: %+v %v", hit.Hit, err)
	}
}

func TestStampOf(t *testing.T) {
	for line, want := range map[string]time.Time{
		"[2026-02-24 12:00:01 TP0] x":                   t0.Add(time.Second),
		"INFO 2026-02-24T12:00:01.5 x":                  t0.Add(time.Second),
		"a-b-c [2026-02-24 12:00:01] x":                 t0.Add(time.Second),
		"no time here - at all":                         {},
		strings.Repeat("x", 80) + "2026-02-24 12:00:01": {},
	} {
		if got, known := stampOf(line, time.UTC); !got.Equal(want) || known == want.IsZero() {
			t.Errorf("%q: %s %v", line, got, known)
		}
	}
}
