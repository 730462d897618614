package remote

import (
	"time"

	"golang.org/x/sys/unix"
)

// asleep is how long this machine has been suspended since it was started.
// Only differences mean something.
func asleep() time.Duration {
	var boot, mono unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil || unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) != nil {
		return 0
	}
	return time.Duration(boot.Nano() - mono.Nano())
}
