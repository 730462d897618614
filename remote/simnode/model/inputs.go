package model

// other is a process or a tree beside the newest server and client: an earlier
// server or client that still lives, or an orphan that holds GPU memory.
type other struct {
	server *server
	client *client
	orphan *orphan
}

// orphan is a process of an earlier server that holds memory of one card. One
// that is not visible lives outside this container.
type orphan struct {
	pid     int
	gpu     int
	bytes   int64
	visible bool
}

// Signal delivers a signal to a process of the node, as kill does; false when
// there is none with that pid. Its effects come with Advance.
func (n *Node) Signal(pid int, sig Signal) bool {
	if pid == 0 {
		return false
	}
	servers, clients := []*server{n.srv}, []*client{n.cli}
	for _, o := range n.extra {
		servers = append(servers, o.server)
		clients = append(clients, o.client)
	}
	for _, s := range servers {
		if s == nil || !s.alive() {
			continue
		}
		for _, role := range s.roles {
			if s.pids[role] == pid {
				s.signal(role, sig)
				return true
			}
		}
	}
	for _, c := range clients {
		if c != nil && c.alive && c.pid == pid {
			c.signal(sig)
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
	switch {
	case role == ClientMain && n.cli != nil:
		n.cli.pid = pid
	case n.srv != nil:
		n.srv.pids[role] = pid
	}
}
