package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

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
