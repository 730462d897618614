package starts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runvigil/runvigil/metrics"
)

var zone = time.FixedZone("CET", 3600)

func at(h, m int) time.Time { return time.Date(2026, 2, 24, h, m, 0, 0, zone) }

func num(v float64) *float64 { return &v }

func argv(more ...string) []string {
	return append(strings.Fields("python3 -m sglang.launch_server --model-path /data/models/Kimi-K2.5 --tp 8 --mem-fraction-static"), more...)
}

var fp8 = []metrics.Guard{{Flag: "kv-cache-dtype", Deny: []string{"fp8*"}, Why: "degrades the model noticeably"}}

// story is the table of the run, with what the operator knew of each start.
func story() []metrics.Start {
	s := func(no, h, m int, label, outcome string, capacity float64, flags ...string) metrics.Start {
		return metrics.Start{
			ID: fmt.Sprintf("story-%d", no), No: no, Node: "gpu7", Engine: "sglang", Version: "0.5.9", At: at(h, m), Label: label, Imported: true,
			Outcome: outcome, Capacity: num(capacity), Argv: argv(flags...),
		}
	}
	hi := []string{"--enable-hierarchical-cache", "--hicache-size", "48"}
	list := []metrics.Start{
		s(1, 9, 2, "0.85 bf16", "stopped", 116_171, "0.85"),
		s(2, 11, 28, "0.93 bf16 hicache", "crashed", 231_120, append([]string{"0.93"}, hi...)...),
		s(3, 11, 34, "0.88 bf16 hicache", "stopped", 159_277, append([]string{"0.88"}, hi...)...),
		s(4, 11, 46, "0.90 fp8 hicache", "stopped", 376_000, append([]string{"0.90", "--kv-cache-dtype", "fp8_e4m3"}, hi...)...),
		s(5, 11, 55, "0.88 bf16 hicache", "running", 159_277, append([]string{"0.88"}, hi...)...),
	}
	list[0].Settled, list[0].Spread, list[0].Peak = num(725), num(125), num(850)
	list[1].HeadroomGB, list[1].Cause, list[1].CauseTxt, list[1].AfterS = num(0.82), metrics.CauseCUDAOOM, "out of memory in prefill", 40
	list[2].HeadroomGB, list[2].Settled, list[2].Peak = num(5.47), num(606), num(1317)
	list[3].Settled, list[3].Spread, list[3].Peak = num(1375), num(75), num(1450)
	list[4].ID, list[4].Imported = "b00710:206001:4410021", false
	list[4].HeadroomGB, list[4].Settled, list[4].Spread, list[4].Peak, list[4].PerRequest = num(5.47), num(604), num(21), num(1317.32), num(4426)
	list[4].FirstToken = at(11, 57)
	return list
}

func TestBestIsFitToBeGoneBackTo(t *testing.T) {
	rows := Table(story(), fp8)
	var unfit []string
	for _, r := range rows {
		unfit = append(unfit, fmt.Sprint(r.Best)+" "+r.Unfit)
	}
	want := []string{
		"false ",
		"false crashed",
		"false ",
		"false breaks a guard: kv-cache-dtype fp8_e4m3 is denied (fp8*): degrades the model noticeably",
		"true ",
	}
	if d := cmp.Diff(want, unfit); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	// Once it is known that the work was the same, 604 ± 21 and 725 ± 125 do not
	// differ by more than their spread: the larger pool wins.
	list := story()
	list[0].PerRequest = num(4400)
	rows = Table(list, fp8)
	if !rows[4].Best || rows[4].Why != "as fast as the highest within the spread, larger KV pool" || rows[0].Why != "no faster within the spread, smaller KV pool" {
		t.Errorf("%q, %q", rows[4].Why, rows[0].Why)
	}
	// Where the difference is real the faster one wins.
	list[0].Spread = num(10)
	if rows = Table(list, fp8); !rows[0].Best || rows[4].Why != "slower" {
		t.Error("725 ± 10 is better than 604 ± 21")
	}
	// Without the guard the fp8 start is the fastest.
	list[3].PerRequest = num(4400)
	if rows = Table(list, nil); !rows[3].Best {
		t.Error("without the owner's rule fp8 is best")
	}
}

// A higher level that is not best needs a reason beside it.
func TestWhyNotBest(t *testing.T) {
	rows := Table(story(), fp8)
	for i, want := range []string{
		"not comparable: tokens a request not known", "crashed", "not comparable: tokens a request not known",
		"breaks a guard: kv-cache-dtype fp8_e4m3 is denied (fp8*): degrades the model noticeably", "highest settled tok/s of those that compare",
	} {
		if rows[i].Why != want {
			t.Errorf("#%d: %q, want %q", i+1, rows[i].Why, want)
		}
	}
	want := "#5 is best: highest settled tok/s of those that compare. Higher, but: #4 (1,375) breaks a guard: kv-cache-dtype fp8_e4m3 is denied (fp8*): degrades the model noticeably; " +
		"#1 (725), #3 (606) not comparable: tokens a request not known"
	if got := BestLine(rows); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	// The same part means the same work, whatever is known of its length.
	list := story()
	list[0].Dataset, list[4].Dataset, list[0].Spread = "B1_glaive", "B1_glaive", num(10)
	if rows = Table(list, fp8); !rows[0].Best {
		t.Errorf("the same part: %+v", rows[0])
	}
	// Where no start's length is known nothing tells them apart.
	list = story()
	list[4].PerRequest, list[0].Spread = nil, num(10)
	if rows = Table(list, fp8); !rows[0].Best {
		t.Errorf("no length is known: %q", rows[0].Why)
	}
	if got := BestLine(Table(list[1:2], fp8)); got != "" {
		t.Errorf("nothing is best: %q", got)
	}
	if rows = Table(list[1:2], fp8); rows[0].Why != "crashed" {
		t.Errorf("alone: %q", rows[0].Why)
	}
}

func TestWayBack(t *testing.T) {
	list := story()
	if s, ok := WayBack(list, fp8, list[4].ID); !ok || s.ID != "story-3" {
		t.Errorf("%s, %v: the fp8 start must be passed over", s.ID, ok)
	}
	if s, ok := WayBack(list[1:2], fp8, ""); ok {
		t.Errorf("%s never gave a token", s.ID)
	}
	list[2].Outcome, list[2].Cause = "crashed", metrics.CauseCUDAOOM
	if s, ok := WayBack(list, fp8, list[4].ID); ok && s.ID == "story-3" {
		t.Error("one that ran out of memory is gone back to")
	}
	list[2].Cause = metrics.CauseKilledUnknown
	if s, ok := WayBack(list, fp8, list[4].ID); !ok || s.ID != "story-3" {
		t.Errorf("%s, %v: one that somebody killed had nothing wrong", s.ID, ok)
	}
	list[2].FirstToken, list[2].Peak, list[2].Settled = time.Time{}, nil, nil
	if s, ok := WayBack(list, fp8, list[4].ID); !ok || s.ID != "story-1" {
		t.Errorf("%s, %v", s.ID, ok)
	}
}

func TestNotComparable(t *testing.T) {
	list := story()
	list[0].PerRequest = num(1151)
	list[2].Dataset, list[4].Dataset = "B1_glaive", "B2_opencodeinstruct"
	rows := Table(list, fp8)
	if !strings.Contains(rows[0].NotComparable, "1,151 tokens a request, not 4,426") || rows[0].Best {
		t.Errorf("short requests: %q", rows[0].NotComparable)
	}
	if !strings.Contains(rows[2].NotComparable, "B1_glaive, not B2_opencodeinstruct") {
		t.Errorf("another part: %q", rows[2].NotComparable)
	}
	if rows[4].NotComparable != "" || !rows[4].Best {
		t.Errorf("%+v", rows[4])
	}
	list[2].PerRequest = num(4400)
	if rows = Table(list, fp8); !strings.Contains(rows[2].NotComparable, "another part") {
		t.Errorf("the same lengths do not make another part the same work: %q", rows[2].NotComparable)
	}
	list[2].Dataset = "B2_opencodeinstruct"
	if rows = Table(list, fp8); rows[2].NotComparable != "" {
		t.Errorf("the same part and lengths: %q", rows[2].NotComparable)
	}
}

func TestCompareSideBySide(t *testing.T) {
	list := story()
	p := Compare(list[0], list[4])
	if len(p.Flags) != 3 || p.Flags[0].String() != "--mem-fraction-static 0.85 → 0.88" {
		t.Errorf("flags: %v", p.Flags)
	}
	f := p.Figures[0]
	if f.Name != "settled tok/s" || *f.Diff != -121 || *f.Exceeds {
		t.Errorf("%+v", f)
	}
	list[0].Spread = num(10)
	if f = Compare(list[0], list[4]).Figures[0]; !*f.Exceeds {
		t.Error("121 exceeds 10 and 21 together")
	}
	list[0].Spread = nil
	if f = Compare(list[0], list[4]).Figures[0]; f.Exceeds != nil {
		t.Error("121 against 21 and a spread that is not known")
	}
	for _, f := range p.Figures {
		if f.Name == "headroom GiB" && (f.A != nil || f.Diff != nil || *f.B != 5.47) {
			t.Errorf("an unknown figure was compared: %+v", f)
		}
	}
}

func TestDifferingFlags(t *testing.T) {
	want := []string{"mem-fraction-static", "enable-hierarchical-cache", "hicache-size", "kv-cache-dtype"}
	if d := cmp.Diff(want, DifferingFlags(story())); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestSort(t *testing.T) {
	rows := Table(story(), fp8)
	order := func() (no []int) {
		for _, r := range rows {
			no = append(no, r.No)
		}
		return no
	}
	if !Sort(rows, "settled", true) || !cmp.Equal(order(), []int{4, 1, 3, 5, 2}) {
		t.Errorf("by settled: %v", order())
	}
	if !Sort(rows, "headroom", false) || order()[0] != 2 {
		t.Errorf("by headroom: %v", order())
	}
	if Sort(rows, "colour", false) {
		t.Error("there is no such column")
	}
	for _, c := range Columns() {
		if !Sort(rows, c, true) {
			t.Errorf("column %s cannot be sorted by", c)
		}
	}
}

func TestRenderers(t *testing.T) {
	rows := Table(story(), fp8)
	var b bytes.Buffer
	if err := WriteMarkdown(&b, rows, zone); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| best | 5 | 24 Feb 11:55 | 0.88 bf16 hicache | 159,277 | 5.47 GiB | 1,317 | 604 ± 21 |",
		"0.93 bf16 hicache (imported) | 231,120 | 0.82 GiB | – | – |",
		"crashed: out of memory in prefill, 40 s after it was ready",
		"| stopped | breaks a guard: kv-cache-dtype fp8_e4m3",
		"| not comparable: tokens a request not known |",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("lacks %q:\n%s", want, b.String())
		}
	}
	b.Reset()
	if err := WriteTable(&b, rows, zone); err != nil || !strings.Contains(b.String(), "--mem-fraction-static 0.93 → 0.88\n      not best: not comparable: ") {
		t.Errorf("%v:\n%s", err, b.String())
	}
	b.Reset()
	rows[0].Note = "=HYPERLINK(1)"
	rows[0].Phases = []metrics.PhaseTook{{Name: "loading weights", Took: 81 * time.Second}, {Name: "capturing graphs", Took: 34500 * time.Millisecond}}
	if err := WriteCSV(&b, rows); err != nil {
		t.Fatal(err)
	}
	if head, first, _ := strings.Cut(b.String(), "\n"); !strings.HasSuffix(head, "note,mem-fraction-static,enable-hierarchical-cache,hicache-size,kv-cache-dtype") ||
		!strings.Contains(first, "'=HYPERLINK") || !strings.Contains(first, "loading weights 81; capturing graphs 34.5") || !strings.HasPrefix(first, "1,story-1,gpu7,2026-02-24T08:02:00Z,sglang,0.5.9,,0.85 bf16,true,,116171,,850,725,125,") {
		t.Errorf("csv:\n%s", b.String())
	}
	b.Reset()
	if err := WriteJSON(&b, rows); err != nil {
		t.Fatal(err)
	}
	var back []map[string]any
	if err := json.Unmarshal(b.Bytes(), &back); err != nil || len(back) != 5 || back[4]["best"] != true || back[0]["headroom_gib"] != nil || back[1]["unfit"] != "crashed" || back[1]["why"] != "crashed" {
		t.Errorf("%v:\n%s", err, b.String())
	}
}

func TestHistoryRoundTrip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "nodes", "gpu7")
	if list, n, err := Load(dir); err != nil || n != 0 || list != nil {
		t.Errorf("no history yet: %v, %d, %v", list, n, err)
	}
	list := story()
	list[4].Argv = append(list[4].Argv, "--api-key", "sk-planted0123456789abc")
	for i, s := range list {
		if err := Append(dir, Event{Key: s.ID, At: at(12, i), What: "seen", Start: s}); err != nil {
			t.Fatal(err)
		}
	}
	got, n, err := Load(dir)
	if err != nil || n != 0 {
		t.Fatal(n, err)
	}
	list[4].Argv[len(list[4].Argv)-1] = metrics.Masked
	if d := cmp.Diff(list, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	raw, err := os.ReadFile(filepath.Join(dir, fileName))
	if err != nil || strings.Contains(string(raw), "planted") {
		t.Errorf("the planted secret was kept, or %v", err)
	}
	if info, err := os.Stat(filepath.Join(dir, fileName)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestTornLinesAreSkipped(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, fileName)
	whole := `{"v":1,"key":"a","at":"2026-02-24T11:00:00Z","start":{"id":"a","node":"n","engine":"sglang","at":"2026-02-24T10:00:00Z","argv":["x\u001b[31m"]}}`
	damage := whole + "\n" + whole[:40] + "\n\n\x00\x00\n[]\n{\"v\":2,\"key\":\"b\"}\n{\"v\":1}\n" + strings.Repeat("x", maxLine+10) + "\n" + whole[:60]
	if err := os.WriteFile(path, []byte(damage), 0o600); err != nil {
		t.Fatal(err)
	}
	// The last line was torn by a death: the next event begins on a line of its own.
	if err := Append(dir, Event{Key: "c", At: at(12, 0), Start: metrics.Start{At: at(11, 0)}}); err != nil {
		t.Fatal(err)
	}
	got, n, err := Load(dir)
	if err != nil || n != 7 || len(got) != 2 || got[0].ID != "a" && got[1].ID != "a" {
		t.Errorf("%d skipped, %v: %+v", n, err, got)
	}
	for _, s := range got {
		for _, a := range s.Argv {
			if strings.Contains(a, "\x1b") {
				t.Errorf("hostile text: %q", a)
			}
		}
	}
}

func TestSeveralWriters(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 50 {
				s := metrics.Start{At: at(1, 0).Add(time.Duration(w*50+i) * time.Hour), Note: strings.Repeat("x", 3000)}
				if err := Append(dir, Event{Key: fmt.Sprintf("w%d-%d", w, i), At: at(12, 0), Start: s}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if list, n, err := Load(dir); err != nil || n != 0 || len(list) != 400 {
		t.Errorf("%d starts, %d skipped, %v; want 400", len(list), n, err)
	}
}

func TestMergeForgetsNothing(t *testing.T) {
	base := metrics.Start{ID: "k", At: at(11, 0), Engine: "sglang", Outcome: "running"}
	step := func(minute int, change func(*metrics.Start)) Event {
		s := base
		change(&s)
		return Event{Key: "k", At: at(11, minute), Start: s}
	}
	events := []Event{
		step(9, func(s *metrics.Start) { s.Outcome = "unknown" }),
		step(2, func(s *metrics.Start) { s.Capacity, s.Argv, s.Peak = num(10), argv("0.88"), num(1317) }),
		step(5, func(s *metrics.Start) {
			s.Settled, s.Peak, s.Note, s.FirstToken = num(604), num(900), "kept", at(11, 3)
		}),
		step(8, func(s *metrics.Start) {
			s.Outcome, s.Cause, s.CauseTxt, s.AfterS = "crashed", metrics.CauseCUDAOOM, "in decode", 400
		}),
	}
	want := base
	want.No, want.Outcome, want.Cause, want.CauseTxt, want.AfterS = 1, "crashed", metrics.CauseCUDAOOM, "in decode", 400
	want.Capacity, want.Argv, want.Peak, want.Settled, want.Note, want.FirstToken = num(10), argv("0.88"), num(1317), num(604), "kept", at(11, 3)
	if d := cmp.Diff([]metrics.Start{want}, Merge(nil, events)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestLogAndProcessBecomeOneStart(t *testing.T) {
	fromLog := metrics.Start{ID: "/data/x.log@1771930000", At: at(11, 55).Add(40 * time.Second), Engine: "sglang", Imported: true, Capacity: num(159_277)}
	live := metrics.Start{ID: "b00710:206001:4410021", At: at(11, 55), Engine: "sglang", Argv: argv("0.88")}
	before := metrics.Start{ID: "/data/x.log@1771929000", At: at(11, 53), Engine: "sglang", Imported: true, Capacity: num(231_120)}
	for name, order := range map[string][]metrics.Start{"log first": {before, fromLog, live}, "process first": {before, live, fromLog}} {
		var events []Event
		for i, s := range order {
			events = append(events, Event{Key: s.ID, At: at(12, i), Start: s})
		}
		got := Merge(nil, events)
		if len(got) != 2 || got[1].ID != live.ID || got[1].Imported || *got[1].Capacity != 159_277 || len(got[1].Argv) == 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func FuzzRead(f *testing.F) {
	line, err := encode(Event{Key: "k", At: at(1, 2), Start: story()[4]})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(line)
	f.Add(append(line[:50], line...))
	f.Fuzz(func(t *testing.T, data []byte) {
		events, _, err := Read(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if err := WriteCSV(io.Discard, Table(Merge(nil, events), fp8)); err != nil {
			t.Error(err)
		}
		// A whole event after any damage is found, if it begins a line.
		again, _, err := Read(bytes.NewReader(append(append(data, '\n'), line...)))
		if err != nil || len(again) == 0 || again[len(again)-1].Key != "k" {
			t.Errorf("the event behind the damage is lost: %d, %v", len(again), err)
		}
	})
}
