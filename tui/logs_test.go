package tui

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

func logTail(first, n int) *metrics.LogTail {
	t := &metrics.LogTail{Path: "/l", First: int64(first), Size: int64((first + n - 1) * 100), Offset: int64((first + n - 1) * 100)}
	for i := range n {
		no := first + i
		l := metrics.LogLine{Text: fmt.Sprintf("line %d", no), Off: int64((no - 1) * 100), At: storyNow.Add(time.Duration(no-2000) * time.Second)}
		if no%500 == 0 {
			l.Text, l.Level = fmt.Sprintf("ERROR line %d", no), 2
		}
		t.Lines = append(t.Lines, l)
	}
	return t
}

// fileSlice answers queries as a node with 2,000 such lines would.
func fileSlice(q LogQuery) LogSlice {
	all := logTail(1, 2000).Lines
	cut := func(from, to, hit int) LogSlice {
		to = min(to, len(all))
		from = min(max(from, 0), to)
		return LogSlice{Path: q.Path, Lines: append([]metrics.LogLine(nil), all[from:to]...), First: int64(from + 1), Start: int64(from * 100), End: int64(to * 100), Hit: hit}
	}
	before := len(all)
	if q.Before >= 0 && q.At.IsZero() && !q.Newer {
		before = int(q.Before / 100)
	}
	switch {
	case !q.At.IsZero():
		for i, l := range all {
			if !l.At.Before(q.At) {
				return cut(i-20, i+80, min(i, 20))
			}
		}
	case q.Newer && (q.Search != "" || q.Errors):
		for i := int(q.After+99) / 100; i < len(all); i++ {
			if q.Errors && all[i].Level == 2 || q.Search != "" && strings.Contains(all[i].Text, q.Search) {
				return cut(i-20, i+80, min(i, 20))
			}
		}
		return LogSlice{Path: q.Path, Hit: -1}
	case q.Search != "" || q.Errors:
		for i := before - 1; i >= 0; i-- {
			if q.Errors && all[i].Level == 2 || q.Search != "" && strings.Contains(all[i].Text, q.Search) {
				return cut(i-20, i+80, min(i, 20))
			}
		}
		return LogSlice{Path: q.Path, Hit: -1}
	case q.Newer:
		i := int(q.After+99) / 100
		return cut(i, i+100, -1)
	}
	return cut(before-100, before, -1)
}

func logScene(first, n int) *metrics.Snapshot {
	s := sceneSettled()
	t := logTail(first, n)
	t.Path = storyLog
	s.Logs[storyLog] = t
	return s
}

func TestLogFollows(t *testing.T) {
	drive(t, 100, 30, logScene(1801, 200), func(d *driver) {
		d.Press("l").See("line 2000", "following").NotSee("line 1900")
		more := logScene(1811, 200)
		d.Send(snapshotMsg{more}).See("line 2010", "following")
		d.Press("k").See("G follows").Send(snapshotMsg{logScene(1821, 200)}).NotSee("line 2020").Press("G").See("line 2020", "following")
		d.Press("ctrl+u").NotSee("line 2020").Press("ctrl+d").See("following", "line 2020")
	})
}

// A log whose file is gone is not followed, and its view says since when.
func TestLogWasDeleted(t *testing.T) {
	drive(t, 100, 30, logScene(1801, 200), func(d *driver) {
		d.Press("l").See("line 2000", "following")
		gone := logScene(1801, 200)
		for _, l := range gone.Logs {
			l.Deleted = gone.At.Add(-2 * time.Minute)
		}
		d.Send(snapshotMsg{gone}).See("line 2000", "deleted since "+gone.Clock(gone.At.Add(-2*time.Minute))).NotSee("following")
		d.Send(snapshotMsg{logScene(1811, 200)}).See("line 2010", "following")
	})
}

func TestLogReadsBackOnDemand(t *testing.T) {
	drive(t, 100, 30, logScene(1801, 200), func(d *driver) {
		d.act.slice = fileSlice
		d.Press("l")
		for range 17 {
			d.Press("ctrl+u")
		}
		d.See("line 177").NotSee("reading")
		if len(d.act.queries) == 0 || d.act.queries[0].Before != 180000 {
			t.Fatalf("queries %+v", d.act.queries)
		}
		d.Press("g").See("line 1 ", "far back")
		n := len(d.act.queries)
		d.Press("k", "g")
		if len(d.act.queries) != n {
			t.Error("the beginning of the file is asked for again")
		}
		for range 300 {
			d.Press("ctrl+d")
		}
		d.See("line 2000", "following")
		d.Press("g", "G").See("line 2000", "following")
	})
}

// However much is read, only so many lines are kept.
func TestLogBufIsBounded(t *testing.T) {
	b := &logBuf{}
	b.join(logTail(900_001, 1000))
	for at := 900_001; at > 1; at -= 10_000 {
		b.before(LogSlice{Lines: logTail(at-10_000, 10_000).Lines})
		if len(b.lines) >= bufLimit+bufSlack {
			t.Fatalf("%d lines", len(b.lines))
		}
	}
	if !b.apart || !b.head || b.first != 1 || b.lines[0].Text != "line 1" {
		t.Errorf("at the file's beginning: first %d, %q, apart %v", b.first, b.lines[0].Text, b.apart)
	}
	for at := len(b.lines) + 1; at < 200_000; at += 10_000 {
		b.after(LogSlice{Lines: logTail(at, 10_000).Lines})
		if len(b.lines) >= bufLimit+bufSlack {
			t.Fatalf("%d lines", len(b.lines))
		}
	}
	if b.head || b.lines[0].Text != fmt.Sprintf("line %d", b.first) {
		t.Errorf("first %d is %q", b.first, b.lines[0].Text)
	}
}

// Any file can be watched: the fold is told, and until lines come that is said.
func TestLogOfAnyFile(t *testing.T) {
	s := sceneSettled()
	s.Config.Logs = []string{"/have.log"}
	drive(t, 100, 30, s, func(d *driver) {
		d.Press(":").Type("logs /var/log/x.log").Press("enter").See("watching /var/log/x.log", "no line of /var/log/x.log was read yet")
		if len(d.act.frames) != 1 {
			t.Fatalf("%d frames", len(d.act.frames))
		}
		if c, _ := metrics.Decode[metrics.Config](d.act.frames[0]); !slices.Equal(c.Logs, []string{"/have.log", "/var/log/x.log"}) {
			t.Errorf("watched: %q", c.Logs)
		}
		later := sceneSettled()
		later.Config.Logs = []string{"/have.log", "/var/log/x.log"}
		later.Logs["/var/log/x.log"] = logTail(1, 3)
		d.Send(snapshotMsg{later}).See("line 3", "following").Press("esc")
		d.Press(":").Type("logs x.log").Press("enter").See("line 3").Press("esc")
		d.Press(":").Type("logs y.log").Press("enter").See("logs: y.log stands in no folder").NotSee("was read yet")
		d.Press(":").Type("logs /have.log").Press("enter").See("no line of /have.log").Press("esc")
		if len(d.act.frames) != 1 {
			t.Errorf("a watched log is watched again")
		}
		d.act.logs = map[string]LogFile{
			"~/runs":  {Newest: []string{"/root/runs/new.log", "/root/runs/old.log"}},
			"~/a.log": {Path: "/root/a.log", Missing: true},
		}
		d.Press(":").Type("logs ~/runs").Press("enter").See(">", "/root/runs/new.log", "/root/runs/old.log").Press("down", "enter").See("watching /root/runs/old.log").Press("esc")
		d.Press(":").Type("logs ~/a.log").Press("enter").See("/root/a.log is not there yet; it is shown when it comes", "no line of /root/a.log").Press("esc")
		d.act.fail = errNode
		d.Press(":").Type("logs /b.log").Press("enter").See("logs: node unreachable").NotSee("was read yet")
	})
	s = sceneSettled()
	s.Replay = true
	drive(t, 120, 30, s, func(d *driver) {
		d.Press(":").Type("logs /b.log").Press("enter").See("no /b.log here, and the node cannot be asked; there is /data/").NotSee("was read yet")
	})
}

// A search through a long file can be stopped, and what it finds then is not shown.
func TestLogSearchStops(t *testing.T) {
	drive(t, 100, 30, logScene(1801, 200), func(d *driver) {
		d.act.slice = func(q LogQuery) LogSlice { time.Sleep(time.Minute); return fileSlice(q) }
		d.Press("l", "/").Type("line 77").Press("enter").See("reading …  esc stops").Press("esc").See("stopped", "server log").Wait(2 * time.Minute).NotSee("line 777").See("following")
		d.Press("/").Type("line 88").Press("enter").See("reading").Press("@").Type("11:50").Press("enter").Wait(2 * time.Minute).See("line 433").NotSee("line 880")
		d.Press("G").See("following", "line 2000")
	})
}

func TestLogSearch(t *testing.T) {
	drive(t, 100, 30, logScene(1801, 200), func(d *driver) {
		d.act.slice = fileSlice
		d.Press("l", "/").Type("line 190").Press("enter").See("/line 190  10 of 10", "line 1909")
		d.Press("n", "n").See("8 of 10").Press("N").See("9 of 10").Press("N", "N").See("nothing newer")
		d.Press("/").Type("line 777").Press("enter").See("line 777", "/line 777  1 of 1", "far back, G follows")
		d.Press("/").Type("line 99").Press("enter").See("line 99 ", "1 of 1").Press("N").See("line 990", "1 of 10").Press("N").See("line 991", "2 of 10").Press("G")
		d.Press("G").See("following", "line 2000")
		d.Press("/").Type("never there").Press("enter").See("nothing further back")
		d.Press("/", "enter").NotSee("never there").Press("n").See("nothing to search for")
		d.Press("!").See("ERROR line 2000").Press("!").See("ERROR line 1500").Press("!", "!").See("ERROR line 500").Press("!").See("nothing further back")
	})
	if m := newMatcher("Error"); m.in("an error") || !m.in("an Error") {
		t.Error("capitals in the search do not count")
	}
	if m := newMatcher("error"); !m.in("an ERROR") {
		t.Error("a search without capitals does")
	}
}

func TestLogTimeJump(t *testing.T) {
	drive(t, 100, 30, logScene(1801, 200), func(d *driver) {
		d.act.slice = fileSlice
		d.Press("l", "@").Type("12:15:07").Press("enter").See("line 1940")
		d.Press("@").Type("11:50").Press("enter").See("line 433", "far back")
		d.Press("ctrl+d", "ctrl+d", "ctrl+d", "ctrl+d", "ctrl+d", "ctrl+d", "ctrl+d", "ctrl+d", "ctrl+d").See("line 5")
		d.Press("@").Type("soon").Press("enter").See("a time as 03:12")
		d.Press("@", "esc", "@", "enter")
		d.act.fail = errNode
		d.Press("@").Type("11:45").Press("enter").See("log: node unreachable")
	})
}

func TestLogWrapAndCut(t *testing.T) {
	s := logScene(1801, 200)
	s.Logs[storyLog].Lines[199].Text = strings.Repeat("long ", 40) + "END"
	s.Logs[storyLog].Lines[198].Text = strings.Repeat("漢字", 80) + "ENDE"
	drive(t, 100, 30, s, func(d *driver) {
		d.Press("l").NotSee("END").See("›").Press("w").See("END", "ENDE", "wrapped").Press("w").NotSee("END")
		d.Press("right", "right", "l", "l", "l", "l").See("END").Press("left", "h", "left", "left", "left", "left", "left").See("long long")
		d.Press("tab").See("is empty").Press("tab").See("server log")
	})
}

// Where a tail does not touch what is there, it replaces it: no line stands in a
// wrong place.
func TestLogBufJoin(t *testing.T) {
	b := &logBuf{}
	b.join(logTail(1, 10))
	b.join(logTail(5, 10))
	if len(b.lines) != 14 || b.lines[13].Text != "line 14" || !b.head {
		t.Fatalf("%d lines, %+v", len(b.lines), b.lines[len(b.lines)-1])
	}
	b.join(logTail(100, 10))
	if len(b.lines) != 10 || b.first != 100 || b.head {
		t.Fatalf("after a gap %d lines from %d", len(b.lines), b.first)
	}
	b.join(logTail(1, 5))
	if len(b.lines) != 5 || b.first != 1 {
		t.Fatalf("after a new file %d lines from %d", len(b.lines), b.first)
	}
	other := logTail(1, 8)
	for i := range other.Lines {
		other.Lines[i].Text = "other"
	}
	b.join(other)
	if len(b.lines) != 8 || b.lines[0].Text != "other" {
		t.Fatalf("a replaced file keeps %+v", b.lines[0])
	}
	unknown := logTail(20, 6)
	unknown.First = 0
	c := &logBuf{}
	c.join(unknown)
	next := logTail(23, 6)
	next.First = 0
	c.join(next)
	if len(c.lines) != 9 || c.lines[8].Text != "line 28" {
		t.Fatalf("without numbers %d lines", len(c.lines))
	}
	big := &logBuf{}
	for i := 0; i < 60; i++ {
		big.join(logTail(1+i*1000, 1000))
		big.join(logTail(1+i*1000+500, 1000))
	}
	if len(big.lines) >= bufLimit+bufSlack || big.first+int64(len(big.lines)) != 60501 {
		t.Fatalf("%d lines from %d", len(big.lines), big.first)
	}
	big.join(nil)
}

func TestHitIndex(t *testing.T) {
	b, h := &logBuf{}, &hitIndex{}
	b.join(logTail(1, 1000))
	if got := h.in(b, newMatcher("error")); len(got) != 2 || got[0] != 499 || got[1] != 999 {
		t.Fatalf("hits %v", got)
	}
	b.join(logTail(1001, 600))
	if got := h.in(b, newMatcher("error")); len(got) != 3 || got[2] != 1499 {
		t.Fatalf("after growth %v", got)
	}
	b.replace(LogSlice{Lines: logTail(490, 20).Lines, First: 490, Start: 48900})
	if got := h.in(b, newMatcher("error")); len(got) != 1 || got[0] != 10 {
		t.Fatalf("after a jump %v", got)
	}
	if got := h.in(b, newMatcher("line 49")); len(got) != 10 {
		t.Fatalf("another text %v", got)
	}
}

// A full buffer with a search in it, drawn after one more line.
func BenchmarkLogView(b *testing.B) {
	m := newModel(b.Context(), Options{Theme: SchemeDark})
	m.resize(120, 40)
	s := sceneSettled()
	for i := range 50 {
		s.Logs[storyLog] = logTail(1+i*1000, 1000)
		s.Logs[storyLog].Path = storyLog
		m.Update(snapshotMsg{s})
		if i == 0 {
			m.Update(keyNamed("l"))
			m.views[viewLogs].(*logView).match = newMatcher("error")
		}
		m.View()
	}
	no := 50_001
	b.ReportAllocs()
	for b.Loop() {
		s.Logs[storyLog] = logTail(no-999, 1000)
		no++
		m.Update(snapshotMsg{s})
		m.View()
	}
}

// o lands on the line that proves a finding, also far back, and says so where it
// is not there any more.
func TestProofFarBack(t *testing.T) {
	scene := logScene(1801, 200)
	scene.Findings = []metrics.Finding{{
		ID: "server-half-dead", Severity: metrics.SeverityCritical, Subject: "x", Title: "a part of the server is dead", Since: storyNow,
		Log: metrics.LogPlace{Path: storyLog, Off: 77600, At: storyNow.Add(-1223 * time.Second), Text: "line 777"},
	}}
	drive(t, 100, 30, scene, func(d *driver) {
		d.act.slice = func(q LogQuery) LogSlice {
			s := fileSlice(LogQuery{Path: q.Path, Before: -1, Search: q.Place.Text})
			if s.Hit < 0 {
				s = fileSlice(LogQuery{Path: q.Path, At: q.Place.At})
				s.Missing = "that line is not in it any more; this is its moment"
			}
			return s
		}
		d.Press("f").See("at 11:55: o").Press("o").See("line 777", "far back, G follows")
		if q := d.act.queries; len(q) != 1 || q[0].Place.Off != 77600 {
			t.Errorf("queries %+v", q)
		}
		d.Press("esc", "esc")
		scene.Findings[0].Log.Text = "a line of the file before"
		d.Send(snapshotMsg{scene}).Press("f", "o").See("not in it any more", "line 777")
		scene.Findings[0].Log = metrics.LogPlace{Path: storyLog, Line: 1950, Text: "line 1950"}
		d.Press("esc", "esc").Send(snapshotMsg{scene}).Press("f").See("line 1,950: o").Press("o").See("line 1950").NotSee("far back")
	})
}

// The graph beside a finding reaches back to its beginning and marks it.
func TestGraphMarksTheMoment(t *testing.T) {
	scene := sceneSettled()
	key := metrics.SeriesKey{What: metrics.SeriesGenTPS, Of: storyServer}
	curve := &metrics.Series{}
	for age := 5 * time.Hour; age >= 0; age -= time.Minute {
		curve.Add(scene.At.Add(-age), 600)
	}
	scene.Series[key] = curve
	scene.Events = nil
	scene.Findings = []metrics.Finding{{ID: "throughput-fell", Severity: metrics.SeverityWarning, Subject: storyServer, Title: "it fell", Since: scene.At.Add(-3 * time.Hour), Graph: key}}
	drive(t, 100, 30, scene, func(d *driver) {
		d.Press("f").See("tok/s [6h]", "┊", severitySign[metrics.SeverityWarning]+"─")
	})
}
