package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
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

func TestStartAt(t *testing.T) {
	cet := time.FixedZone("CET", 3600)
	begin := time.Date(2026, 2, 24, 22, 0, 20, 0, cet)
	for in, want := range map[string]time.Time{
		"23:30":                time.Date(2026, 2, 24, 23, 30, 0, 0, cet),
		"22:00":                time.Date(2026, 2, 24, 22, 0, 0, 0, cet),
		"21:59:59":             time.Date(2026, 2, 25, 21, 59, 59, 0, cet),
		"03:12":                time.Date(2026, 2, 25, 3, 12, 0, 0, cet),
		"03:12:05":             time.Date(2026, 2, 25, 3, 12, 5, 0, cet),
		"2026-02-26 01:00":     time.Date(2026, 2, 26, 1, 0, 0, 0, cet),
		"2026-02-25T03:12:00Z": time.Date(2026, 2, 25, 3, 12, 0, 0, time.UTC),
	} {
		at, err := parseStartAt(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := at.after(begin, cet); !got.Equal(want) {
			t.Errorf("%q: %s; want %s", in, got, want)
		}
	}
	if at, err := parseStartAt(""); err != nil || !at.isZero() {
		t.Errorf("no --at: %+v, %v", at, err)
	}
}

// A time that the recording does not hold is refused with what it holds, in the
// node's zone, and so is what is no time; both before anything is drawn.
func TestReplayAtOutside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "night.rv")
	begin := time.Date(2026, 2, 24, 23, 50, 10, 0, time.UTC)
	end, zone := begin.Add(2*time.Hour), time.FixedZone("CET", 3600)
	var buf bytes.Buffer
	w, err := recording.NewWriter(&buf)
	for _, f := range []metrics.Frame{
		{Kind: metrics.KindTick, At: begin},
		metrics.JSONFrame(metrics.KindSession, "", begin, metrics.Session{Zone: "CET", ZoneSec: 3600}),
		{Kind: metrics.KindTick, At: end},
	} {
		err = errors.Join(err, w.Write(f))
	}
	if err := errors.Join(err, w.Close(), os.WriteFile(path, buf.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	const held = "night.rv: it holds 2026-02-25 00:50:10 to 2026-02-25 02:50:10 CET"
	for at, want := range map[string]string{
		"2020-01-01 03:12": held,
		end.Add(time.Second).In(zone).Format(time.DateTime): held,
		"03:12": held,
		"noon":  "write 03:12",
		"25:61": "write 03:12",
	} {
		code, _, said := runActing(t, "replay", path, "--at", at)
		if code != 64 || !strings.Contains(said, want) {
			t.Errorf("--at %s: exit %d, %q", at, code, said)
		}
	}
	for _, at := range []string{begin.In(zone).Format("15:04"), end.In(zone).Format(time.DateTime)} {
		if code, _, said := runActing(t, "replay", path, "--at", at); code != 3 || !strings.Contains(said, "needs a terminal") {
			t.Errorf("--at %s: exit %d, %q", at, code, said)
		}
	}
}
