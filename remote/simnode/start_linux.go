package simnode

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

// closeLimit is how long the supervisor may take to end everything before it
// is ended itself.
const closeLimit = killLimit + 2*time.Second

// longestBase is the longest name of a temporary folder below which the path of
// the node's socket stays within the 107 bytes that the kernel allows.
const longestBase = 60

// Start brings up a simulated node and returns once its processes stand and
// its SSH server answers. It ends with Close, with ctx, or with this process.
func Start(ctx context.Context, o Options) (*Node, error) {
	if dir := os.Getenv(nodeEnv); dir != "" {
		// A binary that does not call Main first would start a node for each
		// process of its node, and these again.
		return nil, fmt.Errorf("start a simulated node inside the one in %s: the binary must call simnode.Main before anything else", dir)
	}
	self := o.Self
	if self == "" {
		path, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find the binary that plays the simulated node: %w", err)
		}
		self = path
	}
	hostKey, hostPEM, err := newKey("simulated node")
	if err != nil {
		return nil, err
	}
	clientKey, clientPEM, err := newKey("client of the simulated node")
	if err != nil {
		return nil, err
	}
	dir, err := makeDir(o.Dir)
	if err != nil {
		return nil, err
	}
	scenario := o.Scenario
	if scenario == "" {
		scenario = "story"
	}
	n := &Node{User: nodeUser, HostKey: hostKey.PublicKey(), Signer: clientKey, ClientKeyPEM: clientPEM, Dir: dir}
	r, err := n.launch(ctx, self, birth{
		Scenario: scenario, HostKeyPEM: hostPEM, ClientKey: ssh.MarshalAuthorizedKey(clientKey.PublicKey()),
		StartScale: o.StartScale, MountNamespace: mountNamespace(),
	})
	if err != nil {
		_ = n.Close()
		return nil, fmt.Errorf("start the simulated node %q: %w", scenario, err)
	}
	p := newPlaces(dir, r.Port)
	n.Addr, n.ServerPort = r.Addr, r.Port
	n.Home, n.Data, n.State = p.home(), r.Data, p.state()
	n.ServerLog, n.ClientLog = r.ServerLog, r.ClientLog
	n.OwnHost = r.OwnHost
	n.ServerPID, n.ClientPID = r.ServerPID, r.ClientPID
	n.Config, n.History = r.Config, r.History
	n.Started, n.ServerStarted, n.ClientStarted = time.Now(), r.ServerStarted, r.ClientStarted
	return n, nil
}

// makeDir makes the node's folder, reachable by this user alone.
func makeDir(wanted string) (string, error) {
	if wanted == "" {
		base := os.TempDir()
		if len(base) > longestBase {
			base = "/tmp"
		}
		dir, err := os.MkdirTemp(base, "rv-")
		if err != nil {
			return "", fmt.Errorf("make a folder for the simulated node: %w", err)
		}
		wanted = dir
	} else if err := os.Mkdir(wanted, 0o700); err != nil {
		return "", fmt.Errorf("make a folder for the simulated node: %w", err)
	}
	dir, err := filepath.EvalSymlinks(wanted)
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return "", fmt.Errorf("find the folder of the simulated node: %w", err)
	}
	return dir, nil
}

// namespaces are ways to give the node a view of /proc of its own, the best
// first: none at all always works.
func namespaces() []*syscall.SysProcAttr {
	// A session of its own: the terminal's interrupt must not reach the
	// supervisor before it has cleaned up.
	plain := &syscall.SysProcAttr{Setsid: true}
	if os.Geteuid() == 0 {
		return []*syscall.SysProcAttr{{Setsid: true, Unshareflags: syscall.CLONE_NEWNS}, plain}
	}
	return []*syscall.SysProcAttr{{
		Setsid:       true,
		Cloneflags:   syscall.CLONE_NEWUSER,
		Unshareflags: syscall.CLONE_NEWNS,
		UidMappings:  []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings:  []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}, plain}
}

// startSupervisor runs self as the supervisor of dir: the pipe whose end is the
// node's end, and the one that the report comes through.
func startSupervisor(self, dir string, complaints io.Writer) (*exec.Cmd, io.WriteCloser, io.Reader, error) {
	var failed error
	for _, attr := range namespaces() {
		supervisor := &exec.Cmd{
			Path: self, Args: []string{supervisorName, dir}, Dir: "/",
			Env:         append(withoutEnv(os.Environ(), nodeEnv, roleEnv), nodeEnv+"="+dir),
			Stderr:      complaints,
			SysProcAttr: attr,
		}
		lifeline, err := supervisor.StdinPipe()
		if err != nil {
			return nil, nil, nil, err
		}
		answer, err := supervisor.StdoutPipe()
		if err != nil {
			return nil, nil, nil, err
		}
		if failed = supervisor.Start(); failed == nil {
			return supervisor, lifeline, answer, nil
		}
	}
	return nil, nil, nil, failed
}

// launch starts the supervisor and waits for its report.
func (n *Node) launch(ctx context.Context, self string, b birth) (report, error) {
	var complaints bytes.Buffer
	supervisor, lifeline, answer, err := startSupervisor(self, n.Dir, &complaints)
	if err != nil {
		return report{}, err
	}
	n.RootPID = supervisor.Process.Pid
	line, _ := json.Marshal(b)
	if _, err := lifeline.Write(append(line, '\n')); err != nil {
		lifeline.Close()
	}
	var r report
	reported := make(chan error, 1)
	read := make(chan struct{})
	go func() {
		defer close(read)
		reported <- json.NewDecoder(answer).Decode(&r)
	}()
	ended := make(chan struct{})
	go func() {
		// Wait closes the pipe that the report comes through.
		<-read
		_ = supervisor.Wait()
		killMarked(n.Dir)
		_ = os.RemoveAll(n.Dir)
		close(ended)
	}()
	n.stop = sync.OnceValue(func() error {
		lifeline.Close()
		select {
		case <-ended:
		case <-time.After(closeLimit):
			_ = supervisor.Process.Kill()
			<-ended
		}
		if _, err := os.Stat(n.Dir); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove the simulated node's folder %s: it is still there", n.Dir)
		}
		return nil
	})
	context.AfterFunc(ctx, func() { _ = n.stop() })
	select {
	case err = <-reported:
	case <-ctx.Done():
		return report{}, context.Cause(ctx)
	}
	if err != nil {
		<-ended
		return report{}, fmt.Errorf("its supervisor ended without a word: %s", strings.TrimSpace(complaints.String()))
	}
	if r.Error != "" {
		return report{}, errors.New(r.Error)
	}
	return r, nil
}
