package forecast_test

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/launch/forecast"
	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote/simnode/model"
)

// measured is what a start on the simulated node printed.
type measured struct {
	argv                            []string
	capacity, headroom, free, bytes float64
}

// run starts a server on the simulated node, whose memory is reckoned from
// bytes, and reads its figures from its log, as rounded there.
func run(t *testing.T, flags ...string) measured {
	t.Helper()
	now := time.Date(2026, 2, 24, 12, 0, 0, 0, time.UTC)
	n := model.New(model.Scenarios()[0], now)
	for _, p := range n.Processes() {
		n.Signal(p.PID, model.SIGKILL)
	}
	now = now.Add(5 * time.Second)
	n.Advance(now)
	m := measured{argv: append(strings.Fields("python3 -m sglang.launch_server --model-path /data/models/Kimi-K2.5 --tp-size 8 --host 127.0.0.1 --port 8000"), flags...)}
	n.Launch(model.Launch{Argv: m.argv, Dir: "/", Env: []string{"PATH=/usr/bin"}})
	log := ""
	for range 60 {
		now = now.Add(time.Second)
		for _, c := range n.Advance(now).Server {
			log += c.Text
		}
		if strings.Contains(log, "max_total_num_tokens=") {
			break
		}
	}
	figure := func(before string) float64 {
		_, rest, ok := strings.Cut(log, before)
		v, err := strconv.ParseFloat(rest[:strings.IndexAny(rest+" ", " ,\n")], 64)
		if !ok || err != nil {
			t.Fatalf("%v: no %q in the log (%v):\n%.600s", flags, before, err, log)
		}
		return v
	}
	m.capacity, m.headroom, m.free = figure("max_total_num_tokens="), figure("available_gpu_mem="), figure("Load weight begin. avail mem=")
	m.bytes = math.Round(figure("KV size: ") * (1 << 30) / m.capacity)
	return m
}

func (m measured) launch() launch.Launch {
	return launch.Launch{Engine: "sglang", Version: "0.5.9", PID: 1, Argv: m.argv}
}

func (m measured) start(no int) metrics.Start {
	return metrics.Start{No: no, Engine: "sglang", Version: "0.5.9", Argv: m.argv, Outcome: "stopped", Capacity: &m.capacity, HeadroomGB: &m.headroom}
}

func (m measured) facts() forecast.Facts {
	fig := func(v float64) metrics.Figure { return metrics.Fixed(v, time.Time{}, "log") }
	return forecast.Facts{Launch: m.launch(), Capacity: fig(m.capacity), Headroom: fig(m.headroom), FreeAtStart: fig(m.free), BytesPerTok: fig(m.bytes), KVDtype: "bfloat16", TP: 8}
}

// The forecast is made first, then the start is tried on the simulated node.
func TestForecastMeetsTheSimulatedNode(t *testing.T) {
	present, earlier := run(t, "--mem-fraction-static", "0.88"), run(t, "--mem-fraction-static", "0.85")
	for _, flags := range [][]string{
		{"--mem-fraction-static", "0.80"}, {"--mem-fraction-static", "0.87"}, {"--mem-fraction-static", "0.90"}, {"--mem-fraction-static", "0.915"},
		{"--mem-fraction-static", "0.93"}, {"--mem-fraction-static", "0.90", "--kv-cache-dtype", "fp8_e4m3"}, {"--mem-fraction-static", "0.88", "--kv-cache-dtype", "fp8_e4m3"},
	} {
		t.Run(fmt.Sprint(flags), func(t *testing.T) {
			want := run(t, flags...)
			two := forecast.Make(want.launch(), present.facts(), []metrics.Start{earlier.start(1)})
			one := forecast.Make(want.launch(), present.facts(), nil)
			// Each of the two starts is rounded down by less than a token, which the
			// line carries at most 2.7 times as far.
			if d := math.Abs(two.Capacity.V - want.capacity); !two.Capacity.Known || d > 4 {
				t.Errorf("from two starts %v tokens, it has %v", two.Capacity.V, want.capacity)
			}
			if c := one.Capacity; !c.Known || math.Abs(c.V-want.capacity) > 0.01*want.capacity || c.Low > want.capacity+1 || c.High < want.capacity-1 {
				t.Errorf("from one start %v (%v to %v), it has %v", c.V, c.Low, c.High, want.capacity)
			}
			if h := two.Headroom; !h.Known || h.Low-0.006 > want.headroom || h.High+0.006 < want.headroom {
				t.Errorf("headroom %.3f to %.3f, it has %v", h.Low, h.High, want.headroom)
			}
		})
	}
}
