package model

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	driverVersion = "580.95.05"
	cudaVersion   = "13.0"
	gpuLost       = "[GPU is lost]"
)

// gpuField is one field of --query-gpu: its names, unit, and value; a value is
// printed as it stands.
type gpuField struct {
	names []string
	unit  string
	value func(n *Node, g GPU) string
}

func fixed(s string) func(*Node, GPU) string { return func(*Node, GPU) string { return s } }
func number(f func(GPU) int) func(*Node, GPU) string {
	return func(_ *Node, g GPU) string { return strconv.Itoa(f(g)) }
}

var gpuFields = []gpuField{
	{[]string{"timestamp"}, "", func(n *Node, _ GPU) string { return n.Now().Format("2006/01/02 15:04:05.000") }},
	{[]string{"driver_version"}, "", fixed(driverVersion)},
	{[]string{"count"}, "", fixed(strconv.Itoa(gpuCount))},
	{[]string{"name", "gpu_name"}, "", func(_ *Node, g GPU) string { return g.Name }},
	{[]string{"serial", "gpu_serial"}, "", func(_ *Node, g GPU) string { return g.Serial }},
	{[]string{"uuid", "gpu_uuid"}, "", func(_ *Node, g GPU) string { return g.UUID }},
	{[]string{"pci.bus_id", "gpu_bus_id"}, "", func(_ *Node, g GPU) string { return g.Bus }},
	{[]string{"index"}, "", number(func(g GPU) int { return g.Index })},
	{[]string{"mig.mode.current"}, "", fixed("Disabled")},
	{[]string{"mig.mode.pending"}, "", fixed("Disabled")},
	{[]string{"persistence_mode"}, "", fixed("Enabled")},
	{[]string{"compute_mode"}, "", fixed("Default")},
	{[]string{"fan.speed"}, "%", fixed("[N/A]")},
	{[]string{"pstate"}, "", func(_ *Node, g GPU) string { return g.PState }},
	{[]string{"clocks_event_reasons.active", "clocks_throttle_reasons.active"}, "", func(_ *Node, g GPU) string { return fmt.Sprintf("0x%016x", g.Throttle) }},
	{[]string{"memory.total"}, "MiB", number(func(g GPU) int { return g.TotalMiB })},
	{[]string{"memory.reserved"}, "MiB", number(func(g GPU) int { return g.ReserveMiB })},
	{[]string{"memory.used"}, "MiB", number(func(g GPU) int { return g.UsedMiB })},
	{[]string{"memory.free"}, "MiB", number(func(g GPU) int { return g.FreeMiB })},
	{[]string{"utilization.gpu"}, "%", number(func(g GPU) int { return g.Util })},
	{[]string{"utilization.memory"}, "%", number(func(g GPU) int { return g.MemUtil })},
	{[]string{"ecc.mode.current"}, "", fixed("Enabled")},
	{[]string{"ecc.errors.corrected.volatile.total"}, "", fixed("0")},
	{[]string{"ecc.errors.uncorrected.volatile.total"}, "", number(func(g GPU) int { return g.ECC })},
	{[]string{"ecc.errors.uncorrected.aggregate.total"}, "", number(func(g GPU) int { return g.ECC })},
	{[]string{"temperature.gpu"}, "", number(func(g GPU) int { return g.Temp })},
	{[]string{"temperature.memory"}, "", func(_ *Node, g GPU) string {
		if g.MemTemp == 0 {
			return "N/A"
		}
		return strconv.Itoa(g.MemTemp)
	}},
	{[]string{"power.draw"}, "W", func(_ *Node, g GPU) string { return fmt.Sprintf("%.2f", g.Power) }},
	{[]string{"power.draw.average"}, "W", func(_ *Node, g GPU) string { return fmt.Sprintf("%.2f", g.Power) }},
	{[]string{"power.draw.instant"}, "W", func(_ *Node, g GPU) string { return fmt.Sprintf("%.2f", g.Power) }},
	{[]string{"power.limit"}, "W", func(_ *Node, g GPU) string { return fmt.Sprintf("%.2f", g.PowerLimit) }},
	{[]string{"power.default_limit"}, "W", func(_ *Node, g GPU) string { return fmt.Sprintf("%.2f", g.PowerLimit) }},
	{[]string{"clocks.current.sm", "clocks.sm"}, "MHz", number(func(g GPU) int { return g.ClockSM })},
	{[]string{"clocks.current.memory", "clocks.mem"}, "MHz", number(func(g GPU) int { return g.ClockMem })},
	{[]string{"clocks.max.sm", "clocks.max.graphics"}, "MHz", fixed(strconv.Itoa(clockTop))},
	{[]string{"clocks.max.memory", "clocks.max.mem"}, "MHz", fixed(strconv.Itoa(clockMem))},
	{[]string{"gpu_recovery_action"}, "", fixed("None")},
}

func findField(name string) (gpuField, bool) {
	for _, f := range gpuFields {
		if slices.Contains(f.names, name) {
			return f, true
		}
	}
	return gpuField{}, false
}

// NvidiaSMI is the program nvidia-smi: standard output and exit status for its
// arguments without argv[0]. It knows -L, the table, --query-gpu,
// --query-compute-apps with --format=csv and its options, -i, and
// --help-query-gpu. With -l or -lms it gives one sample; the driver repeats it.
func (n *Node) NvidiaSMI(args []string) (stdout string, code int) {
	var query, apps, format string
	var list bool
	index := -1
	for i := 0; i < len(args); i++ {
		name, value, joined := strings.Cut(args[i], "=")
		take := func() string {
			if !joined && i+1 < len(args) {
				i++
				value = args[i]
			}
			return value
		}
		switch name {
		case "-L", "--list-gpus":
			list = true
		case "--query-gpu":
			query = take()
		case "--query-compute-apps":
			apps = take()
		case "--format":
			format = take()
		case "-i", "--id":
			v, err := strconv.Atoi(take())
			if err != nil || v < 0 || v >= gpuCount {
				return "No devices were found\n", 6
			}
			index = v
		case "-l", "--loop", "-lms", "--loop-ms":
			if !joined && i+1 < len(args) && strings.Trim(args[i+1], "0123456789") == "" {
				i++
			}
		case "-h", "--help":
			return "NVIDIA System Management Interface -- v" + driverVersion + "\n", 0
		case "--version":
			return fmt.Sprintf("NVIDIA-SMI version  : %s\nNVML version        : 580.95\nDRIVER version      : %s\nCUDA Version        : %s\n", driverVersion, driverVersion, cudaVersion), 0
		case "--help-query-gpu":
			return helpQuery(), 0
		default:
			return "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n\n", 1
		}
	}
	gpus := n.GPUs()
	if index >= 0 {
		gpus = gpus[index : index+1]
	}
	switch {
	case list:
		return listGPUs(gpus), 0
	case query != "":
		return n.queryGPU(gpus, query, format)
	case apps != "":
		return queryApps(gpus, apps, format)
	}
	return n.table(gpus), 0
}

func helpQuery() string {
	b := &strings.Builder{}
	b.WriteString("List of valid properties to query for the switch \"--query-gpu=\":\n\n")
	for _, f := range gpuFields {
		fmt.Fprintf(b, "\"%s\"\nOne figure of each card.\n\n", strings.Join(f.names, "\" or \""))
	}
	return b.String()
}

func lostText(g GPU) string {
	return fmt.Sprintf("Unable to determine the device handle for GPU%d: %s: GPU is lost.  Reboot the system to recover this GPU\n", g.Index, g.Bus[4:])
}

func listGPUs(gpus []GPU) string {
	b := &strings.Builder{}
	for _, g := range gpus {
		if g.Lost {
			b.WriteString(lostText(g))
			continue
		}
		fmt.Fprintf(b, "GPU %d: %s (UUID: %s)\n", g.Index, g.Name, g.UUID)
	}
	return b.String()
}

// csvOptions reads --format: whether there is a header line and units.
func csvOptions(format string) (header, units, ok bool) {
	words := strings.Split(format, ",")
	if !slices.Contains(words, "csv") {
		return false, false, false
	}
	return !slices.Contains(words, "noheader"), !slices.Contains(words, "nounits"), true
}

func (n *Node) queryGPU(gpus []GPU, query, format string) (string, int) {
	header, units, ok := csvOptions(format)
	if !ok {
		return "\"--format=\" switch is missing. See \"nvidia-smi -h\" for help.\n\n", 1
	}
	var fields []gpuField
	var names []string
	for name := range strings.SplitSeq(query, ",") {
		f, known := findField(name)
		if !known {
			return fmt.Sprintf("Field \"%s\" is not a valid field to query.\n\n", name), 2
		}
		if units && f.unit != "" {
			name += " [" + f.unit + "]"
		}
		fields = append(fields, f)
		names = append(names, name)
	}
	b := &strings.Builder{}
	if header {
		b.WriteString(strings.Join(names, ", ") + "\n")
	}
	for _, g := range gpus {
		var cells []string
		for _, f := range fields {
			v := f.value(n, g)
			if g.Lost && f.names[0] != "index" && f.names[0] != "timestamp" {
				v = gpuLost
			}
			if units && f.unit != "" && v[0] != '[' {
				v += " " + f.unit
			}
			cells = append(cells, v)
		}
		b.WriteString(strings.Join(cells, ", ") + "\n")
	}
	return b.String(), 0
}

func queryApps(gpus []GPU, query, format string) (string, int) {
	header, units, ok := csvOptions(format)
	if !ok {
		return "\"--format=\" switch is missing. See \"nvidia-smi -h\" for help.\n\n", 1
	}
	names := strings.Split(query, ",")
	b := &strings.Builder{}
	head := make([]string, len(names))
	for i, name := range names {
		head[i] = name
		switch name {
		case "gpu_uuid", "gpu_name", "gpu_bus_id", "pid", "process_name", "name":
		case "used_memory", "used_gpu_memory":
			head[i] = "used_gpu_memory"
			if units {
				head[i] += " [MiB]"
			}
		default:
			return fmt.Sprintf("Field \"%s\" is not a valid field to query.\n\n", name), 2
		}
	}
	if header {
		b.WriteString(strings.Join(head, ", ") + "\n")
	}
	for _, g := range gpus {
		for _, p := range g.Processes {
			cells := make([]string, len(names))
			for i, name := range names {
				switch name {
				case "gpu_uuid":
					cells[i] = g.UUID
				case "gpu_name":
					cells[i] = g.Name
				case "gpu_bus_id":
					cells[i] = g.Bus
				case "pid":
					cells[i] = strconv.Itoa(p.PID)
				case "process_name", "name":
					cells[i] = p.Name
				default:
					cells[i] = strconv.Itoa(p.UsedMiB)
					if units {
						cells[i] += " MiB"
					}
				}
			}
			b.WriteString(strings.Join(cells, ", ") + "\n")
		}
	}
	return b.String(), 0
}

// table is what nvidia-smi prints without arguments.
func (n *Node) table(gpus []GPU) string {
	const (
		edge  = "+-----------------------------------------+------------------------+----------------------+\n"
		outer = "+-----------------------------------------------------------------------------------------+\n"
	)
	b := &strings.Builder{}
	b.WriteString(n.Now().Format("Mon Jan _2 15:04:05 2006") + "       \n" + outer)
	fmt.Fprintf(b, "| NVIDIA-SMI %-22s Driver Version: %-14s CUDA Version: %-9s|\n", driverVersion, driverVersion, cudaVersion)
	b.WriteString(edge +
		"| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n" +
		"| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |\n" +
		"|                                         |                        |               MIG M. |\n" +
		"|=========================================+========================+======================|\n")
	for _, g := range gpus {
		name := g.Name
		if len(name) > 27 {
			name = name[:24] + "..."
		}
		if g.Lost {
			fmt.Fprintf(b, "| %3d  %-27s    On |   %s Off |                 ERR! |\n", g.Index, name, g.Bus)
			b.WriteString("|ERR!  ERR! ERR!             ERR! / ERR!  |       ERR!  /  ERR!    |     ERR!      Default |\n")
			b.WriteString("|                                         |                        |                 ERR! |\n" + edge)
			continue
		}
		fmt.Fprintf(b, "| %3d  %-27s    On |   %s Off | %20d |\n", g.Index, name, g.Bus, g.ECC)
		fmt.Fprintf(b, "| N/A  %3dC    %-3s         %4.0fW / %4.0fW | %7dMiB / %6dMiB |    %3d%%      Default |\n",
			g.Temp, g.PState, g.Power, g.PowerLimit, g.UsedMiB, g.TotalMiB, g.Util)
		b.WriteString("|                                         |                        |             Disabled |\n" + edge)
	}
	b.WriteString("\n" + outer +
		"| Processes:                                                                              |\n" +
		"|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |\n" +
		"|        ID   ID                                                               Usage      |\n" +
		"|=========================================================================================|\n")
	none := true
	for _, g := range gpus {
		for _, p := range g.Processes {
			none = false
			fmt.Fprintf(b, "| %4d   N/A  N/A   %13d      C   %-35s %6dMiB |\n", g.Index, p.PID, p.Name, p.UsedMiB)
		}
	}
	if none {
		b.WriteString("|  No running processes found                                                             |\n")
	}
	b.WriteString(outer)
	return b.String()
}
