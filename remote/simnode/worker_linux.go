package simnode

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// workerArgv is a child of the server before it has given itself a title.
var workerArgv = []string{"python3", "-c",
	"from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=11, pipe_handle=13)",
	"--multiprocessing-fork"}

// runWorker plays a child of the server: it takes the title it is given and
// ends with the node or with its parent.
func runWorker(dir, role string, argv []string) int {
	l, err := join(dir, role, argv)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// A terminal's interrupt is the parent's business.
	signal.Ignore(syscall.SIGINT)
	quitSilently()
	for {
		m, err := l.receive()
		if err != nil {
			return 1
		}
		switch m.Kind {
		case kindTitle:
			if err := setTitle(m.Text); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		case kindEnd:
			endAs(m.Code)
		}
	}
}
