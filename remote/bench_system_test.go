//go:build system

package remote

import (
	"os/exec"
	"testing"

	"github.com/runvigil/runvigil/remote/remotetest"
)

// BenchmarkSystemDial measures a login and one command beside "ssh NODE true".
func BenchmarkSystemDial(b *testing.B) {
	s := remotetest.OpenSSH(b, remotetest.Options{})
	for _, dialer := range []string{DialerOpenSSH, DialerNative} {
		b.Run(dialer, func(b *testing.B) {
			for b.Loop() {
				c, err := Dial(b.Context(), Target{Host: s.Alias}, Options{Dialer: dialer, SSHConfig: s.SSHConfig})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := c.Run(b.Context(), "true", nil); err != nil {
					b.Fatal(err)
				}
				_ = c.Close()
			}
		})
	}
	b.Run("ssh", func(b *testing.B) {
		for b.Loop() {
			if out, err := exec.Command("ssh", "-F", s.SSHConfig, s.Alias, "true").CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
		}
	})
}

// BenchmarkSystemRequest measures one request to a long-lived shell.
func BenchmarkSystemRequest(b *testing.B) {
	s := remotetest.OpenSSH(b, remotetest.Options{})
	for _, dialer := range []string{DialerOpenSSH, DialerNative} {
		b.Run(dialer, func(b *testing.B) {
			c, err := Dial(b.Context(), Target{Host: s.Alias}, Options{Dialer: dialer, SSHConfig: s.SSHConfig})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			p, err := c.Start(b.Context(), "exec cat")
			if err != nil {
				b.Fatal(err)
			}
			buf := make([]byte, 64)
			for b.Loop() {
				if _, err := p.Stdin.Write([]byte("request\n")); err != nil {
					b.Fatal(err)
				}
				if _, err := p.Stdout.Read(buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
