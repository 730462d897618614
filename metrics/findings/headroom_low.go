package findings

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

var headroomLow = Detector{
	ID:    "headroom-low",
	Means: "Little GPU memory was left when the server had captured its graphs. A large prefill may run out of memory.",
	Needs: "the start-up section of the server's log (available_gpu_mem after capture)",
	When:  "Below 5 GiB on cards above 60 GiB (warning), below 1.5 GiB (critical). Lowered one step once 2,000 full prefills (chunked-prefill-size tokens) held; how many the log told is shown. What is free later (the lowest since ready) is shown and never judged.",
	Do:    "Lower --mem-fraction-static in steps of 0.01, or --chunked-prefill-size.",
	Clear: 10 * time.Second,
	Check: func(in *Input, out *Output) {
		for i := range in.Snap.Servers {
			v := &in.Snap.Servers[i]
			if !v.Headroom.Known || !up(v) {
				continue
			}
			sev := headroomSeverity(in, v)
			if sev == metrics.SeverityNone {
				continue
			}
			c := Condition{
				Subject: v.ID, Severity: sev, Since: v.Headroom.At,
				Title:    fmt.Sprintf("%.2f GiB of GPU memory free after capture", v.Headroom.V),
				Why:      "the activations of a large prefill come out of what is left",
				Evidence: []metrics.Evidence{figureEvidence(fmt.Sprintf("free after capture %.2f GiB (available_gpu_mem)", v.Headroom.V), v.Headroom)},
			}
			tune := tuningOf(v)
			c.Advice = "lower " + tune.fraction + " by 0.01 to 0.05, or " + tune.chunk + " to 4096"
			if f, err := strconv.ParseFloat(setting(v, tune.fraction), 64); err == nil {
				c.Advice = fmt.Sprintf("lower %s from %g to %.2f, or %s to 4096", tune.fraction, f, fractionFor(in, v, f), tune.chunk)
			}
			if v.FullPrefills.Known {
				c.Evidence = append(c.Evidence, figureEvidence(metrics.Count(v.FullPrefills.V)+" full prefills held", v.FullPrefills))
			}
			if g := lowestFree(in); g != nil {
				c.Evidence = append(c.Evidence, figureEvidence(fmt.Sprintf("lowest since ready %s, on GPU %d", mib(g.MemLowest.V), g.Index), g.MemLowest))
			}
			out.Raise(c)
		}
	},
}

// fractionFor is the share of GPU memory, in steps of 0.01, that leaves the headroom
// below which nothing is said; one step less where the cards' size is not known.
func fractionFor(in *Input, v *metrics.Server, now float64) float64 {
	want := in.Threshold("headroom_critical_gib")
	if bigCards(in) {
		want = in.Threshold("headroom_warning_gib")
	}
	steps := 1.0
	for i := range in.Snap.GPUs {
		if t := in.Snap.GPUs[i].MemTotal; t.Known && t.V > 0 {
			steps = max(steps, math.Ceil((want-v.Headroom.V)/(t.V/1024)*100))
		}
	}
	return math.Round(now*100-steps) / 100
}

func headroomSeverity(in *Input, v *metrics.Server) metrics.Severity {
	sev := metrics.SeverityNone
	switch {
	case v.Headroom.V < in.Threshold("headroom_critical_gib"):
		sev = metrics.SeverityCritical
	case v.Headroom.V < in.Threshold("headroom_warning_gib") && bigCards(in):
		sev = metrics.SeverityWarning
	}
	if sev > metrics.SeverityNone && v.FullPrefills.Known && v.FullPrefills.V >= in.Threshold("headroom_proven_prefills") {
		sev--
	}
	return sev
}

// bigCards tells whether the node's cards are above the size for which the
// warning threshold is meant; unknown counts as big.
func bigCards(in *Input) bool {
	for i := range in.Snap.GPUs {
		if t := in.Snap.GPUs[i].MemTotal; t.Known {
			return t.V/1024 > in.Threshold("headroom_big_card_gib")
		}
	}
	return true
}

// lowestFree is the GPU that had the least free memory since the server was
// ready, nil unknown. It is shown and never judged.
func lowestFree(in *Input) *metrics.GPU {
	var low *metrics.GPU
	for i := range in.Snap.GPUs {
		if g := &in.Snap.GPUs[i]; g.MemLowest.Known && (low == nil || g.MemLowest.V < low.MemLowest.V) {
			low = g
		}
	}
	return low
}
