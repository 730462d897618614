package sglang

import (
	"bytes"

	"github.com/runvigil/runvigil/metrics"
)

// accessLine takes uvicorn's `INFO:     ADDR:PORT - "METHOD PATH HTTP/x" STATUS`.
func (p *Parser) accessLine(msg []byte, h head) bool {
	if !bytes.HasPrefix(msg, []byte("INFO: ")) {
		return false
	}
	rest := bytes.TrimLeft(msg[len("INFO:"):], " ")
	dash := bytes.Index(rest[:min(len(rest), 64)], []byte(` - "`))
	if dash <= 0 {
		return p.uvicornLine(rest, h)
	}
	addr, rest := rest[:dash], rest[dash+4:]
	end := bytes.LastIndex(rest, []byte(` HTTP/`))
	if end < 0 {
		return true // cut before its status
	}
	method, path, found := bytes.Cut(rest[:end], []byte{' '})
	quote := bytes.IndexByte(rest[end:], '"')
	if !found || quote < 0 {
		return true
	}
	status, _ := parseNum(rest, end+quote+1+spaces(rest[end+quote+1:]))
	if !status.Known || status.V < 100 || status.V > 599 {
		return true
	}
	if q := bytes.IndexByte(path, '?'); q >= 0 {
		path = path[:q]
	}
	p.access = Access{Method: p.str(method), Path: p.str(path), Status: int(status.V)}
	if colon := bytes.LastIndexByte(addr, ':'); colon >= 0 {
		port, _ := parseNum(addr, colon+1)
		p.access.Port = int(port.V)
		addr = addr[:colon]
	}
	p.access.Client = p.str(addr)
	p.begin(KindAccess, h).Access = &p.access
	p.emit(&p.ev)
	return true
}

// uvicornLine takes what the HTTP server says about itself.
func (p *Parser) uvicornLine(rest []byte, h head) bool {
	switch {
	case bytes.HasPrefix(rest, []byte("Started server process [")):
		pid, _ := parseNum(rest, len("Started server process ["))
		p.step(StepProcess, h).PID = int(pid.V)
	case bytes.HasPrefix(rest, []byte("Uvicorn running on ")):
		s := p.step(StepListening, h)
		s.Addr, s.Port = hostPort(rest[len("Uvicorn running on "):])
		s.Addr = metrics.Clean(s.Addr, 256)
	case bytes.HasPrefix(rest, []byte("Shutting down")):
		p.stop = Stop{}
		p.begin(KindStop, h).Stop = &p.stop
	case bytes.HasPrefix(rest, []byte("Finished server process")):
		p.stop = Stop{Done: true}
		p.begin(KindStop, h).Stop = &p.stop
	case bytes.HasPrefix(rest, []byte("Application startup complete")), bytes.HasPrefix(rest, []byte("Waiting for application")),
		bytes.HasPrefix(rest, []byte("Application shutdown")):
		return true
	default:
		return false
	}
	p.emit(&p.ev)
	return true
}

// hostPort reads http://HOST:PORT.
func hostPort(b []byte) (string, int) {
	if at := bytes.Index(b, []byte("://")); at >= 0 {
		b = b[at+3:]
	}
	if end := bytes.IndexByte(b, ' '); end >= 0 {
		b = b[:end]
	}
	colon := bytes.LastIndexByte(b, ':')
	if colon < 0 {
		return string(b), 0
	}
	port, _ := parseNum(b, colon+1)
	return string(b[:colon]), int(port.V)
}

// runtimeLine takes the records of a server at work that are no faults:
// retraction, signals, draining, failed health checks, the watchdog's dump.
func (p *Parser) runtimeLine(msg []byte, h head) bool {
	switch msg[0] {
	case 'K', 'D':
		if bytes.HasPrefix(msg, []byte("KV cache pool is full. Retract")) || bytes.HasPrefix(msg, []byte("Decode out of memory happened")) {
			p.retract = Retraction{Requests: after(msg, "#retracted_reqs: "), Gained: after(msg, "#new_tokens_gained: "), Old: msg[0] == 'D'}
			p.retract.RatioFrom = after(msg, "#new_token_ratio: ")
			p.retract.RatioTo = after(msg, "-> ")
			p.begin(KindRetraction, h).Retract = &p.retract
			p.emit(&p.ev)
			return true
		}
	case 'r':
		if bytes.HasPrefix(msg, []byte("retract_decode: aborted last request")) {
			p.retract = Retraction{Requests: num(1), Aborted: true}
			p.begin(KindRetraction, h).Retract = &p.retract
			p.emit(&p.ev)
			return true
		}
	case 'S':
		if bytes.HasPrefix(msg, []byte("SIGTERM received")) {
			p.stop = Stop{Signal: "SIGTERM"}
			p.begin(KindStop, h).Stop = &p.stop
			p.emit(&p.ev)
			return true
		}
	case 'G':
		if bytes.HasPrefix(msg, []byte("Gracefully exiting")) {
			p.stop = Stop{Signal: "SIGTERM", Remaining: after(msg, "Remaining number of requests ")}
			p.begin(KindStop, h).Stop = &p.stop
			p.emit(&p.ev)
			return true
		}
	case 'H':
		if bytes.HasPrefix(msg, []byte("Health check failed")) {
			p.healthLine(msg, h)
			return true
		}
	case 'R':
		if bytes.HasPrefix(msg, []byte("Running FlashInfer autotune")) {
			p.step(StepJIT, h).Label = "FlashInfer"
			p.emit(&p.ev)
			return true
		}
	}
	return p.dumpLine(msg, h)
}

// healthLine takes a failed health check: both times are of today, in either order.
func (p *Parser) healthLine(msg []byte, h head) {
	p.health = Health{}
	if at := bytes.Index(msg, []byte("tic start time: ")); at >= 0 {
		p.health.Checked, _, _ = parseStamp(msg, at+len("tic start time: "))
	}
	if at := bytes.Index(msg, []byte("last_heartbeat time: ")); at >= 0 {
		p.health.Heartbeat, _, _ = parseStamp(msg, at+len("last_heartbeat time: "))
	}
	if d, ok := p.health.Checked.Sub(p.health.Heartbeat); ok {
		p.health.Silent = num(d)
	}
	p.begin(KindHealth, h).Health = &p.health
	p.emit(&p.ev)
	p.giveFault(h, Fault{Class: metrics.CauseServerHung, Weight: Remark, Detail: metrics.Clean(string(msg), maxDetail)})
}

// dumpLine takes the figures out of the watchdog's dump, whose middle is
// prompts: only what stands behind its own names is read.
func (p *Parser) dumpLine(b []byte, h head) bool {
	if bytes.IndexByte(b, '=') < 0 || !bytes.Contains(b, []byte("_size()=")) {
		return false
	}
	if h.rank == NoRank && p.last.at.Known {
		h = p.last // it goes on from the record above
	}
	d := Dump{
		BatchSize: after(b, "cur_batch.batch_size()="),
		Available: after(b, "kv_pool_allocator.available_size()="),
		Evictable: after(b, "tree_cache.evictable_size()="),
	}
	if d == (Dump{}) {
		return false
	}
	p.dump = d
	p.begin(KindDump, h).Dump = &p.dump
	p.emit(&p.ev)
	return true
}

// after reads the number behind the first occurrence of a key.
func after(b []byte, key string) Num {
	at := bytes.Index(b, []byte(key))
	if at < 0 {
		return Num{}
	}
	v, _ := parseNum(b, at+len(key))
	return v
}
