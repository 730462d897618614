package tui

import (
	"context"
	"sync"

	"github.com/runvigil/runvigil/metrics"
)

// Mailbox holds the newest snapshot and nothing else: Put never blocks, however
// slowly the terminal takes what is drawn, and a reader that comes late sees the
// newest state only. The zero Mailbox is not usable; make one with NewMailbox.
type Mailbox struct {
	mu       sync.Mutex
	latest   *metrics.Snapshot
	replaced uint64
	ready    chan struct{}
}

// NewMailbox makes an empty mailbox.
func NewMailbox() *Mailbox { return &Mailbox{ready: make(chan struct{}, 1)} }

// Put leaves a snapshot, in the place of one that nobody has taken.
func (b *Mailbox) Put(s *metrics.Snapshot) {
	b.mu.Lock()
	if b.latest != nil {
		b.replaced++
	}
	b.latest = s
	b.mu.Unlock()
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

// Take waits for a snapshot; ok is false when the context ended first.
func (b *Mailbox) Take(ctx context.Context) (s *metrics.Snapshot, ok bool) {
	for {
		b.mu.Lock()
		s, b.latest = b.latest, nil
		b.mu.Unlock()
		if s != nil {
			return s, true
		}
		select {
		case <-b.ready:
		case <-ctx.Done():
			return nil, false
		}
	}
}

// Replaced counts the snapshots that nobody took.
func (b *Mailbox) Replaced() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.replaced
}
