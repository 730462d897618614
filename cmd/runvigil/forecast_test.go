package main

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/launch/forecast"
	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/board"
	"github.com/runvigil/runvigil/remote/simnode/frames"
	"github.com/runvigil/runvigil/remote/simnode/model"
)

// A forecast is read for minutes: while the run stays as it is, so do its
// figures, although tokens a request rise and fall with each generation.
func TestForecastStandsStillWhileTheRunIsSettled(t *testing.T) {
	sc, err := model.Lookup("story")
	if err != nil {
		t.Fatal(err)
	}
	src, b := frames.New(sc, time.Date(2026, 2, 24, 11, 16, 7, 0, time.UTC)), board.New()
	apply := func(list []metrics.Frame) {
		for _, f := range list {
			b.Apply(f)
		}
	}
	apply(src.Opening())
	type span struct{ low, high float64 }
	seen := map[string]*span{}
	note := func(name string, v float64) {
		if seen[name] == nil {
			seen[name] = &span{v, v}
		}
		seen[name].low, seen[name].high = min(seen[name].low, v), max(seen[name].high, v)
	}
	for second := range 20 * 60 {
		apply(src.Next(b.Wants()))
		if second < 10 || second%10 > 0 {
			continue
		}
		s := b.Snapshot()
		v := s.Server()
		d := launch.NewDraft(launch.FromServer(s, v))
		same := forecast.Make(d.Launch(), forecast.FactsOf(s, v, d.Base()), s.Starts)
		if err := d.Do(launch.Edit{Kind: launch.SetFlag, Name: "mem-fraction-static", Value: "0.90"}); err != nil {
			t.Fatal(err)
		}
		f := forecast.Make(d.Launch(), forecast.FactsOf(s, v, d.Base()), s.Starts)
		if !f.Fit.Known || !f.GenTPS.Known || !f.BreakEven.Known || f.BreakEven.After == 0 {
			t.Fatalf("after %d s: %+v", second, f)
		}
		if !strings.Contains(strings.Join(f.Fit.Basis, "; "), "mean of the last ") {
			t.Fatalf("the basis does not tell over what the mean goes: %q", f.Fit.Basis)
		}
		if got, now := same.GenTPS.V, v.Gen.Settled.V; math.Abs(got-now) > 0.02*now {
			t.Fatalf("after %d s: unchanged flags would give %.0f tok/s, they give %.0f", second, got, now)
		}
		note("last line's tokens a request", v.PerRequest.V)
		note("tok/s", f.GenTPS.V)
		note("gain in rows an hour", f.BreakEven.GainPerHour)
		note("even after", f.BreakEven.After.Seconds())
	}
	for name, within := range map[string]float64{"tok/s": 0.01, "gain in rows an hour": 0.10, "even after": 0.10} {
		if s := seen[name]; s.high > s.low*(1+within) {
			t.Errorf("%s moved from %.1f to %.1f", name, s.low, s.high)
		}
	}
	// The test would prove nothing if the requests did not move.
	if s := seen["last line's tokens a request"]; s.high < 1.1*s.low {
		t.Errorf("tokens a request only moved from %.0f to %.0f", s.low, s.high)
	}
	for name, s := range seen {
		t.Logf("%s: %.1f to %.1f", name, s.low, s.high)
	}
}
