package findings_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// replacing is a node on which servers follow each other.
type replacing struct {
	*meet
	uptime float64
}

func newReplacing() *replacing {
	const uptime = 1e6
	return &replacing{newMeet(uptime, time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)), uptime}
}

var initProc = metrics.Proc{PID: 1, Start: 1, State: "S", Comm: "init"}

// server is a process that was started this many seconds before the node's 12:00
// (negative: after).
func (r *replacing) server(pid int, ago float64, args ...string) metrics.Proc {
	return metrics.Proc{
		PID: pid, PPID: 1, Start: int64((r.uptime - ago) * 100), State: "S", Comm: "python3", FD1: "/data/s.log", FD2: "/data/s.log",
		Argv: append([]string{"python3", "-m", "sglang.launch_server", "--port", "8000"}, args...),
	}
}

func (r *replacing) scan(procs ...metrics.Proc) {
	r.json(metrics.KindScan, "", metrics.Scan{Procs: append([]metrics.Proc{initProc}, procs...)})
}

func (r *replacing) journal(id string, lines ...string) {
	for _, l := range lines {
		text := fmt.Sprintf("%d %s\n", r.at.Unix(), l)
		r.b.Apply(metrics.Frame{Kind: metrics.KindJournal, Name: id, At: r.at, Data: []byte(text)})
	}
}

func raised(s *metrics.Snapshot, id string) *metrics.Finding {
	for i := range s.Findings {
		if s.Findings[i].ID == id {
			return &s.Findings[i]
		}
	}
	return nil
}

// ourRestart replaces server 10 by 30 through a restart that is followed here.
func ourRestart(r *replacing, wrapped bool) metrics.Proc {
	r.scan(r.server(10, 5000, "--mem-fraction-static", "0.88"))
	r.run(5)
	next := r.server(30, -10, "--mem-fraction-static", "0.90")
	named := next
	var above []metrics.Proc
	if wrapped {
		named = metrics.Proc{PID: 29, PPID: 1, Start: next.Start - 1, State: "S", Comm: "bash", Argv: []string{"bash", "-c", "run"}}
		next.PPID, above = 29, []metrics.Proc{named}
	}
	r.journal("r1", "begin id=r1 op=restart by=0 boot=b pid=10:99500000", "term set=10:99500000")
	r.run(8)
	r.scan(append(above, next)...)
	r.run(2)
	r.journal("r1", fmt.Sprintf("started pid=%d:%d port=8000 launch=new", named.PID, named.Start), "listening port=8000", "end state=running")
	return next
}

// A restart from here is known by the process that its journal names, whenever
// the discovery sees it; what comes after it is somebody else's again.
func TestReplacedByIdentity(t *testing.T) {
	for _, wrapped := range []bool{false, true} {
		r := newReplacing()
		ourRestart(r, wrapped)
		for range 30 {
			if f := raised(r.run(1), "server-replaced"); f != nil {
				t.Fatalf("our own restart is somebody else's (wrapped: %v): %s", wrapped, f.Title)
			}
		}
		theirs := r.server(40, -60, "--mem-fraction-static", "0.90", "--kv-cache-dtype", "fp8_e4m3")
		theirs.PPID = 39
		r.scan(theirs, metrics.Proc{PID: 39, PPID: 38, Comm: "bash", Env: map[string]string{"SSH_CONNECTION": "10.0.0.9 51000 10.0.0.7 22"}}, metrics.Proc{PID: 38, PPID: 1, Comm: "sshd", Argv: []string{"sshd: anna@pts/3"}})
		f := raised(r.run(5), "server-replaced")
		if f == nil {
			t.Fatal("somebody replaced the server a minute after our restart, and nobody says so")
		}
		said := f.Title
		for _, e := range f.Evidence {
			said += "\n" + e.Text
		}
		for _, want := range []string{"by somebody else", "+--kv-cache-dtype fp8_e4m3", "login anna@pts/3 from 10.0.0.9"} {
			if !strings.Contains(said, want) {
				t.Errorf("says nothing of %q:\n%s", want, said)
			}
		}
		if f.Severity != metrics.SeverityWarning {
			t.Errorf("severity %s", f.Severity)
		}
	}
}

// A process whose pid and start time are not those of the journal is not ours.
func TestReplacedByAPIDThatCameAgain(t *testing.T) {
	r := newReplacing()
	next := ourRestart(r, false)
	r.run(30)
	again := r.server(next.PID, -300, "--mem-fraction-static", "0.90")
	r.scan(again)
	if raised(r.run(5), "server-replaced") == nil {
		t.Error("another process with the pid of ours is taken for ours")
	}
}

func TestReplacedByARunvigilElsewhere(t *testing.T) {
	r := newReplacing()
	r.scan(r.server(10, 5000))
	r.run(5)
	next := r.server(30, -10, "--mem-fraction-static", "0.90")
	next.Env = map[string]string{"RUNVIGIL_START": "1795991215-7d5de2b6-new"}
	r.run(10)
	r.scan(next)
	f := raised(r.run(5), "server-replaced")
	if f == nil || !strings.Contains(f.Title, "by a runvigil elsewhere") || !strings.Contains(fmt.Sprint(f.Evidence), "1795991215-7d5de2b6") {
		t.Errorf("%+v", f)
	}
}

// A restart that another login began is followed here, and still not ours.
func TestReplacedByAnotherLogin(t *testing.T) {
	r := newReplacing()
	r.json(metrics.KindSession, "", metrics.Session{Node: "n", BootID: "b", User: "op", HZ: 100, Now: r.at, UptimeS: r.uptime})
	r.scan(r.server(10, 5000))
	r.run(5)
	next := r.server(30, -10)
	next.Env = map[string]string{"RUNVIGIL_START": "r7-new"}
	r.journal("r7", "begin id=r7 op=restart by=anna boot=b pid=10:99500000")
	r.run(10)
	r.journal("r7", fmt.Sprintf("started pid=%d:%d port=8000 launch=new", next.PID, next.Start), "end state=running")
	r.scan(next)
	if f := raised(r.run(5), "server-replaced"); f == nil || !strings.Contains(f.Title, "by anna with a runvigil elsewhere") {
		t.Errorf("%+v", f)
	}
}

// The place of a server is taken on another port too, and one of two servers
// that ends is not hidden by the other.
func TestReplacedOnAnotherPort(t *testing.T) {
	r := newReplacing()
	r.scan(r.server(10, 5000))
	r.run(5)
	next := r.server(30, -60)
	next.Argv[len(next.Argv)-1], next.FD1, next.FD2 = "30000", "/data/t.log", "/data/t.log"
	r.run(60)
	r.scan(next)
	s := r.run(10)
	if f := raised(s, "server-replaced"); f == nil || !strings.Contains(f.Title, "--port 8000 → 30000") {
		t.Errorf("%+v", s.Findings)
	}
	if raised(s, "server-down") != nil {
		t.Error("the server is down although another has its place")
	}
}

func TestOneOfTwoServersEnds(t *testing.T) {
	r := newReplacing()
	a, b := r.server(10, 5000), r.server(20, 5000)
	b.Argv, b.FD1, b.FD2 = append([]string(nil), b.Argv...), "/data/t.log", "/data/t.log"
	b.Argv[len(b.Argv)-1] = "8001"
	r.scan(a, b)
	r.run(30)
	r.scan(b)
	f := raised(r.run(10), "server-down")
	if f == nil || !strings.Contains(f.Title, "port 8000") || f.Severity != metrics.SeverityCritical {
		t.Fatalf("%+v", f)
	}
	if raised(r.run(3700), "server-down") != nil {
		t.Error("it is still told after an hour in which the other went on")
	}
}
