package nvidia

import (
	"strconv"
	"strings"
)

// parseTable reads the boxed table of plain nvidia-smi, headers of all drivers:
// up to two lines a GPU before MIG existed, three since. Sections after the
// GPUs (MIG devices, processes) are told by their titles.
func parseTable(lines []string) Report {
	t := tableReader{r: Report{Format: FormatTable}}
	for _, l := range lines {
		t.line(strings.TrimSpace(l))
	}
	return t.r
}

type section uint8

const (
	inGPUs section = iota
	inMIG
	inProcs
)

type tableReader struct {
	r    Report
	in   section
	part int  // lines of the current GPU seen since its first
	body bool // past the |====| line of this section
}

func (t *tableReader) line(l string) {
	// Copies may put text before the border.
	if i := strings.IndexByte(l, '|'); i > 0 && strings.HasSuffix(l, "|") {
		l = l[i:]
	}
	switch {
	case strings.Contains(l, "NVIDIA-SMI "):
		t.header(l)
		return
	case strings.HasPrefix(l, "|===") || strings.HasPrefix(l, "|--") && strings.Contains(l, "="):
		t.body, t.part = true, 0
		return
	case strings.HasPrefix(l, "+"), strings.HasPrefix(l, "|---"):
		t.part = 0
		return
	case !strings.HasPrefix(l, "|"):
		return
	}
	cs := strings.Split(strings.Trim(l, "|"), "|")
	for i := range cs {
		cs[i] = strings.TrimSpace(cs[i])
	}
	switch {
	case strings.HasPrefix(cs[0], "MIG devices"):
		t.in, t.body = inMIG, false
	case strings.HasPrefix(cs[0], "Processes:"), strings.HasPrefix(cs[0], "Compute processes:"):
		t.in, t.body = inProcs, false
	case !t.body:
	case t.in == inGPUs:
		t.gpu(cs)
	case t.in == inMIG:
		t.mig(cs)
	case t.in == inProcs:
		t.proc(cs[0])
	}
}

// header reads "NVIDIA-SMI 535.104.05  Driver Version: …  CUDA Version: …" and
// the newer "KMD Version: … CUDA UMD Version: …".
func (t *tableReader) header(l string) {
	after := func(key string) string {
		_, rest, ok := strings.Cut(l, key)
		if !ok {
			return ""
		}
		f := strings.Fields(rest)
		if len(f) == 0 {
			return ""
		}
		return word(f[0])
	}
	t.r.Driver = after("Driver Version:")
	if t.r.Driver == "" {
		t.r.Driver = after("KMD Version:")
	}
	t.r.CUDA = after("CUDA Version:")
	if t.r.CUDA == "" {
		t.r.CUDA = after("CUDA UMD Version:")
	}
}

func (t *tableReader) gpu(cs []string) {
	if len(cs) < 3 {
		return
	}
	t.part++
	first, second := cs[0], cs[1]
	f := strings.Fields(first)
	if busID(second) != "" {
		t.part = 1 // copies may lack the rule between two GPUs
	}
	if t.part == 1 {
		if len(f) < 2 {
			return
		}
		r := newRow()
		r.set("index", f[0])
		if r.Index < 0 {
			t.part = 0
			return
		}
		r.set("name", strings.Join(f[1:len(f)-1], " "))
		r.set("persistence_mode", f[len(f)-1])
		r.set("pci.bus_id", busID(second))
		t.ecc(&r, cs[2])
		if len(t.r.Rows) < maxRows {
			t.r.Rows = append(t.r.Rows, r)
		}
		t.r.Rounds = 1
		return
	}
	if len(t.r.Rows) == 0 {
		return
	}
	r := &t.r.Rows[len(t.r.Rows)-1]
	switch t.part {
	case 2:
		t.figures(r, f, second, cs[2])
	case 3:
		r.set("mig.mode.current", cs[2])
	}
}

// ecc reads the column of uncorrected errors: a count, N/A, or with MIG on the
// mode's name.
func (t *tableReader) ecc(r *Row, cell string) {
	if cell == "On" || cell == "Off" {
		r.ECCMode = cell
		return
	}
	r.set("ecc.errors.uncorrected.volatile.total", cell)
	if r.ECC.OK {
		r.ECCMode = "On"
	}
}

// figures reads the second line: fan, temperature, P-state, power, memory, load.
func (t *tableReader) figures(r *Row, f []string, mem, load string) {
	if len(f) < 3 {
		return
	}
	r.set("fan.speed", f[0])
	r.set("temperature.gpu", f[1])
	r.set("pstate", f[2])
	r.setPower(strings.Join(f[3:], " "))
	if used, total, ok := strings.Cut(mem, "/"); ok && strings.ContainsAny(total, "0123456789") {
		if u := strings.Fields(used); len(u) > 1 { // the oldest tables put a percentage first
			used = u[len(u)-1]
		}
		r.set("memory.used", used)
		r.set("memory.total", total)
	} else {
		r.set("memory.used", mem)
		r.set("memory.total", mem)
	}
	if g := strings.Fields(load); len(g) > 0 {
		r.set("utilization.gpu", g[0])
		if len(g) > 1 {
			r.set("compute_mode", strings.Join(g[1:], " "))
		}
	}
}

// setPower splits "300W / 700W", of which either side may be N/A or ERR!.
func (r *Row) setPower(cell string) {
	draw, limit, ok := strings.Cut(cell, " / ")
	if !ok {
		draw, limit = cell, ""
	}
	r.set("power.draw", draw)
	if limit != "" {
		r.set("power.limit", limit)
	}
}

// mig reads a device row of the MIG section: "0  1  0  0 | 19MiB / 40192MiB | …".
func (t *tableReader) mig(cs []string) {
	f := strings.Fields(cs[0])
	if len(f) < 4 || len(cs) < 2 {
		return
	}
	var ids [4]int
	for i := range ids {
		n, err := strconv.Atoi(f[i])
		if err != nil {
			return
		}
		ids[i] = n
	}
	d := newRow()
	d.Index, d.GI, d.CI, d.Device = ids[0], ids[1], ids[2], ids[3]
	if used, total, ok := strings.Cut(cs[1], "/"); ok {
		d.set("memory.used", used)
		d.set("memory.total", total)
	} else {
		d.set("memory.used", cs[1])
	}
	for i := range t.r.Rows {
		if t.r.Rows[i].Index == d.Index && len(t.r.Rows[i].Instances) < 64 {
			t.r.Rows[i].Instances = append(t.r.Rows[i].Instances, d)
		}
	}
}

// proc reads a row of the process section. Columns are told by their values:
// before MIG "gpu pid type name memory", since then with GI and CI after gpu.
func (t *tableReader) proc(l string) {
	f := strings.Fields(strings.ReplaceAll(l, "[Insufficient Permissions]", "[N/A]"))
	if strings.Contains(l, "Not Supported") || len(f) < 4 && strings.Contains(l, "Insufficient Permissions") {
		t.r.ProcsUnknown = true
		return
	}
	if len(f) < 4 {
		return
	}
	gpu, err := strconv.Atoi(f[0])
	if err != nil {
		return
	}
	a := App{GPU: gpu, GI: -1, CI: -1}
	rest := f[1:]
	if len(f) >= 6 && procType(f[4]) {
		if n, err := strconv.Atoi(f[1]); err == nil {
			a.GI = n
		}
		if n, err := strconv.Atoi(f[2]); err == nil {
			a.CI = n
		}
		rest = f[3:]
	}
	if a.PID, err = strconv.Atoi(rest[0]); err != nil || len(rest) < 3 {
		return
	}
	rest = rest[1:]
	if procType(rest[0]) {
		a.Type, rest = rest[0], rest[1:]
	}
	if n := len(rest); n > 1 {
		a.Used = ParseNum(rest[n-1])
		rest = rest[:n-1]
	}
	a.Name = word(strings.Join(rest, " "))
	a.Ghost = a.Name == ""
	t.r.addProc(a)
}

func procType(s string) bool { return s == "C" || s == "G" || s == "C+G" || s == "M+C" || s == "N/A" }

// parseList reads nvidia-smi -L.
func parseList(lines []string) Report {
	r := Report{Format: FormatList}
	for _, l := range lines {
		t := strings.TrimSpace(l)
		i := strings.LastIndex(t, "(UUID: ")
		if i < 0 {
			continue
		}
		uuid := strings.TrimSuffix(t[i+len("(UUID: "):], ")")
		row := newRow()
		row.set("uuid", uuid)
		switch {
		case strings.HasPrefix(t, "GPU "):
			num, name, ok := strings.Cut(t[len("GPU "):i], ":")
			if !ok {
				continue
			}
			row.set("index", num)
			row.set("name", name)
			r.keep(row)
		case strings.HasPrefix(t, "MIG ") && len(r.Rows) > 0:
			name, dev, _ := strings.Cut(strings.TrimRight(t[:i], ": "), "Device")
			row.Name = word(name)
			if n, err := strconv.Atoi(strings.TrimSpace(dev)); err == nil {
				row.Device = n
			}
			last := &r.Rows[len(r.Rows)-1]
			row.Index = last.Index
			last.Instances = append(last.Instances, row)
		}
	}
	return r
}
