package board

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

var (
	bootStamp = regexp.MustCompile(`^\[ *(\d+\.\d+)\]`)
	isoStamp  = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:?\d\d`)
	killedPID = regexp.MustCompile(`(?i)kill(?:ed)? process (\d+) \(([^)]*)\)`)
)

func (b *Board) applyKernel(f metrics.Frame) {
	for line := range strings.Lines(string(f.Data)) {
		text := metrics.Clean(strings.TrimRight(line, "\n"), 400)
		if text == "" || slices.ContainsFunc(b.kernel, func(k kernelLine) bool { return k.text == text }) {
			continue
		}
		k := kernelLine{at: b.kernelTime(text, f.At), text: text}
		b.kernel = append(b.kernel, k)
		for _, s := range b.servers {
			if !s.alive() && len(s.kernel) == 0 && killedByKernel(text, s.s.Tree) {
				s.kernel = append(s.kernel, metrics.CauseFact{Class: metrics.CauseHostOOMKilled, Detail: text, Line: text, At: k.at})
			}
		}
	}
	if over := len(b.kernel) - kernelKeep; over > 0 {
		b.kernel = slices.Clone(b.kernel[over:])
	}
}

// kernelTime is a line's own time where it has one: seconds since boot, or a
// time with its zone.
func (b *Board) kernelTime(text string, read time.Time) time.Time {
	if m := bootStamp.FindStringSubmatch(text); m != nil && !b.boot.IsZero() {
		if s, err := strconv.ParseFloat(m[1], 64); err == nil {
			if t := b.boot.Add(time.Duration(s * float64(time.Second))); !t.After(read) {
				return t
			}
		}
	}
	if m := isoStamp.FindString(text); m != "" {
		for _, layout := range []string{"2006-01-02T15:04:05-0700", "2006-01-02T15:04:05-07:00"} {
			if t, err := time.Parse(layout, m); err == nil {
				return b.local(t)
			}
		}
	}
	return read
}

// killedByKernel tells whether a line says that the OOM killer ended a process
// of the tree; with an unknown tree, one that is named like an engine.
func killedByKernel(text string, pids []int) bool {
	m := killedPID.FindStringSubmatch(text)
	if m == nil {
		return false
	}
	if pid, err := strconv.Atoi(m[1]); err == nil && slices.Contains(pids, pid) {
		return true
	}
	return len(pids) == 0 && (strings.HasPrefix(m[2], "sglang") || strings.HasPrefix(m[2], "VLLM") || strings.HasPrefix(m[2], "vllm") || strings.HasPrefix(m[2], "python"))
}
