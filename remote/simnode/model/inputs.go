package model

import "time"

// other is a process or a tree beside the newest server and client: an earlier
// server or client that still lives, or an orphan that holds GPU memory.
type other struct {
	server *server
	client *client
	orphan *orphan
}

// orphan is a scheduler that has outlived its server: it was still importing
// when its parent was killed, went on loading and keeps its card.
type orphan struct {
	pid     int
	rank    int
	bytes   int64
	started time.Duration
}

// clients are the newest client and those beside it that still live.
func (n *Node) clients() []*client {
	var list []*client
	for _, o := range n.extra {
		if o.client != nil && o.client.alive {
			list = append(list, o.client)
		}
	}
	if n.cli != nil && n.cli.alive {
		list = append(list, n.cli)
	}
	return list
}

func (n *Node) orphaned() bool {
	for _, o := range n.extra {
		if o.orphan != nil {
			return true
		}
	}
	return false
}

// orphanRank ends the newest server, but leaves the scheduler of one rank
// behind.
func (n *Node) orphanRank(rank int) {
	s := n.srv
	o := &orphan{pid: s.pids[Scheduler(rank)], rank: rank, bytes: s.gpuMemory(rank), started: s.started}
	s.signal(ServerMain, SIGKILL)
	exits := n.out.Exits
	for i, e := range exits {
		if e.PID == o.pid {
			n.out.Exits = append(exits[:i:i], exits[i+1:]...)
			break
		}
	}
	n.extra = append(n.extra, &other{orphan: o})
}

// Signal delivers a signal to a process of the node, as kill does; false when
// there is none with that pid. Its effects come with Advance.
func (n *Node) Signal(pid int, sig Signal) bool {
	if pid == 0 {
		return false
	}
	for _, s := range n.servers() {
		for _, role := range s.roles {
			if s.pids[role] == pid {
				s.signal(role, sig)
				return true
			}
		}
	}
	for _, c := range n.clients() {
		if c.pid == pid {
			c.signal(sig)
			return true
		}
	}
	for i, o := range n.extra {
		if o.orphan != nil && o.orphan.pid == pid {
			n.extra = append(n.extra[:i:i], n.extra[i+1:]...)
			n.out.Exits = append(n.out.Exits, Exit{At: n.Now(), Role: Orphan, PID: pid, Code: 128 + int(sig)})
			return true
		}
	}
	return false
}

func (n *Node) pidOf(role Role) int {
	if role == ClientMain && n.cli != nil && n.cli.alive {
		return n.cli.pid
	}
	if n.srv != nil && n.srv.alive() {
		return n.srv.pids[role]
	}
	return 0
}

// Bind tells the model the real pid of one process of the newest server or
// client, so that listings and nvidia-smi show it and Signal finds it.
func (n *Node) Bind(role Role, pid int) {
	for _, o := range n.extra {
		switch {
		case role == OldClient && o.client != nil:
			o.client.pid = pid
		case role == Orphan && o.orphan != nil:
			o.orphan.pid = pid
		}
	}
	switch {
	case role == OldClient || role == Orphan:
	case role == ClientMain && n.cli != nil:
		n.cli.pid = pid
	case n.srv != nil:
		n.srv.pids[role] = pid
	}
}

// burst sends short requests from another host, all at once, whose answers
// nobody here writes down.
func (n *Node) burst(requests int) {
	srv := n.listener()
	if srv == nil || srv.eng == nil {
		return
	}
	for i := range requests {
		n.requests++
		port := n.connection()
		srv.eng.add(&request{
			id: n.requests, rid: requestID(&n.ids), prompt: 900 + 17*(i%30), target: 64 + 5*(i%40), limit: 512, port: port,
			answer: func(string) { srv.access(port, srv.route(), 200) },
		})
	}
}
