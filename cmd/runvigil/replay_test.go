package main

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/recording"
)

func recordingOf(t *testing.T, frames ...metrics.Frame) *recording.Reader {
	t.Helper()
	var buf bytes.Buffer
	w, err := recording.NewWriter(&buf)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range frames {
		if err := w.Write(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := recording.NewReader(&buf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func TestReplayKeepsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tick := func(s int) metrics.Frame {
			return metrics.Frame{Kind: metrics.KindTick, At: t0.Add(time.Duration(s) * time.Second)}
		}
		src := &replaySource{frames: recordingOf(t, tick(0), tick(60), tick(100), tick(104)), speed: 2, from: t0.Add(90 * time.Second), clock: time.After}
		begin := time.Now()
		var came []time.Duration
		if err := src.Run(t.Context(), func(metrics.Frame) { came = append(came, time.Since(begin)) }); err != nil {
			t.Fatal(err)
		}
		// The first two are before --at and come at once; the rest at double
		// speed from there.
		want := []time.Duration{0, 0, 5 * time.Second, 7 * time.Second}
		if len(came) != len(want) {
			t.Fatalf("%d frames, want %d", len(came), len(want))
		}
		for i := range want {
			if came[i] != want[i] {
				t.Errorf("frame %d came after %s, want %s", i, came[i], want[i])
			}
		}
	})
}

func TestAtTime(t *testing.T) {
	cet := time.FixedZone("CET", 3600)
	begin := time.Date(2026, 2, 24, 22, 0, 0, 0, cet)
	for in, want := range map[string]time.Time{
		"":                     {},
		"23:30":                time.Date(2026, 2, 24, 23, 30, 0, 0, cet),
		"03:12":                time.Date(2026, 2, 25, 3, 12, 0, 0, cet),
		"03:12:05":             time.Date(2026, 2, 25, 3, 12, 5, 0, cet),
		"2026-02-26 01:00":     time.Date(2026, 2, 26, 1, 0, 0, 0, cet),
		"2026-02-25T03:12:00Z": time.Date(2026, 2, 25, 3, 12, 0, 0, time.UTC),
	} {
		if got, err := atTime(in, begin, cet); err != nil || !got.Equal(want) {
			t.Errorf("%q: %s, %v; want %s", in, got, err, want)
		}
	}
	if _, err := atTime("noon", begin, cet); err == nil {
		t.Error("noon was accepted")
	}
}
