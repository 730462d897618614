package vllm

import (
	"bytes"
	"strings"

	"github.com/runvigil/runvigil/metrics"
)

// Phases of a fault that its own stack tells.
const (
	PhaseStartup = "start-up"
	PhaseCapture = "capture"
	PhasePrefill = "prefill"
	PhaseDecode  = "decode"
	PhaseServing = "serving"
)

// traceback is one that is being read: its last line, the exception, is what counts.
type traceback struct {
	open  bool
	head  head
	line  int64
	n     int    // lines read
	fn    string // the innermost function so far
	phase string
	inner bool // frames of the engine or its workers were seen
}

// A traceback that has not ended after so many lines never will.
const maxTrace = 400

// stackPhases tell by a function's name what the engine was doing.
var stackPhases = []struct{ fn, phase string }{
	{"capture_model", PhaseCapture}, {"_capture_cudagraphs", PhaseCapture}, {"capture_graph", PhaseCapture},
	{"profile_run", PhaseStartup}, {"determine_available_memory", PhaseStartup}, {"load_model", PhaseStartup},
	{"_dummy_sampler_run", PhaseStartup}, {"init_device", PhaseStartup}, {"_initialize_kv_caches", PhaseStartup},
	{"prompt_logprobs", PhasePrefill},
}

var (
	tracebackWords = []byte("Traceback (most recent call last)")
	fileWords      = []byte(`File "`)
)

// frames notes the functions that a piece of a traceback names.
func (t *traceback) frames(b []byte) {
	for {
		i := bytes.Index(b, fileWords)
		if i < 0 {
			return
		}
		b = b[i+len(fileWords):]
		if bytes.Contains(b[:min(len(b), 200)], []byte("/vllm/v1/")) || bytes.Contains(b[:min(len(b), 200)], []byte("worker")) {
			t.inner = true
		}
		j := bytes.Index(b, []byte(", in "))
		if j < 0 {
			return
		}
		name := b[j+len(", in "):]
		end := 0
		for end < len(name) && (letter(name[end:]) || digit(name[end]) || name[end] == '_' || name[end] == '<' || name[end] == '>') {
			end++
		}
		t.fn = metrics.Clean(string(name[:end]), 80)
		for _, s := range stackPhases {
			if bytes.Contains(name[:end], []byte(s.fn)) {
				t.phase = s.phase
			}
		}
		b = name[end:]
	}
}

// runtimeLine reads lines of the running server that are neither figures nor errors.
func (p *Parser) runtimeLine(msg []byte, h head) bool {
	switch {
	case bytes.HasPrefix(msg, []byte("No available shared memory broadcast block found")):
		p.wait = Wait{Seconds: after(msg, "found in ")}
		p.begin(KindWait, h).Wait = &p.wait
		p.emit(&p.ev)
		return true
	case bytes.HasPrefix(msg, []byte("Dumping scheduler stats")), bytes.Contains(msg[:min(len(msg), 80)], []byte("SchedulerStats(")):
		p.dump = Dump{Running: after(msg, "num_running_reqs="), Waiting: after(msg, "num_waiting_reqs="), KVUsage: after(msg, "kv_cache_usage=")}
		p.begin(KindDump, h).Dump = &p.dump
		p.emit(&p.ev)
		return true
	case bytes.HasPrefix(msg, []byte("Dumping input data")), bytes.HasPrefix(msg, []byte("Dumping scheduler output")):
		p.scheduled(msg, h)
		return true
	case bytes.HasPrefix(msg, []byte("[shutdown]")):
		if bytes.Contains(msg, []byte("exited unexpectedly")) {
			break
		}
		p.stopped(h, bytes.Contains(msg, []byte("shutdown triggered")), false)
		return true
	case bytes.HasPrefix(msg, []byte("port ")) && bytes.Contains(msg, []byte("is used by process")):
		p.holder(msg, h)
		return true
	case bytes.Contains(msg, []byte(" is preempted by ")):
		p.begin(KindPreempt, h).Preempt = after(msg, "total_num_cumulative_preemption=")
		p.emit(&p.ev)
		return true
	}
	switch h.level {
	case 'E', 'C':
		return false
	}
	// Deaths and closed pipes are not always errors in the log's eyes.
	if bytes.Contains(msg, []byte("died unexpectedly")) || bytes.Contains(msg, []byte("exited unexpectedly")) {
		if r, ok := classify(msg); ok {
			p.give(r, msg, h)
		}
	}
	return true
}

// scheduled reads what a dump of the step's input tells about its size.
func (p *Parser) scheduled(msg []byte, h head) {
	if n := after(msg, "total_num_scheduled_tokens="); n.Known {
		p.dump = Dump{Scheduled: n}
		p.begin(KindDump, h).Dump = &p.dump
		p.emit(&p.ev)
	}
}

// holder reads who has the port: psutil.Process(pid=60990, name='pt_main_thread', …).
func (p *Parser) holder(msg []byte, h head) {
	port, _ := integer(msg[len("port "):])
	f := Fault{Class: metrics.CausePortInUse, Weight: Remark, Port: int(port), HolderPID: int(after(msg, "pid=").V), Detail: detail(msg)}
	if i := bytes.Index(msg, []byte("name='")); i >= 0 {
		name := msg[i+len("name='"):]
		if e := bytes.IndexByte(name, '\''); e >= 0 {
			f.Holder = metrics.Clean(string(name[:e]), 80)
		}
	}
	p.emitFault(f, h)
}

func (p *Parser) stopped(h head, asked, done bool) {
	p.stop = Stop{Asked: asked, Done: done}
	p.begin(KindStop, h).Stop = &p.stop
	p.emit(&p.ev)
}

// errorLine takes a message of level ERROR, which may be one line of a longer one.
func (p *Parser) errorLine(msg []byte, h head) {
	if p.traced(msg, h) {
		return
	}
	if r, ok := classify(msg); ok {
		p.give(r, msg, h)
		return
	}
	if _, ok := exceptionLine(msg); ok {
		p.exception(msg, h)
	}
}

// bareFault takes a line that has no prefix: what dying processes, the shell,
// C++ and the argument parser print.
func (p *Parser) bareFault(b []byte, h head) {
	if p.traced(b, h) {
		return
	}
	if _, ok := exceptionLine(b); ok {
		// "Error: …" in a request's text is no exception of ours: only behind a
		// traceback, or with wording that only the engine has.
		if r, known := classify(b); known {
			p.give(r, b, h)
		} else if p.trace.open {
			p.exception(b, h)
		}
		p.trace = traceback{}
		return
	}
	if bytes.IndexByte(b, '=') >= 0 && bytes.Contains(b, []byte("total_num_scheduled_tokens=")) {
		p.scheduled(b, h) // the rest of a dump that was cut
		return
	}
	if !suspicious(b) || quotesText(b) {
		return
	}
	if r, ok := classify(b); ok {
		p.give(r, b, h)
		return
	}
	if t := bytes.TrimSpace(b); bytes.Equal(t, []byte("Killed")) || bytes.HasSuffix(t, []byte(" Killed")) || bytes.Contains(b, []byte(" Killed  ")) {
		p.emitFault(Fault{Class: metrics.CauseKilledUnknown, Weight: Vague, Detail: detail(b)}, h)
	}
}

// suspicious tells bare lines that may be worth matching, by marks that only
// machines print at such places.
func suspicious(b []byte) bool {
	for i, c := range b {
		if !suspectByte[c] {
			continue
		}
		for _, m := range suspects {
			if m[0] == c && bytes.HasPrefix(b[i:], m) {
				return true
			}
		}
	}
	return false
}

var suspects = [][]byte{
	[]byte("[Rank "), []byte("ProcessGroup"), []byte(": error: "), []byte("[Errno "), []byte("Fatal Python"), []byte("Segmentation fault"),
	[]byte("terminate called"), []byte("core dumped"), []byte("Killed"), []byte("NCCL WARN"), []byte("ROCr"), []byte("HSA_STATUS"), []byte("Memory access fault"),
}

// suspectByte marks the first bytes of suspects, so that a line is walked once.
var suspectByte = func() (t [256]bool) {
	for _, m := range suspects {
		t[m[0]] = true
	}
	return t
}()

// traced reads a line as part of a traceback.
func (p *Parser) traced(b []byte, h head) bool {
	if i := bytes.Index(b, tracebackWords); i >= 0 {
		if i > 0 && quotesText(b[:i]) {
			return true
		}
		p.closeTrace()
		p.trace = traceback{open: true, head: h, line: p.line}
		p.trace.frames(b[i:])
		return true
	}
	t := bytes.TrimLeft(b, " ")
	if bytes.HasPrefix(t, fileWords) && bytes.Contains(t, []byte(", line ")) {
		if !p.trace.open {
			p.trace = traceback{open: true, head: h, line: p.line}
		}
		p.trace.frames(t)
		return true
	}
	if !p.trace.open {
		return false
	}
	if p.trace.n++; p.trace.n > maxTrace {
		p.trace = traceback{}
		return false
	}
	if bytes.IndexByte(b, '^') >= 0 { // a folded one-line traceback goes on
		p.trace.frames(b)
	}
	return len(b) > len(t) // indented: source code
}

// exception gives an exception without wording of its own class.
func (p *Parser) exception(msg []byte, h head) {
	r := rule{class: metrics.CauseSchedulerException, weight: Fatal}
	n, _ := exceptionLine(msg)
	switch name := string(msg[:n]); {
	case name == "KeyboardInterrupt" || name == "SystemExit":
		p.trace = traceback{}
		p.stopped(h, true, false)
		return
	case bytes.HasSuffix(msg[:n], []byte("CancelledError")):
		r.weight = Remark
	case p.aboutRequest(h):
		r.weight = Remark
	case strings.HasPrefix(strings.ToLower(h.proc), "apiserver"):
		r.weight = Vague // while serving it may be about one request only: the fold knows
	}
	p.give(r, msg, h)
}

// aboutRequest tells an error of the front end about one request: its handlers
// are named serving*, and uvicorn announces theirs.
func (p *Parser) aboutRequest(h head) bool {
	return bytes.HasPrefix(h.file, []byte("serving")) || bytes.Contains(h.file, []byte("/serving")) ||
		p.asgi > 0 && p.line-p.asgi < maxTrace && h.at == (Stamp{})
}

// give emits a classified fault with what the traceback above it told.
func (p *Parser) give(r rule, msg []byte, h head) {
	f := Fault{Class: r.class, Weight: r.weight, Detail: detail(msg)}
	f.figures(msg)
	if p.trace.open {
		f.Phase = p.trace.phase
		if h.at == (Stamp{}) {
			h.at = p.trace.head.at
		}
		if h.proc == "" {
			h.proc, h.pid, h.rank = p.trace.head.proc, p.trace.head.pid, p.trace.head.rank
		}
		if _, ok := exceptionLine(msg); ok {
			p.trace = traceback{}
		}
	}
	if h.rank.Global < 0 {
		if r := after(msg, "[Rank "); r.Known {
			h.rank.Global = int16(r.V)
		}
	}
	p.emitFault(f, h)
}

func (p *Parser) emitFault(f Fault, h head) {
	p.fault = f
	p.begin(KindFault, h).Fault = &p.fault
	p.emit(&p.ev)
}

// closeTrace gives a traceback whose last line never came: something ended here,
// and only the stack says where.
func (p *Parser) closeTrace() {
	t := p.trace
	p.trace = traceback{}
	if !t.open || t.fn == "" {
		return
	}
	f := Fault{Class: metrics.CauseSchedulerException, Weight: Vague, Phase: t.phase, Detail: "exception in " + t.fn + "; its last line is not in the log"}
	if t.inner {
		f.Class = metrics.CauseWorkerDied
	}
	line := p.line
	p.line = t.line
	p.emitFault(f, t.head)
	p.line = line
}

func detail(msg []byte) string {
	return metrics.Mask(metrics.Clean(string(bytes.TrimSpace(msg[:min(len(msg), 1000)])), 400))
}
