package nvidia

import (
	"bytes"
	"slices"
	"strings"
)

// Format is a form of output that this package reads.
type Format string

// The formats.
const (
	FormatTable   Format = "nvidia-smi"
	FormatList    Format = "nvidia-smi -L"
	FormatQuery   Format = "nvidia-smi -q"
	FormatXML     Format = "nvidia-smi -q -x"
	FormatCSV     Format = "nvidia-smi --query-gpu"
	FormatApps    Format = "nvidia-smi --query-compute-apps"
	FormatDmon    Format = "nvidia-smi dmon"
	FormatPmon    Format = "nvidia-smi pmon"
	FormatGPUStat Format = "gpustat"
	FormatRocm    Format = "rocm-smi"
	FormatNPU     Format = "npu-smi"
	FormatFailure Format = "nvidia-smi failure"
)

// Report is what one captured output says. Where it holds several rounds, Rows
// are the latest of each GPU.
type Report struct {
	Format       Format
	Driver       string // "" where not told
	CUDA         string
	Rows         []Row
	Procs        []App
	ProcsUnknown bool // the tool could not list processes
	Failures     []Failure
	MemTotalKB   Num // the host's, where /proc/meminfo lines stand beside the output
	MemAvailKB   Num
	Rounds       int // samples seen, 1 for a single output
}

// maxRows bounds what a hostile file can make us keep.
const maxRows = 4096

// ParseAny recognises the format of a captured file and reads it. ok is false
// where nothing in it is the output of a GPU tool.
func ParseAny(data []byte) (Report, bool) {
	lines := splitLines(data)
	var r Report
	switch f := Sniff(data); f {
	case FormatXML:
		r = parseXML(data)
	case FormatTable:
		r = parseTable(lines)
	case FormatQuery:
		r = parseText(lines)
	case FormatDmon, FormatPmon:
		r = parseMon(lines)
	case FormatGPUStat:
		r = parseGPUStat(lines)
	case FormatRocm:
		r = parseRocm(lines)
	case FormatNPU:
		r = parseNPU(lines)
	case FormatList:
		r = parseList(lines)
	default:
		r = parseCSV(lines)
	}
	if f, bad := Classify(data); bad {
		r.Failures = append(r.Failures, f)
		if len(r.Rows) == 0 && len(r.Procs) == 0 {
			r.Format = FormatFailure
		}
	}
	if len(r.Rows) == 0 && r.Format != FormatCSV {
		// A capture may hold several commands; csv parts are looked for in each.
		if c := parseCSV(lines); len(c.Rows)+len(c.Procs) > 0 {
			r.Rows, r.Format = c.Rows, c.Format
			r.Procs = append(r.Procs, c.Procs...)
		}
	} else if r.Format == FormatGPUStat {
		r.Procs = append(r.Procs, parseCSV(lines).Procs...)
	}
	hostMemory(&r, lines)
	return r, len(r.Rows)+len(r.Procs)+len(r.Failures) > 0 || r.ProcsUnknown
}

// Sniff names the format of captured bytes by marks that only it has; CSV is
// what is left.
func Sniff(data []byte) Format {
	head := data[:min(len(data), 64<<10)]
	has := func(s string) bool { return bytes.Contains(head, []byte(s)) }
	switch {
	case has("<nvidia_smi_log>") || has("<!DOCTYPE nvidia_smi_log"):
		return FormatXML
	case has("==NVSMI LOG==") || has("Attached GPUs"):
		return FormatQuery
	case has("| NVIDIA-SMI ") || has("Volatile Uncorr. ECC") || has("GPU Memory |") || has("Pwr:Usage/Cap"):
		return FormatTable
	case has("ROCm System Management Interface") || has("ROCm SMI") || has("VRAM_USED") || has("GPU[0]") && has("(%)"):
		return FormatRocm
	case has("npu-smi "):
		return FormatNPU
	}
	for _, l := range splitLines(head) {
		f := strings.Fields(strings.TrimPrefix(l, "\\"))
		switch {
		case len(f) > 3 && f[0][0] == '#' && (slices.Contains(f, "gpu") || f[0] == "#gpu"):
			if slices.Contains(f, "pid") {
				return FormatPmon
			}
			return FormatDmon
		case isGPUStat(l):
			return FormatGPUStat
		case strings.HasPrefix(l, "GPU ") && strings.Contains(l, "(UUID: "):
			return FormatList
		}
	}
	return FormatCSV
}

// splitLines cuts at newlines, takes off carriage returns, the quote marks that
// copies in issues and mails hold, and NUL bytes.
func splitLines(data []byte) []string {
	var out []string
	for raw := range bytes.Lines(data) {
		if len(raw) > 64<<10 {
			raw = raw[:64<<10]
		}
		s := strings.TrimRight(strings.ReplaceAll(string(raw), "\x00", ""), "\r\n \t")
		s = strings.TrimPrefix(s, "> ")
		out = append(out, s)
	}
	return out
}

func hostMemory(r *Report, lines []string) {
	for _, l := range lines {
		key, val, ok := strings.Cut(strings.TrimSpace(l), ":")
		if !ok {
			continue
		}
		n := strings.TrimSuffix(strings.TrimSpace(val), " kB")
		switch key {
		case "MemTotal":
			r.MemTotalKB = ParseNum(n)
		case "MemAvailable":
			r.MemAvailKB = ParseNum(n)
		}
	}
}

// keep puts a row in the report, in place of an earlier round of the same GPU.
func (r *Report) keep(row Row) {
	for i := range r.Rows {
		if row.Index >= 0 && r.Rows[i].Index == row.Index || row.Index < 0 && row.UUID != "" && r.Rows[i].UUID == row.UUID {
			if i == 0 {
				r.Rounds++
			}
			r.Rows[i] = row
			return
		}
	}
	if r.Rounds == 0 {
		r.Rounds = 1
	}
	if len(r.Rows) < maxRows {
		r.Rows = append(r.Rows, row)
	}
}

func (r *Report) addProc(a App) {
	for i := range r.Procs {
		if r.Procs[i].PID == a.PID && a.PID > 0 && r.Procs[i].GPU == a.GPU && r.Procs[i].UUID == a.UUID {
			r.Procs[i] = a
			return
		}
	}
	if len(r.Procs) < maxRows {
		r.Procs = append(r.Procs, a)
	}
}
