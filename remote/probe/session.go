package probe

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// begin asks who the node is and emits the session.
func (p *Probe) begin(ctx context.Context) error {
	asked := time.Now()
	a, err := p.ctl.callFor(ctx, "info", readyLimit)
	if err != nil {
		return fmt.Errorf("ask the node who it is: %w", err)
	}
	took := time.Since(asked)
	s, page := parseInfo(string(a.data))
	s.Node, s.Dialer, s.Root = p.opts.Node, p.opts.Dialer, p.opts.RootPID
	if p.ctl.sh != nil {
		s.Noise = cleanLines(p.ctl.sh.noise)
	}
	p.stateMu.Lock()
	p.session = s
	if page > 0 {
		p.pageSize = page
	}
	p.stateMu.Unlock()
	p.emitJSON(metrics.KindSession, "", s.Now, s)
	p.emitJSON(metrics.KindLink, "", time.Time{}, metrics.LinkFact{Status: metrics.LinkUp, RTTms: ms(took)})
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// cleanLines masks and cleans a few lines of hostile text.
func cleanLines(text string) string {
	var out []string
	for line := range strings.Lines(text) {
		if line = metrics.Clean(metrics.Mask(line), 200); strings.TrimSpace(line) != "" {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return strings.Join(out[max(0, len(out)-10):], "\n")
}

// parseInfo reads the answer of info; what is missing stays zero.
func parseInfo(text string) (s metrics.Session, page int64) {
	s.HZ = 100
	s.Tools = map[string]string{}
	for line := range strings.Lines(text) {
		key, rest, _ := strings.Cut(strings.TrimRight(line, "\n"), " ")
		rest = metrics.Clean(rest, 300)
		switch key {
		case "hostname":
			s.Host = rest
		case "osrelease":
			s.Kernel = rest
		case "boot_id":
			s.BootID = rest
		case "uptime":
			first, _, _ := strings.Cut(rest, " ")
			s.UptimeS, _ = strconv.ParseFloat(first, 64)
		case "date":
			if f := strings.Fields(rest); len(f) >= 2 {
				sec, err := strconv.ParseInt(f[0], 10, 64)
				if err == nil {
					s.Now = time.Unix(sec, 0).UTC()
				}
				s.ZoneSec = zoneSeconds(f[1])
				s.Zone = f[len(f)-1]
			}
		case "uid":
			s.UID = int(number(rest))
		case "user":
			s.User = rest
		case "hz":
			if n := number(rest); n > 0 {
				s.HZ = int(n)
			}
		case "page":
			page = number(rest)
		case "shell":
			s.Shell = path.Base(rest)
		case "cpus":
			s.CPUs = int(number(rest))
		case "tool":
			if name, where, ok := strings.Cut(rest, " "); ok {
				s.Tools[name] = where
			}
		}
	}
	return s, page
}

// zoneSeconds reads +hhmm.
func zoneSeconds(z string) int {
	n := number(strings.TrimLeft(z, "+-"))
	sec := int(n/100*3600 + n%100*60)
	if strings.HasPrefix(z, "-") {
		return -sec
	}
	return sec
}

func number(s string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// nodeTime is the node's wall time at one reading of its uptime.
func (p *Probe) nodeTime(uptime float64) time.Time {
	p.stateMu.Lock()
	defer p.stateMu.Unlock()
	if p.session.Now.IsZero() || uptime <= 0 {
		return time.Time{}
	}
	return p.session.Now.Add(time.Duration((uptime - p.session.UptimeS) * float64(time.Second))).Round(time.Millisecond)
}

// sample reads the host and the wanted processes each interval. Its requests
// are the heartbeat of the connection: they touch nothing that can block on the
// node, so two without an answer, while nothing comes on another channel
// either, mean that the link is dead.
func (p *Probe) sample(ctx context.Context) error {
	kick := p.kicked()
	var alive []metrics.Alive
	var grouped time.Time // when the control groups were last asked
	groups := ""          // of these processes
	failures := 0
	var fatal error
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	every(ctx, p.opts.Interval, kick, func() {
		code := "sys"
		if limits := p.wanted(metrics.WantMemory); len(limits) > 0 {
			now := ""
			for _, w := range limits {
				now += " " + strconv.Itoa(w.PID)
			}
			if now != groups || time.Since(grouped) >= limits[0].Every {
				groups, grouped = now, time.Now()
				code += ";cg" + now
			}
		}
		code += ";s"
		pids := p.wanted(metrics.WantPID)
		if len(pids) > 0 {
			code += ";al"
			reads := ""
			for _, w := range pids {
				code += " " + strconv.Itoa(w.PID)
				if w.Reads {
					reads += " " + strconv.Itoa(w.PID)
				}
			}
			if reads != "" {
				code += ";rb" + reads
			}
		}
		a, err := p.ctl.call(ctx, code)
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			failures++
			fatal = p.silence(err, failures)
			if fatal != nil {
				cancel()
			}
			return
		}
		failures = 0
		p.recovered()
		ps := a.parts()
		text := string(ps[0])
		p.emit(metrics.KindSys, "", p.nodeTime(uptimeOf(text)), ps[0])
		if len(pids) > 0 && len(ps) > 1 {
			now := aliveOf(string(ps[1]), pids)
			if ended(alive, now) {
				select {
				case p.rescan <- struct{}{}:
				default:
				}
			}
			alive = now
			p.emitJSON(metrics.KindAlive, "", time.Time{}, alive)
		}
	})
	return fatal
}

// silence tells a slow answer from a dead link.
func (p *Probe) silence(err error, failures int) error {
	for _, c := range []*channel{p.files, p.scan} {
		if c != p.ctl && time.Since(c.lastHeard()) < answerLimit {
			return nil
		}
	}
	if failures >= missesToDrop {
		return fmt.Errorf("%w: %w", ErrSilent, err)
	}
	p.stateMu.Lock()
	fresh := !p.suspect
	p.suspect = true
	p.stateMu.Unlock()
	if fresh {
		p.emitJSON(metrics.KindLink, "", time.Time{}, metrics.LinkFact{Status: metrics.LinkSuspect, Reason: metrics.Clean(err.Error(), 200)})
	}
	return nil
}

func (p *Probe) recovered() {
	p.stateMu.Lock()
	was := p.suspect
	p.suspect = false
	p.stateMu.Unlock()
	if was {
		p.emitJSON(metrics.KindLink, "", time.Time{}, metrics.LinkFact{Status: metrics.LinkUp, RTTms: ms(p.ctl.roundTrip())})
	}
}

func uptimeOf(sys string) float64 {
	line, _, _ := strings.Cut(sys, "\n")
	f := strings.Fields(line)
	if len(f) < 2 || f[0] != "uptime" {
		return 0
	}
	up, _ := strconv.ParseFloat(f[1], 64)
	return up
}

// ended tells whether a process that was there is gone, is another or a zombie.
func ended(before, now []metrics.Alive) bool {
	for _, b := range before {
		for _, n := range now {
			if b.PID == n.PID && (b.Start != n.Start || b.State != "Z" && n.State == "Z") {
				return true
			}
		}
	}
	return false
}

// aliveOf gives each wanted process, with State "" where it is gone.
func aliveOf(text string, wants []metrics.Want) []metrics.Alive {
	found := map[int]metrics.Alive{}
	for line := range strings.Lines(text) {
		if pid, n, ok := parseRead(line); ok {
			if a, there := found[pid]; there {
				a.Read = &n
				found[pid] = a
			}
		} else if st, ok := parseStat(line); ok {
			found[st.pid] = metrics.Alive{PID: st.pid, Start: st.start, State: st.state, Threads: st.threads, CPU: st.cpu, MajFaults: st.majflt}
		}
	}
	out := make([]metrics.Alive, 0, len(wants))
	for _, w := range wants {
		a, ok := found[w.PID]
		if !ok {
			a.PID = w.PID
		}
		out = append(out, a)
	}
	return out
}
