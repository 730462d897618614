package tui

import (
	"strings"
	"testing"

	"github.com/runvigil/runvigil/metrics"
)

// In a side pane each view still shows what it is for, and says where there is
// more of it.
func TestViewsInASidePane(t *testing.T) {
	drive(t, 40, 12, sceneSettled(), func(d *driver) {
		d.Press("e").See("/ finds a flag", "model-path", "mem-fraction-sta").Press("j", "j", "j", "j", "j").See("mem-fraction-sta").Press("esc")
		d.m.open(viewGPUs)
		d.See("0 ", "7 ").NotSee("▼").Press("esc")
		d.Press("p").See("▼").NotSee("▲").Press("G").See("▲").NotSee("▼").Press("esc")
		d.Press("L").See("its rows are in", "`o`").Press("esc")
		d.Press("o").See("B2_opencodein", "1,531", "opencodeinstruct.jsonl")
	})
	ramp := sceneSettled()
	ramp.Job.ETA = metrics.ETA{Held: "27 of the first 150 landed"}
	for _, size := range []struct{ w, h int }{{120, 40}, {40, 12}} {
		drive(t, size.w, size.h, ramp, func(d *driver) { d.See("27 of the first 150 landed") })
	}
	drive(t, 80, 24, ramp, func(d *driver) { d.See("27 of the first 150") })
}

// What cannot be told is written to its end where there is room for it.
func TestCannotTellIsWrapped(t *testing.T) {
	s := sceneSettled()
	s.Findings = s.Findings[:1]
	s.CannotTell = []metrics.CannotTell{{What: "whether the hierarchical cache is used", Why: "the log does not say it and /metrics is off", Tell: "--enable-metrics on the server's next start"}}
	drive(t, 160, 60, s, func(d *driver) { d.See("? whether the hierarchical", "next start") })
}

// A server that is down left so much free; by now all of it is.
func TestMemoryOfAServerThatIsDown(t *testing.T) {
	for _, size := range []struct{ w, h int }{{80, 24}, {40, 12}} {
		drive(t, size.w, size.h, sceneCrash(), func(d *driver) { d.See("had 0.82 GiB free") })
	}
}

func TestEndOfAPath(t *testing.T) {
	for path, want := range map[string]string{"/data/run/a.jsonl": "…un/a.jsonl", "/a.jsonl": "/a.jsonl", "/日本語/ab.jsonl": "…/ab.jsonl", "": ""} {
		got := endOf(path, 11)
		if got != want || textWidth(got) > 11 || !strings.HasSuffix(path, strings.TrimPrefix(got, "…")) {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
