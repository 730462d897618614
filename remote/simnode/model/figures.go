package model

import (
	"fmt"
)

// Scheduler is the role of the scheduler process of one rank.
func Scheduler(rank int) Role { return Role(fmt.Sprintf("scheduler/%d", rank)) }

// Server is the state of the newest server.
func (n *Node) Server() ServerState {
	if n.srv == nil {
		return ServerState{Phase: PhaseNone}
	}
	return n.srv.state()
}

// Servers are the states of all servers that live, the newest last.
func (n *Node) Servers() []ServerState {
	var list []ServerState
	for _, s := range n.servers() {
		list = append(list, s.state())
	}
	return list
}

func (s *server) state() ServerState {
	n := s.n
	st := ServerState{
		PID: s.pids[ServerMain], Phase: s.phase, Listening: s.listening(), Host: s.flags.Host, Port: s.flags.Port, Flags: s.flags, Argv: s.argv,
		Started: n.wall(s.started),
	}
	if s.ready > 0 {
		st.Ready = n.wall(s.ready)
	}
	if e := s.eng; e != nil {
		st.Running, st.Queued, st.Tokens, st.Capacity, st.Usage = len(e.running), len(e.queue), e.live, e.capacity, e.usage()
		st.Headroom = gb(s.flags.headroom())
		st.GenTPS, st.Finished, st.Retracted, st.Hung = e.count.lastGen, e.count.finished, e.count.retracted, e.hung
		st.LastBatch = n.wall(e.count.lastBatch)
	}
	return st
}

// Client is the state of the newest client.
func (n *Node) Client() ClientState {
	if n.cli == nil {
		return ClientState{}
	}
	return n.cli.state()
}

// Clients are the states of all clients that live, the newest last.
func (n *Node) Clients() []ClientState {
	var list []ClientState
	for _, o := range n.extra {
		if o.client != nil && o.client.alive {
			list = append(list, o.client.state())
		}
	}
	if n.cli != nil && n.cli.alive {
		list = append(list, n.cli.state())
	}
	return list
}

func (c *client) state() ClientState {
	n := c.n
	st := ClientState{
		Running: c.alive, PID: c.pid, Argv: c.argv, Dir: c.dir, Started: n.wall(c.started), Concurrency: c.concurrency,
		Rows: c.rows, Retries: c.retries, Buffered: len(c.held),
	}
	if !c.alive {
		return st
	}
	for _, s := range c.slots {
		if s.req != nil {
			st.InFlight++
		}
		if s.part != nil {
			st.Part = s.part.name
		}
	}
	return st
}
