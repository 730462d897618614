package frames

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/board"
	"github.com/runvigil/runvigil/metrics/jsonl"
	"github.com/runvigil/runvigil/remote/simnode/model"
)

var noon = time.Date(2026, 2, 24, 12, 16, 7, 0, time.FixedZone("CET", 3600))

func newSource(t testing.TB, name string) *Source {
	t.Helper()
	sc, err := model.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return New(sc, noon)
}

// visit lets a board watch for some seconds.
func visit(t testing.TB, name string, seconds int) (*board.Board, []metrics.Frame) {
	t.Helper()
	s, b := newSource(t, name), board.New()
	all := s.Opening()
	for _, f := range all {
		b.Apply(f)
	}
	for range seconds {
		for _, f := range s.Next(b.Wants()) {
			b.Apply(f)
			all = append(all, f)
		}
	}
	return b, all
}

func dump(frames []metrics.Frame) string {
	b := &strings.Builder{}
	for _, f := range frames {
		fmt.Fprintf(b, "%s %q %s %s %q\n", f.Kind, f.Name, f.At.Format(time.RFC3339Nano), f.Node.Format(time.RFC3339Nano), f.Data)
	}
	return b.String()
}

func TestDeterminism(t *testing.T) {
	for _, sc := range model.Scenarios() {
		_, one := visit(t, sc.Name, 45)
		_, two := visit(t, sc.Name, 45)
		if dump(one) != dump(two) {
			t.Errorf("%s: two visits differ", sc.Name)
		}
		if !slices.IsSortedFunc(one, func(a, b metrics.Frame) int { return a.At.Compare(b.At) }) {
			t.Errorf("%s: receive times go back", sc.Name)
		}
	}
}

func TestScenariosReachTheBoard(t *testing.T) {
	for name, want := range map[string]string{
		"story": "serving", "ramp": "serving", "healthy": "serving", "idle": "idle", "loading": "starting", "oom": "down",
		"hang": "hung", "client-dead": "idle", "no-server": "down", "gpu-lost": "hung",
	} {
		t.Run(name, func(t *testing.T) {
			b, _ := visit(t, name, 30)
			snap := b.Snapshot()
			v := snap.Server()
			if v == nil || string(v.State) != want {
				t.Fatalf("server %+v, want %s; verdict %+v", v, want, snap.Verdict)
			}
		})
	}
}

func TestStoryOnTheBoard(t *testing.T) {
	b, all := visit(t, "story", 40)
	snap := b.Snapshot()
	v := snap.Server()
	for _, c := range []struct {
		what      string
		got       metrics.Figure
		low, high float64
	}{
		{"now", v.Gen.Now, 540, 670},
		{"settled", v.Gen.Settled, 600, 612},
		{"peak", v.Gen.Peak, 1317.32, 1317.32},
		{"capacity", v.Capacity, 159_277, 159_277},
		{"headroom", v.Headroom, 5.47, 5.47},
		{"in flight", v.InFlight, 148, 150},
	} {
		if !c.got.Known || c.got.V < c.low || c.got.V > c.high {
			t.Errorf("%s is %v (known %v), want %v to %v", c.what, c.got.V, c.got.Known, c.low, c.high)
		}
	}
	rows := map[string]float64{}
	for _, d := range snap.Datasets {
		rows[d.Name] = d.Rows.V
	}
	if len(snap.GPUs) != 8 || len(snap.Clients) != 1 || rows["B1_glaive"] != 10_000 || rows["B2_opencodeinstruct"] < 1531 {
		t.Errorf("%d GPUs, %d clients, rows %v", len(snap.GPUs), len(snap.Clients), rows)
	}
	if len(snap.Starts) < 5 {
		t.Errorf("%d starts, want four of before and this one", len(snap.Starts))
	}
	kinds := map[metrics.Kind]int{}
	for _, f := range all {
		kinds[f.Kind]++
	}
	for _, k := range []metrics.Kind{metrics.KindSession, metrics.KindLink, metrics.KindTick, metrics.KindSys, metrics.KindDisk, metrics.KindGPU,
		metrics.KindGPUStatic, metrics.KindGPUApps, metrics.KindFiles, metrics.KindDir, metrics.KindRows, metrics.KindLog, metrics.KindScan,
		metrics.KindAlive, metrics.KindHTTP} {
		if kinds[k] == 0 {
			t.Errorf("no %s frame in 40 s", k)
		}
	}
}

// A log's chunks join to the file's own bytes, each once, in whole lines.
func TestLogIsWholeAndOnce(t *testing.T) {
	s := newSource(t, "ramp")
	want := metrics.Want{Kind: metrics.WantLog, Path: s.past.ServerLog, Every: time.Second, Tail: 4 << 10, Anchors: "server_args="}
	var got []byte
	next := int64(0)
	for range 60 {
		for _, f := range s.Next([]metrics.Want{want}) {
			if f.Kind != metrics.KindLog {
				continue
			}
			h, raw, err := metrics.DecodeChunk[metrics.LogHeader](f.Data)
			if err != nil {
				t.Fatal(err)
			}
			if h.Offset != next || h.End-h.Offset != int64(len(raw)) || h.Skipped != 0 {
				t.Fatalf("header %+v after offset %d with %d bytes", h, next, len(raw))
			}
			if last := raw[len(raw)-1]; last != '\n' && last != '\r' {
				t.Fatalf("chunk ends in %q", last)
			}
			got = append(got, raw...)
			next = h.End
			if h.Lines != int64(bytes.Count(got, []byte{'\n'})) {
				t.Fatalf("%d lines told, %d there", h.Lines, bytes.Count(got, []byte{'\n'}))
			}
		}
	}
	if text := s.files[s.past.ServerLog].text; !bytes.HasPrefix(text, got) || len(got) < len(text)-4096 {
		t.Errorf("%d bytes of %d told", len(got), len(text))
	}
}

func TestPlanReadsTheStartThenTheTail(t *testing.T) {
	const m = 1 << 20
	got := plan([]int{10, 2 * m}, 5*m, m)
	want := []span{{10, 10 + sectionBytes, 1}, {2 * m, 2*m + lastSection, 1}, {4 * m, 5 * m, 2}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := plan([]int{300}, 1000, 5000); !slices.Equal(got, []span{{0, 300, 2}, {300, 1000, 1}}) {
		t.Errorf("short log: %v", got)
	}
}

// The facts about rows are those that the judge finds in the rows' text.
func TestJudgedRows(t *testing.T) {
	s := newSource(t, "story")
	f := s.files[s.past.Parts[1].File]
	var text []byte
	for _, r := range f.last {
		text = append(append(text, r.JSON()...), '\n')
	}
	want := jsonl.Judge(text, false, nil)
	got := *judge(f)
	want.Hashes, got.Hashes = nil, nil
	a, _ := json.Marshal(want)
	b, _ := json.Marshal(got)
	if !bytes.Equal(a, b) {
		t.Errorf("%s\nwant %s", b, a)
	}
}

func BenchmarkVisit(b *testing.B) {
	for b.Loop() {
		visit(b, "story", 60)
	}
}
