package board

import (
	"testing"

	"github.com/runvigil/runvigil/metrics/sglang"
)

func TestPlausible(t *testing.T) {
	num := func(v float64) sglang.Num { return sglang.Num{V: v, Known: true} }
	capacity := num(159277)
	for name, c := range map[string]struct {
		b    sglang.Batch
		want bool
	}{
		"the story's peak":             {sglang.Batch{Decode: true, Running: num(121), Tokens: num(139222), Usage: num(0.87)}, true},
		"usage that rounds to nothing": {sglang.Batch{Decode: true, Running: num(1), Tokens: num(4226), Usage: num(0.03)}, true},
		"more requests than tokens":    {sglang.Batch{Decode: true, Running: num(998), Tokens: num(98), Usage: num(0)}, false},
		"a usage of other tokens":      {sglang.Batch{Decode: true, Running: num(9), Tokens: num(9000), Usage: num(0.9)}, false},
		"nothing known":                {sglang.Batch{Decode: true}, true},
	} {
		if got := plausible(&c.b, capacity); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
