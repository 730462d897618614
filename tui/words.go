package tui

import (
	"fmt"

	"github.com/runvigil/runvigil/metrics"
)

// engineWords are the terms in which an engine speaks of itself.
type engineWords struct {
	queued    string // requests that wait
	retracted string // requests whose KV was taken back
	limit     string // flag that bounds running requests
	kv        func(float64) string
	kvCells   int
}

func wordsOf(engine string) engineWords {
	if engine == "vllm" {
		return engineWords{queued: "waiting", retracted: "preempted", limit: "max-num-seqs", kv: share, kvCells: 5}
	}
	return engineWords{queued: "queued", retracted: "retracted", limit: "max-running-requests", kv: two, kvCells: 4}
}

// share prints a share of 1 as vLLM does: 97.1%.
func share(v float64) string {
	if v >= 0.9995 {
		return "100%"
	}
	return fmt.Sprintf("%.1f%%", 100*v)
}

// seriesWords name what a graph shows, with its unit.
var seriesWords = map[string]string{
	metrics.SeriesGenTPS: "tok/s", metrics.SeriesInputTPS: "input tok/s", metrics.SeriesRunning: "running requests", metrics.SeriesQueued: "queued requests",
	metrics.SeriesKVUsage: "KV usage", metrics.SeriesPerReq: "tokens a request", metrics.SeriesRows: "rows", metrics.SeriesRowRate: "rows a minute",
	metrics.SeriesGPUMem: "GPU memory MiB", metrics.SeriesGPUUtil: "GPU utilisation %", metrics.SeriesGPUTemp: "GPU °C", metrics.SeriesGPUPower: "GPU W",
	metrics.SeriesAcceptLen: "accepted tokens", metrics.SeriesLoad: "load", metrics.SeriesMemAvail: "RAM free, bytes",
}
