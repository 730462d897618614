package nvidia

import (
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// Row is one GPU (or one MIG device) at one moment. Fields that were not in the
// output keep their zero value: an unknown Num, an empty string, Index -1.
type Row struct {
	Timestamp string // as printed, node's local time
	Index     int    // -1 unknown
	UUID      string
	Name      string
	BusID     string
	Driver    string

	MemTotal    Num // MiB
	MemUsed     Num // MiB
	MemFree     Num // MiB
	MemReserved Num // MiB
	Util        Num // % of time in which some kernel ran
	MemUtil     Num // % of time in which memory was read or written
	MemPercent  Num // % of memory used, where a tool tells only that
	Temp        Num // °C
	TempMem     Num // °C
	TempSlow    Num // °C at which the card slows down
	Power       Num // W, averaged by the driver where the card does so
	PowerNow    Num // W, instant
	PowerLimit  Num // W
	PowerMax    Num // W, default limit
	ClockSM     Num // MHz
	ClockMem    Num // MHz
	ClockMaxSM  Num // MHz
	Fan         Num // %
	ECC         Num // uncorrected errors since the driver was loaded
	Throttle    Num // bit mask of clock event reasons
	PViol       Num // % of time held back by power
	TViol       Num // held back by temperature (a flag or %, as dmon prints)

	PState   string
	MIG      string // Enabled, Disabled, ""
	ECCMode  string
	Persist  string
	Compute  string
	Recovery string // gpu_recovery_action: None, Reset, Reboot, …

	// Reasons are the active clock event reasons, in the driver's words.
	Reasons []string
	// Extra holds cells of fields that are not listed above, by field name.
	Extra map[string]string

	GI, CI, Device int         // MIG device: its instance ids; -1 for a whole GPU
	Instances      []Row       // MIG devices of this GPU
	Procs          []App       // processes listed with this GPU
	ProcsUnknown   bool        // the tool says that it cannot list processes
	bad            map[Why]int // cells by what was wrong with them
}

func newRow() Row { return Row{Index: -1, GI: -1, CI: -1, Device: -1} }

// Health is what the cells of a row say about the card itself.
type Health uint8

// The states of a card, from fine to gone.
const (
	Fine    Health = iota
	Suspect        // several figures could not be read (ERR!, Unknown Error)
	Reset          // the card asks for a reset
	Gone           // the card is lost
)

// Health judges the row. One unreadable figure (a fan, a default limit) is a
// quirk of a card; a card that fails answers nothing about memory, load or heat.
func (r *Row) Health() Health {
	action := strings.ToLower(r.Recovery)
	switch {
	case r.bad[Lost] > 0:
		return Gone
	case r.bad[NeedsReset] > 0 || strings.Contains(action, "reset") || strings.Contains(action, "reboot"):
		return Reset
	}
	broken := 0
	for _, n := range []Num{r.MemUsed, r.Util, r.Temp, r.Power} {
		if n.Why == Failed && !n.OK {
			broken++
		}
	}
	if broken >= 2 {
		return Suspect
	}
	return Fine
}

// Unified tells whether the card shares the host's memory: it has a load or a
// temperature, or a driver's table row, but no memory figures at all.
func (r *Row) Unified() bool {
	none := func(n Num) bool { return !n.OK && n.Why == NotThere }
	if r.MIG == "Enabled" || !none(r.MemTotal) || !none(r.MemUsed) {
		return false
	}
	return r.MemTotal.Raw != "" || r.MemUsed.Raw != ""
}

// reasonNames are the bits of clocks_event_reasons.active (NVML's
// nvmlClocksEventReason constants).
var reasonNames = [...]string{
	"GPU Idle", "Applications Clocks Setting", "SW Power Cap", "HW Slowdown", "Sync Boost",
	"SW Thermal Slowdown", "HW Thermal Slowdown", "HW Power Brake Slowdown", "Display Clock Setting",
}

// Reasons names the bits of a clock event mask.
func Reasons(mask uint64) []string {
	var out []string
	for mask != 0 {
		b := bits.TrailingZeros64(mask)
		mask &^= 1 << b
		if b < len(reasonNames) {
			out = append(out, reasonNames[b])
		} else {
			out = append(out, "bit "+strconv.Itoa(b))
		}
	}
	return out
}

// Throttled lists the active reasons that cost speed: heat, power and slowdowns,
// not idleness or a clock that somebody set.
func (r *Row) Throttled() []string {
	var out []string
	for _, s := range r.Reasons {
		if strings.Contains(s, "Slowdown") || strings.Contains(s, "Power Cap") {
			out = append(out, s)
		}
	}
	return out
}

// setter stores one cell in a row.
type setter func(*Row, string)

func num(at func(*Row) *Num) setter {
	return func(r *Row, cell string) {
		n := ParseNum(cell)
		*at(r) = n
		r.note(n)
	}
}

func (r *Row) note(n Num) {
	if n.OK || n.Why < Failed {
		return
	}
	if r.bad == nil {
		r.bad = map[Why]int{}
	}
	r.bad[n.Why]++
}

func text(at func(*Row) *string) setter {
	return func(r *Row, cell string) {
		*at(r) = word(cell)
		r.note(Num{Why: whyNot(strings.TrimSpace(cell))})
	}
}

// setters maps canonical field names of --query-gpu to where they go.
var setters = map[string]setter{
	"timestamp":                             text(func(r *Row) *string { return &r.Timestamp }),
	"index":                                 setIndex,
	"uuid":                                  text(func(r *Row) *string { return &r.UUID }),
	"name":                                  text(func(r *Row) *string { return &r.Name }),
	"pci.bus_id":                            text(func(r *Row) *string { return &r.BusID }),
	"driver_version":                        text(func(r *Row) *string { return &r.Driver }),
	"memory.total":                          num(func(r *Row) *Num { return &r.MemTotal }),
	"memory.used":                           num(func(r *Row) *Num { return &r.MemUsed }),
	"memory.free":                           num(func(r *Row) *Num { return &r.MemFree }),
	"memory.reserved":                       num(func(r *Row) *Num { return &r.MemReserved }),
	"utilization.gpu":                       num(func(r *Row) *Num { return &r.Util }),
	"utilization.memory":                    num(func(r *Row) *Num { return &r.MemUtil }),
	"temperature.gpu":                       num(func(r *Row) *Num { return &r.Temp }),
	"temperature.memory":                    num(func(r *Row) *Num { return &r.TempMem }),
	"power.draw":                            num(func(r *Row) *Num { return &r.Power }),
	"power.draw.instant":                    num(func(r *Row) *Num { return &r.PowerNow }),
	"power.limit":                           num(func(r *Row) *Num { return &r.PowerLimit }),
	"power.default_limit":                   num(func(r *Row) *Num { return &r.PowerMax }),
	"clocks.current.sm":                     num(func(r *Row) *Num { return &r.ClockSM }),
	"clocks.current.memory":                 num(func(r *Row) *Num { return &r.ClockMem }),
	"clocks.max.sm":                         num(func(r *Row) *Num { return &r.ClockMaxSM }),
	"fan.speed":                             num(func(r *Row) *Num { return &r.Fan }),
	"ecc.errors.uncorrected.volatile.total": num(func(r *Row) *Num { return &r.ECC }),
	"clocks_event_reasons.active":           setThrottle,
	"pstate":                                text(func(r *Row) *string { return &r.PState }),
	"mig.mode.current":                      text(func(r *Row) *string { return &r.MIG }),
	"ecc.mode.current":                      text(func(r *Row) *string { return &r.ECCMode }),
	"persistence_mode":                      text(func(r *Row) *string { return &r.Persist }),
	"compute_mode":                          text(func(r *Row) *string { return &r.Compute }),
	"gpu_recovery_action":                   text(func(r *Row) *string { return &r.Recovery }),
}

// aliases are other names of the same fields, as drivers and headers print them.
var aliases = map[string]string{
	"gpu_uuid": "uuid", "gpu_name": "name", "gpu_bus_id": "pci.bus_id", "gpu_index": "index",
	"power.draw.average": "power.draw", "enforced.power.limit": "power.limit",
	"clocks.sm": "clocks.current.sm", "clocks.mem": "clocks.current.memory",
	"clocks.gr": "clocks.current.graphics", "clocks.max.graphics": "clocks.max.gr",
	"clocks_throttle_reasons.active": "clocks_event_reasons.active",
	"mig.mode":                       "mig.mode.current",
}

// Canonical turns a field name as asked for or as a header prints it
// ("memory.used [MiB]", "clocks_throttle_reasons.active") into the one name
// under which this package knows it.
func Canonical(field string) string {
	f := strings.ToLower(strings.TrimSpace(field))
	if i := strings.IndexByte(f, '['); i > 0 {
		f = strings.TrimSpace(f[:i])
	}
	if a, ok := aliases[f]; ok {
		return a
	}
	if rest, ok := strings.CutPrefix(f, "clocks_throttle_reasons."); ok {
		return "clocks_event_reasons." + rest
	}
	return f
}

func setIndex(r *Row, cell string) {
	if n, err := strconv.Atoi(strings.TrimSpace(cell)); err == nil && n >= 0 && n < 1<<16 {
		r.Index = n
		return
	}
	r.note(Num{Why: whyNot(strings.TrimSpace(cell))})
}

func setThrottle(r *Row, cell string) {
	r.Throttle = ParseNum(cell)
	r.note(r.Throttle)
	if hex, ok := strings.CutPrefix(strings.TrimSpace(cell), "0x"); ok {
		if v, err := strconv.ParseUint(hex, 16, 64); err == nil {
			r.Reasons = Reasons(v)
		}
	}
}

// set stores one cell by canonical field name. Single event reasons
// (clocks_event_reasons.sw_power_cap = Active) become names in Reasons.
func (r *Row) set(field, cell string) {
	if s, ok := setters[field]; ok {
		s(r, cell)
		return
	}
	if reason, ok := strings.CutPrefix(field, "clocks_event_reasons."); ok {
		if strings.TrimSpace(cell) == "Active" {
			r.addReason(reason)
		}
		return
	}
	n := ParseNum(cell)
	r.note(n)
	if r.Extra == nil {
		r.Extra = map[string]string{}
	}
	r.Extra[clip(field)] = clip(strings.TrimSpace(cell))
	if field == "clocks.current.graphics" && r.ClockSM.Raw == "" {
		r.ClockSM = n
	}
}

// addReason adds an active reason given as "sw_power_cap" or "SW Power Cap".
func (r *Row) addReason(name string) {
	flat := func(s string) string { return strings.ToLower(strings.NewReplacer("_", "", " ", "").Replace(s)) }
	f := strings.TrimSuffix(flat(name), "s")
	for _, known := range reasonNames {
		if strings.TrimSuffix(flat(known), "s") == f || flat(known) == "gpu"+f {
			name = known
			break
		}
	}
	if name = clip(name); !slices.Contains(r.Reasons, name) {
		r.Reasons = append(r.Reasons, name)
	}
}
