package main

import (
	"context"
	"sync"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote"
	"github.com/runvigil/runvigil/tui"
)

// prompts carries the questions of a login to the screen and the answers back.
type prompts struct {
	out chan tui.Prompt

	mu      sync.Mutex
	next    int
	waiting map[int]chan promptAnswer
}

type promptAnswer struct {
	text string
	ok   bool
}

func newPrompts() *prompts {
	return &prompts{out: make(chan tui.Prompt, 16), waiting: map[int]chan promptAnswer{}}
}

// Ask shows a question and waits for the person.
func (p *prompts) Ask(ctx context.Context, q remote.Prompt) (string, error) {
	p.mu.Lock()
	p.next++
	id := p.next
	answer := make(chan promptAnswer, 1)
	p.waiting[id] = answer
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.waiting, id)
		p.mu.Unlock()
	}()
	select {
	case p.out <- shownPrompt(id, q):
	case <-ctx.Done():
		return "", ctx.Err()
	}
	select {
	case a := <-answer:
		if !a.ok {
			return "", remote.ErrCanceled
		}
		return a.text, nil
	case <-ctx.Done():
		select {
		case p.out <- tui.Prompt{ID: id, Kind: tui.PromptWithdraw}:
		default: // the screen is gone too, and with it the question
		}
		return "", ctx.Err()
	}
}

func shownPrompt(id int, q remote.Prompt) tui.Prompt {
	out := tui.Prompt{ID: id, Text: metrics.Clean(q.Text, 1000), Fingerprint: q.Fingerprint}
	switch q.Kind {
	case remote.PromptHostKey:
		out.Kind, out.Title = tui.PromptHostKey, "Unknown host key of "+q.Host
	case remote.PromptPassphrase:
		out.Kind, out.Title = tui.PromptSecret, "Passphrase for "+first(q.Key, "a key")
	case remote.PromptPassword:
		out.Kind, out.Title = tui.PromptSecret, "Password for "+q.Host
	case remote.PromptOTP:
		out.Kind, out.Title = tui.PromptText, "One-time code for "+q.Host
	case remote.PromptTouch:
		out.Kind, out.Title = tui.PromptTouch, "Touch your security key"
	default:
		out.Kind, out.Title = tui.PromptText, q.Host+" asks"
	}
	if !q.Echo && out.Kind == tui.PromptText && q.Kind != remote.PromptOTP {
		out.Kind = tui.PromptSecret
	}
	if q.Again {
		out.Text = "That was refused: it was not the right answer. " + out.Text
	}
	out.Title = metrics.Clean(out.Title, 200)
	return out
}

// answer hands what the person typed to the question that waits for it.
func (p *prompts) answer(id int, text string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ch := p.waiting[id]; ch != nil {
		select {
		case ch <- promptAnswer{text, ok}:
		default:
		}
	}
}
