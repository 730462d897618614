package metrics

import "time"

// Start is one launch that was really run, with what it achieved.
type Start struct {
	ID      string    `json:"id"` // boot id + pid + start, or a name for imported ones
	No      int       `json:"no,omitempty"`
	Node    string    `json:"node"`
	Engine  string    `json:"engine"`
	Version string    `json:"version,omitempty"`
	Model   string    `json:"model,omitempty"`
	At      time.Time `json:"at"`
	Argv    []string  `json:"argv,omitempty"` // masked
	// Label is the differing flags in short, e.g. "0.88 bf16 hicache".
	Label    string      `json:"label,omitempty"`
	Imported bool        `json:"imported,omitempty"` // not seen by us: from a log or the operator
	Phases   []PhaseTook `json:"phases,omitempty"`
	ReadyS   *float64    `json:"ready_s,omitempty"` // seconds until ready

	// FreeAtStartGB is free memory of a GPU before the weights were loaded,
	// KVDtype what the log says the KV cache holds, BytesPerTok its bytes a token
	// a GPU: from these a forecast is reckoned.
	FreeAtStartGB *float64 `json:"free_at_start_gib,omitempty"`
	KVDtype       string   `json:"kv_dtype,omitempty"`
	BytesPerTok   *float64 `json:"bytes_per_token,omitempty"`
	// FirstToken is when the first real token came, zero while none has.
	FirstToken time.Time `json:"first_token,omitzero"`
	// FirstRequest is when the first request was taken, zero while none was or
	// where nothing tells.
	FirstRequest time.Time `json:"first_request,omitzero"`

	Capacity   *float64 `json:"capacity_tokens,omitempty"`
	HeadroomGB *float64 `json:"headroom_gib,omitempty"`
	Peak       *float64 `json:"peak_tps,omitempty"`
	Settled    *float64 `json:"settled_tps,omitempty"`
	Spread     *float64 `json:"spread_tps,omitempty"`
	Running    *float64 `json:"running,omitempty"`
	Queued     *float64 `json:"queued,omitempty"`
	KVUsage    *float64 `json:"kv_usage,omitempty"`
	PerRequest *float64 `json:"tokens_per_request,omitempty"`
	RowsPerMin *float64 `json:"rows_per_min,omitempty"`
	LowestFree *float64 `json:"lowest_free_gib,omitempty"`
	Dataset    string   `json:"dataset,omitempty"` // part that grew meanwhile

	DurationS *float64 `json:"duration_s,omitempty"`
	// Outcome is running, stopped, crashed, failed (before ready) or unknown.
	Outcome  string `json:"outcome,omitempty"`
	Cause    Cause  `json:"cause,omitempty"`
	CauseTxt string `json:"cause_text,omitempty"`
	// CausePhase is what the engine did when it crashed: prefill, decode, …
	CausePhase string `json:"cause_phase,omitempty"`
	// AfterS is how many seconds after it was ready it crashed, AfterRequestS how
	// many after its first request; 0 where that is unknown.
	AfterS        float64 `json:"after_s,omitempty"`
	AfterRequestS float64 `json:"after_request_s,omitempty"`
	Note          string  `json:"note,omitempty"`
	GuardBroken   string  `json:"guard_broken,omitempty"`
	Override      string  `json:"override,omitempty"` // reason given for overriding a guard
}

// After says how long it ran before it crashed, "" where that is unknown: "40 s
// after the first request", or, where nothing tells when that came, "40 s after it
// was ready".
func (s *Start) After() string {
	since, what := s.AfterRequestS, " after the first request"
	if since <= 0 {
		since, what = s.AfterS, " after it was ready"
	}
	switch {
	case since <= 0:
		return ""
	case since < 1:
		return "less than 1 s" + what
	}
	return Age(time.Duration(since*float64(time.Second))) + what
}
