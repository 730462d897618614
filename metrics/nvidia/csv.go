package nvidia

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// parseCSV reads captured --query-gpu and --query-compute-apps output. The
// fields come from a header row, or from the command line that is often pasted
// above; without either, only cells that explain themselves are taken.
func parseCSV(lines []string) Report {
	r := Report{Format: FormatCSV}
	var q *Query
	var apps []string
	for _, l := range lines {
		if strings.TrimSpace(l) == "" {
			continue
		}
		if f, isApps, ok := echoed(l); ok {
			q, apps = nil, nil
			if isApps {
				apps = f
			} else {
				q = NewQuery(f)
			}
			continue
		}
		if f, isApps, ok := headerRow(l); ok {
			q, apps = nil, nil
			if isApps {
				apps = f
			} else {
				q = NewQuery(f)
			}
			continue
		}
		switch {
		case apps != nil:
			if a, ok := appRow(apps, slices.IndexFunc(apps, func(f string) bool { return f == "process_name" || f == "name" }), l); ok {
				r.addProc(a)
				if len(r.Rows) == 0 {
					r.Format = FormatApps
				}
			}
		case q != nil:
			if row, ok := q.Row(l); ok && plausible(&row) {
				r.keep(row)
				r.Format = FormatCSV
			}
		default:
			if row, ok := guessRow(l); ok {
				r.keep(row)
			}
		}
	}
	for i := range r.Rows {
		if r.Driver == "" {
			r.Driver = r.Rows[i].Driver
		}
	}
	return r
}

// plausible tells a row from prose that has the right number of commas.
func plausible(r *Row) bool {
	for _, n := range []Num{r.MemTotal, r.MemUsed, r.MemFree, r.Util, r.Temp, r.Power} {
		if n.Raw != "" && n.Why == Odd && !n.OK {
			return false
		}
	}
	return true
}

// echoed finds the field list in a pasted command line.
func echoed(l string) (fields []string, apps, ok bool) {
	for _, opt := range []string{"--query-gpu=", "--query-compute-apps=", "--query-gpu ", "--query-compute-apps "} {
		_, rest, found := strings.Cut(l, opt)
		if !found {
			continue
		}
		list, _, _ := strings.Cut(strings.TrimLeft(rest, "'\""), " ")
		apps := strings.Contains(opt, "apps")
		for f := range strings.SplitSeq(strings.Trim(list, "'\""), ",") {
			fields = append(fields, Canonical(f))
		}
		return fields, apps, len(fields) > 0
	}
	return nil, false, false
}

// headerRow recognises the first row of --format=csv.
func headerRow(l string) (fields []string, apps, ok bool) {
	known := 0
	for f := range strings.SplitSeq(l, ",") {
		c := Canonical(f)
		fields = append(fields, c)
		if c == "pid" || c == "process_name" || c == "used_memory" || c == "used_gpu_memory" {
			apps = true
			known++
		} else if _, is := setters[c]; is || strings.ContainsAny(c, "._") && fieldName.MatchString(c) {
			known++
		}
	}
	return fields, apps, known == len(fields) && (known > 1 || strings.Contains(l, "[") || setters[fields[0]] != nil)
}

var (
	fieldName  = regexp.MustCompile(`^[a-z0-9]+([._][a-z0-9]+)+$`)
	stampCell  = regexp.MustCompile(`^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d(\.\d+)?$`)
	uuidCell   = regexp.MustCompile(`^(GPU|MIG)-[0-9a-f-]{8,}`)
	pstateCell = regexp.MustCompile(`^P\d{1,2}$`)
	driverCell = regexp.MustCompile(`^\d{3}\.\d{2,3}(\.\d{2})?$`)
	gpuName    = regexp.MustCompile(`^(NVIDIA|GeForce|Tesla|Quadro|TITAN|GRID|A100|H100|Orin|Graphics)\b`)
)

// guessRow reads a row whose field list is not known. Marks (uuid, bus id,
// name, P-state, units) say what a cell is; three numbers of which the first is
// the sum of the others are the memory, total first. A row needs a GPU's mark.
func guessRow(l string) (Row, bool) {
	cs := cells(l, 0, -1)
	if len(cs) < 3 {
		return Row{}, false
	}
	r := newRow()
	marked := false
	rest := -1 // the first cell after the memory figures
	for i, c := range cs {
		switch {
		case stampCell.MatchString(c):
			r.set("timestamp", c)
		case uuidCell.MatchString(c):
			r.set("uuid", c)
			marked = true
		case gpuName.MatchString(c):
			r.set("name", c)
			marked = true
		case pstateCell.MatchString(c):
			r.set("pstate", c)
		case busID(c) != "" && len(c) < 20:
			r.set("pci.bus_id", c)
		case driverCell.MatchString(c) && strings.Count(c, ".") >= 1 && i < 4 && marked:
			r.set("driver_version", c)
		case i <= 1 && r.Index < 0 && len(c) <= 2:
			r.set("index", c)
		case rest < 0 && i+2 < len(cs):
			rest = memory(&r, cs, i)
		}
	}
	if rest > 0 {
		temperature(&r, cs[rest:])
	}
	return r, marked && (rest > 0 || r.PState != "")
}

// memory takes total, then used and free. Without names their order is that of
// nvidia-smi's own list of fields; the logging query that NVIDIA publishes, which
// begins each row with a timestamp, has free before used.
func memory(r *Row, cs []string, i int) int {
	t, a, b := ParseNum(cs[i]), ParseNum(cs[i+1]), ParseNum(cs[i+2])
	if !t.OK || !a.OK || !b.OK || t.V < 1000 || a.V+b.V > t.V || a.V+b.V < t.V*0.98 {
		return -1
	}
	used, free := a, b
	if r.Timestamp != "" {
		used, free = b, a
	}
	r.MemTotal, r.MemUsed, r.MemFree = t, used, free
	return i + 3
}

// temperature takes the first cell after the memory that can only be one: a
// whole number of degrees that is no percentage of a busy idle card.
func temperature(r *Row, cs []string) {
	for i, c := range cs {
		v, err := strconv.Atoi(c)
		if err != nil || v < 20 || v > 110 {
			continue
		}
		if i+1 < len(cs) && cs[i+1] == "Default" || i+1 == len(cs) || ParseNum(cs[i+1]).Why != 0 {
			r.Temp = ParseNum(c)
		}
		return
	}
}
