package remote

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// State is what a Link is doing.
type State string

const (
	Connecting State = "connecting" // a login is under way
	Up         State = "up"
	Suspect    State = "suspect" // silent; a sign of life was asked for
	Down       State = "down"    // waiting for RetryAt, or for a person
)

// Status is the state of a Link at one moment.
type Status struct {
	State State
	Since time.Time // when State began
	// Reason says in plain words why the link is not up; while connecting,
	// why it was lost or could not be made before. Empty while up.
	Reason string
	Err    error     // the error behind Reason, if there is one
	LostAt time.Time // when it was last up; zero if it never was
	// Attempt counts logins since the link was last up for a while, from 1.
	Attempt int
	RetryAt time.Time // when the next login begins; zero if none is planned
	// NeedsPerson is true when nothing happens until Retry: the login asks
	// something, or failed in a way that trying again does not mend.
	NeedsPerson bool
	// Slept is how long this machine slept, if that is why the link is down.
	Slept time.Duration
	Conn  *Conn // while up or suspect
}

// LinkOptions say what a Link does.
type LinkOptions struct {
	// Dial makes a connection.
	Dial func(context.Context) (*Conn, error)
	// OnUp, if set, runs in a goroutine of its own for each connection. Its
	// ctx ends when the connection is lost.
	OnUp func(context.Context, *Conn)
}

// Link keeps one connection up. Create it with NewLink and call Run.
type Link struct {
	options LinkOptions
	asleep  func() time.Duration

	events  chan Status
	retry   chan struct{}
	suspect chan string
	drop    chan string

	mu     sync.Mutex
	status Status
}

const (
	firstBackoff = 500 * time.Millisecond
	maxBackoff   = 3 * time.Second
	// refusedBackoff is the wait after a refused login: servers and their
	// guards block addresses that fail often.
	refusedBackoff = time.Minute
	// stableAfter is how long a connection must live to start the waits anew.
	stableAfter = 10 * time.Second
	// pingTimeout is the time that a suspect link has to show life.
	pingTimeout = 4 * time.Second
	// watchInterval is how often suspend of this machine is looked for, and
	// sleptFor the shortest that counts.
	watchInterval = time.Second
	sleptFor      = 3 * time.Second
	eventBuffer   = 64
)

// NewLink makes a Link that does nothing until Run.
func NewLink(o LinkOptions) *Link {
	return &Link{
		options: o,
		asleep:  asleep,
		events:  make(chan Status, eventBuffer),
		retry:   make(chan struct{}, 1),
		suspect: make(chan string, 1),
		drop:    make(chan string, 1),
		status:  Status{State: Connecting, Since: time.Now()},
	}
}

// Events delivers each change of the status. When nobody reads, the oldest are
// lost and never the newest.
func (l *Link) Events() <-chan Status { return l.events }

// Status is the newest one.
func (l *Link) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status
}

// Retry begins a login now if the link is down: a person pressed a key.
func (l *Link) Retry() { offer(l.retry, struct{}{}) }

// Suspect tells that no answer came in time. The node is asked for a sign of
// life; without one in 4 s the connection is given up.
func (l *Link) Suspect(reason string) { offer(l.suspect, reason) }

// Drop gives the connection up and makes a new one.
func (l *Link) Drop(reason string) { offer(l.drop, reason) }

func offer[T any](ch chan T, v T) {
	select {
	case ch <- v:
	default:
	}
}

func drain[T any](ch chan T) {
	select {
	case <-ch:
	default:
	}
}

// Run keeps the link up until ctx ends, then closes it.
func (l *Link) Run(ctx context.Context) {
	w := &sleepWatch{asleep: l.asleep, last: l.asleep()}
	for ctx.Err() == nil {
		s := l.Status()
		drain(l.retry)
		s.Attempt++
		l.set(Status{State: Connecting, Reason: s.Reason, Err: s.Err, Slept: s.Slept, LostAt: s.LostAt, Attempt: s.Attempt})
		conn, err := l.options.Dial(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			l.failed(ctx, err, s, w)
			continue
		}
		l.serve(ctx, conn, s.Attempt, w)
	}
}

// failed shows why a login did not succeed and waits for the next.
func (l *Link) failed(ctx context.Context, err error, s Status, w *sleepWatch) {
	slept := w.check()
	if slept == 0 {
		slept = s.Slept // the network takes a while to come back
	}
	reason := reasonOf(err)
	if slept > 0 {
		reason = sleptReason(slept) + "; " + reason
	}
	l.wait(ctx, Status{Reason: reason, Err: err, Slept: slept, LostAt: s.LostAt, Attempt: s.Attempt,
		NeedsPerson: needsPerson(err)}, backoff(err, s.Attempt), w)
}

// serve watches one connection to its end.
func (l *Link) serve(ctx context.Context, conn *Conn, attempt int, w *sleepWatch) {
	connCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	drain(l.suspect)
	drain(l.drop)
	upSince := time.Now()
	up := Status{State: Up, Attempt: attempt, Conn: conn}
	w.check()
	l.set(up)
	if l.options.OnUp != nil {
		go l.options.OnUp(connCtx, conn)
	}
	slept, lost := l.watch(ctx, conn, up, w)
	cancel()
	if ctx.Err() != nil {
		_ = conn.Close()
		return
	}
	if time.Since(upSince) >= stableAfter {
		attempt = 0
	}
	next := Status{Reason: lost.Error(), Err: lost, Slept: slept, LostAt: time.Now(), Attempt: attempt, NeedsPerson: conn.Info().Prompted}
	if slept > 0 {
		next.Reason = sleptReason(slept)
	}
	l.wait(ctx, next, backoff(nil, attempt), w)
}

// watch returns how long this machine slept, if that is why the connection is
// over, and why it is.
func (l *Link) watch(ctx context.Context, conn *Conn, up Status, w *sleepWatch) (time.Duration, error) {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		var doubt string
		var slept time.Duration
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-conn.Done():
			return w.check(), conn.Err()
		case reason := <-l.drop:
			conn.Abandon(errors.New(reason))
			return 0, conn.Err()
		case doubt = <-l.suspect:
		case <-tick.C:
			if slept = w.check(); slept == 0 {
				continue
			}
			doubt = sleptReason(slept)
		}
		l.set(Status{State: Suspect, Reason: doubt, Slept: slept, Attempt: up.Attempt, Conn: conn})
		if err := l.alive(ctx, conn); err != nil {
			conn.Abandon(fmt.Errorf("%s, and %w", doubt, err))
			return slept, conn.Err()
		}
		drain(l.suspect)
		l.set(up)
	}
}

func (l *Link) alive(ctx context.Context, conn *Conn) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if err := conn.Ping(ctx); err != nil {
		return fmt.Errorf("no sign of life within %v", pingTimeout)
	}
	return nil
}

// wait shows s as Down and returns when the next login is due.
func (l *Link) wait(ctx context.Context, s Status, d time.Duration, w *sleepWatch) {
	s.State = Down
	var due <-chan time.Time
	if !s.NeedsPerson {
		s.RetryAt = time.Now().Add(d)
		timer := time.NewTimer(d)
		defer timer.Stop()
		due = timer.C
	}
	l.set(s)
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-due:
			return
		case <-l.retry:
			return
		case <-tick.C:
			if w.check() > 0 && !s.NeedsPerson {
				return // whatever the wait was for, it is over
			}
		}
	}
}

func (l *Link) set(s Status) {
	s.Since = time.Now()
	l.mu.Lock()
	l.status = s
	l.mu.Unlock()
	for {
		select {
		case l.events <- s:
			return
		default:
			drain(l.events)
		}
	}
}

// backoff is the wait after the n-th failed attempt: 0.5 s doubling to 3 s,
// each up to a fifth longer or shorter so that many watchers do not return at
// once.
func backoff(err error, n int) time.Duration {
	d := firstBackoff
	for i := 1; i < n && d < maxBackoff; i++ {
		d *= 2
	}
	d = min(d, maxBackoff)
	var auth *AuthError
	if errors.As(err, &auth) {
		d = refusedBackoff
	}
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}

func reasonOf(err error) string {
	var un *UnreachableError
	if errors.As(err, &un) {
		return "node " + un.Addr + " unreachable: " + un.Err.Error()
	}
	return err.Error()
}

func sleptReason(d time.Duration) string { return "this machine slept " + spoken(d) }

// spoken is d in its largest sensible unit.
func spoken(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d d", d/(24*time.Hour))
	case d >= time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d >= time.Minute:
		return fmt.Sprintf("%d min", d/time.Minute)
	default:
		return fmt.Sprintf("%d s", d/time.Second)
	}
}

// sleepWatch finds out that this machine was suspended.
type sleepWatch struct {
	asleep func() time.Duration
	last   time.Duration
}

// check returns how long it slept since the last check, 0 if it did not.
func (w *sleepWatch) check() time.Duration {
	now := w.asleep()
	d := now - w.last
	w.last = now
	if d < sleptFor {
		return 0
	}
	return d
}
