package metrics

import (
	"fmt"
	"time"
)

// The first words of a verdict.
const (
	WordOK   = "OK"
	WordWarn = "WARN"
	WordCrit = "CRIT"
	WordDown = "DOWN"
	WordNone = "NONE"
	WordWait = "WAIT"
)

// Judge says the state of a node in one sentence: its worst finding, else
// whether rows land and how fast it really generates.
func Judge(s *Snapshot) Verdict {
	if s.Link.Status == LinkDown {
		text := "no answer from " + s.Node
		if !s.Link.LastData.IsZero() {
			text += " for " + Age(s.At.Sub(s.Link.LastData))
		}
		if s.Link.Reason != "" {
			text += ": " + s.Link.Reason
		}
		return Verdict{Level: SeverityCritical, Word: WordDown, Text: text}
	}
	if f := worst(s.Findings, false); f != nil && f.Severity >= SeverityWarning {
		v := Verdict{Level: f.Severity, Word: WordWarn, Text: f.Title}
		if f.Severity == SeverityCritical {
			v.Word = WordCrit
		}
		if f.ID == "link-down" {
			v.Word = WordDown
		}
		return v
	}
	if waiting(s) {
		text := "finding out"
		if len(s.Doing) > 0 {
			text = s.Doing[0]
		}
		return Verdict{Word: WordWait, Text: text}
	}
	if len(s.Servers) == 0 && len(s.Clients) == 0 && len(s.Datasets) == 0 {
		return Verdict{Word: WordNone, Text: "no server, client or dataset found on " + s.Node}
	}
	if f := worst(s.Findings, true); f != nil && f.Severity >= SeverityWarning {
		// What was set aside leads the sentence no more; it is not well for that.
		v := Verdict{Level: f.Severity, Word: WordWarn, Text: story(s) + " (set aside: " + f.Title + ")"}
		if f.Severity == SeverityCritical {
			v.Word = WordCrit
		}
		return v
	}
	return Verdict{Word: WordOK, Text: story(s)}
}

// worst is the first of the gravest findings: of those that the operator has set
// aside, or of the others.
func worst(fs []Finding, setAside bool) *Finding {
	var out *Finding
	for i := range fs {
		f := &fs[i]
		if (f.Acked || !f.Snoozed.IsZero()) != setAside {
			continue
		}
		if out == nil || f.Severity > out.Severity {
			out = f
		}
	}
	return out
}

// waiting tells whether the first look at the node is still under way.
func waiting(s *Snapshot) bool {
	return len(s.Servers) == 0 && len(s.Clients) == 0 && len(s.Datasets) == 0 &&
		(s.Link.Status != LinkUp && s.Link.LastData.IsZero() || s.BootID == "" && s.Link.LastData.IsZero() || firstLook(s))
}

func firstLook(s *Snapshot) bool {
	return len(s.Doing) == 1 && (s.Doing[0] == DoingLook || s.Doing[0] == DoingConnect+s.Node)
}

// What Snapshot.Doing says before anything was found.
const (
	DoingConnect = "connecting to "
	DoingLook    = "connected; looking for servers, clients and datasets"
)

// story tells a node without a fault: rows first, then the real speed.
func story(s *Snapshot) string {
	text := rowsStory(s)
	v := s.Server()
	if v != nil && v.State == ServerStarting {
		return speedStory(v, s.At)
	}
	if v != nil {
		if t := speedStory(v, s.At); t != "" {
			if text != "" {
				text += "; "
			}
			text += t
		}
		if text == "" {
			text = "a server runs; how fast is not known yet"
		}
	} else if text == "" {
		text = "no server runs"
	} else {
		text += "; no server found"
	}
	return text
}

func rowsStory(s *Snapshot) string {
	if s.Job.Done {
		return "job done: " + Count(s.Job.Rows.V) + " rows"
	}
	newest := time.Time{}
	gap := time.Duration(0)
	for i := range s.Datasets {
		if g := s.Datasets[i].Grew; g.After(newest) {
			newest, gap = g, s.Datasets[i].Gap
		}
	}
	switch {
	case len(s.Datasets) == 0:
		return ""
	case newest.IsZero():
		return "rows not counted yet"
	case gap > 0 && s.At.Sub(newest) > max(45*time.Second, 10*gap), gap == 0 && s.At.Sub(newest) > 2*time.Minute:
		return "no row for " + Age(s.At.Sub(newest))
	}
	return "rows land"
}

// draining tells a server whose client takes no new work: nothing waits, no
// request began for a minute, and fewer run than did.
func draining(v *Server, now time.Time) (left float64, yes bool) {
	before := v.Gen.SettledRunning.Or(v.Gen.PeakRunning)
	if v.State != ServerServing || !v.Running.Known || v.Running.V < 1 || v.Queued.V > 0 || !v.Queued.Known || v.NewRequest.IsZero() || !before.Known {
		return 0, false
	}
	return v.Running.V, now.Sub(v.NewRequest) > time.Minute && v.Running.V < 0.8*before.V
}

func speedStory(v *Server, now time.Time) string {
	g := &v.Gen
	switch v.State {
	case ServerStarting:
		text := "server starting: " + v.Phase.Name
		if v.Phase.Total > 0 {
			text += fmt.Sprintf(" %d/%d", v.Phase.Done, v.Phase.Total)
		}
		if !v.Started.IsZero() {
			text += ", " + Age(now.Sub(v.Started))
			if v.Phase.Expected > 0 {
				text += " of about " + Age(v.Phase.Expected)
			}
		}
		return text
	case ServerIdle:
		return "server idle for " + Age(now.Sub(v.Since))
	case ServerDown:
		return "server down"
	case ServerDraining:
		return "server draining: " + FigureText(v.Running, Count) + " requests left"
	case ServerHung:
		return "server silent for " + Age(now.Sub(v.Since))
	}
	if left, yes := draining(v, now); yes {
		return "draining, " + Count(left) + " left"
	}
	if g.Settled.Known {
		text := Count(g.Settled.V) + " tok/s is settled"
		if g.Peak.Known && g.Peak.V > 1.2*g.Settled.V {
			text += " (" + Count(g.Peak.V) + " was the ramp"
			if g.PeakPerRequest.Known && v.PerRequest.Known {
				text += ": " + Count(g.PeakPerRequest.V) + " tokens a request, now " + Count(v.PerRequest.V)
			}
			text += ")"
		}
		return text
	}
	if !g.Now.Known {
		return ""
	}
	text := Count(g.Now.V) + " tok/s"
	if g.Ramp {
		text += ", not settled: requests are young"
		if v.PerRequest.Known {
			text += " (" + Count(v.PerRequest.V) + " tokens each)"
		}
	}
	return text
}
