package clientlog

import (
	"bytes"
	"strings"

	"github.com/runvigil/runvigil/metrics"
)

// signature is the wording of a class of fault.
type signature struct {
	words string
	class metrics.Cause
}

var signatures = []signature{
	{"[Errno 24]", metrics.CauseTooManyFiles},
	{"Too many open files", metrics.CauseTooManyFiles},
	{"EMFILE", metrics.CauseTooManyFiles},
	{"[Errno 28]", metrics.CauseDiskFull},
	{"No space left on device", metrics.CauseDiskFull},
	{"Disk quota exceeded", metrics.CauseDiskFull},
	{"ReadTimeout", metrics.CauseClientTimeouts},
	{"ConnectTimeout", metrics.CauseClientTimeouts},
	{"APITimeoutError", metrics.CauseClientTimeouts},
	{"TimeoutError", metrics.CauseClientTimeouts},
	{"Read timed out", metrics.CauseClientTimeouts},
	{"timed out", metrics.CauseClientTimeouts},
	{"Timeout on reading data", metrics.CauseClientTimeouts},
	{"504 Gateway", metrics.CauseClientTimeouts},
	{"maximum context length", metrics.CauseRequestTooLong},
	{"longer than the model's context length", metrics.CauseRequestTooLong},
	{"exceeds the model's context length", metrics.CauseRequestTooLong},
	{"CUDA out of memory", metrics.CauseCUDAOOM},
	{"HIP out of memory", metrics.CauseCUDAOOM},
	{"MemoryError", metrics.CauseHostNoMemory},
	{"Cannot allocate memory", metrics.CauseHostNoMemory},
	{"can't start new thread", metrics.CauseHostNoMemory},
	{"KeyboardInterrupt", metrics.CauseStopped},
}

// unreachable are wordings about a server that is not there or broke off; the
// fault is the server's, so they are counted and name no class of the client.
var unreachable = [][]byte{
	[]byte("Connection refused"), []byte("Cannot connect to host"), []byte("ConnectionRefusedError"), []byte("Server disconnected"),
	[]byte("RemoteDisconnected"), []byte("Connection reset by peer"), []byte("ConnectError"), []byte("503 Service"), []byte("Connection aborted"),
	[]byte("APIConnectionError"), []byte("ConnectionResetError"), []byte("ServerDisconnectedError"),
}

// ownLimits are limits of the client's machine, which it may meet while it connects.
var ownLimits = [][]byte{[]byte("[Errno 24]"), []byte("Too many open files"), []byte("EMFILE"), []byte("[Errno 28]"), []byte("No space left on device")}

var levels = [][]byte{
	[]byte("ERROR"), []byte("WARN"), []byte("CRITICAL"), []byte("FATAL"), []byte("Error"), []byte("error"), []byte("Warning"),
	[]byte("Exception"), []byte("exception"), []byte("Failed"), []byte("failed"), []byte("Retry"), []byte("retry"), []byte("Traceback"),
}

// Where a message's level or exception name has to stand to count (bytes).
const levelWithin = 120

// faultLine looks for a fault in a line.
func (s *State) faultLine(b []byte, at int64) {
	if bytes.HasPrefix(b, []byte("Traceback (most recent call last)")) {
		s.trace, s.traceShm, s.traceLine = true, false, at
		return
	}
	if s.trace {
		if b[0] == ' ' || b[0] == '\t' {
			for _, w := range []string{"multiprocessing/", "multiprocessing\\", "shared_memory", "SemLock", "joblib"} {
				s.traceShm = s.traceShm || bytes.Contains(b, []byte(w))
			}
			return
		}
		if exceptionLine(b) {
			s.trace = false
			s.exception(b, at)
			return
		}
		if at-s.traceLine > 400 {
			s.trace = false
		}
	}
	if b[0] == ' ' || b[0] == '\t' || quoted(b) {
		return
	}
	head := b[:min(len(b), levelWithin)]
	if bytes.Equal(bytes.TrimSpace(b), []byte("Killed")) {
		s.add(Fault{Class: metrics.CauseKilledUnknown, Ended: true}, b, at)
		return
	}
	if !containsAny(head, levels) && !bytes.Contains(head, []byte("[Errno ")) {
		return
	}
	s.backoff(b)
	if containsAny(b, unreachable) && !containsAny(b, ownLimits) {
		s.conns++
		return
	}
	for _, sig := range signatures {
		if bytes.Contains(b, []byte(sig.words)) {
			s.add(s.classified(sig.class, b), b, at)
			return
		}
	}
}

// quoted tells a line that shows a prompt or an answer.
func quoted(b []byte) bool {
	for _, w := range []string{"prompt:", "Prompt:", "'prompt'", `"prompt"`, "'content'", `"content"`, "'text'", `"text"`, "response:", "Response:", "output:", "Output:"} {
		if bytes.Contains(b, []byte(w)) {
			return true
		}
	}
	return false
}

// exception takes the last line of a traceback.
func (s *State) exception(b []byte, at int64) {
	if containsAny(b, unreachable) && !containsAny(b, ownLimits) {
		s.conns++
		return
	}
	for _, sig := range signatures {
		if bytes.Contains(b, []byte(sig.words)) {
			f := s.classified(sig.class, b)
			f.Ended = true
			s.add(f, b, at)
			return
		}
	}
	s.add(Fault{Class: metrics.CauseClientException, Ended: true}, b, at)
}

// classified refines a class by what the line says around it.
func (s *State) classified(class metrics.Cause, b []byte) Fault {
	f := Fault{Class: class}
	switch class {
	case metrics.CauseDiskFull:
		f.Where = pathBehind(b, "No space left on device")
		shared := bytes.Contains(b, []byte("shm")) || bytes.Contains(b, []byte("multiprocessing")) || bytes.Contains(b, []byte("joblib"))
		if shared || s.traceShm && f.Where == "" {
			f.Class = metrics.CauseShmFull
			if f.Where == "" {
				f.Where = "/dev/shm"
			}
		}
		f.Survived = bytes.Contains(b, []byte("serial mode"))
	case metrics.CauseClientTimeouts:
		for _, key := range []string{"read timeout=", "timeout=", "timed out after ", "Timeout after ", "TimeoutError after "} {
			if v := secondsAfter(b, key); v > 0 {
				s.limitS = v
				break
			}
		}
	}
	return f
}

// pathBehind reads the path in "No space left on device: '/data/x'".
func pathBehind(b []byte, words string) string {
	at := bytes.Index(b, []byte(words))
	if at < 0 {
		return ""
	}
	rest := bytes.TrimLeft(b[at+len(words):], ": '\"")
	if len(rest) == 0 || rest[0] != '/' {
		return ""
	}
	end := bytes.IndexAny(rest, " '\",;")
	if end < 0 {
		end = len(rest)
	}
	return metrics.Clean(string(rest[:end]), maxText)
}

// backoff notes what a line says about retrying.
func (s *State) backoff(b []byte) {
	attempt, try := numberAfter(b, "attempt "), numberAfter(b, "ackoff ")
	if try < 0 {
		try = numberAfter(b, "etry ")
	}
	sleep := numberAfter(b, "sleeping ")
	if sleep < 0 {
		sleep = numberAfter(b, "retrying in ")
	}
	if sleep < 0 && bytes.Contains(b, []byte("Retrying ")) {
		sleep = numberAfter(b, " in ")
	}
	if attempt < 0 && try < 0 && sleep < 0 {
		return
	}
	s.retry.Lines++
	s.retry.Attempt, s.retry.Try, s.retry.SleepS, s.retry.Of = int(attempt), int(try), sleep, -1
	for _, key := range []string{"ackoff ", "etry ", "attempt "} {
		at := bytes.Index(b, []byte(key))
		if at < 0 {
			continue
		}
		n, unit := leadingNumber(b[at+len(key):])
		if n >= 0 && len(unit) > 1 && unit[0] == '/' {
			if of, _ := leadingNumber([]byte(unit[1:])); of >= 0 {
				s.retry.Of = int(of)
			}
			break
		}
	}
}

// numberAfter reads the number behind a key, -1 where there is none.
func numberAfter(b []byte, key string) float64 {
	v, _ := quantityAfter(b, key)
	return v
}

// secondsAfter reads a span of time behind a key, in seconds where it names no
// unit; -1 where there is none.
func secondsAfter(b []byte, key string) float64 {
	v, rest := quantityAfter(b, key)
	unit := strings.TrimLeft(rest, " ")
	if n := strings.IndexFunc(unit, func(r rune) bool { return r < 'a' || r > 'z' }); n >= 0 {
		unit = unit[:n]
	}
	switch unit {
	case "ms", "msec", "milliseconds":
		return v / 1000
	case "m", "min", "mins", "minute", "minutes":
		return v * 60
	case "h", "hour", "hours":
		return v * 3600
	}
	return v
}

// quantityAfter reads the number behind a key and gives what follows it; -1
// where there is none.
func quantityAfter(b []byte, key string) (v float64, rest string) {
	at := bytes.Index(b, []byte(key))
	if at < 0 {
		return -1, ""
	}
	n, rest := leadingNumber(b[at+len(key):])
	if n < 0 {
		return -1, ""
	}
	v = float64(n)
	if len(rest) > 1 && rest[0] == '.' {
		if frac, tail := leadingNumber([]byte(rest[1:])); frac >= 0 {
			scale := 1.0
			for range len(rest) - 1 - len(tail) {
				scale *= 10
			}
			v, rest = v+float64(frac)/scale, tail
		}
	}
	return v, rest
}

func (s *State) add(f Fault, b []byte, at int64) {
	for i := range s.faults {
		old := &s.faults[i]
		if old.Class == f.Class && old.Where == f.Where && old.Survived == f.Survived {
			old.Count++
			old.Last = at
			old.Ended = old.Ended || f.Ended
			return
		}
	}
	if len(s.faults) >= maxFaults {
		return
	}
	f.Detail = metrics.Mask(metrics.Clean(string(bytes.TrimSpace(b)), maxText))
	f.Line, f.Last, f.Count = at, at, 1
	s.faults = append(s.faults, f)
}

// exceptionLine tells the last line of a traceback: a dotted name, then a colon or nothing.
func exceptionLine(b []byte) bool {
	i := 0
	for i < len(b) && i < 120 && (word(b[i]) || b[i] == '.') {
		i++
	}
	if i < 4 || b[0] >= '0' && b[0] <= '9' {
		return false
	}
	return i == len(b) || b[i] == ':'
}
