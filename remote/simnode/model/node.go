// Package model is the pure model of one GPU node that generates training
// data: inference server, client, GPUs and host in virtual time.
//
// A Node is driven from outside. New returns it pre-rolled to a moment; Advance
// moves it on and returns what it wrote meanwhile; launches, signals and HTTP
// requests enter through methods at the Node's present. Nothing here reads a
// clock, a file or a socket, and two Nodes with the same scenario, start and
// inputs answer byte for byte the same. A Node is not safe for concurrent use:
// its driver holds one lock around it.
//
// Paths are those of the node as its programs see them (/data/...); a driver
// that keeps the files elsewhere maps them.
package model

import (
	"container/heap"
	"time"
)

// Node is the whole machine at one moment of virtual time.
type Node struct {
	scenario Scenario
	epoch    time.Time     // wall time at 0
	at       time.Duration // present, since epoch
	events   eventHeap
	sequence int
	out      Output
	past     Past

	srv      *server // newest, nil before the first
	cli      *client // newest, nil before the first
	extra    []*other
	parts    []*part
	nextPID  int
	nextConn int
	tickets  int
	requests int
	lost     int    // index of the GPU that fell off the bus, -1 none
	ids      source // request ids
}

// New builds the node of a scenario, pre-rolled so that its present is now:
// earlier processes, log lines and rows lie before it and are found in Past.
// The zone of now is the zone of the node's clock and of its log lines.
func New(sc Scenario, now time.Time) *Node {
	n := &Node{
		scenario: sc, epoch: now.Add(-sc.before), nextPID: 205_912, nextConn: 46_812, lost: -1,
		ids: source(sc.seed),
	}
	n.parts = sc.parts(n)
	for _, p := range n.parts {
		p.past, p.landed = p.rows, map[int]bool{}
	}
	for _, m := range sc.script {
		n.after(m.at, func() { m.do(n) })
	}
	n.advance(sc.before)
	n.past = Past{
		Output: n.out, Parts: n.Parts(), History: sc.history(n),
		ServerLog: n.serverLog(), ClientLog: clientLog, RowsFolder: rowsFolder,
	}
	n.out = Output{}
	return n
}

// Now is the node's present.
func (n *Node) Now() time.Time { return n.wall(n.at) }

// Past is what lies on the disk when the node is first seen.
func (n *Node) Past() Past { return n.past }

// Advance moves the node on and returns what happened since the last call (or
// since New, or since an input such as a signal, whose effects are returned
// with the next Advance). A time before Now moves nothing.
func (n *Node) Advance(to time.Time) Output {
	n.advance(to.Sub(n.epoch))
	out := n.out
	n.out = Output{}
	return out
}

func (n *Node) wall(at time.Duration) time.Time { return n.epoch.Add(at) }

// event is something that happens at a moment; equal moments keep their order.
type event struct {
	at       time.Duration
	sequence int
	do       func()
}

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].sequence < h[j].sequence
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = event{}
	*h = old[:len(old)-1]
	return last
}

// after does something once d has passed.
func (n *Node) after(d time.Duration, do func()) {
	n.sequence++
	heap.Push(&n.events, event{n.at + max(d, 0), n.sequence, do})
}

func (n *Node) advance(to time.Duration) {
	for len(n.events) > 0 && n.events[0].at <= to {
		e := heap.Pop(&n.events).(event)
		n.at = e.at
		e.do()
	}
	n.at = max(n.at, to)
}
