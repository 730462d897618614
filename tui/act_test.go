package tui

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/launch/restart"
	"github.com/runvigil/runvigil/metrics"
)

// fakeActed is the node that acting keys reach in tests.
type fakeActed struct {
	looks    []int
	finds    int
	under    *restart.UnderWay // what Find finds
	lookErr  error
	refusals []restart.Refusal
	begun    []restart.Plan
	beginErr error
	journal  []string      // lines that Follow tells
	hold     chan struct{} // Follow waits here before its last word
	readyErr error
	clients  []ClientStart
	scripts  map[string]string
	wrote    []string // paths with the lines that were changed
	writeErr error
	parent   string // of the server that Look finds
}

var settledServer = sync.OnceValue(func() metrics.Server { return sceneSettled().Servers[0] })

func (f *fakeActions) Look(_ context.Context, pid int) (restart.Seen, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.acted.looks = append(f.acted.looks, pid)
	if f.acted.lookErr != nil {
		return restart.Seen{UID: -1}, f.acted.lookErr
	}
	s := settledServer()
	l := launch.Launch{
		BootID: "b00710", PID: s.PID, Start: s.Start, Engine: "sglang", Version: "0.5.9", Argv: s.Argv, Dir: s.Cwd, Log: storyLog, LogHow: launch.LogFile, Umask: 18, UID: 0, GID: 0,
		Env: []launch.Var{{Name: "CUDA_VISIBLE_DEVICES", Value: "0,1,2,3,4,5,6,7"}, {Name: "HF_TOKEN", Value: metrics.Masked, Secret: true}},
	}
	seen := restart.Seen{Launch: l, ArgvSum: "1 2", UID: 0, Base: "/root/.cache/runvigil/restart"}
	if pid == 0 {
		seen.Launch.PID, seen.Saved = 206001, "1771931000-00000000"
	} else {
		seen.Launch.Parent = f.acted.parent
	}
	return seen, nil
}

func (f *fakeActions) Check(context.Context, restart.Plan) ([]restart.Refusal, []string, error) {
	return f.acted.refusals, nil, nil
}

func (f *fakeActions) Begin(_ context.Context, p restart.Plan) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.acted.beginErr != nil {
		return f.acted.beginErr
	}
	f.acted.begun = append(f.acted.begun, p)
	return nil
}

func (f *fakeActions) Find(context.Context) (*restart.UnderWay, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.acted.finds++
	return f.acted.under, nil
}

func (f *fakeActions) Follow(ctx context.Context, _ restart.UnderWay, each func(metrics.JournalLine)) (metrics.Journal, error) {
	var j metrics.Journal
	for i, text := range f.acted.journal {
		if i == len(f.acted.journal)-1 && f.acted.hold != nil {
			select {
			case <-f.acted.hold:
			case <-ctx.Done():
				return j, ctx.Err()
			}
		}
		l, err := j.Apply(text)
		if err != nil {
			return j, err
		}
		each(l)
	}
	return j, nil
}

func (f *fakeActions) Ready(_ context.Context, _ restart.Plan, _ metrics.Journal, state func(string)) error {
	state("port 8000 is open, asking for a token")
	return f.acted.readyErr
}

func (f *fakeActions) ReadScript(_ context.Context, path string) ([]byte, error) {
	if text, ok := f.acted.scripts[path]; ok {
		return []byte(text), nil
	}
	if path != "/data/start.sh" {
		return nil, errNode
	}
	return []byte("#!/bin/sh\ncd /data\nnohup python3 -m sglang.launch_server --model-path /m --tp 4 >> server.log 2>&1 &\n"), nil
}

func (f *fakeActions) WriteScript(_ context.Context, path string, before, after []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.acted.writeErr != nil {
		return f.acted.writeErr
	}
	f.acted.wrote = append(f.acted.wrote, path+"\n"+strings.Join(launch.ChangedLines(before, after), "\n"))
	return nil
}

func (f *fakeActions) StartClient(_ context.Context, c ClientStart) error {
	f.acted.clients = append(f.acted.clients, c)
	return f.fail
}

// restartJournal is a restart of the story's server that goes well.
var restartJournal = []string{
	"1771931767 begin id=1771931767-ab op=restart by=0 boot=b00710 pid=206001:4410021",
	"1771931767 identify pid=206001:4410021",
	"1771931768 term set=206001:4410021",
	"1771931775 stopped",
	"1771931775 port-free port=8000",
	"1771931777 gpu-free used=4,4,4,4,4,4,4,4",
	"1771931777 start offset=4812331 launch=new -- " + storyLog,
	"1771931778 started pid=207001:4520000 port=8000 launch=new",
	"1771931790 listening port=8000",
	"1771931790 end state=running",
}

// sceneRestarted is the story after a restart: the new server loads, or what
// change makes of it.
func sceneRestarted(change func(*metrics.Server)) *metrics.Snapshot {
	s := sceneSettled()
	srv := &s.Servers[0]
	*srv = metrics.Server{
		ID: "207001:4520000", Engine: "sglang", Version: "0.5.9", Model: srv.Model, PID: 207001, Start: 4520000, Started: s.At.Add(-20 * time.Second), State: metrics.ServerStarting, Since: s.At,
		Argv: srv.Argv, Cwd: srv.Cwd, Log: srv.Log, Tree: []int{207001}, TP: 8,
		Phase: metrics.Phase{Name: "loading weights", Since: s.At.Add(-12 * time.Second), Done: 31, Total: 64, Took: []metrics.PhaseTook{{Name: "starting", Took: 8 * time.Second}}},
	}
	s.Starts[4].Phases = []metrics.PhaseTook{{Name: "starting", Took: 9 * time.Second}, {Name: "loading weights", Took: 81 * time.Second}}
	s.Starts[4].Outcome, s.Starts[4].FirstToken = "stopped", storyRun
	change(srv)
	return s
}

func sceneReady() *metrics.Snapshot {
	return sceneRestarted(func(s *metrics.Server) {
		s.State = metrics.ServerServing
		s.Phase = metrics.Phase{Name: "ready", Ready: s.Started.Add(15 * time.Second), Expected: 138 * time.Second, Took: []metrics.PhaseTook{{Name: "loading weights", Took: 7 * time.Second}}}
		s.Capacity, s.Headroom = metrics.Fixed(231120, storyNow, "log"), metrics.Fixed(0.82, storyNow, "log")
	})
}

func sceneCrashedAfter() *metrics.Snapshot {
	s := sceneRestarted(func(s *metrics.Server) {
		s.State, s.Ended = metrics.ServerDown, storyNow.Add(-4*time.Second)
		s.Causes = []metrics.CauseFact{{Class: metrics.CauseCUDAOOM, Detail: "CUDA out of memory: tried to allocate 1.12 GiB, 0.82 GiB free", Phase: "prefill", Primary: true,
			Line: "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.12 GiB."}}
	})
	s.Starts = append(s.Starts, metrics.Start{ID: "b00710:207001:4520000", No: 6, Node: "gpu7", Engine: "sglang", At: storyNow, Label: "0.93 bf16 hicache", Outcome: "crashed", Cause: metrics.CauseCUDAOOM, Argv: s.Servers[0].Argv})
	freeGPUs(s)
	return s
}

// setFlag changes one flag in the open form.
func (d *driver) setFlag(name, value string) *driver {
	d.Press("/").Type(name).Press("enter", "enter", "ctrl+u", "ctrl+k").Type(value)
	return d.Press("enter")
}

// goOn waits until the confirmation takes keys, types the name and confirms.
func (d *driver) goOn(name string) *driver {
	d.t.Helper()
	if strings.Contains(d.Screen(), "what becomes of the client?") {
		d.Press("k")
	}
	d.Wait(time.Second).Type(name).Wait(time.Second)
	return d.Press("Y")
}

func TestFormFindsAndChanges(t *testing.T) {
	drive(t, 120, 40, sceneSettled(), func(d *driver) {
		d.Press("e").See("edit SGLang 0.5.9", "in use", "mem-fraction-static", "no change yet", "forecast", "159,277", "client", "206570")
		d.Press("/").Type("chunked").See("chunked-prefill-size").NotSee("schedule-policy").Press("esc").See("schedule-policy")
		d.setFlag("mem-fraction", "0.93").See("--mem-fraction-static 0.88 → 0.93", "231,120", "0.93 was tried", "1 change")
		d.Press("u").See("no change yet").Press("ctrl+r").See("0.88 → 0.93").Press("U").See("no change yet").Press("u").See("0.88 → 0.93")
		// A draft outlives the view.
		d.Press("esc", "esc").See("generation tok/s").Press("e").See("0.88 → 0.93")
		// What does not fit is said at once, and not taken.
		d.Press("/").Press("ctrl+u").Type("mem-fraction").Press("enter", "enter", "ctrl+u").Type("1.5").See("a share above 0 and below 1")
		d.Press("enter").See("a share above 0 and below 1").Press("esc").See("0.88 → 0.93")
		// Switches turn at once; a removed flag says so.
		d.Press("/").Press("ctrl+u").Type("disable-radix").Press("enter", "enter").See("needs the radix").Press("x").NotSee("needs the radix")
		d.Press("/").Press("ctrl+u").Type("hicache-size").Press("enter", "x").See("--hicache-size 48 → unset", "removed")
		// The environment, and what no catalogue knows.
		d.Press("esc", "a").Type("NCCL_DEBUG=INFO").Press("enter").See("NCCL_DEBUG unset → INFO")
		d.Press("a").Type("--new-thing 7").Press("enter").See("--new-thing unset → 7", "--new-thing is not a flag that SGLang")
		d.Press("a").Type("nothing").Press("enter").See("a variable is NAME=value")
		d.NotSee("hunter2")
	})
}

// A secret that is typed is shown nowhere, and none that was read back is.
func TestSecretsInTheForm(t *testing.T) {
	drive(t, 120, 40, sceneSettled(), func(d *driver) {
		d.Press("e", "/").Type("hf_token").Press("enter", "enter").Type("hf_s3cr3t").See("*********").NotSee("s3cr3t").Press("enter").See("HF_TOKEN").NotSee("s3cr3t")
		d.Press("/", "ctrl+u").Type("api-key").Press("enter", "enter").Type("sk-0123456789").NotSee("0123456789").Press("enter").See("--api-key unset").NotSee("0123456789")
		d.Press("w").See("review").NotSee("s3cr3t", "0123456789").Press("w").NotSee("s3cr3t", "0123456789").goOn("gpu7")
		for _, p := range d.act.acted.begun {
			if text := fmt.Sprint(p.Command, p.Diff, p.New, p.Stops, p.Warnings); strings.Contains(text, "s3cr3t") || strings.Contains(text, "0123456789") {
				t.Errorf("the plan tells a secret: %s", text)
			}
		}
	})
}

func TestActingInASCII(t *testing.T) {
	drive(t, 120, 40, sceneSettled(), func(d *driver) {
		d.act.acted.journal = restartJournal
		d.Press("R", "w").goOn("gpu7").Send(snapshotMsg{sceneReady()})
		for _, screen := range []string{d.Screen(), d.Press("t").Screen(), d.Press("e").Screen()} {
			for _, r := range screen {
				if r > 126 {
					t.Fatalf("%q in ASCII:\n%s", r, screen)
				}
			}
			if strings.Contains(strings.ReplaceAll(screen, "? help", ""), "?") {
				t.Errorf("a sign has no ASCII:\n%s", screen)
			}
		}
	}, func(o *Options) { o.ASCII = true })
}

func TestGuardRefusesWithItsReason(t *testing.T) {
	drive(t, 120, 40, sceneSettled(), func(d *driver) {
		d.Press("e").Press("/").Type("kv-cache-dtype").Press("enter", "enter", "ctrl+u").Type("fp8_e4m3").See("fp8 KV degrades the model", "noticeably")
		d.Press("enter").See("guard on --kv-cache-dtype", "it stops the restart")
		d.Press("w").See("refused: --kv-cache-dtype", "degrades the model noticeably").Press("w").See("refused:").NotSee("it works: type")
		d.Press("o").See("cannot be overridden")
		if len(d.act.acted.begun) > 0 {
			t.Error("a broken guard was acted against")
		}
	})
}

func TestOverridableGuardAsksWhy(t *testing.T) {
	s := sceneSettled()
	s.Guards[0].Overridable = true
	drive(t, 120, 40, s, func(d *driver) {
		d.Press("e").setFlag("kv-cache-dtype", "fp8_e4m3").See("it may be overridden with a reason").Press("w").See("refused:")
		d.Press("o").See("why break the guard").Press("enter").See("refused:")
		d.Press("o").Type("the owner agreed for B3").Press("enter").See("override: the owner agreed for B3").NotSee("refused:")
		d.Press("w").goOn("gpu7")
		if n := len(d.act.acted.begun); n != 1 || d.act.acted.begun[0].Options.Override != "the owner agreed for B3" {
			t.Errorf("begun %d: %+v", n, d.act.acted.begun)
		}
	})
}

// Whatever is pressed by accident, nothing happens: only the typed name and then
// Y after a pause does it.
func TestConfirmationIsHardToGiveByAccident(t *testing.T) {
	open := func(d *driver) { d.Press("S", "w", "k").See("stop the server on gpu7?", "it works: type") }
	for name, press := range map[string]func(d *driver){
		"the first 400 ms":   func(d *driver) { d.Type("gpu7").Wait(300 * time.Millisecond).Press("Y") },
		"enter":              func(d *driver) { d.Wait(time.Second).Type("gpu7").Wait(time.Second).Press("enter", "enter") },
		"a paste":            func(d *driver) { d.Wait(time.Second).Send(tea.PasteMsg{Content: "gpu7"}).Wait(time.Second).Press("Y") },
		"a paste as keys":    func(d *driver) { d.Wait(time.Second).Type("gpu7Y") },
		"Y without the name": func(d *driver) { d.Wait(time.Second).Press("Y", "Y").Wait(time.Second).Press("Y") },
		"a wrong name":       func(d *driver) { d.goOn("gpu8") },
		"y":                  func(d *driver) { d.Wait(time.Second).Type("gpu7").Wait(time.Second).Press("y", "space") },
		"a held key": func(d *driver) {
			d.Wait(time.Second).Type("gpu7").Wait(time.Second).Send(tea.KeyPressMsg{Code: 'Y', Text: "Y", IsRepeat: true})
		},
		"a held key, no report": func(d *driver) {
			d.Wait(time.Second)
			for range 40 {
				d.Press("Y").Wait(30 * time.Millisecond)
			}
		},
		"esc": func(d *driver) {
			d.Wait(time.Second).Type("gpu7").Wait(time.Second).Press("esc").Wait(time.Second).Press("Y")
		},
	} {
		t.Run(name, func(t *testing.T) {
			drive(t, 120, 40, sceneSettled(), func(d *driver) {
				open(d)
				press(d)
				if len(d.act.acted.begun) > 0 {
					t.Errorf("it was begun:\n%s", d.Screen())
				}
			})
		})
	}
	drive(t, 120, 40, sceneSettled(), func(d *driver) {
		open(d)
		d.goOn("gpu7")
		if n := len(d.act.acted.begun); n != 1 || d.act.acted.begun[0].Op != restart.Stop || d.act.acted.begun[0].Identity.PID != 206001 {
			t.Errorf("begun: %+v", d.act.acted.begun)
		}
	})
}

// However many choices there are, each can be read at 80 columns.
func TestChoicesWrap(t *testing.T) {
	drive(t, 80, 24, sceneSettled(), func(d *driver) {
		d.Press("R", "c", "c", "a", "b", "d", "ctrl+u", "ctrl+k").Type("5400").Press("enter")
		d.See("c client restart", "d drain 1 h 30 m", "t SIGKILL after 20 s", "a abort requests yes", "b way back by the node itself")
	})
}

// A node that refuses, or cannot be asked, ends it before any confirmation.
func TestReviewStopsAtRefusals(t *testing.T) {
	drive(t, 120, 40, sceneSettled(), func(d *driver) {
		d.act.acted.refusals = []restart.Refusal{{Code: "disk", Reason: "less than 64 MiB are free", Way: "free some space first"}}
		d.Press("R").See("refused: less than 64 MiB are free", "free some space first").Press("w").NotSee("it works: type")
		d.act.acted.refusals, d.act.acted.lookErr = nil, errNode
		d.Press("esc", "S").See("node unreachable").Press("w").See("it cannot be done").NotSee("it works: type")
	})
	// The server that was shown ends while its review is open.
	drive(t, 120, 40, sceneSettled(), func(d *driver) {
		d.Press("R").See("the node has no objection").Send(snapshotMsg{sceneCrash()}).See("is not the running server any more").Press("w").NotSee("it works: type")
	})
}

func TestRestartIsFollowedToAToken(t *testing.T) {
	drive(t, 120, 40, sceneSettled(), func(d *driver) {
		d.act.acted.journal, d.act.acted.hold = restartJournal, make(chan struct{})
		d.Press("e").setFlag("mem-fraction", "0.93").Press("w")
		d.See("review: restart the server", "the node has no objection", "client to be asked", "drain none", "0.88 → 0.93", "0.93 was tried", "150 requests in flight", "client 206570")
		d.Press("a").See("would save cut answers").Press("c").See("client stop", "abort requests no").Press("a").See("abort requests yes")
		d.Press("c").See("client restart").Press("c").See("client keep").NotSee("abort requests")
		d.Press("d").See("how long may requests end by themselves?").Press("ctrl+u", "ctrl+k").See("a number of seconds").Type("90x").See("✖ no time").Press("enter").See("✖ no time")
		d.Press("ctrl+u").Type("25h").See("at most 24 h").Press("ctrl+u").Type("0.5s").See("whole seconds").Press("ctrl+u").Type("90").See("1 m 30 s; then SIGTERM follows").Press("enter").See("drain 1 m 30 s")
		d.Press("t").See("after SIGTERM?").Press("ctrl+u", "ctrl+k").Type("0").See("at least 1 s").Press("ctrl+u").Type("45").Press("esc").See("SIGKILL after 20 s")
		d.Press("t", "ctrl+u", "ctrl+k").Type("45").Press("enter").See("SIGKILL after 45 s").Press("b").See("way back by the node itself").Press("b")
		d.Press("w").See("restart the server on gpu7?", "0.88 → 0.93", "it works: type").goOn("gpu7") // the client was chosen by c
		d.See("under way for", "SIGTERM was sent", "GPU memory is free", "the new server runs: process 207001", "it is looked for")
		d.Send(snapshotMsg{sceneRestarted(func(*metrics.Server) {})}).See("loading weights", "31 of 64", "earlier 1 m 21 s")
		// It can be left and found again; the footer tells of it.
		d.Press("esc").See("R restart: ").Press("R").See("loading weights")
		close(d.act.acted.hold)
		d.Send(snapshotMsg{sceneReady()}).See("done: one real token came back", "231,120", "0.82").Press("esc").NotSee("R restart: ")
		p := d.act.acted.begun[0]
		if p.Options.Drain != 90*time.Second || p.Options.TermWait != 45*time.Second || p.Options.Client != restart.ClientKeep || p.Options.WayBack || !slices.Contains(p.Command, "0.93") {
			t.Errorf("plan %+v", p)
		}
	})
}

// A restart that another screen began, or this one before it was closed, is found
// and followed to a token like one of its own.
func TestFollowsWhatOthersBegan(t *testing.T) {
	began := time.Unix(1771931767, 0)
	under := func() *restart.UnderWay {
		return &restart.UnderWay{ID: "1771931767-ab", Folder: "/root/.cache/runvigil/restart/1771931767-ab", By: "root", Since: began, Mine: true,
			Plan: restart.Plan{ID: "1771931767-ab", Op: restart.Restart, Diff: []launch.Change{{Flag: "mem-fraction-static", From: ptr("0.88"), To: ptr("0.93")}}}}
	}
	open := func(d *driver, u *restart.UnderWay) *driver {
		d.act.acted.under, d.act.acted.journal, d.act.acted.hold = u, restartJournal, make(chan struct{})
		return d.Send(snapshotMsg{sceneRestarted(func(*metrics.Server) {})})
	}
	drive(t, 120, 40, nil, func(d *driver) {
		open(d, under()).See("a restart by root is under way, begun 11:16:07 UTC: R follows it")
		d.Wait(10 * time.Second).See("R restart: ").Press("R")
		d.See("restart the server  by root since", "0.88 → 0.93", "under way for", "SIGTERM was sent", "the new server runs: process 207001", "loading weights", "31 of 64", "earlier 1 m 21 s")
		close(d.act.acted.hold)
		d.Send(snapshotMsg{sceneReady()}).See("done: one real token came back")
		if d.act.acted.finds != 1 {
			t.Errorf("it was looked for %d times", d.act.acted.finds)
		}
	})
	// Another login's is looked at only: nothing is asked of its server.
	drive(t, 120, 40, nil, func(d *driver) {
		u := under()
		u.Mine, u.By = false, "ann"
		d.act.acted.readyErr = errNode
		open(d, u).Press("R").See("by ann since", "read-only", "31 of 64")
		close(d.act.acted.hold)
		ready := sceneReady()
		ready.Starts = append(ready.Starts, metrics.Start{ID: "b00710:207001:4520000", FirstToken: storyNow})
		d.Send(snapshotMsg{ready}).See("done: the new server gives tokens").NotSee("asking for a token")
	})
	// A read-only screen follows, and has no acting key.
	drive(t, 120, 40, nil, func(d *driver) {
		open(d, under()).Press("R").See("by root since", "31 of 64").Press("e").NotSee("edit SGLang")
	}, func(o *Options) { o.ReadOnly = true })
	// Of one whose journal is another login's, whose it is.
	drive(t, 120, 40, nil, func(d *driver) {
		u := under()
		u.Mine, u.Hidden, u.By = false, true, "root"
		open(d, u).See("a restart by root is under way", "its journal is for that login only").Wait(10 * time.Second).NotSee("R restart: ")
	})
	// One that was killed is told where no server runs.
	drive(t, 120, 40, nil, func(d *driver) {
		u := under()
		u.Dead = true
		open(d, u).NotSee("R restart: ").Send(snapshotMsg{sceneCrash()}).See("ended without a last word")
	})
	// A server that ends without us is a reason to look again.
	drive(t, 120, 40, sceneSettled(), func(d *driver) {
		d.act.acted.under, d.act.acted.journal = under(), restartJournal[:4]
		d.Send(snapshotMsg{sceneSettled()}).NotSee("under way").Send(snapshotMsg{sceneCrash()}).See("a restart by root is under way")
	})
}

func ptr(s string) *string { return &s }

func TestCrashIsExplainedAndBGoesBack(t *testing.T) {
	drive(t, 120, 40, sceneSettled(), func(d *driver) {
		d.act.acted.journal, d.act.acted.readyErr = restartJournal, restart.ErrServerEnded
		d.Press("e").setFlag("mem-fraction", "0.93").Press("w", "w").goOn("gpu7")
		d.Send(snapshotMsg{sceneCrashedAfter()}).See("the new server ended", "cuda-oom in prefill", "torch.OutOfMemoryError", "B goes back to the last good start: #5 0.88 bf16 hicache")
		d.Press("B").See("review: start the server", "the node has no objection").Press("w").See("start the server on gpu7?").NotSee("it works: type").goOn("")
		if n := len(d.act.acted.begun); n != 2 || d.act.acted.begun[1].Op != restart.Start || !slices.Contains(d.act.acted.begun[1].Command, "0.88") {
			t.Errorf("begun %d: %+v", n, d.act.acted.begun[1:])
		}
		if got := d.act.acted.looks; got[len(got)-1] != 0 {
			t.Errorf("looked at %v", got)
		}
	})
}

func TestFailuresOfBeginAndJournal(t *testing.T) {
	drive(t, 120, 40, sceneSettled(), func(d *driver) {
		d.act.acted.beginErr = errNode
		d.Press("R", "w").goOn("gpu7").See("nothing was begun: node unreachable")
		d.act.acted.beginErr = nil
		d.act.acted.journal = []string{"1771931767 begin id=1-a op=restart by=0 boot=b pid=206001:4410021", "1771931767 refused why=changed -- process 206001 has another command line", "1771931767 end state=untouched why=changed"}
		d.Press("w").goOn("gpu7").See("nothing was done", "refused before anything was touched", "another command line")
		d.Press("esc").NotSee("R restart")
	})
}

func TestEndOneProcess(t *testing.T) {
	s := sceneSettled()
	s.Procs = []metrics.Proc{{PID: 206570, Start: 4425110, State: "S", Comm: "python3"}}
	drive(t, 120, 40, s, func(d *driver) {
		d.act.acted.journal = []string{"1771931767 begin id=1-a op=end by=0 boot=b pid=206570:4425110", "1771931768 stopped", "1771931768 end state=down"}
		d.Press("p", "G").See("run_inference.py").Press("X").See("review: end a process", "process 206570", "run_inference.py").Press("w").goOn("gpu7").See("done")
		if p := d.act.acted.begun; len(p) != 1 || p[0].Op != restart.EndOne || p[0].Identity != (restart.Identity{BootID: "b00710", PID: 206570, Start: 4425110}) {
			t.Errorf("begun %+v", p)
		}
	})
	// While the screen is held, what is seen is meant.
	drive(t, 120, 40, s, func(d *driver) {
		d.Press("p", "G", "space")
		later := sceneSettled()
		later.Clients = append(later.Clients, metrics.Client{ID: "9:9", PID: 9, Start: 9, State: "running", Argv: []string{"other"}})
		d.Send(snapshotMsg{later}).Press("X").See("process 206570").NotSee("process 9")
	})
	// A process whose start was never seen has no identity.
	drive(t, 120, 40, sceneSettled(), func(d *driver) {
		d.Press("p", "j", "X").See("has no identity yet").NotSee("review")
	})
}

func TestStartClient(t *testing.T) {
	drive(t, 120, 40, sceneSettled(), func(d *driver) {
		d.Press("C").See("client 206570 runs already").Press("w").See("refused:").NotSee("start the client on gpu7?")
	})
	gone := sceneSettled()
	gone.Clients[0].State = "gone"
	drive(t, 120, 40, gone, func(d *driver) {
		d.Press("C").See("run_inference.py --concurrency 150", "synth_100k").Press("w").See("start the client on gpu7?").goOn("").See("the client was started")
		if c := d.act.acted.clients; len(c) != 1 || !slices.Equal(c[0].Argv, gone.Clients[0].Argv) || c[0].Log != storyClient {
			t.Errorf("started %+v", c)
		}
	})
	for want, change := range map[string]func(*metrics.Snapshot){
		"begin its dataset anew":      func(s *metrics.Snapshot) { s.Clients[0].Argv = append(s.Clients[0].Argv, "--overwrite") },
		"not marked resumable":        func(s *metrics.Snapshot) { s.Config.ClientCommand = "run.sh" },
		"holds a secret":              func(s *metrics.Snapshot) { s.Clients[0].Argv = append(s.Clients[0].Argv, "--key", metrics.Masked) },
		"no client's command":         func(s *metrics.Snapshot) { s.Clients = nil },
		"directory could not be read": func(s *metrics.Snapshot) { s.Clients[0].Cwd = "" },
	} {
		s := sceneSettled()
		s.Clients = slices.Clone(s.Clients)
		s.Clients[0].State, s.Clients[0].Argv = "gone", slices.Clone(s.Clients[0].Argv)
		change(s)
		drive(t, 120, 40, s, func(d *driver) { d.Press("C").See(want).Press("w").NotSee("start the client on gpu7?") })
	}
}

// Tab goes through the choices that fit what was typed, in their order.
func TestValueDialogCompletes(t *testing.T) {
	drive(t, 120, 40, sceneSettled(), func(d *driver) {
		d.Press("e").Press("/").Type("kv-cache-dtype").Press("enter", "enter", "ctrl+u").See("tab: auto, ").Type("FP8").See("tab: fp8_e5m2, fp8_e4m3")
		value := func(want string) {
			d.t.Helper()
			if got := d.m.dialogs[len(d.m.dialogs)-1].(*valueDialog).in.text(); got != want {
				d.t.Errorf("%q stands there, want %q", got, want)
			}
		}
		for _, want := range []string{"fp8_e5m2", "fp8_e4m3", "fp8_e5m2"} {
			d.Press("tab")
			value(want)
		}
		d.Press("shift+tab")
		value("fp8_e4m3")
		d.Press("ctrl+u").Type("e4").Press("tab")
		value("fp8_e4m3") // what no choice begins with, one may hold
		d.Press("ctrl+u").Type("int4").Press("tab")
		value("int4")
		d.Press("ctrl+u").Press("tab")
		value("auto")
	})
}

func TestStartsView(t *testing.T) {
	drive(t, 120, 40, sceneSettled(), func(d *driver) {
		d.Press("t").See("starts  by when", "★ best, running", "#5 is best: highest", "#1 (640), #3 (606) not comparable", "▲ breaks a guard", "✖ crashed: cuda-oom", "(* imported)")
		d.Press(">").See("by settled tok/s").Press("<").See("by when")
		d.Press("space", "j", "j", "space").See("side by side", "#3 0.88 bf16 hicache", "#5 0.88 bf16 hicache", "within spread")
		d.Press("space").NotSee("side by side")
		d.Press("j", "j", "enter").See("edit SGLang", "--mem-fraction-static 0.88 → 0.85")
	})
	drive(t, 120, 40, sceneSettled(), func(d *driver) { d.Press("t", "enter").See("starts  by when") }, func(o *Options) { o.ReadOnly = true })
}

// Nothing acts where nothing may: in read-only, in a recording, in the past, and
// without actions.
func TestReadOnlyHasNoActingKeys(t *testing.T) {
	acts := []string{"e", "R", "S", "C", "B", "X"}
	check := func(t *testing.T, s *metrics.Snapshot, prepare func(d *driver), change ...func(*Options)) {
		drive(t, 120, 40, s, func(d *driver) {
			if prepare != nil {
				prepare(d)
			}
			for _, view := range append([]string{viewOverview}, viewNames()...) {
				d.m.stack = nil
				if view != viewOverview {
					d.m.stack = []string{view}
				}
				for _, b := range allBindings() {
					if b.group == "Act" && d.m.usable(&b, view) {
						t.Errorf("%s is usable in %s", b.name, view)
					}
				}
				for _, k := range acts {
					if d.m.bindingFor(k) != nil {
						t.Errorf("%s is bound in %s", k, view)
					}
				}
			}
			d.m.stack = nil
			d.Press(acts...).See("generation tok/s").Press("?").NotSee("edit & restart").Press("esc")
			d.Press(":").Type("restart").Press("enter")
			if len(d.act.acted.begun)+len(d.act.acted.looks) > 0 {
				t.Error("something acted")
			}
		}, change...)
	}
	t.Run("read-only", func(t *testing.T) { check(t, sceneSettled(), nil, func(o *Options) { o.ReadOnly = true }) })
	t.Run("recording", func(t *testing.T) { check(t, sceneReplay(), nil) })
	t.Run("the past", func(t *testing.T) { check(t, sceneSettled(), func(d *driver) { d.Press(",") }) })
	t.Run("no actor", func(t *testing.T) {
		check(t, sceneSettled(), nil, func(o *Options) { o.Actions = onlyLooks{o.Actions} })
	})
}

// onlyLooks hides that actions can act.
type onlyLooks struct{ Actions }

// The form may be opened before it is known what runs: it begins then, and
// nothing else acts before.
func TestActingWaitsForTheFirstLook(t *testing.T) {
	s := sceneEmpty()
	s.Link.Since = s.At.Add(-3 * time.Second)
	s.Starts = storyStarts()
	drive(t, 120, 40, s, func(d *driver) {
		d.Press("R").See("still looking at what runs").Press("e").See("still looking at what runs").Press("/", "a", "u", "w", "enter", "x")
		if len(d.act.acted.looks) > 0 {
			t.Error("a launch was read back of nobody knows what")
		}
		d.Send(snapshotMsg{sceneSettled()}).See("edit SGLang 0.5.9  pid 206001", "159,277")
	})
	hidden := sceneSettled()
	hidden.Servers[0].PID = 0
	drive(t, 120, 40, hidden, func(d *driver) { d.Press("S").See("process was not found yet") })
}

// The timeline tells a restart in words, not in its journal's grammar.
func TestEventsTellTheJournalInWords(t *testing.T) {
	s := sceneSettled()
	for _, l := range restartJournal {
		s.Events = append(s.Events, metrics.Event{At: s.At, Kind: "restart", Text: l})
	}
	drive(t, 120, 40, s, func(d *driver) {
		d.See("the script is done: a server runs").NotSee("end state=running").Press("v").See("GPU memory is free", "SIGTERM was sent").NotSee("1771931768")
	})
}

// Where nothing runs and nothing is known, a pasted command line serves.
func TestPastedCommandLine(t *testing.T) {
	drive(t, 120, 40, sceneEmpty(), func(d *driver) {
		d.act.acted.lookErr = restart.ErrNothingSaved
		d.Press("e").See("paste its command line")
		d.Send(tea.PasteMsg{Content: "python3 -m sglang.launch_server --model-path /m --tp 8"}).Press("enter").See("(nothing runs)", "tp-size")
		if !strings.Contains(d.Screen(), "model-path") {
			t.Errorf("no form:\n%s", d.Screen())
		}
	})
}

// Unless it was chosen, it is asked what becomes of the client, with what each
// choice loses; the choice that would lose rows is none.
func TestClientIsAskedAbout(t *testing.T) {
	drive(t, 120, 40, sceneSettled(), func(d *driver) {
		d.Press("R", "w").See("what becomes of the client?", "k keep", "until the new server answers", "s stop", "with what it has not saved", "r restart", "behind the new one").NotSee("it works: type")
		d.Press("enter", "Y", "esc").See("client to be asked").Press("w", "s").See("restart the server on gpu7?").Wait(time.Second).Press("esc").See("client stop")
		d.Press("w").See("restart the server on gpu7?").NotSee("what becomes of the client?")
	})
	s := sceneSettled()
	s.Clients = slices.Clone(s.Clients)
	s.Clients[0].Argv = append(slices.Clone(s.Clients[0].Argv), "--overwrite")
	drive(t, 80, 24, s, func(d *driver) {
		d.Press("R", "w", "r").See("refused: the client's command has --overwrite", "what becomes of the client?").NotSee("it works: type")
	})
	drive(t, 120, 40, sceneSettled(), func(d *driver) { d.Press("S", "w").See("s stop").NotSee("r restart") })
	none := sceneSettled()
	none.Clients = nil
	drive(t, 120, 40, none, func(d *driver) { d.Press("R", "w").See("restart the server on gpu7?") })
}

// A secret that is nowhere any more is asked for, unseen, and goes into the plan only.
func TestGoneSecretsAreAskedFor(t *testing.T) {
	s := sceneCrash()
	s.Starts = storyStarts()
	s.Starts[4].Argv = append(slices.Clone(s.Starts[4].Argv), "--api-key", metrics.Masked)
	s.Starts[4].FirstToken, s.Starts[4].Outcome = storyRun, "stopped"
	drive(t, 120, 40, s, func(d *driver) {
		d.act.acted.lookErr = restart.ErrNothingSaved
		d.Press("B").See("review: start the server", "refused: a secret is nowhere any more: the value of --api-key").Press("w")
		d.See("nowhere any more: the value of --api-key", "it goes to the node only").Press("enter").See("without it nothing is started")
		d.Press("w").Type("s3cr3t-value").NotSee("s3cr3t").Press("enter").See("the node has no objection").NotSee("refused:", "s3cr3t")
		d.Press("w").See("start the server on gpu7?").goOn("")
		if n := len(d.act.acted.begun); n != 1 || len(d.act.acted.begun[0].Missing) > 0 || strings.Contains(fmt.Sprintf("%+v", d.act.acted.begun[0].Command), "s3cr3t") {
			t.Errorf("begun %d: %+v", n, d.act.acted.begun)
		}
	})
}
