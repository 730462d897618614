package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/runvigil/runvigil/metrics"
)

type chunk struct {
	metrics.LogHeader
	text string
}

// follow gives a worker on one log and the chunks it has emitted.
func follow(t *testing.T, n *localNode, w metrics.Want) (*files, *[]chunk) {
	t.Helper()
	w.Kind = metrics.WantLog
	f := fileWorker(t, n, w)
	chunks := &[]chunk{}
	f.p.out = func(fr metrics.Frame) {
		if fr.Kind != metrics.KindLog {
			return
		}
		h, raw, err := metrics.DecodeChunk[metrics.LogHeader](fr.Data)
		if err != nil || fr.Name != w.Path {
			t.Errorf("chunk %q: %v", fr.Name, err)
		}
		*chunks = append(*chunks, chunk{h, string(raw)})
	}
	return f, chunks
}

func texts(chunks []chunk) string {
	var b strings.Builder
	for _, c := range chunks {
		b.WriteString(c.text)
	}
	return b.String()
}

func TestFollowLog(t *testing.T) {
	path := t.TempDir() + "/server.log"
	write(t, path, "one\ntwo\nthr")
	f, chunks := follow(t, newLocalNode(t), metrics.Want{Path: path})
	settle(t, f)
	if got := texts(*chunks); got != "one\ntwo\n" {
		t.Fatalf("backfill %q", got)
	}
	if c := (*chunks)[0]; c.Backfill != 2 || c.Lines != 2 || c.End != 8 || c.Size != 11 {
		t.Errorf("backfill header %+v", c.LogHeader)
	}
	*chunks = nil
	settle(t, f)
	if len(*chunks) != 0 {
		t.Errorf("an unchanged log gave %+v", *chunks)
	}
	add(t, path, "ee\nprogress 10%\rprogress 20%\rprog")
	settle(t, f)
	if c := (*chunks)[0]; c.text != "three\nprogress 10%\rprogress 20%\r" || c.Lines != 3 || c.Backfill != 0 || c.Offset != 8 {
		t.Errorf("live chunk %+v", c)
	}

	*chunks = nil
	write(t, path, "x\n")
	settle(t, f)
	if c := (*chunks)[0]; c.text != "x\n" || c.Reset != "truncated" || c.Offset != 0 || c.Lines != 1 {
		t.Errorf("after truncation %+v", c)
	}

	*chunks = nil
	add(t, path, "rest of the old\n")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	write(t, path, "new file\n")
	settle(t, f)
	if len(*chunks) != 2 || (*chunks)[0].text != "rest of the old\n" || (*chunks)[0].Reset != "" ||
		(*chunks)[1].text != "new file\n" || (*chunks)[1].Reset != "replaced" || (*chunks)[1].ID == (*chunks)[0].ID {
		t.Errorf("after rotation %+v", *chunks)
	}
}

func TestFollowTooMuch(t *testing.T) {
	path := t.TempDir() + "/server.log"
	write(t, path, "start\n")
	f, chunks := follow(t, newLocalNode(t), metrics.Want{Path: path})
	settle(t, f)
	*chunks = nil
	line := strings.Repeat("z", 99) + "\n"
	add(t, path, strings.Repeat(line, 10_000)) // 1 MB at once
	settle(t, f)
	got := *chunks
	if len(got) != 2 {
		t.Fatalf("%d chunks, want the lines and their number", len(got))
	}
	c := got[0]
	if c.Skipped != c.Offset-6 || int64(len(c.text)) != c.End-c.Offset || c.End != 6+1_000_000 || c.Lines != -1 {
		t.Errorf("skipped %d of %d..%d, %d bytes, %d lines", c.Skipped, c.Offset, c.End, len(c.text), c.Lines)
	}
	if strings.Trim(c.text, "z\n") != "" || strings.Index(c.text, "\n") != 99 || len(c.text) > logCap {
		t.Errorf("the chunk does not begin with a whole line: %.120q", c.text)
	}
	if got[1].Lines != 10_001 || got[1].text != "" {
		t.Errorf("the number of lines: %+v", got[1])
	}
	add(t, path, "next\n")
	*chunks = nil
	settle(t, f)
	if c := (*chunks)[0]; c.text != "next\n" || c.Lines != 10_002 || c.Skipped != 0 {
		t.Errorf("then %+v", c)
	}
}

func TestFollowEndlessLine(t *testing.T) {
	path := t.TempDir() + "/server.log"
	write(t, path, "a\n")
	f, chunks := follow(t, newLocalNode(t), metrics.Want{Path: path})
	settle(t, f)
	*chunks = nil
	add(t, path, strings.Repeat("q", logCap))
	settle(t, f)
	add(t, path, "qqq --api-key hunter2hunter2\nafter\n")
	settle(t, f)
	got := texts(*chunks)
	if strings.Contains(got, "hunter2") || !strings.HasSuffix(got, "\nafter\n") || len(got) != longLine+1+6 {
		t.Errorf("%d bytes: …%.60q", len(got), got[max(0, len(got)-60):])
	}
	skipped := int64(0)
	for _, c := range *chunks {
		skipped += c.Skipped
	}
	if want := int64(logCap - longLine + len("qqq --api-key hunter2hunter2\n")); skipped != want {
		t.Errorf("skipped %d, want %d", skipped, want)
	}
}

func TestFollowAppears(t *testing.T) {
	path := t.TempDir() + "/late.log"
	f, chunks := follow(t, newLocalNode(t), metrics.Want{Path: path})
	settle(t, f)
	if len(*chunks) != 0 {
		t.Errorf("a log that is not there gave %+v", *chunks)
	}
	write(t, path, "")
	settle(t, f)
	add(t, path, "first\n")
	settle(t, f)
	if len(*chunks) != 2 || (*chunks)[0].Lines != 0 || (*chunks)[1].text != "first\n" || (*chunks)[1].Backfill != 0 {
		t.Errorf("chunks %+v", *chunks)
	}
}

func TestMaskedBeforeFrames(t *testing.T) {
	path := t.TempDir() + "/server.log"
	write(t, path, "server_args=ServerArgs(model='m', api_key='verysecretkey', port=8000)\nAuthorization: Bearer abcdefghijkl\n")
	f, chunks := follow(t, newLocalNode(t), metrics.Want{Path: path, Anchors: "server_args="})
	settle(t, f)
	got := texts(*chunks)
	if strings.Contains(got, "verysecret") || strings.Contains(got, "abcdefgh") || !strings.Contains(got, "port=8000") {
		t.Errorf("log %q", got)
	}
}

func TestDockerLogIsUnwrapped(t *testing.T) {
	path := t.TempDir() + "/abc-json.log"
	write(t, path, `{"log":"[2026-02-24 11:59:51 TP0] Decode batch\n","stream":"stderr","time":"2026-02-24T11:59:51Z"}`+"\n"+"not json\n")
	f, chunks := follow(t, newLocalNode(t), metrics.Want{Path: path})
	settle(t, f)
	if got := texts(*chunks); got != "[2026-02-24 11:59:51 TP0] Decode batch\nnot json\n" {
		t.Errorf("log %q", got)
	}
}

func TestPlanSpans(t *testing.T) {
	const k, m = 1 << 10, 1 << 20
	for _, tc := range []struct {
		name       string
		hits       []int64
		size, tail int64
		want       []span
	}{
		{"empty", nil, 0, m, nil},
		{"small", nil, 10, m, []span{{0, 10, 2}}},
		{"only a tail", nil, 9 * m, m, []span{{8 * m, 9 * m, 2}}},
		{"one start, far away", []int64{m}, 9 * m, m, []span{{m, m + 256*k, 1}, {8 * m, 9 * m, 2}}},
		{"a start that reaches into the tail", []int64{8*m - 100*k}, 9 * m, m, []span{{8*m - 100*k, 8*m + 156*k, 1}, {8*m + 156*k, 9 * m, 2}}},
		{"a start inside the tail", []int64{8*m + 10}, 9 * m, m, []span{{8 * m, 8*m + 10, 2}, {8*m + 10, 8*m + 10 + 256*k, 1}, {8*m + 10 + 256*k, 9 * m, 2}}},
		{"a start at the very end", []int64{9*m - 10}, 9 * m, m, []span{{8 * m, 9*m - 10, 2}, {9*m - 10, 9 * m, 1}}},
		{"two anchors of one start", []int64{m + 500, m}, 9 * m, m, []span{{m, m + 256*k, 1}, {8 * m, 9 * m, 2}}},
		{"an earlier start", []int64{3 * m, m}, 9 * m, m, []span{{m, m + 64*k, 1}, {3 * m, 3*m + 256*k, 1}, {8 * m, 9 * m, 2}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := planSpans(tc.hits, tc.size, tc.tail); !slices.Equal(got, tc.want) {
				t.Errorf("got  %v\nwant %v", got, tc.want)
			}
		})
	}
	var many []int64
	for i := range int64(500) {
		many = append(many, i*100*k)
	}
	spans := planSpans(many, 500*100*k, m)
	sum, last := int64(0), int64(0)
	for _, s := range spans {
		if s.from < last || s.to <= s.from {
			t.Fatalf("spans overlap: %v", spans)
		}
		last = s.to
		if s.fill == 1 {
			sum += s.to - s.from
		}
	}
	if len(spans) > 2*sectionsMost+2 || sum > sectionsBytes {
		t.Errorf("%d spans, %d bytes of starts", len(spans), sum)
	}
}

func TestBackfill(t *testing.T) { backfillLog(t, newLocalNode(t)) }

// backfillLog reads a log of three starts, the last of them far from the end.
func backfillLog(t *testing.T, n *localNode) {
	path := t.TempDir() + "/server.log"
	var b strings.Builder
	noise := func(bytes int) {
		for n := b.Len() + bytes; b.Len() < n; {
			fmt.Fprintf(&b, "[2026-02-24 11:59:51 TP0] Decode batch, #running-req: %d\n", b.Len())
		}
	}
	starts := []int{}
	for range 3 {
		noise(3 << 20)
		starts = append(starts, b.Len())
		b.WriteString("==== runvigil start a\\b ====\n")
		b.WriteString("[2026-02-24 11:55:00] server_args=ServerArgs(model_path='x', " + strings.Repeat("flag=1, ", 400) + "end=1)\n")
	}
	noise(3 << 20)
	text := b.String()
	write(t, path, text)
	f, chunks := follow(t, n, metrics.Want{Path: path, Anchors: "server_args=\n==== runvigil start a\\b\n", Tail: 1 << 20})
	f.slice = 1 << 20
	f.clock = newFiles(f.p).clock
	settle(t, f)
	at := int64(0)
	found := 0
	lines := int64(0)
	for _, c := range *chunks {
		if c.Offset < at {
			t.Fatalf("chunk at %d comes after %d", c.Offset, at)
		}
		if text[c.Offset:c.End] != c.text || c.Offset > 0 && text[c.Offset-1] != '\n' && c.text != "" {
			t.Fatalf("chunk %d..%d is not what stands there, or begins inside a line", c.Offset, c.End)
		}
		at = c.End
		if c.Backfill == 1 && slices.Contains(starts, int(c.Offset)) {
			found++
		}
		lines = c.Lines
	}
	if found != 3 || at != int64(len(text)) {
		t.Errorf("%d of 3 starts, up to %d of %d", found, at, len(text))
	}
	if want := int64(strings.Count(text, "\n")); lines != want {
		t.Errorf("%d lines, want %d", lines, want)
	}
	if f.logs[path].fill != nil {
		t.Error("the backfill has not ended")
	}
}

func TestReadsForTheScreen(t *testing.T) { screenReads(t, newLocalNode(t)) }

func screenReads(t *testing.T, n *localNode) {
	dir := t.TempDir()
	var b strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&b, "line %d \x1b[31mred\x1b[0m token=%s\n", i, "abcdefghijklmnop")
	}
	log := write(t, dir+"/a.log", b.String())
	f := fileWorker(t, n)
	p, ctx := f.p, context.Background()
	page, err := p.LogSlice(ctx, log, -1000, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if got := page.Lines[len(page.Lines)-1]; got != "line 1999 red token=***" || page.End != page.Size || page.Size != int64(b.Len()) {
		t.Errorf("last line %q of %+v", got, page.End)
	}
	before, err := p.LogSlice(ctx, log, page.Offset-1000, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if before.End != page.Offset {
		t.Errorf("the page before ends at %d, this begins at %d", before.End, page.Offset)
	}
	at, err := p.SearchLog(ctx, log, LogSearch{Words: []string{"line 77 "}, Newer: true})
	if err != nil || !strings.HasPrefix(b.String()[at:], "line 77 ") {
		t.Errorf("forward: %d %v", at, err)
	}
	at, err = p.SearchLog(ctx, log, LogSearch{Words: []string{"line 1"}, From: int64(b.Len())})
	if err != nil || !strings.HasPrefix(b.String()[at:], "line 1999 ") {
		t.Errorf("backwards: %d %v", at, err)
	}
	at, err = p.SearchLog(ctx, log, LogSearch{Words: []string{"red"}, Newer: true})
	if err != nil || at != 0 {
		t.Errorf("first of many: %d %v", at, err)
	}
	if _, err = p.SearchLog(ctx, log, LogSearch{Words: []string{"no such text"}, Newer: true}); !errors.Is(err, ErrNotFound) {
		t.Errorf("text that is not there: %v", err)
	}
	at, err = p.SearchLog(ctx, log, LogSearch{Words: []string{"LINE 78 ", `no \n such`, "LINE 79 "}, Fold: true, From: int64(b.Len())})
	if err != nil || !strings.HasPrefix(b.String()[at:], "line 79 ") {
		t.Errorf("any of several, case ignored: %d %v", at, err)
	}
	if _, err = p.SearchLog(ctx, log, LogSearch{Words: []string{"LINE 78 "}, From: int64(b.Len())}); !errors.Is(err, ErrNotFound) {
		t.Errorf("capitals were ignored: %v", err)
	}
	// A slice at a time: what lies across two slices is found too.
	wide := write(t, dir+"/wide.log", strings.Repeat(strings.Repeat("w", 99)+"\n", searchSlice/100-1)+strings.Repeat("x", 150)+" needle\n"+strings.Repeat("y\n", 1<<20))
	for _, newer := range []bool{false, true} {
		s := LogSearch{Words: []string{"needle"}, From: 1 << 40, Newer: newer}
		if newer {
			s.From = 0
		}
		if at, err = p.SearchLog(ctx, wide, s); err != nil || at != (searchSlice/100-1)*100 {
			t.Errorf("across two slices, newer %v: %d %v", newer, at, err)
		}
	}
	rows := write(t, dir+"/r.jsonl", `{"a":1}`+"\n"+`{"text":"`+strings.Repeat("w", 40_000)+`"}`+"\n"+`{"torn`)
	row, err := p.NewestRow(ctx, rows)
	if err != nil || !strings.HasPrefix(row.Text, `{"text":"www`) || len(row.Text) != 40_011 || row.Bytes != 40_011 || !row.Torn {
		t.Errorf("newest row: %d bytes, %v", len(row.Text), err)
	}
	for name, tail := range map[string]string{"ended": "", "torn": `{"torn`, "torn and long": strings.Repeat("t", 3<<20)} {
		long := write(t, dir+"/long.jsonl", `{"a":1}`+"\n"+`{"text":"`+strings.Repeat("w", 10<<20)+`"}`+"\n"+tail)
		row, err = p.NewestRow(ctx, long)
		if err != nil || !strings.HasPrefix(row.Text, `{"text":"www`) || row.Bytes != 10<<20+11 || row.Torn != (tail != "") || len(row.Text) > rowMost+8 {
			t.Errorf("a row of 10 MiB, %s: %d of %d bytes, %v", name, len(row.Text), row.Bytes, err)
		}
	}
	if _, err = p.NewestRow(ctx, write(t, dir+"/one.jsonl", strings.Repeat("t", 2<<20))); !errors.Is(err, ErrNotFound) {
		t.Errorf("one row that is not ended: %v", err)
	}
	if _, err = p.NewestRow(ctx, dir+"/none"); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("missing file: %v", err)
	}
}
