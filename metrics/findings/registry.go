package findings

import "github.com/runvigil/runvigil/metrics"

// Registry lists every detector in the order of the documentation.
func Registry() []Detector {
	return []Detector{}
}

// Thresholds are the defaults, by the names the config uses.
var Thresholds = map[string]float64{}

// Threshold gives the config's value for a name, else the default.
func Threshold(cfg metrics.Config, name string) float64 {
	if v, ok := cfg.Thresholds[name]; ok {
		return v
	}
	return Thresholds[name]
}
