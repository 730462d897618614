package probe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// errStuck means that a program on the node hangs in the kernel (state D),
// where no signal reaches it.
var errStuck = errors.New("the program hangs in the kernel (state D)")

var errBusy = errors.New("the program asked before has not ended yet")

// job runs a program in the background of ctl and waits for its output without
// ever blocking the channel. Slot g is for nvidia-smi, slot h for HTTP; each
// runs one job at a time. The output is at most 1 MB, errors included.
func (p *Probe) job(ctx context.Context, slot, code string, limit time.Duration) (out []byte, rc int, err error) {
	if err := p.jobs[slot].take(ctx); err != nil {
		return nil, -1, err
	}
	defer p.jobs[slot].leave()
	a, err := p.ctl.call(ctx, "js "+slot+" "+quote(code))
	if err != nil {
		return nil, -1, err
	}
	switch a.rc {
	case 0:
	case 9: // a job that was given up has not ended, or its answer was not fetched
		if _, _, state, err := p.poll(ctx, slot); err != nil || state != "" {
			if state == "D" {
				return nil, -1, errStuck
			}
			return nil, -1, errBusy
		}
		if a, err = p.ctl.call(ctx, "js "+slot+" "+quote(code)); err != nil || a.rc != 0 {
			return nil, -1, errBusy
		}
	default:
		return nil, -1, fmt.Errorf("start a program in the background: no temporary file can be made on the node (/tmp and /dev/shm are not writable)")
	}
	end := time.Now().Add(limit)
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		if !sleep(ctx, wait) {
			return nil, -1, context.Cause(ctx)
		}
		out, rc, state, err := p.poll(ctx, slot)
		switch {
		case err != nil:
			return nil, -1, err
		case state == "":
			return out, rc, nil
		case time.Now().After(end):
			if state == "D" {
				return nil, -1, errStuck
			}
			p.kill(ctx, slot)
			return nil, -1, errLate
		}
	}
}

// kill ends a job and frees its slot, unless it hangs in the kernel.
func (p *Probe) kill(ctx context.Context, slot string) {
	for range 10 {
		if _, err := p.ctl.call(ctx, "jk "+slot); err != nil || !sleep(ctx, 20*time.Millisecond) {
			return
		}
		if _, _, state, err := p.poll(ctx, slot); err != nil || state == "" {
			return
		}
	}
}

// poll asks for a job's state: "" when it has ended.
func (p *Probe) poll(ctx context.Context, slot string) (out []byte, rc int, state string, err error) {
	a, err := p.ctl.call(ctx, "jp "+slot)
	if err != nil {
		return nil, -1, "", err
	}
	if a.rc == 9 {
		return nil, -1, "", errGone // the shell is another one by now
	}
	ps := a.parts()
	f := strings.Fields(string(ps[0]))
	if len(f) == 2 && f[0] == "done" && len(ps) > 1 {
		return ps[1], int(number(f[1])), "", nil
	}
	if len(f) == 2 && f[0] == "run" {
		return nil, 0, f[1], nil
	}
	return nil, -1, "", fmt.Errorf("state of a background program: unexpected answer %q", ps[0])
}
