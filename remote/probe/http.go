package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote"
)

const (
	bodyMost    = 1 << 20
	httpLimit   = 10 * time.Second
	healthLimit = 25 * time.Second // a busy engine takes up to 20 s for /health
	httpEvery   = 5 * time.Second
)

// endpoints polls the wanted endpoints, each in a goroutine of its own.
type endpoints struct {
	p       *Probe
	client  *http.Client
	mu      sync.Mutex
	keys    map[int]string // of servers, by process; they never leave
	asked   map[string]time.Time
	blocked bool // the node forbids forwarding
}

// watchHTTP keeps one poller an endpoint that is wanted.
func (p *Probe) watchHTTP(ctx context.Context) error {
	e := &endpoints{p: p, keys: map[int]string{}, asked: map[string]time.Time{}, client: &http.Client{
		Transport: &http.Transport{
			DialContext: p.conn.DialContext, MaxIdleConnsPerHost: 2, MaxConnsPerHost: 4,
			IdleConnTimeout: time.Minute, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	var pollers sync.WaitGroup
	defer e.client.CloseIdleConnections()
	defer pollers.Wait()
	running := map[metrics.Want]context.CancelFunc{}
	kick := p.kicked()
	for {
		wanted := map[metrics.Want]bool{}
		for _, w := range p.wanted(metrics.WantHTTP) {
			wanted[w] = true
			if running[w] == nil {
				one, cancel := context.WithCancel(ctx)
				running[w] = cancel
				pollers.Go(func() { e.poll(one, w) })
			}
		}
		for w, cancel := range running {
			if !wanted[w] {
				cancel()
				delete(running, w)
			}
		}
		select {
		case <-kick:
		case <-ctx.Done():
			for _, cancel := range running {
				cancel()
			}
			return nil
		}
	}
}

// poll asks one endpoint again and again; Every 0 asks once.
func (e *endpoints) poll(ctx context.Context, w metrics.Want) {
	if w.Every == 0 {
		e.ask(ctx, w)
		return
	}
	// A want that comes back is asked no more often than one that stayed:
	// /health makes work for the engine.
	e.mu.Lock()
	wait := time.Until(e.asked[target(w)].Add(w.Every))
	e.mu.Unlock()
	if wait > 0 && !sleep(ctx, wait) {
		return
	}
	every(ctx, max(w.Every, 200*time.Millisecond), nil, func() { e.ask(ctx, w) })
}

func (e *endpoints) ask(ctx context.Context, w metrics.Want) {
	e.mu.Lock()
	e.asked[target(w)] = time.Now()
	e.mu.Unlock()
	h, body := e.get(ctx, w)
	if ctx.Err() != nil {
		return
	}
	name := strconv.Itoa(w.Port) + " " + w.Path
	e.p.emit(metrics.KindHTTP, name, time.Time{}, metrics.EncodeChunk(h, e.maskBody(body)))
}

// get asks through the connection, or with a program on the node where
// forwarding is forbidden.
func (e *endpoints) get(ctx context.Context, w metrics.Want) (metrics.HTTPHeader, []byte) {
	h := metrics.HTTPHeader{Port: w.Port, Path: w.Path}
	key, err := e.key(ctx, w.KeyPID)
	if err != nil {
		h.Err = "the server's API key cannot be read: " + metrics.Clean(err.Error(), 200)
		return h, nil
	}
	limit := httpLimit
	if strings.HasPrefix(w.Path, "/health") {
		limit = healthLimit
	}
	e.mu.Lock()
	blocked := e.blocked
	e.mu.Unlock()
	begun := time.Now()
	var body []byte
	if !blocked {
		h.Via = "forward"
		h.Status, body, err = e.forward(ctx, w, key, limit)
		if errors.Is(err, remote.ErrForwardingProhibited) {
			blocked = true
			e.mu.Lock()
			e.blocked = true
			e.mu.Unlock()
		}
	}
	if blocked {
		h.Via, h.Status, body, err = e.onNode(ctx, w, key, limit)
	}
	h.Ms = ms(time.Since(begun))
	if err != nil {
		h.Err = metrics.Clean(metrics.Mask(shortError(err)), 300)
	}
	if h.Status == http.StatusUnauthorized {
		e.mu.Lock()
		delete(e.keys, w.KeyPID) // the process may have been replaced
		e.mu.Unlock()
	}
	return h, body
}

// shortError leaves out the URL that net/http puts in front.
func shortError(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	if errors.Is(err, remote.ErrConnectRefused) {
		return "connection refused: nothing listens there yet"
	}
	text := err.Error()
	if _, rest, ok := strings.Cut(text, `": `); ok {
		return rest
	}
	return text
}

func target(w metrics.Want) string {
	addr := w.Addr
	if addr == "" {
		addr = "127.0.0.1"
	}
	p := w.Path
	if !strings.HasPrefix(p, "/") {
		p = "/" + p
	}
	return "http://" + net.JoinHostPort(addr, strconv.Itoa(w.Port)) + p
}

func (e *endpoints) forward(ctx context.Context, w metrics.Want, key string, limit time.Duration) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target(w), nil)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("User-Agent", "runvigil")
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, bodyMost+1))
	if err == nil && len(body) > bodyMost {
		return resp.StatusCode, nil, fmt.Errorf("the answer is longer than 1 MiB")
	}
	return resp.StatusCode, body, err
}

// key reads a server's API key from its command line, else its environment.
// Processes in state D are not read.
func (e *endpoints) key(ctx context.Context, pid int) (string, error) {
	if pid <= 0 {
		return "", nil
	}
	e.mu.Lock()
	key, ok := e.keys[pid]
	e.mu.Unlock()
	if ok {
		return key, nil
	}
	a, err := e.p.scan.call(ctx, "cl "+strconv.Itoa(pid))
	if err != nil {
		return "", err
	}
	if a.rc != 0 || len(a.data) == 0 {
		return "", fmt.Errorf("the command line of process %d cannot be read now", pid)
	}
	if key = keyOf(splitArgv(a.data)); key == "" {
		if a, err = e.p.scan.call(ctx, "ck "+strconv.Itoa(pid)); err == nil {
			first, _, _ := strings.Cut(string(a.data), "\n")
			key = strings.TrimSpace(first)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.keys[pid] = key
	return key, nil
}

// keyOf finds the value of --api-key.
func keyOf(argv []string) string {
	key := ""
	for i, a := range argv {
		name, value, has := strings.Cut(a, "=")
		if name != "--api-key" && name != "--api_key" {
			continue
		}
		switch {
		case has:
			key = value
		case i+1 < len(argv):
			key = argv[i+1]
		}
	}
	if strings.ContainsAny(key, "\r\n\x00") {
		return ""
	}
	return key
}

// maskBody masks what names itself a secret, and every known key wherever it
// stands.
func (e *endpoints) maskBody(body []byte) []byte {
	if len(body) == 0 {
		return nil
	}
	e.mu.Lock()
	for _, key := range e.keys {
		if len(key) >= 4 {
			body = bytes.ReplaceAll(body, []byte(key), []byte(metrics.Masked))
		}
	}
	e.mu.Unlock()
	out := make([]byte, 0, len(body))
	for line := range bytes.Lines(body) {
		text := bytes.TrimSuffix(line, []byte{'\n'})
		out = append(out, metrics.Mask(string(text))...)
		if len(text) < len(line) {
			out = append(out, '\n')
		}
	}
	return out
}

// onNode asks with curl, wget or python3 on the node, in the background. The
// key travels on the program's input and is never an argument.
func (e *endpoints) onNode(ctx context.Context, w metrics.Want, key string, limit time.Duration) (via string, status int, body []byte, err error) {
	if strings.ContainsAny(target(w), "\n\x00") {
		return "", 0, nil, fmt.Errorf("the path %q cannot be asked for", w.Path)
	}
	via, code := nodeRequest(e.p.tool, target(w), key, limit)
	if via == "" {
		e.p.report("http", metrics.ProbeFact{State: "absent", Reason: "the SSH server forbids forwarding and the node has no curl, wget or python3", Advice: "allow AllowTcpForwarding local in sshd_config, or install curl on the node"})
		return "", 0, nil, remote.ErrForwardingProhibited
	}
	out, rc, err := e.p.job(ctx, "h", code, limit+5*time.Second)
	if err != nil {
		return via, 0, nil, err
	}
	status, body = nodeAnswer(out)
	if status == 0 {
		return via, 0, nil, fmt.Errorf("%s on the node ended with status %d: %s", via, rc, nodeReason(via, rc, body))
	}
	e.p.report("http", metrics.ProbeFact{State: "ok", Reason: "the SSH server forbids forwarding: asked with " + via + " on the node"})
	return via, status, body, nil
}

// statusMark stands before the status at the end of a node program's output.
const statusMark = "\n@STATUS "

// nodeRequest writes the shell code for one GET; via is "" without a program.
func nodeRequest(tool func(string) string, url, key string, limit time.Duration) (via, code string) {
	seconds := strconv.Itoa(int(limit / time.Second))
	most := strconv.Itoa(bodyMost)
	if curl := tool("curl"); curl != "" {
		config := ""
		if key != "" {
			config = `header = "Authorization: Bearer ` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
		}
		return "curl", "printf '%s\\n' " + quote(config) + " | " + quote(curl) + " -s -K - --max-time " + seconds + " --max-filesize " + most + " -w '\\n@STATUS %{http_code}\\n' " + quote(url)
	}
	if py := tool("python3"); py != "" {
		const program = `import sys,urllib.request,urllib.error
u,k,t,m=[sys.stdin.readline().rstrip("\n") for _ in range(4)]
q=urllib.request.Request(u)
if k: q.add_header("Authorization","Bearer "+k)
try:
 r=urllib.request.build_opener(urllib.request.ProxyHandler({})).open(q,timeout=float(t)); s=r.status; b=r.read(int(m)+1)
except urllib.error.HTTPError as e: s=e.code; b=e.read(int(m)+1)
except Exception as e: s=0; b=str(e).encode()
sys.stdout.buffer.write(b+b"\n@STATUS %d\n"%s)`
		return "python3", "printf '%s\\n' " + quote(url) + " " + quote(key) + " " + seconds + " " + most +
			" | " + quote(py) + " -c \"$(printf %b " + quote(escape(program)) + ")\""
	}
	if wget := tool("wget"); wget != "" && key == "" {
		return "wget", quote(wget) + " -q -T " + seconds + " -O - " + quote(url) + "; r=$?; case $r in 0) s=200 ;; 6) s=401 ;; 8) s=500 ;; *) s=0 ;; esac; printf '\\n@STATUS %s\\n' $s; exit $r"
	}
	return "", ""
}

// nodeAnswer splits a program's output into body and status.
func nodeAnswer(out []byte) (int, []byte) {
	at := bytes.LastIndex(out, []byte(statusMark))
	if at < 0 {
		return 0, out
	}
	return int(number(string(out[at+len(statusMark):]))), out[:at]
}

func nodeReason(via string, rc int, out []byte) string {
	switch {
	case via == "curl" && rc == 7:
		return "connection refused: nothing listens there yet"
	case via == "curl" && rc == 28:
		return "no answer in time"
	case via == "curl" && rc == 63:
		return "the answer is longer than 1 MiB"
	}
	return metrics.Clean(string(tail(out, 200)), 200)
}
