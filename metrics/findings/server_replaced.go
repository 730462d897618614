package findings

import (
	"fmt"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

var serverReplaced = Detector{
	ID:    "server-replaced",
	Means: "Another server has taken the place of the one before, and no restart of this program did it.",
	Needs: "the node's processes before and after",
	When:  "A new process has the log, the port or the place of one that ended in the last 30 minutes, and no journal of a restart that this login began names it (by boot, pid and start time; its environment tells too). The flags that differ and the login it came from are named.",
	Do:    "Ask who did it; judge the new start by its own level.",
	Check: func(in *Input, out *Output) {
		for _, v := range in.working() {
			r := v.Replaced
			if r == nil || r.Ours || in.now().Sub(latest(r.Ended, v.Started)) > in.seconds("replaced_shown_s") {
				continue
			}
			if began, under := in.restarting(); under && !v.Started.Before(began.Add(-time.Minute)) {
				continue // its journal has not said yet which process is its own
			}
			diff := argvDiff(r.Argv, v.Argv)
			c := Condition{
				Subject: v.ID, Severity: metrics.SeverityInfo, Since: v.Started, Log: metrics.LogPlace{Path: v.Log.Path},
				Title:    fmt.Sprintf("%s was started again by somebody else at %s", name(v), in.clock(v.Started)),
				Why:      "it was not restarted from here",
				Evidence: []metrics.Evidence{{Text: fmt.Sprintf("server %s ended at %s, %s began at %s", r.ID, in.clock(r.Ended), v.ID, in.clock(v.Started)), Source: "processes", At: v.Started}},
				Advice:   "ask who did it; the level of the start before no longer holds",
			}
			if diff != "" {
				c.Severity = metrics.SeverityWarning
				c.Title += " with other flags: " + metrics.Cut(diff, 80)
				c.Evidence = append(c.Evidence, metrics.Evidence{Text: "flags that differ: " + diff, Source: "command lines", At: v.Started})
			}
			if r.Through != "" {
				whose := "by a runvigil elsewhere"
				if r.By != "" {
					whose = "by " + metrics.Clean(r.By, 40) + " with a runvigil elsewhere"
				}
				c.Title = strings.Replace(c.Title, "by somebody else", whose, 1)
				c.Why = "a restart of another runvigil did it, not one of this screen"
				c.Evidence = append(c.Evidence, metrics.Evidence{Text: "its environment names restart " + r.Through, Source: "processes", At: v.Started})
			}
			if o := in.Snap.Origin(v.PID); o != "" {
				c.Evidence = append(c.Evidence, metrics.Evidence{Text: "started from " + o, Source: "processes", At: v.Started})
			}
			out.Raise(c)
		}
	},
}

// argvDiff tells the flags in which two command lines differ: "--a 1 → 2", "+--b", "without --c".
func argvDiff(old, now []string) string {
	before, after := flagWords(old), flagWords(now)
	var out []string
	for _, f := range after.order {
		was, had := before.value[f]
		switch is := after.value[f]; {
		case !had:
			out = append(out, strings.TrimSpace("+"+f+" "+is))
		case was != is:
			out = append(out, f+" "+was+" → "+is)
		}
	}
	for _, f := range before.order {
		if _, kept := after.value[f]; !kept {
			out = append(out, strings.TrimSpace("without "+f+" "+before.value[f]))
		}
	}
	return strings.Join(out, ", ")
}

type words struct {
	order []string
	value map[string]string
}

// flagWords reads flags and their words; of several the last wins.
func flagWords(argv []string) words {
	w := words{value: map[string]string{}}
	for i := 0; i < len(argv); i++ {
		f, v, ok := strings.Cut(argv[i], "=")
		if !strings.HasPrefix(f, "--") {
			continue
		}
		for !ok && i+1 < len(argv) && !strings.HasPrefix(argv[i+1], "--") {
			i++
			v = strings.TrimSpace(v + " " + argv[i])
		}
		if _, again := w.value[f]; !again {
			w.order = append(w.order, f)
		}
		w.value[f] = v
	}
	return w
}
