package tui

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/board"
	"github.com/runvigil/runvigil/metrics/recording"
	"github.com/runvigil/runvigil/testdata"
)

// watchStory gives each snapshot of the story's recording to see.
func watchStory(t testing.TB, see func(s *metrics.Snapshot)) {
	t.Helper()
	r, err := recording.NewReader(bytes.NewReader(testdata.Story))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b := board.New()
	for {
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		b.Apply(f)
		if f.Kind == metrics.KindTick {
			see(b.Snapshot())
		}
	}
}

// Looking back shows what was shown: every moment that is kept of the story is
// the snapshot of then, apart from what is held elsewhere.
func TestMemoryKeepsWhatWasShown(t *testing.T) {
	var k memory
	then := map[time.Time]*metrics.Snapshot{}
	var now time.Time
	watchStory(t, func(s *metrics.Snapshot) { k.keep(s); then[s.At] = s; now = s.At })
	if len(k.kept) < 15 {
		t.Fatalf("%d moments are kept", len(k.kept))
	}
	elsewhere := cmpopts.IgnoreFields(metrics.Snapshot{}, "Series", "Logs", "Events", "History", "Notes", "Kernel", "Config", "Saved")
	for i, m := range k.kept {
		got := k.recall(i)
		if got == nil {
			t.Fatalf("moment %s cannot be unpacked", m.at)
		}
		if diff := cmp.Diff(then[m.at], got, elsewhere, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("moment %s (-then +recalled):\n%s", m.at, diff)
		}
	}
	if i, ok := k.near(now, now.Add(-time.Minute)); !ok || now.Add(-time.Minute).Sub(k.kept[i].at) > 10*time.Second {
		t.Error("the moment of a minute ago is not found")
	}
	if _, ok := k.near(now, k.kept[0].at.Add(-time.Second)); ok {
		t.Error("a moment before the first is found")
	}
	k.keep(then[k.kept[9].at])
	if len(k.kept) != 10 {
		t.Errorf("a replay that goes back keeps %d moments, not 10", len(k.kept))
	}
}

// Three days fit into a few megabytes, evenly thinned.
func TestMemoryIsBounded(t *testing.T) {
	var k memory
	s := *sceneSettled()
	first := s.At
	end := first.Add(80 * time.Hour)
	for now := first; now.Before(end); {
		s.At = now
		k.keep(&s)
		switch left := end.Sub(now); { // what would be thinned away is left out
		case left > 13*time.Hour:
			now = now.Add(5 * time.Minute)
		case left > 2*time.Hour:
			now = now.Add(time.Minute)
		default:
			now = now.Add(10 * time.Second)
		}
	}
	now := k.kept[len(k.kept)-1].at
	if n := len(k.kept); n < 1700 || n > 1800 {
		t.Errorf("%d moments are kept", n)
	}
	for i := 1; i < len(k.kept); i++ {
		gap, most := k.kept[i].at.Sub(k.kept[i-1].at), spacing(now.Sub(k.kept[i-1].at))
		if most == 0 || gap > most+spacing(now.Sub(k.kept[i].at)) {
			t.Fatalf("%s lies between moments of an age where %s is wanted", gap, most)
		}
	}
	if now.Sub(k.kept[0].at) < 71*time.Hour {
		t.Error("72 hours are not kept")
	}
}

// At 03:12 the screen shows what it showed at 03:12, in every pane, and the way
// forth and back passes moments that were watched; before them it says so.
func TestLookBackAsItWas(t *testing.T) {
	m := newModel(t.Context(), Options{Theme: SchemeDark})
	m.Update(tea.WindowSizeMsg{Width: 120, Height: 40})
	shown := map[time.Time]string{}
	for now := storyNow.Add(-2 * time.Minute); !now.After(storyNow); now = now.Add(time.Second) {
		s := scene(now)
		s.Servers[0].Retracted = metrics.Known(float64(now.Second()), now, 0, "log")
		m.Update(snapshotMsg{s})
		shown[now] = now.Format(time.TimeOnly)
	}
	newest := m.live.At
	m.goTo(newest.Add(-time.Minute))
	if m.snap.At.After(newest.Add(-time.Minute)) || newest.Sub(m.snap.At) > 70*time.Second {
		t.Fatalf("the moment is %s", m.snap.At)
	}
	if got := m.snap.Servers[0].Retracted; !got.Known || got.V != float64(m.snap.At.Second()) {
		t.Errorf("a figure without a series: %+v at %s", got, m.snap.At)
	}
	if !m.recalled() || m.snap.Verdict.Text != scene(m.snap.At).Verdict.Text {
		t.Error("the verdict is not the one of then")
	}
	m.span = 0 // steps of 10 s
	for range 3 {
		before := m.snap.At
		m.walk(-1)
		if d := before.Sub(m.snap.At); d != 10*time.Second {
			t.Fatalf("a step back went %s", d)
		}
	}
	for range 20 {
		before := m.snap.At
		m.walk(1)
		if m.at.IsZero() {
			break
		}
		if !m.snap.At.After(before) {
			t.Fatal("a step forth stays")
		}
	}
	if !m.at.IsZero() {
		t.Error("steps forth never reach now")
	}
	m.goTo(newest.Add(-10 * time.Minute))
	if m.recalled() || m.snap.Servers[0].Retracted.Known {
		t.Error("what nobody watched is shown as if it had been")
	}
}

func BenchmarkMemoryKeep(b *testing.B) {
	var all []*metrics.Snapshot
	watchStory(b, func(s *metrics.Snapshot) { all = append(all, s) })
	var k memory
	var packed, kept, books int
	var last *book
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s := *all[i%len(all)]
		if i%len(all) == 0 {
			k = memory{}
		}
		n := len(k.kept)
		k.keep(&s)
		if len(k.kept) > n {
			m := k.kept[n]
			packed, kept = packed+len(m.packed), kept+1
			if m.book != last {
				last, books = m.book, books+len(m.book.raw)
			}
		}
	}
	b.ReportMetric(float64(packed)/float64(kept), "B/moment")
	b.ReportMetric(float64(books)/float64(kept), "B/moment-books")
}
