package model

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 2, 24, 12, 16, 7, 0, time.FixedZone("CET", 3600))

func scenario(t testing.TB, name string) Scenario {
	t.Helper()
	sc, err := Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return sc
}

type batchLine struct {
	at                      time.Time
	running, tokens, queued int
	usage                   string
	tps                     float64
	text                    string
}

// decodeLines reads the Decode lines of a server's output.
func decodeLines(t testing.TB, chunks []Chunk) []batchLine {
	t.Helper()
	var list []batchLine
	for _, c := range chunks {
		i := strings.Index(c.Text, "Decode batch, ")
		if i < 0 {
			continue
		}
		b := batchLine{at: c.At, text: strings.TrimSpace(c.Text)}
		usage := 0.0
		if _, err := fmt.Sscanf(c.Text[i:], "Decode batch, #running-req: %d, #token: %d, token usage: %f, cuda graph: True, gen throughput (token/s): %f, #queue-req: %d",
			&b.running, &b.tokens, &usage, &b.tps, &b.queued); err != nil {
			t.Fatalf("decode line %q: %v", c.Text, err)
		}
		b.usage = fmt.Sprintf("%.2f", usage)
		list = append(list, b)
	}
	return list
}

func TestCapacities(t *testing.T) {
	for _, c := range []struct {
		fraction, dtype string
		tokens          int
		headroom        string
	}{
		{"0.85", "auto", 116_171, "8.27"},
		{"0.88", "auto", 159_277, "5.47"},
		{"0.93", "auto", 231_120, "0.82"},
		{"0.90", "fp8_e4m3", 376_028, "3.61"},
		{"0.90", "auto", 188_014, "3.61"},
	} {
		f, err := ParseFlags([]string{"python3", "-m", "sglang.launch_server", "--model-path", "/m", "--tp", "8", "--mem-frac", c.fraction, "--kv-cache-dtype=" + c.dtype})
		if err != nil {
			t.Fatal(err)
		}
		if got := f.poolTokens(); got != c.tokens {
			t.Errorf("%s %s: %d tokens, want %d", c.fraction, c.dtype, got, c.tokens)
		}
		if got := fmt.Sprintf("%.2f", gb(f.headroom())); got != c.headroom {
			t.Errorf("%s %s: headroom %s GiB, want %s", c.fraction, c.dtype, got, c.headroom)
		}
	}
}

func TestRampPeaksAsTheRunDid(t *testing.T) {
	n := New(scenario(t, "ramp"), noon)
	lines := decodeLines(t, n.Past().Server)
	peak := lines[0]
	near72 := false
	for _, l := range lines {
		if l.tps > peak.tps {
			peak = l
		}
		near72 = near72 || l.tps >= 988.5 && l.tps < 990 && l.running >= 70 && l.running <= 74
	}
	want := "Decode batch, #running-req: 121, #token: 139188, token usage: 0.87, cuda graph: True, gen throughput (token/s): 1317.32, #queue-req: 29"
	if _, got, _ := strings.Cut(peak.text, "] "); got != want {
		t.Errorf("highest line\n%s\nwant\n%s", got, want)
	}
	if peak != lines[len(lines)-1] {
		t.Errorf("the peak is not the newest line: %s", lines[len(lines)-1].text)
	}
	if !near72 {
		t.Error("no line of 989 tok/s at about 72 running")
	}
	if got := len(n.Past().Rows); got != 25 {
		t.Errorf("%d rows two minutes after the client's start, want 25", got)
	}
	if part := n.Parts()[1]; part.Rows != 1399 || part.Base != 1374 {
		t.Errorf("part has %d rows, %d before; want 1399 and 1374", part.Rows, part.Base)
	}
}

func TestStorySettles(t *testing.T) {
	n := New(scenario(t, "story"), noon)
	if got := n.Parts()[1].Rows; got < 1531 || got > 1545 {
		t.Errorf("%d rows at 19 minutes, want 1,531 or a little more", got)
	}
	if text := n.Past().Client; len(text) != 0 {
		t.Errorf("the client's log is not empty: %q", text[0].Text)
	}
	chunks := append([]Chunk(nil), n.Past().Server...)
	rows := append([]Row(nil), n.Past().Rows...)
	for minute := range 5 * 60 {
		out := n.Advance(noon.Add(time.Duration(minute+1) * time.Minute))
		chunks = append(chunks, out.Server...)
		rows = append(rows, out.Rows...)
	}
	lines := decodeLines(t, chunks)
	settled := n.Past().Server[0].At.Add(start5 + 6*time.Minute)
	for _, c := range chunks {
		if strings.Contains(c.Text, "Retract requests") && c.At.After(settled) {
			t.Fatalf("retracted after settling: %s", c.Text)
		}
	}
	var tps, usage, each, count float64
	window := map[int64][]float64{}
	for _, l := range lines {
		if l.at.Before(settled) {
			continue
		}
		tps += l.tps
		usage += float64(l.tokens) / 159_277
		each += float64(l.tokens) / float64(l.running)
		count++
		window[l.at.Unix()/10] = append(window[l.at.Unix()/10], l.tps)
		if l.running+l.queued < 148 || l.running+l.queued > 150 {
			t.Errorf("in flight is not 150: %s", l.text)
		}
	}
	for at, list := range window {
		sum := 0.0
		for _, v := range list {
			sum += v
		}
		if level := sum / float64(len(list)); level < 540 || level > 670 {
			t.Errorf("level of 10 s at %s is %.1f tok/s", time.Unix(at*10, 0), level)
		}
	}
	for _, c := range []struct {
		what           string
		got, low, high float64
	}{
		{"tok/s", tps / count, 600, 610},
		{"KV usage", usage / count, 0.965, 0.98},
		{"tokens a request", each / count, 4380, 4470},
		{"rows a minute", float64(len(rows)-len(n.Past().Rows)) / (5 * 60), 8.5, 9.5},
	} {
		if c.got < c.low || c.got > c.high {
			t.Errorf("settled %s: %.3f, want %v to %v", c.what, c.got, c.low, c.high)
		}
	}
}

func TestFP8RunsWithoutQueue(t *testing.T) {
	sc := run("fp8", "", 3*time.Minute)
	sc.script[0].do = launch(with(with(serverArgv, "--mem-fraction-static", "0.90"), "--kv-cache-dtype", "fp8_e4m3"))
	n := New(sc, noon)
	seen := 0
	for _, l := range decodeLines(t, n.Past().Server) {
		if l.at.Sub(n.epoch) < start5+76*time.Second {
			continue
		}
		seen++
		if l.running < 134 || l.running > 150 || l.queued > 2 || l.tps < 1300 || l.tps > 1470 {
			t.Errorf("fp8: %s", l.text)
		}
	}
	if seen < 20 {
		t.Errorf("%d lines, want more", seen)
	}
}

func TestLargePrefillNeedsHeadroom(t *testing.T) {
	n := New(scenario(t, "oom"), noon)
	var text strings.Builder
	var ready, crashed time.Time
	for _, c := range n.Past().Server {
		text.WriteString(c.Text)
		if strings.Contains(c.Text, "fired up") {
			ready = c.At
		}
		if strings.Contains(c.Text, "OutOfMemoryError") && crashed.IsZero() {
			crashed = c.At
		}
	}
	log := text.String()
	for _, want := range []string{"max_total_num_tokens=231120", "available_gpu_mem=0.82 GB", "#new-token: 8192",
		"TP3] Scheduler hit an exception: Traceback (most recent call last):", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate",
		"SIGQUIT received. signum=None, frame=None. It usually means one child failed."} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %q", want)
		}
	}
	if crashed.IsZero() || crashed.Before(ready) || n.Server().Phase != PhaseDead {
		t.Errorf("ready %s, crashed %s, phase %s", ready, crashed, n.Server().Phase)
	}
	small := run("chunk", "", 40*time.Second)
	small.script[0].do = launch(with(with(serverArgv, "--mem-fraction-static", "0.93"), "--chunked-prefill-size", "4096"))
	if st := New(small, noon).Server(); st.Phase != PhaseReady || st.Running == 0 {
		t.Errorf("with chunks of 4096 the server is %s with %d running, want ready", st.Phase, st.Running)
	}
}
