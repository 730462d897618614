package metrics

import "math"

// StepFit is the node's own decode step time, a + b × running seconds, fitted
// from batch lines: tok/s at n running requests is n / (A + B n).
type StepFit struct {
	A, B  float64 // seconds, seconds a request
	N     int     // points; 0: no fit
	Resid float64 // relative error of predicted tok/s, one standard deviation
	// Least and Most are the smallest and largest number of running requests that
	// were measured: beyond them the fit is a guess.
	Least, Most float64
}

// StepPoint is one decode line: running requests and tok/s.
type StepPoint struct {
	Running, TPS float64
}

// FitSteps fits the step time by least squares. It needs points at two or more
// distinct numbers of running requests; else N is 0.
func FitSteps(points []StepPoint) StepFit {
	var n, sx, sy, sxx, sxy, least, most float64
	for _, p := range points {
		if p.Running <= 0 || p.TPS <= 0 {
			continue
		}
		x, y := p.Running, p.Running/p.TPS
		if n == 0 || x < least {
			least = x
		}
		most = max(most, x)
		n++
		sx += x
		sy += y
		sxx += x * x
		sxy += x * y
	}
	det := n*sxx - sx*sx
	if n < 2 || det <= 1e-9*n*sxx {
		return StepFit{}
	}
	b := (n*sxy - sx*sy) / det
	f := StepFit{A: (sy - b*sx) / n, B: b, N: int(n), Least: least, Most: most}
	var ss float64
	for _, p := range points {
		if p.Running > 0 && p.TPS > 0 {
			r := f.TPS(p.Running)/p.TPS - 1
			ss += r * r
		}
	}
	f.Resid = math.Sqrt(ss / n)
	return f
}

// TPS is the predicted throughput at a number of running requests, 0 without a fit.
func (f StepFit) TPS(running float64) float64 {
	if f.N == 0 || running <= 0 || f.A+f.B*running <= 0 {
		return 0
	}
	return running / (f.A + f.B*running)
}
