package board

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

const (
	loadsEvery  = 5 * time.Second
	healthEvery = 60 * time.Second
	sourceLoads = "/v1/loads"
	sourceInfo  = "/server_info"
)

// endpoint is what one path of a server answered.
type endpoint struct {
	status int
	at     time.Time
	since  time.Time // of the status
	tries  int
	ok     time.Time // newest 200
}

// loads is the newest answer of /v1/loads, summed over DP ranks.
type loads struct {
	at                      time.Time
	running, queued, tokens float64
	usage, capacity, gen    float64
	known                   bool
	idleSince               time.Time // since when nothing ran or waited
	busySince               time.Time // since when something ran
}

func (b *Board) applyHTTP(f metrics.Frame) error {
	h, body, err := metrics.DecodeChunk[metrics.HTTPHeader](f.Data)
	if err != nil {
		return err
	}
	srv := b.serverByPort(h.Port)
	if srv == nil {
		return nil
	}
	p, _, _ := strings.Cut(h.Path, "?")
	ep := srv.endpoint(p)
	if ep.status != h.Status || ep.tries == 0 {
		ep.since = f.At
	}
	ep.status, ep.at = h.Status, f.At
	ep.tries++
	if h.Status != 200 {
		if p == "/metrics" && h.Status == 404 {
			off := false
			srv.s.MetricsOn = &off
		}
		return nil
	}
	ep.ok = f.At
	if p == srv.endpointPath() {
		on := true
		srv.s.MetricsOn = &on
		srv.takeMetrics(f.At, body)
		return nil
	}
	switch p {
	case "/v1/loads":
		return srv.takeLoads(f.At, body)
	case "/server_info", "/get_server_info":
		return srv.takeInfo(f.At, body)
	case "/version":
		return srv.takeInfo(f.At, body)
	case sourceModels:
		return srv.takeModels(f.At, body)
	}
	return nil
}

func (s *serverState) endpoint(path string) *endpoint {
	if s.http == nil {
		s.http = map[string]*endpoint{}
	}
	ep := s.http[path]
	if ep == nil {
		ep = &endpoint{}
		s.http[path] = ep
	}
	return ep
}

// serverByPort finds the living server on a port, else the newest one that had it.
func (b *Board) serverByPort(port int) *serverState {
	var found *serverState
	for _, s := range b.servers {
		if s.s.Port == port && port != 0 && (found == nil || s.alive()) {
			found = s
		}
	}
	return found
}

func (s *serverState) takeLoads(at time.Time, body []byte) error {
	var v struct {
		Version string `json:"version"`
		Loads   []struct {
			Running  float64  `json:"num_running_reqs"`
			Waiting  float64  `json:"num_waiting_reqs"`
			Used     float64  `json:"num_used_tokens"`
			Capacity float64  `json:"max_total_num_tokens"`
			Usage    float64  `json:"token_usage"`
			Gen      *float64 `json:"gen_throughput"`
		} `json:"loads"`
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return fmt.Errorf("answer of %s: %w", sourceLoads, err)
	}
	if v.Version != "" {
		s.version = metrics.Clean(v.Version, 40)
	}
	if len(v.Loads) == 0 {
		return nil
	}
	l := &s.loads
	was := l.known
	idle, busy := l.idleSince, l.busySince
	*l = loads{at: at, known: true}
	for _, d := range v.Loads {
		l.running += d.Running
		l.queued += d.Waiting
		l.tokens += d.Used
		l.capacity += d.Capacity
		l.usage = max(l.usage, d.Usage)
		if d.Gen != nil {
			l.gen += *d.Gen
		}
	}
	switch {
	case l.running+l.queued > 0 && (!was || busy.IsZero()):
		l.busySince = at
	case l.running+l.queued > 0:
		l.busySince = busy
	case !was || idle.IsZero():
		l.idleSince = at
	default:
		l.idleSince = idle
	}
	s.runningSeries.Add(at, l.running)
	return nil
}

func (s *serverState) takeInfo(at time.Time, body []byte) error {
	var v struct {
		Version  string   `json:"version"`
		Capacity *float64 `json:"max_total_num_tokens"`
		Model    string   `json:"model_path"`
		Served   string   `json:"served_model_name"`
		KVDtype  string   `json:"kv_cache_dtype"`
		MaxRun   *float64 `json:"max_running_requests"`
		Context  *float64 `json:"context_length"`
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return fmt.Errorf("answer of %s: %w", sourceInfo, err)
	}
	s.info = info{at: at, kvDtype: metrics.Clean(v.KVDtype, 40), model: shortModel(metrics.Clean(v.Model, 200))}
	if v.Version != "" {
		s.version = metrics.Clean(v.Version, 40)
	}
	if v.Capacity != nil {
		s.info.capacity = metrics.Fixed(*v.Capacity, at, sourceInfo)
	}
	if v.MaxRun != nil {
		s.info.maxRunning = metrics.Fixed(*v.MaxRun, at, sourceInfo)
	}
	if v.Context != nil {
		s.info.context = metrics.Fixed(*v.Context, at, sourceInfo)
	}
	return nil
}

// info is what /server_info told once.
type info struct {
	at                            time.Time
	kvDtype, model                string
	capacity, maxRunning, context metrics.Figure
}

// versionAtLeast compares dotted versions; what cannot be read is taken as new.
func versionAtLeast(version string, want ...int) bool {
	if version == "" {
		return true
	}
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	for i, w := range want {
		if i >= len(parts) {
			return false
		}
		digits := parts[i]
		for j, c := range digits {
			if c < '0' || c > '9' {
				digits = digits[:j]
				break
			}
		}
		n, err := strconv.Atoi(digits)
		if err != nil {
			return true
		}
		if n != w {
			return n > w
		}
	}
	return true
}
