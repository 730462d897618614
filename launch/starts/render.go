package starts

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/metrics"
)

// JSON is one start of a table as JSON.
type JSON struct {
	metrics.Start
	Diff          []launch.Change `json:"diff"`
	Best          bool            `json:"best"`
	Why           string          `json:"why"` // it is best, or is not
	Unfit         string          `json:"unfit,omitempty"`
	NotComparable string          `json:"not_comparable,omitempty"`
}

// WriteJSON writes the table as one JSON array.
func WriteJSON(w io.Writer, rows []Row) error {
	out := make([]JSON, len(rows))
	for i, r := range rows {
		out[i] = JSON{Start: r.Start, Diff: r.Diff, Best: r.Best, Why: r.Why, Unfit: r.Unfit, NotComparable: r.NotComparable}
		if out[i].Diff == nil {
			out[i].Diff = []launch.Change{}
		}
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(out)
}

// WriteCSV writes the table with a header line; unknown figures are empty, and a
// text that a spreadsheet could take for a formula begins with a quote.
func WriteCSV(w io.Writer, rows []Row) error {
	flags := DifferingFlags(startsOf(rows))
	head := []string{
		"no", "id", "node", "at", "engine", "version", "model", "label", "imported", "ready_s", "capacity_tokens", "headroom_gib", "peak_tps",
		"settled_tps", "spread_tps", "running", "queued", "kv_usage", "tokens_per_request", "dataset", "rows_per_min", "lowest_free_gib", "duration_s",
		"outcome", "cause", "cause_phase", "after_s", "after_request_s", "best", "why", "unfit", "not_comparable", "phases_s", "note",
	}
	cw := csv.NewWriter(w)
	if err := cw.Write(append(head, flags...)); err != nil {
		return err
	}
	for _, r := range rows {
		at, after, afterRequest := "", "", ""
		if !r.At.IsZero() {
			at = r.At.UTC().Format(time.RFC3339)
		}
		if r.AfterS > 0 {
			after = plain(&r.AfterS)
		}
		if r.AfterRequestS > 0 {
			afterRequest = plain(&r.AfterRequestS)
		}
		rec := []string{
			strconv.Itoa(r.No), text(r.ID), text(r.Node), at, text(r.Engine), text(r.Version), text(r.Model), text(r.Label), strconv.FormatBool(r.Imported),
			plain(r.ReadyS), plain(r.Capacity), plain(r.HeadroomGB), plain(r.Peak), plain(r.Settled), plain(r.Spread), plain(r.Running), plain(r.Queued),
			plain(r.KVUsage), plain(r.PerRequest), text(r.Dataset), plain(r.RowsPerMin), plain(r.LowestFree), plain(r.DurationS),
			text(r.Outcome), text(string(r.Cause)), text(r.CausePhase), after, afterRequest, strconv.FormatBool(r.Best), text(r.Why), text(r.Unfit), text(r.NotComparable), text(phases(r.Phases)), text(r.Note),
		}
		for _, name := range flags {
			rec = append(rec, text(FlagValue(r.Start, name)))
		}
		if err := cw.Write(rec); err != nil {
			return err
		}
	}
	cw.Flush()
	return cw.Error()
}

// phases are a start's phases with the seconds of each: "loading weights 81; …".
func phases(list []metrics.PhaseTook) string {
	out := make([]string, len(list))
	for i, p := range list {
		out[i] = p.Name + " " + strconv.FormatFloat(p.Took.Seconds(), 'f', -1, 64)
	}
	return strings.Join(out, "; ")
}

func plain(p *float64) string {
	if p == nil {
		return ""
	}
	return strconv.FormatFloat(*p, 'f', -1, 64)
}

func text(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}

// head are the columns for people.
var head = []string{"", "#", "when", "start", "capacity", "headroom", "peak", "settled", "run", "queue", "KV", "tok/req", "rows/min", "outcome"}

// cells is one start for people; unknown is a dash.
func cells(r Row, zone *time.Location) []string {
	mark := ""
	if r.Best {
		mark = "best"
	}
	when := "–"
	if !r.At.IsZero() {
		when = r.At.In(zone).Format("2 Jan 15:04")
	}
	f := func(p *float64, show func(float64) string) string {
		if p == nil {
			return "–"
		}
		return show(*p)
	}
	two := func(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }
	settled := f(r.Settled, metrics.Count)
	if r.Settled != nil && r.Spread != nil {
		settled += " ± " + metrics.Count(*r.Spread)
	}
	label := r.Label
	if r.Imported {
		label = strings.TrimSpace(label + " (imported)")
	}
	headroom := f(r.HeadroomGB, two)
	if r.HeadroomGB != nil {
		headroom += " GiB"
	}
	return []string{
		mark, strconv.Itoa(r.No), when, label, f(r.Capacity, metrics.Count), headroom, f(r.Peak, metrics.Count), settled, f(r.Running, metrics.Count),
		f(r.Queued, metrics.Count), f(r.KVUsage, two), f(r.PerRequest, metrics.Count), f(r.RowsPerMin, metrics.Rate), Outcome(r),
	}
}

// Outcome is how a start went, in a few words.
func Outcome(r Row) string {
	out := r.Outcome
	if out == "" {
		out = "unknown"
	}
	if why := first(r.CauseTxt, string(r.Cause)); why != "" {
		out += ": " + why
	}
	if after := r.After(); after != "" {
		out += ", " + after
	}
	return metrics.Clean(out, 160)
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// WriteMarkdown writes the table for an issue or a page.
func WriteMarkdown(w io.Writer, rows []Row, zone *time.Location) error {
	escape := strings.NewReplacer("|", `\|`, "\n", " ")
	var b strings.Builder
	line := func(cells []string) {
		for _, c := range cells {
			b.WriteString("| " + escape.Replace(c) + " ")
		}
		b.WriteString("|\n")
	}
	line(append(slices.Clone(head), "best, or why not"))
	b.WriteString(strings.Repeat("| --- ", len(head)+1) + "|\n")
	for _, r := range rows {
		line(append(cells(r, zone), metrics.Clean(r.Why, 160)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteTable writes the table in aligned columns for a terminal, with what
// differs from the start before, and why it is best or is not, under each.
func WriteTable(w io.Writer, rows []Row, zone *time.Location) error {
	table := [][]string{head}
	for _, r := range rows {
		table = append(table, cells(r, zone))
	}
	width := make([]int, len(head))
	for _, row := range table {
		for i, c := range row {
			width[i] = max(width[i], utf8.RuneCountInString(c))
		}
	}
	var b strings.Builder
	for n, row := range table {
		var line strings.Builder
		for i, c := range row {
			line.WriteString(c + strings.Repeat(" ", width[i]-utf8.RuneCountInString(c)+2))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		if n == 0 {
			continue
		}
		r, under := rows[n-1], strings.Repeat(" ", width[0]+2)
		changes := make([]string, len(r.Diff))
		for i, c := range r.Diff {
			changes[i] = c.String()
		}
		if len(changes) > 0 {
			fmt.Fprintf(&b, "%s%s\n", under, metrics.Clean(strings.Join(changes, ", "), 400))
		}
		says := "not best: "
		if r.Best {
			says = "best: "
		}
		fmt.Fprintf(&b, "%s%s\n", under, metrics.Clean(says+r.Why, 200))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func startsOf(rows []Row) []metrics.Start {
	out := make([]metrics.Start, len(rows))
	for i, r := range rows {
		out[i] = r.Start
	}
	return out
}
