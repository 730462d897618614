//go:build system

package main

import (
	"strings"
	"testing"
	"time"
)

// name is typed letter by letter, as a person does, and confirmed after a pause.
func (s terminal) confirm(name string) {
	s.t.Helper()
	time.Sleep(600 * time.Millisecond) // the confirmation's first moment takes no key
	if name != "" {
		s.keys("-l", name)
		time.Sleep(600 * time.Millisecond)
	}
	s.keys("Y")
}

// setFlag gives a flag a value in the open form.
func (s terminal) setFlag(name, value string) {
	s.t.Helper()
	s.keys("/")
	s.keys("C-u")
	s.keys("-l", name)
	s.wait("found")
	s.keys("Enter", "Enter")
	s.wait("take it")
	s.keys("C-u", "C-k")
	s.keys("-l", value)
}

// The story's second try through the real screen: 0.93 shows what it will give
// and how it ended before, is restarted, crashes in prefill, is explained, and B
// goes back to a server that gives tokens. fp8 is refused with the owner's reason.
func TestSystemRestartInTmux(t *testing.T) {
	t.Parallel()
	bin := binary(t)
	term := newTerminal(t, 120, 40, nil)
	term.keys(bin+" demo", "Enter")
	term.wait("rows land")
	term.keys("e")
	term.wait("in use")
	term.wait("no change yet")

	term.setFlag("kv-cache-dtype", "fp8_e4m3")
	term.wait("an fp8 KV cache degrades")
	term.keys("Enter", "w")
	term.wait("refused: --kv-cache-dtype")
	term.keys("w")
	if time.Sleep(500 * time.Millisecond); strings.Contains(term.text(), "it works: type") {
		t.Fatalf("a broken guard is confirmed:\n%s", term.text())
	}
	term.keys("Escape")
	term.wait("1 change")
	term.keys("u")
	term.wait("no change yet")

	term.setFlag("mem-fraction", "0.93")
	term.wait("231,120")
	term.wait("out of memory in the first large")
	term.keys("Enter", "w")
	term.wait("no objection")
	term.keys("w")
	term.wait("what becomes of the client?")
	term.keys("k")
	term.wait("it works: type demo")
	term.confirm("demo")
	term.wait("SIGTERM was sent")
	term.wait("the new server runs: process")
	term.wait("cuda-oom in prefill")
	term.wait("goes back to the last good start")
	term.wait("0.88")

	term.keys("B")
	term.wait("review: start the server")
	term.wait("no objection")
	term.keys("w")
	term.wait("start the server on demo?")
	term.confirm("")
	term.wait("one real token came back")
	term.keys("Escape")
	term.wait("rows land")

	term.keys("t")
	for _, row := range []string{"0.90 fp8", "breaks a guard", "crashed: cuda-oom", "● running", "116,171", "376,028"} {
		term.wait(row)
	}
	if n := strings.Count(term.text(), "231,120"); n != 2 {
		t.Errorf("0.93 stands %d times in the table, once for the story and once for now:\n%s", n, term.text())
	}
	term.keys("q")
	term.wait("generation tok/s")
	term.keys("q")
	term.wait("shell>")
	if strings.Contains(term.text(), "goes on by itself") {
		t.Errorf("leaving tells of a restart that is done:\n%s", term.text())
	}
}

// Leaving while a restart goes on says so, and does not stop it.
func TestSystemLeaveDuringRestart(t *testing.T) {
	t.Parallel()
	bin := binary(t)
	term := newTerminal(t, 100, 30, nil)
	term.keys(bin+" demo", "Enter")
	term.wait("rows land")
	term.keys("e")
	term.wait("in use") // by then its process was found
	term.keys("Escape")
	term.wait("generation tok/s")
	term.keys("R")
	term.wait("no objection")
	term.keys("w")
	term.wait("what becomes of the client?")
	term.keys("k")
	term.wait("it works: type demo")
	term.confirm("demo")
	term.wait("SIGTERM was sent")
	term.keys("q")
	term.wait("R restart: ")
	term.keys("q")
	term.wait("goes on by itself on the node")
}

// On a terminal the command line asks what becomes of the client and has the node's
// name typed; anything else does nothing.
func TestSystemCommandLineAsks(t *testing.T) {
	t.Parallel()
	bin := binary(t)
	term := newTerminal(t, 140, 50, nil)
	term.keys("clear; "+bin+" stop demo", "Enter")
	term.wait("What becomes of the client?")
	term.wait("keep, stop:")
	term.keys("-l", "restart")
	term.keys("Enter")
	term.wait("nothing was done")
	term.keys("clear; "+bin+" stop demo; echo code $?", "Enter")
	term.wait("keep, stop:")
	term.keys("-l", "stop")
	term.keys("Enter")
	term.wait("Type the node's name (demo)")
	term.keys("-l", "demo")
	term.keys("Enter")
	term.wait("client-stop")
	term.wait("end state=down")
	term.wait("code 0")
}
