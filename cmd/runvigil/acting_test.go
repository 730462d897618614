package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/launch/restart"
	"github.com/runvigil/runvigil/metrics"
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
