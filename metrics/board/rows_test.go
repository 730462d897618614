package board

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runvigil/runvigil/metrics"
)

const part = "/data/run/raw/B2.jsonl"

// job is a rig with a server, a client and one growing file.
func job(t testing.TB, clientArgs ...string) *rig {
	r := newRig(t)
	p := clientProc(20, clientArgs...)
	p.Conns = []metrics.Conn{{Port: 8000, Count: 10}}
	p.FD1 = "/data/run/logs/client.log"
	r.json(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{sglangProc(10, "--port", "8000"), p}})
	return r
}

func (r *rig) rows(path string, n int64, f metrics.RowsFact) {
	f.Path, f.Rows, f.Done = path, n, true
	if f.ID == "" {
		f.ID = "8:" + path
	}
	if f.Mtime == 0 {
		f.Mtime = r.at.Unix()
	}
	f.Size = n * 100
	f.Offset = f.Size
	r.json(metrics.KindFiles, "", []metrics.FileStat{{Path: path, Exists: true, ID: f.ID, Size: f.Size, Mtime: f.Mtime}})
	r.json(metrics.KindRows, path, f)
}

// grow adds n rows a minute for a span, counted every ten seconds.
func (r *rig) grow(path string, from int64, perMin float64, d time.Duration) (int64, *metrics.Snapshot) {
	begin := r.at
	n := from
	for r.at.Sub(begin) < d {
		n = from + int64(perMin*r.at.Sub(begin).Minutes())
		r.rows(path, n, metrics.RowsFact{})
		r.tick(10 * time.Second)
	}
	return n, r.b.Snapshot()
}

func TestRowsAMinute(t *testing.T) {
	r := job(t)
	_, snap := r.grow(part, 1374, 9, 30*time.Second)
	if d := snap.Dataset(part); d == nil || !d.Rows.Known || d.PerMin.Known {
		t.Fatalf("after half a minute: %s", show(snap))
	}
	n, snap := r.grow(part, 1378, 9, 4*time.Minute)
	d := snap.Dataset(part)
	within(t, "rate of the first minutes", d.PerMin, 8, 10)
	if d.PerMinOver > 5*time.Minute {
		t.Errorf("over %s", d.PerMinOver)
	}
	n, snap = r.grow(part, n, 9, 15*time.Minute)
	within(t, "rate", snap.Dataset(part).PerMin, 8.5, 9.5)
	within(t, "the job's rate", snap.Job.PerMin, 8.5, 9.5)
	if got := snap.Dataset(part).PerMinOver; got != rateSpan {
		t.Errorf("over %s", got)
	}
	// Ten minutes without growth are a rate of zero, not an unknown one.
	_, snap = r.grow(part, n, 0, 11*time.Minute)
	within(t, "rate of a stalled file", snap.Dataset(part).PerMin, 0, 0)
	if e := snap.Job.ETA; e.Known {
		t.Errorf("ETA of a stalled file: %+v", e)
	}
}

func TestTargets(t *testing.T) {
	for _, c := range []struct {
		name  string
		args  []string
		cfg   []metrics.ConfigTarget
		setup func(r *rig)
		want  metrics.Target
	}{
		{"by path", nil, []metrics.ConfigTarget{{Path: part, Rows: 500}}, nil, metrics.Target{Rows: 500, Source: "configuration"}},
		{"by pattern", nil, []metrics.ConfigTarget{{Path: "/data/run/raw/*.jsonl", Rows: 500}}, nil, metrics.Target{Rows: 500, Source: "configuration"}},
		{"by name", nil, []metrics.ConfigTarget{{Path: "B2", Rows: 500}}, nil, metrics.Target{Rows: 500, Source: "configuration"}},
		{"of another file", nil, []metrics.ConfigTarget{{Path: "B1", Rows: 500}}, nil, metrics.Target{}},
		{"of the client's arguments", []string{"--num-samples", "700"}, nil, nil, metrics.Target{Rows: 700, Inferred: true, Source: "the client's arguments"}},
		{"of its input file", []string{"--in", "prompts.jsonl"}, nil, func(r *rig) {
			r.json(metrics.KindRows, "/data/run/prompts.jsonl", metrics.RowsFact{Path: "/data/run/prompts.jsonl", ID: "8:9", Rows: 900, Done: true, Mtime: r.at.Add(-24 * time.Hour).Unix()})
		}, metrics.Target{Rows: 900, Inferred: true, Source: "rows of prompts.jsonl"}},
		{"of an input file that is younger than the server", []string{"--input-file=prompts.jsonl", "--out", "B2.jsonl"}, nil, func(r *rig) {
			at := r.at.Add(-550 * time.Second).Unix()
			r.json(metrics.KindFiles, "", []metrics.FileStat{{Path: "/data/run/prompts.jsonl", Exists: true, ID: "8:9", Size: 9000, Mtime: at}})
			r.json(metrics.KindRows, "/data/run/prompts.jsonl", metrics.RowsFact{Path: "/data/run/prompts.jsonl", ID: "8:9", Rows: 600, Done: true, Mtime: at})
		}, metrics.Target{Rows: 600, Inferred: true, Source: "rows of prompts.jsonl"}},
		{"of an input file whose last row has no newline", []string{"--in", "prompts.jsonl"}, nil, func(r *rig) {
			r.json(metrics.KindRows, "/data/run/prompts.jsonl", metrics.RowsFact{Path: "/data/run/prompts.jsonl", ID: "8:9", Rows: 899, Torn: true, Done: true, Mtime: r.at.Add(-24 * time.Hour).Unix()})
		}, metrics.Target{Rows: 900, Inferred: true, Source: "rows of prompts.jsonl"}},
		{"not of an input file that is still counted", []string{"--in", "prompts.jsonl"}, nil, func(r *rig) {
			r.json(metrics.KindRows, "/data/run/prompts.jsonl", metrics.RowsFact{Path: "/data/run/prompts.jsonl", ID: "8:9", Rows: 300, Mtime: r.at.Add(-24 * time.Hour).Unix()})
		}, metrics.Target{}},
		{"of a table", []string{"--dataset", "q.csv"}, nil, func(r *rig) {
			r.json(metrics.KindRows, "/data/run/q.csv", metrics.RowsFact{Path: "/data/run/q.csv", ID: "8:9", Rows: 450, Done: true})
		}, metrics.Target{Rows: 450, Inferred: true, Source: "records of q.csv"}},
		{"of the lines of a text", []string{"--prompts=/data/q.txt"}, nil, func(r *rig) {
			r.json(metrics.KindRows, "/data/q.txt", metrics.RowsFact{Path: "/data/q.txt", ID: "8:9", Rows: 440, Done: true})
		}, metrics.Target{Rows: 440, Inferred: true, Source: "lines of q.txt"}},
		{"not of a text that may be one prompt", []string{"--prompt-file", "/data/q.txt", "--system-prompt", "/data/s.txt", "--out", "/data/o.csv"}, nil, func(r *rig) {
			for _, p := range []string{"/data/q.txt", "/data/s.txt", "/data/o.csv"} {
				r.json(metrics.KindRows, p, metrics.RowsFact{Path: p, ID: "8:9", Rows: 440, Done: true})
			}
		}, metrics.Target{}},
		{"of its progress bar rather than of a table", []string{"--input", "q.csv"}, nil, func(r *rig) {
			r.json(metrics.KindRows, "/data/run/q.csv", metrics.RowsFact{Path: "/data/run/q.csv", ID: "8:9", Rows: 450, Done: true})
			r.log("/data/run/logs/client.log", "gen:  10%|#  | 80/800 [01:00<09:00,  1.33it/s]\n", metrics.LogHeader{})
		}, metrics.Target{Rows: 800, Inferred: true, Source: "the client's progress bar"}},
		{"of its progress bar", nil, nil, func(r *rig) {
			r.log("/data/run/logs/client.log", "gen:  10%|#  | 80/800 [01:00<09:00,  1.33it/s]\n", metrics.LogHeader{})
		}, metrics.Target{Rows: 800, Inferred: true, Source: "the client's progress bar"}},
		{"none", nil, nil, nil, metrics.Target{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := job(t, c.args...)
			r.json(metrics.KindConfig, "", metrics.Config{Targets: c.cfg})
			if c.setup != nil {
				c.setup(r)
			}
			r.tick(2 * time.Second)
			r.rows(part, 100, metrics.RowsFact{})
			snap := r.tick(2 * time.Second)
			d := snap.Dataset(part)
			if d == nil {
				t.Fatalf("%s", show(snap))
			}
			if diff := cmp.Diff(c.want, d.Target); diff != "" {
				t.Error(diff)
			}
			if len(snap.Datasets) != 1 {
				t.Errorf("an input file became a dataset: %s", show(snap))
			}
		})
	}
}

func TestETA(t *testing.T) {
	r := job(t)
	r.json(metrics.KindConfig, "", metrics.Config{Targets: []metrics.ConfigTarget{{Path: "", Rows: 10_000}, {Path: part, Rows: 10_000}}})
	_, snap := r.grow(part, 1000, 10, 20*time.Minute)
	e := snap.Job.ETA
	want := snap.At.Add(time.Duration((10_000-snap.Job.Rows.V)/10) * time.Minute)
	if !e.Known || e.At.Sub(want).Abs() > 30*time.Minute {
		t.Errorf("ETA %+v, want about %s", e, want)
	}
	// A hundred rows in ten minutes: one part in ten.
	if s := e.Spread / time.Minute; s < 60 || s > 120 {
		t.Errorf("spread %s", e.Spread)
	}
	if d := snap.Dataset(part).ETA; d != e {
		t.Errorf("the only dataset's ETA %+v differs from the job's %+v", d, e)
	}
	r.rows(part, 10_000, metrics.RowsFact{})
	snap = r.tick(time.Second)
	if d := snap.Dataset(part); !snap.Job.Done || snap.Job.ETA.Known || d.Done.IsZero() || snap.Job.ETA.Held != "reached" {
		t.Errorf("at the target: %s", show(snap))
	}
}

// An earlier visit's count gives the rate of the second visit and the rows that
// landed since the client began, if the file is still the same.
func TestSaved(t *testing.T) {
	for _, c := range []struct {
		name, id string
		rows     int64
		landed   float64
	}{
		{"the same file", "8:1", 1374, 157},
		{"another file of that name", "8:2", 1374, 0},
		{"a file that shrank", "8:1", 9999, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			client := r.at.Add(-500 * time.Second)
			r.json(metrics.KindSaved, "", metrics.Saved{Files: []metrics.SavedFile{{Path: part, ID: c.id, Head: "h", Offset: 7, Rows: c.rows, At: client.Add(-time.Minute)}}})
			p := clientProc(20)
			p.Conns = []metrics.Conn{{Port: 8000, Count: 10}}
			r.json(metrics.KindScan, "", metrics.Scan{Procs: []metrics.Proc{sglangProc(10, "--port", "8000"), p}})
			i := slices.IndexFunc(r.b.Wants(), func(w metrics.Want) bool { return w.Kind == metrics.WantRows && w.Path == part })
			if i < 0 {
				t.Fatalf("no want for %s: %v", part, r.b.Wants())
			}
			if w := r.b.Wants()[i]; w.ID != c.id || w.Offset != 7 || w.Head != "h" || w.Rows != c.rows {
				t.Errorf("want %+v does not resume", w)
			}
			r.rows(part, 1531, metrics.RowsFact{ID: "8:1", Head: "h"})
			d := r.tick(time.Second).Dataset(part)
			if d.Landed.V != c.landed {
				t.Errorf("landed %v since %s, want %v", d.Landed, d.LandedSince, c.landed)
			}
			if since := d.LandedSince; c.landed > 0 && !since.Equal(client) {
				t.Errorf("since %s, want the client's start %s", since, client)
			}
			s := r.b.Snapshot().Saved
			if len(s.Files) != 1 || s.Files[0].Rows != 1531 || s.Files[0].ID != "8:1" {
				t.Errorf("saved %+v", s)
			}
		})
	}
}

func TestShardsAreOneDataset(t *testing.T) {
	r := job(t)
	for i := range 4 {
		r.rows(fmt.Sprintf("/data/run/raw/out-%05d-of-00004.jsonl", i), int64(100+i), metrics.RowsFact{})
	}
	snap := r.tick(2 * time.Second)
	if len(snap.Datasets) != 1 {
		t.Fatalf("%s", show(snap))
	}
	d := snap.Datasets[0]
	if d.Path != "/data/run/raw/out-*-of-*.jsonl" || len(d.Shards) != 4 || d.Rows.V != 406 {
		t.Errorf("dataset %+v", d)
	}
	if s := snap.Series[metrics.SeriesKey{What: metrics.SeriesRows, Of: d.Path}]; s.Last().IsZero() {
		t.Error("no series of the shards' rows")
	}
}

// Only what grows, and what lies beside it, is a dataset.
func TestWhatIsADataset(t *testing.T) {
	r := job(t, "--prompts", "/data/run/raw/prompts.jsonl")
	old := r.at.Add(-48 * time.Hour).Unix()
	list := func(size int64) []metrics.FileStat {
		return []metrics.FileStat{
			{Path: "/data/run/raw/B2.jsonl", Exists: true, ID: "1", Size: size, Mtime: r.at.Unix()},
			{Path: "/data/run/raw/B1.jsonl", Exists: true, ID: "2", Size: 9, Mtime: old},
			{Path: "/data/run/raw/prompts.jsonl", Exists: true, ID: "3", Size: 9, Mtime: old},
			{Path: "/data/run/notes.txt", Exists: true, ID: "4", Size: 9, Mtime: r.at.Unix()},
			{Path: "/data/run/eval/old.jsonl", Exists: true, ID: "5", Size: 9, Mtime: old},
		}
	}
	r.json(metrics.KindDir, "/data/run", list(100))
	r.tick(time.Second)
	var got []string
	for _, d := range r.b.Snapshot().Datasets {
		got = append(got, d.Path)
	}
	slices.Sort(got)
	if want := []string{"/data/run/raw/B1.jsonl", "/data/run/raw/B2.jsonl"}; !slices.Equal(got, want) {
		t.Errorf("datasets %v, want %v", got, want)
	}
	wants := func(kind metrics.WantKind) (out []string) {
		for _, w := range r.b.Wants() {
			if w.Kind == kind {
				out = append(out, w.Path)
			}
		}
		return out
	}
	if w := wants(metrics.WantRows); !slices.Contains(w, "/data/run/raw/prompts.jsonl") || slices.Contains(w, "/data/run/eval/old.jsonl") {
		t.Errorf("rows wanted: %v", w)
	}
	if w := wants(metrics.WantDir); !slices.Contains(w, "/data/run/logs") || !slices.Contains(w, "/data/run") || slices.Contains(w, "/") {
		t.Errorf("directories wanted: %v", w)
	}
}

func TestPartsInFoldersOfTheirOwn(t *testing.T) {
	r := job(t)
	r.json(metrics.KindDir, "/data/run", []metrics.FileStat{
		{Path: "/data/run/B2_code/raw_responses.jsonl", Exists: true, ID: "1", Size: 5, Mtime: r.at.Unix()},
		{Path: "/data/run/B1_glaive/raw_responses.jsonl", Exists: true, ID: "2", Size: 5, Mtime: r.at.Add(-time.Hour).Unix()},
	})
	var got []string
	for _, d := range r.tick(time.Second).Datasets {
		got = append(got, d.Name)
	}
	if !slices.Equal(got, []string{"B2_code", "B1_glaive"}) {
		t.Errorf("names %v", got)
	}
}

func TestRowsReset(t *testing.T) {
	r := job(t)
	n, _ := r.grow(part, 1000, 60, 3*time.Minute)
	r.rows(part, 10, metrics.RowsFact{Reset: "truncated"})
	snap := r.tick(time.Second)
	d := snap.Dataset(part)
	if d.Rows.V != 10 || d.PerMin.Known && d.PerMin.V > 0 {
		t.Errorf("after a truncation: rows %v, rate %v", d.Rows, d.PerMin)
	}
	if !slices.ContainsFunc(snap.Events, func(e metrics.Event) bool {
		return e.Kind == "rows" && strings.Contains(e.Text, "truncated") && strings.Contains(e.Text, metrics.Count(float64(n)))
	}) {
		t.Errorf("events %+v", snap.Events)
	}
}

func TestCountingIsShown(t *testing.T) {
	r := job(t)
	r.json(metrics.KindFiles, "", []metrics.FileStat{{Path: part, Exists: true, ID: "1", Size: 1000, Mtime: r.at.Unix()}})
	r.json(metrics.KindRows, part, metrics.RowsFact{Path: part, ID: "1", Size: 1000, Offset: 250, Rows: 12, Mtime: r.at.Unix()})
	snap := r.tick(time.Second)
	d := snap.Dataset(part)
	if d.Rows.Known || !d.Counting.Known || d.Counting.Done != 250 || d.Counting.Total != 1000 || snap.Job.Rows.Known {
		t.Errorf("while counting: %+v", d)
	}
	if !slices.ContainsFunc(snap.Doing, func(s string) bool { return strings.Contains(s, "counting") && strings.Contains(s, "25 %") }) {
		t.Errorf("doing %v", snap.Doing)
	}
}

func TestGapAndJudged(t *testing.T) {
	r := job(t)
	for i := range 12 {
		f := metrics.RowsFact{}
		if i == 5 {
			f.Judged = &metrics.RowsJudged{Rows: 4, Finished: 4, Truncated: 1, InTokens: true, Lengths: []int{100, 4000, 300}}
		}
		r.rows(part, int64(100+i), f)
		r.tick(6 * time.Second)
	}
	d := r.b.Snapshot().Dataset(part)
	if d.Gap != 6*time.Second {
		t.Errorf("gap %s", d.Gap)
	}
	if d.Median.V != 300 || !d.MedianInTokens || d.Cut.V != 0.25 {
		t.Errorf("median %v, cut %v", d.Median, d.Cut)
	}
}

func TestTrailForgets(t *testing.T) {
	var tr trail
	for i := range 100_000 {
		tr.add(t0.Add(time.Duration(i)*2*time.Second), float64(i))
	}
	if len(tr.fine) > 240 || len(tr.long) > 800 {
		t.Errorf("%d fine and %d long points", len(tr.fine), len(tr.long))
	}
	now := t0.Add(99_999 * 2 * time.Second)
	n, over, ok := growth([]*trail{&tr}, now.Add(-time.Hour), now)
	if !ok || math.Abs(n/over.Minutes()-30) > 0.5 {
		t.Errorf("growth of the last hour %v over %s", n, over)
	}
}

// All rows of a file that is younger than the client came from it.
func TestLandedInANewFile(t *testing.T) {
	r := job(t)
	client := r.tick(time.Second).Clients[0].Started
	r.rows(part, 48, metrics.RowsFact{})
	r.json(metrics.KindFiles, "", []metrics.FileStat{{Path: part, Exists: true, ID: "1", Size: 4800, Mtime: r.at.Unix(), Birth: client.Unix() + 1}})
	d := r.tick(time.Second).Dataset(part)
	if d.Landed.V != 48 || !d.LandedSince.Equal(client) {
		t.Errorf("landed %v since %s, want 48 since %s", d.Landed, d.LandedSince, client)
	}
	// A file's birth is told to the second: it may be that of the client's start.
	r.json(metrics.KindFiles, "", []metrics.FileStat{{Path: part, Exists: true, ID: "1", Size: 4800, Mtime: r.at.Unix(), Birth: client.Unix()}})
	if d := r.tick(time.Second).Dataset(part); d.Landed.V != 48 {
		t.Errorf("landed %v in the second of the client's start", d.Landed)
	}
}

// Rows of a file that was there before are compared with finished requests only
// after a while: both come in bursts.
func TestLandedNeedsAWhile(t *testing.T) {
	r := job(t)
	_, snap := r.grow(part, 1374, 600, 20*time.Second)
	if snap.Job.Landed.Known || !snap.Dataset(part).Landed.Known {
		t.Errorf("after 20 s: landed %v", snap.Job.Landed)
	}
	_, snap = r.grow(part, 1574, 600, 30*time.Second)
	if l := snap.Job.Landed; !l.Known || l.V < 300 {
		t.Errorf("after 50 s: landed %v", l)
	}
}

// run writes what a server and its client do in a while: a request ends every
// second ends, a decode line every ten, and each request becomes a row.
func (r *rig) run(rows int64, perMin, running, queued int, d time.Duration) (int64, *metrics.Snapshot) {
	begin, posts, begun := r.at, 0, rows
	for r.at.Sub(begin) < d {
		r.tick(10 * time.Second)
		text := decodeLine(r.stamp(0), "", running, running*4000, 0.95, 600, queued)
		for want := int(float64(perMin) * r.at.Sub(begin).Minutes()); posts < want; posts++ {
			text += "[" + r.stamp(0) + "] INFO:     127.0.0.1:1 - \"POST /generate HTTP/1.1\" 200 OK\n"
		}
		r.log(serverLog, text, metrics.LogHeader{})
		rows = begun + int64(posts)
		r.rows(part, rows, metrics.RowsFact{})
	}
	return rows, r.b.Snapshot()
}

// procs is a scan with a server and a client of some age, seconds.
func (r *rig) procs(server int, serverAge int64, client int, clientAge int64, more ...string) {
	up := int64(100_000 + r.at.Sub(time.Date(2026, 2, 24, 12, 0, 0, 0, time.UTC))/time.Second)
	s := sglangProc(server, "--port", "8000")
	s.FD1, s.FD2, s.Start = serverLog, serverLog, 100*(up-serverAge)
	list := []metrics.Proc{s}
	if client > 0 {
		c := clientProc(client, append([]string{"--base-url", "http://127.0.0.1:8000"}, more...)...)
		c.Start, c.Conns = 100*(up-clientAge), []metrics.Conn{{Port: 8000, Count: 10}}
		list = append(list, c)
	}
	r.json(metrics.KindScan, "", metrics.Scan{Procs: list})
}

// The job's end is told from the growth since the last start, after as many
// requests as are in flight have landed. It comes back after a restart of the
// server and after the client was resumed, without the pause in its rate; and
// what the client wants is not forgotten while no client runs.
func TestETAAcrossRestartAndResume(t *testing.T) {
	r := newRig(t)
	wants := []string{"--in", "/data/run/prompts.jsonl"}
	r.procs(10, 60, 20, 30, wants...)
	r.json(metrics.KindRows, "/data/run/prompts.jsonl", metrics.RowsFact{Path: "/data/run/prompts.jsonl", ID: "8:9", Rows: 5000, Done: true, Mtime: r.at.Add(-48 * time.Hour).Unix()})
	start := func() {
		r.log(serverLog, fmt.Sprintf("[%[1]s] server_args=ServerArgs(model_path='/models/Kimi-K2.5', tp_size=8)\n[%[1]s] The server is fired up and ready to roll!\n", r.stamp(0)), metrics.LogHeader{})
	}
	start()
	rows, snap := r.run(0, 20, 30, 60, 3*time.Minute)
	if e := snap.Job.ETA; e.Known || !strings.Contains(e.Held, "60 of the first 90 landed") {
		t.Errorf("60 of 90 in flight have landed: %+v", e)
	}
	if j := snap.Job.Target; j.Rows != 5000 || !j.Inferred {
		t.Fatalf("target %+v: %s", j, show(snap))
	}
	eta := func(name string, snap *metrics.Snapshot, perMin float64) {
		t.Helper()
		left := (5000 - snap.Job.Rows.V) / perMin
		e := snap.Job.ETA
		if got := e.At.Sub(snap.At).Minutes(); !e.Known || math.Abs(got-left) > 0.15*left || e.Spread <= 0 {
			t.Errorf("%s: ETA in %.0f min ± %s, want about %.0f (%+v)", name, got, e.Spread, left, e)
		}
	}
	rows, snap = r.run(rows, 20, 30, 60, 10*time.Minute)
	eta("first start", snap, 20)

	// The server is restarted: five minutes without a row, then half the rate.
	r.tick(5 * time.Minute)
	r.procs(40, 10, 20, 30+18*60, wants...)
	start()
	rows, snap = r.run(rows, 10, 30, 60, 2*time.Minute)
	if e := snap.Job.ETA; e.Known {
		t.Errorf("two minutes after the restart: %+v", e)
	}
	rows, snap = r.run(rows, 10, 30, 20, 5*time.Minute)
	eta("after the restart", snap, 10)

	// The client ends: the wish stays, the end is not told.
	r.procs(40, 10+7*60, 0, 0)
	snap = r.tick(time.Minute)
	if j := snap.Job; j.Target.Rows != 5000 || !j.Target.Inferred || j.ETA.Known || j.ETA.Held != "no client runs" {
		t.Errorf("without a client: target %+v, ETA %+v", j.Target, j.ETA)
	}
	r.procs(40, 10+9*60, 50, 5, wants...)
	rows, snap = r.run(rows, 30, 30, 60, time.Minute)
	if e := snap.Job.ETA; e.Known || !strings.Contains(e.Held, "30 of the first 90 landed") {
		t.Errorf("just resumed: %+v", e)
	}
	rows, snap = r.run(rows, 30, 30, 60, 5*time.Minute)
	eta("resumed", snap, 30)
	if snap.Job.Rows.V != float64(rows) {
		t.Errorf("%v rows, want %d", snap.Job.Rows, rows)
	}
}

// The rows of the time before the visit are told by the log, also where its
// history is read after they were counted.
func TestPastRowsFromALateLog(t *testing.T) {
	for _, late := range []time.Duration{0, 20 * time.Second, 5 * time.Minute} {
		r := newRig(t)
		r.procs(10, 1000, 20, 900)
		r.rows(part, 300, metrics.RowsFact{})
		text := fmt.Sprintf("[%[1]s] server_args=ServerArgs(model_path='/models/Kimi-K2.5', tp_size=8)\n[%[1]s] The server is fired up and ready to roll!\n", r.stamp(-1000*time.Second))
		for s := -900; s < 0; s += 6 {
			text += "[" + r.stamp(time.Duration(s)*time.Second) + "] INFO:     127.0.0.1:1 - \"POST /generate HTTP/1.1\" 200 OK\n"
		}
		text += decodeLine(r.stamp(-time.Second), "", 35, 150_000, 0.95, 606, 115)
		_, _ = r.grow(part, 300, 10, late)
		r.log(serverLog, text, metrics.LogHeader{Backfill: 1})
		_, snap := r.grow(part, 300+int64(10*late.Minutes()), 10, 20*time.Second)
		cols := snap.Series[metrics.SeriesKey{What: metrics.SeriesRowRate, Of: part}].Columns(r.at.Add(-late-2*time.Minute), 10*time.Minute, 10)
		n := 0
		for _, b := range cols {
			if b.N > 0 && math.Abs(b.Mean()-10) <= 1 {
				n++
			}
		}
		if want := map[bool]int{true: 10, false: 0}[late < rebuildFor]; n < want || want == 0 && n > 0 {
			t.Errorf("log %s late: %d minutes of ten tell about 10 rows: %v", late, n, cols)
		}
	}
}

// A target that was set by hand holds in the next visit too, unless the
// configuration has one for the same rows.
func TestTargetByHandIsKept(t *testing.T) {
	r := job(t)
	fromFile := metrics.Config{Targets: []metrics.ConfigTarget{{Path: "", Rows: 88_000}}}
	r.json(metrics.KindConfig, "", fromFile)
	r.json(metrics.KindConfig, "", metrics.Config{Targets: append(fromFile.Targets, metrics.ConfigTarget{Path: part, Rows: 500})})
	r.rows(part, 100, metrics.RowsFact{})
	saved := r.tick(2 * time.Second).Saved
	if want := []metrics.ConfigTarget{{Path: part, Rows: 500}}; !slices.Equal(saved.Targets, want) {
		t.Fatalf("saved %v, want %v", saved.Targets, want)
	}
	for _, c := range []struct {
		name string
		cfg  metrics.Config
		want int64
	}{
		{"as it was", fromFile, 500},
		{"the file has one now", metrics.Config{Targets: []metrics.ConfigTarget{{Path: part, Rows: 700}}}, 700},
	} {
		r := job(t)
		r.json(metrics.KindConfig, "", c.cfg)
		r.json(metrics.KindSaved, "", saved)
		r.rows(part, 100, metrics.RowsFact{})
		snap := r.tick(2 * time.Second)
		if d := snap.Dataset(part); d == nil || d.Target.Rows != c.want || d.Target.Inferred {
			t.Errorf("%s: %s", c.name, show(snap))
		}
		if len(snap.Config.Targets) != len(c.cfg.Targets)+map[int64]int{500: 1}[c.want] {
			t.Errorf("%s: targets %v", c.name, snap.Config.Targets)
		}
	}
}
