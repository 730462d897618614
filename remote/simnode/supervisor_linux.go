package simnode

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote/simnode/model"
)

// nodeUser is the only user of the node.
const nodeUser = "root"

// settleLimit is how long the scenario's processes may take to stand.
const settleLimit = 8 * time.Second

// killLimit is how long ending everything may take before giving up.
const killLimit = 4 * time.Second

// birth is what the supervisor is told, as one line on its standard input. The
// pipe then stays open: its end is the end of the node.
type birth struct {
	Scenario   string  `json:"scenario"`
	HostKeyPEM []byte  `json:"host_key"`
	ClientKey  []byte  `json:"client_key"` // in authorized_keys format
	StartScale float64 `json:"start_scale"`
	// MountNamespace is the one that the node was started from.
	MountNamespace string `json:"mount_namespace"`
}

// report is what it answers on standard output once the node stands.
type report struct {
	Error         string          `json:"error,omitempty"`
	Addr          string          `json:"addr"`
	Port          int             `json:"port"`
	ServerLog     string          `json:"server_log"`
	ClientLog     string          `json:"client_log"`
	Data          string          `json:"data"`
	OwnHost       bool            `json:"own_host"`
	ServerPID     int             `json:"server_pid"`
	ClientPID     int             `json:"client_pid"`
	Config        metrics.Config  `json:"config"`
	History       []metrics.Start `json:"history"`
	ServerStarted time.Time       `json:"server_started"`
	ClientStarted time.Time       `json:"client_started"`
}

// supervise is the process at the node's root. It leaves nothing behind: when
// its standard input ends, or it is told to end, it kills all below it and
// removes the node's files.
func supervise(dir string) int {
	ends := make(chan os.Signal, 4)
	signal.Notify(ends, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	signal.Ignore(syscall.SIGPIPE)
	input := bufio.NewReader(os.Stdin)
	gone := make(chan struct{})
	spawn, err := newSpawner()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := 0
	standing := make(chan report, 1)
	go func() {
		defer close(gone)
		line, err := input.ReadBytes('\n')
		if err != nil {
			return
		}
		var b birth
		if err := json.Unmarshal(line, &b); err != nil {
			standing <- report{Error: fmt.Sprintf("read what node to be: %v", err)}
			return
		}
		go func() {
			r, err := raise(dir, b, spawn)
			if err != nil {
				r.Error = err.Error()
			}
			standing <- r
		}()
		_, _ = io.Copy(io.Discard, input)
	}()
	for waiting := true; waiting; {
		select {
		case r := <-standing:
			if r.Error != "" {
				code = 1
				waiting = false
			}
			_ = json.NewEncoder(os.Stdout).Encode(r)
			os.Stdout.Close()
		case <-ends:
			waiting = false
		case <-gone:
			waiting = false
		}
	}
	spawn.stop()
	if left := killBelow(os.Getpid(), killLimit); left > 0 {
		fmt.Fprintf(os.Stderr, "%d processes of the simulated node in %s could not be ended\n", left, dir)
		code = 1
	}
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

// raise builds the node and returns when its processes stand.
func raise(dir string, b birth, spawn *spawner) (report, error) {
	hostKey, err := ssh.ParsePrivateKey(b.HostKeyPEM)
	if err != nil {
		return report{}, fmt.Errorf("read the host key: %w", err)
	}
	clientKey, _, _, _, err := ssh.ParseAuthorizedKey(b.ClientKey)
	if err != nil {
		return report{}, fmt.Errorf("read the client's key: %w", err)
	}
	scenario, err := model.Lookup(b.Scenario)
	if err != nil {
		return report{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return report{}, fmt.Errorf("find this binary: %w", err)
	}
	port, err := freePort()
	if err != nil {
		return report{}, err
	}
	p := newPlaces(dir, port)
	node := model.New(scenario, time.Now().Round(0))
	past, processes := node.Past(), node.Processes()
	serverArgv, clientArgv := node.Server().Argv, node.Client().Argv
	if err := errors.Join(layOut(p, past, self), writeStarters(p, serverArgv, clientArgv, past), writeModel(p, serverArgv)); err != nil {
		return report{}, fmt.Errorf("lay out the node's files in %s: %w", dir, err)
	}
	w := newWorld(node, p, spawn)
	w.scale, w.host = serverScale, coverHost(p, node.Host(), b.MountNamespace)
	if b.StartScale > 0 {
		w.scale = b.StartScale
	}
	socket, err := net.Listen("unix", p.socket())
	if err != nil {
		return report{}, fmt.Errorf("open the node's socket: %w", err)
	}
	go w.accept(socket)
	if err := w.launchFound(processes, past); err != nil {
		return report{}, err
	}
	if err := w.settle(settleLimit); err != nil {
		return report{}, err
	}
	go w.tick()
	server := newSSHServer(hostKey, clientKey, nodeUser)
	server.spawn, server.environ, server.home, server.reachable = spawn, p.environ(), p.home(), w.reachable
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return report{}, fmt.Errorf("open the SSH port on 127.0.0.1: %w", err)
	}
	go server.serve(listener)
	return w.report(listener.Addr().String(), scenario, past), nil
}

func (w *world) report(addr string, scenario model.Scenario, past model.Past) report {
	w.mu.Lock()
	defer w.mu.Unlock()
	config := configOf(w.places, scenario.Job, past, w.places.argv(w.node.Client().Argv))
	config.Started = w.began()
	return report{
		Addr: addr, Port: w.places.port,
		ServerLog: w.places.file(past.ServerLog), ClientLog: w.places.file(past.ClientLog),
		Data:      w.places.data(past),
		Config:    config,
		History:   historyOf(w.places, past.History),
		OwnHost:   w.host != nil,
		ServerPID: w.pidOf(model.ServerMain), ClientPID: w.pidOf(model.ClientMain),
		ServerStarted: w.node.Server().Started, ClientStarted: w.node.Client().Started,
	}
}

// began is when the processes that the scenario found running began in its own
// history.
func (w *world) began() map[int]time.Time {
	began := make(map[int]time.Time)
	for _, p := range w.node.Processes() {
		if _, found := w.adopted[p.PID]; found || p.Parent == model.ServerMain {
			began[p.PID] = p.Started
		}
	}
	return began
}

// settle waits until every process of the scenario is there under its title.
func (w *world) settle(limit time.Duration) error {
	deadline := time.Now().Add(limit)
	for {
		w.mu.Lock()
		w.advance()
		missing := w.missing()
		w.mu.Unlock()
		if missing == "" {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the node's %s did not come up in %v", missing, limit)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// missing is a process of the scenario that is not there yet, or not under its
// title.
func (w *world) missing() model.Role {
	for pid := range w.awaited {
		return w.adopted[pid]
	}
	for _, p := range w.node.Processes() {
		if w.players[p.PID] == nil {
			return p.Role
		}
		if !titled(p) {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID), "cmdline"))
		if !bytes.HasPrefix(cmdline, []byte(p.Title)) {
			return p.Role
		}
	}
	return ""
}

// freePort finds a port below the range that the kernel hands out, so that
// nothing takes it while the server restarts.
func freePort() (int, error) {
	for range 100 {
		port := 20000 + rand.IntN(10000)
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err != nil {
			continue
		}
		l.Close()
		return port, nil
	}
	return 0, errors.New("find a free port for the simulated server: 100 tries between 20000 and 30000 were taken")
}
