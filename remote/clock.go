package remote

import (
	"sync"
	"time"
)

// loginClock runs while the login does and stands still while a person thinks.
type loginClock struct {
	mu      sync.Mutex
	left    time.Duration
	used    time.Duration
	since   time.Time
	timer   *time.Timer
	paused  int
	stopped bool
	expired func()
}

func newLoginClock(limit time.Duration, expired func()) *loginClock {
	c := &loginClock{left: limit, expired: expired, since: time.Now()}
	c.timer = time.AfterFunc(limit, expired)
	return c
}

// pause stops the clock until the returned function is called.
func (c *loginClock) pause() (resume func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused++; c.paused == 1 && !c.stopped {
		c.timer.Stop()
		c.count()
	}
	return c.resume
}

func (c *loginClock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused--; c.paused == 0 && !c.stopped {
		c.since = time.Now()
		c.timer = time.AfterFunc(max(c.left, 0), c.expired)
	}
}

func (c *loginClock) count() {
	d := time.Since(c.since)
	c.left -= d
	c.used += d
}

func (c *loginClock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return
	}
	c.stopped = true
	c.timer.Stop()
	if c.paused == 0 {
		c.count()
	}
}

// spent stops the clock and returns the time it ran.
func (c *loginClock) spent() time.Duration {
	c.stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}
