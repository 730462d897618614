package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// fakeTransport answers pings as it is told to and nothing else.
type fakeTransport struct {
	silent atomic.Bool
	closed atomic.Bool
}

func (f *fakeTransport) start(context.Context, string, *terminal) (*Process, error) {
	return nil, errors.ErrUnsupported
}

func (f *fakeTransport) dial(context.Context, string, string) (net.Conn, error) {
	return nil, errors.ErrUnsupported
}

func (f *fakeTransport) ping(ctx context.Context) error {
	if f.silent.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (f *fakeTransport) close() error { f.closed.Store(true); return nil }

// rig is a Link whose dials the test answers, in virtual time.
type rig struct {
	*Link
	began time.Time
	slept atomic.Int64

	mu    sync.Mutex
	dials []time.Duration
	fail  error
	info  Info
	last  *fakeTransport
	conn  *Conn
}

func newRig(t *testing.T, up func(context.Context, *Conn)) *rig {
	r := &rig{began: time.Now()}
	r.Link = NewLink(LinkOptions{
		Dial: func(context.Context) (*Conn, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.dials = append(r.dials, time.Since(r.began))
			if r.fail != nil {
				return nil, r.fail
			}
			r.last = &fakeTransport{}
			r.conn = newConn(r.last, r.info)
			return r.conn, nil
		},
		OnUp: up,
	})
	r.asleep = func() time.Duration { return time.Duration(r.slept.Load()) }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { r.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	synctest.Wait()
	return r
}

func (r *rig) after(d time.Duration) Status {
	time.Sleep(d)
	synctest.Wait()
	return r.Status()
}

func (r *rig) failWith(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail = err
}

// logins are the times of the dials since it was last called.
func (r *rig) logins() []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.dials
	r.dials = nil
	return d
}

func (r *rig) history() string {
	var words []string
	for {
		select {
		case s := <-r.Events():
			words = append(words, string(s.State))
		default:
			return strings.Join(words, " ")
		}
	}
}

func TestLinkReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ups, ends atomic.Int64
		r := newRig(t, func(ctx context.Context, c *Conn) {
			ups.Add(1)
			<-ctx.Done()
			ends.Add(1)
		})
		if s := r.after(time.Minute); s.State != Up || s.Conn == nil || s.Reason != "" {
			t.Fatalf("status %+v", s)
		}
		r.conn.Abandon(errors.New("cable cut"))
		s := r.after(0)
		if s.State != Down || s.Reason != "cable cut" || s.Conn != nil || s.NeedsPerson || s.LostAt.IsZero() {
			t.Errorf("status %+v", s)
		}
		if wait := time.Until(s.RetryAt); wait < 400*time.Millisecond || wait > 600*time.Millisecond {
			t.Errorf("first wait %v", wait)
		}
		if s := r.after(time.Second); s.State != Up {
			t.Errorf("status %+v", s)
		}
		if ups.Load() != 2 || ends.Load() != 1 {
			t.Errorf("OnUp ran %d times and %d ended", ups.Load(), ends.Load())
		}
		if got, want := r.history(), "connecting up down connecting up"; got != want {
			t.Errorf("events %s, want %s", got, want)
		}
	})
}

func TestLinkBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.failWith(&UnreachableError{Op: "connect", Addr: "gpu7:22", Err: syscall.ECONNREFUSED})
		r.after(time.Minute)
		r.logins()
		lost := time.Now()
		r.conn.Abandon(errors.New("gone"))
		s := r.after(time.Minute)
		if s.Reason != "node gpu7:22 unreachable: connection refused" {
			t.Errorf("reason %q", s.Reason)
		}
		previous := lost.Sub(r.began)
		dials := r.logins()
		for i, at := range dials {
			want := min(500*time.Millisecond<<max(i-1, 0), 3*time.Second)
			if wait := at - previous; wait < want*79/100 || wait > want*121/100 {
				t.Errorf("wait %d: %v, want %v within a fifth", i, wait, want)
			}
			previous = at
		}
		if n := len(dials); n < 18 || n > 28 {
			t.Errorf("%d dials in a minute", n)
		}
		r.failWith(nil)
		if s := r.after(4 * time.Second); s.State != Up {
			t.Errorf("status %+v", s)
		}
	})
}

func TestLinkFlappingBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		for range 30 {
			r.after(time.Second)
			if r.Status().State == Up {
				r.conn.Abandon(errors.New("kicked out"))
			}
		}
		if n := len(r.logins()); n > 13 {
			t.Errorf("%d logins in 30 s", n)
		}
	})
}

func TestLinkRefusedLoginWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.failWith(newAuthError("root", "gpu7", nil, []string{"publickey"}, nil))
		r.conn.Abandon(errors.New("gone"))
		r.after(5 * time.Minute)
		if n := len(r.logins()); n < 5 || n > 8 {
			t.Errorf("%d logins in 5 min", n)
		}
	})
}

func TestLinkWaitsForPerson(t *testing.T) {
	tests := []struct {
		name string
		info Info
		err  error
	}{
		{"the login asked something", Info{Prompted: true}, nil},
		{"nobody was there to answer", Info{}, &PromptNeededError{Prompt: Prompt{Kind: PromptPassword}}},
		{"the host key changed", Info{}, &HostKeyError{Host: "gpu7", Changed: true}},
		{"a prompt was declined", Info{}, fmt.Errorf("login: %w", ErrCanceled)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil)
				r.mu.Lock()
				r.info = tt.info
				r.mu.Unlock()
				r.conn.Abandon(errors.New("gone"))
				r.after(time.Second)
				r.failWith(tt.err)
				r.conn.Abandon(errors.New("gone"))
				s := r.after(time.Hour)
				if s.State != Down || !s.NeedsPerson || !s.RetryAt.IsZero() {
					t.Fatalf("status %+v", s)
				}
				r.failWith(nil)
				r.Retry()
				if s := r.after(0); s.State != Up {
					t.Errorf("after Retry: %+v", s)
				}
			})
		})
	}
}

func TestLinkSuspect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.after(time.Minute)
		r.Suspect("no frame for 4 s")
		if s := r.after(0); s.State != Up {
			t.Errorf("it answered, but is %+v", s)
		}
		if got, want := r.history(), "connecting up suspect up"; got != want {
			t.Errorf("events %s, want %s", got, want)
		}
		r.last.silent.Store(true)
		dead := r.last
		r.Suspect("no frame for 4 s")
		if s := r.after(time.Second); s.State != Suspect || s.Reason != "no frame for 4 s" || s.Conn == nil {
			t.Errorf("status %+v", s)
		}
		if s := r.after(3 * time.Second); s.State != Down || s.Reason != "no frame for 4 s, and no sign of life within 4s" {
			t.Errorf("status %+v", s)
		}
		if !dead.closed.Load() {
			t.Error("the silent connection was not closed")
		}
	})
}

func TestLinkDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.after(time.Minute)
		r.Drop("three channels were blocked")
		if s := r.after(0); s.State != Down || s.Reason != "three channels were blocked" {
			t.Errorf("status %+v", s)
		}
	})
}

func TestLinkSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.after(time.Minute)

		r.slept.Add(int64(20 * time.Minute)) // a short one, which the connection survives
		if s := r.after(2 * time.Second); s.State != Up {
			t.Errorf("status %+v", s)
		}
		r.history()

		r.last.silent.Store(true)
		r.failWith(&UnreachableError{Op: "connect", Addr: "gpu7:22", Err: syscall.ENETUNREACH})
		r.slept.Add(int64(7*time.Hour + 20*time.Minute))
		if s := r.after(2 * time.Second); s.State != Suspect || s.Reason != "this machine slept 7 h" {
			t.Errorf("status %+v", s)
		}
		s := r.after(20 * time.Second)
		if s.Slept.Hours() < 7 || s.Reason != "this machine slept 7 h; node gpu7:22 unreachable: network is unreachable" {
			t.Errorf("status %+v", s)
		}
		r.failWith(nil)
		if s := r.after(4 * time.Second); s.State != Up || s.Slept != 0 {
			t.Errorf("status %+v", s)
		}
		r.failWith(&UnreachableError{Op: "connect", Addr: "gpu7:22", Err: syscall.EHOSTUNREACH})
		r.after(time.Minute)
		r.conn.Abandon(errors.New("gone"))
		if s := r.after(10 * time.Second); strings.Contains(s.Reason, "slept") {
			t.Errorf("an old sleep is blamed: %q", s.Reason)
		}
	})
}

func TestLinkWakesEarlyAfterSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.failWith(newAuthError("root", "gpu7", nil, nil, nil))
		r.conn.Abandon(errors.New("gone"))
		r.after(5 * time.Second)
		r.logins()
		r.slept.Add(int64(time.Hour))
		r.after(time.Second)
		if n := len(r.logins()); n != 1 {
			t.Errorf("%d logins after the sleep, want 1", n)
		}
	})
}

func TestLinkEventsKeepTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		for range 2 * eventBuffer {
			r.Suspect("slow")
			synctest.Wait()
		}
		r.Drop("enough")
		synctest.Wait()
		if h := r.history(); !strings.HasSuffix(h, "suspect up down") {
			t.Errorf("events end with …%s", h[max(0, len(h)-40):])
		}
	})
}

func TestSpoken(t *testing.T) {
	for d, want := range map[time.Duration]string{
		42 * time.Second: "42 s", 12 * time.Minute: "12 min", 7*time.Hour + 59*time.Minute: "7 h", 47 * time.Hour: "47 h", 73 * time.Hour: "3 d",
	} {
		if got := spoken(d); got != want {
			t.Errorf("spoken(%v) = %q, want %q", d, got, want)
		}
	}
}
