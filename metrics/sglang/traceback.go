package sglang

import (
	"bytes"

	"github.com/runvigil/runvigil/metrics"
)

// traceback is a Python traceback in progress: from its first line to the line
// that names the exception.
type traceback struct {
	open  bool
	named bool // a scheduler or manager said "hit an exception"
	ours  bool // a frame lies in the engine's own code
	head  head
	line  int64
	hint  signature // what the frames tell if the last line never comes
	said  bool      // the exception was given
	chain bool      // another traceback follows from this one
	lines int
}

const traceLines = 400

// frameHints are functions whose frames tell what was going on.
var frameHints = []struct {
	name string
	sig  signature
}{
	{"in alloc_paged_token_slots_extend", signature{class: metrics.CauseKVPoolExhausted, weight: Fatal, phase: PhasePrefill}},
	{"in alloc_token_slots", signature{class: metrics.CauseKVPoolExhausted, weight: Fatal}},
	{"in alloc_paged_token_slots_decode", signature{class: metrics.CauseKVPoolExhausted, weight: Fatal, phase: PhaseDecode}},
	{"in alloc_req_slots", signature{class: metrics.CauseSlotsExhausted, weight: Fatal}},
	{"in _report_leak", signature{class: metrics.CauseKVLeakCheck, weight: Fatal, phase: PhaseIdle}},
	{"in check_memory", signature{class: metrics.CauseKVLeakCheck, weight: Fatal, phase: PhaseIdle}},
	{"in init_memory_pool", signature{class: metrics.CauseSchedulerException, weight: Vague, phase: PhaseStartup}},
	{"in init_torch_distributed", signature{class: metrics.CauseSchedulerException, weight: Vague, phase: PhaseStartup}},
	{"in load_model", signature{class: metrics.CauseSchedulerException, weight: Vague, phase: PhaseStartup}},
	{"in capture", signature{class: metrics.CauseSchedulerException, weight: Vague, phase: PhaseCapture}},
	{"in on_idle", signature{class: metrics.CauseSchedulerException, weight: Vague, phase: PhaseIdle}},
	{"in get_new_batch_prefill", signature{class: metrics.CauseSchedulerException, weight: Vague, phase: PhasePrefill}},
	{"in process_batch_result_prefill", signature{class: metrics.CauseSchedulerException, weight: Vague, phase: PhasePrefill}},
	{"in forward_extend", signature{class: metrics.CauseSchedulerException, weight: Vague, phase: PhasePrefill}},
	{"in forward_decode", signature{class: metrics.CauseSchedulerException, weight: Vague, phase: PhaseDecode}},
	{"in process_batch_result_decode", signature{class: metrics.CauseSchedulerException, weight: Vague, phase: PhaseDecode}},
}

// traceLine takes a line of an open traceback; false says that it is none.
func (p *Parser) traceLine(b []byte) bool {
	t := &p.trace
	t.lines++
	if t.lines > traceLines {
		p.closeTrace()
		return false
	}
	if b[0] == ' ' || b[0] == '\t' || bytes.HasPrefix(b, []byte(`File "`)) {
		if bytes.HasPrefix(bytes.TrimLeft(b, " \t"), []byte("File ")) {
			t.ours = t.ours || bytes.Contains(b, []byte("sglang/srt"))
			for _, f := range frameHints {
				if bytes.Contains(b, []byte(f.name)) {
					phase := t.hint.phase
					if t.hint.class == "" || f.sig.class != metrics.CauseSchedulerException {
						t.hint = f.sig
					}
					if t.hint.phase == "" {
						t.hint.phase = phase
					}
					if f.sig.phase != "" {
						t.hint.phase = f.sig.phase
					}
					break
				}
			}
		}
		return true
	}
	if !exceptionLine(b) {
		return false
	}
	s, ok := match(exceptionSignatures, b)
	if !ok {
		s = signature{class: metrics.CauseSchedulerException, weight: Fatal}
		if t.hint.class != "" {
			s.class = t.hint.class
		}
		if !t.named {
			s.weight = Vague
			if !t.ours {
				// Somebody else's code in the same log; before the server is ready it may be the end.
				s.class, s.phase = metrics.CauseStartupFailed, PhaseStartup
			}
		}
	}
	if s.phase == "" {
		s.phase = t.hint.phase
	}
	if ok {
		s.class = refine(s.class, b)
	}
	if s.class == metrics.CauseCUDAOOM && s.phase == PhaseCapture {
		s.class = metrics.CauseCaptureOOM
	}
	if t.said && s.weight < Consequence && s.class != metrics.CauseCaptureOOM {
		s.weight = Consequence
	}
	t.open, t.said = false, true
	line := p.line
	p.giveFault(t.head, Fault{Class: s.class, Weight: s.weight, Phase: s.phase, Detail: metrics.Mask(metrics.Clean(string(b), maxDetail))})
	p.line = line
	return true
}

// closeTrace gives a traceback whose last line never came.
func (p *Parser) closeTrace() {
	t := p.trace
	p.trace = traceback{}
	if !t.open || t.said {
		return
	}
	if !t.named && t.hint.class == "" {
		return
	}
	s := t.hint
	if s.class == "" {
		s = signature{class: metrics.CauseSchedulerException, weight: Vague}
	}
	line := p.line
	p.line = t.line
	p.giveFault(t.head, Fault{
		Class: s.class, Weight: s.weight, Phase: s.phase, Bare: s.class == metrics.CauseSchedulerException,
		Detail: "hit an exception; its own words are missing",
	})
	p.line = line
}

// exceptionLine tells the last line of a traceback: a dotted name that ends in
// Error, Exception or the like, then a colon or nothing.
func exceptionLine(b []byte) bool {
	i := 0
	for i < len(b) && i < 100 && (letter(b[i]) || digit(b[i]) || b[i] == '.' || b[i] == '_') {
		i++
	}
	if i < 5 || i < len(b) && b[i] != ':' || digit(b[0]) {
		return false
	}
	name := b[:i]
	for _, end := range []string{"Error", "Exception", "Interrupt", "SystemExit", "Failure", "Timeout", "Warning", "Exit"} {
		if bytes.HasSuffix(name, []byte(end)) {
			return end != "Warning"
		}
	}
	return false
}
