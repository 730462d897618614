package main

import (
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

var t0 = time.Date(2026, 2, 24, 12, 0, 0, 0, time.UTC)

// everything is one frame of each kind that a first look waits for.
func everything(at time.Time) []metrics.Frame {
	return []metrics.Frame{
		metrics.JSONFrame(metrics.KindLink, "", at, metrics.LinkFact{Status: metrics.LinkUp}),
		metrics.JSONFrame(metrics.KindSession, "", at, metrics.Session{}),
		metrics.JSONFrame(metrics.KindScan, "", at, metrics.Scan{}),
		metrics.JSONFrame(metrics.KindGPUError, "", at, metrics.GPUErrorFact{Absent: true}),
		{Kind: metrics.KindSys, At: at},
	}
}

func TestFirstLookWaitsForEveryWant(t *testing.T) {
	l := newFirstLook()
	for _, f := range everything(t0) {
		l.see(f)
	}
	wants := []metrics.Want{
		{Kind: metrics.WantRows, Path: "/b.jsonl"},
		{Kind: metrics.WantLog, Path: "/s.log"},
		{Kind: metrics.WantHTTP, Port: 8000, Path: "/v1/loads"},
		{Kind: metrics.WantMemory, PID: 7},
		{Kind: metrics.WantMemory, PID: 8},
		{Kind: metrics.WantKernel},
	}
	l.want(wants, t0)
	answers := []metrics.Frame{
		metrics.JSONFrame(metrics.KindRows, "/b.jsonl", t0, metrics.RowsFact{Path: "/b.jsonl"}),
		{Kind: metrics.KindLog, Name: "/s.log", At: t0, Data: metrics.EncodeChunk(metrics.LogHeader{End: 10, Size: 10}, nil)},
		{Kind: metrics.KindHTTP, Name: "8000 /v1/loads", At: t0},
		{Kind: metrics.KindSys, At: t0, Data: []byte("uptime 1 1\ngroups 8\n")},
		{Kind: metrics.KindSys, At: t0, Data: []byte("uptime 2 2\ngroups 7 8\ngroup 7 1 1 0 0 /a\n")},
	}
	for _, f := range answers {
		if l.complete(t0.Add(time.Minute)) {
			t.Fatalf("complete before %s %s", f.Kind, f.Name)
		}
		l.see(f)
	}
	if l.complete(t0.Add(settleFor / 2)) {
		t.Error("complete at once: answers bring new wants")
	}
	if !l.complete(t0.Add(settleFor)) {
		t.Errorf("still waits for %v", l.pending)
	}
	l.want(append(wants, metrics.Want{Kind: metrics.WantDir, Path: "/new"}), t0.Add(time.Second))
	if l.complete(t0.Add(time.Minute)) {
		t.Error("complete although a new want was not answered")
	}
}

func TestFirstLookNeedsTheWholeLog(t *testing.T) {
	l := newFirstLook()
	l.want([]metrics.Want{{Kind: metrics.WantLog, Path: "/s.log"}}, t0)
	l.see(metrics.Frame{Kind: metrics.KindLog, Name: "/s.log", At: t0, Data: metrics.EncodeChunk(metrics.LogHeader{End: 5, Size: 1 << 20, Backfill: 1}, nil)})
	if len(l.pending) != 1 {
		t.Error("half a log counts as an answer")
	}
}

func TestFirstLookTellsAFailedLink(t *testing.T) {
	l := newFirstLook()
	if _, down := l.failed(); down {
		t.Error("down before anything was tried")
	}
	l.see(metrics.JSONFrame(metrics.KindLink, "", t0, metrics.LinkFact{Status: metrics.LinkDown, Reason: "refused"}))
	if reason, down := l.failed(); !down || reason != "refused" {
		t.Errorf("failed() = %q, %v", reason, down)
	}
}
