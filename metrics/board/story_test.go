package board

import (
	"testing"
	"time"
)

func TestShowStory(t *testing.T) {
	for _, sc := range []string{"story", "ramp", "healthy", "idle", "loading", "oom", "hang", "client-dead", "no-server", "gpu-lost"} {
		s := newSim(t, sc)
		s.saved = 5 * time.Minute
		s.connect(s.config())
		s.run(10 * time.Second)
		t.Log(sc, show(s.b.Snapshot()))
	}
}
