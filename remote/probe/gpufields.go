package probe

import (
	"slices"
	"strings"
)

// What is asked of nvidia-smi, each field with its older names. The stream
// holds what changes and stays short: it comes every second for every card.
var (
	streamFields = [][]string{
		{"index"}, {"memory.used"}, {"memory.free"}, {"utilization.gpu"}, {"utilization.memory"},
		{"temperature.gpu"}, {"temperature.memory"}, {"power.draw"}, {"clocks.current.sm", "clocks.sm"},
		{"clocks_event_reasons.active", "clocks_throttle_reasons.active"},
		{"ecc.errors.uncorrected.volatile.total"}, {"gpu_recovery_action"}, {"pstate"},
	}
	staticFields = [][]string{
		{"index"}, {"uuid", "gpu_uuid"}, {"name", "gpu_name"}, {"pci.bus_id", "gpu_bus_id"}, {"driver_version"},
		{"memory.total"}, {"memory.reserved"}, {"power.limit"}, {"power.default_limit"}, {"clocks.max.sm"},
		{"mig.mode.current"}, {"ecc.mode.current"}, {"persistence_mode"}, {"compute_mode"},
	}
	// Fields that every driver knows, for when the list cannot be read.
	coreStream = []string{"index", "memory.used", "memory.free", "utilization.gpu", "temperature.gpu", "power.draw"}
	coreStatic = []string{"index", "uuid", "name", "pci.bus_id", "driver_version", "memory.total", "power.limit"}
)

const appFields = "pid,process_name,used_memory,gpu_uuid"

// chooseFields intersects what we want with the output of --help-query-gpu,
// where each field's names stand in quotes at the start of a line: one unknown
// field would fail the whole query.
func chooseFields(help string) (stream, static []string) {
	known := map[string]bool{}
	for line := range strings.Lines(help) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, `"`) {
			for i, word := range strings.Split(line, `"`) {
				if i%2 == 1 {
					known[word] = true
				}
			}
		}
	}
	if !known["index"] || !known["memory.used"] {
		return coreStream, coreStatic
	}
	pick := func(fields [][]string) (out []string) {
		for _, names := range fields {
			if i := slices.IndexFunc(names, func(n string) bool { return known[n] }); i >= 0 {
				out = append(out, names[i])
			}
		}
		return out
	}
	return pick(streamFields), pick(staticFields)
}

// refusedField is the field that a driver says it does not know, "" for none.
func refusedField(text string) string {
	_, rest, ok := strings.Cut(text, `Field "`)
	if !ok {
		return ""
	}
	name, rest, ok := strings.Cut(rest, `"`)
	if !ok || !strings.Contains(rest, "not a valid field") {
		return ""
	}
	return name
}

// isRow tells a row of the query from a message: the index is its first cell.
func isRow(line string, fields int) bool {
	cells := strings.Split(line, ",")
	if len(cells) < fields {
		return false
	}
	first := strings.TrimSpace(cells[0])
	return first != "" && strings.Trim(first, "0123456789") == "" || strings.HasPrefix(first, "[") || first == "N/A"
}

// indexOf is a row's index, -1 where the card does not tell it.
func indexOf(line string) int {
	first, _, _ := strings.Cut(line, ",")
	if first = strings.TrimSpace(first); first == "" || strings.Trim(first, "0123456789") != "" {
		return -1
	}
	return int(number(first))
}
