package model

import "time"

func (n *Node) preroll() { n.past = Past{} }

func (n *Node) run(to time.Time) {
	if to.After(n.now) {
		n.now = to
	}
}
