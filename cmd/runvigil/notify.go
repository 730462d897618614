package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/runvigil/runvigil/cmd/runvigil/config"
	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/report"
)

const (
	// notifyLimit is how long one run of the command may take.
	notifyLimit = 30 * time.Second
	// notifyKeep bounds the findings that wait for their turn.
	notifyKeep = 32
)

// notice is the JSON object that the command of on_finding reads.
type notice struct {
	Schema  int            `json:"schema"`
	Node    string         `json:"node"`
	At      time.Time      `json:"at"`
	Event   string         `json:"event"` // raised or worse
	Summary string         `json:"summary"`
	Finding report.Finding `json:"finding"`
	LeftOut int            `json:"left_out"` // older ones that were dropped before this one
}

// A notifier runs the command of on_finding, one at a time and not too often.
// put never blocks; a command that hangs is ended and costs nobody else time.
type notifier struct {
	cfg  config.Notify
	run  func(ctx context.Context, n notice) error
	done chan struct{}

	mu      sync.Mutex
	told    map[string]metrics.Severity // by id, subject and since
	waiting []notice
	leftOut int
	wake    chan struct{}
}

// newNotifier starts a notifier that lives until ctx ends; nil where the
// configuration names no command.
func newNotifier(ctx context.Context, cfg config.Notify) *notifier {
	if cfg.Command == "" {
		return nil
	}
	n := &notifier{cfg: cfg, told: map[string]metrics.Severity{}, wake: make(chan struct{}, 1), done: make(chan struct{})}
	n.run = n.command
	go n.work(ctx)
	return n
}

// put looks for findings that are new or worse. A replay tells nobody.
func (n *notifier) put(s *metrics.Snapshot) {
	if n == nil || s.Replay {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	seen := make(map[string]metrics.Severity, len(s.Findings))
	for _, f := range s.Findings {
		if s.At.Before(f.NoNews) {
			continue // it comes and goes, and was told
		}
		key := f.ID + "\x00" + f.Subject
		was, again := n.told[key]
		seen[key] = max(was, f.Severity)
		if f.Severity < n.cfg.From || f.Acked || !f.Snoozed.IsZero() || again && f.Severity <= was {
			continue
		}
		event := "raised"
		if again {
			event = "worse"
		}
		n.waiting = append(n.waiting, notice{
			Schema: 1, Node: s.Node, At: s.At.UTC(), Event: event, Summary: s.Verdict.Text, Finding: report.NewFinding(f),
		})
		if over := len(n.waiting) - notifyKeep; over > 0 {
			n.waiting = n.waiting[over:]
			n.leftOut += over
		}
	}
	n.told = seen
	if len(n.waiting) > 0 {
		select {
		case n.wake <- struct{}{}:
		default:
		}
	}
}

func (n *notifier) work(ctx context.Context) {
	defer close(n.done)
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.wake:
		}
		for {
			next, ok := n.take()
			if !ok {
				break
			}
			if err := n.run(ctx, next); err != nil {
				slog.Warn("on_finding", "finding", next.Finding.ID, "error", err)
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(n.cfg.Pause):
			}
		}
	}
}

func (n *notifier) take() (notice, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.waiting) == 0 {
		return notice{}, false
	}
	next := n.waiting[0]
	n.waiting = n.waiting[1:]
	next.LeftOut, n.leftOut = n.leftOut, 0
	return next, true
}

// command runs the configured command with the notice on its standard input.
func (n *notifier) command(ctx context.Context, note notice) error {
	data, err := json.Marshal(note)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, notifyLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", n.cfg.Command)
	cmd.Stdin = bytes.NewReader(append(data, '\n'))
	cmd.Env = append(os.Environ(), "RUNVIGIL_NODE="+note.Node, "RUNVIGIL_ID="+note.Finding.ID, "RUNVIGIL_SEVERITY="+note.Finding.Severity, "RUNVIGIL_TITLE="+note.Finding.Title)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, metrics.Cut(metrics.Clean(string(out), 0), 400))
	}
	return nil
}
