package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// A firstLook follows frames and wants to tell when a one-shot command has seen
// everything once: the link, the processes, the GPUs, and an answer to each
// want, with no new want for a while.
type firstLook struct {
	session, scan, gpu, sys bool
	link                    metrics.LinkFact
	answered                map[string]bool
	wants                   []metrics.Want
	pending                 []string
	changed                 time.Time // when pending or the wants last changed
}

func newFirstLook() *firstLook { return &firstLook{answered: map[string]bool{}} }

// settleFor is how long nothing new must be wanted.
const settleFor = 600 * time.Millisecond

// want takes the wants of the fold.
func (l *firstLook) want(wants []metrics.Want, at time.Time) {
	if len(wants) != len(l.wants) {
		l.changed = at
	}
	l.wants = wants
	l.review(at)
}

// lineMost is how long the line at the end of a log may be that nobody has ended
// yet: only whole lines come, so that much is never waited for.
const lineMost = 64 << 10

// see takes a frame.
func (l *firstLook) see(f metrics.Frame) {
	switch f.Kind {
	case metrics.KindSession:
		l.session = true
	case metrics.KindLink:
		if fact, err := metrics.Decode[metrics.LinkFact](f); err == nil {
			l.link = fact
		}
	case metrics.KindScan:
		l.scan = true
	case metrics.KindSys:
		l.sys = true
		for line := range strings.Lines(string(f.Data)) {
			if pids, yes := strings.CutPrefix(line, "groups "); yes {
				for _, pid := range strings.Fields(pids) {
					l.answered["memory "+pid] = true
				}
			}
		}
	case metrics.KindGPU, metrics.KindGPUError:
		l.gpu = true
	case metrics.KindProbe:
		l.answered["probe "+f.Name] = true
	case metrics.KindRows:
		if r, err := metrics.Decode[metrics.RowsFact](f); err == nil {
			l.answer(metrics.WantRows, r.Path)
		}
	case metrics.KindLog:
		if h, _, err := metrics.DecodeChunk[metrics.LogHeader](f.Data); err == nil && (h.Err != "" || h.Size-h.End < lineMost) {
			l.answer(metrics.WantLog, f.Name)
			l.answer(metrics.WantPane, f.Name)
		}
	case metrics.KindDir:
		l.answer(metrics.WantDir, f.Name)
	case metrics.KindHTTP:
		l.answered["http "+f.Name] = true
	case metrics.KindFiles:
		if files, err := metrics.Decode[[]metrics.FileStat](f); err == nil {
			for _, s := range files {
				l.answer(metrics.WantStat, s.Path)
				if !s.Exists || s.Err != "" {
					l.answer(metrics.WantRows, s.Path)
					l.answer(metrics.WantLog, s.Path)
				}
				if s.Size == 0 {
					l.answer(metrics.WantLog, s.Path)
				}
			}
		}
	case metrics.KindDisk:
		if disks, err := metrics.Decode[[]metrics.DiskFact](f); err == nil {
			for _, d := range disks {
				l.answer(metrics.WantDisk, d.Path)
			}
		}
	case metrics.KindAlive:
		l.answered["pids"] = true
	}
	l.review(f.At)
}

func (l *firstLook) answer(kind metrics.WantKind, path string) {
	l.answered[string(kind)+" "+path] = true
}

func (l *firstLook) review(at time.Time) {
	var pending []string
	for _, w := range l.wants {
		if key, waits := wantKey(w); waits && !l.answered[key] {
			pending = append(pending, key)
		}
	}
	if len(pending) != len(l.pending) {
		l.changed = at
	}
	l.pending = pending
}

// wantKey names a want as its answer does. The kernel log and panes may never
// say anything, so nobody waits for them.
func wantKey(w metrics.Want) (key string, waits bool) {
	switch w.Kind {
	case metrics.WantHTTP:
		return fmt.Sprintf("http %d %s", w.Port, w.Path), true
	case metrics.WantPID:
		return "pids", true
	case metrics.WantMemory:
		return fmt.Sprintf("memory %d", w.PID), true
	case metrics.WantKernel, metrics.WantPane:
		return "", false
	}
	return string(w.Kind) + " " + w.Path, true
}

// complete tells whether everything was seen once.
func (l *firstLook) complete(now time.Time) bool {
	return l.session && l.scan && l.gpu && l.sys && l.wants != nil && len(l.pending) == 0 && now.Sub(l.changed) >= settleFor
}

// failed tells that the link is down and why.
func (l *firstLook) failed() (reason string, yes bool) {
	return l.link.Reason, l.link.Status == metrics.LinkDown
}
