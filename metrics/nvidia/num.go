// Package nvidia reads what GPU tools print: nvidia-smi in all its forms, and
// for captured files gpustat and rocm-smi. It takes bytes and returns values;
// it runs nothing. A cell that is not a number is unknown and keeps its text.
package nvidia

import (
	"strconv"
	"strings"

	"github.com/runvigil/runvigil/metrics"
)

// Why says what a cell held instead of a number.
type Why uint8

// The reasons a figure is not known, from harmless to alarming.
const (
	NotAsked   Why = iota // the field was not in the output
	NotThere              // N/A, -, empty: this card or mode has no such figure
	NotAllowed            // Insufficient Permissions: usual for MIG inside a container
	Cut                   // the tool shortened the number ("10340...")
	Odd                   // some other text
	Failed                // ERR!, Unknown Error: the driver could not read it
	NeedsReset            // GPU requires reset
	Lost                  // GPU is lost: it has fallen off the bus
)

// Num is one figure. V counts only where OK; otherwise Raw and Why tell what
// stood there. Units are those of the field.
type Num struct {
	V   float64
	OK  bool
	Raw string
	Why Why
}

// maxRaw bounds the text kept of a cell that is not a number.
const maxRaw = 80

// ParseNum reads a cell with or without its unit: "81002MiB", "11.40 W",
// "0 %", "36c", "0x0000000000000004". Memory is turned into MiB and clocks
// into MHz where the cell says another unit; every other unit is dropped.
func ParseNum(cell string) Num {
	s := strings.TrimSpace(cell)
	if hex, ok := strings.CutPrefix(s, "0x"); ok {
		if v, err := strconv.ParseUint(hex, 16, 64); err == nil {
			return Num{V: float64(v), OK: true, Raw: s}
		}
	}
	end := 0
	for end < len(s) && (s[end] >= '0' && s[end] <= '9' || s[end] == '.' || end == 0 && s[end] == '-') {
		end++
	}
	if v, err := strconv.ParseFloat(s[:end], 64); err == nil && !strings.HasSuffix(s[:end], ".") {
		if scale, ok := unit(strings.TrimSpace(s[end:])); ok {
			return Num{V: v * scale, OK: true, Raw: clip(s)}
		}
	}
	return Num{Raw: clip(s), Why: whyNot(s)}
}

// unit gives the factor to the unit that the field is kept in.
func unit(u string) (float64, bool) {
	switch strings.ToLower(u) {
	case "", "%", "w", "c", "°c", "'c", "mhz", "mib", "mb", "us", "rpm", "kb/s", "mb/s":
		return 1, true
	case "kib", "kb":
		return 1.0 / 1024, true
	case "gib", "gb":
		return 1024, true
	case "ghz":
		return 1000, true
	case "mw":
		return 1e-3, true
	}
	return 0, false
}

func whyNot(s string) Why {
	t := strings.ToLower(strings.Trim(s, "[] \t"))
	switch {
	case t == "", t == "n/a", t == "-", t == "not supported", t == "none", t == "not available",
		t == "not found", strings.Contains(t, "deprecated"):
		return NotThere
	case strings.Contains(t, "is lost"), t == "lost":
		return Lost
	case strings.Contains(t, "reset"):
		return NeedsReset
	case strings.Contains(t, "permission"):
		return NotAllowed
	case strings.Contains(t, "err"):
		return Failed
	case strings.HasSuffix(t, "..."):
		return Cut
	}
	return Odd
}

func clip(s string) string { return clipTo(s, maxRaw) }

func clipTo(s string, n int) string { return metrics.Clean(s, n) }

// word is a cell of text: "" where the tool had nothing to say.
func word(cell string) string {
	if s := strings.TrimSpace(cell); whyNot(s) == Odd {
		return clip(s)
	}
	return ""
}
