// Package simnode is a GPU node in a box, for the demo and for tests: a real
// SSH server on loopback, real shells, real files and real processes, whose
// figures come from the model of engine, client and GPUs in simnode/model.
//
// The node is a tree of processes below one supervisor. The server
// (python3 -m sglang.launch_server), its retitled children, the client
// (python3 run_inference.py) and nvidia-smi are this program's own binary run
// under those names, so /proc, sockets, descriptors and signals behave as on
// a node. All of it lives below Node.Dir and Node.RootPID and ends with the
// process that started it, however that process ends.
//
// What is real: pids, titles, descriptors, sockets, exit statuses, file sizes
// and modification times. What cannot be: the start time of a process in
// /proc is when the demo started it. The age of a server or client that a
// scenario found running is told by its log, by the modification times and by
// Node.Config.Started.
package simnode

import (
	"errors"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/runvigil/runvigil/metrics"
)

// ErrUnsupported says that this system cannot run the processes of a node;
// only Linux can. A recording of the story is the way to show it elsewhere.
var ErrUnsupported = errors.New("the simulated node needs Linux: replay a recording of it instead")

// Options say which node to start and where.
type Options struct {
	// Scenario is the state that the node is found in; "" is the story.
	Scenario string
	// Dir will hold the node's files and is removed by Close. It must not
	// exist yet; "" makes a short one in the temporary directory. Sockets
	// live in it, so keep it below 80 bytes.
	Dir string
	// Self is the binary whose main calls Main first; it plays every process
	// of the node. "" is the running one.
	Self string
	// StartScale multiplies the start-up phases of a server that is launched on
	// the node: 1 takes about 8 minutes, 0 the demo's few seconds.
	StartScale float64
}

// Node is a running simulated node.
type Node struct {
	// Addr is the SSH server's address, 127.0.0.1:port.
	Addr string
	// User is the only user that may log in, with Signer.
	User string
	// HostKey is what the server proves itself with; it exists since Start.
	HostKey ssh.PublicKey
	// Signer is the client key that the server accepts, and ClientKeyPEM the
	// same key in OpenSSH's format for a client that reads files.
	Signer       ssh.Signer
	ClientKeyPEM []byte
	// RootPID is the process below which all of the node lives.
	RootPID int
	// Dir holds the node's files; Home is its user's home, Data the run's
	// folder (logs, rows, start scripts), State a folder for what a program
	// that watches this node wants to keep: never the user's own.
	Dir, Home, Data, State string
	// ServerLog, ClientLog and ServerPort are where the run's server and
	// client are to be found.
	ServerLog, ClientLog string
	ServerPort           int
	// ServerPID and ClientPID are the processes that the scenario found
	// running, 0 where it found none.
	ServerPID, ClientPID int
	// OwnHost says that /proc/meminfo, loadavg and stat show the model's host on
	// the node. It needs a mount namespace, which some systems refuse: there
	// they show this machine.
	OwnHost bool
	// Config has the targets, places and guards of the story's operator, and
	// History the starts before the scenario's. They replace the user's own.
	Config  metrics.Config
	History []metrics.Start
	// Started is when the node came up. ServerStarted and ClientStarted are
	// when the scenario's processes began in its own history, zero where it
	// has none: /proc knows only Started.
	Started, ServerStarted, ClientStarted time.Time

	stop func() error
}

// Close ends every process of the node and removes its files. It may be
// called more than once.
func (n *Node) Close() error {
	if n == nil || n.stop == nil {
		return nil
	}
	return n.stop()
}
