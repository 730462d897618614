package starts

import (
	"fmt"
	"testing"
	"time"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/launch/forecast"
	"github.com/runvigil/runvigil/metrics"
)

// many is a long history: 200 starts.
func many() []metrics.Start {
	var out []metrics.Start
	for i := range 40 {
		for _, s := range story() {
			s.ID, s.At = fmt.Sprintf("%s-%d", s.ID, i), s.At.Add(time.Duration(i)*24*time.Hour)
			out = append(out, s)
		}
	}
	return out
}

func BenchmarkTable(b *testing.B) {
	list := many()
	for b.Loop() {
		Table(list, fp8)
	}
}

// The form makes a forecast at each key.
func BenchmarkForecast(b *testing.B) {
	list := many()
	present := launch.FromStart(story()[4])
	edited := launch.NewDraft(present)
	if err := edited.Set("mem-fraction-static", "0.93"); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		forecast.Make(edited.Launch(), forecast.Facts{Launch: present}, list)
	}
}
