package findings

import (
	"fmt"
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
	return in.Snap.Clock(t)
}

// brokenSince is since when a channel of the probe should work and does not, zero
// while it does: what it would tell (files: logs and rows) stands still meanwhile,
// and nobody is to blame for that.
func (in *Input) brokenSince(channel string) time.Time {
	for _, c := range in.Snap.Channels {
		if c.Name == channel && c.Behind(in.now()) {
			return c.Broke
		}
	}
	return time.Time{}
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

// mean is the average of a series from one age to another; ok is false where
// fewer than three buckets of it are known.
func (in *Input) mean(what, of string, from, to time.Duration) (v float64, ok bool) {
	s := in.Snap.Series[metrics.SeriesKey{What: what, Of: of}]
	n := 120
	if from > time.Hour {
		n = 720
	}
	// The whole span up to now is asked for, since old points are kept coarsely only.
	cols := s.Columns(in.now(), from, n)
	width := metrics.Step(from, n)
	var sum float64
	known := 0
	for i, b := range cols {
		if age := time.Duration(len(cols)-1-i) * width; b.N > 0 && age >= to && age < from {
			sum, known = sum+b.Mean(), known+1
		}
	}
	if known < 3 {
		return 0, false
	}
	return sum / float64(known), true
}

// most is the largest value of a series over the last span; ok is false where
// less than half of the span is known.
func (in *Input) most(what, of string, span time.Duration) (v float64, ok bool) {
	s := in.Snap.Series[metrics.SeriesKey{What: what, Of: of}]
	n := 0
	for _, b := range s.Columns(in.now(), span, 20) {
		if b.N > 0 {
			if n == 0 || b.Max > v {
				v = b.Max
			}
			n++
		}
	}
	return v, n >= 10
}

// tuning are the flags of an engine that advice names.
type tuning struct{ fraction, running, chunk, conservativeness, graph string }

func tuningOf(v *metrics.Server) tuning {
	if v.Engine == "vllm" {
		return tuning{"--gpu-memory-utilization", "--max-num-seqs", "--max-num-batched-tokens", "", "--max-cudagraph-capture-size"}
	}
	return tuning{"--mem-fraction-static", "--max-running-requests", "--chunked-prefill-size", "--schedule-conservativeness", "--cuda-graph-max-bs"}
}

// setting is the effective value of a flag (with dashes): the engine's own word
// for it, else the command line; "" where neither tells.
func setting(v *metrics.Server, flag string) string {
	if s := v.Flags[strings.ReplaceAll(strings.TrimLeft(flag, "-"), "-", "_")]; s != "" && s != "None" {
		return s
	}
	return flagValue(v.Argv, flag)
}

// process finds a process of the newest discovery.
func (in *Input) process(pid int) *metrics.Proc { return in.Snap.Proc(pid) }

// began is when a process started by its own clock, zero unknown.
func (in *Input) began(pid int) time.Time {
	if t := in.Snap.Config.Started[pid]; !t.IsZero() {
		return t.Add(-in.Snap.NodeClock)
	}
	p := in.process(pid)
	up := in.Snap.Sys.UptimeS
	if p == nil || !up.Known || p.Start <= 0 || float64(p.Start)/100 > up.V {
		return time.Time{}
	}
	return up.At.Add(-time.Duration((up.V - float64(p.Start)/100) * float64(time.Second)))
}

// age is how long a process has run, "" unknown.
func (in *Input) age(pid int) string {
	t := in.began(pid)
	if t.IsZero() {
		return ""
	}
	return metrics.Age(in.now().Sub(t))
}

// serverTrees maps every pid of a living server's tree to its id.
func (in *Input) serverTrees() map[int]string {
	out := map[int]string{}
	for i := range in.Snap.Servers {
		if v := &in.Snap.Servers[i]; up(v) {
			for _, pid := range v.Tree {
				out[pid] = v.ID
			}
		}
	}
	return out
}

// engineWorker tells a process of an inference engine by its title or command.
func engineWorker(p *metrics.Proc) bool {
	title := strings.Join(p.Argv, " ")
	for _, s := range []string{"sglang::", "sglang.launch_server", "VLLM::", "VllmWorker", "vllm serve", "vllm.entrypoints", "EngineCore"} {
		if strings.Contains(title, s) {
			return true
		}
	}
	return strings.HasPrefix(p.Comm, "sglang") || strings.HasPrefix(p.Comm, "VLLM")
}

// working gives the servers that do work or could.
func (in *Input) working() []*metrics.Server {
	var out []*metrics.Server
	for i := range in.Snap.Servers {
		if v := &in.Snap.Servers[i]; up(v) {
			out = append(out, v)
		}
	}
	return out
}

func name(v *metrics.Server) string {
	if v.Engine == "" {
		return "server"
	}
	return v.Engine
}

// overloaded tells a host with more to run than its processors can. That alone
// is nobody's fault: it is named only where something is slow for it.
func (in *Input) overloaded() (metrics.Evidence, bool) {
	l := in.Snap.Sys
	if !l.Load1.Known || l.CPUs <= 0 || l.Load1.V <= 1.5*float64(l.CPUs) {
		return metrics.Evidence{}, false
	}
	return figureEvidence(fmt.Sprintf("load %.0f on %d processors", l.Load1.V, l.CPUs), l.Load1), true
}

func mib(v float64) string { return metrics.GiB(v * (1 << 20)) }
