// Command runvigil watches one long LLM generation run on a GPU node over SSH.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/runvigil/runvigil/metrics/report"
	"github.com/runvigil/runvigil/remote"
	"github.com/runvigil/runvigil/remote/simnode"
)

func main() {
	// The same binary answers ssh's questions and plays the processes of the
	// simulated node.
	if handled, code := remote.AskpassMain(os.Args); handled {
		os.Exit(code)
	}
	if handled, code := simnode.Main(os.Args); handled {
		os.Exit(code)
	}
	os.Exit(run(os.Args[1:], stdio{os.Stdin, os.Stdout, os.Stderr}))
}

// stdio are the three streams of a command.
type stdio struct {
	in       *os.File
	out, err *os.File
}

// usageError is a command that was written wrongly; it ends with ExitUsage.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// exitError ends the program with a code after its output was written.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// run executes one command line and gives its exit code.
func run(args []string, io stdio) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	root := newRoot(io)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var exit exitError
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return int(exit)
	case errors.As(err, &usage):
		fmt.Fprintf(io.err, "runvigil: %s\n", err)
		fmt.Fprintln(io.err, "`runvigil --help` shows the commands with examples.")
		return report.ExitUsage
	}
	fmt.Fprintf(io.err, "runvigil: %s\n", strings.TrimRight(err.Error(), "\n"))
	return exitFailed
}

// exitFailed is a command that could not do its work.
const exitFailed = report.ExitUnknown
