package nvidia

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/runvigil/runvigil/metrics"
)

const casesDir = "../../testdata/cases"

type fieldCase struct {
	id, kind, expect string
	data             []byte
}

func readCases(t testing.TB, kinds ...string) []fieldCase {
	t.Helper()
	index, err := os.ReadFile(filepath.Join(casesDir, "INDEX.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	var out []fieldCase
	for line := range strings.Lines(string(index)) {
		f := strings.Split(line, "\t")
		if len(f) < 6 {
			continue
		}
		for _, k := range kinds {
			if f[4] != k {
				continue
			}
			names, err := filepath.Glob(filepath.Join(casesDir, f[0]+"-*"))
			if err != nil || len(names) != 1 {
				t.Fatalf("case %s: files %v, error %v", f[0], names, err)
			}
			data, err := os.ReadFile(names[0])
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, fieldCase{f[0], f[4], f[5], data})
		}
	}
	if len(out) == 0 {
		t.Fatal("no cases")
	}
	return out
}

// A key of an expectation, with its := or =, and the owner before it ("gpu1:").
var keyRE = regexp.MustCompile(`(?:(\w+): )?([A-Za-z_]\w*):?=`)

type want struct{ owner, name, value string }

func wants(expect string) []want {
	expect, _, _ = strings.Cut(expect, " -> ")
	var out []want
	at := keyRE.FindAllStringSubmatchIndex(expect, -1)
	owner := ""
	for i, m := range at {
		end := len(expect)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		if m[2] >= 0 {
			owner = expect[m[2]:m[3]]
		}
		v := strings.TrimSpace(strings.TrimRight(strings.TrimSpace(expect[m[1]:end]), ";,"))
		if p := strings.Index(v, " ("); p > 0 {
			v = v[:p]
		}
		if p := strings.Index(v, "; "); p > 0 {
			v = v[:p]
		}
		if p := strings.Index(v, ", "); p > 0 {
			v = v[:p]
		}
		out = append(out, want{owner, expect[m[4]:m[5]], v})
	}
	return out
}

func show(n Num) string {
	if !n.OK {
		return "unknown"
	}
	return strconv.FormatFloat(n.V, 'f', -1, 64)
}

func same(got, exp string) bool {
	if strings.HasPrefix(exp, "N/A") || exp == "unknown" {
		return got == "unknown" || got == ""
	}
	if a, err := strconv.ParseFloat(got, 64); err == nil {
		e := strings.Fields(exp)
		b, err := strconv.ParseFloat(e[0], 64)
		return err == nil && a == b
	}
	return got == exp
}

// notTold are expected words that no figure of this package stands for.
var notTold = map[string]string{
	"proc": "the holder as printed, (null): tested in TestGhost",
}

var numFields = map[string]func(*Row) Num{
	"mem_used": func(r *Row) Num { return r.MemUsed }, "used": func(r *Row) Num { return r.MemUsed },
	"mem_total": func(r *Row) Num { return r.MemTotal }, "total": func(r *Row) Num { return r.MemTotal },
	"mem_free": func(r *Row) Num { return r.MemFree }, "mem": func(r *Row) Num { return r.MemUsed },
	"util": func(r *Row) Num { return r.Util }, "sm": func(r *Row) Num { return r.Util },
	"mem_util": func(r *Row) Num { return r.MemUtil }, "temp": func(r *Row) Num { return r.Temp },
	"power": func(r *Row) Num { return r.Power }, "power_limit": func(r *Row) Num { return r.PowerLimit },
	"cap": func(r *Row) Num { return r.PowerLimit }, "power_default": func(r *Row) Num { return r.PowerMax },
	"fb": func(r *Row) Num { return r.MemUsed }, "pviol": func(r *Row) Num { return r.PViol },
	"mclk": func(r *Row) Num { return r.ClockMem }, "pclk": func(r *Row) Num { return r.ClockSM },
	"fan": func(r *Row) Num { return r.Fan }, "gpu_slowdown_temp": func(r *Row) Num { return r.TempSlow },
}

// figure gives what the report says under an expectation's name.
func figure(r *Report, w want) (string, bool) {
	name, idx := w.name, -1
	if m := regexp.MustCompile(`^(\w+?)(\d)$`).FindStringSubmatch(name); m != nil && numFields[m[1]] != nil {
		name = m[1]
		idx, _ = strconv.Atoi(m[2])
	} else if n, err := strconv.Atoi(strings.TrimPrefix(w.owner, "gpu")); err == nil {
		idx = n
	}
	var row *Row
	for i := range r.Rows {
		if idx < 0 || r.Rows[i].Index == idx {
			row = &r.Rows[i]
			break
		}
	}
	if get := numFields[name]; get != nil {
		if row == nil {
			return "no row", true
		}
		return show(get(row)), true
	}
	switch name {
	case "gpus":
		if len(r.Rows) == 0 {
			return "unknown", true
		}
		return strconv.Itoa(len(r.Rows)), true
	case "driver":
		return r.Driver, true
	case "cuda":
		return r.CUDA, true
	case "procs":
		if r.ProcsUnknown {
			return "unknown", true
		}
		return strconv.Itoa(len(r.Procs)), true
	case "MemTotal_kB":
		return show(r.MemTotalKB), true
	case "fault":
		if len(r.Failures) == 0 {
			return "none", true
		}
		return map[metrics.Cause]string{
			metrics.CauseDriverMismatch: "driver-library-mismatch", metrics.CauseGPULost: "gpu-lost",
			metrics.CauseDriverNotLoaded: "driver-not-loaded",
		}[r.Failures[0].Cause], true
	case "lib":
		return r.Failures[0].Lib, true
	case "bus":
		return strings.Join(r.Failures[0].Bus, ","), true
	case "lost":
		return fmt.Sprintf("%d GPU", len(r.Failures[0].Bus)), true
	}
	if row == nil {
		return "", false
	}
	switch name {
	case "index":
		return strconv.Itoa(row.Index), true
	case "name":
		return row.Name, true
	case "mig":
		return row.MIG, true
	case "ecc":
		return row.ECCMode, true
	case "pstate":
		return row.PState, true
	case "throttle":
		return strings.Join(row.Throttled(), ",") + "(Active)", true
	case "thermal":
		if strings.Contains(strings.Join(row.Reasons, ","), "Thermal") {
			return "yes", true
		}
		return "no", true
	}
	return "", false
}

func TestCases(t *testing.T) {
	for _, c := range readCases(t, "gpu") {
		r, ok := ParseAny(c.data)
		if !ok {
			t.Errorf("%s: not recognised", c.id)
			continue
		}
		checked := 0
		for _, w := range wants(c.expect) {
			if notTold[w.name] != "" {
				continue
			}
			if w.name == "gpu" {
				if n, err := strconv.Atoi(strings.Fields(w.value)[0]); err != nil || len(r.Rows) > 0 && r.Rows[0].Index != n {
					t.Errorf("%s: gpu=%s, rows %+v", c.id, w.value, r.Rows)
				}
				continue
			}
			got, known := figure(&r, w)
			if !known {
				t.Errorf("%s: no extractor for %q", c.id, w.name)
				continue
			}
			if w.name == "name" && strings.Contains(got, w.value) {
				got = w.value // the index shortens names
			}
			if !same(got, w.value) {
				t.Errorf("%s: %s %s = %q, want %q", c.id, w.owner, w.name, got, w.value)
			}
			checked++
		}
		if checked == 0 {
			t.Errorf("%s: nothing was checked", c.id)
		}
	}
}
