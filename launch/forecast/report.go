package forecast

import "math"

// Report is a forecast as JSON: figures that are not known are null.
type Report struct {
	CapacityTokens *float64      `json:"capacity_tokens"`
	HeadroomGiB    *Range        `json:"headroom_gib"`
	HostNeedGiB    *float64      `json:"host_need_gib"`
	HostFreeGiB    *float64      `json:"host_free_gib"`
	RequestsFit    *float64      `json:"requests_fit"`
	GenTPS         *Range        `json:"gen_tps"`
	Basis          []string      `json:"basis"`
	Doubts         []string      `json:"doubts"`
	Warnings       []WarningJSON `json:"warnings"`
}

// Range is a figure that is only known to lie between two others.
type Range struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// WarningJSON is one warning, or one outcome of an earlier start.
type WarningJSON struct {
	Level string `json:"level"`
	Text  string `json:"text"`
}

// BreakEvenJSON is a break-even as JSON.
type BreakEvenJSON struct {
	Known           bool     `json:"known"`
	GainRowsPerHour *float64 `json:"gain_rows_per_hour"`
	LostLoading     *float64 `json:"lost_rows_loading"`
	LostHalfDone    *float64 `json:"lost_rows_half_done"`
	AfterS          *float64 `json:"after_s"` // null: never
	RowsLeft        *float64 `json:"rows_left"`
	Worth           bool     `json:"worth"`
	Why             string   `json:"why"`
}

// Report gives the forecast for a dry run: what is known first, worst first.
func (f Forecast) Report() Report {
	r := Report{Basis: []string{}, Doubts: []string{}, Warnings: []WarningJSON{}}
	value := func(e Estimate, unit float64, digits int) *float64 {
		if !e.Known {
			return nil
		}
		v := round(e.V/unit, digits)
		return &v
	}
	between := func(e Estimate, digits int) *Range {
		if !e.Known {
			return nil
		}
		return &Range{round(e.Low, digits), round(e.High, digits)}
	}
	r.CapacityTokens, r.HeadroomGiB = value(f.Capacity, 1, 0), between(f.Headroom, 2)
	r.HostNeedGiB, r.HostFreeGiB = value(f.HostNeed, gib, 1), value(f.HostFree, gib, 1)
	r.RequestsFit, r.GenTPS = value(f.Fit, 1, 0), between(f.GenTPS, 0)
	for _, e := range []struct {
		name string
		Estimate
	}{{"capacity", f.Capacity}, {"headroom", f.Headroom}, {"host memory", f.HostNeed}, {"requests that fit", f.Fit}, {"tok/s", f.GenTPS}} {
		for _, b := range e.Basis {
			r.Basis = append(r.Basis, e.name+": "+b)
		}
		if e.Doubt != "" {
			r.Doubts = append(r.Doubts, e.name+": "+e.Doubt)
		}
	}
	for _, list := range [][]Warning{f.Outcomes, f.Warnings} {
		for _, w := range list {
			r.Warnings = append(r.Warnings, WarningJSON{w.Level.String(), w.Text})
		}
	}
	return r
}

// Report gives the break-even for a dry run.
func (b BreakEven) Report() BreakEvenJSON {
	out := BreakEvenJSON{Known: b.Known, Worth: b.Worth, Why: b.Why}
	if b.RowsLeft >= 0 {
		out.RowsLeft = &b.RowsLeft
	}
	if !b.Known {
		return out
	}
	gain, loading, half := round(b.GainPerHour, 1), round(b.LostLoading, 1), round(b.LostHalf, 1)
	out.GainRowsPerHour, out.LostLoading, out.LostHalfDone = &gain, &loading, &half
	if b.After > 0 {
		s := round(b.After.Seconds(), 0)
		out.AfterS = &s
	}
	return out
}

func round(v float64, digits int) float64 {
	p := math.Pow(10, float64(digits))
	return math.Round(v*p) / p
}
