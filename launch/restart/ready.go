package restart

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// Watched is how long a new server is watched after its first token, and
// WatchedTight how long where little memory is left: such a one ends with the
// first large prefill.
const (
	Watched      = 3 * time.Second
	WatchedTight = 12 * time.Second
)

// askLimit is how long one request for a token may take: the first one may have
// to wait for kernels that are compiled for it.
const askLimit = 2 * time.Minute

// ErrServerEnded says that the new server ended before it gave a token.
var ErrServerEnded = errors.New("the new server ended")

// Token is the proof that a new server works: one generated token.
type Token struct {
	At   time.Time
	Took time.Duration // of the request
	Path string        // of the endpoint that gave it
}

// Ready waits until the server of the journal has generated one real token: the
// port must be held by that very process or its tree. There is no limit but
// ctx's, for loading takes as long as it takes; a server that ends is
// ErrServerEnded. state is called with what it waits for, each time that
// changes.
func Ready(ctx context.Context, r Runner, p Plan, j metrics.Journal, state func(string)) (Token, error) {
	w := watcher{r: r, p: p, j: j}
	last := ""
	say := func(s string) {
		if s != last {
			last = s
			state(s)
		}
	}
	for {
		seen, err := w.look(ctx)
		switch {
		case ctx.Err() != nil:
			return Token{}, ctx.Err()
		case err != nil:
			say("the link is down")
			if werr := r.Wait(ctx); werr != nil {
				return Token{}, werr
			}
		case !seen.alive:
			return Token{}, w.ended(ctx, seen)
		case !seen.owned:
			say("waiting for the new server to open port " + strconv.Itoa(j.Port))
		default:
			say("port " + strconv.Itoa(j.Port) + " is open, asking for a token")
			began := time.Now()
			path, err := w.token(ctx)
			if err == nil {
				return Token{At: time.Now(), Took: time.Since(began), Path: path}, nil
			}
			say("no token yet: " + metrics.Clean(err.Error(), 200))
		}
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return Token{}, ctx.Err()
		}
	}
}

// Stays watches a server for d after its first token.
func Stays(ctx context.Context, r Runner, p Plan, j metrics.Journal, d time.Duration) error {
	w := watcher{r: r, p: p, j: j}
	for end := time.Now().Add(d); time.Now().Before(end); {
		seen, err := w.look(ctx)
		if err == nil && !seen.alive {
			return w.ended(ctx, seen)
		}
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// watcher looks at the newest server of a journal.
type watcher struct {
	r Runner
	p Plan
	j metrics.Journal
}

type seenServer struct {
	alive, owned bool
	rc           string
}

// statusLooks is how many more looks the exit status of an ended server is given:
// the shell that waits for it writes it a moment after the process is gone, and a
// busy node makes that moment long. A shell that was killed too never writes it.
const statusLooks = 6

// ended is the error of a server that is gone, with its exit status where it
// becomes known.
func (w watcher) ended(ctx context.Context, s seenServer) error {
	for n := 0; s.rc == "" && n < statusLooks; n++ {
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
		if seen, err := w.look(ctx); err == nil {
			s.rc = seen.rc
		}
	}
	rc, err := strconv.Atoi(s.rc)
	switch {
	case err != nil:
		return ErrServerEnded
	case rc > 128:
		return fmt.Errorf("%w: killed by signal %d", ErrServerEnded, rc-128)
	}
	return fmt.Errorf("%w with exit status %d", ErrServerEnded, rc)
}

// lookServer tells whether the process lives and holds its port: its session is
// its own, so whoever listens in that session is it or a child of it.
const lookServer = `
st() { [ -r "/proc/$1/stat" ] && s=$(cat "/proc/$1/stat" 2>/dev/null) && s=${s##*) } && set -- $s && [ $# -ge 20 ] && state=$1 sid=$4 start=${20}; }
if st "$P" && [ "$start" = "$S" ] && [ "$state" != Z ] && [ "$state" != X ]; then printf '\n%s alive\n' "$N"; fi
for w in new old; do read -r i 2>/dev/null <"$D/pid.$w" && [ "$i" = "$P:$S" ] && read -r rc 2>/dev/null <"$D/rc.$w" && printf '\n%s rc %s\n' "$N" "$rc"; done
h=$(printf '%04X' "$PORT")
inodes=$(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | sed -n "s/^ *[0-9]*: [0-9A-F]*:$h [0-9A-F]*:[0-9A-F]* 0A [^ ]* [^ ]* [^ ]* *[0-9]* *[0-9]* \([0-9]*\) .*/\1/p")
if [ -n "$inodes" ]; then
	for p in /proc/[0-9]*; do
		p=${p#/proc/}
		st "$p" && { [ "$sid" = "$P" ] || [ "$p" = "$P" ]; } || continue
		l=$(ls -l "/proc/$p/fd" 2>/dev/null)
		for i in $inodes; do case $l in *"socket:[$i]"*) printf '\n%s owned\n' "$N"; break 2 ;; esac; done
	done
fi
printf '\n%s end\n' "$N"
`

func (w watcher) look(ctx context.Context) (seenServer, error) {
	n := nonce(NewID(time.Now()))
	var l lines
	l.set("N", n)
	l.set("P", strconv.Itoa(w.j.PID))
	l.set("S", strconv.FormatInt(w.j.Start, 10))
	l.set("PORT", strconv.Itoa(w.j.Port))
	l.b.WriteString("{\n" + baseDir)
	l.add("D=$B/%s", w.p.ID)
	l.b.WriteString(lookServer + "}\n")
	out, err := w.r.Run(ctx, l.b.Bytes())
	if err != nil {
		return seenServer{}, err
	}
	a := framed(out, n)
	if _, whole := a["end"]; !whole {
		return seenServer{}, errors.New("the node's answer was cut short")
	}
	s := seenServer{rc: a.last("rc")}
	_, s.alive = a["alive"]
	_, s.owned = a["owned"]
	return s, nil
}

// token asks for one token in the way of the engine. A server with a key is
// asked on the node, where the key is.
func (w watcher) token(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	request := w.request
	if w.needsKey() {
		request = w.requestThere
	}
	if w.p.New.Engine == "vllm" {
		return w.completion(ctx, request)
	}
	body, err := request(ctx, "POST", "/generate", []byte(`{"text":"Hi","sampling_params":{"max_new_tokens":1,"temperature":0}}`))
	if err != nil {
		return "", err
	}
	var answer struct {
		Text string `json:"text"`
		Meta struct {
			Tokens int `json:"completion_tokens"`
		} `json:"meta_info"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return "", fmt.Errorf("/generate answered no JSON: %w", err)
	}
	if answer.Meta.Tokens < 1 && answer.Text == "" {
		return "", errors.New("/generate answered without a token")
	}
	return "/generate", nil
}

type requester func(ctx context.Context, method, path string, body []byte) ([]byte, error)

func (w watcher) completion(ctx context.Context, request requester) (string, error) {
	list, err := request(ctx, "GET", "/v1/models", nil)
	if err != nil {
		return "", err
	}
	var models struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(list, &models); err != nil || len(models.Data) == 0 {
		return "", errors.New("/v1/models names no model")
	}
	ask, err := json.Marshal(map[string]any{"model": models.Data[0].ID, "prompt": "Hi", "max_tokens": 1, "temperature": 0})
	if err != nil {
		return "", err
	}
	body, err := request(ctx, "POST", "/v1/completions", ask)
	if err != nil {
		return "", err
	}
	var answer struct {
		Choices []struct {
			Text string `json:"text"`
		} `json:"choices"`
		Usage struct {
			Tokens int `json:"completion_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return "", fmt.Errorf("/v1/completions answered no JSON: %w", err)
	}
	if answer.Usage.Tokens < 1 && (len(answer.Choices) == 0 || answer.Choices[0].Text == "") {
		return "", errors.New("/v1/completions answered without a token")
	}
	return "/v1/completions", nil
}

// needsKey tells whether the server was started with a key for its API.
func (w watcher) needsKey() bool {
	if _, ok := w.p.New.Effective()["api-key"]; ok {
		return true
	}
	_, ok := w.p.New.Getenv("VLLM_API_KEY")
	return ok
}

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 1 << 20

// request goes through the connection to the node.
func (w watcher) request(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	conn, err := w.r.Dial(ctx, w.j.Port)
	if err != nil {
		if there, thereErr := w.requestThere(ctx, method, path, body); thereErr == nil {
			return there, nil
		}
		return nil, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	req, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("http://127.0.0.1:%d%s", w.j.Port, path), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "runvigil")
	req.Close = true
	if err := req.Write(conn); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", path, resp.Status)
	}
	return answer, nil
}

const askThere = `
key_of "$P" "$D/key"
U=http://127.0.0.1:$PORT$Q
printf '\n%s text\n' "$N"
if command -v curl >/dev/null 2>&1; then
	if [ "$M" = POST ]; then curl -sf -m 100 -H 'Content-Type: application/json' ${AUTH:+-H "@$AUTH"} -d "$Y" "$U"
	else curl -sf -m 100 ${AUTH:+-H "@$AUTH"} "$U"; fi
elif command -v python3 >/dev/null 2>&1; then
	python3 -c 'import sys,urllib.request as u
h={"Content-Type":"application/json"}
if sys.argv[3]:
    k,_,v=open(sys.argv[3]).read().strip().partition(": ")
    h[k]=v
sys.stdout.buffer.write(u.urlopen(u.Request(sys.argv[1],sys.argv[2].encode() or None,h),timeout=100).read(1000000))' "$U" "$Y" "$AUTH"
else printf '\n%s failed no curl or python3 on the node\n' "$N"; fi
rm -f "$D/key"
printf '\n%s end\n' "$N"
`

// requestThere asks from the node itself: where the node forbids forwarding, or
// where the server has a key.
func (w watcher) requestThere(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	n := nonce(NewID(time.Now()))
	var l lines
	l.set("N", n)
	l.set("P", strconv.Itoa(w.j.PID))
	l.set("PORT", strconv.Itoa(w.j.Port))
	l.set("M", method)
	l.set("Q", path)
	l.set("Y", string(body))
	l.b.WriteString("{\n" + baseDir)
	l.add("D=$B/%s", w.p.ID)
	l.b.WriteString(joined("key") + askThere + "}\n")
	out, err := w.r.Run(ctx, l.b.Bytes())
	if err != nil {
		return nil, err
	}
	if why := framed(out, n).last("failed"); why != "" {
		return nil, fmt.Errorf("%s: %s", path, why)
	}
	_, rest, _ := strings.Cut(string(out), "\n"+n+" text\n")
	answer, _, whole := strings.Cut(rest, "\n"+n+" end\n")
	if !whole || strings.TrimSpace(answer) == "" {
		return nil, fmt.Errorf("%s gave no answer", path)
	}
	return []byte(answer), nil
}
