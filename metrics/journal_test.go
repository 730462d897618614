package metrics

import (
	"strings"
	"testing"
	"time"
)

const journal = `1795991215 begin id=1795991215-7d5de2b6 op=restart by=root boot=ad747219 pid=15027:486741
1795991215 identify pid=15027:486741
1795991215 term set=15027:486741 tree=15027:486741,15030:486750
1795991216 stopped
1795991216 port-free port=43089
1795991216 gpu-free used=1,1
1795991216 start offset=21 launch=new -- /data/server log.txt
1795991216 started pid=15276:486838 port=43089 launch=new
1795991217 listening port=43089
`

func fold(t *testing.T, text string) Journal {
	t.Helper()
	var j Journal
	for line := range strings.Lines(text) {
		if _, err := j.Apply(line); err != nil {
			t.Errorf("%v", err)
		}
	}
	return j
}

func TestJournal(t *testing.T) {
	for _, c := range []struct {
		name, more string
		ok         func(Journal) bool
	}{
		{"so far", "", func(j Journal) bool {
			return j.ID == "1795991215-7d5de2b6" && j.Op == "restart" && j.By == "root" && j.PID == 15276 && j.Start == 486838 && j.Port == 43089 &&
				j.Listening && !j.Exited && !j.Done && j.Touched && j.Log == "/data/server log.txt" && j.Offset == 21
		}},
		{"it runs", "1795991217 end state=running\n", func(j Journal) bool { return j.Done && j.State == JournalRunning && j.Why == "" }},
		{"it ended", "1795991218 exited pid=15276:486838 rc=137 -- ended by signal 9\n1795991219 end state=failed why=exited -- no\n", func(j Journal) bool {
			return j.Exited && j.ExitCode == 137 && j.State == JournalFailed && j.Why == "exited"
		}},
		{"it ended after the last word", "1795991217 end state=running\n1795991218 exited pid=15276:486838 rc=1\n", func(j Journal) bool {
			return j.Done && j.Exited && j.State == JournalRunning
		}},
		{"another one ended", "1795991218 exited pid=15276:486839 rc=137\n", func(j Journal) bool { return !j.Exited }},
		{"the way back", "1795991218 exited pid=15276:486838 rc=1\n1795991219 back\n1795991219 started pid=20:30 port=8000 launch=old\n", func(j Journal) bool {
			return j.Back && j.PID == 20 && j.Start == 30 && !j.Exited && !j.Listening && j.Port == 8000
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if j := fold(t, journal+c.more); !c.ok(j) {
				t.Errorf("%+v", j)
			}
		})
	}
}

// The journal of a way back still tells what failed.
func TestJournalFailed(t *testing.T) {
	var j Journal
	for _, line := range []string{
		"1796000402 start offset=46393 launch=new -- /data/server.log", "1796000402 started pid=4490:9361 port=30000 launch=new", "1796000411 listening port=30000",
		"1796000411 exited pid=4490:9361 rc=131 -- ended by signal 3", "1796000412 back -- the last good launch is started again",
		"1796000412 start offset=48908 launch=old -- /data/server.log", "1796000412 started pid=4969:10396 port=30000 launch=old", "1796000422 end state=running why=back",
	} {
		if _, err := j.Apply(line); err != nil {
			t.Fatal(err)
		}
	}
	failed, ok := j.Failed()
	if !ok || failed.PID != 4490 || failed.Offset != 46393 || !failed.Exited || failed.ExitCode != 131 || !failed.Listening || failed.Done || failed.Back {
		t.Errorf("failed %+v (%v)", failed, ok)
	}
	if j.PID != 4969 || !j.Back || j.Offset != 48908 {
		t.Errorf("the journal %+v", j)
	}
	if _, ok := failed.Failed(); ok {
		t.Error("a journal without a way back has a failed server")
	}
}

func TestJournalBusy(t *testing.T) {
	j := fold(t, "1795991215 busy owner=12:34 id=1-ab since=1795991200 by=ann -- a restart of ann is under way\n1795991215 end state=untouched why=busy\n")
	if j.Touched || j.State != JournalUntouched || j.Lines[0].Get("by") != "ann" {
		t.Errorf("%+v", j)
	}
	if pid, start, ok := j.Lines[0].Process("owner"); pid != 12 || start != 34 || !ok {
		t.Errorf("owner %d:%d %v", pid, start, ok)
	}
}

func TestJournalLinesThatAreNone(t *testing.T) {
	for _, line := range []string{
		"", "x", "12", "12 ", "12 nosuch", "-1 begin", "99999999999999 begin", "12 begin x", "12 begin =x", "12 begin K=v", "12 begin  a=b",
		"12 begin a=\x1b[31m", "12 begin a=b\xff", "12 note " + strings.Repeat("a=b ", 2000),
	} {
		var j Journal
		if l, err := j.Apply(line); err == nil {
			t.Errorf("%q was read as %+v", line, l)
		}
		if j.Broken != 1 || len(j.Lines) != 0 {
			t.Errorf("%q: %+v", line, j)
		}
	}
}

func TestJournalTextIsCleanedAndMasked(t *testing.T) {
	l, err := ParseJournalLine("12 note -- token=hf_0123456789abcdefghijklmn \x1b[2J\x07 gone")
	if err != nil || strings.Contains(l.Text, "0123456789") || strings.ContainsAny(l.Text, "\x1b\x07") {
		t.Errorf("%q %v", l.Text, err)
	}
}

// FuzzJournal: nothing that a node writes breaks the fold, and a line that was
// understood says the same after it was written again.
func FuzzJournal(f *testing.F) {
	for line := range strings.Lines(journal) {
		f.Add(line)
	}
	f.Add("1795991218 exited pid=1:2 rc=137 -- ended by signal 9")
	f.Add("1 end state=failed why=x -- a -- b")
	f.Add("1 busy owner=:::: since=x")
	f.Fuzz(func(t *testing.T, text string) {
		var j Journal
		for line := range strings.Lines(text) {
			l, err := j.Apply(line)
			if err != nil {
				continue
			}
			again, err := ParseJournalLine(l.String())
			if err != nil || again.Step != l.Step || !again.At.Equal(l.At) || len(again.Fields) != len(l.Fields) {
				t.Fatalf("%q was read as %+v and again as %+v (%v)", line, l, again, err)
			}
			if l.At.After(time.Unix(1<<40, 0)) || strings.ContainsAny(l.Text, "\n\x1b") {
				t.Fatalf("%q gave %+v", line, l)
			}
		}
	})
}
