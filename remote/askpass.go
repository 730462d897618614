package remote

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// ssh asks through the program named by SSH_ASKPASS: this very program, run
// again with the question as its argument. It hands the question to the
// running one over a socket in the private folder and prints the answer.

// askpassEnv names that socket. Its presence is what makes a process a helper.
const askpassEnv = "RUNVIGIL_ASKPASS"

// askpassHooked tells that this program calls AskpassMain, so that running it
// again for a question is safe.
var askpassHooked atomic.Bool

type askpassQuestion struct {
	Text string `json:"text"`
	Hint string `json:"hint"` // SSH_ASKPASS_PROMPT: "", "confirm" or "none"
}

type askpassAnswer struct {
	OK   bool   `json:"ok"`
	Text string `json:"text"`
}

// AskpassMain must be called first in main, with os.Args, and in TestMain
// where a test dials with openssh and answers prompts. When this process was
// started by ssh to ask something it does so and returns handled true and the
// status to exit with at once. Otherwise it does nothing.
func AskpassMain(args []string) (handled bool, code int) {
	socket := os.Getenv(askpassEnv)
	if socket == "" {
		askpassHooked.Store(true)
		return false, 0
	}
	answer, err := askParent(socket, args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "runvigil: ask for ssh:", err)
		return true, 1
	}
	if !answer.OK {
		return true, 1
	}
	fmt.Println(answer.Text)
	return true, 0
}

func askParent(socket string, args []string) (askpassAnswer, error) {
	var answer askpassAnswer
	if len(args) != 2 {
		return answer, fmt.Errorf("want the question as the only argument, got %d", len(args)-1)
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return answer, err
	}
	defer conn.Close()
	q := askpassQuestion{Text: args[1], Hint: os.Getenv("SSH_ASKPASS_PROMPT")}
	if err := json.NewEncoder(conn).Encode(q); err != nil {
		return answer, err
	}
	err = json.NewDecoder(conn).Decode(&answer)
	return answer, err
}

// askpassServer answers the helpers of one ssh child.
type askpassServer struct {
	listener net.Listener
	ask      func(ctx context.Context, q askpassQuestion) (string, bool)
	ctx      context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup
}

func serveAskpass(socket string, ask func(context.Context, askpassQuestion) (string, bool)) (*askpassServer, error) {
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	s := &askpassServer{listener: l, ask: ask}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.wg.Go(s.accept)
	return s, nil
}

func (s *askpassServer) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.wg.Go(func() { s.answer(conn) })
	}
}

// answer serves one helper. ssh ends a helper that shows "touch your key" when
// the key was touched; the question is void then.
func (s *askpassServer) answer(conn net.Conn) {
	defer conn.Close()
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	r := bufio.NewReader(conn)
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	var q askpassQuestion
	line, err := r.ReadBytes('\n')
	if err != nil || json.Unmarshal(line, &q) != nil {
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	s.wg.Go(func() {
		_, _ = r.ReadByte() // returns when the helper has gone, or when conn is closed below
		cancel()
	})
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	text, ok := s.ask(ctx, q)
	_ = json.NewEncoder(conn).Encode(askpassAnswer{OK: ok, Text: text})
}

func (s *askpassServer) close() {
	s.listener.Close()
	s.cancel()
	s.wg.Wait()
}

// answerFor turns a question of ssh into a Prompt for a. ok false makes ssh go
// on without an answer. stop is called when the login cannot go on.
func answerFor(a *asker, stop func(error)) func(context.Context, askpassQuestion) (string, bool) {
	var mu sync.Mutex // ssh asks one thing at a time, a jump host's ssh may ask meanwhile
	return func(ctx context.Context, q askpassQuestion) (string, bool) {
		p := classify(q.Text)
		if q.Hint == "none" {
			p.Kind = PromptTouch
		}
		if p.Kind != PromptTouch {
			mu.Lock()
			defer mu.Unlock()
		}
		answer, err := a.ask(ctx, p)
		switch {
		case errors.Is(err, ErrCanceled) && p.Kind == PromptTouch:
			stop(err)
			return "", false
		case p.Kind == PromptTouch:
			return "", err == nil
		case ctx.Err() != nil:
			return "", false // ssh no longer waits for it
		case p.Kind == PromptHostKey:
			if err == nil && accepts(answer, p.Fingerprint) {
				return "yes", true
			}
			if err == nil {
				err = ErrCanceled
			}
			stop(err)
			return "no", true
		case q.Hint == "confirm":
			return "", err == nil && accepts(answer, "")
		case err == nil:
			return answer, true
		case p.Kind == PromptPassphrase && (errors.Is(err, ErrCanceled) || errors.Is(err, ErrNoPrompts)):
			return "", false // ssh goes on with the next key
		default:
			stop(err)
			return "", false
		}
	}
}
