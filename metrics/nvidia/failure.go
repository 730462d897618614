package nvidia

import (
	"bytes"
	"slices"
	"strings"

	"github.com/runvigil/runvigil/metrics"
)

// Failure is a tool that could not answer, or not for some cards.
type Failure struct {
	// Cause is empty for a fault of the question (an unknown field, no GPU at all).
	Cause metrics.Cause
	Kind  FailureKind
	Text  string   // the line that says it, cleaned
	Bus   []string // bus ids of the cards named, each once
	Lib   string   // version of the library, for a mismatch
	Field string   // the field that this driver does not know
}

// FailureKind is what exactly went wrong.
type FailureKind string

// The failures of nvidia-smi as a whole.
const (
	NoDevices    FailureKind = "no-devices"    // a driver and no card
	Mismatch     FailureKind = "mismatch"      // kernel module and library differ
	NoDriver     FailureKind = "no-driver"     // the module is not loaded
	NoLibrary    FailureKind = "no-library"    // libnvidia-ml is not there
	NoTool       FailureKind = "no-tool"       // nvidia-smi itself is not there
	DeviceDenied FailureKind = "device-denied" // NVML: Unknown Error, permissions: the container lost its devices
	DeviceHandle FailureKind = "device-handle" // one card cannot be opened
	DeviceLost   FailureKind = "device-lost"   // one card has fallen off the bus
	DeviceReset  FailureKind = "device-reset"  // one card wants a reset
	BadField     FailureKind = "bad-field"     // the query names an unknown field
	BadOption    FailureKind = "bad-option"    // the command line is not understood
	OtherFailure FailureKind = "other"         // NVML failed in another way
)

type pattern struct {
	has   string
	kind  FailureKind
	cause metrics.Cause
}

// patterns are tried in order; the first that a line holds decides. All lower case.
var patterns = []pattern{
	{"driver/library version mismatch", Mismatch, metrics.CauseDriverMismatch},
	{"api mismatch", Mismatch, metrics.CauseDriverMismatch},
	{"is not a valid field to query", BadField, ""},
	{"gpu is lost", DeviceLost, metrics.CauseGPULost},
	{"fallen off the bus", DeviceLost, metrics.CauseGPULost},
	{"gpu requires reset", DeviceReset, metrics.CauseGPULost},
	{"unable to determine the device handle", DeviceHandle, metrics.CauseGPULost},
	{"communicate with the nvidia driver", NoDriver, metrics.CauseDriverNotLoaded},
	{"driver not loaded", NoDriver, metrics.CauseDriverNotLoaded},
	{"couldn't find libnvidia-ml", NoLibrary, metrics.CauseDriverNotLoaded},
	{"nvml shared library not found", NoLibrary, metrics.CauseDriverNotLoaded},
	{"failed to initialize nvml: insufficient permissions", DeviceDenied, metrics.CauseDriverNotLoaded},
	{"failed to initialize nvml: unknown error", DeviceDenied, metrics.CauseDriverNotLoaded},
	{"failed to initialize nvml", OtherFailure, metrics.CauseDriverNotLoaded},
	{"no devices were found", NoDevices, ""},
	{"nvidia-smi: command not found", NoTool, metrics.CauseDriverNotLoaded},
	{"nvidia-smi: not found", NoTool, metrics.CauseDriverNotLoaded},
	{"nvidia-smi: no such file", NoTool, metrics.CauseDriverNotLoaded},
	{"is not recognized", BadOption, ""},
	{"invalid combination of input arguments", BadOption, ""},
}

// Classify finds what a whole-command failure says, in stdout or stderr of
// nvidia-smi or in a log that quotes them. The same card named many times is
// one card.
func Classify(out []byte) (Failure, bool) {
	var f Failure
	found := false
	for raw := range bytes.Lines(out) {
		if len(raw) > 4096 {
			raw = raw[:4096]
		}
		line := plainQuotes(string(bytes.TrimSpace(raw)))
		low := strings.ToLower(line)
		if v, ok := strings.CutPrefix(low, "nvml library version:"); ok && found {
			f.Lib = clip(strings.TrimSpace(v))
			continue
		}
		i := slices.IndexFunc(patterns, func(p pattern) bool { return strings.Contains(low, p.has) })
		if i < 0 {
			continue
		}
		if !found {
			found = true
			f.Kind, f.Cause, f.Text = patterns[i].kind, patterns[i].cause, clipTo(line, 300)
			if f.Kind == BadField {
				f.Field = quoted(line)
			}
		}
		if bus := busID(line); bus != "" && !slices.Contains(f.Bus, bus) {
			f.Bus = append(f.Bus, bus)
		}
	}
	if !found && len(out) < maxFolded && bytes.IndexByte(bytes.TrimSpace(out), '\n') >= 0 {
		return Classify(bytes.Join(bytes.Fields(out), []byte(" "))) // a message that a terminal folded
	}
	return f, found
}

// maxFolded bounds an output that may be one folded message.
const maxFolded = 1024

// plainQuotes turns typographic apostrophes, which copies of messages hold,
// into plain ones.
func plainQuotes(s string) string {
	return strings.NewReplacer("’", "'", "‘", "'", "´", "'", "`", "'").Replace(s)
}

func quoted(line string) string {
	_, rest, ok := strings.Cut(line, `"`)
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, `"`)
	return clip(name)
}

// busID finds a PCI address (domain:bus:device.function, domain of four or
// eight digits) and gives it in upper case.
func busID(line string) string {
	for dot := 10; dot+1 < len(line); dot++ {
		if line[dot] != '.' || !isHex(line[dot+1]) || line[dot-3] != ':' || line[dot-6] != ':' ||
			!allHex(line[dot-2:dot]) || !allHex(line[dot-5:dot-3]) {
			continue
		}
		end := dot - 6
		start := end
		for start > 0 && end-start < 8 && isHex(line[start-1]) {
			start--
		}
		if end-start >= 4 {
			return strings.ToUpper(line[start : dot+2])
		}
	}
	return ""
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func allHex(s string) bool {
	for i := range len(s) {
		if !isHex(s[i]) {
			return false
		}
	}
	return true
}
