package explain

import (
	"math"

	"github.com/runvigil/runvigil/metrics"
)

// Report is the JSON object of `runvigil explain --json`, described by
// docs/explain.schema.json. Every key is always there; what the file does not
// tell is null, never 0. Rates in tok/s, shares of 1, sizes in tokens unless the
// name says otherwise.
type Report struct {
	Kind               *string   `json:"kind"`
	Engine             *string   `json:"engine"`
	Version            *string   `json:"version"`
	State              *string   `json:"state"`
	Phase              *string   `json:"phase"`
	Running            *float64  `json:"running"`
	Queued             *float64  `json:"queued"`
	GenTPS             *float64  `json:"gen_tps"`
	InputTPS           *float64  `json:"input_tps"`
	KVUsage            *float64  `json:"kv_usage"`
	KVTokens           *float64  `json:"kv_tokens"`
	CapacityTokens     *float64  `json:"capacity_tokens"`
	MaxRunningRequests *float64  `json:"max_running_requests"`
	ContextLen         *float64  `json:"context_len"`
	HeadroomGiB        *float64  `json:"headroom_gib"`
	AcceptLen          *float64  `json:"accept_len"`
	Progress           Progress  `json:"progress"`
	GPUs               []GPU     `json:"gpus"`
	Causes             []Cause   `json:"causes"`
	Rows               *int64    `json:"rows"`
	TornTail           *bool     `json:"torn_tail"`
	Duplicates         *int64    `json:"duplicates"`
	Starts             []Start   `json:"starts"`
	Findings           []Finding `json:"findings"`
	Advice             []string  `json:"advice"`

	// notes are lines of the text form that no key stands for.
	notes []string
	// first holds the number in the file of each line after folds were undone.
	first []int64
}

// Progress is how far something has come: of the phase of a start, or of the
// client's job where the file tells only that.
type Progress struct {
	Done  *int64 `json:"done"`
	Total *int64 `json:"total"`
}

// Cause is a fault that the file tells. Line is 1-based.
type Cause struct {
	Class   string  `json:"class"`
	Detail  *string `json:"detail"`
	Rank    *string `json:"rank"`
	Line    *int64  `json:"line"`
	Primary bool    `json:"primary"`
}

// GPU is one device as the file tells it.
type GPU struct {
	Index       *int               `json:"index"`
	Name        *string            `json:"name"`
	UUID        *string            `json:"uuid"`
	Bus         *string            `json:"bus"`
	Driver      *string            `json:"driver"`
	CUDA        *string            `json:"cuda"`
	MemoryUsed  *float64           `json:"memory_used_mib"`
	MemoryTotal *float64           `json:"memory_total_mib"`
	MemoryFree  *float64           `json:"memory_free_mib"`
	Util        *float64           `json:"util_pct"`
	MemUtil     *float64           `json:"mem_util_pct"`
	Temp        *float64           `json:"temp_c"`
	Power       *float64           `json:"power_w"`
	PowerLimit  *float64           `json:"power_limit_w"`
	Fan         *float64           `json:"fan_pct"`
	ClockSM     *float64           `json:"clock_sm_mhz"`
	ClockMem    *float64           `json:"clock_mem_mhz"`
	PState      *string            `json:"pstate"`
	MIG         *string            `json:"mig"`
	ECC         *string            `json:"ecc"`
	Throttle    []string           `json:"throttle"` // what slows it down now
	Unified     bool               `json:"unified"`  // its memory is the host's
	Lost        *string            `json:"lost"`
	Figures     map[string]float64 `json:"figures"` // others, by name
	Processes   []GPUProcess       `json:"processes"`
}

// GPUProcess holds memory of a GPU. Ghost is one that the tool cannot name.
type GPUProcess struct {
	PID    *int     `json:"pid"`
	Name   *string  `json:"name"`
	Memory *float64 `json:"memory_mib"`
	Ghost  bool     `json:"ghost"`
}

// Start is one start of the server as its log tells it. At and ReadyAt are the
// log's own clock. Figures are others that the log told, by name.
type Start struct {
	Line       int64              `json:"line"`
	At         *string            `json:"at"`
	ReadyAt    *string            `json:"ready_at"`
	ReadyS     *float64           `json:"ready_s"`
	Outcome    string             `json:"outcome"` // starting, serving, stopped, failed, crashed, unknown
	Phase      *string            `json:"phase"`
	Phases     []Phase            `json:"phases"` // finished ones
	Version    *string            `json:"version"`
	Model      *string            `json:"model"`
	Flags      map[string]string  `json:"flags"`
	Capacity   *float64           `json:"capacity_tokens"`
	MaxRunning *float64           `json:"max_running_requests"`
	ContextLen *float64           `json:"context_len"`
	Headroom   *float64           `json:"headroom_gib"`
	PeakTPS    *float64           `json:"peak_tps"`
	Cause      *string            `json:"cause"`
	Figures    map[string]float64 `json:"figures"`
}

// Phase is a finished part of a start.
type Phase struct {
	Name    string   `json:"name"`
	Seconds *float64 `json:"seconds"`
}

// Finding is a diagnosis.
type Finding struct {
	ID       string   `json:"id"`
	Severity string   `json:"severity"`
	Title    string   `json:"title"`
	Cause    *string  `json:"cause"`
	Why      *string  `json:"why"`
	Evidence []string `json:"evidence"`
	Advice   string   `json:"advice"`
}

// States beside those of metrics.ServerState that a file can tell.
const stateStopped = "stopped"

func newReport() *Report {
	return &Report{GPUs: []GPU{}, Causes: []Cause{}, Starts: []Start{}, Findings: []Finding{}, Advice: []string{}}
}

// Primary is the cause, nil where the file tells no fault.
func (r *Report) Primary() *Cause {
	for i := range r.Causes {
		if r.Causes[i].Primary {
			return &r.Causes[i]
		}
	}
	return nil
}

const (
	maxText   = 400
	maxCauses = 64
)

// str cleans and masks text of the file; empty is unknown.
func str(s string) *string {
	if s = clean(s); s == "" {
		return nil
	}
	return &s
}

// clean also masks: a capture was not masked where it was taken.
func clean(s string) string { return metrics.Clean(metrics.Mask(metrics.Clean(s, 2*maxText)), maxText) }

// known is a figure that the file told.
func known(v float64, ok bool) *float64 {
	if !ok || math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

func whole(v int64) *int64 { return &v }

// figures collects named figures that were told.
type figures map[string]float64

func (f figures) put(name string, v float64, ok bool) {
	if p := known(v, ok); p != nil && len(f) < 256 {
		f[name] = *p
	}
}

// cause adds a fault; rank may be "" and line 0.
func (r *Report) cause(class metrics.Cause, detail, rank string, line int64, primary bool) {
	if class == "" || len(r.Causes) >= maxCauses {
		return
	}
	c := Cause{Class: string(class), Detail: str(detail), Rank: str(rank), Primary: primary}
	if line > 0 {
		c.Line = whole(line)
	}
	r.Causes = append(r.Causes, c)
}

// advise adds advice that is not there yet.
func (r *Report) advise(text string) {
	if text = clean(text); text == "" {
		return
	}
	for _, a := range r.Advice {
		if a == text {
			return
		}
	}
	r.Advice = append(r.Advice, text)
}

// sign is a state that no line calls a fault: it becomes a finding and a cause,
// the primary one where the file tells no other.
func (r *Report) sign(id string, severity metrics.Severity, class metrics.Cause, title, why string, line int64, evidence ...string) {
	info, _ := class.Info()
	r.cause(class, title, "", line, r.Primary() == nil)
	r.find(id, severity, class, title, why, info.Advice, evidence...)
}

func (r *Report) find(id string, severity metrics.Severity, class metrics.Cause, title, why, advice string, evidence ...string) {
	f := Finding{ID: id, Severity: severity.String(), Title: clean(title), Cause: str(string(class)), Why: str(why), Evidence: []string{}, Advice: clean(advice)}
	for _, e := range evidence {
		if e = clean(e); e != "" {
			f.Evidence = append(f.Evidence, e)
		}
	}
	r.Findings = append(r.Findings, f)
	r.advise(advice)
}

func (r *Report) note(text string) {
	if text = clean(text); text != "" && len(r.notes) < 200 {
		r.notes = append(r.notes, text)
	}
}
