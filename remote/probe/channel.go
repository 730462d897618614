package probe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote"
)

const (
	answerLimit  = 4 * time.Second
	missesToDrop = 2
	backoffFirst = time.Second
	backoffMost  = 30 * time.Second
)

// errWaiting means that a channel is closed and is not yet to be opened again.
var errWaiting = errors.New("the channel is closed for now")

// turn is a lock whose waiters can be called off.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t turn) leave() { <-t }

// channel is a request and answer shell that is opened again when it fails.
type channel struct {
	name    string
	conn    Conn
	program func(nonce string) string
	report  func(name string, f metrics.ProbeFact)
	onOpen  func(*shell)

	turn    turn // one request at a time
	sh      *shell
	gen     int // counts openings; what a caller stored in the shell is gone when it moves
	misses  int
	lost    int // shells given up in a row without an answer between
	backoff time.Duration
	retryAt time.Time
	closed  bool

	stateMu sync.Mutex
	cur     *shell // as sh, readable while a request is out
	rtt     time.Duration
}

// ensure starts the shell if there is none.
func (c *channel) ensure(ctx context.Context) error {
	if c.closed {
		return errGone
	}
	if c.sh != nil {
		return nil
	}
	if time.Now().Before(c.retryAt) {
		return errWaiting
	}
	return c.took(startShell(ctx, c.conn, c.program, false))
}

// adopt takes a session that was opened, or why it was not. The shell comes up
// beside the caller; the next request waits for it.
func (c *channel) adopt(ctx context.Context, st *Stream, err error) {
	if c.turn.take(ctx) != nil {
		if st != nil {
			_ = st.Close()
		}
		return
	}
	go func() {
		defer c.turn.leave()
		var sh *shell
		if err == nil {
			sh, err = runShell(ctx, st, c.program, false)
		}
		_ = c.took(sh, err) // it is told when it is wanted
	}()
}

// took takes a shell that was started, or why it was not.
func (c *channel) took(sh *shell, err error) error {
	if err != nil {
		c.later()
		return err
	}
	c.sh, c.misses = sh, 0
	c.gen++
	c.stateMu.Lock()
	c.cur = sh
	c.stateMu.Unlock()
	if c.onOpen != nil {
		c.onOpen(sh)
	}
	return nil
}

func (c *channel) later() {
	c.backoff = min(max(2*c.backoff, backoffFirst), backoffMost)
	c.retryAt = time.Now().Add(c.backoff)
}

func (c *channel) drop() {
	if c.sh != nil {
		c.sh.close()
		c.sh = nil
	}
	c.lost++
	c.later()
}

func (c *channel) close() {
	c.stateMu.Lock()
	if c.cur != nil {
		c.cur.close() // frees a request that is out
	}
	c.stateMu.Unlock()
	_ = c.turn.take(context.Background()) // nothing calls this wait off
	defer c.turn.leave()
	c.closed = true
	if c.sh != nil {
		c.sh.close()
	}
}

// limit is the deadline of a request: four round trips, at least 4 s.
func (c *channel) limit() time.Duration {
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	return max(answerLimit, 4*c.rtt)
}

func (c *channel) roundTrip() time.Duration {
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	return c.rtt
}

// lastHeard is when something last came from the shell.
func (c *channel) lastHeard() time.Time {
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	if c.cur == nil {
		return time.Time{}
	}
	return c.cur.lastHeard()
}

// call sends shell code, one line without a newline, and waits for its output.
// The first miss of a deadline leaves the shell alone: its late answer is
// dropped. The second gives it up.
func (c *channel) call(ctx context.Context, code string) (answer, error) {
	return c.callFor(ctx, code, c.limit())
}

func (c *channel) callFor(ctx context.Context, code string, limit time.Duration) (answer, error) {
	return c.callWith(ctx, limit, func(int) string { return code })
}

// callWith is for code that depends on which shell it goes to.
func (c *channel) callWith(ctx context.Context, limit time.Duration, code func(gen int) string) (answer, error) {
	if err := c.turn.take(ctx); err != nil {
		return answer{}, err
	}
	defer c.turn.leave()
	if err := c.ensure(ctx); err != nil {
		if ctx.Err() == nil && !errors.Is(err, errWaiting) {
			c.tell(err)
		}
		return answer{}, err
	}
	begun := time.Now()
	a, err := c.sh.call(ctx, code(c.gen), limit)
	if err == nil {
		c.misses, c.lost, c.backoff = 0, 0, 0
		c.stateMu.Lock()
		if took := time.Since(begun); c.rtt == 0 || took < c.rtt {
			c.rtt = took
		} else {
			c.rtt += (min(took, 8*c.rtt) - c.rtt) / 16
		}
		c.stateMu.Unlock()
		c.tell(nil)
		return a, nil
	}
	if ctx.Err() != nil {
		return answer{}, context.Cause(ctx)
	}
	switch {
	case errors.Is(err, errLate):
		c.misses++
		err = fmt.Errorf("%w (%s)", errLate, limit.Round(time.Second))
		if c.misses >= missesToDrop {
			c.drop()
		}
	default:
		c.drop()
	}
	c.tell(err)
	return answer{}, err
}

// tell reports the channel's state.
func (c *channel) tell(err error) {
	if c.report == nil {
		return
	}
	switch {
	case err == nil:
		c.report(c.name, metrics.ProbeFact{State: "ok"})
	case errors.Is(err, errLate):
		c.report(c.name, metrics.ProbeFact{State: "stuck", Reason: "no answer from the node: " + err.Error(), Advice: stuckAdvice(c.name)})
	case errors.Is(err, remote.ErrSessionLimit):
		c.report(c.name, metrics.ProbeFact{State: "failed", Reason: err.Error(), Advice: "raise MaxSessions in the node's sshd_config; 10 is the default"})
	default:
		c.report(c.name, metrics.ProbeFact{State: "failed", Reason: metrics.Clean(err.Error(), 300), Advice: "it is tried again within 30 s; look at the node's load and process limits"})
	}
}

func stuckAdvice(name string) string {
	switch name {
	case "files":
		return "a file system does not answer: on the node, try ls on the folders of logs and rows, and df"
	case "scan":
		return "a process may be stuck in the kernel: on the node, look for state D with ps -eo pid,stat,wchan,comm"
	default:
		return "the node or the link is overloaded or gone"
	}
}
