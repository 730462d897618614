package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runvigil/runvigil/metrics"
)

func TestGlanceIsYoungOrNone(t *testing.T) {
	s := state{filepath.Join(t.TempDir(), "n")}
	if _, ok := s.glance(t0); ok {
		t.Error("a glance where none was left")
	}
	snap := &metrics.Snapshot{Node: "gpu7", At: t0, Link: metrics.Link{Status: metrics.LinkUp}, Verdict: metrics.Verdict{Word: "OK"}}
	if err := s.leaveGlance(newGlance(snap, t0)); err != nil {
		t.Fatal(err)
	}
	for age, want := range map[time.Duration]bool{0: true, 9 * time.Second: true, 10 * time.Second: false, -time.Second: false} {
		if g, ok := s.glance(t0.Add(age)); ok != want || ok && g.JSON.Node != "gpu7" {
			t.Errorf("at age %s: %v, want %v", age, ok, want)
		}
	}
}

// What a screen saw in its first moments says "no server" where it has not
// looked yet: it answers for nobody.
func TestKeeperLeavesNothingOfHalfALook(t *testing.T) {
	began := time.Now()
	k := &keeper{state: state{filepath.Join(t.TempDir(), "n")}, first: newFirstLook(), began: began}
	k.starts = newStartKeeper(k.state)
	put := func(after time.Duration) bool {
		at := began.Add(after)
		k.put(&metrics.Snapshot{Node: "gpu7", At: at, Link: metrics.Link{Status: metrics.LinkUp, LastData: at}})
		_, ok := k.state.glance(time.Now())
		return ok
	}
	if put(time.Second) {
		t.Error("a glance was left before everything was seen once")
	}
	if !put(lookLimit + time.Second) {
		t.Error("a screen on which something never answers leaves no glance")
	}
}

func TestStateIsPrivateAndWhole(t *testing.T) {
	s := state{filepath.Join(t.TempDir(), "n")}
	want := metrics.Saved{Node: "gpu7", Files: []metrics.SavedFile{{Path: "/b.jsonl", ID: "1:2", Rows: 1531, Offset: 99, At: t0}}}
	if err := s.save(want); err != nil {
		t.Fatal(err)
	}
	got, ok := s.saved()
	if d := cmp.Diff(want, got); !ok || d != "" {
		t.Errorf("counts changed: %v %s", ok, d)
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("%d files were left, want counted.json alone", len(entries))
	}
	info, err := entries[0].Info()
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want 0600", info.Mode())
	}
	if err := os.WriteFile(filepath.Join(s.dir, "counted.json"), []byte(`{"node":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.saved(); ok {
		t.Error("a damaged file was taken for counts")
	}
}

func TestNodesDoNotShareState(t *testing.T) {
	seen := map[string]bool{}
	for _, n := range []string{"gpu7", "root@gpu7", "gpu7:2222", "a/b", "a%2Fb", ".."} {
		dir := stateOf(n).dir
		if seen[dir] || filepath.Base(filepath.Dir(dir)) != "nodes" {
			t.Errorf("%q keeps its state in %s", n, dir)
		}
		seen[dir] = true
	}
}

// The clock never goes back; where this machine slept, so that the wall ran
// ahead of the monotonic time, it follows the wall.
func TestClockFollowsASleep(t *testing.T) {
	wall := time.Now().Round(0)
	c := newClock()
	c.wall = func() time.Time { return wall }
	before := c.now()
	wall = wall.Add(8 * time.Hour)
	if d := c.now().Sub(before); d < 8*time.Hour-time.Minute || d > 8*time.Hour+time.Minute {
		t.Errorf("after a sleep of 8 h the clock is %s later", d)
	}
	wall = wall.Add(-time.Hour)
	if a := c.now(); a.Before(before.Add(8*time.Hour - time.Minute)) {
		t.Errorf("a wall that is set back takes the clock to %s", a)
	}
}
