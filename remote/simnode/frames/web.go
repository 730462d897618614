package frames

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote/simnode/model"
)

// Deadlines of a request: a busy engine takes up to 20 s for /health.
const (
	httpLimit   = 10 * time.Second
	healthLimit = 25 * time.Second
	bodyMost    = 1 << 20
)

// question is a request that the engine has not answered yet.
type question struct {
	want  metrics.Want
	since time.Time
}

// ask answers the wants for endpoints, one outstanding request each.
func (s *Source) ask(wants []metrics.Want) {
	s.expire()
	for _, w := range wants {
		if w.Kind != metrics.WantHTTP {
			continue
		}
		name := endpoint(w)
		interval := first(w.Every, httpEvery)
		if w.Every == 0 {
			interval = 100 * 365 * 24 * time.Hour
		}
		if s.busy[name] || !s.every("http "+name, interval) {
			continue
		}
		r, ok := s.node.HTTP("GET", w.Path, s.key(), nil)
		switch {
		case !ok || w.Port != s.node.Server().Port:
			s.reply(w, metrics.HTTPHeader{Err: "connection refused: nothing listens there yet"}, 0, nil)
		case r.Ticket != 0:
			s.busy[name] = true
			s.asked[r.Ticket] = &question{want: w, since: s.node.Now()}
		default:
			s.reply(w, metrics.HTTPHeader{Status: r.Status}, 4*time.Millisecond, r.Body)
		}
	}
}

func endpoint(w metrics.Want) string { return strconv.Itoa(w.Port) + " " + w.Path }

// key is what the probe sends to a server that wants a key.
func (s *Source) key() string {
	if key := s.node.Server().Flags.APIKey; key != "" {
		return "Bearer " + key
	}
	return ""
}

func (s *Source) answered(a model.Answer) {
	q := s.asked[a.Ticket]
	if q == nil {
		return
	}
	delete(s.asked, a.Ticket)
	delete(s.busy, endpoint(q.want))
	s.reply(q.want, metrics.HTTPHeader{Status: a.Reply.Status}, s.node.Now().Sub(q.since), a.Reply.Body)
}

// expire gives up on requests that wait for too long.
func (s *Source) expire() {
	for ticket := range maxTicket(s.asked) + 1 {
		q := s.asked[ticket]
		if q == nil {
			continue
		}
		limit := httpLimit
		if strings.HasPrefix(q.want.Path, "/health") {
			limit = healthLimit
		}
		if s.node.Now().Sub(q.since) >= limit {
			delete(s.asked, ticket)
			delete(s.busy, endpoint(q.want))
			s.reply(q.want, metrics.HTTPHeader{Err: "no answer in time"}, limit, nil)
		}
	}
}

func maxTicket(m map[int]*question) int {
	most := 0
	for t := range m {
		most = max(most, t)
	}
	return most
}

func (s *Source) reply(w metrics.Want, h metrics.HTTPHeader, took time.Duration, body []byte) {
	h.Port, h.Path, h.Via, h.Ms = w.Port, w.Path, "forward", float64(took.Microseconds())/1000
	var masked []string
	for line := range strings.Lines(string(body[:min(len(body), bodyMost)])) {
		masked = append(masked, metrics.Mask(line))
	}
	s.emit(metrics.KindHTTP, fmt.Sprint(w.Port, " ", w.Path), time.Time{}, metrics.EncodeChunk(h, []byte(strings.Join(masked, ""))))
}
