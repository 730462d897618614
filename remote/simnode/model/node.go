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

import "time"

// Node is the whole machine at one moment of virtual time.
type Node struct {
	scenario Scenario
	now      time.Time
	out      Output
	past     Past
}

// New builds the node of a scenario, pre-rolled so that its present is now:
// earlier processes, log lines and rows lie before it and are found in Past.
// The zone of now is the zone of the node's clock and of its log lines.
func New(sc Scenario, now time.Time) *Node {
	n := &Node{scenario: sc, now: now}
	n.preroll()
	return n
}

// Now is the node's present.
func (n *Node) Now() time.Time { return n.now }

// Past is what lies on the disk when the node is first seen.
func (n *Node) Past() Past { return n.past }

// Advance moves the node on and returns what happened since the last call (or
// since New, or since an input such as a signal, whose effects are returned
// with the next Advance). A time before Now moves nothing.
func (n *Node) Advance(to time.Time) Output {
	n.run(to)
	out := n.out
	n.out = Output{}
	return out
}
