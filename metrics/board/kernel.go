package board

import (
	"slices"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/kernel"
)

const kernelKeep = 200

// kernelFact is one thing the kernel log says.
type kernelFact struct {
	fact metrics.CauseFact
	kind kernel.Kind
	pid  int
	name string
	bus  string
}

func (b *Board) applyKernel(f metrics.Frame) {
	data := f.Data
	if n := len(data); n > 0 && data[n-1] != '\n' {
		data = append(data[:n:n], '\n') // frames hold whole lines
	}
	b.kernelLog.Feed(data, func(e *kernel.Event) {
		if e.Class == "" || e.Kind == kernel.KindReaped {
			return
		}
		k := kernelFact{
			fact: metrics.CauseFact{Class: e.Class, Detail: e.Text, Line: e.Text, At: b.kernelTime(e, f.At), Primary: !e.Consequence},
			kind: e.Kind, pid: e.PID, name: e.Name, bus: e.Bus,
		}
		if slices.ContainsFunc(b.kernel, func(o kernelFact) bool { return o.fact.Line == k.fact.Line && o.kind == k.kind }) {
			return // a new session reads the same log again
		}
		if e.Kind == kernel.KindOOMTask && slices.ContainsFunc(b.kernel, func(o kernelFact) bool {
			return o.fact.Class == e.Class && k.fact.At.Sub(o.fact.At).Abs() < time.Minute
		}) {
			return // the first row stands for the table, a victim for it all
		}
		b.kernel = append(b.kernel, k)
		if !e.Consequence {
			b.event(metrics.Event{At: k.fact.At, Kind: "crash", Text: metrics.Cut("kernel: "+e.Text, 160), Ref: "kernel"})
		}
		for _, c := range b.clients {
			if !c.alive() && k.killed([]int{c.c.PID}) {
				c.kernel = &k.fact
			}
		}
		for _, s := range b.servers {
			if !s.alive() && len(s.kernel) == 0 && k.killed(s.s.Tree) {
				s.kernel = append(s.kernel, k.fact)
			}
		}
	})
	if over := len(b.kernel) - kernelKeep; over > 0 {
		b.kernel = slices.Clone(b.kernel[over:])
	}
}

// kernelTime is an event's time: by its uptime, by its date in the node's zone,
// else when it was read.
func (b *Board) kernelTime(e *kernel.Event, read time.Time) time.Time {
	at := read
	switch {
	case e.Uptime >= 0 && !b.boot.IsZero():
		at = b.boot.Add(time.Duration(e.Uptime * float64(time.Second)))
	case !e.At.IsZero():
		t := e.At
		if !e.Year {
			t = time.Date(read.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
		}
		at = b.local(t.Add(-time.Duration(b.session.ZoneSec) * time.Second))
	}
	if at.After(read) {
		return read
	}
	return at
}

// killed tells whether the OOM killer ended a process of the tree; with an
// unknown tree, one that is named like an engine.
func (k *kernelFact) killed(pids []int) bool {
	if k.kind != kernel.KindOOMKill {
		return false
	}
	if slices.Contains(pids, k.pid) {
		return true
	}
	return len(pids) == 0 && (strings.HasPrefix(k.name, "sglang") || strings.HasPrefix(k.name, "VLLM") || strings.HasPrefix(k.name, "vllm") || strings.HasPrefix(k.name, "python"))
}

// kernelList are the newest facts of the kernel log, oldest first.
func (b *Board) kernelList() []metrics.CauseFact {
	out := make([]metrics.CauseFact, 0, len(b.kernel))
	for i := range b.kernel {
		out = append(out, b.kernel[i].fact)
	}
	return out
}
