package nvidia

import "bytes"

// What the probe asks for, best name first. The stream holds what changes, and
// is kept short because it is sent every second for every card.
var (
	streamWish = [][]string{
		{"index"}, {"memory.used"}, {"memory.free"}, {"utilization.gpu"}, {"utilization.memory"},
		{"temperature.gpu"}, {"temperature.memory"}, {"power.draw"}, {"clocks.current.sm", "clocks.sm"},
		{"clocks_event_reasons.active", "clocks_throttle_reasons.active"},
		{"ecc.errors.uncorrected.volatile.total"}, {"gpu_recovery_action"}, {"pstate"},
	}
	staticWish = [][]string{
		{"index"}, {"uuid", "gpu_uuid"}, {"name", "gpu_name"}, {"pci.bus_id", "gpu_bus_id"}, {"driver_version"},
		{"memory.total"}, {"memory.reserved"}, {"power.limit"}, {"power.default_limit"},
		{"clocks.max.sm"}, {"mig.mode.current"}, {"ecc.mode.current"}, {"persistence_mode"}, {"compute_mode"},
	}
	// Every driver since 2014 knows these; they are asked for where the list of
	// fields could not be read.
	streamCore = []string{"index", "memory.used", "memory.free", "utilization.gpu", "temperature.gpu", "power.draw"}
	staticCore = []string{"index", "uuid", "name", "pci.bus_id", "driver_version", "memory.total", "power.limit"}
)

// Fields chooses what to ask nvidia-smi for, from the output of
// --help-query-gpu: one field that the driver does not know fails the whole
// query. Without a usable list it gives a core that every driver knows.
func Fields(helpQueryGPU []byte) (stream, static []string) {
	known := map[string]bool{}
	for line := range bytes.Lines(helpQueryGPU) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] != '"' {
			continue
		}
		for i, tok := range bytes.Split(line, []byte{'"'}) {
			if i%2 == 1 {
				known[string(tok)] = true
			}
		}
	}
	if !known["index"] || !known["memory.used"] {
		return streamCore, staticCore
	}
	return choose(streamWish, known), choose(staticWish, known)
}

func choose(wish [][]string, known map[string]bool) []string {
	var out []string
	for _, names := range wish {
		for _, n := range names {
			if known[n] {
				out = append(out, n)
				break
			}
		}
	}
	return out
}

// Without gives fields less the named one, for the driver that refuses it.
func Without(fields []string, bad string) []string {
	var out []string
	for _, f := range fields {
		if Canonical(f) != Canonical(bad) {
			out = append(out, f)
		}
	}
	return out
}
