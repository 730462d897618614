package model

import (
	"fmt"
	"strings"
	"time"
)

// Processes are the server's and the client's processes, parents first, those
// of earlier servers and clients that still live before the newest.
func (n *Node) Processes() []Process {
	var list []Process
	for _, s := range n.servers() {
		list = append(list, s.processes()...)
	}
	for _, c := range n.clients() {
		role := ClientMain
		if c != n.cli {
			role = OldClient
		}
		list = append(list, c.process(role))
	}
	for _, o := range n.extra {
		if o.orphan != nil {
			list = append(list, n.orphanProcess(o.orphan))
		}
	}
	return list
}

func (n *Node) orphanProcess(o *orphan) Process {
	title := fmt.Sprintf("sglang::scheduler_TP%d", o.rank)
	return Process{
		Role: Orphan, PID: o.pid, Argv: []string{title}, Title: title, Dir: "/data/eagle3", Started: n.wall(o.started),
		RSS: schedulerRS, State: 'S', Threads: 212, GPU: o.rank, GPUMem: o.bytes, CPU: (n.at - o.started).Seconds() * 0.4,
	}
}

func (s *server) processes() []Process {
	var list []Process
	grown := float64(0)
	switch s.phase {
	case PhaseImport, PhaseDistributed:
		grown = 0.2
	case PhaseWeights:
		grown = 0.3 + 0.7*s.weights
	default:
		grown = 1
	}
	size := func(full int64) int64 { return int64(float64(full) * grown) }
	serving := s.eng != nil && (len(s.eng.running) > 0 || s.eng.busy)
	for _, role := range s.roles {
		p := Process{
			Role: role, PID: s.pids[role], Parent: ServerMain, Argv: s.argv, Env: s.env, Dir: s.dir, Started: s.n.wall(s.started),
			ParentPID: s.pids[ServerMain], State: 'S', Threads: 1, GPU: -1,
		}
		age := (s.n.at - s.started).Seconds()
		rank, isRank := role.rank()
		switch {
		case role == ServerMain:
			p.Env = s.env
			p.Parent, p.ParentPID = "", 0
			p.RSS, p.Threads, p.CPU = size(mainRS), 196, age*0.3
		case role == Detokenizer:
			p.Argv, p.RSS, p.Threads, p.CPU = []string{"sglang::detokenizer"}, size(detokRS), 131, age*0.1
		case role == Tracker:
			p.Argv = []string{"python3", "-c", "from multiprocessing.resource_tracker import main;main(45)"}
			p.RSS = trackerRS
		case role == EngineCore:
			p.Argv, p.RSS, p.Threads, p.CPU = []string{s.vllmTitle(role)}, size(detokRS), 143, age*0.6
		case isRank:
			title := s.title(role)
			p.Argv, p.Threads, p.GPU, p.GPUMem, p.CPU = []string{title}, 212, rank, s.gpuMemory(rank), age*0.97
			p.RSS = size(schedulerRS)
			p.Read = int64(s.weights * weightBytes * 8 / float64(max(1, s.flags.TP)))
			if s.pinned {
				p.RSS += s.flags.hostBytes()
			}
			if serving || !s.listening() {
				p.State = 'R'
			}
		}
		if role != ServerMain && role != Tracker && s.phase == PhaseImport {
			p.Argv = []string{"python3", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=46, pipe_handle=56)", "--multiprocessing-fork"}
		}
		p.Title = strings.Join(p.Argv, " ")
		list = append(list, p)
	}
	return list
}

// gpuMemory is what one rank's process holds on its card.
func (s *server) gpuMemory(rank int) int64 {
	if s.phase == PhaseImport {
		return 0
	}
	return cardBytes - s.free() - int64(rank%3)*2*mib
}

// rank is the scheduler rank of a role.
func (r Role) rank() (int, bool) {
	var rank int
	_, err := fmt.Sscanf(string(r), "scheduler/%d", &rank)
	return rank, err == nil
}

func (c *client) process(role Role) Process {
	return Process{
		Role: role, PID: c.pid, Argv: c.argv, Env: c.env, Title: strings.Join(c.argv, " "), Dir: c.dir, Started: c.n.wall(c.started),
		RSS: clientRS, State: 'S', Threads: 9, GPU: -1, CPU: (c.n.at - c.started + time.Second).Seconds() * 0.04,
	}
}
