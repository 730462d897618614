package remote

import (
	"fmt"
	"slices"
	"strings"
)

// newAuthError collects what is known and works out what to do next.
func newAuthError(user, host string, tried []Attempt, offered []string, err error) *AuthError {
	e := &AuthError{User: user, Host: host, Tried: tried, Offered: offered, Err: err}
	said := ""
	if err != nil {
		said = err.Error()
	}
	keys, locked := 0, ""
	for _, a := range tried {
		if a.Fingerprint != "" {
			keys++
		}
		if strings.Contains(a.Result, "passphrase") && locked == "" {
			locked = a.Name
		}
	}
	login := user + "@" + host
	if user == "" {
		login = host
	}
	publickey := len(offered) == 0 || slices.Contains(offered, "publickey")
	switch {
	case strings.Contains(strings.ToLower(said), "too many authentication failures"):
		e.Advice = append(e.Advice, fmt.Sprintf("the server gave up after %d keys: name the right one with --identity, or set IdentityFile and IdentitiesOnly yes for this host", keys))
	case locked != "":
		e.Advice = append(e.Advice, "unlock the key: ssh-add "+locked)
	case publickey && keys == 0:
		e.Advice = append(e.Advice, "give a key: ssh-add KEY, or --identity KEY")
	case publickey:
		e.Advice = append(e.Advice, fmt.Sprintf("check the user name, and that one of these keys is in ~/.ssh/authorized_keys there: ssh-copy-id %s", login))
	}
	if slices.Contains(offered, "password") || slices.Contains(offered, "keyboard-interactive") {
		e.Advice = append(e.Advice, "the server also takes a password or a code, which the live screen asks for")
	} else if !publickey {
		e.Advice = append(e.Advice, "the server takes none of the methods that this dialer knows: use --dial openssh")
	}
	return e
}
