//go:build system

package tui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/creack/pty"
)

// asScreen makes the test binary show the story on its own terminal.
const asScreen = "RUNVIGIL_TEST_SCREEN"

func TestMain(m *testing.M) {
	if os.Getenv(asScreen) == "" {
		os.Exit(m.Run())
	}
	box := NewMailbox()
	go func() {
		for now := storyNow; ; now = now.Add(time.Second) {
			box.Put(scene(now))
			time.Sleep(time.Second)
		}
	}()
	if err := Run(context.Background(), Options{Node: "gpu7", Source: box, Actions: &fakeActions{}}); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("left cleanly")
}

// tmux runs a command in a private server.
type tmux struct {
	t      *testing.T
	socket string
}

func (x tmux) run(args ...string) string {
	x.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-L", x.socket, "-f", "/dev/null"}, args...)...).CombinedOutput()
	if err != nil {
		x.t.Fatalf("tmux %v: %v: %s", args, err, out)
	}
	return string(out)
}

func (x tmux) see(text string) string {
	x.t.Helper()
	screen := ""
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if screen = x.run("capture-pane", "-p"); strings.Contains(screen, text) {
			return screen
		}
	}
	x.t.Fatalf("%q does not come:\n%s", text, screen)
	return ""
}

// In a real terminal multiplexer: start, keys, resize, and a shell that is as it
// was before.
func TestInTmux(t *testing.T) {
	x := tmux{t, fmt.Sprintf("runvigil-%d", os.Getpid())}
	x.run("new-session", "-d", "-x", "120", "-y", "40", "sh")
	defer func() { _ = exec.Command("tmux", "-L", x.socket, "kill-server").Run() }()
	x.run("set", "-g", "window-size", "manual")
	x.run("send-keys", "PS1='$ '; clear; echo ready", "Enter")
	x.see("ready")
	x.run("send-keys", asScreen+"=1 "+os.Args[0], "Enter")
	x.see("606 tok/s is settled")
	x.run("send-keys", "l")
	x.see("server log")
	x.run("resize-window", "-x", "80", "-y", "24")
	screen := x.see("following")
	if rows := strings.Split(strings.TrimRight(screen, "\n"), "\n"); len(rows) > 24 {
		t.Errorf("%d rows after the resize", len(rows))
	}
	x.run("send-keys", "Escape")
	x.see("generation tok/s")
	if title := x.run("display-message", "-p", "#{pane_title}"); !strings.HasPrefix(title, "OK gpu7") {
		t.Errorf("the pane's title is %q", title)
	}
	x.run("send-keys", "q")
	screen = x.see("left cleanly")
	if strings.Contains(screen, "generation tok/s") {
		t.Errorf("the screen is still there:\n%s", screen)
	}
	x.run("send-keys", "echo typed-$((40+2))", "Enter")
	x.see("typed-42")
}

// A terminal that takes no output any more does not keep the program: it ends,
// and the line discipline is as before.
func TestStalledTerminal(t *testing.T) {
	ours, theirs, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ours.Close() }()
	defer func() { _ = theirs.Close() }()
	if err := pty.Setsize(ours, &pty.Winsize{Rows: 40, Cols: 120}); err != nil {
		t.Fatal(err)
	}
	before, err := term.GetState(theirs.Fd())
	if err != nil {
		t.Fatal(err)
	}
	box := NewMailbox()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			s := sceneSettled()
			if i%2 == 0 {
				s = sceneCrash()
			}
			box.Put(s) // never blocks, whatever the terminal does
			time.Sleep(20 * time.Millisecond)
		}
	}()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, Options{Node: "gpu7", Source: box}, theirs, theirs) }()
	time.Sleep(3 * time.Second) // nobody reads: the terminal's buffer is full by now
	cancel()
	select {
	case err := <-ended:
		if err != nil && !errors.Is(err, ErrTerminal) {
			t.Errorf("Run = %v", err)
		}
	case <-time.After(leaveLimit + 3*time.Second):
		t.Fatal("the program does not end")
	}
	after, err := term.GetState(theirs.Fd())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(fmt.Append(nil, *before), fmt.Append(nil, *after)) {
		t.Errorf("the terminal's state was not restored:\n%v\n%v", *before, *after)
	}
}
