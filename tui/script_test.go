package tui

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/launch/restart"
)

// A start script on the node is what the form is opened on where nothing runs.
func TestStartScriptOnTheNode(t *testing.T) {
	drive(t, 120, 40, sceneEmpty(), func(d *driver) {
		d.act.acted.lookErr = restart.ErrNothingSaved
		d.Press("e").Type("/data/none.sh").Press("enter").See("node unreachable")
		d.Press("esc", "e").See("path of its start script").Type("/data/start.sh").Press("enter").See("(nothing runs)", "tp-size", "from /data/start.sh")
		if l := d.m.views[viewForm].(*formView).draft.Base(); l.Dir != "/data" || l.Log != "/data/server.log" || l.LogHow != launch.LogFile {
			t.Errorf("base %+v", l)
		}
	})
}

// A form that was opened on a start script begins with what the script says, not
// with what was stopped last, and can edit the script once the new server serves.
func TestStartScriptIsEdited(t *testing.T) {
	for name, c := range map[string]struct {
		lookErr, writeErr error
		journal           []string
		want              string
		wrote             int
	}{
		"nothing was saved":     {lookErr: restart.ErrNothingSaved, journal: restartJournal, want: "/data/start.sh is edited; as it was: /data/start.sh.runvigil.bak", wrote: 1},
		"another was saved":     {journal: restartJournal, want: "/data/start.sh is edited", wrote: 1},
		"edited in between":     {journal: restartJournal, writeErr: errNode, want: "/data/start.sh is as it was: node unreachable"},
		"the new one has ended": {journal: append(slices.Clone(restartJournal[:9]), "1771931790 exited rc=1", "1771931790 end state=failed why=exited"), want: "/data/start.sh is as it was: the new launch does not serve"},
	} {
		t.Run(name, func(t *testing.T) {
			drive(t, 120, 40, sceneEmpty(), func(d *driver) {
				d.act.acted.lookErr, d.act.acted.writeErr, d.act.acted.journal = restart.ErrNothingSaved, c.writeErr, c.journal
				d.Press("e").Type("/data/start.sh").Press("enter").See("from /data/start.sh")
				d.act.acted.lookErr = c.lookErr
				d.setFlag("tp-size", "8").See("--tp-size 4 → 8").Press("w").See("start the server on gpu7", "p start script left as it is", "the start script /data/start.sh is left as it is; p writes this into it",
					"- nohup python3 -m sglang.launch_server --model-path /m --tp 4", "+ nohup python3 -m sglang.launch_server --model-path /m --tp 8")
				d.Press("w").NotSee("is edited").Wait(time.Second).Press("esc")
				d.Press("p").See("p start script edited once it serves", "is edited, once the new server serves").Press("w").See("/data/start.sh is edited, once it serves")
				d.goOn("").See(c.want)
				if n := len(d.act.acted.begun); n != 1 || !slices.Contains(d.act.acted.begun[0].Command, "/m") {
					t.Fatalf("%d plans begun: %+v", n, d.act.acted.begun)
				}
				if len(d.act.acted.wrote) != c.wrote || c.wrote > 0 && !strings.Contains(d.act.acted.wrote[0], "/data/start.sh\n- nohup python3") {
					t.Errorf("written: %q", d.act.acted.wrote)
				}
			})
		})
	}
}

// The script by which the running server was started is offered where it starts
// the same; any other is taken by its path.
func TestStartScriptOfTheRunningServer(t *testing.T) {
	s := settledServer()
	same := "#!/bin/sh\n# 0.88 holds\n" + strings.Join(s.Argv, " ") + " # ours\n"
	review := func(t *testing.T, parent string, f func(d *driver)) {
		t.Helper()
		drive(t, 120, 40, sceneSettled(), func(d *driver) {
			d.act.acted.parent, d.act.acted.journal = parent, restartJournal
			d.act.acted.scripts = map[string]string{"/data/eagle3/serve.sh": same, "/data/broken.sh": "if"}
			d.Press("e").setFlag("mem-fraction", "0.87").Press("w").See("review: restart the server")
			f(d)
		})
	}
	review(t, "bash ./serve.sh 1", func(d *driver) {
		d.See("the start script /data/eagle3/serve.sh is left as it is").Press("p", "w").goOn("gpu7").Send(snapshotMsg{sceneReady()}).See("serve.sh is edited")
		if want := "/data/eagle3/serve.sh\n- " + strings.Join(s.Argv, " ") + " # ours\n+ " + strings.Replace(strings.Join(s.Argv, " "), "0.88", "0.87", 1) + " # ours"; len(d.act.acted.wrote) != 1 || d.act.acted.wrote[0] != want {
			t.Errorf("%q, want %q", d.act.acted.wrote, want)
		}
	})
	review(t, "bash /data/start.sh", func(d *driver) { // it starts something else
		d.See("p start script none").NotSee("the start script /data").Press("p").See("into which start script?", "/data/start.sh").Press("enter")
		d.See("the start script /data/start.sh is edited, once", "it differs from what runs in", "only those that are changed here")
	})
	review(t, "", func(d *driver) {
		d.See("p start script none").Press("p").Type("start.sh").Press("enter").See("a path from the root")
		d.Press("p").Type("/none").Press("enter").See("node unreachable").Press("p").Type("/data/broken.sh").Press("enter").See("/data/broken.sh is left as it is: the script cannot be read")
		d.Press("w").goOn("gpu7")
		if len(d.act.acted.wrote) > 0 {
			t.Errorf("written: %q", d.act.acted.wrote)
		}
	})
	// What is no flag, and where nothing is changed.
	drive(t, 120, 40, sceneSettled(), func(d *driver) {
		d.act.acted.scripts = map[string]string{"/s.sh": same}
		d.Press("R").See("review").Press("p").See("no flag is changed")
		d.Press("esc", "e", "a").Type("A=b").Press("enter", "w", "p").Type("/s.sh").Press("enter").See("the environment variable A cannot be edited inside a script")
	})
}
