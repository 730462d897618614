package findings

import (
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// Condition texts share these so that the same thing is said the same way.

func (in *Input) now() time.Time { return in.Snap.At }

// seconds is a threshold that counts seconds, as a duration.
func (in *Input) seconds(name string) time.Duration {
	return time.Duration(in.Threshold(name) * float64(time.Second))
}

// clock is a moment on the node's wall.
func (in *Input) clock(t time.Time) string {
	return metrics.Clock(t, in.Snap.At, in.Snap.ZoneSec, in.Snap.Zone)
}

// linkUp tells whether silence of the node means anything: without a link,
// nothing is judged that rests on what did not arrive.
func (in *Input) linkUp() bool {
	return in.Snap.Link.Status == metrics.LinkUp || in.Snap.Link.Status == "" || in.Snap.Replay && in.Snap.Link.Status == metrics.LinkUp
}

// generating is a server that makes tokens now.
func (in *Input) generating() *metrics.Server {
	for i := range in.Snap.Servers {
		v := &in.Snap.Servers[i]
		if v.Running.Known && v.Running.V > 0 && v.Gen.Now.Known && v.Gen.Now.V > 0 && !v.Gen.Now.Stale(in.now()) {
			return v
		}
	}
	return nil
}

// alive tells whether a client is a running process or sends from another host.
func alive(c *metrics.Client) bool {
	return c.State == "running" || c.State == "stopped" || c.State == "remote"
}

func up(v *metrics.Server) bool {
	switch v.State {
	case metrics.ServerDown, metrics.ServerUnknown:
		return false
	}
	return true
}

// who names a client in a title: its script where Python runs one.
func who(c *metrics.Client) string {
	if c.Host != "" {
		return "client on " + c.Host
	}
	name := "client"
	for i, a := range c.Argv {
		if i > 0 && strings.HasSuffix(a, ".py") {
			name = path.Base(a)
			break
		}
	}
	if c.PID > 0 {
		name += " " + strconv.Itoa(c.PID)
	}
	return name
}

func base(p string) string { return path.Base(p) }

// flagValue is the value of a flag in an argv, "" where it is not set.
func flagValue(argv []string, flag string) string {
	out := ""
	for i, a := range argv {
		if a == flag && i+1 < len(argv) {
			out = argv[i+1]
		}
		if v, ok := strings.CutPrefix(a, flag+"="); ok {
			out = v
		}
	}
	return out
}

func figureEvidence(text string, f metrics.Figure) metrics.Evidence {
	return metrics.Evidence{Text: text, Source: f.Source, At: f.At}
}
