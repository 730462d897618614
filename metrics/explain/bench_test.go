package explain

import (
	"bytes"
	"strings"
	"testing"
)

func BenchmarkRead(b *testing.B) {
	line := "[2026-02-24 12:00:00 TP0] Decode batch, #running-req: 35, #token: 154912, token usage: 0.97, cuda graph: True, gen throughput (token/s): 606.10, #queue-req: 115\n"
	log := []byte(strings.Repeat(line, 100_000))
	b.SetBytes(int64(len(log)))
	for b.Loop() {
		if _, err := Read(bytes.NewReader(log), KindAuto); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(100_000*b.N)/b.Elapsed().Seconds(), "lines/s")
}
