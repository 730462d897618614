package remote

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// PromptKind says what a login asks for.
type PromptKind string

const (
	PromptHostKey    PromptKind = "host-key"   // answer "yes", the fingerprint, or anything else for no
	PromptPassphrase PromptKind = "passphrase" // of a key file, or the PIN of a token
	PromptPassword   PromptKind = "password"   // of the user on the node
	PromptOTP        PromptKind = "otp"        // one-time code
	PromptTouch      PromptKind = "touch"      // nothing to answer: shown until its context ends
	PromptText       PromptKind = "text"       // anything else
)

func (k PromptKind) what() string {
	switch k {
	case PromptHostKey:
		return "an unknown host key to confirm"
	case PromptPassphrase:
		return "the passphrase of a key"
	case PromptPassword:
		return "a password"
	case PromptOTP:
		return "a one-time code"
	case PromptTouch:
		return "a touch of the security key"
	default:
		return "an answer"
	}
}

// Prompt is one question of a login.
type Prompt struct {
	Kind PromptKind
	// Text is the question as it was asked. It may come from the node: clean
	// it before it is drawn.
	Text        string
	Host        string // "user@host" or the host
	Key         string // file or comment of the key that a passphrase is for
	KeyType     string // of a host key, e.g. "ED25519"
	Fingerprint string // SHA256:… of a host key
	Echo        bool   // the answer may be shown while it is typed
	// Again says that the same was answered before in this login: that answer
	// was refused.
	Again bool
}

// Prompter asks a person. Ask may block for minutes; when ctx ends the
// question is void and must disappear. A person who declines is ErrCanceled.
type Prompter interface {
	Ask(ctx context.Context, p Prompt) (string, error)
}

// PrompterFunc makes a function a Prompter.
type PrompterFunc func(ctx context.Context, p Prompt) (string, error)

// Ask calls f.
func (f PrompterFunc) Ask(ctx context.Context, p Prompt) (string, error) { return f(ctx, p) }

// ErrNoPrompts is what a Prompter returns when nobody is there to answer. The
// login then ends with a PromptNeededError, as with a nil Prompter.
var ErrNoPrompts = errors.New("nobody is there to answer")

// asker asks through a Prompter and keeps what the dialers need to know after
// a login: whether a person was needed and what stayed unanswered.
type asker struct {
	prompter Prompter
	target   Target
	pause    func() (resume func()) // stops the login's clock while a person thinks

	mu         sync.Mutex // a notice to touch a key is shown beside the login
	prompted   bool       // something was answered that a reconnect would ask again
	unanswered *Prompt    // the first question that nobody was there for
	canceled   bool
	answered   []Prompt // what was answered so far
}

func (a *asker) ask(ctx context.Context, p Prompt) (string, error) {
	if p.Host == "" {
		p.Host = a.target.String()
	}
	a.mu.Lock()
	p.Again = slices.ContainsFunc(a.answered, func(o Prompt) bool {
		return p.Kind != PromptTouch && p.Kind != PromptHostKey && o.Kind == p.Kind && o.Text == p.Text && o.Host == p.Host && o.Key == p.Key
	})
	a.mu.Unlock()
	if a.prompter == nil {
		return "", a.nobody(p)
	}
	if a.pause != nil {
		defer a.pause()()
	}
	answer, err := a.prompter.Ask(ctx, p)
	if errors.Is(err, ErrNoPrompts) {
		return "", a.nobody(p)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case errors.Is(err, ErrCanceled):
		a.canceled = true
	case p.Kind == PromptTouch:
		a.prompted = true // it is answered at the key, and ends with its context
	case err == nil && p.Kind != PromptHostKey:
		a.prompted = true
	}
	if err != nil {
		return "", err
	}
	a.answered = append(a.answered, p)
	return answer, nil
}

func (a *asker) nobody(p Prompt) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.unanswered == nil && p.Kind != PromptTouch {
		a.unanswered = &p
	}
	return ErrNoPrompts
}

// needed is the error for the question that stayed open; err is what the login
// ended with.
func (a *asker) needed(err error) error {
	if a.unanswered == nil {
		return err
	}
	p := *a.unanswered
	return &PromptNeededError{Prompt: p, Advice: promptAdvice(p, a.target), Err: err}
}

func promptAdvice(p Prompt, t Target) string {
	login := "ssh "
	if t.Port != 0 {
		login += fmt.Sprintf("-p %d ", t.Port)
	}
	dest := t.Host
	if t.User != "" {
		dest = t.User + "@" + dest
	}
	login += dest
	switch p.Kind {
	case PromptHostKey:
		return fmt.Sprintf("Compare the fingerprint with the node's owner and accept it once with: %s", login)
	case PromptPassphrase:
		key := p.Key
		if key == "" {
			key = "KEY"
		}
		return fmt.Sprintf("Unlock the key for this login with: ssh-add %s", key)
	case PromptPassword, PromptOTP:
		return fmt.Sprintf("Open the live screen, which asks for it, or set up a key with: ssh-copy-id %s", dest)
	default:
		return fmt.Sprintf("Open the live screen, which asks for it, or log in once with: %s", login)
	}
}

var (
	fingerprintRE = regexp.MustCompile(`SHA256:[A-Za-z0-9+/]{20,}=*`)
	keyTypeRE     = regexp.MustCompile(`\b([A-Z0-9-]+) key fingerprint is `)
	keyFileRE     = regexp.MustCompile(`(?:passphrase for|PIN for)(?: key)? '?([^':]+)'?`)
	otpRE         = regexp.MustCompile(`(?i)verification code|one-time|otp|passcode|authenticator|token|2fa|duo|\bcode\b`)
	passwordRE    = regexp.MustCompile(`(?i)password`)
	whoRE         = regexp.MustCompile(`^\(?([^\s()']+@[^\s()':]+)(?:\)|'s )`)
)

// classify makes a Prompt of the text that an ssh client or a server asks
// with. The kind decides the wording of the dialog and whether the answer may
// be seen, so what is not recognised is hidden text.
func classify(text string) Prompt {
	p := Prompt{Kind: PromptText, Text: strings.TrimSpace(text)}
	if m := whoRE.FindStringSubmatch(p.Text); m != nil {
		p.Host = m[1]
	}
	lower := strings.ToLower(p.Text)
	switch {
	case strings.Contains(lower, "continue connecting") || strings.Contains(lower, "the fingerprint"):
		p.Kind, p.Echo = PromptHostKey, true
		p.Fingerprint = fingerprintRE.FindString(p.Text)
		if m := keyTypeRE.FindStringSubmatch(p.Text); m != nil {
			p.KeyType = m[1]
		}
	case strings.Contains(lower, "passphrase") || strings.Contains(lower, "pin for"):
		p.Kind = PromptPassphrase
		if m := keyFileRE.FindStringSubmatch(p.Text); m != nil {
			p.Key = strings.TrimSpace(m[1])
		}
	case strings.Contains(lower, "confirm user presence") || strings.Contains(lower, "touch"):
		p.Kind = PromptTouch
	case otpRE.MatchString(p.Text):
		p.Kind = PromptOTP
	case passwordRE.MatchString(p.Text):
		p.Kind = PromptPassword
	}
	return p
}

// accepts tells whether an answer to a host-key prompt means yes.
func accepts(answer, fingerprint string) bool {
	answer = strings.TrimSpace(answer)
	return strings.EqualFold(answer, "yes") || (fingerprint != "" && answer == fingerprint)
}
