package board

import (
	"slices"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// logServers gives a server to each engine's log that no process owns.
func (b *Board) logServers() []*serverState {
	owned := map[string]bool{}
	for _, s := range b.servers {
		owned[s.log] = true
	}
	var out []*serverState
	for _, path := range sortedLogs(b.logs) {
		l := b.logs[path]
		sec := l.work.section()
		if owned[path] || l.work.engine == "" || sec == nil {
			continue
		}
		s := &serverState{s: metrics.Server{ID: "log:" + path, Engine: l.work.engine, Started: sec.at, Port: sec.port, Addr: sec.addr}, log: path, firstSeen: sec.at}
		silent := quietLog
		if l.gap > 0 {
			silent = quietUnseen
		}
		if !b.scanned.IsZero() && (b.link.LastData.Sub(sec.last) > silent || b.orphaned(path)) {
			s.endedAt = sec.last
		}
		out = append(out, s)
	}
	return out
}

// How long the log of a server whose process is not seen may be silent before
// the server is taken for ended: briefly where nothing came since the first look,
// long where it was seen to grow, so that it lives where nobody can see it.
const (
	quietLog    = 10 * time.Second
	quietUnseen = time.Minute
)

// orphaned tells that the server of a log is gone: a worker of its engine still
// prints there, and no process that started it lives.
func (b *Board) orphaned(path string) bool {
	for _, p := range b.procs {
		if engineWorker(p) && alive(p.State) && (p.FD1 == path || p.FD2 == path) && !b.underEngine(p) {
			return true
		}
	}
	return false
}

func sortedLogs(m map[string]*logState) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
