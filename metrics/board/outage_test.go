package board

import (
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// An outage with many reconnects keeps its beginning and is one event.
func TestOutageIsOne(t *testing.T) {
	b := New()
	at := time.Date(2026, 2, 24, 12, 0, 0, 0, time.UTC)
	link := func(after time.Duration, status metrics.LinkStatus, reason string) {
		b.Apply(metrics.JSONFrame(metrics.KindLink, "", at.Add(after), metrics.LinkFact{Status: status, Reason: reason}))
	}
	link(0, metrics.LinkConnecting, "")
	link(time.Second, metrics.LinkUp, "")
	for try := range 5 {
		link(time.Duration(10+4*try)*time.Second, metrics.LinkDown, "refused")
		link(time.Duration(12+4*try)*time.Second, metrics.LinkConnecting, "refused")
	}
	s := b.Snapshot()
	if s.Link.Status != metrics.LinkDown || !s.Link.Since.Equal(at.Add(10*time.Second)) {
		t.Errorf("link %s since %s, want down since the first loss", s.Link.Status, s.Link.Since)
	}
	events := 0
	for _, e := range s.Events {
		if e.Kind == "link" {
			events++
		}
	}
	if events != 1 {
		t.Errorf("%d events for one outage", events)
	}
	link(time.Minute, metrics.LinkUp, "")
	if s := b.Snapshot(); s.Link.Status != metrics.LinkUp || !s.Link.Since.Equal(at.Add(time.Minute)) {
		t.Errorf("link %s since %s after the reconnect", s.Link.Status, s.Link.Since)
	}
}
