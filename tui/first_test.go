package tui

import (
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// The first look tells in at most three lines what is being done, and once what
// was found; where nothing is there it says what to do.
func TestFirstLook(t *testing.T) {
	at := sceneSettled().At
	first := func(word string, doing ...string) *metrics.Snapshot {
		return &metrics.Snapshot{At: at, Node: "gpu7", Zone: "CET", Doing: doing, Verdict: metrics.Verdict{Word: word, Text: "finding out"}, Link: metrics.Link{Status: metrics.LinkUp, Since: at, LastData: at}}
	}
	for _, size := range [][2]int{{120, 40}, {80, 24}, {40, 12}} {
		drive(t, size[0], size[1], nil, func(d *driver) {
			d.See("connecting to gpu7")
			d.Send(snapshotMsg{first("WAIT", "one is done", "two is done", "three is done", "four")}).See("one is done", "two is done", "three is done").NotSee("four")
			d.Send(snapshotMsg{first("NONE", "no server found among 210 processes on gpu7")}).See("no server found", ":logs /PATH", "datasets")
			found := sceneSettled()
			found.Doing = []string{"found SGLang on port 8000", "found 1 client"}
			d.Send(snapshotMsg{found}).See("found SGLang on port 8000")
			if size[0] > 40 {
				d.See("found 1 client")
			}
			d.Wait(toastFor).NotSee("found SGLang").Send(snapshotMsg{found}).NotSee("found SGLang")
		})
		drive(t, size[0], size[1], first("WAIT", "one is done"), func(d *driver) { // who came back from a shell reads that first
			found := sceneSettled()
			found.Doing = []string{"found SGLang on port 8000"}
			d.Send(toastMsg{"back from the shell"}).Send(snapshotMsg{found}).See("back from the shell").NotSee("found SGLang")
			d.Wait(toastFor).Send(snapshotMsg{found}).See("found SGLang").NotSee("back from")
		})
		down := first("DOWN", "connecting to gpu7")
		down.Link = metrics.Link{Status: metrics.LinkDown, Since: at.Add(-time.Minute), Reason: "connection refused"}
		drive(t, size[0], size[1], down, func(d *driver) {
			d.See("no answer: connection refused", "ssh gpu7", "tried again by itself")
			wait := *down
			wait.Link.Waiting = true
			d.Send(snapshotMsg{&wait}).See("r tries again")
		})
	}
}

// An empty view says what to do, whatever the size.
func TestEmptyViews(t *testing.T) {
	s := &metrics.Snapshot{At: sceneSettled().At, Node: "gpu7", Zone: "CET", Verdict: metrics.Verdict{Word: "NONE", Text: "nothing"}, Link: metrics.Link{Status: metrics.LinkUp}}
	for key, text := range map[string]string{
		"l": "`:logs /PATH` watches one", "L": "`:logs /PATH` watches one", "o": "name one with `datasets`", "v": "m writes a note", "f": "nothing is found wrong", "p": "no server and no client runs here",
	} {
		for _, size := range [][2]int{{120, 40}, {80, 24}, {40, 12}} {
			drive(t, size[0], size[1], s, func(d *driver) {
				if screen := strings.Join(strings.Fields(d.Press(key).Screen()), " "); !strings.Contains(screen, text) {
					t.Errorf("%s at %v:\n%s", key, size, d.Screen())
				}
			})
		}
	}
}
