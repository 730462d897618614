package findings

import (
	"fmt"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

var graphOff = Detector{
	ID:    "graph-off",
	Means: "Decode steps run without a captured CUDA graph at the usual number of running requests, which makes each step slower.",
	Needs: "the graph word of SGLang's decode lines",
	When:  "Decode lines say no graph for 2 minutes while work runs.",
	Do:    "Raise --cuda-graph-max-bs above the number of running requests and lower the memory fraction by 0.01 for it.",
	For:   2 * time.Minute,
	Clear: time.Minute,
	Check: func(in *Input, out *Output) {
		for _, v := range in.working() {
			if v.Graph == nil || *v.Graph || v.State != metrics.ServerServing || !v.Running.Known || v.Running.V < 1 || v.Running.Stale(in.now()) {
				continue
			}
			c := Condition{
				Subject: v.ID, Severity: metrics.SeverityInfo, Log: metrics.LogPlace{Path: v.Log.Path},
				Title:    fmt.Sprintf("decode runs without a CUDA graph at %s running", metrics.Count(v.Running.V)),
				Why:      "graphs were captured for smaller batches only",
				Evidence: []metrics.Evidence{figureEvidence(fmt.Sprintf("cuda graph: False with %s running", metrics.Count(v.Running.V)), v.Running)},
				Advice:   fmt.Sprintf("raise --cuda-graph-max-bs to %.0f and lower --mem-fraction-static by 0.01 for its memory", roundUp(v.Running.V)),
			}
			if s := setting(v, "--cuda-graph-max-bs"); s != "" {
				c.Evidence = append(c.Evidence, metrics.Evidence{Text: "cuda-graph-max-bs is " + s, Source: "launch", At: v.Started})
			}
			if setting(v, "--disable-cuda-graph") == "True" || flagSet(v.Argv, "--disable-cuda-graph") {
				c.Why, c.Advice = "graphs are switched off by --disable-cuda-graph", "start without --disable-cuda-graph, unless memory forbids it"
			}
			out.Raise(c)
		}
	},
}

// roundUp gives the next batch size for which engines capture.
func roundUp(n float64) float64 {
	size := 32.0
	for size < n {
		size += 32
	}
	return size
}

// flagSet tells whether a switch stands in an argv.
func flagSet(argv []string, flag string) bool {
	for _, a := range argv {
		if a == flag {
			return true
		}
	}
	return false
}
