package kernel

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/runvigil/runvigil/metrics"
)

const (
	maxLine = 8 << 10 // of a line, what is read
	maxText = 300
)

// Parser turns kernel log lines into events. Bytes come in chunks of any size;
// memory is bounded. The zero Parser is ready.
type Parser struct {
	cut metrics.LineCutter
	// adjAt is the column of oom_score_adj in the OOM killer's table, counted
	// behind the pid; 0 where the header was not seen.
	adjAt int
}

// Feed takes the next bytes and hands each event to emit. The event is valid
// only during the call; its strings may be kept.
func (p *Parser) Feed(chunk []byte, emit func(*Event)) {
	p.cut.Feed(chunk, func(line int64, b []byte) { p.one(line, b, emit) })
}

// Flush takes a last line that has no newline.
func (p *Parser) Flush(emit func(*Event)) {
	p.cut.Flush(func(line int64, b []byte) { p.one(line, b, emit) })
}

// triggers are what a line must hold to be read at all.
var triggers = [][]byte{
	[]byte("NVRM"), []byte("Xid"), []byte("oom"), []byte("ut of memory"), []byte("Killed process"), []byte("segfault"),
	[]byte("blocked for more than"), []byte("fallen off"), []byte("amdgpu"),
}

func (p *Parser) one(line int64, b []byte, emit func(*Event)) {
	b = bytes.TrimRight(b[:min(len(b), maxLine)], "\r\n \x00")
	if len(b) == 0 {
		return
	}
	hit := false
	for _, w := range triggers {
		if bytes.Contains(b, w) {
			hit = true
			break
		}
	}
	// A row of the OOM killer's table has no word by which to tell it.
	if !hit && bytes.Count(b, []byte{'['}) < 2 && !bytes.Contains(b, []byte("kernel: [")) {
		return
	}
	pre, msg := cutPrefix([]byte(metrics.Clean(string(b), maxLine)))
	if len(msg) == 0 {
		return
	}
	ev := Event{
		Line: line, At: pre.at, Year: pre.year, Uptime: pre.uptime, Xid: -1, GPU: -1, PID: -1,
		Diff: -1, Limit: -1, AnonRSSKB: -1, FileRSSKB: -1, TotalVMKB: -1,
		Text: metrics.Cut(string(msg), maxText),
	}
	if msg[0] == '[' && p.taskRow(msg, &ev) {
		emit(&ev)
		return
	}
	if hit && (gpuLine(msg, &ev) || memoryLine(msg, &ev) || otherLine(msg, &ev)) {
		emit(&ev)
	}
}

// gpuLine takes the lines of the GPU drivers.
func gpuLine(msg []byte, ev *Event) bool {
	if at := bytes.Index(msg, []byte("Xid (")); at >= 0 && at < 24 {
		return xidLine(msg[at+len("Xid ("):], ev)
	}
	if bytes.Contains(msg, []byte("fallen off the bus")) {
		ev.Kind, ev.Class, ev.Bus = KindLost, metrics.CauseGPULost, busOf(msg)
		return true
	}
	if bytes.Contains(msg[:min(len(msg), 60)], []byte("amdgpu")) {
		for _, w := range []string{"ring ", "page fault", "GPU reset", "GPU hang", "uncorrectable"} {
			if bytes.Contains(msg, []byte(w)) {
				ev.Kind, ev.Class, ev.Bus = KindXid, metrics.CauseGPUXid, busOf(msg)
				ev.Consequence = w == "GPU reset"
				return true
			}
		}
		return false
	}
	rest, ok := bytes.CutPrefix(msg, []byte("NVRM: "))
	if !ok {
		return false
	}
	ev.Bus = busOf(rest)
	if bytes.HasPrefix(rest, []byte("GPU")) && len(rest) > 3 && rest[3] >= '0' && rest[3] <= '9' {
		end := 3
		for end < len(rest) && rest[end] >= '0' && rest[end] <= '9' {
			end++
		}
		ev.GPU = number(rest[3:end])
	}
	switch {
	case bytes.Contains(rest, []byte("RmInitAdapter failed")):
		ev.Kind, ev.Class = KindLost, metrics.CauseGPULost
	case bytes.Contains(rest, []byte("API mismatch")):
		ev.Kind, ev.Class = KindMismatch, metrics.CauseDriverMismatch
	case bytes.Contains(rest, []byte("Heartbeat timed out")), bytes.Contains(rest, []byte("GSP Timeout")), bytes.Contains(rest, []byte("_kgspLogRpcTimeout")),
		bytes.Contains(rest, []byte("Timeout waiting for RPC from GSP")), bytes.Contains(rest, []byte("_kgspRpcRecvPoll")):
		ev.Kind, ev.Class = KindGSP, metrics.CauseGPUFirmwareTimeout
		ev.Diff, ev.Limit = after(rest, " diff "), after(rest, " timeout ")
	case ev.GPU >= 0 && (bytes.Contains(rest, []byte("Timeout")) || bytes.Contains(rest, []byte("Error"))):
		// What the driver says of a GPU whose firmware is gone.
		ev.Kind, ev.Class, ev.Consequence = KindGSP, metrics.CauseGPUFirmwareTimeout, true
	default:
		return false
	}
	return true
}

// xidLine reads "PCI:0000:61:00): 119, pid=1346250, name=nvidia-smi, text".
func xidLine(b []byte, ev *Event) bool {
	end := bytes.IndexByte(b, ')')
	if end < 0 {
		return false
	}
	bus := strings.TrimPrefix(string(b[:end]), "PCI:")
	bus, _, _ = strings.Cut(bus, " ")
	rest := bytes.TrimLeft(b[end+1:], ": ")
	digits := 0
	for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
		digits++
	}
	xid := number(rest[:digits])
	if xid < 0 {
		return false
	}
	ev.Kind, ev.Xid, ev.Bus = KindXid, xid, metrics.Cut(bus, 40)
	ev.Class, ev.Consequence = xidClass(xid)
	for _, part := range bytes.Split(rest[digits:], []byte(", ")) {
		if v, ok := bytes.CutPrefix(part, []byte("pid=")); ok {
			ev.PID = number(v)
		} else if v, ok := bytes.CutPrefix(part, []byte("name=")); ok && string(v) != "<unknown>" {
			ev.Name = string(v)
		}
	}
	return true
}

// xidClass names the fault of an Xid number, and those which only report what
// the driver did about an earlier one.
func xidClass(xid int) (class metrics.Cause, consequence bool) {
	switch xid {
	case 79:
		return metrics.CauseGPULost, false
	case 48, 94, 95, 140:
		return metrics.CauseGPUECC, false
	case 63, 64:
		return metrics.CauseGPUECC, true // a row or page was taken out of use
	case 119, 120:
		return metrics.CauseGPUFirmwareTimeout, false
	case 45, 154:
		return metrics.CauseGPUXid, true // channels are removed, recovery is announced
	}
	return metrics.CauseGPUXid, false
}

// busOf finds a PCI address, 0000:0a:00; its function is left out, as the driver
// leaves it out of some lines.
func busOf(b []byte) string {
	for i := 0; i+7 <= len(b); i++ {
		if i > 0 && hex(b[i-1]) {
			continue
		}
		n := i
		for n < len(b) && n-i < 8 && hex(b[n]) {
			n++
		}
		if n-i >= 4 && n+6 <= len(b) && b[n] == ':' && hex(b[n+1]) && hex(b[n+2]) && b[n+3] == ':' && hex(b[n+4]) && hex(b[n+5]) {
			return string(b[i : n+6])
		}
	}
	return ""
}

func hex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// memoryLine takes the lines of the OOM killer.
func memoryLine(msg []byte, ev *Event) bool {
	ev.Cgroup = bytes.Contains(msg, []byte("Memory cgroup")) || bytes.Contains(msg, []byte("CONSTRAINT_MEMCG"))
	ev.ScoreAdj, ev.AdjKnown = signed(msg, "oom_score_adj")
	switch {
	case bytes.Contains(msg, []byte("invoked oom-killer")):
		ev.Kind, ev.Class, ev.Consequence = KindOOMInvoked, metrics.CauseHostOOMKilled, true
		name, _, _ := bytes.Cut(msg, []byte(" invoked"))
		ev.Name = string(name)
		return true
	case bytes.HasPrefix(msg, []byte("oom-kill:")):
		ev.Kind, ev.Class = KindOOMKill, metrics.CauseHostOOMKilled
		ev.PID = after(msg, ",pid=")
		if at := bytes.Index(msg, []byte(",task=")); at >= 0 {
			name := msg[at+len(",task="):]
			if end := bytes.Index(name, []byte(",pid=")); end >= 0 {
				name = name[:end]
			}
			ev.Name = string(name)
		}
		return true
	case bytes.HasPrefix(msg, []byte("oom_reaper: reaped process ")):
		ev.Kind, ev.Class, ev.Consequence = KindReaped, metrics.CauseHostOOMKilled, true
		victim(msg[len("oom_reaper: reaped process "):], ev)
		return true
	case bytes.HasPrefix(msg, []byte("[ ")) || bytes.Contains(msg, []byte("total_vm")) && bytes.Contains(msg, []byte("oom_score_adj")):
		return false
	}
	// The killers in user space: systemd-oomd names a control group, earlyoom a process.
	if bytes.Contains(msg, []byte("systemd-oomd")) && bytes.Contains(msg, []byte("Killed /")) {
		ev.Kind, ev.Class, ev.Cgroup = KindOOMKill, metrics.CauseHostOOMKilled, false
		return true
	}
	if bytes.Contains(msg, []byte("earlyoom")) && bytes.Contains(msg, []byte("sending SIG")) {
		ev.Kind, ev.Class, ev.PID = KindOOMKill, metrics.CauseHostOOMKilled, after(msg, "to process ")
		return true
	}
	for _, w := range []string{"Killed process ", "Kill process "} {
		at := bytes.Index(msg, []byte(w))
		if at < 0 || at > 60 {
			continue
		}
		ev.Kind, ev.Class = KindOOMKill, metrics.CauseHostOOMKilled
		victim(msg[at+len(w):], ev)
		ev.TotalVMKB, ev.AnonRSSKB, ev.FileRSSKB = after(msg, "total-vm:"), after(msg, "anon-rss:"), after(msg, "file-rss:")
		return ev.PID >= 0
	}
	return false
}

// victim reads "63270 (uwsgi)"; the name may hold parentheses and spaces.
func victim(b []byte, ev *Event) {
	digits := 0
	for digits < len(b) && b[digits] >= '0' && b[digits] <= '9' {
		digits++
	}
	ev.PID = number(b[:digits])
	rest := bytes.TrimLeft(b[digits:], ", ")
	if len(rest) == 0 || rest[0] != '(' {
		return
	}
	end := len(rest)
	for _, w := range []string{") total-vm", ") score", "), now", "), UID", ")"} {
		if at := bytes.Index(rest, []byte(w)); at > 0 {
			end = at
			break
		}
	}
	ev.Name = string(rest[1:end])
}

// taskRow reads a row of the OOM killer's table: [pid] uid tgid total_vm rss …
// oom_score_adj name, with or without the header that names the columns.
func (p *Parser) taskRow(msg []byte, ev *Event) bool {
	end := bytes.IndexByte(msg, ']')
	if end < 0 {
		return false
	}
	if string(bytes.TrimSpace(msg[1:end])) == "pid" || bytes.Contains(msg, []byte("oom_score_adj name")) {
		for i, f := range bytes.Fields(msg[end+1:]) {
			if string(f) == "oom_score_adj" {
				p.adjAt = i
			}
		}
		return false
	}
	pid := number(bytes.TrimSpace(msg[1:end]))
	if pid < 0 {
		return false
	}
	fields := bytes.Fields(msg[end+1:])
	adj := p.adjAt
	if adj == 0 {
		for adj < len(fields)-1 {
			if _, err := strconv.Atoi(string(fields[adj])); err != nil {
				break
			}
			adj++
		}
		adj--
	}
	if adj < 5 || adj+1 >= len(fields) || number(fields[1]) != pid {
		return false
	}
	v, err := strconv.Atoi(string(fields[adj]))
	if err != nil {
		return false
	}
	ev.Kind, ev.Class, ev.Consequence = KindOOMTask, metrics.CauseHostOOMKilled, true
	ev.PID, ev.ScoreAdj, ev.AdjKnown = pid, v, true
	ev.Name = string(bytes.Join(fields[adj+1:], []byte{' '}))
	const pageKB = 4
	if n := number(fields[2]); n >= 0 {
		ev.TotalVMKB = n * pageKB
	}
	if n := number(fields[3]); n >= 0 {
		ev.AnonRSSKB = n * pageKB
	}
	return true
}

// otherLine takes crashes and hangs of processes.
func otherLine(msg []byte, ev *Event) bool {
	if at := bytes.Index(msg, []byte("]: segfault at ")); at > 0 {
		open := bytes.LastIndexByte(msg[:at], '[')
		if open < 0 {
			return false
		}
		ev.Kind, ev.Class, ev.PID, ev.Name = KindSegfault, metrics.CauseNativeCrash, number(msg[open+1:at]), string(msg[:open])
		return true
	}
	if rest, ok := bytes.CutPrefix(msg, []byte("INFO: task ")); ok && bytes.Contains(rest, []byte("blocked for more than")) {
		name, _, _ := bytes.Cut(rest, []byte(" blocked"))
		if colon := bytes.LastIndexByte(name, ':'); colon > 0 {
			ev.PID = number(name[colon+1:])
			name = name[:colon]
		}
		ev.Kind, ev.Name = KindHungTask, string(name)
		return true
	}
	return false
}

// after reads the number behind a key, -1 where there is none.
func after(b []byte, key string) int {
	at := bytes.Index(b, []byte(key))
	if at < 0 {
		return -1
	}
	b = b[at+len(key):]
	digits := 0
	for digits < len(b) && b[digits] >= '0' && b[digits] <= '9' {
		digits++
	}
	return number(b[:digits])
}

// signed reads "key:-999" or "key=986".
func signed(b []byte, key string) (n int, ok bool) {
	at := bytes.Index(b, []byte(key))
	if at < 0 || at+len(key) >= len(b) {
		return 0, false
	}
	b = b[at+len(key)+1:]
	end := 0
	for end < len(b) && (b[end] >= '0' && b[end] <= '9' || end == 0 && b[end] == '-') {
		end++
	}
	n, err := strconv.Atoi(string(b[:end]))
	return n, err == nil
}
