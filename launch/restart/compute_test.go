package restart

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/metrics"
)

const boot = "ad747219-d71e-4fa0-9ede-39a3442f3b15"

// input is a server of root's that runs on its own, watched by a client.
func input(o Options) Input {
	known := func(v float64) metrics.Figure { return metrics.Known(v, time.Unix(0, 0), 0, "test") }
	l := launch.Launch{
		BootID: boot, PID: 100, Start: 5000, Engine: "sglang", Version: "0.5.9", UID: 0, GID: 0, Umask: 0o22, User: "root",
		Argv: []string{"python3", "-m", "sglang.launch_server", "--model-path", "/models/k2", "--port", "8000", "--mem-fraction-static", "0.88", "--api-key", metrics.Masked},
		Env:  []launch.Var{{Name: "HF_TOKEN", Value: metrics.Masked, Secret: true}, {Name: "HOME", Value: "/root"}},
		Dir:  "/data", Log: "/data/server.log", LogHow: launch.LogFile, PPID: 1, Parent: "/sbin/init",
		Here: launch.Here{Known: true, UID: 0, User: "root"},
	}
	s := metrics.Server{
		PID: 100, Start: 5000, Port: 8000, Tree: []int{100, 101, 102}, InFlight: known(150), Running: known(35), Queued: known(115),
	}
	snap := &metrics.Snapshot{Clients: []metrics.Client{{
		PID: 200, Start: 6000, Argv: []string{"python3", "run.py", "--token", "abcdefgh12345678"}, Ports: []int{8000}, Cwd: "/data",
		Datasets: []string{"/data/a.jsonl"}, State: "running", Log: metrics.LogRef{Path: "/data/client.log"},
	}}}
	d := launch.NewDraft(l)
	return Input{
		ID: "1795991215-7d5de2b6", Node: "gpu7", Snap: snap, Server: &s, Draft: d,
		Seen: Seen{Launch: l, ArgvSum: "123 45", UID: 0}, Options: o,
	}
}

func TestPlan(t *testing.T) {
	in := input(Options{Op: Restart})
	if err := in.Draft.Set("mem-fraction-static", "0.93"); err != nil {
		t.Fatal(err)
	}
	p := New(in)
	if p.Refused() {
		t.Fatalf("refused: %+v", p.Refusals)
	}
	if p.Identity != (Identity{boot, 100, 5000}) || p.ArgvSum != "123 45" || p.Port != 8000 || p.Log != "/data/server.log" {
		t.Errorf("%+v", p)
	}
	if o := p.Options; o.Client != ClientKeep || o.TermWait != 20*time.Second || o.Drain != 0 || o.Abort || o.WayBack {
		t.Errorf("what --yes alone means: %+v", o)
	}
	if len(p.Diff) != 1 || p.Diff[0].String() != "--mem-fraction-static 0.88 → 0.93" {
		t.Errorf("diff %v", p.Diff)
	}
	stops := strings.Join(p.Stops, "\n")
	for _, want := range []string{"process 100 and the 2 of its tree", "150 requests in flight (35 running, 115 queued)", "client 200", "stays and sees errors"} {
		if !strings.Contains(stops, want) {
			t.Errorf("no %q in\n%s", want, stops)
		}
	}
	if strings.Contains(stops, "abcdefgh12345678") {
		t.Error("the client's token is shown")
	}
}

func TestPlanChoices(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
		want string
	}{
		{"drain", Options{Op: Stop, Drain: time.Minute}, "those that have not ended after 1m0s are lost"},
		{"stop the client", Options{Op: Stop, Client: ClientStop}, "is stopped before the server"},
		{"restart the client", Options{Op: Restart, Client: ClientRestart}, "started again behind the new one"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := New(input(c.o))
			if stops := strings.Join(p.Stops, "\n"); p.Refused() || !strings.Contains(stops, c.want) {
				t.Errorf("%v %s", p.Refusals, stops)
			}
		})
	}
	if p := New(input(Options{Op: Restart, Abort: true})); p.Options.Abort {
		t.Error("a client that lives would save the answers that an abort cuts")
	}
	if p := New(input(Options{Op: Stop, Abort: true, Client: ClientStop})); !p.Options.Abort {
		t.Error("with the client stopped an abort may be asked for")
	}
	if p := New(input(Options{Op: Restart, Drain: time.Minute})); len(p.Warnings) == 0 {
		t.Error("nothing says that a drain with a living client lasts its whole time")
	}
}

func TestRefusals(t *testing.T) {
	type in = *Input
	l := func(i in) *launch.Launch { return &i.Seen.Launch }
	for _, c := range []struct {
		name   string
		o      Options
		change func(in)
		code   RefusalCode
		says   string
	}{
		{"pid 1", Options{Op: Restart}, func(i in) { l(i).PID = 1; i.Seen.Init = true }, RefusedInit, "container ends"},
		{"a unit", Options{Op: Restart}, func(i in) { l(i).Unit = "sglang.service" }, RefusedSupervised, "systemctl restart sglang.service"},
		{"a unit with a command", Options{Op: Stop}, func(i in) {
			l(i).Unit = "sglang.service"
			i.Snap.Config.ServerCommand = "sudo systemctl restart llm"
		}, RefusedSupervised, "sudo systemctl restart llm"},
		{"supervisord", Options{Op: Restart}, func(i in) { l(i).Parent = "/usr/bin/python3 /usr/bin/supervisord -n" }, RefusedSupervised, "supervisord"},
		{"somebody's", Options{Op: Restart}, func(i in) { l(i).UID, l(i).User, l(i).Here.UID, l(i).Here.User = 1001, "ann", 1000, "ben" }, RefusedOther, "ann's process, this login is ben"},
		{"no permission", Options{Op: Restart}, func(i in) { i.Seen.Denied = "signals to process 100 are not permitted to root" }, RefusedPermission, "not permitted"},
		{"a container", Options{Op: Restart}, func(i in) { l(i).Container = "docker-abc" }, RefusedContainer, "docker-abc"},
		{"Slurm", Options{Op: Restart}, func(i in) { l(i).SlurmJob = "42" }, RefusedSlurm, "srun --jobid=42"},
		{"another restart", Options{Op: Restart}, func(i in) {
			i.Seen.Busy = &Owner{ID: "1-a", PID: 7, User: "ann", Since: time.Unix(1795991200, 0)}
		}, RefusedBusy, "restart of ann is under way since 22:26:40 UTC"},
		{"a session manager", Options{Op: Restart}, func(i in) { i.Seen.KillsUserProcesses = true }, RefusedSession, "enable-linger"},
		{"a guard", Options{Op: Restart}, func(i in) {
			i.Broken = []launch.Broken{{Flag: "kv-cache-dtype", Reason: "fp8_e4m3 is denied (fp8*): it degrades"}}
		}, RefusedGuard, "it degrades"},
		{"a guard without a reason", Options{Op: Restart}, func(i in) {
			i.Broken = []launch.Broken{{Flag: "kv-cache-dtype", Reason: "no", Guard: metrics.Guard{Overridable: true}}}
		}, RefusedGuard, "--override"},
		{"a bad flag", Options{Op: Restart}, func(i in) {
			i.Problems = []launch.Problem{{Flag: "x", Level: metrics.SeverityCritical, Text: "--x is no number"}}
		}, RefusedLaunch, "no number"},
		{"a lost secret", Options{Op: Start}, func(i in) {
			i.Server = nil
			l(i).PID = 0
			i.Draft = launch.NewDraft(*l(i))
		}, RefusedSecret, "the value of --api-key / give it when it is asked for, or with --set NAME=VALUE"},
		{"start beside one", Options{Op: Start}, func(in) {}, RefusedRunning, "process 100"},
		{"nothing runs", Options{Op: Stop}, func(i in) { l(i).PID = 0; i.Server = nil }, RefusedGone, "no server runs"},
		{"a client that begins anew", Options{Op: Restart, Client: ClientRestart}, func(i in) {
			i.Snap.Clients[0].Argv = append(i.Snap.Clients[0].Argv, "--overwrite")
		}, RefusedClient, "--overwrite"},
		{"a client command that is not resumable", Options{Op: Restart, Client: ClientRestart}, func(i in) {
			i.Snap.Config.ClientCommand = "./run.sh"
		}, RefusedClient, "not marked resumable"},
		{"end pid 1", Options{Op: EndOne}, func(i in) { i.EndPID = Identity{boot, 1, 1} }, RefusedInit, "pid 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := input(c.o)
			c.change(&i)
			p := New(i)
			k := slices.IndexFunc(p.Refusals, func(r Refusal) bool { return r.Code == c.code })
			if k < 0 {
				t.Fatalf("refusals %+v, want %s", p.Refusals, c.code)
			}
			if text := p.Refusals[k].Reason + " / " + p.Refusals[k].Way; !strings.Contains(text, c.says) {
				t.Errorf("%q says nothing of %q", text, c.says)
			}
			if err := Begin(t.Context(), nil, p); !errors.Is(err, ErrRefused) {
				t.Errorf("a refused plan began: %v", err)
			}
		})
	}
}

func TestTruncates(t *testing.T) {
	for argv, want := range map[string]string{
		"python run.py --out a.jsonl":      "",
		"python run.py --resume":           "",
		"python run.py --resume=false":     "--resume=false",
		"python run.py --overwrite":        "--overwrite",
		"python run.py --overwrite=false":  "",
		"python run.py --overwrite_output": "--overwrite_output",
		"python run.py --mode w":           "--mode",
		"python run.py --mode a":           "",
		"python run.py overwrite":          "",
	} {
		if got := Truncates(strings.Fields(argv)); got != want {
			t.Errorf("%s: %q, want %q", argv, got, want)
		}
	}
}

// TestProgram: the program is one compound command with the typed secret in a
// quoted file only, and none of the node's own.
func TestProgram(t *testing.T) {
	in := input(Options{Op: Restart, WayBack: true})
	if err := in.Draft.Do(launch.Edit{Kind: launch.SetEnv, Name: "MY_TOKEN", Value: "it's typed"}); err != nil {
		t.Fatal(err)
	}
	p := New(in)
	program, err := p.program("run")
	if err != nil {
		t.Fatal(err)
	}
	text := string(program)
	for _, want := range []string{`export MY_TOKEN='it'\''s typed'`, `"$rv_word_10"`, "OP=restart", "BACK=1", "TERMWAIT=20", "NEWPORT=8000", "P=100\nS=5000"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the program", want)
		}
	}
	kept, err := p.shown()
	if err != nil || strings.Contains(string(kept), "typed") {
		t.Errorf("what others are shown: %s %v", kept, err)
	}
	run := strings.NewReplacer(string(kept), "", launch.IdentifyScript(100, nonce(p.ID)), "").Replace(text)
	if run == text || !strings.HasSuffix(run, "}\n") || strings.Contains(run, metrics.Masked) {
		t.Error("the program is no whole command, or passes a placeholder on")
	}
	for _, shown := range []string{strings.Join(p.Command, " "), strings.Join(p.Stops, " "), strings.Join(p.Warnings, " "), p.Diff[0].String()} {
		if strings.Contains(shown, "typed") {
			t.Errorf("a typed secret is shown: %s", shown)
		}
	}
}

func TestPlaceDiffersOnly(t *testing.T) {
	limits := []launch.Limit{{Name: "Max open files", Soft: "1024", Hard: "4096"}, {Name: "Max locked memory", Soft: "unlimited", Hard: "unlimited"}}
	l := launch.Launch{Limits: limits, Affinity: "0-3", Nice: 5, Here: launch.Here{Limits: limits[:1], Affinity: "0-63"}}
	text := string(place(l))
	for _, want := range []string{"lim memlock -l 1024 unlimited unlimited", "taskset -pc 0-3", "renice -n 5"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
	if strings.Contains(text, "nofile") {
		t.Errorf("a limit that the login has anyway: %q", text)
	}
}
