package nvidia

import (
	"bytes"
	"encoding/xml"
	"io"
	"strconv"
	"strings"
)

// parseText reads nvidia-smi -q: an indented tree of "key : value".
func parseText(lines []string) Report {
	r := Report{Format: FormatQuery, Rounds: 1}
	var cur *Row
	type level struct {
		indent int
		key    string
	}
	var path []level
	var app App
	for _, l := range lines {
		t := strings.TrimSpace(l)
		if t == "" {
			continue
		}
		indent := len(l) - len(strings.TrimLeft(l, " \t"))
		if strings.HasPrefix(l, "GPU ") && !strings.Contains(t, " : ") {
			if len(r.Rows) >= maxRows {
				break
			}
			row := newRow()
			row.Index = len(r.Rows)
			row.set("pci.bus_id", strings.TrimPrefix(l, "GPU "))
			r.Rows = append(r.Rows, row)
			cur, path = &r.Rows[len(r.Rows)-1], nil
			continue
		}
		key, val, has := strings.Cut(t, " : ")
		key = strings.TrimSpace(key)
		for len(path) > 0 && path[len(path)-1].indent >= indent {
			path = path[:len(path)-1]
		}
		if !has {
			if len(path) < 16 {
				path = append(path, level{indent, strings.TrimSuffix(t, ":")})
			}
			continue
		}
		parent := ""
		for _, p := range path {
			parent += p.key + "/"
		}
		// A reason may have reasons of its own below it.
		if len(path) < 16 {
			path = append(path, level{indent, key})
		}
		if cur == nil {
			switch key {
			case "Driver Version":
				r.Driver = word(val)
			case "CUDA Version":
				r.CUDA = word(val)
			}
			continue
		}
		if strings.Contains(parent, "Processes/") {
			app = textProc(&r, cur.Index, app, key, val)
			continue
		}
		textField(cur, parent, key, val)
	}
	return r
}

// textFields maps the end of a -q path to a field. "Gpu" and "Memory" mean
// something else in each group, so groups are named.
var textFields = map[string]string{
	"Product Name": "name", "GPU UUID": "uuid", "Performance State": "pstate", "Fan Speed": "fan.speed",
	"Persistence Mode": "persistence_mode", "Compute Mode": "compute_mode", "GPU Recovery Action": "gpu_recovery_action",
	"MIG Mode/Current": "mig.mode.current", "Ecc Mode/Current": "ecc.mode.current", "ECC Mode/Current": "ecc.mode.current",
	"FB Memory Usage/Total": "memory.total", "FB Memory Usage/Used": "memory.used",
	"FB Memory Usage/Free": "memory.free", "FB Memory Usage/Reserved": "memory.reserved",
	"Utilization/Gpu": "utilization.gpu", "Utilization/GPU": "utilization.gpu", "Utilization/Memory": "utilization.memory",
	"Temperature/GPU Current Temp": "temperature.gpu", "Temperature/Memory Current Temp": "temperature.memory",
	"Power Readings/Power Draw": "power.draw", "GPU Power Readings/Power Draw": "power.draw",
	"GPU Power Readings/Average Power Draw": "power.draw", "GPU Power Readings/Instantaneous Power Draw": "power.draw.instant",
	"Power Readings/Power Limit": "power.limit", "GPU Power Readings/Current Power Limit": "power.limit",
	"Power Readings/Default Power Limit": "power.default_limit", "GPU Power Readings/Default Power Limit": "power.default_limit",
	"Clocks/SM": "clocks.current.sm", "Clocks/Memory": "clocks.current.memory", "Max Clocks/SM": "clocks.max.sm",
}

func textField(r *Row, parent, key, val string) {
	if strings.Contains(parent, "Clocks Event Reasons/") || strings.Contains(parent, "Clocks Throttle Reasons/") {
		if val == "Active" {
			r.addReason(key)
		}
		return
	}
	group := ""
	if parent != "" {
		parts := strings.Split(strings.TrimSuffix(parent, "/"), "/")
		group = parts[len(parts)-1] + "/"
	}
	switch {
	case group == "Temperature/" && key == "GPU Slowdown Temp":
		r.TempSlow = ParseNum(val)
	case strings.Contains(parent, "Volatile/") && (key == "DRAM Uncorrectable" || strings.HasPrefix(key, "SRAM Uncorrectable")):
		r.addECC(val)
	case strings.Contains(parent, "Volatile/Double Bit/") && key == "Total":
		r.addECC(val)
	default:
		f, ok := textFields[group+key]
		if !ok && group == "" {
			f, ok = textFields[key]
		}
		if ok {
			r.set(f, val)
		}
	}
}

func (r *Row) addECC(val string) {
	n := ParseNum(val)
	if r.ECC.OK && n.OK {
		n.V += r.ECC.V
	} else if r.ECC.OK {
		return
	}
	r.ECC = n
	r.note(n)
}

// textProc reads the process entries of -q, in which "Process ID" begins one.
func textProc(r *Report, gpu int, a App, key, val string) App {
	switch key {
	case "Process ID":
		pid, _ := strconv.Atoi(val)
		a = App{GPU: gpu, GI: -1, CI: -1, PID: pid}
	case "Type":
		a.Type = word(val)
	case "Name":
		a.Name = word(val)
	case "Used GPU Memory":
		a.Used = ParseNum(val)
		r.addProc(a)
	}
	return a
}

// parseXML reads nvidia-smi -q -x. What comes after a cut or a broken tag is
// lost, what came before is kept.
func parseXML(data []byte) Report {
	r := Report{Format: FormatXML, Rounds: 1}
	if i := bytes.IndexByte(data, '<'); i > 0 {
		data = data[i:]
	}
	d := xml.NewDecoder(bytes.NewReader(data))
	d.Strict = false
	d.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil }
	for {
		tok, err := d.Token()
		if err != nil {
			return r
		}
		el, ok := tok.(xml.StartElement)
		if !ok {
			continue
		}
		switch el.Name.Local {
		case "driver_version":
			r.Driver = xmlWord(d, el)
		case "cuda_version":
			r.CUDA = xmlWord(d, el)
		case "gpu":
			var g xmlGPU
			if d.DecodeElement(&g, &el) != nil || len(r.Rows) >= maxRows {
				return r
			}
			g.into(&r)
		}
	}
}

func xmlWord(d *xml.Decoder, el xml.StartElement) string {
	var s string
	if d.DecodeElement(&s, &el) != nil {
		return ""
	}
	return word(s)
}

type xmlReasons struct {
	All []struct {
		XMLName xml.Name
		Value   string `xml:",chardata"`
	} `xml:",any"`
}

type xmlMemory struct {
	Total    string `xml:"total"`
	Reserved string `xml:"reserved"`
	Used     string `xml:"used"`
	Free     string `xml:"free"`
}

type xmlPower struct {
	Draw    string `xml:"power_draw"`
	Average string `xml:"average_power_draw"`
	Instant string `xml:"instant_power_draw"`
	Limit   string `xml:"power_limit"`
	Current string `xml:"current_power_limit"`
	Default string `xml:"default_power_limit"`
}

// xmlECC holds the volatile counters: totals of bit errors on older drivers,
// one element a memory kind on newer ones.
type xmlECC struct {
	Double string `xml:"double_bit>total"`
	xmlReasons
}

type xmlGPU struct {
	ID       string `xml:"id,attr"`
	Name     string `xml:"product_name"`
	UUID     string `xml:"uuid"`
	Persist  string `xml:"persistence_mode"`
	MIG      string `xml:"mig_mode>current_mig"`
	Recovery string `xml:"gpu_recovery_action"`
	Fan      string `xml:"fan_speed"`
	PState   string `xml:"performance_state"`
	Compute  string `xml:"compute_mode"`
	Minor    string `xml:"minor_number"`

	Event    xmlReasons `xml:"clocks_event_reasons"`
	Throttle xmlReasons `xml:"clocks_throttle_reasons"`
	FB       xmlMemory  `xml:"fb_memory_usage"`
	Util     string     `xml:"utilization>gpu_util"`
	MemUtil  string     `xml:"utilization>memory_util"`
	ECCMode  string     `xml:"ecc_mode>current_ecc"`
	ECC      xmlECC     `xml:"ecc_errors>volatile"`
	Temp     string     `xml:"temperature>gpu_temp"`
	TempMem  string     `xml:"temperature>memory_temp"`
	TempSlow string     `xml:"temperature>gpu_temp_slow_threshold"`
	Power    xmlPower   `xml:"gpu_power_readings"`
	PowerOld xmlPower   `xml:"power_readings"`
	SM       string     `xml:"clocks>sm_clock"`
	Mem      string     `xml:"clocks>mem_clock"`
	MaxSM    string     `xml:"max_clocks>sm_clock"`

	Devices []struct {
		Index string    `xml:"index"`
		GI    string    `xml:"gpu_instance_id"`
		CI    string    `xml:"compute_instance_id"`
		UUID  string    `xml:"uuid"`
		FB    xmlMemory `xml:"fb_memory_usage"`
	} `xml:"mig_devices>mig_device"`
	Procs struct {
		Text string `xml:",chardata"` // says so where processes cannot be listed
		Info []struct {
			GI   string `xml:"gpu_instance_id"`
			CI   string `xml:"compute_instance_id"`
			PID  string `xml:"pid"`
			Type string `xml:"type"`
			Name string `xml:"process_name"`
			Used string `xml:"used_memory"`
		} `xml:"process_info"`
	} `xml:"processes"`
}

func (g *xmlGPU) into(r *Report) {
	row := newRow()
	row.Index = len(r.Rows)
	put := func(field string, vals ...string) {
		for _, v := range vals {
			if v != "" {
				row.set(field, v)
				return
			}
		}
	}
	put("pci.bus_id", g.ID)
	put("name", g.Name)
	put("uuid", g.UUID)
	put("persistence_mode", g.Persist)
	put("mig.mode.current", g.MIG)
	put("gpu_recovery_action", g.Recovery)
	put("fan.speed", g.Fan)
	put("pstate", g.PState)
	put("compute_mode", g.Compute)
	put("ecc.mode.current", g.ECCMode)
	put("utilization.gpu", g.Util)
	put("utilization.memory", g.MemUtil)
	put("temperature.gpu", g.Temp)
	put("temperature.memory", g.TempMem)
	put("power.draw", g.Power.Average, g.Power.Draw, g.PowerOld.Draw)
	put("power.draw.instant", g.Power.Instant)
	put("power.limit", g.Power.Current, g.Power.Limit, g.PowerOld.Limit)
	put("power.default_limit", g.Power.Default, g.PowerOld.Default)
	put("clocks.current.sm", g.SM)
	put("clocks.current.memory", g.Mem)
	put("clocks.max.sm", g.MaxSM)
	g.FB.into(put)
	if g.TempSlow != "" {
		row.TempSlow = ParseNum(g.TempSlow)
	}
	for _, e := range append(g.Event.All, g.Throttle.All...) {
		if strings.TrimSpace(e.Value) == "Active" {
			name := strings.TrimPrefix(strings.TrimPrefix(e.XMLName.Local, "clocks_event_reason_"), "clocks_throttle_reason_")
			row.addReason(name)
		}
	}
	for _, e := range g.ECC.All {
		if strings.Contains(e.XMLName.Local, "uncorrectable") {
			row.addECC(e.Value)
		}
	}
	if g.ECC.Double != "" {
		row.addECC(g.ECC.Double)
	}
	for _, d := range g.Devices {
		dev := newRow()
		dev.Index = row.Index
		dev.Device, dev.GI, dev.CI = atoi(d.Index), atoi(d.GI), atoi(d.CI)
		dev.set("uuid", d.UUID)
		d.FB.into(func(field string, vals ...string) {
			if vals[0] != "" {
				dev.set(field, vals[0])
			}
		})
		row.Instances = append(row.Instances, dev)
	}
	for _, p := range g.Procs.Info {
		a := App{GPU: row.Index, UUID: row.UUID, GI: atoi(p.GI), CI: atoi(p.CI), PID: max(atoi(p.PID), 0), Type: word(p.Type), Name: word(p.Name), Used: ParseNum(p.Used)}
		a.Ghost = a.Name == ""
		r.addProc(a)
	}
	if strings.Contains(g.Procs.Text, "N/A") || strings.Contains(g.Procs.Text, "Not Supported") {
		row.ProcsUnknown, r.ProcsUnknown = true, true
	}
	r.Rows = append(r.Rows, row)
}

func (m xmlMemory) into(put func(string, ...string)) {
	put("memory.total", m.Total)
	put("memory.reserved", m.Reserved)
	put("memory.used", m.Used)
	put("memory.free", m.Free)
}

// atoi gives -1 for what is not a number.
func atoi(s string) int {
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil {
		return -1
	}
	return n
}
