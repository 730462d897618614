package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runvigil/runvigil/cmd/runvigil/config"
	"github.com/runvigil/runvigil/metrics"
)

func withFindings(fs ...metrics.Finding) *metrics.Snapshot {
	return &metrics.Snapshot{Node: "gpu7", At: t0, Findings: fs, Verdict: metrics.Verdict{Text: "bad"}}
}

func TestNotifier(t *testing.T) {
	crit := metrics.Finding{ID: "server-hung", Subject: "1:1", Severity: metrics.SeverityCritical, Title: "hung"}
	warn := metrics.Finding{ID: "kv-saturated", Subject: "1:1", Severity: metrics.SeverityWarning}
	worse := warn
	worse.Severity = metrics.SeverityCritical
	acked := crit
	acked.ID, acked.Acked = "gpu-lost", true
	replayed := withFindings(metrics.Finding{ID: "link-down", Severity: metrics.SeverityCritical})
	replayed.Replay = true
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		n := newNotifier(ctx, config.Notify{Command: "x", From: metrics.SeverityCritical, Pause: time.Minute})
		begin := time.Now()
		type told struct {
			id, event string
			after     time.Duration
		}
		var got []told
		n.run = func(_ context.Context, note notice) error {
			got = append(got, told{note.Finding.ID, note.Event, time.Since(begin)})
			return nil
		}
		n.put(replayed)
		n.put(withFindings(warn, acked))
		n.put(withFindings(crit, warn, acked))
		n.put(withFindings(crit, warn, acked))
		n.put(withFindings(crit, worse, acked))
		synctest.Wait()
		time.Sleep(2 * time.Minute)
		n.put(withFindings(worse)) // the hang is over …
		n.put(withFindings(crit, worse))
		flapping := crit
		flapping.ID, flapping.NoNews = "link-down", t0.Add(time.Second)
		n.put(withFindings(crit, worse, flapping)) // back for a moment: no news
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		want := []told{{"server-hung", "raised", 0}, {"kv-saturated", "worse", time.Minute}, {"server-hung", "raised", 2 * time.Minute}}
		if len(got) != len(want) {
			t.Fatalf("told %v, want %v", got, want)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("told %v, want %v", got[i], want[i])
			}
		}
		cancel()
		<-n.done
	})
}

func TestNotifierDropsTheOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		n := newNotifier(ctx, config.Notify{Command: "x", From: metrics.SeverityInfo, Pause: time.Second})
		var left, ran int
		n.run = func(_ context.Context, note notice) error {
			left += note.LeftOut
			ran++
			return nil
		}
		var fs []metrics.Finding
		for i := range 100 {
			fs = append(fs, metrics.Finding{ID: "x", Subject: strings.Repeat("y", i+1), Severity: metrics.SeverityInfo})
		}
		n.put(withFindings(fs...)) // never blocks
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if ran != notifyKeep || left != 100-notifyKeep {
			t.Errorf("ran %d times and left out %d", ran, left)
		}
		cancel()
		<-n.done
	})
}

func TestNoCommandNoNotifier(t *testing.T) {
	n := newNotifier(t.Context(), config.Notify{})
	n.put(withFindings(metrics.Finding{ID: "x", Severity: metrics.SeverityCritical})) // a nil one takes everything
	if n != nil {
		t.Error("a notifier without a command")
	}
}

func TestNotifyCommand(t *testing.T) {
	out := filepath.Join(t.TempDir(), "told")
	n := &notifier{cfg: config.Notify{Command: `cat > ` + out + `; echo "$RUNVIGIL_ID $RUNVIGIL_SEVERITY" >> ` + out}}
	note := notice{Schema: 1, Node: "gpu7", Event: "raised"}
	note.Finding.ID, note.Finding.Severity, note.Finding.Title = "gpu-lost", "critical", "GPU 5 is lost; $(reboot)"
	if err := n.command(t.Context(), note); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	first, rest, _ := strings.Cut(string(data), "\n")
	var back notice
	if err := json.Unmarshal([]byte(first), &back); err != nil || back.Finding.Title != note.Finding.Title || rest != "gpu-lost critical\n" {
		t.Errorf("%v: %q", err, data)
	}
	n.cfg.Command = "echo no luck >&2; exit 3"
	if err := n.command(t.Context(), note); err == nil || !strings.Contains(err.Error(), "no luck") {
		t.Errorf("a failing command says %v", err)
	}
}
