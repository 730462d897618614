package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote"
)

// Options say what to sample and how often.
type Options struct {
	Node   string // as the user named it
	Dialer string // as remote.Info tells it
	// RootPID limits what counts to the processes below this one, with their
	// sockets and open files; 0: everything on the node.
	RootPID int
	// Interval between samples of host and GPUs; 0 means one second.
	Interval time.Duration
	// Now gives the times that frames carry; it must never go back. Nil means the
	// monotonic clock.
	Now func() time.Time
	// Salt keys the hashes of rows (metrics.RowsJudged); any bytes that stay
	// the same for a node.
	Salt []byte
	// Patterns are further extended regular expressions for the command lines
	// of processes that matter.
	Patterns []string
}

// ErrSilent means that the node has stopped answering on this connection.
var ErrSilent = errors.New("the node does not answer")

// Probe samples one node over one connection.
type Probe struct {
	conn Conn
	opts Options

	outMu sync.Mutex
	out   func(metrics.Frame)

	wantMu sync.Mutex
	wants  []metrics.Want
	kicks  []chan struct{}

	stateMu  sync.Mutex
	states   map[string]metrics.ProbeFact
	session  metrics.Session
	pageSize int64
	ours     map[int]bool // pids of what serves the connection
	sessions map[int]bool // that our shells lead
	suspect  bool

	ctl, files, scan *channel
	gpuStream        bool                // whether the node grants a session for the stream
	gpuFirst         <-chan startedShell // its first shell, until the stream takes it
	jobs             map[string]turn
	rescan           chan struct{} // a wanted process has changed: look again
	now              func() time.Time
}

// New makes a probe for a connection that is up. Nothing runs before Run.
func New(conn Conn, o Options) *Probe {
	if o.Interval <= 0 {
		o.Interval = time.Second
	}
	if o.Now == nil {
		base := time.Now()
		o.Now = func() time.Time { return base.Add(time.Since(base)).Round(0) }
	}
	p := &Probe{
		conn: conn, opts: o,
		out:      func(metrics.Frame) {},
		states:   map[string]metrics.ProbeFact{},
		ours:     map[int]bool{},
		sessions: map[int]bool{},
		pageSize: 4096,
		rescan:   make(chan struct{}, 1),
		jobs:     map[string]turn{"g": newTurn(), "h": newTurn()},
		now:      o.Now,
	}
	p.ctl = p.channel("ctl", false)
	p.files, p.scan = p.channel("files", true), p.channel("scan", true)
	return p
}

func (p *Probe) channel(name string, relay bool) *channel {
	return &channel{turn: newTurn(), name: name, conn: p.conn, program: requestProgram(relay), report: p.report, onOpen: p.opened}
}

// SetWants says what to read from now on. The list replaces the one before;
// what is the same in both goes on undisturbed.
func (p *Probe) SetWants(wants []metrics.Want) {
	p.wantMu.Lock()
	defer p.wantMu.Unlock()
	if slices.Equal(p.wants, wants) {
		return
	}
	p.wants = slices.Clone(wants)
	for _, k := range p.kicks {
		select {
		case k <- struct{}{}:
		default:
		}
	}
}

// wanted gives the wants of some kinds.
func (p *Probe) wanted(kinds ...metrics.WantKind) []metrics.Want {
	p.wantMu.Lock()
	defer p.wantMu.Unlock()
	var out []metrics.Want
	for _, w := range p.wants {
		if slices.Contains(kinds, w.Kind) {
			out = append(out, w)
		}
	}
	return out
}

// kicked gives a channel that tells changes of the wants.
func (p *Probe) kicked() <-chan struct{} {
	p.wantMu.Lock()
	defer p.wantMu.Unlock()
	k := make(chan struct{}, 1)
	p.kicks = append(p.kicks, k)
	return k
}

// Run samples until ctx ends or the connection is dead and returns why. Calls
// of out do not overlap. A Probe runs once.
func (p *Probe) Run(ctx context.Context, out func(metrics.Frame)) error {
	p.outMu.Lock()
	p.out = out
	p.outMu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer p.closeChannels()
	defer cancel(nil)
	workers.Go(func() { p.tick(ctx) })

	shared, err := p.open(ctx)
	if err != nil {
		p.leaveFirst()
		return err
	}
	for _, tell := range shared {
		tell()
	}
	for _, work := range []func(context.Context) error{p.sample, p.watchGPUs, p.watchFiles, p.watchPlaces, p.discover, p.watchHTTP} {
		workers.Go(func() {
			if err := work(ctx); err != nil {
				cancel(err)
			}
		})
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// open opens the sessions of the channels one after the other, so that it is
// known which of them a node with few sessions refuses: what all else hangs on,
// then files, then the stream of the GPUs, then a channel of its own for
// discovery. Their shells come up side by side, since a login's start files may
// take longer than all else. When it returns the session was told; shared tells
// who shares a session with whom.
func (p *Probe) open(ctx context.Context) (shared []func(), err error) {
	openCtx, cancel := context.WithTimeoutCause(ctx, readyLimit, errLate)
	defer cancel()
	share := func(name string, into *channel, err error) {
		shared = append(shared, func() { p.merge(name, into, err) })
	}
	first, err := p.conn.Start(openCtx, command)
	if err != nil {
		return nil, err
	}
	var others sync.WaitGroup
	up := make(chan struct{}) // closed when ctl has come up, or has not
	others.Go(func() {
		st, err := p.conn.Start(openCtx, command)
		if refused(ctx, err) {
			share("files", p.ctl, err)
			p.files, p.scan = p.ctl, p.ctl
			return
		}
		p.files.adopt(ctx, st, err)
		p.gpuStream = true
		st, err = p.conn.Start(openCtx, command)
		switch {
		case refused(ctx, err):
			p.gpuStream = false
			share("gpu", p.ctl, err)
		case err == nil:
			p.startStream(ctx, st)
		}
		<-up // discovery is in no hurry: the first three have the node for themselves
		st, err = p.conn.Start(openCtx, command)
		if refused(ctx, err) {
			share("scan", p.files, err)
			p.scan = p.files
			return
		}
		p.scan.adopt(ctx, st, err)
	})
	err = p.ctl.took(runShell(ctx, first, p.ctl.program, false))
	close(up)
	if err == nil {
		err = p.begin(ctx)
	}
	if err != nil {
		cancel()
	}
	others.Wait()
	return shared, err
}

// refused tells a node that grants no more sessions from other failures, which
// are tried again.
func refused(ctx context.Context, err error) bool {
	return ctx.Err() == nil && errors.Is(err, remote.ErrSessionLimit)
}

func (p *Probe) merge(name string, into *channel, err error) {
	p.report(name, metrics.ProbeFact{State: "ok", Reason: fmt.Sprintf("shares the session of %s: %s", into.name, metrics.Clean(err.Error(), 200)), Advice: "MaxSessions of 10 in the node's sshd_config gives each its own"})
}

func (p *Probe) closeChannels() {
	var closing sync.WaitGroup
	for _, c := range []*channel{p.ctl, p.files, p.scan} {
		closing.Go(c.close)
	}
	closing.Wait()
}

func (p *Probe) tick(ctx context.Context) {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			p.emit(metrics.KindTick, "", time.Time{}, nil)
		case <-ctx.Done():
			return
		}
	}
}

// emit stamps a frame under the lock that orders frames.
func (p *Probe) emit(kind metrics.Kind, name string, node time.Time, data []byte) {
	p.outMu.Lock()
	defer p.outMu.Unlock()
	p.out(metrics.Frame{Kind: kind, Name: name, At: p.now(), Node: node, Data: data})
}

func (p *Probe) emitJSON(kind metrics.Kind, name string, node time.Time, v any) {
	f := metrics.JSONFrame(kind, name, time.Time{}, v)
	p.emit(kind, name, node, f.Data)
}

// report emits the state of a channel when it has changed.
func (p *Probe) report(name string, f metrics.ProbeFact) {
	p.stateMu.Lock()
	before, known := p.states[name]
	same := known && before == f || !known && f.State == "ok" && f.Reason == ""
	// A merged channel keeps its note: its host's answers say nothing new.
	if f.State == "ok" && f.Reason == "" && before.State == "ok" {
		same = true
	}
	if !same {
		p.states[name] = f
	}
	p.stateMu.Unlock()
	if !same {
		p.emitJSON(metrics.KindProbe, name, time.Time{}, f)
	}
}

func (p *Probe) isStuck(name string) bool {
	p.stateMu.Lock()
	defer p.stateMu.Unlock()
	return p.states[name].State == "stuck"
}

// opened notes the processes of a shell of ours, which discovery leaves out.
func (p *Probe) opened(s *shell) {
	p.stateMu.Lock()
	defer p.stateMu.Unlock()
	p.sessions[s.sid] = true
	if s.ppid > 1 {
		p.ours[s.ppid] = true
	}
}

// every calls do at once and then each interval, or earlier when kicked.
func every(ctx context.Context, interval time.Duration, kick <-chan struct{}, do func()) {
	t := time.NewTicker(interval)
	defer t.Stop()
	for ctx.Err() == nil {
		do()
		select {
		case <-t.C:
		case <-kick:
		case <-ctx.Done():
		}
	}
}

// sleep waits and tells whether ctx is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
