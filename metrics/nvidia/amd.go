package nvidia

import (
	"regexp"
	"strconv"
	"strings"
)

var twoSpaces = regexp.MustCompile(`\s{2,}`)

// rocmFields maps column titles of rocm-smi's concise table and of amd-smi
// monitor to fields.
var rocmFields = map[string]string{
	"GPU": "index", "Device": "index", "Temp": "temperature.gpu", "Temp (DieEdge)": "temperature.gpu",
	"AvgPwr": "power.draw", "Power": "power.draw", "SCLK": "clocks.current.sm", "MCLK": "clocks.current.memory",
	"Fan": "fan.speed", "PwrCap": "power.limit", "GPU%": "utilization.gpu",
	"POWER": "power.draw", "PWR_CAP": "power.limit", "GPU_T": "temperature.gpu", "GPU_TEMP": "temperature.gpu", "MEM_T": "temperature.memory",
	"MEM_TEMP": "temperature.memory", "GFX_CLK": "clocks.current.sm", "GFX_CLOCK": "clocks.current.sm", "MEM_CLOCK": "clocks.current.memory",
	"GFX%": "utilization.gpu", "GFX_UTIL": "utilization.gpu", "MEM%": "utilization.memory", "MEM_UTIL": "utilization.memory",
	"VRAM_USED": "memory.used", "VRAM_TOTAL": "memory.total",
}

// parseRocm reads AMD's tables and rocm-smi's lists of "GPU[0] : key: value".
// Columns are cut at two spaces, as titles hold single ones. The concise table
// tells memory in per cent only, or not at all.
func parseRocm(lines []string) Report {
	r := Report{Format: FormatRocm}
	var cols []string
	for _, l := range lines {
		t := strings.TrimSpace(l)
		switch {
		case t == "" || strings.HasPrefix(t, "=="):
			continue
		case strings.HasPrefix(t, "GPU["):
			rocmFact(&r, t)
			continue
		}
		f := twoSpaces.Split(t, -1)
		if f[0] == "GPU" || f[0] == "Device" {
			cols = f
			continue
		}
		if len(cols) == 0 || f[0] == "" || !digits(f[0]) {
			continue
		}
		row := newRow()
		if len(f) == len(cols) {
			for i, c := range cols {
				switch {
				case c == "VRAM%":
					row.MemPercent = ParseNum(f[i])
				case rocmFields[c] != "":
					row.set(rocmFields[c], f[i])
				}
			}
		} else {
			rocmByUnit(&row, strings.Fields(t), cols)
		}
		if row.Index >= 0 {
			r.keep(row)
		}
	}
	return r
}

func digits(s string) bool {
	_, err := strconv.Atoi(s)
	return err == nil
}

// rocmByUnit reads a row whose columns do not line up with their titles (ids and
// partitions hold spaces): the units tell the cells, in the titles' order.
func rocmByUnit(row *Row, cells, cols []string) {
	row.set("index", cells[0])
	var watts, clocks, shares []string
	for _, c := range cells[1:] {
		low := strings.ToLower(c)
		switch {
		case !ParseNum(c).OK:
		case strings.HasSuffix(low, "c"):
			row.set("temperature.gpu", c)
		case strings.HasSuffix(low, "w"):
			watts = append(watts, c)
		case strings.HasSuffix(low, "mhz"):
			clocks = append(clocks, c)
		case strings.HasSuffix(low, "%"):
			shares = append(shares, c)
		}
	}
	put := func(field string, list []string, i int) {
		if i >= 0 && i < len(list) {
			row.set(field, list[i])
		}
	}
	put("power.draw", watts, 0)
	put("power.limit", watts, 1)
	put("clocks.current.sm", clocks, 0)
	put("clocks.current.memory", clocks, 1)
	if strings.HasSuffix(strings.Join(cols, " "), "VRAM% GPU%") && len(shares) >= 2 {
		put("utilization.gpu", shares, len(shares)-1)
		row.MemPercent = ParseNum(shares[len(shares)-2])
	}
}

// rocmFacts maps the keys of "GPU[0] : key (unit): value" lines, by how they begin.
var rocmFacts = []struct{ key, field string }{
	{"GPU use", "utilization.gpu"}, {"GPU memory use", "utilization.memory"}, {"Temperature (Sensor edge)", "temperature.gpu"},
	{"Temperature (Sensor junction)", "temperature.gpu"}, {"Temperature (Sensor memory)", "temperature.memory"},
	{"Average Graphics Package Power", "power.draw"}, {"Current Socket Graphics Package Power", "power.draw"},
	{"Max Graphics Package Power", "power.limit"}, {"VRAM Total Memory", "memory.total"}, {"VRAM Total Used Memory", "memory.used"},
	{"Card series", "name"}, {"Card Series", "name"},
}

func rocmFact(r *Report, l string) {
	head, rest, ok := strings.Cut(l, ":")
	if !ok {
		return
	}
	index, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(head), "GPU["), "]"))
	if err != nil || index < 0 {
		return
	}
	i := strings.LastIndex(rest, ":")
	if i < 0 {
		return
	}
	key, val := strings.TrimSpace(rest[:i]), strings.TrimSpace(rest[i+1:])
	for _, f := range rocmFacts {
		if !strings.HasPrefix(key, f.key) {
			continue
		}
		row := r.at(index)
		if row == nil {
			return
		}
		if strings.HasSuffix(key, "(B)") {
			if n := ParseNum(val); n.OK {
				val = strconv.FormatFloat(n.V/(1<<20), 'f', 0, 64)
			}
		}
		if row.Temp.OK && f.field == "temperature.gpu" {
			return // the edge stands before the junction
		}
		row.set(f.field, val)
		return
	}
}

// at finds or makes the row of an index.
func (r *Report) at(index int) *Row {
	for i := range r.Rows {
		if r.Rows[i].Index == index {
			return &r.Rows[i]
		}
	}
	if len(r.Rows) >= maxRows {
		return nil
	}
	row := newRow()
	row.Index = index
	r.Rows, r.Rounds = append(r.Rows, row), 1
	return &r.Rows[len(r.Rows)-1]
}

// parseNPU reads Huawei's npu-smi info: a box with two lines a chip, the first
// with health, power and temperature, the second with load and memory.
func parseNPU(lines []string) Report {
	r := Report{Format: FormatNPU, Rounds: 1}
	for _, l := range lines {
		if !strings.HasPrefix(l, "|") {
			continue
		}
		cs := strings.Split(strings.Trim(l, "|"), "|")
		if i := strings.Index(l, "Version: "); i >= 0 && r.Driver == "" {
			r.Driver = word(strings.Trim(l[i+len("Version: "):], "| "))
		}
		if len(cs) != 3 {
			continue
		}
		first, third := strings.Fields(cs[0]), strings.Fields(strings.ReplaceAll(cs[2], "/", " / "))
		if len(first) == 0 || !digits(first[0]) {
			continue
		}
		switch bus := busID(cs[1]); {
		case bus == "" && len(first) > 1 && len(third) >= 2:
			row := newRow()
			row.set("index", first[0])
			row.set("name", strings.Join(first[1:], " "))
			row.set("power.draw", third[0])
			row.set("temperature.gpu", third[1])
			if h := strings.TrimSpace(cs[1]); h != "" {
				row.Extra = map[string]string{"health": clip(h)}
			}
			if len(r.Rows) < maxRows {
				r.Rows = append(r.Rows, row)
			}
		case bus != "" && len(r.Rows) > 0 && len(third) >= 4:
			row := &r.Rows[len(r.Rows)-1]
			row.set("pci.bus_id", bus)
			row.set("utilization.gpu", third[0])
			// The last pair is HBM where the card has it; before it stands plain memory.
			n := len(third)
			row.set("memory.used", third[n-3])
			row.set("memory.total", third[n-1])
		}
	}
	return r
}
