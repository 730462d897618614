package metrics

import (
	"math"
	"testing"
	"time"
)

var base = time.Date(2026, 2, 24, 12, 0, 0, 0, time.UTC)

func TestSeriesColumnsAreAligned(t *testing.T) {
	var s Series
	for i := range 600 {
		s.Add(base.Add(time.Duration(i)*time.Second), float64(i))
	}
	// Whatever the second at which it is drawn, a bucket holds the same seconds.
	a := s.Columns(base.Add(595*time.Second), 10*time.Minute, 60)
	b := s.Columns(base.Add(599*time.Second), 10*time.Minute, 60)
	for i := range a {
		if a[i] != b[i] {
			t.Fatalf("column %d moved: %+v, %+v", i, a[i], b[i])
		}
	}
	c := s.Columns(base.Add(600*time.Second), 10*time.Minute, 60)
	for i := 1; i < len(a)-1; i++ {
		if a[i] != c[i-1] {
			t.Fatalf("a new bucket shifted by other than one column at %d", i)
		}
	}
	if m := a[58].Mean(); m < 570 || m > 595 {
		t.Errorf("mean of the last but one column %v", m)
	}
}

func TestSeriesGapsAreEmpty(t *testing.T) {
	var s Series
	s.Add(base, 1)
	s.Add(base.Add(5*time.Minute), 2)
	cols := s.Columns(base.Add(5*time.Minute), 10*time.Minute, 60)
	n := 0
	for _, c := range cols {
		if c.N > 0 {
			n++
		} else if !math.IsNaN(c.Mean()) {
			t.Errorf("an empty bucket has the mean %v", c.Mean())
		}
	}
	if n != 2 {
		t.Errorf("%d columns hold something, want 2", n)
	}
}

func TestSeriesTakesHistoryAfterLivePoints(t *testing.T) {
	var s Series
	s.Add(base, 600)
	for i := 1; i <= 60; i++ {
		s.Add(base.Add(-time.Duration(i)*time.Minute), float64(i))
	}
	if !s.Last().Equal(base) {
		t.Errorf("last %s", s.Last())
	}
	n := 0
	for _, c := range s.Columns(base, time.Hour, 60) {
		n += min(c.N, 1)
	}
	if n < 59 {
		t.Errorf("%d of 60 minutes are there", n)
	}
}

func TestSeriesDropsWhatIsNoNumber(t *testing.T) {
	var s Series
	s.Add(base, math.NaN())
	s.Add(base, math.Inf(1))
	s.Add(time.Time{}, 1)
	if !s.Last().IsZero() {
		t.Errorf("last %s", s.Last())
	}
}

func TestSeriesMemoryIsBounded(t *testing.T) {
	var s Series
	for i := range 6 * 24 * 3600 {
		s.Add(base.Add(time.Duration(i)*time.Second), 1)
	}
	chunks := 0
	for _, tier := range s.tiers {
		chunks += len(tier)
	}
	if limit := 4 * (900/chunkLen + 3); chunks > limit {
		t.Errorf("%d chunks after six days, want at most %d", chunks, limit)
	}
	if n := s.Columns(s.Last(), 72*time.Hour, 72)[0].N; n == 0 {
		t.Error("three days back is empty")
	}
}

func TestSeriesSnapshotDoesNotChange(t *testing.T) {
	var s Series
	s.Add(base, 1)
	old := s.Snapshot()
	again := s.Snapshot()
	s.Add(base, 3)
	s.Add(base.Add(time.Second), 5)
	if b := old.Columns(base, time.Minute, 60)[59]; b.N != 1 || b.Sum != 1 {
		t.Errorf("the snapshot changed: %+v", b)
	}
	if !old.Equal(again) || old.Equal(&s) {
		t.Error("Equal does not compare buckets")
	}
	if b := s.Columns(base, time.Minute, 60)[59]; b.N != 2 || b.Max != 3 {
		t.Errorf("the series lost a point: %+v", b)
	}
}

func TestStep(t *testing.T) {
	for _, c := range []struct {
		span time.Duration
		n    int
		want time.Duration
	}{
		{time.Minute, 60, time.Second}, {10 * time.Minute, 60, 10 * time.Second}, {time.Hour, 60, time.Minute},
		{6 * time.Hour, 100, 4 * time.Minute}, {24 * time.Hour, 100, 15 * time.Minute}, {72 * time.Hour, 60, 75 * time.Minute}, {time.Minute, 0, time.Minute},
	} {
		if got := Step(c.span, c.n); got != c.want {
			t.Errorf("Step(%s, %d) = %s, want %s", c.span, c.n, got, c.want)
		}
	}
}

func BenchmarkSeriesAdd(b *testing.B) {
	var s Series
	i := 0
	for b.Loop() {
		s.Add(base.Add(time.Duration(i)*time.Second), 1)
		i++
	}
}

func BenchmarkSeriesSnapshot(b *testing.B) {
	var s Series
	for i := range 3 * 24 * 3600 {
		s.Add(base.Add(time.Duration(i)*time.Second), 1)
	}
	for b.Loop() {
		s.Snapshot()
	}
}
