package findings

import (
	"github.com/runvigil/runvigil/metrics"
)

var linkDown = Detector{
	ID:    "link-down",
	Means: "The connection to the node is down. What is shown is old, and nothing that happens now is seen.",
	Needs: "nothing",
	When:  "The connection is down, or has been neither up nor down for 5 s. The exit code of check stays 3.",
	Deaf:  true,
	Do:    "The cause is named: wait for the reconnect, press a key where a login needs you, or check the network.",
	Check: func(in *Input, out *Output) {
		l := in.Snap.Link
		if l.Status == metrics.LinkUp || l.Status == "" {
			return
		}
		if l.Status == metrics.LinkConnecting && l.LastData.IsZero() {
			return // a first visit
		}
		if l.Status != metrics.LinkDown && in.now().Sub(l.Since) < in.seconds("link_down_s") {
			return // a short doubt is not worth a word
		}
		c := Condition{
			Subject: "link", Severity: metrics.SeverityCritical, Since: l.Since, Why: l.Reason,
			Title:  "link " + string(l.Status) + " for " + metrics.Age(in.now().Sub(l.Since)),
			Advice: "reconnecting by itself",
		}
		if l.Reason != "" {
			c.Title += ": " + l.Reason
		}
		if l.Waiting {
			c.Advice = "press r to try again: the login needs you"
		}
		if !l.LastData.IsZero() {
			c.Evidence = append(c.Evidence, metrics.Evidence{Text: "last word from the node " + metrics.Age(in.now().Sub(l.LastData)) + " ago", Source: "link", At: l.LastData})
		}
		out.Raise(c)
	},
}
