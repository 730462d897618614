package metrics

import (
	"testing"
	"time"
)

func TestApart(t *testing.T) {
	fig := func(v float64) Figure { return Known(v, time.Unix(1, 0), 0, "log") }
	for _, tc := range []struct {
		finished, landed, perMin Figure
		want                     bool
	}{
		{fig(157), fig(157), fig(9), false},
		{fig(157), fig(154), fig(9), false},
		{fig(157), fig(150), fig(9), true},
		{fig(176), fig(160), fig(640), false}, // one burst of a fast job
		{fig(176), fig(20), fig(640), true},
		{fig(10000), fig(9850), fig(9), false},
		{fig(157), Figure{}, fig(9), false},
		{Figure{}, fig(157), fig(9), false},
	} {
		j := Job{Finished: tc.finished, Landed: tc.landed, PerMin: tc.perMin}
		if got := j.Apart(); got != tc.want {
			t.Errorf("finished %v, landed %v at %v a minute: %v", tc.finished.V, tc.landed.V, tc.perMin.V, got)
		}
	}
}
