package metrics

import (
	"math"
	"testing"
)

// The two points of the story give its line, and the line gives its other figures.
func TestFitStepsOfTheStory(t *testing.T) {
	f := FitSteps([]StepPoint{{35, 606}, {121, 1317}})
	if f.N != 2 || math.Abs(f.A-0.0439) > 0.0001 || math.Abs(f.B-0.000397) > 0.000002 {
		t.Fatalf("fit %+v", f)
	}
	for running, tps := range map[float64]float64{50: 785, 134: 1381, 150: 1451} {
		if got := f.TPS(running); math.Abs(got-tps) > 2 {
			t.Errorf("%v running: %.0f tok/s, want %.0f", running, got, tps)
		}
	}
}

func TestFitStepsNeedsTwoSizes(t *testing.T) {
	for _, points := range [][]StepPoint{nil, {{35, 606}}, {{35, 606}, {35, 610}, {35, 590}}, {{0, 606}, {35, 0}}} {
		if f := FitSteps(points); f.N != 0 || f.TPS(35) != 0 {
			t.Errorf("fit of %v: %+v", points, f)
		}
	}
}

func TestFitStepsTellsItsError(t *testing.T) {
	exact := FitSteps([]StepPoint{{10, 10 / 0.05}, {20, 20 / 0.06}, {30, 30 / 0.07}})
	noisy := FitSteps([]StepPoint{{10, 220}, {20, 300}, {30, 450}})
	if exact.Resid > 1e-9 || noisy.Resid < 0.01 || math.IsNaN(noisy.Resid) {
		t.Errorf("errors %v and %v", exact.Resid, noisy.Resid)
	}
	if exact.TPS(0) != 0 || exact.TPS(-1) != 0 {
		t.Error("no running requests, no tokens")
	}
}
