package nvidia

import (
	"regexp"
	"strconv"
	"strings"
)

// monFields maps dmon's column names to fields.
var monFields = map[string]string{
	"gpu": "index", "pwr": "power.draw", "temp": "temperature.gpu", "gtemp": "temperature.gpu", "mtemp": "temperature.memory",
	"sm": "utilization.gpu", "mem": "utilization.memory", "mclk": "clocks.current.memory", "pclk": "clocks.current.sm",
	"fb": "memory.used",
}

// parseMon reads dmon and pmon. The first header row names the columns, which
// depend on -s and -o; headers come again every screenful.
func parseMon(lines []string) Report {
	r := Report{Format: FormatDmon}
	var cols []string
	for _, l := range lines {
		l = strings.TrimSpace(strings.ReplaceAll(l, `\#`, "#"))
		f := strings.Fields(l)
		if len(f) == 0 {
			continue
		}
		if strings.HasPrefix(f[0], "#") {
			if f[0] == "#" {
				f = f[1:]
			} else {
				f[0] = f[0][1:]
			}
			if len(f) > 0 && (f[0] == "gpu" || len(f) > 2 && (f[1] == "gpu" || f[2] == "gpu")) {
				cols = f
			}
			continue
		}
		if len(cols) == 0 || len(f) < len(cols) {
			continue
		}
		monRow(&r, cols, f)
	}
	return r
}

func monRow(r *Report, cols, f []string) {
	row := newRow()
	app := App{GPU: -1, GI: -1, CI: -1}
	isApp := false
	for i, c := range cols {
		v := f[i]
		if c == "command" {
			v = strings.Join(f[i:], " ")
		}
		switch c {
		case "pid":
			isApp = true
			app.PID, _ = strconv.Atoi(v)
		case "type":
			app.Type = word(v)
		case "command":
			app.Name = word(v)
		case "ecc", "dbecc":
			row.addECC(v)
		case "pviol":
			row.PViol = ParseNum(v)
		case "tviol":
			row.TViol = ParseNum(v)
		default:
			if field, ok := monFields[c]; ok {
				row.set(field, v)
			}
		}
	}
	if row.Index < 0 {
		return
	}
	if !isApp {
		r.keep(row)
		return
	}
	r.Format = FormatPmon
	app.GPU, app.SM, app.Mem, app.Used = row.Index, row.Util, row.MemUtil, row.MemUsed
	if app.PID > 0 {
		r.addProc(app)
	}
}

var gpustatRow = regexp.MustCompile(`^\[(\d{1,3})\] (.+?)\s*\| *(.+?) \| *(.+?) / *(.+?) MB \|(.*)$`)

func isGPUStat(l string) bool { return gpustatRow.MatchString(l) }

// parseGPUStat reads gpustat: "[0] NAME | 56°C, 100 % | 30050 / 32510 MB | user:cmd/pid(12M)".
// With options a fan, the codecs and the power stand beside the load.
func parseGPUStat(lines []string) Report {
	r := Report{Format: FormatGPUStat}
	for _, l := range lines {
		m := gpustatRow.FindStringSubmatch(l)
		if m == nil {
			if f := strings.Fields(l); len(r.Rows) == 0 && len(f) > 2 && driverCell.MatchString(f[len(f)-1]) {
				r.Driver = f[len(f)-1]
			}
			continue
		}
		row := newRow()
		row.set("index", m[1])
		row.set("name", m[2])
		row.set("memory.used", m[4])
		row.set("memory.total", m[5])
		var loads []string
		for p := range strings.SplitSeq(m[3], ",") {
			p = strings.TrimSpace(p)
			if i := strings.IndexByte(p, '('); i > 0 {
				p = strings.TrimSpace(p[:i])
			}
			switch {
			case strings.HasSuffix(p, "C"):
				row.set("temperature.gpu", p)
			case strings.HasSuffix(p, "%"):
				loads = append(loads, p)
			case strings.HasSuffix(p, "W"):
				row.setPower(p)
			default:
				if row.Util.Raw == "" && len(loads) == 0 {
					loads = append(loads, p)
				}
			}
		}
		if n := len(loads); n > 0 {
			row.set("utilization.gpu", loads[n-1])
			if n > 1 {
				row.set("fan.speed", loads[0])
			}
		}
		gpustatProcs(&r, &row, strings.TrimSpace(m[6]))
		r.keep(row)
	}
	return r
}

// gpustatProcs reads the process column: user(5M), user:cmd(5M), user:cmd/pid(5M).
func gpustatProcs(r *Report, row *Row, s string) {
	if strings.Contains(s, "(Not Supported)") {
		row.ProcsUnknown, r.ProcsUnknown = true, true
		return
	}
	for p := range strings.FieldsSeq(s) {
		if p == "(null)" {
			r.addProc(App{GPU: row.Index, GI: -1, CI: -1, Ghost: true})
			continue
		}
		who, size, ok := strings.Cut(p, "(")
		if !ok {
			continue
		}
		a := App{GPU: row.Index, GI: -1, CI: -1}
		a.Used = ParseNum(strings.TrimSuffix(strings.TrimSuffix(size, ")"), "M"))
		user, cmd, _ := strings.Cut(who, ":")
		cmd, pid, _ := strings.Cut(cmd, "/")
		a.User, a.Name = word(user), word(cmd)
		a.PID, _ = strconv.Atoi(pid)
		a.Ghost = user == "null" || user == ""
		r.addProc(a)
	}
}
