package tui

import (
	"math"
	"strings"

	"github.com/guptarohit/asciigraph"
)

// labelWidth is the room for the values of a graph's axis.
const labelWidth = 6

// A chart is a plot of one series: rows of text, each labelWidth+1 cells of
// axis and then the plot.
type chart struct {
	rows  []string
	empty bool
}

// plot draws values (one a column, NaN for a gap) between 0 and upper on height
// rows. The library behind it fails on empty and infinite input, changes its
// height with flat data and its width with the labels, and does not clip: so
// every value is made finite or NaN and clamped here, and height, bounds and
// label width are always given.
func plot(values []float64, upper float64, height int, label func(float64) string, ascii bool) chart {
	var c chart
	if len(values) == 0 || height < 2 || !(upper > 0) || math.IsInf(upper, 0) {
		return chart{empty: true}
	}
	data := make([]float64, len(values))
	some := false
	for i, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			data[i] = math.NaN()
			continue
		}
		some = true
		data[i] = min(max(v, 0), upper)
	}
	if !some {
		return chart{empty: true}
	}
	// The library draws the steps between points: one point more in front makes
	// every column the value of its own.
	drawn := append([]float64{data[0]}, data...)
	opts := []asciigraph.Option{
		asciigraph.Height(height - 1), asciigraph.LowerBound(0), asciigraph.UpperBound(upper),
		asciigraph.Offset(labelWidth + 2),
		asciigraph.YAxisValueFormatter(func(v float64) string { return padLeft(label(v), labelWidth) + " " }),
	}
	if ascii {
		opts = append(opts, asciigraph.SeriesChars(asciigraph.CharSet{
			Horizontal: "-", VerticalLine: "|", ArcDownRight: ".", ArcDownLeft: ".", ArcUpRight: "'", ArcUpLeft: "'", EndCap: "-", StartCap: "-",
		}))
	}
	width := len(values)
	for _, row := range strings.Split(asciigraph.Plot(drawn, opts...), "\n") {
		axis := strings.IndexAny(row, "┤┼")
		if axis < 0 {
			continue
		}
		lab, tail := row[:axis], row[axis+len("┤"):]
		c.rows = append(c.rows, padLeft(strings.TrimSpace(lab), labelWidth)+"│"+padRight(tail, width))
	}
	return c
}

// gapFill carries a value over empty columns as long as the hole is shorter
// than bridge columns: a source that speaks every few seconds has no gap
// between two words.
func gapFill(v []float64, bridge int) {
	last := -1
	for i, x := range v {
		if math.IsNaN(x) {
			continue
		}
		if last >= 0 && i-last > 1 && i-last-1 <= bridge {
			for j := last + 1; j < i; j++ {
				v[j] = v[last]
			}
		}
		last = i
	}
}

// A scale is the upper bound of a graph. It grows at once and shrinks only when
// less than half of it is used, so that the picture holds still.
type scale struct{ upper float64 }

// fit adapts the scale to the visible values. floor is the smallest upper bound
// that makes sense: noise near zero stays near zero.
func (s *scale) fit(values []float64, floor float64) float64 {
	need := niceCeil(max(robustMax(values), floor))
	if need > s.upper || need <= s.upper/2 {
		s.upper = need
	}
	return s.upper
}

// robustMax is the highest value that is not a lone spike: at most one column
// in 25 may stand out by more than twice the rest, and is then capped.
func robustMax(values []float64) float64 {
	var top []float64
	n := 0
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		n++
		i := len(top)
		for i > 0 && top[i-1] < v {
			i--
		}
		top = append(top, 0)
		copy(top[i+1:], top[i:])
		top[i] = v
	}
	if n == 0 {
		return 0
	}
	rest := n / 25
	if rest < n && rest > 0 && top[0] > 2.5*top[rest] && top[rest] > 0 {
		return top[rest] * 1.25
	}
	return top[0]
}

// niceCeil is the next of 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8 times a power of ten:
// its half reads well too.
func niceCeil(v float64) float64 {
	if !(v > 0) || math.IsInf(v, 0) {
		return 1
	}
	p := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 1.2, 1.4, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10} {
		if m*p >= v*(1-1e-9) {
			return m * p
		}
	}
	return 10 * p
}

var (
	sparkRunes = []string{"▁", "▂", "▃", "▄", "▅", "▆", "▇"}
	sparkASCII = []string{"_", ".", "-", "=", "+", "*", "#"}
)

// spark draws one cell a value between 0 and upper; a gap is a blank, so that
// nothing known does not look like a measured zero.
func spark(values []float64, upper float64, ascii bool) string {
	runes := sparkRunes
	if ascii {
		runes = sparkASCII
	}
	var b strings.Builder
	for _, v := range values {
		switch {
		case math.IsNaN(v) || math.IsInf(v, 0):
			b.WriteByte(' ')
		case !(upper > 0):
			b.WriteString(runes[0])
		default:
			i := int(v / upper * float64(len(runes)))
			b.WriteString(runes[min(max(i, 0), len(runes)-1)])
		}
	}
	return b.String()
}

// bar draws a share of w cells in halves; the rest of the cells is the second
// text. A line rather than a block keeps the bars of neighbouring rows apart.
func bar(share float64, w int, ascii bool) (full, rest string) {
	if math.IsNaN(share) {
		share = 0
	}
	share = min(max(share, 0), 1)
	if ascii {
		n := int(math.Round(share * float64(w)))
		return strings.Repeat("=", n), strings.Repeat(".", w-n)
	}
	n := int(math.Round(share * float64(w) * 2))
	full = strings.Repeat("━", n/2)
	if n%2 == 1 {
		full += "╸"
	}
	return full, strings.Repeat("─", w-(n+1)/2)
}
