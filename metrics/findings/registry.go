package findings

import "github.com/runvigil/runvigil/metrics"

// Registry lists every detector in the order of the documentation.
func Registry() []Detector {
	return []Detector{
		clientLogSilent,
		rowsStalled,
		clientGone,
		jobDone,
		serverDown,
		serverOOM,
		serverHung,
		headroomLow,
		settled,
		gpuLost,
		linkDown,
	}
}

// Thresholds are the defaults, by the names the config uses. Durations are in
// seconds unless the name says otherwise.
var Thresholds = map[string]float64{
	"silent_rows":            20,  // rows that must have landed before an empty client log counts as silent
	"stalled_gap_factor":     5,   // rows are stalled after this many times the usual gap between growths
	"stalled_min_s":          60,  // but never before
	"stalled_behind":         8,   // finished requests that may be ahead of landed rows
	"client_gone_idle_s":     120, // a server without work and rows below target: nobody is sending
	"hung_s":                 60,  // no token although requests run
	"headroom_warning_gib":   5,   // on cards above headroom_big_card_gib
	"headroom_critical_gib":  1.5,
	"headroom_big_card_gib":  60,
	"headroom_proven_rows":   1000, // as many finished requests prove that a small headroom held
	"link_down_s":            5,
	"client_log_quiet_min_s": 300,
}

// Threshold gives the config's value for a name, else the default.
func Threshold(cfg metrics.Config, name string) float64 {
	if v, ok := cfg.Thresholds[name]; ok {
		return v
	}
	return Thresholds[name]
}
