package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// login chooses the next method of one native login: keys, then a dialog of
// the server, then a password. It remembers what happened for the explanation.
type login struct {
	ctx     context.Context
	asker   *asker
	user    string
	host    string
	pending []credential
	tried   []Attempt
	offered []string
	started bool
	dialogs int
	words   int
}

// passwordTries is how often a wrong password may be corrected.
const passwordTries = 3

// next is the library's callback before each attempt.
func (l *login) next(c *ssh.ClientAuthContext) (ssh.AuthMethod, error) {
	l.started = true
	l.offered = c.AllowedMethods
	if l.asker.canceled && !l.canceledKeyOnly() {
		return nil, ErrCanceled
	}
	if p := l.asker.unanswered; p != nil && p.Kind != PromptPassphrase && l.asker.prompter != nil {
		return nil, ErrNoPrompts
	}
	if slices.Contains(l.offered, "publickey") {
		if m := l.nextKey(); m != nil {
			return m, nil
		}
	}
	who := l.user + "@" + l.host
	if slices.Contains(l.offered, "keyboard-interactive") && l.dialogs < passwordTries {
		l.dialogs++
		if l.asker.prompter == nil {
			_ = l.asker.nobody(Prompt{Kind: PromptPassword, Host: who})
		} else {
			l.tried = append(l.tried, Attempt{Source: "keyboard-interactive", Result: "refused"})
			return ssh.KeyboardInteractive(l.challenge), nil
		}
	}
	if slices.Contains(l.offered, "password") && l.words < passwordTries {
		l.words++
		if l.asker.prompter == nil {
			_ = l.asker.nobody(Prompt{Kind: PromptPassword, Host: who})
		} else {
			l.tried = append(l.tried, Attempt{Source: "password", Result: "refused"})
			return ssh.PasswordCallback(func() (string, error) {
				return l.asker.ask(l.ctx, Prompt{Kind: PromptPassword, Text: who + "'s password", Host: who})
			}), nil
		}
	}
	return nil, nil
}

// canceledKeyOnly tells that what was declined is a passphrase: the login goes
// on with the next key, as ssh does.
func (l *login) canceledKeyOnly() bool {
	n := len(l.tried)
	return n > 0 && l.tried[n-1].Source == "file"
}

// nextKey offers one key an attempt, so that a key that fails to sign does not
// keep the next one from being offered.
func (l *login) nextKey() ssh.AuthMethod {
	for len(l.pending) > 0 {
		c := l.pending[0]
		l.pending = l.pending[1:]
		l.tried = append(l.tried, c.Attempt)
		at := &l.tried[len(l.tried)-1]
		if c.signer == nil {
			s, err := c.load()
			if err != nil {
				at.Result = notUsed(err)
				continue
			}
			c.signer = s
			*at = describe(c.Source, c.Name, s.PublicKey())
		}
		at.Result = "refused"
		index := len(l.tried) - 1
		if lazy, ok := c.signer.(*lazySigner); ok {
			load := lazy.load
			lazy.load = func() (ssh.Signer, error) {
				s, err := load()
				if err != nil {
					l.tried[index].Result = "accepted by the server, but " + notUsed(err)
				}
				return s, err
			}
		}
		return ssh.PublicKeys(c.signer)
	}
	return nil
}

func notUsed(err error) string {
	if errors.Is(err, ErrNoPrompts) || errors.Is(err, ErrCanceled) {
		return "not used: its passphrase was not given"
	}
	return fmt.Sprintf("not used: %v", err)
}

// challenge answers the server's own questions, one prompt each.
func (l *login) challenge(name, instruction string, questions []string, echos []bool) ([]string, error) {
	intro := strings.TrimSpace(strings.TrimSpace(name) + "\n" + strings.TrimSpace(instruction))
	answers := make([]string, len(questions))
	for i, q := range questions {
		p := classify(q)
		if p.Kind == PromptHostKey || p.Kind == PromptTouch {
			p.Kind = PromptText // a server cannot ask these
		}
		p.Host = l.user + "@" + l.host
		p.Echo = echos[i]
		if intro != "" {
			p.Text = intro + "\n" + p.Text
		}
		answer, err := l.asker.ask(l.ctx, p)
		if err != nil {
			return nil, err
		}
		answers[i] = answer
	}
	return answers, nil
}

// how says by what the login succeeded.
func (l *login) how() string {
	if len(l.tried) == 0 {
		return "none"
	}
	a := l.tried[len(l.tried)-1]
	switch a.Source {
	case "agent", "file":
		return strings.TrimSpace("publickey " + a.Name)
	default:
		return a.Source
	}
}
