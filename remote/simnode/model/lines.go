package model

import (
	"fmt"
	"strings"
	"time"
)

const mainRank = -1

// log writes one record of level INFO: rank -1 is the main process, which
// prints none.
func (s *server) log(rank int, format string, args ...any) {
	if s.flags.LogLevel == "info" || s.flags.LogLevel == "debug" {
		s.warn(rank, format, args...)
	}
}

// warn writes one record of a higher level.
func (s *server) warn(rank int, format string, args ...any) {
	s.write(Stderr, s.prefix(rank)+fmt.Sprintf(format, args...)+"\n")
}

func (s *server) prefix(rank int) string {
	stamp := s.n.Now().Format("2006-01-02 15:04:05")
	if rank == mainRank || s.flags.TP == 1 {
		return "[" + stamp + "] "
	}
	return fmt.Sprintf("[%s TP%d] ", stamp, rank)
}

// info writes a record of uvicorn's own logger.
func (s *server) info(format string, args ...any) {
	if s.flags.VLLM {
		s.raw(s.process(ServerMain) + "INFO:     " + fmt.Sprintf(format, args...) + "\n")
		return
	}
	s.log(mainRank, "INFO:     "+format, args...)
}

// access writes an access line, which uvicorn sends to standard output.
func (s *server) access(port int, request string, status int) {
	if s.flags.LogLevel != "info" && s.flags.LogLevel != "debug" {
		return
	}
	prefix := s.prefix(mainRank)
	if s.flags.VLLM {
		prefix = s.process(ServerMain)
	}
	s.write(Stdout, fmt.Sprintf("%sINFO:     127.0.0.1:%d - \"%s HTTP/1.1\" %d %s\n",
		prefix, port, request, status, statusText(status)))
}

// raw writes bytes as they are: progress bars, texts of C++ libraries.
func (s *server) raw(text string) { s.write(Stderr, text) }

func (s *server) write(stream Stream, text string) {
	s.n.out.Server = append(s.n.out.Server, Chunk{At: s.n.Now(), PID: s.pids[ServerMain], Stream: stream, Text: text})
}

func statusText(code int) string {
	switch code {
	case 200:
		return "OK"
	case 400:
		return "Bad Request"
	case 401:
		return "Unauthorized"
	case 404:
		return "Not Found"
	case 405:
		return "Method Not Allowed"
	case 503:
		return "Service Unavailable"
	}
	return "Internal Server Error"
}

func (e *engine) usage() float64 { return float64(e.live) / float64(e.capacity) }

func (e *engine) logPrefill(running, tokens int) {
	e.count.lastInput = float64(e.lastTokens) / max((e.n.at-e.lastFill).Seconds(), 0.001)
	e.lastFill, e.lastTokens = e.n.at, tokens
	e.count.lastBatch = e.n.at
	e.count.lastRunning, e.count.lastQueued, e.count.use = running, len(e.queue), e.live-tokens
	if e.flags.VLLM {
		return // its line of figures tells all batches of 10 s
	}
	e.s.log(0, "Prefill batch, #new-seq: %d, #new-token: %d, #cached-token: 0, token usage: %.2f, #running-req: %d, #queue-req: %d, input throughput (token/s): %.2f, cuda graph: False",
		len(e.batch), tokens, float64(e.live-tokens)/float64(e.capacity), running, len(e.queue), e.count.lastInput)
}

func (e *engine) logDecode() {
	e.count.lastGen = float64(e.generated) / max((e.n.at-e.lastDecode).Seconds(), 0.001)
	e.lastDecode, e.interval, e.generated = e.n.at, 0, 0
	e.count.lastBatch = e.n.at
	e.count.lastRunning, e.count.lastQueued, e.count.use = len(e.running), len(e.queue), e.live
	if e.flags.VLLM {
		return
	}
	graph := "True"
	if len(e.running) > 512 {
		graph = "False"
	}
	e.s.log(0, "Decode batch, #running-req: %d, #token: %d, token usage: %.2f, cuda graph: %s, gen throughput (token/s): %.2f, #queue-req: %d",
		len(e.running), e.live, e.usage(), graph, e.count.lastGen, len(e.queue))
}

func (e *engine) logRetract(taken, gained, before int) {
	if e.flags.VLLM {
		return // only its metrics count preemptions
	}
	for rank := range e.flags.TP {
		e.s.warn(rank, "KV cache pool is full. Retract requests. #retracted_reqs: %d, #new_tokens_gained: %d, #new_token_ratio: %.4f -> %.4f",
			taken, gained, float64(before)/1e6, float64(e.ratio)/1e6)
	}
}

// bar is one piece of a tqdm progress bar, which redraws its line.
func bar(label, unit string, done, total int, spent time.Duration) string {
	each := spent.Seconds() / float64(max(done, 1))
	left := time.Duration(each * float64(total-done) * float64(time.Second))
	rate := fmt.Sprintf("%5.2fs/it", each)
	if done == 0 {
		rate = "?it/s"
	} else if each < 1 {
		rate = fmt.Sprintf("%5.2fit/s", 1/max(each, 0.001))
	}
	eta := clock(left)
	if done == 0 {
		eta = "?"
	}
	return fmt.Sprintf("\r%s: %3d%%%s %d/%d [%s<%s, %s]", label, done*100/total, unit, done, total, clock(spent), eta, rate)
}

// blocks is the drawn part of a bar of ten cells.
func blocks(done, total int) string {
	eighths := done * 80 / total
	full := strings.Repeat("█", eighths/8)
	if r := eighths % 8; r > 0 {
		full += string([]rune(" ▏▎▍▌▋▊▉")[r])
	}
	return "|" + full + strings.Repeat(" ", 10-len([]rune(full))) + "|"
}

func clock(d time.Duration) string {
	sec := int(d.Seconds())
	if sec >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", sec/3600, sec/60%60, sec%60)
	}
	return fmt.Sprintf("%02d:%02d", sec/60, sec%60)
}
