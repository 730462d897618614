package probe

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote"
)

// scriptedNode answers requests as a script says, in virtual time.
type scriptedNode struct {
	most   int // sessions at a time, 0: any number
	answer func(session int, code string) (reply string, after time.Duration)
	noise  string
	mute   bool // sessions never get ready

	mu     sync.Mutex
	opened int
	open   int
}

func (n *scriptedNode) Start(ctx context.Context, _ string) (*Stream, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.most > 0 && n.open >= n.most {
		return nil, fmt.Errorf("open: %w", remote.ErrSessionLimit)
	}
	n.opened++
	n.open++
	session := n.opened
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	closed := make(chan struct{})
	go n.serve(session, inR, outW, closed)
	var once sync.Once
	return &Stream{Stdin: inW, Stdout: outR, Close: func() error {
		once.Do(func() {
			n.mu.Lock()
			n.open--
			n.mu.Unlock()
			close(closed)
			_ = inW.Close()
			_ = outR.Close()
		})
		return nil
	}}, nil
}

func (n *scriptedNode) DialContext(context.Context, string, string) (net.Conn, error) {
	return nil, remote.ErrConnectRefused
}

// serve plays the shell: it reads the program up to its last line, gets ready,
// and answers one request after the other.
func (n *scriptedNode) serve(session int, in io.Reader, out io.WriteCloser, closed chan struct{}) {
	defer out.Close()
	r := bufio.NewReader(in)
	nonce := ""
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimSuffix(line, "\n")
		if v, ok := strings.CutPrefix(line, "N="); ok && nonce == "" {
			nonce = v
		}
		if line == "main" || line == "stream" {
			break
		}
	}
	if n.mute {
		io.WriteString(out, n.noise)
		io.Copy(io.Discard, r)
		return
	}
	fmt.Fprintf(out, "%s\n@%s READY %d 1\n", n.noise, nonce, 1000+session)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		id, code, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		reply, after := n.answer(session, code)
		select {
		case <-time.After(after):
		case <-closed:
			return
		}
		reply = strings.ReplaceAll(reply, "|S|", "\n@"+nonce+" S\n")
		if _, err := fmt.Fprintf(out, "%s\n@%s E %s 0\n", reply, nonce, id); err != nil {
			return
		}
	}
}

func testChannel(n *scriptedNode) (*channel, *[]metrics.ProbeFact) {
	facts := &[]metrics.ProbeFact{}
	return &channel{turn: newTurn(), name: "files", conn: n, program: requestProgram(true), report: func(_ string, f metrics.ProbeFact) {
		if k := len(*facts); k == 0 || (*facts)[k-1] != f {
			*facts = append(*facts, f)
		}
	}}, facts
}

func TestLateAnswerIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &scriptedNode{answer: func(_ int, code string) (string, time.Duration) {
			if code == "slow" {
				return "late", 6 * time.Second
			}
			return "to " + code, time.Millisecond
		}}
		c, facts := testChannel(n)
		defer c.close()
		ctx := context.Background()
		begun := time.Now()
		if _, err := c.call(ctx, "slow"); !errors.Is(err, errLate) {
			t.Fatalf("a slow answer: %v", err)
		}
		if took := time.Since(begun); took != 4*time.Second {
			t.Errorf("the deadline was %s", took)
		}
		a, err := c.call(ctx, "next")
		if err != nil || string(a.data) != "to next" {
			t.Errorf("after a late answer: %q %v", a.data, err)
		}
		if n.opened != 1 {
			t.Errorf("%d shells for one late answer", n.opened)
		}
		if len(*facts) != 2 || (*facts)[0].State != "stuck" || (*facts)[0].Advice == "" || (*facts)[1].State != "ok" {
			t.Errorf("told %+v", *facts)
		}
	})
}

func TestStuckShellIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &scriptedNode{answer: func(session int, code string) (string, time.Duration) {
			if session <= 2 {
				return "", time.Hour
			}
			return "session 3", 0
		}}
		c, _ := testChannel(n)
		defer c.close()
		ctx := context.Background()
		begun := time.Now()
		var waits int
		for {
			a, err := c.call(ctx, "x")
			if err == nil {
				if string(a.data) != "session 3" {
					t.Errorf("answer %q", a.data)
				}
				break
			}
			if errors.Is(err, errWaiting) {
				waits++
				time.Sleep(100 * time.Millisecond)
			}
			if time.Since(begun) > time.Minute {
				t.Fatal("no new shell within a minute")
			}
		}
		// Two shells of two deadlines each, and pauses of 1 s and 2 s.
		if took := time.Since(begun); took != 19*time.Second || waits < 20 {
			t.Errorf("took %s with %d refusals in between", took, waits)
		}
	})
}

func TestDeadlineFollowsTheRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &scriptedNode{answer: func(_ int, code string) (string, time.Duration) { return "", 3 * time.Second }}
		c, _ := testChannel(n)
		defer c.close()
		for range 3 {
			if _, err := c.call(context.Background(), "x"); err != nil {
				t.Fatal(err)
			}
		}
		if got := c.limit(); got != 12*time.Second {
			t.Errorf("deadline %s on a link of 3 s", got)
		}
	})
}

func TestNoiseIsToldWhenNothingRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &scriptedNode{mute: true, noise: "This service allows sftp connections only.\n"}
		p := New(n, Options{})
		begun := time.Now()
		err := p.Run(t.Context(), func(metrics.Frame) {})
		if err == nil || !strings.Contains(err.Error(), "allows sftp connections only") {
			t.Errorf("error %v", err)
		}
		if took := time.Since(begun); took != readyLimit {
			t.Errorf("given up after %s", took)
		}
	})
}

// scriptedAnswer is a node on which nothing happens.
func scriptedAnswer(_ int, code string) (string, time.Duration) {
	switch {
	case code == "info":
		return "hostname gpu7\nuptime 100.5 1\ndate 1800000000 +0100 CET\nhz 100\ncpus 8\nshell /usr/bin/dash\n", time.Millisecond
	case strings.HasPrefix(code, "sys"):
		return "uptime 101.5 1\nloadavg 1 1 1 1/1 1|S|", time.Millisecond
	case strings.HasPrefix(code, "sa "):
		return "101 1|S|1 (init) S 0 1 1 5|S||S|", time.Millisecond
	}
	return "", time.Millisecond
}

// runScripted runs a probe on a scripted node for some virtual time.
func runScripted(t *testing.T, n *scriptedNode, d time.Duration, wants ...metrics.Want) ([]metrics.Frame, error) {
	p := New(n, Options{Node: "gpu7"})
	p.SetWants(wants)
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var frames []metrics.Frame
	err := p.Run(ctx, func(f metrics.Frame) { frames = append(frames, f) })
	return frames, err
}

func states(frames []metrics.Frame) map[string]string {
	out := map[string]string{}
	for _, f := range frames {
		if f.Kind == metrics.KindProbe {
			fact, _ := metrics.Decode[metrics.ProbeFact](f)
			out[f.Name] += fact.State + ": " + fact.Reason + "; "
		}
	}
	return out
}

func TestFewSessions(t *testing.T) {
	for most, want := range map[int][]string{
		1: {"files"},
		2: {"gpu", "scan"},
		3: {"scan"},
		4: {},
	} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &scriptedNode{most: most, answer: scriptedAnswer}
				frames, err := runScripted(t, n, 10*time.Second, metrics.Want{Kind: metrics.WantStat, Path: "/x"})
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("ended with %v", err)
				}
				st := states(frames)
				for _, name := range want {
					if !strings.Contains(st[name], "shares the session of") {
						t.Errorf("%s: %q", name, st[name])
					}
				}
				kinds := map[metrics.Kind]int{}
				for _, f := range frames {
					kinds[f.Kind]++
				}
				if kinds[metrics.KindTick] < 9 || kinds[metrics.KindSys] < 9 || kinds[metrics.KindFiles] < 9 || kinds[metrics.KindScan] < 1 {
					t.Errorf("frames %v", kinds)
				}
				if n.opened > max(most, 4) {
					t.Errorf("%d sessions were opened", n.opened)
				}
			})
		})
	}
}

func TestSilentNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		n := &scriptedNode{answer: func(s int, code string) (string, time.Duration) {
			if time.Since(begun) > 5*time.Second {
				return "", time.Hour
			}
			return scriptedAnswer(s, code)
		}}
		frames, err := runScripted(t, n, time.Minute)
		if !errors.Is(err, ErrSilent) {
			t.Fatalf("ended with %v", err)
		}
		if took := time.Since(begun); took > 16*time.Second {
			t.Errorf("a dead link was found after %s", took)
		}
		var links []metrics.LinkStatus
		ticks := 0
		for _, f := range frames {
			if f.Kind == metrics.KindLink {
				l, _ := metrics.Decode[metrics.LinkFact](f)
				links = append(links, l.Status)
			}
			if f.Kind == metrics.KindTick {
				ticks++
			}
		}
		if fmt.Sprint(links) != "[up suspect]" {
			t.Errorf("link %v", links)
		}
		if want := int(time.Since(begun)/time.Second) - 1; ticks < want {
			t.Errorf("%d ticks in %s: silence must grow old", ticks, time.Since(begun))
		}
	})
}

// A worker that hangs costs what it was asked for, nothing else.
func TestStuckFilesCostOnlyThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		n := &scriptedNode{answer: func(s int, code string) (string, time.Duration) {
			if strings.HasSuffix(code, "st") && time.Since(begun) > 5*time.Second {
				return "", time.Hour
			}
			return scriptedAnswer(s, code)
		}}
		frames, err := runScripted(t, n, time.Minute, metrics.Want{Kind: metrics.WantStat, Path: "/nfs/x"})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ended with %v", err)
		}
		kinds := map[metrics.Kind]int{}
		for _, f := range frames {
			kinds[f.Kind]++
		}
		if kinds[metrics.KindSys] < 58 || kinds[metrics.KindScan] < 3 {
			t.Errorf("frames %v", kinds)
		}
		if st := states(frames)["files"]; !strings.Contains(st, "stuck: no answer") {
			t.Errorf("files: %q", st)
		}
	})
}
