//go:build !linux

package remote

import "time"

var began = time.Now()

// asleep is how long this machine has been suspended since the program began:
// the wall clock went on, the monotonic one did not. A corrected clock looks
// the same. Only differences mean something.
func asleep() time.Duration {
	now := time.Now()
	return now.Round(0).Sub(began.Round(0)) - now.Sub(began)
}
