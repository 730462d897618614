package starts

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/metrics"
)

// Row is one start in a comparison.
type Row struct {
	metrics.Start
	// Diff is what differs from the start before it.
	Diff []launch.Change
	// Broken are the guards that it breaks.
	Broken []launch.Broken
	// Best marks the best start of the table, Why says why it is, or is not.
	Best bool
	Why  string
	// Unfit says why it can be neither best nor the way back; "" where it can.
	Unfit string
	// NotComparable says why its tok/s cannot be compared with the newest settled
	// start's; "" where nothing speaks against it.
	NotComparable string
}

// Table compares starts, oldest first, under the guards that hold now.
func Table(list []metrics.Start, guards []metrics.Guard) []Row {
	rows := make([]Row, len(list))
	for i, s := range list {
		rows[i] = Row{Start: s, Broken: broken(s, guards)}
		rows[i].Unfit = unfit(rows[i])
		if i > 0 && list[i-1].Engine == s.Engine && len(s.Argv) > 0 && len(list[i-1].Argv) > 0 {
			rows[i].Diff = launch.Diff(launch.FromStart(list[i-1]), launch.FromStart(s))
		}
	}
	if ref := reference(rows); ref >= 0 {
		for i := range rows {
			rows[i].NotComparable = notComparable(rows[i].Start, rows[ref].Start)
		}
	}
	win, top := best(rows)
	if win >= 0 {
		rows[win].Best = true
	}
	for i := range rows {
		rows[i].Why = why(rows, i, win, top)
	}
	return rows
}

func broken(s metrics.Start, guards []metrics.Guard) []launch.Broken {
	if len(s.Argv) == 0 {
		return nil
	}
	resolved := map[string]string{}
	if s.KVDtype != "" {
		resolved["kv-cache-dtype"] = launch.Dtype(s.KVDtype)
	}
	return launch.Judge(launch.FromStart(s), guards, resolved)
}

// unfit tells why a start must not be gone back to.
func unfit(r Row) string {
	switch {
	case len(r.Broken) > 0:
		return "breaks a guard: " + r.Broken[0].Flag + " " + r.Broken[0].Reason
	case r.GuardBroken != "":
		return "broke a guard: " + r.GuardBroken
	case r.Outcome == "failed" && !r.Cause.FromOutside():
		return "failed before it was ready"
	case r.Outcome == "crashed" && !r.Cause.FromOutside():
		return "crashed"
	case !gaveToken(r.Start):
		return "never gave a real token"
	}
	return ""
}

// gaveToken tells whether a start is known to have generated anything.
func gaveToken(s metrics.Start) bool {
	return !s.FirstToken.IsZero() || above0(s.Peak) || above0(s.Settled)
}

func above0(p *float64) bool { return p != nil && *p > 0 }

// reference is the newest start with a settled level, -1 without one.
func reference(rows []Row) int {
	for i := len(rows) - 1; i >= 0; i-- {
		if rows[i].Settled != nil {
			return i
		}
	}
	return -1
}

// sameLength is the relative difference of tokens a request up to which tok/s
// compare.
const sameLength = 0.2

// notComparable tells why the tok/s of two starts mean different work.
func notComparable(a, b metrics.Start) string {
	switch {
	case a.Model != "" && b.Model != "" && a.Model != b.Model:
		return "another model: " + a.Model + ", not " + b.Model
	case a.PerRequest != nil && b.PerRequest != nil && math.Abs(*a.PerRequest-*b.PerRequest) > sameLength*max(*a.PerRequest, *b.PerRequest):
		return fmt.Sprintf("%s tokens a request, not %s", metrics.Count(*a.PerRequest), metrics.Count(*b.PerRequest))
	case a.Dataset != "" && b.Dataset != "" && a.Dataset != b.Dataset:
		return "another part: " + a.Dataset + ", not " + b.Dataset
	case (a.PerRequest == nil) != (b.PerRequest == nil) && (a.Dataset == "" || a.Dataset != b.Dataset):
		// Short requests give far more tok/s with the same flags, so that a level
		// without their length says nothing beside one with it.
		return "tokens a request not known"
	}
	return ""
}

// eligible tells whether a start can be best.
func eligible(r Row) bool { return r.Unfit == "" && r.NotComparable == "" && r.Settled != nil }

// best is the start with the highest settled level (top). Of starts whose levels
// do not differ from it by more than their spread the one with the larger KV pool
// wins, then the newest. -1 where no start is fit.
func best(rows []Row) (win, top int) {
	top = -1
	for i, r := range rows {
		if eligible(r) && (top < 0 || *r.Settled >= *rows[top].Settled) {
			top = i
		}
	}
	if top < 0 {
		return -1, -1
	}
	win = top
	for i, r := range rows {
		if i == top || !eligible(r) || exceeds(rows[top].Start, r.Start) {
			continue
		}
		switch c := cmp.Compare(value(r.Capacity), value(rows[win].Capacity)); {
		case c > 0, c == 0 && i > win:
			win = i
		}
	}
	return win, top
}

// why tells in a few words why a start is best, or is not.
func why(rows []Row, i, win, top int) string {
	r := rows[i]
	switch {
	case i == win && win == top:
		return "highest settled tok/s of those that compare"
	case i == win && value(r.Capacity) > value(rows[top].Capacity):
		return "as fast as the highest within the spread, larger KV pool"
	case i == win:
		return "as fast as the highest within the spread, newer"
	case r.Unfit != "":
		return r.Unfit
	case r.Settled == nil:
		return "no settled level is known"
	case r.NotComparable != "":
		return "not comparable: " + r.NotComparable
	case exceeds(rows[top].Start, r.Start):
		return "slower"
	case value(r.Capacity) < value(rows[win].Capacity):
		return "no faster within the spread, smaller KV pool"
	}
	return "no faster within the spread, older"
}

// maxFaster is how many starts with a higher level BestLine names.
const maxFaster = 3

// BestLine tells which start is best and why those with a higher level are not:
// "#5 is best: … Higher, but: #1 (725) not comparable: …". Rows may be in any order.
func BestLine(rows []Row) string {
	at := slices.IndexFunc(rows, func(r Row) bool { return r.Best })
	if at < 0 {
		return ""
	}
	b := rows[at]
	var faster []Row
	for _, r := range rows {
		if r.Settled != nil && *r.Settled > *b.Settled {
			faster = append(faster, r)
		}
	}
	slices.SortStableFunc(faster, func(x, y Row) int { return cmp.Compare(*y.Settled, *x.Settled) })
	var reasons []string
	names := map[string][]string{}
	for i, r := range faster {
		name := fmt.Sprintf("#%d (%s)", r.No, metrics.Count(*r.Settled))
		if i == maxFaster {
			reasons = append(reasons, "")
			names[""] = []string{fmt.Sprintf("%d more, each for its reason", len(faster)-i)}
			break
		}
		if names[r.Why] == nil {
			reasons = append(reasons, r.Why)
		}
		names[r.Why] = append(names[r.Why], name)
	}
	out := fmt.Sprintf("#%d is best: %s.", b.No, b.Why)
	for i, reason := range reasons {
		sep := "; "
		if i == 0 {
			sep = " Higher, but: "
		}
		out += strings.TrimRight(sep+strings.Join(names[reason], ", ")+" "+reason, " ")
	}
	return metrics.Clean(out, 600)
}

func value(p *float64) float64 {
	if p == nil {
		return 0
	}
	return *p
}

// exceeds tells whether the settled levels of two starts differ by more than
// their spreads together.
func exceeds(a, b metrics.Start) bool {
	return math.Abs(value(a.Settled)-value(b.Settled)) > value(a.Spread)+value(b.Spread)
}

// WayBack is the newest start that may be gone back to: it gave tokens, did not
// crash and breaks no guard. The start named except is left out.
func WayBack(list []metrics.Start, guards []metrics.Guard, except string) (metrics.Start, bool) {
	rows := Table(list, guards)
	for _, r := range slices.Backward(rows) {
		if r.ID != except && r.Unfit == "" && len(r.Argv) > 0 {
			return r.Start, true
		}
	}
	return metrics.Start{}, false
}

// DifferingFlags are the flags whose effective values are not the same in all
// starts whose flags are known, in the order in which they first appear.
func DifferingFlags(list []metrics.Start) []string {
	var order []string
	values := map[string]map[string]int{}
	known := 0
	for _, s := range list {
		if len(s.Argv) == 0 {
			continue
		}
		known++
		line := launch.FromStart(s).Line()
		for name, v := range line.Effective() {
			if values[name] == nil {
				values[name] = map[string]int{}
			}
			values[name][v]++
		}
		for _, a := range line.Args {
			if !slices.Contains(order, a.Name) {
				order = append(order, a.Name)
			}
		}
	}
	return slices.DeleteFunc(order, func(name string) bool {
		for _, n := range values[name] {
			if n == known {
				return true
			}
		}
		return false
	})
}

// FlagValue is the effective value of a flag in a start, masked; "" where unset.
func FlagValue(s metrics.Start, name string) string {
	v, ok := launch.FromStart(s).Line().Get(name)
	if !ok {
		return ""
	}
	return metrics.MaskValue(name, v)
}

// Sort orders rows by a column, unknown figures last; false where there is no
// such column.
func Sort(rows []Row, column string, descending bool) bool {
	key, ok := columns[column]
	if !ok {
		return false
	}
	slices.SortStableFunc(rows, func(a, b Row) int {
		x, y := key(a), key(b)
		switch {
		case math.IsNaN(x) && math.IsNaN(y):
			return 0
		case math.IsNaN(x):
			return 1
		case math.IsNaN(y):
			return -1
		case descending:
			return cmp.Compare(y, x)
		}
		return cmp.Compare(x, y)
	})
	return true
}

// columns are what Sort orders by.
var columns = map[string]func(Row) float64{
	"no":       func(r Row) float64 { return float64(r.No) },
	"at":       func(r Row) float64 { return float64(r.At.Unix()) },
	"ready":    func(r Row) float64 { return figure(r.ReadyS) },
	"capacity": func(r Row) float64 { return figure(r.Capacity) },
	"headroom": func(r Row) float64 { return figure(r.HeadroomGB) },
	"peak":     func(r Row) float64 { return figure(r.Peak) },
	"settled":  func(r Row) float64 { return figure(r.Settled) },
	"running":  func(r Row) float64 { return figure(r.Running) },
	"queued":   func(r Row) float64 { return figure(r.Queued) },
	"kv":       func(r Row) float64 { return figure(r.KVUsage) },
	"perreq":   func(r Row) float64 { return figure(r.PerRequest) },
	"rows":     func(r Row) float64 { return figure(r.RowsPerMin) },
	"lowest":   func(r Row) float64 { return figure(r.LowestFree) },
	"duration": func(r Row) float64 { return figure(r.DurationS) },
}

// Columns are the names by which Sort orders, sorted.
func Columns() []string {
	out := make([]string, 0, len(columns))
	for name := range columns {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func figure(p *float64) float64 {
	if p == nil {
		return math.NaN()
	}
	return *p
}

// FigureDiff is one figure of two starts side by side.
type FigureDiff struct {
	Name string
	A, B *float64
	// Diff is B minus A, nil where one is unknown.
	Diff *float64
	// Exceeds says of tok/s whether the difference is larger than both spreads
	// together; nil where an unknown spread leaves that open.
	Exceeds *bool
}

// Pair is two starts side by side.
type Pair struct {
	A, B          metrics.Start
	Flags         []launch.Change // that differ
	Figures       []FigureDiff
	NotComparable string
}

// Compare puts two starts side by side.
func Compare(a, b metrics.Start) Pair {
	p := Pair{A: a, B: b, NotComparable: notComparable(b, a)}
	if len(a.Argv) > 0 && len(b.Argv) > 0 {
		p.Flags = launch.Diff(launch.FromStart(a), launch.FromStart(b))
	}
	for _, f := range []struct {
		name string
		a, b *float64
	}{
		{"settled tok/s", a.Settled, b.Settled}, {"peak tok/s", a.Peak, b.Peak}, {"rows a minute", a.RowsPerMin, b.RowsPerMin},
		{"running", a.Running, b.Running}, {"queued", a.Queued, b.Queued}, {"KV usage", a.KVUsage, b.KVUsage}, {"tokens a request", a.PerRequest, b.PerRequest},
		{"capacity in tokens", a.Capacity, b.Capacity}, {"headroom GiB", a.HeadroomGB, b.HeadroomGB}, {"lowest free GiB", a.LowestFree, b.LowestFree},
		{"seconds until ready", a.ReadyS, b.ReadyS},
	} {
		d := FigureDiff{Name: f.name, A: f.a, B: f.b}
		if f.a != nil && f.b != nil {
			v := *f.b - *f.a
			d.Diff = &v
		}
		if f.name == "settled tok/s" && d.Diff != nil && (a.Spread != nil || b.Spread != nil) {
			if e := exceeds(a, b); !e || a.Spread != nil && b.Spread != nil {
				d.Exceeds = &e
			}
		}
		if f.a != nil || f.b != nil {
			p.Figures = append(p.Figures, d)
		}
	}
	return p
}
