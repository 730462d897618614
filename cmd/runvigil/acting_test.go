package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/launch/restart"
	"github.com/runvigil/runvigil/launch/starts"
	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/explain"
	"github.com/runvigil/runvigil/tui"
)

// The actions of a read-only screen and of a replay have no acting method.
func TestLookingCannotAct(t *testing.T) {
	var looking tui.Actions = &following{}
	if _, can := looking.(tui.Actor); can {
		t.Error("the actions for looking can act")
	}
	var act tui.Actions = &acting{}
	if _, can := act.(tui.Actor); !can {
		t.Error("the actions for acting cannot act")
	}
}

func actingOn(t *testing.T) (*acting, *session) {
	t.Helper()
	s := newSession(newClock(), &replaySource{}, func(*metrics.Snapshot) {})
	return newActing(newFollowing(&actions{session: s, live: &live{node: &node{name: "gpu7"}}})), s
}

// What is begun is told when the screen is left, until it is over.
func TestLeavingTellsOfWhatGoesOn(t *testing.T) {
	a, _ := actingOn(t)
	if got := a.leaving(); got != "" {
		t.Errorf("nothing goes on, and it says %q", got)
	}
	a.going["1-ab"] = restart.Restart
	if got := a.leaving(); !strings.Contains(got, "the restart 1-ab goes on by itself") || !strings.Contains(got, "gpu7") {
		t.Errorf("it says %q", got)
	}
	a.done("1-ab")
	if got := a.leaving(); got != "" {
		t.Errorf("all is over, and it says %q", got)
	}
}

func TestBegunStart(t *testing.T) {
	p := restart.Plan{
		Node: "gpu7", Old: launch.Launch{BootID: "b", Argv: []string{"old"}}, New: launch.Launch{Engine: "sglang"}, Command: []string{"new"},
		Options: restart.Options{Override: "the owner agreed"}, Warnings: []string{"guard on --kv-cache-dtype is overridden (the owner agreed): fp8 is denied"},
	}
	line := func(text string) metrics.JournalLine {
		l, err := metrics.ParseJournalLine(text)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	if _, ok := begunStart(p, line("1771931775 stopped")); ok {
		t.Error("a stop is a start")
	}
	s, ok := begunStart(p, line("1771931778 started pid=7:9 port=8000 launch=new"))
	if !ok || s.ID != "b:7:9" || s.Argv[0] != "new" || s.Override != "the owner agreed" || !strings.Contains(s.GuardBroken, "kv-cache-dtype") {
		t.Errorf("start %+v", s)
	}
	s, _ = begunStart(p, line("1771931778 started pid=8:9 port=8000 launch=old"))
	if s.Argv[0] != "old" || s.Override != "" || s.GuardBroken != "" {
		t.Errorf("the way back breaks no guard: %+v", s)
	}
}

// The start that is about to end is found by its identity, so that its flags
// outlive its process.
func TestStartOf(t *testing.T) {
	a, s := actingOn(t)
	s.last.Store(&metrics.Snapshot{Starts: []metrics.Start{{ID: "b:6:9"}, {ID: "b:7:9", Label: "0.88"}}})
	if got, ok := a.startOf(restart.Identity{BootID: "b", PID: 7, Start: 9}); !ok || got.Label != "0.88" {
		t.Errorf("found %+v", got)
	}
	if _, ok := a.startOf(restart.Identity{BootID: "b", PID: 7, Start: 10}); ok {
		t.Error("another process of the same number is taken for it")
	}
	a.tell(context.Background(), metrics.Start{ID: "b:7:9"})
	if f := <-s.in; f.Kind != metrics.KindStarts || !strings.Contains(string(f.Data), "b:7:9") {
		t.Errorf("frame %s %s", f.Kind, f.Data)
	}
}

// A client's program that was cut anywhere on its way does nothing.
func TestClientProgramIsAllOrNothing(t *testing.T) {
	dir := t.TempDir()
	mark := filepath.Join(dir, "it's started")
	program, err := clientProgram(tui.ClientStart{Argv: []string{"touch", mark}, Dir: dir, Log: filepath.Join(dir, "log")})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(program), `touch`) || !strings.HasSuffix(string(program), "}\n") {
		t.Fatalf("program:\n%s", program)
	}
	for _, cut := range []int{len(program) / 3, len(program) / 2, len(program) - 3} {
		cmd := exec.Command("/bin/sh", "-s")
		cmd.Stdin = strings.NewReader(string(program[:cut]))
		if out, err := cmd.CombinedOutput(); err == nil && strings.Contains(string(out), "runvigil started") {
			t.Errorf("cut at %d it starts: %s", cut, out)
		}
		if _, err := os.Stat(mark); err == nil {
			t.Fatalf("cut at %d it ran", cut)
		}
	}
	if _, err := clientProgram(tui.ClientStart{Command: " "}); err == nil {
		t.Error("an empty command is a program")
	}
	if _, err := clientProgram(tui.ClientStart{Argv: []string{"a\x00b"}}); err == nil {
		t.Error("a NUL byte is taken")
	}
}

func TestClientProgramTellsWhatFails(t *testing.T) {
	dir := t.TempDir()
	for want, c := range map[string]tui.ClientStart{
		"no folder":         {Command: "true", Dir: filepath.Join(dir, "gone")},
		"cannot be written": {Command: "true", Log: filepath.Join(dir, "no", "log")},
	} {
		program, err := clientProgram(c)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		cmd := exec.CommandContext(ctx, "/bin/sh", "-s")
		cmd.Stdin = strings.NewReader(string(program))
		out, _ := cmd.Output()
		cancel()
		if !strings.Contains(string(out), "runvigil failed: ") || !strings.Contains(string(out), want) {
			t.Errorf("%q: %s", want, out)
		}
	}
}

// A restart that went back leaves two starts: the one that failed, with its
// cause, and the one that came back with its own flags.
func TestKeepBothStartsOfAWayBack(t *testing.T) {
	var j metrics.Journal
	for _, line := range []string{
		"1796000399 begin id=1796000399-060fea48 op=restart by=root", "1796000402 start offset=46393 launch=new -- /data/server.log",
		"1796000402 started pid=4490:9361 port=30000 launch=new", "1796000411 listening port=30000", "1796000411 exited pid=4490:9361 rc=131",
		"1796000412 back -- the last good launch is started again", "1796000412 start offset=48908 launch=old -- /data/server.log",
		"1796000412 started pid=4969:10396 port=30000 launch=old", "1796000422 end state=running why=back",
	} {
		if _, err := j.Apply(line); err != nil {
			t.Fatal(err)
		}
	}
	a := &act{n: &node{name: "gpu7", state: state{t.TempDir()}}}
	a.plan = restart.Plan{
		Identity: restart.Identity{BootID: "boot", PID: 2854, Start: 7412}, Options: restart.Options{Override: "a test"},
		Command: []string{"python3", "-m", "sglang.launch_server", "--mem-fraction-static", "0.985"},
		Old:     launch.Launch{Argv: []string{"python3", "-m", "sglang.launch_server", "--mem-fraction-static", "0.70"}}, New: launch.Launch{Engine: "sglang"},
	}
	failed, ok := j.Failed()
	if !ok {
		t.Fatal("the journal tells of no failure")
	}
	detail := "CUDA out of memory"
	a.keep(failed, "crashed", &explain.Cause{Class: string(metrics.CauseCUDAOOM), Detail: &detail})
	a.keep(j, "running", nil)
	all, _, err := starts.Load(a.n.state.dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range all {
		got = append(got, strings.Join([]string{s.ID, s.Label, s.Outcome, string(s.Cause), s.Override, s.At.UTC().Format(time.TimeOnly)}, ", "))
	}
	want := []string{"boot:4490:9361, 0.985 bf16, crashed, cuda-oom, a test, 01:00:02", "boot:4969:10396, 0.70 bf16, running, , , 01:00:12"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
