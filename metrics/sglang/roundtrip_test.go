package sglang

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// writer renders batch lines as one version prints them.
type writer struct {
	name                      string
	dot, oldest, iter, trails bool
	spec, rate, pdNew, pend   bool
	graph, prefillGraph       bool
	inputFirst, optimistic    bool
	cacheHit, hybrid, mfu     bool
	stamp                     string // layout: full, time
	order                     []string
}

var writers = []writer{
	{name: "0.1", oldest: true},
	{name: "0.2.14", dot: true, stamp: "time", cacheHit: true},
	{name: "0.3", dot: true, stamp: "time", cacheHit: true},
	{name: "0.4.0.post1", dot: true, stamp: "full", cacheHit: true, graph: true, order: []string{"DP", "TP", "PP"}},
	{name: "0.4.3.post3", dot: true, stamp: "full", graph: true, trails: true, spec: true, order: []string{"DP", "TP", "PP"}},
	{name: "0.4.10", dot: true, stamp: "full", graph: true, trails: true, spec: true, hybrid: true, order: []string{"DP", "TP", "EP", "PP"}},
	{name: "0.5.3", dot: true, stamp: "full", graph: true, trails: true, spec: true, rate: true, hybrid: true, pdNew: true, order: []string{"DP", "TP", "EP", "PP"}},
	{name: "0.5.4", iter: true, stamp: "full", graph: true, trails: true, spec: true, rate: true, hybrid: true, pdNew: true, order: []string{"DP", "TP", "EP", "PP"}},
	{name: "0.5.8", stamp: "full", graph: true, trails: true, spec: true, rate: true, hybrid: true, pdNew: true, order: []string{"DP", "PP", "TP", "EP"}},
	{name: "0.5.9", stamp: "full", graph: true, prefillGraph: true, inputFirst: true, spec: true, rate: true, hybrid: true, pdNew: true, order: []string{"DP", "PP", "ATTN_CP", "MOE_DP", "TP", "EP"}},
	{name: "0.5.10", stamp: "full", graph: true, prefillGraph: true, spec: true, rate: true, hybrid: true, pdNew: true, mfu: true, order: []string{"DP", "PP", "ATTN_CP", "MOE_DP", "TP", "EP"}},
	{name: "0.5.11", stamp: "full", graph: true, prefillGraph: true, pend: true, spec: true, rate: true, hybrid: true, pdNew: true, mfu: true, order: []string{"DP", "PP", "ATTN_CP", "MOE_DP", "TP", "EP"}},
	{name: "0.5.18", stamp: "full", graph: true, prefillGraph: true, pend: true, spec: true, rate: true, hybrid: true, pdNew: true, mfu: true, optimistic: true, order: []string{"DP", "PP", "ATTN_CP", "MOE_DP", "TP", "EP"}},
}

// gen draws values; each draw gives the text of a number and the number.
type gen struct{ *rand.Rand }

func (g gen) count(max int) (string, Num) {
	n := g.IntN(max)
	if g.IntN(20) == 0 {
		n = 0
	}
	return strconv.Itoa(n), num(float64(n))
}

func (g gen) decimal(max float64) (string, Num) {
	text := strconv.FormatFloat(g.Float64()*max, 'f', 2, 64)
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err)
	}
	return text, num(v)
}

func (g gen) maybe() bool { return g.IntN(2) == 0 }

// line renders one batch line of the version and what has to be read from it.
func (w writer) line(g gen) (text string, h head, b Batch) {
	var keys []string
	put := func(dst *Num, key string, draw func() (string, Num), suffix string) {
		s, v := draw()
		keys = append(keys, key+": "+s+suffix)
		*dst = v
	}
	count := func(max int) func() (string, Num) { return func() (string, Num) { return g.count(max) } }
	decimal := func(max float64) func() (string, Num) { return func() (string, Num) { return g.decimal(max) } }
	flag := func(dst *Num, key string) {
		if g.maybe() {
			keys, *dst = append(keys, key+": True"), num(1)
		} else {
			keys, *dst = append(keys, key+": False"), num(0)
		}
	}
	percent := func(dst *Num, key string) {
		s, v := g.decimal(100)
		keys = append(keys, key+": "+s+"%")
		*dst = num(v.V / 100)
	}
	h = head{rank: NoRank}
	if w.oldest {
		put(&b.NewSeq, "#seq", count(9), "")
		put(&b.Cached, "#cached_token", count(9e4), "")
		put(&b.NewToken, "#new_token", count(9e3), "")
		put(&b.Queued, "#remaining_req", count(500), "")
		put(&b.Running, "#running_req", count(500), "")
		percent(&b.CacheHit, "tree_cache_hit_rate")
		b.Probe = probe(b)
		return "new fill batch. " + strings.Join(keys, ". "), h, b
	}
	b.Decode = g.maybe()
	pool := 0
	if w.hybrid {
		pool = g.IntN(4)
	}
	usage := func() {
		switch pool {
		case 0:
			if b.Decode {
				put(&b.Tokens, "#token", count(9e6), "")
			}
			put(&b.Usage, "token usage", decimal(1), "")
		case 1, 3:
			if b.Decode {
				put(&b.FullTokens, "#full token", count(9e6), "")
			}
			put(&b.FullUsage, "full token usage", decimal(1), "")
			if b.Decode {
				put(&b.SWATokens, "#swa token", count(9e5), "")
			}
			put(&b.SWAUsage, "swa token usage", decimal(1), "")
		}
		if pool == 2 {
			if b.Decode {
				put(&b.FullTokens, "#full token", count(9e6), "")
			}
			put(&b.FullUsage, "full token usage", decimal(1), "")
		}
		if pool >= 2 {
			if b.Decode {
				put(&b.MambaNum, "mamba num", count(900), "")
			}
			put(&b.MambaUsage, "mamba usage", decimal(1), "")
		}
	}
	graphKey := []string{"cuda graph", "npu graph", "musa graph", "cpu graph"}[g.IntN(4)]
	pd := w.pdNew && g.IntN(4) == 0
	if b.Decode {
		put(&b.Running, "#running-req", count(5000), "")
		usage()
		if w.spec && g.maybe() {
			put(&b.AcceptLen, "accept len", decimal(9), "")
			if w.rate {
				put(&b.AcceptRate, "accept rate", decimal(1), "")
			}
			if w.optimistic && g.maybe() {
				put(&b.CapLen, "cap len", decimal(9), "")
				put(&b.BlockAcceptLen, "block accept len", decimal(9), "")
			}
		}
		if pd {
			put(&b.PreallocUsage, "pre-allocated usage", decimal(1), "")
			put(&b.Prealloc, "#prealloc-req", count(99), "")
			put(&b.Transfer, "#transfer-req", count(99), "")
			put(&b.Retracted, "#retracted-req", count(99), "")
		}
		if w.graph {
			flag(&b.Graph, graphKey)
		}
		put(&b.GenTPS, "gen throughput (token/s)", decimal(1e5), "")
		put(&b.Queued, "#queue-req", count(9000), "")
		if w.mfu && g.maybe() {
			put(&b.DecodeTFLOPS, "est. decode TFLOPS/s (per GPU)", decimal(900), "")
			put(&b.ReadGBs, "est. read BW (GB/s per GPU)", decimal(9000), "")
			put(&b.WriteGBs, "est. write BW (GB/s per GPU)", decimal(9000), "")
		}
	} else {
		put(&b.NewSeq, "#new-seq", count(64), "")
		put(&b.NewToken, "#new-token", count(16384), "")
		put(&b.Cached, "#cached-token", count(2e6), "")
		if w.cacheHit {
			percent(&b.CacheHit, "cache hit rate")
		}
		usage()
		put(&b.Running, "#running-req", count(5000), "")
		put(&b.Queued, "#queue-req", count(9000), "")
		if w.pend {
			put(&b.Pending, "#pending-token", count(9e6), "")
		}
		if pd {
			put(&b.Bootstrap, "#bootstrap-req", count(99), "")
			put(&b.Inflight, "#inflight-req", count(99), "")
			if w.optimistic {
				put(&b.Optimistic, "#optimistic-req", count(99), "")
			}
		}
		if w.prefillGraph && !w.inputFirst {
			flag(&b.Graph, graphKey)
		}
		if w.prefillGraph {
			put(&b.InputTPS, "input throughput (token/s)", decimal(1e5), "")
		}
		if w.inputFirst {
			flag(&b.Graph, graphKey)
		}
	}
	if w.pend && g.IntN(3) == 0 {
		put(&b.Occupancy, "fwd occupancy", decimal(100), "%")
	}
	b.Probe = probe(b)
	words, sep := "Prefill batch", ", "
	if b.Decode {
		words = "Decode batch"
	}
	if w.iter {
		s, v := g.count(1e6)
		words, b.Iter = words+" ["+s+"]", v
	}
	if w.dot {
		sep = ". "
	}
	text = words + sep + strings.Join(keys, ", ")
	if w.trails && b.Decode {
		text += ", "
	}
	var prefix string
	prefix, h = w.prefix(g)
	return prefix + text, h, b
}

func probe(b Batch) bool {
	return !b.Decode && b.NewSeq.V == 1 && b.NewToken.V == 1 && b.Cached.V == 0 && b.Running.V == 0 && b.Queued.V == 0
}

func (w writer) prefix(g gen) (string, head) {
	h := head{rank: NoRank}
	sec := int64(g.IntN(4e9))
	h.at = Stamp{Known: true, Sec: sec, Date: true, Year: true}
	if w.stamp == "time" {
		h.at = Stamp{Known: true, Sec: sec % daySeconds}
	}
	text := h.at.String()
	if w.name == "0.5.18" && g.maybe() {
		ms := g.IntN(1000)
		text += fmt.Sprintf(".%03d", ms)
		h.at.Nano = int32(ms) * 1e6
	}
	for _, name := range w.order {
		if g.maybe() {
			continue
		}
		n := int16(g.IntN(128))
		text += fmt.Sprintf(" %s%d", name, n)
		switch name {
		case "DP":
			h.rank.DP = n
		case "PP":
			h.rank.PP = n
		case "ATTN_CP":
			h.rank.CP = n
		case "TP":
			h.rank.TP = n
		case "EP":
			h.rank.EP = n
		}
	}
	return "[" + text + "] ", h
}

// around puts what collectors and terminals add around a line.
func around(g gen, text string) string {
	switch g.IntN(12) {
	case 0:
		return "sglang-1  | " + text
	case 1:
		return "2026-02-24T11:59:51.123456789Z " + text
	case 2:
		return "Feb 24 11:59:51 gpu7 sglang[4711]: " + text
	case 3:
		return "\x1b[36m(SchedulerActor pid=616, ip=10.0.0.9)\x1b[0m " + text
	case 4:
		return "Loading safetensors checkpoint shards: 100% Completed | 5/5 [00:01<00:00,  4.62s/it]" + text
	case 5:
		return "│ " + text + "      │"
	case 6:
		return `{"log":` + strconv.Quote(text+"\n") + `,"stream":"stderr","time":"2026-02-24T11:59:51.1Z"}`
	case 7:
		return "[pod/sglang-0/server] " + text
	case 8:
		return text + "\r"
	}
	return text
}

func TestRoundTrip(t *testing.T) {
	const lines = 100_000
	g := gen{rand.New(rand.NewPCG(1, 2))}
	type want struct {
		text string
		h    head
		b    Batch
	}
	var wants []want
	var log bytes.Buffer
	for i := range lines {
		w := writers[i%len(writers)]
		text, h, b := w.line(g)
		wants = append(wants, want{text, h, b})
		if !w.oldest {
			text = around(g, text)
		}
		log.WriteString(text + "\n")
	}
	var p Parser
	n := 0
	check := func(ev *Event) {
		if ev.Kind != KindBatch {
			if ev.Kind == KindStartup && ev.Startup.Step == StepWeightsProgress {
				return // the glued bar
			}
			t.Fatalf("line %d: event of kind %d", ev.Line, ev.Kind)
		}
		if n >= len(wants) {
			t.Fatalf("line %d: more batches than lines", ev.Line)
		}
		w := wants[n]
		n++
		got := *ev.Batch
		w.b.GraphOn, w.b.keys, w.b.dot, w.b.trailing, w.b.inputFirst = got.GraphOn, got.keys, got.dot, got.trailing, got.inputFirst
		if got != w.b || ev.At != w.h.at || ev.Rank != w.h.rank {
			t.Fatalf("line %d: %s\n got %s %s %+v\nwant %s %s %+v", ev.Line, w.text, ev.At, ev.Rank, got, w.h.at, w.h.rank, w.b)
		}
	}
	data := log.Bytes()
	for len(data) > 0 {
		size := min(1+g.IntN(64<<10), len(data))
		p.Feed(data[:size], check)
		data = data[size:]
	}
	p.Flush(check)
	if n != lines {
		t.Errorf("%d of %d lines were read", n, lines)
	}
}
