package board

import (
	"maps"
	"slices"

	"github.com/runvigil/runvigil/metrics"
)

// argMost bounds one argument of a process that is shown.
const argMost = 500

// listProcs keeps the processes of a scan for snapshots, cleaned, by pid.
func (b *Board) listProcs() {
	list := make([]metrics.Proc, 0, len(b.procs))
	for _, pid := range slices.Sorted(maps.Keys(b.procs)) {
		p := b.procs[pid]
		p.State, p.User, p.Comm = metrics.Clean(p.State, 4), metrics.Clean(p.User, 60), metrics.Clean(p.Comm, 60)
		p.Exe, p.Cwd, p.Cgroup = metrics.Clean(p.Exe, argMost), metrics.Clean(p.Cwd, argMost), metrics.Clean(p.Cgroup, argMost)
		p.FD1, p.FD2 = metrics.Clean(p.FD1, argMost), metrics.Clean(p.FD2, argMost)
		p.Argv = slices.Clone(p.Argv)
		for i, a := range p.Argv {
			p.Argv[i] = metrics.Clean(a, argMost)
		}
		list = append(list, p)
	}
	b.procList = list
}
