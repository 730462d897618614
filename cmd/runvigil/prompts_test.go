package main

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote"
	"github.com/runvigil/runvigil/tui"
)

func TestPromptIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPrompts()
		go func() {
			q := <-p.out
			if q.Kind != tui.PromptSecret || q.Title != "Password for root@gpu7" {
				t.Errorf("shown as %+v", q)
			}
			p.answer(q.ID+1, "for another question", true)
			p.answer(q.ID, "secret", true)
			p.answer(q.ID, "twice", true)
		}()
		got, err := p.Ask(t.Context(), remote.Prompt{Kind: remote.PromptPassword, Host: "root@gpu7", Text: "password:"})
		if got != "secret" || err != nil {
			t.Errorf("answer %q, %v", got, err)
		}
	})
}

func TestPromptIsDeclined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPrompts()
		go func() { p.answer((<-p.out).ID, "", false) }()
		if _, err := p.Ask(t.Context(), remote.Prompt{Kind: remote.PromptHostKey}); !errors.Is(err, remote.ErrCanceled) {
			t.Errorf("error %v, want ErrCanceled", err)
		}
	})
}

func TestPromptIsWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPrompts()
		ctx, cancel := context.WithCancel(t.Context())
		var first tui.Prompt
		go func() {
			first = <-p.out
			cancel()
		}()
		if _, err := p.Ask(ctx, remote.Prompt{Kind: remote.PromptTouch}); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want canceled", err)
		}
		if q := <-p.out; q.Kind != tui.PromptWithdraw || q.ID != first.ID {
			t.Errorf("after the end %+v is shown, want the question withdrawn", q)
		}
	})
}

// A refused answer is said to be refused.
func TestPromptThatComesAgain(t *testing.T) {
	q := remote.Prompt{Kind: remote.PromptPassphrase, Key: "/k", Text: "Enter passphrase for key '/k':"}
	if p := shownPrompt(1, q); strings.Contains(p.Text, "refused") {
		t.Errorf("the first question says %q", p.Text)
	}
	q.Again = true
	if p := shownPrompt(2, q); !strings.HasPrefix(p.Text, "That was refused") || !strings.Contains(p.Text, "/k") {
		t.Errorf("the second question says %q", p.Text)
	}
}

// What the user writes of the simulated node holds there, over what it brings.
func TestDemoTakesTheConfiguration(t *testing.T) {
	brought := metrics.Config{Targets: []metrics.ConfigTarget{{Rows: 88_000}}, Guards: []metrics.Guard{{Flag: "kv-cache-dtype"}}, ClientCommand: "run", ClientResumable: true, ServerLogs: []string{"/s"}}
	got := over(brought, metrics.Config{Thresholds: map[string]float64{"hung_s": 7}, Targets: []metrics.ConfigTarget{{Rows: 5}}, GuardsFile: "/g"})
	want := brought
	want.Thresholds, want.Targets, want.GuardsFile = map[string]float64{"hung_s": 7}, []metrics.ConfigTarget{{Rows: 5}}, "/g"
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if got := over(brought, metrics.Config{}); !reflect.DeepEqual(got, brought) {
		t.Errorf("without a word of the user: %+v", got)
	}
}
