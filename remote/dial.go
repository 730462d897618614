package remote

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"golang.org/x/crypto/ssh"
)

// The dialers, as --dial and Options.Dialer name them.
const (
	DialerOpenSSH = "openssh"
	DialerNative  = "native"
	DialerLocal   = "local"
)

// Options say how to dial. The zero value uses the user's ssh client where
// there is one, and asks nobody.
type Options struct {
	// Dialer is one of the Dialer constants; empty means openssh where a
	// usable ssh client is installed, else native.
	Dialer string
	// Identity is a private key file to offer first.
	Identity string
	// Prompter answers questions of the login; nil means nobody is there.
	Prompter Prompter
	// Timeout bounds the login from the first byte, without the time that
	// prompts are open. 0 means 15 s.
	Timeout time.Duration
	// KeepAlive is the interval at which the native dialer asks for a sign of
	// life; three in a row without one end the connection. 0 means 5 s. The
	// ssh client does the same with its own messages.
	KeepAlive time.Duration
	// SSH is the ssh client to run; empty means "ssh" from PATH.
	SSH string
	// SSHConfig is a configuration file for ssh in place of the user's.
	SSHConfig string

	// KnownHosts, if set, replaces the known_hosts files of the configuration
	// (native dialer). New keys are appended to the first.
	KnownHosts []string
	// HostKey, if set, is the only accepted host key, and no known_hosts file
	// is read (native dialer).
	HostKey ssh.PublicKey
	// Signer, if set, is the only key that is offered, and neither files nor
	// agent are touched (native dialer).
	Signer ssh.Signer
	// Plain keeps the native dialer from the user's ssh configuration.
	Plain bool

	depth int // jumps taken on the way
}

const (
	defaultTimeout   = 15 * time.Second
	defaultKeepAlive = 5 * time.Second
	missedKeepAlives = 3
)

func (o Options) timeout() time.Duration {
	if o.Timeout > 0 {
		return o.Timeout
	}
	return defaultTimeout
}

func (o Options) keepAlive() time.Duration {
	if o.KeepAlive > 0 {
		return o.KeepAlive
	}
	return defaultKeepAlive
}

// sshPath is the ssh client to use, empty if there is none.
func (o Options) sshPath() string {
	name := o.SSH
	if name == "" {
		name = "ssh"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	return path
}

// Dial connects to t. Errors are *UnreachableError, *HostKeyError, *AuthError
// or *PromptNeededError where they apply, ErrCanceled when a person declined.
// ctx bounds the login only.
func Dial(ctx context.Context, t Target, o Options) (*Conn, error) {
	if o.Dialer == DialerLocal {
		return Local(), nil
	}
	if err := t.check(); err != nil {
		return nil, err
	}
	switch o.Dialer {
	case "":
		if o.sshPath() == "" || o.HostKey != nil || o.Signer != nil {
			return dialNative(ctx, t, o)
		}
		c, err := dialOpenSSH(ctx, t, o)
		if errors.Is(err, errUnusableSSH) {
			return dialNative(ctx, t, o)
		}
		return c, err
	case DialerOpenSSH:
		return dialOpenSSH(ctx, t, o)
	case DialerNative:
		return dialNative(ctx, t, o)
	default:
		return nil, fmt.Errorf("dialer %q is unknown: use %s, %s or %s", o.Dialer, DialerOpenSSH, DialerNative, DialerLocal)
	}
}
