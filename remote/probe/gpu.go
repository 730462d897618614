package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

const (
	smiLimit     = 20 * time.Second // for one call of nvidia-smi
	appsEvery    = 10 * time.Second
	staticRetry  = time.Minute
	stuckRetry   = time.Minute // a hanging nvidia-smi is not joined by more than one a minute
	leaseRenewal = 20 * time.Second
	sampleGap    = 100 * time.Millisecond // rows of one round come closer together than this
)

// gpus is the state of watching the GPUs.
type gpus struct {
	p              *Probe
	smi            string
	libs           bool // the driver's folder has to be named
	stream, static []string
	cards          *cards
	lastError      string
	errorAt        time.Time
}

// cards is how many GPUs there are, once it is known: a round of so many rows is
// whole, and nothing has to be waited for.
type cards struct {
	n     atomic.Int32
	known chan struct{}
}

func (c *cards) set(n int) {
	if c.n.Swap(int32(n)) == 0 && n > 0 {
		close(c.known)
	}
}

// watchGPUs keeps one stream of nvidia-smi alive and asks it now and then for
// what changes less. It ends with ctx only.
func (p *Probe) watchGPUs(ctx context.Context) error {
	defer p.leaveFirst()
	g := &gpus{p: p, smi: p.tool("nvidia-smi"), cards: &cards{known: make(chan struct{})}}
	if g.smi == "" {
		g.fail(metrics.GPUErrorFact{RC: 127, Text: "nvidia-smi was not found on the node", Absent: true})
		p.report("gpu", metrics.ProbeFact{State: "absent", Reason: "nvidia-smi was not found in PATH or where drivers put it", Advice: "install the NVIDIA driver's tools, or put nvidia-smi in the PATH of non-interactive shells"})
		<-ctx.Done()
		return nil
	}
	slow := &gpus{p: g.p, smi: g.smi, cards: g.cards}
	if !p.gpuStream {
		slow.learnFields(ctx)
		g.stream, g.libs = slow.stream, slow.libs
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if p.gpuStream { // else they are known
			slow.learnFields(ctx)
		}
		slow.watchSlow(ctx)
	}()
	if p.gpuStream {
		g.watchStream(ctx)
	} else {
		g.watchOneShots(ctx)
	}
	<-done
	return nil
}

func (p *Probe) tool(name string) string {
	p.stateMu.Lock()
	defer p.stateMu.Unlock()
	return p.session.Tools[name]
}

// smi runs nvidia-smi once in the background.
func (g *gpus) run(ctx context.Context, args string) (string, int, error) {
	code := "exec " + quote(g.smi) + " " + args
	if g.libs {
		code = nvidiaLibs + "; " + code
	}
	out, rc, err := g.p.job(ctx, "g", code, smiLimit)
	if !g.libs && strings.Contains(string(out), noLibrary) {
		g.libs = true
		return g.run(ctx, args)
	}
	return string(out), rc, err
}

func (g *gpus) learnFields(ctx context.Context) {
	help, _, err := g.run(ctx, "--help-query-gpu")
	g.stream, g.static = chooseFields(help)
	if errors.Is(err, errStuck) {
		g.stuck()
	}
}

// noLibrary is what nvidia-smi says where the driver's folder has to be named.
const noLibrary = "couldn't find libnvidia-ml.so"

// query runs a query and emits it, or its failure. The field that a driver
// refuses is left out and the query made again.
func (g *gpus) query(ctx context.Context, kind metrics.Kind, fields *[]string) bool {
	for range 4 {
		text, rc, err := g.run(ctx, "--query-gpu="+strings.Join(*fields, ",")+" --format=csv,noheader,nounits")
		if err != nil {
			if errors.Is(err, errStuck) {
				g.stuck()
			}
			return false
		}
		if bad := refusedField(text); bad != "" {
			*fields = without(*fields, bad)
			continue
		}
		rows, rest := splitRows(text, len(*fields))
		if len(rows) > 0 {
			g.emitRows(kind, *fields, rows)
			if kind == metrics.KindGPUStatic {
				g.cards.set(len(rows))
			}
		}
		if rc != 0 || len(rows) == 0 || rest != "" {
			g.fail(metrics.GPUErrorFact{RC: rc, Text: rest})
		}
		return len(rows) > 0
	}
	return false
}

func without(fields []string, bad string) (out []string) {
	for _, f := range fields {
		if f != bad {
			out = append(out, f)
		}
	}
	return out
}

func splitRows(text string, fields int) (rows []string, rest string) {
	var other []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.TrimSpace(line) == "":
		case isRow(line, fields):
			rows = append(rows, metrics.Clean(line, 1000))
		default:
			other = append(other, line)
		}
	}
	return rows, strings.Join(other, "\n")
}

func (g *gpus) emitRows(kind metrics.Kind, fields, rows []string) {
	g.p.emit(kind, "", time.Time{}, []byte(strings.Join(fields, ",")+"\n"+strings.Join(rows, "\n")+"\n"))
}

// fail emits a failure, the same one at most once a minute.
func (g *gpus) fail(f metrics.GPUErrorFact) {
	f.Text = metrics.Cut(cleanLines(f.Text), 4096)
	key := fmt.Sprint(f)
	if key == g.lastError && time.Since(g.errorAt) < time.Minute {
		return
	}
	g.lastError, g.errorAt = key, time.Now()
	g.p.emitJSON(metrics.KindGPUError, "", time.Time{}, f)
}

func (g *gpus) stuck() {
	g.fail(metrics.GPUErrorFact{RC: -1, Text: "nvidia-smi hangs in the driver (state D)", Stuck: true})
	g.p.report("gpu", metrics.ProbeFact{State: "stuck", Reason: "nvidia-smi hangs in the driver (state D); it is tried again once a minute", Advice: "look for Xid lines in the kernel log; the GPU or the node most likely needs a reset"})
}

// watchSlow emits what does not change, once, and the processes on the GPUs.
func (g *gpus) watchSlow(ctx context.Context) {
	haveStatic := false
	var staticAt, pause time.Time
	every(ctx, appsEvery, nil, func() {
		if time.Now().Before(pause) {
			return
		}
		if !haveStatic && time.Since(staticAt) > staticRetry {
			haveStatic, staticAt = g.query(ctx, metrics.KindGPUStatic, &g.static), time.Now()
		}
		text, rc, err := g.run(ctx, "--query-compute-apps="+appFields+" --format=csv,noheader")
		switch {
		case errors.Is(err, errStuck), errors.Is(err, errBusy):
			pause = time.Now().Add(stuckRetry)
			if errors.Is(err, errStuck) {
				g.stuck()
			}
		case err == nil && rc == 0:
			var rows strings.Builder
			rows.WriteString(appFields + "\n")
			for line := range strings.Lines(text) {
				if line = appRow(line); line != "" {
					rows.WriteString(line + "\n")
				}
			}
			g.p.emit(metrics.KindGPUApps, "", time.Time{}, []byte(rows.String()))
		}
	})
}

// appRow masks and cleans one row of the compute processes: pid, name (which
// may hold commas and secrets), memory, GPU. Other lines give "".
func appRow(line string) string {
	cells := strings.Split(strings.TrimSpace(line), ",")
	n := len(cells)
	if n < 4 {
		return ""
	}
	name := metrics.Clean(metrics.Mask(strings.Join(cells[1:n-2], ",")), 300)
	return metrics.Clean(cells[0], 20) + "," + name + "," + metrics.Clean(cells[n-2], 40) + "," + metrics.Clean(cells[n-1], 80)
}

// watchOneShots asks again and again, where the node grants no session for a
// stream.
func (g *gpus) watchOneShots(ctx context.Context) {
	for ctx.Err() == nil {
		begun := time.Now()
		wait := max(g.p.opts.Interval, 2*time.Second)
		if !g.query(ctx, metrics.KindGPU, &g.stream) {
			wait = 15 * time.Second
		}
		sleep(ctx, max(wait-time.Since(begun), wait/2))
	}
}

// startedShell is a shell that came up, or why it did not.
type startedShell struct {
	sh  *shell
	err error
}

// startStream begins the stream at once, beside all else: what it needs to know
// is found out on the node.
func (p *Probe) startStream(ctx context.Context, st *Stream) {
	first := make(chan startedShell, 1)
	p.gpuFirst = first
	go func() {
		sh, err := runShell(ctx, st, p.gpuProgram("", nil, false), true)
		first <- startedShell{sh, err}
	}()
}

// leaveFirst ends a stream that nobody will read.
func (p *Probe) leaveFirst() {
	if p.gpuFirst == nil {
		return
	}
	if s := <-p.gpuFirst; s.err == nil {
		s.sh.close()
	}
	p.gpuFirst = nil
}

func (p *Probe) gpuProgram(smi string, fields []string, libs bool) func(nonce string) string {
	return gpuProgram(smi, fields, int(max(p.opts.Interval, 100*time.Millisecond)/time.Millisecond), libs)
}

// streamed gives the fields of a stream that its first line names, nil for a
// line that names none.
func streamed(line string) []string {
	rest, ok := strings.CutPrefix(line, "fields ")
	if !ok {
		return nil
	}
	fields := strings.Split(rest, ",")
	for _, f := range fields {
		if !slices.ContainsFunc(streamFields, func(names []string) bool { return slices.Contains(names, f) }) {
			return nil
		}
	}
	return fields
}

// watchStream starts the stream and starts it again when it ends.
func (g *gpus) watchStream(ctx context.Context) {
	backoff := backoffFirst
	for ctx.Err() == nil {
		rows, wait := g.streamOnce(ctx)
		if rows > 0 {
			backoff = backoffFirst
		}
		if wait == 0 {
			wait = backoff
			backoff = min(2*backoff, backoffMost)
		}
		sleep(ctx, wait)
	}
}

// streamOnce reads one stream to its end and tells how many rows came, and how
// long to wait before the next where that is certain.
func (g *gpus) streamOnce(ctx context.Context) (rows int, wait time.Duration) {
	p := g.p
	var sh *shell
	var err error
	if first := p.gpuFirst; first != nil {
		p.gpuFirst = nil
		s := <-first
		sh, err = s.sh, s.err
	} else {
		sh, err = startShell(ctx, p.conn, p.gpuProgram(g.smi, g.stream, g.libs), true)
	}
	if err != nil {
		if p.isStuck("gpu") { // whoever asked beside it has found out
			return 0, stuckRetry
		}
		if ctx.Err() == nil {
			p.report("gpu", metrics.ProbeFact{State: "failed", Reason: metrics.Clean(err.Error(), 300), Advice: "it is tried again within 30 s"})
		}
		return 0, 0
	}
	defer sh.close()
	p.opened(sh)
	renew := time.NewTicker(leaseRenewal)
	defer renew.Stop()
	patience := 3*p.opts.Interval + max(answerLimit, 4*p.ctl.roundTrip())
	quiet := time.NewTimer(patience)
	defer quiet.Stop()
	gap := time.NewTimer(time.Hour)
	defer gap.Stop()
	var round, other []string
	whole := func() bool { n := int(g.cards.n.Load()); return n > 0 && len(round) >= n }
	last := -1 // index of the last row of a round that was taken for whole
	known := g.cards.known
	flush := func() {
		if len(round) > 0 {
			g.emitRows(metrics.KindGPU, g.stream, round)
			round = nil
		}
	}
	for {
		select {
		case line, ok := <-sh.lines:
			if !ok {
				flush()
				g.ended(other, -1, rows)
				return rows, 0
			}
			quiet.Reset(patience)
			text := string(line)
			if fields := streamed(text); rows == 0 && fields != nil {
				g.stream = fields
				continue
			}
			if !isRow(text, len(g.stream)) {
				if other = append(other, text); len(other) > 40 {
					other = other[20:]
				}
				gap.Reset(sampleGap)
				continue
			}
			if i := indexOf(text); len(round) > 0 && i >= 0 && i <= indexOf(round[len(round)-1]) {
				flush()
			}
			if len(round) == 0 && last >= 0 && indexOf(text) > last {
				g.cards.n.Store(-1) // it was not: there are more than were counted
			}
			last = -1
			round = append(round, metrics.Clean(text, 1000))
			rows++
			if rows == 1 {
				p.report("gpu", metrics.ProbeFact{State: "ok"})
			}
			if whole() {
				last = indexOf(text)
				flush()
			}
			gap.Reset(sampleGap)
		case <-known:
			if known = nil; whole() {
				flush()
			}
		case <-gap.C:
			flush()
			if len(other) > 0 {
				if rc, over := g.exited(ctx, sh); over {
					return rows, g.ended(other, rc, rows)
				}
				g.fail(metrics.GPUErrorFact{RC: -1, Text: strings.Join(other, "\n")})
				other = nil
			}
		case <-quiet.C:
			rc, over := g.exited(ctx, sh)
			if over {
				return rows, g.ended(other, rc, rows)
			}
			if rc < 0 { // state D
				g.stuck()
				return rows, stuckRetry
			}
			quiet.Reset(patience)
		case <-renew.C:
			select {
			case sh.requests <- []byte("\n"):
			default:
			}
		case <-ctx.Done():
			return rows, 0
		}
	}
}

// exited looks at the stream's process: over with its exit status when it has
// ended, else rc -1 when it hangs in state D and 0 when it merely is silent.
func (g *gpus) exited(ctx context.Context, sh *shell) (rc int, over bool) {
	for range 3 {
		a, err := g.p.ctl.call(ctx, "al "+strconv.Itoa(sh.pid))
		if err != nil {
			return 0, false
		}
		st, ok := parseStat(string(a.data))
		if !ok || st.state == "Z" || st.state == "X" {
			if a, err = sh.call(ctx, "w", answerLimit); err != nil {
				return -1, true
			}
			return a.rc, true
		}
		if st.state == "D" {
			rc = -1
			sleep(ctx, 500*time.Millisecond) // a healthy one is in the driver for moments only
			continue
		}
		return 0, false
	}
	return rc, false
}

// ended reports a stream that is over and gives the time to wait.
func (g *gpus) ended(other []string, rc, rows int) time.Duration {
	text := strings.Join(other, "\n")
	if bad := refusedField(text); bad != "" {
		g.stream = without(g.stream, bad)
		return time.Millisecond
	}
	if strings.Contains(text, noLibrary) && !g.libs {
		g.libs = true
		return time.Millisecond
	}
	if text == "" && rc <= 0 {
		return 0
	}
	g.fail(metrics.GPUErrorFact{RC: rc, Text: text})
	g.p.report("gpu", metrics.ProbeFact{State: "failed", Reason: fmt.Sprintf("nvidia-smi ended with status %d", rc), Advice: "its own words say why; it is tried again within 30 s"})
	return 0
}
